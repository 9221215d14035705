-- Who may do what: workers claim and report, operators do what operators do, readers look. What follows from a move is written by
-- functions of the owner; nobody writes counters, histories or events by hand.

GRANT USAGE ON SCHEMA pawl_bulk TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_bulk TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT, UPDATE, DELETE ON pawl_bulk.definitions, pawl_bulk.steps TO pawl_admin;
GRANT INSERT (operation, definition, version, metadata, created_by, traceparent, tracestate, source, file_name, format, dialect, columns, checksum, idempotency_key, priority, notifications)
    ON pawl_bulk.operations TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (status, error_message) ON pawl_bulk.operations TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (paused_at, paused_by, priority, notifications) ON pawl_bulk.operations TO pawl_admin, pawl_operator;
GRANT DELETE ON pawl_bulk.operations TO pawl_admin;
GRANT INSERT, UPDATE, DELETE ON pawl_bulk.upkeep TO pawl_admin;
GRANT INSERT (operation, row_number, data, raw, problem, line_number) ON pawl_bulk.input TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT (operation, row_number, state, row_id, errors, raw, created_at) ON pawl_bulk.validations TO pawl_admin, pawl_operator, pawl_worker;
-- what is told to whom is said once
GRANT UPDATE (state, message, ended_at, tries, worker, lease_until, fence, due) ON pawl_bulk.notices TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT (operation, row_number, step_index, created_at) ON pawl_bulk.records TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (state, tries, error_type, error_message, started_at, completed_at) ON pawl_bulk.records TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT (operation, row_number, step_index, kind, queue, priority, takeovers, last_row, run_timeout, deadline_at, due) ON pawl_bulk.work TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (state, takeovers, deadline_at, worker, lease_until, fence, due) ON pawl_bulk.work TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT (operation, step_index, kind, first_row, last_row, size, lease_until) ON pawl_bulk.sql_runs TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (lost_at, again_at, last_row, size), DELETE ON pawl_bulk.sql_runs TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT (operation, key), UPDATE (early_result, early_message, early_attempt) ON pawl_bulk.signal_keys TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT (operation, key, result, message, payload, attempt, answer) ON pawl_bulk.signals TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT (operation, type, detail) ON pawl_bulk.events TO pawl_admin, pawl_operator;
GRANT INSERT ON pawl_bulk.operation_transitions, pawl_bulk.record_transitions TO pawl_admin, pawl_operator, pawl_worker;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl_bulk FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl_bulk TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_bulk.define(jsonb), pawl_bulk.drop_definition(text, integer), pawl_bulk.keep_notices(interval) FROM pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_bulk.cancel(uuid), pawl_bulk.abort(uuid, text), pawl_bulk.pause(uuid), pawl_bulk.resume(uuid),
    pawl_bulk.retry(uuid, bigint[], text[], text[]) FROM pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_bulk.claim(text, text, integer, interval), pawl_bulk.report(jsonb, text), pawl_bulk.advance(integer),
    pawl_bulk.time_out(integer), pawl_bulk.run_sql_rows(integer), pawl_bulk.fold_counters(integer), pawl_bulk._hold(uuid[]), pawl_bulk._shrink_block(uuid, bigint, bigint),
    pawl_bulk.run_sql_notices(integer), pawl_bulk._take_notice(text, interval), pawl_bulk._deliver_taken(pawl_bulk.notices), pawl_bulk._deliver(pawl_bulk.notices, boolean), pawl_bulk._trouble(uuid, text, text), pawl_bulk._complete_lines(uuid), pawl_bulk.seal(uuid, text, text, bigint), pawl_bulk._seal_rows(uuid), pawl_bulk._forget_invalid(uuid, bigint, bigint), pawl_bulk._opened(uuid, bigint), pawl_bulk._ease(uuid), pawl_bulk.claim_notices(text, text, integer, interval), pawl_bulk.report_notices(jsonb, text),
    pawl_bulk._end_notice(pawl_bulk.notices, text), pawl_bulk.prune_notices(integer), pawl_bulk._lay_unvalidated(uuid), pawl_bulk._take_unvalidated(uuid, integer), pawl_bulk._end_unvalidated(uuid, bigint),
    pawl_bulk.signal(uuid, text, text, text, jsonb, integer), pawl_bulk.signal_many(uuid, jsonb) FROM pawl_reader;
REVOKE ALL ON PROCEDURE pawl_bulk.work_sql_rows(integer, interval, bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE pawl_bulk.work_sql_rows(integer, interval, bigint, integer) TO pawl_admin, pawl_operator, pawl_worker;
REVOKE ALL ON PROCEDURE pawl_bulk.work_sql_notices(integer, interval, bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE pawl_bulk.work_sql_notices(integer, interval, bigint, integer) TO pawl_admin, pawl_operator, pawl_worker;
