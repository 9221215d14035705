// May ereport; owns nothing. Many rows at once: picked and locked by a query of ours, then moved, one UPDATE for each
// event and state they go to. Inside SPI.
#pragma once

#include "fire/destination.hpp"
#include "fire/plans.hpp"

namespace pawl {

// Rows that were picked, in the order of the query. They live until SPI_finish, and may have more attributes than the
// table has.
struct Batch {
    FoundRow* rows;
    int n;
};

// Runs "SELECT <whole row> FROM <table> <clauses>", which ends in a FOR clause. In clauses the row is row_alias.
Batch pick_rows(const Target& target, const char* clauses, const Parameters& parameters, Order order = Order::of_index);

// What is to become of a picked row.
struct Step {
    core::StateId to;   // no_state: it stays
    const text* event;  // of the transition it takes
    HeapTuple after;    // the row as it then is, if rows are to be returned; null: nothing moved it
};

// Where an event leads each row; rows it leads nowhere stay.
Step* lead(const Target& target, const Batch& batch, const text* event, const Intent& intent);

// Moves the rows; `intent` says who does it, and its event is set group by group. The number of rows moved.
enum class Returning { nothing, rows };
int64 take_steps(const Target& target, const Batch& batch, Step* steps, Intent& intent,
                 Returning returning = Returning::nothing);

// Sets one column of the rows to a value, without a move.
int64 set_column(const Target& target, const Batch& batch, const ManagedColumn& column, Datum value, bool null,
                 Intent& intent);

// Conditions on the row: it is in one of the states from which a transition with this role and event (null: any) leads
// (written as the predicate of the claim index is, so that the planner sees that it applies); alias.column
// OPERATOR(...) $n; and the row's keys as an ORDER BY list.
char* state_condition(const Binding& binding, TransitionRole role, const text* event);
char* column_equals(const ManagedColumn& column, int parameter);
char* order_by_key(const Binding& binding);
const char* column_name(const ManagedColumn& column);  // alias.column, quoted

}  // namespace pawl
