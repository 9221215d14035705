-- Privileges: workers claim and report; operators run, suspend and repair; readers read.

GRANT USAGE ON SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
-- whole rows: imports
GRANT INSERT, UPDATE ON pawl_saga.flows, pawl_saga.runs, pawl_saga.tasks, pawl_saga.retries, pawl_saga.junctions,
    pawl_saga.attempts, pawl_saga.jobs, pawl_saga.signals
    TO pawl_admin;
GRANT INSERT ON pawl_saga.retry_transitions, pawl_saga.retry_transitions_log TO pawl_admin;
-- Functions of the owner write the parts of a flow, and what follows from state changes.
GRANT INSERT (flow_uuid, definition_uuid, name, inputs, defer_reverts, never_resolve, correlation_id, traceparent,
              tracestate), UPDATE (state)
    ON pawl_saga.flows TO pawl_operator, pawl_worker;
GRANT UPDATE (state, worker, lease_until, result, failure, revert_result, revert_failure, progress, progress_details)
    ON pawl_saga.tasks TO pawl_operator, pawl_worker;
GRANT INSERT (flow_uuid, signal_uuid, name, payload) ON pawl_saga.signals TO pawl_operator, pawl_worker;
GRANT INSERT (job_uuid, board, name, priority, flow, inputs, details, max_attempts),
      UPDATE (state, owner, lease_until, flow_uuid, session_lock, due_at, trashed_at, trashed_for)
    ON pawl_saga.jobs TO pawl_operator, pawl_worker;
-- operators alter the definition of a flow, and set priority and attempts of jobs
GRANT UPDATE (definition_uuid) ON pawl_saga.flows TO pawl_operator;
GRANT UPDATE (priority, max_attempts) ON pawl_saga.jobs TO pawl_operator;
-- pawl_saga.time_out_tasks sets flows aside with the rights of its caller
GRANT INSERT (flow_uuid, duty, due_at, sqlstate, message), UPDATE (duty, attempts, due_at, sqlstate, message), DELETE
    ON pawl_saga.set_aside TO pawl_admin, pawl_operator;
-- an INSERT into a log is a request for a state change, made with the caller's rights on
-- the row; states of retries follow from atoms
GRANT INSERT ON pawl_saga.flow_transitions, pawl_saga.task_transitions, pawl_saga.job_transitions,
    pawl_saga.flow_transitions_log, pawl_saga.task_transitions_log, pawl_saga.job_transitions_log
    TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT, DELETE ON pawl_saga.definitions, pawl_saga.nodes, pawl_saga.edges, pawl_saga.votes,
    pawl_saga.parameters TO pawl_admin;
