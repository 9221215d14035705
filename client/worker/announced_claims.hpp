// May throw. Claims what messages announce, and decides what becomes of each message.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "inbox.hpp"
#include "work_source.hpp"

namespace pawl {

// A message is acknowledged once the claim is committed, whatever it returned: a row that another worker owns needs no
// second message. A message whose claim raises an error, alone and while the next row can be claimed, is rejected and
// logged: it would raise the same error in every worker. All other messages are put back when a claim throws.
class AnnouncedClaims {
public:
    using Keep = std::function<void(std::vector<Job> jobs, std::chrono::steady_clock::time_point claimed_at)>;
    using Log = std::function<void(const std::string&)>;

    // The references must outlive this object. keep is called once for each claim that is committed.
    AnnouncedClaims(WorkSource& source, Inbox& inbox, Keep keep, Log log)
        : source_(source), inbox_(inbox), keep_(std::move(keep)), log_(std::move(log)) {}

    // Claims for up to `room` messages. True if there may be more messages.
    bool claim(pqxx::connection& connection, int room);

private:
    void claim(pqxx::connection& connection, std::span<const Announced> part, std::size_t& done);
    bool can_claim(pqxx::connection& connection);

    WorkSource& source_;
    Inbox& inbox_;
    Keep keep_;
    Log log_;
};

}  // namespace pawl
