-- Steps that are SQL functions over sets of rows. What the function does and what becomes of the rows is one transaction, so it happens
-- exactly once, and there is no lease that could run out.

-- The next rows of one operation at one step, locked.
CREATE FUNCTION pawl_bulk._pick_rows(batch integer, operation uuid, OUT step_index integer, OUT kind text, OUT numbers bigint[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $function$
#variable_conflict use_variable
BEGIN
    SELECT w.step_index, w.kind INTO step_index, kind FROM pawl_bulk.work w
     WHERE w.queue = 'sql:' AND (w.state = 'ready' OR w.state = 'lost') AND w.due IS NULL AND w.operation = _pick_rows.operation
     ORDER BY w.priority DESC, w.operation, w.row_number, w.step_index LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(l.row_number ORDER BY l.row_number) INTO numbers
      FROM (SELECT w.row_number FROM pawl_bulk.work w
             WHERE w.queue = 'sql:' AND (w.state = 'ready' OR w.state = 'lost') AND w.due IS NULL
               AND w.operation = _pick_rows.operation AND w.step_index = _pick_rows.step_index AND w.kind = _pick_rows.kind
             ORDER BY w.priority DESC, w.operation, w.row_number, w.step_index LIMIT batch FOR UPDATE SKIP LOCKED) l;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._pick_rows(integer, uuid) IS 'internal: the next rows for a SQL function, locked';

CREATE FUNCTION pawl_bulk._run_rows(operation uuid, step_index integer, kind text, row_numbers bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
AS $function$
#variable_conflict use_variable
DECLARE
    s pawl_bulk.steps;
    o pawl_bulk.operations;
    called text;
    d record;
    answers jsonb[] := '{}';
    n integer := cardinality(row_numbers);
    now_at timestamptz := clock_timestamp();
    outcomes text[];
    messages text[];
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = _run_rows.operation;
    SELECT x.* INTO s FROM pawl_bulk.steps x WHERE x.name = o.definition AND x.version = o.version AND x.step_index = _run_rows.step_index;
    IF kind = 'start' THEN
        IF s.run_timeout IS NOT NULL THEN
            UPDATE pawl_bulk.work w SET deadline_at = now_at + s.run_timeout
             WHERE w.operation = _run_rows.operation AND w.row_number BETWEEN row_numbers[1] AND row_numbers[n] AND w.row_number = ANY (row_numbers)
               AND w.step_index = _run_rows.step_index AND w.deadline_at IS NULL;
        END IF;
        -- no join, and from the first to the last: a plan made for few rows would walk through all records of the operation
        UPDATE pawl_bulk.records r SET state = 'Running', started_at = now_at
         WHERE r.operation = _run_rows.operation AND r.row_number BETWEEN row_numbers[1] AND row_numbers[n] AND r.row_number = ANY (row_numbers)
           AND r.step_index = _run_rows.step_index AND r.state = 'Pending';
    END IF;
    called := CASE kind WHEN 'start' THEN s.handler ELSE s.check_handler END;
    IF called IS NOT NULL THEN
        IF to_regprocedure(called || '(uuid,jsonb,bigint[],jsonb[])') IS NULL THEN
            -- a function that is not there is the failure of all rows, not a reason to stand still
            answers := ARRAY(SELECT jsonb_build_object('row_number', u.n, 'answer', 'failed', 'message', format('no function %s(uuid, jsonb, bigint[], jsonb[])', called))
                               FROM unnest(row_numbers) u(n));
        ELSE
            d := pawl_bulk._data_of(operation, row_numbers);
            answers := pawl_bulk._call_for_rows(called, operation, o.metadata, d.numbers, d.datas);
        END IF;
    END IF;
    IF answers = '{}' AND kind = 'start' AND s.kind = 'sync' THEN
        -- what nearly every batch is
        UPDATE pawl_bulk.records r SET state = 'Completed', tries = r.tries + 1, completed_at = clock_timestamp(), error_message = NULL
         WHERE r.operation = _run_rows.operation AND r.row_number BETWEEN row_numbers[1] AND row_numbers[n] AND r.row_number = ANY (row_numbers)
           AND r.step_index = _run_rows.step_index AND r.state = 'Running';
        RETURN;
    ELSIF answers = '{}' THEN
        outcomes := array_fill(CASE kind WHEN 'start' THEN 'ok' ELSE 'pending' END, ARRAY[n]);
        messages := array_fill(''::text, ARRAY[n]);
    ELSE
        SELECT array_agg(CASE WHEN kind = 'start' THEN CASE WHEN a.row_number IS NULL THEN 'ok' ELSE 'fail' END
                              WHEN a.answer IN ('done', 'failed') THEN a.answer ELSE 'pending' END ORDER BY u.k),
               array_agg(coalesce(a.message, '') ORDER BY u.k) INTO outcomes, messages
          FROM unnest(row_numbers) WITH ORDINALITY u(n, k)
          LEFT JOIN (SELECT DISTINCT ON (1) (x ->> 'row_number')::bigint AS row_number, x ->> 'answer' AS answer, x ->> 'message' AS message
                       FROM unnest(answers) x ORDER BY 1) a ON a.row_number = u.n;
    END IF;
    PERFORM pawl_bulk._settle(array_fill(operation, ARRAY[n]), row_numbers, array_fill(step_index, ARRAY[n]), outcomes, messages);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._run_rows(uuid, integer, text, bigint[]) IS 'internal: runs the SQL function of a step over rows';

CREATE FUNCTION pawl_bulk.run_sql_rows(batch integer DEFAULT 5000, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    picked record;
    candidate uuid;
    passed uuid[] := '{}';
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        PERFORM pawl._raise('22023', 'batch must be from 1 to 100000');
    END IF;
    done := 0;
    PERFORM set_config('pawl.processor', '', true);
    LOOP
        -- an operation that is just being stopped is left alone: the lock of an operation comes before those of its work
        SELECT w.operation INTO candidate FROM pawl_bulk.work w
         WHERE w.queue = 'sql:' AND (w.state = 'ready' OR w.state = 'lost') AND w.due IS NULL AND w.operation <> ALL (passed)
         ORDER BY w.priority DESC, w.operation, w.row_number, w.step_index LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF NOT pg_try_advisory_xact_lock_shared(pawl_bulk._lock_key(candidate)) THEN
            passed := passed || candidate;
            CONTINUE;
        END IF;
        PERFORM pawl_bulk._hold(ARRAY[candidate]);
        SELECT p.* INTO picked FROM pawl_bulk._pick_rows(batch - done::integer, candidate) p;
        IF picked.numbers IS NULL THEN
            -- others have locked what is there
            passed := passed || candidate;
            CONTINUE;
        END IF;
        PERFORM pawl_bulk._run_rows(candidate, picked.step_index, picked.kind, picked.numbers);
        done := done + cardinality(picked.numbers);
        EXIT WHEN done >= batch;
    END LOOP;
    PERFORM set_config('pawl.processor', caller, true);
    next_at := clock_timestamp() + interval '1 s';
END
$function$;
COMMENT ON FUNCTION pawl_bulk.run_sql_rows(integer) IS
'a duty: runs the SQL functions of steps over at most batch rows, with the caller''s rights, in this transaction. A handler is a function (operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[]) returns table (row_number bigint, message text): the rows it returns have failed. A check returns table (row_number bigint, answer text, message text) with done, pending or failed. Rows for which a function raises an error fail alone. Returns how many rows it ran';
