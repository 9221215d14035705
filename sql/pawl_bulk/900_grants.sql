-- Who may do what: workers claim and report, operators do what operators do, readers look. What follows from a move is written by
-- functions of the owner; nobody writes counters, histories or events by hand.

GRANT USAGE ON SCHEMA pawl_bulk TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pawl_bulk TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT INSERT, UPDATE, DELETE ON pawl_bulk.definitions, pawl_bulk.steps TO pawl_admin;
GRANT INSERT ON pawl_bulk.operations TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE ON pawl_bulk.operations TO pawl_admin, pawl_operator;
GRANT DELETE ON pawl_bulk.operations TO pawl_admin;
GRANT INSERT, UPDATE, DELETE ON pawl_bulk.upkeep TO pawl_admin;
GRANT INSERT, DELETE ON pawl_bulk.input TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT ON pawl_bulk.validations TO pawl_admin, pawl_operator, pawl_worker;
-- what is told to whom is said once
GRANT UPDATE (state, message, ended_at, max_tries, tries, worker, lease_until, fence, due) ON pawl_bulk.notices TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT ON pawl_bulk.records, pawl_bulk.work TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE ON pawl_bulk.records, pawl_bulk.work TO pawl_admin, pawl_operator;
GRANT INSERT, DELETE ON pawl_bulk.sql_runs TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT ON pawl_bulk.signal_keys TO pawl_admin, pawl_operator, pawl_worker;
GRANT UPDATE ON pawl_bulk.sql_runs, pawl_bulk.signal_keys TO pawl_admin, pawl_operator;
GRANT INSERT ON pawl_bulk.signals, pawl_bulk.events TO pawl_admin, pawl_operator, pawl_worker;
GRANT INSERT ON pawl_bulk.operation_transitions, pawl_bulk.record_transitions TO pawl_admin, pawl_operator, pawl_worker;
-- A worker updates columns, not tables: UPDATE of a table is the right to lock it, too.
GRANT UPDATE (status, metadata, traceparent, tracestate, source, file_name, format, dialect, columns, input_bytes,
              checksum, idempotency_key, priority, notifications, notified_by, sealed, input_error,
              validated_through, opened_through, total_rows, last_step, track_row_data, retry_count, error_message,
              paused_at, paused_by, started_at, completed_at) ON pawl_bulk.operations TO pawl_worker;
GRANT UPDATE (tries, retry_attempt, state, error_type, error_message, started_at, completed_at)
    ON pawl_bulk.records TO pawl_worker;
GRANT UPDATE (row_number, step_index, kind, state, queue, priority, takeovers, held, held_due, last_row,
              run_timeout, deadline_at, worker, lease_until, fence, due) ON pawl_bulk.work TO pawl_worker;
GRANT UPDATE (row_number, step_index, early_result, early_message, early_attempt)
    ON pawl_bulk.signal_keys TO pawl_worker;
GRANT UPDATE (step_index, kind, first_row, last_row, size, session, lease_until, lost_at, again_at)
    ON pawl_bulk.sql_runs TO pawl_worker;
