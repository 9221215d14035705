-- Tasks that are SQL functions: a duty runs them.

-- Runs the function of a claimed task (a row of pawl_saga.claim) and says what is to be reported. The handler is
-- sql:<schema>.<function>: executes by f(arguments jsonb) returns jsonb, reverts by f(arguments jsonb, done jsonb)
-- returns jsonb. It is one that the flow's definition names for the task: admins may write the row.
CREATE FUNCTION pawl_saga._run_task(work jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.traceparent = ''
SET pawl.tracestate = ''
AS $function$
DECLARE
    task constant jsonb :=
        jsonb_build_object('flow_uuid', work -> 'flow_uuid', 'node', work -> 'node', 'token', work -> 'token');
    flow constant uuid := (work ->> 'flow_uuid')::uuid;
    atom constant integer := (work ->> 'node')::integer;
    handler constant text := work ->> 'handler';
    executes constant boolean := work ->> 'action' = 'execute';
    definer name;
    answer record;
BEGIN
    IF work ->> 'traceparent' IS NOT NULL THEN
        PERFORM pawl.enter_span(work ->> 'traceparent', work ->> 'tracestate');
    END IF;
    IF NOT executes
        AND EXISTS (SELECT FROM pawl_saga.tasks t
            WHERE t.flow_uuid = flow AND t.node = atom AND t.revert IS NULL) THEN
        RETURN task;  -- nothing to undo
    END IF;
    SELECT d.created_by INTO definer
      FROM pawl_saga.flows f JOIN pawl_saga.definitions d ON d.definition_uuid = f.definition_uuid
      JOIN pawl_saga.nodes n ON n.definition_uuid = d.definition_uuid AND n.node = atom
     WHERE f.flow_uuid = flow
       AND CASE WHEN executes THEN coalesce(n.written ->> 'execute', n.name) ELSE n.written ->> 'revert' END = handler;
    IF NOT FOUND THEN
        RETURN task || jsonb_build_object('failure', jsonb_build_object('sqlstate', '42501', 'message',
            format('the definition of flow %s does not name the handler %s', flow, handler)));
    ELSIF executes THEN
        answer := pawl.try_function(definer, substr(handler, 5), work -> 'arguments');
    ELSE
        answer := pawl.try_function(definer, substr(handler, 5), work -> 'arguments',
            jsonb_build_object('result', work -> 'result', 'failure', work -> 'failure', 'failures',
                work -> 'failures'));
    END IF;
    RETURN task || CASE WHEN answer.problem IS NULL THEN jsonb_build_object('result', answer.result)
                        ELSE jsonb_build_object('failure', answer.problem) END;
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
SET plan_cache_mode = force_generic_plan
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
    IF pawl_saga._is_paused('pawl_saga.tasks', 'sql:') THEN
        RETURN NULL;
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
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_saga._claim_sql_tasks(text, integer) IS
'internal: claims tasks that are SQL functions, and locks their flows first; null: there is none; none of them: all '
'that were claimed have failed, because their input could not be formed';

-- Checks the task itself, which must be the worker's. SECURITY DEFINER: it may set flows aside.
CREATE FUNCTION pawl_saga._task_raised(flow uuid, node integer, token bigint, duty text, code text, said text)
    RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    held pawl_saga.tasks;
BEGIN
    SELECT t.* INTO held FROM pawl_saga.tasks t
     WHERE t.flow_uuid = flow AND t.node = _task_raised.node AND t.token = _task_raised.token
         AND t.worker = current_setting('pawl.processor', true)
       AND (t.state = 'RUNNING' OR t.state = 'REVERTING') FOR NO KEY UPDATE;
    -- a lease that has ended meanwhile is a loss, and no error of the flow
    IF FOUND AND NOT (code = 'PW005' AND held.lease_until <= clock_timestamp()) THEN
        PERFORM pawl_saga._set_aside(flow, duty, code, said);
        BEGIN
            UPDATE pawl_saga.tasks t
               SET lease_until = (SELECT s.due_at FROM pawl_saga.set_aside s WHERE s.flow_uuid = flow)
             WHERE t.flow_uuid = flow AND t.node = held.node;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl.must_reraise(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'the lease of task % of flow % stays as it is: %', held.name, flow, SQLERRM;
        END;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._task_raised(uuid, integer, bigint, text, text, text) IS
'internal: a report of a task raised an error: its flow is set aside, and its lease ends when it is retried';

-- SECURITY DEFINER: workers may not write what is set aside.
CREATE FUNCTION pawl_saga._tasks_done(works jsonb[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF EXISTS (SELECT FROM pawl_saga.set_aside) THEN
        DELETE FROM pawl_saga.set_aside s
         WHERE s.flow_uuid IN (SELECT (w ->> 'flow_uuid')::uuid FROM unnest(works) w)
           AND s.duty IN ('work_sql_tasks', 'run_sql_tasks');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._tasks_done(jsonb[]) IS
'internal: claimed tasks that are SQL functions were reported: their flows are no longer set aside';

-- What a task did is kept only together with its report: if a flow's follow-ups raise an error, both are undone. First
-- all tasks at once, then each alone, so that the others are kept; the one that still raises an error is left to its
-- lease.
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
        PERFORM pawl.raise(left(problem, 5), substr(problem, 7));
    END IF;
    PERFORM pawl_saga._tasks_done(works);
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl.must_reraise(SQLSTATE) THEN
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
        (works[1] ->> 'token')::bigint, 'run_sql_tasks', SQLSTATE, SQLERRM);
END
$function$;
COMMENT ON FUNCTION pawl_saga._run_claimed(jsonb[], text) IS
'internal: runs claimed tasks that are SQL functions, and reports; what cannot be reported is undone';

-- Runs in the transaction of its caller; an error that ends it also undoes the attempt.
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
        IF pawl.must_reraise(SQLSTATE) THEN
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
        BEGIN
            works := pawl_saga._claim_sql_tasks(worker, (batch - done)::integer);
        EXCEPTION WHEN program_limit_exceeded THEN
            works := pawl_saga._claim_sql_tasks(worker, 1);  -- together they are too large
        END;
        IF works <> '{}' THEN
            PERFORM pawl_saga._run_claimed(works, worker);
        END IF;
        -- at least one, so that it ends
        done := done + CASE WHEN works IS NULL THEN 0 ELSE greatest(cardinality(works), 1) END;
        asked := done < batch AND pawl_saga._ask_next();
        done := done + asked::integer;
        EXIT WHEN works IS NULL AND NOT asked;
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
