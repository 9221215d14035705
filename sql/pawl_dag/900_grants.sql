-- Who may do what: workers claim and report, operators do what operators do, readers look.

GRANT USAGE ON SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT ON pawl_dag.tasks, pawl_dag.steps, pawl_dag.edges TO pawl_admin, pawl_operator, pawl_worker;
-- What a task or step is, and whose function runs it, is said once; everything that happens to it is updated by whoever makes it happen.
-- Workers drive tasks, so they write what follows from state changes; triggers reject a plain UPDATE of these (105_by_hand.sql).
GRANT UPDATE (state, processor_uuid, lease_until, fence, steps_total, steps_blocked, steps_ready, steps_in_flight, steps_waiting,
              steps_failed, steps_satisfied, steps_cancelled, evaluate, entered_at)
    ON pawl_dag.tasks TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (priority, error, deadline_at, stale_after, watch_at) ON pawl_dag.tasks TO pawl_admin, pawl_operator;
GRANT UPDATE (state, level, total_parents, unsatisfied_parents, permanent, backoff_request, worker_uuid, lease_until, fence, next_retry_at, result, error)
    ON pawl_dag.steps TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (priority, attempts, optional, retryable, max_attempts, backoff, timeout) ON pawl_dag.steps TO pawl_admin, pawl_operator;
GRANT INSERT ON pawl_dag.task_transitions, pawl_dag.step_transitions, pawl_dag.task_transitions_log, pawl_dag.step_transitions_log TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT, UPDATE (resolution_status, resolution_timestamp, resolution_notes, resolved_by, metadata) ON pawl_dag.dlq TO pawl_admin, pawl_operator;
GRANT INSERT, DELETE ON pawl_dag.namespaces, pawl_dag.templates, pawl_dag.template_steps, pawl_dag.template_edges TO pawl_admin;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl_dag FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_dag.define_template(jsonb) FROM pawl_operator, pawl_worker, pawl_reader;
-- Operators' own; the events that they fire ask for the role, too.
REVOKE EXECUTE ON FUNCTION pawl_dag.cancel_tasks(uuid[], text), pawl_dag.cancel_task(uuid, text), pawl_dag.resolve_task(uuid, text), pawl_dag.give_up(uuid, text),
    pawl_dag.reset_task(uuid, text), pawl_dag.retry_task(uuid, text), pawl_dag.requeue(uuid, text), pawl_dag.cancel_step(uuid, uuid, text, text),
    pawl_dag.resolve_step(uuid, uuid, text), pawl_dag.reset_step(uuid, uuid, text), pawl_dag.complete_step_manually(uuid, uuid, jsonb, text),
    pawl_dag.time_out_tasks(integer) FROM pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_dag.claim(text, text, integer, interval, integer, text[]), pawl_dag.report(jsonb, text), pawl_dag.orchestrate(integer), pawl_dag.run_sql_steps(integer),
    pawl_dag.start_task(text, jsonb, text, text, integer, text, uuid, uuid),
    pawl_dag.start_tasks(text, jsonb[], text, text, integer, text[], uuid, uuid) FROM pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_dag.run_sql_steps(integer) FROM pawl_worker;
REVOKE EXECUTE ON FUNCTION pawl_dag._bury(uuid, text, jsonb), pawl_dag._trouble(uuid, text, text), pawl_dag._out_of_trouble() FROM pawl_reader;
REVOKE ALL ON PROCEDURE pawl_dag.work_sql_steps(integer, interval, integer) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE pawl_dag.work_sql_steps(integer, interval, integer) TO pawl_admin, pawl_operator;
-- One turn of the orchestrator leaves the follow-ups of its statements to itself: nobody takes it but by pawl_dag._take_turn.
REVOKE EXECUTE ON FUNCTION pawl_dag._turn(integer) FROM pawl_admin, pawl_operator, pawl_worker, pawl_reader;
