// May throw. The leases of the work of a worker that is in flight.
#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "heartbeat.hpp"
#include "in_flight.hpp"
#include "work_source.hpp"

namespace pawl {

// Extends the leases of what is in flight, and asks handlers to stop whose leases are lost.
class InFlightLeases final : public Leases {
public:
    InFlightLeases(std::unique_ptr<WorkSource> source, InFlight& in_flight, std::chrono::milliseconds lease)
        : source_(std::move(source)), in_flight_(in_flight), lease_(lease) {}

    bool any() override {
        known_ = in_flight_.all();
        began_ = std::chrono::steady_clock::now();
        if (known_.empty()) extended_at_ = began_;
        return !known_.empty();
    }
    void connected(pqxx::connection& connection) override { source_->prepare(connection); }
    void extend(pqxx::connection& connection) override {
        in_flight_.keep_only(known_, source_->extend_leases(connection));
        extended_at_ = began_;
    }
    // What was claimed a lease ago has expired; what was claimed since has a lease of its own.
    void failed() override {
        const auto expired = std::chrono::steady_clock::now() - lease_;
        if (extended_at_ < expired) in_flight_.stop_older(expired);
    }

private:
    std::unique_ptr<WorkSource> source_;
    InFlight& in_flight_;
    const std::chrono::milliseconds lease_;
    std::vector<WorkPtr> known_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point extended_at_ = std::chrono::steady_clock::now();
};

}  // namespace pawl
