// May ereport; owns nothing. The rejections of state changes: each names the machine, the row and the states, and hints
// at the moves that are open. Those that a function reports as a result are data; they are raised where the function
// ends with them.
#pragma once

#include "catalog/row_identity.hpp"
#include "guard/decide.hpp"

namespace pawl {

// Why a row may not move, as an error says it. Lives in the memory context that was current when it was made, which
// counts it, too.
struct Rejection {
    int sqlstate;
    const char* message;
    const char* detail;
    const char* hint;
};

[[noreturn]] void raise(const Rejection& rejection);

Rejection rejected_by_guard(const Binding& binding, TupleTableSlot* row, const text* from, const text* to,
                            const char* guard);
Rejection rejected_event(const Binding& binding, TupleTableSlot* row, core::StateId from, const text* event);

const char* describe_row(const Binding& binding, TupleTableSlot* row);  // Row (id)=(42) of public.orders

[[noreturn]] void reject_transition(const Binding& binding, TupleTableSlot* row, const text* from, const text* to,
                                    const text* event);
[[noreturn]] void reject_initial_state(const Binding& binding, TupleTableSlot* row, const text* to, const text* event);
[[noreturn]] void reject_delete(const Binding& binding, TupleTableSlot* row, const text* from);
[[noreturn]] void reject_key_change(const Binding& binding, TupleTableSlot* row);

}  // namespace pawl
