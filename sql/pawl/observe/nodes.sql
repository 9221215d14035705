-- What each node of a Citus cluster knows of itself only, asked of all nodes. Without Citus this server is the only
-- node.

-- The answers to a query that returns one value as JSON. It runs as the current role, by connections of Citus.
CREATE FUNCTION pawl._ask_nodes(query text) RETURNS TABLE (node text, success boolean, answer text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 3
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF to_regclass('pg_catalog.pg_dist_node') IS NULL THEN
        success := true;
        EXECUTE query INTO answer;
        RETURN NEXT;
        RETURN;
    END IF;
    RETURN QUERY EXECUTE 'SELECT coalesce(n.nodename || '':'' || n.nodeport, ''coordinator''), c.success, c.result '
        'FROM pg_catalog.run_command_on_all_nodes($1) c LEFT JOIN pg_catalog.pg_dist_node n ON n.nodeid = c.nodeid '
        'ORDER BY c.nodeid' USING query;
END
$function$;
COMMENT ON FUNCTION pawl._ask_nodes(text) IS 'internal: what a query gives on each node of a Citus cluster';

CREATE FUNCTION pawl.cluster_counters()
RETURNS TABLE (kind text, machine text, machine_version integer, from_state text, to_state text, event text,
    sqlstate text, roles text[], count bigint, timed bigint, seconds double precision, buckets bigint[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    counted json[] := '{}';
    asked record;
BEGIN
    FOR asked IN SELECT a.* FROM pawl._ask_nodes('SELECT coalesce(json_agg(c), ''[]'') FROM pawl.counters() c') a LOOP
        IF NOT asked.success THEN
            PERFORM pawl.raise('55000', format('the counters of node %s cannot be read', asked.node), asked.answer,
                'SELECT * FROM pawl.cluster_health() WHERE status <> ''ok'';');
        END IF;
        counted := counted || asked.answer::json;
    END LOOP;
    RETURN QUERY
    SELECT s.kind, s.machine, s.machine_version, s.from_state, s.to_state, s.event, s.sqlstate, s.roles, s.count,
        s.timed, s.seconds, (SELECT array_agg(t.total ORDER BY t.i) FROM (
            SELECT i, sum(s.buckets[r][i])::bigint AS total
              FROM generate_subscripts(s.buckets, 1) r, generate_subscripts(s.buckets, 2) i GROUP BY i) t)
      FROM (SELECT c.kind, c.machine, c.machine_version, c.from_state, c.to_state, c.event, c.sqlstate, c.roles,
                sum(c.count)::bigint AS count, sum(c.timed)::bigint AS timed, sum(c.seconds) AS seconds,
                array_agg(c.buckets) FILTER (WHERE c.buckets IS NOT NULL) AS buckets
              FROM unnest(counted) n, json_to_recordset(n) c(kind text, machine text, machine_version integer,
                from_state text, to_state text, event text, sqlstate text, roles text[], count bigint, timed bigint,
                seconds double precision, buckets bigint[])
             GROUP BY c.kind, c.machine, c.machine_version, c.from_state, c.to_state, c.event, c.sqlstate, c.roles) s;
END
$function$;
COMMENT ON FUNCTION pawl.cluster_counters() IS
'Returns the rows of pawl.counters() summed over all nodes of a Citus cluster, since each node counts the state changes
of its own shards. Without Citus these are the counters of this server.
Returns kind, machine, machine_version, from_state, to_state, event, sqlstate, roles, count, timed, seconds and buckets,
as pawl.counters() does. A node begins at zero when it starts, so a sum can become smaller.
Errors: 55000 a node cannot be reached, or the role cannot read its counters.
Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; needs them on every node.
Example: SELECT machine, event, sum(count) FROM pawl.cluster_counters() WHERE kind = ''transition'' GROUP BY 1, 2';

CREATE FUNCTION pawl.cluster_health()
RETURNS TABLE (node text, relation text, state_column text, check_name text, status text, detail text, hint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 50
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    here constant text := (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'pawl');
    asked record;
    there text;
BEGIN
    FOR asked IN SELECT a.* FROM pawl._ask_nodes('SELECT json_build_object(''version'', (SELECT e.extversion '
        'FROM pg_catalog.pg_extension e WHERE e.extname = ''pawl''), ''health'', (SELECT json_agg(h) '
        'FROM pawl.health() h))') a LOOP
        RETURN QUERY SELECT asked.node, NULL::text, NULL::text, 'node',
            CASE WHEN asked.success THEN 'ok' ELSE 'error' END, CASE WHEN NOT asked.success THEN asked.answer END,
            CASE WHEN NOT asked.success THEN 'on that node: select * from pawl.health()' END;
        IF asked.success THEN
            there := asked.answer::json->>'version';
            RETURN QUERY SELECT asked.node, NULL::text, NULL::text, 'extension',
                CASE WHEN there = here THEN 'ok' ELSE 'warning' END,
                CASE WHEN there <> here THEN format('version %s of pawl is there, and %s here', there, here) END,
                CASE WHEN there <> here THEN 'on both nodes: alter extension pawl update' END;
            RETURN QUERY SELECT asked.node, h.relation, h.state_column, h.check_name, h.status, h.detail, h.hint
                FROM json_to_recordset(asked.answer::json->'health') h(relation text, state_column text,
                    check_name text, status text, detail text, hint text);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl.cluster_health() IS
'Returns what pawl.health() finds on each node of a Citus cluster, and whether each node can be reached and has the
version of the extension that this node has. Without Citus this server is the only node.
Returns node (its name and port; null without Citus), and relation, state_column, check_name (also node and extension),
status, detail and hint, as pawl.health() does.
Errors: none; a node that cannot answer is a finding. Privileges: pawl_admin, pawl_operator, pawl_reader; needs them on
every node. Example: SELECT * FROM pawl.cluster_health() WHERE status <> ''ok''';
