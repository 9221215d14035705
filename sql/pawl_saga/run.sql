-- Starts, reruns, suspends and repairs flows. Each function is an UPDATE that could be written by hand.

-- The queue of a task as it is written. One that only waits has nothing that a worker
-- could do, unless a worker is to revert it.
CREATE FUNCTION pawl_saga._queue(written jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(written ->> 'queue', CASE
        WHEN written ->> 'execute' LIKE 'sql:%' THEN 'sql:'
        WHEN (written ->> 'signal' IS NOT NULL OR written ->> 'wait_seconds' IS NOT NULL)
            AND coalesce(written ->> 'revert', 'sql:') LIKE 'sql:%' THEN 'sql:'
        ELSE 'default' END)
$function$;
COMMENT ON FUNCTION pawl_saga._queue(jsonb) IS 'internal: the queue that workers claim a task from';

-- The rows that a flow of a definition consists of, but for those it has.
CREATE FUNCTION pawl_saga._add_atoms(flow uuid, definition uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    INSERT INTO pawl_saga.tasks (flow_uuid, node, name, blockers, priority, queue, execute, revert, timeout,
        revert_timeout, signal, wait, max_losses, traceparent, tracestate)
    SELECT flow, n.node, n.name, n.waits_for, n.priority,
           pawl_saga._queue(n.written), coalesce(n.written ->> 'execute', n.name), n.written ->> 'revert',
           make_interval(secs => (n.written ->> 'timeout_seconds')::double precision),
           make_interval(secs => (n.written ->> 'revert_timeout_seconds')::double precision),
           n.written ->> 'signal', make_interval(secs => (n.written ->> 'wait_seconds')::double precision),
           coalesce((n.written ->> 'max_losses')::integer, 20),
           f.traceparent, f.tracestate
      FROM pawl_saga.nodes n JOIN pawl_saga.flows f ON f.flow_uuid = flow
      WHERE n.definition_uuid = definition AND n.kind = 'task'
       AND NOT EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.flow_uuid = flow AND t.node = n.node) ORDER BY n.node;
    INSERT INTO pawl_saga.retries (flow_uuid, node, name, blockers, controller, traceparent, tracestate)
    SELECT flow, n.node, n.name, n.waits_for, n.written, f.traceparent, f.tracestate
      FROM pawl_saga.nodes n JOIN pawl_saga.flows f ON f.flow_uuid = flow
      WHERE n.definition_uuid = definition AND n.kind = 'retry'
       AND NOT EXISTS (SELECT FROM pawl_saga.retries r WHERE r.flow_uuid = flow AND r.node = n.node) ORDER BY n.node;
    INSERT INTO pawl_saga.junctions (flow_uuid, node, blockers)
    SELECT flow, n.node, n.waits_for FROM pawl_saga.nodes n
    WHERE n.definition_uuid = definition AND n.kind IN ('entry', 'end') ORDER BY n.node;
END
$function$;
COMMENT ON FUNCTION pawl_saga._add_atoms(uuid, uuid) IS 'internal: makes the atoms, entries and ends of a flow';

-- SECURITY DEFINER: roles that start flows cannot write what these consist of.
CREATE FUNCTION pawl_saga._fill_flow(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    f pawl_saga.flows;
BEGIN
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow FOR NO KEY UPDATE;
    IF FOUND AND f.run <= 1 AND NOT EXISTS (SELECT FROM pawl_saga.junctions j WHERE j.flow_uuid = flow)
        AND NOT EXISTS (SELECT FROM pawl_saga.atoms a WHERE a.flow_uuid = flow) THEN
        PERFORM pawl_saga._add_atoms(flow, f.definition_uuid);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._fill_flow(uuid) IS
'internal: makes the atoms, entries and ends of a new flow, those of its definition, if it has none yet';

CREATE FUNCTION pawl_saga.create_flow(definition uuid, inputs jsonb DEFAULT '{}', defer_reverts boolean DEFAULT false,
    never_resolve boolean DEFAULT false, flow uuid DEFAULT NULL, correlation_id uuid DEFAULT NULL)
RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    made uuid := coalesce(flow, pawl.uuid_v7());
    what pawl_saga.definitions;
BEGIN
    SELECT d.* INTO what FROM pawl_saga.definitions d WHERE d.definition_uuid = definition AND d.flow_uuid IS NULL;
    IF NOT FOUND THEN
        PERFORM pawl.raise('PW008', format('unknown definition %s', definition), NULL, 'select pawl_saga.define(...)');
    END IF;
    IF jsonb_typeof(inputs) IS DISTINCT FROM 'object' THEN
        PERFORM pawl.raise('22023', 'inputs must be a JSON object', NULL, '{"name": value}');
    END IF;
    IF defer_reverts IS NULL OR never_resolve IS NULL THEN
        PERFORM pawl.raise('22004', format('%s must not be null',
            CASE WHEN defer_reverts IS NULL THEN 'defer_reverts' ELSE 'never_resolve' END), NULL, 'true or false');
    END IF;
    INSERT INTO pawl_saga.flows (flow_uuid, definition_uuid, name, inputs, defer_reverts, never_resolve, correlation_id)
    VALUES (made, definition, what.name, create_flow.inputs, create_flow.defer_reverts, create_flow.never_resolve,
        coalesce(create_flow.correlation_id, pawl.uuid_v7()))
    ON CONFLICT (flow_uuid) DO NOTHING;
    IF NOT FOUND THEN
        PERFORM pawl.raise('23505', format('flow %s already exists', made),
            (SELECT format('It is flow "%s", in state %s.', f.name, f.state) FROM pawl_saga.flows f
                WHERE f.flow_uuid = made), 'omit the id to get a new one');
    END IF;
    PERFORM pawl_saga._fill_flow(made);
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl_saga.create_flow(uuid, jsonb, boolean, boolean, uuid, uuid) IS
'Creates a PENDING flow of a definition and returns its id.
definition: its id. inputs: {"name": value}; default {}. defer_reverts: a REVERT asks the outer retry controllers,
and reverts everything in the end; default false. never_resolve: a failure ends the flow in FAILURE; default false.
flow: its id; default null: a new one. correlation_id: default null: a new one.
Errors: PW008 unknown definition; 22023 inputs is not an object; 22004 null; 23505 the flow exists. Privileges:
pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.create_flow(d.definition_uuid, ''{"to": "Rome"}'') FROM pawl_saga.definitions d WHERE
d.name = ''trip''';

-- The newest definition of a name.
CREATE FUNCTION pawl_saga.start(name text, inputs jsonb DEFAULT '{}', defer_reverts boolean DEFAULT false,
    never_resolve boolean DEFAULT false, version integer DEFAULT NULL)
RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    definition uuid := (SELECT d.definition_uuid FROM pawl_saga.definitions d
        WHERE d.name = start.name AND d.flow_uuid IS NULL AND (start.version IS NULL OR d.version = start.version)
                         ORDER BY d.version DESC LIMIT 1);
    made uuid;
BEGIN
    IF definition IS NULL THEN
        PERFORM pawl.raise('PW008', format('unknown flow "%s"%s', name, coalesce(' version ' || version, '')), NULL,
            coalesce((SELECT 'defined: ' || string_agg(quote_literal(k.name), ', ' ORDER BY k.name)
                        FROM (SELECT DISTINCT x.name FROM pawl_saga.definitions x WHERE x.flow_uuid IS NULL
                            ORDER BY x.name LIMIT 20) k), 'select pawl_saga.define(...)'));
    END IF;
    made := pawl_saga.create_flow(definition, inputs, defer_reverts, never_resolve);
    PERFORM pawl_saga.run(made);
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl_saga.start(text, jsonb, boolean, boolean, integer) IS
'Creates a flow of a definition, runs it and returns its id.
name: of the definition. inputs, defer_reverts, never_resolve: as in pawl_saga.create_flow. version: default null:
the newest.
Errors: PW008 unknown flow; 22023 inputs is not an object, or values are missing; 22004 null. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT pawl_saga.start(''trip'', ''{"to": "Rome"}'')';

CREATE FUNCTION pawl_saga._lock(flow uuid) RETURNS pawl_saga.flows
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    f pawl_saga.flows;
BEGIN
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no flow %s', flow));
    END IF;
    RETURN f;
END
$function$;
COMMENT ON FUNCTION pawl_saga._lock(uuid) IS 'internal: a flow, locked; P0002: there is none';

-- 22023 if a name is required that no atom can provide.
CREATE FUNCTION pawl_saga.validate(flow uuid) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    missing text;
BEGIN
    SELECT string_agg(format('"%s" of "%s"', p.name, n.name), ', ' ORDER BY p.node, p.parameter) INTO missing
      FROM pawl_saga.flows f JOIN pawl_saga.parameters p ON p.definition_uuid = f.definition_uuid
      JOIN pawl_saga.nodes n ON n.definition_uuid = p.definition_uuid AND n.node = p.node
     WHERE f.flow_uuid = flow AND NOT p.optional AND NOT p.is_injected AND p.providers = '{}' AND NOT f.inputs ? p.name;
    IF missing IS NOT NULL THEN
        PERFORM pawl.raise('22023', 'required values are not provided', format('Missing values are %s.', missing),
            'inputs => ''{"name": value}''');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga.validate(uuid) IS
'Checks that every value that atoms of a flow require is provided. flow: its id.
Errors: 22023 values are missing. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_saga.validate(''01890000-0000-7000-8000-000000000001'')';

CREATE FUNCTION pawl_saga.run(flow uuid) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
AS $function$
DECLARE
    f pawl_saga.flows := pawl_saga._lock(flow);
BEGIN
    IF f.state IN ('RUNNING', 'SUSPENDING') THEN
        PERFORM pawl.raise('55000', 'the flow is already running', format('Flow %s is in state "%s".', flow, f.state),
            format('select pawl_saga.resume(%L)', flow));
    END IF;
    IF f.state = 'REVERTED' THEN
        IF EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.flow_uuid = flow AND t.state = 'SUCCESS') THEN
            PERFORM pawl.raise('55000', 'a rerun would discard work that was not reverted',
                format('Flow %s: tasks that were not reverted are in SUCCESS.', flow),
                format('select pawl_saga.reset(%L, ''...'')', flow));
        END IF;
        UPDATE pawl_saga.flows x SET state = 'PENDING' WHERE x.flow_uuid = flow;
    ELSIF f.state = 'RESUMING' THEN
        UPDATE pawl_saga.flows x SET state = 'SUSPENDED' WHERE x.flow_uuid = flow;
    END IF;
    UPDATE pawl_saga.flows x SET state = 'RUNNING' WHERE x.flow_uuid = flow;
    RETURN (SELECT x.state FROM pawl_saga.flows x WHERE x.flow_uuid = flow);
END
$function$;
COMMENT ON FUNCTION pawl_saga.run(uuid) IS
'Runs a flow and returns its state: a PENDING flow starts, a SUSPENDED one continues, a SUCCESS or FAILURE one does
what can still be done, a REVERTED one starts again. flow: its id.
Errors: 55000 it is running, or was reverted only in part; 22023 values are missing; P0002 no such flow. Privileges:
pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.run(''01890000-0000-7000-8000-000000000001'')';

CREATE FUNCTION pawl_saga.suspend(flow uuid) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
AS $function$
DECLARE
    f pawl_saga.flows := pawl_saga._lock(flow);
BEGIN
    IF f.state = 'RUNNING' THEN
        UPDATE pawl_saga.flows x SET state = 'SUSPENDING' WHERE x.flow_uuid = flow;
    END IF;
    RETURN (SELECT x.state FROM pawl_saga.flows x WHERE x.flow_uuid = flow);
END
$function$;
COMMENT ON FUNCTION pawl_saga.suspend(uuid) IS
'Suspends a running flow: running work finishes, no other starts. Returns its state: SUSPENDING, or SUSPENDED if no
work was running; other flows do not change. flow: its id.
Errors: P0002 no such flow. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.suspend(''01890000-0000-7000-8000-000000000001'')';

CREATE FUNCTION pawl_saga.resume(flow uuid) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
AS $function$
DECLARE
    f pawl_saga.flows := pawl_saga._lock(flow);
BEGIN
    IF f.state IN ('RUNNING', 'SUSPENDING') THEN
        UPDATE pawl_saga.flows x SET state = 'RESUMING' WHERE x.flow_uuid = flow;
    END IF;
    IF f.state IN ('RUNNING', 'SUSPENDING', 'RESUMING') THEN
        UPDATE pawl_saga.flows x SET state = 'SUSPENDED' WHERE x.flow_uuid = flow;
    ELSIF f.state <> 'SUSPENDED' THEN
        RETURN f.state;
    END IF;
    RETURN pawl_saga.run(flow);
END
$function$;
COMMENT ON FUNCTION pawl_saga.resume(uuid) IS
'Resumes a suspended flow and returns its state. A flow that is RUNNING or SUSPENDING is recovered as after a crash:
it is counted again, and open decisions are made; running work stays with its workers. PENDING and finished flows
do not change. flow: its id.
Errors: P0002 no such flow. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.resume(''01890000-0000-7000-8000-000000000001'')';

CREATE FUNCTION pawl_saga.reset(flow uuid, reason text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.metadata = ''
AS $function$
DECLARE
    f pawl_saga.flows := pawl_saga._lock(flow);
BEGIN
    PERFORM set_config('pawl.metadata', jsonb_build_object('reason', reason, 'actor', session_user)::text, true);
    UPDATE pawl_saga.flows x SET state = 'PENDING' WHERE x.flow_uuid = flow;
    RETURN (SELECT x.state FROM pawl_saga.flows x WHERE x.flow_uuid = flow);
END
$function$;
COMMENT ON FUNCTION pawl_saga.reset(uuid, text) IS
'Sets a flow that is SUCCESS or REVERTED, and all of its atoms, to PENDING, and returns its state; the log is kept.
flow: its id. reason: a text for the log.
Errors: PW001 it is in another state; P0002 no such flow; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_saga.reset(''01890000-0000-7000-8000-000000000001'', ''again with other prices'')';

CREATE FUNCTION pawl_saga._failed_revert(flow uuid, task text) RETURNS pawl_saga.tasks
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    t pawl_saga.tasks;
BEGIN
    PERFORM pawl_saga._lock(flow);
    SELECT x.* INTO t FROM pawl_saga.tasks x WHERE x.flow_uuid = flow AND x.name = task FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no task "%s" in flow %s', task, flow));
    END IF;
    IF t.state <> 'REVERT_FAILURE' THEN
        PERFORM pawl.raise('55000', format('the revert of task "%s" has not failed', task),
            format('Flow %s: it is in state "%s".', flow, t.state));
    END IF;
    RETURN t;
END
$function$;
COMMENT ON FUNCTION pawl_saga._failed_revert(uuid, text) IS
'internal: a task whose revert failed, locked; P0002, 55000';

CREATE FUNCTION pawl_saga.resolve(flow uuid, task text, reason text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.metadata = ''
AS $function$
DECLARE
    t pawl_saga.tasks := pawl_saga._failed_revert(flow, task);
BEGIN
    IF coalesce(reason, '') = '' THEN
        PERFORM pawl.raise('22004', 'reason is required to resolve a revert', NULL, 'reason => ''...''');
    END IF;
    PERFORM set_config('pawl.event', 'resolve', true),
        set_config('pawl.metadata', jsonb_build_object('reason', reason, 'actor', session_user)::text, true);
    UPDATE pawl_saga.tasks x SET state = 'REVERTED' WHERE x.flow_uuid = flow AND x.node = t.node;
END
$function$;
COMMENT ON FUNCTION pawl_saga.resolve(uuid, text, text) IS
'Declares a task whose revert failed as reverted; pawl_saga.run continues the flow. flow: its id. task: its name.
reason: a text.
Errors: 55000 its revert has not failed; P0002 no such flow or task; 22004 reason is null; 42501 not a
pawl_operator. Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl_saga.resolve(''01890000-0000-7000-8000-000000000001'', ''book'', ''cancelled by phone'')';

-- SECURITY DEFINER: operators do not write revert_again. The task can be claimed when the flow is counted anew.
CREATE FUNCTION pawl_saga.retry_revert(flow uuid, task text, reason text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.metadata = ''
AS $function$
DECLARE
    t pawl_saga.tasks := pawl_saga._failed_revert(flow, task);
BEGIN
    IF (SELECT f.state FROM pawl_saga.flows f WHERE f.flow_uuid = flow) <> 'FAILURE' THEN
        PERFORM pawl.raise('55000', 'the flow has not ended yet', NULL,
            format('select pawl_saga.retry_revert(%L, %L) when it is in FAILURE', flow, task));
    END IF;
    PERFORM set_config('pawl.metadata', jsonb_build_object('reason', reason, 'actor', session_user)::text, true);
    UPDATE pawl_saga.tasks x SET revert_again = true WHERE x.flow_uuid = flow AND x.node = t.node;
    UPDATE pawl_saga.flows f SET state = 'RUNNING' WHERE f.flow_uuid = flow;
    RETURN (SELECT f.state FROM pawl_saga.flows f WHERE f.flow_uuid = flow);
END
$function$;
COMMENT ON FUNCTION pawl_saga.retry_revert(uuid, text, text) IS
'Retries a failed revert, continues the flow and returns its state. flow: its id. task: its name. reason: a text;
default null.
Errors: 55000 its revert has not failed, or the flow has not ended; P0002 no such flow or task; 42501 not a
pawl_operator. Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl_saga.retry_revert(''01890000-0000-7000-8000-000000000001'', ''book'')';
