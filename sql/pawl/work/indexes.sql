-- The indexes that claims, leases and timers use. They are created at the root, where PostgreSQL creates those of
-- partitions, and at every inheritance child. They are recognized by name, comment and column, so tables, columns and
-- the indexes can be renamed.

-- A condition that a row is in one of these states. Claims write it in the same way, so that the planner finds their
-- index. A domain over an enum has no = of its own.
CREATE FUNCTION pawl._state_in(relation regclass, state_column name, states text[]) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (
        SELECT format('%I%s IN (%s)', state_column,
                      CASE WHEN f.is_domain AND f.is_enum THEN '::' || f.base::regtype END,
                      (SELECT string_agg(quote_literal(s.state), ', ' ORDER BY s.n)
                          FROM unnest(states) WITH ORDINALITY s(state, n)))
          FROM pg_attribute a CROSS JOIN LATERAL pawl._type_facts(a.atttypid) f
         WHERE a.attrelid = relation AND a.attname = state_column);
END
$function$;
COMMENT ON FUNCTION pawl._state_in(regclass, name, text[]) IS
'internal: the condition of the claim index on the state, in the order of the diagram; domains are cast to their
enum';

-- The same condition for queries. The owner of an enum could create a cast for a literal beside it, so queries call
-- pawl._among, which the planner turns into the condition of the index.
CREATE FUNCTION pawl._state_among(relation regclass, state_column name, states text[]) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (
        SELECT CASE WHEN f.is_enum THEN format('pawl._among(%I, %L)', state_column, states)
                    ELSE pawl._state_in(relation, state_column, states) END
          FROM pg_attribute a CROSS JOIN LATERAL pawl._type_facts(a.atttypid) f
         WHERE a.attrelid = relation AND a.attname = state_column);
END
$function$;
COMMENT ON FUNCTION pawl._state_among(regclass, name, text[]) IS
'internal: the condition of the claim index on the state, for queries';

-- The indexes that a binding needs, and the commands that create them.
CREATE FUNCTION pawl._work_indexes(bound pawl.binding)
RETURNS TABLE (kind text, anchor name, columns name[], descending boolean[], predicate text, condition text,
    comment text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 3
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH claimable(states) AS (SELECT pawl._claimable_states(bound.machine, bound.version, bound.claim_events)),
    claim_item(name, is_descending, n) AS (  -- a column counts where it comes first
        SELECT u.name, bool_or(u.is_descending) FILTER (WHERE u.n = f.n), f.n
          FROM unnest(bound.queue_column || bound.claim_columns || bound.key_columns,
                      false || bound.claim_descending) WITH ORDINALITY u(name, is_descending, n)
          JOIN (SELECT x.name, min(x.n) AS n
              FROM unnest(bound.queue_column || bound.claim_columns || bound.key_columns) WITH ORDINALITY x(name, n)
                 GROUP BY x.name) f ON f.name = u.name
         WHERE u.name IS NOT NULL GROUP BY u.name, f.n)
    SELECT 'claim', bound.state_column, array_agg(i.name ORDER BY i.n),
    array_agg(coalesce(i.is_descending, false) ORDER BY i.n),
           pawl._state_in(bound.relation, bound.state_column, c.states)
           || CASE WHEN bound.due_column IS NULL THEN '' ELSE format(' AND %I IS NULL', bound.due_column) END,
           pawl._state_among(bound.relation, bound.state_column, c.states)
           || CASE WHEN bound.due_column IS NULL THEN '' ELSE format(' AND %I IS NULL', bound.due_column) END,
           format('kept by pawl for claims: rows in %s, in claim order', array_to_string(c.states, ', '))
      FROM claim_item i, claimable c WHERE bound.claim_events <> '{}' GROUP BY c.states
    UNION ALL
    SELECT 'owned', bound.owner_column, bound.owner_column || array_remove(ARRAY[bound.lease_column], NULL), '{}',
           format('%I IS NOT NULL', bound.owner_column), format('%I IS NOT NULL', bound.owner_column),
           'kept by pawl for leases: rows that have an owner'
     WHERE bound.owner_column IS NOT NULL
    UNION ALL
    SELECT 'due', bound.due_column, bound.due_column || bound.key_columns, '{}',
           format('%I IS NOT NULL', bound.due_column), format('%I IS NOT NULL', bound.due_column),
           'kept by pawl for timers: rows that have a due time'
     WHERE bound.due_column IS NOT NULL;
END
$function$;
COMMENT ON FUNCTION pawl._work_indexes(pawl.binding) IS
'internal: the indexes for claims, leases and timers; anchor: the column that identifies each; condition: its
predicate';

-- The index of one kind that a table has; null if there is none. It is found by its first column, or for claims by a
-- column of its predicate.
CREATE FUNCTION pawl._work_index(member regclass, kind text, anchor name) RETURNS regclass
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT i.indexrelid FROM pg_index i
          JOIN pg_class c ON c.oid = i.indexrelid
          JOIN pg_attribute a ON a.attrelid = member AND a.attname = anchor AND NOT a.attisdropped
         WHERE i.indrelid = member
           AND c.relname ~ ('_pawl_' || kind || '$')
           AND obj_description(c.oid, 'pg_class') ^@ CASE kind WHEN 'claim' THEN 'kept by pawl for claims:'
               WHEN 'owned' THEN 'kept by pawl for leases:'
                                                           ELSE 'kept by pawl for timers:' END
           AND (kind <> 'claim') = (a.attnum = i.indkey[0])
           AND (kind <> 'claim' OR a.attnum <> ALL (i.indkey::smallint[]))
           AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                          AND d.refclassid = 'pg_class'::regclass AND d.refobjid = member AND d.refobjsubid = a.attnum)
         ORDER BY i.indisvalid DESC, i.indexrelid LIMIT 1);
END
$function$;
COMMENT ON FUNCTION pawl._work_index(regclass, text, name) IS
'internal: the index that pawl made on a table for claims, leases or timers';

-- The needed indexes that each table of a tree has.
CREATE FUNCTION pawl._work_index_state(bound pawl.binding)
RETURNS TABLE (member regclass, kind text, found_one regclass, is_valid boolean, fits boolean, definition text,
    comment text, schema_name name)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 3
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT c.oid::regclass, w.kind, f.found_one, i.indisvalid,
           w.comment = obj_description(f.found_one, 'pg_class')
           AND ARRAY(SELECT a.attnum FROM unnest(w.columns) WITH ORDINALITY u(name, n)
                       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = u.name ORDER BY u.n)
               = (i.indkey::smallint[])[0:i.indnatts - 1]
           AND ARRAY(SELECT o & 1 = 1 FROM unnest(i.indoption::smallint[]) WITH ORDINALITY x(o, n) ORDER BY n)
               = ARRAY(SELECT coalesce(w.descending[n], false) FROM generate_series(1, cardinality(w.columns)) n),
           format('ON %s (%s) WHERE %s', c.oid::regclass,
                  (SELECT string_agg(quote_ident(u.name) || CASE WHEN u.is_descending THEN ' DESC' ELSE '' END, ', '
                      ORDER BY u.n)
                     FROM unnest(w.columns, w.descending) WITH ORDINALITY u(name, is_descending, n)), w.predicate),
           w.comment, c.nspname
      -- OFFSET 0: an index is looked for once for each table and kind, not for each row of pg_class or pg_index
      FROM (SELECT c.oid, s.nspname FROM pawl._members(bound.relation) m
              JOIN pg_class c ON c.oid = m AND (c.oid = bound.relation OR NOT c.relispartition)
              JOIN pg_namespace s ON s.oid = c.relnamespace OFFSET 0) c
      CROSS JOIN pawl._work_indexes(bound) w
      CROSS JOIN LATERAL (SELECT pawl._work_index(c.oid, w.kind, w.anchor) AS found_one OFFSET 0) f
      LEFT JOIN pg_index i ON i.indexrelid = f.found_one
     ORDER BY c.oid <> bound.relation, c.oid, w.kind;
END
$function$;
COMMENT ON FUNCTION pawl._work_index_state(pawl.binding) IS
'internal: the indexes that a binding needs, table by table, and whether they are there';

-- A name for an index; for the second binding of a table it contains the column.
CREATE FUNCTION pawl._work_index_name(member regclass, state_column name, kind text) RETURNS name
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    class pg_class;
    candidate name;
BEGIN
    SELECT c.* INTO class FROM pg_class c WHERE c.oid = member;
    FOREACH candidate IN ARRAY ARRAY[pawl._log_name(class.relname, '_pawl_' || kind),
                                     pawl._log_name(class.relname || '_' || state_column, '_pawl_' || kind)] LOOP
        IF NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = class.relnamespace AND c.relname = candidate) THEN
            RETURN candidate;
        END IF;
    END LOOP;
    PERFORM pawl.raise('42P07',
        format('relation "%s" exists and is not an index of the extension on table %s', candidate, member),
        'Claims, leases and timers need an index of that name.', 'rename that relation');
END
$function$;
COMMENT ON FUNCTION pawl._work_index_name(regclass, name, text) IS 'internal: a free name for an index of a binding';

-- Creates missing indexes, and recreates those that no longer fit; only in the named tables of the tree, if there are
-- any.
CREATE FUNCTION pawl._make_indexes(bound pawl.binding, members oid[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    need record;
    index_name name;
BEGIN
    FOR need IN
        SELECT * FROM pawl._work_index_state(bound) s
         WHERE (s.found_one IS NULL OR NOT s.is_valid OR NOT s.fits) AND (members IS NULL OR s.member = ANY (members))
    LOOP
        IF need.found_one IS NOT NULL THEN
            EXECUTE format('DROP INDEX %s', need.found_one);
        END IF;
        index_name := pawl._work_index_name(need.member, bound.state_column, need.kind);
        EXECUTE format('CREATE INDEX %I %s', index_name, need.definition);
        EXECUTE format('COMMENT ON INDEX %I.%I IS %L', need.schema_name, index_name, need.comment);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._make_indexes(pawl.binding, oid[]) IS
'internal: creates the indexes that claims, leases and timers of a binding need';

-- Indexes that a change of the binding makes useless: they are dropped, or recreated.
CREATE FUNCTION pawl._lost_indexes(before pawl.binding, after pawl.binding) RETURNS SETOF regclass
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT f
        FROM (SELECT w.kind, w.anchor, w.columns, w.descending, w.predicate, w.comment FROM pawl._work_indexes(before) w
                   EXCEPT
                   SELECT w.kind, w.anchor, w.columns, w.descending, w.predicate, w.comment
            FROM pawl._work_indexes(after) w) w,
           pawl._members(before.relation) m, pawl._work_index(m, w.kind, w.anchor) f
     WHERE f IS NOT NULL ORDER BY f;
END
$function$;
COMMENT ON FUNCTION pawl._lost_indexes(pawl.binding, pawl.binding) IS
'internal: the indexes that a changed binding does not need as they are';

CREATE FUNCTION pawl._drop_indexes(bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one regclass;
BEGIN
    FOR found_one IN
        SELECT f
        FROM pawl._members(bound.relation) m, pawl._work_indexes(bound) w, pawl._work_index(m, w.kind, w.anchor) f
         WHERE f IS NOT NULL ORDER BY f
    LOOP
        EXECUTE format('DROP INDEX %s', found_one);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._drop_indexes(pawl.binding) IS 'internal: drops the indexes that pawl made for a binding';

-- Drops the indexes of a table that is no longer bound, and of all that inherit from it.
CREATE FUNCTION pawl._drop_lost_indexes(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one regclass;
BEGIN
    FOR found_one IN
        SELECT i.indexrelid FROM pawl._members(relation) m JOIN pg_index i ON i.indrelid = m
        JOIN pg_class c ON c.oid = i.indexrelid
         WHERE NOT c.relispartition AND c.relname ~ '_pawl_(claim|owned|due)$'
             AND obj_description(c.oid, 'pg_class') ^@ 'kept by pawl for '
         ORDER BY 1
    LOOP
        EXECUTE format('DROP INDEX %s', found_one);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._drop_lost_indexes(regclass) IS
'internal: drops the indexes that pawl made on a table whose binding is gone';

-- Indexes that are to be made without holding up writers: what is there is recognised, of the rest a notice is given.
CREATE FUNCTION pawl._adopt_indexes(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    missing text;
BEGIN
    SELECT string_agg(format('%s on %s', s.kind, s.member), ', ' ORDER BY s.member::text, s.kind) INTO missing
      FROM pawl._work_index_state(bound) s WHERE s.found_one IS NULL OR NOT s.is_valid OR NOT s.fits;
    IF missing IS NOT NULL THEN
        RAISE NOTICE USING MESSAGE = format('table %s lacks indexes for claims, leases or timers', bound.relation),
            DETAIL = format('Not made: %s. Until they are, claims read the whole table.', missing),
            HINT = format('select statement from pawl.missing_indexes(%L, %L) \gexec', bound.relation,
                bound.state_column);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._adopt_indexes(pawl.binding) IS
'internal: gives notice of indexes that a binding lacks, and that are not made now';

-- An index of a partitioned table is made table by table, so that none is locked for writers: ON ONLY the root, then
-- CONCURRENTLY in each partition, which is attached. What an interrupted run left is used, or dropped if it is invalid.
CREATE FUNCTION pawl._partition_indexes(bound pawl.binding, parent regclass, parent_index text, kind text,
    definition text) RETURNS SETOF text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    part pg_class;
    present record;
    index_name name;
    schema_name name;
    full_name text;
BEGIN
    FOR part IN SELECT c.* FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = parent ORDER BY c.oid LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid
                               WHERE i.inhparent = to_regclass(parent_index) AND x.indrelid = part.oid
                                 AND x.indisvalid);
        schema_name := (SELECT n.nspname FROM pg_namespace n WHERE n.oid = part.relnamespace);
        index_name := pawl._log_name(part.relname, '_pawl_' || kind);
        full_name := format('%I.%I', schema_name, index_name);
        SELECT x.indisvalid INTO present FROM pg_index x WHERE x.indexrelid = to_regclass(full_name)
            AND x.indrelid = part.oid;
        IF FOUND AND NOT present.indisvalid AND part.relkind = 'r' THEN
            RETURN NEXT format('drop index concurrently %s', full_name);
        END IF;
        IF NOT FOUND OR NOT present.indisvalid AND part.relkind = 'r' THEN
            RETURN NEXT format('create index %s%I on %s%s %s',
                CASE WHEN part.relkind = 'p' THEN '' ELSE 'concurrently ' END, index_name,
                CASE WHEN part.relkind = 'p' THEN 'only ' ELSE '' END, part.oid::regclass,
                regexp_replace(definition, '^ON .*? \(', '('));
        END IF;
        IF part.relkind = 'p' THEN
            RETURN QUERY SELECT pawl._partition_indexes(bound, part.oid::regclass, full_name, kind, definition);
        END IF;
        IF NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = to_regclass(full_name)) THEN
            RETURN NEXT format('alter index %s attach partition %s', parent_index, full_name);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._partition_indexes(pawl.binding, regclass, text, text, text) IS
'internal: statements that make an index of the partitions of a table, and attach it';

CREATE FUNCTION pawl.missing_indexes(relation regclass, state_column name DEFAULT NULL, OUT statement text)
    RETURNS SETOF text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
    need record;
    is_partitioned boolean;
    index_name name;
    full_name text;
BEGIN
    FOR need IN SELECT s.* FROM pawl._work_index_state(bound) s
                 WHERE s.found_one IS NULL OR NOT s.is_valid OR NOT s.fits LOOP
        is_partitioned := (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = need.member);
        IF need.found_one IS NOT NULL AND need.fits AND is_partitioned THEN  -- some partitions lack theirs
            RETURN QUERY SELECT pawl._partition_indexes(bound, need.member, need.found_one::text, need.kind,
                need.definition);
            CONTINUE;
        END IF;
        IF need.found_one IS NOT NULL THEN
            statement := format('drop index %s%s', CASE WHEN is_partitioned THEN '' ELSE 'concurrently ' END,
                need.found_one);
            RETURN NEXT;
            index_name := (SELECT c.relname FROM pg_class c WHERE c.oid = need.found_one);
        ELSE
            index_name := pawl._work_index_name(need.member, bound.state_column, need.kind);
        END IF;
        full_name := format('%I.%I', need.schema_name, index_name);
        statement := format('create index %s%I %s', CASE WHEN is_partitioned THEN '' ELSE 'concurrently ' END,
            index_name, CASE WHEN is_partitioned THEN regexp_replace(need.definition, '^ON ', 'ON ONLY ')
                ELSE need.definition END);
        RETURN NEXT;
        statement := format('comment on index %s is %L', full_name, need.comment);
        RETURN NEXT;
        IF is_partitioned THEN
            RETURN QUERY SELECT pawl._partition_indexes(bound, need.member, full_name, need.kind, need.definition);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl.missing_indexes(regclass, name) IS
'Returns the statements that make the indexes which a binding needs for claims, leases and timers and does not have, in
their order, without holding up writers: CREATE INDEX CONCURRENTLY with the name and the comment by which the index is
recognised, and for partitioned tables partition by partition. Run each in a transaction of its own, as psql does
after \gexec. If one was interrupted, call the function again.
relation: the enforced table. state_column: null: the only bound column. Returns statement. Errors: 42704 no binding;
22023 several, and none is named; 42P07 another relation has the name. Privileges: pawl_admin.
Example: SELECT statement FROM pawl.missing_indexes(''jobs'')';
