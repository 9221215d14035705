-- Reverts a whole flow, for an operator.

CREATE FUNCTION pawl_saga.revert(flow uuid, reason text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.metadata = ''
AS $function$
DECLARE
    f pawl_saga.flows := pawl_saga._lock(flow);
    outermost boolean;
    why jsonb := jsonb_build_object('reason', reason, 'actor', session_user);
BEGIN
    IF coalesce(reason, '') = '' THEN
        PERFORM pawl.raise('22004', 'reason is required to revert a flow', NULL, 'reason => ''...''');
    ELSIF f.state = 'PENDING' OR f.state = 'REVERTED' THEN
        PERFORM pawl.raise('55000', 'the flow has nothing to revert',
            format('Flow %s is in state "%s".', flow, f.state),
            CASE f.state WHEN 'REVERTED' THEN format('select pawl_saga.reset(%L, ''...'')', flow) END);
    END IF;
    PERFORM pawl_saga._check_snapshot(flow);
    outermost := pawl_saga._follow(true);
    PERFORM set_config('pawl.metadata', why::text, true);
    -- each UPDATE is a transition of the flow; running work finishes, and is then reverted
    IF f.state = 'SUSPENDING' THEN
        UPDATE pawl_saga.flows x SET state = 'RESUMING' WHERE x.flow_uuid = flow;
    END IF;
    IF f.state IN ('SUSPENDING', 'RESUMING') THEN
        UPDATE pawl_saga.flows x SET state = 'SUSPENDED' WHERE x.flow_uuid = flow;
    END IF;
    PERFORM pawl_saga._turn(flow, NULL, 'REVERT');
    IF f.state <> 'RUNNING' THEN
        UPDATE pawl_saga.flows x SET state = 'RUNNING' WHERE x.flow_uuid = flow;
    END IF;
    UPDATE pawl_saga.flows x SET problem = jsonb_build_object('message', 'reverted by hand') || why
        WHERE x.flow_uuid = flow AND NOT x.broken;
    IF outermost THEN
        PERFORM pawl_saga._finish(ARRAY[flow]);
        PERFORM pawl_saga._followed();
    ELSE
        PERFORM pawl_saga._leave_end(flow);
    END IF;
    RETURN (SELECT x.state FROM pawl_saga.flows x WHERE x.flow_uuid = flow);
END
$function$;
COMMENT ON FUNCTION pawl_saga.revert(uuid, text) IS
'Reverts everything that a flow has done, in reverse order, whether it runs, is suspended, failed or succeeded;
running work finishes first. Returns the state of the flow; flows.problem has the operator and the reason.
flow: its id. reason: a text.
Errors: 55000 it is PENDING or REVERTED; 22004 reason is null; P0002 no such flow; 42501 not a pawl_operator.
Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl_saga.revert(''01890000-0000-7000-8000-000000000001'', ''customer cancelled'')';
