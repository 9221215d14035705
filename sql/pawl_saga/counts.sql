-- Counts the blockers of each node. Forward, a node waits for those directly before it; backward, for those directly
-- behind it. Both are counted in `blockers`, and a decision reverses the direction for all that it reverts.

-- Sessions that change atoms, or send a signal, lock the flow and do not write it. So a transaction that has one
-- snapshot for all its statements can lock the flow and still see atoms as they were: it must look for that. A task
-- that another session is changing is left out: that session will wait for the flow.
CREATE FUNCTION pawl_saga._check_snapshot(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        PERFORM FROM pawl_saga.tasks t WHERE t.flow_uuid = flow FOR SHARE SKIP LOCKED;
        PERFORM FROM pawl_saga.retries r WHERE r.flow_uuid = flow FOR SHARE SKIP LOCKED;
        PERFORM FROM pawl_saga.junctions j WHERE j.flow_uuid = flow FOR SHARE SKIP LOCKED;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._check_snapshot(uuid) IS
'internal: whether an old snapshot still has the atoms of a locked flow as they are; 40001: one has changed';

-- The same for flows that may have ended. A task that is in progress, or can be claimed, keeps a flow from that, so
-- this one must not have changed; if there is none, all atoms count.
CREATE FUNCTION pawl_saga._check_progress(flows uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    flow uuid;
BEGIN
    FOREACH flow IN ARRAY flows LOOP
        PERFORM FROM pawl_saga.tasks t
          WHERE t.flow_uuid = flow AND (t.state = 'RUNNING' OR t.state = 'REVERTING' OR (t.due_at IS NULL
              AND t.state = ANY ('{PENDING,SUCCESS,FAILURE,REVERT_FAILURE}'::text[]))) LIMIT 1 FOR SHARE SKIP LOCKED;
        IF NOT FOUND THEN
            PERFORM pawl_saga._check_snapshot(flow);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._check_progress(uuid[]) IS
'internal: whether an old snapshot is right that flows have not ended, or have; 40001: it may be wrong';

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
    PERFORM pawl_saga._changed(flow);
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow;
    going := f.state = 'RUNNING' AND NOT f.broken;
    -- what can be claimed at any moment: it waits for sessions that are claiming, so that it counts what is there
    PERFORM FROM pawl_saga.tasks t WHERE t.flow_uuid = flow AND t.due_at IS NULL
        AND t.state = ANY ('{PENDING,SUCCESS,FAILURE,REVERT_FAILURE}') ORDER BY t.node FOR NO KEY UPDATE;
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
                   WHEN x.state NOT IN ('PENDING', 'SUCCESS', 'FAILURE', 'REVERT_FAILURE') THEN x.due_at
                   WHEN going AND k.n = 0 AND (x.intention = 'REVERT'
                       AND (x.state = 'SUCCESS' OR x.state = 'REVERT_FAILURE' AND x.revert_again
                           OR x.state = 'FAILURE' AND pawl_saga._is_decided(flow, x.node))
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

-- Begins what the database does itself: retries that are ready, and votes.
CREATE FUNCTION pawl_saga._examine_all(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    ready integer;
BEGIN
    FOR ready IN
        SELECT n.node FROM pawl_saga.flows f
        JOIN pawl_saga.nodes n ON n.definition_uuid = f.definition_uuid AND (n.kind = 'retry' OR n.careful)
         WHERE f.flow_uuid = flow AND f.state = 'RUNNING' ORDER BY n.node
    LOOP
        PERFORM pawl_saga._examine(flow, ready);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._examine_all(uuid) IS 'internal: begins what is ready in a flow and no worker does';

CREATE FUNCTION pawl_saga._recover(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_saga._recount(flow);
    PERFORM pawl_saga._examine_all(flow);
END
$function$;
COMMENT ON FUNCTION pawl_saga._recover(uuid) IS 'internal: counts a flow anew and begins what is ready in it';

CREATE FUNCTION pawl_saga._count_anew(flows uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
BEGIN
    PERFORM pawl_saga._recover(f.flow_uuid) FROM pawl_saga.flows f
     WHERE f.flow_uuid = ANY (flows) AND f.state IN ('RUNNING', 'SUSPENDING');
END
$function$;
COMMENT ON FUNCTION pawl_saga._count_anew(uuid[]) IS
'internal: counts flows anew that a trigger changed while a statement ended atoms of them';

-- Every node of the flow as it was made: then nothing has to be counted, and nothing was decided.
CREATE FUNCTION pawl_saga._is_new(flow uuid, definition uuid) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $function$
BEGIN
    -- a definition from before 0.1.0 also counts entries, so that no atom of it has nothing to wait for
    RETURN EXISTS (SELECT FROM pawl_saga.nodes n WHERE n.definition_uuid = definition
            AND n.kind IN ('task', 'retry') AND n.waits_for = 0) AND NOT EXISTS (
        SELECT FROM pawl_saga.nodes n
          LEFT JOIN pawl_saga.tasks t ON n.kind = 'task' AND t.flow_uuid = flow AND t.node = n.node
          LEFT JOIN pawl_saga.retries r ON n.kind = 'retry' AND r.flow_uuid = flow AND r.node = n.node
          LEFT JOIN pawl_saga.junctions j ON n.kind IN ('entry', 'end') AND j.flow_uuid = flow AND j.node = n.node
         WHERE n.definition_uuid = definition AND CASE n.kind
             WHEN 'task' THEN (t.blockers, t.state, t.intention, t.dropped, t.due_at)
                 IS DISTINCT FROM (n.waits_for, 'PENDING', 'EXECUTE', false, 'infinity')
             WHEN 'retry' THEN (r.blockers, r.state, r.intention, r.dropped)
                 IS DISTINCT FROM (n.waits_for, 'PENDING', 'EXECUTE', false)
             ELSE (j.blockers, j.backward) IS DISTINCT FROM (n.waits_for, false) END);
END
$function$;
COMMENT ON FUNCTION pawl_saga._is_new(uuid, uuid) IS 'internal: whether all nodes of a flow are as they were made';

-- What pawl_saga._recount does, for a flow that is new.
CREATE FUNCTION pawl_saga._begin(flow uuid, definition uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    UPDATE pawl_saga.tasks t SET due_at = NULL FROM pawl_saga.nodes n
     WHERE n.definition_uuid = definition AND n.kind = 'task' AND n.waits_for = 0 AND NOT n.careful
       AND t.flow_uuid = flow AND t.node = n.node;
END
$function$;
COMMENT ON FUNCTION pawl_saga._begin(uuid, uuid) IS 'internal: makes claimable what is ready in a new flow';
