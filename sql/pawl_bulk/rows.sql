-- Rows as JSON, in whatever format they were uploaded, and calls of users' functions for many of them.

CREATE FUNCTION pawl_bulk._json(raw text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
BEGIN
    RETURN raw::jsonb;
EXCEPTION WHEN data_exception OR syntax_error OR statement_too_complex OR program_limit_exceeded THEN
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._json(text) IS 'internal: a JSON text as jsonb; null if it is invalid';

CREATE FUNCTION pawl_bulk.row_data(operation uuid, row_number bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    SELECT coalesce(i.data,
        CASE o.format WHEN 'csv' THEN pawl_bulk.csv_row(i.raw, o.columns, coalesce(o.dialect ->> 'delimiter', ','),
            coalesce(o.dialect ->> 'quote', '"'))
                                          ELSE pawl_bulk._json(i.raw) END)
      FROM pawl_bulk.input i JOIN pawl_bulk.operations o ON o.operation = i.operation
     WHERE i.operation = row_data.operation AND i.row_number = row_data.row_number AND i.problem IS NULL
$function$;
COMMENT ON FUNCTION pawl_bulk.row_data(uuid, bigint) IS
'Returns a row of an operation as JSON; null if it was malformed or is no longer kept. operation: its id.
row_number: from 1.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.row_data(''01890000-0000-7000-8000-000000000001'', 1)';

-- The data of many rows in their order.
CREATE FUNCTION pawl_bulk._data_of(operation uuid, row_numbers bigint[], OUT numbers bigint[], OUT datas jsonb[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
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
    o pawl_bulk.operations;
    n constant integer := cardinality(row_numbers);
    delimiter text;
    quote text;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = _data_of.operation;
    delimiter := coalesce(o.dialect ->> 'delimiter', ',');
    quote := coalesce(o.dialect ->> 'quote', '"');
    -- neighbouring rows are read in order; if one of them is missing, each is looked up
    IF row_numbers[n] - row_numbers[1] < 2 * n THEN
        SELECT array_agg(x.row_number), array_agg(x.data) INTO numbers, datas
          FROM (SELECT i.row_number, CASE WHEN i.data IS NOT NULL THEN i.data
              WHEN o.format = 'csv' THEN pawl_bulk.csv_row(i.raw, o.columns, delimiter, quote)
                                          ELSE i.raw::jsonb END AS data
                  FROM pawl_bulk.input i
                 WHERE i.operation = o.operation AND i.row_number BETWEEN row_numbers[1] AND row_numbers[n]
                     AND (i.row_number IN (SELECT unnest(row_numbers))) IS TRUE
                 ORDER BY i.row_number) x;
        IF cardinality(numbers) = n THEN
            RETURN;
        END IF;
    END IF;
    SELECT array_agg(u.number ORDER BY u.number),
           array_agg(CASE WHEN i.data IS NOT NULL THEN i.data
               WHEN o.format = 'csv' THEN pawl_bulk.csv_row(i.raw, o.columns, delimiter, quote)
                          ELSE i.raw::jsonb END ORDER BY u.number)
      INTO numbers, datas
      FROM unnest(row_numbers) u(number)
      LEFT JOIN pawl_bulk.input i ON i.operation = o.operation AND i.row_number = u.number;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._data_of(uuid, bigint[]) IS 'internal: rows of an operation as JSON';

-- Calls a user's function for many rows. If it raises an error, the rows are halved until the error belongs to one of
-- them; what it did for the others is done again without that one.
CREATE FUNCTION pawl_bulk._call_for_rows(function_name text, definer name, operation uuid, metadata jsonb,
        numbers bigint[], datas jsonb[]) RETURNS jsonb[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    called regprocedure := pawl_bulk._function(function_name, '(uuid,jsonb,bigint[],jsonb[])');
    found_rows jsonb[];
    half integer := cardinality(numbers) / 2;
BEGIN
    IF called IS NULL THEN
        PERFORM pawl.raise('42883', format('no function %s(uuid, jsonb, bigint[], jsonb[])', function_name),
            'Its name must include the schema.');
    END IF;
    BEGIN
        found_rows := pawl.call_as_definer(definer, called,
            format('SELECT coalesce(array_agg(to_jsonb(x)), ''{}'') FROM %s($1, $2, $3, $4) x', called::oid::regproc),
            NULL::jsonb[], operation, metadata, numbers, datas);
        -- an answer for a row that has no number is an error of these rows, not of the duty
        PERFORM (e ->> 'row_number')::bigint FROM unnest(found_rows) e WHERE (e ->> 'row_number')::bigint IS NOT NULL;
        RETURN found_rows;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        -- an error of the server is not the rows' failure
        IF pawl.is_transient(SQLSTATE) THEN
            RAISE;
        END IF;
        -- an error of the function itself concerns all rows
        IF half = 0 OR SQLSTATE LIKE '42%' THEN
            RETURN ARRAY(SELECT jsonb_build_object('row_number', n, 'code', 'exception', 'answer', 'failed', 'message',
                SQLERRM, 'sqlstate', SQLSTATE) FROM unnest(numbers) n);
        END IF;
    END;
    RETURN pawl_bulk._call_for_rows(function_name, definer, operation, metadata, numbers[:half], datas[:half])
        || pawl_bulk._call_for_rows(function_name, definer, operation, metadata, numbers[half + 1:], datas[half + 1:]);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._call_for_rows(text, name, uuid, jsonb, bigint[], jsonb[]) IS
'internal: the answers of a function about rows, as JSON; 42883: there is no such function';
