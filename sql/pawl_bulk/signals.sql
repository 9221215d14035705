-- Signals from outside. A signal and its record meet in a row of pawl_bulk.signal_keys, under its lock, so no signal is
-- lost.

CREATE FUNCTION pawl_bulk._early(operation uuid, key text, result text, message text, attempt integer) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    UPDATE pawl_bulk.signal_keys k SET early_result = result, early_message = message, early_attempt = attempt
     WHERE k.operation = _early.operation AND k.key = _early.key AND k.early_result IS NULL;
    RETURN CASE WHEN FOUND THEN 'early' ELSE 'duplicate' END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._early(uuid, text, text, text, integer) IS
'internal: keeps a signal until its record waits for it';

-- The keys are locked. A record that another session is changing is left out: that session will wait for its key.
CREATE FUNCTION pawl_bulk._check_snapshot(operation uuid, row_numbers bigint[], step_indexes integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        PERFORM FROM unnest(row_numbers, step_indexes) u(row_number, step_index)
          CROSS JOIN LATERAL (SELECT x.state FROM pawl_bulk.records x WHERE x.operation = _check_snapshot.operation
              AND x.row_number = u.row_number AND x.step_index = u.step_index FOR SHARE SKIP LOCKED) r;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._check_snapshot(uuid, bigint[], integer[]) IS
'internal: whether an old snapshot still has records as they are; 40001: one has changed';

-- An operation at rest can be deleted, and would leave the signal behind. One that is held stays active; the lock of
-- its row would be written by each signal.
CREATE FUNCTION pawl_bulk._keep_status(operation uuid, held boolean) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    status text;
BEGIN
    SELECT o.status INTO status FROM pawl_bulk.operations o WHERE o.operation = _keep_status.operation;
    IF NOT (held AND status IN ('Pending', 'Validating', 'Running', 'Retrying')) THEN
        SELECT o.status INTO status FROM pawl_bulk.operations o WHERE o.operation = _keep_status.operation
            FOR KEY SHARE;
    END IF;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no operation %s', operation));
    END IF;
    RETURN status;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._keep_status(uuid, boolean) IS
'internal: the status of an operation, which is not deleted before the transaction ends; held: nor does the status '
'change; P0002: there is none';

-- Computes the answer to a signal, and does what it means. The key is locked.
CREATE FUNCTION pawl_bulk._apply_signal(operation uuid, key text, result text, message text, attempt integer)
    RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    k pawl_bulk.signal_keys;
    r pawl_bulk.records;
    w pawl_bulk.work;
    now_at timestamptz;
BEGIN
    SELECT x.* INTO k FROM pawl_bulk.signal_keys x
        WHERE x.operation = _apply_signal.operation AND x.key = _apply_signal.key FOR UPDATE;
    SELECT x.* INTO w FROM pawl_bulk.work x WHERE x.operation = k.operation AND x.row_number = k.row_number
        AND x.step_index = k.step_index AND x.kind = 'signal' FOR UPDATE;
    PERFORM pawl_bulk._check_snapshot(operation, ARRAY[k.row_number], ARRAY[k.step_index]);
    SELECT x.* INTO r FROM pawl_bulk.records x
        WHERE x.operation = k.operation AND x.row_number = k.row_number AND x.step_index = k.step_index;
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
       SET state = CASE result WHEN 'complete' THEN 'Completed' ELSE 'Failed' END,
       error_type = CASE result WHEN 'fail' THEN 'SignalFailure' END,
           error_message = CASE result WHEN 'fail' THEN message END, completed_at = now_at
     WHERE x.operation = r.operation AND x.row_number = r.row_number AND x.step_index = r.step_index
         AND x.state = 'WaitingForCompletion';
    RETURN CASE WHEN FOUND THEN 'applied' ELSE 'late' END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._apply_signal(uuid, text, text, text, integer) IS
'internal: what a signal does, and its answer';

-- A signal is a row of pawl_bulk.signals, whether pawl_bulk.signal or a plain INSERT sends it. Its answer is computed
-- here, so no role but the owner writes it; pawl_bulk.signal_many computes the answers of many together.
CREATE FUNCTION pawl_bulk._signal_sent() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.signals');
    may_go_on boolean;
    status text;
BEGIN
    IF NEW.operation IS NULL OR NEW.key IS NULL OR NEW.result IS NULL THEN
        PERFORM pawl.raise('22004', 'operation, key and result must not be null');
    ELSIF NEW.result NOT IN ('complete', 'fail') THEN
        PERFORM pawl.raise('22023', format('unknown result "%s"', NEW.result), NULL, 'complete or fail');
    ELSIF octet_length(NEW.key) > 2000 THEN
        PERFORM pawl.raise('22023', 'a signal key must have at most 2000 bytes',
            format('It has %s bytes.', octet_length(NEW.key)));
    END IF;
    -- a record that waits, or will when its key is locked, may go on to its next step: then its operation stays as it
    -- is. A retry of a million rows has neither
    may_go_on := EXISTS (SELECT FROM pawl_bulk.signal_keys k JOIN pawl_bulk.records r ON r.operation = k.operation
        AND r.row_number = k.row_number AND r.step_index = k.step_index
         WHERE k.operation = NEW.operation AND k.key = NEW.key AND r.state IN ('Running', 'WaitingForCompletion'));
    IF may_go_on THEN
        PERFORM pawl_bulk._hold(ARRAY[NEW.operation]);
    END IF;
    status := pawl_bulk._keep_status(NEW.operation, may_go_on);
    IF status IN ('Completed', 'Failed', 'Cancelled') THEN
        NEW.answer := 'refused';
    ELSE
        INSERT INTO pawl_bulk.signal_keys (operation, key) VALUES (NEW.operation, NEW.key) ON CONFLICT DO NOTHING;
        NEW.answer := pawl_bulk._apply_signal(NEW.operation, NEW.key, NEW.result, NEW.message, NEW.attempt);
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._signal_sent() IS 'internal: carries out a signal, and answers it; P0002, 22004, 22023';
CREATE TRIGGER sent BEFORE INSERT ON pawl_bulk.signals FOR EACH ROW
    WHEN (NEW.answer IS NULL AND NOT pawl.restoring()) EXECUTE FUNCTION pawl_bulk._signal_sent();

CREATE FUNCTION pawl_bulk.signal(operation uuid, key text, result text DEFAULT 'complete', message text DEFAULT NULL,
    payload jsonb DEFAULT NULL, attempt integer DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    answer text;
BEGIN
    INSERT INTO pawl_bulk.signals AS s (operation, key, result, message, payload, attempt)
    VALUES (operation, key, result, message, payload, attempt) RETURNING s.answer INTO answer;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.signal(uuid, text, text, text, jsonb, integer) IS
'Completes or fails the step that waits for a key, from any session, and returns the answer: applied; early: the
record does not wait yet, and the signal is kept for it; duplicate: it is completed or has an early signal; late:
it has failed, timed out or is at another attempt; refused: the operation has ended.
operation: its id. key: 1 to 2000 bytes. result: complete (default) or fail. message: a text; default null. payload:
a JSON value; default null. attempt: only for this attempt; default null: any.
Errors: P0002 no such operation; 22023 unknown result or a key that is too long; 22004 null. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT pawl_bulk.signal(''01890000-0000-7000-8000-000000000001'', ''carrier-1'')';
