-- What the API of a daemon that serves several databases asks each of them.

CREATE FUNCTION pawl_api._whereabouts(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    ids uuid[] := string_to_array(q ->> 'ids', ',')::uuid[];
    pack text;
    here uuid[];
BEGIN
    CASE q ->> 'kind'
        WHEN 'task' THEN
            pack := 'dag';
            PERFORM pawl_api._need('pawl_dag');
            here := ARRAY(SELECT t.task_uuid FROM pawl_dag.tasks t WHERE t.task_uuid = ANY (ids));
        WHEN 'operation' THEN
            pack := 'bulk';
            PERFORM pawl_api._need('pawl_bulk');
            here := ARRAY(SELECT o.operation FROM pawl_bulk.operations o WHERE o.operation = ANY (ids));
        WHEN 'flow' THEN
            pack := 'saga';
            PERFORM pawl_api._need('pawl_saga');
            here := ARRAY(SELECT f.flow_uuid FROM pawl_saga.flows f WHERE f.flow_uuid = ANY (ids));
        WHEN 'job' THEN
            pack := 'saga';
            PERFORM pawl_api._need('pawl_saga');
            here := ARRAY(SELECT j.job_uuid FROM pawl_saga.jobs j WHERE j.job_uuid = ANY (ids));
    END CASE;
    RETURN jsonb_build_object('here', to_jsonb(here), 'left', (SELECT coalesce(jsonb_object_agg(i, l.database), '{}')
        FROM unnest(ids) i CROSS JOIN LATERAL pawl.left_for(pack, i::text) l
        WHERE l.database IS NOT NULL AND i <> ALL (here)),
        'arrived', ARRAY(SELECT u.key FROM pawl.moved_unit u
            WHERE u.kind = pack AND u.key = ANY (ids::text[]) AND u.arrived_at IS NOT NULL));
END
$function$;
COMMENT ON FUNCTION pawl_api._whereabouts(jsonb) IS
'internal: which of some tasks, operations, flows or jobs are here, and to which database others have left;
arrived: those that have come from another one, also if they are not here any more';

-- The answers of idempotency keys stay where they were given. So a request that is repeated after its namespace or its
-- thing has moved is looked for there.
CREATE FUNCTION pawl_api._arrived_lately(q jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT to_jsonb(EXISTS (SELECT FROM pawl.arrival a WHERE a.kind = q ->> 'kind' AND a.namespace = q ->> 'namespace'
            AND a.outcome = 'arrived' AND a.recorded_at > clock_timestamp() - interval '1 day')
        OR EXISTS (SELECT FROM pawl.moved_unit u WHERE u.kind = ANY ('{dag,bulk,saga}') AND u.key = q ->> 'id'
            AND u.arrived_at > clock_timestamp() - interval '1 day'))
$function$;
COMMENT ON FUNCTION pawl_api._arrived_lately(jsonb) IS
'internal: whether a namespace or a thing has come from another database in the time for which answers are stored';

CREATE FUNCTION pawl_api._known_answer(q jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    first pawl_api.answers;
BEGIN
    first := pawl_api._stored_answer(q ->> 'key', q ->> 'route', pawl_api._digest(q -> 'arguments', q -> 'body'));
    RETURN jsonb_build_object('known', first.key IS NOT NULL, 'answer', first.answer);
END
$function$;
COMMENT ON FUNCTION pawl_api._known_answer(jsonb) IS
'internal: the answer to a request that was carried out here; 23514: its key is that of another request';
