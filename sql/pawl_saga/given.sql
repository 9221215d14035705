-- What claimed tasks are given where it cannot be formed for all of them at once: one by one, so that a task whose
-- input is too large for a JSON value stops no other.

-- A value as it is if it is small; else what a failure says, cut, with a member that says so.
CREATE FUNCTION pawl_saga._cut(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN pg_column_size(value #> '{}') > 4000
        THEN (SELECT coalesce(jsonb_object_agg(m.name, left(value ->> m.name, 1000)), '{}')
                FROM unnest('{message,type,sqlstate}'::text[]) m(name)
               WHERE jsonb_typeof(value -> m.name) = 'string') || '{"cut": true}'
        ELSE value END
$function$;
COMMENT ON FUNCTION pawl_saga._cut(jsonb) IS 'internal: a value, or if it is large, the beginning of what it says';

-- What the task would be given now. Raises an error if it does not fit into one row or one JSON value, as text or not.
CREATE FUNCTION pawl_saga._given(task pawl_saga.tasks, is_cut boolean, OUT arguments jsonb, OUT failures jsonb)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    IF is_cut THEN
        arguments := (SELECT coalesce(jsonb_object_agg(a.parameter, pawl_saga._cut(coalesce(a.value, 'null'))), '{}')
            FROM pawl_saga._arguments(task.flow_uuid, task.node) a WHERE a.found);
        failures := (SELECT coalesce(jsonb_object_agg(x.name, pawl_saga._cut(x.failure)), '{}')
            FROM (SELECT t.name, t.failure FROM pawl_saga.tasks t WHERE t.flow_uuid = task.flow_uuid
                  UNION ALL SELECT r.name, r.failure FROM pawl_saga.retries r WHERE r.flow_uuid = task.flow_uuid) x
             WHERE x.failure IS NOT NULL);
    ELSE
        arguments := pawl_saga.arguments(task.flow_uuid, task.node);
        failures := CASE WHEN task.state = 'REVERTING' THEN pawl_saga.failures(task.flow_uuid) END;
    END IF;
    -- the other columns take the place of the last member
    PERFORM length(jsonb_build_object('arguments', arguments, 'result', task.result, 'failure', task.failure,
        'failures', failures, 'handlers', concat(task."execute", task.revert), 'others', repeat(' ', 10000))::text);
END
$function$;
COMMENT ON FUNCTION pawl_saga._given(pawl_saga.tasks, boolean) IS
'internal: what a claimed task is given, whole or cut; raises an error if it is too large';

-- A claimed task that cannot be returned fails; if its flow cannot be locked now, or the error is transient, its lease
-- ends soon, as if its worker were lost. Deciders are asked later: the claim returns other tasks, too.
CREATE FUNCTION pawl_saga._not_given(task pawl_saga.tasks, code text, said text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    why text := said;
    answer record;
BEGIN
    IF NOT pawl.is_transient(code) AND pawl_saga._try_lock(task.flow_uuid) THEN
        SELECT r.ok, r.problem INTO answer FROM pawl_saga._report_flows(jsonb_build_array(jsonb_build_object(
            'flow_uuid', task.flow_uuid, 'node', task.node, 'token', task.token, 'failure',
            jsonb_build_object('message', said, 'sqlstate', code, 'type', 'input'))), task.worker) r;
        IF answer.ok THEN
            RETURN;
        END IF;
        why := answer.problem;
    END IF;
    BEGIN
        UPDATE pawl_saga.tasks t SET lease_until = clock_timestamp() + interval '1 s'
            WHERE t.flow_uuid = task.flow_uuid AND t.node = task.node AND t.token = task.token;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl_saga._ends_duty(SQLSTATE) THEN
            RAISE;
        END IF;
    END;
    RAISE WARNING 'task "%" of flow % is not returned: %', task.name, task.flow_uuid, why USING ERRCODE = code;
END
$function$;
COMMENT ON FUNCTION pawl_saga._not_given(pawl_saga.tasks, text, text) IS
'internal: the input of a claimed task cannot be formed; the task fails with the error';

-- A revert should run, so it gets what is too large cut. Memory that one of them lacks is its own error.
CREATE FUNCTION pawl_saga._give_apart(flows uuid[], nodes integer[])
RETURNS TABLE (n bigint, arguments jsonb, failures jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    task pawl_saga.tasks;
    is_cut boolean;
    said text;
    code text;
BEGIN
    FOR place IN 1 .. cardinality(flows) LOOP
        SELECT t.* INTO task FROM pawl_saga.tasks t WHERE t.flow_uuid = flows[place] AND t.node = nodes[place];
        n := place;
        FOREACH is_cut IN ARRAY CASE WHEN task.state = 'REVERTING' THEN '{false,true}' ELSE '{false}' END::boolean[]
        LOOP
            BEGIN
                SELECT g.arguments, g.failures INTO arguments, failures FROM pawl_saga._given(task, is_cut) g;
                RETURN NEXT;
                said := NULL;
                EXIT;
            EXCEPTION WHEN insufficient_resources THEN
                GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            WHEN OTHERS OR ASSERT_FAILURE THEN
                IF pawl_saga._ends_duty(SQLSTATE) THEN
                    RAISE;
                END IF;
                GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            END;
        END LOOP;
        IF said IS NOT NULL THEN
            PERFORM pawl_saga._not_given(task, code, said);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._give_apart(uuid[], integer[]) IS
'internal: what claimed tasks are given, by their place; those that are left out have failed';
