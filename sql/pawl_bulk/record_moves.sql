-- State changes of records. Functions get the rows as sets: transition tables are visible
-- to the trigger's own function only.

-- Records that begin to wait: for a check to be made, or for a signal, which may have arrived already.
CREATE FUNCTION pawl_bulk._records_wait() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.records');
    now_at timestamptz;
    waits record;
BEGIN
    SELECT min(n.row_number) FILTER (WHERE s.kind = 'sync') AS never, bool_or(s.kind = 'signal') AS for_signals
      INTO waits
      FROM (SELECT x.operation, x.step_index, min(x.row_number) AS row_number FROM new_records x
             WHERE x.state = 'WaitingForCompletion' GROUP BY x.operation, x.step_index) n
      JOIN pawl_bulk.operations o ON o.operation = n.operation
      JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = n.step_index;
    IF waits.never IS NOT NULL THEN
        PERFORM pawl.raise('PW003', format('row %s cannot wait: its step is synchronous', waits.never));
    ELSIF waits.for_signals IS NULL THEN
        RETURN NULL;
    ELSIF waits.for_signals THEN
        -- keys are locked before work, as senders of signals do
        PERFORM FROM pawl_bulk.signal_keys k
          WHERE (k.operation, k.key) IN (SELECT x.operation, x.key FROM new_records n
                     JOIN pawl_bulk.signal_keys x ON x.row_number = n.row_number AND x.operation = n.operation
                         AND x.step_index = n.step_index
                    WHERE n.state = 'WaitingForCompletion')
          ORDER BY k.operation, k.key FOR UPDATE;
    END IF;
    now_at := clock_timestamp();
    WITH gone AS (
        DELETE FROM pawl_bulk.work w USING new_records n
         WHERE w.operation = n.operation AND w.row_number = n.row_number AND w.step_index = n.step_index
           AND n.state = 'WaitingForCompletion' AND w.kind = 'start'
        RETURNING w.*)
    INSERT INTO pawl_bulk.work (operation, row_number, step_index, kind, state, queue, priority, takeovers, deadline_at,
        token)
    SELECT g.operation, g.row_number, g.step_index, CASE s.kind WHEN 'poll' THEN 'check' ELSE 'signal' END,
           CASE s.kind WHEN 'poll' THEN 'ready' ELSE 'awaiting' END, s.check_queue, g.priority, g.takeovers,
           now_at + s.timeout, g.token
      FROM gone g JOIN pawl_bulk.operations o ON o.operation = g.operation
      JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = g.step_index;
    IF NOT waits.for_signals THEN
        RETURN NULL;
    END IF;
    -- a row without a key, or with one that another row has, is never signalled; a row
    -- that was signalled early waits no longer
    UPDATE pawl_bulk.records r
       SET state = CASE WHEN w.key IS NULL OR w.early_result = 'fail' THEN 'Failed' ELSE 'Completed' END,
           error_type = CASE WHEN w.key IS NULL THEN 'StepFailure'
               WHEN w.early_result = 'fail' THEN 'SignalFailure' END,
           error_message = CASE
               WHEN w.key IS NULL THEN (SELECT pawl_bulk._no_signal_key(s.signal_key, w.step_index, w.row_number,
                   CASE WHEN s.signal_key ~ E'\\{data\\.' THEN pawl_bulk.row_data(w.operation, w.row_number) END)
                   FROM pawl_bulk.operations o JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version
                   WHERE o.operation = w.operation AND s.step_index = w.step_index)
                                WHEN w.early_result = 'fail' THEN w.early_message END,
           completed_at = now_at
      FROM (SELECT n.operation, n.row_number, n.step_index, k.key, k.early_message,
                   CASE WHEN k.early_attempt IS NULL OR k.early_attempt = n.retry_attempt THEN k.early_result END
                   AS early_result
              FROM new_records n JOIN pawl_bulk.work x ON x.operation = n.operation AND x.row_number = n.row_number
                  AND x.step_index = n.step_index
              LEFT JOIN pawl_bulk.signal_keys k ON k.row_number = n.row_number AND k.operation = n.operation
                  AND k.step_index = n.step_index
             WHERE n.state = 'WaitingForCompletion' AND x.kind = 'signal') w
     WHERE r.operation = w.operation AND r.row_number = w.row_number AND r.step_index = w.step_index
       AND r.state = 'WaitingForCompletion' AND (w.key IS NULL OR w.early_result IS NOT NULL);
    -- used once: a retry waits for a signal of its own
    UPDATE pawl_bulk.signal_keys k SET early_result = NULL, early_message = NULL, early_attempt = NULL
        FROM new_records n
     WHERE n.state = 'WaitingForCompletion' AND k.row_number = n.row_number AND k.operation = n.operation
         AND k.step_index = n.step_index
       AND k.early_result IS NOT NULL AND (k.early_attempt IS NULL OR k.early_attempt <= n.retry_attempt);
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._records_wait() IS 'internal: creates the work of records that begin to wait';

-- Failed records that a retry resets: their values are kept in the history, and they get work again.
CREATE FUNCTION pawl_bulk._records_reset() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_mergejoin = off
SET work_mem = '64MB'
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.records');
    rejected record;
BEGIN
    IF NOT EXISTS (SELECT FROM new_records n WHERE n.state = 'Pending')
        OR NOT EXISTS (SELECT FROM old_records o WHERE o.state IN ('Failed', 'TimedOut')) THEN
        RETURN NULL;
    END IF;
    SELECT n.operation, o.status INTO rejected
        FROM (SELECT DISTINCT x.operation FROM new_records x WHERE x.state = 'Pending') n
      LEFT JOIN pawl_bulk.operations o ON o.operation = n.operation WHERE o.status IS DISTINCT FROM 'Retrying' LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('PW003', 'a record can only be reset by a retry of its operation',
            format('Operation %s is %s.', rejected.operation, coalesce(rejected.status, 'gone')),
            format('select * from pawl_bulk.retry(%L)', rejected.operation));
    END IF;
    SELECT n.row_number, s.step_name INTO rejected FROM new_records n
        JOIN pawl_bulk.operations o ON o.operation = n.operation
      JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = n.step_index
     WHERE n.state = 'Pending' AND NOT s.allow_operation_retry LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('PW003', format('row %s cannot be retried', rejected.row_number),
            format('Step "%s" does not allow it.', rejected.step_name));
    END IF;
    INSERT INTO pawl_bulk.retry_history (operation, row_number, step_index, attempt, error_type, error_message,
        failed_at, row_data, started_at, tries)
    SELECT r.operation, r.row_number, r.step_index, r.retry_attempt, r.error_type, r.error_message, r.completed_at,
           CASE WHEN i.data IS NOT NULL THEN i.data
                WHEN o.format = 'csv' THEN pawl_bulk.csv_row(i.raw, o.columns, coalesce(o.dialect ->> 'delimiter', ','),
                    coalesce(o.dialect ->> 'quote', '"'))
                ELSE pawl_bulk._json(i.raw) END, r.started_at, r.tries
      FROM old_records r
     CROSS JOIN LATERAL (SELECT x.format, x.columns, x.dialect FROM pawl_bulk.operations x
         WHERE x.operation = r.operation OFFSET 0) o
      LEFT JOIN LATERAL (SELECT x.data, x.raw FROM pawl_bulk.input x
                          WHERE x.operation = r.operation AND x.row_number = r.row_number
          AND x.problem IS NULL OFFSET 0) i ON true
     WHERE r.state IN ('Failed', 'TimedOut')
       AND (r.operation, r.row_number, r.step_index) NOT IN (SELECT n.operation, n.row_number, n.step_index
           FROM new_records n WHERE n.state <> 'Pending');
    -- held until the operation is Running again; its tokens are above all of earlier attempts, whose work is deleted
    INSERT INTO pawl_bulk.work (operation, row_number, step_index, queue, priority, run_timeout, held, due, token)
    SELECT n.operation, n.row_number, n.step_index, x.queue, x.priority, x.run_timeout, true, 'infinity',
           n.retry_attempt::bigint << 32
      FROM new_records n
      JOIN (SELECT o.operation, s.step_index, s.queue, o.priority, s.run_timeout
              FROM pawl_bulk.operations o JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version
             WHERE o.operation IN (SELECT y.operation FROM new_records y)) x ON x.operation = n.operation
      AND x.step_index = n.step_index
     WHERE n.state = 'Pending'
    ON CONFLICT DO NOTHING;
    INSERT INTO pawl_bulk.events (operation, type, detail)
    SELECT n.operation, 'RetrySubmitted', jsonb_build_object('submitted', count(*)) FROM new_records n
    WHERE n.state = 'Pending' GROUP BY n.operation ORDER BY n.operation;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._records_reset() IS 'internal: the history and the work of records that a retry resets';

-- Records that come to rest: deletes their work, begins the next step, and counts them.
CREATE FUNCTION pawl_bulk._records_rest() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET work_mem = '64MB'
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.records');
    actor constant text := coalesce(current_setting('pawl.processor', true), '');
    now_at constant timestamptz := clock_timestamp();
    one constant uuid := (SELECT n.operation FROM new_records n LIMIT 1);
    other record;
    met record;
    had_failed boolean;
    neighbours boolean;
    ended bigint := 0;
    its record;
BEGIN
    SELECT NULL::bigint AS row_number INTO other;
    SELECT bool_or(n.state NOT IN ('Pending', 'Running')) AS rest, bool_or(n.state IN ('Failed', 'TimedOut')) AS fail,
        bool_or(n.state = 'WaitingForCompletion') AS wait, bool_or(n.state = 'Completed') AS complete,
           bool_and(n.operation = one) AS one, min(n.row_number) AS first_row, max(n.row_number) AS last_row,
           min(n.step_index) AS first_step, max(n.step_index) AS last_step, min(n.state) AS state,
           max(n.state) AS last_state, count(*) AS rows
      INTO met FROM new_records n;
    IF EXISTS (SELECT FROM new_records n
        WHERE n.state = 'Running' AND (n.tries > 0 OR n.error_message IS NOT NULL OR n.error_type IS NOT NULL)) THEN
        -- only the worker that has the row can report a failed try
        SELECT n.row_number, n.step_index INTO other FROM new_records n
          JOIN old_records r ON r.operation = n.operation AND r.row_number = n.row_number
              AND r.step_index = n.step_index
         WHERE n.state = 'Running' AND r.state IN ('Pending', 'Running')
           AND (n.tries, n.error_type, n.error_message) IS DISTINCT FROM (r.tries, r.error_type, r.error_message)
           AND NOT EXISTS (SELECT FROM pawl_bulk.work w
               WHERE w.operation = n.operation AND w.row_number = n.row_number AND w.step_index = n.step_index
                              AND (w.queue = 'sql:' OR w.state = 'leased' AND w.worker = actor
               AND w.lease_until > now_at)) LIMIT 1;
        IF FOUND THEN
            PERFORM pawl.raise('PW004',
                format('row %s at step %s is not claimed by "%s"', other.row_number, other.step_index, actor),
                'Its tries and its errors are written by the worker that has it.',
                'select * from pawl_bulk.claim(...)');
        END IF;
    END IF;
    had_failed := EXISTS (SELECT FROM old_records r WHERE r.state IN ('Failed', 'TimedOut'));
    IF NOT coalesce(met.rest OR had_failed, false) THEN
        RETURN NULL;
    END IF;
    SELECT x.last_step, x.track_row_data, NOT met.one OR EXISTS (SELECT FROM pawl_bulk.steps s
        WHERE s.name = x.definition AND s.version = x.version AND s.step_index BETWEEN met.first_step AND met.last_step
            AND s.kind <> 'sync') AS waits INTO its FROM pawl_bulk.operations x WHERE x.operation = one;
    IF met.complete AND its.waits THEN
        SELECT n.row_number, n.step_index INTO other FROM new_records n
         WHERE n.state = 'Completed'
           AND ((n.operation, n.step_index) IN (SELECT o.operation, s.step_index FROM pawl_bulk.operations o
                  JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version
                 WHERE s.kind <> 'sync' AND o.operation IN (SELECT x.operation FROM new_records x))) IS TRUE
           AND ((n.operation, n.row_number, n.step_index) IN (SELECT r.operation, r.row_number, r.step_index
                  FROM old_records r WHERE r.state = 'Running')) IS TRUE LIMIT 1;
        IF FOUND THEN
            PERFORM pawl.raise('PW003', format('row %s cannot be completed before it has waited', other.row_number),
                'Its step ends by a check or a signal.');
        END IF;
    END IF;
    -- they are read in order instead of one by one: as many as surely fit into a hash table
    neighbours := met.one AND met.last_row - met.first_row < 2 * met.rows AND met.rows <= 100000;
    -- the usual case: the work of neighbours whose worker ends them alike
    IF neighbours AND met.rows > 4 AND met.first_step = met.last_step AND met.state = met.last_state
            AND met.state IN ('Completed', 'Failed') THEN
        DELETE FROM pawl_bulk.work w
         WHERE w.operation = one AND w.row_number BETWEEN met.first_row AND met.last_row
           AND w.step_index = met.first_step AND w.state = 'leased' AND w.worker = actor AND w.lease_until > now_at
           AND w.kind <> 'signal' AND (w.row_number IN (SELECT n.row_number FROM new_records n)) IS TRUE;
        GET DIAGNOSTICS ended = ROW_COUNT;
    END IF;
    -- rows of a block have no work of their own: one lookup instead of one for each row
    IF ended < met.rows AND (NOT met.one OR EXISTS (SELECT FROM pawl_bulk.work w WHERE w.operation = one
            AND w.row_number BETWEEN met.first_row AND met.last_row AND w.last_row IS NULL)) THEN
        -- A row is ended by the worker that has it, by a SQL function, or by a signal; it times out at its deadline,
        -- and fails by itself when it has lost too many workers.
        WITH gone AS (
            DELETE FROM pawl_bulk.work w USING new_records n
             WHERE w.operation = n.operation AND w.row_number = n.row_number AND w.step_index = n.step_index
               AND n.state IN ('Completed', 'Failed', 'TimedOut', 'Cancelled')
            RETURNING w.*, n.state AS to_state)
        SELECT g.worker, g.row_number, g.step_index, g.kind, g.state, g.to_state, g.lease_until, g.deadline_at
            INTO other FROM gone g
         WHERE CASE WHEN g.to_state = 'Cancelled' THEN false
                    WHEN g.to_state = 'TimedOut' THEN (g.deadline_at <= now_at) IS NOT TRUE
                    WHEN g.kind = 'signal' THEN g.deadline_at <= now_at
                    WHEN g.state = 'leased' AND g.worker <> actor AND g.lease_until > now_at THEN true
                    WHEN g.queue = 'sql:' THEN false
                    WHEN g.state = 'lost' AND g.to_state = 'Failed' THEN g.takeovers <= (
                        SELECT d.max_takeovers FROM pawl_bulk.operations o
                        JOIN pawl_bulk.definitions d ON d.name = o.definition AND d.version = o.version
                         WHERE o.operation = g.operation)
                    ELSE (g.state = 'leased' AND g.worker = actor AND g.lease_until > now_at) IS NOT TRUE END LIMIT 1;
    END IF;
    IF other.row_number IS NULL AND met.wait THEN
        SELECT w.worker, w.row_number, w.step_index, w.kind, w.state, n.state AS to_state, w.lease_until, w.deadline_at
                INTO other FROM new_records n
          JOIN old_records r ON r.operation = n.operation AND r.row_number = n.row_number
              AND r.step_index = n.step_index AND r.state = 'Running'
          JOIN pawl_bulk.work w ON w.operation = n.operation AND w.row_number = n.row_number
              AND w.step_index = n.step_index
         WHERE n.state = 'WaitingForCompletion' AND w.kind = 'start'
           AND CASE WHEN w.state = 'leased' AND w.worker <> actor AND w.lease_until > now_at THEN true
                    WHEN w.queue = 'sql:' THEN false
                    ELSE (w.state = 'leased' AND w.worker = actor AND w.lease_until > now_at) IS NOT TRUE END LIMIT 1;
    END IF;
    IF other.row_number IS NULL THEN
        NULL;
    ELSIF other.to_state = 'TimedOut' OR other.kind = 'signal' THEN
        PERFORM pawl.raise('PW003',
            format('row %s at step %s is not %s now', other.row_number, other.step_index, other.to_state),
            CASE WHEN other.deadline_at IS NULL
                THEN 'It has no deadline.' ELSE format('Its deadline is %s.', other.deadline_at) END);
    ELSIF other.state = 'leased' AND other.lease_until > now_at THEN
        PERFORM pawl.raise('PW004',
            format('row %s at step %s is owned by "%s"', other.row_number, other.step_index, other.worker),
            format('The acting processor is "%s".', actor));
    ELSIF other.worker = actor THEN
        PERFORM pawl.raise('PW005',
            format('the lease of row %s at step %s is over', other.row_number, other.step_index),
            format('It ended at %s.', other.lease_until), 'select * from pawl_bulk.claim(...)');
    ELSE
        PERFORM pawl.raise('PW004',
            format('row %s at step %s is not claimed by "%s"', other.row_number, other.step_index, actor),
            format('Its work is %s; only its worker can report it.', other.state),
            'select * from pawl_bulk.claim(...)');
    END IF;

    -- rows whose last step completed, and rows that failed, less those that did before
    INSERT INTO pawl_bulk.tallies (operation, validated, successful, failed)
    SELECT c.operation, 0, c.successful, c.failed
      FROM (SELECT m.operation,
          sum(m.d) FILTER (WHERE m.state = 'Completed' AND m.step_index = o.last_step) AS successful,
                   sum(m.d) FILTER (WHERE m.state <> 'Completed') AS failed
              FROM (SELECT n.operation, n.step_index, n.state, count(*) AS d FROM new_records n GROUP BY 1, 2, 3
                    UNION ALL SELECT r.operation, r.step_index, r.state, -count(*) FROM old_records r GROUP BY 1, 2, 3
                    UNION ALL SELECT r.operation, x.step_index, s.state, 0
                    FROM (SELECT DISTINCT operation FROM new_records) r
                     CROSS JOIN LATERAL (SELECT o.last_step AS step_index FROM pawl_bulk.operations o
                         WHERE o.operation = r.operation) x
                     CROSS JOIN (VALUES ('Completed'), ('Failed')) s(state)) m
              JOIN pawl_bulk.operations o ON o.operation = m.operation
             WHERE m.state IN ('Completed', 'Failed', 'TimedOut') GROUP BY m.operation) c
     WHERE c.successful <> 0 OR c.failed <> 0;

    IF met.fail THEN
        INSERT INTO pawl_bulk.events (operation, type, severity, row_number, step_index, message, detail)
        SELECT n.operation, 'RowFailed', 'Warning', n.row_number, n.step_index, n.error_message,
        jsonb_build_object('error_type', n.error_type)
          FROM new_records n
         WHERE n.state IN ('Failed', 'TimedOut')
           AND (NOT had_failed OR (n.operation, n.row_number, n.step_index)
                NOT IN (SELECT r.operation, r.row_number, r.step_index FROM old_records r
                    WHERE r.state IN ('Failed', 'TimedOut')))
         ORDER BY n.operation, n.row_number;
    END IF;
    IF NOT met.one OR met.first_step < its.last_step THEN
        INSERT INTO pawl_bulk.records (operation, row_number, step_index)
        SELECT n.operation, n.row_number, n.step_index + 1
          FROM new_records n JOIN pawl_bulk.operations o ON o.operation = n.operation
         WHERE n.state = 'Completed' AND n.step_index < o.last_step AND o.status = 'Running'
         ORDER BY n.operation, n.row_number
        ON CONFLICT DO NOTHING;
    END IF;
    IF neighbours AND NOT its.track_row_data THEN
        DELETE FROM pawl_bulk.input i
         WHERE i.operation = one AND i.row_number BETWEEN met.first_row AND met.last_row
           AND (i.row_number IN (SELECT n.row_number FROM new_records n
                                  WHERE n.state IN ('Failed', 'TimedOut', 'Cancelled') OR n.state = 'Completed'
                                      AND n.step_index = its.last_step)) IS TRUE;
    ELSIF NOT met.one OR NOT its.track_row_data THEN
        DELETE FROM pawl_bulk.input i USING new_records n, pawl_bulk.operations x
         WHERE x.operation = n.operation AND NOT x.track_row_data AND i.operation = n.operation
             AND i.row_number = n.row_number
           AND (n.state IN ('Failed', 'TimedOut', 'Cancelled') OR n.state = 'Completed' AND n.step_index = x.last_step);
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._records_rest() IS 'internal: what follows when records come to rest, or do so no longer';

-- Calls those of the functions above that a statement needs (src/packs/bulk/row_triggers.cpp). It comes after
-- follow_0_sql, which reads the work that they delete.
CREATE FUNCTION pawl_bulk._records_written() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_bulk_records_written';
COMMENT ON FUNCTION pawl_bulk._records_written() IS 'internal: what follows from a statement that updates records';
CREATE TRIGGER follow_1_written AFTER UPDATE ON pawl_bulk.records REFERENCING OLD TABLE AS old_records NEW TABLE
    AS new_records
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_bulk._records_written();

-- A record that is deleted alone would leave the counters wrong.
CREATE FUNCTION pawl_bulk._record_kept() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.records');
BEGIN
    IF EXISTS (SELECT FROM pawl_bulk.operations o WHERE o.operation = OLD.operation) THEN
        PERFORM pawl.raise('55000', 'records can only be deleted with their operation', NULL,
            format('delete from pawl_bulk.operations where operation = %L', OLD.operation));
    END IF;
    RETURN OLD;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._record_kept() IS 'internal: rejects the deletion of a record of an existing operation';
CREATE TRIGGER kept BEFORE DELETE ON pawl_bulk.records FOR EACH ROW EXECUTE FUNCTION pawl_bulk._record_kept();
