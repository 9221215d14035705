-- Values by name: what atoms provide, and which atoms get them.

-- What an atom with this result provides under a name: the whole, a position of it, or a key.
CREATE FUNCTION pawl_saga._provided(provides jsonb, name text, result jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(CASE jsonb_typeof(provides)
               WHEN 'array' THEN result
                   -> ((SELECT a.n FROM jsonb_array_elements_text(provides) WITH ORDINALITY a(name, n)
                       WHERE a.name = _provided.name LIMIT 1) - 1)::integer
               WHEN 'object' THEN result -> (provides ->> name)
               ELSE result END, 'null')
$function$;
COMMENT ON FUNCTION pawl_saga._provided(jsonb, text, jsonb) IS 'internal: the part of a result that has a name';

-- Atoms whose values can be read.
CREATE VIEW pawl_saga._values AS
SELECT t.flow_uuid, t.node, t.result AS value FROM pawl_saga.tasks t
WHERE t.state = 'SUCCESS' OR t.state = 'REVERTING' AND t.failure IS NULL
UNION ALL
SELECT r.flow_uuid, r.node, r.value FROM pawl_saga.retries r
WHERE r.state = 'SUCCESS' OR r.state = 'REVERTING' AND r.failure IS NULL;
COMMENT ON VIEW pawl_saga._values IS 'internal: atoms that have a result, and the result';

CREATE FUNCTION pawl_saga._arguments(flow uuid, node integer)
    RETURNS TABLE (parameter text, optional boolean, found boolean, value jsonb)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 5
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    SELECT p.parameter, p.optional, p.is_injected OR f.inputs ? p.name OR v.node IS NOT NULL,
           CASE WHEN p.is_injected THEN p.injected WHEN f.inputs ? p.name THEN f.inputs -> p.name
                WHEN v.node IS NOT NULL THEN pawl_saga._provided(v.provides, p.name, v.value) END
      FROM pawl_saga.flows f
      JOIN pawl_saga.parameters p ON p.definition_uuid = f.definition_uuid AND p.node = _arguments.node
      LEFT JOIN LATERAL (
          SELECT x.node, x.value, n.written -> 'provides' AS provides
            FROM unnest(p.providers) WITH ORDINALITY o(node, place)
            JOIN pawl_saga._values x ON x.flow_uuid = flow AND x.node = o.node
            JOIN pawl_saga.nodes n ON n.definition_uuid = f.definition_uuid AND n.node = o.node
           ORDER BY o.place LIMIT 1) v ON true
     WHERE f.flow_uuid = flow
$function$;
COMMENT ON FUNCTION pawl_saga._arguments(uuid, integer) IS 'internal: what an atom is given, a row a parameter';

CREATE FUNCTION pawl_saga.arguments(flow uuid, node integer) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(jsonb_object_agg(a.parameter, coalesce(a.value, 'null')) FILTER (WHERE a.found), '{}')
        FROM pawl_saga._arguments(flow, node) a
$function$;
COMMENT ON FUNCTION pawl_saga.arguments(uuid, integer) IS
'Returns the arguments that a task would get now: {"parameter": value}. flow: its id. node: the number of the task.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_saga.arguments(t.flow_uuid, t.node) FROM pawl_saga.tasks t';

CREATE FUNCTION pawl_saga.outputs(flow uuid) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH provided AS (
        SELECT n.node, k.name, n.written -> 'provides' AS provides
          FROM pawl_saga.flows f
          JOIN pawl_saga.nodes n ON n.definition_uuid = f.definition_uuid AND n.written ? 'provides'
         CROSS JOIN LATERAL (
             SELECT n.written ->> 'provides' AS name WHERE jsonb_typeof(n.written -> 'provides') = 'string'
             UNION ALL SELECT a FROM jsonb_array_elements_text(CASE jsonb_typeof(n.written -> 'provides')
                 WHEN 'array' THEN n.written -> 'provides' ELSE '[]' END) a
             UNION ALL SELECT k FROM jsonb_object_keys(CASE jsonb_typeof(n.written -> 'provides')
            WHEN 'object' THEN n.written -> 'provides' ELSE '{}' END) k) k
         WHERE f.flow_uuid = flow),
    live AS (
        SELECT p.name, p.node, pawl_saga._provided(p.provides, p.name, x.value) AS value
          FROM provided p JOIN pawl_saga._values x ON x.flow_uuid = flow AND x.node = p.node)
    SELECT coalesce(jsonb_object_agg(o.name, CASE WHEN o.n = 1 THEN o.list -> 0 ELSE o.list END), '{}')
      FROM (SELECT v.name, count(*) AS n, jsonb_agg(v.value ORDER BY v.node) AS list
              FROM (SELECT i.key AS name, -1 AS node, i.value FROM pawl_saga.flows f, jsonb_each(f.inputs) i
                     WHERE f.flow_uuid = flow
                       -- what an atom should have put in its place, and has not, is no output: as in the original
                       AND (EXISTS (SELECT FROM live l WHERE l.name = i.key)
                            OR NOT EXISTS (SELECT FROM provided p
                                            WHERE p.name = i.key
                                AND NOT EXISTS (SELECT FROM pawl_saga.tasks t
                                    WHERE t.flow_uuid = flow AND t.node = p.node AND t.failure IS NOT NULL)
                                AND NOT EXISTS (SELECT FROM pawl_saga.retries r
                                    WHERE r.flow_uuid = flow AND r.node = p.node AND r.failure IS NOT NULL)))
                    UNION ALL
                    SELECT l.name, l.node, l.value FROM live l) v
             GROUP BY v.name) o
$function$;
COMMENT ON FUNCTION pawl_saga.outputs(uuid) IS
'Returns every name of a flow that has a value: {"name": value}; if several atoms provide it, a list in the order of
the definition. An input whose name an atom provides is included while one of these has a result, or all have
failed. flow: its id.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_saga.outputs(''01890000-0000-7000-8000-000000000001'')';

-- Failures of atoms in their last attempt.
CREATE FUNCTION pawl_saga.failures(flow uuid) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(jsonb_object_agg(a.name, a.failure), '{}')
      FROM (SELECT t.name, t.failure FROM pawl_saga.tasks t WHERE t.flow_uuid = flow AND t.failure IS NOT NULL
            UNION ALL SELECT r.name, r.failure FROM pawl_saga.retries r
          WHERE r.flow_uuid = flow AND r.failure IS NOT NULL) a
$function$;
COMMENT ON FUNCTION pawl_saga.failures(uuid) IS
'Returns the failures of atoms in their last attempt: {"atom": {"message", ...}}; an atom that was reset or
succeeded since is left out. flow: its id.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_saga.failures(''01890000-0000-7000-8000-000000000001'')';

-- What a run reports to its caller.
CREATE FUNCTION pawl_saga.errors(flow uuid) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE f.state
               WHEN 'REVERTED' THEN pawl_saga.failures(flow)
               WHEN 'FAILURE' THEN CASE
                   WHEN EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.flow_uuid = flow AND t.state = 'REVERT_FAILURE')
                   THEN (SELECT jsonb_object_agg(t.name, t.revert_failure) FROM pawl_saga.tasks t
                       WHERE t.flow_uuid = flow AND t.state = 'REVERT_FAILURE')
                   WHEN f.problem IS NOT NULL THEN jsonb_build_object(coalesce(f.problem ->> 'atom', f.name), f.problem)
                   ELSE pawl_saga.failures(flow) END
           END
      FROM pawl_saga.flows f WHERE f.flow_uuid = flow
$function$;
COMMENT ON FUNCTION pawl_saga.errors(uuid) IS
'Returns the failures of a finished flow by atom: REVERTED: of the last attempts; FAILURE: those that stopped it;
else null. flow: its id.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_saga.errors(''01890000-0000-7000-8000-000000000001'')';
