-- The events of bulk operations, in pages.

-- Ids of events are given before their transactions commit. So a page ends before the oldest transaction that may still
-- bring one; one that has not yet been given a number is known by its statement, if that began within the last seconds.
CREATE FUNCTION pawl_api._complete_until() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT least(clock_timestamp(), (SELECT min(CASE WHEN a.backend_xid IS NOT NULL THEN a.xact_start
        WHEN a.state = 'active' THEN greatest(a.query_start, clock_timestamp() - interval '5 seconds') END)
                                       FROM pg_stat_activity a WHERE a.datname = current_database()
                                           AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'),
                 (SELECT min(p.prepared) - interval '1 hour' FROM pg_prepared_xacts p
            WHERE p.database = current_database()))
        - interval '1 millisecond'
$function$;
COMMENT ON FUNCTION pawl_api._complete_until() IS 'internal: nothing that is committed later bears an earlier time';

CREATE FUNCTION pawl_api._bulk_events(q jsonb, id uuid) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    page integer := CASE WHEN q ? 'limit' THEN pawl_api._limit(q) ELSE 100 END;
    since uuid := coalesce((q ->> 'since')::uuid, '00000000-0000-0000-0000-000000000000');
    until uuid := (lpad(to_hex((extract(epoch FROM pawl_api._complete_until()) * 1000)::bigint), 12, '0')
        || repeat('0', 20))::uuid;
    items jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_object('sequence', e.event, 'operation', e.operation, 'definition', o.definition,
        'type', e.type, 'severity', e.severity, 'from_status', e.from_status,
               'to_status', e.to_status, 'row_number', e.row_number, 'step_index', e.step_index, 'message', e.message,
            'detail', e.detail, 'timestamp', e.created_at) ORDER BY e.event) INTO items
      FROM (SELECT x.* FROM pawl_bulk.events x
          WHERE x.event > since AND x.event < until AND (id IS NULL OR x.operation = id) ORDER BY x.event LIMIT page) e
      LEFT JOIN pawl_bulk.operations o ON o.operation = e.operation;
    RETURN jsonb_build_object('items', coalesce(items, '[]'), 'next',
        coalesce(items -> (jsonb_array_length(items) - 1) ->> 'sequence', q ->> 'since'));
END
$function$;
COMMENT ON FUNCTION pawl_api._bulk_events(jsonb, uuid) IS 'internal: events of operations in order';

CREATE FUNCTION pawl_api.bulk_events(q jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need_one('operation', pawl_api._uuid(q, 'id'));
    RETURN pawl_api._bulk_events(q, pawl_api._uuid(q, 'id'));
END
$function$;
COMMENT ON FUNCTION pawl_api.bulk_events(jsonb) IS
'Route: the events of an operation after a position, each once.
q: id (of the operation), since (the position of the last answer), limit (1 to 500). Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 22023 an invalid position; 0A000 pawl_bulk is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.bulk_events(''{"id": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.all_bulk_events(q jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need('pawl_bulk');
    RETURN pawl_api._bulk_events(q, NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.all_bulk_events(jsonb) IS
'Route: the events of all operations after a position, each once.
q: since (the position of the last answer), limit (1 to 500). Returns the answer as JSON.
Errors: 22023 an invalid position; 0A000 pawl_bulk is not installed. Privileges: pawl_admin, pawl_operator,
pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.all_bulk_events(''{}'')';
