// May throw (the constructor).
#include "log.hpp"

#include <chrono>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "secrets.hpp"

namespace pawl::daemon {
namespace {

constexpr auto replace = Log::Fields::error_handler_t::replace;

std::string now() {
    const auto time = std::chrono::system_clock::now();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
    const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[40];
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>(ms));
    return text;
}

}  // namespace

Log::Log(const std::string& format, const std::string& level)
    : logger_(std::make_shared<spdlog::logger>("pawld", std::make_shared<spdlog::sinks::stderr_sink_mt>())),
      as_json_(format == "json") {
    logger_->set_pattern("%v");
    logger_->set_level(spdlog::level::from_str(level));
    logger_->flush_on(spdlog::level::debug);
}

Log::~Log() = default;

Log Log::about(const std::string& field, const std::string& value) const {
    Log log = *this;
    log.always_[field] = value;
    return log;
}

void Log::write(int level, const std::string& event, const Fields& fields) const {
    const auto as_level = static_cast<spdlog::level::level_enum>(level);
    if (!logger_->should_log(as_level)) return;
    const auto name = spdlog::level::to_string_view(as_level);
    const std::string level_name(name.data(), name.size());
    if (as_json_) {
        Fields line{{"time", now()}, {"level", level_name}, {"event", event}};
        line.update(always_);
        line.update(fields);
        logger_->log(as_level, "{}", without_passwords(line.dump(-1, ' ', false, replace)));
        return;
    }
    std::string line = now() + " " + level_name + " " + event;
    for (const Fields* each : {&always_, &fields})
        for (const auto& [key, value] : each->items()) line += " " + key + "=" + value.dump(-1, ' ', false, replace);
    logger_->log(as_level, "{}", without_passwords(line));
}

void Log::debug(const std::string& event, const Fields& fields) const {
    write(spdlog::level::debug, event, fields);
}
void Log::info(const std::string& event, const Fields& fields) const {
    write(spdlog::level::info, event, fields);
}
void Log::warn(const std::string& event, const Fields& fields) const {
    write(spdlog::level::warn, event, fields);
}
void Log::error(const std::string& event, const Fields& fields) const {
    write(spdlog::level::err, event, fields);
}

}  // namespace pawl::daemon
