// Does not throw and does not ereport, except request_counters. Counters in shared memory: state changes by transition,
// with the time that rows spent in the state they left, and rejections by SQLSTATE. They exist if the library is in
// shared_preload_libraries, and begin at zero when the server starts. Nothing depends on them.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// What is counted of one transition.
struct Count {
    static constexpr int nbounds = 16;
    static const std::int64_t bounds[nbounds];  // in microseconds; the last bucket has no bound

    std::uint64_t n;
    std::uint64_t timed;         // how many of these have a time
    std::uint64_t microseconds;  // all times together
    std::uint32_t buckets[nbounds + 1];

    void add_time(std::int64_t time) noexcept {
        int bucket = 0;
        while (bucket < nbounds && time > bounds[bucket]) ++bucket;
        ++buckets[bucket];
        ++timed;
        microseconds += static_cast<std::uint64_t>(time);
    }

    void add(const Count& other) noexcept {
        n += other.n;
        timed += other.timed;
        microseconds += other.microseconds;
        for (int i = 0; i <= nbounds; ++i) buckets[i] += other.buckets[i];
    }
};

enum class Counted : std::uint8_t { move, rejection, reset };

// What a counter counts. Names are not null; empty: none.
struct CounterKey {
    Counted kind;
    std::uint8_t roles;  // TransitionRole and role_gives_up
    std::int32_t version;
    std::string_view machine, from, to, event;  // of a rejection: event is its SQLSTATE
};

struct CounterTable;
extern CounterTable* counter_table;  // null: not preloaded
inline bool counters_are_kept() noexcept {
    return counter_table != nullptr;
}

// Must be called while the server preloads the library.
void request_counters();

void add_count(const CounterKey& key, const Count& count) noexcept;

// Counts a rejection at once, even if its transaction rolls back. Returns the SQLSTATE, for errcode().
int count_rejection(int sqlstate, const char* machine = nullptr) noexcept;

// Counts of a prepared transaction, which are kept until it ends.
void add_prepared(const char* gid, const CounterKey& key, const Count& count) noexcept;
void end_prepared(const char* gid, bool committed) noexcept;

// Visits every counter of this database. With `other`, a reading has no machine and sums up what found no free slot,
// over all databases.
struct CounterReading {
    CounterKey key;
    bool other;
    Count count;
    std::uint64_t buckets[Count::nbounds + 1];
};
void read_counters(void (*visit)(const CounterReading& reading, void* argument), void* argument);
void reset_counters() noexcept;

// When counting began for this database.
TimestampTz counted_since() noexcept;

}  // namespace pawl
