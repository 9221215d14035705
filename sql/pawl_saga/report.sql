-- What workers say: results and failures of their tasks.

-- Checks what is reported, and makes the state changes that follow.
CREATE FUNCTION pawl_saga._report(results jsonb, worker text)
RETURNS TABLE (flow_uuid uuid, node integer, ok boolean, state text, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
DECLARE
    parts jsonb[];
    part jsonb;
    seen record;
BEGIN
    -- flows first, then tasks: all functions that decide lock in this order
    PERFORM FROM pawl_saga.flows f
        WHERE f.flow_uuid IN (SELECT (e ->> 'flow_uuid')::uuid FROM jsonb_array_elements(results) e)
        ORDER BY f.flow_uuid FOR NO KEY UPDATE;
    -- of several elements for one task each is checked after the one before it
    parts := ARRAY[results];
    IF jsonb_array_length(results) > 1 THEN
        parts := ARRAY(SELECT jsonb_agg(d.said ORDER BY d.n)
                         FROM (SELECT e.said, e.n, row_number() OVER (PARTITION BY (e.said ->> 'flow_uuid')::uuid,
                                   (e.said ->> 'node')::integer ORDER BY e.n) AS turn
                                 FROM jsonb_array_elements(results) WITH ORDINALITY e(said, n)) d
                        GROUP BY d.turn ORDER BY d.turn);
    END IF;
    FOREACH part IN ARRAY parts LOOP
        FOR seen IN
            SELECT array_agg(v.flow) AS flows, array_agg(v.node) AS nodes, array_agg(v.said) AS said, v.target,
            v.verdict
              FROM (SELECT r.flow, r.node, r.said, r.n,
                           CASE WHEN NOT r.said ? 'failure'
                               THEN CASE t.state WHEN 'RUNNING' THEN 'SUCCESS' ELSE 'REVERTED' END
                                ELSE CASE t.state WHEN 'RUNNING' THEN 'FAILURE' ELSE 'REVERT_FAILURE' END END AS target,
                           CASE WHEN t.node IS NULL THEN 'P0002 there is no such task'
                                WHEN t.token IS DISTINCT FROM (r.said ->> 'token')::bigint
                                    THEN 'PW005 another processor owns the task, or none'
                                -- a revert has nothing to say when it is done
                                WHEN NOT r.said ? 'result' AND NOT r.said ? 'failure'
                                    AND t.state = ANY ('{RUNNING,SUCCESS,FAILURE}')
                                THEN '22023 an element must have a result or a failure; only a revert can be '
                                'reported without'
                                WHEN t.state NOT IN ('RUNNING', 'REVERTING') THEN CASE
                                    -- its answer was lost: this very result of this processor is the recorded one
                                    WHEN t.state
                                        = ANY (CASE WHEN r.said ? 'failure' THEN '{FAILURE,REVERT_FAILURE}'
                                            ELSE '{SUCCESS,REVERTED}' END::text[])
                                     AND coalesce(r.said -> CASE WHEN r.said ? 'failure' THEN 'failure'
                                             ELSE 'result' END, 'null')
                                    = coalesce(CASE t.state WHEN 'SUCCESS' THEN t.result
                                        WHEN 'REVERTED' THEN t.revert_result
                                        WHEN 'FAILURE' THEN t.failure ELSE t.revert_failure END, 'null')
                                     AND _report.worker = (SELECT l.processor FROM pawl_saga.task_transitions_log l
                                         WHERE l.flow_uuid = t.flow_uuid AND l.node = t.node
                                         ORDER BY l.sort_key DESC LIMIT 1)
                                    THEN 'again' ELSE 'PW005 the task already has another outcome' END
                                WHEN t.worker IS DISTINCT FROM _report.worker
                                    THEN 'PW004 the task belongs to another processor'
                                WHEN t.lease_until <= clock_timestamp() THEN 'PW005 the lease has expired' END
                  AS verdict
                      FROM (SELECT (e.said ->> 'flow_uuid')::uuid AS flow, (e.said ->> 'node')::integer AS node, e.said,
                          e.n
                              FROM jsonb_array_elements(part) WITH ORDINALITY e(said, n) ORDER BY 1, 2) r
                      LEFT JOIN LATERAL (SELECT x.* FROM pawl_saga.tasks x
                          WHERE x.flow_uuid = r.flow AND x.node = r.node FOR NO KEY UPDATE) t ON true) v
             GROUP BY v.target, v.verdict,
                 CASE WHEN v.target IN ('FAILURE', 'REVERT_FAILURE') AND v.verdict IS NULL THEN v.n END
             ORDER BY min(v.n)
        LOOP
            IF seen.verdict IS NULL THEN
                UPDATE pawl_saga.tasks t
                   SET state = seen.target,
                       result = CASE seen.target WHEN 'SUCCESS' THEN coalesce(r.said -> 'result', 'null')
                           ELSE t.result END,
                       failure = CASE seen.target WHEN 'FAILURE' THEN r.said -> 'failure' ELSE t.failure END,
                       revert_result = CASE seen.target WHEN 'REVERTED' THEN r.said -> 'result'
                           ELSE t.revert_result END,
                       revert_failure = CASE seen.target WHEN 'REVERT_FAILURE' THEN r.said -> 'failure'
                           ELSE t.revert_failure END
                  FROM unnest(seen.flows, seen.nodes, seen.said) r(flow, node, said)
                 WHERE t.flow_uuid = r.flow AND t.node = r.node;
            END IF;
            RETURN QUERY SELECT r.flow, r.node, seen.verdict IS NULL
                OR seen.verdict = 'again', t.state, nullif(seen.verdict, 'again')
              FROM unnest(seen.flows, seen.nodes) r(flow, node)
              LEFT JOIN pawl_saga.tasks t ON t.flow_uuid = r.flow AND t.node = r.node;
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._report(jsonb, text) IS
'internal: pawl_saga.report, once; PW005: a lease ended in the middle of it';

-- A lease can expire between the check and the UPDATE: then all is undone and checked again, and that task is lost.
CREATE FUNCTION pawl_saga._report_all(results jsonb, worker text)
RETURNS TABLE (flow_uuid uuid, node integer, ok boolean, state text, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    FOR look IN 1..3 LOOP
        BEGIN
            RETURN QUERY SELECT r.* FROM pawl_saga._report(results, worker) r;
            RETURN;
        EXCEPTION WHEN SQLSTATE 'PW005' THEN
            IF look = 3 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._report_all(jsonb, text) IS 'internal: pawl_saga.report, all or nothing';

CREATE FUNCTION pawl_saga.report(results jsonb, processor text DEFAULT NULL)
RETURNS TABLE (flow_uuid uuid, node integer, ok boolean, state text, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_column
DECLARE
    caller text := coalesce(current_setting('pawl.processor', true), '');
    worker text := coalesce(report.processor, nullif(caller, ''));
    good jsonb;
    bad jsonb;
    several boolean;
    one record;
    said text;
    code text;
BEGIN
    IF results IS NULL OR jsonb_typeof(results) <> 'array' THEN
        PERFORM pawl.raise('22023', 'results must be a JSON array', NULL,
            '[{"flow_uuid": "...", "node": 1, "token": 1, "result": {...}}, {"flow_uuid": "...", "node": 2, "token": '
            '1, "failure": {"message": "..."}}]');
    END IF;
    IF worker IS NULL THEN
        PERFORM pawl.raise('PW004', 'no processor given', NULL, 'processor => ''...''');
    END IF;
    PERFORM set_config('pawl.processor', worker, true);
    -- each is checked alone: one that is malformed is answered so, and stops no other; a
    -- null failure beside a result is none
    SELECT coalesce(jsonb_agg(CASE e.said -> 'failure' WHEN 'null' THEN e.said - 'failure' ELSE e.said END ORDER BY e.n)
                    FILTER (WHERE e.wrong IS NULL), '[]'),
           jsonb_agg(jsonb_build_array(e.said, e.wrong) ORDER BY e.n) FILTER (WHERE e.wrong IS NOT NULL) INTO good, bad
      FROM (SELECT x.said, x.n,
                   CASE WHEN jsonb_typeof(x.said) <> 'object' OR x.said ->> 'flow_uuid' IS NULL
                       OR x.said ->> 'node' IS NULL
                             OR x.said ->> 'flow_uuid' !~* '^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$'
                             OR x.said ->> 'node' !~ '^[0-9]{1,9}$' OR x.said ->> 'token' !~ '^[0-9]{1,18}$'
                        THEN '22023 flow_uuid, node or token is missing or malformed'
                        WHEN jsonb_typeof(x.said -> 'failure') <> 'null' AND jsonb_typeof(x.said -> 'result') <> 'null'
                        THEN '22023 an element must have a result or a failure, not both'
                        WHEN jsonb_typeof(x.said -> 'failure') = 'null' AND NOT x.said ? 'result'
                        THEN '22023 a failure must not be null' END AS wrong
              FROM jsonb_array_elements(results) WITH ORDINALITY x(said, n)) e;
    IF bad IS NOT NULL THEN
        RETURN QUERY SELECT CASE WHEN e #>> '{0,flow_uuid}' ~* '^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$'
            AND e ->> 1 !~ 'malformed$'
                                 THEN (e #>> '{0,flow_uuid}')::uuid END,
                            CASE WHEN e #>> '{0,node}' ~ '^[0-9]{1,9}$' THEN (e #>> '{0,node}')::integer END, false,
                            NULL::text, e ->> 1
                       FROM jsonb_array_elements(bad) e;
    END IF;
    -- a decider that ends this session must not take the results of other flows with it
    several := EXISTS (SELECT FROM jsonb_array_elements(good) e WHERE e ->> 'flow_uuid' <> good -> 0 ->> 'flow_uuid');
    IF several THEN
        PERFORM pawl_saga._leave_questions(true);
    END IF;
    BEGIN
        RETURN QUERY SELECT r.* FROM pawl_saga._report_all(good, worker) r;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl.is_transient(SQLSTATE) AND SQLSTATE NOT LIKE '40%' OR NOT several THEN
            RAISE;
        END IF;
        -- what follows from one of them raises: flow by flow, so that it is that one's trouble alone
        FOR one IN SELECT e ->> 'flow_uuid' AS flow, jsonb_agg(e) AS results FROM jsonb_array_elements(good) e
            GROUP BY 1 ORDER BY 1 LOOP
            BEGIN
                RETURN QUERY SELECT r.* FROM pawl_saga._report_all(one.results, worker) r;
            EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
                IF pawl.is_transient(SQLSTATE) AND SQLSTATE NOT LIKE '40%' THEN
                    RAISE;
                END IF;
                GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
                RETURN QUERY
                    SELECT (e ->> 'flow_uuid')::uuid, (e ->> 'node')::integer, false, t.state, code || ' ' || said
                               FROM jsonb_array_elements(one.results) e
                               LEFT JOIN pawl_saga.tasks t ON t.flow_uuid = (e ->> 'flow_uuid')::uuid
                                   AND t.node = (e ->> 'node')::integer;
            END;
        END LOOP;
    END;
    IF several THEN
        PERFORM pawl_saga._leave_questions(false);
    END IF;
    PERFORM set_config('pawl.processor', caller, true);
END
$function$;
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
