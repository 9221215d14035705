-- What the arrows of the two lifecycles ask before they let a row through.

CREATE FUNCTION pawl_dag.has_no_steps(old pawl_dag.tasks, new pawl_dag.tasks) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.steps_total OPERATOR(pg_catalog.=) 0; END$function$;
COMMENT ON FUNCTION pawl_dag.has_no_steps(pawl_dag.tasks, pawl_dag.tasks) IS 'guard: the task has no steps at all';

CREATE FUNCTION pawl_dag.has_ready_steps(old pawl_dag.tasks, new pawl_dag.tasks) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.steps_ready OPERATOR(pg_catalog.>) 0; END$function$;
COMMENT ON FUNCTION pawl_dag.has_ready_steps(pawl_dag.tasks, pawl_dag.tasks) IS 'guard: a step waits to be enqueued';

CREATE FUNCTION pawl_dag.has_no_open_steps(old pawl_dag.tasks, new pawl_dag.tasks) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN
    RETURN new.steps_satisfied OPERATOR(pg_catalog.+) new.steps_cancelled OPERATOR(pg_catalog.=) new.steps_total;
END$function$;
COMMENT ON FUNCTION pawl_dag.has_no_open_steps(pawl_dag.tasks, pawl_dag.tasks) IS 'guard: every step is satisfied, or was cancelled';

CREATE FUNCTION pawl_dag.has_no_failures(old pawl_dag.tasks, new pawl_dag.tasks) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.steps_failed OPERATOR(pg_catalog.=) 0; END$function$;
COMMENT ON FUNCTION pawl_dag.has_no_failures(pawl_dag.tasks, pawl_dag.tasks) IS 'guard: no step is in error';

CREATE FUNCTION pawl_dag.dependencies_satisfied(old pawl_dag.steps, new pawl_dag.steps) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.unsatisfied_parents OPERATOR(pg_catalog.=) 0; END$function$;
COMMENT ON FUNCTION pawl_dag.dependencies_satisfied(pawl_dag.steps, pawl_dag.steps) IS 'guard: every parent is complete or resolved_manually';

CREATE FUNCTION pawl_dag.is_retryable(old pawl_dag.steps, new pawl_dag.steps) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.retryable AND NOT new.permanent; END$function$;
COMMENT ON FUNCTION pawl_dag.is_retryable(pawl_dag.steps, pawl_dag.steps) IS 'guard: the step may be tried again, and its worker did not call the error permanent';

CREATE FUNCTION pawl_dag.may_be_retried(old pawl_dag.steps, new pawl_dag.steps) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN new.retryable AND new.attempts OPERATOR(pg_catalog.<) new.max_attempts; END$function$;
COMMENT ON FUNCTION pawl_dag.may_be_retried(pawl_dag.steps, pawl_dag.steps) IS 'guard: the step may be tried again, and attempts are left';

-- A step that is reset has all of its attempts again.
CREATE FUNCTION pawl_dag.forget_attempts(old pawl_dag.steps, new pawl_dag.steps) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
AS $function$
BEGIN
    UPDATE pawl_dag.steps s SET attempts = 0, permanent = false, backoff_request = NULL WHERE s.task_uuid = new.task_uuid AND s.step_uuid = new.step_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_dag.forget_attempts(pawl_dag.steps, pawl_dag.steps) IS 'effect: the step has made no attempts';
