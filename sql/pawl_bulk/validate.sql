-- The validation phase: metadata once, rows in batches, every error kept.

-- Set-based: a rule at a time over all values, not a value at a time. Each CASE looks at what the ones before it let
-- through, so a cast is of what can be cast: numbers that numeric does not hold are none.
CREATE FUNCTION pawl_bulk._schema_errors(schema jsonb, numbers bigint[], datas jsonb[])
    RETURNS TABLE (row_number bigint, code text, message text, field text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT u.n, 'required', format('"%s" is missing', r.field), r.field
      FROM jsonb_array_elements_text(coalesce(schema -> 'required', '[]')) WITH ORDINALITY r(field, k)
      CROSS JOIN unnest(numbers, datas) u(n, data)
     WHERE coalesce(u.data ->> r.field, '') = ''
    UNION ALL
    SELECT x.n, CASE x.code WHEN 'number' THEN 'type' ELSE x.code END,
    CASE x.code WHEN 'type' THEN format('"%s" is not a value of type %s', x.field, x.type) WHEN 'length'
        THEN format('"%s" has %s characters', x.field, length(x.said))
                                    WHEN 'pattern' THEN format('"%s" does not match %s', x.field, x.pattern)
                                    WHEN 'enum' THEN format('"%s" is not one of %s', x.field, x.list)
                                    WHEN 'range' THEN format('"%s" is out of range', x.field)
            ELSE format('"%s" is not a number', x.field) END, x.field
      FROM (SELECT v.*, CASE WHEN v.type = 'string' AND jsonb_typeof(v.given) <> 'string' OR v.type = 'boolean'
          AND v.said NOT IN ('true', 'false')
                                  OR v.type = 'number' AND NOT v.is_number OR v.type = 'integer'
                                  AND v.said !~ E'^\\s*[-+]?\\d+\\s*$' THEN 'type'
                             WHEN length(v.said) < v.shortest OR length(v.said) > v.longest THEN 'length'
                             WHEN v.said !~ v.pattern THEN 'pattern'
                             WHEN v.list IS NOT NULL AND NOT v.list @> to_jsonb(v.said)
                                 AND NOT v.list @> v.given THEN 'enum'
                             WHEN (v.least IS NOT NULL OR v.most IS NOT NULL) AND NOT v.is_number THEN 'number'
                             WHEN v.least IS NOT NULL AND v.said::numeric < v.least OR v.most IS NOT NULL
                  AND v.said::numeric > v.most THEN 'range' END AS code
              FROM (SELECT u.n, p.*, u.data -> p.field AS given, u.data ->> p.field AS said,
                           CASE WHEN p.type = 'number' OR p.least IS NOT NULL OR p.most IS NOT NULL
                                THEN u.data ->> p.field ~ E'^\\s*[-+]?(\\d+\\.?\\d*|\\.\\d+)([eE][-+]?\\d{1,4})?\\s*$'
                      AND length(u.data ->> p.field) <= 1000 END AS is_number
                      FROM (SELECT e.key AS field, e.value ->> 'type' AS type,
                          (e.value ->> 'minLength')::integer AS shortest, (e.value ->> 'maxLength')::integer AS longest,
                                   e.value ->> 'pattern' AS pattern, e.value -> 'enum' AS list,
                                   (e.value ->> 'minimum')::numeric AS least, (e.value ->> 'maximum')::numeric AS most
                              FROM jsonb_each(coalesce(schema -> 'properties', '{}')) e OFFSET 0) p
                     CROSS JOIN unnest(numbers, datas) u(n, data)
                     WHERE coalesce(u.data ->> p.field, '') <> '') v) x
     WHERE x.code IS NOT NULL
$function$;
COMMENT ON FUNCTION pawl_bulk._schema_errors(jsonb, bigint[], jsonb[]) IS
'internal: violations of a schema: required, type, minLength, maxLength, pattern, enum, minimum, maximum';

CREATE FUNCTION pawl_bulk._metadata_errors(d pawl_bulk.definitions, metadata jsonb, patient boolean) RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    errors text[];
    more text[];
    validator text;
    called regprocedure;
BEGIN
    BEGIN
        errors := ARRAY(SELECT e.message
            FROM pawl_bulk._schema_errors(d.metadata_schema, ARRAY[1::bigint], ARRAY[metadata]) e);
    EXCEPTION WHEN data_exception THEN
        errors := ARRAY[SQLERRM];
    END;
    FOREACH validator IN ARRAY d.metadata_validators LOOP
        called := pawl_bulk._function(validator, '(jsonb)');
        IF called IS NULL THEN
            errors := errors || format('there is no validator %s(jsonb)', validator);
            CONTINUE;
        END IF;
        BEGIN
            more := pawl.call_as_definer(d.created_by, called,
                format('SELECT coalesce(array_agg(coalesce(x.message, x.code)::text), ''{}'') FROM %s($1) x',
                    called::oid::regproc), NULL::text[], metadata);
            errors := errors || more;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl_bulk._ends_duty(SQLSTATE) OR patient AND pawl.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            errors := errors || SQLERRM;
        END;
    END LOOP;
    RETURN errors;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._metadata_errors(pawl_bulk.definitions, jsonb, boolean) IS
'internal: everything that is wrong with the metadata of an operation';

-- The input is laid out in blocks, so that several sessions validate. By row numbers and not by rows: nothing but the
-- first and the last row of each is read.
CREATE FUNCTION pawl_bulk._lay_unvalidated(operation uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
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

-- Looked at and not believed: workers may call it.
CREATE FUNCTION pawl_bulk._end_unvalidated(operation uuid, first_row bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
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

-- The rows of a block, read. Malformed ones have no data and a problem.
CREATE FUNCTION pawl_bulk._read_rows(o pawl_bulk.operations, first_row bigint, last_row bigint, OUT numbers bigint[],
    OUT datas jsonb[], OUT problems text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $function$
#variable_conflict use_variable
DECLARE
    delimiter text := coalesce(o.dialect ->> 'delimiter', ',');
    quote text := coalesce(o.dialect ->> 'quote', '"');
    readable boolean := true;
BEGIN
    FOR attempt IN 1 .. 2 LOOP
        BEGIN
            -- one malformed JSON text stops the batch; then each is tried alone
            SELECT array_agg(x.row_number), array_agg(x.data), array_agg(coalesce(x.problem,
                CASE WHEN x.data IS NULL AND x.raw IS NULL THEN 'the row is empty' WHEN x.data IS NULL
                    OR jsonb_typeof(x.data) <> 'object' THEN
                       CASE o.format WHEN 'csv' THEN pawl_bulk.csv_problem(x.raw, o.columns, delimiter, quote)
                           ELSE 'the row is not a JSON object' END END))
              INTO numbers, datas, problems
              FROM (SELECT i.row_number, i.raw, i.problem,
                           CASE WHEN i.problem IS NOT NULL THEN NULL WHEN i.data IS NOT NULL THEN i.data
                                WHEN o.format = 'csv' THEN pawl_bulk.csv_row(i.raw, o.columns, delimiter, quote)
                                WHEN readable THEN i.raw::jsonb ELSE pawl_bulk._json(i.raw) END AS data
                      FROM pawl_bulk.input i
                      WHERE i.operation = o.operation AND i.row_number BETWEEN first_row AND last_row
                     ORDER BY i.row_number) x;
            EXIT;
        EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
            readable := false;
        END;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._read_rows(pawl_bulk.operations, bigint, bigint) IS
'internal: the rows of a block that is validated';

-- All errors of the rows, in the order of the validators.
CREATE FUNCTION pawl_bulk._row_errors(d pawl_bulk.definitions, o pawl_bulk.operations, numbers bigint[], datas jsonb[])
    RETURNS jsonb[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    errors jsonb[] := '{}';
    validator text;
BEGIN
    IF numbers IS NULL THEN
        RETURN errors;
    END IF;
    FOREACH validator IN ARRAY d.row_validators LOOP
        errors := errors || pawl_bulk._call_for_rows(validator, d.created_by, o.operation, o.metadata, numbers,
            datas);
    END LOOP;
    IF d.row_schema <> '{}' THEN
        errors := errors || ARRAY(SELECT jsonb_build_object('row_number', e.row_number, 'code', e.code, 'message',
            e.message, 'field', e.field)
                                    FROM pawl_bulk._schema_errors(d.row_schema, numbers, datas) e);
    END IF;
    RETURN errors;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._row_errors(pawl_bulk.definitions, pawl_bulk.operations, bigint[], jsonb[]) IS
'internal: what the validators say of rows: {row_number, code, message}';

-- Rows first_row to last_row get their validation records. Where that raises an error they are halved until it belongs
-- to one of them: that one fails with it. patient: an error that may be gone the next time is raised.
CREATE FUNCTION pawl_bulk._validate_rows(d pawl_bulk.definitions, o pawl_bulk.operations, first_row bigint,
        last_row bigint, patient boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
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

-- The operation has lost sessions, or run out of time, more often than it may.
CREATE FUNCTION pawl_bulk._fail_next_row(operation uuid, first_row bigint, error jsonb) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
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
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(pawl_bulk._lock_key(candidate)) THEN
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
            -- pawl_bulk.advance sees to it from now on
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
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    d pawl_bulk.definitions;
BEGIN
    UPDATE pawl_bulk.operations AS x SET status = 'Validating' WHERE x.operation = validate_now.operation;
    PERFORM pawl_bulk._lay_unvalidated(operation);
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = validate_now.operation;
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
errors of rows are in pawl_bulk.errors. operation: Pending or Validating. Errors: what validators raise; PW001 '
'another state.
Privileges: pawl_worker and above. Example: SELECT pawl_bulk.validate_now(''01a2080d-be00-78c8-af29-543bc31dc522'')';
