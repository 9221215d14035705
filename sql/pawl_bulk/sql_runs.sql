-- The duty that runs SQL functions over rows. Its rows are stored in an earlier transaction than the call. If the
-- function ends its transaction or its session, the rows are divided, and a row that was alone fails after
-- max_takeovers, as with workers.

CREATE FUNCTION pawl_bulk._begin_run(batch integer, lease interval) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    picked record;
    run jsonb;
BEGIN
    -- one session after the other, until they commit: each sees which runs the others have begun
    PERFORM pawl.acquire_lock(hashtextextended('pawl_bulk.sql_runs', 0));
    SELECT f.* INTO picked FROM pawl_bulk._find_rows(batch, false, '{}') f;
    IF picked.operation IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO pawl_bulk.sql_runs AS r (operation, step_index, kind, first_row, last_row, size, lease_until)
    SELECT picked.operation, picked.step_index, picked.kind, coalesce(picked.numbers[1], picked.first_row),
           coalesce(picked.numbers[cardinality(picked.numbers)], picked.last_row), coalesce(cardinality(picked.numbers),
               least(picked.size, picked.last_row - picked.first_row + 1)), clock_timestamp() + lease
    RETURNING jsonb_build_object('operation', r.operation, 'run', r.run) INTO run;
    RETURN run;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._begin_run(integer, interval) IS
'internal: stores the next run, and returns its keys; null: nothing is to be run';

-- Checks the run itself: it belongs to its session until it is lost.
CREATE FUNCTION pawl_bulk._end_run(operation uuid, run uuid) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    DELETE FROM pawl_bulk.sql_runs x
     WHERE x.operation = _end_run.operation AND x.run = _end_run.run
         AND (x.session = pg_backend_pid() OR x.lost_at IS NOT NULL
             OR pawl_bulk._session_lost(x.session, x.lease_until))
$function$;
COMMENT ON FUNCTION pawl_bulk._end_run(uuid, uuid) IS
'internal: removes a run of this session that has ended, or a lost one';

-- The rows of a run as far as they are still to be run, locked.
CREATE FUNCTION pawl_bulk._rows_of_run(r pawl_bulk.sql_runs, OUT numbers bigint[], OUT last_row bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    IF r.kind = 'rows' THEN
        SELECT w.last_row INTO last_row FROM pawl_bulk.work w
         WHERE w.operation = r.operation AND w.row_number = r.first_row AND w.step_index = -1
             AND w.state IN ('ready', 'lost') AND w.due IS NULL FOR UPDATE SKIP LOCKED;
    ELSE
        SELECT array_agg(l.row_number) INTO numbers
          FROM (SELECT w.row_number FROM pawl_bulk.work w
                 WHERE w.operation = r.operation AND w.row_number BETWEEN r.first_row AND r.last_row
                     AND w.step_index = r.step_index
                   AND w.kind = r.kind AND w.queue = 'sql:' AND w.state IN ('ready', 'lost') AND w.due IS NULL
                 ORDER BY w.row_number LIMIT r.size FOR UPDATE SKIP LOCKED) l;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._rows_of_run(pawl_bulk.sql_runs) IS
'internal: what is left of the rows of a run: numbers, or the end of the block';

-- Until this transaction ends, the run's row is locked, so no session takes it for lost, however long the function
-- runs.
CREATE FUNCTION pawl_bulk._run_begun(begun jsonb) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET pawl.processor = ''
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    r pawl_bulk.sql_runs;
    left_over record;
    did integer := 0;
BEGIN
    SELECT x.* INTO r FROM pawl_bulk.sql_runs x
        WHERE x.operation = (begun ->> 'operation')::uuid AND x.run = (begun ->> 'run')::uuid AND x.lost_at IS NULL
        FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF pawl_bulk._try_hold(r.operation) THEN
        left_over := pawl_bulk._rows_of_run(r);
        IF left_over.numbers IS NOT NULL OR left_over.last_row IS NOT NULL THEN
            SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = r.operation;
            did := pawl_bulk._run_guarded(o, r.size, r.step_index, r.kind, left_over.numbers, r.first_row,
                left_over.last_row);
            IF did IS NULL THEN
                UPDATE pawl_bulk.sql_runs x SET lost_at = clock_timestamp(),
                    again_at = clock_timestamp() + interval '1 min' WHERE x.operation = r.operation AND x.run = r.run;
                RETURN 0;
            END IF;
        END IF;
    END IF;
    PERFORM pawl_bulk._end_run(r.operation, r.run);
    RETURN did;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._run_begun(jsonb) IS
'internal: runs what was put on record in an earlier transaction; returns how many rows';

-- One row with which a session was lost: it counts as a lost worker, and too many of them fail it. Checks the run
-- itself, as pawl_bulk._end_run does.
CREATE FUNCTION pawl_bulk._count_loss(operation uuid, run uuid, row_number bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at constant timestamptz := clock_timestamp();
    r pawl_bulk.sql_runs;
    step integer;
    lost integer;
    most integer;
    s pawl_bulk.steps;
BEGIN
    SELECT x.* INTO r FROM pawl_bulk.sql_runs x
     WHERE x.operation = _count_loss.operation AND x.run = _count_loss.run
         AND row_number BETWEEN x.first_row AND x.last_row
       AND (x.session = pg_backend_pid() OR x.lost_at IS NOT NULL
           OR pawl_bulk._session_lost(x.session, x.lease_until));
    IF NOT FOUND THEN
        PERFORM pawl.raise('55000', 'a run belongs to its session', 'No lost run has this row.');
    END IF;
    step := greatest(r.step_index, 0);
    SELECT x.* INTO s FROM pawl_bulk.operations o
        JOIN pawl_bulk.steps x ON x.name = o.definition AND x.version = o.version AND x.step_index = step
     WHERE o.operation = r.operation;
    SELECT d.max_takeovers INTO most FROM pawl_bulk.definitions d WHERE d.name = s.name AND d.version = s.version;
    IF r.kind = 'start' THEN
        PERFORM pawl_bulk._begin_rows(s, r.operation, ARRAY[row_number]);
    END IF;
    INSERT INTO pawl_bulk.work
        AS w (operation, row_number, step_index, queue, priority, run_timeout, deadline_at, takeovers, due)
    SELECT o.operation, row_number, step, s.queue, o.priority, s.run_timeout, now_at + s.run_timeout, 1,
    now_at + interval '2 s' FROM pawl_bulk.operations o WHERE o.operation = r.operation
    ON CONFLICT ON CONSTRAINT work_pkey DO UPDATE SET takeovers = w.takeovers + 1,
        due = least(now_at + interval '1 s' * power(2, least(w.takeovers + 1, 6)), w.deadline_at)
    RETURNING w.takeovers INTO lost;
    IF lost > most THEN
        UPDATE pawl_bulk.records x SET state = 'Failed', error_type = 'StepFailure',
            error_message = format('%s workers were lost', lost), completed_at = now_at
         WHERE x.operation = r.operation AND x.row_number = _count_loss.row_number AND x.step_index = step
             AND x.state IN ('Running', 'WaitingForCompletion');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._count_loss(uuid, uuid, bigint) IS
'internal: a row that was alone in a run that was lost; 55000: it was in none';

CREATE FUNCTION pawl_bulk._bury(r pawl_bulk.sql_runs, now_at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    left_over record;
    through bigint;
BEGIN
    left_over := pawl_bulk._rows_of_run(r);
    through := coalesce(left_over.numbers[cardinality(left_over.numbers)], left_over.last_row);
    IF r.kind = 'rows' THEN
        SELECT v.row_number INTO through FROM pawl_bulk.validations v
         WHERE v.operation = r.operation AND v.row_number BETWEEN r.first_row AND left_over.last_row
         ORDER BY v.row_number OFFSET r.size - 1 LIMIT 1;
        through := coalesce(through, left_over.last_row);
    END IF;
    IF through IS NOT NULL AND coalesce(cardinality(left_over.numbers), r.size) > 1 THEN
        UPDATE pawl_bulk.sql_runs x SET lost_at = now_at, again_at = now_at + interval '1 s', last_row = through,
            size = greatest(x.size / 10, 1)
         WHERE x.operation = r.operation AND x.run = r.run;
        RETURN;
    END IF;
    IF r.kind = 'rows' AND through IS NOT NULL THEN
        SELECT b.numbers, b.through INTO left_over.numbers, through
            FROM pawl_bulk._begin_block(r.operation, r.first_row, left_over.last_row, 1) b;
    END IF;
    PERFORM pawl_bulk._count_loss(r.operation, r.run, n) FROM unnest(left_over.numbers) n;
    IF r.kind = 'rows' AND through IS NOT NULL THEN
        PERFORM pawl_bulk._shrink_block(r.operation, r.first_row, through);
    END IF;
    PERFORM pawl_bulk._end_run(r.operation, r.run);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._bury(pawl_bulk.sql_runs, timestamptz) IS
'internal: divides a run that was lost, or counts the loss against the row that was alone in it';

-- Lost runs. own: this session has none in progress, so all runs of its name are lost.
CREATE FUNCTION pawl_bulk._bury_runs(own boolean) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET pawl.processor = ''
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at constant timestamptz := clock_timestamp();
    r pawl_bulk.sql_runs;
    buried integer := 0;
BEGIN
    FOR r IN SELECT x.* FROM pawl_bulk.sql_runs x
              WHERE x.lost_at IS NULL AND (own AND x.session = pg_backend_pid()
                  OR pawl_bulk._session_lost(x.session, x.lease_until))
              ORDER BY x.operation, x.run LIMIT 10 FOR UPDATE SKIP LOCKED LOOP
        CONTINUE WHEN NOT pawl_bulk._try_hold(r.operation);
        BEGIN
            PERFORM pawl_bulk._bury(r, now_at);
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            -- its rows wait for a minute, and the other runs are handled
            IF pawl_bulk._ends_duty(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'a lost run of operation % cannot be recovered: %', r.operation, SQLERRM;
            UPDATE pawl_bulk.sql_runs x SET lost_at = now_at, again_at = now_at + interval '1 min'
                WHERE x.operation = r.operation AND x.run = r.run;
        END;
        buried := buried + 1;
    END LOOP;
    -- the ends of those that were divided: nothing of them waits any more
    PERFORM pawl_bulk._end_run(x.operation, x.run) FROM pawl_bulk.sql_runs x
     WHERE x.lost_at < now_at - interval '1 min'
       AND NOT EXISTS (SELECT FROM pawl_bulk.work w WHERE w.operation = x.operation
           AND w.row_number BETWEEN x.first_row AND x.last_row AND w.step_index = x.step_index);
    RETURN buried;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._bury_runs(boolean) IS
'internal: sees to runs that were lost with their session or transaction; returns how many';

CREATE PROCEDURE pawl_bulk.work_sql_rows(batch integer DEFAULT 5000, lease interval DEFAULT '60 s',
    INOUT done bigint DEFAULT NULL, INOUT wait_ms integer DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER
AS $function$
DECLARE
    attempts pawl_bulk.validation_attempts[];
    ran integer;
    code text;
    said text;
    ended boolean;
BEGIN
    -- it commits, so it cannot have settings for its whole run
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    PERFORM pawl.check_batch(batch, 100000), pawl.check_lease(coalesce(lease, '0'));
    PERFORM pawl_bulk._bury_runs(true), pawl_bulk._bury_attempts();
    -- a small remainder is not worth the statements
    CALL pawl.claim_and_run(format('SELECT pawl_bulk._begin_run($3, $2) WHERE 2 * $3 >= %s', batch),
        'SELECT pawl_bulk._run_begun($1)', NULL, NULL, lease, batch, ran);
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    done := ran;
    wait_ms := 1000;
    IF done > 0 THEN
        RETURN;
    END IF;
    attempts := pawl_bulk._begin_to_help(lease);
    COMMIT;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    BEGIN
        IF pawl_bulk._hold_attempts(attempts) <> '{}' THEN
            done := pawl_bulk._help_with(attempts[1].operation, batch);
            PERFORM pawl_bulk._end_attempts(attempts);
        END IF;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE OR QUERY_CANCELED THEN
        ended := pawl_bulk._ends_duty(SQLSTATE);
        GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
    END;
    IF code IS NOT NULL THEN
        -- pawl_bulk.work_operations handles it from now on
        ROLLBACK;
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        PERFORM pawl_bulk._met(attempts[1].operation, code, said, attempts[1]);
        PERFORM pawl_bulk._end_attempts(attempts);
        COMMIT;
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        done := 0;
        IF code = '57014' AND ended THEN
            PERFORM pawl.raise(code, said);
        END IF;
    END IF;
END
$function$;
COMMENT ON PROCEDURE pawl_bulk.work_sql_rows(integer, interval, bigint, integer) IS
'Procedure, a duty: runs what pawl_bulk.run_sql_rows runs, each run in a transaction of its own, recorded in an
earlier one. A run that exceeds statement_timeout or ends its session is recovered at once by its session, and by
others when its session is gone or after the lease; its rows are then run in tenths, until the row that fails is
alone and fails after max_takeovers.
batch: rows at most, 1 to 100000; default 5000. lease: default 60 s. Returns done (rows) and wait_ms (when to call
it again, in milliseconds, if there was nothing to do).
Errors: 2D000 inside a transaction; 22023 batch or lease out of range. Privileges: pawl_admin, pawl_operator.
Example: CALL pawl_bulk.work_sql_rows(1000)';
