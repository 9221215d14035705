-- Rights on schemas and tables; those on functions are in the file privileges. Everyone can read the catalog tables, as
-- with PostgreSQL's own.

GRANT USAGE ON SCHEMA pawl TO PUBLIC;

GRANT SELECT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding, pawl.paused TO PUBLIC;
GRANT SELECT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding TO pawl_admin;
GRANT SELECT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding, pawl.paused TO pawl_operator,
    pawl_worker, pawl_reader;
-- a trigger rejects requests except from operators and the owner of the table
GRANT INSERT ON pawl.paused TO PUBLIC;
GRANT INSERT, UPDATE, DELETE ON pawl.paused TO pawl_admin, pawl_operator;
-- the same for the retention of logs
GRANT SELECT, INSERT ON pawl.log_upkeep TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.log_upkeep TO pawl_admin;
GRANT SELECT ON pawl.log_upkeep TO pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON pawl.queue_depth, pawl.owners, pawl.timers TO PUBLIC, pawl_admin, pawl_operator, pawl_worker,
    pawl_reader;
GRANT SELECT ON pawl.audit_binding, pawl.pruned_log, pawl.pruned_audit, pawl.released TO PUBLIC;
-- all but the position, which is the key of a row
GRANT SELECT (relation, state_column, member, checked, begun, illegal, done) ON pawl.validation TO PUBLIC;
GRANT SELECT ON pawl._validation_positions TO PUBLIC;
GRANT SELECT ON pawl.audit_binding TO pawl_admin;
GRANT SELECT ON pawl.database, pawl.placement TO PUBLIC;
GRANT SELECT ON pawl.database, pawl.placement, pawl.placed_table TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.database, pawl.placement TO pawl_admin;
GRANT SELECT ON pawl.transit, pawl.departure, pawl.arrival, pawl.moved_unit TO pawl_admin;
GRANT SELECT ON pawl.departure, pawl.arrival, pawl.moved_unit TO pawl_operator, pawl_worker, pawl_reader;
-- what a dump contains; a trigger lets a role load bindings only of its own tables
GRANT USAGE ON SCHEMA pawl TO pawl_restore;
GRANT INSERT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding, pawl.audit_binding,
    pawl.pruned_audit, pawl.pruned_log, pawl.validation,
    pawl.redaction, pawl.paused, pawl.log_upkeep, pawl.consumer, pawl.outbox_epoch, pawl.outbox_1, pawl.outbox_2,
    pawl.outbox_3, pawl.outbox_commit_1, pawl.outbox_commit_2, pawl.outbox_commit_3 TO pawl_restore;
GRANT SELECT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding, pawl.audit_binding,
    pawl.pruned_audit, pawl.pruned_log, pawl.validation, pawl.redaction, pawl.paused, pawl.log_upkeep, pawl.consumer,
    pawl.outbox_epoch, pawl.outbox_1, pawl.outbox_2, pawl.outbox_3, pawl.outbox_commit_1, pawl.outbox_commit_2,
    pawl.outbox_commit_3 TO pawl_restore;
GRANT SELECT, INSERT ON pawl.database, pawl.placement, pawl.transit, pawl.departure, pawl.arrival, pawl.moved_unit
    TO pawl_restore;
GRANT SELECT ON pawl.redaction TO pawl_admin, pawl_operator, pawl_reader;
GRANT SELECT ON pawl._redactions TO PUBLIC;
GRANT USAGE ON SCHEMA pawl TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;

GRANT SELECT ON pawl.consumers TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON pawl._events TO pawl_admin, pawl_operator, pawl_reader;

CREATE EVENT TRIGGER pawl_adopt ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE SCHEMA', 'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE')
    EXECUTE FUNCTION pawl._adopt();
COMMENT ON EVENT TRIGGER pawl_adopt IS 'takes partitions and inheritance children into the enforced tables they join';
CREATE EVENT TRIGGER pawl_prepare ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION pawl._prepare();
COMMENT ON EVENT TRIGGER pawl_prepare IS 'drops claim indexes that cannot be converted with a state column';
CREATE EVENT TRIGGER pawl_follow ON ddl_command_end
    -- ALTER VIEW ... RENAME COLUMN takes tables, too
    WHEN TAG IN ('ALTER TABLE', 'ALTER TYPE', 'CREATE TABLE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW',
        'ALTER FOREIGN TABLE')
    EXECUTE FUNCTION pawl._follow();
COMMENT ON EVENT TRIGGER pawl_follow IS 'follows renames, rejects changes that would break a binding';
CREATE EVENT TRIGGER pawl_gone ON sql_drop
    EXECUTE FUNCTION pawl._gone();
COMMENT ON EVENT TRIGGER pawl_gone IS
'removes the bindings of dropped tables, keeps columns and logs that are needed';
CREATE EVENT TRIGGER pawl_rearm ON ddl_command_end
    WHEN TAG IN ('CREATE TRIGGER', 'ALTER TRIGGER')
    EXECUTE FUNCTION pawl._rearm();
COMMENT ON EVENT TRIGGER pawl_rearm IS 'keeps the validating trigger behind all others of an enforced table';
CREATE EVENT TRIGGER pawl_keep_schema ON ddl_command_end WHEN TAG IN ('ALTER SCHEMA')
    EXECUTE FUNCTION pawl._keep_schema();
COMMENT ON EVENT TRIGGER pawl_keep_schema IS 'rejects other names for the schemas of the extensions';
