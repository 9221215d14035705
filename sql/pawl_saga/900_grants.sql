-- Who may do what: workers claim and report, operators run, suspend and put right, readers look.

GRANT USAGE ON SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT ON pawl_saga.flows, pawl_saga.runs, pawl_saga.tasks, pawl_saga.retries, pawl_saga.junctions, pawl_saga.attempts,
    pawl_saga.jobs, pawl_saga.signals TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE ON pawl_saga.flows, pawl_saga.runs, pawl_saga.tasks, pawl_saga.retries, pawl_saga.junctions, pawl_saga.attempts,
    pawl_saga.jobs, pawl_saga.signals TO pawl_admin, pawl_operator;
-- a worker moves flows, but does not say what they consist of
GRANT UPDATE (state, inputs, run, undoing, broken, problem, entered_at) ON pawl_saga.flows TO pawl_worker;
GRANT INSERT ON pawl_saga.flow_transitions, pawl_saga.task_transitions, pawl_saga.retry_transitions, pawl_saga.job_transitions TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT, DELETE ON pawl_saga.definitions, pawl_saga.nodes, pawl_saga.edges, pawl_saga.votes, pawl_saga.parameters TO pawl_admin;
-- A worker updates columns, not tables: UPDATE of a table is the right to lock it, too.
GRANT UPDATE (state, ended_at) ON pawl_saga.runs TO pawl_worker;
GRANT UPDATE (state, intention, blockers, priority, queue, execute, revert, timeout, revert_timeout, signal, wait,
              traceparent, tracestate, worker, lease_until, fence, due_at, result, failure, revert_result,
              revert_failure, progress, progress_details, started_at, timeout_at, wait_until, dropped, losses,
              max_losses) ON pawl_saga.tasks TO pawl_worker;
GRANT UPDATE (state, intention, blockers, controller, traceparent, tracestate, due_at, value, failure,
              revert_failure, dropped) ON pawl_saga.retries TO pawl_worker;
GRANT UPDATE (blockers, backward) ON pawl_saga.junctions TO pawl_worker;
GRANT UPDATE (value, failures, closed_at) ON pawl_saga.attempts TO pawl_worker;
GRANT UPDATE (payload, taken_at, taken_by) ON pawl_saga.signals TO pawl_worker;
GRANT UPDATE (board, name, state, priority, flow, inputs, details, flow_uuid, owner, lease_until, fence, attempts,
              max_attempts, due_at, session_lock, trashed_at, trashed_for, modified_at)
    ON pawl_saga.jobs TO pawl_worker;
