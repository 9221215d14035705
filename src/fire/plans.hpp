// May ereport; owns nothing. Statements that functions of ours run again and again: prepared once a session, and
// planned so that they walk the indexes made for them, whatever the statistics say or do not say yet.
#pragma once

#include "catalog/member_cache.hpp"

namespace pawl {

struct Parameters {
    static constexpr int most = INDEX_MAX_KEYS + 8;
    int n;
    Oid types[most];
    Datum values[most];
    char nulls[most];

    void add(Oid type, Datum value, bool null = false) {
        types[n] = type;
        values[n] = value;
        nulls[n++] = null ? 'n' : ' ';
    }
};

// Whether the rows come in the order of an index (any, or the one that pawl made for claims, timers or leases), or few
// are found by it and then sorted.
enum class Order { of_index, of_claims, of_timers, of_leases, sorted };

// Runs a statement inside SPI; the result is in SPI_tuptable. Kept by its text in the binding.
uint64 run_planned(Binding& binding, const char* query, const Parameters& parameters, Order order = Order::of_index);

// Pages that statements run here have touched in this session. The first run of each does not count: it reads catalogs.
int64 pages_of_runs() noexcept;

void free_plans(Binding& binding) noexcept;

}  // namespace pawl
