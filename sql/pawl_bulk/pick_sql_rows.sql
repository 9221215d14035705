-- Picks the rows for a SQL function, and begins their records.

-- The next rows of one operation at one step: rows with work of their own, or a block (kind rows) from first_row to
-- last_row. What other sessions have begun is left to them; rows of lost runs come later, and in smaller runs.
CREATE FUNCTION pawl_bulk._pick_rows(INOUT batch integer, operation uuid, locked boolean, OUT step_index integer,
    OUT kind text, OUT numbers bigint[], OUT first_row bigint, OUT last_row bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
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

-- Workers cannot insert and delete work themselves, so this checks that each valid row has its record.
CREATE FUNCTION pawl_bulk._shrink_block(operation uuid, first_row bigint, through bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    looked record;
BEGIN
    PERFORM pawl_bulk._hold(ARRAY[operation]);
    SELECT count(*) AS rows, coalesce(bool_or(r.state IN ('Pending', 'Running', 'WaitingForCompletion')
           AND NOT EXISTS (SELECT FROM pawl_bulk.work w WHERE w.operation = r.operation
               AND w.row_number = r.row_number AND w.step_index = 0)), false) AS unended
      INTO looked FROM pawl_bulk.records r
     WHERE r.operation = _shrink_block.operation AND r.row_number BETWEEN first_row AND through AND r.step_index = 0;
    IF looked.rows < (SELECT count(*) FROM pawl_bulk.validations v
         WHERE v.operation = _shrink_block.operation AND v.row_number BETWEEN first_row AND through
             AND v.state = 'Completed') THEN
        PERFORM pawl.raise('55000',
            format('rows %s to %s of operation %s have no records', first_row, through, operation));
    ELSIF looked.unended THEN
        PERFORM pawl.raise('55000',
            format('rows %s to %s of operation %s have not ended', first_row, through, operation),
                           'Without their block they would have no work.');
    END IF;
    WITH gone AS (
        DELETE FROM pawl_bulk.work w
        WHERE w.operation = _shrink_block.operation AND w.row_number = first_row AND w.step_index = -1
        RETURNING w.operation, w.queue, w.priority, w.last_row)
    -- held if the function that ran has paused the operation
    INSERT INTO pawl_bulk.work (operation, row_number, step_index, kind, queue, priority, last_row, held, due)
    SELECT g.operation, through + 1, -1, 'rows', g.queue, g.priority, g.last_row, o.paused_at IS NOT NULL,
    CASE WHEN o.paused_at IS NOT NULL THEN 'infinity'::timestamptz END
      FROM gone g JOIN pawl_bulk.operations o ON o.operation = g.operation WHERE through < g.last_row;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._shrink_block(uuid, bigint, bigint) IS
'internal: a block whose rows up to this one have ended, or have work of their own; 55000: they have not';

-- Work for records that are Running without any: rows of a block that are tried again.
CREATE FUNCTION pawl_bulk._work_again(operation uuid, step_index integer, row_numbers bigint[]) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
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

-- Makes the records of a block, as many as fit into the batch, Running at once. If the session does not continue, they
-- stay in their block, and are run with it.
CREATE FUNCTION pawl_bulk._begin_block(operation uuid, first_row bigint, last_row bigint, batch integer,
    OUT numbers bigint[], OUT through bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
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
    -- ON CONFLICT costs a third more, so only if others inserted before, or an old snapshot may miss some (40001)
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
        OR EXISTS (SELECT FROM pawl_bulk.records r WHERE r.operation = _begin_block.operation
            AND r.row_number BETWEEN first_row AND through AND r.step_index = 0) THEN
        INSERT INTO pawl_bulk.records (operation, row_number, step_index)
        SELECT v.operation, v.row_number, 0 FROM pawl_bulk.validations v
         WHERE v.operation = _begin_block.operation AND v.row_number BETWEEN first_row AND through
             AND v.state = 'Completed' ORDER BY v.row_number
        ON CONFLICT DO NOTHING;
        -- a record that was set to Running by hand has no work of its own; it is run with its block
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
SET jit = off
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
