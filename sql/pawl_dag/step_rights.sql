-- Rejects UPDATEs of steps that are SQL functions.

-- Only roles that may run SQL functions begin and end their work.
CREATE FUNCTION pawl_dag._runs_sql() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT has_function_privilege(current_user, 'pawl_dag.run_sql_steps(integer)', 'EXECUTE')
$function$;
COMMENT ON FUNCTION pawl_dag._runs_sql() IS 'internal: the current user may run SQL functions';

-- pawl.reap ends an expired lease, and every role may call it.
CREATE FUNCTION pawl_dag._sql_step_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.steps');
BEGIN
    IF (OLD.lease_until <= clock_timestamp()
            AND NEW.state NOT IN ('enqueued_for_orchestration', 'enqueued_as_error_for_orchestration')
            AND coalesce(NEW.worker_uuid, OLD.worker_uuid) = OLD.worker_uuid
            AND coalesce(NEW.lease_until, OLD.lease_until) = OLD.lease_until) IS NOT TRUE THEN
        PERFORM pawl.raise('42501', format('permission denied to change step "%s" of task %s', NEW.name,
            NEW.task_uuid), 'Its handler is a SQL function; only roles that may run these begin and end it.',
            'select * from pawl_dag.run_sql_steps()');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._sql_step_by_sql() IS
'internal: rejects changes of steps of SQL functions by roles that may not run these; 42501';
