-- Validation of an operation before it is submitted.

CREATE FUNCTION pawl_bulk.precheck(definition text, metadata jsonb DEFAULT '{}', rows jsonb DEFAULT NULL,
    lines text[] DEFAULT NULL, format text DEFAULT 'csv',
    columns text[] DEFAULT NULL, dialect jsonb DEFAULT '{}', version integer DEFAULT NULL,
    OUT valid boolean, OUT metadata_errors text[], OUT row_errors jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    d pawl_bulk.definitions;
    o pawl_bulk.operations;
    delimiter text := coalesce(dialect ->> 'delimiter', ',');
    quote text := coalesce(dialect ->> 'quote', '"');
    header boolean := format = 'csv' AND coalesce((dialect ->> 'header')::boolean, columns IS NULL);
    given record;
    fine record;
    errors jsonb[];
BEGIN
    SELECT x.* INTO d FROM pawl_bulk.definitions x
     WHERE x.name = definition AND x.dropped_at IS NULL AND (precheck.version IS NULL OR x.version = precheck.version)
     ORDER BY x.version DESC LIMIT 1;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no definition "%s"', definition), NULL,
            pawl_bulk._known_definitions());
    ELSIF jsonb_typeof(rows) <> 'array' THEN
        PERFORM pawl.raise('22023', 'rows must be a JSON array');
    END IF;
    IF getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') AND lines[1] ^@ convert_from(E'\\xefbbbf', 'UTF8') THEN
        lines[1] := substr(lines[1], length(convert_from(E'\\xefbbbf', 'UTF8')) + 1);
    END IF;
    IF format = 'csv' AND columns IS NULL AND lines IS NOT NULL THEN
        columns := ARRAY(SELECT coalesce(dialect -> 'map' ->> f, f)
            FROM unnest(pawl_bulk.csv_fields(lines[1], delimiter, quote)) WITH ORDINALITY h(f, n) ORDER BY n);
    END IF;
    metadata_errors := pawl_bulk._metadata_errors(d, coalesce(metadata, '{}'), true);
    SELECT array_agg(x.n) AS numbers, array_agg(x.data) AS datas,
           array_agg(CASE WHEN jsonb_typeof(x.data) = 'object' THEN NULL WHEN x.line IS NULL
               OR format <> 'csv' THEN 'the row is not a JSON object'
                          ELSE pawl_bulk.csv_problem(x.line, columns, delimiter, quote) END) AS problems INTO given
      FROM (SELECT e.n, e.x AS data, NULL AS line FROM jsonb_array_elements(rows) WITH ORDINALITY e(x, n)
            UNION ALL
            SELECT l.n - header::integer, CASE format WHEN 'csv'
                THEN pawl_bulk.csv_row(l.line, columns, delimiter, quote) ELSE pawl_bulk._json(l.line) END, l.line
              FROM unnest(lines) WITH ORDINALITY l(line, n) WHERE l.n > header::integer) x;
    SELECT array_agg(u.n) AS numbers, array_agg(u.data) AS datas INTO fine
        FROM unnest(given.numbers, given.datas, given.problems) u(n, data, problem) WHERE u.problem IS NULL;
    o.operation := pawl.uuid_v7();
    o.metadata := coalesce(metadata, '{}');
    errors := pawl_bulk._row_errors(d, o, fine.numbers, fine.datas)
        || ARRAY(SELECT jsonb_build_object('row_number', u.n, 'code', 'malformed', 'message', u.problem)
            FROM unnest(given.numbers, given.problems) u(n, problem) WHERE u.problem IS NOT NULL);
    row_errors := coalesce((SELECT jsonb_agg(e - 'answer' ORDER BY (e ->> 'row_number')::bigint, k)
            FROM unnest(errors) WITH ORDINALITY x(e, k)), '[]');
    -- one row that could be processed is enough
    valid := metadata_errors = '{}'
        AND EXISTS (SELECT unnest(fine.numbers) EXCEPT SELECT (e ->> 'row_number')::bigint FROM unnest(errors) e);
END
$function$;
COMMENT ON FUNCTION pawl_bulk.precheck(text, jsonb, jsonb, text[], text, text[], jsonb, integer) IS
'Validates metadata and rows without creating an operation.
definition: its name. metadata: a JSON object; default {}. rows: a JSON array; default null. lines: of a file,
instead of rows; default null. format: of lines, csv (default) or ndjson. columns: of a CSV without header; default
null. dialect: {"delimiter", "quote", "header", "map"}; default {}. version: default null: the newest.
Returns valid (the metadata and at least one row are), metadata_errors and row_errors ([{"row_number", "code",
"message", "field"}]).
Errors: P0002 no such definition; 22023 rows is not an array, or the header is missing; 22P04 a malformed header.
Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT * FROM pawl_bulk.precheck(''import'', rows => ''[{"id": 1}]'')';
