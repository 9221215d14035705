-- Steps that are SQL functions over sets of rows. The function's changes and the results of the rows are one
-- transaction, so they happen exactly once.

-- The answers of a step's SQL function about rows that fail.
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
        -- a missing function fails all rows, and does not stop the duty
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
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at constant timestamptz := clock_timestamp();
    n constant integer := cardinality(row_numbers);
    k constant integer := cardinality(failed);
BEGIN
    -- the usual case
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
'internal: ends records of a synchronous step by the answers of its SQL function';

-- Continues records whose step polls or waits, and checks.
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

-- Runs the picked rows, and returns how many.
CREATE FUNCTION pawl_bulk._run_picked(o pawl_bulk.operations, batch integer, step_index integer, kind text,
        numbers bigint[], first_row bigint, last_row bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.traceparent = ''
SET pawl.tracestate = ''
AS $function$
#variable_conflict use_variable
DECLARE
    s pawl_bulk.steps;
    begun record;
    said record;
BEGIN
    IF o.traceparent IS NOT NULL THEN
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
    RETURN greatest(cardinality(numbers), 1);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._run_picked(pawl_bulk.operations, integer, integer, text, bigint[], bigint, bigint) IS
'internal: runs the SQL function of a step over the rows that were picked';

-- Runs rows that cannot be run together in tenths, down to one row, which fails with the error. Null: that cannot be
-- done either.
CREATE FUNCTION pawl_bulk._run_guarded(o pawl_bulk.operations, batch integer, step_index integer, kind text,
        numbers bigint[], first_row bigint, last_row bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
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
'internal: runs the picked rows, or as many of them as possible; returns how many';

-- The next rows of any operation. An operation that is just being stopped is left alone:
-- the lock of an operation comes before those of its work.
CREATE FUNCTION pawl_bulk._find_rows(batch integer, locked boolean, INOUT passed uuid[], OUT operation uuid,
    OUT size integer, OUT step_index integer, OUT kind text, OUT numbers bigint[],
    OUT first_row bigint, OUT last_row bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
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
        IF pawl_bulk._try_hold(candidate) THEN
            SELECT p.batch, p.step_index, p.kind, p.numbers, p.first_row, p.last_row
                INTO size, step_index, kind, numbers, first_row, last_row
              FROM pawl_bulk._pick_rows(batch, candidate, locked) p;
            IF numbers IS NOT NULL OR last_row IS NOT NULL THEN
                operation := candidate;
                RETURN;
            END IF;
        END IF;
        -- other sessions have locked all rows
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
SET jit = off
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
            -- the error may not come again; the other operations are tried first
            IF pawl_bulk._ends_duty(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'rows of operation % cannot be run: %', picked.operation, SQLERRM;
            did := NULL;
        END;
        -- signal keys stay locked until the transaction ends: those of the operation's next rows might come before them
        -- in the order in which all sessions lock keys
        IF did IS NULL OR did > 0 AND EXISTS (SELECT FROM pawl_bulk.steps s
            WHERE s.name = o.definition AND s.version = o.version AND s.kind = 'signal'
              AND s.step_index BETWEEN picked.step_index AND greatest(picked.step_index, 0) + 1) THEN
            passed := passed || o.operation;
        END IF;
        done := done + coalesce(did, 0);
        EXIT WHEN done > batch / 2;  -- a small remainder is not worth the statements
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
batch. Of an operation whose rows wait for signals now, or next, a call runs one part: their signal keys stay locked.
batch: rows at most, 1 to 100000; default 5000. Returns done (rows) and next_at (when to call it again).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator.
Example: SELECT * FROM pawl_bulk.run_sql_rows()';
