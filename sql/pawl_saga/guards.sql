-- The guards of the transitions.

-- In C++, because each task meets them whenever it begins (src/packs/saga/guards.cpp).
CREATE FUNCTION pawl_saga.may_execute(old pawl_saga.tasks, new pawl_saga.tasks) RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_may_execute';
COMMENT ON FUNCTION pawl_saga.may_execute(pawl_saga.tasks, pawl_saga.tasks) IS
'Guard: the task is to be executed, and all atoms before it are done. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT
pawl_saga.may_execute(t, t) FROM pawl_saga.tasks t';

CREATE FUNCTION pawl_saga.may_revert(old pawl_saga.tasks, new pawl_saga.tasks) RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_may_revert';
COMMENT ON FUNCTION pawl_saga.may_revert(pawl_saga.tasks, pawl_saga.tasks) IS
'Guard: the task is to be reverted, and all atoms behind it are reverted. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT
pawl_saga.may_revert(t, t) FROM pawl_saga.tasks t';

CREATE FUNCTION pawl_saga.may_lose_another(old pawl_saga.tasks, new pawl_saga.tasks) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$BEGIN RETURN old.losses OPERATOR(pg_catalog.+) 1 OPERATOR(pg_catalog.<) old.max_losses; END$function$;
COMMENT ON FUNCTION pawl_saga.may_lose_another(pawl_saga.tasks, pawl_saga.tasks) IS
'Guard: the task has lost fewer workers than max_losses. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT
pawl_saga.may_lose_another(t, t) FROM pawl_saga.tasks t';

CREATE FUNCTION pawl_saga.flow_begins_anew(old pawl_saga.tasks, new pawl_saga.tasks) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$BEGIN
    RETURN (SELECT f.state = 'PENDING' FROM pawl_saga.flows f WHERE f.flow_uuid = new.flow_uuid);
END$function$;
COMMENT ON FUNCTION pawl_saga.flow_begins_anew(pawl_saga.tasks, pawl_saga.tasks) IS
'Guard: the flow of the task was reset. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT
pawl_saga.flow_begins_anew(t, t) FROM pawl_saga.tasks t';

CREATE FUNCTION pawl_saga.flow_of_retry_begins_anew(old pawl_saga.retries, new pawl_saga.retries) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$BEGIN
    RETURN (SELECT f.state = 'PENDING' FROM pawl_saga.flows f WHERE f.flow_uuid = new.flow_uuid);
END$function$;
COMMENT ON FUNCTION pawl_saga.flow_of_retry_begins_anew(pawl_saga.retries, pawl_saga.retries) IS
'Guard: the flow of the retry was reset. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT
pawl_saga.flow_of_retry_begins_anew(r, r) FROM pawl_saga.retries r';

-- plpgsql looks up what it calls when it runs: the outcome is defined with the follow-ups.
CREATE FUNCTION pawl_saga.may_end(old pawl_saga.flows, new pawl_saga.flows) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    RETURN NOT EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.flow_uuid = old.flow_uuid
                          AND (t.state = 'RUNNING' OR t.state = 'REVERTING' OR (t.due_at IS NULL
                              AND t.state = ANY ('{PENDING,SUCCESS,FAILURE,REVERT_FAILURE}'::text[]))))
       AND pawl_saga._outcome(old) IS NOT DISTINCT FROM new.state
       AND (new.state <> 'SUCCESS' OR NOT EXISTS (SELECT FROM pawl_saga.atoms a
           WHERE a.flow_uuid = old.flow_uuid AND NOT a.dropped AND a.state NOT IN ('SUCCESS', 'IGNORE')));
END
$function$;
COMMENT ON FUNCTION pawl_saga.may_end(pawl_saga.flows, pawl_saga.flows) IS
'Guard: no work of the flow is in progress or can start, and the new state follows from its atoms. old, new: the row
before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT pawl_saga.may_end(f,
f) FROM pawl_saga.flows f';

CREATE FUNCTION pawl_saga.may_reset(old pawl_saga.flows, new pawl_saga.flows) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    RETURN pg_has_role('pawl_operator', 'MEMBER')
        OR old.state = 'REVERTED'
        AND NOT EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.flow_uuid = old.flow_uuid AND t.state = 'SUCCESS');
END
$function$;
COMMENT ON FUNCTION pawl_saga.may_reset(pawl_saga.flows, pawl_saga.flows) IS
'Guard: the role is an operator, or the flow was reverted as a whole. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT
pawl_saga.may_reset(f, f) FROM pawl_saga.flows f';
