-- What must be true of a table, a column and its rows before a machine guards them.

-- The states a column can hold.
CREATE FUNCTION pawl._atoms(machine text, version integer) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT coalesce(array_agg(s.state ORDER BY s.ordinal), '{}') FROM pawl.machine_state s
         WHERE s.machine = _atoms.machine AND s.version = _atoms.version AND s.kind = 'state');
END
$function$;
COMMENT ON FUNCTION pawl._atoms(text, integer) IS 'internal: the states of a machine that a column can hold';

CREATE FUNCTION pawl._quoted_list(names text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.n)
           || CASE WHEN cardinality(names) > 10 THEN format(' and %s more', cardinality(names) - 10) ELSE '' END
      FROM unnest(names) WITH ORDINALITY u(name, n) WHERE u.n <= 10
$function$;
COMMENT ON FUNCTION pawl._quoted_list(text[]) IS 'internal: the first ten names of a list, for messages';

-- Why a column cannot be the state column of a machine; message is null if it can. CHECKs of a domain run the user's
-- code, so they are tried only on request.
CREATE FUNCTION pawl._column_problem(relation regclass, state_column name, machine text, version integer,
    try_domain boolean, OUT code text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    col pg_attribute;
    base oid;
    typmod integer;
    is_domain boolean;
    type_name text;
    state text;
    misfits text[] := '{}';
BEGIN
    SELECT a.* INTO col FROM pg_attribute a
     WHERE a.attrelid = relation AND a.attname = state_column AND NOT a.attisdropped;
    IF NOT FOUND THEN
        code := '42703';
        message := format('column "%s" of table %s does not exist', state_column, relation);
        hint := (SELECT 'columns that can hold a state: ' || string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
                   FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
                  WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                    AND (t.typtype = 'e' OR t.oid IN ('text'::regtype, 'varchar'::regtype)));
        RETURN;
    END IF;
    IF col.attnum < 0 OR col.attgenerated <> '' OR col.attidentity <> '' THEN
        code := '0A000';
        message := format('column "%s" of table %s cannot hold a state', state_column, relation);
        detail := format('It is %s column.', CASE WHEN col.attnum < 0 THEN 'a system'
            WHEN col.attgenerated <> '' THEN 'a generated' ELSE 'an identity' END);
        RETURN;
    END IF;

    type_name := format_type(col.atttypid, col.atttypmod);
    WITH RECURSIVE down(base, typmod, steps) AS (
        SELECT col.atttypid, col.atttypmod, 0
        UNION ALL
        SELECT t.typbasetype, CASE WHEN d.typmod = -1 THEN t.typtypmod ELSE d.typmod END, d.steps + 1
          FROM down d JOIN pg_type t ON t.oid = d.base AND t.typtype = 'd')
    SELECT d.base, d.typmod, d.steps > 0 INTO base, typmod, is_domain FROM down d ORDER BY d.steps DESC LIMIT 1;

    IF base NOT IN ('text'::regtype, 'varchar'::regtype)
        AND (SELECT t.typtype FROM pg_type t WHERE t.oid = base) <> 'e' THEN
        code := '42804';
        message := format('column "%s" of table %s is of type %s', state_column, relation, type_name);
        hint := 'a state column is of type text, varchar, an enum, or a domain over one of them';
        RETURN;
    END IF;

    FOREACH state IN ARRAY pawl._atoms(machine, version) LOOP
        IF base = 'varchar'::regtype AND typmod > 0 AND length(state) > typmod - 4
           OR base NOT IN ('text'::regtype, 'varchar'::regtype)
              AND NOT EXISTS (SELECT FROM pg_enum e WHERE e.enumtypid = base AND e.enumlabel = state) THEN
            misfits := misfits || state;
        ELSIF is_domain AND try_domain THEN
            BEGIN
                EXECUTE format('SELECT %L::%s', state, type_name);
            EXCEPTION WHEN check_violation THEN
                misfits := misfits || state;
            END;
        END IF;
    END LOOP;
    IF misfits <> '{}' THEN
        code := '42804';
        message := format('type %s of column "%s" cannot hold every state of machine "%s"', type_name, state_column,
            machine);
        detail := format('It cannot hold %s.', pawl._quoted_list(misfits));
        hint := CASE WHEN base NOT IN ('text'::regtype, 'varchar'::regtype)
                     THEN format('alter type %s add value %L', format_type(base, NULL), misfits[1])
                     ELSE format('alter table %s alter column %I type text', relation, state_column) END;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._column_problem(regclass, name, text, integer, boolean) IS
'internal: why a column cannot hold the states of a machine; message is null if it can';

-- Raises what a function found, with the fields that are there.
CREATE FUNCTION pawl.raise(code text, message text, detail text DEFAULT NULL, hint text DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_raise';
COMMENT ON FUNCTION pawl.raise(text, text, text, text) IS
'Raises an error with an SQLSTATE, without CONTEXT of the functions of pawl that led to it. code: five characters;
message: as PostgreSQL writes messages; detail, hint: null for none. Never returns. Errors: the code; 22004 code or
message is null; 22023 code is no SQLSTATE of an error. Privileges: all roles.
Example: SELECT pawl.raise(''22023'', ''batch must be positive'')';

-- A list that an argument gives, with its elements numbered from 1.
CREATE FUNCTION pawl._check_list(list anyarray, name text, example text) RETURNS anyarray
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF array_ndims(list) > 1 THEN
        PERFORM pawl.raise('22023', format('%s must be a one-dimensional array', name),
            format('It has %s dimensions.', array_ndims(list)), format('%s => %L', name, example));
    END IF;
    RETURN ARRAY(SELECT l.element FROM unnest(list) WITH ORDINALITY l(element, n) ORDER BY l.n);
END
$function$;
COMMENT ON FUNCTION pawl._check_list(anyarray, text, text) IS
'internal: an array numbered from 1; 22023 if it has several dimensions';

-- How old something must be: an earlier time than this before now is not a timestamp.
CREATE FUNCTION pawl._check_age(age interval, name text) RETURNS interval
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF age NOT BETWEEN interval '0' AND interval '1000 years' THEN
        PERFORM pawl.raise('22023', format('%s must be from 0 to 1000 years', name), format('It is %s.', age),
            format('%s => ''30 days''', name));
    END IF;
    RETURN age;
END
$function$;
COMMENT ON FUNCTION pawl._check_age(interval, text) IS 'internal: an age from 0 to 1000 years, or an error (22023)';

-- An argument that is an array of JSON objects. keys: the type that each must have, several with | between them; name:
-- a string that is not empty.
CREATE FUNCTION pawl._check_objects(list jsonb, argument text, keys jsonb, example text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wrong record;
BEGIN
    SELECT coalesce(o.n, 0) AS n, jsonb_typeof(coalesce(o.value, list)) AS type INTO wrong
      FROM (SELECT) one LEFT JOIN jsonb_array_elements(CASE WHEN jsonb_typeof(list) = 'array' THEN list END)
          WITH ORDINALITY o(value, n) ON jsonb_typeof(o.value) <> 'object' ORDER BY o.n LIMIT 1;
    IF wrong.n > 0 OR wrong.type <> 'array' THEN
        PERFORM pawl.raise('22023', format('%s must be a JSON array of objects', argument),
            format('%s is of type %s.', CASE wrong.n WHEN 0 THEN 'It' ELSE 'Element ' || wrong.n END, wrong.type),
            example);
    END IF;
    SELECT o.n, k.key, replace(k.value, '|', ' or ') AS wanted,
           CASE WHEN NOT o.value ? k.key THEN 'missing' WHEN t.type = 'string' THEN 'empty' ELSE 'of type ' || t.type
           END AS given INTO wrong
      FROM jsonb_array_elements(list) WITH ORDINALITY o(value, n) CROSS JOIN jsonb_each_text(keys) k
      CROSS JOIN LATERAL coalesce(jsonb_typeof(o.value -> k.key), 'null') t(type)
     WHERE t.type <> ALL (string_to_array(k.value, '|'))
       AND NOT (t.type = 'string' AND o.value ->> k.key <> '' AND 'name' = ANY (string_to_array(k.value, '|')))
     ORDER BY o.n, k.key LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('key "%s" of %s must be a %s', wrong.key, argument, wrong.wanted),
            format('In element %s it is %s.', wrong.n, wrong.given), example);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_objects(jsonb, text, jsonb, text) IS
'internal: rejects JSON that is no array of objects with these keys (22023)';

-- The limit of a batch, for functions of the packs too.
CREATE FUNCTION pawl.check_batch(batch integer, most integer, name text DEFAULT 'batch') RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF batch IS NULL THEN
        PERFORM pawl.raise('22004', format('%s must not be null', name), NULL,
            format('%s => %s', name, least(most, 100)));
    END IF;
    IF batch NOT BETWEEN 1 AND most THEN
        PERFORM pawl.raise('22023', format('%s must be from 1 to %s', name, most), format('It is %s.', batch),
            format('%s => %s', name, least(most, 100)));
    END IF;
    RETURN batch;
END
$function$;
COMMENT ON FUNCTION pawl.check_batch(integer, integer, text) IS
'Returns an argument that says how many rows one call handles, or raises an error. batch: 1 to most; name: of the
argument, for the error. Errors: 22004 null; 22023 out of range. Privileges: pawl_reader and above. Example: SELECT
pawl.check_batch(100, 10000)';

-- Null is the default. The upper limit keeps a time that is a lease from now within what timestamptz holds.
CREATE FUNCTION pawl.check_lease(lease interval, name text DEFAULT 'lease') RETURNS interval
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF lease <= interval '0' OR lease > interval '100 years' THEN
        PERFORM pawl.raise('22023', format('%s must be positive and at most 100 years', name),
            format('It is %s.', lease), format('%s => ''60 s''', name));
    END IF;
    RETURN lease;
END
$function$;
COMMENT ON FUNCTION pawl.check_lease(interval, text) IS
'Returns an argument that says how long a lease is, or raises an error. lease: positive, null for the default of the
binding; name: of the argument, for the error. Errors: 22023 out of range. Privileges: pawl_worker and above.
Example: SELECT pawl.check_lease(''1 min'')';

-- The first of these tables that Citus distributes: its rows are in shards, tables of other names on several nodes.
CREATE FUNCTION pawl._distributed(relations regclass[]) RETURNS regclass
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one regclass;
BEGIN
    IF has_table_privilege(to_regclass('pg_catalog.pg_dist_partition'), 'SELECT') THEN
        EXECUTE 'SELECT p.logicalrelid FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid::oid = ANY '
            '($1::oid[]) ORDER BY p.logicalrelid::oid LIMIT 1'
           INTO found_one USING relations;
    END IF;
    RETURN found_one;
END
$function$;
COMMENT ON FUNCTION pawl._distributed(regclass[]) IS
'internal: the first of these tables that Citus distributes; null: none, or there is no Citus';

-- Rejects all but the root of ordinary tables that the current user owns.
CREATE FUNCTION pawl._check_table(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    class pg_class;
    root regclass;
    member regclass;
    kind "char";
    persistence "char";
BEGIN
    SELECT c.* INTO class FROM pg_class c WHERE c.oid = relation;
    IF NOT FOUND THEN
        PERFORM pawl.raise('42P01', format('relation with OID %s does not exist', relation::oid));
    END IF;
    IF class.relnamespace::regnamespace::text IN ('pg_catalog', 'information_schema', 'pg_toast') THEN
        PERFORM pawl.raise('42501', format('%s is a system catalog', relation));
    END IF;
    IF class.relnamespace = 'pawl'::regnamespace THEN
        PERFORM pawl.raise('0A000', format('%s belongs to the extension', relation));
    END IF;
    IF class.relkind NOT IN ('r', 'p') THEN
        PERFORM pawl.raise('42809', format('%s is not a table', relation),
            format('It is %s.', CASE class.relkind WHEN 'v' THEN 'a view' WHEN 'm' THEN 'a materialized view'
                WHEN 'f' THEN 'a foreign table'
                                WHEN 'S' THEN 'a sequence' WHEN 'c' THEN 'a composite type' ELSE 'an index' END),
            CASE WHEN class.relkind = 'v'
                THEN 'enforce its base table: updates through the view are validated there' END);
    END IF;
    IF class.relpersistence = 't' THEN
        PERFORM pawl.raise('0A000', format('%s is a temporary table', relation),
            'Its binding would outlive the table.');
    END IF;
    PERFORM pawl._check_distributed(relation, ARRAY(SELECT m FROM pawl._members(relation) m));
    PERFORM pawl._check_owner(relation);
    IF class.relispartition THEN
        SELECT pg_partition_root(relation) INTO root;
        PERFORM pawl.raise('0A000', format('%s is a partition of table %s', relation, root), NULL,
            format('enforce the root: %L', root));
    END IF;
    FOR member IN SELECT a FROM pawl._ancestors(relation) a WHERE a <> relation LOOP
        IF EXISTS (SELECT FROM pawl.binding b WHERE b.relation = member) THEN
            PERFORM pawl.raise('0A000', format('%s inherits from table %s, which is enforced', relation, member), NULL,
                format('enforce the root: %L', member));
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._check_table(regclass) IS 'internal: rejects relations that a machine cannot be enforced on';

-- Rejects members that an enforced tree cannot have.
CREATE FUNCTION pawl._check_members(relation regclass, members oid[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    member regclass;
    kind "char";
    persistence "char";
    other regclass;
BEGIN
    FOR member, kind, persistence IN
        SELECT c.oid, c.relkind, c.relpersistence FROM pg_class c
         WHERE c.oid = ANY (members) AND c.oid <> relation ORDER BY c.oid
    LOOP
        IF kind NOT IN ('r', 'p') OR persistence = 't' THEN
            PERFORM pawl.raise('0A000', format('%s cannot be part of table %s, which is enforced', member, relation),
                format('It is a %s table.', CASE WHEN kind = 'f' THEN 'foreign' ELSE 'temporary' END));
        END IF;
        SELECT b.relation INTO other FROM pawl.binding b
         WHERE b.relation IN (SELECT a FROM pawl._ancestors(member) a) AND b.relation <> _check_members.relation
         LIMIT 1;
        IF FOUND THEN
            PERFORM pawl.raise('55000', format('%s cannot be part of table %s, which is enforced', member, relation),
                format('The binding of table %s covers it.', other), format('select pawl.release(%L)', other));
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._check_members(regclass, oid[]) IS
'internal: rejects partitions and children that cannot be enforced';

-- A transaction with one snapshot does not see rows that were committed after it was taken, not even under a lock.
CREATE FUNCTION pawl._check_isolation(doing text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM pawl.raise('25001',
            format('%s cannot run in isolation level %s', doing, current_setting('transaction_isolation')),
            'It would not see rows that were committed after the transaction began.',
            'begin isolation level read committed');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_isolation(text) IS 'internal: rejects isolation levels whose snapshot may be old';

-- Counts the rows that are in none of these states: `2 rows in "foo", 1 row is null`; null when there are none.
-- Source is a table name, or `ONLY` one.
CREATE FUNCTION pawl._strange_rows(source text, state_column name, states text[]) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    counts text;
BEGIN
    EXECUTE format($query$
        SELECT string_agg(CASE WHEN g.n = 1 THEN '1 row ' ELSE g.n || ' rows ' END
                          || CASE WHEN g.state IS NOT NULL THEN format('in "%%s"', g.state)
                                  WHEN g.n = 1 THEN 'is null' ELSE 'are null' END, ', '
            ORDER BY g.state COLLATE "C" NULLS LAST)
          FROM (SELECT pawl.value_text(t.%1$I) AS state, count(*) AS n FROM %2$s t
                 WHERE t.%1$I IS NULL OR pawl.value_text(t.%1$I) COLLATE "C" <> ALL ($1)
                 GROUP BY 1 ORDER BY 2 DESC LIMIT 20) g$query$, state_column, source)
       INTO counts USING states;
    RETURN counts;
END
$function$;
COMMENT ON FUNCTION pawl._strange_rows(text, name, text[]) IS
'internal: counts rows by state that are in none of the states given';
