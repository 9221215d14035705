-- The two ends of an upload; between them the rows are copied, in the same transaction.

CREATE FUNCTION pawl_api._begin_upload(fields jsonb, key text, OUT operation uuid, OUT created boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    f jsonb := pawl_api._object(fields,
        '{operationName,metadata,notifications,createdBy,format,delimiter,quote,header,priority,version,fileName}');
BEGIN
    PERFORM pawl_api._need('pawl_bulk');
    SELECT s.operation, s.created INTO _begin_upload.operation, _begin_upload.created
      FROM pawl_bulk.submit(pawl_api._required(f, 'operationName'),
          metadata => coalesce((f ->> 'metadata')::jsonb, '{}'), format => coalesce(f ->> 'format', 'csv'),
               dialect => CASE WHEN coalesce(f ->> 'format', 'csv') = 'csv'
                   THEN jsonb_build_object('delimiter', coalesce(f ->> 'delimiter', ','), 'quote', '"', 'header', true)
                       ELSE '{}' END,
               idempotency_key => key, file_name => left(f ->> 'fileName', 200), source => 'http', created_by =>
               left(current_setting('pawl_api.person'), 100),
               priority => coalesce((f ->> 'priority')::integer, 0), version => (f ->> 'version')::integer,
               notifications => (f ->> 'notifications')::jsonb) s;
END
$function$;
COMMENT ON FUNCTION pawl_api._begin_upload(jsonb, text) IS
'internal: the operation that a file goes into; created by the person of the token, whatever the request says';

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
