-- Reports of workers: results and failures of their tasks.

-- Checks the elements of a report: the state of each task, and why the element does not count. again: this processor
-- has already recorded this very result, and the answer was lost. at: when the report was made.
CREATE FUNCTION pawl_saga._verdicts(flows uuid[], nodes integer[], tokens bigint[], outcomes jsonb[], worker text,
    at timestamptz, failed boolean[])
RETURNS TABLE (n bigint, state text, problem text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.n, t.state,
        CASE WHEN t.node IS NULL THEN 'P0002 there is no such task'
            WHEN t.token IS DISTINCT FROM r.token THEN 'PW005 another processor owns the task, or none'
            -- a revert that is done has no result
            WHEN r.said IS NULL AND t.state = ANY ('{RUNNING,SUCCESS,FAILURE}')
            THEN '22023 an element must have a result or a failure; only a revert can be reported without'
            WHEN t.state NOT IN ('RUNNING', 'REVERTING') THEN CASE
                WHEN t.state = ANY (CASE WHEN r.failed THEN '{FAILURE,REVERT_FAILURE}' ELSE '{SUCCESS,REVERTED}'
                    END::text[])
                 AND coalesce(r.said, 'null') = coalesce(CASE t.state WHEN 'SUCCESS' THEN t.result
                    WHEN 'REVERTED' THEN t.revert_result WHEN 'FAILURE' THEN t.failure ELSE t.revert_failure END,
                    'null')
                 AND _verdicts.worker = (SELECT l.processor FROM pawl_saga.task_transitions_log l
                     WHERE l.flow_uuid = t.flow_uuid AND l.node = t.node ORDER BY l.sort_key DESC LIMIT 1)
                THEN 'again' ELSE 'PW005 the task already has another outcome' END
            WHEN t.worker IS DISTINCT FROM _verdicts.worker THEN 'PW004 the task belongs to another processor'
            ELSE 'PW005 the lease has expired' END
      FROM unnest(flows, nodes, tokens, outcomes, failed) WITH ORDINALITY r(flow, node, token, said, failed, n)
      LEFT JOIN pawl_saga.tasks t ON t.flow_uuid = r.flow AND t.node = r.node;
END
$function$;
COMMENT ON FUNCTION pawl_saga._verdicts(uuid[], integer[], bigint[], jsonb[], text, timestamptz, boolean[]) IS
'internal: the states of reported tasks, and why elements of a report do not count';

-- Records elements whose form was checked, all or nothing (src/packs/saga/report.cpp).
CREATE FUNCTION pawl_saga._report(results jsonb, worker text)
RETURNS TABLE (flow_uuid uuid, node integer, ok boolean, state text, problem text)
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'pawl_saga_report_flow';
COMMENT ON FUNCTION pawl_saga._report(jsonb, text) IS 'internal: pawl_saga.report, all or nothing';

-- All elements at once; after an error flow by flow, and in a flow one by one, so that what follows from one element
-- rejects no other. The answers are in the order of the elements.
CREATE FUNCTION pawl_saga._report_apart(results jsonb, worker text)
RETURNS TABLE (flow_uuid uuid, node integer, ok boolean, state text, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    one_flow boolean;
    part record;
    answers jsonb := '[]';
    said text;
    code text;
BEGIN
    RETURN QUERY SELECT r.* FROM pawl_saga._report(results, worker) r;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_saga._ends_duty(SQLSTATE) THEN
        RAISE;
    END IF;
    GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
    IF jsonb_array_length(results) = 1 THEN
        RETURN QUERY
            SELECT (e ->> 'flow_uuid')::uuid, (e ->> 'node')::integer, false, t.state, code || ' ' || said
              FROM jsonb_array_elements(results) e
              LEFT JOIN pawl_saga.tasks t
                ON t.flow_uuid = (e ->> 'flow_uuid')::uuid AND t.node = (e ->> 'node')::integer;
        RETURN;
    END IF;
    one_flow := (SELECT count(DISTINCT e ->> 'flow_uuid') = 1 FROM jsonb_array_elements(results) e);
    FOR part IN
        SELECT jsonb_agg(e.value ORDER BY e.place) AS results, array_agg(e.place ORDER BY e.place) AS places
          FROM jsonb_array_elements(results) WITH ORDINALITY e(value, place)
         GROUP BY e.value ->> 'flow_uuid', CASE WHEN one_flow THEN e.place END
         ORDER BY e.value ->> 'flow_uuid', min(e.place)
    LOOP
        SELECT answers || jsonb_agg(to_jsonb(r) || jsonb_build_object('place', part.places[r.n])) INTO answers
          FROM pawl_saga._report_apart(part.results, worker) WITH ORDINALITY
               r(flow_uuid, node, ok, state, problem, n);
    END LOOP;
    RETURN QUERY SELECT a.flow_uuid, a.node, a.ok, a.state, a.problem
        FROM jsonb_to_recordset(answers) a(place bigint, flow_uuid uuid, node integer, ok boolean, state text,
            problem text) ORDER BY a.place;
END
$function$;
COMMENT ON FUNCTION pawl_saga._report_apart(jsonb, text) IS
'internal: pawl_saga.report of several tasks: an error that follows from one of them is its own';

-- A report of several flows. A decider that ends this session must not take the results of other flows with it.
CREATE FUNCTION pawl_saga._report_flows(results jsonb, worker text)
RETURNS TABLE (flow_uuid uuid, node integer, ok boolean, state text, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM pawl_saga._leave_questions(true);
    RETURN QUERY SELECT r.* FROM pawl_saga._report_apart(results, worker) r;
    PERFORM pawl_saga._leave_questions(false);
END
$function$;
COMMENT ON FUNCTION pawl_saga._report_flows(jsonb, text) IS
'internal: pawl_saga.report of several flows, which leaves questions for later';

CREATE FUNCTION pawl_saga.report(results jsonb, processor text DEFAULT NULL)
RETURNS TABLE (flow_uuid uuid, node integer, ok boolean, state text, problem text)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
AS 'MODULE_PATHNAME', 'pawl_saga_report';
COMMENT ON FUNCTION pawl_saga.report(jsonb, text) IS
'Records results of a worker, makes the decisions that follow from them, and returns one row for each element. A
rejected element does not affect the others; the same result can be reported again. If several flows are reported,
or a flow has lost a worker, deciders and controllers that are SQL functions are left to pawl_saga.questions.
results: [{"flow_uuid", "node", "token": as claimed, "result": a JSON value} or {..., "failure": {"message", "type",
"sqlstate"}}]; a revert needs neither. processor: default pawl.processor.
Returns flow_uuid, node, ok, state (of the task) and problem, which begins with a SQLSTATE: PW004 not the owner;
PW005 lost, or another result was recorded; P0002 no such task; 22023 an invalid element; or what the flow raises.
Errors: 22023 results is not an array; PW004 no processor given. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM
pawl_saga.report(''[{"flow_uuid": "01890000-0000-7000-8000-000000000001", "node": 1, "token": 1, "result": 7}]'',
''worker 1'')';

CREATE FUNCTION pawl_saga.report_and_claim(results jsonb, processor text, queue text DEFAULT 'default',
    batch integer DEFAULT 1, lease interval DEFAULT NULL)
RETURNS TABLE (flow_uuid uuid, node integer, ok boolean, state text, problem text, name text, action text,
    handler text, token bigint, arguments jsonb, result jsonb, failure jsonb, failures jsonb, traceparent text,
    tracestate text)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
AS 'MODULE_PATHNAME', 'pawl_saga_report_and_claim';
COMMENT ON FUNCTION pawl_saga.report_and_claim(jsonb, text, text, integer, interval) IS
'Records results and claims the next tasks, as pawl_saga.report and pawl_saga.claim do one after the other, with fewer
writes: a task that the results make claimable begins by the write that makes it so.
results: as for pawl_saga.report. processor: the worker. queue: default "default". batch: how many tasks to claim, 1
to 10000; default 1. lease: default 60 s.
Returns first one row for each element of results: flow_uuid, node, ok, state and problem as pawl_saga.report returns
them. Then the claimed tasks, where ok is null: flow_uuid, node, name, action, handler, token, arguments, result,
failure, failures, traceparent and tracestate as pawl_saga.claim returns them.
Errors: PW004 no processor given; 22023 results is not an array, batch or lease out of range; 22004 queue is null;
42501 tasks of SQL functions, which only pawl_saga.run_sql_tasks and work_sql_tasks run. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_saga.report_and_claim(''[]'', ''worker 1'', batch => 10)';
