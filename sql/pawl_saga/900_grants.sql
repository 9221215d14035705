-- Who may do what: workers claim and report, operators run, suspend and put right, readers look.

GRANT USAGE ON SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT, UPDATE ON pawl_saga.flows, pawl_saga.runs, pawl_saga.tasks, pawl_saga.retries, pawl_saga.junctions, pawl_saga.attempts, pawl_saga.jobs, pawl_saga.signals
    TO pawl_admin, pawl_operator, pawl_worker;
-- a worker moves flows, but does not say what they consist of
REVOKE UPDATE ON pawl_saga.flows FROM pawl_worker;
GRANT UPDATE (state, inputs, run, undoing, broken, problem, entered_at) ON pawl_saga.flows TO pawl_worker;
GRANT INSERT ON pawl_saga.flow_transitions, pawl_saga.task_transitions, pawl_saga.retry_transitions, pawl_saga.job_transitions TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT, DELETE ON pawl_saga.definitions, pawl_saga.nodes, pawl_saga.edges, pawl_saga.votes, pawl_saga.parameters TO pawl_admin;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl_saga FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_saga.define(jsonb) FROM pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_saga.reset(uuid, text), pawl_saga.revert(uuid, text), pawl_saga.resolve(uuid, text, text), pawl_saga.retry_revert(uuid, text, text), pawl_saga.time_out_tasks(integer),
    pawl_saga.alter_flow(uuid, uuid) FROM pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_saga.claim(text, text, integer, interval), pawl_saga.report(jsonb, text), pawl_saga.run_sql_tasks(integer),
    pawl_saga.start(text, jsonb, boolean, boolean, integer), pawl_saga.create_flow(uuid, jsonb, boolean, boolean, uuid, uuid), pawl_saga.run(uuid), pawl_saga.suspend(uuid), pawl_saga.resume(uuid),
    pawl_saga.progress(uuid, integer, bigint, double precision, jsonb, text), pawl_saga.begin_attempts(integer), pawl_saga.end_waits(integer), pawl_saga.signal(uuid, text, jsonb), pawl_saga.conduct(integer),
    pawl_saga.post(text, text, jsonb, jsonb, text, text), pawl_saga.claim_job(uuid, text, interval), pawl_saga.tie_job(uuid, text), pawl_saga.release_jobs(integer), pawl_saga.abandon_job(uuid, text),
    pawl_saga.consume_job(uuid, text), pawl_saga.trash_job(uuid, text, text) FROM pawl_reader;
REVOKE ALL ON PROCEDURE pawl_saga.work_sql_tasks(integer, interval, integer) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE pawl_saga.work_sql_tasks(integer, interval, integer) TO pawl_admin, pawl_operator, pawl_worker;
