-- Privileges: workers claim and report, operators operate, readers read. What follows from a state change is written by
-- functions of the owner; no role writes counters, histories or events by plain SQL.

GRANT USAGE ON SCHEMA pawl_bulk TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_bulk TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT, UPDATE, DELETE ON pawl_bulk.definitions, pawl_bulk.steps TO pawl_admin;
GRANT INSERT (operation, definition, version, metadata, created_by, traceparent, tracestate, source, file_name, format,
    dialect, columns, checksum, idempotency_key, priority, notifications)
    ON pawl_bulk.operations TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (status, error_message) ON pawl_bulk.operations TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (paused_at, paused_by, priority, notifications) ON pawl_bulk.operations TO pawl_admin, pawl_operator;
GRANT DELETE ON pawl_bulk.operations TO pawl_admin;
GRANT INSERT, UPDATE, DELETE ON pawl_bulk.upkeep TO pawl_admin;
GRANT INSERT (operation, row_number, data, raw, problem, line_number) ON pawl_bulk.input TO pawl_admin, pawl_operator,
    pawl_worker;
GRANT INSERT (operation, row_number, state, row_id, errors, raw, created_at) ON pawl_bulk.validations TO pawl_admin,
    pawl_operator, pawl_worker;
-- targets of notices are set once
GRANT UPDATE (state, message, tries, worker, lease_until, token, due) ON pawl_bulk.notices TO pawl_admin, pawl_operator,
    pawl_worker;
GRANT INSERT (operation, row_number, step_index) ON pawl_bulk.records TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE (state, tries, error_type, error_message, started_at, completed_at) ON pawl_bulk.records TO pawl_admin,
    pawl_operator, pawl_worker;
GRANT UPDATE (state, deadline_at, worker, lease_until, token, due) ON pawl_bulk.work TO pawl_admin, pawl_operator,
    pawl_worker;
GRANT INSERT (operation, step_index, kind, first_row, last_row, size, lease_until) ON pawl_bulk.sql_runs TO pawl_admin,
    pawl_operator;
GRANT UPDATE (lost_at, again_at, last_row, size) ON pawl_bulk.sql_runs TO pawl_admin, pawl_operator;
GRANT INSERT (operation, key, result, message, payload, attempt) ON pawl_bulk.signals TO pawl_admin, pawl_operator,
    pawl_worker;
-- an INSERT into a log is a request for a state change, made with the caller's rights on the row
GRANT INSERT ON pawl_bulk.operation_transitions, pawl_bulk.record_transitions, pawl_bulk.operation_transitions_log,
    pawl_bulk.record_transitions_log TO pawl_admin, pawl_operator, pawl_worker;
