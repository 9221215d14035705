-- Results: a COPY command to be run, so that any number of rows is streamed from one snapshot.

-- Makes a text of what a spreadsheet would take for a formula.
CREATE FUNCTION pawl_bulk.csv_cell(value text, neutralise boolean DEFAULT true) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN CASE WHEN neutralise
    AND pg_catalog.left(value, 1) OPERATOR(pg_catalog.=) ANY (ARRAY['=', '+', '-', '@', E'\t', E'\r'])
            THEN '''' OPERATOR(pg_catalog.||) value ELSE value END;
COMMENT ON FUNCTION pawl_bulk.csv_cell(text, boolean) IS
'Returns a cell of an exported CSV. value: its text. neutralise: true (default): a value that begins with = + - @, a
tab or a return gets an apostrophe in front.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT
pawl_bulk.csv_cell(''=1+1'')';

-- One line a row: its validation failure, or its highest step.
CREATE VIEW pawl_bulk.latest_records AS
SELECT v.operation, v.row_number, v.row_id, coalesce(r.state, v.state) AS state,
coalesce(s.step_name, 'validation') AS step_name, coalesce(r.step_index, -1) AS step_index,
       CASE WHEN v.errors IS NOT NULL THEN 'Validation' ELSE r.error_type END AS error_type,
       CASE WHEN v.errors IS NOT NULL THEN (SELECT pg_catalog.string_agg(coalesce(e ->> 'message', e ->> 'code'), '; ')
           FROM pg_catalog.jsonb_array_elements(v.errors) e)
            ELSE r.error_message END AS error_message,
       coalesce(r.retry_attempt, 0) AS retry_attempt, coalesce(r.created_at, v.created_at) AS created_at,
       CASE WHEN r.operation IS NULL THEN v.created_at ELSE r.completed_at END AS completed_at, v.errors, v.raw
  FROM pawl_bulk.validations v
  JOIN pawl_bulk.operations o ON o.operation = v.operation
  LEFT JOIN LATERAL (SELECT x.* FROM pawl_bulk.records x WHERE x.operation = v.operation AND x.row_number = v.row_number
      ORDER BY x.step_index DESC LIMIT 1) r ON true
  LEFT JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = r.step_index;
COMMENT ON VIEW pawl_bulk.latest_records IS
'where each row stands: one line a row, its validation where that failed, else its highest step';

CREATE FUNCTION pawl_bulk._data_fields(o pawl_bulk.operations) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(o.columns,
        ARRAY(SELECT k FROM (SELECT pawl_bulk.row_data(i.operation, i.row_number) AS data FROM pawl_bulk.input i
            WHERE i.operation = o.operation AND i.row_number > 0 ORDER BY i.row_number LIMIT 1000) x,
            LATERAL jsonb_object_keys(CASE jsonb_typeof(x.data) WHEN 'object' THEN x.data ELSE '{}' END) k GROUP BY k
            ORDER BY k))
$function$;
COMMENT ON FUNCTION pawl_bulk._data_fields(pawl_bulk.operations) IS
'internal: the fields of the rows: the columns of the CSV, or what the first thousand rows have';

-- The fields of a malformed row, as far as they can be told apart: nothing of it is lost.
CREATE FUNCTION pawl_bulk._cells(raw text, fields text[], delimiter text, quote text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    n constant integer := cardinality(fields);
    cells text[] := ARRAY[raw];
BEGIN
    IF raw IS NULL OR n = 0 THEN
        RETURN NULL;
    END IF;
    IF quote IS NOT NULL AND pawl_bulk.csv_problem(raw, '{}', delimiter, quote) ~ '^[0-9]+ fields' THEN
        cells := pawl_bulk.csv_fields(raw, delimiter, quote);
    END IF;
    IF cardinality(cells) > n THEN
        cells := cells[:n - 1] || array_to_string(cells[n:], delimiter);
    END IF;
    RETURN (SELECT jsonb_object_agg(f.name, cells[f.k]) FROM unnest(fields) WITH ORDINALITY f(name, k));
END
$function$;
COMMENT ON FUNCTION pawl_bulk._cells(text, text[], text, text) IS
'internal: the text of a malformed row by field: its cells in order, or all of it in the first';

CREATE FUNCTION pawl_bulk._other_name(name text, taken text[], fields text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    other text := name;
BEGIN
    WHILE other = ANY (taken) OR other <> name AND other = ANY (fields) LOOP
        other := 'Data' || other;
    END LOOP;
    RETURN other;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._other_name(text, text[], text[]) IS
'internal: what a field is called beside the columns of the report';

-- The data of an exported row, as a join. It is read once for each row: without OFFSET 0 the planner would repeat it
-- for every field.
CREATE FUNCTION pawl_bulk._export_data(o pawl_bulk.operations, format text, fields text[]) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN pg_catalog.format(' LEFT JOIN LATERAL (SELECT coalesce(CASE WHEN i.problem IS NOT NULL THEN NULL '
        'WHEN jsonb_typeof(i.data) = ''object'' THEN i.data ELSE %s END%s) AS data'
            || ' FROM pawl_bulk.input i WHERE i.operation = %L AND i.row_number = l.row_number OFFSET 0) d ON true',
        CASE o.format WHEN 'csv' THEN pg_catalog.format('pawl_bulk.csv_row(i.raw, %L::text[], %L, %L)', o.columns,
            coalesce(o.dialect ->> 'delimiter', ','), coalesce(o.dialect ->> 'quote', '"'))
                      ELSE 'pawl_bulk._json(i.raw)' END,
        CASE format WHEN 'csv' THEN pg_catalog.format(', pawl_bulk._cells(coalesce(i.raw, i.data::text), '
        '%L::text[], %L, %L)', fields, coalesce(o.dialect ->> 'delimiter', ','),
            CASE o.format WHEN 'csv' THEN coalesce(o.dialect ->> 'quote', '"') END) ELSE '' END,
        o.operation);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._export_data(pawl_bulk.operations, text, text[]) IS
'internal: the join that reads the data of exported rows';

CREATE FUNCTION pawl_bulk._export_json(o pawl_bulk.operations, mode text, filter text, own_data text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    query text;
BEGIN
    query := CASE mode
        WHEN 'data' THEN 'coalesce(d.data, pg_catalog.to_jsonb(l.raw))'
        ELSE 'pg_catalog.jsonb_build_object(''rowNumber'', l.row_number, ''rowId'', l.row_id, ''state'', l.state, '
            '''stepName'', l.step_name, ''stepIndex'', l.step_index,'
          || ' ''errorType'', l.error_type, ''errorMessage'', l.error_message, ''errors'', l.errors, '
              '''retryAttempt'', l.retry_attempt, ''createdAt'', l.created_at,'
          || ' ''completedAt'', l.completed_at, ''data'', '
          || CASE WHEN o.track_row_data THEN 'd.data' ELSE 'NULL' END || ', ''raw'', l.raw)' END;
    -- an array with a row a line; no line of it has a byte 1 or 2, so COPY changes nothing
    RETURN format(
        $command$COPY (SELECT CASE WHEN n = 1 THEN '[' ELSE ',' END || line
                FROM (SELECT row_number() OVER () AS n, line FROM (SELECT (%s)::text AS line
                    FROM pawl_bulk.latest_records l%s WHERE %s ORDER BY l.row_number) y) x
                UNION ALL SELECT CASE WHEN EXISTS (SELECT FROM pawl_bulk.latest_records l WHERE %s) THEN ']'
                    ELSE '[]' END)
            TO STDOUT (FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02')$command$,
        query, own_data, filter, filter);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._export_json(pawl_bulk.operations, text, text, text) IS
'internal: the COPY command of an export as JSON';

CREATE FUNCTION pawl_bulk.export_command(operation uuid, mode text DEFAULT 'report', format text DEFAULT 'csv',
    states text[] DEFAULT NULL, error_types text[] DEFAULT NULL,
    steps text[] DEFAULT NULL, rows bigint[] DEFAULT NULL, neutralise boolean DEFAULT true) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    filter text;
    fields text[] := '{}';
    query text;
    own_data text := '';
    headers text[];
    cells text[];
    own constant text[] :=
        '{RowNumber,RowId,State,StepName,StepIndex,ErrorType,ErrorMessage,RetryAttempt,CreatedAt,CompletedAt}';
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = export_command.operation;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no operation %s', operation));
    ELSIF mode NOT IN ('report', 'data') OR format NOT IN ('csv', 'json') THEN
        PERFORM pawl.raise('22023', 'mode is report or data, format csv or json');
    ELSIF mode = 'data' AND NOT o.track_row_data THEN
        PERFORM pawl.raise('55000', 'the data of the rows was not kept',
            pg_catalog.format('Definition "%s" does not track row data.', o.definition));
    END IF;
    IF o.track_row_data THEN
        fields := pawl_bulk._data_fields(o);
        IF fields = '{}' AND mode = 'data' THEN
            fields := '{row}';
        END IF;
        own_data := pawl_bulk._export_data(o, format, fields);
    END IF;
    filter := pg_catalog.format('l.operation = %L', operation)
        || coalesce(' AND l.state = ANY (' || quote_literal(states) || ')', '')
        || coalesce(' AND l.error_type = ANY (' || quote_literal(error_types) || ')', '')
        || coalesce(' AND l.step_name = ANY (' || quote_literal(steps) || ')', '')
        || coalesce(' AND l.row_number = ANY (' || quote_literal(rows) || ')', '');
    IF format = 'json' THEN
        RETURN pawl_bulk._export_json(o, mode, filter, own_data);
    END IF;
    IF cardinality(fields) + (CASE mode WHEN 'report' THEN cardinality(own) ELSE 0 END) > 1600 THEN
        PERFORM pawl.raise('54011', pg_catalog.format('operation %s has %s fields', operation, cardinality(fields)),
            'A CSV has at most 1600 columns.', 'format => ''json''');
    END IF;
    -- the header is a row: names of columns are cut at 63 bytes, and two may become one
    SELECT array_agg(quote_literal(h.name) ORDER BY h.n), array_agg(h.cell ORDER BY h.n) INTO headers, cells
      FROM (SELECT x.n, x.name, x.cell
          FROM (VALUES (1, 'RowNumber', 'l.row_number::text'), (2, 'RowId', 'pawl_bulk.csv_cell(l.row_id, %1$L)'),
              (3, 'State', 'l.state'), (4, 'StepName', 'pawl_bulk.csv_cell(l.step_name, %1$L)'),
                    (5, 'StepIndex', 'l.step_index::text'), (6, 'ErrorType', 'l.error_type'),
                    (7, 'ErrorMessage', 'pawl_bulk.csv_cell(l.error_message, %1$L)'),
                    (8, 'RetryAttempt', 'l.retry_attempt::text'),
                    (9, 'CreatedAt', 'l.created_at::text'), (10, 'CompletedAt', 'l.completed_at::text')) x(n, name,
                    cell) WHERE mode = 'report'
            UNION ALL
            SELECT 10 + u.n, CASE mode WHEN 'report' THEN pawl_bulk._other_name(f, own, fields) ELSE f END, CASE mode
                WHEN 'report' THEN pg_catalog.format('pawl_bulk.csv_cell(d.data ->> %L, %%1$L)', replace(f, '%', '%%'))
                ELSE pg_catalog.format('d.data ->> %L', f) END
              FROM unnest(fields) WITH ORDINALITY u(f, n)) h;
    query := array_to_string(cells, ', ');
    IF mode = 'report' THEN
        query := pg_catalog.format(query, neutralise);
    END IF;
    RETURN pg_catalog.format('COPY (SELECT %s UNION ALL (SELECT %s FROM pawl_bulk.latest_records l%s WHERE %s ORDER '
        'BY l.row_number)) TO STDOUT (FORMAT csv)',
        array_to_string(headers, ', '), query, CASE WHEN fields <> '{}' THEN own_data ELSE '' END, filter);
END
$function$;
COMMENT ON FUNCTION pawl_bulk.export_command(uuid, text, text, text[], text[], text[], bigint[], boolean) IS
'Returns the COPY ... TO STDOUT that exports an operation, one line for each row; the client runs it (psql: the '
'command gexec).
operation: its id. mode: report (default): outcomes, and data if they are kept; data: the data only. format: csv
(default) or json (an array). states, error_types, steps, rows: only these; default null: all; combined by AND.
neutralise: as in pawl_bulk.csv_cell, for reports as CSV; default true.
Errors: P0002 no such operation; 22023 unknown mode or format; 55000 the data were not kept; 54011 more than 1600
columns. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.export_command(''01890000-0000-7000-8000-000000000001'', states => ''{Failed}'')';

-- The feed: events of all operations in commit order.
CREATE FUNCTION pawl_bulk.read_feed(consumer text, batch integer DEFAULT 100) RETURNS SETOF pawl_bulk.events
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    PERFORM pawl.check_batch(batch, 500);
    RETURN QUERY SELECT e.* FROM pawl.read_events(consumer, batch) WITH ORDINALITY x
                   JOIN pawl_bulk.events e ON e.operation = x.key[1]::uuid AND e.event = x.key[2]::uuid
                   ORDER BY x.ordinality;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.read_feed(text, integer) IS
'Returns the next events of operations for a consumer, as rows of pawl_bulk.events in the order of commits; the
position is part of the transaction.
consumer: its name, from pawl.create_consumer(''name'', relations => array[''pawl_bulk.events'']::regclass[]).
batch: 1 to 500; default 100.
Errors: 22023 batch out of range; PW008 unknown consumer; 42501 another role owns it. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader.
Example: SELECT * FROM pawl_bulk.read_feed(''dashboard'')';
