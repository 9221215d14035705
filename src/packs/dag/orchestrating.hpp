// May throw. Whether an orchestrator, or a start of tasks, runs in this session.
#pragma once

namespace pawl::dag {

// For trigger functions: whether the statement that fired the trigger is an orchestrator's, or of a start of tasks.
bool is_orchestrated();

// Whether an orchestrator or a start of tasks runs these statements, and no trigger does.
bool is_at_work();

// The rest of what the running function does is none of an orchestrator's.
void stop_orchestrating() noexcept;

// Tasks have something to do that this transaction leaves to others. When it commits it wakes the sessions that wait
// for steps, because workers move tasks on as they claim, and those that wait for events, as pawld does. Ereports.
void leave_to_others();

}  // namespace pawl::dag
