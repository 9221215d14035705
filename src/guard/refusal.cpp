// May ereport; owns nothing. See refusal.hpp.
#include "guard/refusal.hpp"

#include "session/observer.hpp"
#include "pg/sqlstate.hpp"

namespace pawl {

namespace {

constexpr int moves_named = 12;  // in a hint; a machine may have thousands

void append_arrow(StringInfo out, const BoundMachine& machine, int arrow) {
    const core::Arrow& drawn = machine.machine->arrows()[arrow];
    if (out->len > 0) appendStringInfoString(out, ", ");
    appendStringInfo(out, "\"%s\"", machine.machine->states()[drawn.to].name.c_str());
    if (!drawn.event.empty()) appendStringInfo(out, " (%s)", drawn.event.c_str());
}

// The moves that are open from a state, as `"paid" (pay), "cancelled" (cancel)`; empty when there are none.
char* open_moves(const BoundMachine& machine, core::StateId from) {
    StringInfoData moves;
    initStringInfo(&moves);
    int n = 0;
    for (std::int32_t arrow : machine.machine->leaving(from)) {
        if (n++ == moves_named) {
            appendStringInfoString(&moves, ", ...");
            break;
        }
        append_arrow(&moves, machine, arrow);
    }
    return moves.data;
}

core::StateId state_of(const Attachment& attachment, const text* name) {
    return name == nullptr ? core::no_state : attachment.machine->machine->find(view(name));
}

char* hint_of_moves(const Attachment& attachment, const text* from) {
    core::StateId state = state_of(attachment, from);
    if (state == core::no_state)
        return psprintf("The machine has no state %s: pawl.verify lists such rows, and pawl.upgrade to a next version takes them along with remap.", quoted_state(from));
    char* moves = open_moves(*attachment.machine, state);
    if (*moves == '\0') return psprintf("No arrow leaves %s.", quoted_state(from));
    return psprintf("From %s the machine allows: %s.", quoted_state(from), moves);
}

// PostgreSQL's own errors show nobody a value that he may not select, and no row at all under row security; nor does ours. The table may
// have been reached by its own name or by that of its root.
bool may_see_key(const Attachment& attachment, Oid member) {
    if (check_enable_rls(attachment.root, InvalidOid, true) == RLS_ENABLED) return false;
    for (int i = 0; i < attachment.nkeys; ++i) {
        bool seen = false;
        for (Oid relation : {attachment.root, member}) {
            const AttrNumber column = OidIsValid(relation) ? get_attnum(relation, NameStr(attachment.keys[i].name)) : InvalidAttrNumber;
            seen |= column != InvalidAttrNumber && pg::may_select(relation, column, GetUserId());
        }
        if (!seen) return false;
    }
    return true;
}

}  // namespace

const char* describe_subject(const Attachment& attachment, TupleTableSlot* row) {
    const char* table = quote_qualified_identifier(get_namespace_name(get_rel_namespace(attachment.root)), get_rel_name(attachment.root));
    if (attachment.nkeys == 0) return psprintf("Row of %s", table);
    if (!may_see_key(attachment, row->tts_tableOid)) return psprintf("A row of %s", table);
    StringInfoData names, values;
    initStringInfo(&names);
    initStringInfo(&values);
    for (int i = 0; i < attachment.nkeys; ++i) {
        const KeyColumn& key = attachment.keys[i];
        bool null, varlena;
        Oid output;
        Datum value = slot_getattr(row, key.attribute, &null);
        getTypeOutputInfo(key.type, &output, &varlena);
        appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", NameStr(key.name));
        appendStringInfo(&values, "%s%s", i > 0 ? ", " : "", null ? "null" : OidOutputFunctionCall(output, value));
    }
    return psprintf("Row (%s)=(%s) of %s", names.data, values.data, table);
}

void refuse_transition(const Attachment& attachment, TupleTableSlot* row, const text* from, const text* to, const text* event) {
    const bool unknown = state_of(attachment, to) == core::no_state;
    ereport(ERROR,
            (errcode(rejected(sqlstate::no_such_transition, attachment.machine->name)),
             event == nullptr
                 ? errmsg("no transition from %s to %s in machine \"%s\"", quoted_state(from), quoted_state(to), attachment.machine->name)
                 : errmsg("event \"%s\" does not lead from %s to %s in machine \"%s\"", text_to_cstring(event), quoted_state(from), quoted_state(to),
                          attachment.machine->name),
             errdetail("%s is in state %s.%s", describe_subject(attachment, row), quoted_state(from),
                       unknown ? psprintf(" The machine has no state %s.", quoted_state(to)) : ""),
             errhint("%s", hint_of_moves(attachment, from))));
}

void refuse_first_state(const Attachment& attachment, TupleTableSlot* row, const text* to, const text* event) {
    const bool unknown = state_of(attachment, to) == core::no_state;
    ereport(ERROR, (errcode(rejected(sqlstate::not_an_initial_state, attachment.machine->name)),
                    event == nullptr ? errmsg("%s is not an initial state of machine \"%s\"", quoted_state(to), attachment.machine->name)
                                     : errmsg("event \"%s\" does not begin in %s in machine \"%s\"", text_to_cstring(event), quoted_state(to),
                                              attachment.machine->name),
                    errdetail("%s is new.%s", describe_subject(attachment, row),
                              unknown ? psprintf(" The machine has no state %s.", quoted_state(to)) : ""),
                    errhint("A row begins in: %s.", open_moves(*attachment.machine, core::no_state))));
}

void raise(const Rejection& rejection) {
    ereport(ERROR, (errcode(rejection.sqlstate), errmsg_internal("%s", rejection.message), errdetail_internal("%s", rejection.detail),
                    errhint("%s", rejection.hint)));
}

Rejection rejected_by_guard(const Attachment& attachment, TupleTableSlot* row, const text* from, const text* to, const char* guard) {
    return {rejected(sqlstate::guard_refused, attachment.machine->name),
            psprintf("guard %s refuses the transition from %s to %s in machine \"%s\"", guard, quoted_state(from), quoted_state(to), attachment.machine->name),
            psprintf("%s: %s(old, new) is not true.", describe_subject(attachment, row), guard),
            from == nullptr ? "SELECT * FROM pawl.transitions(machine) shows the guards of first states." : hint_of_moves(attachment, from)};
}

void refuse_delete(const Attachment& attachment, TupleTableSlot* row, const text* from) {
    ereport(ERROR, (errcode(rejected(sqlstate::no_such_transition, attachment.machine->name)),
                    errmsg("row in state %s may not be deleted", quoted_state(from)),
                    errdetail("%s. Its lifecycle \"%s\" was attached with on_delete => '%s'.", describe_subject(attachment, row),
                              attachment.machine->name, attachment.on_delete == OnDelete::deny ? "deny" : "terminal"),
                    errhint("%s", attachment.on_delete == OnDelete::deny ? "Rows of this table stay."
                                                                         : "Rows may be deleted in a terminal state.")));
}

void refuse_key_change(const Attachment& attachment, TupleTableSlot* row) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("the key of a row with history cannot change"),
                    errdetail("%s: its log is kept under this key.", describe_subject(attachment, row)),
                    errhint("Delete the row and insert it under the new key, or attach with key => the columns that never change.")));
}

Rejection rejected_event(const Attachment& attachment, TupleTableSlot* row, core::StateId from, const text* event) {
    const BoundMachine& machine = *attachment.machine;
    const text* state = from == core::no_state ? nullptr : machine.state_text[from];
    return {rejected(sqlstate::no_such_transition, machine.name),
            psprintf("event \"%s\" is not possible in state %s of machine \"%s\"", text_to_cstring(event), quoted_state(state), machine.name),
            psprintf("%s is in state %s.", describe_subject(attachment, row), quoted_state(state)), hint_of_moves(attachment, state)};
}

}  // namespace pawl
