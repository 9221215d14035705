-- Privileges: workers claim and report, operators operate, readers read.

GRANT USAGE ON SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
-- An INSERT names what a row is; its state, owner, attempts, result and times have their defaults.
GRANT INSERT (task_uuid, template_uuid, namespace, name, version, priority, rank, context, identity_key, correlation_id,
              parent_correlation_id, traceparent, tracestate, failure_policy, steps_total, steps_ready, steps_blocked,
              deadline_at, stale_after)
    ON pawl_dag.tasks TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT (task_uuid, step_uuid, name, namespace, priority, rank, handler, handler_options, map_of, map_index, level,
              total_parents, unsatisfied_parents, optional, retryable, max_attempts, backoff, timeout, traceparent,
              tracestate)
    ON pawl_dag.steps TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT ON pawl_dag.edges TO pawl_admin, pawl_operator, pawl_worker;
-- What a task or step is, and which function runs it, is set once; everything else is updated by the session that
-- changes it. Workers drive tasks, so they write what follows from state changes;
-- triggers reject a plain UPDATE of these (by_sql.sql).
GRANT UPDATE (state, processor_uuid, lease_until, token, steps_total, steps_blocked, steps_ready, steps_in_flight,
    steps_waiting, steps_failed, steps_satisfied, steps_cancelled, evaluate, entered_at)
    ON pawl_dag.tasks TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (priority, error, deadline_at, stale_after, watch_at) ON pawl_dag.tasks TO pawl_admin, pawl_operator;
GRANT UPDATE (state, level, total_parents, unsatisfied_parents, permanent, backoff_request, worker_uuid, lease_until,
    token, next_retry_at, result, error)
    ON pawl_dag.steps TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (priority, attempts, optional, retryable, max_attempts, backoff, timeout) ON pawl_dag.steps TO pawl_admin,
    pawl_operator;
GRANT INSERT ON pawl_dag.task_transitions, pawl_dag.step_transitions, pawl_dag.task_transitions_log,
    pawl_dag.step_transitions_log TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT (task_uuid, original_state, reason, task_snapshot, metadata),
      UPDATE (resolution_status, resolution_timestamp, resolution_notes, resolved_by, metadata)
    ON pawl_dag.dlq TO pawl_admin, pawl_operator;
GRANT INSERT, DELETE ON pawl_dag.namespaces, pawl_dag.templates, pawl_dag.template_steps,
    pawl_dag.template_edges TO pawl_admin;
