-- What follows from a state change of a step, whichever statement made it: the steps that depend on it, and the
-- counters of its task. It runs once for each statement, over all of its rows.

-- How a step counts in its task.
CREATE FUNCTION pawl_dag._kind(state text, unsatisfied_parents integer, optional boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN CASE state
    WHEN 'pending' THEN CASE WHEN unsatisfied_parents = 0 THEN 'ready' ELSE 'blocked' END
    WHEN 'waiting_for_retry' THEN 'waiting'
    WHEN 'complete' THEN 'satisfied' WHEN 'resolved_manually' THEN 'satisfied'
    WHEN 'error' THEN CASE WHEN optional THEN 'satisfied' ELSE 'failed' END
    WHEN 'cancelled' THEN 'cancelled'
    ELSE 'in_flight' END;
COMMENT ON FUNCTION pawl_dag._kind(text, integer, boolean) IS
'internal: the counter of its task that a step belongs to';

-- Returns a task to work in the transaction that repairs its last failed step. The context that the caller has set
-- belongs to the step, not to the task.
CREATE FUNCTION pawl_dag._clear_failures(repaired uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = 'FailuresCleared'
SET pawl.token = ''
AS $function$
BEGIN
    UPDATE pawl_dag.tasks t SET state = 'evaluating_results', processor_uuid = pawl_dag.engine(),
        lease_until = clock_timestamp() + interval '100 years', evaluate = true
     WHERE t.task_uuid = ANY (repaired) AND t.state = 'blocked_by_failures' AND t.steps_failed = 0;
END
$function$;
COMMENT ON FUNCTION pawl_dag._clear_failures(uuid[]) IS
'internal: puts blocked tasks without a failed step back to work';

-- Whether an orchestrator is at work in this session at this trigger depth; it writes all follow-ups itself.
CREATE FUNCTION pawl_dag._orchestrating() RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'pawl_dag_orchestrating';
COMMENT ON FUNCTION pawl_dag._orchestrating() IS
'internal: an orchestrator runs, which does itself what follows from its statements';

-- Steps are locked after their tasks, in the order of their keys, so sessions do not deadlock.
CREATE FUNCTION pawl_dag._lock_steps(tasks uuid[], states text[], steps uuid[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
BEGIN
    PERFORM FROM pawl_dag.steps s
      WHERE s.task_uuid = ANY (tasks) AND (states IS NULL OR s.state = ANY (states))
          AND (steps IS NULL OR s.step_uuid = ANY (steps))
      ORDER BY s.task_uuid, s.step_uuid FOR NO KEY UPDATE;
END
$function$;
COMMENT ON FUNCTION pawl_dag._lock_steps(uuid[], text[], uuid[]) IS
'internal: locks the steps of tasks in these states (null: all), or these steps, by key; the caller locks the tasks';

-- SECURITY DEFINER: what counts parents and steps writes columns that only the owner may write.
CREATE FUNCTION pawl_dag._steps_moved() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
BEGIN
    -- The lock order of the pack: see docs/dag.md, Locks. Sessions that draw edges or add steps wait here.
    PERFORM FROM pawl_dag.tasks t WHERE t.task_uuid IN (SELECT n.task_uuid FROM new_steps n)
        ORDER BY t.task_uuid FOR NO KEY UPDATE;
    -- a parent is satisfied, or is no longer; that this makes some ready is counted when this trigger fires for them
    IF EXISTS (SELECT FROM new_steps n WHERE pawl_dag._kind(n.state, n.unsatisfied_parents, n.optional) = 'satisfied'
               UNION ALL SELECT FROM old_steps o
            WHERE pawl_dag._kind(o.state, o.unsatisfied_parents, o.optional) = 'satisfied') THEN
        PERFORM pawl_dag._lock_steps((SELECT array_agg(DISTINCT n.task_uuid) FROM new_steps n), NULL,
            (SELECT coalesce(array_agg(DISTINCT e.child_uuid), '{}') FROM new_steps n
                JOIN pawl_dag.edges e ON e.task_uuid = n.task_uuid AND e.parent_uuid = n.step_uuid));
        UPDATE pawl_dag.steps c SET unsatisfied_parents = c.unsatisfied_parents - w.satisfied
          FROM (SELECT e.task_uuid, e.child_uuid, sum(m.d)::integer AS satisfied
                  FROM (SELECT n.task_uuid, n.step_uuid, 1 AS d FROM new_steps n
                      WHERE pawl_dag._kind(n.state, n.unsatisfied_parents, n.optional) = 'satisfied'
                        UNION ALL
                        SELECT o.task_uuid, o.step_uuid, -1 FROM old_steps o
                            WHERE pawl_dag._kind(o.state, o.unsatisfied_parents, o.optional) = 'satisfied') m
                  JOIN pawl_dag.edges e ON e.task_uuid = m.task_uuid AND e.parent_uuid = m.step_uuid
                 GROUP BY e.task_uuid, e.child_uuid HAVING sum(m.d) <> 0 ORDER BY e.task_uuid, e.child_uuid) w
         WHERE c.task_uuid = w.task_uuid AND c.step_uuid = w.child_uuid;
    END IF;
    UPDATE pawl_dag.tasks t
       SET steps_blocked = t.steps_blocked + d.blocked, steps_ready = t.steps_ready + d.ready,
       steps_in_flight = t.steps_in_flight + d.in_flight,
           steps_waiting = t.steps_waiting + d.waiting, steps_failed = t.steps_failed + d.failed,
           steps_satisfied = t.steps_satisfied + d.satisfied, steps_cancelled = t.steps_cancelled + d.cancelled,
           evaluate = true
      FROM (SELECT m.task_uuid, coalesce(sum(m.d) FILTER (WHERE m.kind = 'blocked'), 0) AS blocked,
          coalesce(sum(m.d) FILTER (WHERE m.kind = 'ready'), 0) AS ready,
                   coalesce(sum(m.d) FILTER (WHERE m.kind = 'in_flight'), 0) AS in_flight,
                   coalesce(sum(m.d) FILTER (WHERE m.kind = 'waiting'), 0) AS waiting,
                   coalesce(sum(m.d) FILTER (WHERE m.kind = 'failed'), 0) AS failed,
                   coalesce(sum(m.d) FILTER (WHERE m.kind = 'satisfied'), 0) AS satisfied,
                   coalesce(sum(m.d) FILTER (WHERE m.kind = 'cancelled'), 0) AS cancelled
              FROM (SELECT n.task_uuid, pawl_dag._kind(n.state, n.unsatisfied_parents, n.optional) AS kind, 1 AS d
                  FROM new_steps n
                    UNION ALL
                    SELECT o.task_uuid, pawl_dag._kind(o.state, o.unsatisfied_parents, o.optional), -1
                        FROM old_steps o) m
             GROUP BY m.task_uuid ORDER BY m.task_uuid) d
     WHERE t.task_uuid = d.task_uuid
       AND (d.blocked, d.ready, d.in_flight, d.waiting, d.failed, d.satisfied, d.cancelled) <> (0, 0, 0, 0, 0, 0, 0);
    IF EXISTS (SELECT FROM old_steps o WHERE o.state = 'error') THEN
        PERFORM pawl_dag._clear_failures(ARRAY(SELECT DISTINCT o.task_uuid FROM old_steps o WHERE o.state = 'error'));
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._steps_moved() IS 'internal: what follows from the state changes of steps';

-- Nothing follows from what workers do, which keeps a step in flight, and an orchestrator does itself what follows:
-- else this calls pawl_dag._steps_moved as a trigger. It calls pawl_dag._steps_claimed for steps that have a timeout.
CREATE FUNCTION pawl_dag._steps_written() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_steps_written';
COMMENT ON FUNCTION pawl_dag._steps_written() IS 'internal: lets follow what state changes of steps mean';
CREATE TRIGGER follow_ups AFTER UPDATE ON pawl_dag.steps REFERENCING OLD TABLE AS old_steps NEW TABLE AS new_steps
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_dag._steps_written();

-- No two steps of a task have the same name. A unique index would say so at each of the state changes of a step, and a
-- name never moves; so it is looked up when steps are written, with the task locked: of two sessions that add steps to
-- one task the second sees the steps of the first, or gets 40001, because the first has counted them in the task.
CREATE FUNCTION pawl_dag._one_name_each(tasks uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    twice record;
BEGIN
    SELECT s.task_uuid, s.name INTO twice FROM pawl_dag.steps s WHERE s.task_uuid = ANY (tasks)
        GROUP BY s.task_uuid, s.name HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('23505', format('step "%s" already exists in the task', twice.name),
            format('Step names are unique in task %s.', twice.task_uuid));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_dag._one_name_each(uuid[]) IS
'internal: 23505: two steps of one of the tasks have the same name';

CREATE FUNCTION pawl_dag._step_renamed() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
BEGIN
    PERFORM FROM pawl_dag.tasks t WHERE t.task_uuid = NEW.task_uuid FOR NO KEY UPDATE;
    UPDATE pawl_dag.tasks t SET evaluate = true WHERE t.task_uuid = NEW.task_uuid;
    PERFORM pawl_dag._one_name_each(ARRAY[NEW.task_uuid]);
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._step_renamed() IS 'internal: a new name must be unique in the task';
CREATE TRIGGER renamed AFTER UPDATE OF name ON pawl_dag.steps
    FOR EACH ROW WHEN (OLD.name IS DISTINCT FROM NEW.name) EXECUTE FUNCTION pawl_dag._step_renamed();

-- Steps that come or go: the counters of their tasks are counted anew. SECURITY DEFINER: see pawl_dag._steps_moved.
CREATE FUNCTION pawl_dag._steps_changed() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT OR DELETE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
BEGIN
    -- plans that are made while the tables are empty are kept, and are none for anything else
    IF NOT EXISTS (SELECT FROM changed_steps) THEN
        RETURN NULL;
    END IF;
    -- two sessions that add steps to one task count one after the other
    PERFORM FROM pawl_dag.tasks t
        WHERE t.task_uuid IN (SELECT s.task_uuid FROM changed_steps s) AND t.xmin <> pg_current_xact_id()::xid
      ORDER BY t.task_uuid FOR NO KEY UPDATE;
    IF TG_OP = 'INSERT' AND NOT pawl.restoring() THEN
        PERFORM pawl_dag._one_name_each(ARRAY(SELECT DISTINCT s.task_uuid FROM changed_steps s));
    END IF;
    PERFORM pawl_dag._count_tasks(ARRAY(SELECT DISTINCT s.task_uuid FROM changed_steps s));
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._steps_changed() IS 'internal: counts the steps of tasks that get or lose some';

CREATE FUNCTION pawl_dag._count_steps(task uuid)
RETURNS TABLE (total integer, blocked integer, ready integer, in_flight integer, waiting integer, failed integer,
    satisfied integer, cancelled integer)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT count(*), count(*) FILTER (WHERE k.kind = 'blocked'), count(*) FILTER (WHERE k.kind = 'ready'),
           count(*) FILTER (WHERE k.kind = 'in_flight'), count(*) FILTER (WHERE k.kind = 'waiting'),
           count(*) FILTER (WHERE k.kind = 'failed'),
           count(*) FILTER (WHERE k.kind = 'satisfied'), count(*) FILTER (WHERE k.kind = 'cancelled')
      FROM (SELECT pawl_dag._kind(s.state, s.unsatisfied_parents, s.optional) AS kind FROM pawl_dag.steps s
          WHERE s.task_uuid = task) k
$function$;
COMMENT ON FUNCTION pawl_dag._count_steps(uuid) IS 'internal: the steps of a task by what they are to it';

CREATE FUNCTION pawl_dag._count_tasks(tasks uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    UPDATE pawl_dag.tasks t
       SET steps_total = c.total, steps_blocked = c.blocked, steps_ready = c.ready, steps_in_flight = c.in_flight,
       steps_waiting = c.waiting,
           steps_failed = c.failed, steps_satisfied = c.satisfied, steps_cancelled = c.cancelled, evaluate = true
      FROM (SELECT x.task_uuid, n.* FROM unnest(tasks) x(task_uuid)
          CROSS JOIN LATERAL pawl_dag._count_steps(x.task_uuid) n) c
     WHERE t.task_uuid = c.task_uuid
       AND (t.steps_total, t.steps_blocked, t.steps_ready, t.steps_in_flight, t.steps_waiting, t.steps_failed,
           t.steps_satisfied, t.steps_cancelled)
        <> (c.total, c.blocked, c.ready, c.in_flight, c.waiting, c.failed, c.satisfied, c.cancelled);
END
$function$;
COMMENT ON FUNCTION pawl_dag._count_tasks(uuid[]) IS 'internal: counts the steps of tasks anew';

-- pawl_dag._start_tasks knows how many steps it makes, and of what names.
CREATE TRIGGER counted_insert AFTER INSERT ON pawl_dag.steps REFERENCING NEW TABLE AS changed_steps
    FOR EACH STATEMENT WHEN (NOT pawl_dag._orchestrating()) EXECUTE FUNCTION pawl_dag._steps_changed();
CREATE TRIGGER counted_delete AFTER DELETE ON pawl_dag.steps REFERENCING OLD TABLE AS changed_steps
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_dag._steps_changed();

-- Sets when a task entered its state, and when it ended. A change from one running state to another can set the time
-- itself. A task that an operator returns to work has its time again if its deadline has passed: otherwise it would
-- time out at once.
CREATE FUNCTION pawl_dag._task_entered() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.tasks');
BEGIN
    IF OLD.state IS DISTINCT FROM NEW.state THEN
        -- after a plain UPDATE the orchestrator does the rest
        NEW.evaluate := NEW.evaluate OR NEW.entered_at IS NOT DISTINCT FROM OLD.entered_at;
        NEW.entered_at := clock_timestamp();
        NEW.completed_at :=
            CASE WHEN NEW.state IN ('complete', 'error', 'cancelled', 'resolved_manually') THEN NEW.entered_at END;
        IF NEW.deadline_at <= NEW.entered_at AND (OLD.state = 'error' OR OLD.state = 'blocked_by_failures')
            AND (NEW.state = 'pending' OR NEW.state = 'evaluating_results') AND pawl_dag._is_operator(TG_RELID) THEN
            NEW.deadline_at := NEW.entered_at + coalesce((SELECT x.max_duration FROM pawl_dag.templates x
                WHERE x.template_uuid = NEW.template_uuid), '24 hours');
        END IF;
    END IF;
    IF NEW.state IN ('pending', 'blocked_by_failures', 'complete', 'error', 'cancelled', 'resolved_manually') THEN
        NEW.watch_at := NULL;
        NEW.evaluate := NEW.evaluate AND NEW.state IN ('pending', 'blocked_by_failures');
    ELSE
        NEW.watch_at := least(NEW.watch_at, NEW.deadline_at, NEW.entered_at + NEW.stale_after);
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._task_entered() IS
'internal: stamps a task with the time it enters a state, and says when it could be stale';

-- What an UPDATE does to its own row, and whether it may: these decide which of the functions named ..._by_sql,
-- _needs_condition, _operators_only and _task_entered a row needs, and call them as triggers.
CREATE FUNCTION pawl_dag._task_written() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_task_written';
COMMENT ON FUNCTION pawl_dag._task_written() IS 'internal: checks an UPDATE of a task, and sets its times';
CREATE TRIGGER checked BEFORE UPDATE ON pawl_dag.tasks FOR EACH ROW EXECUTE FUNCTION pawl_dag._task_written();

CREATE FUNCTION pawl_dag._step_written() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_step_written';
COMMENT ON FUNCTION pawl_dag._step_written() IS
'internal: checks an UPDATE of a step, and sets what it remembers of the state it enters';
CREATE TRIGGER checked BEFORE UPDATE ON pawl_dag.steps FOR EACH ROW EXECUTE FUNCTION pawl_dag._step_written();

-- A lease does not outlive the time that the step may take: then pawl.reap returns the step to its queue, however often
-- its worker sends heartbeats.
CREATE FUNCTION pawl_dag._step_leased() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
BEGIN
    NEW.lease_until := least(NEW.lease_until, NEW.last_attempted_at + NEW.timeout);
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._step_leased() IS 'internal: keeps the lease of a step within its timeout';
CREATE TRIGGER leased BEFORE UPDATE OF lease_until ON pawl_dag.steps
    FOR EACH ROW WHEN (OLD.state = 'in_progress' AND NEW.state = 'in_progress' AND NEW.timeout IS NOT NULL
        AND OLD.lease_until IS DISTINCT FROM NEW.lease_until)
    EXECUTE FUNCTION pawl_dag._step_leased();

-- A lease that a claim gives is seen only when the step is claimed, so it is cut afterwards; few steps have a timeout
-- that is shorter. pawl_dag._steps_written calls it as a trigger.
CREATE FUNCTION pawl_dag._steps_claimed() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
SET pawl.processor = ''
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
    worker uuid;
BEGIN
    FOR worker IN
        SELECT DISTINCT n.worker_uuid FROM new_steps n
          JOIN old_steps o ON o.task_uuid = n.task_uuid AND o.step_uuid = n.step_uuid AND o.state <> 'in_progress'
         WHERE n.state = 'in_progress' AND n.lease_until > n.last_attempted_at + n.timeout
    LOOP
        PERFORM set_config('pawl.processor', worker::text, true);
        UPDATE pawl_dag.steps s SET lease_until = n.last_attempted_at + n.timeout
          FROM new_steps n
          JOIN old_steps o ON o.task_uuid = n.task_uuid AND o.step_uuid = n.step_uuid AND o.state <> 'in_progress'
         WHERE s.task_uuid = n.task_uuid AND s.step_uuid = n.step_uuid AND n.worker_uuid = worker
           AND n.state = 'in_progress' AND n.lease_until > n.last_attempted_at + n.timeout;
    END LOOP;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._steps_claimed() IS
'internal: cuts the leases of steps that are claimed for longer than their timeouts';
