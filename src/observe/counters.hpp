// Does not throw and does not ereport, but for request_counters. Counters in shared memory: moves by transition with
// the time that rows had spent in the state they left, refusals by SQLSTATE. They exist where the library is loaded
// with the server (shared_preload_libraries) and begin at zero when the server does; nothing depends on them.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// What is counted of one transition.
struct Count {
    static constexpr int nbounds = 16;
    static const std::int64_t bounds[nbounds];  // in microseconds; the last bucket has no bound

    std::uint64_t n;
    std::uint64_t timed;         // of these, with a time
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

enum class Counted : std::uint8_t { move, refusal, reset };

// What a counter is of. Names are not null; empty: none.
struct CounterKey {
    Counted kind;
    std::uint8_t roles;  // TransitionRole and role_gives_up
    std::int32_t version;
    std::string_view machine, from, to, event;  // of a refusal: event is its SQLSTATE
};

struct CounterTable;
extern CounterTable* counter_table;  // null: not preloaded
inline bool counters_are_kept() noexcept {
    return counter_table != nullptr;
}

// While the library is loaded with the server.
void request_counters();

void add_count(const CounterKey& key, const Count& count) noexcept;

// A refusal counts at once, whatever becomes of its transaction. Gives the code back, for errcode().
int refused(int sqlstate, const char* machine = nullptr) noexcept;

// Of a prepared transaction: kept until it ends.
void add_prepared(const char* gid, const CounterKey& key, const Count& count) noexcept;
void settle_prepared(const char* gid, bool committed) noexcept;

// Every counter of this database; one without a machine and kind move or refusal and `other`: what had no room, of all
// databases.
struct CounterReading {
    CounterKey key;
    bool other;
    Count count;
    std::uint64_t buckets[Count::nbounds + 1];
};
void read_counters(void (*visit)(const CounterReading& reading, void* argument), void* argument);
void reset_counters() noexcept;

// Since when this database is counted.
TimestampTz counted_since() noexcept;

}  // namespace pawl
