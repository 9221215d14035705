-- pawl.audit, pawl.unaudit, pawl.audit_of.

-- on_states as two lists.
CREATE FUNCTION pawl._result_states(bound pawl.binding, on_states jsonb, OUT successes text[], OUT failures text[])
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    states text[] := pawl._atoms(bound.machine, bound.version);
    pair record;
BEGIN
    IF on_states IS NULL THEN
        PERFORM pawl.raise('22004', 'on_states must not be null');
    END IF;
    IF jsonb_typeof(on_states) <> 'object' OR on_states = '{}' THEN
        PERFORM pawl.raise('22023', 'on_states must be a JSON object of states', NULL,
            '{"done": true, "failed": false}');
    END IF;
    FOR pair IN SELECT e.key AS state, e.value FROM jsonb_each(on_states) e ORDER BY e.key COLLATE "C" LOOP
        IF pair.state <> ALL (states) THEN
            PERFORM pawl.raise('PW008', format('unknown state "%s" in on_states', pair.state),
                format('Version %s of machine "%s" has %s.', bound.version, bound.machine, pawl._quoted_list(states)));
        END IF;
        IF jsonb_typeof(pair.value) <> 'boolean' THEN
            PERFORM pawl.raise('22023', format('on_states must have true or false for state "%s"', pair.state), NULL,
                '{"done": true, "failed": false}');
        END IF;
    END LOOP;
    SELECT coalesce(array_agg(e.key ORDER BY e.key COLLATE "C") FILTER (WHERE e.value = 'true'), '{}'),
           coalesce(array_agg(e.key ORDER BY e.key COLLATE "C") FILTER (WHERE e.value = 'false'), '{}')
      INTO successes, failures FROM jsonb_each(on_states) e;
END
$function$;
COMMENT ON FUNCTION pawl._result_states(pawl.binding, jsonb) IS 'internal: the argument on_states, checked';

CREATE FUNCTION pawl._check_parents(relation regclass, parent name[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    missing name;
BEGIN
    IF parent = '{}' THEN
        RETURN;
    END IF;
    IF array_position(parent, NULL) IS NOT NULL THEN
        PERFORM pawl.raise('22023', 'parent must be a list of column names');
    END IF;
    SELECT p INTO missing FROM unnest(parent) p
     WHERE NOT EXISTS (SELECT FROM pg_attribute x
         WHERE x.attrelid = relation AND x.attname = p AND x.attnum > 0 AND NOT x.attisdropped) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('42703', format('parent column "%s" of table %s does not exist', missing, relation));
    END IF;
    IF (SELECT count(DISTINCT p) FROM unnest(parent) p) < cardinality(parent) THEN
        PERFORM pawl.raise('42701', 'a parent column is specified twice');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_parents(regclass, name[]) IS 'internal: the argument parent, checked';

-- Creates the table of an audit, with the owner and the readers of its log.
CREATE FUNCTION pawl._make_audit(a pawl.audit_binding, log_keys name[], name name) RETURNS regclass
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    columns text;
    made text;
    owner regrole;
    grantee regrole;
BEGIN
    SELECT format('%I.%I', n.nspname, name), c.relowner INTO made, owner
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = a.relation;
    SELECT c.relowner INTO owner FROM pg_class c WHERE c.oid = a.log;
    SELECT string_agg(format('%I %s%s%s%s', c.name, c.type,
        CASE WHEN c."collation" <> 0 THEN ' COLLATE ' || c."collation"::regcollation END,
                             CASE WHEN c.not_null THEN ' NOT NULL' END,
            CASE WHEN c.name = 'audit_id' THEN ' DEFAULT pawl.uuid_v7()' END), ', ' ORDER BY c.n)
      INTO columns FROM pawl._audit_columns(a, log_keys) c;
    EXECUTE format('CREATE TABLE %s (%s, PRIMARY KEY (%s, transition_id))', made, columns,
        pawl._columns('', a.key_columns));
    EXECUTE format('COMMENT ON TABLE %s IS %L', made, 'the results of ' || a.relation || ', written by pawl');
    IF owner::oid <> (SELECT c.relowner FROM pg_class c WHERE c.oid = made::regclass) THEN
        EXECUTE format('ALTER TABLE %s OWNER TO %s', made, owner);
    END IF;
    FOR grantee IN SELECT DISTINCT g.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) g
                    WHERE c.oid = a.log AND g.privilege_type = 'SELECT' AND g.grantee NOT IN (0, c.relowner) LOOP
        EXECUTE format('GRANT SELECT ON %s TO %s', made, grantee);
    END LOOP;
    RETURN made::regclass;
END
$function$;
COMMENT ON FUNCTION pawl._make_audit(pawl.audit_binding, name[], name) IS 'internal: creates an audit beside its log';

-- Creates or enables the triggers that protect an audit from clients.
CREATE FUNCTION pawl._close_record(record regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    guard record;
BEGIN
    FOR guard IN SELECT * FROM (VALUES ('!pawl_protect', 'BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT'),
                                       ('!pawl_protect_row', 'BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW'),
                                       ('!pawl_protect_truncate', 'BEFORE TRUNCATE ON %s FOR EACH STATEMENT')) g(name,
                                       moment)
    LOOP
        IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = record AND t.tgname = guard.name
                      AND pawl._trigger_fits(t.oid, 'pawl.protect_record()', guard.moment)) THEN
            EXECUTE format('ALTER TABLE %s ENABLE TRIGGER %I', record, guard.name);
        ELSE
            EXECUTE format('CREATE OR REPLACE TRIGGER %I ' || guard.moment || ' EXECUTE FUNCTION pawl.protect_record()',
                guard.name, record);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._close_record(regclass) IS 'internal: creates or enables the triggers that protect an audit';

CREATE FUNCTION pawl._open_record(record regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    trigger_name name;
BEGIN
    FOR trigger_name IN SELECT t.tgname FROM pg_trigger t
        WHERE t.tgrelid = record AND t.tgfoid = 'pawl.protect_record()'::regprocedure LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', record, trigger_name);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._open_record(regclass) IS
'internal: disables the triggers that protect an audit while its owner fills it';

-- The trigger is ALWAYS, because entries that pawl logs for replicated rows have results too. Its function ignores
-- entries that are replicated themselves.
CREATE FUNCTION pawl._install_audit(log regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = log AND t.tgname = '!pawl_audit') THEN
        EXECUTE format(
            'CREATE TRIGGER "!pawl_audit" AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT '
                       'EXECUTE FUNCTION pawl.audit_results()', log);
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "!pawl_audit"', log);
END
$function$;
COMMENT ON FUNCTION pawl._install_audit(regclass) IS 'internal: creates or enables the trigger that writes an audit';

-- A second binding of a table names its column.
CREATE FUNCTION pawl._choose_audit(bound pawl.binding) RETURNS name
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN EXISTS (SELECT FROM pawl.audit_binding o JOIN pg_class x ON x.oid = o.audit
                              WHERE o.log <> bound.history AND x.relnamespace = c.relnamespace AND x.relname = n.short)
                THEN pawl._log_name(c.relname || '_' || bound.state_column, '_result_audit') ELSE n.short END
      FROM pg_class c CROSS JOIN LATERAL (SELECT pawl._log_name(c.relname, '_result_audit') AS short) n
      WHERE c.oid = bound.relation
$function$;
COMMENT ON FUNCTION pawl._choose_audit(pawl.binding) IS 'internal: the name of an audit when none is given';

CREATE FUNCTION pawl.audit(relation regclass, on_states jsonb, into_table name DEFAULT NULL, parent name[] DEFAULT NULL,
    state_column name DEFAULT NULL) RETURNS regclass
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
    a pawl.audit_binding;
    present pawl.audit_binding;
    name name;
    problem text;
BEGIN
    PERFORM pawl._reject_distributed(bound.relation, 'pawl.audit');
    IF NOT (pawl._owns(bound.relation) AND pawl._owns(bound.history)) THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s and its log', bound.relation), NULL,
            pawl._owner_hint(CASE WHEN pawl._owns(bound.relation) THEN bound.history ELSE bound.relation END));
    END IF;
    PERFORM pawl._check_isolation('pawl.audit');
    a.log := bound.history;
    a.relation := bound.relation;
    SELECT s.successes, s.failures INTO a.success_states, a.failure_states FROM pawl._result_states(bound, on_states) s;
    a.parent_columns := coalesce(pawl._check_list(parent, 'parent', '{customer}'), '{}');
    PERFORM pawl._check_parents(bound.relation, a.parent_columns);
    SELECT n.keys, n.parents INTO a.key_columns, a.audit_parent_columns
        FROM pawl._audit_names(bound, a.parent_columns) n;
    -- from here on no other session writes entries or creates an audit
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', bound.history);

    SELECT b.* INTO present FROM pawl.audit_binding b WHERE b.log = bound.history;
    name := coalesce(into_table,
        CASE WHEN present.log IS NOT NULL THEN (SELECT c.relname FROM pg_class c WHERE c.oid = present.audit) END,
                     pawl._choose_audit(bound));
    IF name = '' THEN
        PERFORM pawl.raise('42622', 'into_table must not be empty');
    END IF;
    SELECT c.oid INTO a.audit FROM pg_class c
     WHERE c.relname = name AND c.relnamespace = (SELECT r.relnamespace FROM pg_class r WHERE r.oid = bound.relation);
    IF present.log IS NOT NULL
       AND (a.audit IS DISTINCT FROM present.audit
            OR (present.success_states, present.failure_states,
           present.parent_columns) IS DISTINCT FROM (a.success_states, a.failure_states, a.parent_columns)) THEN
        PERFORM pawl.raise('42710', format('the results of table %s are already audited', bound.relation),
            format('In %s, success being %s, failure %s.', present.audit, present.success_states,
                present.failure_states), format('select pawl.unaudit(%L, %L)', bound.relation, bound.state_column));
    END IF;
    IF a.audit IS NULL THEN
        a.audit := pawl._make_audit(a, bound.log_key_columns, name);
    ELSIF present.log IS NOT NULL THEN
        a := present;
    END IF;
    problem := CASE WHEN EXISTS (SELECT FROM pawl.audit_binding b WHERE b.audit = a.audit AND b.log <> a.log)
        THEN 'it is the audit of another log'
                    WHEN NOT pawl._owns(a.audit) THEN 'it belongs to another role'
                    ELSE pawl._audit_problem(a, bound.log_key_columns, false) END;
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('42P07',
            format('relation "%s" exists and cannot be the audit of table %s', name, bound.relation),
            upper(left(problem, 1)) || substr(problem, 2) || '.', 'choose another name: into_table => ...');
    END IF;
    IF present.log IS NULL THEN
        PERFORM pawl._store_audit(a);
    END IF;
    FOR problem IN SELECT i.definition FROM pawl._audit_missing_indexes(a) i LOOP
        EXECUTE problem;
    END LOOP;
    PERFORM pawl._open_record(a.audit);
    PERFORM pawl._fill_audit(a, bound);
    PERFORM pawl._close_record(a.audit);
    PERFORM pawl._install_audit(m) FROM pawl._members(a.log) m;
    RETURN a.audit;
END
$function$;
COMMENT ON FUNCTION pawl.audit(regclass, jsonb, name, name[], name) IS
'Writes a row to an audit table whenever a row of the log enters a result state, also for entries that the log
already has, and returns the audit table. Called again with the same arguments it repairs the audit.
relation: the enforced table. on_states: result states and whether each is a success: {"done": true, "failed":
false}. into_table: its name; default <table>_result_audit. parent: columns of the table that are copied; default
none. state_column: null: the only bound column.
Errors: 55000 no log; PW008 unknown state; 22023 on_states is invalid; 42710 audited with other arguments; 42P07 a
relation with this name is not an audit of the table; 42703 unknown parent column; 42704 no binding; 42501 not the
owner; 25001 not READ COMMITTED.
Privileges: pawl_admin that owns the table and its log.
Example: SELECT pawl.audit(''orders'', ''{"paid": true}'')';

-- The results in the log that the audit lacks, except for pruned ones.
CREATE FUNCTION pawl._fill_audit(a pawl.audit_binding, bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
BEGIN
    EXECUTE pawl._audit_statement(a, bound, a.log::text,
        format('n.created_at >= %L AND NOT EXISTS (SELECT FROM %s x WHERE %s AND x.transition_id = n.id)',
            pawl._pruned_before(a.log), a.audit,
               pawl._same_key('x', a.key_columns, 'n', bound.log_key_columns, a.audit)));
END
$function$;
COMMENT ON FUNCTION pawl._fill_audit(pawl.audit_binding, pawl.binding) IS 'internal: audits what the log holds already';

-- A log that is used again is still audited; the entries of rows that were attached are in it by now.
CREATE FUNCTION pawl._resume_audit(bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    a pawl.audit_binding;
    problem text;
BEGIN
    SELECT b.* INTO a FROM pawl.audit_binding b WHERE b.log = bound.history;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    a.relation := bound.relation;
    problem := pawl._audit_problem(a, bound.log_key_columns, false);
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('55000',
            format('the audit %s of the log %s does not match table %s', a.audit, a.log, bound.relation),
            format('Of the audit: %s.', problem),
            format('drop trigger "!pawl_audit" on %s; select pawl._drop_audit(%L)', a.log, a.log));
    END IF;
    PERFORM pawl._move_audit(bound.history, bound.relation);
    PERFORM pawl._open_record(a.audit);
    PERFORM pawl._fill_audit(a, bound);
    PERFORM pawl._close_record(a.audit);
END
$function$;
COMMENT ON FUNCTION pawl._resume_audit(pawl.binding) IS 'internal: audits what came into a log that was taken up again';

-- The audit of a binding, or an error.
CREATE FUNCTION pawl._audited(bound pawl.binding) RETURNS pawl.audit_binding
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    a pawl.audit_binding;
BEGIN
    SELECT b.* INTO a FROM pawl.audit_binding b WHERE b.log = bound.history;
    IF NOT FOUND THEN
        PERFORM pawl.raise('42704', format('the results of table %s are not audited', bound.relation), NULL,
            format('select pawl.audit(%L, ''{"...": true}'')', bound.relation));
    END IF;
    RETURN a;
END
$function$;
COMMENT ON FUNCTION pawl._audited(pawl.binding) IS 'internal: the audit of a binding, or an error';

CREATE FUNCTION pawl.unaudit(relation regclass, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
    a pawl.audit_binding;
BEGIN
    PERFORM pawl._check_owner(bound.history);
    a := pawl._audited(bound);
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', a.log);
    EXECUTE (SELECT string_agg(format('DROP TRIGGER IF EXISTS "!pawl_audit" ON %s', m::regclass), '; ')
        FROM pawl._members(a.log) m);
    PERFORM pawl._drop_audit(a.log);
END
$function$;
COMMENT ON FUNCTION pawl.unaudit(regclass, name) IS
'Ends the audit of a log. The audit table stays, but rejects every change. relation: the enforced table.
state_column: null: the only bound column.
Errors: 42704 no binding or no audit; 55000 no log; 42501 not the owner. Privileges: pawl_admin that owns the log.
Example: SELECT pawl.unaudit(''orders'')';

CREATE FUNCTION pawl._audit_of_by_key(relation regclass, key anycompatible, state_column name)
RETURNS TABLE (transition_id uuid, recorded_at timestamptz, worker text, correlation_id text, success boolean,
    execution_time_ms bigint, state text, event text, actor text, metadata jsonb)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 5
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
    a pawl.audit_binding := pawl._audited(bound);
    key_text text[] := pawl._key_text(bound.relation, key, bound.state_column);
    as_log pawl.binding := bound;
BEGIN
    IF NOT (has_any_column_privilege(a.audit, 'SELECT') AND has_any_column_privilege(a.log, 'SELECT')) THEN
        PERFORM pawl.raise('42501', format('permission denied for table %s', a.audit),
            'Results are read from the audit and from the log.',
            format('grant select on %s, %s to %I', a.audit, a.log, current_user));
    END IF;
    as_log.history := a.audit;
    as_log.log_key_columns := a.key_columns;
    RETURN QUERY EXECUTE format(
        'SELECT l.transition_id, l.recorded_at, l.worker, l.correlation_id, l.success, l.execution_time_ms, l.state, '
        't.event, t.actor, t.metadata '
        'FROM %s l LEFT JOIN %s t ON %s AND t.id = l.transition_id WHERE %s ORDER BY l.recorded_at DESC, '
        'l.transition_id DESC',
        a.audit, a.log, pawl._same_key('t', bound.log_key_columns, 'l', a.key_columns, a.log), pawl._of_subject(as_log))
        USING key_text;
END
$function$;
COMMENT ON FUNCTION pawl._audit_of_by_key(regclass, anycompatible, name) IS
'internal: pawl.audit_of, for keys that are no array of records';

CREATE FUNCTION pawl.audit_of(relation regclass, key anycompatible, state_column name DEFAULT NULL)
RETURNS TABLE (transition_id uuid, recorded_at timestamptz, worker text, correlation_id text, success boolean,
    execution_time_ms bigint, state text, event text, actor text, metadata jsonb)
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 5
AS 'MODULE_PATHNAME', 'pawl_by_key';
COMMENT ON FUNCTION pawl.audit_of(regclass, anycompatible, name) IS
'Returns the audited results of one row, newest first.
relation: the enforced table. key: a value, row(a, b) or an array of texts. state_column: null: the only bound
column.
Returns transition_id (the id of the log entry), recorded_at, worker, correlation_id, success, execution_time_ms
(milliseconds), state; and from the log entry, null if it was pruned: event, actor, metadata.
Errors: 42704 no binding or no audit; 55000 no log; 22023 several bindings, or a key of another length. Privileges:
all roles; needs SELECT on the audit and the log.
Example: SELECT recorded_at, success FROM pawl.audit_of(''orders'', 1)';
