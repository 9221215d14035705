// May throw (the constructor).
#include "heartbeat.hpp"

#include <algorithm>

#include <pawl/errors.hpp>

namespace pawl {

Heartbeat::Heartbeat(ConnectionSettings settings, std::chrono::milliseconds lease, std::unique_ptr<Leases> leases,
                     Log log)
    : Heartbeat([settings = std::move(settings)] { return settings; }, {}, lease, std::move(leases), std::move(log)) {}

Heartbeat::Heartbeat(std::function<ConnectionSettings()> find, std::function<void(pqxx::connection&)> moved,
                     std::chrono::milliseconds lease, std::unique_ptr<Leases> leases, Log log)
    : find_(std::move(find)),
      moved_(std::move(moved)),
      period_(std::max(lease / 3, std::chrono::milliseconds(10))),
      leases_(std::move(leases)),
      log_(std::move(log)),
      thread_([this](std::stop_token stop) { run(stop); }) {}

Heartbeat::~Heartbeat() {
    thread_.request_stop();
    ended_.set();
}

void Heartbeat::note_moved(pqxx::connection& connection) {
    try {
        moved_(connection);
    } catch (const std::exception& problem) {
        log_(std::string("heartbeat failed: ") + problem.what());
    }
}

void Heartbeat::run(std::stop_token stop) {
    std::unique_ptr<pqxx::connection> connection;
    for (ended_.wait(-1, period_); !stop.stop_requested(); ended_.wait(-1, period_)) {
        if (!leases_->any()) continue;
        try {
            if (!connection) {
                connection = connect(find_());
                leases_->connected(*connection);
            }
            leases_->extend(*connection);
        } catch (const std::exception& problem) {
            log_(std::string("heartbeat failed: ") + problem.what());
            if (moved_ && connection && dynamic_cast<const error::placed_elsewhere*>(&problem) != nullptr)
                note_moved(*connection);
            connection.reset();
            leases_->failed();
        }
    }
}

}  // namespace pawl
