// May throw (the constructor).
#include "heartbeat.hpp"

#include <algorithm>

namespace pawl {

Heartbeat::Heartbeat(ConnectionSettings settings, std::chrono::milliseconds lease, std::unique_ptr<Leases> leases,
                     Log log)
    : settings_(std::move(settings)),
      period_(std::max(lease / 3, std::chrono::milliseconds(10))),
      leases_(std::move(leases)),
      log_(std::move(log)),
      thread_([this](std::stop_token stop) { run(stop); }) {}

Heartbeat::~Heartbeat() {
    thread_.request_stop();
    ended_.set();
}

void Heartbeat::run(std::stop_token stop) {
    std::unique_ptr<pqxx::connection> connection;
    for (ended_.wait(-1, period_); !stop.stop_requested(); ended_.wait(-1, period_)) {
        if (!leases_->any()) continue;
        try {
            if (!connection) {
                connection = connect(settings_);
                leases_->connected(*connection);
            }
            leases_->extend(*connection);
        } catch (const std::exception& problem) {
            log_(std::string("heartbeat failed: ") + problem.what());
            connection.reset();
            leases_->failed();
        }
    }
}

}  // namespace pawl
