// May throw and may ereport. The backend's cache of compiled machines: read once from the catalog, shared by all
// tables.
#pragma once

#include "core/machine.hpp"
#include "pg/arguments.hpp"

namespace pawl {

// A compiled machine with its names as PostgreSQL texts. Valid until the end of the transaction in which it becomes
// stale.
struct BoundMachine {
    const char* name;
    int version;
    const core::Machine* machine;
    text** state_text;  // by StateId
    text** event_text;  // by transition; null where the transition has no name
    bool stale;
    MemoryContext context;
    BoundMachine* next;
};

// Finds or reads the machine of this name and version. Throws PW008 if there is none.
BoundMachine* find_machine(const char* name, int version);

// Marks all machines stale, after a change of pawl.machine: versions are immutable, but may be dropped and restored.
void forget_machines() noexcept;

// Frees stale machines; called at the end of a transaction.
void free_stale_machines() noexcept;

using pg::make_text;
using pg::view;

}  // namespace pawl
