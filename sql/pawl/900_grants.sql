-- Who may do what. Everything is taken from PUBLIC, then given by role.
-- PUBLIC may use what acts with the caller's own rights on tables. The catalog tables are open as PostgreSQL's own are.
-- The trigger functions are PUBLIC's too: PostgreSQL asks for EXECUTE from whoever creates a partition of an enforced table.

GRANT USAGE ON SCHEMA pawl TO PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl FROM PUBLIC;

GRANT SELECT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding, pawl.paused TO PUBLIC;
GRANT SELECT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding TO pawl_admin;
GRANT SELECT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding, pawl.paused TO pawl_operator, pawl_worker, pawl_reader;
-- a trigger lets only operators and the owner of the table in question ask for a pause
GRANT INSERT ON pawl.paused TO PUBLIC;
GRANT INSERT, UPDATE, DELETE ON pawl.paused TO pawl_admin, pawl_operator;
-- the same of what is declared about logs
GRANT SELECT, INSERT ON pawl.log_upkeep TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.log_upkeep TO pawl_admin;
GRANT SELECT ON pawl.log_upkeep TO pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON pawl.queue_depth, pawl.owners, pawl.timers TO PUBLIC, pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT ON pawl.audit_binding, pawl.pruned_log, pawl.pruned_audit TO PUBLIC;
GRANT SELECT ON pawl.audit_binding TO pawl_admin;
-- what a dump has; a trigger lets bindings be loaded by the owner of the table only
GRANT USAGE ON SCHEMA pawl TO pawl_restore;
GRANT INSERT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding, pawl.audit_binding, pawl.pruned_audit, pawl.pruned_log,
    pawl.paused, pawl.log_upkeep, pawl.consumer, pawl.outbox_era, pawl.outbox_1, pawl.outbox_2, pawl.outbox_3,
    pawl.outbox_commit_1, pawl.outbox_commit_2, pawl.outbox_commit_3 TO pawl_restore;
GRANT USAGE ON SCHEMA pawl TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;

GRANT EXECUTE ON FUNCTION
    pawl.define(text, text, text),
    pawl.enforce(regclass, name, text, integer, boolean, text, boolean, name[], text, boolean, name, name, name, name, name, name, name, name,
        text[], text, interval, text, text[], jsonb, text[], boolean, boolean, text, name, text),
    pawl.release(regclass, name),
    pawl.upgrade(regclass, name, jsonb),
    pawl.set_events(regclass, boolean, name),
    pawl.set_trace(regclass, name, name, name),
    pawl.set_lock_order(regclass, regclass, name),
    pawl.set_log_fence(regclass, boolean, name),
    pawl.set_result_columns(regclass, name[], name),
    pawl.audit(regclass, jsonb, name, name[], name),
    pawl.unaudit(regclass, name),
    pawl._remap(regclass, name, jsonb),
    pawl.set_machine_owner(text, name),
    pawl.drop_machine(text, integer),
    -- each asks for the owner of the tables that it names
    pawl._hold_version(text, integer),
    pawl._store_binding(pawl.binding),
    pawl._change_binding(pawl.binding),
    pawl._drop_binding(regclass, name),
    pawl._store_audit(pawl.audit_binding),
    pawl._move_audit(regclass, regclass),
    pawl._drop_audit(regclass)
TO pawl_admin;

GRANT SELECT ON pawl.consumers TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT EXECUTE ON FUNCTION
    pawl.create_consumer(text, text, regclass[]),
    pawl.drop_consumer(text),
    pawl.read_events(text, integer),
    pawl.read_claimable(text, integer),
    pawl.sleep(regclass),
    pawl.awake(regclass)
TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT EXECUTE ON FUNCTION pawl.counters(), pawl.counter_bounds(), pawl.counted_since() TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT EXECUTE ON FUNCTION pawl.reset_counters() TO pawl_admin, pawl_operator;
GRANT EXECUTE ON FUNCTION pawl.prune_events(interval) TO pawl_admin, pawl_operator;

GRANT EXECUTE ON FUNCTION pawl.verify(regclass), pawl.health(), pawl._verify_outbox(), pawl._events_pruned_at() TO pawl_admin, pawl_operator, pawl_reader;
GRANT SELECT ON pawl._events TO pawl_admin, pawl_operator, pawl_reader;

DO $grants$
DECLARE
    routine regprocedure;
BEGIN
    -- what acts on tables with the caller's own rights, or on nothing
    FOR routine IN
        SELECT p.oid FROM pg_catalog.pg_proc p
         WHERE p.pronamespace = 'pawl'::pg_catalog.regnamespace
           AND (p.prorettype = 'pg_catalog.trigger'::pg_catalog.regtype AND NOT p.prosecdef
                OR p.proname IN ('check', 'diagram', 'states', 'transitions', 'fire', 'fire_many', 'available', 'history', 'state_at',
                                 'set_context', 'child_span', 'deferred', 'uuid_v7', 'claim', 'claim_keys', 'heartbeat', 'abandon', 'reap', 'fire_due', 'backoff', 'is_transient',
                                 'pause', 'resume', 'channel', 'audit_of', 'prune_log', 'prune_audit', 'extend_log', 'keep_log',
                                 'keep_audit', 'tend_logs')
                OR p.proname ^@ '_' AND NOT p.prosecdef
                   AND p.proname <> ALL ('{_remap,_hold_version,_store_binding,_change_binding,_drop_binding,_store_audit,_move_audit,_drop_audit}')
                   AND p.prorettype <> 'pg_catalog.event_trigger'::pg_catalog.regtype)
         ORDER BY p.oid
    LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC, pawl_admin, pawl_operator, pawl_worker, pawl_reader', routine);
    END LOOP;
END
$grants$;

CREATE EVENT TRIGGER pawl_adopt ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE SCHEMA', 'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE')
    EXECUTE FUNCTION pawl._adopt();
COMMENT ON EVENT TRIGGER pawl_adopt IS 'takes partitions and inheritance children into the enforced tables they join';
CREATE EVENT TRIGGER pawl_follow ON ddl_command_end
    -- ALTER VIEW ... RENAME COLUMN takes tables, too
    WHEN TAG IN ('ALTER TABLE', 'ALTER TYPE', 'CREATE TABLE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER FOREIGN TABLE')
    EXECUTE FUNCTION pawl._follow();
COMMENT ON EVENT TRIGGER pawl_follow IS 'follows renames, refuses changes that would break a lifecycle';
CREATE EVENT TRIGGER pawl_gone ON sql_drop
    EXECUTE FUNCTION pawl._gone();
COMMENT ON EVENT TRIGGER pawl_gone IS 'removes the lifecycles of dropped tables, keeps columns and logs that are needed';
CREATE EVENT TRIGGER pawl_rearm ON ddl_command_end
    WHEN TAG IN ('CREATE TRIGGER', 'ALTER TRIGGER')
    EXECUTE FUNCTION pawl._rearm();
COMMENT ON EVENT TRIGGER pawl_rearm IS 'keeps the trigger that judges behind all others of an enforced table';
