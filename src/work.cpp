// May throw and may ereport. See work.hpp.
#include "work.hpp"

#include "pg/sqlstate.hpp"

namespace pawl {

void no_such_work(const Target& target, const char* what, const char* argument) {
    const std::string table = target.table;
    throw pg::Failure(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the lifecycle of table " + table + " has " + what,
                      "It was attached without " + std::string(argument) + ".",
                      "Attach it again: SELECT pawl.release(...); SELECT pawl.enforce(..., " + std::string(argument) + " => ...);");
}

Target open_work(Oid relation, const char* column) {
    const Target target = open_target(relation, column);
    if (target.attachment->managed == nullptr || !target.attachment->managed->owner.kept()) no_such_work(target, "no owners", "owner");
    return target;
}

text* processor_argument(FunctionCallInfo fcinfo, int n) {
    text* processor = PG_ARGISNULL(n) ? pg::call([] { return processor_setting(); }) : pg::text_argument(fcinfo, n);
    if (processor == nullptr || VARSIZE_ANY_EXHDR(processor) == 0)
        throw pg::Failure(ERRCODE_NULL_VALUE_NOT_ALLOWED, "processor must be named", "Work is owned by whoever takes it.",
                          "processor => 'name of the worker', or SET pawl.processor = 'name of the worker';");
    return processor;
}

const Interval* lease_argument(FunctionCallInfo fcinfo, int n) {
    if (PG_ARGISNULL(n)) return nullptr;
    const Interval* lease = PG_GETARG_INTERVAL_P(n);
    const Interval none = {};
    const bool positive = pg::call(
        [&] { return DatumGetBool(DirectFunctionCall2(interval_gt, IntervalPGetDatum(lease), IntervalPGetDatum(&none))); });
    if (!positive) throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "lease must be longer than nothing", {}, "lease => '60 s'");
    return lease;
}

int batch_argument(FunctionCallInfo fcinfo, int n) {
    pg::require(fcinfo, n, "batch");
    const int batch = PG_GETARG_INT32(n);
    if (batch >= 1 && batch <= most_rows) return batch;
    throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "batch must be from 1 to " + std::to_string(most_rows), "It is " + std::to_string(batch) + ".");
}

Intent work_intent(const Target& target, text* processor) {
    Intent intent = {};
    intent.root = target.attachment->root;
    intent.column = NameStr(target.attachment->column);
    intent.processor = processor;
    intent.any_token = true;
    return intent;
}

}  // namespace pawl
