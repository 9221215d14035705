-- What blocks what. Forward, a node waits for those directly before it; backward, for those directly behind it. Both
-- are counted in `blockers`, and a decision turns the counting round for all that it reverts.

-- Counts a whole flow again from the states and intentions of its atoms, and finds those that are ready.
CREATE FUNCTION pawl_saga._recount(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    f pawl_saga.flows;
    going boolean;
    nodes integer[];
    counts integer[];
    turned boolean[];
    careful boolean[];
BEGIN
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow;
    going := f.state = 'RUNNING' AND NOT f.broken;
    -- what can be claimed at any moment: it waits for sessions that are claiming, so that it counts what is there
    PERFORM FROM pawl_saga.tasks t WHERE t.flow_uuid = flow AND t.due_at IS NULL
        AND t.state = ANY ('{PENDING,SUCCESS,FAILURE}') ORDER BY t.node FOR NO KEY UPDATE;
    WITH RECURSIVE
        atoms AS MATERIALIZED (
            SELECT t.node, t.state, t.intention FROM pawl_saga.tasks t WHERE t.flow_uuid = flow
            UNION ALL SELECT r.node, r.state, r.intention FROM pawl_saga.retries r WHERE r.flow_uuid = flow),
        backward (node) AS (
            SELECT a.node FROM atoms a WHERE a.intention = 'REVERT' OR a.intention = 'RETRY'
            UNION SELECT e.to_node FROM backward b
            JOIN pawl_saga.edges e ON e.definition_uuid = f.definition_uuid AND e.from_node = b.node),
        not_undone (node) AS (
            SELECT a.node FROM atoms a JOIN backward b ON b.node = a.node
            WHERE a.state NOT IN ('PENDING', 'REVERTED', 'IGNORE')
            UNION SELECT e.from_node FROM not_undone u
            JOIN pawl_saga.edges e ON e.definition_uuid = f.definition_uuid AND e.to_node = u.node
                    JOIN backward b ON b.node = e.from_node),
        not_done (node) AS (
            SELECT a.node FROM atoms a
            WHERE NOT (a.state IN ('SUCCESS', 'IGNORE') AND a.intention IN ('EXECUTE', 'IGNORE'))
            UNION SELECT e.to_node FROM not_done u
            JOIN pawl_saga.edges e ON e.definition_uuid = f.definition_uuid AND e.from_node = u.node),
        behind AS MATERIALIZED (
            SELECT e.from_node AS node, count(*) AS n FROM not_undone u
            JOIN pawl_saga.edges e ON e.definition_uuid = f.definition_uuid AND e.to_node = u.node GROUP BY 1),
        before AS MATERIALIZED (
            SELECT e.to_node AS node, count(*) AS n FROM not_done u
            JOIN pawl_saga.edges e ON e.definition_uuid = f.definition_uuid AND e.from_node = u.node GROUP BY 1)
    -- an atom counts in the direction of its own intention, an entry or end in that of what comes before it
    SELECT array_agg(n.node), array_agg(coalesce(CASE WHEN n.turned THEN s.n ELSE p.n END, 0)::integer),
    array_agg(n.turned), array_agg(n.careful)
      INTO nodes, counts, turned, careful
      FROM (SELECT x.node, x.careful,
          CASE WHEN x.kind IN ('task', 'retry')
                  THEN coalesce(a.intention IN ('REVERT', 'RETRY'), false) ELSE b.node IS NOT NULL END AS turned
              FROM pawl_saga.nodes x LEFT JOIN backward b ON b.node = x.node LEFT JOIN atoms a ON a.node = x.node
              WHERE x.definition_uuid = f.definition_uuid) n
      LEFT JOIN behind s ON s.node = n.node LEFT JOIN before p ON p.node = n.node;
    UPDATE pawl_saga.junctions j SET blockers = c.n, backward = c.turned
      FROM unnest(nodes, counts, turned) c(node, n, turned)
     WHERE j.flow_uuid = flow AND j.node = c.node AND (j.blockers, j.backward) <> (c.n, c.turned);
    UPDATE pawl_saga.retries r SET blockers = c.n FROM unnest(nodes, counts) c(node, n)
     WHERE r.flow_uuid = flow AND r.node = c.node AND r.blockers <> c.n;
    UPDATE pawl_saga.tasks t SET blockers = c.n, due_at = c.due_at
      FROM (SELECT x.node, k.n, CASE
                   WHEN x.state NOT IN ('PENDING', 'SUCCESS', 'FAILURE') THEN x.due_at
                   WHEN going AND k.n = 0 AND (x.intention = 'REVERT'
                       AND (x.state = 'SUCCESS' OR x.state = 'FAILURE' AND pawl_saga._is_decided(flow, x.node))
                       OR x.intention = 'EXECUTE' AND x.state = 'PENDING' AND (NOT k.careful OR x.due_at IS NULL))
                   THEN NULL
                   ELSE 'infinity' END AS due_at
              FROM pawl_saga.tasks x JOIN unnest(nodes, counts, careful) k(node, n, careful) ON k.node = x.node
              WHERE x.flow_uuid = flow) c
     WHERE t.flow_uuid = flow AND t.node = c.node AND (t.blockers <> c.n OR t.due_at IS DISTINCT FROM c.due_at);
END
$function$;
COMMENT ON FUNCTION pawl_saga._recount(uuid) IS
'internal: counts what blocks each node of a flow, and makes claimable what is ready';

-- Counts a flow anew and begins what the database does itself: retries that are ready, and votes.
CREATE FUNCTION pawl_saga._recover(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    ready integer;
BEGIN
    PERFORM pawl_saga._recount(flow);
    FOR ready IN
        SELECT n.node FROM pawl_saga.flows f
        JOIN pawl_saga.nodes n ON n.definition_uuid = f.definition_uuid AND (n.kind = 'retry' OR n.careful)
         WHERE f.flow_uuid = flow AND f.state = 'RUNNING' ORDER BY n.node
    LOOP
        PERFORM pawl_saga._examine(flow, ready);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._recover(uuid) IS 'internal: counts a flow anew and begins what is ready in it';

-- Nodes are done: those behind them wait for less. Wave by wave, for any number of flows.
-- Only counts: what begins can fail, and then its flow is counted anew from states that later waves would count twice.
CREATE FUNCTION pawl_saga._pass_on(flows uuid[], nodes integer[],
    OUT began uuid[], OUT ready_flows uuid[], OUT ready_nodes integer[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    task_flows uuid[]; task_nodes integer[]; task_counts integer[]; task_go boolean[];
    other_flows uuid[]; other_nodes integer[]; other_counts integer[];
    retry_flows uuid[]; retry_nodes integer[]; retry_counts integer[];
    next record;
    moved record;
BEGIN
    began := '{}';
    ready_flows := '{}';
    ready_nodes := '{}';
    WHILE cardinality(flows) > 0 LOOP
        task_flows := NULL; task_nodes := NULL; task_counts := NULL; task_go := NULL;
        other_flows := NULL; other_nodes := NULL; other_counts := NULL;
        retry_flows := NULL; retry_nodes := NULL; retry_counts := NULL;
        FOR next IN
            SELECT f.flow_uuid AS flow, e.to_node AS node, e.to_kind AS kind, count(*)::integer AS n,
                   bool_and(f.state = 'RUNNING' AND NOT f.broken AND NOT e.to_careful) AS go
              FROM unnest(flows, nodes) p(flow, node)
              JOIN pawl_saga.flows f ON f.flow_uuid = p.flow
              CROSS JOIN LATERAL (SELECT x.* FROM pawl_saga.edges x
                  WHERE x.definition_uuid = f.definition_uuid AND x.from_node = p.node OFFSET 0) e
             GROUP BY f.flow_uuid, e.to_node, e.to_kind ORDER BY f.flow_uuid, e.to_node
        LOOP
            IF next.kind = 'task' THEN
                task_flows := task_flows || next.flow;
                task_nodes := task_nodes || next.node;
                task_counts := task_counts || next.n;
                task_go := task_go || next.go;
            ELSIF next.kind = 'retry' THEN
                retry_flows := retry_flows || next.flow;
                retry_nodes := retry_nodes || next.node;
                retry_counts := retry_counts || next.n;
            ELSE
                other_flows := other_flows || next.flow;
                other_nodes := other_nodes || next.node;
                other_counts := other_counts || next.n;
            END IF;
        END LOOP;
        flows := '{}';
        nodes := '{}';
        IF task_flows IS NOT NULL THEN
            FOR moved IN
                UPDATE pawl_saga.tasks t
                   SET blockers = t.blockers - d.n,
                       due_at = CASE WHEN t.blockers = d.n AND t.state = 'PENDING' AND t.intention = 'EXECUTE'
                           AND d.go THEN NULL ELSE t.due_at END
                  FROM unnest(task_flows, task_nodes, task_counts, task_go) d(flow, node, n, go)
                 WHERE t.flow_uuid = d.flow AND t.node = d.node AND t.intention <> 'REVERT'
                RETURNING t.flow_uuid, t.node, t.state, t.blockers, t.due_at, d.go
            LOOP
                CONTINUE WHEN moved.blockers <> 0;
                IF moved.state IN ('SUCCESS', 'IGNORE') THEN
                    flows := flows || moved.flow_uuid;
                    nodes := nodes || moved.node;
                ELSIF moved.state = 'PENDING' THEN
                    IF NOT moved.go THEN
                        ready_flows := ready_flows || moved.flow_uuid;
                        ready_nodes := ready_nodes || moved.node;
                    END IF;
                    IF moved.due_at IS NULL THEN
                        began := began || moved.flow_uuid;
                    END IF;
                END IF;
            END LOOP;
        END IF;
        IF other_flows IS NOT NULL THEN
            FOR moved IN
                UPDATE pawl_saga.junctions j SET blockers = j.blockers - d.n
                  FROM unnest(other_flows, other_nodes, other_counts) d(flow, node, n)
                 WHERE j.flow_uuid = d.flow AND j.node = d.node AND NOT j.backward
                RETURNING j.flow_uuid, j.node, j.blockers
            LOOP
                IF moved.blockers = 0 THEN
                    flows := flows || moved.flow_uuid;
                    nodes := nodes || moved.node;
                END IF;
            END LOOP;
        END IF;
        IF retry_flows IS NOT NULL THEN
            UPDATE pawl_saga.retries r SET blockers = r.blockers - d.n
                FROM unnest(retry_flows, retry_nodes, retry_counts) d(flow, node, n)
             WHERE r.flow_uuid = d.flow AND r.node = d.node AND r.intention IN ('EXECUTE', 'IGNORE');
            SELECT flows || coalesce(array_agg(r.flow_uuid), '{}'), nodes || coalesce(array_agg(r.node), '{}')
                INTO flows, nodes
              FROM unnest(retry_flows, retry_nodes) d(flow, node)
              JOIN pawl_saga.retries r ON r.flow_uuid = d.flow AND r.node = d.node
              WHERE r.state IN ('SUCCESS', 'IGNORE') AND r.intention IN ('EXECUTE', 'IGNORE') AND r.blockers = 0;
            ready_flows := ready_flows || retry_flows;
            ready_nodes := ready_nodes || retry_nodes;
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._pass_on(uuid[], integer[]) IS
'internal: counts nodes as done; returns flows in which something can be claimed now, and nodes to be examined';

-- Nodes are undone: those before them wait for less. Only counts, as pawl_saga._pass_on does.
CREATE FUNCTION pawl_saga._pass_back(flows uuid[], nodes integer[],
    OUT began uuid[], OUT ready_flows uuid[], OUT ready_nodes integer[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    task_flows uuid[]; task_nodes integer[]; task_counts integer[]; task_go boolean[];
    other_flows uuid[]; other_nodes integer[]; other_counts integer[];
    retry_flows uuid[]; retry_nodes integer[]; retry_counts integer[];
    next record;
    moved record;
BEGIN
    began := '{}';
    ready_flows := '{}';
    ready_nodes := '{}';
    WHILE cardinality(flows) > 0 LOOP
        task_flows := NULL; task_nodes := NULL; task_counts := NULL; task_go := NULL;
        other_flows := NULL; other_nodes := NULL; other_counts := NULL;
        retry_flows := NULL; retry_nodes := NULL; retry_counts := NULL;
        FOR next IN
            SELECT f.flow_uuid AS flow, e.from_node AS node, e.from_kind AS kind, count(*)::integer AS n,
          bool_and(f.state = 'RUNNING' AND NOT f.broken) AS go
              FROM unnest(flows, nodes) p(flow, node)
              JOIN pawl_saga.flows f ON f.flow_uuid = p.flow
              CROSS JOIN LATERAL (SELECT x.* FROM pawl_saga.edges x
                  WHERE x.definition_uuid = f.definition_uuid AND x.to_node = p.node OFFSET 0) e
             GROUP BY f.flow_uuid, e.from_node, e.from_kind ORDER BY f.flow_uuid, e.from_node
        LOOP
            IF next.kind = 'task' THEN
                task_flows := task_flows || next.flow;
                task_nodes := task_nodes || next.node;
                task_counts := task_counts || next.n;
                task_go := task_go || next.go;
            ELSIF next.kind = 'retry' THEN
                retry_flows := retry_flows || next.flow;
                retry_nodes := retry_nodes || next.node;
                retry_counts := retry_counts || next.n;
            ELSE
                other_flows := other_flows || next.flow;
                other_nodes := other_nodes || next.node;
                other_counts := other_counts || next.n;
            END IF;
        END LOOP;
        flows := '{}';
        nodes := '{}';
        IF task_flows IS NOT NULL THEN
            FOR moved IN
                UPDATE pawl_saga.tasks t
                   SET blockers = t.blockers - d.n,
                       due_at = CASE WHEN t.blockers = d.n AND d.go AND (t.state = 'SUCCESS' OR t.state = 'FAILURE'
                           AND pawl_saga._is_decided(t.flow_uuid, t.node)) THEN NULL ELSE t.due_at END
                  FROM unnest(task_flows, task_nodes, task_counts, task_go) d(flow, node, n, go)
                 WHERE t.flow_uuid = d.flow AND t.node = d.node AND t.intention = 'REVERT'
                RETURNING t.flow_uuid, t.node, t.state, t.blockers, t.due_at
            LOOP
                CONTINUE WHEN moved.blockers <> 0;
                IF moved.state IN ('PENDING', 'REVERTED', 'IGNORE') THEN
                    flows := flows || moved.flow_uuid;
                    nodes := nodes || moved.node;
                ELSIF moved.due_at IS NULL AND moved.state IN ('SUCCESS', 'FAILURE') THEN
                    began := began || moved.flow_uuid;
                END IF;
            END LOOP;
        END IF;
        IF other_flows IS NOT NULL THEN
            FOR moved IN
                UPDATE pawl_saga.junctions j SET blockers = j.blockers - d.n
                  FROM unnest(other_flows, other_nodes, other_counts) d(flow, node, n)
                 WHERE j.flow_uuid = d.flow AND j.node = d.node AND j.backward
                RETURNING j.flow_uuid, j.node, j.blockers
            LOOP
                IF moved.blockers = 0 THEN
                    flows := flows || moved.flow_uuid;
                    nodes := nodes || moved.node;
                END IF;
            END LOOP;
        END IF;
        IF retry_flows IS NOT NULL THEN
            UPDATE pawl_saga.retries r SET blockers = r.blockers - d.n
                FROM unnest(retry_flows, retry_nodes, retry_counts) d(flow, node, n)
             WHERE r.flow_uuid = d.flow AND r.node = d.node AND r.intention IN ('REVERT', 'RETRY');
            SELECT flows || coalesce(array_agg(r.flow_uuid), '{}'), nodes || coalesce(array_agg(r.node), '{}')
                INTO flows, nodes
              FROM unnest(retry_flows, retry_nodes) d(flow, node)
              JOIN pawl_saga.retries r ON r.flow_uuid = d.flow AND r.node = d.node
              WHERE r.state IN ('PENDING', 'REVERTED', 'IGNORE') AND r.intention = 'REVERT' AND r.blockers = 0;
            ready_flows := ready_flows || retry_flows;
            ready_nodes := ready_nodes || retry_nodes;
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._pass_back(uuid[], integer[]) IS
'internal: counts nodes as undone; returns flows in which something can be claimed now, and nodes to be examined';
