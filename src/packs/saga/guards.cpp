// May throw and may ereport; owns nothing. The guards that tasks meet whenever they begin.
#include "pg/arguments.hpp"
#include "pg/bridge.hpp"

namespace pawl {

namespace {

// A row that is an argument. A null row has columns that are all null.
class Row {
public:
    Row(FunctionCallInfo fcinfo, int number)
        : row_(PG_ARGISNULL(number) ? nullptr : PG_GETARG_HEAPTUPLEHEADER(number)) {}

    // Ereports if there is no such column.
    NullableDatum value(const char* column) const {
        NullableDatum found = {0, true};
        if (row_ != nullptr) found.value = GetAttributeByName(row_, column, &found.isnull);
        return found;
    }
    bool has(const char* column) const { return !value(column).isnull; }

private:
    HeapTupleHeader row_;
};

enum class Answer { no, yes, unknown };

// Whether nothing blocks a task any more that is to go this way.
Answer is_free(const Row& task, const char* intention) {
    const NullableDatum blockers = task.value("blockers");
    const NullableDatum intended = task.value("intention");
    if (!blockers.isnull && DatumGetInt32(blockers.value) != 0) return Answer::no;
    if (!intended.isnull && pg::view(DatumGetTextPP(intended.value)) != intention) return Answer::no;
    return blockers.isnull || intended.isnull ? Answer::unknown : Answer::yes;
}

Datum answered(FunctionCallInfo fcinfo, Answer answer) {
    fcinfo->isnull = answer == Answer::unknown;
    return BoolGetDatum(answer == Answer::yes);
}

}  // namespace

// pawl_saga.may_execute(old, new): what counts the last of its blockers down may execute it at once.
PAWL_FUNCTION(pawl_saga_may_execute) {
    return pg::call([&] {
        const Row before(fcinfo, 0);
        const NullableDatum blockers = before.value("blockers");
        const bool was_blocked = !blockers.isnull && DatumGetInt32(blockers.value) > 0;
        if (before.has("due_at") && !was_blocked) return answered(fcinfo, Answer::no);
        return answered(fcinfo, is_free(Row(fcinfo, 1), "EXECUTE"));
    });
}

// pawl_saga.may_revert(old, new)
PAWL_FUNCTION(pawl_saga_may_revert) {
    return pg::call([&] {
        if (Row(fcinfo, 0).has("due_at")) return answered(fcinfo, Answer::no);
        return answered(fcinfo, is_free(Row(fcinfo, 1), "REVERT"));
    });
}

}  // namespace pawl
