// May ereport; owns nothing. Work of a duty that may raise an error for one row and not for others: it is tried in a
// subtransaction. What one row does wrong then stops no other; its error becomes a warning.
#pragma once

#include "fire/batch.hpp"

namespace pawl {

// Runs something in a subtransaction of its own. Null: it succeeded. Else it is rolled back, and this is its error, in
// the current memory context. Raises an error of class 57, such as a cancel, and under one snapshot a conflict: no
// other row would fare better. Other transient errors may be of this work alone, and come back for ever.
ErrorData* try_alone(void (*work)(void*), void* argument);

// The same for a callable, which owns nothing.
template <typename F>
ErrorData* try_alone(F&& work) {
    return try_alone([](void* f) { (*static_cast<std::remove_reference_t<F>*>(f))(); }, &work);
}

// Raises the error again if it is not a row's: the caller may not write the state column.
void raise_unless_of_row(const Target& target, ErrorData* error);

// The rows of one call that raised errors. They are left as they are.
struct Raising {
    static constexpr int most = 1000;    // looked past in one call
    static constexpr int most_told = 5;  // by a warning each
    static constexpr TimestampTz pause =
        1'000'000;  // microseconds until the caller comes back, if nothing else is left
    int n = 0;

    // When to come back, of a call that moved fewer rows than it might have.
    TimestampTz next(TimestampTz next) const { return n == 0 ? next : Max(next, GetCurrentTimestamp() + pause); }
};

// Sees to rows; the number of those that it moved.
using SeeTo = int64 (*)(const Batch& batch, void* argument);

// Has rows seen to, those that raise errors apart: all at once in a subtransaction, after an error each half, down to
// the single row, which is tried again if it conflicts.
int64 see_to_apart(const Target& target, const Batch& batch, SeeTo see_to, void* argument, Raising& raising);

// A last warning, where more rows raised errors than were told of.
void tell_of_more(const Target& target, const Raising& raising);

}  // namespace pawl
