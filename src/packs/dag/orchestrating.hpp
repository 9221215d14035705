// May throw. Whether an orchestrator, or a start of tasks, runs in this session.
#pragma once

namespace pawl::dag {

// For trigger functions: whether the statement that fired the trigger is an orchestrator's, or of a start of tasks.
bool is_orchestrated();

}  // namespace pawl::dag
