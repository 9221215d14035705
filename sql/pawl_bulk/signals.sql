-- Signals from outside. A key and its record meet in pawl_bulk.signal_keys, under the lock of that row, so that none is lost between.

CREATE FUNCTION pawl_bulk._early(operation uuid, key text, result text, message text, attempt integer) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
BEGIN
    UPDATE pawl_bulk.signal_keys k SET early_result = result, early_message = message, early_attempt = attempt
     WHERE k.operation = _early.operation AND k.key = _early.key AND k.early_result IS NULL;
    RETURN CASE WHEN FOUND THEN 'early' ELSE 'duplicate' END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._early(uuid, text, text, text, integer) IS 'internal: keeps a signal until its record waits for it';

-- The answer to a signal, and what it does. The key is locked.
CREATE FUNCTION pawl_bulk._apply_signal(operation uuid, key text, result text, message text, attempt integer) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    k pawl_bulk.signal_keys;
    r pawl_bulk.records;
    w pawl_bulk.work;
    now_at timestamptz;
BEGIN
    SELECT x.* INTO k FROM pawl_bulk.signal_keys x WHERE x.operation = _apply_signal.operation AND x.key = _apply_signal.key FOR UPDATE;
    SELECT x.* INTO w FROM pawl_bulk.work x WHERE x.operation = k.operation AND x.row_number = k.row_number AND x.step_index = k.step_index AND x.kind = 'signal' FOR UPDATE;
    SELECT x.* INTO r FROM pawl_bulk.records x WHERE x.operation = k.operation AND x.row_number = k.row_number AND x.step_index = k.step_index;
    IF r.state IS NULL OR r.state IN ('Pending', 'Running') THEN
        IF r.state IS NOT NULL AND attempt < r.retry_attempt THEN
            RETURN 'late';
        END IF;
        RETURN pawl_bulk._early(operation, key, result, message, attempt);
    ELSIF r.state = 'Completed' THEN
        RETURN 'duplicate';
    ELSIF r.state = 'Cancelled' THEN
        RETURN 'refused';
    END IF;
    now_at := clock_timestamp();
    IF r.state <> 'WaitingForCompletion' OR w.deadline_at <= now_at OR attempt <> r.retry_attempt THEN
        RETURN 'late';
    END IF;
    UPDATE pawl_bulk.records x
       SET state = CASE result WHEN 'complete' THEN 'Completed' ELSE 'Failed' END, error_type = CASE result WHEN 'fail' THEN 'SignalFailure' END,
           error_message = CASE result WHEN 'fail' THEN message END, completed_at = now_at
     WHERE x.operation = r.operation AND x.row_number = r.row_number AND x.step_index = r.step_index AND x.state = 'WaitingForCompletion';
    RETURN CASE WHEN FOUND THEN 'applied' ELSE 'late' END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._apply_signal(uuid, text, text, text, integer) IS 'internal: what a signal does, and its answer';

CREATE FUNCTION pawl_bulk.signal(operation uuid, key text, result text DEFAULT 'complete', message text DEFAULT NULL, payload jsonb DEFAULT NULL, attempt integer DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    status text;
    answer text;
BEGIN
    IF operation IS NULL OR key IS NULL OR result IS NULL THEN
        PERFORM pawl.raise('22004', 'operation, key and result must not be null');
    ELSIF result NOT IN ('complete', 'fail') THEN
        PERFORM pawl.raise('22023', format('unknown result "%s"', result), NULL, 'complete or fail');
    ELSIF octet_length(key) > 2000 THEN
        PERFORM pawl.raise('22023', 'a signal key must have at most 2000 bytes', format('It has %s bytes.', octet_length(key)));
    END IF;
    -- a record that waits may go on to its next step: then its operation stays as it is. A retry of a million rows has none that wait
    IF EXISTS (SELECT FROM pawl_bulk.signal_keys k JOIN pawl_bulk.work w ON w.operation = k.operation AND w.row_number = k.row_number AND w.step_index = k.step_index
                WHERE k.operation = signal.operation AND k.key = signal.key AND w.kind = 'signal') THEN
        PERFORM pawl_bulk._hold(ARRAY[operation]);
    END IF;
    SELECT o.status INTO status FROM pawl_bulk.operations o WHERE o.operation = signal.operation;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no operation %s', operation));
    ELSIF status IN ('Completed', 'Failed', 'Cancelled') THEN
        answer := 'refused';
    ELSE
        INSERT INTO pawl_bulk.signal_keys (operation, key) VALUES (operation, key) ON CONFLICT DO NOTHING;
        answer := pawl_bulk._apply_signal(operation, key, result, message, attempt);
    END IF;
    INSERT INTO pawl_bulk.signals (operation, key, result, message, payload, attempt, answer)
    VALUES (operation, key, result, message, payload, attempt, answer);
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.signal(uuid, text, text, text, jsonb, integer) IS
'completes or fails the step that waits for this key, from any session. Returns applied; early: its record does not wait yet, the signal is kept for it; duplicate: it is completed, or has an early signal; late: it has failed, timed out, or is at another attempt; refused: the operation has ended. P0002: no such operation; 22023: result is neither complete nor fail';
