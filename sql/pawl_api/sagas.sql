-- Sagas (pawl_saga): flows, their atoms, the job board.

CREATE FUNCTION pawl_api._flow(flow uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    RETURN (SELECT to_jsonb(f)
        || jsonb_build_object('tasks',
            pawl_api._counts(ARRAY(SELECT x.state FROM pawl_saga.tasks x WHERE x.flow_uuid = flow)))
              FROM pawl_saga.flows f WHERE f.flow_uuid = flow);
END
$function$;
COMMENT ON FUNCTION pawl_api._flow(uuid) IS 'internal: a flow as lists show it';

CREATE FUNCTION pawl_api.list_flows(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    step constant integer := 2000;
    enough constant timestamptz := pawl_api._look_until();
    page integer := pawl_api._limit(q);
    before uuid := coalesce((pawl_api._after(q, 1))[1]::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    states text[];
    looked_until uuid;
    items jsonb := '[]';
    more jsonb;
BEGIN
    PERFORM pawl_api._need('pawl_saga');
    states := pawl_api._states(q, 'state', 'pawl_saga.flow');
    LOOP
        SELECT jsonb_agg(pawl_api._flow(f.flow_uuid) ORDER BY f.flow_uuid DESC) INTO more
          FROM (SELECT l.flow_uuid FROM (SELECT x.flow_uuid, x.state, x.name FROM pawl_saga.flows x
              WHERE x.flow_uuid < before ORDER BY x.flow_uuid DESC LIMIT step) l
                 WHERE (states IS NULL OR l.state = ANY (states)) AND (q ->> 'name' IS NULL OR l.name = q ->> 'name')
                 ORDER BY l.flow_uuid DESC LIMIT page - jsonb_array_length(items)) f;
        items := items || coalesce(more, '[]');
        EXIT WHEN jsonb_array_length(items) = page;
        looked_until := (SELECT x.flow_uuid FROM pawl_saga.flows x WHERE x.flow_uuid < before
            ORDER BY x.flow_uuid DESC OFFSET step - 1 LIMIT 1);
        EXIT WHEN looked_until IS NULL OR clock_timestamp() > enough;
        before := looked_until;
    END LOOP;
    RETURN pawl_api._filtered_page(items, page, '{flow_uuid}', string_to_array(looked_until::text, ','));
END
$function$;
COMMENT ON FUNCTION pawl_api.list_flows(jsonb) IS
'Route: flows, newest first; filters look at flows for 100 ms for each page.
q: state (several by comma), name, limit (rows in the answer, 1 to 500), cursor (next of the answer before). Returns
the answer as JSON.
Errors: 22023 an invalid limit or cursor, or an unknown state; 0A000 pawl_saga is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.list_flows(''{"state": "RUNNING"}'')';

CREATE FUNCTION pawl_api.get_flow(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    flow uuid := pawl_api._uuid(q, 'flow');
BEGIN
    PERFORM pawl_api._need_one('flow', flow);
    RETURN pawl_api._flow(flow) || jsonb_build_object(
        'atoms', (SELECT coalesce(jsonb_agg(to_jsonb(a) - 'flow_uuid' ORDER BY a.node), '[]') FROM pawl_saga.atoms a
            WHERE a.flow_uuid = flow),
        'edges',
        (SELECT coalesce(jsonb_agg(jsonb_build_array(e.from_node, e.to_node) ORDER BY e.from_node, e.to_node), '[]')
                    FROM pawl_saga.edges e JOIN pawl_saga.flows f ON f.definition_uuid = e.definition_uuid
                    WHERE f.flow_uuid = flow),
        'runs', (SELECT coalesce(jsonb_agg(to_jsonb(r) - 'flow_uuid' ORDER BY r.run), '[]') FROM pawl_saga.runs r
            WHERE r.flow_uuid = flow),
        'outputs', pawl_saga.outputs(flow), 'failures', pawl_saga.failures(flow), 'diagram', pawl_saga.diagram(flow));
END
$function$;
COMMENT ON FUNCTION pawl_api.get_flow(jsonb) IS
'Route: a flow with its atoms, the edges between nodes, its runs, results and diagram.
q: flow (its id). Returns the answer as JSON.
Errors: P0002 no such flow; 22023 flow is not a uuid; 0A000 pawl_saga is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.get_flow(''{"flow": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.flow_atoms(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    flow uuid := pawl_api._uuid(q, 'flow');
    page integer := pawl_api._limit(q);
    after integer := coalesce((pawl_api._after(q, 1))[1]::integer, -1);
    items jsonb;
BEGIN
    PERFORM pawl_api._need_one('flow', flow);
    SELECT jsonb_agg(to_jsonb(a) - 'flow_uuid' ORDER BY a.node) INTO items
      FROM (SELECT x.* FROM pawl_saga.atoms x WHERE x.flow_uuid = flow AND x.node > after ORDER BY x.node LIMIT page) a;
    RETURN pawl_api._page(items, page, 'node');
END
$function$;
COMMENT ON FUNCTION pawl_api.flow_atoms(jsonb) IS
'Route: the tasks and retries of a flow in the order of its definition.
q: flow (its id), limit (rows in the answer, 1 to 500), cursor (next of the answer before). Returns the answer as
JSON.
Errors: P0002 no such flow; 22023 flow is not a uuid; 22023 an invalid limit or cursor; 0A000 pawl_saga is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.flow_atoms(''{"flow": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.flow_timeline(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    flow uuid := pawl_api._uuid(q, 'flow');
    page integer := pawl_api._limit(q);
    after text[] := coalesce(pawl_api._after(q, 2), '{-infinity,00000000-0000-0000-0000-000000000000}');
    items jsonb;
BEGIN
    PERFORM pawl_api._need_one('flow', flow);
    SELECT jsonb_agg(to_jsonb(l) - 'flow_uuid' ORDER BY l.created_at, l.id) INTO items
      FROM (SELECT x.* FROM pawl_saga.timeline x WHERE x.flow_uuid = flow
          AND (x.created_at, x.id) > (after[1]::timestamptz, after[2]::uuid) ORDER BY x.created_at, x.id LIMIT page) l;
    RETURN pawl_api._page(items, page, 'created_at', 'id');
END
$function$;
COMMENT ON FUNCTION pawl_api.flow_timeline(jsonb) IS
'Route: the log entries of a flow and its atoms.
q: flow (its id), limit (rows in the answer, 1 to 500), cursor (next of the answer before). Returns the answer as
JSON.
Errors: P0002 no such flow; 22023 flow is not a uuid; 22023 an invalid limit or cursor; 0A000 pawl_saga is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.flow_timeline(''{"flow": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.start_flow(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    b jsonb := pawl_api._order('pawl_saga', body, '{name,inputs,defer_reverts,never_resolve,version}');
    made uuid;
BEGIN
    made := pawl_saga.start(pawl_api._required(b, 'name'), coalesce(b -> 'inputs', '{}'),
        coalesce((b ->> 'defer_reverts')::boolean, false), coalesce((b ->> 'never_resolve')::boolean, false),
        (b ->> 'version')::integer);
    RETURN pawl_api.get_flow(jsonb_build_object('flow', made));
END
$function$;
COMMENT ON FUNCTION pawl_api.start_flow(jsonb, jsonb) IS
'Route: starts a flow of a definition.
q: none. body: name, inputs, defer_reverts, never_resolve, version; all but name are optional. Returns the answer as
JSON.
Errors: 22023 an invalid body; those of pawl_saga.start; 0A000 pawl_saga is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.start_flow(''{}'', ''{"name": "trip", "inputs": {"to": "Rome"}}'')';

CREATE FUNCTION pawl_api._operate_flow(q jsonb, body jsonb, action text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    flow uuid := pawl_api._uuid(q, 'flow');
    b jsonb := pawl_api._object(body, '{reason}');
BEGIN
    PERFORM pawl_api._need_one('flow', flow);
    CASE action
        WHEN 'suspend' THEN PERFORM pawl_saga.suspend(flow);
        WHEN 'resume' THEN PERFORM pawl_saga.resume(flow);
        WHEN 'run' THEN PERFORM pawl_saga.run(flow);
        WHEN 'reset' THEN PERFORM pawl_saga.reset(flow, pawl_api._required(b, 'reason'));
        WHEN 'resolve' THEN PERFORM pawl_saga.resolve(flow, q ->> 'atom', pawl_api._required(b, 'reason'));
        WHEN 'retry_revert' THEN PERFORM pawl_saga.retry_revert(flow, q ->> 'atom', b ->> 'reason');
    END CASE;
    RETURN pawl_api.get_flow(q);
END
$function$;
COMMENT ON FUNCTION pawl_api._operate_flow(jsonb, jsonb, text) IS 'internal: what an operator does to a flow';

CREATE FUNCTION pawl_api.list_jobs(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    page integer := pawl_api._limit(q);
    before uuid := coalesce((pawl_api._after(q, 1))[1]::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    states text[];
    items jsonb;
BEGIN
    PERFORM pawl_api._need('pawl_saga');
    states := pawl_api._states(q, 'state', 'pawl_saga.job');
    SELECT jsonb_agg(to_jsonb(j) ORDER BY j.job_uuid DESC) INTO items
      FROM (SELECT x.* FROM pawl_saga.jobs x
          WHERE x.job_uuid < before AND (states IS NULL OR x.state = ANY (states))
               AND (q ->> 'board' IS NULL OR x.board = q ->> 'board') ORDER BY x.job_uuid DESC LIMIT page) j;
    RETURN pawl_api._page(items, page, 'job_uuid');
END
$function$;
COMMENT ON FUNCTION pawl_api.list_jobs(jsonb) IS
'Route: jobs, newest first.
q: state, board, limit (rows in the answer, 1 to 500), cursor (next of the answer before). Returns the answer as JSON.
Errors: 22023 an invalid limit or cursor, or an unknown state; 0A000 pawl_saga is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.list_jobs(''{"board": "default"}'')';

CREATE FUNCTION pawl_api.get_job(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    job uuid := pawl_api._uuid(q, 'job');
    found_one jsonb;
BEGIN
    PERFORM pawl_api._need('pawl_saga');
    SELECT to_jsonb(j) INTO found_one FROM pawl_saga.jobs j WHERE j.job_uuid = job;
    IF found_one IS NULL THEN
        PERFORM pawl.raise('P0002', format('there is no job %s', job));
    END IF;
    RETURN found_one;
END
$function$;
COMMENT ON FUNCTION pawl_api.get_job(jsonb) IS
'Route: a job.
q: job (its id). Returns the answer as JSON.
Errors: P0002 no such job; 22023 job is not a uuid; 0A000 pawl_saga is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.get_job(''{"job": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.post_job(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    b jsonb := pawl_api._order('pawl_saga', body, '{name,flow,inputs,details,priority,board}');
    made uuid;
BEGIN
    made := pawl_saga.post(pawl_api._required(b, 'name'), b ->> 'flow', coalesce(b -> 'inputs', '{}'),
        coalesce(b -> 'details', '{}'), coalesce(b ->> 'priority', 'NORMAL'), coalesce(b ->> 'board', 'default'));
    RETURN pawl_api.get_job(jsonb_build_object('job', made));
END
$function$;
COMMENT ON FUNCTION pawl_api.post_job(jsonb, jsonb) IS
'Route: posts a job.
q: none. body: name, flow, inputs, details, priority, board; all but name are optional. Returns the answer as JSON.
Errors: 22023 an invalid body; those of pawl_saga.post; 0A000 pawl_saga is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.post_job(''{}'', ''{"name": "trip of Ada", "flow": "trip"}'')';

CREATE FUNCTION pawl_api.suspend_flow(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_flow(q, body, 'suspend'); END;
COMMENT ON FUNCTION pawl_api.suspend_flow(jsonb, jsonb) IS
'Route: suspends a flow.
q: flow (its id). body: reason, optional. Returns the answer as JSON.
Errors: P0002 no such flow; 22023 flow is not a uuid; 22023 an invalid body; those of pawl_saga.suspend; 0A000
pawl_saga is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.suspend_flow(''{"flow": "01890000-0000-7000-8000-000000000001"}'', ''{"reason": "again"}'')';

CREATE FUNCTION pawl_api.resume_flow(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_flow(q, body, 'resume'); END;
COMMENT ON FUNCTION pawl_api.resume_flow(jsonb, jsonb) IS
'Route: resumes a suspended flow.
q: flow (its id). body: reason, optional. Returns the answer as JSON.
Errors: P0002 no such flow; 22023 flow is not a uuid; 22023 an invalid body; those of pawl_saga.resume; 0A000
pawl_saga is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.resume_flow(''{"flow": "01890000-0000-7000-8000-000000000001"}'', ''{"reason": "again"}'')';

CREATE FUNCTION pawl_api.run_flow(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_flow(q, body, 'run'); END;
COMMENT ON FUNCTION pawl_api.run_flow(jsonb, jsonb) IS
'Route: runs a flow.
q: flow (its id). body: reason, optional. Returns the answer as JSON.
Errors: P0002 no such flow; 22023 flow is not a uuid; 22023 an invalid body; those of pawl_saga.run; 0A000 pawl_saga
is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on
the tables.
Example: SELECT pawl_api.run_flow(''{"flow": "01890000-0000-7000-8000-000000000001"}'', ''{"reason": "again"}'')';

CREATE FUNCTION pawl_api.reset_flow(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_flow(q, body, 'reset'); END;
COMMENT ON FUNCTION pawl_api.reset_flow(jsonb, jsonb) IS
'Route: resets a flow that has ended.
q: flow (its id). body: reason. Returns the answer as JSON.
Errors: P0002 no such flow; 22023 flow is not a uuid; 22023 an invalid body; those of pawl_saga.reset; 0A000
pawl_saga is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.reset_flow(''{"flow": "01890000-0000-7000-8000-000000000001"}'', ''{"reason": "again"}'')';

CREATE FUNCTION pawl_api.resolve_atom(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_flow(q, body, 'resolve'); END;
COMMENT ON FUNCTION pawl_api.resolve_atom(jsonb, jsonb) IS
'Route: declares an atom whose revert failed as reverted.
q: flow (its id), atom (its name). body: reason. Returns the answer as JSON.
Errors: P0002 no such flow; 22023 flow is not a uuid; 22023 an invalid body; those of pawl_saga.resolve; 0A000
pawl_saga is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.resolve_atom(''{"flow": "01890000-0000-7000-8000-000000000001", "atom": "book"}'',
''{"reason": "cancelled by phone"}'')';

CREATE FUNCTION pawl_api.retry_revert(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_flow(q, body, 'retry_revert'); END;
COMMENT ON FUNCTION pawl_api.retry_revert(jsonb, jsonb) IS
'Route: retries the failed revert of an atom.
q: flow (its id), atom (its name). body: reason, optional. Returns the answer as JSON.
Errors: P0002 no such flow; 22023 flow is not a uuid; 22023 an invalid body; those of pawl_saga.retry_revert; 0A000
pawl_saga is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.retry_revert(''{"flow": "01890000-0000-7000-8000-000000000001", "atom": "book"}'',
''{"reason": "cancelled by phone"}'')';
