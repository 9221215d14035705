-- The first page of a console. It is read by indexes up to a limit, so that its cost does not grow with the tables.

CREATE FUNCTION pawl_api._overview_work() RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object(
        'queues', (SELECT coalesce(
            jsonb_agg(jsonb_build_object('relation', q.relation::text, 'queue', q.queue, 'depth', q.claimable,
                'due_later', q.due_later, 'owned', q.owned,
                       'capped', q.at_least, 'oldest_at', clock_timestamp() - q.oldest, 'paused', q.is_paused)
                ORDER BY q.relation::text, q.queue), '[]')
            FROM pawl.queue_depth q),
        'owners', (SELECT coalesce(jsonb_agg(to_jsonb(o) ORDER BY o.expired DESC, o.next_lease_end), '[]')
                     FROM (SELECT x.relation::text, x.processor, x.owned, x.at_least AS capped, x.expired,
                                  CASE WHEN isfinite(x.next_lease_end) THEN x.next_lease_end END AS next_lease_end
                             FROM pawl.owners x ORDER BY x.expired DESC, x.next_lease_end LIMIT 100) o),
        'timers', (SELECT coalesce(
                jsonb_agg(jsonb_build_object('relation', t.relation::text, 'due', t.due, 'capped', t.at_least,
                    'oldest_at', clock_timestamp() - t.lag)), '[]')
                     FROM pawl.timers t WHERE t.due > 0),
        -- what the server's statistics count anyway; what was rolled back is in it too
        'moves', (SELECT coalesce(
            jsonb_agg(jsonb_build_object('relation', b.relation::text, 'machine', b.machine, 'total',
                pg_stat_get_tuples_inserted(b.history))
                ORDER BY b.relation::text), '[]') FROM pawl.binding b WHERE b.history IS NOT NULL));
END
$function$;
COMMENT ON FUNCTION pawl_api._overview_work() IS
'internal: queues, owners, timers, and how many state changes were logged since the statistics began';

-- Tasks in progress, tasks that were not looked at yet, and tasks that need an operator.
CREATE FUNCTION pawl_api._overview_tasks() RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
BEGIN
    IF to_regclass('pawl_dag.tasks') IS NULL THEN
        RETURN jsonb_build_object('tasks_open', NULL, 'dead_letters', NULL);
    END IF;
    RETURN jsonb_build_object(
        'tasks_open', pawl_api._counts(ARRAY(
            (SELECT t.state FROM pawl_dag.tasks t WHERE t.watch_at IS NOT NULL ORDER BY t.watch_at LIMIT 10000)
            UNION ALL (SELECT t.state FROM pawl_dag.tasks t WHERE t.evaluate AND t.watch_at IS NULL
                ORDER BY t.rank DESC, t.task_uuid LIMIT 10000)
            UNION ALL (SELECT t.state FROM (SELECT d.task_uuid FROM pawl_dag.dlq d WHERE d.resolution_status = 'pending'
                ORDER BY d.task_uuid LIMIT 10000) d
                         JOIN pawl_dag.tasks t ON t.task_uuid = d.task_uuid
                         WHERE t.watch_at IS NULL AND NOT t.evaluate))),
        'dead_letters', (SELECT count(*) FROM (SELECT FROM pawl_dag.dlq d WHERE d.resolution_status = 'pending'
            ORDER BY d.task_uuid LIMIT 10000) d));
END
$function$;
COMMENT ON FUNCTION pawl_api._overview_tasks() IS
'internal: open tasks by state, dead letters; null where pawl_dag is not installed';

CREATE FUNCTION pawl_api._failed_tasks() RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 20
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
BEGIN
    IF to_regclass('pawl_dag.dlq') IS NOT NULL THEN
        RETURN QUERY SELECT jsonb_build_object('kind', 'task', 'id', d.task_uuid, 'name', t.name, 'at', d.dlq_timestamp,
                'what', coalesce(pawl_api._letter_error(d.task_snapshot), to_jsonb(d.reason)))
            FROM (SELECT x.* FROM pawl_dag.dlq x WHERE x.resolution_status = 'pending'
                ORDER BY x.task_uuid DESC LIMIT 20) d JOIN pawl_dag.tasks t ON t.task_uuid = d.task_uuid;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_api._failed_tasks() IS 'internal: the newest tasks among the dead letters';

CREATE FUNCTION pawl_api._failed_bulks() RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF to_regclass('pawl_bulk.operations') IS NOT NULL THEN
        RETURN QUERY SELECT jsonb_build_object('kind', 'bulk', 'id', o.operation, 'name', o.definition, 'at',
            coalesce(o.completed_at, o.created_at),
                'what', coalesce(o.error_message, (SELECT format('%s of %s rows failed', s.failed_rows, s.total_rows)
                    FROM pawl_bulk.status s WHERE s.operation = o.operation)))
            FROM (SELECT x.* FROM pawl_bulk.operations x ORDER BY x.operation DESC LIMIT 100) o
            WHERE o.status IN ('CompletedWithErrors', 'Failed') LIMIT 20;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_api._failed_bulks() IS 'internal: operations with failures, of the newest hundred';

CREATE FUNCTION pawl_api._failed_flows() RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF to_regclass('pawl_saga.flows') IS NOT NULL THEN
        RETURN QUERY SELECT jsonb_build_object('kind', 'saga', 'id', f.flow_uuid, 'name', f.name, 'at', f.entered_at,
                'what', coalesce(f.problem, (SELECT coalesce(t.revert_failure, t.failure) FROM pawl_saga.tasks t
                    WHERE t.flow_uuid = f.flow_uuid AND t.failure IS NOT NULL ORDER BY t.node LIMIT 1)))
            FROM pawl_saga.flows f WHERE f.state = 'FAILURE' ORDER BY f.flow_uuid DESC LIMIT 20;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_api._failed_flows() IS 'internal: the newest flows that ended in FAILURE';

CREATE FUNCTION pawl_api._overview_bulks() RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF to_regclass('pawl_bulk.operations') IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT coalesce(jsonb_agg(to_jsonb(s)), '[]')
              FROM (SELECT o.operation FROM pawl_bulk.operations o WHERE o.status
                      = ANY ('{Pending,Validating,Running,Retrying}') ORDER BY o.priority DESC, o.operation LIMIT 20) a
              CROSS JOIN LATERAL (SELECT x.operation, x.definition, x.status, x.paused_at, x.total_rows,
                  x.processed_rows, x.successful_rows, x.failed_rows, x.progress
                                    FROM pawl_bulk.status x WHERE x.operation = a.operation) s);
END
$function$;
COMMENT ON FUNCTION pawl_api._overview_bulks() IS
'internal: the operations in progress; null if pawl_bulk is not installed';

CREATE FUNCTION pawl_api._overview_flows() RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
BEGIN
    IF to_regclass('pawl_saga.flows') IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN pawl_api._counts(ARRAY(SELECT f.state FROM pawl_saga.flows f
        WHERE f.state <> 'SUCCESS' AND f.state <> 'REVERTED' ORDER BY f.state, f.flow_uuid LIMIT 10000));
END
$function$;
COMMENT ON FUNCTION pawl_api._overview_flows() IS
'internal: flows that are not done, by state; null where pawl_saga is not installed';

-- From the server's memory, so it includes what other clients attempted, and transactions that were rolled back.
CREATE FUNCTION pawl_api._overview_rejected() RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    since timestamptz := pawl.counted_since();
BEGIN
    IF since IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN jsonb_build_object('since', since, 'items', (
        SELECT coalesce(jsonb_agg(to_jsonb(r) ORDER BY r.count DESC, r.machine, r.sqlstate), '[]')
          FROM (SELECT c.machine, c.sqlstate, sum(c.count) AS count FROM pawl.counters() c WHERE c.kind = 'rejection'
                 GROUP BY c.machine, c.sqlstate ORDER BY 3 DESC LIMIT 100) r));
END
$function$;
COMMENT ON FUNCTION pawl_api._overview_rejected() IS
'internal: rejected state changes by machine and SQLSTATE; null if pawl is not in shared_preload_libraries';

CREATE FUNCTION pawl_api.overview(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('at', clock_timestamp(), 'bulks_open', pawl_api._overview_bulks(), 'sagas_open',
        pawl_api._overview_flows(), 'rejected', pawl_api._overview_rejected(),
        'recent_failures', (SELECT coalesce(jsonb_agg(n.f), '[]') FROM (
            SELECT x.f FROM (SELECT pawl_api._failed_tasks() AS f UNION ALL SELECT pawl_api._failed_bulks()
                UNION ALL SELECT pawl_api._failed_flows()) x
             ORDER BY (x.f ->> 'at')::timestamptz DESC NULLS LAST LIMIT 20) n))
        || pawl_api._overview_work() || pawl_api._overview_tasks();
END
$function$;
COMMENT ON FUNCTION pawl_api.overview(jsonb) IS
'Route: queues, owners, timers, state changes, open tasks, flows and operations, dead letters, latest failures, and
rejected state changes (rejected: null if pawl is not in shared_preload_libraries). Counts end at 10000 rows.
q: none. Returns the answer as JSON.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.overview(''{}'')';
