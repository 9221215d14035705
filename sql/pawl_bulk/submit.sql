-- Submits operations and loads their rows.

CREATE FUNCTION pawl_bulk._check_notifications(notifications jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    target jsonb;
    known constant jsonb := '["completion", "completion_with_errors", "failure", "cancelled", "status_change"]';
BEGIN
    FOR target IN SELECT t FROM jsonb_array_elements(CASE jsonb_typeof(notifications) WHEN 'array' THEN notifications
        ELSE jsonb_build_array(notifications) END) t LOOP
        IF jsonb_typeof(target) <> 'object' THEN
            PERFORM pawl.raise('22023', 'a target of notifications must be a JSON object', NULL,
                '[{"channel": "sql", "target": "public.told", "triggers": ["failure"]}]');
        END IF;
        PERFORM pawl_bulk._known_fields(target, '{channel,target,triggers}', 'a target of notifications');
        IF coalesce(target ->> 'channel', '') = '' OR coalesce(target ->> 'target', '') = '' THEN
            PERFORM pawl.raise('22023', 'a target of notifications must have channel and target', NULL,
                '[{"channel": "sql", "target": "public.told", "triggers": ["failure"]}]');
        ELSIF octet_length(target ->> 'channel') > 200 THEN
            PERFORM pawl.raise('22023', 'a channel of notifications must have at most 200 bytes',
                format('It has %s bytes.', octet_length(target ->> 'channel')));
        ELSIF target ? 'triggers'
            AND (jsonb_typeof(target -> 'triggers') <> 'array' OR NOT target -> 'triggers' <@ known) THEN
            PERFORM pawl.raise('22023', 'triggers of notifications must be an array of '
                || (SELECT string_agg(k, ', ') FROM jsonb_array_elements_text(known) k));
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._check_notifications(jsonb) IS
'internal: rejects invalid targets of notifications; 22023';

CREATE FUNCTION pawl_bulk._seal_rows(operation uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    bytes bigint;
    lines bigint;
    allowed bigint;
    o pawl_bulk.operations;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x
        WHERE x.operation = _seal_rows.operation AND x.status = 'Pending' AND NOT x.sealed FOR NO KEY UPDATE;
    SELECT coalesce(sum(octet_length(i.data::text)), 0), count(i.raw) INTO bytes, lines FROM pawl_bulk.input i
        WHERE i.operation = _seal_rows.operation;
    SELECT d.max_input_bytes INTO allowed FROM pawl_bulk.definitions d
        WHERE d.name = o.definition AND d.version = o.version;
    IF o.operation IS NULL OR lines > 0 THEN
        PERFORM pawl.raise('55000', format('the input of operation %s cannot be sealed in this way', operation), NULL,
            format('select pawl_bulk.seal(%L)', operation));
    ELSIF allowed > 0 AND bytes > allowed THEN
        PERFORM pawl.raise('54000', format('the input has %s bytes', bytes),
            format('Definition "%s" allows %s.', o.definition, allowed));
    END IF;
    UPDATE pawl_bulk.operations x SET sealed = true, input_bytes = bytes WHERE x.operation = _seal_rows.operation;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._seal_rows(uuid) IS
'internal: the input of an operation whose rows came as JSON is complete; 54000: it is too large';

CREATE FUNCTION pawl_bulk.submit(definition text, metadata jsonb DEFAULT '{}', rows jsonb DEFAULT NULL,
    format text DEFAULT 'ndjson',
    columns text[] DEFAULT NULL, dialect jsonb DEFAULT '{}', idempotency_key text DEFAULT NULL,
    checksum text DEFAULT NULL, file_name text DEFAULT NULL,
    source text DEFAULT NULL, created_by text DEFAULT NULL, priority integer DEFAULT 0, version integer DEFAULT NULL,
    notifications jsonb DEFAULT NULL, OUT operation uuid, OUT created boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    d pawl_bulk.definitions;
BEGIN
    SELECT x.* INTO d FROM pawl_bulk.definitions x
     WHERE x.name = submit.definition AND x.dropped_at IS NULL
         AND (submit.version IS NULL OR x.version = submit.version) ORDER BY x.version DESC LIMIT 1;
    IF NOT FOUND THEN
        PERFORM pawl.require_here('bulk', submit.definition);
        PERFORM pawl.raise('P0002', format('there is no definition "%s"', submit.definition), NULL,
            pawl_bulk._known_definitions());
    ELSIF format IS NULL THEN
        PERFORM pawl.raise('22004', 'format must not be null', NULL, 'format => ''ndjson'', ''csv'' or ''json''');
    ELSIF rows IS NOT NULL AND jsonb_typeof(rows) <> 'array' THEN
        PERFORM pawl.raise('22023', 'rows must be a JSON array', format('It is of type %s.', jsonb_typeof(rows)),
            'rows => ''[{"field": "value"}]''');
    END IF;
    INSERT INTO pawl_bulk.operations AS o (definition, version, metadata, format, columns, dialect, idempotency_key,
        checksum, file_name, source, created_by, priority,
                                           notifications)
    SELECT d.name, d.version, coalesce(submit.metadata, '{}'), submit.format, submit.columns,
    coalesce(submit.dialect, '{}'), submit.idempotency_key, submit.checksum,
           submit.file_name, submit.source, coalesce(submit.created_by, session_user), coalesce(submit.priority, 0),
           submit.notifications
    ON CONFLICT ON CONSTRAINT operations_definition_idempotency_key_key DO NOTHING
    RETURNING o.operation INTO submit.operation;
    created := FOUND;
    IF NOT created THEN
        SELECT o.operation INTO submit.operation FROM pawl_bulk.operations o
            WHERE o.definition = d.name AND o.idempotency_key = submit.idempotency_key;
        RETURN;
    END IF;
    INSERT INTO pawl_bulk.input (operation, row_number, data, problem)
    SELECT submit.operation, e.n, e.x, CASE WHEN jsonb_typeof(e.x) <> 'object' THEN 'the row is not a JSON object' END
      FROM jsonb_array_elements(coalesce(rows, '[]')) WITH ORDINALITY e(x, n);
    IF rows IS NOT NULL THEN
        PERFORM pawl_bulk._seal_rows(submit.operation);
    END IF;
    PERFORM set_config('pawl_bulk.operation', submit.operation::text, true);
END
$function$;
COMMENT ON FUNCTION pawl_bulk.submit(text, jsonb, jsonb, text, text[], jsonb, text, text, text, text, text, integer,
    integer, jsonb) IS
'Creates an operation: with its rows, or without them, to copy lines into pawl_bulk.input (raw) in the same
transaction and then call pawl_bulk.seal.
definition: its name. metadata: a JSON object; default {}. rows: a JSON array of objects; default null. format: of
copied lines, csv, ndjson (default) or json. columns: of a CSV without header; default null. dialect: {"delimiter",
"quote", "header", "map"}; default {}. idempotency_key: 1 to 1000 bytes; default null. checksum, file_name, source,
created_by: texts for the operation; default null. priority: higher is claimed first; default 0. version: default
null: the newest. notifications: [{"channel", "target", "triggers"}]; default null.
Returns operation (its id) and created (false: an operation with this idempotency_key exists, and operation is its
id).
Errors: P0002 no such definition; 22023 an invalid argument, dialect or notification; 22004 format is null. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; needs INSERT on pawl_bulk.operations.
Example: SELECT * FROM pawl_bulk.submit(''import'', rows => ''[{"id": 1}, {"id": 2}]'')';

CREATE FUNCTION pawl_bulk._is_blank(raw text, data jsonb, problem text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN data IS NULL AND problem IS NULL AND (COALESCE(raw, '') OPERATOR(pg_catalog.=) ''
    OR raw OPERATOR(pg_catalog.^@) E'\r' AND pg_catalog.rtrim(raw, E'\r') OPERATOR(pg_catalog.=) '');
COMMENT ON FUNCTION pawl_bulk._is_blank(text, jsonb, text) IS 'internal: a line of input that is no row';

-- All in one pass, because it takes a tenth of the time in which a file is loaded and validated.
CREATE FUNCTION pawl_bulk._count_lines(operation uuid, delimiter text, quote text, OUT lines bigint, OUT rows bigint,
    OUT bytes bigint, OUT blank bigint, OUT first_open bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    SELECT count(*), count(*) FILTER (WHERE i.row_number > 0),
        sum(coalesce(octet_length(i.raw) + 1, pg_column_size(i.data))),
        count(*) FILTER (WHERE pawl_bulk._is_blank(i.raw, i.data, i.problem)),
        min(i.row_number) FILTER (WHERE quote <> '' AND i.problem IS NULL AND strpos(i.raw, left(quote, 1)) > 0
            AND pawl_bulk._csv_open(i.raw, false, delimiter, quote))
      INTO lines, rows, bytes, blank, first_open FROM pawl_bulk.input i WHERE i.operation = _count_lines.operation;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._count_lines(uuid, text, text) IS
'internal: the lines of an operation''s input, how many are rows or blank, their bytes, and the first one in which a '
'quote is not closed (quote: empty means that none is looked for)';

-- Makes rows of lines that COPY has loaded. A CSV record over several lines is joined as in the client library: the end
-- of its quote is searched for in 1 MiB, and in half of that after each line whose quote is not closed; such a line is
-- a malformed row. Blank lines are no rows. A row keeps the number of its first line. Rows that the client library
-- loaded are whole already.
CREATE FUNCTION pawl_bulk._complete_lines(operation uuid, OUT lines bigint, OUT rows bigint, OUT bytes bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    r record;
    counted record;
    delimiter text;
    quote text;
    first_line bigint;
    begun bigint;
    parts text[];
    size bigint;
    patience bigint := 1048576;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x
        WHERE x.operation = _complete_lines.operation AND x.status = 'Pending' AND NOT x.sealed FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    delimiter := coalesce(o.dialect ->> 'delimiter', ',');
    quote := coalesce(o.dialect ->> 'quote', '"');
    SELECT i.row_number, i.raw INTO r FROM pawl_bulk.input i WHERE i.operation = _complete_lines.operation
        ORDER BY i.row_number LIMIT 1;
    -- a byte order mark; other encodings have none
    IF getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') AND r.raw ^@ convert_from(E'\\xefbbbf', 'UTF8') THEN
        UPDATE pawl_bulk.input i SET raw = substr(r.raw, length(convert_from(E'\\xefbbbf', 'UTF8')) + 1)
            WHERE i.operation = _complete_lines.operation AND i.row_number = r.row_number;
    END IF;
    IF o.format = 'json' AND ltrim(r.raw) ^@ '[' AND pawl_bulk._json(r.raw) IS NULL THEN
        PERFORM pawl.raise('22P04', 'a JSON array cannot be copied line by line', 'Its lines are not elements.',
            'select * from pawl_bulk.submit(..., rows => ...), or a file with an element a line, as ndjson');
    END IF;
    -- one look at all of them: most files have neither records that span lines nor blank lines
    counted := pawl_bulk._count_lines(operation, delimiter, CASE WHEN o.format = 'csv' THEN quote ELSE '' END);
    lines := counted.lines;
    first_line := counted.first_open;
    WHILE first_line IS NOT NULL LOOP
        begun := NULL;
        FOR r IN SELECT i.row_number, i.raw, i.data IS NOT NULL OR i.problem IS NOT NULL AS other FROM pawl_bulk.input i
                  WHERE i.operation = _complete_lines.operation AND i.row_number >= first_line
                  ORDER BY i.row_number LOOP
            IF begun IS NULL THEN
                IF NOT r.other AND pawl_bulk._csv_open(r.raw, false, delimiter, quote) THEN
                    begun := r.row_number;
                    parts := ARRAY[r.raw];
                    size := length(r.raw);
                END IF;
                CONTINUE;
            END IF;
            size := size + 1 + coalesce(length(r.raw), 0);
            EXIT WHEN r.other OR size > patience;
            parts := array_append(parts, coalesce(r.raw, ''));
            IF NOT pawl_bulk._csv_open(coalesce(r.raw, ''), true, delimiter, quote) THEN
                DELETE FROM pawl_bulk.input i WHERE i.operation = _complete_lines.operation AND i.row_number > begun
                    AND i.row_number <= r.row_number;
                UPDATE pawl_bulk.input i SET raw = array_to_string(parts, E'\n')
                    WHERE i.operation = _complete_lines.operation AND i.row_number = begun;
                begun := NULL;
            END IF;
        END LOOP;
        -- nothing closes it: reading goes on with the next line
        first_line := begun + 1;
        patience := greatest(patience / 2, 4096);
    END LOOP;
    IF counted.first_open IS NOT NULL OR counted.blank > 0 THEN
        DELETE FROM pawl_bulk.input i WHERE i.operation = _complete_lines.operation
            AND pawl_bulk._is_blank(i.raw, i.data, i.problem);
        counted := pawl_bulk._count_lines(operation, delimiter, '');
    END IF;
    rows := counted.rows;
    bytes := counted.bytes;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._complete_lines(uuid) IS
'internal: joins records that span lines, removes blank lines and a byte order mark; lines: how many came; rows and '
'bytes: of what is left; 22P04: it is a JSON array';

CREATE FUNCTION pawl_bulk.seal(operation uuid, input_error text DEFAULT NULL, checksum text DEFAULT NULL,
        lines bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    stored record;
    allowed bigint;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = seal.operation FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no operation %s', seal.operation));
    ELSIF o.sealed OR o.status <> 'Pending' THEN
        PERFORM pawl.raise('55000', format('the input of operation %s is complete', seal.operation));
    END IF;
    stored := pawl_bulk._complete_lines(operation);
    IF stored.lines <> lines THEN
        PERFORM pawl.raise('22P04', format('%s lines came of %s', stored.lines, lines),
            E'A line \\. ends a COPY, so the lines after it are lost.', 'send such a file with: pawl bulk submit');
    END IF;
    IF (o.format = 'csv' AND coalesce((o.dialect ->> 'header')::boolean, o.columns IS NULL)) IS NOT TRUE
        AND EXISTS (SELECT FROM pawl_bulk.input i WHERE i.operation = seal.operation AND i.row_number = 0) THEN
        PERFORM pawl.raise('22023', 'row 0 is for the header of a CSV file', 'This input has no header.');
    END IF;
    o.columns := coalesce(o.columns, pawl_bulk._read_header(o));
    SELECT d.max_input_bytes INTO allowed FROM pawl_bulk.definitions d
        WHERE d.name = o.definition AND d.version = o.version;
    IF allowed > 0 AND stored.bytes > allowed THEN
        PERFORM pawl.raise('54000', format('the input has %s bytes', stored.bytes),
            format('Definition "%s" allows %s.', o.definition, allowed));
    END IF;
    UPDATE pawl_bulk.operations x
        SET sealed = true, input_error = seal.input_error, columns = o.columns, input_bytes = stored.bytes,
           checksum = coalesce(seal.checksum, x.checksum)
     WHERE x.operation = seal.operation;
    RETURN stored.rows;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.seal(uuid, text, text, bigint) IS
'Completes the input of an operation and returns the number of rows. Records of CSV that span lines are joined;
blank lines are no rows.
operation: its id. input_error: why the input could not be read; default null. checksum: a text; default null.
lines: how many lines the file has, checked; default null.
Errors: P0002 no such operation; 55000 already complete; 22023 row 0 is no header, or the header is wrong; 54000 more
bytes than the definition allows; 22P04 lines are missing, or it is a JSON array. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT pawl_bulk.seal(''01890000-0000-7000-8000-000000000001'')';

-- The first line of a file names its columns; the dialect may give them other names.
CREATE FUNCTION pawl_bulk._read_header(o pawl_bulk.operations) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    line text;
    named text[];
    wrong text;
BEGIN
    IF o.format <> 'csv' THEN
        RETURN NULL;
    END IF;
    SELECT i.raw INTO line FROM pawl_bulk.input i WHERE i.operation = o.operation AND i.row_number = 0;
    IF line IS NULL THEN
        PERFORM pawl.raise('22023', 'the columns of the CSV are unknown',
            'It has no header, and no columns were given.');
    END IF;
    -- a byte order mark; other encodings have none
    IF getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') THEN
        line := ltrim(line, convert_from(E'\\xefbbbf', 'UTF8'));
    END IF;
    named := pawl_bulk.csv_fields(line, coalesce(o.dialect ->> 'delimiter', ','), coalesce(o.dialect ->> 'quote', '"'));
    SELECT m INTO wrong FROM jsonb_object_keys(coalesce(o.dialect -> 'map', '{}')) m WHERE m <> ALL (named) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('the header has no column "%s"', wrong),
            'Its columns are ' || array_to_string(named, ', ') || '.');
    END IF;
    named := ARRAY(SELECT coalesce(o.dialect -> 'map' ->> f, f) FROM unnest(named) WITH ORDINALITY h(f, n) ORDER BY n);
    SELECT f INTO wrong FROM unnest(named) f GROUP BY f HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('duplicate column "%s"', wrong), NULL,
            'dialect => ''{"map": {"column": "field"}}'', or columns => ''{...}''');
    END IF;
    RETURN named;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._read_header(pawl_bulk.operations) IS
'internal: the columns that a CSV names in its first line; 22023: none, two of one name, or one of the map is missing';

-- Rows can be loaded while the operation waits for them.
CREATE FUNCTION pawl_bulk._takes_rows(operation uuid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    SELECT EXISTS (SELECT FROM pawl_bulk.operations o
        WHERE o.operation = _takes_rows.operation AND o.status = 'Pending' AND NOT o.sealed)
$function$;
COMMENT ON FUNCTION pawl_bulk._takes_rows(uuid) IS 'internal: the input of an operation is open';

CREATE FUNCTION pawl_bulk._input_came() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.input');
BEGIN
    PERFORM pawl.raise('55000', format('operation %s accepts no rows', NEW.operation),
        'Its input is complete, or there is no such operation.');
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._input_came() IS 'internal: rejects rows for operations whose input is complete; 55000';
-- The condition keeps the rows of a COPY out of the queue of triggers.
CREATE TRIGGER came AFTER INSERT ON pawl_bulk.input FOR EACH ROW
    WHEN (NOT pawl_bulk.takes_rows(NEW.operation) AND NOT pawl.restoring()) EXECUTE FUNCTION pawl_bulk._input_came();
