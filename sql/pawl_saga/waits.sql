-- Tasks without a handler, which wait for a signal or for a time. They wait in PENDING, so their flow can be suspended
-- at once.

-- A task whose deciders have agreed may run now: it becomes claimable, or begins to wait.
CREATE FUNCTION pawl_saga._begin_task(t pawl_saga.tasks) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    came pawl_saga.signals;
BEGIN
    IF t.signal IS NULL AND t.wait IS NULL THEN
        UPDATE pawl_saga.tasks x SET due_at = NULL WHERE x.flow_uuid = t.flow_uuid AND x.node = t.node;
        RETURN;
    END IF;
    IF t.wait_until IS NULL THEN
        t.wait_until := coalesce(clock_timestamp() + coalesce(t.wait, t.timeout), 'infinity');
        UPDATE pawl_saga.tasks x SET wait_until = t.wait_until WHERE x.flow_uuid = t.flow_uuid AND x.node = t.node;
    END IF;
    IF t.signal IS NOT NULL THEN
        PERFORM pawl_saga._check_snapshot(t.flow_uuid);
        SELECT s.* INTO came FROM pawl_saga.signals s WHERE s.flow_uuid = t.flow_uuid AND s.name = t.signal
            AND s.taken_at IS NULL ORDER BY s.signal_uuid LIMIT 1 FOR UPDATE;
        IF FOUND THEN
            UPDATE pawl_saga.signals s SET taken_at = clock_timestamp(), taken_by = t.node
                WHERE s.flow_uuid = t.flow_uuid AND s.signal_uuid = came.signal_uuid;
            PERFORM pawl_saga._end_wait(t, came.payload, NULL);
            RETURN;
        END IF;
    END IF;
    IF t.wait_until > clock_timestamp() THEN
        RETURN;
    ELSIF t.wait IS NULL THEN
        PERFORM pawl_saga._end_wait(t, NULL,
            jsonb_build_object('message', format('signal "%s" did not arrive in time', t.signal), 'type', 'timeout'));
    ELSE
        PERFORM pawl_saga._end_wait(t, 'null', NULL);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._begin_task(pawl_saga.tasks) IS
'internal: a careful task that nothing blocks can be claimed, or waits';

-- The state changes that a worker would make.
CREATE FUNCTION pawl_saga._end_wait(t pawl_saga.tasks, outcome jsonb, problem jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.processor = '019b0000-0000-7000-8000-00000005a9a0'
SET pawl.event = ''
SET pawl.token = ''
AS $function$
BEGIN
    UPDATE pawl_saga.tasks x SET due_at = NULL WHERE x.flow_uuid = t.flow_uuid AND x.node = t.node;
    UPDATE pawl_saga.tasks x SET state = 'RUNNING', worker = pawl_saga.conductor()
        WHERE x.flow_uuid = t.flow_uuid AND x.node = t.node;
    UPDATE pawl_saga.tasks x
        SET state = CASE WHEN problem IS NULL THEN 'SUCCESS' ELSE 'FAILURE' END, result = outcome, failure = problem
     WHERE x.flow_uuid = t.flow_uuid AND x.node = t.node;
END
$function$;
COMMENT ON FUNCTION pawl_saga._end_wait(pawl_saga.tasks, jsonb, jsonb) IS 'internal: a task has waited long enough';

-- The outermost follow-up of a state change checks whether the flow has ended, when everything else is done. That one
-- is under way is known to the backend alone: a setting could be set by any session.
CREATE FUNCTION pawl_saga._follow(leave_questions boolean DEFAULT false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_follow';
COMMENT ON FUNCTION pawl_saga._follow(boolean) IS
'internal: true: the caller is the outermost follow-up and calls pawl_saga._followed at its end';

CREATE FUNCTION pawl_saga._followed() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_followed';
COMMENT ON FUNCTION pawl_saga._followed() IS 'internal: the outermost follow-up is done';

-- A statement counts the atoms that it ended when its row triggers have run. These can be a user's, and touch flows:
-- see src/packs/saga/uncounted.hpp.
CREATE FUNCTION pawl_saga._atoms_change() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_saga_atoms_change';
COMMENT ON FUNCTION pawl_saga._atoms_change() IS 'internal: a statement begins that updates atoms';

CREATE FUNCTION pawl_saga._is_uncounted(flow uuid) RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_is_uncounted';
COMMENT ON FUNCTION pawl_saga._is_uncounted(uuid) IS
'internal: whether a statement under way has ended atoms of a flow that are not counted yet';

CREATE FUNCTION pawl_saga._changed(flow uuid) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_changed';
COMMENT ON FUNCTION pawl_saga._changed(uuid) IS
'internal: a flow changed its state or is counted anew, of which statements under way must know';

CREATE FUNCTION pawl_saga._leave_end(flow uuid) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_leave_end';
COMMENT ON FUNCTION pawl_saga._leave_end(uuid) IS
'internal: the outermost follow-up, or the next one, decides whether the flow has ended';

CREATE FUNCTION pawl_saga._take_ends() RETURNS uuid[]
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_saga_take_ends';
COMMENT ON FUNCTION pawl_saga._take_ends() IS 'internal: the flows whose ends were left, and can be decided now';

-- Called where no follow-up is under way. SECURITY DEFINER: as the follow-ups of atoms.
CREATE FUNCTION pawl_saga._decide_ends() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_saga._follow(true);
    PERFORM pawl_saga._finish('{}');
    PERFORM pawl_saga._followed();
END
$function$;
COMMENT ON FUNCTION pawl_saga._decide_ends() IS 'internal: ends flows whose ends were left';

-- Looks at nodes of a flow again, and whether it has ended by that.
CREATE FUNCTION pawl_saga._look_again(flow uuid, nodes integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    each integer;
    outermost constant boolean := pawl_saga._follow(true);
BEGIN
    PERFORM pawl_saga._check_snapshot(flow);
    FOREACH each IN ARRAY nodes LOOP
        PERFORM pawl_saga._examine(flow, each);
    END LOOP;
    IF outermost THEN
        PERFORM pawl_saga._finish(ARRAY[flow]);
        PERFORM pawl_saga._followed();
    ELSE
        PERFORM pawl_saga._leave_end(flow);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._look_again(uuid, integer[]) IS
'internal: begins what can begin among some nodes of a flow that is locked';

-- SECURITY DEFINER: as the follow-ups of atoms.
CREATE FUNCTION pawl_saga._signal_came() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.signals');
    waiting integer[];
BEGIN
    -- a session that makes a task ready holds this lock: it sees the signal, or the task is seen here
    PERFORM FROM pawl_saga.flows f WHERE f.flow_uuid = NEW.flow_uuid FOR NO KEY UPDATE;
    PERFORM pawl_saga._check_snapshot(NEW.flow_uuid);
    SELECT array_agg(t.node ORDER BY t.priority DESC, t.node) INTO waiting FROM pawl_saga.tasks t
     WHERE t.flow_uuid = NEW.flow_uuid AND t.signal = NEW.name AND t.wait_until IS NOT NULL AND t.blockers = 0
         AND t.state = 'PENDING' AND t.intention = 'EXECUTE';
    IF waiting IS NOT NULL AND NEW.taken_at IS NULL THEN
        PERFORM pawl_saga._look_again(NEW.flow_uuid, waiting);
    ELSE
        -- so that a session with a snapshot from before finds that something has changed
        UPDATE pawl_saga.junctions j SET blockers = j.blockers
         WHERE j.flow_uuid = NEW.flow_uuid
           AND j.node = (SELECT min(x.node) FROM pawl_saga.junctions x WHERE x.flow_uuid = NEW.flow_uuid);
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_saga._signal_came() IS 'internal: gives a signal to the task that waits for it';
CREATE TRIGGER came AFTER INSERT ON pawl_saga.signals FOR EACH ROW EXECUTE FUNCTION pawl_saga._signal_came();

-- What is in an index.
CREATE FUNCTION pawl_saga._check_name(value text, argument text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF value IS NULL THEN
        PERFORM pawl.raise('22004', format('%s must not be null', argument), NULL, format('%s => ''...''', argument));
    ELSIF octet_length(value) NOT BETWEEN 1 AND 1000 THEN
        PERFORM pawl.raise('22023', format('%s must have 1 to 1000 bytes', argument),
            format('It has %s.', octet_length(value)), format('%s => ''...''', argument));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._check_name(text, text) IS
'internal: rejects a text that is null (22004), empty or too long for an index (22023)';

CREATE FUNCTION pawl_saga.signal(flow uuid, name text, payload jsonb DEFAULT 'null') RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    made uuid := pawl.uuid_v7();
BEGIN
    IF coalesce(name, '') = '' THEN
        PERFORM pawl.raise('22004', 'name must not be empty', NULL, 'name => ''approved''');
    END IF;
    PERFORM pawl_saga._check_name(name, 'name');
    PERFORM FROM pawl_saga.flows f WHERE f.flow_uuid = flow FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no flow %s', flow));
    END IF;
    INSERT INTO pawl_saga.signals (flow_uuid, signal_uuid, name, payload)
        VALUES (flow, made, signal.name, coalesce(signal.payload, 'null'));
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl_saga.signal(uuid, text, jsonb) IS
'Sends a signal to a flow and returns the id of the signal: one task that waits for it succeeds with the payload as
its result; if none waits, the signal is kept for the next that does.
flow: its id. name: of the signal. payload: a JSON value; default null.
Errors: P0002 no such flow; 22004 name is empty; 22023 it has more than 1000 bytes. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT pawl_saga.signal(''01890000-0000-7000-8000-000000000001'', ''approved'', ''{"by": "Ada"}'')';
