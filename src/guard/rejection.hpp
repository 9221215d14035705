// May ereport; owns nothing. The rejections of state changes: each names the machine, the row and the states, and its
// hint lists the possible transitions. A Rejection is data, so that a function may return it in a result instead of
// raising it.
#pragma once

#include "catalog/row_identity.hpp"
#include "guard/decide.hpp"
#include "pg/bridge.hpp"

namespace pawl {

// The parts of a rejection's error, allocated in the current memory context. Creating one also counts it.
struct Rejection {
    int sqlstate;
    const char* message;
    const char* detail;
    const char* hint;
};

// Raises it with SCHEMA, TABLE, COLUMN and CONSTRAINT. PW001 to PW003 become 23514 if the binding says so.
[[noreturn]] void raise(const Binding& binding, const Rejection& rejection);

// What an error of a binding is about: its table, its state column and its machine.
pg::Place place_of(const Binding& binding);

Rejection rejected_by_guard(const Binding& binding, TupleTableSlot* row, const text* from, const text* to,
                            const char* guard);
Rejection rejected_transition(const Binding& binding, TupleTableSlot* row, const text* from, const text* to,
                              const text* event);  // event null: none was named
Rejection rejected_event(const Binding& binding, TupleTableSlot* row, core::StateId from, const text* event);

// A hint: the transitions that a row without an attempt left can take.
const char* hint_without_attempt(const Binding& binding, const text* from);

const char* describe_row(const Binding& binding, TupleTableSlot* row);  // Row (id)=(42) of public.orders

[[noreturn]] void reject_transition(const Binding& binding, TupleTableSlot* row, const text* from, const text* to,
                                    const text* event);
// is_new: false for a row that was in a state which the machine does not have.
[[noreturn]] void reject_initial_state(const Binding& binding, TupleTableSlot* row, const text* to, const text* event,
                                       bool is_new);
[[noreturn]] void reject_delete(const Binding& binding, TupleTableSlot* row, const text* from);
[[noreturn]] void reject_key_change(const Binding& binding, TupleTableSlot* row);

}  // namespace pawl
