-- Functions for operators on single steps, and the view of steps that can never be ready. As in operate.sql, each
-- function is an UPDATE.

-- Fires an operator's event for one step; its task is locked first, as everywhere.
CREATE FUNCTION pawl_dag._operate_step(task uuid, step uuid, event text, to_state text, reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.metadata = ''
SET pawl.token = ''
AS $function$
BEGIN
    PERFORM FROM pawl_dag.tasks t WHERE t.task_uuid = task FOR NO KEY UPDATE;
    IF NOT EXISTS (SELECT FROM pawl_dag.steps s WHERE s.task_uuid = task AND s.step_uuid = step) THEN
        PERFORM pawl.raise('P0002', format('there is no step %s in task %s', step, task));
    END IF;
    PERFORM set_config('pawl.event', event, true),
        set_config('pawl.metadata', jsonb_build_object('reason', reason, 'actor', session_user)::text, true);
    UPDATE pawl_dag.steps s SET state = to_state
        WHERE s.task_uuid = task AND s.step_uuid = step AND s.state <> to_state;
    RETURN FOUND;
END
$function$;
COMMENT ON FUNCTION pawl_dag._operate_step(uuid, uuid, text, text, text) IS
'internal: an operator''s event for a step; P0002: no such step';

CREATE FUNCTION pawl_dag.resolve_step(task uuid, step uuid, reason text) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_dag._operate_step(task, step, 'ResolveManually', 'resolved_manually', reason); END;
COMMENT ON FUNCTION pawl_dag.resolve_step(uuid, uuid, text) IS
'Resolves a step without a result, so that steps that depend on it continue; false: it was already resolved. task,
step: their ids. reason: a text for the log.
Errors: PW001 it has ended otherwise; P0002 no such step; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_dag.resolve_step(s.task_uuid, s.step_uuid, ''sent by hand'') FROM pawl_dag.steps s WHERE s.name
= ''send'' AND s.state = ''error''';

CREATE FUNCTION pawl_dag.reset_step(task uuid, step uuid, reason text) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_dag._operate_step(task, step, 'ResetForRetry', 'pending', reason); END;
COMMENT ON FUNCTION pawl_dag.reset_step(uuid, uuid, text) IS
'Gives a failed step its attempts back; false: it was already pending. task, step: their ids. reason: a text for the
log.
Errors: PW001 it has not failed; 55000 its task has ended; P0002 no such step; 42501 not a pawl_operator. Privileges:
pawl_admin, pawl_operator.
Example: SELECT pawl_dag.reset_step(s.task_uuid, s.step_uuid, ''server is back'') FROM pawl_dag.steps s WHERE s.name
= ''send'' AND s.state = ''error''';

CREATE FUNCTION pawl_dag.complete_step_manually(task uuid, step uuid, result jsonb, reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.metadata = ''
SET pawl.token = ''
AS $function$
BEGIN
    IF coalesce(reason, '') = '' THEN
        PERFORM pawl.raise('22004', 'reason is required to complete a step manually', NULL, 'reason => ''...''');
    END IF;
    PERFORM FROM pawl_dag.tasks t WHERE t.task_uuid = task FOR NO KEY UPDATE;
    PERFORM set_config('pawl.event', 'CompleteManually', true),
            set_config('pawl.metadata', jsonb_build_object('reason', reason, 'actor', session_user, 'result',
                complete_step_manually.result)::text, true);
    -- a complete step is no step of this UPDATE's: its result stays
    IF EXISTS (SELECT FROM pawl_dag.steps s
        WHERE s.task_uuid = task AND s.step_uuid = step AND s.state = 'complete') THEN
        RETURN false;
    END IF;
    UPDATE pawl_dag.steps s SET state = 'complete', result = complete_step_manually.result
        WHERE s.task_uuid = task AND s.step_uuid = step;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no step %s in task %s', step, task));
    END IF;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_dag.complete_step_manually(uuid, uuid, jsonb, text) IS
'Completes a step with a result that dependent steps can read; false: it was already complete. task, step: their
ids. result: a JSON value. reason: a text for the log.
Errors: PW001 it has ended otherwise; P0002 no such step; 22004 reason is null; 42501 not a pawl_operator.
Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl_dag.complete_step_manually(s.task_uuid, s.step_uuid, ''{"id": 7}'', ''sent by hand'') FROM
pawl_dag.steps s WHERE s.name = ''send'' AND s.state = ''error''';

CREATE FUNCTION pawl_dag._descendants(task uuid, step uuid) RETURNS SETOF uuid
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH RECURSIVE below AS (
        SELECT e.child_uuid FROM pawl_dag.edges e WHERE e.task_uuid = task AND e.parent_uuid = step
        UNION
        SELECT e.child_uuid FROM below b JOIN pawl_dag.edges e ON e.task_uuid = task AND e.parent_uuid = b.child_uuid)
    SELECT b.child_uuid FROM below b
$function$;
COMMENT ON FUNCTION pawl_dag._descendants(uuid, uuid) IS 'internal: the steps behind a step';

CREATE FUNCTION pawl_dag.cancel_step(task uuid, step uuid, reason text DEFAULT NULL, descendants text DEFAULT 'cancel')
    RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.metadata = ''
SET pawl.token = ''
AS $function$
DECLARE
    behind uuid[];
    cancelled bigint;
BEGIN
    IF descendants IS NULL OR descendants NOT IN ('cancel', 'reject') THEN
        PERFORM pawl.raise('22023', 'descendants must be cancel or reject', NULL, 'descendants => ''cancel''');
    END IF;
    PERFORM FROM pawl_dag.tasks t WHERE t.task_uuid = task FOR NO KEY UPDATE;
    IF NOT EXISTS (SELECT FROM pawl_dag.steps s WHERE s.task_uuid = task AND s.step_uuid = step) THEN
        PERFORM pawl.raise('P0002', format('there is no step %s in task %s', step, task));
    END IF;
    behind := ARRAY(SELECT s.step_uuid FROM pawl_dag._descendants(task, step) d
        JOIN pawl_dag.steps s ON s.task_uuid = task AND s.step_uuid = d
                     WHERE s.state NOT IN ('complete', 'cancelled', 'resolved_manually'));
    IF descendants = 'reject' AND behind <> '{}' THEN
        PERFORM pawl.raise('55000', format('%s steps depend on the step', cardinality(behind)),
            format('They wait for step %s of task %s, and a cancelled step satisfies no dependency.', step, task),
            'descendants => ''cancel''');
    END IF;
    PERFORM pawl_dag._lock_steps(ARRAY[task], NULL, behind || step);
    PERFORM set_config('pawl.event', 'Cancel', true),
        set_config('pawl.metadata', jsonb_build_object('reason', reason, 'actor', session_user)::text, true);
    UPDATE pawl_dag.steps s SET state = 'cancelled'
        WHERE s.task_uuid = task AND s.step_uuid = ANY (behind || step) AND s.state <> 'cancelled';
    GET DIAGNOSTICS cancelled = ROW_COUNT;
    RETURN cancelled;
END
$function$;
COMMENT ON FUNCTION pawl_dag.cancel_step(uuid, uuid, text, text) IS
'Cancels a step and the steps that depend on it, and returns how many.
task, step: their ids. reason: a text for the log; default null. descendants: cancel (default), or reject: only if
no step depends on it.
Errors: 55000 steps depend on it; PW001 it has ended; P0002 no such step; 22023 unknown value of descendants; 42501
not a pawl_operator. Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl_dag.cancel_step(s.task_uuid, s.step_uuid, ''not needed'') FROM pawl_dag.steps s WHERE s.name =
''send'' AND s.state = ''pending''';

CREATE VIEW pawl_dag.stranded_steps AS
WITH RECURSIVE behind AS (
    SELECT e.task_uuid, e.child_uuid, p.name AS cancelled_ancestor
      FROM pawl_dag.steps p JOIN pawl_dag.edges e ON e.task_uuid = p.task_uuid AND e.parent_uuid = p.step_uuid
      WHERE p.state = 'cancelled'
    UNION
    SELECT e.task_uuid, e.child_uuid, b.cancelled_ancestor
      FROM behind b
      JOIN pawl_dag.steps s ON s.task_uuid = b.task_uuid AND s.step_uuid = b.child_uuid AND s.state = 'pending'
      JOIN pawl_dag.edges e ON e.task_uuid = b.task_uuid AND e.parent_uuid = b.child_uuid)
SELECT s.task_uuid, s.step_uuid, s.name, b.cancelled_ancestor FROM behind b
JOIN pawl_dag.steps s ON s.task_uuid = b.task_uuid AND s.step_uuid = b.child_uuid
 WHERE s.state = 'pending';
COMMENT ON VIEW pawl_dag.stranded_steps IS
'pending steps that can never be ready, because a step that they wait for was cancelled';
