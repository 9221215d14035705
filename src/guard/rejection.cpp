// May ereport; owns nothing. See rejection.hpp.
#include "guard/rejection.hpp"

#include "pg/error_context.hpp"
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

// Lists the transitions that leave a state and are offered, as `"paid" (pay), "cancelled" (cancel)`; empty if there are
// none.
template <typename Offered>
char* open_transitions(const BoundMachine& machine, core::StateId from, Offered offered) {
    StringInfoData moves;
    initStringInfo(&moves);
    int n = 0;
    for (std::int32_t transition : machine.machine->leaving(from)) {
        if (!offered(transition)) continue;
        if (n++ == max_open_transitions) {
            appendStringInfoString(&moves, ", ...");
            break;
        }
        append_transition(&moves, machine, transition);
    }
    return moves.data;
}

char* open_transitions(const BoundMachine& machine, core::StateId from) {
    return open_transitions(machine, from, [](int) { return true; });
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

bool is_guarded_by(const Binding& binding, int transition, const char* guard) {
    const TransitionCalls& calls = binding.calls[transition];
    for (int i = 0; i < calls.nguards; ++i)
        if (std::strcmp(calls.guards[i].name, guard) == 0) return true;
    return false;
}

// What a guard has just rejected is not offered again.
char* hint_beside_guard(const Binding& binding, const text* from, const text* to, const char* guard) {
    const core::StateId rejected_target = state_of(binding, to);
    const char* moves = open_transitions(*binding.machine, state_of(binding, from), [&](int transition) {
        return binding.machine->machine->transitions()[transition].to != rejected_target ||
               !is_guarded_by(binding, transition, guard);
    });
    if (*moves == '\0') return psprintf("No other transition leaves %s.", quoted_state(from));
    return psprintf("From %s the machine also allows: %s.", quoted_state(from), moves);
}

// The codes that say what the machine does not allow; the others are about owners, leases and calls.
bool is_of_machine(int code) {
    return code == sqlstate::no_such_transition || code == sqlstate::not_an_initial_state ||
           code == sqlstate::guard_rejected;
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
    raise(binding, rejected_transition(binding, row, from, to, event));
}

// A sentence: that the row is new, or in a state which the machine does not have.
const char* describe_entry(const Binding& binding, TupleTableSlot* row, bool is_new) {
    const char* subject = describe_row(binding, row);
    if (is_new) return psprintf("%s is new.", subject);
    bool null;
    const Datum value = slot_getattr(row, binding.state, &null);
    return psprintf("%s is in state %s, which the machine does not have.", subject,
                    quoted_state(state_as_text(binding, value, null)));
}

void reject_initial_state(const Binding& binding, TupleTableSlot* row, const text* to, const text* event, bool is_new) {
    const bool unknown = state_of(binding, to) == core::no_state;
    raise(binding, {rejected(sqlstate::not_an_initial_state, binding.machine->name),
                    event == nullptr ? psprintf("%s is not an initial state of machine \"%s\"", quoted_state(to),
                                                binding.machine->name)
                                     : psprintf("event \"%s\" does not begin in %s in machine \"%s\"",
                                                text_to_cstring(event), quoted_state(to), binding.machine->name),
                    psprintf("%s%s", describe_entry(binding, row, is_new),
                             unknown ? psprintf(" The machine has no state %s.", quoted_state(to)) : ""),
                    psprintf("Initial states: %s.", open_transitions(*binding.machine, core::no_state))});
}

pg::Place place_of(const Binding& binding) {
    return {binding.root, NameStr(binding.column), binding.machine->name};
}

void raise(const Binding& binding, const Rejection& rejection) {
    const bool violates_check = binding.checks && is_of_machine(rejection.sqlstate);
    pg::Place place = place_of(binding);
    const char* detail = rejection.detail;
    if (violates_check) {
        detail = psprintf("%s: %s", unpack_sql_state(rejection.sqlstate), detail);
        place.constraint = makeObjectName(get_rel_name(binding.root), NameStr(binding.column), "machine");
    }
    error_context_stack = pg::without_own_frames(error_context_stack);
    ereport(ERROR, (errcode(violates_check ? ERRCODE_CHECK_VIOLATION : rejection.sqlstate),
                    errmsg_internal("%s", rejection.message), errdetail_internal("%s", detail),
                    errhint("%s", rejection.hint), pg::report_place(place)));
}

Rejection rejected_by_guard(const Binding& binding, TupleTableSlot* row, const text* from, const text* to,
                            const char* guard) {
    return {rejected(sqlstate::guard_rejected, binding.machine->name),
            psprintf("guard %s rejects the transition from %s to %s in machine \"%s\"", guard, quoted_state(from),
                     quoted_state(to), binding.machine->name),
            psprintf("%s: %s(old, new) is not true.", describe_row(binding, row), guard),
            from == nullptr ? "SELECT * FROM pawl.transitions(machine) shows the guards of first states."
                            : hint_beside_guard(binding, from, to, guard)};
}

const char* hint_without_attempt(const Binding& binding, const text* from) {
    const char* moves = open_transitions(*binding.machine, state_of(binding, from), [&](int transition) {
        return (binding.managed->roles[transition] & role_retries) == 0;
    });
    if (*moves == '\0')
        return psprintf(
            "No transition from %s needs no attempt: define one into a terminal state, or raise the maximum number "
            "of attempts.",
            quoted_state(from));
    return psprintf("Without an attempt left, the machine allows from %s: %s. Or raise the maximum number of attempts.",
                    quoted_state(from), moves);
}

void reject_delete(const Binding& binding, TupleTableSlot* row, const text* from) {
    const bool never = binding.on_delete == OnDelete::deny;
    raise(binding, {rejected(sqlstate::no_such_transition, binding.machine->name),
                    psprintf("row in state %s cannot be deleted", quoted_state(from)),
                    psprintf("%s. Machine \"%s\" is enforced with on_delete => '%s'.", describe_row(binding, row),
                             binding.machine->name, never ? "deny" : "terminal"),
                    never ? "Rows of this table cannot be deleted." : "Only rows in a terminal state can be deleted."});
}

void reject_key_change(const Binding& binding, TupleTableSlot* row) {
    if (!is_recorded(binding))
        raise(binding,
              {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the key of a row that is not validated cannot change",
               psprintf("%s is in a state that machine \"%s\" does not have.", describe_row(binding, row),
                        binding.machine->name),
               "Change its state first: into an initial one."});
    raise(binding,
          {ERRCODE_FEATURE_NOT_SUPPORTED, "the key of a row with a log cannot change",
           psprintf("%s: the row's log entries have this key.", describe_row(binding, row)),
           "Delete the row and insert it with the new key, or enforce with key => the columns that never change."});
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
