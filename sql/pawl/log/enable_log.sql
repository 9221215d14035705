-- The log of a binding, added to it: pawl.enable_log.

-- The name for the log of a column. For a second binding of a table, or a column that had a log before, it contains the
-- column's name.
CREATE FUNCTION pawl._choose_log(relation regclass, state_column name, log_name name) RETURNS name
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    class pg_class;
    short name;
    long name;
BEGIN
    IF log_name IS NOT NULL THEN
        IF log_name = '' OR octet_length(log_name) > 59 THEN
            PERFORM pawl.raise('42622', 'log_name must have 1 to 59 bytes', 'A derived log adds _log to it.');
        END IF;
        RETURN log_name;
    END IF;
    SELECT c.* INTO class FROM pg_class c WHERE c.oid = relation;
    -- both with room for _transitions_log
    short := left(pawl._log_name(class.relname, '_transitions_log'), -4);
    long := left(pawl._log_name(class.relname || '_' || state_column, '_transitions_log'), -4);
    IF EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = class.relnamespace AND c.relname IN (long,
        long || '_log')
                  AND NOT EXISTS (SELECT FROM pawl.binding b WHERE c.oid IN (b.history, b.history_view)))
       OR EXISTS (SELECT FROM pg_class c JOIN pawl.binding b ON c.oid IN (b.history, b.history_view)
                   WHERE c.relnamespace = class.relnamespace AND c.relname IN (short, short || '_log')) THEN
        RETURN long;
    END IF;
    RETURN short;
END
$function$;
COMMENT ON FUNCTION pawl._choose_log(regclass, name, name) IS 'internal: the name of the log of a column';

CREATE FUNCTION pawl.enable_log(relation regclass, state_column name DEFAULT NULL, most_recent text DEFAULT NULL,
    hash_chain boolean DEFAULT NULL, log_name name DEFAULT NULL, log_partition text DEFAULT NULL,
    validate boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    before pawl.binding := pawl._own_binding(relation, state_column);
    after pawl.binding;
BEGIN
    IF most_recent NOT IN ('stored', 'derived') THEN
        PERFORM pawl.raise('22023', format('unknown value "%s" for most_recent', most_recent), NULL,
            'stored or derived');
    END IF;
    before := pawl._lock_binding(before, before, 'pawl.enable_log');
    after := before;
    after.most_recent := coalesce(enable_log.most_recent, before.most_recent);
    after.hash_chain := coalesce(enable_log.hash_chain, before.hash_chain);
    IF before.history IS NOT NULL AND coalesce(log_name = pawl._log_called(before), true) THEN
        PERFORM pawl._check_same_log(before, after, log_partition);
        PERFORM pawl._close_log(before.history, true);
        RETURN;
    END IF;
    PERFORM pawl._leave_log(before);
    after.history := NULL;
    after.history_view := NULL;
    after.validated := before.validated AND coalesce(validate, true);
    IF log_name = '' THEN
        after.validated := before.validated;
        IF after IS DISTINCT FROM before THEN
            after.most_recent := 'derived';
            after.hash_chain := false;
            PERFORM pawl._change_binding(after);
        END IF;
        RETURN;
    END IF;
    IF after.key_columns = '{}' THEN
        PERFORM pawl.raise('55000', format('table %s has no key for its log', after.relation),
            CASE WHEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = after.relation AND i.indisprimary)
                 THEN 'Its primary key is the state alone.' ELSE 'It has no primary key.' END,
            format('add one, or name columns that identify a row: select pawl.enforce(%L, %L, %L, key => array[...])',
                   after.relation, after.state_column, after.machine));
    END IF;
    PERFORM pawl._begin_log(after, pawl._choose_log(after.relation, after.state_column, log_name), log_partition,
        before.history);
END
$function$;
COMMENT ON FUNCTION pawl.enable_log(regclass, name, text, boolean, name, text, boolean) IS
'Adds a log to a binding: one entry a state change, in a table beside the enforced one. Rows that are there begin
it with pawl.attach.
relation: the enforced table. state_column: null: the only bound column. most_recent: derived (default): the log
is strictly append-only, and a view computes which entry is the newest; stored: a column has it. hash_chain:
each entry contains a hash of the one before it; default false. log_name: at most 59 bytes; default
<table>_transitions; '''': no log any more. log_partition: range (id), list (tenant) or hash (id) partitions 8,
over columns of the key. validate: false: the rows that are there are not read now, and begin the log with their
first state change or by pawl.validate; default true, or false while the binding is not validated. A log that an
earlier binding left under this name is taken up again if it fits. Called
again with another log_name it closes the log and begins that one; with the same, or none, it enables the
triggers of the log. Warns (01000) if the new log begins beside an older one.
Errors: 55000 the table has no key, the log does not match the rows, or another log is needed for what is
asked; 42P07 the relation of that name is no log of this table; 22023 arguments; 42704 no binding; 42501 not the
owner; 25001 not READ COMMITTED.
Privileges: pawl_admin that owns the table.
Example: SELECT pawl.enable_log(''parcels'', hash_chain => true)';

-- The name of a log as log_name gives it.
CREATE FUNCTION pawl._log_called(bound pawl.binding) RETURNS name
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT c.relname FROM pg_class c WHERE c.oid = coalesce(bound.history_view, bound.history)
$function$;
COMMENT ON FUNCTION pawl._log_called(pawl.binding) IS 'internal: the log_name of a binding; null: it has no log';

-- The tables with the triggers of a log that no binding writes; of a partitioned log its root.
CREATE FUNCTION pawl._orphaned_logs() RETURNS SETOF regclass
LANGUAGE sql STABLE PARALLEL RESTRICTED STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT DISTINCT t.tgrelid::regclass FROM pg_depend d
      JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid AND t.tgparentid = 0
      JOIN pg_class c ON c.oid = t.tgrelid AND NOT c.relispartition
     WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = 'pawl.log_insert()'::regprocedure
       AND NOT EXISTS (SELECT FROM pawl.binding b WHERE b.history IN (t.tgrelid, pawl._logical(t.tgrelid, true)))
     ORDER BY 1
$function$;
COMMENT ON FUNCTION pawl._orphaned_logs() IS 'internal: logs without a binding';

CREATE FUNCTION pawl._log_called_by(log regclass) RETURNS name
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce((SELECT v.relname FROM pg_class v
                      WHERE v.relnamespace = c.relnamespace AND v.relkind = 'v' AND v.relname || '_log' = c.relname),
                    c.relname)
      FROM pg_class c WHERE c.oid = log
$function$;
COMMENT ON FUNCTION pawl._log_called_by(regclass) IS 'internal: the log_name of a log without a binding';

-- How a log is partitioned, as log_partition says it; null: it is not.
CREATE FUNCTION pawl._log_partition(bound pawl.binding) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off
AS $function$
    SELECT format('%s (%s)', CASE p.partstrat WHEN 'r' THEN 'range' WHEN 'l' THEN 'list' ELSE 'hash' END,
                  (SELECT string_agg(quote_ident(k.name), ', ' ORDER BY n.n)
                     FROM unnest(p.partattrs::smallint[]) WITH ORDINALITY n(attnum, n)
                     JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = n.attnum
                     JOIN unnest(bound.log_key_columns, bound.key_columns) k(log_name,
                         name) ON k.log_name = a.attname))
           || CASE WHEN p.partstrat = 'h' THEN format(' partitions %s', (SELECT count(*) FROM pg_inherits i
               WHERE i.inhparent = p.partrelid))
                   ELSE '' END
      FROM pg_partitioned_table p WHERE p.partrelid = bound.history
$function$;
COMMENT ON FUNCTION pawl._log_partition(pawl.binding)
    IS 'internal: the log_partition of a binding; null: its log is not partitioned';

-- The kind of a log cannot change; another kind needs another log.
CREATE FUNCTION pawl._check_same_log(before pawl.binding, after pawl.binding, log_partition text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    layout text := (pawl._log_layout(log_partition, before.key_columns)).clause;
    present text := (pawl._log_layout(pawl._log_partition(before), before.key_columns)).clause;
    problem text := CASE WHEN after.most_recent <> before.most_recent THEN format('Its most_recent is %s.',
        before.most_recent)
                         WHEN after.hash_chain AND NOT before.hash_chain THEN 'It has no hash chain.'
                         WHEN before.hash_chain AND NOT after.hash_chain THEN 'It has a hash chain.'
                         WHEN log_partition IS NOT NULL AND layout IS DISTINCT FROM present
                         THEN CASE WHEN present IS NULL THEN 'It is not partitioned.'
                                   ELSE format('It is partitioned by %s.', pawl._log_partition(before)) END END;
BEGIN
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('55000', format('the log %s cannot be changed', before.history), problem,
            format('begin another log: select pawl.enable_log(%L, %L, ..., log_name => ...)', before.relation,
                before.state_column));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_same_log(pawl.binding, pawl.binding, text) IS
'internal: rejects what an existing log cannot be changed to (55000)';

-- Closes the log of a binding, as pawl.release does.
CREATE FUNCTION pawl._leave_log(bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF bound.history IS NULL THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM pawl.audit_binding a WHERE a.log = bound.history) THEN
        PERFORM pawl.raise('55000', format('the log %s is audited', bound.history), NULL,
            format('select pawl.unaudit(%L, %L)', bound.relation, bound.state_column));
    END IF;
    PERFORM pawl._check_owner(bound.history);
    PERFORM pawl._retire_log(bound.history, bound.history_view);
END
$function$;
COMMENT ON FUNCTION pawl._leave_log(pawl.binding)
 IS
'internal: closes the log of a binding that begins another one, or keeps none';

CREATE FUNCTION pawl._begin_log(bound pawl.binding, log_name name, log_partition text, former regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    is_new boolean;
    older regclass := former;
BEGIN
    PERFORM pawl._check_distributed_log(bound, true, log_partition);
    SELECT * INTO bound.history, bound.history_view, is_new FROM pawl._take_log(bound, log_name, log_partition);
    PERFORM pawl._check_distributed_log(bound, is_new, log_partition);
    PERFORM pawl._open_log(bound.history);
    IF is_new THEN
        IF older IS NULL THEN
            SELECT l INTO older FROM pawl._orphaned_logs() l
              JOIN pg_class c ON c.oid = l JOIN pg_class t ON t.oid = bound.relation AND t.relnamespace = c.relnamespace
             WHERE l <> bound.history AND (c.relname ^@ left(t.relname || '_transitions', 59)
                OR c.relname ^@ left(t.relname || '_' || bound.state_column || '_transitions', 59))
             ORDER BY l LIMIT 1;
        END IF;
        IF older IS NOT NULL THEN
            RAISE WARNING USING ERRCODE = '01000',
                MESSAGE = format('table %s has an older log %s', bound.relation, older),
                DETAIL = format('Its entries stay there: %s begins with the rows as they are.', bound.history),
                HINT = format('To continue it instead: select pawl.enable_log(%L, %L, log_name => %L)', bound.relation,
                    bound.state_column, pawl._log_called_by(older));
        END IF;
    END IF;
    IF NOT is_new THEN
        PERFORM pawl._drop_lost_audit(bound);
        PERFORM pawl._close_missing(bound);
        PERFORM pawl._validate_now(bound, format('The log %s exists: the rows of table %s were compared with it',
            bound.history, bound.relation));
        bound.validated := true;
    END IF;
    IF bound.validated THEN
        PERFORM pawl._attach_rows(bound, bound.relation::text);
    END IF;
    PERFORM pawl._change_binding(bound);  -- stores its time, which must be later than these entries
    PERFORM pawl._close_log(bound.history, true);
    PERFORM pawl._resume_audit(bound);
    PERFORM pawl._grant_log(bound.relation, bound.state_column, bound.history, bound.history_view);
END
$function$;
COMMENT ON FUNCTION pawl._begin_log(pawl.binding, name, text, regclass)
 IS
'internal: creates a log or uses one again, and writes the entries of existing rows';

-- A restore of the schema alone brings the triggers of an audit, and not the audit.
CREATE FUNCTION pawl._drop_lost_audit(bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    member regclass;
    trigger_name name;
BEGIN
    IF EXISTS (SELECT FROM pawl.audit_binding a WHERE a.log = bound.history) THEN
        RETURN;
    END IF;
    FOR member, trigger_name IN
        SELECT t.tgrelid, t.tgname FROM pawl._members(bound.history) m JOIN pg_trigger t ON t.tgrelid = m
         WHERE t.tgfoid = 'pawl.audit_results()'::regprocedure AND t.tgparentid = 0
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', trigger_name, member);
    END LOOP;
    IF FOUND THEN
        RAISE WARNING USING ERRCODE = '01000', MESSAGE = format('the log %s was audited, and is not any more',
            bound.history), HINT = format('select pawl.audit(%L, ..., state_column => %L)', bound.relation,
            bound.state_column);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._drop_lost_audit(pawl.binding) IS
'internal: drops the triggers of an audit that is not there, and warns';

-- Uses a log again that an earlier binding or a restore has left, if it fits.
CREATE FUNCTION pawl._take_log(bound pawl.binding, log_name name, log_partition text, OUT log regclass,
    OUT view regclass, OUT is_new boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    schema_oid oid := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = bound.relation);
    table_name name := CASE WHEN bound.most_recent = 'derived' THEN log_name || '_log' ELSE log_name END;
    view_name name := CASE WHEN bound.most_recent = 'derived' THEN log_name END;
    problem text;
BEGIN
    SELECT c.oid INTO log FROM pg_class c WHERE c.relnamespace = schema_oid AND c.relname = table_name;
    SELECT c.oid INTO view FROM pg_class c WHERE c.relnamespace = schema_oid AND c.relname = view_name;
    is_new := log IS NULL AND view IS NULL;
    IF is_new THEN
        SELECT m.log, m.view INTO log, view
          FROM pawl._make_log(bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain, table_name,
              view_name, log_partition) m;
        RETURN;
    END IF;
    problem := CASE WHEN log IS NULL THEN format('there is a relation %s, but no log %I', view, table_name)
                    WHEN EXISTS (SELECT FROM pawl.binding b WHERE b.history = log)
                        THEN 'it is the log of another binding'
                    WHEN NOT pawl._owns(log) THEN 'it belongs to another role'
                    WHEN view_name IS NOT NULL AND view IS NULL THEN format('the view %I on it is missing', view_name)
                    WHEN view IS NOT NULL AND (SELECT c.relkind FROM pg_class c WHERE c.oid = view) <> 'v'
                        THEN format('%s is not a view', view)
                    WHEN log_partition IS NOT NULL AND 'PARTITION BY ' || pg_get_partkeydef(log) IS DISTINCT FROM
                         (SELECT regexp_replace(l.clause, l.strategy, upper(l.strategy))
                             FROM pawl._log_layout(log_partition, bound.key_columns) l)
                         THEN 'it is ' || coalesce('partitioned by ' || pg_get_partkeydef(log), 'not partitioned')
                    ELSE pawl._log_problem(log, bound.relation, bound.key_columns, bound.most_recent,
                        bound.hash_chain, false) END;
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('42P07', format('relation "%s" exists and cannot be the log of table %s', table_name,
            bound.relation),
            upper(left(problem, 1)) || substr(problem, 2) || '.', 'choose another name: log_name => ...');
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', log);
    EXECUTE format('SELECT min(format(''row %%s changed from %%s to %%s in version %%s'', %s, '
                   'coalesce(quote_ident(l.from_state), ''nothing''), coalesce(quote_ident(l.to_state), ''nothing''), '
                   'l.machine_version)) '
                   'FROM %s l WHERE %s',
                   pawl._key_label('l', bound.log_key_columns), log, pawl._foreign_change('l')) INTO problem
                       USING bound.machine;
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('55000', format('the log %s is not one of machine "%s"', log, bound.machine), problem,
            'choose another name: log_name => ...');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._take_log(pawl.binding, name, text)
    IS 'internal: the log of an earlier binding, or a new one';

-- A log without a binding: its triggers stay and reject every insert, and the privilege to insert is revoked.
CREATE FUNCTION pawl._retire_log(log regclass, view regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    target regclass;
    grantee regrole;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = log) THEN
        RETURN;
    END IF;
    FOR target, grantee IN
        SELECT c.oid, a.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
         WHERE c.oid IN (log, view) AND a.privilege_type = 'INSERT' AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE INSERT ON %s FROM %s', target, CASE WHEN grantee::oid = 0 THEN 'PUBLIC'
            ELSE grantee::text END);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._retire_log(regclass, regclass) IS 'internal: closes a log whose binding ends';
