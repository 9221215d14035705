-- Who may do what: workers claim and report, operators do what operators do, readers look.

GRANT USAGE ON SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT, UPDATE ON pawl_dag.tasks, pawl_dag.steps, pawl_dag.edges TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT ON pawl_dag.task_transitions, pawl_dag.step_transitions TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT, DELETE ON pawl_dag.namespaces, pawl_dag.templates, pawl_dag.template_steps, pawl_dag.template_edges TO pawl_admin;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl_dag FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl_dag TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_dag.define_template(jsonb) FROM pawl_operator, pawl_worker, pawl_reader;
