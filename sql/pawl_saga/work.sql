-- What workers do: they claim tasks and report what came of them. Tasks that are SQL functions are run by a duty.

-- A duty raised in a flow: it is left alone for a second, then longer each time.
CREATE FUNCTION pawl_saga._set_aside(flow uuid, duty text, code text, said text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    INSERT INTO pawl_saga.set_aside AS s (flow_uuid, duty, due_at, sqlstate, message)
        VALUES (flow, duty, clock_timestamp() + interval '1 s', code, said)
    ON CONFLICT (flow_uuid) DO UPDATE
       SET duty = excluded.duty, attempts = s.attempts + 1, sqlstate = excluded.sqlstate, message = excluded.message,
           due_at = clock_timestamp() + least(interval '10 min', interval '1 s' * 2 ^ least(s.attempts, 10));
    RAISE WARNING 'flow % is set aside: %', flow, said USING ERRCODE = code,
        DETAIL = format('Raised by the duty %s.', duty);
END
$function$;
COMMENT ON FUNCTION pawl_saga._set_aside(uuid, text, text, text) IS 'internal: records that a duty raised in a flow';

-- What a lost worker left, and what was decided to be reverted since: its outcome is unknown, so it has failed.
-- SECURITY DEFINER: it may set flows aside.
CREATE FUNCTION pawl_saga._record_orphans(processor text, queue text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET pawl.event = 'settle'
SET pawl.token = ''
AS $function$
DECLARE
    locked uuid;
    said text;
    code text;
BEGIN
    FOR locked IN
        SELECT x.flow_uuid FROM pawl_saga.flows x
         WHERE x.flow_uuid IN (SELECT t.flow_uuid FROM pawl_saga.tasks t
                                WHERE t.queue = _record_orphans.queue AND t.worker IS NULL AND t.state = 'RUNNING'
                                    AND t.intention = 'REVERT')
           AND NOT EXISTS (SELECT FROM pawl_saga.set_aside s
               WHERE s.flow_uuid = x.flow_uuid AND s.due_at > clock_timestamp())
         ORDER BY x.flow_uuid FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        BEGIN
            UPDATE pawl_saga.tasks t SET state = 'FAILURE', worker = processor
             WHERE t.flow_uuid = locked AND t.queue = _record_orphans.queue AND t.worker IS NULL AND t.state = 'RUNNING'
                 AND t.intention = 'REVERT';
            DELETE FROM pawl_saga.set_aside s WHERE s.flow_uuid = locked;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl.is_transient(SQLSTATE) AND SQLSTATE NOT LIKE '40%' THEN
                RAISE;
            END IF;
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            PERFORM pawl_saga._set_aside(locked, 'claim', code, said);
        END;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._record_orphans(text, text) IS
'internal: tasks without a worker that are to be reverted have failed';

-- What a worker is told of tasks that it has taken.
CREATE FUNCTION pawl_saga._as_claimed(tasks pawl_saga.tasks[])
RETURNS TABLE (flow_uuid uuid, node integer, name text, action text, handler text, fence bigint, arguments jsonb,
    result jsonb, failure jsonb, failures jsonb, traceparent text, tracestate text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT t.flow_uuid, t.node, t.name, CASE t.state WHEN 'RUNNING' THEN 'execute' ELSE 'revert' END,
        CASE t.state WHEN 'RUNNING' THEN t.execute ELSE coalesce(t.revert, t.execute) END,
           t.fence, CASE WHEN EXISTS (SELECT FROM pawl_saga.parameters p
               JOIN pawl_saga.flows f ON f.definition_uuid = p.definition_uuid
                                       WHERE f.flow_uuid = t.flow_uuid AND p.node = t.node)
                         THEN pawl_saga.arguments(t.flow_uuid, t.node) ELSE '{}' END,
           t.result, t.failure, CASE WHEN t.state = 'REVERTING' THEN pawl_saga.failures(t.flow_uuid) END, t.traceparent,
           t.tracestate
      FROM unnest(tasks) WITH ORDINALITY t ORDER BY t.ordinality;
END
$function$;
COMMENT ON FUNCTION pawl_saga._as_claimed(pawl_saga.tasks[]) IS 'internal: what pawl_saga.claim says of tasks';

CREATE FUNCTION pawl_saga.claim(processor text, queue text DEFAULT 'default', batch integer DEFAULT 1,
    lease interval DEFAULT NULL)
RETURNS TABLE (flow_uuid uuid, node integer, name text, action text, handler text, fence bigint, arguments jsonb,
    result jsonb, failure jsonb, failures jsonb, traceparent text, tracestate text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_column
DECLARE
    lost pawl_saga.tasks[] := '{}';
    reverts pawl_saga.tasks[] := '{}';
    executes pawl_saga.tasks[];
BEGIN
    PERFORM pawl.check_batch(batch, 10000), pawl.check_lease(lease);
    IF processor IS NULL OR processor = '' THEN
        PERFORM pawl.raise('PW004', 'no processor given', NULL, 'processor => ''...''');
    ELSIF queue = 'sql:' AND NOT pawl_saga._runs_sql() THEN
        PERFORM pawl.raise('42501', 'permission denied to claim from the queue "sql:"',
            'Its tasks are SQL functions; only roles that may run these claim them.',
            'select * from pawl_saga.run_sql_tasks()');
    END IF;
    PERFORM set_config('pawl.processor', processor, true);
    IF EXISTS (SELECT FROM pawl_saga.tasks t
            WHERE t.queue = claim.queue AND t.worker IS NULL AND t.state = 'RUNNING' AND t.intention = 'REVERT') THEN
        PERFORM pawl_saga._record_orphans(processor, queue);
    END IF;
    -- what a lost worker left: the state stays, so no event fires
    IF EXISTS (SELECT FROM pawl_saga.tasks x
            WHERE x.worker IS NULL AND (x.state = 'RUNNING' OR x.state = 'REVERTING') AND x.queue = claim.queue) THEN
        WITH taken AS (
            UPDATE pawl_saga.tasks t SET worker = processor, lease_until = clock_timestamp() + coalesce(lease, '60 s')
              FROM (SELECT x.flow_uuid, x.node FROM pawl_saga.tasks x
                     WHERE x.worker IS NULL AND (x.state = 'RUNNING' OR x.state = 'REVERTING')
                       AND x.queue = claim.queue AND (x.state = 'REVERTING' OR x.intention = 'EXECUTE')
                     ORDER BY x.flow_uuid LIMIT batch FOR NO KEY UPDATE SKIP LOCKED) l
             WHERE t.flow_uuid = l.flow_uuid AND t.node = l.node AND t.worker IS NULL RETURNING t.*)
        SELECT coalesce(array_agg(k::pawl_saga.tasks), '{}') INTO lost FROM taken k;
    END IF;
    IF cardinality(lost) < batch THEN
        -- looked up first: among very many that are to be executed a claim would look for them one by one
        IF EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.queue = claim.queue AND t.due_at IS NULL
                AND t.state = ANY ('{SUCCESS,FAILURE,REVERT_FAILURE}'::text[])) THEN
            SELECT coalesce(array_agg(c), '{}') INTO reverts
                FROM pawl.claim(NULL::pawl_saga.tasks, 'revert', processor, lease, batch - cardinality(lost), queue) c;
        END IF;
        IF cardinality(lost) + cardinality(reverts) < batch THEN
            SELECT coalesce(array_agg(c), '{}') INTO executes
              FROM pawl.claim(NULL::pawl_saga.tasks, 'execute', processor, lease,
                  batch - cardinality(lost) - cardinality(reverts), queue) c;
        END IF;
    END IF;
    RETURN QUERY SELECT c.* FROM pawl_saga._as_claimed(lost || reverts || executes) c;
END
$function$;
COMMENT ON FUNCTION pawl_saga.claim(text, text, integer, interval) IS
'Claims tasks for a worker: first those of lost workers, then those to revert, then those to execute.
pawl.heartbeat(''pawl_saga.tasks'', processor) extends the leases.
processor: the worker. queue: default "default". batch: 1 to 10000; default 1. lease: default 60 s.
Returns flow_uuid, node, name, action (execute or revert), handler, fence (the fencing token), arguments (by
parameter), and for a revert result and failure (of the task) and failures (of the flow, by atom); traceparent and
tracestate (of the trace in which the flow started).
Errors: PW004 no processor given; 22023 batch or lease out of range; 42501 tasks of SQL functions, which only
pawl_saga.run_sql_tasks and work_sql_tasks run. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT flow_uuid, node, action, handler, arguments FROM pawl_saga.claim(''worker 1'', batch => 10)';

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
    part jsonb;
    seen record;
BEGIN
    -- flows first, then tasks: all functions that decide lock in this order
    PERFORM FROM pawl_saga.flows f
        WHERE f.flow_uuid IN (SELECT (e ->> 'flow_uuid')::uuid FROM jsonb_array_elements(results) e)
        ORDER BY f.flow_uuid FOR NO KEY UPDATE;
    -- of several elements for one task each is checked after the one before it
    FOR part IN
        SELECT jsonb_agg(d.said ORDER BY d.n)
          FROM (SELECT e.said, e.n,
              row_number() OVER (PARTITION BY (e.said ->> 'flow_uuid')::uuid,
                  (e.said ->> 'node')::integer ORDER BY e.n) AS turn
                  FROM jsonb_array_elements(results) WITH ORDINALITY e(said, n)) d
         GROUP BY d.turn ORDER BY d.turn
    LOOP
        FOR seen IN
            SELECT array_agg(v.flow) AS flows, array_agg(v.node) AS nodes, array_agg(v.said) AS said, v.target,
            v.verdict
              FROM (SELECT r.flow, r.node, r.said, r.n,
                           CASE WHEN NOT r.said ? 'failure'
                               THEN CASE t.state WHEN 'RUNNING' THEN 'SUCCESS' ELSE 'REVERTED' END
                                ELSE CASE t.state WHEN 'RUNNING' THEN 'FAILURE' ELSE 'REVERT_FAILURE' END END AS target,
                           CASE WHEN t.node IS NULL THEN 'P0002 there is no such task'
                                WHEN t.fence IS DISTINCT FROM (r.said ->> 'fence')::bigint
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
DECLARE
    answers record;
BEGIN
    FOR look IN 1..3 LOOP
        BEGIN
            SELECT array_agg(r.flow_uuid) AS flows, array_agg(r.node) AS nodes, array_agg(r.ok) AS oks,
                array_agg(r.state) AS states, array_agg(r.problem) AS problems
              INTO answers FROM pawl_saga._report(results, worker) r;
            EXIT;
        EXCEPTION WHEN SQLSTATE 'PW005' THEN
            IF look = 3 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
    RETURN QUERY SELECT a.* FROM unnest(answers.flows, answers.nodes, answers.oks, answers.states, answers.problems) a;
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
            '[{"flow_uuid": "...", "node": 1, "fence": 1, "result": {...}}, {"flow_uuid": "...", "node": 2, "fence": '
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
                             OR x.said ->> 'node' !~ '^[0-9]{1,9}$' OR x.said ->> 'fence' !~ '^[0-9]{1,18}$'
                        THEN '22023 flow_uuid, node or fence is missing or malformed'
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
results: [{"flow_uuid", "node", "fence": as claimed, "result": a JSON value} or {..., "failure": {"message", "type",
"sqlstate"}}]; a revert needs neither. processor: default pawl.processor.
Returns flow_uuid, node, ok, state (of the task) and problem, which begins with a SQLSTATE: PW004 not the owner;
PW005 lost, or another result was recorded; P0002 no such task; 22023 an invalid element; or what the flow raises.
Errors: 22023 results is not an array; PW004 no processor given. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM
pawl_saga.report(''[{"flow_uuid": "01890000-0000-7000-8000-000000000001", "node": 1, "fence": 1, "result": 7}]'',
''worker 1'')';

-- The handler is sql:<schema>.<function>: executes by f(arguments jsonb) returns jsonb, reverts by f(arguments jsonb,
-- done jsonb) returns jsonb. It is one that the flow's definition names for the task: admins may write the row.
CREATE FUNCTION pawl_saga._call(flow uuid, node integer, handler text, arguments jsonb, done jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    types constant text := CASE WHEN done IS NULL THEN 'jsonb' ELSE 'jsonb,jsonb' END;
    called text;
    definer name;
BEGIN
    SELECT d.created_by INTO definer
      FROM pawl_saga.flows f JOIN pawl_saga.definitions d ON d.definition_uuid = f.definition_uuid
      JOIN pawl_saga.nodes n ON n.definition_uuid = d.definition_uuid AND n.node = _call.node
     WHERE f.flow_uuid = _call.flow
       AND CASE WHEN done IS NULL THEN coalesce(n.written ->> 'execute', n.name) ELSE n.written ->> 'revert' END
           = _call.handler;
    IF NOT FOUND THEN
        PERFORM pawl.raise('42501', format('the definition of flow %s does not name the handler %s', flow, handler),
            NULL, 'name it in a definition: select pawl_saga.define(...)');
    END IF;
    called := pawl_saga._function(substr(handler, 5), types);
    IF done IS NULL THEN
        RETURN pawl.call_as_definer(definer, format('%s(%s)', called, types)::regprocedure,
            format('SELECT to_jsonb(%s($1))', called), NULL::jsonb, arguments);
    END IF;
    RETURN pawl.call_as_definer(definer, format('%s(%s)', called, types)::regprocedure,
        format('SELECT to_jsonb(%s($1, $2))', called), NULL::jsonb, arguments, done);
END
$function$;
COMMENT ON FUNCTION pawl_saga._call(uuid, integer, text, jsonb, jsonb) IS
'internal: calls the function that a handler names, as pawl.call_as_definer does; 42883: there is none';

-- Runs the function of a claimed task (a row of pawl_saga.claim) and says what is to be reported.
CREATE FUNCTION pawl_saga._run_task(work jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    calling_span constant text := coalesce(current_setting('pawl.traceparent', true), '');
    calling_state constant text := coalesce(current_setting('pawl.tracestate', true), '');
    traced constant boolean := work ->> 'traceparent' IS NOT NULL OR calling_span <> '';
    answer jsonb :=
        jsonb_build_object('flow_uuid', work -> 'flow_uuid', 'node', work -> 'node', 'fence', work -> 'fence');
    problem jsonb;
    said text;
    detail text;
    code text;
BEGIN
    IF traced THEN
        PERFORM pawl.enter_span(work ->> 'traceparent', work ->> 'tracestate');
    END IF;
    -- A conflict is worth repeating at once; one that always comes back is the task's own. In a transaction with one
    -- snapshot it may be the transaction's, which only its caller can repeat.
    FOR try IN 1..6 LOOP
        problem := '{}';
        BEGIN
            IF work ->> 'action' = 'execute' THEN
                answer := answer
                    || jsonb_build_object('result',
                        pawl_saga._call((work ->> 'flow_uuid')::uuid, (work ->> 'node')::integer,
                        work ->> 'handler', work -> 'arguments', NULL));
            ELSIF EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.flow_uuid = (work ->> 'flow_uuid')::uuid
                    AND t.node = (work ->> 'node')::integer AND t.revert IS NULL) THEN
                NULL;  -- nothing to undo
            ELSE
                answer := answer
                    || jsonb_build_object('result',
                        pawl_saga._call((work ->> 'flow_uuid')::uuid, (work ->> 'node')::integer,
                        work ->> 'handler', work -> 'arguments',
                    jsonb_build_object('result', work -> 'result', 'failure', work -> 'failure', 'failures',
                        work -> 'failures')));
            END IF;
            EXIT;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            -- what the server asks of everybody is not the task's failure
            IF pawl.is_transient(SQLSTATE) AND SQLSTATE NOT LIKE '40%' OR pawl.is_transient(SQLSTATE)
                AND current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE;
            END IF;
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
            problem := jsonb_build_object('failure',
                jsonb_strip_nulls(jsonb_build_object('message', said, 'detail', nullif(detail, ''), 'sqlstate', code)));
        END;
        EXIT WHEN NOT pawl.is_transient(code);
    END LOOP;
    answer := answer || problem;
    IF traced THEN
        PERFORM set_config('pawl.traceparent', calling_span, true), set_config('pawl.tracestate', calling_state, true);
    END IF;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl_saga._run_task(jsonb) IS
'internal: runs the SQL function of a claimed task; returns what pawl_saga.report takes';

-- Tasks that are SQL functions, of flows that no other transaction has locked. Report locks the flow of a task, and so
-- does every session that decides something in it before it writes a task: the flow comes first here too.
CREATE FUNCTION pawl_saga._claim_sql_tasks(worker text, batch integer) RETURNS jsonb[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    flows uuid[];
    nodes integer[];
    taken pawl_saga.tasks[];
    event text;
    passed integer;
BEGIN
    PERFORM set_config('pawl.processor', worker, true);
    IF EXISTS (SELECT FROM pawl_saga.tasks t
            WHERE t.queue = 'sql:' AND t.worker IS NULL AND t.state = 'RUNNING' AND t.intention = 'REVERT') THEN
        PERFORM pawl_saga._record_orphans(worker, 'sql:');
    END IF;
    SELECT array_agg(l.flow_uuid), array_agg(l.node) INTO flows, nodes
      FROM (SELECT f.flow_uuid, t.node FROM pawl_saga.tasks t JOIN pawl_saga.flows f ON f.flow_uuid = t.flow_uuid
             WHERE t.queue = 'sql:' AND t.worker IS NULL
                 AND (t.state = 'RUNNING' AND t.intention = 'EXECUTE' OR t.state = 'REVERTING')
             ORDER BY t.flow_uuid LIMIT batch FOR NO KEY UPDATE OF f SKIP LOCKED) l;
    WITH found AS (
        UPDATE pawl_saga.tasks t
        SET worker = _claim_sql_tasks.worker, lease_until = clock_timestamp() + interval '1 day'
          FROM (SELECT x.flow_uuid, x.node FROM unnest(flows, nodes) k(flow, node)
                  JOIN pawl_saga.tasks x ON x.flow_uuid = k.flow AND x.node = k.node
                 WHERE x.worker IS NULL AND (x.state = 'RUNNING' AND x.intention = 'EXECUTE' OR x.state = 'REVERTING')
                   FOR NO KEY UPDATE OF x SKIP LOCKED) l
         WHERE t.flow_uuid = l.flow_uuid AND t.node = l.node AND t.worker IS NULL RETURNING t.*)
    SELECT array_agg(k::pawl_saga.tasks) INTO taken FROM found k;
    IF taken IS NOT NULL THEN
        RETURN ARRAY(SELECT to_jsonb(c) FROM pawl_saga._as_claimed(taken) c);
    END IF;
    -- what is to be reverted before what is to be executed; past what cannot be taken
    FOREACH event IN ARRAY '{revert,execute}'::text[] LOOP
        passed := 0;
        WHILE passed < 10000 LOOP
            IF event = 'revert' THEN
                SELECT array_agg(l.flow_uuid), array_agg(l.node) INTO flows, nodes
                  FROM (SELECT f.flow_uuid, t.node FROM pawl_saga.tasks t
                      JOIN pawl_saga.flows f ON f.flow_uuid = t.flow_uuid
                         WHERE t.queue = 'sql:' AND t.due_at IS NULL
                             AND t.state = ANY ('{SUCCESS,FAILURE,REVERT_FAILURE}'::text[])
                         ORDER BY t.flow_uuid LIMIT batch OFFSET passed FOR NO KEY UPDATE OF f SKIP LOCKED) l;
            ELSE
                SELECT array_agg(l.flow_uuid), array_agg(l.node) INTO flows, nodes
                  FROM (SELECT f.flow_uuid, t.node FROM pawl_saga.tasks t
                      JOIN pawl_saga.flows f ON f.flow_uuid = t.flow_uuid
                         WHERE t.queue = 'sql:' AND t.due_at IS NULL AND t.state = 'PENDING'
                         ORDER BY t.priority DESC, t.flow_uuid LIMIT batch OFFSET passed
                      FOR NO KEY UPDATE OF f SKIP LOCKED) l;
            END IF;
            EXIT WHEN flows IS NULL;
            SELECT array_agg(c ORDER BY c.priority DESC, c.flow_uuid, c.node) INTO taken
              FROM pawl.claim_keys(NULL::pawl_saga.tasks,
                  (SELECT array_agg(ROW(k.flow, k.node)) FROM unnest(flows, nodes) k(flow, node)),
                                   event, worker, '1 day', 'sql:') c;
            IF taken IS NOT NULL THEN
                RETURN ARRAY(SELECT to_jsonb(c) FROM pawl_saga._as_claimed(taken) c);
            END IF;
            passed := passed + cardinality(flows);
        END LOOP;
    END LOOP;
    RETURN '{}';
END
$function$;
COMMENT ON FUNCTION pawl_saga._claim_sql_tasks(text, integer) IS
'internal: claims tasks that are SQL functions, and locks their flows first';

-- Looked at and not believed: the task is the worker's. SECURITY DEFINER: it may set flows aside.
CREATE FUNCTION pawl_saga._task_raised(flow uuid, node integer, fence bigint, duty text, code text, said text)
    RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    held pawl_saga.tasks;
BEGIN
    SELECT t.* INTO held FROM pawl_saga.tasks t
     WHERE t.flow_uuid = flow AND t.node = _task_raised.node AND t.fence = _task_raised.fence
         AND t.worker = current_setting('pawl.processor', true)
       AND (t.state = 'RUNNING' OR t.state = 'REVERTING') FOR NO KEY UPDATE;
    IF FOUND THEN
        PERFORM pawl_saga._set_aside(flow, duty, code, said);
        UPDATE pawl_saga.tasks t SET lease_until = (SELECT s.due_at FROM pawl_saga.set_aside s WHERE s.flow_uuid = flow)
         WHERE t.flow_uuid = flow AND t.node = held.node;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._task_raised(uuid, integer, bigint, text, text, text) IS
'internal: a report of a task raised an error: its flow is set aside, and its lease ends when it is retried';

-- SECURITY DEFINER: workers may not write what is set aside.
CREATE FUNCTION pawl_saga._task_done(flow uuid) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$ DELETE FROM pawl_saga.set_aside s
    WHERE s.flow_uuid = flow AND s.duty IN ('work_sql_tasks', 'run_sql_tasks') $function$;
COMMENT ON FUNCTION pawl_saga._task_done(uuid) IS 'internal: a task that is a SQL function was reported in this flow';

-- What a task did stands only together with its report: where a flow's follow-ups raise, both are undone. First all at
-- once, then each alone, so that the others stand; the one that goes on raising is left to its lease.
CREATE FUNCTION pawl_saga._run_claimed(works jsonb[], worker text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    work jsonb;
    reports jsonb[] := '{}';
    problem text;
BEGIN
    FOREACH work IN ARRAY works LOOP
        reports := reports || pawl_saga._run_task(work);
    END LOOP;
    SELECT r.problem INTO problem FROM pawl_saga.report(to_jsonb(reports), worker) r WHERE NOT r.ok LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('40000', problem);
    END IF;
    PERFORM pawl_saga._task_done(s.flow_uuid) FROM pawl_saga.set_aside s
     WHERE s.flow_uuid IN (SELECT (w ->> 'flow_uuid')::uuid FROM unnest(works) w);
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl.is_transient(SQLSTATE) AND SQLSTATE NOT LIKE '40%' OR pawl.is_transient(SQLSTATE)
        AND current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE;
    END IF;
    IF cardinality(works) > 1 THEN
        FOREACH work IN ARRAY works LOOP
            PERFORM pawl_saga._run_claimed(ARRAY[work], worker);
        END LOOP;
        RETURN;
    END IF;
    PERFORM set_config('pawl.processor', worker, true);
    PERFORM pawl_saga._task_raised((works[1] ->> 'flow_uuid')::uuid, (works[1] ->> 'node')::integer,
        (works[1] ->> 'fence')::bigint, 'run_sql_tasks', SQLSTATE, SQLERRM);
END
$function$;
COMMENT ON FUNCTION pawl_saga._run_claimed(jsonb[], text) IS
'internal: runs claimed tasks that are SQL functions, and reports; what cannot be reported is undone';

-- In the transaction of its caller: what ends that ends the attempt, and leaves no trace of it.
CREATE FUNCTION pawl_saga._ask_next() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    question pawl_saga.questions := pawl_saga._take_question(NULL);
BEGIN
    IF question.flow_uuid IS NULL THEN
        RETURN false;
    END IF;
    BEGIN
        PERFORM pawl_saga._ask_question(question);
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl.is_transient(SQLSTATE) AND SQLSTATE NOT LIKE '40%'
           OR pawl.is_transient(SQLSTATE) AND current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE;
        END IF;
        PERFORM pawl_saga._question_raised(question, 'run_sql_tasks', SQLSTATE, SQLERRM, false);
    END;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_saga._ask_next() IS
'internal: asks the next question to a user''s function; false: there is none';

CREATE FUNCTION pawl_saga.run_sql_tasks(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    worker constant text := pawl.uuid_v7()::text;
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    works jsonb[];
    asked boolean;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    WHILE done < batch LOOP
        -- no other session can claim a row that this transaction has written, so the lease is a formality
        works := pawl_saga._claim_sql_tasks(worker, (batch - done)::integer);
        IF works <> '{}' THEN
            PERFORM pawl_saga._run_claimed(works, worker);
        END IF;
        done := done + cardinality(works);
        asked := done < batch AND pawl_saga._ask_next();
        done := done + asked::integer;
        EXIT WHEN works = '{}' AND NOT asked;
    END LOOP;
    PERFORM set_config('pawl.processor', caller, true);
END
$function$;
COMMENT ON FUNCTION pawl_saga.run_sql_tasks(integer) IS
'Runs tasks whose handlers are sql:<schema>.<function>, and asks open pawl_saga.questions, in the transaction of
the caller and with the rights that pawl.call_as_definer gives to functions of the role that defined the flow; '
'pawl_saga.work_sql_tasks is the duty. execute: f(arguments jsonb) returns jsonb;
revert: f(arguments jsonb, done jsonb) returns jsonb, with done {"result", "failure", "failures": by atom}. A
function that raises an error is rolled back alone and its task fails; so does one with six conflicts (SQLSTATE
40...) in a READ COMMITTED transaction. pawl.traceparent is a span of the flow''s trace.
batch: how many tasks at most, 1 to 10000; default 100. Returns done (how many ran) and next_at (when to call it
again).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator.
Example: SELECT * FROM pawl_saga.run_sql_tasks()';

-- The next task; its lease is that of any worker, so it is missed if the session ends.
CREATE FUNCTION pawl_saga._take_sql_task(worker text, lease interval) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$ SELECT to_jsonb(c) FROM pawl_saga.claim(worker, 'sql:', 1, lease) c $function$;
COMMENT ON FUNCTION pawl_saga._take_sql_task(text, interval) IS
'internal: claims the next task that is a SQL function; null: there is none';

CREATE FUNCTION pawl_saga._run_taken_task(work jsonb, worker text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
AS $function$
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
BEGIN
    -- for as long as this transaction lives the row is locked and the lease long;
    -- whatever ends it brings the short one back
    PERFORM set_config('pawl.processor', worker, true);
    UPDATE pawl_saga.tasks t SET lease_until = clock_timestamp() + interval '1 day'
     WHERE t.flow_uuid = (work ->> 'flow_uuid')::uuid AND t.node = (work ->> 'node')::integer
         AND t.fence = (work ->> 'fence')::bigint
       AND t.state = CASE work ->> 'action' WHEN 'execute' THEN 'RUNNING' ELSE 'REVERTING' END
       AND t.lease_until > clock_timestamp();
    IF FOUND THEN
        PERFORM set_config('pawl.processor', caller, true);
        PERFORM FROM pawl_saga.report(jsonb_build_array(pawl_saga._run_task(work)), worker);
        IF EXISTS (SELECT FROM pawl_saga.set_aside s WHERE s.flow_uuid = (work ->> 'flow_uuid')::uuid) THEN
            PERFORM pawl_saga._task_done((work ->> 'flow_uuid')::uuid);
        END IF;
        RETURN true;
    END IF;
    PERFORM set_config('pawl.processor', caller, true);
    RETURN false;
END
$function$;
COMMENT ON FUNCTION pawl_saga._run_taken_task(jsonb, text) IS
'internal: runs a task that the worker claimed in an earlier transaction, and reports; false: it has lost it';

-- It commits, so it can set nothing for its whole run: each transaction begins with the path.
CREATE PROCEDURE pawl_saga.work_sql_tasks(batch integer DEFAULT 100, lease interval DEFAULT NULL,
    INOUT done integer DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER
AS $function$
DECLARE
    worker text;
    -- one that waits for its turn behind a long one is not taken yet; a statement_timeout is meant for one task
    until timestamptz;
    work jsonb;
    question pawl_saga.questions;
    ran boolean;
    lost boolean;
    asks boolean;
    failures integer := 0;
    said text;
    code text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    PERFORM pawl.check_batch(batch, 10000), pawl.check_lease(lease);
    done := 0;
    worker := pawl.uuid_v7()::text;
    until := clock_timestamp() + interval '100 ms';
    work := pawl_saga._take_sql_task(worker, lease);
    IF work IS NULL THEN
        question := pawl_saga._take_question(lease);
    END IF;
    COMMIT;
    WHILE work IS NOT NULL OR question.flow_uuid IS NOT NULL LOOP
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        BEGIN
            IF work IS NOT NULL THEN
                ran := pawl_saga._run_taken_task(work, worker);
            ELSE
                ran := pawl_saga._ask_question(question);
            END IF;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            -- no failure of the task's: it is tried again at once
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            lost := pawl.is_transient(SQLSTATE) AND SQLSTATE NOT LIKE '40%';
            failures := failures + 1;
            ran := NULL;
        END;
        IF ran IS NULL THEN
            ROLLBACK;
            CONTINUE WHEN failures <= 5 AND pawl.is_transient(code);
            -- what follows from its report always raises: its flow is set aside, and the others have their turn
            PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
                pg_catalog.set_config('pawl.processor', worker, true);
            IF work IS NOT NULL THEN
                PERFORM pawl_saga._task_raised((work ->> 'flow_uuid')::uuid, (work ->> 'node')::integer,
                    (work ->> 'fence')::bigint, 'work_sql_tasks', code, said);
            ELSE
                PERFORM pawl_saga._question_raised(question, 'work_sql_tasks', code, said, lost);
            END IF;
            COMMIT;
            PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            ran := false;
        END IF;
        done := done + ran::integer;
        failures := 0;
        -- in turn: whichever kind ends its sessions, the other goes on
        asks := work IS NOT NULL;
        work := NULL;
        question := NULL;
        IF done < batch AND clock_timestamp() < until THEN
            IF asks THEN
                question := pawl_saga._take_question(lease);
            END IF;
            IF question.flow_uuid IS NULL THEN
                work := pawl_saga._take_sql_task(worker, lease);
            END IF;
            IF work IS NULL AND NOT asks THEN
                question := pawl_saga._take_question(lease);
            END IF;
        END IF;
        COMMIT;
    END LOOP;
END
$function$;
COMMENT ON PROCEDURE pawl_saga.work_sql_tasks(integer, interval, integer) IS
'Procedure, a duty: runs the tasks that pawl_saga.run_sql_tasks runs, each in a transaction of its own, as many as
start within 100 ms. Each is claimed in an earlier transaction, so a function that exceeds statement_timeout or
ends its session counts as a lost worker (see max_losses). If what follows from a report raises an error, the task
is undone and its flow is set aside (pawl_saga.set_aside). Questions in pawl_saga.questions are asked in the same
way; a flow whose functions cost more than five sessions or transactions ends in FAILURE.
batch: 1 to 10000; default 100. lease: default 60 s. Returns done: how many ran or were asked.
Errors: 2D000 inside a transaction; 22023 batch or lease out of range. Privileges: pawl_admin, pawl_operator.
Example: CALL pawl_saga.work_sql_tasks(10)';
