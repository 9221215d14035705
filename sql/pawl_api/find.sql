-- What the filters of a list match: shared by the lists and by actions on all that match. A filter is an object of
-- texts by the names of the list's parameters. Each returns a page of ids, newest first, and where it stopped if it
-- found fewer.

CREATE FUNCTION pawl_api._find_tasks(f jsonb, before uuid, page integer, enough timestamptz, OUT ids uuid[],
    OUT looked_until uuid)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    step constant integer := 2000;
    states text[] := string_to_array(f ->> 'state', ',');
    since timestamptz := coalesce((f ->> 'created_after')::timestamptz, '-infinity');
    until timestamptz := coalesce((f ->> 'created_before')::timestamptz, 'infinity');
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    -- a key is unique among the tasks of a template and found by that index, however old the task is
    IF f ? 'identity_key' THEN
        ids := ARRAY(SELECT t.task_uuid FROM (SELECT DISTINCT x.namespace, x.name FROM pawl_dag.templates x) k
              JOIN pawl_dag.tasks t ON t.namespace = k.namespace AND t.name = k.name
                  AND t.identity_key = f ->> 'identity_key'
             WHERE t.task_uuid < before AND (states IS NULL OR t.state = ANY (states))
               AND (f ->> 'name' IS NULL OR t.name = f ->> 'name')
               AND (f ->> 'namespace' IS NULL OR t.namespace = f ->> 'namespace') AND t.created_at >= since
               AND t.created_at < until
             ORDER BY t.task_uuid DESC LIMIT page);
        RETURN;
    END IF;
    ids := '{}';
    LOOP
        ids := ids || ARRAY(SELECT t.task_uuid
              FROM (SELECT x.* FROM pawl_dag.tasks x WHERE x.task_uuid < before ORDER BY x.task_uuid DESC LIMIT step) t
             WHERE (states IS NULL OR t.state = ANY (states)) AND (f ->> 'name' IS NULL OR t.name = f ->> 'name')
               AND (f ->> 'namespace' IS NULL OR t.namespace = f ->> 'namespace') AND t.created_at >= since
               AND t.created_at < until
             ORDER BY t.task_uuid DESC LIMIT page - cardinality(ids));
        EXIT WHEN cardinality(ids) = page;
        looked_until := (SELECT x.task_uuid FROM pawl_dag.tasks x WHERE x.task_uuid < before
            ORDER BY x.task_uuid DESC OFFSET step - 1 LIMIT 1);
        EXIT WHEN looked_until IS NULL OR clock_timestamp() > enough;
        before := looked_until;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_api._find_tasks(jsonb, uuid, integer, timestamptz) IS
'internal: tasks that a filter matches, newest first; looked_until null: a full page, or the end';

-- By the task, because the index on pending letters is on it.
CREATE FUNCTION pawl_api._find_letters(f jsonb, before uuid, page integer, enough timestamptz, OUT ids uuid[],
    OUT looked_until uuid)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    ids := ARRAY(SELECT d.task_uuid FROM pawl_dag.dlq d
         WHERE d.resolution_status = 'pending' AND d.task_uuid < before
           AND (f ->> 'reason' IS NULL OR d.reason = f ->> 'reason')
           AND (f ->> 'entered_before' IS NULL OR d.dlq_timestamp < (f ->> 'entered_before')::timestamptz)
         ORDER BY d.task_uuid DESC LIMIT page);
END
$function$;
COMMENT ON FUNCTION pawl_api._find_letters(jsonb, uuid, integer, timestamptz) IS
'internal: tasks among the pending dead letters that a filter matches, newest first';

CREATE FUNCTION pawl_api._find_bulks(f jsonb, before uuid, page integer, OUT ids uuid[], OUT looked_until uuid)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    states text[] := string_to_array(f ->> 'status', ',');
BEGIN
    PERFORM pawl_api._need('pawl_bulk');
    ids := ARRAY(SELECT o.operation FROM pawl_bulk.operations o
         WHERE o.operation < before AND (states IS NULL OR o.status = ANY (states))
           AND (f ->> 'operationName' IS NULL OR o.definition = f ->> 'operationName')
           AND (f ->> 'createdBy' IS NULL OR o.created_by = f ->> 'createdBy')
           AND (f ->> 'fromDate' IS NULL OR o.created_at >= (f ->> 'fromDate')::timestamptz)
           AND (f ->> 'toDate' IS NULL OR o.created_at <= (f ->> 'toDate')::timestamptz)
         ORDER BY o.operation DESC LIMIT page);
END
$function$;
COMMENT ON FUNCTION pawl_api._find_bulks(jsonb, uuid, integer) IS
'internal: bulk operations that a filter matches, newest first';

CREATE FUNCTION pawl_api._find(kind text, f jsonb, before uuid, page integer, enough timestamptz, OUT ids uuid[],
    OUT looked_until uuid)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    CASE kind
        WHEN 'task' THEN SELECT x.* INTO ids, looked_until FROM pawl_api._find_tasks(f, before, page, enough) x;
        WHEN 'letter' THEN SELECT x.* INTO ids, looked_until FROM pawl_api._find_letters(f, before, page, enough) x;
        WHEN 'operation' THEN SELECT x.* INTO ids, looked_until FROM pawl_api._find_bulks(f, before, page) x;
    END CASE;
END
$function$;
COMMENT ON FUNCTION pawl_api._find(text, jsonb, uuid, integer, timestamptz) IS
'internal: tasks, tasks of dead letters, or operations that a filter matches';
