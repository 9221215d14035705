-- One action on many rows of a bulk operation: those with given numbers, or all that a filter matches. A retry of an
-- operation is one statement for all its rows; signals go through the rows in bounded requests.

CREATE FUNCTION pawl_api._row_outcome(row_number bigint, state text, outcome text, code text, reason text)
RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT jsonb_build_object('id', row_number::text, 'state', state, 'outcome', outcome, 'sqlstate', code, 'reason',
        reason)
$function$;
COMMENT ON FUNCTION pawl_api._row_outcome(bigint, text, text, text, text) IS
'internal: what an action did, or would do, to one row of a bulk operation';

CREATE FUNCTION pawl_api._preview_retry(operation uuid, numbers bigint[]) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    may record := pawl_bulk.can_retry(operation);
    forbidden constant integer[] := ARRAY(SELECT s.step_index FROM pawl_bulk.operations o
        JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version
        WHERE o.operation = operation AND NOT s.allow_operation_retry);
BEGIN
    RETURN (SELECT coalesce(jsonb_agg(CASE
                WHEN l.row_number IS NULL
                    THEN pawl_api._row_outcome(u.n, NULL, 'rejected', 'P0002', 'there is no such row')
                WHEN l.state NOT IN ('Failed', 'TimedOut')
                    THEN pawl_api._row_outcome(u.n, l.state, 'unchanged', NULL, 'it has not failed')
                WHEN NOT may.eligible THEN pawl_api._row_outcome(u.n, l.state, 'rejected', 'PW003', may.message)
                WHEN l.step_index < 0
                    THEN pawl_api._row_outcome(u.n, l.state, 'rejected', 'PW003', 'it has failed validation')
                WHEN l.step_index = ANY (forbidden) THEN pawl_api._row_outcome(u.n, l.state, 'rejected', 'PW003',
                    format('step "%s" does not allow retries', l.step_name))
                ELSE pawl_api._row_outcome(u.n, l.state, 'changed', NULL, NULL) END ORDER BY u.i), '[]')
              FROM unnest(numbers) WITH ORDINALITY u(n, i)
              LEFT JOIN LATERAL (SELECT x.* FROM pawl_bulk.latest_records x
                  WHERE x.operation = operation AND x.row_number = u.n OFFSET 0) l ON true);
END
$function$;
COMMENT ON FUNCTION pawl_api._preview_retry(uuid, bigint[]) IS
'internal: what a retry would do to rows of an operation, in their order';

CREATE FUNCTION pawl_api._preview_signals(operation uuid, numbers bigint[]) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    RETURN (SELECT coalesce(jsonb_agg(CASE
                WHEN l.row_number IS NULL
                    THEN pawl_api._row_outcome(u.n, NULL, 'rejected', 'P0002', 'there is no such row')
                WHEN k.key IS NULL
                    THEN pawl_api._row_outcome(u.n, l.state, 'unchanged', NULL, 'it does not wait for a signal')
                ELSE pawl_api._row_outcome(u.n, l.state, 'changed', NULL, NULL)
                    || jsonb_build_object('key', k.key) END ORDER BY u.i), '[]')
              FROM unnest(numbers) WITH ORDINALITY u(n, i)
              LEFT JOIN LATERAL (SELECT x.* FROM pawl_bulk.latest_records x
                  WHERE x.operation = operation AND x.row_number = u.n OFFSET 0) l ON true
              LEFT JOIN LATERAL (SELECT x.key FROM pawl_bulk.work w
                  JOIN pawl_bulk.signal_keys x ON x.operation = w.operation AND x.row_number = w.row_number
                      AND x.step_index = w.step_index
                  WHERE w.operation = operation AND w.row_number = u.n AND w.kind = 'signal' LIMIT 1) k ON true);
END
$function$;
COMMENT ON FUNCTION pawl_api._preview_signals(uuid, bigint[]) IS
'internal: what signals would do to rows of an operation, in their order; key: what a row waits for';

CREATE FUNCTION pawl_api._retry_rows(operation uuid, preview jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wanted constant bigint[] := ARRAY(SELECT (e ->> 'id')::bigint FROM jsonb_array_elements(preview) e
        WHERE e ->> 'outcome' = 'changed');
    skipped jsonb;
BEGIN
    IF wanted = '{}' THEN
        RETURN preview;
    END IF;
    SELECT r.skipped INTO skipped FROM pawl_bulk.retry(operation, wanted) r;
    RETURN (SELECT jsonb_agg(CASE WHEN s.n IS NULL THEN e
            ELSE e || '{"outcome": "unchanged", "reason": "it has changed meanwhile"}' END ORDER BY i)
        FROM jsonb_array_elements(preview) WITH ORDINALITY x(e, i)
        LEFT JOIN (SELECT y ->> 0 AS n FROM jsonb_array_elements(skipped) y) s ON s.n = e ->> 'id');
END
$function$;
COMMENT ON FUNCTION pawl_api._retry_rows(uuid, jsonb) IS
'internal: retries the rows that would change; PW003: the operation has changed meanwhile';

CREATE FUNCTION pawl_api._signal_rows(operation uuid, preview jsonb, result text, reason text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    signals constant jsonb := (SELECT jsonb_agg(jsonb_build_object('key', e ->> 'key', 'result', result,
        'message', reason)) FROM jsonb_array_elements(preview) e WHERE e ->> 'outcome' = 'changed');
BEGIN
    IF signals IS NULL THEN
        RETURN preview;
    END IF;
    RETURN (SELECT jsonb_agg(CASE
                WHEN s.answer IN ('late', 'refused')
                    THEN e || '{"outcome": "rejected", "sqlstate": "55000", "reason": "the signal came too late"}'
                WHEN s.answer = 'duplicate'
                    THEN e || '{"outcome": "unchanged", "reason": "it has changed meanwhile"}'
                ELSE e END ORDER BY i)
        FROM jsonb_array_elements(preview) WITH ORDINALITY x(e, i)
        LEFT JOIN pawl_bulk.signal_many(operation, signals) s ON s.key = e ->> 'key');
END
$function$;
COMMENT ON FUNCTION pawl_api._signal_rows(uuid, jsonb, text, text) IS
'internal: sends the signals that the rows which would change wait for';

-- All that match: a retry ends the state CompletedWithErrors of the operation, so no second request retries the rest.
CREATE FUNCTION pawl_api._all_rows(operation uuid, f jsonb, enough timestamptz) RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    page constant integer := 10000;
    after bigint := 0;
    numbers bigint[] := '{}';
    part record;
BEGIN
    LOOP
        part := pawl_api._find_rows(operation, f, after, page);
        numbers := numbers || part.numbers;
        after := CASE WHEN cardinality(part.numbers) = page THEN part.numbers[page] ELSE part.looked_until END;
        EXIT WHEN after IS NULL;
        IF clock_timestamp() > enough THEN
            PERFORM pawl.raise('54000', 'the operation has too many rows for a search in one request',
                format('The search has come to row %s.', after),
                'Retry the rows of a step or a type of error, or rows by their numbers.');
        END IF;
    END LOOP;
    RETURN numbers;
END
$function$;
COMMENT ON FUNCTION pawl_api._all_rows(uuid, jsonb, timestamptz) IS
'internal: the rows of an operation that a filter matches, all; 54000: they are not found in time';

CREATE FUNCTION pawl_api._need_rows(b jsonb) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    rows jsonb := nullif(b -> 'rows', 'null');
    filter jsonb := nullif(b -> 'filter', 'null');
    wrong text;
BEGIN
    IF (rows IS NULL) = (filter IS NULL) THEN
        PERFORM pawl.raise('22023', 'the body must have either "rows" or "filter"');
    ELSIF filter IS NOT NULL THEN
        PERFORM pawl_api._object(filter, '{rowId,state,stepName,search}');
        SELECT e.key INTO wrong FROM jsonb_each(filter) e WHERE jsonb_typeof(e.value) <> 'string' LIMIT 1;
        IF FOUND THEN
            PERFORM pawl.raise('22023', format('"%s" of the filter must be a string', wrong));
        END IF;
        RETURN NULL;
    ELSIF jsonb_typeof(rows) <> 'array' OR jsonb_array_length(rows) > 500 OR EXISTS (SELECT
        FROM jsonb_array_elements(rows) e WHERE jsonb_typeof(e) <> 'number' OR e::text !~ '^[0-9]{1,18}$') THEN
        PERFORM pawl.raise('22023', 'rows must be a list of at most 500 row numbers');
    END IF;
    RETURN ARRAY(SELECT DISTINCT e::bigint AS n FROM jsonb_array_elements_text(rows) e ORDER BY n);
END
$function$;
COMMENT ON FUNCTION pawl_api._need_rows(jsonb) IS 'internal: the row numbers of a body; null: it has a filter; 22023';

CREATE FUNCTION pawl_api._need_row_action(b jsonb) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    action text := pawl_api._required(b, 'action');
    function text := CASE WHEN action = 'retry' THEN 'pawl_bulk.retry(uuid, bigint[], text[], text[])'
        WHEN action IN ('complete', 'fail') THEN 'pawl_bulk.signal_many(uuid, jsonb)' END;
BEGIN
    IF function IS NULL THEN
        PERFORM pawl.raise('22023', format('unknown action "%s"', action), NULL, 'complete, fail, retry');
    ELSIF NOT has_function_privilege(function, 'EXECUTE') THEN
        PERFORM pawl.raise('42501', format('permission denied for action "%s"', action),
            format('Role "%s" cannot execute %s.', current_user, function),
            format('grant pawl_operator to %I', current_user));
    ELSIF action = 'fail' AND NOT pawl_api._flag(b, 'dry_run') THEN
        PERFORM pawl_api._required(b, 'reason');
    END IF;
    RETURN action;
END
$function$;
COMMENT ON FUNCTION pawl_api._need_row_action(jsonb) IS
'internal: the action on rows of a body; 22023: there is none, or its reason is missing; 42501: it is not allowed';

CREATE FUNCTION pawl_api._act_on_rows(id uuid, b jsonb, action text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    enough constant timestamptz := clock_timestamp() + least(interval '2 s',
        nullif(current_setting('statement_timeout')::interval, interval '0') / 4);
    dry_run constant boolean := pawl_api._flag(b, 'dry_run');
    numbers bigint[] := pawl_api._need_rows(b);
    page constant integer := pawl_api._action_limit(b, CASE WHEN dry_run THEN 10000 ELSE 500 END);
    after bigint := coalesce((pawl_api._after(b, 1))[1]::bigint, 0);
    looked_until bigint;
    outcomes jsonb;
BEGIN
    IF numbers IS NULL AND action = 'retry' THEN
        numbers := pawl_api._all_rows(id, b -> 'filter', enough);
    ELSIF numbers IS NULL THEN
        SELECT x.* INTO numbers, looked_until FROM pawl_api._find_rows(id, b -> 'filter', after, page) x;
        IF cardinality(numbers) = page THEN
            looked_until := numbers[page];
        END IF;
    END IF;
    outcomes := CASE WHEN action = 'retry' THEN pawl_api._preview_retry(id, numbers)
        ELSE pawl_api._preview_signals(id, numbers) END;
    IF NOT dry_run THEN
        outcomes := CASE WHEN action = 'retry' THEN pawl_api._retry_rows(id, outcomes)
            ELSE pawl_api._signal_rows(id, outcomes, action, b ->> 'reason') END;
    END IF;
    RETURN jsonb_build_object('action', action, 'dry_run', dry_run, 'at', clock_timestamp(),
        'groups', pawl_api._outcome_groups(outcomes), 'items', CASE WHEN dry_run THEN '[]' ELSE
            (SELECT coalesce(jsonb_agg(x.o - 'key' ORDER BY x.i), '[]') FROM (SELECT u.o, u.i
                FROM jsonb_array_elements(outcomes) WITH ORDINALITY u(o, i)
                ORDER BY u.o ->> 'outcome' = 'changed', u.i LIMIT 500) x) END,
        'next', CASE WHEN looked_until IS NOT NULL THEN pawl_api._cursor(ARRAY[looked_until::text]) END)
        || (SELECT jsonb_build_object('changed', count(*) FILTER (WHERE o ->> 'outcome' = 'changed'),
            'unchanged', count(*) FILTER (WHERE o ->> 'outcome' = 'unchanged'),
            'rejected', count(*) FILTER (WHERE o ->> 'outcome' = 'rejected')) FROM jsonb_array_elements(outcomes) o);
END
$function$;
COMMENT ON FUNCTION pawl_api._act_on_rows(uuid, jsonb, text) IS 'internal: a part of an action on rows of an operation';

CREATE FUNCTION pawl_api.act_on_bulk_rows(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    b jsonb := pawl_api._object(body, '{action,reason,rows,filter,dry_run,limit,cursor}');
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    RETURN pawl_api._act_on_rows(id, b, pawl_api._need_row_action(b));
END
$function$;
COMMENT ON FUNCTION pawl_api.act_on_bulk_rows(jsonb, jsonb) IS
'Route: retries many failed rows of an operation, or completes or fails many that wait for a signal, each with an
outcome of its own. A retry is one statement for all of them, because an operation is retried as a whole; signals
are sent in parts, and next continues them.
q: id (of the operation). body: action (retry, complete, fail), reason (the message of the signal; fail needs it),
either rows (numbers, at most 500) or filter (an object of texts: rowId, state, stepName and search of bulk_rows; an
empty one matches all), dry_run (true: nothing is changed; default false), limit (of signals: 1 to 500, with dry_run
to 10000; default: the most), cursor (next of the answer before).
Returns changed, unchanged and rejected (how many), groups (outcome, state before, sqlstate, reason, count, up to
three examples), items (id: the row number as text; state before, outcome, sqlstate, reason; at most 500, rather
those that did not change; empty with dry_run), at, and next (null: the end).
Errors: 22023 an invalid body; P0002 no such operation; PW003 the operation cannot be retried any more; 54000 the
filter of a retry has not seen all rows within two seconds; 42501 the role may not execute the action; 0A000 pawl_bulk
is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.act_on_bulk_rows(''{"id": "01890000-0000-7000-8000-000000000001"}'',
''{"action": "retry", "rows": [4, 7], "dry_run": true}'')';
