-- Functions for operators. Each is an UPDATE that could be written by hand; triggers write what follows.

CREATE FUNCTION pawl_bulk._operation_of(operation uuid) RETURNS pawl_bulk.operations
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = _operation_of.operation FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no operation %s', operation));
    END IF;
    RETURN o;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._operation_of(uuid) IS 'internal: an operation, locked; P0002: there is none';

CREATE FUNCTION pawl_bulk.cancel(operation uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations := pawl_bulk._operation_of(operation);
BEGIN
    IF o.status = 'Cancelled' THEN
        RETURN false;
    END IF;
    UPDATE pawl_bulk.operations x SET status = 'Cancelled' WHERE x.operation = cancel.operation;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.cancel(uuid) IS
'Cancels an operation and all its active records; false: it was already cancelled. operation: its id.
Errors: PW001 it has ended otherwise; P0002 no such operation; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_bulk.cancel(''01890000-0000-7000-8000-000000000001'')';

CREATE FUNCTION pawl_bulk.abort(operation uuid, message text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
AS $function$
#variable_conflict use_variable
BEGIN
    PERFORM pawl_bulk._operation_of(operation);
    UPDATE pawl_bulk.operations x SET status = 'Failed', error_message = message WHERE x.operation = abort.operation;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.abort(uuid, text) IS
'Ends an operation as Failed and cancels its active records. operation: its id. message: why.
Errors: PW001 it has ended; P0002 no such operation; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_bulk.abort(''01890000-0000-7000-8000-000000000001'', ''wrong file'')';

CREATE FUNCTION pawl_bulk.pause(operation uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations := pawl_bulk._operation_of(operation);
BEGIN
    IF o.paused_at IS NOT NULL THEN
        RETURN false;
    END IF;
    UPDATE pawl_bulk.operations x SET paused_at = clock_timestamp() WHERE x.operation = pause.operation;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.pause(uuid) IS
'Pauses an operation: no further work of it starts; running work, signals, checks and deadlines continue. False: it
was already paused. operation: its id.
Errors: 55000 it has ended; P0002 no such operation; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_bulk.pause(''01890000-0000-7000-8000-000000000001'')';

CREATE FUNCTION pawl_bulk.resume(operation uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations := pawl_bulk._operation_of(operation);
BEGIN
    IF o.completed_at IS NOT NULL THEN
        PERFORM pawl.raise('55000', format('operation %s cannot be resumed', operation), format('It is %s.', o.status));
    ELSIF o.paused_at IS NULL THEN
        RETURN false;
    END IF;
    UPDATE pawl_bulk.operations x SET paused_at = NULL WHERE x.operation = resume.operation;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.resume(uuid) IS
'Resumes a paused operation; false: it was not paused. operation: its id.
Errors: 55000 it has ended; P0002 no such operation; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_bulk.resume(''01890000-0000-7000-8000-000000000001'')';
