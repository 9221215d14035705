-- What a console shows first. Nothing here reads a table from end to end: what is counted is counted up to a bound, by an index.

-- A task in trouble or a large number of tasks alike: how many are in each state, over the newest so many.
CREATE FUNCTION pawl_api.overview(q jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $function$
DECLARE
    newest constant integer := 5000;
    answer jsonb;
BEGIN
    answer := jsonb_build_object('at', clock_timestamp(),
        'queues', (SELECT coalesce(jsonb_agg(jsonb_build_object('relation', d.relation::text, 'queue', d.queue, 'depth', d.claimable, 'due_later', d.due_later, 'capped', d.at_least, 'owned', d.owned,
                              'oldest_at', clock_timestamp() - d.oldest, 'paused', d.is_paused) ORDER BY d.claimable DESC), '[]') FROM pawl.queue_depth d),
        'owners', (SELECT coalesce(jsonb_agg(jsonb_build_object('relation', o.relation::text, 'processor', o.processor, 'owned', o.owned, 'capped', o.at_least, 'lapsed', o.lapsed,
                              'next_lease_end', o.next_lease_end)), '[]') FROM (SELECT x.* FROM pawl.owners x LIMIT 200) o),
        'timers', (SELECT coalesce(jsonb_agg(jsonb_build_object('relation', t.relation::text, 'due', t.due, 'capped', t.at_least, 'next_due', t.next_due, 'oldest_at', clock_timestamp() - t.lag)), '[]')
                     FROM pawl.timers t),
        'dead_letters', NULL, 'tasks_open', NULL, 'bulks_open', NULL, 'sagas_open', NULL, 'recent_failures', '[]'::jsonb);
    IF to_regnamespace('pawl_dag') IS NOT NULL THEN
        answer := answer || pawl_api._overview_tasks(newest);
    END IF;
    IF to_regnamespace('pawl_bulk') IS NOT NULL THEN
        answer := answer || jsonb_build_object('bulks_open', (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.priority DESC, s.operation), '[]')
            FROM (SELECT o.operation FROM pawl_bulk.operations o WHERE o.status = ANY ('{Pending,Validating,Running,Retrying}') ORDER BY o.priority DESC, o.operation LIMIT 20) x
            JOIN pawl_bulk.status s ON s.operation = x.operation));
    END IF;
    IF to_regnamespace('pawl_saga') IS NOT NULL THEN
        answer := answer || jsonb_build_object('sagas_open', (SELECT coalesce(jsonb_object_agg(f.state, f.n), '{}')
            FROM (SELECT x.state, count(*) AS n FROM (SELECT y.state FROM pawl_saga.flows y ORDER BY y.flow_uuid DESC LIMIT newest) x GROUP BY x.state) f));
    END IF;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl_api.overview(jsonb) IS 'route: queues, owners, timers, open work, dead letters, what failed last; counts of tasks and sagas are over the newest 5,000';

CREATE FUNCTION pawl_api._overview_tasks(newest integer) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object(
        'tasks_open', (SELECT coalesce(jsonb_object_agg(t.state, t.n), '{}')
                         FROM (SELECT x.state, count(*) AS n FROM (SELECT y.state FROM pawl_dag.tasks y ORDER BY y.task_uuid DESC LIMIT newest) x GROUP BY x.state) t),
        'dead_letters', (SELECT count(*) FROM (SELECT FROM pawl_dag.dlq d WHERE d.resolution_status = 'pending' LIMIT 10000) d),
        'recent_failures', (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', 'task', 'id', t.task_uuid, 'name', t.name, 'what', t.state, 'at', t.entered_at) ORDER BY t.entered_at DESC), '[]')
                              FROM (SELECT x.* FROM (SELECT y.* FROM pawl_dag.tasks y ORDER BY y.task_uuid DESC LIMIT newest) x
                                     WHERE x.state IN ('error', 'blocked_by_failures') ORDER BY x.entered_at DESC LIMIT 20) t));
END
$function$;
COMMENT ON FUNCTION pawl_api._overview_tasks(integer) IS 'internal: the tasks of the overview';
