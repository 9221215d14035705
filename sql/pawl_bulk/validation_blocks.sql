-- The blocks of rows that are not yet validated: laid out, taken by a session, divided, ended.

-- The input is laid out in blocks, so that several sessions validate. By row numbers and not by rows: nothing but the
-- first and the last row of each is read.
CREATE FUNCTION pawl_bulk._lay_unvalidated(operation uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    size constant bigint := 5000;
    first_row bigint;
    laid bigint;
    through bigint;
BEGIN
    SELECT x.validated_through INTO laid FROM pawl_bulk.operations x
        WHERE x.operation = _lay_unvalidated.operation AND x.status = 'Validating' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    through := greatest(laid, 0);
    LOOP
        SELECT i.row_number INTO first_row FROM pawl_bulk.input i
            WHERE i.operation = _lay_unvalidated.operation AND i.row_number > through ORDER BY i.row_number LIMIT 1;
        EXIT WHEN NOT FOUND;
        through := first_row + least(size - 1, 9223372036854775807 - first_row);
        SELECT i.row_number INTO through FROM pawl_bulk.input i
         WHERE i.operation = _lay_unvalidated.operation AND i.row_number BETWEEN first_row AND through
         ORDER BY i.row_number DESC LIMIT 1;
        INSERT INTO pawl_bulk.unvalidated (operation, first_row, last_row) VALUES (operation, first_row, through);
    END LOOP;
    IF through > laid THEN
        UPDATE pawl_bulk.operations x SET validated_through = through WHERE x.operation = _lay_unvalidated.operation;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._lay_unvalidated(uuid) IS
'internal: makes blocks of the rows of an operation that are in none';

-- Locked, and gone when its rows are validated: a caller that does not continue has
-- divided a block, and held it for a transaction.
CREATE FUNCTION pawl_bulk._take_unvalidated(operation uuid, batch integer, block bigint DEFAULT NULL,
    OUT first_row bigint, OUT last_row bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    through bigint;
BEGIN
    SELECT u.first_row, u.last_row INTO first_row, through FROM pawl_bulk.unvalidated u
     WHERE u.operation = _take_unvalidated.operation AND (block IS NULL OR u.first_row = block)
     ORDER BY u.first_row LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    last_row := least(through - first_row, greatest(batch, 1) - 1) + first_row;
    IF last_row < through THEN
        UPDATE pawl_bulk.unvalidated u SET last_row = _take_unvalidated.last_row
            WHERE u.operation = _take_unvalidated.operation AND u.first_row = _take_unvalidated.first_row;
        INSERT INTO pawl_bulk.unvalidated (operation, first_row, last_row) VALUES (operation, last_row + 1, through);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._take_unvalidated(uuid, integer, bigint) IS
'internal: the next free block, or the one that begins with this row, or its first rows, locked; null: there is none';

-- It checks everything itself, because workers may call it.
CREATE FUNCTION pawl_bulk._end_unvalidated(operation uuid, first_row bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    through bigint;
    missing bigint;
BEGIN
    SELECT u.last_row INTO through FROM pawl_bulk.unvalidated u
        WHERE u.operation = _end_unvalidated.operation AND u.first_row = _end_unvalidated.first_row FOR UPDATE;
    -- two walks, whatever the planner knows of the tables
    SELECT min(x.row_number) INTO missing
      FROM (SELECT i.row_number FROM pawl_bulk.input i
          WHERE i.operation = _end_unvalidated.operation AND i.row_number BETWEEN first_row AND through
            EXCEPT SELECT v.row_number FROM pawl_bulk.validations v
            WHERE v.operation = _end_unvalidated.operation AND v.row_number BETWEEN first_row AND through) x;
    IF missing IS NOT NULL THEN
        PERFORM pawl.raise('55000', format('row %s of operation %s is not validated', missing, operation));
    END IF;
    DELETE FROM pawl_bulk.unvalidated u
        WHERE u.operation = _end_unvalidated.operation AND u.first_row = _end_unvalidated.first_row;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._end_unvalidated(uuid, bigint) IS
'internal: the block whose rows have their validation records goes; 55000: one has none';
