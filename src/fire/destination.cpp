// May ereport; owns nothing. See destination.hpp.
#include "fire/destination.hpp"

namespace pawl {

namespace {

bool fits(const BoundMachine& machine, int arrow, const text* event) {
    const text* named = machine.event_text[arrow];
    return named != nullptr && view(named) == view(event);
}

}  // namespace

Destination look_for_destination(const Target& target, const text* event, const FoundRow& row, const Intent* intent, bool ask_all_guards) {
    Attachment& attachment = *target.attachment;
    const BoundMachine& machine = *attachment.machine;
    Destination found = {core::no_state, core::no_state, nullptr, Bar::none, {}};
    if (row.state == core::no_state) return found;
    core::StateId only = core::no_state;
    bool several = false;
    for (std::int32_t arrow : machine.machine->leaving(row.state)) {
        if (!fits(machine, arrow, event)) continue;
        const core::StateId to = machine.machine->arrows()[arrow].to;
        several |= only != core::no_state && only != to;
        if (only == core::no_state) only = to;
    }
    if (only != core::no_state && !several && !ask_all_guards) {
        found.to = only;
        return found;
    }

    TupleDesc row_type = attachment.root_descriptor;
    const bool owned = attachment.managed != nullptr;
    const Standing standing = owned ? standing_of(attachment, row.slot, acting(intent, {})) : Standing{};
    // Whoever shows an old token learns that he lost the row, wherever it has gone since.
    if (only == core::no_state && owned && standing.claim == Bar::old_token) return {core::no_state, core::no_state, nullptr, Bar::old_token, standing};
    for (std::int32_t arrow : machine.machine->leaving(row.state)) {
        if (!fits(machine, arrow, event)) continue;
        const core::StateId to = machine.machine->arrows()[arrow].to;
        const char* guard = nullptr;
        const Bar bar = owned ? bar_of(attachment, standing, arrow) : Bar::none;
        if (bar == Bar::none && attachment.calls[arrow].nguards == 0) return {to, core::no_state, nullptr, Bar::none, {}};
        if (bar == Bar::none) {
            const RowVersions versions{{row.tuple, row_type, nullptr}, {with_state(target, row.tuple, machine.state_text[to]), row_type, nullptr}};
            if (guards_allow(attachment, arrow, versions, &guard)) return {to, core::no_state, nullptr, Bar::none, {}};
        }
        if (found.guard == nullptr && found.bar == Bar::none) found = {core::no_state, to, guard, bar, standing};
    }
    return found;
}

Rejection rejected_at(const Target& target, const text* event, const FoundRow& row, const Destination& destination) {
    const Attachment& attachment = *target.attachment;
    const BoundMachine& machine = *attachment.machine;
    if (destination.bar != Bar::none)
        return rejected_by(attachment, row.slot, destination.standing, destination.bar,
                           destination.refused == core::no_state ? psprintf("event \"%s\"", text_to_cstring(event))
                                                                 : describe_move(machine.state_text[row.state], machine.state_text[destination.refused]));
    if (destination.guard == nullptr) return rejected_event(attachment, row.slot, row.state, event);
    return rejected_by_guard(attachment, row.slot, machine.state_text[row.state], machine.state_text[destination.refused], destination.guard);
}

core::StateId find_destination(const Target& target, const text* event, const FoundRow& row, const Intent* intent) {
    const Destination destination = look_for_destination(target, event, row, intent, false);
    if (destination.to == core::no_state) raise(rejected_at(target, event, row, destination));
    return destination.to;
}

void no_such_row(const Target& target, const Datum* key) {
    ereport(ERROR, (errcode(ERRCODE_NO_DATA_FOUND), errmsg("%s has no row with key %s", target.table, describe_key(*target.attachment, key)),
                    errdetail("There is none, or row security hides it.")));
}

}  // namespace pawl
