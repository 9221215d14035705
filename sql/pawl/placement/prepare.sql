-- What can stand in the way of a move, before the namespace is closed: at the database that it leaves, and at the one
-- where it arrives.

-- Rows leave only if INSERTs can bring them back: a rule would replace these, and a constraint that is NOT VALID may
-- reject rows that are there.
CREATE FUNCTION pawl._check_returnable(kind text, namespace text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    placed pawl.placed_table;
    obstacle record;
    is_wrong boolean;
BEGIN
    FOR placed IN SELECT p.* FROM pawl._placed_tables(kind) p WHERE p.role <> 'shared' LOOP
        FOR obstacle IN
            SELECT NULL AS condition, format('It is not a table that has its rows itself.') AS problem FROM pg_class c
             WHERE c.oid = placed.relation AND c.relkind <> ALL ('{r,p}')
            UNION ALL
            SELECT NULL, format('Rule "%s" would replace what brings them back.', r.rulename) FROM pg_rewrite r
             WHERE r.ev_class = placed.relation AND r.ev_type <> '1'
            UNION ALL
            SELECT pg_get_expr(c.conbin, c.conrelid),
                   format('Constraint "%s", which is NOT VALID, rejects some of them.', c.conname)
              FROM pg_constraint c WHERE c.conrelid = placed.relation AND c.contype = 'c' AND NOT c.convalidated LOOP
            is_wrong := obstacle.condition IS NULL;
            IF NOT is_wrong THEN
                EXECUTE format('SELECT EXISTS (SELECT FROM %s r WHERE %s AND NOT (%s) AND $1 IS NULL)', placed.relation,
                    pawl._placed_condition(kind, placed, false), obstacle.condition)
                    INTO is_wrong USING NULL::uuid, namespace;
            END IF;
            IF is_wrong THEN
                PERFORM pawl.raise('55000', format('rows of table %s cannot move', placed.relation), obstacle.problem,
                    CASE WHEN obstacle.condition IS NULL THEN 'drop the rule, or declare another table'
                        ELSE 'correct the rows, and validate the constraint' END);
            END IF;
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._check_returnable(text, text) IS 'internal: rejects rows that could leave and not return';

CREATE FUNCTION pawl.prepare_departure(kind text, namespace text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl._check_returnable(kind, namespace);
END
$function$;
COMMENT ON FUNCTION pawl.prepare_departure(text, text) IS
'Checks, before a namespace is closed, that its rows could return after they have left; pawl move calls it.
kind: dag, bulk or saga. namespace: its name.
Errors: 55000 a table has a rule, or rows that a constraint rejects which is NOT VALID. Privileges: pawl_restore.
Example: SELECT pawl.prepare_departure(''dag'', ''billing'')';

CREATE FUNCTION pawl.prepare_arrival(move uuid, kind text, namespace text, shape jsonb, verify boolean DEFAULT true)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET session_replication_role = replica
SET pawl.restoring = on
AS $function$
DECLARE
    differing record;
BEGIN
    PERFORM pawl._check_comes_here(move);
    IF jsonb_typeof(shape) <> 'object' THEN
        PERFORM pawl.raise('22023', 'shape must be a JSON object', format('It is of type %s.', jsonb_typeof(shape)),
            format('select pawl.placed_shape(%L), in the database that the namespace leaves', kind));
    END IF;
    SELECT s.key, s.value AS there, h.value AS here INTO differing FROM jsonb_each_text(shape) s
      LEFT JOIN jsonb_each_text(pawl.placed_shape(kind)) h ON h.key = s.key
     WHERE h.value IS DISTINCT FROM s.value ORDER BY s.key LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('55000', format('the databases differ: %s', differing.key),
            format('There: %s. Here: %s.', left(differing.there, 500), coalesce(left(differing.here, 500), 'nothing')),
            'create or update the extensions in both, and define the same versions of machines');
    END IF;
    PERFORM pawl._import_shared(move, kind, '{}');
    DELETE FROM pawl.transit x WHERE x.move = prepare_arrival.move;
    PERFORM pawl._check_no_rows(move, kind, namespace);
    IF verify THEN
        PERFORM pawl._verify_placed(kind, false);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.prepare_arrival(uuid, text, text, jsonb, boolean) IS
'Checks, before anything leaves, that a namespace can move here, and takes over definitions that its work needs from
pawl.transit; pawl move calls it.
move: its id. kind: dag, bulk or saga. namespace: its name. shape: of pawl.placed_shape at the other database.
verify: true (default): also pawl.verify of each table, which reads all of it.
Errors: 22023 shape is no object; 55000 the databases differ, have different definitions of one name and version, rows
of the namespace are here, or the move leaves this database; XX001 rows that are here are not sound. Privileges:
pawl_restore.
Example: SELECT pawl.prepare_arrival(pawl.uuid_v7(), ''dag'', ''billing'', ''{}'')';
