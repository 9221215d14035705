-- Attaching machines to tables: pawl.enforce and pawl.release. What else a binding can have is in files of its own:
-- enforce/upgrade.sql, log/enable_log.sql, work/enable_queue.sql, events/enable_events.sql.

-- The key of a table: the columns given, or its primary key without the state (a table partitioned by its state has
-- that in
-- the primary key, but a row keeps its identity when it moves).
CREATE FUNCTION pawl._choose_key(relation regclass, state_column name, key name[]) RETURNS name[]
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    chosen name[];
    missing name;
    nullable name[];
    attnums smallint[];
BEGIN
    IF key IS NULL OR key = '{}' THEN
        SELECT coalesce(array_agg(a.attname ORDER BY k.n), '{}') INTO chosen
          FROM pg_index i
          CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, n)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
         WHERE i.indrelid = relation AND i.indisprimary AND k.n <= i.indnkeyatts AND a.attname <> state_column;
        RETURN chosen;
    END IF;
    IF array_ndims(key) IS DISTINCT FROM 1 OR array_position(key, NULL) IS NOT NULL THEN
        PERFORM pawl.raise('22023', 'key must be a list of column names');
    END IF;
    key := pawl._check_list(key, 'key', '{id}');
    SELECT k INTO missing FROM unnest(key) k
     WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = k AND a.attnum > 0
         AND NOT a.attisdropped)
     LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('42703', format('key column "%s" of table %s does not exist', missing, relation));
    END IF;
    IF state_column = ANY (key) THEN
        PERFORM pawl.raise('22023', format('the state column "%s" cannot be part of the key', state_column),
            'The key of a row must not change with its state.');
    END IF;
    IF (SELECT count(DISTINCT k) FROM unnest(key) k) < cardinality(key) THEN
        PERFORM pawl.raise('42701', 'a key column is specified twice');
    END IF;
    SELECT array_agg(a.attname ORDER BY a.attnum) FILTER (WHERE NOT a.attnotnull), array_agg(a.attnum)
      INTO nullable, attnums
      FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = ANY (key);
    IF nullable IS NOT NULL THEN
        RAISE WARNING USING ERRCODE = '01000', MESSAGE = format('key column "%s" of table %s may be null',
            nullable[1], relation),
            HINT = format('alter table %s alter column %I set not null', relation, nullable[1]);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND i.indisunique AND i.indisvalid
                      AND i.indpred IS NULL AND i.indexprs IS NULL
                      AND (SELECT bool_and(u.attnum = ANY (attnums)
                                           OR u.attnum = (SELECT s.attnum FROM pg_attribute s
                                                           WHERE s.attrelid = relation AND s.attname = state_column))
                             FROM unnest(i.indkey::smallint[]) WITH ORDINALITY u(attnum, n)
                                 WHERE u.n <= i.indnkeyatts)) THEN
        RAISE WARNING USING ERRCODE = '01000',
            MESSAGE = format('no unique constraint covers the key (%s) of table %s', array_to_string(key, ', '),
                relation), HINT = format('alter table %s add unique (%s)', relation, pawl._columns('', key));
    END IF;
    RETURN key;
END
$function$;
COMMENT ON FUNCTION pawl._choose_key(regclass, name, name[])
    IS 'internal: the key columns of a table, given or its primary key';

-- The binding that an owner is about to change, as other sessions see it now.
CREATE FUNCTION pawl._own_binding(relation regclass, state_column name) RETURNS pawl.binding
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
BEGIN
    PERFORM pawl._check_owner(bound.relation);
    RETURN bound;
END
$function$;
COMMENT ON FUNCTION pawl._own_binding(regclass, name)
    IS 'internal: the binding of a table of the caller; 42501: not the owner';

-- Locks the table for a change of its binding, and returns the binding as it is then. Dropping an index needs the
-- stronger lock, which is taken at once: two sessions that strengthen the locks that they have would deadlock.
CREATE FUNCTION pawl._lock_binding(before pawl.binding, after pawl.binding, doing text) RETURNS pawl.binding
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl._check_isolation(doing);
    PERFORM pawl._begin_distributed(before.relation);
    EXECUTE format('LOCK TABLE %s IN %s MODE', before.relation,
                   CASE WHEN EXISTS (SELECT FROM pawl._lost_indexes(before, after)) THEN 'ACCESS EXCLUSIVE'
                       ELSE 'SHARE ROW EXCLUSIVE' END);
    RETURN pawl._binding(before.relation, before.state_column);
END
$function$;
COMMENT ON FUNCTION pawl._lock_binding(pawl.binding, pawl.binding, text) IS
'internal: locks a table for a change of its binding; 25001: the transaction would not see the newest rows';

-- Checks and stores a binding whose columns, events or key have changed, and makes the triggers and indexes that it
-- needs.
CREATE FUNCTION pawl._change_work(before pawl.binding, after pawl.binding, build_indexes boolean DEFAULT NULL)
    RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one text;
    lost regclass;
BEGIN
    PERFORM pawl._check_work(after);
    PERFORM pawl._check_shard_key(after);
    IF after.validated
        AND (after.owner_column, after.lease_column) IS DISTINCT FROM (before.owner_column, before.lease_column) THEN
        found_one := pawl._wrongly_owned_rows(after.relation::text, after);
        IF found_one IS NOT NULL THEN
            PERFORM pawl.raise('55000',
                format('table %s has rows with an owner or a lease in states that are not owned', after.relation),
                found_one, pawl._disown_hint(after.relation, after));
        END IF;
    END IF;
    FOR lost IN SELECT l FROM pawl._lost_indexes(before, after) l LOOP
        EXECUTE format('DROP INDEX %s', lost);
    END LOOP;
    IF after IS DISTINCT FROM before THEN
        PERFORM pawl._change_binding(after);
    END IF;
    PERFORM pawl._install(after.relation);
    IF coalesce(build_indexes, after.validated) THEN
        PERFORM pawl._make_indexes(after);
    ELSE
        PERFORM pawl._adopt_indexes(after);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._change_work(pawl.binding, pawl.binding, boolean) IS
'internal: checks and stores a changed binding, with the triggers and indexes that it needs';

CREATE FUNCTION pawl.enforce(relation regclass, state_column name, machine text, version integer DEFAULT NULL,
    key name[] DEFAULT NULL, on_delete text DEFAULT NULL, always boolean DEFAULT NULL, errors text DEFAULT NULL,
    validate boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    given record;
    wanted integer;
    bound pawl.binding;
BEGIN
    FOR given IN
        SELECT * FROM (VALUES ('relation', relation IS NULL), ('state_column', state_column IS NULL),
                              ('machine', machine IS NULL)) a(name, is_missing) WHERE is_missing
    LOOP
        PERFORM pawl.raise('22004', format('%s must not be null', given.name));
    END LOOP;
    IF on_delete NOT IN ('allow', 'terminal', 'deny') THEN
        PERFORM pawl.raise('22023', format('unknown value "%s" for on_delete', on_delete), NULL,
            'allow, terminal or deny');
    END IF;
    IF errors NOT IN ('pawl', 'check_violation') THEN
        PERFORM pawl.raise('22023', format('unknown value "%s" for errors', errors), NULL, 'pawl or check_violation');
    END IF;

    PERFORM pawl._check_isolation('pawl.enforce');
    PERFORM pawl._check_table(relation);
    PERFORM pawl._begin_distributed(relation);
    -- the table may be distributed later, in a transaction that is too late for it
    IF pawl._is_coordinator() AND pawl._creating_extension() IS NULL THEN
        PERFORM pawl._prepare_definitions();
    END IF;
    wanted := pawl._version(machine, version);
    -- the version must not be dropped meanwhile
    PERFORM pawl._hold_version(machine, wanted);
    -- from here on no other session writes rows or attaches a machine
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', relation);
    PERFORM pawl._check_table(relation);

    SELECT b.* INTO bound FROM pawl.binding b
     WHERE b.relation = enforce.relation AND b.state_column = enforce.state_column;
    IF FOUND THEN
        PERFORM pawl._enforce_again(bound, machine, version, key, on_delete, always, errors);
        IF validate AND NOT bound.validated THEN
            RAISE NOTICE USING MESSAGE = format('the rows that table %s had before are not validated', relation),
                HINT = format('call pawl.validate_all(%L, %L)', relation, state_column);
        END IF;
        RETURN;
    END IF;

    bound.relation := relation;
    bound.state_column := state_column;
    bound.machine := machine;
    bound.version := wanted;
    bound.most_recent := 'derived';
    bound.hash_chain := false;
    bound.on_delete := coalesce(on_delete, 'allow');
    bound.always := coalesce(always, false);
    bound.claim_events := '{}';
    bound.claim_columns := '{}';
    bound.claim_descending := '{}';
    bound.lease_time := '60 s';
    bound.retry_events := '{}';
    bound.operator_events := '{}';
    bound.events := false;
    bound.wake := false;
    bound.trace_columns := '{}';
    bound.log_token := false;
    bound.may_place := false;
    bound.result_columns := '{}';
    bound.errors := coalesce(errors, 'pawl');
    bound.validated := coalesce(validate, true);
    PERFORM pawl._attach(bound, key);
    PERFORM pawl._compare_released(bound);
END
$function$;
COMMENT ON FUNCTION pawl.enforce(regclass, name, text, integer, name[], text, boolean, text, boolean) IS
'Binds a machine to a column of a table: from now on its rows change state only along the transitions of the
machine.
relation: a table or partitioned table, with all its children. state_column: of type text, varchar, an enum, or
a domain over one.
machine, version: what pawl.define stored; version null: the newest. key: the columns that identify a row;
default, and ''{}'': the primary key. on_delete: allow (default), terminal (only rows in terminal states), deny.
always: validate replicated rows too; default false. errors: pawl (default), or check_violation: PW001, PW002 and
PW003 are raised as 23514 with constraint <table>_<column>_machine, and the DETAIL begins with the code. validate:
false: the rows that are there are not read now, but by pawl.validate; default true. Called again
for the same machine it changes key, on_delete, always and errors; what is omitted stays.
A log, owned work, timers and events are added by pawl.enable_log, pawl.enable_queue, pawl.set_claiming,
pawl.enable_timers and pawl.enable_events. Warns when the machine has owned states or timers and the columns for
them are not named yet.
Errors: PW008 unknown machine, or rows in no state of it; PW007 guards that do not fit; 42703, 42804 a column
that is missing or does not fit; 22023, 22004 arguments; 55000 a key that the log or the lock order needs, or errors of
a table of an extension; 42710
the column has another machine or version; 42501 not the owner; 25001 not READ COMMITTED. Privileges: pawl_admin
that owns the table.
Example: SELECT pawl.enforce(''parcels'', ''state'', ''parcel'', on_delete => ''terminal'')';

-- Checks table, column, functions and rows of a new binding.
CREATE FUNCTION pawl._attach(bound pawl.binding, key name[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    problem record;
    found_one text;
BEGIN
    SELECT * INTO problem FROM pawl._column_problem(bound.relation, bound.state_column, bound.machine,
        bound.version, true);
    IF problem.message IS NOT NULL THEN
        PERFORM pawl.raise(problem.code, problem.message, problem.detail, problem.hint);
    END IF;
    PERFORM pawl._check_members(bound.relation, ARRAY(SELECT m FROM pawl._members(bound.relation) m));

    SELECT string_agg(g, ', ' ORDER BY g) INTO found_one
      FROM pawl._guard_functions(bound.relation, bound.machine, bound.version) g;
    IF found_one IS NOT NULL THEN
        PERFORM pawl.raise('PW007', format('machine "%s" has guards or effects that cannot be called for table %s',
                                            bound.machine, bound.relation),
            format('There is no such function of two rows of the table: %s.', found_one),
            format('create function f(old %s, new %s) returns boolean ...', bound.relation, bound.relation));
    END IF;

    bound.key_columns := pawl._choose_key(bound.relation, bound.state_column, key);
    bound.log_key_columns := pawl._log_key_columns(bound.key_columns);
    PERFORM pawl._check_shard_key(bound);
    PERFORM pawl._check_work(bound);
    IF pawl._creating_extension() IS NULL THEN  -- a pack's script names the columns in its next statements
        PERFORM pawl._warn_of_work(bound, '{unowned,untimed}');
    END IF;

    found_one := CASE WHEN bound.validated THEN pawl._strange_rows(bound.relation::text, bound.state_column,
        pawl._atoms(bound.machine, bound.version)) END;
    IF found_one IS NOT NULL THEN
        PERFORM pawl.raise('PW008', format('table %s has rows that are in no state of machine "%s"',
            bound.relation, bound.machine),
            found_one,
            format('update %s set %I = ... where %I is null or %I::text not in (select state from pawl.states(%L))',
                   bound.relation, bound.state_column, bound.state_column, bound.state_column, bound.machine));
    END IF;

    bound.calls := pawl._resolve_calls(bound.relation, bound.machine, bound.version, NULL);
    PERFORM pawl._store_binding(bound);
    PERFORM pawl._install(bound.relation);
END
$function$;
COMMENT ON FUNCTION pawl._attach(pawl.binding, name[]) IS 'internal: checks and stores a new binding';

CREATE FUNCTION pawl._enforce_again(before pawl.binding, machine text, version integer, key name[], on_delete text,
    always boolean, errors text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    after pawl.binding := before;
    needs text;
BEGIN
    IF machine <> before.machine OR version <> before.version THEN
        PERFORM pawl.raise('42710', format('column "%s" of table %s already has a binding', before.state_column,
            before.relation),
            format('It is enforced with machine "%s", version %s.', before.machine, before.version),
            CASE WHEN machine <> before.machine THEN format('select pawl.release(%L, %L)', before.relation,
                before.state_column)
                 ELSE format('select pawl.upgrade(%L, %L)', before.relation, before.state_column) END);
    END IF;
    after.on_delete := coalesce(on_delete, before.on_delete);
    after.always := coalesce(always, before.always);
    after.errors := coalesce(errors, before.errors);
    IF after.errors <> before.errors AND before.extension IS NOT NULL THEN
        PERFORM pawl.raise('55000', format('the errors of table %s cannot be changed', before.relation),
            format('Functions of extension "%s" depend on their codes.', before.extension));
    END IF;
    IF key IS NOT NULL THEN
        after.key_columns := pawl._choose_key(before.relation, before.state_column, key);
        after.log_key_columns := pawl._log_key_columns(after.key_columns);
    END IF;
    IF after.key_columns <> before.key_columns THEN
        needs := CASE WHEN before.history IS NOT NULL THEN format('The log %s uses it.', before.history)
                      WHEN before.locked_after IS NOT NULL THEN format('Its rows are locked after those of %s.',
                          before.locked_after)
                      WHEN before.events AND after.key_columns = '{}' THEN 'Its events identify rows by it.' END;
        IF needs IS NOT NULL THEN
            PERFORM pawl.raise('55000', format('the key (%s) of table %s cannot be changed',
                array_to_string(before.key_columns, ', '),
                                                before.relation), needs,
                CASE WHEN before.history IS NOT NULL THEN format('select pawl.release(%L, %L)', before.relation,
                    before.state_column)
                     WHEN before.locked_after IS NOT NULL THEN format('select pawl.set_lock_order(%L, NULL)',
                         before.relation)
                     ELSE format('select pawl.enable_events(%L, %L, events => false)', before.relation,
                         before.state_column) END);
        END IF;
        IF EXISTS (SELECT FROM pawl._lost_indexes(before, after)) THEN
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', before.relation);
        END IF;
    END IF;
    PERFORM pawl._change_work(before, after);
END
$function$;
COMMENT ON FUNCTION pawl._enforce_again(pawl.binding, text, integer, name[], text, boolean, text) IS
'internal: pawl.enforce for an existing binding; 42710: another machine or version; 55000: the key is needed';

CREATE FUNCTION pawl.release(relation regclass, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding;
BEGIN
    -- also removes triggers without a binding, which a schema-only restore leaves
    IF pawl._is_orphan(relation) AND state_column IS NULL THEN
        PERFORM pawl._check_owner(relation);
        PERFORM pawl._begin_distributed(relation);
        PERFORM pawl._uninstall(relation);
        PERFORM pawl._drop_lost_indexes(relation);
        RETURN;
    END IF;
    bound := pawl._own_binding(relation, state_column);
    PERFORM pawl._begin_distributed(bound.relation);
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', bound.relation);
    IF NOT pawl._drop_binding(bound.relation, bound.state_column, pawl._last_definition(bound)) THEN
        PERFORM pawl.raise('42704', format('no machine is enforced on table %s', bound.relation),
            'It was released concurrently.');
    END IF;
    PERFORM pawl._drop_indexes(bound);
    IF bound.history IS NOT NULL THEN
        PERFORM pawl._retire_log(bound.history, bound.history_view);
    END IF;
    IF EXISTS (SELECT FROM pawl.binding b WHERE b.relation = bound.relation) THEN
        PERFORM pawl._install(bound.relation);
    ELSE
        PERFORM pawl._uninstall(bound.relation);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.release(regclass, name) IS
'Removes a binding: the machine is no longer enforced on the column. The log stays, but rejects every change.
relation: the enforced table. state_column: null: the only bound column of the table. Takes an ACCESS EXCLUSIVE lock
on the table.
Errors: 42704 no binding; 22023 several bindings and no state_column; 42501 not the owner.
Privileges: pawl_admin that owns the table.
Example: SELECT pawl.release(''orders'')';
