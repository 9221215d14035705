// May ereport; owns nothing. See destination.hpp.
#include "destination.hpp"

#include "refusal.hpp"

namespace pawl {

namespace {

bool fits(const BoundMachine& machine, int arrow, const text* event) {
    const text* named = machine.event_text[arrow];
    return named != nullptr && view(named) == view(event);
}

}  // namespace

Destination choose_destination(const Target& target, const text* event, const FoundRow& row) {
    Attachment& attachment = *target.attachment;
    const BoundMachine& machine = *attachment.machine;
    Destination destination = {core::no_state, core::no_state, nullptr};
    bool several = false;
    for (std::int32_t arrow : machine.machine->leaving(row.state)) {
        if (row.state == core::no_state || !fits(machine, arrow, event)) continue;
        const core::StateId to = machine.machine->arrows()[arrow].to;
        several |= destination.first != core::no_state && destination.first != to;
        if (destination.first == core::no_state) destination.first = to;
    }
    if (!several) {
        destination.to = destination.first;  // its guards are asked when the row moves
        return destination;
    }
    TupleDesc row_type = attachment.root_descriptor;
    for (std::int32_t arrow : machine.machine->leaving(row.state)) {
        if (!fits(machine, arrow, event)) continue;
        const core::StateId to = machine.machine->arrows()[arrow].to;
        const char* guard = nullptr;
        const RowVersions versions{{row.tuple, row_type, nullptr}, {with_state(target, row.tuple, machine.state_text[to]), row_type, nullptr}};
        if (guards_allow(attachment, arrow, versions, &guard)) {
            destination.to = to;
            return destination;
        }
        if (destination.refused_by == nullptr) destination.refused_by = guard;
    }
    return destination;
}

void refuse_destination(const Target& target, const text* event, const FoundRow& row, const Destination& destination) {
    Attachment& attachment = *target.attachment;
    const BoundMachine& machine = *attachment.machine;
    if (destination.first == core::no_state) refuse_event(attachment, row.slot, row.state, event);
    refuse_by_guard(attachment, row.slot, machine.state_text[row.state], machine.state_text[destination.first], destination.refused_by);
}

core::StateId find_destination(const Target& target, const text* event, const FoundRow& row) {
    const Destination destination = choose_destination(target, event, row);
    if (destination.to == core::no_state) refuse_destination(target, event, row, destination);
    return destination.to;
}

char* describe_key(const Attachment& attachment, const Datum* key) {
    StringInfoData out;
    initStringInfo(&out);
    for (int i = 0; i < attachment.nkeys; ++i) appendStringInfo(&out, "%s%s", i > 0 ? ", " : "", key_text(attachment, i, key[i]));
    return attachment.nkeys == 1 ? out.data : psprintf("(%s)", out.data);
}

void no_such_row(const Target& target, const Datum* key) {
    ereport(ERROR, (errcode(ERRCODE_NO_DATA_FOUND), errmsg("%s has no row with key %s", target.table, describe_key(*target.attachment, key)),
                    errdetail("There is none, or row security hides it.")));
}

}  // namespace pawl
