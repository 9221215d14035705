-- Many signals in one statement.

-- The answers to signals whose keys are locked and all different, decided by each key's record and work.
CREATE FUNCTION pawl_bulk._check_signals(operation uuid, keys text[], attempts integer[], OUT answers text[],
    OUT numbers bigint[], OUT steps integer[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    deadlines timestamptz[];
    now_at timestamptz;
BEGIN
    SELECT array_agg(k.row_number), array_agg(k.step_index), array_agg(w.deadline_at) INTO numbers, steps, deadlines
      FROM unnest(keys) u(key)
     CROSS JOIN LATERAL (SELECT x.row_number, x.step_index FROM pawl_bulk.signal_keys x
         WHERE x.operation = _check_signals.operation AND x.key = u.key FOR UPDATE) k
      LEFT JOIN LATERAL (SELECT x.deadline_at FROM pawl_bulk.work x
                          WHERE x.operation = _check_signals.operation AND x.row_number = k.row_number
          AND x.step_index = k.step_index AND x.kind = 'signal' FOR UPDATE) w ON true;
    PERFORM pawl_bulk._check_snapshot(operation, numbers, steps);
    now_at := clock_timestamp();
    answers := ARRAY(
        SELECT CASE WHEN r.state IN ('Pending', 'Running') AND u.attempt < r.retry_attempt THEN 'late'
                    WHEN r.state IS NULL OR r.state IN ('Pending', 'Running') THEN 'early'
                    WHEN r.state = 'Completed' THEN 'duplicate'
                    WHEN r.state = 'Cancelled' THEN 'refused'
                    WHEN r.state <> 'WaitingForCompletion' OR u.deadline_at <= now_at
                        OR u.attempt <> r.retry_attempt THEN 'late'
                    ELSE 'applied' END
          FROM unnest(numbers, steps, deadlines, attempts) u(row_number, step_index, deadline_at, attempt)
          LEFT JOIN LATERAL (SELECT x.state, x.retry_attempt FROM pawl_bulk.records x
                              WHERE x.operation = _check_signals.operation AND x.row_number = u.row_number
            AND x.step_index = u.step_index OFFSET 0) r ON true);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._check_signals(uuid, text[], integer[]) IS
'internal: locks keys and their work; the answer to each signal';

CREATE FUNCTION pawl_bulk._apply_signals(operation uuid, keys text[], results text[], messages text[],
        attempts integer[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at timestamptz;
    checked record;
    kept text[];
BEGIN
    -- keys are made or locked one by one in their order, as all sessions do it, and a locked one is not written: the
    -- session that holds a key may be about to make a later one
    INSERT INTO pawl_bulk.signal_keys AS k (operation, key) SELECT operation, u.key FROM unnest(keys) u(key)
        ON CONFLICT ON CONSTRAINT signal_keys_pkey DO UPDATE SET key = excluded.key WHERE false;
    checked := pawl_bulk._check_signals(operation, keys, attempts);
    now_at := clock_timestamp();
    -- keys and records are looked up one by one and written by their places: a plan that was made before the tables
    -- were analyzed would read the whole operation for each
    WITH early AS (
        UPDATE pawl_bulk.signal_keys k SET early_result = u.result, early_message = u.message, early_attempt = u.attempt
          FROM (SELECT l.place, g.result, g.message, g.attempt
                  FROM unnest(keys, results, messages, attempts, checked.answers) g(key, result, message, attempt,
                      answer)
                 CROSS JOIN LATERAL (SELECT x.ctid AS place FROM pawl_bulk.signal_keys x
                     WHERE x.operation = _apply_signals.operation AND x.key = g.key OFFSET 0) l
                 WHERE g.answer = 'early' OFFSET 0) u
         WHERE k.ctid = u.place AND k.early_result IS NULL
        RETURNING k.key)
    SELECT array_agg(e.key) INTO kept FROM early e;
    UPDATE pawl_bulk.records r
       SET state = CASE u.result WHEN 'complete' THEN 'Completed' ELSE 'Failed' END,
       error_type = CASE u.result WHEN 'fail' THEN 'SignalFailure' END,
           error_message = CASE u.result WHEN 'fail' THEN u.message END, completed_at = now_at
      FROM (SELECT l.place, g.result, g.message
              FROM unnest(checked.numbers, checked.steps, checked.answers, results, messages) g(row_number, step_index,
                  answer, result, message)
             CROSS JOIN LATERAL (SELECT x.ctid AS place FROM pawl_bulk.records x
                 WHERE x.operation = _apply_signals.operation AND x.row_number = g.row_number
                   AND x.step_index = g.step_index OFFSET 0) l
             WHERE g.answer = 'applied' OFFSET 0) u
     WHERE r.ctid = u.place AND r.state = 'WaitingForCompletion';
    RETURN ARRAY(SELECT CASE WHEN u.answer = 'early'
        AND (u.key IN (SELECT unnest(kept))) IS NOT TRUE THEN 'duplicate' ELSE u.answer END
                   FROM unnest(keys, checked.answers) u(key, answer));
END
$function$;
COMMENT ON FUNCTION pawl_bulk._apply_signals(uuid, text[], text[], text[], integer[]) IS
'internal: what signals with different keys, in the order of the keys, do, and their answers';

-- SECURITY DEFINER: it writes the answers that it has computed.
CREATE FUNCTION pawl_bulk.signal_many(operation uuid, signals jsonb) RETURNS TABLE (key text, answer text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    status text;
    given record;
    first record;
    answers text[];
BEGIN
    IF signal_many.operation IS NULL OR jsonb_typeof(signal_many.signals) IS DISTINCT FROM 'array' THEN
        PERFORM pawl.raise('22023', 'signals must be a JSON array', NULL,
            '[{"key", "result": "complete", "message", "payload", "attempt"}]');
    END IF;
    BEGIN
        SELECT array_agg(x.key) AS keys, array_agg(coalesce(x.result, 'complete')) AS results,
            array_agg(x.message) AS messages, array_agg(x.payload) AS payloads, array_agg(x.attempt) AS attempts
          INTO given FROM jsonb_to_recordset(signal_many.signals) x(key text, result text, message text, payload jsonb,
              attempt integer);
    EXCEPTION WHEN data_exception THEN
        -- looked for only here: most signals are fine
        PERFORM pawl.raise('22023', 'a signal must be an object, and its attempt an integer', (
            SELECT format('Element %s is %s.', x.n, left(x.e::text, 200))
              FROM jsonb_array_elements(signal_many.signals) WITH ORDINALITY x(e, n)
             WHERE jsonb_typeof(x.e) <> 'object' OR x.e ->> 'attempt' IS NOT NULL
               AND (pawl_bulk._bigint(x.e ->> 'attempt') BETWEEN -2147483648 AND 2147483647) IS NOT TRUE
             ORDER BY x.n LIMIT 1),
            '[{"key", "result": "complete", "message", "payload", "attempt"}]');
    END;
    IF given.keys IS NULL THEN
        RETURN;
    ELSIF array_position(given.keys, NULL) IS NOT NULL OR NOT given.results <@ '{complete,fail}' THEN
        PERFORM pawl.raise('22023', 'a signal must have a key and the result complete or fail');
    ELSIF EXISTS (SELECT FROM unnest(given.keys) k WHERE octet_length(k) > 2000) THEN
        PERFORM pawl.raise('22023', 'a signal key must have at most 2000 bytes');
    END IF;
    PERFORM pawl_bulk._hold(ARRAY[signal_many.operation]);
    status := pawl_bulk._keep_status(signal_many.operation, true);
    -- the first signal of each key counts, in the order in which all senders of signals lock keys
    SELECT array_agg(x.n) AS places, array_agg(x.key) AS keys, array_agg(x.result) AS results,
        array_agg(x.message) AS messages, array_agg(x.attempt) AS attempts
      INTO first
      FROM (SELECT DISTINCT ON (u.key COLLATE "C") u.*
          FROM unnest(given.keys, given.results, given.messages, given.attempts)
              WITH ORDINALITY u(key, result, message, attempt, n)
             ORDER BY u.key COLLATE "C", u.n) x;
    IF status IN ('Completed', 'Failed', 'Cancelled') THEN
        answers := array_fill('refused'::text, ARRAY[cardinality(given.keys)]);
    ELSE
        answers := pawl_bulk._apply_signals(signal_many.operation, first.keys, first.results, first.messages,
            first.attempts);
        IF cardinality(first.keys) = cardinality(given.keys) THEN
            answers := ARRAY(SELECT a.answer FROM unnest(first.places, answers) a(n, answer) ORDER BY a.n);
        ELSE
            SELECT array_agg(coalesce(a.answer,
                        CASE WHEN b.answer IN ('applied', 'early') THEN 'duplicate' ELSE b.answer END) ORDER BY u.n)
                INTO answers
              FROM unnest(given.keys) WITH ORDINALITY u(key, n)
              LEFT JOIN unnest(first.places, answers) a(n, answer) ON a.n = u.n
              JOIN unnest(first.keys, answers) b(key, answer) ON b.key = u.key;
        END IF;
    END IF;
    INSERT INTO pawl_bulk.signals (operation, key, result, message, payload, attempt, answer)
    SELECT signal_many.operation, u.key, u.result, u.message, u.payload, u.attempt, u.answer
      FROM unnest(given.keys, given.results, given.messages, given.payloads, given.attempts, answers) u(key, result,
          message, payload, attempt, answer);
    RETURN QUERY SELECT u.key, u.answer FROM unnest(given.keys, answers) u(key, answer);
END
$function$;
COMMENT ON FUNCTION pawl_bulk.signal_many(uuid, jsonb) IS
'Sends signals to an operation and returns the answer to each, in order, as pawl_bulk.signal; the first signal of a
key counts.
operation: its id. signals: [{"key", "result": "complete" or "fail", "message", "payload", "attempt"}].
Returns key and answer. Errors: P0002 no such operation; 22023 not an array of objects, no key, an unknown result, or
an attempt that is no integer.
Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_bulk.signal_many(''01890000-0000-7000-8000-000000000001'',
''[{"key": "carrier-1", "result": "complete"}]'')';
