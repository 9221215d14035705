-- The log beside an enforced table: its names, its shape, its first rows.

-- The text that a row's hash is made of, after its predecessor's hash: a JSON array in one line,
--   [key..., sort_key, from_state, to_state, event, processor, actor, correlation_id, metadata, machine_version,
--   created_at] its elements separated by a comma and a space, nothing else between or around them. Each key value is
--   an element of its own. Key values and texts are JSON strings as to_json(text) prints them: in double quotes; \" \\
--   \b \f \n \r \t for these seven, \u00xx (lower case) for the other characters below U+0020, every other character as
--   it is, also / and what is not ASCII. NULL is null. sort_key and machine_version are plain decimal integers.
--   metadata is a JSON string that holds the output of jsonb. created_at is an integer: microseconds since 1970-01-01
--   00:00:00 UTC. Key values are in the form of their type's output function under datestyle 'ISO, YMD', intervalstyle
--   'postgres', timezone UTC, extra_float_digits 1, bytea_output hex, whatever the session has set. Its names are bound
--   when it is created; a search_path of its own would double what a call costs.
CREATE FUNCTION pawl._log_content(key text[], sort_key integer, from_state text, to_state text, event text,
    processor text,
    actor text, correlation_id text, metadata jsonb, machine_version integer, created_at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN '[' || array_to_string(
    CASE WHEN cardinality(key) = 1 THEN ARRAY[to_json(key[1])::text]
         ELSE ARRAY(SELECT to_json(k.value)::text FROM unnest(key) WITH ORDINALITY k(value, n) ORDER BY k.n) END
    || ARRAY[sort_key::text, to_json(from_state)::text, to_json(to_state)::text, to_json(event)::text,
             to_json(processor)::text, to_json(actor)::text, to_json(correlation_id)::text,
             to_json(metadata::text)::text, machine_version::text,
             (extract(epoch FROM created_at) * 1000000)::bigint::text],
    ', ', 'null') || ']';
COMMENT ON FUNCTION pawl._log_content(text[], integer, text, text, text, text, text, text, jsonb, integer,
    timestamptz) IS
'internal: the text of a log row that its hash is made of';

-- In place of processor, correlation_id and metadata the text has their commitments, sha256(sha256(salt || field) ||
-- value) in hexadecimal digits, so that a value can be taken away and the chain still holds; of an object, one for each
-- member, and below the top level the value of an object is the text of the commitments of its members. The salt is 16
-- random bytes. Where pawl.redact took values away the row keeps, instead of the salt, the sha256(salt || field) of
-- those that are left. A chain that was begun in version 0.0.1 has no salts, and covers the values themselves.
CREATE FUNCTION pawl._commitment(field text, value text, salt bytea, salts jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN CASE WHEN value IS NULL OR salt IS NULL AND salts IS NULL THEN value
            WHEN salt IS NULL
                AND NOT salts ? field THEN CASE WHEN value ^@ 'redacted:' THEN substr(value, 10) ELSE '' END
            ELSE encode(sha256(CASE WHEN salt IS NOT NULL THEN sha256(salt || convert_to(field, 'UTF8'))
                ELSE decode(salts ->> field, 'hex') END
                               || convert_to(value, 'UTF8')), 'hex') END;
COMMENT ON FUNCTION pawl._commitment(text, text, bytea, jsonb) IS
'internal: what a hash chain covers of a value that can be redacted';

-- A member of metadata is the field metadata.<key>, one below it metadata and its JSON Pointer (RFC 6901):
-- metadata/customer/email. No key makes two the same.
CREATE FUNCTION pawl._pointer(parent text, key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN parent || '/' || replace(replace(key, '~', '~0'), '/', '~1');
COMMENT ON FUNCTION pawl._pointer(text, text) IS 'internal: the JSON Pointer of a member';

-- field: of the member; pointer: its JSON Pointer.
CREATE FUNCTION pawl._member_commitment(field text, pointer text, value jsonb, salt bytea, salts jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF salt IS NULL AND NOT salts ? field THEN
        RETURN pawl._commitment(field, value #>> '{}', salt, salts);
    ELSIF jsonb_typeof(value) = 'object' THEN
        RETURN pawl._commitment(field, (SELECT coalesce(jsonb_object_agg(m.key,
                pawl._member_commitment(m.pointer, m.pointer, m.value, salt, salts)), '{}')::text
            FROM (SELECT j.key, j.value, pawl._pointer(_member_commitment.pointer, j.key) AS pointer
                FROM jsonb_each(value) j OFFSET 0) m), salt, salts);
    END IF;
    RETURN pawl._commitment(field, value::text, salt, salts);
END
$function$;
COMMENT ON FUNCTION pawl._member_commitment(text, text, jsonb, bytea, jsonb) IS
'internal: what a hash chain covers of a member of metadata';

CREATE FUNCTION pawl._metadata_commitment(metadata jsonb, salt bytea, salts jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN CASE WHEN metadata IS NULL OR salt IS NULL AND salts IS NULL THEN metadata
            WHEN jsonb_typeof(metadata) = 'object' THEN
                 (SELECT coalesce(jsonb_object_agg(m.key, CASE
                             WHEN jsonb_typeof(m.value) = 'object' THEN
                                  pawl._member_commitment('metadata.' || m.key, pawl._pointer('metadata', m.key),
                                      m.value, salt, salts)
                             ELSE pawl._commitment('metadata.' || m.key,
                                  CASE WHEN salt IS NULL
                             AND NOT salts ? ('metadata.' || m.key) THEN m.value #>> '{}' ELSE m.value::text END,
                         salt, salts) END), '{}')
                    FROM jsonb_each(metadata) m)
            ELSE to_jsonb(pawl._commitment('metadata',
        CASE WHEN salt IS NULL AND NOT salts ? 'metadata' THEN metadata #>> '{}' ELSE metadata::text END, salt, salts))
    END;
COMMENT ON FUNCTION pawl._metadata_commitment(jsonb, bytea, jsonb) IS 'internal: what a hash chain covers of metadata';

CREATE FUNCTION pawl._is_salted(log regclass) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = log AND a.attname = 'salt' AND NOT a.attisdropped)
$function$;
COMMENT ON FUNCTION pawl._is_salted(regclass) IS
'internal: whether the values of a log with a hash chain can be redacted';

CREATE FUNCTION pawl._log_hash(previous bytea, content text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN pg_catalog.sha256(COALESCE(previous, ''::pg_catalog.bytea)
                         OPERATOR(pg_catalog.||) pg_catalog.convert_to(content, 'UTF8'));
COMMENT ON FUNCTION pawl._log_hash(bytea, text) IS
'internal: the hash of a log row; the first row of a subject has nothing before it';

-- A log has columns of its own; a key column with such a name (many a table is keyed by "id") is subject_<name> there.
CREATE FUNCTION pawl._log_key_columns(key_columns name[]) RETURNS name[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(
        array_agg(CASE WHEN k.name IN ('id', 'sort_key', 'from_state', 'to_state', 'event', 'processor', 'actor',
                                   'correlation_id', 'metadata', 'machine_version', 'created_at', 'most_recent', 'hash',
                                   'salt', 'salts')
                                   THEN ('subject_' || k.name)::name ELSE k.name END ORDER BY k.n), '{}')
      FROM unnest(key_columns) WITH ORDINALITY k(name, n)
$function$;
COMMENT ON FUNCTION pawl._log_key_columns(name[]) IS 'internal: what the key columns of a table are called in its log';

-- A name made of a base and a suffix that PostgreSQL will not cut: a base too long is cut
-- here, and told apart by its hash.
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
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 15
SET search_path = pg_catalog, pg_temp
AS $function$
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
                 AND (f.name NOT IN ('hash', 'salt', 'salts') OR hash_chain)) c
$function$;
COMMENT ON FUNCTION pawl._log_columns(regclass, name[], text, boolean) IS 'internal: the columns of the log of a table';

CREATE FUNCTION pawl._is_unlogged(relation regclass) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT EXISTS (SELECT FROM pawl._members(relation) m JOIN pg_class c ON c.oid = m
        WHERE c.relkind = 'r' AND c.relpersistence = 'u')
$function$;
COMMENT ON FUNCTION pawl._is_unlogged(regclass) IS 'internal: whether a crash empties a table, or some of its members';

-- Why a table is not the log it should be; null when it is. Its indexes may be left out:
-- while a dump is being restored they are not there yet.
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
         WHERE e.name NOT IN ('salt', 'salts') OR pawl._is_salted(log)
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

-- The list of key columns of an alias, quoted; and a condition that two aliases have the same key.
CREATE FUNCTION pawl._columns(alias text, names name[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('%s%I', alias, k.name), ', ' ORDER BY k.n) FROM unnest(names) WITH ORDINALITY k(name, n)
$function$;
COMMENT ON FUNCTION pawl._columns(text, name[]) IS 'internal: a list of quoted column names';

-- By the equality of the columns' own types, which need not be in any search_path (citext, ltree).
CREATE FUNCTION pawl._same_key(one text, names name[], other text, other_names name[], relation regclass) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('pawl.same_value(%s.%I, %s.%I)', one, k.name, other, o.name), ' AND ' ORDER BY k.n)
      FROM unnest(names) WITH ORDINALITY k(name, n) JOIN unnest(other_names) WITH ORDINALITY o(name, n) ON o.n = k.n
$function$;
COMMENT ON FUNCTION pawl._same_key(text, name[], text, name[], regclass) IS
'internal: a condition that two rows have the same key; the relation is that of the first names';

-- The key of a row as people read it, and as text[]: the output functions, not casts (a
-- cast changes char(n), boolean, inet).
CREATE FUNCTION pawl._key_label(alias text, names name[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN cardinality(names) = 0 THEN 'NULL::text'
                WHEN cardinality(names) = 1 THEN format('format(''%%s'', %s.%I)', alias, names[1])
                ELSE format('format(''(%s)'', %s)',
                    array_to_string(array_fill('%s'::text, ARRAY[cardinality(names)]), ', '),
                            pawl._columns(alias || '.', names)) END
$function$;
COMMENT ON FUNCTION pawl._key_label(text, name[]) IS 'internal: an expression that shows the key of a row';

CREATE FUNCTION pawl._key_array(alias text, names name[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT 'ARRAY[' || string_agg(format('format(''%%s'', %s.%I)', alias, k.name), ', ' ORDER BY k.n) || ']'
      FROM unnest(names) WITH ORDINALITY k(name, n)
$function$;
COMMENT ON FUNCTION pawl._key_array(text, name[]) IS 'internal: an expression that gives the key of a row as text[]';

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
    IF layout.clause IS NOT NULL THEN
        PERFORM pawl._make_first_partitions(log, layout.strategy, layout.buckets);
    END IF;
    IF most_recent = 'stored' THEN
        EXECUTE format('CREATE UNIQUE INDEX ON %s (%s) WHERE most_recent', log, pawl._columns('', log_keys));
    ELSE
        -- sort_key has no gaps: the newest row is the one without a next
        EXECUTE format('CREATE VIEW %I.%I WITH (security_invoker = true) AS SELECT l.*, NOT EXISTS (SELECT FROM %s n '
            'WHERE %s AND n.sort_key = l.sort_key + 1) AS most_recent FROM %s l',
                       schema_name, log_view, log,
                       (SELECT string_agg(format('n.%1$I %2$s l.%1$I', k.name, pawl._equality(a.atttypid)), ' AND '
                           ORDER BY k.n)
                          FROM unnest(log_keys) WITH ORDINALITY k(name, n)
                JOIN pg_attribute a ON a.attrelid = log AND a.attname = k.name), log);
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

-- A role that can read the table can read its log; one that can change its states can insert into the log. PUBLIC gets
-- nothing, and where row-level security hides rows no role gets a log that would show them.
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
'internal: gives the users of a table the same of its log';

-- The guard rejects changes of the log; the request trigger turns a client's insert into a state change.
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

-- Where logs end, as a query: the newest entries (alias l) under a condition, and what is
-- known of subjects whose whole log was pruned.
CREATE FUNCTION pawl._log_ends(bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    anchors regclass := pawl._anchors(bound.history);
    keys text := pawl._columns('', bound.log_key_columns);
    hash text := CASE WHEN bound.hash_chain THEN 'hash' ELSE 'NULL::bytea AS hash' END;
    newest text := format('(SELECT DISTINCT ON (%1$s) %1$s, sort_key, to_state, created_at, %2$s FROM %3$s ORDER BY '
        '%1$s, sort_key DESC)', keys, hash, bound.history);
BEGIN
    RETURN CASE WHEN anchors IS NULL THEN newest ELSE
        format('(SELECT * FROM %s n UNION ALL SELECT %s, a.sort_key, a.to_state, a.created_at, a.hash FROM %s a WHERE '
            'a.whole AND NOT EXISTS (SELECT FROM %s l WHERE %s))',
               newest, pawl._columns('a.', pawl._anchor_keys(bound, anchors)), anchors, bound.history,
               pawl._same_key('l', bound.log_key_columns, 'a', pawl._anchor_keys(bound, anchors), bound.history)) END;
END
$function$;
COMMENT ON FUNCTION pawl._log_ends(pawl.binding) IS 'internal: a query for the last entry of each subject';

CREATE FUNCTION pawl._anchors(log regclass) RETURNS regclass
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT p.anchors FROM pawl.pruned_log p JOIN pg_class c ON c.oid = p.anchors WHERE p.log = _anchors.log);
END
$function$;
COMMENT ON FUNCTION pawl._anchors(regclass) IS
'internal: the table that remembers where a log was cut; null while it never was';

-- The columns and values of a log row, as the two lists of an INSERT. Settings of the
-- session apply as to all state changes.
CREATE FUNCTION pawl._log_row(bound pawl.binding, keys text, key_array text, from_state text, to_state text, event text,
    OUT columns text, OUT expressions text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    processor text := $$nullif(current_setting('pawl.processor', true), '')$$;
    correlation_id text := $$nullif(current_setting('pawl.correlation_id', true), '')$$;
    salted boolean := bound.hash_chain AND pawl._is_salted(bound.history);
BEGIN
    columns := 'id, ' || pawl._columns('', bound.log_key_columns)
        || ', sort_key, from_state, to_state, event, processor, actor, correlation_id, machine_version, created_at'
        || CASE WHEN bound.most_recent = 'stored' THEN ', most_recent' ELSE '' END
        || CASE WHEN bound.hash_chain THEN ', hash' ELSE '' END || CASE WHEN salted THEN ', salt' ELSE '' END;
    expressions :=
        format('pawl.uuid_v7(n.created_at), %s, n.sort_key, %s, %s, %L, %s, current_user, %s, $1, n.created_at',
                          keys, from_state, to_state, event, processor, correlation_id)
        || CASE WHEN bound.most_recent = 'stored' THEN ', true' ELSE '' END
        || CASE WHEN bound.hash_chain
                THEN format(', pawl._log_hash(o.hash, pawl._log_content(%1$s, n.sort_key, %2$s, %3$s, %4$L, '
                'pawl._commitment(''processor'', %5$s, %7$s, NULL), '
                            'current_user, pawl._commitment(''correlation_id'', %6$s, %7$s, NULL), NULL, $1, '
                            'n.created_at))',
                            key_array, from_state, to_state, event, processor, correlation_id,
                            CASE WHEN salted THEN 'n.salt' ELSE 'NULL' END)
                ELSE '' END
        || CASE WHEN salted THEN ', n.salt' ELSE '' END;
END
$function$;
COMMENT ON FUNCTION pawl._log_row(pawl.binding, text, text, text, text, text) IS
'internal: what a log row written by SQL consists of';

-- Rows that the log does not know begin with pawl.attach; a log that says something else of a row is an error. Source
-- is the tree, or `ONLY` one new member of it.
CREATE FUNCTION pawl._attach_rows(bound pawl.binding, source text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
DECLARE
    same text := pawl._same_key('l', bound.log_key_columns, 'r', bound.key_columns, bound.history);
    newest text :=
        format('SELECT l.sort_key, l.to_state, l.created_at%s FROM %s l WHERE %s ORDER BY l.sort_key DESC LIMIT 1',
                          CASE WHEN bound.hash_chain THEN ', l.hash' END, bound.history, same);
    anchors regclass := pawl._anchors(bound.history);
    row_text record :=
        pawl._log_row(bound, pawl._columns('r.', bound.key_columns), pawl._key_array('r', bound.key_columns),
                                     'NULL', format('pawl.value_text(r.%I)', bound.state_column), 'pawl.attach');
    used boolean;
    wrong bigint;
    example text;
BEGIN
    IF anchors IS NOT NULL THEN  -- of some subjects nothing but the end is known
        newest := format('SELECT * FROM ((%s) UNION ALL SELECT a.sort_key, a.to_state, a.created_at%s FROM %s a WHERE '
            'a.whole AND %s) o ORDER BY sort_key DESC LIMIT 1',
                         newest, CASE WHEN bound.hash_chain THEN ', a.hash' END, anchors,
                         pawl._same_key('a', pawl._anchor_keys(bound, anchors), 'r', bound.key_columns, anchors));
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', bound.history) INTO used;
    used := used OR anchors IS NOT NULL;
    IF used THEN
        EXECUTE format(
            'SELECT count(*), min(format($$row %%s is in "%%s", its log ends with "%%s"$$, %s, r.%I, o.to_state)) '
                       'FROM %s r CROSS JOIN LATERAL (%s) o WHERE o.to_state COLLATE "C" <> pawl.value_text(r.%I)',
                       pawl._key_label('r', bound.key_columns), bound.state_column, source, newest, bound.state_column)
           INTO wrong, example;
        IF wrong > 0 THEN
            PERFORM pawl.raise('55000',
                format('the log %s does not match the rows of table %s', bound.history, bound.relation),
                format('%s: %s.', CASE wrong WHEN 1 THEN '1 row differs' ELSE wrong || ' rows differ' END, example),
                'change these rows to the state in which their log ends'
                || CASE WHEN source ^@ 'ONLY ' THEN '' ELSE ', or begin a new log: log_name => ...' END);
        END IF;
        IF bound.most_recent = 'stored' THEN
            EXECUTE format(
                'UPDATE %s l SET most_recent = false FROM %s r WHERE l.most_recent AND l.to_state IS NULL AND %s',
                           bound.history, source, same);
        END IF;
    END IF;
    EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM %s r LEFT JOIN LATERAL (%s) o ON true '
                   'CROSS JOIN LATERAL (SELECT coalesce(o.sort_key, 0) + 1 AS sort_key, greatest($2, o.created_at) AS '
                   'created_at, uuid_send(gen_random_uuid()) AS salt) n '
                   'WHERE o.to_state IS NULL', bound.history, row_text.columns, row_text.expressions, source, newest)
      USING bound.version, clock_timestamp();
EXCEPTION WHEN unique_violation THEN
    PERFORM pawl.raise('23505', format('the key (%s) does not identify one row of table %s',
                                        array_to_string(bound.key_columns, ', '), bound.relation),
        SQLERRM, 'name columns that do: key => array[...]');
END
$function$;
COMMENT ON FUNCTION pawl._attach_rows(pawl.binding, text) IS 'internal: writes the first log rows of existing rows';

-- Rows that were deleted while the log was closed end with pawl.delete, so that they can be inserted again.
CREATE FUNCTION pawl._close_missing(bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
DECLARE
    no_row text := format('NOT EXISTS (SELECT FROM %s r WHERE %s)', bound.relation,
                          pawl._same_key('r', bound.key_columns, 'o', bound.log_key_columns, bound.relation));
    row_text record :=
        pawl._log_row(bound, pawl._columns('o.', bound.log_key_columns), pawl._key_array('o', bound.log_key_columns),
                                     'o.to_state', 'NULL', 'pawl.delete');
BEGIN
    IF bound.most_recent = 'stored' THEN
        EXECUTE format('UPDATE %s o SET most_recent = false WHERE o.most_recent AND o.to_state IS NOT NULL AND %s',
            bound.history, no_row);
    END IF;
    EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM %5$s o '
                   'CROSS JOIN LATERAL (SELECT o.sort_key + 1 AS sort_key, greatest($2, o.created_at) AS created_at, '
                   'uuid_send(gen_random_uuid()) AS salt) n '
                   'WHERE o.to_state IS NOT NULL AND %4$s', bound.history, row_text.columns, row_text.expressions,
                       no_row, pawl._log_ends(bound))
      USING bound.version, clock_timestamp();
END
$function$;
COMMENT ON FUNCTION pawl._close_missing(pawl.binding) IS 'internal: ends the logs of rows that are no longer there';
