-- Steps that are SQL functions over sets of rows. What the function does and what becomes of the rows is one
-- transaction, so it happens exactly once.

-- The next rows of one operation at one step: rows with work of their own, or a block (kind rows) from first_row to
-- last_row. What other sessions have begun is left to them; rows of lost runs come later, and in smaller runs.
CREATE FUNCTION pawl_bulk._pick_rows(INOUT batch integer, operation uuid, locked boolean, OUT step_index integer,
    OUT kind text, OUT numbers bigint[], OUT first_row bigint, OUT last_row bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at constant timestamptz := clock_timestamp();
    closed int8multirange := '{}';
BEGIN
    SELECT w.step_index, w.kind, w.row_number, w.last_row INTO step_index, kind, first_row, last_row
        FROM pawl_bulk.work w
     WHERE w.queue = 'sql:' AND (w.state = 'ready' OR w.state = 'lost') AND w.due IS NULL
         AND w.operation = _pick_rows.operation
       AND NOT EXISTS (SELECT FROM pawl_bulk.sql_runs r
           WHERE r.operation = _pick_rows.operation AND r.step_index = w.step_index
                          AND w.row_number BETWEEN r.first_row AND r.last_row
                          AND (r.lost_at IS NULL OR r.again_at > now_at))
     ORDER BY w.priority DESC, w.operation, w.row_number, w.step_index LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM pawl_bulk.sql_runs r WHERE r.operation = _pick_rows.operation) THEN
        SELECT least(batch, min(r.size) FILTER (WHERE first_row BETWEEN r.first_row AND r.last_row)),
               coalesce(range_agg(int8range(r.first_row, r.last_row, '[]'))
                       FILTER (WHERE r.lost_at IS NULL OR r.again_at > now_at), '{}')
          INTO batch, closed FROM pawl_bulk.sql_runs r
          WHERE r.operation = _pick_rows.operation AND r.step_index = _pick_rows.step_index;
    END IF;
    IF kind <> 'rows' AND locked THEN
        SELECT array_agg(l.row_number ORDER BY l.row_number) INTO numbers
          FROM (SELECT w.row_number FROM pawl_bulk.work w
                 WHERE w.queue = 'sql:' AND (w.state = 'ready' OR w.state = 'lost') AND w.due IS NULL
                   AND w.operation = _pick_rows.operation AND w.step_index = _pick_rows.step_index
                   AND w.kind = _pick_rows.kind
                   AND NOT w.row_number <@ closed
                 ORDER BY w.priority DESC, w.operation, w.row_number, w.step_index LIMIT batch
                     FOR UPDATE SKIP LOCKED) l;
    ELSIF kind <> 'rows' THEN
        -- the session that records them locks them in its next transaction: once is enough
        SELECT array_agg(l.row_number ORDER BY l.row_number) INTO numbers
          FROM (SELECT w.row_number FROM pawl_bulk.work w
                 WHERE w.queue = 'sql:' AND (w.state = 'ready' OR w.state = 'lost') AND w.due IS NULL
                   AND w.operation = _pick_rows.operation AND w.step_index = _pick_rows.step_index
                   AND w.kind = _pick_rows.kind
                   AND NOT w.row_number <@ closed
                 ORDER BY w.priority DESC, w.operation, w.row_number, w.step_index LIMIT batch) l;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._pick_rows(integer, uuid, boolean) IS
'internal: the next rows for a SQL function, locked if asked for; batch: how many can run together';

-- Workers insert and delete no work themselves. Looked at and not believed: each valid row has its record.
CREATE FUNCTION pawl_bulk._shrink_block(operation uuid, first_row bigint, through bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
#variable_conflict use_variable
BEGIN
    IF (SELECT count(*) FROM pawl_bulk.validations v
         WHERE v.operation = _shrink_block.operation AND v.row_number BETWEEN first_row AND through
             AND v.state = 'Completed')
       > (SELECT count(*) FROM pawl_bulk.records r
           WHERE r.operation = _shrink_block.operation AND r.row_number BETWEEN first_row AND through
               AND r.step_index = 0) THEN
        PERFORM pawl.raise('55000',
            format('rows %s to %s of operation %s have no records', first_row, through, operation));
    ELSIF EXISTS (SELECT FROM pawl_bulk.records r
                   WHERE r.operation = _shrink_block.operation AND r.row_number BETWEEN first_row AND through
                       AND r.step_index = 0
                     AND r.state IN ('Pending', 'Running', 'WaitingForCompletion')
                     AND NOT EXISTS (SELECT FROM pawl_bulk.work w
                                      WHERE w.operation = r.operation AND w.row_number = r.row_number
            AND w.step_index = 0)) THEN
        PERFORM pawl.raise('55000',
            format('rows %s to %s of operation %s have not ended', first_row, through, operation),
                           'Without their block they would have no work.');
    END IF;
    WITH gone AS (
        DELETE FROM pawl_bulk.work w
        WHERE w.operation = _shrink_block.operation AND w.row_number = first_row AND w.step_index = -1
        RETURNING w.operation, w.queue, w.priority, w.last_row)
    INSERT INTO pawl_bulk.work (operation, row_number, step_index, kind, queue, priority, last_row)
    SELECT g.operation, through + 1, -1, 'rows', g.queue, g.priority, g.last_row FROM gone g WHERE through < g.last_row;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._shrink_block(uuid, bigint, bigint) IS
'internal: a block whose rows up to this one have ended, or have work of their own; 55000: they have not';

-- The work of records that are Running without any: rows of a block that are tried again.
CREATE FUNCTION pawl_bulk._work_again(operation uuid, step_index integer, row_numbers bigint[]) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
    INSERT INTO pawl_bulk.work (operation, row_number, step_index, queue, priority, run_timeout, deadline_at)
    SELECT r.operation, r.row_number, r.step_index, s.queue, o.priority, s.run_timeout, r.started_at + s.run_timeout
      FROM unnest(row_numbers) u(row_number)
      JOIN pawl_bulk.records r ON r.operation = _work_again.operation AND r.row_number = u.row_number
          AND r.step_index = _work_again.step_index AND r.state = 'Running'
      JOIN pawl_bulk.operations o ON o.operation = r.operation
      JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = r.step_index
    ON CONFLICT DO NOTHING
$function$;
COMMENT ON FUNCTION pawl_bulk._work_again(uuid, integer, bigint[]) IS
'internal: gives records that run without work their work';

-- The records of a block, as many as fit into the batch: made, and Running at once. A session that does not go on
-- leaves them in their block, and they are run with it.
CREATE FUNCTION pawl_bulk._begin_block(operation uuid, first_row bigint, last_row bigint, batch integer,
    OUT numbers bigint[], OUT through bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at timestamptz;
    others bigint[];
BEGIN
    SELECT v.row_number INTO through FROM pawl_bulk.validations v
     WHERE v.operation = _begin_block.operation AND v.row_number BETWEEN first_row AND last_row
     ORDER BY v.row_number OFFSET batch - 1 LIMIT 1;
    through := coalesce(through, last_row);
    -- an insert that minds conflicts costs a third more: only if another session inserted before
    IF EXISTS (SELECT FROM pawl_bulk.records r WHERE r.operation = _begin_block.operation
            AND r.row_number BETWEEN first_row AND through AND r.step_index = 0) THEN
        INSERT INTO pawl_bulk.records (operation, row_number, step_index)
        SELECT v.operation, v.row_number, 0 FROM pawl_bulk.validations v
         WHERE v.operation = _begin_block.operation AND v.row_number BETWEEN first_row AND through
             AND v.state = 'Completed' ORDER BY v.row_number
        ON CONFLICT DO NOTHING;
        -- what is Running by hand has no work of its own; it is run with its block
        others := ARRAY(SELECT r.row_number FROM pawl_bulk.records r
                         WHERE r.operation = _begin_block.operation AND r.row_number BETWEEN first_row AND through
                             AND r.step_index = 0 AND r.state = 'Running'
                           AND NOT EXISTS (SELECT FROM pawl_bulk.work w
                               WHERE w.operation = r.operation AND w.row_number = r.row_number AND w.step_index = 0));
    ELSE
        INSERT INTO pawl_bulk.records (operation, row_number, step_index)
        SELECT v.operation, v.row_number, 0 FROM pawl_bulk.validations v
         WHERE v.operation = _begin_block.operation AND v.row_number BETWEEN first_row AND through
             AND v.state = 'Completed' ORDER BY v.row_number;
    END IF;
    now_at := clock_timestamp();
    WITH begun AS (
        UPDATE pawl_bulk.records r SET state = 'Running', started_at = now_at
         WHERE r.operation = _begin_block.operation AND r.row_number BETWEEN first_row AND through AND r.step_index = 0
             AND r.state = 'Pending'
        RETURNING r.row_number)
    SELECT coalesce(array_agg(b.row_number ORDER BY b.row_number), '{}') INTO numbers FROM begun b;
    IF others <> '{}' THEN
        numbers := ARRAY(SELECT n FROM unnest(numbers || others) n ORDER BY n);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._begin_block(uuid, bigint, bigint, integer) IS
'internal: begins the records of a block, up to a row; returns their row numbers. They stay in the block until '
'they have ended';

-- The records of rows with work of their own are begun.
CREATE FUNCTION pawl_bulk._begin_rows(s pawl_bulk.steps, operation uuid, row_numbers bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at constant timestamptz := clock_timestamp();
    n constant integer := cardinality(row_numbers);
BEGIN
    IF s.run_timeout IS NOT NULL THEN
        UPDATE pawl_bulk.work w SET deadline_at = now_at + s.run_timeout
         WHERE w.operation = _begin_rows.operation AND w.row_number BETWEEN row_numbers[1] AND row_numbers[n]
             AND (w.row_number IN (SELECT unnest(row_numbers))) IS TRUE
           AND w.step_index = s.step_index AND w.deadline_at IS NULL;
    END IF;
    -- no join, and from the first to the last: a plan made for few rows would walk through all records of the
    -- operation; IN of a set is hashed, = ANY of a parameter is not
    UPDATE pawl_bulk.records r SET state = 'Running', started_at = now_at
     WHERE r.operation = _begin_rows.operation AND r.row_number BETWEEN row_numbers[1] AND row_numbers[n]
         AND (r.row_number IN (SELECT unnest(row_numbers))) IS TRUE
       AND r.step_index = s.step_index AND r.state = 'Pending';
END
$function$;
COMMENT ON FUNCTION pawl_bulk._begin_rows(pawl_bulk.steps, uuid, bigint[]) IS
'internal: begins records that have work of their own';

-- What the SQL function of a step says of rows: nothing of those that are fine.
CREATE FUNCTION pawl_bulk._ask(called text, definer name, o pawl_bulk.operations, row_numbers bigint[],
    OUT numbers bigint[],
    OUT answers text[], OUT messages text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    d record;
    said jsonb[];
BEGIN
    IF called IS NULL OR row_numbers = '{}' THEN
        RETURN;
    ELSIF pawl_bulk._function(called, '(uuid,jsonb,bigint[],jsonb[])') IS NULL THEN
        -- a function that is not there is the failure of all rows, not a reason to stand still
        numbers := row_numbers;
        answers := array_fill('failed'::text, ARRAY[cardinality(numbers)]);
        messages := array_fill(format('no function %s(uuid, jsonb, bigint[], jsonb[])', called),
            ARRAY[cardinality(numbers)]);
        RETURN;
    END IF;
    d := pawl_bulk._data_of(o.operation, row_numbers);
    said := pawl_bulk._call_for_rows(called, definer, o.operation, o.metadata, d.numbers, d.datas);
    IF said <> '{}' THEN
        SELECT array_agg(x.n ORDER BY x.n), array_agg(x.answer ORDER BY x.n),
            array_agg(coalesce(x.message, '') ORDER BY x.n) INTO numbers, answers, messages
          FROM (SELECT DISTINCT ON (1) (e ->> 'row_number')::bigint AS n, e ->> 'answer' AS answer,
              e ->> 'message' AS message FROM unnest(said) e ORDER BY 1) x
         WHERE x.n IN (SELECT unnest(row_numbers));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._ask(text, name, pawl_bulk.operations, bigint[]) IS
'internal: calls the SQL function of a step';

-- How records of a synchronous step end that no other session works on: the given rows
-- have failed, the others are completed.
CREATE FUNCTION pawl_bulk._end_rows(s pawl_bulk.steps, operation uuid, row_numbers bigint[], failed bigint[],
        messages text[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at constant timestamptz := clock_timestamp();
    n constant integer := cardinality(row_numbers);
    k constant integer := cardinality(failed);
BEGIN
    -- what nearly every batch is
    UPDATE pawl_bulk.records r SET state = 'Completed', tries = r.tries + 1, completed_at = now_at, error_message = NULL
     WHERE r.operation = _end_rows.operation AND r.row_number BETWEEN row_numbers[1] AND row_numbers[n]
         AND (r.row_number IN (SELECT unnest(row_numbers))) IS TRUE
       AND r.step_index = s.step_index AND r.state = 'Running' AND r.row_number NOT IN (SELECT unnest(failed));
    IF k > 0 AND s.max_retries = 0 THEN
        UPDATE pawl_bulk.records r SET state = 'Failed', tries = r.tries + 1, completed_at = now_at,
            error_type = s.error_type, error_message = f.message
          FROM unnest(failed, messages) f(row_number, message)
         WHERE r.operation = _end_rows.operation AND r.row_number = f.row_number AND r.step_index = s.step_index
             AND r.state = 'Running';
    ELSIF k > 0 THEN
        -- rows of a block have no work of their own until they are tried again
        PERFORM pawl_bulk._work_again(operation, s.step_index, failed);
        PERFORM pawl_bulk._record_ends(array_fill(operation, ARRAY[k]), failed, array_fill(s.step_index, ARRAY[k]),
            array_fill('fail'::text, ARRAY[k]), messages);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._end_rows(pawl_bulk.steps, uuid, bigint[], bigint[], text[]) IS
'internal: ends records of a synchronous step by what its SQL function said';

-- How records go on whose step polls or waits, and checks.
CREATE FUNCTION pawl_bulk._go_on(s pawl_bulk.steps, operation uuid, kind text, row_numbers bigint[], numbers bigint[],
        answers text[], messages text[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    n constant integer := cardinality(row_numbers);
    outcomes text[];
    said text[];
BEGIN
    SELECT array_agg(CASE WHEN kind = 'start' THEN CASE WHEN a.row_number IS NULL THEN 'ok' ELSE 'fail' END
                          WHEN a.answer IN ('done', 'failed') THEN a.answer ELSE 'pending' END ORDER BY u.k),
           array_agg(coalesce(a.message, '') ORDER BY u.k) INTO outcomes, said
      FROM unnest(row_numbers) WITH ORDINALITY u(n, k)
      LEFT JOIN unnest(numbers, answers, messages) a(row_number, answer, message) ON a.row_number = u.n;
    PERFORM pawl_bulk._record_ends(array_fill(operation, ARRAY[n]), row_numbers, array_fill(s.step_index, ARRAY[n]),
        outcomes, said);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._go_on(pawl_bulk.steps, uuid, text, bigint[], bigint[], text[], text[]) IS
'internal: records results of starts of steps that wait, and of checks';

-- Runs what was picked; returns how many rows.
CREATE FUNCTION pawl_bulk._run_picked(o pawl_bulk.operations, batch integer, step_index integer, kind text,
        numbers bigint[], first_row bigint, last_row bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    calling_span constant text := coalesce(current_setting('pawl.traceparent', true), '');
    calling_state constant text := coalesce(current_setting('pawl.tracestate', true), '');
    traced constant boolean := o.traceparent IS NOT NULL OR calling_span <> '';
    s pawl_bulk.steps;
    begun record;
    said record;
BEGIN
    IF traced THEN
        PERFORM pawl.enter_span(o.traceparent, o.tracestate);
    END IF;
    SELECT x.* INTO s FROM pawl_bulk.steps x
        WHERE x.name = o.definition AND x.version = o.version AND x.step_index = greatest(_run_picked.step_index, 0);
    IF kind = 'rows' THEN
        begun := pawl_bulk._begin_block(o.operation, first_row, last_row, batch);
        numbers := begun.numbers;
    ELSIF kind = 'start' THEN
        PERFORM pawl_bulk._begin_rows(s, o.operation, numbers);
    END IF;
    said := pawl_bulk._ask(CASE kind WHEN 'check' THEN s.check_handler ELSE s.handler END,
        (SELECT d.created_by FROM pawl_bulk.definitions d WHERE d.name = s.name AND d.version = s.version), o, numbers);
    IF s.kind = 'sync' THEN
        PERFORM pawl_bulk._end_rows(s, o.operation, numbers, said.numbers, said.messages);
    ELSE
        PERFORM pawl_bulk._go_on(s, o.operation, kind, numbers, said.numbers, said.answers, said.messages);
    END IF;
    IF kind = 'rows' THEN
        PERFORM pawl_bulk._shrink_block(o.operation, first_row, begun.through);
    END IF;
    IF traced THEN
        PERFORM set_config('pawl.traceparent', calling_span, true), set_config('pawl.tracestate', calling_state, true);
    END IF;
    RETURN greatest(cardinality(numbers), 1);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._run_picked(pawl_bulk.operations, integer, integer, text, bigint[], bigint, bigint) IS
'internal: runs the SQL function of a step over the rows that were picked';

-- What cannot be run is run in tenths, until it is one row: that fails with the error.
-- Null: that cannot be done either.
CREATE FUNCTION pawl_bulk._run_guarded(o pawl_bulk.operations, batch integer, step_index integer, kind text,
        numbers bigint[], first_row bigint, last_row bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    size integer := coalesce(cardinality(numbers), batch);
    problem text;
    begun record;
    s pawl_bulk.steps;
BEGIN
    LOOP
        BEGIN
            RETURN pawl_bulk._run_picked(o, size, step_index, kind, numbers[:size], first_row, last_row);
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl_bulk._ends_duty(SQLSTATE) OR pawl.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            problem := SQLERRM;
        END;
        EXIT WHEN size <= 1;
        size := greatest(size / 10, 1);
    END LOOP;
    BEGIN
        SELECT x.* INTO s FROM pawl_bulk.steps x WHERE x.name = o.definition AND x.version = o.version
            AND x.step_index = greatest(_run_guarded.step_index, 0);
        IF kind = 'rows' THEN
            begun := pawl_bulk._begin_block(o.operation, first_row, last_row, 1);
            numbers := begun.numbers;
        ELSIF kind = 'start' THEN
            PERFORM pawl_bulk._begin_rows(s, o.operation, numbers[:1]);
        END IF;
        UPDATE pawl_bulk.records r
            SET state = 'Failed', error_type = s.error_type, error_message = problem, completed_at = clock_timestamp()
         WHERE r.operation = o.operation AND r.row_number = numbers[1] AND r.step_index = s.step_index
             AND r.state IN ('Running', 'WaitingForCompletion');
        IF kind = 'rows' THEN
            PERFORM pawl_bulk._shrink_block(o.operation, first_row, begun.through);
        END IF;
        RETURN 1;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl_bulk._ends_duty(SQLSTATE) OR pawl.is_transient(SQLSTATE) THEN
            RAISE;
        END IF;
        RAISE WARNING 'rows of operation % cannot be run: %', o.operation, problem;
        RETURN NULL;
    END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._run_guarded(pawl_bulk.operations, integer, integer, text, bigint[], bigint, bigint) IS
'internal: runs what was picked, or as much of it as can be; returns how many rows';

-- The next rows of any operation. An operation that is just being stopped is left alone:
-- the lock of an operation comes before those of its work.
CREATE FUNCTION pawl_bulk._find_rows(batch integer, locked boolean, INOUT passed uuid[], OUT operation uuid,
    OUT size integer, OUT step_index integer, OUT kind text, OUT numbers bigint[],
    OUT first_row bigint, OUT last_row bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    candidate uuid;
BEGIN
    LOOP
        SELECT w.operation INTO candidate FROM pawl_bulk.work w
         WHERE w.queue = 'sql:' AND (w.state = 'ready' OR w.state = 'lost') AND w.due IS NULL
             AND w.operation <> ALL (passed)
         ORDER BY w.priority DESC, w.operation, w.row_number, w.step_index LIMIT 1;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        IF pg_try_advisory_xact_lock_shared(pawl_bulk._lock_key(candidate)) THEN
            PERFORM pawl_bulk._hold(ARRAY[candidate]);
            SELECT p.batch, p.step_index, p.kind, p.numbers, p.first_row, p.last_row
                INTO size, step_index, kind, numbers, first_row, last_row
              FROM pawl_bulk._pick_rows(batch, candidate, locked) p;
            IF numbers IS NOT NULL OR last_row IS NOT NULL THEN
                operation := candidate;
                RETURN;
            END IF;
        END IF;
        -- others have locked what is there
        passed := passed || candidate;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._find_rows(integer, boolean, uuid[]) IS
'internal: the next rows for a SQL function, of any operation that is not in passed; operation null: there are none';

CREATE FUNCTION pawl_bulk.run_sql_rows(batch integer DEFAULT 5000, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    picked record;
    passed uuid[] := '{}';
    did integer;
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
BEGIN
    PERFORM pawl.check_batch(batch, 100000);
    done := 0;
    PERFORM set_config('pawl.processor', '', true);
    LOOP
        SELECT f.* INTO picked FROM pawl_bulk._find_rows(batch - done::integer, true, passed) f;
        EXIT WHEN picked.operation IS NULL;
        passed := picked.passed;
        SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = picked.operation;
        BEGIN
            did := pawl_bulk._run_guarded(o, picked.size, picked.step_index, picked.kind, picked.numbers,
                picked.first_row, picked.last_row);
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            -- it may be gone the next time; the other operations have their turn now
            IF pawl_bulk._ends_duty(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'rows of operation % cannot be run: %', picked.operation, SQLERRM;
            did := NULL;
        END;
        passed := CASE WHEN did IS NULL THEN passed || o.operation ELSE passed END;
        done := done + coalesce(did, 0);
        -- a rest that is small is not worth the statements
        EXIT WHEN done > batch / 2;
    END LOOP;
    IF done = 0 THEN
        done := pawl_bulk._help_to_validate(batch);
    END IF;
    PERFORM set_config('pawl.processor', caller, true);
    next_at := clock_timestamp() + interval '1 s';
END
$function$;
COMMENT ON FUNCTION pawl_bulk.run_sql_rows(integer) IS
'Runs the SQL functions of steps, or if there are no rows for them validators, in the transaction of the caller and
with the rights that pawl.call_as_definer gives to functions of the role that defined the operation''s definition;
pawl_bulk.work_sql_rows is the duty. A handler is a function (operation uuid, metadata jsonb,
row_numbers bigint[], rows jsonb[]) returning table (row_number bigint, message text): the rows it returns have
failed. A check returns table (row_number bigint, answer text, message text) with done, pending or failed. Rows for
which a function raises an error fail alone. pawl.traceparent is a span of the operation''s trace, one for each
batch.
batch: rows at most, 1 to 100000; default 5000. Returns done (rows) and next_at (when to call it again).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator.
Example: SELECT * FROM pawl_bulk.run_sql_rows()';
