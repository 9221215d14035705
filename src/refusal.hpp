// Ereports. The errors of the judge: each names the machine, the row and the states, and hints at the moves that are open.
#pragma once

#include "judge.hpp"

namespace pawl {

const char* describe_subject(const Attachment& attachment, TupleTableSlot* row);  // Row (id)=(42) of public.orders
const char* quoted_state(const text* state);                                      // "paid", or null

[[noreturn]] void refuse_transition(const Attachment& attachment, TupleTableSlot* row, const text* from, const text* to, const text* event);
[[noreturn]] void refuse_first_state(const Attachment& attachment, TupleTableSlot* row, const text* to, const text* event);
[[noreturn]] void refuse_by_guard(const Attachment& attachment, TupleTableSlot* row, const text* from, const text* to, const char* guard);
[[noreturn]] void refuse_delete(const Attachment& attachment, TupleTableSlot* row, const text* from);
[[noreturn]] void refuse_key_change(const Attachment& attachment, TupleTableSlot* row);
[[noreturn]] void refuse_second_row(const Attachment& attachment, const Datum* key, const text* state);
[[noreturn]] void refuse_event(const Attachment& attachment, TupleTableSlot* row, core::StateId from, const text* event);

}  // namespace pawl
