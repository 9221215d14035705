// May throw and may ereport. See duty.hpp.
#include "work/duty.hpp"

#include "catalog/catalog_writer.hpp"
#include "catalog/member_cache.hpp"
#include "guard/managed_columns.hpp"
#include "pg/sqlstate.hpp"

namespace pawl {

void no_such_work(const Target& target, const char* what, const char* function, const char* argument) {
    const std::string table = target.table;
    const std::string hint = pg::call([&] {
        return psprintf("select %s(%s, %s, %s => ...)", function, quote_literal_cstr(target.table),
                        quote_literal_cstr(NameStr(target.binding->column)), argument);
    });
    throw pg::Failure(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "table " + table + " has " + what, {}, hint);
}

namespace {

struct BoundColumn {
    Oid relation;
    NameData column;
};

// SPI must run with the search_path of the session, because the triggers of users see it.
BoundColumn* bound_columns(const char* condition, int* n) {
    // a shard that was moved here may not have been written yet
    if (has_citus()) run_as_catalog_owner("SELECT pawl._adopt_missing()", 0, nullptr, nullptr, nullptr);
    SPI_connect();
    const char* query = psprintf(
        "SELECT b.relation::pg_catalog.oid, b.state_column FROM pawl.binding b WHERE %s"
        " AND pg_catalog.has_table_privilege(b.relation, 'SELECT')"
        " AND pg_catalog.has_any_column_privilege(b.relation, 'UPDATE') ORDER BY b.relation, b.state_column",
        condition);
    if (SPI_execute(query, true, 0) != SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not read pawl.binding")));
    *n = static_cast<int>(SPI_processed);
    auto* found = static_cast<BoundColumn*>(SPI_palloc(sizeof(BoundColumn) * Max(*n, 1)));
    for (int i = 0; i < *n; ++i) {
        bool null;
        found[i].relation = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &null));
        // null in a damaged row, which is_sound then names
        const Datum column = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2, &null);
        found[i].column = null ? NameData{} : *DatumGetName(column);
    }
    SPI_finish();
    return found;
}

// Whether the binding can be worked on. A damaged binding gets a warning and does not stop the others. The check runs
// once for each table, and again after the table has changed.
bool is_sound(const BoundColumn& bound) {
    if (is_known(bound.relation)) return true;
    Oid types[] = {OIDOID, NAMEOID};
    Datum values[] = {ObjectIdGetDatum(bound.relation), NameGetDatum(&bound.column)};
    SPI_connect();
    if (SPI_execute_with_args("SELECT pawl._is_sound($1, $2)", 2, types, values, nullptr, false, 1) != SPI_OK_SELECT ||
        SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not check a binding")));
    bool null;
    const bool sound = DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null));
    SPI_finish();
    return sound;
}

// Runs the duty on a table, or on the shards that this node has of a distributed one.
DutyResult on_tables_here(Oid relation, const char* column, Duty duty, int most) {
    const Target target = open_table_target(relation, column);
    if (!target.binding->distributed) {
        pg::call([&] { close_target(target); });
        return duty(relation, column, most);
    }
    const List* tables = pg::call([&] {
        List* here = tables_here(target);
        close_target(target);
        return here;
    });
    DutyResult total = {0, DT_NOEND};
    for (int i = 0; i < list_length(tables); ++i) {
        const DutyResult one = duty(list_nth_oid(tables, i), column, most);
        total = {total.done + one.done, Min(total.next, one.next)};
    }
    return total;
}

}  // namespace

Datum run_duty(FunctionCallInfo fcinfo, Duty duty, const char* condition) {
    const int most = batch_argument(fcinfo, 1);
    DutyResult total = {0, DT_NOEND};
    if (!PG_ARGISNULL(0)) {
        total = on_tables_here(PG_GETARG_OID(0), pg::name_argument(fcinfo, 2), duty, most);
    } else {
        int n = 0;
        const BoundColumn* all = pg::call([&] { return bound_columns(condition, &n); });
        for (int i = 0; i < n; ++i) {
            if (!pg::call([&] { return is_sound(all[i]); })) continue;
            const DutyResult one = on_tables_here(all[i].relation, NameStr(all[i].column), duty, most);
            total = {total.done + one.done, Min(total.next, one.next)};
        }
    }
    return pg::call([&] {
        TupleDesc result;
        get_call_result_type(fcinfo, nullptr, &result);
        Datum values[2] = {Int64GetDatum(total.done), TimestampTzGetDatum(total.next)};
        bool nulls[2] = {false, total.next == DT_NOEND};
        return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(result), values, nulls));
    });
}

Target open_work(Oid relation, const char* column) {
    const Target target = open_target(relation, column);
    if (target.binding->managed == nullptr || !target.binding->managed->owner.kept())
        no_such_work(target, "no owner column", "pawl.enable_queue", "owner");
    return target;
}

text* processor_argument(FunctionCallInfo fcinfo, int n) {
    text* processor = PG_ARGISNULL(n) ? pg::call([] { return processor_setting(); }) : pg::text_argument(fcinfo, n);
    if (processor == nullptr || VARSIZE_ANY_EXHDR(processor) == 0)
        throw pg::Failure(ERRCODE_NULL_VALUE_NOT_ALLOWED, "no processor given",
                          "A processor owns the rows that it claims.",
                          "processor => 'name of the worker', or SET pawl.processor = 'name of the worker';");
    return processor;
}

const Interval* lease_argument(FunctionCallInfo fcinfo, int n) {
    if (PG_ARGISNULL(n)) return nullptr;
    const Interval* lease = PG_GETARG_INTERVAL_P(n);
    const Interval none = {};
    const auto longer_than = [lease](const Interval& other) {
        return pg::call([&] {
            return DatumGetBool(DirectFunctionCall2(interval_gt, IntervalPGetDatum(lease), IntervalPGetDatum(&other)));
        });
    };
    const char* problem = !longer_than(none)           ? "lease must be positive"
                          : longer_than(longest_lease) ? "lease must be at most 100 years"
                                                       : nullptr;
    if (problem == nullptr) return lease;
    const char* is =
        pg::call([=] { return DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(lease))); });
    throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, problem, std::string("It is ") + is + ".", "lease => '60 s'");
}

int batch_argument(FunctionCallInfo fcinfo, int n) {
    constexpr const char* hint = "batch => 100";
    if (PG_ARGISNULL(n)) throw pg::Failure(ERRCODE_NULL_VALUE_NOT_ALLOWED, "batch must not be null", {}, hint);
    const int batch = PG_GETARG_INT32(n);
    if (batch >= 1 && batch <= most_rows) return batch;
    throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "batch must be from 1 to " + std::to_string(most_rows),
                      "It is " + std::to_string(batch) + ".", hint);
}

Intent work_intent(const Target& target, text* processor) {
    Intent intent = {};
    intent.root = target.binding->root;
    intent.column = NameStr(target.binding->column);
    intent.processor = processor;
    intent.any_token = true;
    return intent;
}

}  // namespace pawl
