-- Definitions of bulk operations, as the HTTP API lists them.

CREATE FUNCTION pawl_api.list_definitions(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need('pawl_bulk');
    RETURN jsonb_build_object('items', (
        SELECT coalesce(
            jsonb_agg(jsonb_build_object('name', d.name, 'version', d.version, 'description', d.description,
                'is_retryable', d.is_retryable,
                   'track_row_data', d.track_row_data, 'metadata_fields', d.metadata_schema, 'file_columns',
                d.row_schema, 'is_step_based', s.n > 1, 'steps', s.steps) ORDER BY d.name), '[]')
          FROM (SELECT DISTINCT ON (x.name) x.* FROM pawl_bulk.definitions x WHERE x.dropped_at IS NULL
              ORDER BY x.name, x.version DESC) d
          CROSS JOIN LATERAL (SELECT count(*) AS n,
              jsonb_agg(jsonb_build_object('step_index', x.step_index, 'step_name', x.step_name, 'kind', x.kind)
                      ORDER BY x.step_index) AS steps
                                FROM pawl_bulk.steps x WHERE x.name = d.name AND x.version = d.version) s), 'next',
        NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.list_definitions(jsonb) IS
'Route: the definitions of bulk operations, each in its newest version.
q: none. Returns the answer as JSON.
Errors: 0A000 pawl_bulk is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the
rights of the role on the tables.
Example: SELECT pawl_api.list_definitions(''{}'')';

CREATE FUNCTION pawl_api.definition_template(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one record;
BEGIN
    PERFORM pawl_api._need('pawl_bulk');
    SELECT d.* INTO found_one FROM pawl_bulk.definitions d WHERE d.name = q ->> 'name' AND d.dropped_at IS NULL
        ORDER BY d.version DESC LIMIT 1;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no definition "%s"', q ->> 'name'));
    END IF;
    RETURN to_jsonb(
        (SELECT coalesce(string_agg(CASE WHEN k ~ E'[",\\r\\n]' THEN '"' || replace(k, '"', '""') || '"' ELSE k END, ','
                ORDER BY n), '')
                       FROM jsonb_object_keys(coalesce(found_one.row_schema -> 'properties', found_one.row_schema))
            WITH ORDINALITY x(k, n)) || E'\r\n');
END
$function$;
COMMENT ON FUNCTION pawl_api.definition_template(jsonb) IS
'Route: the header of a CSV for a definition.
q: name (of the definition). Returns the answer as JSON.
Errors: P0002 no such definition; 0A000 pawl_bulk is not installed. Privileges: pawl_admin, pawl_operator,
pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.definition_template(''{"name": "import"}'')';
