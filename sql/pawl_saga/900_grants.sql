-- Who may do what: workers claim and report, operators run, suspend and put right, readers look.

GRANT USAGE ON SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT, UPDATE ON pawl_saga.flows, pawl_saga.runs, pawl_saga.tasks, pawl_saga.retries, pawl_saga.junctions, pawl_saga.attempts, pawl_saga.jobs, pawl_saga.signals
    TO pawl_admin, pawl_operator;
GRANT INSERT, UPDATE, DELETE ON pawl_saga.set_aside TO pawl_admin, pawl_operator;
-- a worker moves flows, tasks and jobs, and says what came of them; what they consist of, and what follows from their moves, is not its to write
GRANT INSERT (flow_uuid, definition_uuid, name, inputs, defer_reverts, never_resolve, correlation_id, traceparent, tracestate), UPDATE (state) ON pawl_saga.flows TO pawl_worker;
GRANT UPDATE (state, worker, lease_until, result, failure, revert_result, revert_failure, progress, progress_details) ON pawl_saga.tasks TO pawl_worker;
GRANT INSERT (flow_uuid, signal_uuid, name, payload) ON pawl_saga.signals TO pawl_worker;
GRANT INSERT (job_uuid, board, name, priority, flow, inputs, details, max_attempts), UPDATE (state, owner, lease_until, flow_uuid, session_lock, due_at, trashed_at, trashed_for)
    ON pawl_saga.jobs TO pawl_worker;
GRANT INSERT ON pawl_saga.flow_transitions, pawl_saga.task_transitions, pawl_saga.retry_transitions, pawl_saga.job_transitions TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT, DELETE ON pawl_saga.definitions, pawl_saga.nodes, pawl_saga.edges, pawl_saga.votes, pawl_saga.parameters TO pawl_admin;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl_saga FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl_saga TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
-- what follows runs with the rights of the extension's owner, by triggers and duties; nobody calls it
REVOKE EXECUTE ON FUNCTION pawl_saga._add_atoms(uuid, uuid), pawl_saga._alter_atoms(), pawl_saga._answer(uuid, integer, jsonb), pawl_saga._ask(text, jsonb), pawl_saga._atoms_moved(),
    pawl_saga._begin_task(pawl_saga.tasks), pawl_saga._behind(uuid, integer), pawl_saga._break(uuid, jsonb), pawl_saga._close_behind(uuid, boolean), pawl_saga._decide(uuid, integer, jsonb),
    pawl_saga._decide_open(uuid), pawl_saga._end_wait(pawl_saga.tasks, jsonb, jsonb), pawl_saga._engine(uuid, integer, text), pawl_saga._examine(uuid, integer),
    pawl_saga._examine_retry(pawl_saga.flows, pawl_saga.retries), pawl_saga._finish(uuid[]), pawl_saga._flow_altered(), pawl_saga._flow_moved(), pawl_saga._hold(uuid),
    pawl_saga._ignore(uuid, integer, text), pawl_saga._intention_changed(), pawl_saga._look_again(uuid, integer[]), pawl_saga._mend_retries(uuid),
    pawl_saga._note_failure(uuid, integer, text, jsonb), pawl_saga._own_definition(uuid, pawl_saga.definitions), pawl_saga._pass_back(uuid[], integer[]), pawl_saga._pass_on(uuid[], integer[]),
    pawl_saga._recount(uuid), pawl_saga._reset_atoms(uuid), pawl_saga._restart(uuid, integer), pawl_saga._settle(uuid), pawl_saga._signal_came(), pawl_saga._try(uuid, integer),
    pawl_saga._turn(uuid, integer, text), pawl_saga._turn_added(uuid, integer[]), pawl_saga._vote(uuid, integer), pawl_saga._values_left(uuid, integer) FROM pawl_admin, pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_saga._fill_flow(uuid), pawl_saga._report(jsonb, text), pawl_saga._set_aside(uuid, text, text, text), pawl_saga._report_all(jsonb, text), pawl_saga._settle_orphans(text, text) FROM pawl_reader;
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
