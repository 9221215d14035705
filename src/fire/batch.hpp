// May ereport; owns nothing. Many rows at once: picked and locked by a query of pawl's, then moved by one UPDATE for
// each event. Must run inside SPI.
#pragma once

#include "fire/destination.hpp"
#include "fire/plans.hpp"

namespace pawl {

// Rows that were picked, in the order of the query. They live until SPI_finish, and may have more attributes than the
// table.
struct Batch {
    FoundRow* rows;
    int n;
};

// Runs "SELECT <whole row> FROM <table> <clauses>", where the clauses end in a FOR clause and name the row row_alias.
Batch pick_rows(const Target& target, const char* clauses, const Parameters& parameters, Order order = Order::of_index);

// What is to become of a picked row.
struct Step {
    core::StateId to;   // no_state: it stays
    const text* event;  // of the transition it takes
    HeapTuple after;    // the row after the UPDATE, if rows are to be returned; null: it did not move
};

// Where an event leads each row. Rows that it leads nowhere stay.
Step* lead(const Target& target, const Batch& batch, const text* event, const Intent& intent);

// Moves the rows, those of one event in their order, and returns how many moved. `intent` names the processor; its
// event is set for each group.
enum class Returning { nothing, rows };
int64 take_steps(const Target& target, const Batch& batch, Step* steps, Intent& intent,
                 Returning returning = Returning::nothing);

// Sets one column of the rows to a value, without a state change.
int64 set_column(const Target& target, const Batch& batch, const ManagedColumn& column, Datum value, bool null,
                 Intent& intent);

// Parts of the clauses. First, the condition that the row is in a state left by a transition with this role and event
// (null: any), written as the predicate of the claim index is, so that the planner can use it. Then alias.column
// OPERATOR(...) $n, and the key as an ORDER BY list.
char* state_condition(const Binding& binding, TransitionRole role, const text* event);
char* column_equals(const ManagedColumn& column, int parameter);
char* order_by_key(const Binding& binding);
const char* column_name(const ManagedColumn& column);  // alias.column, quoted

}  // namespace pawl
