// May ereport; owns nothing. See destination.hpp.
#include "fire/destination.hpp"

namespace pawl {

namespace {

bool fits(const BoundMachine& machine, int transition, const text* event) {
    const text* named = machine.event_text[transition];
    return named != nullptr && view(named) == view(event);
}

}  // namespace

Destination look_for_destination(const Target& target, const text* event, const FoundRow& row, const Intent* intent,
                                 bool ask_all_guards) {
    Binding& binding = *target.binding;
    const BoundMachine& machine = *binding.machine;
    Destination found = {core::no_state, core::no_state, nullptr, OwnershipFault::none, {}};
    if (row.state == core::no_state) return found;
    core::StateId only = core::no_state;
    bool several = false;
    for (std::int32_t transition : machine.machine->leaving(row.state)) {
        if (!fits(machine, transition, event)) continue;
        const core::StateId to = machine.machine->transitions()[transition].to;
        several |= only != core::no_state && only != to;
        if (only == core::no_state) only = to;
    }
    if (only != core::no_state && !several && !ask_all_guards) {
        found.to = only;
        return found;
    }

    TupleDesc row_type = binding.row_descriptor;
    TupleConversionMap* to_root = binding.to_root;
    const bool owned = binding.managed != nullptr;
    const Ownership ownership = owned ? ownership_of(binding, row.slot, acting(intent, {})) : Ownership{};
    // A stale token is reported first, whatever state the row has reached since.
    if (only == core::no_state && owned && ownership.claim == OwnershipFault::stale_token)
        return {core::no_state, core::no_state, nullptr, OwnershipFault::stale_token, ownership};
    for (std::int32_t transition : machine.machine->leaving(row.state)) {
        if (!fits(machine, transition, event)) continue;
        const core::StateId to = machine.machine->transitions()[transition].to;
        const char* guard = nullptr;
        const OwnershipFault fault = owned ? ownership_fault(binding, ownership, transition) : OwnershipFault::none;
        if (fault == OwnershipFault::none && binding.calls[transition].nguards == 0)
            return {to, core::no_state, nullptr, OwnershipFault::none, {}};
        if (fault == OwnershipFault::none) {
            const RowVersions versions{{row.tuple, row_type, to_root},
                                       {with_state(target, row.tuple, machine.state_text[to]), row_type, to_root}};
            if (guards_allow(binding, transition, versions, &guard))
                return {to, core::no_state, nullptr, OwnershipFault::none, {}};
        }
        if (found.guard == nullptr && found.fault == OwnershipFault::none)
            found = {core::no_state, to, guard, fault, ownership};
    }
    return found;
}

Rejection rejected_at(const Target& target, const text* event, const FoundRow& row, const Destination& destination) {
    const Binding& binding = *target.binding;
    const BoundMachine& machine = *binding.machine;
    if (destination.fault != OwnershipFault::none)
        return ownership_rejection(
            binding, row.slot, destination.ownership, destination.fault,
            destination.rejected == core::no_state
                ? psprintf("event \"%s\"", text_to_cstring(event))
                : describe_move(machine.state_text[row.state], machine.state_text[destination.rejected]));
    if (destination.guard == nullptr) return rejected_event(binding, row.slot, row.state, event);
    return rejected_by_guard(binding, row.slot, machine.state_text[row.state], machine.state_text[destination.rejected],
                             destination.guard);
}

core::StateId find_destination(const Target& target, const text* event, const FoundRow& row, const Intent* intent) {
    const Destination destination = look_for_destination(target, event, row, intent, false);
    if (destination.to == core::no_state) raise(*target.binding, rejected_at(target, event, row, destination));
    return destination.to;
}

void no_such_row(const Target& target, const Datum* key) {
    ereport(ERROR, (errcode(ERRCODE_NO_DATA_FOUND),
                    errmsg("%s has no row with key %s", target.table, describe_key(*target.binding, key)),
                    errdetail("The row does not exist, or row-level security hides it."),
                    pg::report_place({target.binding->root, nullptr, nullptr})));
}

}  // namespace pawl
