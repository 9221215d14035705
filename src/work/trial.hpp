// May ereport; owns nothing. Runs work that may raise an error for one row and not for others. Each attempt is a
// subtransaction, so that an error of one row becomes a warning and the other rows proceed.
#pragma once

#include "fire/batch.hpp"

namespace pawl {

// Runs the function in a subtransaction of its own. Returns null on success, else rolls it back and returns the error,
// allocated in the current memory context. Raises errors of class 57, such as a cancel, and, if the transaction uses a
// single snapshot, serialization conflicts: no other row would fare better. Other transient errors are returned,
// because a trigger can raise them for one row for ever.
ErrorData* try_alone(void (*work)(void*), void* argument);

// The same for a callable, which must own nothing.
template <typename F>
ErrorData* try_alone(F&& work) {
    return try_alone([](void* f) { (*static_cast<std::remove_reference_t<F>*>(f))(); }, &work);
}

// Raises the error again if it is not specific to a row: the caller lacks UPDATE on the state column.
void raise_unless_of_row(const Target& target, ErrorData* error);

// The rows of one call that raised errors. They are left unchanged.
struct Raising {
    static constexpr int most = 1000;    // a call passes over at most so many
    static constexpr int most_told = 5;  // the first ones get a warning each
    static constexpr TimestampTz pause =
        1'000'000;  // microseconds until the caller should return, if nothing else is left
    int n = 0;

    // When the caller should return, for a call that moved fewer rows than its limit.
    TimestampTz next(TimestampTz next) const { return n == 0 ? next : Max(next, GetCurrentTimestamp() + pause); }
};

// Processes rows and returns how many of them moved.
using SeeTo = int64 (*)(const Batch& batch, void* argument);

// Processes all rows in one subtransaction. After an error each half is processed apart, down to single rows. A single
// row that conflicts is tried again.
int64 see_to_apart(const Target& target, const Batch& batch, SeeTo see_to, void* argument, Raising& raising);

// A last warning, if more rows raised errors than got a warning each.
void tell_of_more(const Target& target, const Raising& raising);

}  // namespace pawl
