// Does not throw and does not ereport; owns nothing. The statements that are being executed, one within another:
// maintained by hooks.cpp, which has them on its stack.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

struct RunningStatement {
    RunningStatement* outer;
    CommandId command;    // of the rows that it writes; invalid: it writes none
    CommandId inherited;  // the first of foreign keys' queries whose AFTER triggers fire with its own; invalid: none
};

inline RunningStatement* running_statement = nullptr;  // the innermost one; null: none

// The command of the rows that a query writes; invalid: it writes none.
inline CommandId command_of(const QueryDesc* query) noexcept {
    const bool writes = query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE;
    return writes ? query->estate->es_output_cid : InvalidCommandId;
}

// The same of the innermost running statement.
inline CommandId running_command() noexcept {
    return running_statement == nullptr ? InvalidCommandId : running_statement->command;
}

// The query of a foreign key has ended, and leaves its AFTER triggers to the statement around it.
inline void inherit_triggers(CommandId command) noexcept {
    if (running_statement == nullptr || command == InvalidCommandId) return;
    running_statement->inherited = Min(running_statement->inherited, command);
}

// Whether AFTER triggers of the command that wrote a row may still have to fire.
inline bool has_triggers_to_fire(CommandId command) noexcept {
    if (command == InvalidCommandId) return false;
    for (const RunningStatement* each = running_statement; each != nullptr; each = each->outer)
        if (command == each->command || command >= each->inherited) return true;
    return false;
}

}  // namespace pawl
