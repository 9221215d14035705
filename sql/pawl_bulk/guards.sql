-- The guards of operations, and the sums that they read.

CREATE FUNCTION pawl_bulk._sums(operation uuid, OUT validated bigint, OUT successful bigint, OUT failed bigint)
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    SELECT coalesce(sum(t.validated), 0)::bigint, coalesce(sum(t.successful), 0)::bigint,
        coalesce(sum(t.failed), 0)::bigint
      FROM pawl_bulk.tallies t WHERE t.operation = _sums.operation
$function$;
COMMENT ON FUNCTION pawl_bulk._sums(uuid) IS
'internal: the counters of an operation as of now; volatile, so that guards see what was committed meanwhile';

CREATE FUNCTION pawl_bulk.rows_are_validated(old pawl_bulk.operations, new pawl_bulk.operations) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    RETURN new.sealed AND new.input_error IS NULL
       AND NOT EXISTS (SELECT FROM pawl_bulk.unvalidated u WHERE u.operation = new.operation)
       AND NOT EXISTS (SELECT FROM pawl_bulk.input i
           WHERE i.operation = new.operation AND i.row_number > new.validated_through AND i.row_number > 0);
END
$function$;
COMMENT ON FUNCTION pawl_bulk.rows_are_validated(pawl_bulk.operations, pawl_bulk.operations) IS
'Guard: the input is complete and every row is validated. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.rows_are_validated(o, o) FROM pawl_bulk.operations o';

CREATE FUNCTION pawl_bulk.all_rows_succeeded(old pawl_bulk.operations, new pawl_bulk.operations) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    sums record;
BEGIN
    IF new.operation IS NULL THEN
        RETURN NULL;
    END IF;
    sums := pawl_bulk._sums(new.operation);
    RETURN sums.failed = 0 AND sums.successful = new.total_rows;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.all_rows_succeeded(pawl_bulk.operations, pawl_bulk.operations) IS
'Guard: every row has succeeded. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.all_rows_succeeded(o, o) FROM pawl_bulk.operations o';

CREATE FUNCTION pawl_bulk.some_rows_failed(old pawl_bulk.operations, new pawl_bulk.operations) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    sums record;
BEGIN
    IF new.operation IS NULL THEN
        RETURN NULL;
    END IF;
    sums := pawl_bulk._sums(new.operation);
    RETURN sums.failed > 0 AND sums.successful + sums.failed = new.total_rows;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.some_rows_failed(pawl_bulk.operations, pawl_bulk.operations) IS
'Guard: every row has an outcome, and at least one has failed. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.some_rows_failed(o, o) FROM pawl_bulk.operations o';

CREATE FUNCTION pawl_bulk._why_not_retried(o pawl_bulk.operations) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    d pawl_bulk.definitions;
BEGIN
    SELECT x.* INTO d FROM pawl_bulk.definitions x
        WHERE x.name = o.definition AND x.version = o.version AND x.dropped_at IS NULL;
    IF NOT FOUND THEN
        RETURN 'definition_missing';
    ELSIF NOT d.is_retryable THEN
        RETURN 'not_retryable';
    ELSIF NOT o.track_row_data THEN
        RETURN 'row_data_not_tracked';
    ELSIF o.retry_count >= coalesce(nullif(d.max_retry_attempts, 0), 32000) THEN
        RETURN 'max_attempts_reached';
    ELSIF NOT EXISTS (SELECT FROM pawl_bulk.steps s
                       CROSS JOIN LATERAL (SELECT FROM pawl_bulk.records r
                           WHERE r.operation = o.operation AND r.step_index = s.step_index AND r.error_type IS NOT NULL
                                              AND r.state IN ('Failed', 'TimedOut') LIMIT 1) f
                       WHERE s.name = o.definition AND s.version = o.version AND s.allow_operation_retry) THEN
        RETURN 'no_retryable_rows';
    END IF;
    RETURN 'eligible';
END
$function$;
COMMENT ON FUNCTION pawl_bulk._why_not_retried(pawl_bulk.operations) IS
'internal: the first reason, its status apart, why an operation cannot be retried; eligible: none';

CREATE FUNCTION pawl_bulk.may_be_retried(old pawl_bulk.operations, new pawl_bulk.operations) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$BEGIN RETURN pawl_bulk._why_not_retried(old) = 'eligible'; END$function$;
COMMENT ON FUNCTION pawl_bulk.may_be_retried(pawl_bulk.operations, pawl_bulk.operations) IS
'Guard: the operation can be retried, as pawl_bulk.can_retry reports. old, new: the row before and after.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.may_be_retried(o, o) FROM pawl_bulk.operations o';
