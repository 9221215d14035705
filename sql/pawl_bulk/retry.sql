-- Retries: what failed runs again, from the step where it failed. One set-based statement of any size.

CREATE FUNCTION pawl_bulk.can_retry(operation uuid, OUT eligible boolean, OUT reason text, OUT message text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = can_retry.operation;
    reason := CASE WHEN NOT FOUND THEN 'operation_not_found' WHEN o.status <> 'CompletedWithErrors' THEN 'wrong_status'
        ELSE pawl_bulk._why_not_retried(o) END;
    eligible := reason = 'eligible';
    message := CASE reason
        WHEN 'operation_not_found' THEN format('there is no operation %s', operation)
        WHEN 'wrong_status' THEN format('the operation is %s, not CompletedWithErrors', o.status)
        WHEN 'definition_missing' THEN format('definition "%s" version %s does not exist', o.definition, o.version)
        WHEN 'not_retryable' THEN format('definition "%s" does not allow retries', o.definition)
        WHEN 'row_data_not_tracked' THEN 'the data of the rows was not kept'
        WHEN 'max_attempts_reached' THEN format('the operation was retried %s times, which is the limit', o.retry_count)
        WHEN 'no_retryable_rows' THEN 'no row has failed at a step that may be retried'
        ELSE 'the operation can be retried' END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.can_retry(uuid) IS
'Returns whether an operation can be retried. operation: its id.
Returns eligible, reason (the first of operation_not_found, wrong_status, definition_missing, not_retryable,
row_data_not_tracked, max_attempts_reached, no_retryable_rows; else eligible) and message.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT * FROM pawl_bulk.can_retry(''01890000-0000-7000-8000-000000000001'')';

CREATE FUNCTION pawl_bulk.retry(operation uuid, rows bigint[] DEFAULT NULL, error_types text[] DEFAULT NULL,
    steps text[] DEFAULT NULL, OUT submitted bigint, OUT skipped jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations := pawl_bulk._operation_of(operation);
    may record;
    allowed integer[];
    wanted integer[];
BEGIN
    may := pawl_bulk.can_retry(operation);
    IF NOT may.eligible THEN
        PERFORM pawl.raise('PW003', 'retry rejected: ' || may.reason,
            upper(left(may.message, 1)) || substr(may.message, 2) || '.');
    END IF;
    SELECT array_agg(s.step_index) FILTER (WHERE s.allow_operation_retry),
        coalesce(array_agg(s.step_index) FILTER (WHERE retry.steps IS NULL OR s.step_name = ANY (retry.steps)), '{}')
      INTO allowed, wanted FROM pawl_bulk.steps s WHERE s.name = o.definition AND s.version = o.version;
    SELECT coalesce(jsonb_agg(jsonb_build_array(x.row_number, x.reason) ORDER BY x.row_number), '[]') INTO skipped
      FROM (SELECT u.n AS row_number,
          CASE WHEN v.row_number IS NULL THEN 'unknown_row' WHEN v.state = 'Failed' THEN 'failed_validation'
              WHEN f.step_index IS NULL THEN 'not_failed' ELSE 'step_forbids_retry' END AS reason
              FROM (SELECT DISTINCT n FROM unnest(retry.rows) n) u
              LEFT JOIN pawl_bulk.validations v ON v.operation = retry.operation AND v.row_number = u.n
              LEFT JOIN pawl_bulk.records f ON f.operation = retry.operation AND f.row_number = u.n
                  AND f.error_type IS NOT NULL AND f.state IN ('Failed', 'TimedOut')
                   AND (retry.error_types IS NULL OR f.error_type = ANY (retry.error_types))
                   AND f.step_index = ANY (wanted)
             WHERE f.step_index IS NULL OR f.step_index <> ALL (allowed)
            UNION ALL
            SELECT f.row_number, 'step_forbids_retry' FROM pawl_bulk.records f
             WHERE retry.rows IS NULL AND f.operation = retry.operation AND f.error_type IS NOT NULL
                 AND f.state IN ('Failed', 'TimedOut')
               AND f.step_index <> ALL (allowed) AND f.step_index = ANY (wanted)
               AND (retry.error_types IS NULL OR f.error_type = ANY (retry.error_types))) x;
    IF NOT EXISTS (SELECT FROM pawl_bulk.records r
                    WHERE r.operation = retry.operation AND r.error_type IS NOT NULL
                        AND r.state IN ('Failed', 'TimedOut') AND r.step_index = ANY (allowed)
                      AND r.step_index = ANY (wanted)
                      AND (retry.error_types IS NULL OR r.error_type = ANY (retry.error_types))
                      AND (retry.rows IS NULL OR r.row_number = ANY (retry.rows))) THEN
        submitted := 0;
        RETURN;
    END IF;
    UPDATE pawl_bulk.operations x SET status = 'Retrying' WHERE x.operation = retry.operation;
    UPDATE pawl_bulk.records r SET state = 'Pending'
     WHERE r.operation = retry.operation AND r.error_type IS NOT NULL AND r.state IN ('Failed', 'TimedOut')
         AND r.step_index = ANY (allowed)
       AND r.step_index = ANY (wanted) AND (retry.error_types IS NULL OR r.error_type = ANY (retry.error_types))
       AND (retry.rows IS NULL OR r.row_number = ANY (retry.rows));
    GET DIAGNOSTICS submitted = ROW_COUNT;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.retry(uuid, bigint[], text[], text[]) IS
'Runs failed rows again, each from the step where it failed. Their previous outcomes are kept in
pawl_bulk.retry_history. If no row is left, nothing changes.
operation: its id. rows, error_types, steps: only these row numbers, types of errors and names of steps; default
null: all.
Returns submitted (how many rows) and skipped ([[row, reason]] of requested rows: unknown_row, failed_validation,
not_failed, step_forbids_retry).
Errors: PW003 it cannot be retried, with the reason of pawl_bulk.can_retry; P0002 no such operation; 42501 not a
pawl_operator. Privileges: pawl_admin, pawl_operator.
Example: SELECT * FROM pawl_bulk.retry(''01890000-0000-7000-8000-000000000001'', steps => ''{send}'')';
