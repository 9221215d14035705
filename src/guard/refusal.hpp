// May ereport; owns nothing. The rejections of state changes: each names the machine, the row and the states, and hints at the moves that
// are open. Those that a function reports as a result are data; they are raised where the function ends with them.
#pragma once

#include "catalog/row_identity.hpp"
#include "guard/decide.hpp"

namespace pawl {

// Why a row may not move, as an error says it. Lives in the memory context that was current when it was made, which counts it, too.
struct Rejection {
    int sqlstate;
    const char* message;
    const char* detail;
    const char* hint;
};

[[noreturn]] void raise(const Rejection& rejection);

Rejection rejected_by_guard(const Attachment& attachment, TupleTableSlot* row, const text* from, const text* to, const char* guard);
Rejection rejected_event(const Attachment& attachment, TupleTableSlot* row, core::StateId from, const text* event);

const char* describe_subject(const Attachment& attachment, TupleTableSlot* row);  // Row (id)=(42) of public.orders

[[noreturn]] void refuse_transition(const Attachment& attachment, TupleTableSlot* row, const text* from, const text* to, const text* event);
[[noreturn]] void refuse_first_state(const Attachment& attachment, TupleTableSlot* row, const text* to, const text* event);
[[noreturn]] void refuse_delete(const Attachment& attachment, TupleTableSlot* row, const text* from);
[[noreturn]] void refuse_key_change(const Attachment& attachment, TupleTableSlot* row);

}  // namespace pawl
