-- What is wrong with the metadata of an operation and with its rows: the schema's rules and the validators.

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
                             WHEN v.list IS NOT NULL AND v.said IS NOT NULL AND NOT EXISTS (SELECT
                                      FROM jsonb_array_elements(v.list) e(listed)
                                     WHERE e.listed = to_jsonb(v.said) OR e.listed = v.given) THEN 'enum'
                             WHEN (v.least IS NOT NULL OR v.most IS NOT NULL) AND NOT v.is_number THEN 'number'
                             WHEN v.least IS NOT NULL AND v.said::numeric < v.least OR v.most IS NOT NULL
                  AND v.said::numeric > v.most THEN 'range' END AS code
              FROM (SELECT u.n, p.*, u.data -> p.field AS given, u.data ->> p.field AS said,
                           CASE WHEN p.type = 'number' OR p.least IS NOT NULL OR p.most IS NOT NULL
                                THEN u.data ->> p.field ~ E'^\\s*[-+]?(\\d+\\.?\\d*|\\.\\d+)([eE][-+]?\\d{1,4})?\\s*$'
                      AND length(u.data ->> p.field) <= 1000 END AS is_number
                      FROM (SELECT e.key AS field, e.value ->> 'type' AS type,
                          (e.value ->> 'minLength')::integer AS shortest, (e.value ->> 'maxLength')::integer AS longest,
                                   e.value ->> 'pattern' AS pattern,
                                   CASE WHEN jsonb_typeof(e.value -> 'enum') <> 'array'
                                       THEN jsonb_build_array(e.value -> 'enum') ELSE e.value -> 'enum' END AS list,
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

-- The rows of a block, read. Malformed ones have no data and a problem.
CREATE FUNCTION pawl_bulk._read_rows(o pawl_bulk.operations, first_row bigint, last_row bigint, OUT numbers bigint[],
    OUT datas jsonb[], OUT problems text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
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
