// May throw and may ereport: pawl.claim, which claims the next rows for a processor, and pawl.claim_keys, which claims
// rows by their keys.
#include "work/claim.hpp"

#include "pg/sqlstate.hpp"
#include "placement/placements.hpp"
#include "work/scan_position.hpp"
#include "work/trial.hpp"

namespace pawl {

namespace {

constexpr int least_looked_at = 50;        // rows read at a time beyond rows that guards keep in their state,
constexpr int most_looked_at = most_rows;  // and in all

using Request = ClaimRequest;

Target open_claimed(FunctionCallInfo fcinfo, int column_argument) {
    const Oid type = get_fn_expr_argtype(fcinfo->flinfo, 0);
    const Oid relation = pg::call([&] { return OidIsValid(type) ? get_typ_typrelid(type) : InvalidOid; });
    if (!OidIsValid(relation))
        throw pg::Failure(ERRCODE_WRONG_OBJECT_TYPE, "the first argument must be of a table's row type", {},
                          "SELECT * FROM pawl.claim(null::jobs, ...);");
    const Target target = open_work(relation, pg::name_argument(fcinfo, column_argument));
    if (target.binding->table != relation)
        throw pg::Failure(ERRCODE_WRONG_OBJECT_TYPE, "rows must be claimed from the enforced table itself", {},
                          "SELECT * FROM pawl.claim(null::" + std::string(target.table) + ", ...);");
    return target;
}

std::string quoted_list(const Names& names) {
    std::string list;
    for (int i = 0; i < names.n; ++i) list += std::string(i > 0 ? ", '" : "'") + names.items[i] + "'";
    return list;
}

// The event given, or the only event that claims rows.
text* claim_event(FunctionCallInfo fcinfo, int argument, const Target& target) {
    const Names& claims = target.binding->managed->claim_events;
    if (claims.n == 0) no_such_work(target, "no claim events", "pawl.set_claiming", "claim");
    if (!PG_ARGISNULL(argument)) {
        text* event = pg::text_argument(fcinfo, argument);
        if (claims.contain(view(event))) return event;
        const bool known = target.binding->machine->machine->knows_event(view(event));
        throw pg::Failure(
            known ? ERRCODE_INVALID_PARAMETER_VALUE : sqlstate::unknown_object,
            "rows of " + std::string(target.table) + " are not claimed by event \"" + std::string(view(event)) + "\"",
            known ? "" : "The machine has no such event.", "event => one of " + quoted_list(claims));
    }
    if (claims.n > 1)
        throw pg::Failure(ERRCODE_NULL_VALUE_NOT_ALLOWED, "several events claim rows of " + std::string(target.table),
                          {}, "event => one of " + quoted_list(claims));
    return pg::call([&] { return cstring_to_text(claims.items[0]); });
}

text* queue_argument(FunctionCallInfo fcinfo, int argument, const Target& target) {
    const bool has_queues = target.binding->managed->queue.kept();
    if (PG_ARGISNULL(argument) == !has_queues) return has_queues ? pg::text_argument(fcinfo, argument) : nullptr;
    if (has_queues)
        throw pg::Failure(ERRCODE_NULL_VALUE_NOT_ALLOWED, "queue must be specified",
                          "Rows of " + std::string(target.table) + " are in queues.",
                          "queue => ...; SELECT * FROM pawl.queue_depth; lists them.");
    no_such_work(target, "no queues", "pawl.enable_queue", "queue");
}

void append_order(StringInfo out, const Binding& binding) {
    const Managed& managed = *binding.managed;
    appendStringInfoString(out, " ORDER BY ");
    for (int i = 0; i < managed.claim_columns.n; ++i)
        appendStringInfo(out, "%s.%s%s, ", row_alias, quote_identifier(managed.claim_columns.items[i]),
                         managed.claim_descending[i] ? " DESC" : "");
    appendStringInfoString(out, order_by_key(binding));
}

Datum queue_value(const Request& request) {
    const ManagedColumn& queue = request.target.binding->managed->queue;
    const Oid base = queue.base;
    if (base == TEXTOID || base == VARCHAROID) return PointerGetDatum(request.queue);
    Oid input, parameter;
    getTypeInputInfo(base, &input, &parameter);
    return OidInputFunctionCall(input, text_to_cstring(request.queue), parameter, -1);
}

// The queue as pawl.paused names it: the text of the column's value, not the caller's text ('07' is 7 where queues are
// numbers).
text* queue_text(const Request& request) {
    const ManagedColumn& queue = request.target.binding->managed->queue;
    const Oid base = queue.base;
    if (base == TEXTOID || base == VARCHAROID) return request.queue;
    Oid output;
    bool varlena;
    getTypeOutputInfo(queue.type, &output, &varlena);
    return cstring_to_text(OidOutputFunctionCall(output, queue_value(request)));
}

// Reads pawl.paused once a call, because the answer does not depend on the row.
void append_not_paused(StringInfo out, const Request& request, Parameters& parameters) {
    const Binding& binding = *request.target.binding;
    parameters.add(OIDOID, ObjectIdGetDatum(binding.root));
    parameters.add(NAMEOID, NameGetDatum(&binding.column));
    const bool no_queue = request.queue == nullptr;
    parameters.add(TEXTOID, no_queue ? static_cast<Datum>(0) : PointerGetDatum(queue_text(request)), no_queue);
    appendStringInfo(out,
                     " AND NOT EXISTS (SELECT FROM pawl.paused p WHERE p.relation OPERATOR(pg_catalog.=) $%d AND "
                     "p.state_column OPERATOR(pg_catalog.=) $%d"
                     " AND (p.queue IS NULL OR p.queue OPERATOR(pg_catalog.=) $%d)"
                     " AND (p.until IS NULL OR p.until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()))",
                     parameters.n - 2, parameters.n - 1, parameters.n);
}

// The conditions that make a row claimable, whatever its place in the order.
void append_claimable(StringInfo out, const Request& request, Parameters& parameters) {
    const Binding& binding = *request.target.binding;
    const Managed& managed = *binding.managed;
    appendStringInfo(out, "WHERE %s", state_condition(binding, role_claims, request.event));
    if (managed.due.kept()) appendStringInfo(out, " AND %s IS NULL", column_name(managed.due));
    if (request.queue != nullptr) {
        parameters.add(managed.queue.type, queue_value(request));
        appendStringInfo(out, " AND %s", column_equals(managed.queue, parameters.n));
    }
}

// The named rows that are claimable and not locked by another transaction, each once, in the order of their keys.
Batch pick_named(const Request& request) {
    const Binding& binding = *request.target.binding;
    StringInfoData clauses;
    initStringInfo(&clauses);
    Parameters parameters = {};
    for (int i = 0; i < binding.nkeys; ++i) parameters.add(get_array_type(binding.keys[i].type), request.keys[i]);
    appendStringInfoString(&clauses, "JOIN (SELECT DISTINCT ");
    for (int i = 0; i < binding.nkeys; ++i) appendStringInfo(&clauses, "%sk%d", i > 0 ? ", " : "", i);
    appendStringInfo(&clauses, " FROM %s) AS k ON %s ", unnested_keys(binding, 1), key_join(binding));
    append_claimable(&clauses, request, parameters);
    append_not_paused(&clauses, request, parameters);
    appendStringInfo(&clauses, " ORDER BY %s FOR NO KEY UPDATE OF %s SKIP LOCKED", order_by_key(binding), row_alias);
    return pick_rows(request.target, clauses.data, parameters, Order::of_keys);
}

// The next claimable rows: from the head of the index after the first `skip`, or, from level 0 up, from one of the
// ranges behind the scan position.
Batch pick_range(const Request& request, const ScanPosition* position, int level, int most, int skip = 0) {
    const Binding& binding = *request.target.binding;
    StringInfoData clauses;
    initStringInfo(&clauses);
    Parameters parameters = {};
    append_claimable(&clauses, request, parameters);
    if (position != nullptr) append_behind(&clauses, binding, *position, level, parameters);
    append_not_paused(&clauses, request, parameters);
    append_order(&clauses, binding);
    parameters.add(INT8OID, Int64GetDatum(most));
    appendStringInfo(&clauses, " LIMIT $%d", parameters.n);
    if (skip > 0) {
        parameters.add(INT8OID, Int64GetDatum(skip));
        appendStringInfo(&clauses, " OFFSET $%d", parameters.n);
    }
    appendStringInfo(&clauses, " FOR NO KEY UPDATE OF %s SKIP LOCKED", row_alias);
    return pick_rows(request.target, clauses.data, parameters, Order::of_claims);
}

Batch pick_claimable(const Request& request) {
    Binding& binding = *request.target.binding;
    auto pick = [](const void* argument, const ScanPosition* behind, int level, int most) {
        return pick_range(*static_cast<const Request*>(argument), behind, level, most);
    };
    return pick_next(binding, *claim_position(binding, request.event, request.queue), pick, &request, request.batch);
}

// Formed anew, because a picked row may have attributes that the table lacks.
void return_row(const Request& request, Tuplestorestate* rows, HeapTuple row) {
    const Binding& binding = *request.target.binding;
    TupleDesc descriptor = request.as_root ? binding.root_descriptor : binding.row_descriptor;
    if (request.as_root && binding.to_root != nullptr) row = execute_attr_map_tuple(row, binding.to_root);
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * descriptor->natts));
    auto* nulls = static_cast<bool*>(palloc(sizeof(bool) * descriptor->natts));
    heap_deform_tuple(row, descriptor, values, nulls);
    tuplestore_putvalues(rows, descriptor, values, nulls);
    pfree(values);
    pfree(nulls);
}

int count_moving(const Picked& picked) {
    int n = 0;
    for (int i = 0; i < picked.batch.n; ++i) n += picked.steps[i].to != core::no_state;
    return n;
}

Picked decide(const Request& request, const Batch& batch, Intent& intent) {
    intent.at = GetCurrentTimestamp();
    return {batch, lead(request.target, batch, request.event, intent)};
}

Picked joined(const Picked& one, const Picked& other) {
    const int n = one.batch.n + other.batch.n;
    Picked both = {{static_cast<FoundRow*>(palloc(sizeof(FoundRow) * n)), n},
                   static_cast<Step*>(palloc(sizeof(Step) * n))};
    memcpy(both.batch.rows, one.batch.rows, sizeof(FoundRow) * one.batch.n);
    memcpy(both.batch.rows + one.batch.n, other.batch.rows, sizeof(FoundRow) * other.batch.n);
    memcpy(both.steps, one.steps, sizeof(Step) * one.batch.n);
    memcpy(both.steps + one.batch.n, other.steps, sizeof(Step) * other.batch.n);
    return both;
}

// Rows that guards keep in their state must not hide the rows behind them.
Picked pick_and_decide(const Request& request, Intent& intent) {
    Picked picked = decide(request, pick_claimable(request), intent);
    int wanted = request.batch - count_moving(picked);
    bool more = picked.batch.n == request.batch;
    while (more && wanted > 0 && picked.batch.n < most_looked_at) {
        const int asked = Max(wanted, least_looked_at);
        const Picked next = decide(request, pick_range(request, nullptr, 0, asked, picked.batch.n), intent);
        more = next.batch.n == asked;
        for (int i = 0; i < next.batch.n; ++i)
            if (next.steps[i].to != core::no_state && --wanted < 0) next.steps[i].to = core::no_state;
        picked = joined(picked, next);
    }
    return picked;
}

Picked pick_and_decide_named(const Request& request, Intent& intent) {
    return decide(request, pick_named(request), intent);
}

// How rows are claimed, and where they are returned.
struct Claiming {
    const Request* request;
    Intent* intent;
    Tuplestorestate* rows;

    // Rows are returned only after all of them have moved, so that a later error takes none back.
    int64 take(const Picked& picked) const {
        const int64 taken = take_steps(request->target, picked.batch, picked.steps, *intent, Returning::rows);
        for (int i = 0; i < picked.batch.n; ++i)
            if (picked.steps[i].after != nullptr) return_row(*request, rows, picked.steps[i].after);
        return taken;
    }
    static int64 see_to(const Batch& batch, void* argument) {
        const auto* claiming = static_cast<Claiming*>(argument);
        return claiming->take(decide(*claiming->request, batch, *claiming->intent));
    }
};

// Raises the error of an argument, which would otherwise be reported for every row.
void require_sound_request(const Request& request) {
    owner_value(*request.target.binding->managed, request.processor);
    if (request.lease == nullptr) return;
    DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(GetCurrentTimestamp()),
                        IntervalPGetDatum(request.lease));
}

// Claims the next rows one subtransaction at a time. Rows that raise errors or that guards keep do not hide those
// behind them.
void claim_apart(Claiming& claiming, Raising& raising) {
    const Request& request = *claiming.request;
    int wanted = request.batch;
    int kept = 0;
    for (bool more = true; more && wanted > 0 && kept < most_looked_at && raising.n < Raising::most;) {
        const int asked = Max(wanted, least_looked_at);
        const Batch next = pick_range(request, nullptr, 0, asked, kept);
        more = next.n == asked;
        for (int at = 0; at < next.n && wanted > 0;) {
            const int n = Min(wanted, next.n - at);
            const int taken = static_cast<int>(
                see_to_apart(request.target, {next.rows + at, n}, Claiming::see_to, &claiming, raising));
            wanted -= taken;
            kept += n - taken;
            at += n;
        }
    }
}

void claim_keys_apart(Claiming& claiming, Raising& raising) {
    see_to_apart(claiming.request->target, pick_named(*claiming.request), Claiming::see_to, &claiming, raising);
}

// Claims the rows that `pick` finds and returns them. If that raises an error, claims those that `apart` finds.
template <Picked (*pick)(const Request&, Intent&), void (*apart)(Claiming&, Raising&)>
void take(const Request& request, Tuplestorestate* rows) {
    Intent intent = work_intent(request.target, request.processor);
    intent.lease = request.lease;
    IntentScope scope(intent);
    pg::call([&] {
        require_queue_here(request.target.binding->root, request.queue);
        SPI_connect();
        Claiming claiming = {&request, &intent, rows};
        if (ErrorData* error = try_alone([&] { claiming.take(pick(request, intent)); })) {
            raise_unless_of_row(request.target, error);
            require_sound_request(request);
            Raising raising;
            apart(claiming, raising);
            tell_of_more(request.target, raising);
        }
        SPI_finish();
        close_target(request.target);
    });
}

Tuplestorestate* returned_rows(FunctionCallInfo fcinfo) {
    return pg::call([&] { return pg::materialize(fcinfo)->setResult; });
}

}  // namespace

Picked pick_to_claim(const ClaimRequest& request, Intent& intent) {
    require_queue_here(request.target.binding->root, request.queue);
    return pick_and_decide(request, intent);
}

// Rows that stay lie before the scan position.
int64 claim_picked(const ClaimRequest& request, const Picked& picked, int most, Intent& intent) {
    for (int i = 0; i < picked.batch.n; ++i) {
        Step& step = picked.steps[i];
        if (step.to == core::no_state || --most >= 0) continue;
        step.to = core::no_state;
        distrust_scan_positions();
    }
    return take_steps(request.target, picked.batch, picked.steps, intent, Returning::rows);
}

void claim_next(const ClaimRequest& request, Tuplestorestate* rows) {
    take<pick_and_decide, claim_apart>(request, rows);
}

// Claims from the shards that this node has of a distributed table, beginning with another one each time. Rows are
// returned in the row type of the table.
static void claim_here(Request request, Tuplestorestate* rows, const char* column) {
    static int turn = 0;
    const List* shards = pg::call([&] {
        List* here = tables_here(request.target);
        if (here == NIL)
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("this node has no shards of distributed table %s", request.target.table),
                            errdetail("Rows are claimed on the node that has them."),
                            errhint("Connect workers of the queue to the nodes of SELECT * FROM citus_shards;")));
        close_target(request.target);
        return here;
    });
    const int n = list_length(shards);
    const int first = turn++;
    const int batch = request.batch;
    int64 claimed = 0;
    for (int i = 0; i < n && claimed < batch; ++i) {
        request.target = open_work(list_nth_oid(shards, (first + i) % n), column);
        request.as_root = true;
        request.batch = static_cast<int>(batch - claimed);
        const int64 before = tuplestore_tuple_count(rows);
        claim_next(request, rows);
        claimed += tuplestore_tuple_count(rows) - before;
    }
}

PAWL_FUNCTION(pawl_claim) {
    Request request = {};
    request.target = open_claimed(fcinfo, 6);
    request.event = claim_event(fcinfo, 1, request.target);
    request.processor = processor_argument(fcinfo, 2);
    request.lease = lease_argument(fcinfo, 3);
    request.batch = batch_argument(fcinfo, 4);
    request.queue = queue_argument(fcinfo, 5, request.target);
    if (request.target.binding->distributed)
        claim_here(request, returned_rows(fcinfo), pg::name_argument(fcinfo, 6));
    else
        claim_next(request, returned_rows(fcinfo));
    return static_cast<Datum>(0);
}

PAWL_FUNCTION(pawl_claim_keys) {
    Request request = {};
    pg::require(fcinfo, 1, "keys");
    request.target = open_claimed(fcinfo, 6);
    require_one_node(request.target, "pawl.claim_keys");
    request.event = claim_event(fcinfo, 2, request.target);
    request.processor = processor_argument(fcinfo, 3);
    request.lease = lease_argument(fcinfo, 4);
    request.queue = queue_argument(fcinfo, 5, request.target);
    request.keys =
        read_keys(*request.target.binding, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1), &request.batch);
    if (request.batch > most_rows)
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "more than " + std::to_string(most_rows) + " keys", {},
                          "pass fewer keys in each call");
    Tuplestorestate* rows = returned_rows(fcinfo);
    if (request.batch > 0)
        take<pick_and_decide_named, claim_keys_apart>(request, rows);
    else
        pg::call([&] { close_target(request.target); });
    return static_cast<Datum>(0);
}

}  // namespace pawl
