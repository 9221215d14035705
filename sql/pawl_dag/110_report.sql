-- What workers say: with pawl.claim one of the few calls that they need.

CREATE FUNCTION pawl_dag.step_inputs(tasks uuid[], steps uuid[])
RETURNS TABLE (task_uuid uuid, step_uuid uuid, context jsonb, parents jsonb, correlation_id uuid, traceparent text, tracestate text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.task_uuid, s.step_uuid, t.context, coalesce(p.parents, '{}'), t.correlation_id, t.traceparent, t.tracestate
      FROM unnest(tasks, steps) x(task, step)
      JOIN pawl_dag.steps s ON s.task_uuid = x.task AND s.step_uuid = x.step
      JOIN pawl_dag.tasks t ON t.task_uuid = s.task_uuid
      CROSS JOIN LATERAL (
          SELECT jsonb_object_agg(g.name, jsonb_build_object('state', g.state, 'result', g.result)) AS parents
            FROM (SELECT coalesce(p.map_of, p.name) AS name, max(p.state) AS state,
                         CASE WHEN p.map_of IS NULL THEN (array_agg(p.result))[1] ELSE jsonb_agg(p.result ORDER BY p.map_index) END AS result
                    FROM pawl_dag.edges e JOIN pawl_dag.steps p ON p.task_uuid = e.task_uuid AND p.step_uuid = e.parent_uuid
                   WHERE e.task_uuid = s.task_uuid AND e.child_uuid = s.step_uuid GROUP BY coalesce(p.map_of, p.name), p.map_of) g) p;
END
$function$;
COMMENT ON FUNCTION pawl_dag.step_inputs(uuid[], uuid[]) IS
'what steps work on, for the i-th task and the i-th step: the context of the task, and for each parent by name {"state", "result"}; a parent that was resolved by hand has no result. Of a mapped parent the result is the array of its results, in order; its state is complete when all are. traceparent, tracestate: of the trace in which the task began, null for none';

-- Seconds, or a date as HTTP writes it.
CREATE FUNCTION pawl_dag._retry_after(asked jsonb) RETURNS interval
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN asked #>> '{}' ~ '^[0-9]+(\.[0-9]+)?$' THEN make_interval(secs => least((asked #>> '{}')::double precision, 3e9))
                ELSE greatest((asked #>> '{}')::timestamptz - now(), '0') END
$function$;
COMMENT ON FUNCTION pawl_dag._retry_after(jsonb) IS 'internal: a wait that was asked for, in seconds or as a date; one that is past is 0';

CREATE FUNCTION pawl_dag.report(results jsonb, processor text DEFAULT NULL)
RETURNS TABLE (task_uuid uuid, step_uuid uuid, ok boolean, state text, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_column
DECLARE
    caller text := coalesce(current_setting('pawl.processor', true), '');
    worker text := coalesce(report.processor, nullif(caller, ''));
    reports jsonb[];
    places tid[];
    states text[];
    verdicts text[];
BEGIN
    IF results IS NULL OR jsonb_typeof(results) <> 'array' THEN
        PERFORM pawl._raise('22023', 'results are a JSON array', NULL,
            '[{"task_uuid": "…", "step_uuid": "…", "fence": 1, "result": {…}}, {"task_uuid": "…", "step_uuid": "…", "fence": 1, "error": {"message": "…"}}]');
    END IF;
    IF worker IS NULL THEN
        PERFORM pawl._raise('PW004', 'nobody is named who reports', NULL, 'processor => ''…''');
    END IF;
    PERFORM set_config('pawl.processor', worker, true);
    -- locked in the order of keys; a claim that came later has another fence
    SELECT array_agg(r.report), array_agg(s.ctid), array_agg(s.state), array_agg(CASE
               WHEN s.step_uuid IS NULL THEN 'P0002 there is no such step'
               WHEN s.fence IS DISTINCT FROM (r.report ->> 'fence')::bigint THEN 'PW005 another has the step, or nobody any more'
               WHEN s.state <> 'in_progress' THEN 'again'
               WHEN s.worker_uuid::text IS DISTINCT FROM worker THEN 'PW004 the step belongs to somebody else'
               WHEN s.lease_until <= clock_timestamp() THEN 'PW005 the lease has run out'
               WHEN r.report ? 'error' THEN 'enqueued_as_error_for_orchestration' ELSE 'enqueued_for_orchestration' END)
      INTO reports, places, states, verdicts
      FROM (SELECT DISTINCT ON (e ->> 'task_uuid', e ->> 'step_uuid') e AS report FROM jsonb_array_elements(results) e
             ORDER BY e ->> 'task_uuid', e ->> 'step_uuid') r
      LEFT JOIN LATERAL (SELECT x.ctid, x.* FROM pawl_dag.steps x
                          WHERE x.task_uuid = (r.report ->> 'task_uuid')::uuid AND x.step_uuid = (r.report ->> 'step_uuid')::uuid FOR NO KEY UPDATE) s ON true;
    -- a row that is locked stays where it is, and the arrows have no guards that could move it
    UPDATE pawl_dag.steps s SET state = v.verdict, result = v.report -> 'result', error = NULL
      FROM unnest(reports, places, verdicts) v(report, place, verdict)
     WHERE v.verdict = 'enqueued_for_orchestration' AND s.ctid = v.place;
    UPDATE pawl_dag.steps s
       SET state = v.verdict, error = v.report -> 'error', permanent = coalesce((v.report #>> '{error,permanent}')::boolean, false),
           backoff_request = pawl_dag._retry_after(v.report #> '{error,retry_after}')
      FROM unnest(reports, places, verdicts) v(report, place, verdict)
     WHERE v.verdict = 'enqueued_as_error_for_orchestration' AND s.ctid = v.place;
    PERFORM set_config('pawl.processor', caller, true);
    RETURN QUERY SELECT (v.report ->> 'task_uuid')::uuid, (v.report ->> 'step_uuid')::uuid, g.counts, CASE WHEN g.moved THEN v.verdict ELSE v.state END,
                        CASE WHEN NOT g.counts THEN v.verdict END
      FROM unnest(reports, states, verdicts) v(report, state, verdict)
     CROSS JOIN LATERAL (SELECT v.verdict ^@ 'enqueued_' AS moved, v.verdict ^@ 'enqueued_' OR v.verdict = 'again' AS counts) g;
END
$function$;
COMMENT ON FUNCTION pawl_dag.report(jsonb, text) IS
'a worker''s results, any number at once: [{"task_uuid", "step_uuid", "fence": as claimed, "result": …} or {…, "error": {"message", "type", "permanent", "retry_after": seconds or a date}}]. One row a step: ok, the state it is in, or the problem with its SQLSTATE (PW004 not the owner, PW005 lost, P0002 unknown); others are not touched by it. Delivered twice, a result counts once';
