-- Opens an operation: its metadata is checked, and its valid rows get their records or are divided into blocks.

CREATE FUNCTION pawl_bulk._operation_errors(o pawl_bulk.operations, patient boolean) RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    d pawl_bulk.definitions;
BEGIN
    SELECT x.* INTO d FROM pawl_bulk.definitions x WHERE x.name = o.definition AND x.version = o.version;
    RETURN pawl_bulk._metadata_errors(d, o.metadata, patient)
        || ARRAY(SELECT format('there is no validator %s(uuid, jsonb, bigint[], jsonb[])', v)
            FROM unnest(d.row_validators) v
                  WHERE pawl_bulk._function(v, '(uuid,jsonb,bigint[],jsonb[])') IS NULL);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._operation_errors(pawl_bulk.operations, boolean) IS
'internal: why an operation is not validated: its metadata, validators that are not there';

CREATE FUNCTION pawl_bulk._pick_up(o pawl_bulk.operations, patient boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    d pawl_bulk.definitions;
    errors text[];
BEGIN
    SELECT x.* INTO d FROM pawl_bulk.definitions x
        WHERE x.name = o.definition AND x.version = o.version AND x.dropped_at IS NULL;
    IF NOT FOUND THEN
        PERFORM pawl_bulk._fail(o.operation,
            format('definition "%s" version %s does not exist', o.definition, o.version), 'Definition missing');
        RETURN 1;
    END IF;
    IF o.status = 'Retrying' THEN
        UPDATE pawl_bulk.operations x SET status = 'Running' WHERE x.operation = o.operation;
        RETURN 1;
    END IF;
    UPDATE pawl_bulk.operations x SET status = 'Validating' WHERE x.operation = o.operation;
    errors := pawl_bulk._operation_errors(o, patient);
    IF errors <> '{}' THEN
        PERFORM pawl_bulk._fail(o.operation, array_to_string(errors, '; '), 'Metadata validation fails');
    ELSE
        PERFORM pawl_bulk._lay_unvalidated(o.operation);
    END IF;
    RETURN 1;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._pick_up(pawl_bulk.operations, boolean) IS
'internal: begins an operation, or a retry of one';

-- It checks everything itself, because workers may call it.
CREATE FUNCTION pawl_bulk._opened(operation uuid, through bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    missing bigint;
    before bigint;
    closed int8multirange;
BEGIN
    SELECT o.opened_through INTO before FROM pawl_bulk.operations o WHERE o.operation = _opened.operation;
    SELECT coalesce(range_agg(int8range(w.row_number, w.last_row, '[]')), '{}') INTO closed FROM pawl_bulk.work w
     WHERE w.operation = _opened.operation AND w.last_row > before AND w.last_row IS NOT NULL;
    -- only a valid row can have a record, so as many are all. Two walks, whatever the planner knows of the tables
    IF (SELECT count(*) FROM pawl_bulk.validations v
         WHERE v.operation = _opened.operation AND v.row_number > before AND v.row_number <= through
           AND v.state = 'Completed' AND NOT v.row_number <@ closed)
       > (SELECT count(*) FROM pawl_bulk.records r
           WHERE r.operation = _opened.operation AND r.row_number > before AND r.row_number <= through
             AND r.step_index = 0 AND NOT r.row_number <@ closed) THEN
        SELECT min(x.row_number) INTO missing
          FROM (SELECT v.row_number FROM pawl_bulk.validations v
                 WHERE v.operation = _opened.operation AND v.row_number > before AND v.row_number <= through
                     AND v.state = 'Completed' AND NOT v.row_number <@ closed
                EXCEPT SELECT r.row_number FROM pawl_bulk.records r
                 WHERE r.operation = _opened.operation AND r.row_number > before AND r.row_number <= through
                     AND r.step_index = 0) x;
        PERFORM pawl.raise('55000', format('row %s of operation %s has no record', missing, operation));
    ELSIF NOT EXISTS (SELECT FROM pawl_bulk.validations v
            WHERE v.operation = _opened.operation AND v.row_number >= through) THEN
        PERFORM pawl.raise('55000', format('operation %s has no row %s', operation, through),
            'Rows that come later would not be opened.');
    END IF;
    UPDATE pawl_bulk.operations o SET opened_through = through
        WHERE o.operation = _opened.operation AND o.opened_through < through;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._opened(uuid, bigint) IS
'internal: the valid rows up to this number have their records, or are in blocks; 55000: one has none, or there '
'is no such row';

-- Valid rows whose first step is a SQL function are divided into blocks, and get their records when they are run.
-- SECURITY DEFINER, and it reads the operation itself, because no role inserts work.
CREATE FUNCTION pawl_bulk._lay_blocks(operation uuid, batch integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    laid bigint := 0;
    block record;
    o pawl_bulk.operations;
    through bigint;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x
     WHERE x.operation = _lay_blocks.operation AND x.status = 'Running' AND x.paused_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND OR NOT EXISTS (SELECT FROM pawl_bulk.steps s
        WHERE s.name = o.definition AND s.version = o.version AND s.step_index = 0
                                   AND s.kind = 'sync' AND s.handler IS NOT NULL) THEN
        RETURN 0;
    END IF;
    through := o.opened_through;
    WHILE laid < batch LOOP
        SELECT min(v.row_number) AS first_row, max(v.row_number) AS last_row, count(*) AS rows INTO block
          FROM (SELECT x.row_number FROM pawl_bulk.validations x
              WHERE x.operation = o.operation AND x.row_number > through
                 ORDER BY x.row_number LIMIT least(5000, batch - laid)) v;
        EXIT WHEN block.rows = 0;
        INSERT INTO pawl_bulk.work (operation, row_number, step_index, kind, queue, priority, last_row)
        VALUES (o.operation, block.first_row, -1, 'rows', 'sql:', o.priority, block.last_row);
        laid := laid + block.rows;
        through := block.last_row;
    END LOOP;
    IF laid > 0 THEN
        PERFORM pawl_bulk._opened(o.operation, through);
    END IF;
    RETURN laid;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._lay_blocks(uuid, integer) IS
'internal: makes work of the next rows for a SQL function; returns how many rows it looked at';

-- Valid rows get their record at the first step.
CREATE FUNCTION pawl_bulk._open_rows(o pawl_bulk.operations, batch integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    opened bigint;
    through bigint;
BEGIN
    IF EXISTS (SELECT FROM pawl_bulk.steps s WHERE s.name = o.definition AND s.version = o.version AND s.step_index = 0
            AND s.kind = 'sync' AND s.handler IS NOT NULL) THEN
        RETURN pawl_bulk._lay_blocks(o.operation, batch);
    END IF;
    SELECT max(v.row_number), count(*) INTO through, opened
      FROM (SELECT x.row_number FROM pawl_bulk.validations x
          WHERE x.operation = o.operation AND x.row_number > o.opened_through ORDER BY x.row_number LIMIT batch) v;
    IF opened = 0 THEN
        RETURN 0;
    END IF;
    -- ON CONFLICT costs a third more, so only where records were made by hand, or an old snapshot may miss some (40001)
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
        OR EXISTS (SELECT FROM pawl_bulk.records r
            WHERE r.operation = o.operation AND r.row_number > o.opened_through AND r.row_number <= through) THEN
        INSERT INTO pawl_bulk.records (operation, row_number, step_index)
        SELECT v.operation, v.row_number, 0 FROM pawl_bulk.validations v
         WHERE v.operation = o.operation AND v.row_number > o.opened_through AND v.row_number <= through
             AND v.state = 'Completed' ORDER BY v.row_number
        ON CONFLICT DO NOTHING;
    ELSE
        INSERT INTO pawl_bulk.records (operation, row_number, step_index)
        SELECT v.operation, v.row_number, 0 FROM pawl_bulk.validations v
         WHERE v.operation = o.operation AND v.row_number > o.opened_through AND v.row_number <= through
             AND v.state = 'Completed' ORDER BY v.row_number;
    END IF;
    PERFORM pawl_bulk._opened(o.operation, through);
    RETURN opened;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._open_rows(pawl_bulk.operations, integer) IS
'internal: makes the first records of the next valid rows; returns how many rows it looked at';
