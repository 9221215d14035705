-- Steps that are SQL functions: run by a duty, inside the database. The function's own changes and the step's result are one
-- transaction, so what it does happens exactly once, and there is no lease that could run out.

-- The handler is sql:<schema>.<function>; the function takes (context jsonb, inputs jsonb) and returns jsonb.
CREATE FUNCTION pawl_dag._call_handler(handler text, context jsonb, inputs jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    -- a name with a schema only: search_path is no user's here
    function_of_it regprocedure := to_regprocedure(substr(handler, 5) || '(jsonb,jsonb)');
    result jsonb;
BEGIN
    IF function_of_it IS NULL THEN
        PERFORM pawl._raise('42883', format('no function %s(jsonb, jsonb)', substr(handler, 5)), 'A handler "sql:…" names a function with its schema.',
            'create function my_schema.my_step(context jsonb, inputs jsonb) returns jsonb …');
    END IF;
    EXECUTE format('SELECT to_jsonb(%s($1, $2))', function_of_it::oid::regproc) INTO result USING context, inputs;
    RETURN result;
END
$function$;
COMMENT ON FUNCTION pawl_dag._call_handler(text, jsonb, jsonb) IS 'internal: calls the function that a handler names; 42883: there is none';

CREATE FUNCTION pawl_dag.run_sql_steps(batch integer DEFAULT 1, OUT done integer)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    worker constant text := pawl.uuid_v7()::text;
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    calling_span constant text := coalesce(current_setting('pawl.traceparent', true), '');
    calling_state constant text := coalesce(current_setting('pawl.tracestate', true), '');
    trace text;
    trace_state text;
    step pawl_dag.steps;
    context jsonb;
    inputs jsonb;
    named boolean;
    answer jsonb;
    problem jsonb;
    said text;
    detail text;
    code text;
BEGIN
    done := 0;
    -- nobody can take a row that this transaction has written, so the lease is a formality
    FOR step IN SELECT c.* FROM pawl.claim(NULL::pawl_dag.steps, 'Start', worker, '1 day', batch, 'sql:') c LOOP
        SELECT i.context, (SELECT coalesce(jsonb_object_agg(p.name, p.value -> 'result'), '{}') FROM jsonb_each(i.parents) p(name, value)),
               EXISTS (SELECT FROM pawl_dag.tasks t JOIN pawl_dag.template_steps x ON x.template_uuid = t.template_uuid
                        WHERE t.task_uuid = step.task_uuid AND x.handler = step.handler), i.traceparent, i.tracestate
          INTO context, inputs, named, trace, trace_state FROM pawl_dag.step_inputs(ARRAY[step.task_uuid], ARRAY[step.step_uuid]) i;
        IF step.map_of IS NOT NULL THEN
            inputs := inputs || jsonb_build_object('item', step.handler_options -> 'item', 'index', step.map_index);
        END IF;
        problem := NULL;
        IF trace IS NOT NULL OR calling_span <> '' THEN
            PERFORM pawl._enter_span(trace, trace_state);
        END IF;
        BEGIN
            -- Who runs this may do more than who may write steps, so the function is one that the task's template names.
            IF NOT named THEN
                PERFORM pawl._raise('42501', format('no step of the task''s template has the handler %s', step.handler), NULL,
                    'name it in the template: select pawl_dag.define_template(…)');
            END IF;
            answer := pawl_dag._call_handler(step.handler, context, inputs);
        EXCEPTION WHEN OTHERS THEN
            -- what the server asks of everybody is not the step's failure
            IF SQLSTATE LIKE '40%' OR SQLSTATE LIKE '57P%' THEN
                RAISE;
            END IF;
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
            problem := jsonb_strip_nulls(jsonb_build_object('message', said, 'detail', nullif(detail, ''), 'sqlstate', code));
        END;
        PERFORM set_config('pawl.processor', worker, true);
        IF problem IS NULL THEN
            UPDATE pawl_dag.steps s SET state = 'enqueued_for_orchestration', result = answer, error = NULL
             WHERE s.task_uuid = step.task_uuid AND s.step_uuid = step.step_uuid;
        ELSE
            -- a function that is not there, or not allowed, will not come by itself
            UPDATE pawl_dag.steps s SET state = 'enqueued_as_error_for_orchestration', error = problem, permanent = code IN ('42883', '42501')
             WHERE s.task_uuid = step.task_uuid AND s.step_uuid = step.step_uuid;
        END IF;
        PERFORM set_config('pawl.processor', caller, true);
        IF trace IS NOT NULL OR calling_span <> '' THEN
            PERFORM set_config('pawl.traceparent', calling_span, true), set_config('pawl.tracestate', calling_state, true);
        END IF;
        done := done + 1;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_dag.run_sql_steps(integer) IS
'runs enqueued steps whose handler is sql:<schema>.<function>, a function (context jsonb, inputs jsonb) returns jsonb, with the caller''s rights; at most batch of them in this transaction. Returns how many it ran. A function that fails is undone alone, and its error is the step''s. Its search_path is pg_catalog, unless it sets its own. Only functions that the task''s template names are run; of a mapped step, inputs also has "item" and "index". Where the task belongs to a trace, pawl.traceparent is the step''s own span in it';
