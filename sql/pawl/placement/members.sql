-- The copies of the members: changes that concern several databases are made in each, by functions that can be called
-- again. What a member accepts depends on its own rows alone, so only a move or a new default place changes these.

-- Closes the default place where it is, or opens it where it comes to.
CREATE FUNCTION pawl.place_others(kind text, database text) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    here text := (SELECT d.name FROM pawl.database d WHERE d.is_here);
    was_here boolean := coalesce((SELECT p.database = here FROM pawl.placement p WHERE p.kind = place_others.kind
        AND p.namespace IS NULL), false);
BEGIN
    IF here IS NULL THEN
        PERFORM pawl.raise('55000', 'this database is not one of several', NULL, 'pawl databases init NAME CONNECTION');
    ELSIF NOT EXISTS (SELECT FROM pawl.database d WHERE d.name = place_others.database) THEN
        PERFORM pawl.raise('42704', format('there is no database "%s"', database), NULL,
            'select name from pawl.database');
    END IF;
    IF database <> here THEN
        INSERT INTO pawl.placement (kind, namespace, database)
            SELECT n.kind, n.namespace, here FROM pawl.namespaces(was_here) n WHERE n.kind = place_others.kind
            ON CONFLICT ON CONSTRAINT placement_kind_namespace_key DO NOTHING;
    END IF;
    INSERT INTO pawl.placement AS p (kind, namespace, database) VALUES (kind, NULL, database)
        ON CONFLICT ON CONSTRAINT placement_kind_namespace_key DO UPDATE SET database = excluded.database,
            placed_at = clock_timestamp() WHERE p.database <> excluded.database;
    RETURN QUERY SELECT p.namespace FROM pawl.placement p WHERE p.kind = place_others.kind AND p.namespace IS NOT NULL;
END
$function$;
COMMENT ON FUNCTION pawl.place_others(text, text) IS
'Sets, in this database, the default place: the database of the namespaces of a kind that have no place of their own.
Those that have rows here, or definitions if the default place was here, get a place of their own here before.
pawl databases default calls it in each database, in the new default place last, and where the place was again when
older transactions have ended.
kind: dag, bulk or saga. database: its name. Returns the namespaces that have a place of their own.
Errors: 42704 no such database; 55000 this is not one of several. Privileges: pawl_admin.
Example: SELECT * FROM pawl.place_others(''dag'', ''b'')';

CREATE FUNCTION pawl.compare_placements(placements jsonb)
RETURNS TABLE (kind text, namespace text, here text, given text, own boolean)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM pawl._check_objects(placements, 'placements',
        '{"kind": "name", "namespace": "name|null", "database": "name"}',
        '[{"kind": "dag", "namespace": "billing", "database": "b"}]');
    RETURN QUERY
    WITH given AS (SELECT g.* FROM jsonb_to_recordset(placements) g(kind text COLLATE "C", namespace text COLLATE "C",
        database text COLLATE "C"))
    SELECT coalesce(p.kind, g.kind), coalesce(p.namespace, g.namespace), p.database, g.database,
           coalesce(d.name = coalesce(p.database, o.database), false)
               OR coalesce(d.name = coalesce(g.database, e.database), false)
               OR coalesce(g.database IS NULL AND d.name = o.database, false)
      FROM pawl.placement p
      FULL JOIN given g ON g.kind = p.kind AND coalesce(g.namespace, '') = coalesce(p.namespace, '')
      LEFT JOIN pawl.database d ON d.is_here
      LEFT JOIN pawl.placement o ON o.kind = coalesce(p.kind, g.kind) AND o.namespace IS NULL
      LEFT JOIN given e ON e.kind = coalesce(p.kind, g.kind) AND e.namespace IS NULL
     WHERE p.database IS DISTINCT FROM g.database;
END
$function$;
COMMENT ON FUNCTION pawl.compare_placements(jsonb) IS
'Compares the placements of another database with those that this one knows, and returns the differences: kind,
namespace (null: all others), here and given (the places; null: none), own (one of both is this database, or may be by
its default place: a move is under way, or one of the two was restored from a backup; else this copy is outdated).
placements: an array of objects with kind, namespace (null: all others) and database. Errors: 22023 anything else.
Privileges: pawl_admin.
Example: SELECT * FROM pawl.compare_placements((SELECT coalesce(jsonb_agg(p), ''[]'') FROM pawl.placement p))';

CREATE FUNCTION pawl.copy_placements(databases jsonb, placements jsonb) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    differing record;
    changed bigint := 0;
    outdated bigint;
BEGIN
    PERFORM pawl._check_objects(databases, 'databases',
        '{"name": "name", "connection": "string", "is_home": "boolean"}',
        '[{"name": "a", "connection": "service=a", "is_home": true}]');
    INSERT INTO pawl.database AS d (name, connection, is_home)
        SELECT x.name, x.connection, x.is_home
          FROM jsonb_to_recordset(databases) x(name text, connection text, is_home boolean)
        ON CONFLICT ON CONSTRAINT database_pkey DO UPDATE SET connection = excluded.connection
            WHERE d.connection <> excluded.connection;
    GET DIAGNOSTICS changed = ROW_COUNT;
    FOR differing IN SELECT c.* FROM pawl.compare_placements(placements) c WHERE NOT c.own LOOP
        IF differing.given IS NULL THEN
            DELETE FROM pawl.placement p WHERE p.kind = differing.kind
                AND p.namespace IS NOT DISTINCT FROM differing.namespace;
        ELSE
            INSERT INTO pawl.placement (kind, namespace, database)
                VALUES (differing.kind, differing.namespace, differing.given)
                ON CONFLICT ON CONSTRAINT placement_kind_namespace_key DO UPDATE SET database = excluded.database,
                    placed_at = clock_timestamp();
        END IF;
        changed := changed + 1;
    END LOOP;
    DELETE FROM pawl.database d WHERE NOT d.is_here AND d.name NOT IN (SELECT x.name
        FROM jsonb_to_recordset(databases) x(name text))
        AND NOT EXISTS (SELECT FROM pawl.placement p WHERE p.database = d.name);
    GET DIAGNOSTICS outdated = ROW_COUNT;
    RETURN changed + outdated;
END
$function$;
COMMENT ON FUNCTION pawl.copy_placements(jsonb, jsonb) IS
'Makes the databases and placements that this database knows those of the home, but for placements of which one names
this database: these decide what it accepts, and only moves change them. pawl databases calls it.
databases: an array of objects with name, connection and is_home. placements: one of objects with kind, namespace and
database. Returns how many rows have changed. Errors: 22023 anything else; 23503 a placement names a database that is
not given. Privileges: pawl_admin.
Example: SELECT pawl.copy_placements((SELECT coalesce(jsonb_agg(d), ''[]'') FROM pawl.database d), (SELECT
coalesce(jsonb_agg(p), ''[]'') FROM pawl.placement p))';
