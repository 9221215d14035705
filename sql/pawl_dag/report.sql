-- Reports of workers; with pawl.claim all that a worker needs.

CREATE VIEW pawl_dag._inputs WITH (security_invoker = true) AS
SELECT s.task_uuid, s.step_uuid, t.context, coalesce(p.parents, '{}') AS parents, t.correlation_id, t.traceparent,
t.tracestate
  FROM pawl_dag.steps s
  JOIN pawl_dag.tasks t ON t.task_uuid = s.task_uuid
 CROSS JOIN LATERAL (
      SELECT pg_catalog.jsonb_object_agg(g.name, pg_catalog.jsonb_build_object('state', g.state, 'result', g.result))
      AS parents
        FROM (SELECT coalesce(p.map_of, p.name) AS name, max(p.state) AS state,
                     CASE WHEN p.map_of IS NULL
                         THEN (pg_catalog.array_agg(p.result))[1]
                             ELSE pg_catalog.jsonb_agg(p.result ORDER BY p.map_index) END AS result
                FROM pawl_dag.edges e JOIN pawl_dag.steps p ON p.task_uuid = e.task_uuid AND p.step_uuid = e.parent_uuid
               WHERE e.task_uuid = s.task_uuid AND e.child_uuid = s.step_uuid
               GROUP BY coalesce(p.map_of, p.name), p.map_of) g) p;
COMMENT ON VIEW pawl_dag._inputs IS 'internal: what steps work on; to be asked by the whole key';

CREATE FUNCTION pawl_dag.step_inputs(tasks uuid[], steps uuid[])
RETURNS TABLE (task_uuid uuid, step_uuid uuid, context jsonb, parents jsonb, correlation_id uuid, traceparent text,
    tracestate text)
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
    RETURN QUERY SELECT i.* FROM unnest(tasks, steps) x(task, step)
        JOIN pawl_dag._inputs i ON i.task_uuid = x.task AND i.step_uuid = x.step;
END
$function$;
COMMENT ON FUNCTION pawl_dag.step_inputs(uuid[], uuid[]) IS
'Returns the input of steps. tasks, steps: ids of the same length; the i-th step belongs to the i-th task.
Returns task_uuid, step_uuid, context (of the task), parents (for each parent by name {"state", "result"}; a
resolved parent has no result; of a mapped parent the result is an array in order, and its state is complete when
all are), correlation_id, traceparent and tracestate (of the trace in which the task started, null: none).
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT i.* FROM pawl_dag.steps s CROSS JOIN LATERAL pawl_dag.step_inputs(array[s.task_uuid],
array[s.step_uuid]) i WHERE s.name = ''send''';

-- After an error in forming what a step works on: it has failed with it, and would so each time, so it is not tried
-- again. A transient error leaves the step to its lease.
CREATE FUNCTION pawl_dag._input_raised(task uuid, step uuid, token bigint, worker text, code text, said text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.processor = ''
SET pawl.event = ''
SET pawl.events = ''
SET pawl.token = ''
AS $function$
BEGIN
    RAISE WARNING USING ERRCODE = code,
        MESSAGE = format('the input of step %s of task %s cannot be formed: %s', step, task, said),
        HINT = format('select pawl_dag.resolve_step(%L, %L, ...)', task, step);
    IF pawl.is_transient(code) THEN
        RETURN;
    END IF;
    PERFORM set_config('pawl.processor', worker, true);
    UPDATE pawl_dag.steps s SET state = 'enqueued_as_error_for_orchestration', permanent = true,
           error = jsonb_build_object('message', format('the input of the step cannot be formed: %s', said),
               'sqlstate', code)
     WHERE s.task_uuid = task AND s.step_uuid = step AND s.state = 'in_progress' AND s.token = _input_raised.token;
END
$function$;
COMMENT ON FUNCTION pawl_dag._input_raised(uuid, uuid, bigint, text, text, text) IS
'internal: fails a step that was claimed and whose input cannot be formed, or leaves it to its lease';

-- The input is read by statements of their own: that of the claim may be older than the results of the parents.
CREATE FUNCTION pawl_dag._claim(processor text, namespace text, batch integer, lease interval, keys text[])
RETURNS TABLE (task_uuid uuid, step_uuid uuid, name text, handler text, handler_options jsonb, token bigint,
    attempts integer, context jsonb, parents jsonb, correlation_id uuid, traceparent text, tracestate text)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'pawl_dag_claim';
COMMENT ON FUNCTION pawl_dag._claim(text, text, integer, interval, text[]) IS
'internal: claims steps, and returns them as pawl_dag.claim does; one whose input cannot be formed fails';

-- Plans are kept, so what is called here must find no settings but its own.
CREATE FUNCTION pawl_dag.claim(processor text, namespace text DEFAULT 'default', batch integer DEFAULT 1,
    lease interval DEFAULT NULL, orchestrate integer DEFAULT NULL,
                               keys text[] DEFAULT NULL)
RETURNS TABLE (task_uuid uuid, step_uuid uuid, name text, handler text, handler_options jsonb, token bigint,
    attempts integer, context jsonb, parents jsonb, correlation_id uuid, traceparent text, tracestate text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
AS $function$
#variable_conflict use_column
DECLARE
    most constant integer := pawl.check_batch(claim.batch, 10000);
    longest constant interval := pawl.check_lease(claim.lease);
BEGIN
    IF coalesce(claim.processor, '') = '' THEN
        PERFORM pawl.raise('PW004', 'no processor given', NULL, 'processor => ''...''');
    ELSIF claim.namespace = 'sql:' AND NOT pawl_dag._runs_sql() THEN
        PERFORM pawl.raise('42501', 'permission denied to claim from the namespace "sql:"',
            'Its steps are SQL functions; only roles that may run these claim them.',
            'select * from pawl_dag.run_sql_steps()');
    END IF;
    IF claim.orchestrate IS NOT NULL THEN
        PERFORM FROM pawl_dag.orchestrate(pawl.check_batch(claim.orchestrate, 10000, 'orchestrate'));
    END IF;
    RETURN QUERY SELECT * FROM pawl_dag._claim(claim.processor, claim.namespace, most, longest, claim.keys);
END
$function$;
COMMENT ON FUNCTION pawl_dag.claim(text, text, integer, interval, integer, text[]) IS
'Claims steps for a worker, in claim order, and returns them with their input. pawl.heartbeat(''pawl_dag.steps'',
processor) extends the leases.
processor: the worker. namespace: the queue; default "default". batch: 1 to 10000; default 1. lease: default 60 s;
limited by the timeout of the step. orchestrate: advance at most this many tasks first; default null: none. keys:
claim these steps instead, each the text of an array of task and step: array[array[task_uuid, step_uuid]::text].
Returns task_uuid, step_uuid, name, handler, handler_options, token (the fencing token), attempts (this one
included), and context, parents, correlation_id, traceparent and tracestate as pawl_dag.step_inputs. A step whose
input is too large to be returned fails with 54000 instead, with a warning, and is not retried.
Errors: PW004 no processor given; 22023 batch, orchestrate or lease out of range; 42501 steps of SQL functions, which
only pawl_dag.run_sql_steps and work_sql_steps run. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT step_uuid, handler, context FROM pawl_dag.claim(''worker 1'', batch => 10)';

-- Seconds, or a date as HTTP or ISO 8601 writes it.
CREATE FUNCTION pawl_dag._retry_after(asked jsonb) RETURNS interval
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, DMY'
AS $function$
DECLARE
    said text := asked #>> '{}';
BEGIN
    IF said ~ E'^[0-9]{1,20}(\\.[0-9]{1,20})?$' THEN
        RETURN make_interval(secs => least(said::double precision, 3e9));
    END IF;
    IF said !~ '^([0-9]{4}-[0-9]{2}-[0-9]{2}|[A-Z][a-z]{2,8},? )' THEN
        RETURN NULL;
    END IF;
    RETURN least(greatest(said::timestamptz - now(), '0'), '3000000000 s');
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._retry_after(jsonb) IS
'internal: a wait that was asked for, in seconds or as a date; one that is past is 0; null: it is neither';

-- An element of a report as it was read. problem: what is wrong with its form; null: nothing.
CREATE TYPE pawl_dag._reported AS (n integer, task uuid, step uuid, token bigint, failed boolean, result jsonb,
    error jsonb, permanent boolean, wait interval, problem text);
COMMENT ON TYPE pawl_dag._reported IS 'internal: an element of a report';

CREATE FUNCTION pawl_dag._read_reports(results jsonb) RETURNS pawl_dag._reported[]
LANGUAGE c STABLE PARALLEL SAFE STRICT SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_read_reports';
COMMENT ON FUNCTION pawl_dag._read_reports(jsonb) IS 'internal: the elements of a report, in their order';

CREATE FUNCTION pawl_dag._record_reported(reports pawl_dag._reported[], worker text) RETURNS integer[]
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'pawl_dag_record_reported';
COMMENT ON FUNCTION pawl_dag._record_reported(pawl_dag._reported[], text) IS
'internal: stores the results of steps that the worker has; the numbers of the elements that were stored';

-- By what is stored now, so the second of two equal results is the recorded one.
CREATE FUNCTION pawl_dag._answers(reports pawl_dag._reported[], recorded integer[], worker text)
RETURNS TABLE (task_uuid uuid, step_uuid uuid, ok boolean, state text, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 100
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
        SELECT r.task, r.step, v.problem IS NULL, s.state, v.problem
          FROM unnest(reports) r
          LEFT JOIN pawl_dag.steps s ON s.task_uuid = r.task AND s.step_uuid = r.step
         CROSS JOIN LATERAL (SELECT CASE
                   WHEN r.problem IS NOT NULL THEN r.problem
                   WHEN r.n = ANY (recorded) THEN NULL
                   WHEN s.step_uuid IS NULL THEN coalesce((
                       SELECT format('PW009 the task is in database "%s"', d.database)
                         FROM pawl.left_for('dag', r.task::text) d WHERE d.database IS NOT NULL),
                       'P0002 there is no such step')
                   WHEN s.token <> r.token THEN 'PW005 the step was claimed again or released'
                   WHEN s.state = 'in_progress'
                       THEN CASE WHEN s.worker_uuid::text = lower(worker) THEN 'PW005 the lease has expired'
                                                          ELSE 'PW004 the step belongs to another processor' END
                   WHEN CASE WHEN r.failed THEN s.error ELSE s.result END IS DISTINCT FROM CASE WHEN r.failed
                       THEN r.error ELSE r.result END
                     OR NOT EXISTS (SELECT FROM (
                            SELECT l.to_state, l.processor FROM pawl_dag.step_transitions_log l
                             WHERE l.task_uuid = s.task_uuid AND l.step_uuid = s.step_uuid
                               AND l.to_state
                                 = ANY ('{in_progress,enqueued_for_orchestration,enqueued_as_error_for_orchestration}')
                             ORDER BY l.sort_key DESC LIMIT 1) l
                             WHERE lower(l.processor) = lower(worker)
                               AND l.to_state = CASE WHEN r.failed THEN 'enqueued_as_error_for_orchestration'
                                   ELSE 'enqueued_for_orchestration' END)
                   THEN 'PW005 this result was not recorded: the processor had lost the step or reported another result'
             END AS problem) v
         ORDER BY r.n;
END
$function$;
COMMENT ON FUNCTION pawl_dag._answers(pawl_dag._reported[], integer[], text) IS
'internal: the rows that pawl_dag.report returns; recorded: the numbers of the elements that were stored';

CREATE FUNCTION pawl_dag.report(results jsonb, processor text DEFAULT NULL)
RETURNS TABLE (task_uuid uuid, step_uuid uuid, ok boolean, state text, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.events = ''
SET pawl.token = ''
-- An assignment calls a function without the executor, which PERFORM starts.
AS $function$
#variable_conflict use_column
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    worker constant text := coalesce(report.processor, nullif(caller, ''));
    reports pawl_dag._reported[];
    recorded integer[] := '{}';
    reported pawl_dag._reported;
    said text;
BEGIN
    IF results IS NULL OR jsonb_typeof(results) <> 'array' THEN
        PERFORM pawl.raise('22023', 'results must be a JSON array', NULL,
            '[{"task_uuid": "...", "step_uuid": "...", "token": 1, "result": {...}}, {"task_uuid": "...", '
            '"step_uuid": "...", "token": 1, "error": {"message": "..."}}]');
    END IF;
    IF coalesce(worker, '') = '' THEN
        PERFORM pawl.raise('PW004', 'reports require a processor', NULL, 'processor => ''...''');
    END IF;
    reports := pawl_dag._read_reports(results);
    said := set_config('pawl.processor', worker, true);
    BEGIN
        recorded := pawl_dag._record_reported(reports, worker);
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl.is_transient(SQLSTATE) THEN
            RAISE;
        END IF;
        -- One element raised an error (its lease has ended since, it contradicts itself, a trigger rejects it), so each
        -- is recorded alone, if no other was for its step.
        FOR i IN 1 .. cardinality(reports) LOOP
            CONTINUE WHEN EXISTS (SELECT FROM unnest(reports) x
                WHERE x.task = reports[i].task AND x.step = reports[i].step AND x.n = ANY (recorded));
            BEGIN
                recorded := recorded || pawl_dag._record_reported(reports[i:i], worker);
            EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
                IF pawl.is_transient(SQLSTATE) THEN
                    RAISE;
                END IF;
                GET STACKED DIAGNOSTICS said = MESSAGE_TEXT;
                reports[i].problem := SQLSTATE || ' ' || said;
            END;
        END LOOP;
    END;
    said := set_config('pawl.processor', caller, true);
    IF cardinality(recorded) = cardinality(reports) THEN
        FOREACH reported IN ARRAY reports LOOP
            task_uuid := reported.task;
            step_uuid := reported.step;
            ok := true;
            state := CASE WHEN reported.failed THEN 'enqueued_as_error_for_orchestration'
                ELSE 'enqueued_for_orchestration' END;
            RETURN NEXT;
        END LOOP;
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM pawl_dag._answers(reports, recorded, worker);
END
$function$;
COMMENT ON FUNCTION pawl_dag.report(jsonb, text) IS
'Records results of a worker, and returns one row for each element, in order. A rejected element does not affect the
others, also of the same step; of several for a step the first that is not rejected is recorded. A result that was
recorded can be reported again.
results: [{"task_uuid", "step_uuid", "token": as claimed, "result": a JSON value} or {..., "error": {"message",
"type", "permanent", "retry_after": seconds or a date}}]. processor: default pawl.processor.
Returns task_uuid, step_uuid, ok, state (of the step) and problem, which begins with a SQLSTATE: PW004 not the
owner; PW005 not recorded, the step was lost; P0002 no such step; 22023 an invalid element.
Errors: 22023 results is not an array; PW004 no processor given. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_dag.report(''[{"task_uuid": "01890000-0000-7000-8000-000000000001", "step_uuid":
"01890000-0000-7000-8000-000000000002", "token": 1, "result": 7}]'', ''worker 1'')';

-- Called by pawl_dag.report_and_claim where something is rejected, or an argument is wrong.
CREATE FUNCTION pawl_dag._report_then_claim(results jsonb, processor text, namespace text, batch integer,
    lease interval, orchestrate integer)
RETURNS TABLE (task_uuid uuid, step_uuid uuid, ok boolean, state text, problem text, name text, handler text,
    handler_options jsonb, token bigint, attempts integer, context jsonb, parents jsonb, correlation_id uuid,
    traceparent text, tracestate text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT r.*, NULL::text, NULL::text, NULL::jsonb, NULL::bigint, NULL::integer, NULL::jsonb,
        NULL::jsonb, NULL::uuid, NULL::text, NULL::text
        FROM pawl_dag.report(_report_then_claim.results, _report_then_claim.processor) r;
    RETURN QUERY SELECT c.task_uuid, c.step_uuid, NULL::boolean, NULL::text, NULL::text, c.name, c.handler,
        c.handler_options, c.token, c.attempts, c.context, c.parents, c.correlation_id, c.traceparent, c.tracestate
        FROM pawl_dag.claim(_report_then_claim.processor, _report_then_claim.namespace, _report_then_claim.batch,
            _report_then_claim.lease, _report_then_claim.orchestrate) c;
END
$function$;
COMMENT ON FUNCTION pawl_dag._report_then_claim(jsonb, text, text, integer, interval, integer) IS
'internal: the parts of pawl_dag.report_and_claim, one by one';

CREATE FUNCTION pawl_dag.report_and_claim(results jsonb, processor text, namespace text DEFAULT 'default',
    batch integer DEFAULT 1, lease interval DEFAULT NULL, orchestrate integer DEFAULT 100)
RETURNS TABLE (task_uuid uuid, step_uuid uuid, ok boolean, state text, problem text, name text, handler text,
    handler_options jsonb, token bigint, attempts integer, context jsonb, parents jsonb, correlation_id uuid,
    traceparent text, tracestate text)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'pawl_dag_report_and_claim';
COMMENT ON FUNCTION pawl_dag.report_and_claim(jsonb, text, text, integer, interval, integer) IS
'Records results, advances their tasks, and claims the next steps, as pawl_dag.report, pawl_dag.orchestrate and
pawl_dag.claim do one after the other, with fewer writes: a result and the completion of its step are one, and a step
that becomes ready for this claim is enqueued and started by one.
results: as for pawl_dag.report. processor: the worker. namespace: the queue; default "default". batch: how many steps
to claim, 1 to 10000; default 1. lease: default 60 s; limited by the timeout of the step. orchestrate: advance at most
this many tasks beside those of the results; default 100.
Returns first one row for each element of results, in order: task_uuid, step_uuid, ok, state and problem as
pawl_dag.report returns them. Then the claimed steps in claim order, where ok is null: task_uuid, step_uuid, name,
handler, handler_options, token, attempts, context, parents, correlation_id, traceparent and tracestate as
pawl_dag.claim returns them.
Errors: PW004 no processor given; 22023 results is not an array, batch, orchestrate or lease out of range; 22004
batch is null; 40P01 a plain UPDATE of a step waits for its task, which this call has locked; 42501 the namespace
"sql:", which only roles that may run SQL functions claim from. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_dag.report_and_claim(''[]'', ''00000000-0000-7000-8000-000000000001'', batch => 10)';
