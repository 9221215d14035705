-- What workers say: with pawl.claim one of the few calls that they need.

CREATE VIEW pawl_dag._inputs WITH (security_invoker = true) AS
SELECT s.task_uuid, s.step_uuid, t.context, coalesce(p.parents, '{}') AS parents, t.correlation_id, t.traceparent, t.tracestate
  FROM pawl_dag.steps s
  JOIN pawl_dag.tasks t ON t.task_uuid = s.task_uuid
 CROSS JOIN LATERAL (
      SELECT pg_catalog.jsonb_object_agg(g.name, pg_catalog.jsonb_build_object('state', g.state, 'result', g.result)) AS parents
        FROM (SELECT coalesce(p.map_of, p.name) AS name, max(p.state) AS state,
                     CASE WHEN p.map_of IS NULL THEN (pg_catalog.array_agg(p.result))[1] ELSE pg_catalog.jsonb_agg(p.result ORDER BY p.map_index) END AS result
                FROM pawl_dag.edges e JOIN pawl_dag.steps p ON p.task_uuid = e.task_uuid AND p.step_uuid = e.parent_uuid
               WHERE e.task_uuid = s.task_uuid AND e.child_uuid = s.step_uuid GROUP BY coalesce(p.map_of, p.name), p.map_of) g) p;
COMMENT ON VIEW pawl_dag._inputs IS 'internal: what steps work on; to be asked by the whole key';

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
    RETURN QUERY SELECT i.* FROM unnest(tasks, steps) x(task, step) JOIN pawl_dag._inputs i ON i.task_uuid = x.task AND i.step_uuid = x.step;
END
$function$;
COMMENT ON FUNCTION pawl_dag.step_inputs(uuid[], uuid[]) IS
'what steps work on, for the i-th task and the i-th step: the context of the task, and for each parent by name {"state", "result"}; a parent that was resolved by hand has no result. Of a mapped parent the result is the array of its results, in order; its state is complete when all are. traceparent, tracestate: of the trace in which the task began, null for none';

-- A statement of its own: that of the claim may be older than the results of the parents.
CREATE FUNCTION pawl_dag._claimed(taken pawl_dag.steps[])
RETURNS TABLE (task_uuid uuid, step_uuid uuid, name text, handler text, handler_options jsonb, fence bigint, attempts integer,
               context jsonb, parents jsonb, correlation_id uuid, traceparent text, tracestate text)
LANGUAGE plpgsql VOLATILE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 100
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
        SELECT s.task_uuid, s.step_uuid, s.name, s.handler, s.handler_options, s.fence, s.attempts, i.context, i.parents, i.correlation_id, i.traceparent, i.tracestate
          FROM unnest(taken) WITH ORDINALITY s JOIN pawl_dag._inputs i ON i.task_uuid = s.task_uuid AND i.step_uuid = s.step_uuid ORDER BY s.ordinality;
END
$function$;
COMMENT ON FUNCTION pawl_dag._claimed(pawl_dag.steps[]) IS 'internal: steps that were taken, as pawl_dag.claim returns them';

-- Plans are kept, so what is called here must find no settings but its own.
CREATE FUNCTION pawl_dag.claim(processor text, namespace text DEFAULT 'default', batch integer DEFAULT 1, lease interval DEFAULT NULL, orchestrate integer DEFAULT NULL,
                               keys text[] DEFAULT NULL)
RETURNS TABLE (task_uuid uuid, step_uuid uuid, name text, handler text, handler_options jsonb, fence bigint, attempts integer,
               context jsonb, parents jsonb, correlation_id uuid, traceparent text, tracestate text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
AS $function$
#variable_conflict use_column
BEGIN
    IF coalesce(claim.processor, '') = '' THEN
        PERFORM pawl._raise('PW004', 'nobody is named who claims', NULL, 'processor => ''...''');
    END IF;
    IF claim.orchestrate IS NOT NULL THEN
        PERFORM FROM pawl_dag.orchestrate(claim.orchestrate);
    END IF;
    IF claim.keys IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM pawl_dag._claimed((SELECT array_agg(c) FROM pawl.claim_keys(NULL::pawl_dag.steps, claim.keys, 'Start', claim.processor, claim.lease, claim.namespace) c));
        RETURN;
    END IF;
    RETURN QUERY
        SELECT * FROM pawl_dag._claimed((SELECT array_agg(c) FROM pawl.claim(NULL::pawl_dag.steps, 'Start', claim.processor, claim.lease, claim.batch, claim.namespace) c));
END
$function$;
COMMENT ON FUNCTION pawl_dag.claim(text, text, integer, interval, integer, text[]) IS
'takes at most batch steps of a namespace for a worker, in claim order, and returns them with what pawl_dag.step_inputs says of them. orchestrate: first moves on at most so many tasks, as pawl_dag.orchestrate does, in the same transaction. keys: instead of the next ones those of these steps that can be taken, as pawl.claim_keys does. The lease (60 s, or the step''s timeout where that is shorter) is extended by pawl.heartbeat(''pawl_dag.steps'', processor). pawl.claim(null::pawl_dag.steps, ''Start'', ...) takes steps as well. PW004: nobody is named';

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
    leases timestamptz[];
BEGIN
    IF results IS NULL OR jsonb_typeof(results) <> 'array' THEN
        PERFORM pawl._raise('22023', 'results are a JSON array', NULL,
            '[{"task_uuid": "...", "step_uuid": "...", "fence": 1, "result": {...}}, {"task_uuid": "...", "step_uuid": "...", "fence": 1, "error": {"message": "..."}}]');
    END IF;
    IF worker IS NULL THEN
        PERFORM pawl._raise('PW004', 'nobody is named who reports', NULL, 'processor => ''...''');
    END IF;
    PERFORM set_config('pawl.processor', worker, true);
    -- locked in the order of keys; a claim that came later has another fence
    SELECT array_agg(r.report), array_agg(s.ctid), array_agg(s.state), array_agg(s.lease_until), array_agg(CASE
               WHEN s.step_uuid IS NULL THEN 'P0002 there is no such step'
               WHEN s.fence IS DISTINCT FROM (r.report ->> 'fence')::bigint THEN 'PW005 another has the step, or nobody any more'
               WHEN s.state <> 'in_progress' THEN 'again'
               WHEN s.worker_uuid::text IS DISTINCT FROM worker THEN 'PW004 the step belongs to somebody else'
               WHEN s.lease_until <= clock_timestamp() THEN 'PW005 the lease has run out'
               WHEN r.report ? 'error' THEN 'enqueued_as_error_for_orchestration' ELSE 'enqueued_for_orchestration' END)
      INTO reports, places, states, leases, verdicts
      FROM (SELECT DISTINCT ON (e ->> 'task_uuid', e ->> 'step_uuid') e AS report FROM jsonb_array_elements(results) e
             ORDER BY e ->> 'task_uuid', e ->> 'step_uuid') r
      LEFT JOIN LATERAL (SELECT x.ctid, x.* FROM pawl_dag.steps x
                          WHERE x.task_uuid = (r.report ->> 'task_uuid')::uuid AND x.step_uuid = (r.report ->> 'step_uuid')::uuid FOR NO KEY UPDATE) s ON true;
    -- a lease may end between the look and the move: that step is lost, and the others are moved all the same
    FOR look IN 1..3 LOOP
        BEGIN
            -- a row that is locked stays where it is, and the arrows have no guards that could move it
            UPDATE pawl_dag.steps s SET state = v.verdict, result = v.report -> 'result', error = NULL
              FROM unnest(reports, places, verdicts) v(report, place, verdict)
             WHERE v.verdict = 'enqueued_for_orchestration' AND s.ctid = v.place;
            UPDATE pawl_dag.steps s
               SET state = v.verdict, error = v.report -> 'error', permanent = coalesce((v.report #>> '{error,permanent}')::boolean, false),
                   backoff_request = pawl_dag._retry_after(v.report #> '{error,retry_after}')
              FROM unnest(reports, places, verdicts) v(report, place, verdict)
             WHERE v.verdict = 'enqueued_as_error_for_orchestration' AND s.ctid = v.place;
            EXIT;
        EXCEPTION WHEN SQLSTATE 'PW005' THEN
            IF look = 3 THEN
                RAISE;
            END IF;
            verdicts := ARRAY(SELECT CASE WHEN v.verdict ^@ 'enqueued_' AND v.lease <= clock_timestamp() THEN 'PW005 the lease has run out' ELSE v.verdict END
                                FROM unnest(verdicts, leases) WITH ORDINALITY v(verdict, lease, n) ORDER BY v.n);
        END;
    END LOOP;
    PERFORM set_config('pawl.processor', caller, true);
    RETURN QUERY SELECT (v.report ->> 'task_uuid')::uuid, (v.report ->> 'step_uuid')::uuid, g.counts, CASE WHEN g.moved THEN v.verdict ELSE v.state END,
                        CASE WHEN NOT g.counts THEN v.verdict END
      FROM unnest(reports, states, verdicts) v(report, state, verdict)
     CROSS JOIN LATERAL (SELECT v.verdict ^@ 'enqueued_' AS moved, v.verdict ^@ 'enqueued_' OR v.verdict = 'again' AS counts) g;
END
$function$;
COMMENT ON FUNCTION pawl_dag.report(jsonb, text) IS
'a worker''s results, any number at once: [{"task_uuid", "step_uuid", "fence": as claimed, "result": ...} or {..., "error": {"message", "type", "permanent", "retry_after": seconds or a date}}]. One row a step: ok, the state it is in, or the problem with its SQLSTATE (PW004 not the owner, PW005 lost, P0002 unknown); others are not touched by it. Delivered twice, a result counts once';
