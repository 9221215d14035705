-- Functions for operators. Each is an UPDATE that could be written by hand, with the reason in the log's metadata;
-- triggers write what follows.

CREATE TABLE pawl_dag.dlq (
    task_uuid uuid NOT NULL REFERENCES pawl_dag.tasks ON DELETE CASCADE,
    entry_uuid uuid NOT NULL DEFAULT pawl.uuid_v7(),
    original_state text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL CHECK (reason = ANY ('{staleness_timeout,max_retries_exceeded,'
    'dependency_cycle_detected,worker_unavailable,manual_dlq}')),
    dlq_timestamp timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    resolution_status text COLLATE "C" NOT NULL DEFAULT 'pending'
    CHECK (resolution_status = ANY ('{pending,manually_resolved,permanently_failed,cancelled}')),
    resolution_timestamp timestamptz,
    resolution_notes text,
    resolved_by text,
    task_snapshot jsonb NOT NULL,
    metadata jsonb,
    PRIMARY KEY (task_uuid, entry_uuid)
);
COMMENT ON TABLE pawl_dag.dlq IS
'tasks that need an operator: at most one pending row for each task, closed when the task leaves blocked_by_failures '
'or ends';
CREATE UNIQUE INDEX dlq_pending ON pawl_dag.dlq (task_uuid) WHERE resolution_status OPERATOR(pg_catalog.=) 'pending';
CREATE INDEX dlq_newest ON pawl_dag.dlq (dlq_timestamp, entry_uuid);
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.dlq', '');

CREATE FUNCTION pawl_dag._text_size(value jsonb, most integer) RETURNS bigint
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_text_size';
COMMENT ON FUNCTION pawl_dag._text_size(jsonb, integer) IS
'internal: about how long a value is as text, without making it; more than most: it is longer than that';

CREATE FUNCTION pawl_dag._excerpt(value jsonb, most integer) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN pawl_dag._text_size(value, most) <= most THEN value
           ELSE jsonb_strip_nulls(jsonb_build_object('cut', true, 'message', CASE
               WHEN jsonb_typeof(value) = 'string' THEN left(value #>> '{}', most / 2)
               WHEN jsonb_typeof(value -> 'message') = 'string' THEN left(value ->> 'message', most / 2) END)) END
$function$;
COMMENT ON FUNCTION pawl_dag._excerpt(jsonb, integer) IS
'internal: a value of at most this length as text, or the beginning of its message, with "cut"';

-- It is made in the transaction that blocks the task, which must not fail because of its size. docs/dag.md has the
-- limits.
CREATE FUNCTION pawl_dag._task_snapshot(task uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    most_steps constant integer := 500;
    most_error constant integer := 2000;
    most_context constant integer := 65536;
    t pawl_dag.tasks;
    listed jsonb;
    cut jsonb;
BEGIN
    SELECT x.* INTO t FROM pawl_dag.tasks x WHERE x.task_uuid = task;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    cut := jsonb_strip_nulls(jsonb_build_object('steps', nullif(greatest((SELECT count(*) FROM pawl_dag.steps s
            WHERE s.task_uuid = task) - most_steps, 0), 0),
        'context', nullif(pawl_dag._text_size(t.context, most_context) > most_context, false)));
    IF cut ? 'context' THEN
        t.context := '{"cut": true}';
    END IF;
    t.error := pawl_dag._excerpt(t.error, most_error);
    SELECT jsonb_agg(jsonb_build_object('name', s.name, 'state', s.state, 'attempts', s.attempts,
               'error', pawl_dag._excerpt(s.error, most_error)) ORDER BY s.level, s.name) INTO listed
      FROM (SELECT x.name, x.state, x.attempts, x.error, x.level FROM pawl_dag.steps x WHERE x.task_uuid = task
             ORDER BY x.state = 'error' DESC, x.level, x.name LIMIT most_steps) s;
    RETURN jsonb_build_object('task', to_jsonb(t), 'context', (SELECT to_jsonb(c) FROM pawl_dag.task_context(task) c),
        'steps', listed,
        'transitions', (SELECT jsonb_agg(to_jsonb(l) ORDER BY l.sort_key DESC)
                          FROM (SELECT h.sort_key, h.from_state, h.to_state, h.event, h.created_at
                              FROM pawl_dag.task_transitions_log h
                                 WHERE h.task_uuid = task ORDER BY h.sort_key DESC LIMIT 10) l))
        || CASE WHEN cut = '{}' THEN '{}' ELSE jsonb_build_object('cut', cut) END;
END
$function$;
COMMENT ON FUNCTION pawl_dag._task_snapshot(uuid) IS
'internal: a task, its steps, its context and its last ten transitions, of a limited size';

-- The states of steps that end with their task.
CREATE FUNCTION pawl_dag._unsettled_states() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN
'{pending,enqueued,in_progress,enqueued_for_orchestration,enqueued_as_error_for_orchestration,'
'waiting_for_retry}'::text[];
COMMENT ON FUNCTION pawl_dag._unsettled_states() IS
'internal: the states of steps that are cancelled or resolved with their task';

-- Steps in error get their attempts back; enqueued ones can be claimed again.
CREATE FUNCTION pawl_dag._reset_steps(task uuid) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = 'ResetForRetry'
SET pawl.token = ''
AS $function$
DECLARE
    reset bigint;
BEGIN
    PERFORM pawl_dag._lock_steps(ARRAY[task], '{error}');
    UPDATE pawl_dag.steps s SET state = 'pending' WHERE s.task_uuid = task AND s.state = 'error' AND NOT s.optional;
    GET DIAGNOSTICS reset = ROW_COUNT;
    PERFORM set_config('pawl.event', '', true);
    UPDATE pawl_dag.steps s SET next_retry_at = NULL
        WHERE s.task_uuid = task AND s.state = 'enqueued' AND s.next_retry_at = 'infinity';
    RETURN reset;
END
$function$;
COMMENT ON FUNCTION pawl_dag._reset_steps(uuid) IS
'internal: resets the failed steps of a task and gives its enqueued ones back to the workers';

-- A worker that orchestrates blocks tasks, and may not write dead letters by hand: so
-- this has the rights to, and looks whether there is one.
CREATE FUNCTION pawl_dag._bury(task uuid, original_state text, metadata jsonb) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
    INSERT INTO pawl_dag.dlq (task_uuid, original_state, reason, task_snapshot, metadata)
    SELECT t.task_uuid, _bury.original_state, CASE WHEN _bury.original_state = 'evaluating_results'
        AND t.steps_failed > 0 THEN 'max_retries_exceeded' ELSE 'staleness_timeout' END,
           pawl_dag._task_snapshot(t.task_uuid), _bury.metadata
      FROM pawl_dag.tasks t WHERE t.task_uuid = _bury.task AND t.state = 'blocked_by_failures'
    ON CONFLICT DO NOTHING
$function$;
COMMENT ON FUNCTION pawl_dag._bury(uuid, text, jsonb) IS
'internal: records a blocked task among the dead letters, if it is not there';

-- A task can have a dead letter without being blocked. A worker that orchestrates completes tasks, and may not write
-- dead letters: so this has the rights to, and looks whether the task has ended.
CREATE FUNCTION pawl_dag._close_letter(task uuid, notes text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    UPDATE pawl_dag.dlq d
       SET resolution_status = CASE t.state WHEN 'error' THEN 'permanently_failed' WHEN 'cancelled' THEN 'cancelled'
               ELSE 'manually_resolved' END,
           resolution_timestamp = clock_timestamp(), resolved_by = session_user,
           resolution_notes = coalesce(notes, CASE t.state WHEN 'complete' THEN 'the task completed' END)
      FROM pawl_dag.tasks t
     WHERE d.task_uuid = _close_letter.task AND d.resolution_status = 'pending' AND t.task_uuid = d.task_uuid
       AND (t.state = 'complete' OR t.state = 'error' OR t.state = 'cancelled' OR t.state = 'resolved_manually')
$function$;
COMMENT ON FUNCTION pawl_dag._close_letter(uuid, text) IS
'internal: closes the dead letter of a task that has ended, if there is one';

-- What follows for the steps when their task ends or restarts, and the dead letters.
CREATE FUNCTION pawl_dag._task_moved() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.tasks');
    notes constant text := nullif(current_setting('pawl.metadata', true), '')::jsonb ->> 'reason';
BEGIN
    IF NEW.state IN ('complete', 'error', 'cancelled', 'resolved_manually') THEN
        PERFORM pawl_dag._close_letter(NEW.task_uuid, notes);
    ELSIF OLD.state = 'blocked_by_failures' THEN
        UPDATE pawl_dag.dlq d SET resolution_status = 'manually_resolved', resolution_timestamp = clock_timestamp(),
               resolved_by = session_user, resolution_notes = notes
         WHERE d.task_uuid = NEW.task_uuid AND d.resolution_status = 'pending';
    END IF;
    CASE
        WHEN NEW.state IN ('cancelled', 'resolved_manually') THEN
            PERFORM pawl_dag._lock_steps(ARRAY[NEW.task_uuid], pawl_dag._unsettled_states());
            UPDATE pawl_dag.steps s SET state = NEW.state
             WHERE s.task_uuid = NEW.task_uuid
                 AND s.state NOT IN ('complete', 'error', 'cancelled', 'resolved_manually');
        WHEN NEW.state = 'error' THEN
            -- a step that is never due cannot be claimed
            UPDATE pawl_dag.steps s SET next_retry_at = 'infinity'
                WHERE s.task_uuid = NEW.task_uuid AND s.state = 'enqueued';
        WHEN OLD.state = 'error' THEN
            PERFORM pawl_dag._reset_steps(NEW.task_uuid);
        WHEN NEW.state = 'blocked_by_failures'
             AND (OLD.state = 'evaluating_results' AND NEW.steps_failed > 0
                  OR (SELECT coalesce((x.configuration #>> '{lifecycle,auto_dlq_on_timeout}')::boolean, true)
                 FROM pawl_dag.templates x WHERE x.template_uuid = NEW.template_uuid) IS NOT FALSE) THEN
            PERFORM pawl_dag._bury(NEW.task_uuid, OLD.state, nullif(current_setting('pawl.metadata', true), '')::jsonb);
        ELSE NULL;
    END CASE;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._task_moved() IS
'internal: what a state change of a task means for its steps and for the dead letters';

-- Most state changes mean nothing more: this sees that in C, and calls
-- pawl_dag._task_moved as a trigger for the others.
CREATE FUNCTION pawl_dag._task_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_task_changed';
COMMENT ON FUNCTION pawl_dag._task_changed() IS 'internal: lets follow what the state change of a task means';
CREATE TRIGGER moved AFTER UPDATE ON pawl_dag.tasks FOR EACH ROW EXECUTE FUNCTION pawl_dag._task_changed();

-- Transitions for operators are theirs also if the row has no owner, and by plain SQL.
CREATE FUNCTION pawl_dag._operators_only() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.tasks', 'pawl_dag.steps');
BEGIN
    IF NOT (pg_has_role('pawl_operator', 'MEMBER')
            OR pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'MEMBER')) THEN
        PERFORM pawl.raise('42501', format('only operators can change a %s from "%s" to "%s"',
            CASE TG_TABLE_NAME WHEN 'tasks' THEN 'task' ELSE 'step' END, OLD.state, NEW.state),
            format('Role %s is not a member of pawl_operator.', current_user),
            format('grant pawl_operator to %I', current_user));
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._operators_only() IS 'internal: rejects transitions that are for operators; 42501';

-- An operator's event for tasks: every one must take it, or none does.
CREATE FUNCTION pawl_dag._operate_tasks(tasks uuid[], event text, to_state text, reason text) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.metadata = ''
SET pawl.token = ''
AS $function$
DECLARE
    moved bigint;
    unknown uuid;
BEGIN
    SELECT u INTO unknown FROM unnest(tasks) u
        WHERE NOT EXISTS (SELECT FROM pawl_dag.tasks t WHERE t.task_uuid = u) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no task %s', unknown));
    END IF;
    PERFORM FROM pawl_dag.tasks t WHERE t.task_uuid = ANY (tasks) ORDER BY t.task_uuid FOR NO KEY UPDATE;
    PERFORM pawl_dag._lock_steps(tasks,
        CASE event WHEN 'Reset' THEN '{error}' WHEN 'GiveUp' THEN '{enqueued}' ELSE pawl_dag._unsettled_states() END);
    PERFORM set_config('pawl.event', event, true),
        set_config('pawl.metadata', jsonb_build_object('reason', reason, 'actor', session_user)::text, true);
    UPDATE pawl_dag.tasks t SET state = to_state WHERE t.task_uuid = ANY (tasks) AND t.state <> to_state;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$function$;
COMMENT ON FUNCTION pawl_dag._operate_tasks(uuid[], text, text, text) IS
'internal: an operator''s event for tasks; P0002: no such task';

CREATE FUNCTION pawl_dag.cancel_tasks(tasks uuid[], reason text DEFAULT NULL) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_dag._operate_tasks(tasks, 'Cancel', 'cancelled', reason); END;
COMMENT ON FUNCTION pawl_dag.cancel_tasks(uuid[], text) IS
'Cancels tasks with all their unfinished steps, all or none, and returns how many were not cancelled before.
tasks: their ids. reason: a text for the log; default null.
Errors: PW001 a task has ended otherwise; P0002 no such task; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_dag.cancel_tasks(array(SELECT t.task_uuid FROM pawl_dag.tasks t WHERE t.name = ''invoice''),
''test data'')';

CREATE FUNCTION pawl_dag.cancel_task(task uuid, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_dag._operate_tasks(ARRAY[task], 'Cancel', 'cancelled', reason) = 1; END;
COMMENT ON FUNCTION pawl_dag.cancel_task(uuid, text) IS
'Cancels a task with all its unfinished steps; false: it was already cancelled. task: its id. reason: a text for the
log; default null.
Errors: PW001 it has ended otherwise; P0002 no such task; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_dag.cancel_task(''01890000-0000-7000-8000-000000000001'', ''ordered twice'')';

CREATE FUNCTION pawl_dag.resolve_task(task uuid, reason text) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_dag._operate_tasks(ARRAY[task], 'ResolveManually', 'resolved_manually', reason) = 1; END;
COMMENT ON FUNCTION pawl_dag.resolve_task(uuid, text) IS
'Closes a task that was handled otherwise, with its unfinished steps; false: it was already closed. task: its id.
reason: a text for the log.
Errors: PW001 it has ended otherwise; P0002 no such task; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_dag.resolve_task(''01890000-0000-7000-8000-000000000001'', ''done by phone'')';

CREATE FUNCTION pawl_dag.give_up(task uuid, reason text) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_dag._operate_tasks(ARRAY[task], 'GiveUp', 'error', reason) = 1; END;
COMMENT ON FUNCTION pawl_dag.give_up(uuid, text) IS
'Ends a blocked task in error: its steps can no longer be claimed, and running steps can still be reported; false:
it was already in error. task: its id. reason: a text for the log.
Errors: PW001 it is not blocked_by_failures; P0002 no such task; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_dag.give_up(''01890000-0000-7000-8000-000000000001'', ''customer is gone'')';

CREATE FUNCTION pawl_dag.reset_task(task uuid, reason text) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_dag._operate_tasks(ARRAY[task], 'Reset', 'pending', reason) = 1; END;
COMMENT ON FUNCTION pawl_dag.reset_task(uuid, text) IS
'Restarts a task in error: failed steps get their attempts back, complete steps keep their results; false: it was
already pending. task: its id. reason: a text for the log.
Errors: PW001 it is not in error; P0002 no such task; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_dag.reset_task(''01890000-0000-7000-8000-000000000001'', ''mail server is back'')';

CREATE FUNCTION pawl_dag.retry_task(task uuid, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.metadata = ''
AS $function$
DECLARE
    current text;
BEGIN
    SELECT t.state INTO current FROM pawl_dag.tasks t WHERE t.task_uuid = task FOR NO KEY UPDATE;
    IF current IS DISTINCT FROM 'blocked_by_failures' THEN
        RETURN pawl_dag._operate_tasks(ARRAY[task], 'Reset', 'pending', reason) = 1;
    END IF;
    PERFORM set_config('pawl.metadata', jsonb_build_object('reason', reason, 'actor', session_user)::text, true);
    IF pawl_dag._reset_steps(task) = 0 THEN
        PERFORM pawl_dag._clear_failures(ARRAY[task]);  -- what timed out has no failed step
    END IF;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_dag.retry_task(uuid, text) IS
'Continues a task that is blocked, timed out or in error with its failed steps, and keeps the results of the others.
task: its id. reason: a text for the log; default null.
Errors: PW001 it is in another state; P0002 no such task; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_dag.retry_task(''01890000-0000-7000-8000-000000000001'', ''mail server is back'')';
