-- The validation of rows, block by block: every error is kept. Other sessions can help.

-- Rows first_row to last_row get their validation records. Where that raises an error they are halved until it belongs
-- to one of them: that one fails with it. patient: an error that may be gone the next time is raised.
CREATE FUNCTION pawl_bulk._validate_rows(d pawl_bulk.definitions, o pawl_bulk.operations, first_row bigint,
        last_row bigint, patient boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    r record;
    fine record;
    errors jsonb[];
    now_at timestamptz;
    middle bigint := first_row + (last_row - first_row) / 2;
BEGIN
    BEGIN
        r := pawl_bulk._read_rows(o, first_row, last_row);
        IF r.numbers IS NULL THEN
            RETURN 0;
        END IF;
        IF array_remove(r.problems, NULL) = '{}' THEN
            errors := pawl_bulk._row_errors(d, o, r.numbers, r.datas);
        ELSE
            SELECT array_agg(u.n) AS numbers, array_agg(u.data) AS datas INTO fine
                FROM unnest(r.numbers, r.datas, r.problems) u(n, data, problem) WHERE u.problem IS NULL;
            errors := pawl_bulk._row_errors(d, o, fine.numbers, fine.datas)
                || ARRAY(SELECT jsonb_build_object('row_number', u.n, 'code', 'malformed', 'message', u.problem)
                    FROM unnest(r.numbers, r.problems) u(n, problem) WHERE u.problem IS NOT NULL);
        END IF;
        now_at := clock_timestamp();
        IF errors = '{}' THEN
            INSERT INTO pawl_bulk.validations (operation, row_number, state, row_id, created_at)
            SELECT o.operation, u.n, 'Completed', u.data ->> d.row_id, now_at
            FROM unnest(r.numbers, r.datas) u(n, data);
        ELSE
            INSERT INTO pawl_bulk.validations (operation, row_number, state, row_id, errors, raw, created_at)
            SELECT o.operation, u.n, CASE WHEN e.errors IS NULL THEN 'Completed' ELSE 'Failed' END, u.data ->> d.row_id,
            e.errors,
                   CASE WHEN u.problem IS NOT NULL
                       THEN (SELECT coalesce(i.raw, i.data::text) FROM pawl_bulk.input i
                           WHERE i.operation = o.operation AND i.row_number = u.n) END, now_at
              FROM unnest(r.numbers, r.datas, r.problems) u(n, data, problem)
              LEFT JOIN (SELECT (x.e ->> 'row_number')::bigint AS n,
                  jsonb_agg(x.e - 'row_number' - 'answer' ORDER BY x.k) AS errors
                           FROM unnest(errors) WITH ORDINALITY x(e, k) GROUP BY 1) e ON e.n = u.n
             ORDER BY u.n;
            IF NOT o.track_row_data THEN
                PERFORM pawl_bulk._forget_invalid(o.operation, first_row, last_row);
            END IF;
        END IF;
        RETURN cardinality(r.numbers);
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl_bulk._ends_duty(SQLSTATE) OR patient AND pawl.is_transient(SQLSTATE) THEN
            RAISE;
        END IF;
        errors := ARRAY[jsonb_build_object('code', 'exception', 'message', SQLERRM, 'sqlstate', SQLSTATE)];
    END;
    IF first_row = last_row THEN
        PERFORM pawl_bulk._invalidate(o, first_row, errors[1]);
        RETURN 1;
    END IF;
    RETURN pawl_bulk._validate_rows(d, o, first_row, middle, patient) + pawl_bulk._validate_rows(d, o, middle + 1,
        last_row, patient);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._validate_rows(pawl_bulk.definitions, pawl_bulk.operations, bigint, bigint, boolean) IS
'internal: writes the validation records of rows; returns how many';

CREATE FUNCTION pawl_bulk._forget_invalid(operation uuid, first_row bigint, last_row bigint) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    DELETE FROM pawl_bulk.input i USING pawl_bulk.validations v, pawl_bulk.operations o
     WHERE o.operation = _forget_invalid.operation AND NOT o.track_row_data AND v.operation = o.operation
         AND v.row_number BETWEEN first_row AND last_row AND v.errors IS NOT NULL
       AND i.operation = v.operation AND i.row_number = v.row_number
$function$;
COMMENT ON FUNCTION pawl_bulk._forget_invalid(uuid, bigint, bigint) IS
'internal: the data of rows that failed validation go, where they are not kept';

CREATE FUNCTION pawl_bulk._invalidate(o pawl_bulk.operations, row_number bigint, error jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    INSERT INTO pawl_bulk.validations (operation, row_number, state, errors, raw)
    SELECT o.operation, i.row_number, 'Failed', jsonb_build_array(error), i.raw FROM pawl_bulk.input i
     WHERE i.operation = o.operation AND i.row_number = _invalidate.row_number;
    IF NOT o.track_row_data THEN
        PERFORM pawl_bulk._forget_invalid(o.operation, row_number, row_number);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._invalidate(pawl_bulk.operations, bigint, jsonb) IS
'internal: the validation record of a row that could not be validated';

-- Reads the operation and its definition itself: what validators say is written as they say it.
CREATE FUNCTION pawl_bulk._validate_next_block(operation uuid, batch integer, patient boolean, first_row bigint)
    RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    d pawl_bulk.definitions;
    block record;
    did bigint;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x
        WHERE x.operation = _validate_next_block.operation AND x.status = 'Validating' AND x.paused_at IS NULL;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    block := pawl_bulk._take_unvalidated(operation, batch, first_row);
    IF block.first_row IS NULL THEN
        RETURN 0;
    END IF;
    SELECT x.* INTO d FROM pawl_bulk.definitions x WHERE x.name = o.definition AND x.version = o.version;
    did := pawl_bulk._validate_rows(d, o, block.first_row, block.last_row, patient);
    PERFORM pawl_bulk._end_unvalidated(operation, block.first_row);
    RETURN greatest(did, 1);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._validate_next_block(uuid, integer, boolean, bigint) IS
'internal: pawl_bulk._validate_block';

CREATE FUNCTION pawl_bulk._validate_block(operation uuid, batch integer, patient boolean, first_row bigint DEFAULT NULL)
    RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_bulk_validate_block';
COMMENT ON FUNCTION pawl_bulk._validate_block(uuid, integer, boolean, bigint) IS
'internal: validates the next free block, or the one that begins with this row; returns how many rows, 0: none';

-- The operation has lost more sessions, or run out of time more often, than allowed.
CREATE FUNCTION pawl_bulk._fail_next_row(operation uuid, first_row bigint, error jsonb) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    block record;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x JOIN pawl_bulk.troubles t ON t.operation = x.operation
     WHERE x.operation = _fail_next_row.operation AND x.status = 'Validating' AND x.paused_at IS NULL AND t.failures > 5
         AND t.sqlstate ~ '^57';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    block := pawl_bulk._take_unvalidated(operation, 1, first_row);
    IF block.first_row IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pawl_bulk._invalidate(o, block.first_row, error);
    PERFORM pawl_bulk._end_unvalidated(operation, block.first_row);
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._fail_next_row(uuid, bigint, jsonb) IS 'internal: pawl_bulk._fail_row';

CREATE FUNCTION pawl_bulk._fail_row(operation uuid, first_row bigint, error jsonb) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_bulk_fail_row';
COMMENT ON FUNCTION pawl_bulk._fail_row(uuid, bigint, jsonb) IS
'internal: fails the next row, or this one, if its validation always loses its session or its time';

CREATE FUNCTION pawl_bulk._validating() RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'pawl_bulk_validating';
COMMENT ON FUNCTION pawl_bulk._validating() IS 'internal: the statement writes what validators say';

CREATE FUNCTION pawl_bulk._validations_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.validations');
BEGIN
    IF NOT pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'MEMBER') THEN
        PERFORM pawl.raise('42501', 'validation records are written by pawl_bulk.advance',
            'They hold the results of the validators of the definition.', 'select * from pawl_bulk.advance()');
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._validations_by_sql() IS
'internal: rejects validation records that no validation writes; 42501';
CREATE TRIGGER by_sql BEFORE INSERT ON pawl_bulk.validations
    FOR EACH STATEMENT WHEN (NOT pawl_bulk._validating() AND NOT pawl.restoring())
    EXECUTE FUNCTION pawl_bulk._validations_by_sql();

-- Beside the session that has locked the operation. The shared lock keeps it from being moved or paused meanwhile.
CREATE FUNCTION pawl_bulk._help_with(candidate uuid, batch integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
BEGIN
    IF NOT pawl_bulk._try_lock(candidate) THEN
        RETURN 0;
    END IF;
    SELECT x.* INTO o FROM pawl_bulk.operations x
        WHERE x.operation = candidate AND x.status = 'Validating' AND x.paused_at IS NULL;
    RETURN CASE WHEN o.operation IS NULL THEN 0 ELSE pawl_bulk._validate_block(candidate, batch, true) END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._help_with(uuid, integer) IS
'internal: validates a free block of an operation; returns how many rows';

CREATE FUNCTION pawl_bulk._help_to_validate(batch integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    candidate uuid;
    did bigint;
BEGIN
    -- an old snapshot would not see what was decided
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN 0;
    END IF;
    FOR candidate IN SELECT x.operation FROM pawl_bulk.operations x
                      WHERE x.status = ANY ('{Pending,Validating,Running,Retrying}') AND x.status = 'Validating'
                          AND x.paused_at IS NULL
                        AND NOT EXISTS (SELECT FROM pawl_bulk.troubles t WHERE t.operation = x.operation)
                      ORDER BY x.priority DESC, x.operation LOOP
        BEGIN
            did := pawl_bulk._help_with(candidate, batch);
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE OR QUERY_CANCELED THEN
            -- pawl_bulk.advance handles it from now on
            IF pawl_bulk._ends_duty(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM pawl_bulk._trouble(candidate, SQLSTATE, SQLERRM);
            IF SQLSTATE = '57014' THEN
                RETURN 0;
            END IF;
            CONTINUE;
        END;
        IF did > 0 THEN
            RETURN did;
        END IF;
    END LOOP;
    RETURN 0;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._help_to_validate(integer) IS
'internal: validates a block of an operation that another session may be validating too; returns how many rows';

CREATE FUNCTION pawl_bulk.validate_now(operation uuid) RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    d pawl_bulk.definitions;
BEGIN
    UPDATE pawl_bulk.operations AS x SET status = 'Validating' WHERE x.operation = validate_now.operation;
    PERFORM pawl_bulk._lay_unvalidated(operation);
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = validate_now.operation;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no operation %s', operation));
    END IF;
    SELECT x.* INTO d FROM pawl_bulk.definitions x WHERE x.name = o.definition AND x.version = o.version;
    LOOP
        EXIT WHEN pawl_bulk._validate_block(operation, 10000, false) = 0;
    END LOOP;
    RETURN pawl_bulk._metadata_errors(d, o.metadata, true);
END
$function$;
COMMENT ON FUNCTION pawl_bulk.validate_now(uuid) IS
'Validates all rows of an operation in this transaction, as the duty would, and returns what is wrong with its '
'metadata; the
errors of rows are in pawl_bulk.errors. operation: Pending or Validating. Errors: what validators raise; P0002 no such '
'operation; PW001 '
'another state.
Privileges: pawl_worker and above. Example: SELECT pawl_bulk.validate_now(''01a2080d-be00-78c8-af29-543bc31dc522'')';
