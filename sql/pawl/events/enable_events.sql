-- Events and wake-ups, added to a binding: pawl.enable_events.

CREATE FUNCTION pawl.enable_events(relation regclass, state_column name DEFAULT NULL, events boolean DEFAULT true,
    wake boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    before pawl.binding := pawl._own_binding(relation, state_column);
    after pawl.binding;
BEGIN
    -- no state change is in progress, so each from here on has an event, or none has
    before := pawl._lock_binding(before, before, 'pawl.enable_events');
    after := before;
    after.events := coalesce(enable_events.events, before.events);
    after.wake := coalesce(enable_events.wake, before.wake);
    IF after.events AND after.key_columns = '{}' THEN
        PERFORM pawl.raise('55000', format('table %s has no key for its events', after.relation), NULL,
            format('add a primary key, or name columns that identify a row: '
                   'select pawl.enforce(%L, %L, %L, key => array[...])',
                   after.relation, after.state_column, after.machine));
    END IF;
    IF after.events <> before.events THEN
        after.events_since := clock_timestamp();
    END IF;
    PERFORM pawl._check_work_arguments(after);
    IF after IS DISTINCT FROM before THEN
        PERFORM pawl._change_binding(after);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.enable_events(regclass, name, boolean, boolean) IS
'Has the state changes of a binding written to the outbox from now on, or no longer, and lets rows that become
claimable wake the sessions that wait for work.
relation: the enforced table. state_column: null: the only bound column. events: default true; false: no events;
null: as it is. wake: default: as it is. For a table of a pack it must be called again after a restore.
Errors: 55000 the table has no key; 22023 wake without claim events; 42704 no binding; 42501 not the owner;
25001 not READ COMMITTED.
Privileges: pawl_admin that owns the table.
Example: SELECT pawl.enable_events(''orders'')';
