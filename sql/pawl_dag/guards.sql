-- The guards of the transitions of the two machines.

CREATE FUNCTION pawl_dag.has_no_steps(old pawl_dag.tasks, new pawl_dag.tasks) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.steps_total OPERATOR(pg_catalog.=) 0; END$function$;
COMMENT ON FUNCTION pawl_dag.has_no_steps(pawl_dag.tasks, pawl_dag.tasks) IS
'Guard: the task has no steps. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_dag.has_no_steps(t, t) FROM pawl_dag.tasks t';

-- A turn of the orchestrator enqueues steps before it moves their task, by one write: then none is left to wait.
CREATE FUNCTION pawl_dag._enqueued_in_turn(task uuid) RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED STRICT SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_enqueued_in_turn';
COMMENT ON FUNCTION pawl_dag._enqueued_in_turn(uuid) IS
'internal: the turn of the orchestrator that writes this task has enqueued steps of it';

CREATE FUNCTION pawl_dag.has_ready_steps(old pawl_dag.tasks, new pawl_dag.tasks) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
BEGIN
    RETURN new.steps_ready OPERATOR(pg_catalog.>) 0 OR pawl_dag._enqueued_in_turn(new.task_uuid);
END
$function$;
COMMENT ON FUNCTION pawl_dag.has_ready_steps(pawl_dag.tasks, pawl_dag.tasks) IS
'Guard: a step of the task waits to be enqueued, or the orchestrator enqueues it in this transaction. old, new: the
row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_dag.has_ready_steps(t, t) FROM pawl_dag.tasks t';

CREATE FUNCTION pawl_dag.has_no_open_steps(old pawl_dag.tasks, new pawl_dag.tasks) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN
    RETURN new.steps_satisfied OPERATOR(pg_catalog.+) new.steps_cancelled OPERATOR(pg_catalog.=) new.steps_total;
END$function$;
COMMENT ON FUNCTION pawl_dag.has_no_open_steps(pawl_dag.tasks, pawl_dag.tasks) IS
'Guard: every step of the task is satisfied or cancelled. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_dag.has_no_open_steps(t, t) FROM pawl_dag.tasks t';

CREATE FUNCTION pawl_dag.has_no_failures(old pawl_dag.tasks, new pawl_dag.tasks) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.steps_failed OPERATOR(pg_catalog.=) 0; END$function$;
COMMENT ON FUNCTION pawl_dag.has_no_failures(pawl_dag.tasks, pawl_dag.tasks) IS
'Guard: no step of the task is in error. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_dag.has_no_failures(t, t) FROM pawl_dag.tasks t';

CREATE FUNCTION pawl_dag.dependencies_satisfied(old pawl_dag.steps, new pawl_dag.steps) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.unsatisfied_parents OPERATOR(pg_catalog.=) 0; END$function$;
COMMENT ON FUNCTION pawl_dag.dependencies_satisfied(pawl_dag.steps, pawl_dag.steps) IS
'Guard: every parent of the step is complete or resolved_manually. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_dag.dependencies_satisfied(s, s) FROM pawl_dag.steps s';

CREATE FUNCTION pawl_dag.is_retryable(old pawl_dag.steps, new pawl_dag.steps) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.retryable AND NOT new.permanent; END$function$;
COMMENT ON FUNCTION pawl_dag.is_retryable(pawl_dag.steps, pawl_dag.steps) IS
'Guard: the step is retryable, and its worker did not report the error as permanent. old, new: the row before and
after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_dag.is_retryable(s, s) FROM pawl_dag.steps s';

CREATE FUNCTION pawl_dag.may_be_retried(old pawl_dag.steps, new pawl_dag.steps) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.retryable AND new.attempts OPERATOR(pg_catalog.<) new.max_attempts; END$function$;
COMMENT ON FUNCTION pawl_dag.may_be_retried(pawl_dag.steps, pawl_dag.steps) IS
'Guard: the step is retryable and has attempts left. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_dag.may_be_retried(s, s) FROM pawl_dag.steps s';

-- A step that is reset has all of its attempts again.
CREATE FUNCTION pawl_dag.forget_attempts(old pawl_dag.steps, new pawl_dag.steps) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
AS $function$
BEGIN
    UPDATE pawl_dag.steps s SET attempts = 0, permanent = false, backoff_request = NULL
        WHERE s.task_uuid = new.task_uuid AND s.step_uuid = new.step_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_dag.forget_attempts(pawl_dag.steps, pawl_dag.steps) IS
'Effect: sets the attempts of the step to zero. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; needs UPDATE on pawl_dag.steps.
Example: SELECT pawl_dag.forget_attempts(s, s) FROM pawl_dag.steps s WHERE s.state = ''pending''';
