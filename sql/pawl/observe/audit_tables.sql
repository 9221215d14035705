-- Result audits: a table beside the log with a row for every result, written by a trigger of the log.

CREATE TABLE pawl.audit_binding (
    log regclass NOT NULL PRIMARY KEY,
    audit regclass NOT NULL,
    relation regclass NOT NULL,
    success_states text[] NOT NULL,
    failure_states text[] NOT NULL,
    key_columns name[] NOT NULL,
    parent_columns name[] NOT NULL DEFAULT '{}',
    audit_parent_columns name[] NOT NULL DEFAULT '{}',
    audited_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    audited_by text NOT NULL DEFAULT CURRENT_USER,
    -- The attribute numbers of parent_columns, as in pawl.binding.
    relation_oid oid,
    parent_attnums smallint[]
);
COMMENT ON TABLE pawl.audit_binding IS
'one row a log whose results are audited; written by pawl.audit, pawl.unaudit and pawl.prune_audit';
COMMENT ON COLUMN pawl.audit_binding.key_columns IS 'what the key columns of the log are called in the audit';
COMMENT ON COLUMN pawl.audit_binding.parent_columns IS 'columns of the relation that are copied';
COMMENT ON COLUMN pawl.audit_binding.audit_parent_columns IS 'what they are called in the audit';

SELECT pg_catalog.pg_extension_config_dump('pawl.audit_binding',
    'WHERE log NOT IN (SELECT b.history FROM pawl.binding b WHERE b.extension IS NOT NULL AND b.history IS NOT NULL)');

-- A table of its own: bindings of an extension's tables are made by its script and not dumped, but this is data.
CREATE TABLE pawl.pruned_audit (
    log regclass NOT NULL PRIMARY KEY,
    pruned_before timestamptz NOT NULL
);
COMMENT ON TABLE pawl.pruned_audit IS 'one row an audit that was ever pruned, by its log; written by pawl.prune_audit';
COMMENT ON COLUMN pawl.pruned_audit.pruned_before IS 'older results may have been removed';
SELECT pg_catalog.pg_extension_config_dump('pawl.pruned_audit', '');

CREATE FUNCTION pawl._pruned_before(log regclass) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce((SELECT p.pruned_before FROM pawl.pruned_audit p WHERE p.log = _pruned_before.log), '-infinity')
$function$;
COMMENT ON FUNCTION pawl._pruned_before(regclass) IS
'internal: results older than this may have been removed from the audit of a log';

CREATE FUNCTION pawl._audit_binding_check() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.audit_binding');
    foreign_table regclass;
BEGIN
    SELECT r.relation INTO foreign_table
      FROM (SELECT CASE WHEN TG_OP <> 'INSERT' THEN OLD.log END
            UNION ALL SELECT CASE WHEN TG_OP <> 'INSERT' THEN OLD.audit END
            UNION ALL SELECT CASE WHEN TG_OP <> 'DELETE' THEN NEW.log END
            UNION ALL SELECT CASE WHEN TG_OP <> 'DELETE' THEN NEW.audit END
            UNION ALL SELECT CASE WHEN TG_OP <> 'DELETE' THEN NEW.relation END) r(relation)
     WHERE NOT pawl._owns(r.relation) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s', foreign_table), NULL,
            pawl._owner_hint(foreign_table));
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    NEW.relation_oid := NEW.relation::oid;
    SELECT array_agg(a.attnum ORDER BY k.n) INTO NEW.parent_attnums
      FROM unnest(NEW.parent_columns) WITH ORDINALITY k(name, n)
      LEFT JOIN pg_attribute a ON a.attrelid = NEW.relation AND a.attname = k.name AND a.attnum > 0
          AND NOT a.attisdropped;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._audit_binding_check() IS
'internal: an audit can be bound only by the owner of table, log and audit';

CREATE TRIGGER owner_only BEFORE INSERT OR UPDATE OR DELETE ON pawl.audit_binding
    FOR EACH ROW EXECUTE FUNCTION pawl._audit_binding_check();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON pawl.audit_binding
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate_truncate AFTER TRUNCATE ON pawl.audit_binding
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
ALTER TABLE pawl.audit_binding ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE pawl.audit_binding ENABLE ALWAYS TRIGGER invalidate_truncate;

CREATE FUNCTION pawl.audit_results() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_audit_results';
COMMENT ON FUNCTION pawl.audit_results() IS 'trigger of a log: writes the audit of the results that enter it';
CREATE FUNCTION pawl.protect_record() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_protect_record';
COMMENT ON FUNCTION pawl.protect_record() IS
'trigger of an audit, and of what is known of a pruned log: only pawl writes it';

-- What the key and parent columns are called in the audit: as in the log and the table,
-- unless the audit has such a column itself.
CREATE FUNCTION pawl._audit_names(bound pawl.binding, parent name[], OUT keys name[], OUT parents name[])
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    own constant name[] := '{audit_id,transition_id,recorded_at,worker,correlation_id,success,execution_time_ms,state}';
    apart name[];
BEGIN
    keys := pawl._apart(bound.log_key_columns, own, 'subject_');
    -- a parent that is a key is there once
    apart := pawl._apart(ARRAY(SELECT p.name FROM unnest(parent) WITH ORDINALITY p(name, n)
                                WHERE p.name <> ALL (bound.key_columns) ORDER BY p.n), own || keys, 'parent_');
    parents := ARRAY(
        SELECT CASE WHEN p.name = ANY (bound.key_columns) THEN keys[array_position(bound.key_columns, p.name)]
                    ELSE apart[count(*) FILTER (WHERE p.name <> ALL (bound.key_columns)) OVER (ORDER BY p.n)] END
          FROM unnest(parent) WITH ORDINALITY p(name, n) ORDER BY p.n);
END
$function$;
COMMENT ON FUNCTION pawl._audit_names(pawl.binding, name[]) IS
'internal: what columns of a table are called in its audit';

-- The columns an audit begins with, in order. A parent that is part of the key is there once.
CREATE FUNCTION pawl._audit_columns(a pawl.audit_binding, log_keys name[])
RETURNS TABLE (n bigint, name name, type text, "collation" oid, not_null boolean)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 12
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH source(part, n, name, relation, column_name) AS (
        SELECT 2, k.n, k.name, a.log::oid, l.name
          FROM unnest(a.key_columns) WITH ORDINALITY k(name, n)
          JOIN unnest(log_keys) WITH ORDINALITY l(name, n) ON l.n = k.n
        UNION ALL
        SELECT 3, p.n, p.name, a.relation::oid, t.name
          FROM unnest(a.audit_parent_columns) WITH ORDINALITY p(name, n)
          JOIN unnest(a.parent_columns) WITH ORDINALITY t(name, n) ON t.n = p.n
         WHERE p.name <> ALL (a.key_columns))
    SELECT row_number() OVER (ORDER BY c.part, c.n), c.name, c.type, c.coll, c.not_null
      FROM (SELECT s.part, s.n, s.name, format_type(x.atttypid, x.atttypmod) AS type,
                   CASE WHEN x.attcollation <> t.typcollation THEN x.attcollation ELSE 0::oid END AS coll,
                   s.part = 2 AS not_null
              FROM source s
              JOIN pg_attribute x ON x.attrelid = s.relation AND x.attname = s.column_name AND NOT x.attisdropped
              JOIN pg_type t ON t.oid = x.atttypid
            UNION ALL
            SELECT f.part, f.n, f.name::name, f.type, 0::oid, f.not_null
              FROM (VALUES (1, 1, 'audit_id', 'uuid', true), (4, 1, 'transition_id', 'uuid', true),
                           (4, 2, 'recorded_at', 'timestamp with time zone', true), (4, 3, 'worker', 'text', false),
                           (4, 4, 'correlation_id', 'text', false), (4, 5, 'success', 'boolean', true),
                           (4, 6, 'execution_time_ms', 'bigint', false), (4, 7, 'state', 'text', true)) f(part, n, name,
                           type, not_null)) c
$function$;
COMMENT ON FUNCTION pawl._audit_columns(pawl.audit_binding, name[]) IS 'internal: the columns of an audit';

-- The indexes for questions that auditors ask, beside the primary key (subject, newest last). Failures are few, so
-- their index costs a success nothing; successes are found among all results.
CREATE FUNCTION pawl._audit_indexes(a pawl.audit_binding) RETURNS TABLE (columns name[], predicate text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 5
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT a.audit_parent_columns || 'recorded_at'::name, NULL WHERE a.audit_parent_columns <> '{}'
    UNION ALL SELECT f.columns::name[], f.predicate
      FROM (VALUES ('{recorded_at}', NULL), ('{worker,recorded_at}', '(worker IS NOT NULL)'),
                   ('{correlation_id}', '(correlation_id IS NOT NULL)'), ('{recorded_at}', '(NOT success)')) f(columns,
                   predicate)
$function$;
COMMENT ON FUNCTION pawl._audit_indexes(pawl.audit_binding) IS 'internal: the indexes of an audit';

CREATE FUNCTION pawl._audit_missing_indexes(a pawl.audit_binding) RETURNS TABLE (definition text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('CREATE INDEX ON %s (%s)%s', a.audit, pawl._columns('', w.columns), ' WHERE ' || w.predicate)
      FROM pawl._audit_indexes(a) w
     WHERE NOT EXISTS (SELECT FROM pg_index i
                        WHERE i.indrelid = a.audit AND i.indisvalid AND i.indexprs IS NULL
                          AND pg_get_expr(i.indpred, a.audit) IS NOT DISTINCT FROM w.predicate
                          AND (SELECT array_agg(x.attname ORDER BY k.n)
                              FROM unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, n)
                                 JOIN pg_attribute x ON x.attrelid = a.audit AND x.attnum = k.attnum) = w.columns)
$function$;
COMMENT ON FUNCTION pawl._audit_missing_indexes(pawl.audit_binding) IS
'internal: how to make the indexes that an audit lacks';

-- Why a table cannot be this audit; null if it can.
CREATE FUNCTION pawl._audit_problem(a pawl.audit_binding, log_keys name[], columns_only boolean) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off
AS $function$
DECLARE
    expected text;
    got text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = a.audit AND c.relkind = 'r' AND c.relpersistence <> 't') THEN
        RETURN 'it is not a plain table, or does not exist';
    END IF;
    IF pawl._is_unlogged(a.audit) AND NOT pawl._is_unlogged(a.log) THEN
        RETURN 'it is unlogged, so a crash would empty it but not the log';
    END IF;
    IF EXISTS (SELECT FROM unnest(a.parent_columns) p
                WHERE NOT EXISTS (SELECT FROM pg_attribute x
            WHERE x.attrelid = a.relation AND x.attname = p AND NOT x.attisdropped)) THEN
        RETURN format('a copied column of table %s is missing', a.relation);
    END IF;
    SELECT e.name || ' ' || e.type, x.name || ' ' || x.type INTO expected, got
      FROM pawl._audit_columns(a, log_keys) e
      LEFT JOIN (SELECT x.attname AS name, format_type(x.atttypid, x.atttypmod) AS type,
          row_number() OVER (ORDER BY x.attnum) AS n
                   FROM pg_attribute x WHERE x.attrelid = a.audit AND x.attnum > 0 AND NOT x.attisdropped) x
      ON x.n = e.n
     WHERE (e.name, e.type) IS DISTINCT FROM (x.name, x.type) ORDER BY e.n LIMIT 1;
    IF FOUND THEN
        RETURN format('it has %s where %s should be', coalesce(got, 'nothing'), expected);
    END IF;
    IF NOT columns_only
       AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.audit AND i.indisprimary AND i.indisvalid
                          AND (SELECT array_agg(x.attname ORDER BY k.n)
                              FROM unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, n)
                                 JOIN pg_attribute x ON x.attrelid = a.audit AND x.attnum = k.attnum) = a.key_columns
           || 'transition_id'::name) THEN
        RETURN 'its primary key is not (key, transition_id)';
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl._audit_problem(pawl.audit_binding, name[], boolean) IS
'internal: why a table cannot be an audit; null when it can';

-- The execution time in the metadata of a result, as an expression: at the top level, or in the result that it wraps. A
-- value that is no time is ignored; only entries from before the audit can have one.
CREATE FUNCTION pawl._given_time(alias text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT '(SELECT round(v.value::numeric)::bigint FROM (VALUES '
        || string_agg(format('(%s, CASE WHEN jsonb_typeof(%s.metadata #> %L) = ''number'' THEN %s.metadata #> %L END)',
                p.n, alias, p.path, alias, p.path), ', ' ORDER BY p.n)
        || ') v(n, value) WHERE v.value::numeric BETWEEN 0 AND 9e18 ORDER BY v.n LIMIT 1)'
      FROM (VALUES (1, '{execution_time_ms}'), (2, '{metadata,execution_time_ms}'), (3, '{result,execution_time_ms}'),
                   (4, '{result,metadata,execution_time_ms}')) p(n, path)
$function$;
COMMENT ON FUNCTION pawl._given_time(text) IS
'internal: an expression for the execution time in the metadata of a log row';

-- The statement that writes the audit of log rows (alias n) from a source. It finds entries by key, row by row, because
-- the size of the source when the plan is made says nothing about later calls.
CREATE FUNCTION pawl._audit_statement(a pawl.audit_binding, bound pawl.binding, source text, condition text)
    RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    same text := pawl._same_key('p', bound.log_key_columns, 'n', bound.log_key_columns, a.log);
    owned text;
    copied name[];
    copies name[];
BEGIN
    SELECT array_agg(s.state)::text INTO owned FROM pawl.machine_state s
     WHERE s.machine = bound.machine AND s.version = bound.version AND s.kind = 'state' AND 'owned' = ANY (s.tags);
    SELECT array_agg(t.name ORDER BY t.n), array_agg(p.name ORDER BY t.n) INTO copied, copies
      FROM unnest(a.parent_columns) WITH ORDINALITY t(name, n)
      JOIN unnest(a.audit_parent_columns) WITH ORDINALITY p(name, n) ON p.n = t.n
     WHERE p.name <> ALL (a.key_columns);
    RETURN format($statement$
        INSERT INTO %1$s (%2$s, transition_id, recorded_at, worker, correlation_id, success, execution_time_ms, state)
        SELECT %3$s, n.id, n.created_at, n.processor, n.correlation_id, n.to_state COLLATE "C" = ANY (%4$L),
               coalesce(%5$s, floor(extract(epoch FROM n.created_at - coalesce(%6$s,
                   (SELECT p.created_at FROM %7$s p
                   WHERE %8$s AND p.sort_key = n.sort_key - 1 AND p.to_state IS NOT NULL))) * 1000)::bigint),
               n.to_state
          FROM %9$s n %10$s
         WHERE n.to_state COLLATE "C" = ANY (%11$L) AND coalesce(n.event, '') NOT IN ('pawl.upgrade', 'pawl.place')
             AND %12$s$statement$,
        a.audit, pawl._columns('', a.key_columns || coalesce(copies, '{}')),
        concat_ws(', ', pawl._columns('n.', bound.log_key_columns), pawl._columns('r.', copied)),
        a.success_states, pawl._given_time('n'),
        -- since the row was claimed, and not before it was inserted again
        CASE WHEN owned IS NULL THEN 'NULL' ELSE format(
            '(SELECT CASE WHEN p.to_state IS NOT NULL THEN p.created_at END FROM %s p WHERE %s AND p.sort_key '
            '< n.sort_key '
            'AND (p.to_state IS NULL OR p.to_state COLLATE "C" = ANY (%3$L) AND (p.from_state COLLATE "C" = ANY '
            '(%3$L)) IS NOT TRUE) '
            'ORDER BY p.sort_key DESC LIMIT 1)', a.log, same, owned) END,
        a.log, same, source,
        CASE WHEN copied IS NOT NULL THEN format('LEFT JOIN LATERAL (SELECT %s FROM %s r WHERE %s LIMIT 1) r ON true',
            pawl._columns('r.', copied), a.relation,
            pawl._same_key('r', bound.key_columns, 'n', bound.log_key_columns, a.relation)) END,
        a.success_states || a.failure_states, condition);
END
$function$;
COMMENT ON FUNCTION pawl._audit_statement(pawl.audit_binding, pawl.binding, text, text) IS
'internal: the INSERT that writes an audit';

-- Whether the rows of an audit can be written without its statement: audit and log are plain tables, the audit has the
-- columns that pawl.audit gave it, with nothing copied from a parent, and nothing else happens when a row is inserted.
CREATE FUNCTION pawl._audit_is_plain(a pawl.audit_binding, log_keys name[]) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT (SELECT bool_and(c.relkind = 'r' AND NOT (c.relispartition OR c.relhasrules OR c.relrowsecurity))
              FROM pg_class c WHERE c.oid IN (a.log, a.audit))
       AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = a.audit
                          AND t.tgfoid <> 'pawl.protect_record()'::regprocedure)
       AND ARRAY(SELECT x.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY k(number, n)
                   JOIN pg_attribute x ON x.attrelid = a.log AND x.attnum = k.number
                  WHERE i.indrelid = a.log AND i.indisprimary ORDER BY k.n) = log_keys || 'sort_key'::name
       AND NOT EXISTS (SELECT FROM pg_attribute x
                         LEFT JOIN pg_attrdef d ON d.adrelid = x.attrelid AND d.adnum = x.attnum
                         LEFT JOIN pg_attribute k ON k.attrelid = a.log
                              AND k.attname = log_keys[array_position(a.key_columns, x.attname)]
                         LEFT JOIN (VALUES ('audit_id', 'uuid'::regtype, 'pawl.uuid_v7()'),
                             ('transition_id', 'uuid', ''),
                                ('recorded_at', 'timestamptz', ''), ('worker', 'text', ''),
                                ('correlation_id', 'text', ''), ('success', 'boolean', ''),
                                ('execution_time_ms', 'bigint', ''), ('state', 'text', '')) o(name, type, preset)
                             ON o.name = x.attname
                        WHERE x.attrelid = a.audit AND x.attnum > 0 AND NOT x.attisdropped
                          AND (x.attgenerated <> '' OR x.attidentity <> ''
                              OR coalesce(pg_get_expr(d.adbin, d.adrelid), '') <> coalesce(o.preset, '')
                              OR coalesce(k.atttypid, o.type) IS DISTINCT FROM x.atttypid
                              OR k.atttypmod <> x.atttypmod))
$function$;
COMMENT ON FUNCTION pawl._audit_is_plain(pawl.audit_binding, name[]) IS
'internal: whether rows of an audit can be written without its statement';

-- What the trigger of a log needs to know. It runs with the rights of the extension's owner, so this reads catalogs
-- only. log_keys, audit_keys: the numbers of the key columns; null: rows are written by the statement.
CREATE FUNCTION pawl._audit_plan(INOUT log oid, OUT statement text, OUT audit oid, OUT relation oid,
    OUT success_states text[], OUT failure_states text[], OUT owned_states text[], OUT log_keys smallint[],
    OUT audit_keys smallint[])
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    a pawl.audit_binding;
    bound pawl.binding;
    asked constant oid := _audit_plan.log;
BEGIN
    SELECT b.* INTO a FROM pawl.audit_binding b WHERE b.log IN (SELECT m FROM pawl._ancestors(_audit_plan.log) m);
    SELECT b.* INTO bound FROM pawl.binding b WHERE b.history = a.log;
    log := a.log;
    audit := a.audit;
    IF a.log IS NULL OR bound.relation IS NULL THEN
        RETURN;
    END IF;
    statement := pawl._audit_statement(a, bound, 'new_rows', 'true');
    relation := a.relation;
    success_states := a.success_states;
    failure_states := a.failure_states;
    owned_states := pawl._owned_states(bound.machine, bound.version);
    IF a.log = asked AND pawl._audit_is_plain(a, bound.log_key_columns) THEN
        log_keys := ARRAY(SELECT x.attnum FROM unnest(bound.log_key_columns) WITH ORDINALITY k(name, n)
            JOIN pg_attribute x ON x.attrelid = a.log AND x.attname = k.name ORDER BY k.n);
        audit_keys := ARRAY(SELECT x.attnum FROM unnest(a.key_columns) WITH ORDINALITY k(name, n)
            JOIN pg_attribute x ON x.attrelid = a.audit AND x.attname = k.name ORDER BY k.n);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._audit_plan(oid) IS
'internal: the audit of a log, or of its partitioned parent, for the trigger; no statement without a binding';

CREATE FUNCTION pawl._store_audit(a pawl.audit_binding) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_store_audit';
COMMENT ON FUNCTION pawl._store_audit(pawl.audit_binding) IS
'internal: stores a new audit; 42501: not the owner of table, log and audit; 55000: they do not fit';

CREATE FUNCTION pawl._move_audit(log regclass, relation regclass) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_move_audit';
COMMENT ON FUNCTION pawl._move_audit(regclass, regclass) IS
'internal: a log that is audited is that of another table now; 42501: not the owner of both';

CREATE FUNCTION pawl._drop_audit(log regclass) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_drop_audit';
COMMENT ON FUNCTION pawl._drop_audit(regclass) IS 'internal: forgets the audit of a log; 42501: not its owner';
