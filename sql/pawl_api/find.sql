-- What the filters of a list match: shared by the lists and by actions on all that match. A filter is an object of
-- texts by the names of the list's parameters. Each returns a page of ids, newest first, and where it stopped if it
-- found fewer.

-- Texts are searched as they are stored, without regard to case. No index is used, so a search reads one row after the
-- other, in steps that are small because a payload can be large.
CREATE FUNCTION pawl_api._search(f jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF length(f ->> 'search') > 200 THEN
        PERFORM pawl.raise('22023', 'search must have at most 200 characters',
            format('It has %s.', length(f ->> 'search')));
    END IF;
    RETURN lower(nullif(f ->> 'search', ''));
END
$function$;
COMMENT ON FUNCTION pawl_api._search(jsonb) IS 'internal: the text to search for; null: none; 22023';

-- STABLE as array_to_string is: only so is it part of the query that calls it.
CREATE FUNCTION pawl_api._has_text(searched text, VARIADIC texts text[]) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN
pg_catalog.strpos(pg_catalog.lower(pg_catalog.array_to_string(texts, E'\n')), searched) OPERATOR(pg_catalog.>) 0;
COMMENT ON FUNCTION pawl_api._has_text(text, text[]) IS 'internal: whether one of the texts has the searched one';

CREATE FUNCTION pawl_api._task_has(t record, searched text) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
BEGIN
    RETURN pawl_api._has_text(searched, t.context::pg_catalog.text, t.error::pg_catalog.text)
        OR EXISTS (SELECT FROM pawl_dag.steps s WHERE s.task_uuid OPERATOR(pg_catalog.=) t.task_uuid
            AND pawl_api._has_text(searched, s.result::pg_catalog.text, s.error::pg_catalog.text));
END
$function$;
COMMENT ON FUNCTION pawl_api._task_has(record, text) IS
'internal: whether the context or error of a task, or a result or error of its steps, has a text';

-- The values that a filter names, several by comma; null: none.
CREATE FUNCTION pawl_api._known(f jsonb, parameter text, known text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    named text[] := string_to_array(f ->> parameter, ',');
    unknown text := (SELECT x FROM unnest(named) x WHERE x <> ALL (known) LIMIT 1);
BEGIN
    IF unknown IS NOT NULL THEN
        PERFORM pawl.raise('22023', format('unknown %s "%s"', parameter, unknown), NULL,
            format('Known: %s', array_to_string(known, ', ')));
    END IF;
    RETURN named;
END
$function$;
COMMENT ON FUNCTION pawl_api._known(jsonb, text, text[]) IS
'internal: what a filter names, by comma; 22023: one that is not known';

-- Any version of the machine may have them.
CREATE FUNCTION pawl_api._states(f jsonb, parameter text, machine text) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN CASE WHEN f ? parameter THEN pawl_api._known(f, parameter,
        ARRAY(SELECT s.state FROM pawl.machine_state s WHERE s.machine = _states.machine AND s.kind = 'state'
               GROUP BY s.state ORDER BY max(s.version) DESC, min(s.ordinal))) END;
END
$function$;
COMMENT ON FUNCTION pawl_api._states(jsonb, text, text) IS
'internal: the states that a filter names; 22023: no version of the machine has one of them';

CREATE FUNCTION pawl_api._find_tasks(f jsonb, before uuid, page integer, enough timestamptz, OUT ids uuid[],
    OUT looked_until uuid)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    searched constant text := pawl_api._search(f);
    step constant integer := CASE WHEN searched IS NULL THEN 2000 ELSE 50 END;
    states text[];
    since timestamptz := coalesce((f ->> 'created_after')::timestamptz, '-infinity');
    until timestamptz := coalesce((f ->> 'created_before')::timestamptz, 'infinity');
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    states := pawl_api._states(f, 'state', 'pawl_dag.task');
    -- a key is unique among the tasks of a template and found by that index, however old the task is
    IF f ? 'identity_key' THEN
        ids := ARRAY(SELECT t.task_uuid FROM (SELECT DISTINCT x.namespace, x.name FROM pawl_dag.templates x) k
              JOIN pawl_dag.tasks t ON t.namespace = k.namespace AND t.name = k.name
                  AND t.identity_key = f ->> 'identity_key'
             WHERE t.task_uuid < before AND (states IS NULL OR t.state = ANY (states))
               AND (f ->> 'name' IS NULL OR t.name = f ->> 'name')
               AND (f ->> 'namespace' IS NULL OR t.namespace = f ->> 'namespace') AND t.created_at >= since
               AND t.created_at < until AND (searched IS NULL OR pawl_api._task_has(t, searched))
             ORDER BY t.task_uuid DESC LIMIT page);
        RETURN;
    END IF;
    ids := '{}';
    LOOP
        ids := ids || ARRAY(SELECT t.task_uuid
              FROM (SELECT x.* FROM pawl_dag.tasks x WHERE x.task_uuid < before ORDER BY x.task_uuid DESC LIMIT step) t
             WHERE (states IS NULL OR t.state = ANY (states)) AND (f ->> 'name' IS NULL OR t.name = f ->> 'name')
               AND (f ->> 'namespace' IS NULL OR t.namespace = f ->> 'namespace') AND t.created_at >= since
               AND t.created_at < until AND (searched IS NULL OR pawl_api._task_has(t, searched))
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

CREATE FUNCTION pawl_api._letter_matches(d record, f jsonb, searched text) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (f ->> 'status' IS NULL OR d.resolution_status = ANY (string_to_array(f ->> 'status', ',')))
        AND (f ->> 'reason' IS NULL OR d.reason = f ->> 'reason')
        AND (f ->> 'entered_before' IS NULL OR d.dlq_timestamp < (f ->> 'entered_before')::timestamptz)
        AND (searched IS NULL OR pawl_api._has_text(searched, d.task_snapshot::text, d.resolution_notes));
END
$function$;
COMMENT ON FUNCTION pawl_api._letter_matches(record, jsonb, text) IS
'internal: whether a filter matches a dead letter; a text is searched in the snapshot of its task and in the notes';

CREATE FUNCTION pawl_api._check_letters(f jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    PERFORM pawl_api._known(f, 'status', '{pending,manually_resolved,permanently_failed,cancelled}');
END
$function$;
COMMENT ON FUNCTION pawl_api._check_letters(jsonb) IS
'internal: rejects a filter of dead letters with an unknown status (22023)';

-- Pending ones by the task, because the index on these is on it.
CREATE FUNCTION pawl_api._find_letters(f jsonb, before uuid, page integer, enough timestamptz, OUT ids uuid[],
    OUT looked_until uuid)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
DECLARE
    searched constant text := pawl_api._search(f);
    step constant integer := CASE WHEN searched IS NULL THEN 2000 ELSE 50 END;
BEGIN
    PERFORM pawl_api._check_letters(f);
    ids := '{}';
    LOOP
        ids := ids || ARRAY(SELECT d.task_uuid
              FROM (SELECT x.* FROM pawl_dag.dlq x WHERE x.resolution_status = 'pending' AND x.task_uuid < before
                     ORDER BY x.task_uuid DESC LIMIT step) d
             WHERE pawl_api._letter_matches(d, f, searched) ORDER BY d.task_uuid DESC LIMIT page - cardinality(ids));
        EXIT WHEN cardinality(ids) = page;
        looked_until := (SELECT x.task_uuid FROM pawl_dag.dlq x WHERE x.resolution_status = 'pending'
            AND x.task_uuid < before ORDER BY x.task_uuid DESC OFFSET step - 1 LIMIT 1);
        EXIT WHEN looked_until IS NULL OR clock_timestamp() > enough;
        before := looked_until;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_api._find_letters(jsonb, uuid, integer, timestamptz) IS
'internal: tasks among the pending dead letters that a filter matches, newest first';

CREATE FUNCTION pawl_api._find_bulks(f jsonb, before uuid, page integer, OUT ids uuid[], OUT looked_until uuid)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    states text[];
BEGIN
    PERFORM pawl_api._need('pawl_bulk');
    states := pawl_api._states(f, 'status', 'pawl_bulk.operation');
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
