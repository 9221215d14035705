// May throw (out of memory). The event stream: one reader of the outbox for all clients.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "log.hpp"
#include "pool.hpp"

namespace pawl::api {

using Relations = std::set<unsigned>;  // by oid

// pg_snapshot as text: which transactions were visible.
struct Snapshot {
    std::uint64_t xmin = 0, xmax = 0;
    std::set<std::uint64_t> in_progress;

    bool sees(std::uint64_t txid) const { return txid < xmax && (txid < xmin || !in_progress.contains(txid)); }
};
Snapshot snapshot_of(std::string_view text);

// Of the same position.
inline Snapshot seen_at(std::string_view position) {
    return snapshot_of(position.substr(position.find('-') + 1));
}

// Events that were read together, and the position behind them. Rendered once for all clients that see the same tables.
class Batch {
public:
    struct Event {
        std::uint64_t txid;
        unsigned relation;
        std::string json;
    };

    Batch(std::vector<Event> events, std::string position)
        : events_(std::move(events)), position_(std::move(position)) {}

    // As server-sent events without an id. database: each event tells it; empty: none does. without: skips transactions
    // that the listener has seen.
    std::shared_ptr<const std::string> text(const Relations& relations, const std::string& database,
                                            const Snapshot* without = nullptr) const;

    const std::string& position() const noexcept { return position_; }
    std::size_t size() const noexcept { return events_.size(); }

private:
    std::vector<Event> events_;
    std::string position_;
    mutable std::mutex mutex_;
    mutable std::map<std::pair<Relations, std::string>, std::shared_ptr<const std::string>> written_;
};

// An event as it is sent.
std::string message_of(const std::string& json, const std::string& database);

// Wakes those who listen to several feeds.
class Bell {
public:
    void ring();

    // Waits until it has rung again since `heard`, and stores how often it has rung.
    void wait(std::uint64_t& heard, std::chrono::milliseconds patience);

private:
    std::mutex mutex_;
    std::condition_variable come_;
    std::uint64_t rung_ = 0;
};

class Feed {
public:
    // bell: rings for each batch, and at the end.
    Feed(const ConnectionSettings& settings, const daemon::Log& log, Bell& bell);
    ~Feed();

    // The number of the batch behind a position; 0: the position is forgotten. An empty position: from now on.
    // overlaps: the batch may have events that were seen at the position.
    std::uint64_t begin(const std::string& position, bool& overlaps);

    // A batch; null if it has not come yet. lost: it is forgotten, or the feed ends.
    std::shared_ptr<const Batch> batch(std::uint64_t number, bool& lost);

    void end();

    // Events by minute, for the last hour.
    nlohmann::json throughput() const;

    // Why the outbox cannot be read; empty: it can. Waits for a connection that is being made.
    std::string problem(std::chrono::milliseconds patience = {});

private:
    void run();
    bool read(Session& session, const std::string& consumer);
    void add(std::vector<Batch::Event> events, std::size_t failures, std::string position);

    ConnectionSettings settings_;
    const daemon::Log& log_;
    Bell& bell_;
    mutable std::mutex mutex_;
    std::condition_variable come_, connected_;
    std::deque<std::shared_ptr<const Batch>> batches_;
    std::uint64_t first_ = 1;  // number of the oldest batch
    std::string start_;        // position before it
    std::size_t remembered_ = 0;
    std::map<std::int64_t, std::pair<std::uint64_t, std::uint64_t>> minutes_;
    std::string problem_ = "not connected yet";
    bool ended_ = false;
    std::thread thread_;
};

}  // namespace pawl::api
