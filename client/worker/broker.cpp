// May throw. Which provider it is.
#include "broker.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include <pawl/errors.hpp>

#include "pgmq.hpp"
#ifdef PAWL_RABBITMQ
#include "rabbitmq.hpp"
#endif

namespace pawl {
namespace {

bool is_rabbitmq(const MessageSettings& settings) { return settings.provider == "rabbitmq"; }

}  // namespace

void check(const MessageSettings& settings) {
    if (settings.fallback_poll < std::chrono::milliseconds(1)) throw Error("22023", "fallback_poll must be a millisecond or more");
    if (settings.hidden < std::chrono::seconds(1)) throw Error("22023", "hidden must be a second or more");
    if (settings.provider == "database" || settings.provider == "pgmq") return;
    if (!is_rabbitmq(settings))
        throw Error("22023", "there is no queue provider \"" + settings.provider + "\"; there are database, pgmq, rabbitmq");
#ifdef PAWL_RABBITMQ
    check_rabbitmq(settings);
#else
    throw Error("0A000", "queue provider rabbitmq is not in this build, which was made without librabbitmq (Debian: librabbitmq-dev)");
#endif
}

MessageSettings messages_from_environment() {
    MessageSettings settings;
    const auto read = [](const char* name, std::string& into) {
        if (const char* value = std::getenv(name)) into = value;
    };
    read("PAWL_PROVIDER", settings.provider);
    read("PAWL_BROKER", settings.broker);
    read("PAWL_BROKER_CA", settings.broker_ca);
    if (const char* value = std::getenv("PAWL_FALLBACK_POLL_MS")) {
        int milliseconds = 0;
        const char* end = value + std::strlen(value);
        const auto read_to = std::from_chars(value, end, milliseconds);
        if (read_to.ec != std::errc() || read_to.ptr != end || milliseconds < 1)
            throw Error("22023", std::string("PAWL_FALLBACK_POLL_MS must be a whole number of milliseconds, not \"") + value + "\"");
        settings.fallback_poll = std::chrono::milliseconds(milliseconds);
    }
    return settings;
}

std::unique_ptr<Outlet> make_outlet(const MessageSettings& settings) {
    check(settings);
#ifdef PAWL_RABBITMQ
    if (is_rabbitmq(settings)) return make_rabbitmq_outlet(settings);
#endif
    return make_pgmq_outlet();
}

std::unique_ptr<Subscription> subscribe(const MessageSettings& settings, const ConnectionSettings& database, const Channel& channel,
                                        [[maybe_unused]] int prefetch) {
    check(settings);
#ifdef PAWL_RABBITMQ
    if (is_rabbitmq(settings)) return subscribe_rabbitmq(settings, channel, prefetch);
#endif
    return subscribe_pgmq(settings, database, channel);
}

}  // namespace pawl
