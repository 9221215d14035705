-- What follows from state changes, however they were made: the trigger looks at all rows of a statement at once.

-- Workers write results only together with the state that they belong to; they cannot ignore or restart tasks.
CREATE FUNCTION pawl_saga._task_kept() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.tasks');
BEGIN
    IF pg_has_role('pawl_operator', 'MEMBER') THEN
        RETURN NEW;
    ELSIF NEW.state IS DISTINCT FROM OLD.state THEN
        PERFORM pawl.raise('42501', format('permission denied to change task "%s" to %s', OLD.name, NEW.state),
            'This follows from state changes of other atoms and of the flow.');
    END IF;
    IF OLD.state IN ('RUNNING', 'REVERTING')
       AND (OLD.result, OLD.failure, OLD.revert_result, OLD.revert_failure) IS NOT DISTINCT FROM (NEW.result,
           NEW.failure, NEW.revert_result, NEW.revert_failure) THEN
        -- progress: only by the owner, as a heartbeat
        IF OLD.worker IS NULL OR OLD.worker IS DISTINCT FROM nullif(current_setting('pawl.processor', true), '') THEN
            PERFORM pawl.raise('PW004', format('task "%s" belongs to another processor', OLD.name),
                format('Task %s of flow %s: only its owner can change its progress.', OLD.node, OLD.flow_uuid));
        ELSIF OLD.lease_until <= clock_timestamp() THEN
            PERFORM pawl.raise('PW005', format('the lease of task "%s" has expired', OLD.name),
                format('Task %s of flow %s: the lease expired at %s.', OLD.node, OLD.flow_uuid, OLD.lease_until));
        END IF;
        RETURN NEW;
    END IF;
    PERFORM pawl.raise('42501', format('permission denied to change the outcome of task "%s"', OLD.name),
        format('It is in state "%s": an outcome is written in the UPDATE that changes its state.', OLD.state),
        'select pawl_saga.report(...)');
END
$function$;
COMMENT ON FUNCTION pawl_saga._task_kept() IS
'internal: keeps what workers may not change though they may write the column; 42501, PW004, PW005';

-- Only roles that may run SQL functions begin and end their work.
CREATE FUNCTION pawl_saga._runs_sql() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT has_function_privilege(current_user, 'pawl_saga.run_sql_tasks(integer)', 'EXECUTE')
$function$;
COMMENT ON FUNCTION pawl_saga._runs_sql() IS 'internal: the current user may run SQL functions';

-- pawl.reap ends an expired lease, and every role may call it.
CREATE FUNCTION pawl_saga._sql_task_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.tasks');
BEGIN
    IF (OLD.lease_until <= clock_timestamp() AND NEW.state NOT IN ('SUCCESS', 'REVERTED')
            AND coalesce(NEW.worker, OLD.worker) = OLD.worker
            AND coalesce(NEW.lease_until, OLD.lease_until) = OLD.lease_until) IS NOT TRUE THEN
        PERFORM pawl.raise('42501', format('permission denied to change task "%s" of flow %s', NEW.name,
            NEW.flow_uuid), 'Its handler is a SQL function; only roles that may run these begin and end it.',
            'select * from pawl_saga.run_sql_tasks()');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_saga._sql_task_by_sql() IS
'internal: rejects changes of tasks of SQL functions by roles that may not run these; 42501';

-- A lost worker is the only move of a task from a state to itself.
CREATE FUNCTION pawl_saga._worker_lost() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.tasks');
BEGIN
    IF OLD.lease_until <= clock_timestamp() THEN
        NEW.losses := OLD.losses + 1;
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_saga._worker_lost() IS 'internal: counts the workers that were lost with a task';

-- Sets the columns that a task stores about the state that it enters, and calls those of the functions above that a row
-- needs (src/packs/saga/task_trigger.cpp).
CREATE FUNCTION pawl_saga._task_written() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_saga_task_written';
COMMENT ON FUNCTION pawl_saga._task_written() IS 'internal: the checks of an updated task, and what it remembers';
CREATE TRIGGER written BEFORE UPDATE ON pawl_saga.tasks
    FOR EACH ROW EXECUTE FUNCTION pawl_saga._task_written();

-- What follows from the ends of atoms, beside the counting: nodes that nothing blocks any more are examined, failures
-- are decided. The atoms are ordered by flow and node. of_tasks: they are tasks, else retries. by_duty: a failure among
-- them is no report of its worker.
CREATE FUNCTION pawl_saga._follow_on(moved_flows uuid[], moved_nodes integer[], moved_states text[],
    moved_intentions text[], moved_failures jsonb[], of_tasks boolean, by_duty boolean, ready_flows uuid[],
    ready_nodes integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    ready record;
    failed record;
BEGIN
    FOR ready IN SELECT r.flow, r.node FROM unnest(ready_flows, ready_nodes) r(flow, node) LOOP
        PERFORM pawl_saga._examine(ready.flow, ready.node);
    END LOOP;
    IF moved_states && '{FAILURE,REVERT_FAILURE}' THEN
        IF by_duty THEN
            PERFORM pawl_saga._follow(true);
        END IF;
        FOR failed IN
            SELECT m.flow, m.node, m.state, m.failure
            FROM unnest(moved_flows, moved_nodes, moved_states, moved_failures) m(flow, node, state, failure)
              JOIN pawl_saga.flows f ON f.flow_uuid = m.flow AND f.state IN ('RUNNING', 'SUSPENDING')
              WHERE m.state IN ('FAILURE', 'REVERT_FAILURE')
                -- a trigger may have gone on with it
                AND EXISTS (SELECT FROM pawl_saga.atoms a
                    WHERE a.flow_uuid = m.flow AND a.node = m.node AND a.state = m.state)
        LOOP
            IF failed.state = 'FAILURE' THEN
                PERFORM pawl_saga._decide(failed.flow, failed.node, failed.failure);
            ELSE
                PERFORM pawl_saga._break(failed.flow, NULL);
            END IF;
        END LOOP;
    END IF;
    -- atoms that finished after it was decided that they are reverted
    IF of_tasks AND moved_intentions && '{REVERT}' AND moved_states && '{SUCCESS,FAILURE}' THEN
        UPDATE pawl_saga.tasks t SET due_at = NULL
          FROM unnest(moved_flows, moved_nodes) m(flow, node)
          JOIN pawl_saga.flows f ON f.flow_uuid = m.flow AND f.state = 'RUNNING' AND NOT f.broken
         WHERE t.flow_uuid = m.flow AND t.node = m.node AND t.intention = 'REVERT' AND t.blockers = 0
             AND t.due_at IS NOT NULL
           AND (t.state = 'SUCCESS' OR t.state = 'FAILURE' AND pawl_saga._is_decided(t.flow_uuid, t.node));
    END IF;
    IF NOT of_tasks AND moved_intentions && '{REVERT}' AND moved_states && '{SUCCESS,FAILURE}' THEN
        PERFORM pawl_saga._examine(m.flow, m.node)
            FROM unnest(moved_flows, moved_nodes, moved_states) m(flow, node, state)
            WHERE m.state IN ('SUCCESS', 'FAILURE');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._follow_on(uuid[], integer[], text[], text[], jsonb[], boolean, boolean, uuid[],
    integer[]) IS
'internal: examines the nodes that became ready by the ends of atoms, and decides about failures';

-- SECURITY DEFINER: roles that report a result may not write the counters and decisions that follow from it. ended:
-- what the trigger below found.
CREATE FUNCTION pawl_saga._follow_up(ended internal) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'pawl_saga_follow_up';
COMMENT ON FUNCTION pawl_saga._follow_up(internal) IS 'internal: what follows from the ends of atoms';

-- Calls pawl_saga._follow_up when a statement ended atoms.
CREATE FUNCTION pawl_saga._atoms_ended() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_saga_atoms_ended';
COMMENT ON FUNCTION pawl_saga._atoms_ended() IS 'internal: what follows from the state changes of atoms';

CREATE TRIGGER follow_ups_later BEFORE UPDATE ON pawl_saga.tasks
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_saga._atoms_change();
CREATE TRIGGER follow_ups_later BEFORE UPDATE ON pawl_saga.retries
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_saga._atoms_change();
CREATE TRIGGER follow_ups AFTER UPDATE ON pawl_saga.tasks REFERENCING OLD TABLE AS old_atoms NEW TABLE AS new_atoms
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_saga._atoms_ended();
CREATE TRIGGER follow_ups AFTER UPDATE ON pawl_saga.retries REFERENCING OLD TABLE AS old_atoms NEW TABLE AS new_atoms
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_saga._atoms_ended();

-- The state that a flow without work in progress comes to; null: it waits for a time, a signal or an answer, or atoms
-- have ended that are not counted yet; READY: something can be begun, and was not.
CREATE FUNCTION pawl_saga._outcome(f pawl_saga.flows) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    waits boolean;
BEGIN
    IF pawl_saga._is_uncounted(f.flow_uuid) THEN
        RETURN NULL;
    END IF;
    IF f.broken THEN
        RETURN 'FAILURE';
    END IF;
    -- first what is ready: of all that pawl_saga._examine and a claim would begin
    SELECT bool_and(x.later) INTO waits
      FROM (SELECT r.due_at IS NOT NULL AND r.intention = 'RETRY' AS later FROM pawl_saga.retries r
          WHERE r.flow_uuid = f.flow_uuid AND r.blockers = 0 AND NOT r.dropped
               AND (r.intention = 'EXECUTE' AND r.state IN ('PENDING', 'RUNNING', 'RETRYING') OR r.intention = 'RETRY'
                   AND r.state IN ('SUCCESS', 'RETRYING')
                    OR r.intention = 'REVERT' AND r.state IN ('SUCCESS', 'FAILURE', 'REVERTING', 'RUNNING', 'RETRYING'))
            UNION ALL
            SELECT t.wait_until IS NOT NULL AND t.state = 'PENDING' FROM pawl_saga.tasks t
                WHERE t.flow_uuid = f.flow_uuid AND t.blockers = 0 AND NOT t.dropped
               AND (t.intention = 'EXECUTE' AND t.state = 'PENDING' OR t.intention = 'REVERT'
                   AND (t.state IN ('SUCCESS', 'FAILURE') OR t.state = 'REVERT_FAILURE' AND t.revert_again))) x;
    IF waits IS NOT NULL THEN
        -- a question can end this wait in any way
        IF EXISTS (SELECT FROM pawl_saga.questions q WHERE q.flow_uuid = f.flow_uuid) THEN
            RETURN NULL;
        END IF;
        RETURN CASE WHEN f.state = 'SUSPENDING' THEN 'SUSPENDED' WHEN NOT waits THEN 'READY' END;
    END IF;
    IF EXISTS (SELECT FROM pawl_saga.junctions j
        JOIN pawl_saga.definitions d ON d.definition_uuid = f.definition_uuid AND j.node = d.last_node
                WHERE j.flow_uuid = f.flow_uuid AND NOT j.backward AND j.blockers = 0) THEN
        RETURN 'SUCCESS';
    END IF;
    IF EXISTS (SELECT FROM pawl_saga.questions q WHERE q.flow_uuid = f.flow_uuid) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.flow_uuid = f.flow_uuid AND NOT t.dropped
                  AND (t.state IN ('FAILURE', 'REVERT_FAILURE', 'RUNNING', 'REVERTING') OR t.state = 'SUCCESS'
                      AND t.intention = 'REVERT'))
       OR EXISTS (SELECT FROM pawl_saga.retries r WHERE r.flow_uuid = f.flow_uuid AND NOT r.dropped
                     AND (r.state IN ('FAILURE', 'REVERT_FAILURE', 'RUNNING', 'REVERTING', 'RETRYING')
           OR r.state = 'SUCCESS' AND r.intention IN ('REVERT', 'RETRY'))) THEN
        RETURN 'FAILURE';
    END IF;
    -- nothing is to be reverted, and not all is done: the counters do not match the states
    RETURN CASE WHEN f.undoing OR EXISTS (SELECT FROM pawl_saga.atoms a WHERE a.flow_uuid = f.flow_uuid
            AND (a.intention = 'REVERT' OR a.state = 'REVERTED')) THEN 'REVERTED' ELSE 'READY' END;
END
$function$;
COMMENT ON FUNCTION pawl_saga._outcome(pawl_saga.flows) IS
'internal: the state that a flow ends in when no work is in progress';

CREATE FUNCTION pawl_saga._finish(flows uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    f pawl_saga.flows;
    flow uuid;
    outcome text;
BEGIN
    FOREACH flow IN ARRAY flows LOOP
        IF pawl_saga._is_uncounted(flow) THEN
            PERFORM pawl_saga._leave_end(flow);
            CONTINUE;
        END IF;
        IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
            PERFORM pawl_saga._check_progress(ARRAY[flow]);
        END IF;
        -- the last turn ends the flow, whatever it finds
        FOR turn IN 1..10 LOOP
            SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow AND x.state IN ('RUNNING', 'SUSPENDING')
               AND NOT EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.flow_uuid = x.flow_uuid
                                  AND (t.state = 'RUNNING' OR t.state = 'REVERTING' OR (t.due_at IS NULL
                                      AND t.state = ANY ('{PENDING,SUCCESS,FAILURE,REVERT_FAILURE}'::text[]))));
            EXIT WHEN NOT FOUND;
            outcome := pawl_saga._outcome(f);
            IF outcome = 'READY' THEN
                IF turn < 10 THEN
                    PERFORM pawl_saga._recover(flow);
                    CONTINUE;
                END IF;
                PERFORM pawl_saga._break(flow, '{"message": "the flow cannot continue"}');
                outcome := 'FAILURE';
            END IF;
            IF outcome IS NOT NULL THEN
                UPDATE pawl_saga.flows x SET state = outcome WHERE x.flow_uuid = flow;
            END IF;
            EXIT;
        END LOOP;
    END LOOP;
    -- what follow-ups have left that were not the outermost
    flows := pawl_saga._take_ends();
    IF flows <> '{}' THEN
        PERFORM pawl_saga._finish(flows);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._finish(uuid[]) IS
'internal: ends flows in which no work is in progress; only the outermost follow-up calls it';
