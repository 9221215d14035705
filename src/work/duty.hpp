// May throw and may ereport. What the functions that claim, release and time rows have in common: their arguments, and
// the loop over bindings.
#pragma once

#include "fire/batch.hpp"

namespace pawl {

inline constexpr int most_rows = 10'000;  // rows in one call

// Opens a binding that has an owner column. Throws 55000 if it has none.
Target open_work(Oid relation, const char* column);

// The processor that argument n names, else that of the setting. Throws 22004 if there is neither.
text* processor_argument(FunctionCallInfo fcinfo, int n);

// A positive interval; null for NULL. Throws 22023 for any other.
const Interval* lease_argument(FunctionCallInfo fcinfo, int n);

// The limit on rows that argument n gives. Throws 22023 outside 1 to most_rows.
int batch_argument(FunctionCallInfo fcinfo, int n);

// The intent of a processor that claims or releases rows of this binding. It needs no fencing token.
Intent work_intent(const Target& target, text* processor);

// What a duty did, and when there is more to do (DT_NOEND: never).
struct DutyResult {
    int64 done;
    TimestampTz next;
};

// Runs a duty on one binding, for at most so many rows.
using Duty = DutyResult (*)(Oid relation, const char* column, int most);

// The body of f(relation, batch, state_column, OUT done, OUT next_at). Runs the duty on the named binding. Without a
// relation it runs on every binding that fulfils the condition and whose state column the caller may update, in the
// order of their names.
Datum run_duty(FunctionCallInfo fcinfo, Duty duty, const char* condition);

[[noreturn]] void no_such_work(const Target& target, const char* what, const char* function, const char* argument);

}  // namespace pawl
