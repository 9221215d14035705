// May ereport; owns nothing. See batch.hpp.
#include "fire/batch.hpp"

#include "fire/needed_rights.hpp"

namespace pawl {

namespace {

void add_keys(const Binding& binding, const Batch& batch, const bool* chosen, int n, Parameters& parameters) {
    for (int column = 0; column < binding.nkeys; ++column) {
        const KeyColumn& key = binding.keys[column];
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * n));
        int filled = 0;
        for (int i = 0; i < batch.n; ++i) {
            if (!chosen[i]) continue;
            bool null;
            values[filled++] = slot_getattr(batch.rows[i].slot, key.attribute, &null);
            if (null)
                ereport(
                    ERROR,
                    (errcode(ERRCODE_NOT_NULL_VIOLATION),
                     errmsg("null in key column \"%s\" of \"%s\"", NameStr(key.name), get_rel_name(binding.root)),
                     errhint("ALTER TABLE ... ALTER COLUMN %s SET NOT NULL;", quote_identifier(NameStr(key.name)))));
        }
        parameters.add_column(key.type, values, n);
    }
}

// Rows of one table stay where they were locked, unless functions of the user may have moved them since. Then they are
// found again by their ctid, and their columns are read one by one, which neither copies nor detoasts what is not read.
bool stay_in_place(const Target& target) {
    return target.relation->rd_rel->relkind == RELKIND_RELATION && !target.relation->rd_rel->relhassubclass &&
           !target.binding->has_guards;
}

bool is_managed(const Managed& managed, AttrNumber attribute) {
    for (const ManagedColumn* column : {&managed.owner, &managed.lease, &managed.token, &managed.due, &managed.attempts,
                                        &managed.max_attempts, &managed.queue})
        if (column->attribute == attribute) return true;
    return false;
}

// Whether this column of a picked row is read: it decides where the row goes, or its place in the order.
bool is_looked_at(const Binding& binding, const FormData_pg_attribute* column) {
    if (column->attnum == binding.state || is_managed(*binding.managed, column->attnum)) return true;
    for (int i = 0; i < binding.nkeys; ++i)
        if (binding.keys[i].attribute == column->attnum) return true;
    return binding.managed->claim_columns.contain(NameStr(column->attname));
}

enum class Columns { all, looked_at };

// The columns of the table, at their places in its rows. Composed once a session.
const char* column_list(const Target& target, Columns which) {
    const Binding& binding = *target.binding;
    char*& list = target.binding->column_lists[static_cast<int>(which)];
    if (list != nullptr) return list;
    StringInfoData out;
    initStringInfo(&out);
    TupleDesc descriptor = binding.row_descriptor;
    for (int i = 0; i < descriptor->natts; ++i) {
        const FormData_pg_attribute* column = TupleDescAttr(descriptor, i);
        if (i > 0) appendStringInfoString(&out, ", ");
        if (column->attisdropped || (which == Columns::looked_at && !is_looked_at(binding, column)))
            appendStringInfoString(&out, "NULL::pg_catalog.int4");
        else
            appendStringInfo(&out, "%s.%s", row_alias, quote_identifier(NameStr(column->attname)));
    }
    return list = MemoryContextStrdup(GetMemoryChunkContext(binding.keys), out.data);
}

void add_places(const Batch& batch, const bool* chosen, int n, Parameters& parameters) {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * n));
    for (int i = 0, filled = 0; i < batch.n; ++i)
        if (chosen[i]) values[filled++] = PointerGetDatum(&batch.rows[i].tuple->t_self);
    parameters.add_column(TIDOID, values, n);
}

// The chosen rows with their places; a single one as a row that the planner turns into a plain lookup.
const char* chosen_places(int n, int places, int states) {
    if (n == 1) return psprintf("(SELECT $%d AS place, 1::pg_catalog.int8 AS n) AS k", places);
    return psprintf("ROWS FROM (pg_catalog.unnest($%d)%s) WITH ORDINALITY AS k(place, %sn)", places,
                    states > 0 ? psprintf(", pg_catalog.unnest($%d)", states) : "", states > 0 ? "to_state, " : "");
}

// "UPDATE table SET assignment FROM the chosen rows", in which each row has its number k.n, and k.to_state if there is
// a parameter of states.
const char* update_query(const Target& target, const Batch& batch, const bool* chosen, int n, const char* assignment,
                         Parameters& parameters, int states_parameter) {
    const Binding& binding = *target.binding;
    const int first = parameters.n + 1;
    if (stay_in_place(target)) {
        add_places(batch, chosen, n, parameters);
        return psprintf("UPDATE %s AS %s SET %s FROM %s WHERE %s.ctid OPERATOR(pg_catalog.=) k.place", target.table,
                        row_alias, assignment, chosen_places(n, first, states_parameter), row_alias);
    }
    add_keys(binding, batch, chosen, n, parameters);
    const char* keys = n == 1 ? single_key(binding, first) : unnested_keys(binding, first, states_parameter);
    return psprintf("UPDATE %s AS %s SET %s FROM %s WHERE %s", target.table, row_alias, assignment, keys,
                    key_join(binding));
}

// Stores each row that the UPDATE returned in its step.
void note_returned(const Target& target, const Batch& batch, const bool* chosen, int n, Step* steps) {
    auto* ordinal = static_cast<int*>(palloc(sizeof(int) * n));
    for (int i = 0, filled = 0; i < batch.n; ++i)
        if (chosen[i]) ordinal[filled++] = i;
    const bool in_place = stay_in_place(target);
    const int number = in_place ? target.binding->row_descriptor->natts + 1 : 2;
    for (uint64 i = 0; i < SPI_processed; ++i) {
        bool null;
        HeapTuple tuple = SPI_tuptable->vals[i];
        const int64 k = DatumGetInt64(SPI_getbinval(tuple, SPI_tuptable->tupdesc, number, &null));
        steps[ordinal[k - 1]].after =
            in_place ? tuple : composite_as_tuple(SPI_getbinval(tuple, SPI_tuptable->tupdesc, 1, &null));
    }
}

// Updates the chosen rows, in their order. With `steps`, stores the new version of each there.
int64 update_rows(const Target& target, const Batch& batch, const bool* chosen, int n, const char* assignment,
                  Parameters parameters, Step* steps, int states_parameter = 0) {
    const char* query = update_query(target, batch, chosen, n, assignment, parameters, states_parameter);
    if (steps != nullptr)
        query = psprintf("%s RETURNING %s, k.n", query,
                         stay_in_place(target) ? column_list(target, Columns::all) : whole_row(target));
    const uint64 written = run_planned(*target.binding, query, parameters);
    if (steps != nullptr) note_returned(target, batch, chosen, n, steps);
    return static_cast<int64>(written);
}

// Locked rows as a query returned them: the columns and the ctid, or the row as one value.
FoundRow found_in_place(const Target& target, HeapTuple tuple) {
    bool null;
    FoundRow row = row_from(target, tuple);
    Datum place = SPI_getbinval(tuple, SPI_tuptable->tupdesc, target.binding->row_descriptor->natts + 1, &null);
    tuple->t_self = *reinterpret_cast<ItemPointer>(DatumGetPointer(place));
    return row;
}

// Assigns the owner column although the trigger sets it, so that the server knows that its index changes. Otherwise the
// server takes each index entry for one more version of the same row and searches the heap for dead rows, in vain
// (bottom-up deletion).
const char* name_owner(const Target& target) {
    const ManagedColumn& owner = target.binding->managed->owner;
    const AttrNumber attribute = get_attnum(target.binding->root, NameStr(owner.name));
    if (!pg::may_update(target.binding->root, attribute, GetUserId())) return "";
    return psprintf(", %s = %s", quote_identifier(NameStr(owner.name)), column_name(owner));
}

// The state that each chosen row gets: more than one, of more than one row.
void add_states(const Binding& binding, const Batch& batch, const bool* chosen, int n, const Step* steps,
                Parameters& parameters) {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * n));
    for (int i = 0, filled = 0; i < batch.n; ++i)
        if (chosen[i]) values[filled++] = state_parameter(binding, binding.machine->state_text[steps[i].to]);
    parameters.add_column(state_parameter_type(binding), values, n);
}

bool same_event(const text* one, const text* other) {
    if (one == nullptr || other == nullptr) return one == other;
    return view(one) == view(other);
}

}  // namespace

const char* column_name(const ManagedColumn& column) {
    return psprintf("%s.%s", row_alias, quote_identifier(NameStr(column.name)));
}

char* state_condition(const Binding& binding, TransitionRole role, const text* event) {
    const BoundMachine& machine = *binding.machine;
    const char* type = format_type_be_qualified(binding.is_enum ? binding.state_type : TEXTOID);
    StringInfoData out;
    initStringInfo(&out);
    appendStringInfo(&out, "%s.%s::%s OPERATOR(pg_catalog.=) ANY (ARRAY[", row_alias,
                     quote_identifier(NameStr(binding.column)), type);
    const auto& states = machine.machine->states();
    int n = 0;
    for (std::size_t from = 0; from < states.size(); ++from) {
        bool leads = false;
        for (std::int32_t transition : machine.machine->leaving(static_cast<core::StateId>(from)))
            leads |= (binding.managed->roles[transition] & role) != 0 &&
                     (event == nullptr || view(machine.event_text[transition]) == view(event));
        if (leads) appendStringInfo(&out, "%s%s", n++ > 0 ? ", " : "", quote_literal_cstr(states[from].name.c_str()));
    }
    appendStringInfo(&out, "]::%s[])", type);
    return out.data;
}

char* column_equals(const ManagedColumn& column, int parameter) {
    return same_values(column.type, column_name(column), psprintf("$%d", parameter));
}

char* order_by_key(const Binding& binding) {
    return key_order(binding);
}

Batch pick_rows(const Target& target, const char* clauses, const Parameters& parameters, Order order) {
    require_lock(target);
    const bool in_place = stay_in_place(target);
    const char* row =
        in_place ? psprintf("%s, %s.ctid", column_list(target, Columns::looked_at), row_alias) : whole_row(target);
    const uint64 n =
        run_planned(*target.binding, psprintf("SELECT %s FROM %s AS %s %s", row, target.table, row_alias, clauses),
                    parameters, order);
    Batch batch = {static_cast<FoundRow*>(palloc(sizeof(FoundRow) * Max(n, 1))), static_cast<int>(n)};
    for (uint64 i = 0; i < n; ++i) {
        bool null;
        HeapTuple tuple = SPI_tuptable->vals[i];
        batch.rows[i] =
            in_place ? found_in_place(target, tuple)
                     : row_from(target, composite_as_tuple(SPI_getbinval(tuple, SPI_tuptable->tupdesc, 1, &null)));
    }
    return batch;
}

Step* lead(const Target& target, const Batch& batch, const text* event, const Intent& intent) {
    auto* steps = static_cast<Step*>(palloc0(sizeof(Step) * Max(batch.n, 1)));
    for (int i = 0; i < batch.n; ++i) {
        const Destination destination = look_for_destination(target, event, batch.rows[i], &intent, true);
        steps[i] = {destination.to, event, nullptr};
    }
    return steps;
}

int64 take_steps(const Target& target, const Batch& batch, Step* steps, Intent& intent, Returning returning) {
    auto* chosen = static_cast<bool*>(palloc(sizeof(bool) * Max(batch.n, 1)));
    auto* done = static_cast<bool*>(palloc0(sizeof(bool) * Max(batch.n, 1)));
    const Binding& binding = *target.binding;
    const char* column = quote_identifier(NameStr(binding.column));
    const char* owner = returning == Returning::rows ? name_owner(target) : "";
    int64 moved = 0;
    for (int first = 0; first < batch.n; ++first) {
        if (done[first] || steps[first].to == core::no_state) continue;
        int n = 0;
        bool one_state = true;
        for (int i = 0; i < batch.n; ++i) {
            chosen[i] = !done[i] && steps[i].to != core::no_state && same_event(steps[i].event, steps[first].event);
            n += chosen[i];
            one_state &= !chosen[i] || steps[i].to == steps[first].to;
            done[i] |= chosen[i];
        }
        require_update(target, binding.state);
        Parameters parameters = {};
        if (one_state)
            parameters.add(state_parameter_type(binding),
                           state_parameter(binding, binding.machine->state_text[steps[first].to]));
        else
            add_states(binding, batch, chosen, n, steps, parameters);
        const char* assignment =
            psprintf("%s = %s%s", column, state_value(target, one_state ? "$1" : "k.to_state"), owner);
        intent.event = const_cast<text*>(steps[first].event);
        moved += update_rows(target, batch, chosen, n, assignment, parameters,
                             returning == Returning::rows ? steps : nullptr, one_state ? 0 : parameters.n);
    }
    return moved;
}

int64 set_column(const Target& target, const Batch& batch, const ManagedColumn& column, Datum value, bool null,
                 Intent& intent) {
    if (batch.n == 0) return 0;
    require_update(target, column.attribute);
    intent.still = true;
    auto* all = static_cast<bool*>(palloc(sizeof(bool) * batch.n));
    memset(all, true, sizeof(bool) * batch.n);
    Parameters parameters = {};
    parameters.add(column.type, value, null);
    const int64 written = update_rows(target, batch, all, batch.n,
                                      psprintf("%s = $1", quote_identifier(NameStr(column.name))), parameters, nullptr);
    intent.still = false;
    return written;
}

}  // namespace pawl
