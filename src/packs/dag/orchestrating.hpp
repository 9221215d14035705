// May throw. Whether an orchestrator, or a start of tasks, runs in this session.
#pragma once

namespace pawl::dag {

// For trigger functions: whether the statement that fired the trigger is an orchestrator's, or of a start of tasks.
bool is_orchestrated();

// Whether an orchestrator or a start of tasks runs these statements, and no trigger does.
bool is_at_work();

// The rest of what the running function does is none of an orchestrator's.
void stop_orchestrating() noexcept;

}  // namespace pawl::dag
