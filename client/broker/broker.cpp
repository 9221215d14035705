// May throw. Chooses the provider.
#include "broker.hpp"

#include <pawl/errors.hpp>

#include "pgmq.hpp"
#ifdef PAWL_RABBITMQ
#include "rabbitmq.hpp"
#endif

namespace pawl {
namespace {

bool is_rabbitmq(const MessageSettings& settings) {
    return settings.provider == "rabbitmq";
}

}  // namespace

void check(const MessageSettings& settings) {
    if (settings.fallback_poll < std::chrono::milliseconds(1))
        throw Error("22023", "fallback_poll must be a millisecond or more");
    if (settings.visibility_timeout < std::chrono::seconds(1))
        throw Error("22023", "visibility_timeout must be a second or more");
    if (settings.provider == "database" || settings.provider == "pgmq") return;
    if (!is_rabbitmq(settings))
        throw Error("22023",
                    "there is no queue provider \"" + settings.provider + "\"; there are database, pgmq, rabbitmq");
#ifdef PAWL_RABBITMQ
    check_rabbitmq(settings);
#else
    throw Error(
        "0A000",
        "queue provider rabbitmq is not in this build, which was made without librabbitmq (Debian: librabbitmq-dev)");
#endif
}

std::unique_ptr<BrokerPublisher> make_publisher(const MessageSettings& settings) {
    check(settings);
#ifdef PAWL_RABBITMQ
    if (is_rabbitmq(settings)) return make_rabbitmq_publisher(settings);
#endif
    return make_pgmq_publisher();
}

std::unique_ptr<Subscription> subscribe(const MessageSettings& settings, const ConnectionSettings& database,
                                        const Channel& channel, [[maybe_unused]] int prefetch) {
    check(settings);
#ifdef PAWL_RABBITMQ
    if (is_rabbitmq(settings)) return subscribe_rabbitmq(settings, channel, prefetch);
#endif
    return subscribe_pgmq(settings, database, channel);
}

}  // namespace pawl
