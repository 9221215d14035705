// May throw and may ereport. What the functions that take and give up work have in common: their arguments.
#pragma once

#include "fire/batch.hpp"

namespace pawl {

inline constexpr int most_rows = 10'000;  // in one call

// A binding that keeps owners. Throws 55000 when it keeps none.
Target open_work(Oid relation, const char* column);

// The processor that argument n names, else the setting. Throws 22004 when nobody is named.
text* processor_argument(FunctionCallInfo fcinfo, int n);

// An interval above zero, or null for NULL. Throws 22023.
const Interval* lease_argument(FunctionCallInfo fcinfo, int n);

// How many rows at most. Throws 22023 outside 1 to most_rows.
int batch_argument(FunctionCallInfo fcinfo, int n);

// Who acts on this binding.
Intent work_intent(const Target& target, text* processor);

// What a duty did, and when there is more to do (DT_NOEND: never).
struct Tally {
    int64 done;
    TimestampTz next;
};

// A duty of one lifecycle.
using Duty = Tally (*)(Oid relation, const char* column, int most);

// The body of f(relation, batch, state_column, OUT done, OUT next_at): the duty of the lifecycle that is named, or,
// without a relation, of all whose binding fulfils the condition and that the caller may write, one after the other in
// the order of their names.
Datum run_duty(FunctionCallInfo fcinfo, Duty duty, const char* condition);

[[noreturn]] void no_such_work(const Target& target, const char* what, const char* function, const char* argument);

}  // namespace pawl
