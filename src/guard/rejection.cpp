// May ereport; owns nothing. See rejection.hpp.
#include "guard/rejection.hpp"

#include "pg/sqlstate.hpp"
#include "session/observer.hpp"

namespace pawl {

namespace {

constexpr int max_open_transitions = 12;  // in a hint

void append_transition(StringInfo out, const BoundMachine& machine, int transition) {
    const core::Transition& drawn = machine.machine->transitions()[transition];
    if (out->len > 0) appendStringInfoString(out, ", ");
    appendStringInfo(out, "\"%s\"", machine.machine->states()[drawn.to].name.c_str());
    if (!drawn.event.empty()) appendStringInfo(out, " (%s)", drawn.event.c_str());
}

// Lists the transitions that leave a state, as `"paid" (pay), "cancelled" (cancel)`; empty if there are none.
char* open_transitions(const BoundMachine& machine, core::StateId from) {
    StringInfoData moves;
    initStringInfo(&moves);
    int n = 0;
    for (std::int32_t transition : machine.machine->leaving(from)) {
        if (n++ == max_open_transitions) {
            appendStringInfoString(&moves, ", ...");
            break;
        }
        append_transition(&moves, machine, transition);
    }
    return moves.data;
}

core::StateId state_of(const Binding& binding, const text* name) {
    return name == nullptr ? core::no_state : binding.machine->machine->find(view(name));
}

char* hint_of_moves(const Binding& binding, const text* from) {
    core::StateId state = state_of(binding, from);
    if (state == core::no_state)
        return psprintf(
            "The machine has no state %s: pawl.verify lists such rows, and pawl.upgrade to another version remaps "
            "them with remap.",
            quoted_state(from));
    char* moves = open_transitions(*binding.machine, state);
    if (*moves == '\0') return psprintf("No transition leaves %s.", quoted_state(from));
    return psprintf("From %s the machine allows: %s.", quoted_state(from), moves);
}

// Like PostgreSQL's own errors, ours show only values that the user may select, and none under row security. The
// statement may have named the member or its root.
bool may_see_key(const Binding& binding, Oid member) {
    if (check_enable_rls(binding.root, InvalidOid, true) == RLS_ENABLED) return false;
    for (int i = 0; i < binding.nkeys; ++i) {
        bool seen = false;
        for (Oid relation : {binding.root, member}) {
            const AttrNumber column =
                OidIsValid(relation) ? get_attnum(relation, NameStr(binding.keys[i].name)) : InvalidAttrNumber;
            seen |= column != InvalidAttrNumber && pg::may_select(relation, column, GetUserId());
        }
        if (!seen) return false;
    }
    return true;
}

}  // namespace

const char* describe_row(const Binding& binding, TupleTableSlot* row) {
    const char* table =
        quote_qualified_identifier(get_namespace_name(get_rel_namespace(binding.root)), get_rel_name(binding.root));
    if (binding.nkeys == 0) return psprintf("Row of %s", table);
    if (!may_see_key(binding, row->tts_tableOid)) return psprintf("A row of %s", table);
    StringInfoData names, values;
    initStringInfo(&names);
    initStringInfo(&values);
    for (int i = 0; i < binding.nkeys; ++i) {
        const KeyColumn& key = binding.keys[i];
        bool null, varlena;
        Oid output;
        Datum value = slot_getattr(row, key.attribute, &null);
        getTypeOutputInfo(key.type, &output, &varlena);
        appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", NameStr(key.name));
        appendStringInfo(&values, "%s%s", i > 0 ? ", " : "", null ? "null" : OidOutputFunctionCall(output, value));
    }
    return psprintf("Row (%s)=(%s) of %s", names.data, values.data, table);
}

Rejection rejected_transition(const Binding& binding, TupleTableSlot* row, const text* from, const text* to,
                              const text* event) {
    const bool unknown = state_of(binding, to) == core::no_state;
    return {rejected(sqlstate::no_such_transition, binding.machine->name),
            event == nullptr
                ? psprintf("no transition from %s to %s in machine \"%s\"", quoted_state(from), quoted_state(to),
                           binding.machine->name)
                : psprintf("event \"%s\" does not lead from %s to %s in machine \"%s\"", text_to_cstring(event),
                           quoted_state(from), quoted_state(to), binding.machine->name),
            psprintf("%s is in state %s.%s", describe_row(binding, row), quoted_state(from),
                     unknown ? psprintf(" The machine has no state %s.", quoted_state(to)) : ""),
            hint_of_moves(binding, from)};
}

void reject_transition(const Binding& binding, TupleTableSlot* row, const text* from, const text* to,
                       const text* event) {
    raise(rejected_transition(binding, row, from, to, event));
}

void reject_initial_state(const Binding& binding, TupleTableSlot* row, const text* to, const text* event) {
    const bool unknown = state_of(binding, to) == core::no_state;
    ereport(ERROR, (errcode(rejected(sqlstate::not_an_initial_state, binding.machine->name)),
                    event == nullptr ? errmsg("%s is not an initial state of machine \"%s\"", quoted_state(to),
                                              binding.machine->name)
                                     : errmsg("event \"%s\" does not begin in %s in machine \"%s\"",
                                              text_to_cstring(event), quoted_state(to), binding.machine->name),
                    errdetail("%s is new.%s", describe_row(binding, row),
                              unknown ? psprintf(" The machine has no state %s.", quoted_state(to)) : ""),
                    errhint("Initial states: %s.", open_transitions(*binding.machine, core::no_state))));
}

void raise(const Rejection& rejection) {
    ereport(ERROR, (errcode(rejection.sqlstate), errmsg_internal("%s", rejection.message),
                    errdetail_internal("%s", rejection.detail), errhint("%s", rejection.hint)));
}

Rejection rejected_by_guard(const Binding& binding, TupleTableSlot* row, const text* from, const text* to,
                            const char* guard) {
    return {rejected(sqlstate::guard_rejected, binding.machine->name),
            psprintf("guard %s rejects the transition from %s to %s in machine \"%s\"", guard, quoted_state(from),
                     quoted_state(to), binding.machine->name),
            psprintf("%s: %s(old, new) is not true.", describe_row(binding, row), guard),
            from == nullptr ? "SELECT * FROM pawl.transitions(machine) shows the guards of first states."
                            : hint_of_moves(binding, from)};
}

void reject_delete(const Binding& binding, TupleTableSlot* row, const text* from) {
    ereport(ERROR,
            (errcode(rejected(sqlstate::no_such_transition, binding.machine->name)),
             errmsg("row in state %s cannot be deleted", quoted_state(from)),
             errdetail("%s. Machine \"%s\" is enforced with on_delete => '%s'.", describe_row(binding, row),
                       binding.machine->name, binding.on_delete == OnDelete::deny ? "deny" : "terminal"),
             errhint("%s", binding.on_delete == OnDelete::deny ? "Rows of this table cannot be deleted."
                                                               : "Only rows in a terminal state can be deleted.")));
}

void reject_key_change(const Binding& binding, TupleTableSlot* row) {
    ereport(
        ERROR,
        (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("the key of a row with a log cannot change"),
         errdetail("%s: the row's log entries have this key.", describe_row(binding, row)),
         errhint(
             "Delete the row and insert it with the new key, or enforce with key => the columns that never change.")));
}

Rejection rejected_event(const Binding& binding, TupleTableSlot* row, core::StateId from, const text* event) {
    const BoundMachine& machine = *binding.machine;
    const text* state = from == core::no_state ? nullptr : machine.state_text[from];
    return {rejected(sqlstate::no_such_transition, machine.name),
            psprintf("event \"%s\" is not possible in state %s of machine \"%s\"", text_to_cstring(event),
                     quoted_state(state), machine.name),
            psprintf("%s is in state %s.", describe_row(binding, row), quoted_state(state)),
            hint_of_moves(binding, state)};
}

}  // namespace pawl
