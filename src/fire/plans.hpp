// May ereport; owns nothing. Statements that pawl's functions run repeatedly. Each is prepared once a session and
// planned to walk the indexes made for it, whatever the statistics are.
#pragma once

#include "fire/planner.hpp"

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

    // A column of the rows of a RowsStatement: an array, or the value of a single row. Without `nulls_in` none is null.
    void add_column(Oid type, Datum* column, int rows, bool* nulls_in = nullptr);
};

// Runs a statement; its result is in SPI_tuptable. Must run inside SPI. The plan is kept in the binding under the
// statement's text.
uint64 run_planned(Binding& binding, const char* query, const Parameters& parameters, Order order = Order::of_index);

// The same for a statement whose text is not made again: the plan lives as long as the cached binding.
KeptPlan* keep_plan(Binding& binding, const char* query, int n, Oid* types, Order order);

// Returns what SPI_execute_plan does; never an error.
int run_kept(KeptPlan* kept, const Binding& binding, Datum* values, const char* nulls = nullptr);

// A statement over rows whose columns are arrays, and the same for a single row whose columns are values: the executor
// begins it in much less time.
struct RowsStatement {
    const char* many;
    const char* one;
};

inline uint64 run_planned(Binding& binding, const RowsStatement& statement, int n, const Parameters& parameters) {
    return run_planned(binding, n == 1 ? statement.one : statement.many, parameters, Order::sorted);
}

// The pages that these statements have touched in this session. The first run of each does not count, because it reads
// catalogs.
int64 pages_of_runs() noexcept;

void free_plans(Binding& binding) noexcept;

}  // namespace pawl
