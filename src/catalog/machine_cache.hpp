// May throw and may ereport. Compiled machines as a backend keeps them: read once from the catalog, shared by every
// table.
#pragma once

#include "core/machine.hpp"
#include "pg/arguments.hpp"

namespace pawl {

// A compiled machine with its names ready as PostgreSQL texts. Lives until the end of the transaction that finds it
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

// The machine of this name and version. Throws PW008 when there is none.
BoundMachine* find_machine(const char* name, int version);

// Called when pawl.machine has changed: versions are immutable, but may be dropped and restored.
void forget_machines() noexcept;

// At the end of a transaction: frees what was found stale during it.
void free_stale_machines() noexcept;

using pg::make_text;
using pg::view;

}  // namespace pawl
