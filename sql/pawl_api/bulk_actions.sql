-- What operators do to bulk operations, and the parts of uploads and exports that are SQL.

CREATE FUNCTION pawl_api._operate_bulk(q jsonb, body jsonb, action text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    moved boolean;
BEGIN
    PERFORM pawl_api._object(body, '{}'), pawl_api._need_one('operation', id);
    CASE action
        WHEN 'cancel' THEN moved := pawl_bulk.cancel(id);
        WHEN 'pause' THEN moved := pawl_bulk.pause(id);
        WHEN 'resume' THEN moved := pawl_bulk.resume(id);
    END CASE;
    RETURN pawl_api.bulk_status(q) || jsonb_build_object('moved', moved);
END
$function$;
COMMENT ON FUNCTION pawl_api._operate_bulk(jsonb, jsonb, text) IS 'internal: what an operator does to an operation';

CREATE FUNCTION pawl_api.cancel_bulk(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_bulk(q, body, 'cancel'); END;
COMMENT ON FUNCTION pawl_api.cancel_bulk(jsonb, jsonb) IS
'Route: cancels an operation; moved is false if it was already cancelled.
q: id (of the operation). body: an empty object. Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; those of pawl_bulk.cancel; 0A000 pawl_bulk is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.cancel_bulk(''{"id": "01890000-0000-7000-8000-000000000001"}'', ''{}'')';
CREATE FUNCTION pawl_api.pause_bulk(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_bulk(q, body, 'pause'); END;
COMMENT ON FUNCTION pawl_api.pause_bulk(jsonb, jsonb) IS
'Route: pauses an operation.
q: id (of the operation). body: an empty object. Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; those of pawl_bulk.pause; 0A000 pawl_bulk is not installed.
Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.pause_bulk(''{"id": "01890000-0000-7000-8000-000000000001"}'', ''{}'')';
CREATE FUNCTION pawl_api.resume_bulk(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_bulk(q, body, 'resume'); END;
COMMENT ON FUNCTION pawl_api.resume_bulk(jsonb, jsonb) IS
'Route: resumes a paused operation.
q: id (of the operation). body: an empty object. Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; those of pawl_bulk.resume; 0A000 pawl_bulk is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.resume_bulk(''{"id": "01890000-0000-7000-8000-000000000001"}'', ''{}'')';

CREATE FUNCTION pawl_api._signal_bulk(q jsonb, result text, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    b jsonb := pawl_api._object(body, '{errorMessage,message,payload,attempt}');
    answer text;
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    answer := pawl_bulk.signal(id, q ->> 'key', result, coalesce(b ->> 'errorMessage', b ->> 'message'), b -> 'payload',
        (b ->> 'attempt')::integer);
    IF answer IN ('late', 'refused') THEN
        PERFORM pawl.raise('55000', format('the signal came too late: %s', answer),
            'The row has failed, timed out or was cancelled, or its operation is at rest.');
    END IF;
    RETURN jsonb_build_object('answer', answer, 'completed', answer = 'applied'
        AND result = 'complete', 'failed', answer = 'applied' AND result = 'fail', 'key', q ->> 'key')
        || coalesce((SELECT jsonb_build_object('row_number', k.row_number, 'step_index', k.step_index)
                FROM pawl_bulk.signal_keys k WHERE k.operation = id AND k.key = q ->> 'key'), '{}');
END
$function$;
COMMENT ON FUNCTION pawl_api._signal_bulk(jsonb, text, jsonb) IS
'internal: a signal and its answer: applied, early or duplicate; 55000: late, refused';

CREATE FUNCTION pawl_api.signal_bulk(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._signal_bulk(q, 'complete', body); END;
COMMENT ON FUNCTION pawl_api.signal_bulk(jsonb, jsonb) IS
'Route: completes the step that waits for a key.
q: id (of the operation), key. body: message, errorMessage, payload, attempt, all optional. Returns the answer as
JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 55000 the signal came too late; 22023 an unknown field;
0A000 pawl_bulk is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights
of the role on the tables.
Example: SELECT pawl_api.signal_bulk(''{"id": "01890000-0000-7000-8000-000000000001", "key": "carrier-1"}'',
''{"message": "done"}'')';
CREATE FUNCTION pawl_api.fail_signal_bulk(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._signal_bulk(q, 'fail', body); END;
COMMENT ON FUNCTION pawl_api.fail_signal_bulk(jsonb, jsonb) IS
'Route: fails the step that waits for a key.
q: id (of the operation), key. body: message, errorMessage, payload, attempt, all optional. Returns the answer as
JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 55000 the signal came too late; 22023 an unknown field;
0A000 pawl_bulk is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights
of the role on the tables.
Example: SELECT pawl_api.fail_signal_bulk(''{"id": "01890000-0000-7000-8000-000000000001", "key": "carrier-1"}'',
''{"message": "done"}'')';

CREATE FUNCTION pawl_api._retry_bulk(id uuid, rows bigint[], error_types text[], steps text[]) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    RETURN (SELECT jsonb_build_object('operation', id, 'submitted', r.submitted, 'skipped', r.skipped)
        FROM pawl_bulk.retry(id, rows, error_types, steps) r);
END
$function$;
COMMENT ON FUNCTION pawl_api._retry_bulk(uuid, bigint[], text[], text[]) IS 'internal: a retry and what it submitted';

CREATE FUNCTION pawl_api._numbers(list jsonb, name text) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF jsonb_typeof(list) <> 'array' THEN
        PERFORM pawl.raise('22023', format('%s must be a list of row numbers', name), NULL, '[1, 2]');
    END IF;
    RETURN CASE WHEN list IS NOT NULL THEN ARRAY(SELECT e::bigint FROM jsonb_array_elements_text(list) e) END;
END
$function$;
COMMENT ON FUNCTION pawl_api._numbers(jsonb, text) IS 'internal: a list of row numbers; 22023, 22P02';

CREATE FUNCTION pawl_api.retry_bulk(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    b jsonb := pawl_api._object(body, '{rows,error_types,steps}');
BEGIN
    RETURN pawl_api._retry_bulk(pawl_api._uuid(q, 'id'), pawl_api._numbers(b -> 'rows', 'rows'),
        CASE WHEN jsonb_typeof(b -> 'error_types') = 'array'
            THEN ARRAY(SELECT jsonb_array_elements_text(b -> 'error_types')) END,
        CASE WHEN jsonb_typeof(b -> 'steps') = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(b -> 'steps')) END);
END
$function$;
COMMENT ON FUNCTION pawl_api.retry_bulk(jsonb, jsonb) IS
'Route: retries the failed rows of an operation.
q: id (of the operation). body: rows (numbers), error_types, steps; omitted: all. Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; PW003 it cannot be retried; 22023 an invalid body; 0A000
pawl_bulk is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.retry_bulk(''{"id": "01890000-0000-7000-8000-000000000001"}'', ''{"steps": ["send"]}'')';

CREATE FUNCTION pawl_api.retry_bulk_rows(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    b jsonb := pawl_api._object(body, '{rowNumbers}');
BEGIN
    PERFORM pawl_api._required(b, 'rowNumbers');
    RETURN pawl_api._retry_bulk(pawl_api._uuid(q, 'id'), pawl_api._numbers(b -> 'rowNumbers', 'rowNumbers'), NULL,
        NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.retry_bulk_rows(jsonb, jsonb) IS
'Route: retries failed rows with the given numbers.
q: id (of the operation). body: rowNumbers. Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; PW003 the operation cannot be retried; 22023 an invalid
body; 0A000 pawl_bulk is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the
rights of the role on the tables.
Example: SELECT pawl_api.retry_bulk_rows(''{"id": "01890000-0000-7000-8000-000000000001"}'',
''{"rowNumbers": [1, 2]}'')';

-- The command that streams an export, for the server to run in the same transaction.
CREATE FUNCTION pawl_api._export_command(q jsonb) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need_one('operation', pawl_api._uuid(q, 'id'));
    RETURN pawl_bulk.export_command(pawl_api._uuid(q, 'id'), coalesce(q ->> 'mode', 'report'),
        coalesce(q ->> 'format', 'csv'), pawl_api._states(q, 'state', 'pawl_bulk.row'),
        string_to_array(q ->> 'errorType', ','), string_to_array(q ->> 'stepName', ','));
END
$function$;
COMMENT ON FUNCTION pawl_api._export_command(jsonb) IS 'internal: COPY ... TO STDOUT for the export that was asked for';

-- What came in, line by line as it came; an operation that was given rows as JSON gives them back as NDJSON.
CREATE FUNCTION pawl_api._file_command(q jsonb, OUT command text, OUT file_name text, OUT type text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    o record;
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = id;
    IF NOT EXISTS (SELECT FROM pawl_bulk.input i WHERE i.operation = id) THEN
        PERFORM pawl.raise('P0002', format('the input of operation %s was not kept', id));
    END IF;
    type := CASE o.format WHEN 'csv' THEN 'text/csv' ELSE 'application/x-ndjson' END;
    file_name := coalesce(o.file_name, id || CASE o.format WHEN 'csv' THEN '.csv' ELSE '.ndjson' END);
    -- a byte 1 or 2 would be quoted; no line of text has one
    command := format(E'COPY (SELECT coalesce(i.raw, i.data::text) FROM pawl_bulk.input i WHERE i.operation = %L '
            'ORDER BY i.row_number) TO STDOUT (FORMAT csv, DELIMITER E''\\x01'', QUOTE E''\\x02'')', id);
END
$function$;
COMMENT ON FUNCTION pawl_api._file_command(jsonb) IS
'internal: COPY ... TO STDOUT for the input of an operation, with its name and type; P0002: it was not kept';
