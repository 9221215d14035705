-- Who may do what: workers claim and report, operators do what operators do, readers look.

GRANT USAGE ON SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT, UPDATE ON pawl_dag.tasks, pawl_dag.steps, pawl_dag.edges TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT ON pawl_dag.task_transitions, pawl_dag.step_transitions TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT, UPDATE ON pawl_dag.dlq TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT, DELETE ON pawl_dag.namespaces, pawl_dag.templates, pawl_dag.template_steps, pawl_dag.template_edges TO pawl_admin;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl_dag FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_dag.define_template(jsonb) FROM pawl_operator, pawl_worker, pawl_reader;
-- Operators' own; the events that they fire ask for the role, too.
REVOKE EXECUTE ON FUNCTION pawl_dag.cancel_tasks(uuid[], text), pawl_dag.cancel_task(uuid, text), pawl_dag.resolve_task(uuid, text), pawl_dag.give_up(uuid, text),
    pawl_dag.reset_task(uuid, text), pawl_dag.retry_task(uuid, text), pawl_dag.requeue(uuid, text), pawl_dag.cancel_step(uuid, uuid, text, text),
    pawl_dag.resolve_step(uuid, uuid, text), pawl_dag.reset_step(uuid, uuid, text), pawl_dag.complete_step_manually(uuid, uuid, jsonb, text),
    pawl_dag.time_out_tasks(integer) FROM pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_dag.report(jsonb, text), pawl_dag.orchestrate(integer) FROM pawl_reader;
