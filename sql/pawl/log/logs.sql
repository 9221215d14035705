-- The log beside an enforced table: its names, its columns, its rights and its triggers.

-- Names of columns beside columns of other names: one of these gets the prefix, and again until no column has it.
CREATE FUNCTION pawl._apart(names name[], others name[], prefix text) RETURNS name[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    made name[] := '{}';
    apart name;
BEGIN
    FOR n IN 1 .. cardinality(names) LOOP
        apart := names[n];
        WHILE apart = ANY (others) OR (apart <> names[n] AND apart = ANY (names || made)) LOOP
            apart := prefix || apart;
        END LOOP;
        made := made || apart;
    END LOOP;
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl._apart(name[], name[], text) IS
'internal: names of columns, with a prefix where another column has the name';

-- A log has columns of its own; a key column with the name of one of them, such as "id", is called subject_<name> in
-- the log.
CREATE FUNCTION pawl._log_key_columns(key_columns name[]) RETURNS name[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT pawl._apart(key_columns, '{id,sort_key,from_state,to_state,event,processor,actor,correlation_id,metadata,'
        'machine_version,created_at,most_recent,hash,salt,salts,placed}', 'subject_')
$function$;
COMMENT ON FUNCTION pawl._log_key_columns(name[]) IS 'internal: what the key columns of a table are called in its log';

-- A name of a base and a suffix that PostgreSQL does not cut: a base that is too long is cut here, and gets a hash to
-- stay unique.
CREATE FUNCTION pawl._log_name(base text, suffix text) RETURNS name
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    short text := base;
    room integer;
BEGIN
    IF octet_length(base || suffix) > 63 THEN
        room := 63 - octet_length(suffix) - 7;
        WHILE octet_length(short) > room LOOP
            short := left(short, -1);
        END LOOP;
        short := short || '_' || left(md5(base), 6);
    END IF;
    RETURN (short || suffix)::name;
END
$function$;
COMMENT ON FUNCTION pawl._log_name(text, text) IS 'internal: a name that fits into 63 bytes';

-- The columns a log begins with, in order.
CREATE FUNCTION pawl._log_columns(relation regclass, key_columns name[], most_recent text, hash_chain boolean)
RETURNS TABLE (n bigint, name name, type text, "collation" oid, not_null boolean)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 15
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT row_number() OVER (ORDER BY c.part, c.n), c.name, c.type, c.coll, c.not_null
      FROM (SELECT 2 AS part, k.n, l.name, format_type(a.atttypid, a.atttypmod) AS type,
                   CASE WHEN a.attcollation <> t.typcollation THEN a.attcollation ELSE 0::oid END AS coll,
                   true AS not_null
              FROM unnest(key_columns) WITH ORDINALITY k(name, n)
              JOIN unnest(pawl._log_key_columns(key_columns)) WITH ORDINALITY l(name, n) ON l.n = k.n
              JOIN pg_attribute a ON a.attrelid = relation AND a.attname = k.name AND NOT a.attisdropped
              JOIN pg_type t ON t.oid = a.atttypid
            UNION ALL
            SELECT f.part, f.n, f.name::name, f.type, 0::oid, f.not_null
              FROM (VALUES (1, 1, 'id', 'uuid', true), (3, 1, 'sort_key', 'integer', true),
                  (3, 2, 'from_state', 'text', false),
                           (3, 3, 'to_state', 'text', false), (3, 4, 'event', 'text', false),
                           (3, 5, 'processor', 'text', false),
                           (3, 6, 'actor', 'text', true), (3, 7, 'correlation_id', 'text', false),
                           (3, 8, 'metadata', 'jsonb', false), (3, 9, 'machine_version', 'integer', true),
                           (3, 10, 'created_at', 'timestamp with time zone', true),
                           (3, 11, 'most_recent', 'boolean', true),
                           (3, 12, 'hash', 'bytea', true), (3, 13, 'salt', 'bytea', false),
                           (3, 14, 'salts', 'jsonb', false)) f(part, n, name, type, not_null)
             WHERE (f.name <> 'most_recent' OR most_recent = 'stored')
                 AND (f.name NOT IN ('hash', 'salt', 'salts') OR hash_chain)) c;
END
$function$;
COMMENT ON FUNCTION pawl._log_columns(regclass, name[], text, boolean) IS 'internal: the columns of the log of a table';

CREATE FUNCTION pawl._is_unlogged(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT EXISTS (SELECT FROM pawl._members(relation) m JOIN pg_class c ON c.oid = m
            WHERE c.relkind = 'r' AND c.relpersistence = 'u'));
END
$function$;
COMMENT ON FUNCTION pawl._is_unlogged(regclass) IS 'internal: whether a crash empties a table, or some of its members';

-- Why a table cannot be this log; null if it can. Its indexes may be left out: while a dump is being restored they do
-- not exist yet.
CREATE FUNCTION pawl._log_problem(log regclass, relation regclass, key_columns name[], most_recent text,
    hash_chain boolean, columns_only boolean)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off
AS $function$
DECLARE
    expected text;
    got text;
    key_attnums smallint[];
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = log) THEN
        RETURN 'it does not exist';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_class c
        WHERE c.oid = log AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't') THEN
        RETURN 'it is not a table';
    END IF;
    IF pawl._is_unlogged(log) AND NOT pawl._is_unlogged(relation) THEN
        RETURN 'it is unlogged, so a crash would empty it but not the table';
    END IF;
    FOR expected, got IN
        SELECT e.name || ' ' || e.type, a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
          FROM pawl._log_columns(relation, key_columns, most_recent, hash_chain) e
          LEFT JOIN (SELECT x.*, row_number() OVER (ORDER BY x.attnum) AS n FROM pg_attribute x
                      WHERE x.attrelid = log AND x.attnum > 0 AND NOT x.attisdropped) a ON a.n = e.n
         ORDER BY e.n
    LOOP
        IF expected IS DISTINCT FROM got THEN
            RETURN format('it has %s where %s should be', coalesce(got, 'nothing'), expected);
        END IF;
    END LOOP;
    SELECT a.attname INTO got FROM pg_attribute a
     WHERE a.attrelid = log AND NOT a.attisdropped
       AND (a.attname = 'hash' AND NOT hash_chain OR a.attname = 'most_recent' AND most_recent <> 'stored') LIMIT 1;
    IF FOUND THEN
        RETURN format('it has an unexpected column %s', got);
    END IF;
    IF columns_only THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(a.attnum ORDER BY k.n) INTO key_attnums
      FROM unnest(pawl._log_key_columns(key_columns)) WITH ORDINALITY k(name, n)
      JOIN pg_attribute a ON a.attrelid = log AND a.attname = k.name;
    IF NOT EXISTS (SELECT FROM pg_index i JOIN pg_attribute s ON s.attrelid = log AND s.attname = 'sort_key'
                    WHERE i.indrelid = log AND i.indisprimary AND i.indisvalid
                      AND (i.indkey::smallint[])[0:i.indnatts - 1] = key_attnums || s.attnum) THEN
        RETURN 'its primary key is not (key, sort_key)';
    END IF;
    IF most_recent = 'stored'
       AND NOT EXISTS (SELECT FROM pg_index i
           WHERE i.indrelid = log AND i.indisunique AND i.indisvalid AND i.indpred IS NOT NULL
                          AND (i.indkey::smallint[])[0:i.indnatts - 1] = key_attnums
                          AND pg_get_expr(i.indpred, log) = 'most_recent') THEN
        RETURN 'it has no unique index on the key where most_recent';
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl._log_problem(regclass, regclass, name[], text, boolean, boolean) IS
'internal: why a table cannot be the log of another; null when it can';

-- sort_key has no gaps: the newest row (l) is the one without a next.
CREATE FUNCTION pawl._is_newest(log regclass, log_keys name[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('NOT EXISTS (SELECT FROM %s n WHERE %s AND n.sort_key = l.sort_key + 1)', log,
        (SELECT string_agg(format('n.%1$I %2$s l.%1$I', k.name, pawl._equality(a.atttypid)), ' AND ' ORDER BY k.n)
           FROM unnest(log_keys) WITH ORDINALITY k(name, n)
           JOIN pg_attribute a ON a.attrelid = log AND a.attname = k.name))
$function$;
COMMENT ON FUNCTION pawl._is_newest(regclass, name[]) IS 'internal: the column most_recent of the view on a log';

CREATE FUNCTION pawl._view_command(view text, log regclass, log_keys name[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('CREATE VIEW %s WITH (security_invoker = true) AS SELECT l.*, %s AS most_recent FROM %s l',
        view, pawl._is_newest(log, log_keys), log)
$function$;
COMMENT ON FUNCTION pawl._view_command(text, regclass, name[]) IS
'internal: the statement that makes the view on a log';

-- Makes the log table (and the view on it) beside its table, without triggers: it is empty.
CREATE FUNCTION pawl._make_log(relation regclass, key_columns name[], most_recent text, hash_chain boolean,
    log_table name, log_view name, log_partition text, OUT log regclass, OUT view regclass)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    schema_name name;
    owner regrole;
    log_keys name[] := pawl._log_key_columns(key_columns);
    columns text;
    layout record := pawl._log_layout(log_partition, key_columns);
BEGIN
    SELECT n.nspname, c.relowner INTO schema_name, owner
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    SELECT string_agg(format('%I %s%s%s', c.name, c.type,
                             CASE WHEN c."collation" <> 0 THEN ' COLLATE ' || c."collation"::regcollation END,
                             CASE WHEN c.not_null THEN ' NOT NULL' END), ', ' ORDER BY c.n)
      INTO columns FROM pawl._log_columns(relation, key_columns, most_recent, hash_chain) c;
    EXECUTE format('CREATE TABLE %I.%I (%s, PRIMARY KEY (%s, sort_key)) %s', schema_name, log_table, columns,
                   pawl._columns('', log_keys), layout.clause);
    log := format('%I.%I', schema_name, log_table)::regclass;
    EXECUTE format('COMMENT ON TABLE %s IS %L', log, 'the state changes of ' || relation || ', written by pawl');
    PERFORM pawl._distribute_log(relation, log, log_keys[1]);
    IF layout.clause IS NOT NULL THEN
        PERFORM pawl._make_first_partitions(log, layout.strategy, layout.buckets);
    END IF;
    IF most_recent = 'stored' THEN
        EXECUTE format('CREATE UNIQUE INDEX ON %s (%s) WHERE most_recent', log, pawl._columns('', log_keys));
    ELSE
        EXECUTE pawl._view_command(format('%I.%I', schema_name, log_view), log, log_keys);
        view := format('%I.%I', schema_name, log_view)::regclass;
        EXECUTE format('COMMENT ON VIEW %s IS %L', view, 'the state changes of ' || relation || ', written by pawl');
    END IF;
    IF owner::oid <> (SELECT c.relowner FROM pg_class c WHERE c.oid = log) THEN
        EXECUTE format('ALTER TABLE %s OWNER TO %s', log, owner);
        IF layout.clause IS NOT NULL THEN
            EXECUTE (SELECT string_agg(format('ALTER TABLE %s OWNER TO %s', m::regclass, owner), '; ')
                FROM pawl._members(log) m WHERE m <> log);
        END IF;
        IF view IS NOT NULL THEN
            EXECUTE format('ALTER VIEW %s OWNER TO %s', view, owner);
        END IF;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._make_log(regclass, name[], text, boolean, name, name, text) IS
'internal: creates a log beside its table';

-- A role that can read the table can read its log, and one that can change its states can insert into the log. PUBLIC
-- gets nothing, and with row-level security no role gets the log, which would show hidden rows.
CREATE FUNCTION pawl._grant_log(relation regclass, state_column name, log regclass, view regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    privilege text;
    grantee regrole;
    target regclass;
BEGIN
    FOR privilege, grantee IN
        SELECT DISTINCT CASE g.privilege_type WHEN 'UPDATE' THEN 'INSERT' ELSE 'SELECT' END, g.grantee::regrole
          FROM pg_class c
          CROSS JOIN LATERAL (SELECT t.grantee, t.privilege_type FROM aclexplode(c.relacl) t
                              UNION ALL
                              SELECT t.grantee, t.privilege_type FROM pg_attribute a, aclexplode(a.attacl) t
                               WHERE a.attrelid = c.oid AND a.attname = state_column AND t.privilege_type = 'UPDATE') g
         WHERE c.oid = relation AND g.grantee <> 0 AND g.grantee <> c.relowner
           AND (g.privilege_type = 'UPDATE' OR g.privilege_type = 'SELECT' AND NOT c.relrowsecurity)
    LOOP
        FOREACH target IN ARRAY array_remove(ARRAY[log, view], NULL) LOOP
            EXECUTE format('GRANT %s ON %s TO %s', privilege, target, grantee);
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._grant_log(regclass, name, regclass, regclass) IS
'internal: grants the users of a table the same privileges on its log';

-- One trigger rejects changes of the log, another one turns a client's insert into a state change.
CREATE FUNCTION pawl._close_log(log regclass, requests boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    trigger_name text;
    moment text;
    function_name text;
BEGIN
    FOR trigger_name, moment, function_name IN
        VALUES ('!pawl_protect', 'BEFORE UPDATE OR DELETE ON %s FOR EACH STATEMENT', 'pawl.protect_log'),
               -- a statement aimed at a parent of the log fires row triggers here only
               ('!pawl_protect_row', 'BEFORE UPDATE OR DELETE ON %s FOR EACH ROW', 'pawl.protect_log'),
               ('!pawl_protect_truncate', 'BEFORE TRUNCATE ON %s FOR EACH STATEMENT', 'pawl.protect_log'),
               ('~pawl_log_insert', 'BEFORE INSERT ON %s FOR EACH ROW', 'pawl.log_insert')
    LOOP
        IF function_name = 'pawl.log_insert' AND NOT requests THEN
            CONTINUE;
        END IF;
        IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = log AND t.tgname = trigger_name
                      AND pawl._trigger_fits(t.oid, (function_name || '()')::regprocedure, moment)) THEN
            EXECUTE format('ALTER TABLE %s ENABLE TRIGGER %I', log, trigger_name);
        ELSE
            EXECUTE format('CREATE OR REPLACE TRIGGER %I ' || moment || ' EXECUTE FUNCTION %s()', trigger_name, log,
                function_name);
        END IF;
    END LOOP;
    PERFORM pawl._close_partitions(log);
END
$function$;
COMMENT ON FUNCTION pawl._close_log(regclass, boolean) IS 'internal: creates or enables the triggers of a log';

CREATE FUNCTION pawl._open_log(log regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    trigger_name name;
BEGIN
    FOR trigger_name IN
        SELECT t.tgname FROM pg_trigger t
         WHERE t.tgrelid = log AND NOT t.tgisinternal AND t.tgenabled <> 'D'
           AND t.tgfoid IN ('pawl.protect_log()'::regprocedure, 'pawl.log_insert()'::regprocedure)
    LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', log, trigger_name);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._open_log(regclass) IS
'internal: disables the triggers of a log while its owner attaches rows';
