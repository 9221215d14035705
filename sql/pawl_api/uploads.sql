-- The two ends of an upload; between them the rows are copied, in the same transaction.

CREATE FUNCTION pawl_api._begin_upload(fields jsonb, key text, OUT operation uuid, OUT created boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    f jsonb := pawl_api._object(fields,
        '{operationName,metadata,notifications,createdBy,format,delimiter,priority,version,fileName}');
    first pawl_api.answers;
BEGIN
    PERFORM pawl_api._need('pawl_bulk');
    IF key IS NOT NULL THEN
        first := pawl_api._first_answer(key, 'submit_bulk', pawl_api._digest('{}', fields));
        IF first.answer IS NOT NULL THEN
            operation := (first.answer ->> 'operation')::uuid;
            created := false;
            RETURN;
        END IF;
    END IF;
    SELECT s.operation, s.created INTO _begin_upload.operation, _begin_upload.created
      FROM pawl_bulk.submit(pawl_api._required(f, 'operationName'),
          metadata => coalesce((f ->> 'metadata')::jsonb, '{}'), format => coalesce(f ->> 'format', 'csv'),
               dialect => CASE WHEN coalesce(f ->> 'format', 'csv') = 'csv'
                   THEN jsonb_build_object('delimiter', coalesce(f ->> 'delimiter', ','), 'quote', '"', 'header', true)
                       ELSE '{}' END,
               idempotency_key =>
               CASE WHEN key IS NOT NULL THEN pawl_api._token_of_request() || ':' || key END,
               file_name => left(f ->> 'fileName', 200), source => 'http', created_by =>
               left(current_setting('pawl_api.person'), 100),
               priority => coalesce((f ->> 'priority')::integer, 0), version => (f ->> 'version')::integer,
               notifications => (f ->> 'notifications')::jsonb) s;
END
$function$;
COMMENT ON FUNCTION pawl_api._begin_upload(jsonb, text) IS
'internal: the operation that a file goes into; created by the person of the token, whatever the request says';

-- Beyond the day for which an answer is kept, the operation itself knows its key and its file.
CREATE FUNCTION pawl_api._repeat_upload(fields jsonb, key text, operation uuid, checksum text)
    RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    answer jsonb;
BEGIN
    SELECT jsonb_build_object('operation', o.operation, 'created', false, 'rows', coalesce(o.total_rows, 0),
            'malformed', 0, 'checksum', o.checksum, 'input_error', o.input_error) || coalesce(
                (pawl_api._stored_answer(key, 'submit_bulk', pawl_api._digest('{}', fields))).answer, '{}')
      INTO answer FROM pawl_bulk.operations o WHERE o.operation = _repeat_upload.operation;
    IF answer ->> 'checksum' <> checksum THEN
        PERFORM pawl.raise('23514', 'the idempotency key belongs to another request',
            format('It was used for another file, which became operation %s.', operation));
    END IF;
    RETURN answer || '{"created": false}';
END
$function$;
COMMENT ON FUNCTION pawl_api._repeat_upload(jsonb, text, uuid, text) IS
'internal: the first answer to an upload that came again; 23514: it was another file';

CREATE FUNCTION pawl_api._end_upload(operation uuid, input_error text, checksum text) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN pawl_bulk.seal(operation, input_error, checksum);
END
$function$;
COMMENT ON FUNCTION pawl_api._end_upload(uuid, text, text) IS 'internal: ends an upload whose file was read completely';

-- Validates what was uploaded in this transaction, which is rolled back afterwards. Nothing else is touched.
CREATE FUNCTION pawl_api._validate_upload(operation uuid) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    most_told constant integer := 1000;
    o pawl_bulk.operations;
    wrong text[];
    answer jsonb;
BEGIN
    wrong := pawl_bulk.validate_now(operation);
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = _validate_upload.operation;
    SELECT jsonb_build_object('rows', count(*), 'failed_rows', count(*) FILTER (WHERE v.errors IS NOT NULL)) INTO answer
        FROM pawl_bulk.validations v WHERE v.operation = o.operation;
    RETURN answer || jsonb_build_object('valid', cardinality(wrong) = 0 AND o.input_error IS NULL
        AND (answer ->> 'failed_rows')::bigint = 0, 'metadata_errors', to_jsonb(wrong),
        'file_errors', CASE WHEN o.input_error IS NULL THEN '[]'::jsonb
            ELSE jsonb_build_array(jsonb_build_object('message', o.input_error)) END
            || (SELECT coalesce(
                    jsonb_agg(jsonb_build_object('row_number', e.row_number, 'row_id', e.row_id, 'code', e.code,
                        'message', e.message)), '[]')
                  FROM (SELECT x.* FROM pawl_bulk.errors x WHERE x.operation = o.operation
                      ORDER BY x.row_number LIMIT most_told) e));
END
$function$;
COMMENT ON FUNCTION pawl_api._validate_upload(uuid) IS
'internal: the first 1,000 errors of the validation of an upload';
