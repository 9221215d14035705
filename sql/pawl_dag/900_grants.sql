-- Who may do what: workers claim and report, operators do what operators do, readers look.

GRANT USAGE ON SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT ON pawl_dag.tasks, pawl_dag.steps, pawl_dag.edges TO pawl_admin, pawl_operator, pawl_worker;
-- What a task or step is, and whose function runs it, is said once; everything that happens to it is updated by whoever makes it happen.
GRANT UPDATE (state, priority, rank, processor_uuid, lease_until, fence, steps_total, steps_blocked, steps_ready, steps_in_flight, steps_waiting,
              steps_failed, steps_satisfied, steps_cancelled, evaluate, error, deadline_at, entered_at, stale_after, watch_at, completed_at)
    ON pawl_dag.tasks TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (state, priority, rank, level, total_parents, unsatisfied_parents, permanent, backoff_request, worker_uuid, lease_until, fence, attempts,
              next_retry_at, result, error, last_attempted_at, last_failure_at)
    ON pawl_dag.steps TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (optional, retryable, max_attempts, backoff, timeout) ON pawl_dag.steps TO pawl_admin, pawl_operator;
GRANT INSERT ON pawl_dag.task_transitions, pawl_dag.step_transitions, pawl_dag.task_transitions_log, pawl_dag.step_transitions_log TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT ON pawl_dag.dlq TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE ON pawl_dag.dlq TO pawl_admin, pawl_operator;
GRANT INSERT, DELETE ON pawl_dag.namespaces, pawl_dag.templates, pawl_dag.template_steps, pawl_dag.template_edges TO pawl_admin;
-- A worker updates columns, not tables: UPDATE of a table is the right to lock it, too.
GRANT UPDATE (original_state, reason, dlq_timestamp, resolution_status, resolution_timestamp, resolution_notes,
              resolved_by, task_snapshot, metadata) ON pawl_dag.dlq TO pawl_worker;
