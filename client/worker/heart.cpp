// May throw (the constructor).
#include "heart.hpp"

#include <algorithm>

#include "sql.hpp"

namespace pawl {

Heart::Heart(const WorkerSettings& settings, const WorkSource& source, Hand& hand, std::function<void(const std::string&)> say)
    : settings_(settings), source_(source.copy()), hand_(hand), say_(std::move(say)), thread_([this](std::stop_token stop) { beat(stop); }) {}

Heart::~Heart() {
    thread_.request_stop();
    ended_.set();
}

void Heart::beat(std::stop_token stop) {
    using Clock = std::chrono::steady_clock;
    const std::chrono::milliseconds period = std::max(settings_.lease / 3, std::chrono::milliseconds(10));
    std::unique_ptr<pqxx::connection> connection;
    Clock::time_point alive = Clock::now();
    for (ended_.wait(-1, period); !stop.stop_requested(); ended_.wait(-1, period)) {
        const std::vector<WorkPtr> known = hand_.all();
        if (known.empty()) {
            alive = Clock::now();
            continue;
        }
        const Clock::time_point began = Clock::now();
        try {
            if (!connection) {
                connection = connect(settings_.connection);
                source_->prepare(*connection);
            }
            hand_.keep_only(known, source_->beat(*connection));
            alive = began;
        } catch (const std::exception& problem) {
            say_(std::string("no heartbeat: ") + problem.what());
            connection.reset();
            // nobody could extend them, so by now they are others'; what was claimed since has a lease of its own
            const auto ended = Clock::now() - settings_.lease;
            if (alive < ended) hand_.stop_older(ended);
        }
    }
}

}  // namespace pawl
