// May throw (the constructor). Structured logs on standard error: an event with its fields, as text or as one JSON
// object a line.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

namespace spdlog {
class logger;
}

namespace pawl::daemon {

class Log {
public:
    using Fields = nlohmann::ordered_json;

    Log(const std::string& format, const std::string& level);
    ~Log();

    // The same log, whose events all have this field.
    Log about(const std::string& field, const std::string& value) const;

    void debug(const std::string& event, const Fields& fields = Fields::object()) const;
    void info(const std::string& event, const Fields& fields = Fields::object()) const;
    void warn(const std::string& event, const Fields& fields = Fields::object()) const;
    void error(const std::string& event, const Fields& fields = Fields::object()) const;

private:
    void write(int level, const std::string& event, const Fields& fields) const;

    std::shared_ptr<spdlog::logger> logger_;
    bool as_json_;
    Fields always_ = Fields::object();
};

}  // namespace pawl::daemon
