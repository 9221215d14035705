-- Rejects plain UPDATEs that no function would make: of columns that triggers maintain, of results of finished steps,
-- and transitions that need a condition. The owner of the tables, as which follow-ups run, is not checked.

CREATE FUNCTION pawl_dag._is_operator(relation oid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT pg_has_role('pawl_operator', 'MEMBER')
        OR pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = relation), 'MEMBER')
$function$;
COMMENT ON FUNCTION pawl_dag._is_operator(oid) IS
'internal: whether the current user is an operator, or owns the table';

-- Triggers that write follow-ups act as the owner. That a statement comes from a trigger proves nothing, because a
-- worker can have a trigger on a temporary table of its own.
CREATE FUNCTION pawl_dag._task_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.tasks');
BEGIN
    IF pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'MEMBER') THEN
        RETURN NEW;
    END IF;
    IF (OLD.steps_total, OLD.steps_blocked, OLD.steps_ready, OLD.steps_in_flight, OLD.steps_waiting, OLD.steps_failed,
        OLD.steps_satisfied, OLD.steps_cancelled, OLD.entered_at)
       IS DISTINCT FROM (NEW.steps_total, NEW.steps_blocked, NEW.steps_ready, NEW.steps_in_flight, NEW.steps_waiting,
           NEW.steps_failed, NEW.steps_satisfied, NEW.steps_cancelled, NEW.entered_at)
       OR OLD.evaluate AND NOT NEW.evaluate THEN
        PERFORM pawl.raise('42501', 'counters and times of a task are maintained by triggers',
            format('Task %s: steps_..., entered_at and evaluate follow from the states of its steps.', OLD.task_uuid),
            'update state only');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._task_by_sql() IS 'internal: rejects a plain UPDATE of what triggers keep; 42501';

CREATE FUNCTION pawl_dag._step_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
BEGIN
    IF pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'MEMBER') THEN
        RETURN NEW;
    END IF;
    IF (OLD.unsatisfied_parents, OLD.total_parents, OLD.level) IS DISTINCT FROM (NEW.unsatisfied_parents,
            NEW.total_parents, NEW.level) THEN
        PERFORM pawl.raise('42501', 'unsatisfied_parents, total_parents and level of a step are maintained by triggers',
            format('Step %s of task %s: they follow from its edges and the states of its parents.', OLD.step_uuid,
                OLD.task_uuid), 'insert or delete edges');
    END IF;
    IF pg_has_role('pawl_operator', 'MEMBER') THEN
        RETURN NEW;
    END IF;
    IF (OLD.result, OLD.error, OLD.permanent, OLD.backoff_request) IS DISTINCT FROM (NEW.result, NEW.error,
        NEW.permanent, NEW.backoff_request)
       AND NOT (OLD.state = 'in_progress'
           AND NEW.state IN ('enqueued_for_orchestration', 'enqueued_as_error_for_orchestration')) THEN
        PERFORM pawl.raise('42501', 'the result of a step is written when it is reported',
            format('Step %s of task %s is in state "%s"; its owner sets result or error in the UPDATE that reports it.',
                OLD.step_uuid, OLD.task_uuid, OLD.state),
            'update pawl_dag.steps set state = ''enqueued_for_orchestration'', result = ... where ...');
    END IF;
    IF OLD.next_retry_at IS DISTINCT FROM NEW.next_retry_at
        AND NOT (NEW.next_retry_at IS NULL AND OLD.next_retry_at <= clock_timestamp()) THEN
        PERFORM pawl.raise('42501', 'only operators can change the backoff of a step',
            format('Step %s of task %s: next_retry_at follows from its backoff.', OLD.step_uuid, OLD.task_uuid),
            'report an error with "retry_after"');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._step_by_sql() IS
'internal: rejects a plain UPDATE of what triggers keep, and of results that are not being reported; 42501';

-- Transitions whose condition no guard can see, or that only operators may take if it does not hold.
CREATE FUNCTION pawl_dag._needs_condition() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean :=
        pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.tasks', 'pawl_dag.steps');
BEGIN
    IF NOT pawl_dag._is_operator(TG_RELID) THEN
        PERFORM pawl.raise('42501', format('only operators can change a %s from "%s" to "%s" here',
            CASE TG_TABLE_NAME WHEN 'tasks' THEN 'task' ELSE 'step' END, OLD.state, NEW.state),
            CASE TG_TABLE_NAME WHEN 'tasks' THEN 'No step of the task has failed.'
                ELSE 'The step can be retried, or no worker has claimed it.' END,
            'report an error with "permanent": true, and let pawl_dag.orchestrate decide');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._needs_condition() IS
'internal: rejects state changes whose condition does not hold, but of operators; 42501';

-- A step can be enqueued by hand only where the orchestrator would do it: its task is at work, and no failed step
-- blocks it.
CREATE FUNCTION pawl_dag._enqueued_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
    task pawl_dag.tasks;
BEGIN
    SELECT t.* INTO task FROM pawl_dag.tasks t WHERE t.task_uuid = NEW.task_uuid FOR NO KEY UPDATE;
    IF task.state NOT IN ('enqueuing_steps', 'steps_in_process') OR task.steps_failed > 0
        AND task.failure_policy = 'block' THEN
        PERFORM pawl.raise('PW003', format('step "%s" cannot be enqueued now', NEW.name),
            format('Task %s is in state "%s", and %s of its steps have failed.', NEW.task_uuid, task.state,
                task.steps_failed), 'select * from pawl_dag.orchestrate()');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._enqueued_by_sql() IS
'internal: rejects steps that are enqueued while their task is not at work; PW003';

-- A task that has ended gets no more work: neither new steps (pawl_dag._steps_by_sql) nor old ones. The task is locked,
-- so that it does not end meanwhile.
CREATE FUNCTION pawl_dag._step_reopened() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
    ended text;
BEGIN
    SELECT t.state INTO ended FROM pawl_dag.tasks t WHERE t.task_uuid = NEW.task_uuid FOR NO KEY UPDATE;
    IF ended IN ('complete', 'error', 'cancelled', 'resolved_manually') THEN
        PERFORM pawl.raise('55000', format('step "%s" of a task that has ended cannot be retried', NEW.name),
            format('Task %s is in state "%s".', NEW.task_uuid, ended),
            CASE ended WHEN 'error' THEN format('select pawl_dag.reset_task(%L, ''...'')', NEW.task_uuid) END);
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._step_reopened() IS
'internal: rejects failed steps that are to be tried again in a task that has ended; 55000';

-- State and snapshot of a dead letter are read from its task, whatever the INSERT says.
CREATE FUNCTION pawl_dag._dead_letter_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.dlq');
BEGIN
    IF pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'MEMBER') THEN
        RETURN NEW;
    END IF;
    SELECT t.state, pawl_dag._task_snapshot(t.task_uuid) INTO NEW.original_state, NEW.task_snapshot
      FROM pawl_dag.tasks t WHERE t.task_uuid = NEW.task_uuid FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no task %s', NEW.task_uuid));
    ELSIF NEW.original_state IN ('complete', 'error', 'cancelled', 'resolved_manually') THEN
        PERFORM pawl.raise('55000', 'a task that has ended cannot become a dead letter',
                            format('Task %s is in state "%s".', NEW.task_uuid, NEW.original_state));
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._dead_letter_by_sql() IS
'internal: a dead letter has the state and the snapshot of its task; P0002, 55000';
CREATE TRIGGER by_sql BEFORE INSERT ON pawl_dag.dlq
    FOR EACH ROW WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_dag._dead_letter_by_sql();

-- Rows that are inserted by hand. The counters of a task follow from its steps, and those of a step from its edges, so
-- a row begins with the defaults, and other values are rejected. pawl_dag._start_tasks is not checked.
CREATE FUNCTION pawl_dag._inserted_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL,
        'pawl_dag.tasks', 'pawl_dag.steps');
BEGIN
    IF pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'MEMBER') THEN
        RETURN NEW;
    ELSIF TG_TABLE_NAME = 'tasks' THEN
        PERFORM pawl.raise('42501', 'rank and counters of a task are maintained by triggers',
            format('Task %s: rank follows from its priority, and steps_... from its steps.', NEW.task_uuid),
            'leave them out of the INSERT');
    ELSE
        PERFORM pawl.raise('42501',
            'rank, level, total_parents and unsatisfied_parents of a step are maintained by triggers',
            format('Step "%s" of task %s: they follow from its priority and its edges.', NEW.name, NEW.task_uuid),
            'leave them out of the INSERT, and insert into pawl_dag.edges');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._inserted_by_sql() IS 'internal: rejects values of columns that triggers keep; 42501';
CREATE TRIGGER by_sql_insert BEFORE INSERT ON pawl_dag.tasks
    FOR EACH ROW WHEN (NOT pawl_dag._orchestrating() AND NOT pawl.restoring()
        AND (NEW.rank IS NOT NULL OR (NEW.steps_total, NEW.steps_ready, NEW.steps_blocked) IS DISTINCT FROM (0, 0, 0)))
    EXECUTE FUNCTION pawl_dag._inserted_by_sql();
CREATE TRIGGER by_sql_insert BEFORE INSERT ON pawl_dag.steps
    FOR EACH ROW WHEN (NOT pawl_dag._orchestrating() AND NOT pawl.restoring()
        AND (NEW.rank IS NOT NULL
            OR (NEW.level, NEW.total_parents, NEW.unsatisfied_parents) IS DISTINCT FROM (0, 0, 0)))
    EXECUTE FUNCTION pawl_dag._inserted_by_sql();

-- A task that is inserted by hand must match its template, as pawl_dag.start_task would make it; only operators can
-- give it more time.
CREATE FUNCTION pawl_dag._tasks_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.tasks');
    task pawl_dag.tasks;
    template pawl_dag.templates;
BEGIN
    IF pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'MEMBER') THEN
        RETURN NULL;
    END IF;
    SELECT n.* INTO task FROM new_tasks n LEFT JOIN pawl_dag.templates t ON t.template_uuid = n.template_uuid
     WHERE (n.namespace, n.name, n.version, n.failure_policy)
           IS DISTINCT FROM (t.namespace, t.name, t.version, t.failure_policy) LIMIT 1;
    IF FOUND THEN
        SELECT t.* INTO template FROM pawl_dag.templates t WHERE t.template_uuid = task.template_uuid;
        IF NOT FOUND THEN
            PERFORM pawl.raise('PW008', format('unknown template %s', task.template_uuid), NULL,
                'select template_uuid, namespace, name, version from pawl_dag.templates');
        END IF;
        PERFORM pawl.raise('22023', format('task %s does not match its template', task.task_uuid),
            format('Template %s has namespace "%s", name "%s", version "%s" and failure_policy "%s".',
                   template.template_uuid, template.namespace, template.name, template.version,
                   template.failure_policy), 'select pawl_dag.start_task(...) copies them');
    END IF;
    SELECT n.* INTO task FROM new_tasks n JOIN pawl_dag.templates t ON t.template_uuid = n.template_uuid
     WHERE n.deadline_at > n.created_at + t.max_duration + interval '1 minute' OR n.stale_after > t.stale_after LIMIT 1;
    IF FOUND AND NOT pawl_dag._is_operator(TG_RELID) THEN
        SELECT t.* INTO template FROM pawl_dag.templates t WHERE t.template_uuid = task.template_uuid;
        PERFORM pawl.raise('42501', 'only operators can give a task more time than its template',
            format('Task %s: the template allows max_duration %s and stale_after %s.',
                   task.task_uuid, template.max_duration, template.stale_after),
            format('deadline_at = now() + interval %L, stale_after = %L', template.max_duration, template.stale_after));
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._tasks_by_sql() IS
'internal: rejects tasks that are inserted by hand and are not as their template says; PW008, 22023, 42501';
CREATE TRIGGER by_sql_inserted AFTER INSERT ON pawl_dag.tasks REFERENCING NEW TABLE AS new_tasks
    FOR EACH STATEMENT WHEN (NOT pawl_dag._orchestrating() AND NOT pawl.restoring())
    EXECUTE FUNCTION pawl_dag._tasks_by_sql();

-- After pawl_dag._steps_changed, which has locked the tasks.
CREATE FUNCTION pawl_dag._steps_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
    rejected record;
BEGIN
    IF pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'MEMBER') THEN
        RETURN NULL;
    END IF;
    SELECT n.name, n.task_uuid, t.state, t.namespace INTO rejected
      FROM new_steps n JOIN pawl_dag.tasks t ON t.task_uuid = n.task_uuid
     WHERE t.state IN ('complete', 'error', 'cancelled', 'resolved_manually') LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('55000', format('step "%s" cannot be inserted into a task that has ended', rejected.name),
            format('Task %s is in state "%s".', rejected.task_uuid, rejected.state));
    END IF;
    SELECT n.name, n.handler, CASE WHEN n.handler ^@ 'sql:' THEN 'sql:' ELSE t.namespace END AS namespace INTO rejected
      FROM new_steps n JOIN pawl_dag.tasks t ON t.task_uuid = n.task_uuid
     WHERE n.namespace <> CASE WHEN n.handler ^@ 'sql:' THEN 'sql:' ELSE t.namespace END LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('step "%s" is in the wrong namespace', rejected.name),
            format('A step with handler "%s" in this task is claimed from "%s".', rejected.handler, rejected.namespace),
            format('namespace = %L', rejected.namespace));
    END IF;
    SELECT n.name INTO rejected FROM new_steps n
     WHERE length(n.name) > 255 OR length(n.handler) NOT BETWEEN 1 AND 1000
        OR jsonb_typeof(n.handler_options) <> 'object' OR n.map_index < 0 LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('step "%s" is out of range', left(rejected.name, 255)),
            'A name has at most 255 characters, a handler 1 to 1000; handler_options is a JSON object, map_index '
            'not negative.');
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._steps_by_sql() IS
'internal: rejects steps that are inserted by hand and that no template would make; 55000, 22023';
CREATE TRIGGER inserted_by_sql AFTER INSERT ON pawl_dag.steps REFERENCING NEW TABLE AS new_steps
    FOR EACH STATEMENT WHEN (NOT pawl_dag._orchestrating() AND NOT pawl.restoring())
    EXECUTE FUNCTION pawl_dag._steps_by_sql();

-- Steps are checked like those of templates when they are written; otherwise the failure of a step would raise an
-- error, when it is too late.
CREATE FUNCTION pawl_dag._step_settings() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
    problem constant text :=
        CASE WHEN NEW.max_attempts NOT BETWEEN 1 AND 1000000 THEN 'max_attempts must be from 1 to 1000000'
        WHEN NEW.attempts NOT BETWEEN 0 AND 1000000 THEN 'attempts must be from 0 to 1000000'
        WHEN NEW.timeout NOT BETWEEN interval '1 ms' AND interval '1000000000 s'
            THEN 'timeout must be from 1 ms to 1000000000 s'
        WHEN NEW.name = '' THEN 'name must not be empty'
        WHEN (NEW.map_of IS NULL) <> (NEW.map_index IS NULL) THEN 'map_of and map_index must be set together' END;
    said text;
BEGIN
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('22023', format('step "%s": %s', NEW.name, problem));
    END IF;
    BEGIN
        PERFORM pawl.backoff(1, NEW.backoff) WHERE NEW.backoff IS NOT NULL;
    EXCEPTION WHEN data_exception THEN
        GET STACKED DIAGNOSTICS said = MESSAGE_TEXT;
        PERFORM pawl.raise('22023', format('backoff of step "%s": %s', NEW.name, said),
            format('Its backoff is %s.', left(NEW.backoff::text, 500)),
            '{"strategy": "exponential", "base": "1 s", "cap": "60 s"}');
    END;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._step_settings() IS
'internal: rejects names, attempts, timeouts and backoffs that cannot be; 22023';
CREATE TRIGGER settings BEFORE INSERT ON pawl_dag.steps
    FOR EACH ROW WHEN (NOT pawl_dag._orchestrating() AND NOT pawl.restoring()
        AND (NEW.backoff IS NOT NULL OR NEW.timeout IS NOT NULL OR NEW.max_attempts <> 3 OR NEW.name = ''
            OR NEW.map_of IS NOT NULL OR NEW.map_index IS NOT NULL))
    EXECUTE FUNCTION pawl_dag._step_settings();
CREATE TRIGGER settings_changed
    BEFORE UPDATE OF backoff, timeout, max_attempts, attempts, name, map_of, map_index ON pawl_dag.steps
    FOR EACH ROW WHEN (
        (OLD.backoff, OLD.timeout, OLD.max_attempts, OLD.attempts, OLD.name, OLD.map_of, OLD.map_index)
        IS DISTINCT FROM
        (NEW.backoff, NEW.timeout, NEW.max_attempts, NEW.attempts, NEW.name, NEW.map_of, NEW.map_index))
    EXECUTE FUNCTION pawl_dag._step_settings();

CREATE FUNCTION pawl_dag._task_settings() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.tasks');
BEGIN
    PERFORM pawl.raise('22023', format('task %s: stale_after must be positive', NEW.task_uuid),
        format('It is %s.', NEW.stale_after));
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._task_settings() IS 'internal: rejects times of tasks that cannot be; 22023';
CREATE TRIGGER settings BEFORE INSERT OR UPDATE OF stale_after ON pawl_dag.tasks
    FOR EACH ROW WHEN (NEW.stale_after <= '0' AND NOT pawl.restoring()) EXECUTE FUNCTION pawl_dag._task_settings();
