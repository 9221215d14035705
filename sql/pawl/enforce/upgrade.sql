-- pawl.upgrade: a binding takes the newest version of its machine.

-- Checks a remap. Its old states must exist in the enforced version, and its new ones in the newest. An old state may
-- also be one of no machine, if rows are in it: they were written while a trigger was disabled, and an upgrade is the
-- way to repair them.
CREATE FUNCTION pawl._check_remap(bound pawl.binding, newest integer, remap jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    old_states constant text[] := pawl._atoms(bound.machine, bound.version);
    new_states constant text[] := pawl._atoms(bound.machine, newest);
    pair record;
BEGIN
    IF remap IS NOT NULL AND jsonb_typeof(remap) <> 'object' THEN
        PERFORM pawl.raise('22023', 'remap must be a JSON object', NULL, '{"old state": "new state"}');
    END IF;
    FOR pair IN SELECT e.key AS old_state, e.value AS value, e.value #>> '{}' AS new_state
                  FROM jsonb_each(coalesce(remap, '{}')) e ORDER BY e.key COLLATE "C" LOOP
        IF pair.old_state <> ALL (old_states)
           AND pawl._strange_rows(format('(SELECT * FROM %s s WHERE pawl.value_text(s.%I) = %L)', bound.relation,
               bound.state_column, pair.old_state),
                                  bound.state_column, old_states) IS NULL THEN
            PERFORM pawl.raise('PW008', format('unknown state "%s" in remap', pair.old_state),
                format('Version %s of machine "%s" has %s.', bound.version, bound.machine,
                    pawl._quoted_list(old_states)));
        END IF;
        IF jsonb_typeof(pair.value) <> 'string' THEN
            PERFORM pawl.raise('22023', format('remap of state "%s" is not the name of a state', pair.old_state),
                NULL, '{"old state": "new state"}');
        END IF;
        IF pair.new_state <> ALL (new_states) THEN
            PERFORM pawl.raise('PW008', format('unknown state "%s" in remap', pair.new_state),
                format('Version %s of machine "%s" has %s.', newest, bound.machine, pawl._quoted_list(new_states)));
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._check_remap(pawl.binding, integer, jsonb) IS
'internal: PW008 an unknown state in remap; 22023 it is not an object of names';

CREATE FUNCTION pawl._check_upgrade(bound pawl.binding, newest integer, remap jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    problem record;
    found_one text;
BEGIN
    PERFORM pawl._check_remap(bound, newest, remap);
    SELECT * INTO problem FROM pawl._column_problem(bound.relation, bound.state_column, bound.machine, newest, true);
    IF problem.message IS NOT NULL THEN
        PERFORM pawl.raise(problem.code, problem.message, problem.detail, problem.hint);
    END IF;
    SELECT string_agg(g, ', ' ORDER BY g) INTO found_one FROM pawl._guard_functions(bound.relation, bound.machine,
        newest) g;
    IF found_one IS NOT NULL THEN
        PERFORM pawl.raise('PW007',
            format('version %s of machine "%s" has guards or effects that cannot be called for table %s',
                                            newest, bound.machine, bound.relation),
            format('There is no such function of two rows of the table: %s.', found_one));
    END IF;
    found_one := pawl._strange_rows(bound.relation::text, bound.state_column,
        pawl._atoms(bound.machine, newest) || ARRAY(SELECT jsonb_object_keys(coalesce(remap, '{}'))));
    IF found_one IS NOT NULL THEN
        PERFORM pawl.raise('PW008', format('table %s has rows that are in no state of version %s of machine "%s"',
                                            bound.relation, newest, bound.machine), found_one,
            format('select pawl.upgrade(%L, %L, remap => ''{"old state": "new state"}'')', bound.relation,
                bound.state_column));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_upgrade(pawl.binding, integer, jsonb) IS
'internal: whether a table can take the newest version: PW008 unknown states, PW007 guards, 42804 the column';

CREATE FUNCTION pawl.upgrade(relation regclass, state_column name DEFAULT NULL, remap jsonb DEFAULT NULL)
    RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._own_binding(relation, state_column);
    newest integer;
    found_one text;
BEGIN
    PERFORM pawl._check_isolation('pawl.upgrade');
    bound := pawl._locked_binding(bound);
    newest := pawl._version(bound.machine, NULL);
    PERFORM pawl._hold_version(bound.machine, newest);
    IF newest = bound.version THEN
        IF remap IS NOT NULL THEN
            PERFORM pawl.raise('55000', format('table %s is already at the newest version of machine "%s"',
                bound.relation, bound.machine),
                format('Version %s is enforced; rows are remapped only by an upgrade to another version.', newest));
        END IF;
        RETURN newest;
    END IF;

    PERFORM pawl._check_upgrade(bound, newest, remap);
    bound.version := newest;
    PERFORM pawl._check_work(bound);
    PERFORM pawl._warn_of_work(bound, '{unowned,untimed,stuck,endless}');
    found_one := pawl._wrongly_owned_rows(format('(SELECT * FROM %s s WHERE NOT jsonb_exists(%L, '
        'pawl.value_text(s.%I)))', bound.relation, coalesce(remap, '{}'),
                                                 bound.state_column), bound);
    IF found_one IS NOT NULL THEN
        PERFORM pawl.raise('55000',
            format('table %s has rows with an owner or a lease in states that are not owned in version %s of '
            'machine "%s"', bound.relation, newest, bound.machine), found_one,
            'let their owners complete them, or abandon them: pawl.abandon');
    END IF;

    bound.calls := pawl._resolve_calls(bound.relation, bound.machine, newest, bound.calls);
    PERFORM pawl._change_binding(bound);
    PERFORM pawl._install(bound.relation);  -- the new version may have effects
    IF remap IS NOT NULL AND remap <> '{}' THEN
        PERFORM pawl._remap(bound.relation, bound.state_column, remap);
    END IF;
    PERFORM pawl._make_indexes(bound);  -- the claimable states may have changed
    RETURN newest;
END
$function$;
COMMENT ON FUNCTION pawl.upgrade(regclass, name, jsonb) IS
'Validates a table by the newest version of its machine from now on, and returns that version.
relation: the enforced table. state_column: null: the only bound column. remap: default null; {"old state": "new
state"} changes the rows in states that the new version lacks, logged with event pawl.upgrade.
Errors: PW008 rows in unknown states, or an unknown state in remap; PW007 a guard or effect has no function; 22023
remap is not an object of names; 55000 remap without a newer version, or owned rows in states that are no longer
owned; 42704 no binding; 42501 not the owner; 25001 not READ COMMITTED.
Privileges: pawl_admin that owns the table.
Example: SELECT pawl.upgrade(''orders'', remap => ''{"paid": "billed"}'')';
