-- The session, and what answers have in common.

CREATE FUNCTION pawl_api._row_json("row" record) RETURNS json
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_api_row_json';
COMMENT ON FUNCTION pawl_api._row_json(record) IS
'internal: the same as row_to_json, in less time for many rows of one type';

CREATE FUNCTION pawl_api._transition(l record) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('sort_key', l.sort_key, 'from_state', l.from_state, 'to_state', l.to_state, 'event',
        l.event, 'processor', l.processor, 'actor', l.actor,
        'correlation_id', l.correlation_id, 'metadata', l.metadata, 'machine_version', l.machine_version, 'created_at',
        l.created_at);
END
$function$;
COMMENT ON FUNCTION pawl_api._transition(record) IS 'internal: an entry of a log';

CREATE FUNCTION pawl_api._operations() RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT coalesce(jsonb_agg(DISTINCT n.nspname || '.' || p.proname), '[]')
              FROM (VALUES ('pawl_dag', 'start_task'), ('pawl_dag', 'retry_task'), ('pawl_bulk', 'retry'),
                  ('pawl_bulk', 'signal'), ('pawl_saga', 'suspend'), ('pawl_saga', 'resolve')) o(pack, name)
              JOIN pg_namespace n ON n.nspname = o.pack
              JOIN pg_proc p ON p.pronamespace = n.oid AND p.proname = o.name
             WHERE has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE'));
END
$function$;
COMMENT ON FUNCTION pawl_api._operations() IS
'internal: the functions of the packs that stand for groups of operations and that the role can execute';

CREATE FUNCTION pawl_api.session(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('person', current_setting('pawl_api.person', true), 'role', current_user,
        'scopes', to_jsonb(string_to_array(current_setting('pawl_api.scopes', true), ',')), 'expires_at',
        nullif(current_setting('pawl_api.expires_at', true), '')::timestamptz,
        'database', current_database(), 'version', (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'pawl'),
        'operations', pawl_api._operations(),
        'packs', (SELECT jsonb_agg(e.extname ORDER BY e.extname) FROM pg_extension e WHERE e.extname LIKE 'pawl%'));
END
$function$;
COMMENT ON FUNCTION pawl_api.session(jsonb) IS
'Route: the role and person of the token, what is installed, and which groups of operations the role may use.
q: none. Returns the answer as JSON.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.session(''{}'')';
