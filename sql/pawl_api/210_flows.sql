-- Flows of sagas (pawl_saga): lists, one flow with its structure and states, what operators do; jobs.

CREATE FUNCTION pawl_api._flow(f record) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('flow_uuid', f.flow_uuid, 'definition_uuid', f.definition_uuid, 'name', f.name, 'state', f.state, 'run', f.run, 'undoing', f.undoing, 'broken', f.broken,
        'correlation_id', f.correlation_id, 'created_at', f.created_at, 'entered_at', f.entered_at,
        'tasks', (SELECT coalesce(jsonb_object_agg(c.state, c.n), '{}') FROM (SELECT t.state, count(*) AS n FROM pawl_saga.tasks t WHERE t.flow_uuid = f.flow_uuid GROUP BY t.state) c));
END
$function$;
COMMENT ON FUNCTION pawl_api._flow(record) IS 'internal: a flow as lists show it';

-- Newest first. Filters look at so many flows a page and no more: a page may be short, or empty, and still have a next one.
CREATE FUNCTION pawl_api.list_flows(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    looked_at constant integer := 20000;
    page integer := pawl_api._limit(q);
    before uuid := (pawl_api._after(q, 1))[1]::uuid;
    states text[] := string_to_array(q ->> 'state', ',');
    item record;
    items jsonb := '[]';
    looked integer := 0;
BEGIN
    PERFORM pawl_api._need('pawl_saga');
    FOR item IN
        SELECT f.* FROM pawl_saga.flows f WHERE f.flow_uuid < coalesce(before, 'ffffffff-ffff-ffff-ffff-ffffffffffff') ORDER BY f.flow_uuid DESC LIMIT looked_at
    LOOP
        looked := looked + 1;
        IF (states IS NULL OR item.state = ANY (states)) AND (q ->> 'name' IS NULL OR item.name = q ->> 'name') THEN
            items := items || pawl_api._flow(item);
        END IF;
        IF jsonb_array_length(items) = page OR looked = looked_at THEN
            RETURN jsonb_build_object('items', items, 'next', pawl_api._cursor(ARRAY[item.flow_uuid::text]));
        END IF;
    END LOOP;
    RETURN jsonb_build_object('items', items, 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.list_flows(jsonb) IS 'route: flows, newest first; state (several by comma), name';

CREATE FUNCTION pawl_api.get_flow(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    flow uuid := pawl_api._uuid(q, 'flow');
    f record;
BEGIN
    PERFORM pawl_api._need('pawl_saga');
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow;
    IF NOT FOUND THEN
        PERFORM pawl._raise('P0002', format('there is no flow %s', flow));
    END IF;
    RETURN pawl_api._flow(f) || jsonb_build_object('inputs', f.inputs, 'problem', f.problem,
        'atoms', (SELECT coalesce(jsonb_agg(jsonb_build_object('node', n.node, 'kind', n.kind, 'name', n.name, 'state', a.state, 'intention', a.intention, 'blockers', a.blockers,
                      'due_at', CASE WHEN isfinite(a.due_at) THEN a.due_at END, 'worker', a.worker, 'result', a.result, 'failure', a.failure,
                      'revert_failure', a.revert_failure, 'progress', a.progress) ORDER BY n.node), '[]')
                    FROM pawl_saga.nodes n LEFT JOIN pawl_saga.atoms a ON a.flow_uuid = flow AND a.node = n.node WHERE n.definition_uuid = f.definition_uuid),
        'edges', (SELECT coalesce(jsonb_agg(jsonb_build_array(e.from_node, e.to_node)), '[]') FROM pawl_saga.edges e WHERE e.definition_uuid = f.definition_uuid),
        'timeline', (SELECT coalesce(jsonb_agg(jsonb_build_object('created_at', l.created_at, 'who', l.who, 'from_state', l.from_state, 'to_state', l.to_state,
                         'event', l.event, 'processor', l.processor, 'metadata', l.metadata) ORDER BY l.created_at, l.id), '[]')
                       FROM (SELECT t.* FROM pawl_saga.timeline t WHERE t.flow_uuid = flow ORDER BY t.created_at DESC, t.id DESC LIMIT 500) l));
END
$function$;
COMMENT ON FUNCTION pawl_api.get_flow(jsonb) IS 'route: a flow, its graph with the state of each atom, the edges ([from, to]), and the newest 500 of its moves';

CREATE FUNCTION pawl_api._flow_of(q jsonb) RETURNS uuid
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need('pawl_saga');
    RETURN pawl_api._uuid(q, 'flow');
END
$function$;
COMMENT ON FUNCTION pawl_api._flow_of(jsonb) IS 'internal: the flow of the path; 22023, and 0A000 where pawl_saga is not installed';

CREATE FUNCTION pawl_api.run_flow(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._object(body, '{}'), pawl_saga.run(pawl_api._flow_of(q));
    RETURN pawl_api.get_flow(q);
END
$function$;
COMMENT ON FUNCTION pawl_api.run_flow(jsonb, jsonb) IS 'route: pawl_saga.run';

CREATE FUNCTION pawl_api.suspend_flow(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._object(body, '{}'), pawl_saga.suspend(pawl_api._flow_of(q));
    RETURN pawl_api.get_flow(q);
END
$function$;
COMMENT ON FUNCTION pawl_api.suspend_flow(jsonb, jsonb) IS 'route: pawl_saga.suspend';

CREATE FUNCTION pawl_api.resume_flow(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._object(body, '{}'), pawl_saga.resume(pawl_api._flow_of(q));
    RETURN pawl_api.get_flow(q);
END
$function$;
COMMENT ON FUNCTION pawl_api.resume_flow(jsonb, jsonb) IS 'route: pawl_saga.resume';

CREATE FUNCTION pawl_api.reset_flow(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_saga.reset(pawl_api._flow_of(q), pawl_api._required(pawl_api._object(body, '{reason}'), 'reason'));
    RETURN pawl_api.get_flow(q);
END
$function$;
COMMENT ON FUNCTION pawl_api.reset_flow(jsonb, jsonb) IS 'route: pawl_saga.reset';

CREATE FUNCTION pawl_api.resolve_atom(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_saga.resolve(pawl_api._flow_of(q), q ->> 'atom', pawl_api._required(pawl_api._object(body, '{reason}'), 'reason'));
    RETURN pawl_api.get_flow(q);
END
$function$;
COMMENT ON FUNCTION pawl_api.resolve_atom(jsonb, jsonb) IS 'route: pawl_saga.resolve';

CREATE FUNCTION pawl_api.retry_revert(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_saga.retry_revert(pawl_api._flow_of(q), q ->> 'atom', pawl_api._object(body, '{reason}') ->> 'reason');
    RETURN pawl_api.get_flow(q);
END
$function$;
COMMENT ON FUNCTION pawl_api.retry_revert(jsonb, jsonb) IS 'route: pawl_saga.retry_revert';

CREATE FUNCTION pawl_api.list_jobs(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    looked_at constant integer := 20000;
    page integer := pawl_api._limit(q);
    before uuid := (pawl_api._after(q, 1))[1]::uuid;
    states text[] := string_to_array(q ->> 'state', ',');
    item record;
    items jsonb := '[]';
    looked integer := 0;
BEGIN
    PERFORM pawl_api._need('pawl_saga');
    FOR item IN
        SELECT j.* FROM pawl_saga.jobs j WHERE j.job_uuid < coalesce(before, 'ffffffff-ffff-ffff-ffff-ffffffffffff') ORDER BY j.job_uuid DESC LIMIT looked_at
    LOOP
        looked := looked + 1;
        IF states IS NULL OR item.state = ANY (states) THEN
            items := items || jsonb_build_object('job_uuid', item.job_uuid, 'board', item.board, 'name', item.name, 'state', item.state, 'priority', item.priority, 'flow', item.flow,
                'flow_uuid', item.flow_uuid, 'owner', item.owner, 'attempts', item.attempts, 'created_at', item.created_at, 'modified_at', item.modified_at);
        END IF;
        IF jsonb_array_length(items) = page OR looked = looked_at THEN
            RETURN jsonb_build_object('items', items, 'next', pawl_api._cursor(ARRAY[item.job_uuid::text]));
        END IF;
    END LOOP;
    RETURN jsonb_build_object('items', items, 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.list_jobs(jsonb) IS 'route: jobs, newest first; state (several by comma)';
