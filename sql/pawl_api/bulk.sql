-- Bulk operations (pawl_bulk), their rows, errors and retries. Paths and parameters are those of the seed, fields those
-- of the views.

CREATE FUNCTION pawl_api.list_bulks(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    page integer := pawl_api._limit(q);
    before uuid := coalesce((pawl_api._after(q, 1))[1]::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    found_ones record;
    items jsonb;
BEGIN
    SELECT x.* INTO found_ones FROM pawl_api._find_bulks(q, before, page) x;
    SELECT jsonb_agg(to_jsonb(s) ORDER BY s.operation DESC) INTO items FROM pawl_bulk.status s
     WHERE s.operation = ANY (found_ones.ids);
    RETURN pawl_api._page(items, page, 'operation');
END
$function$;
COMMENT ON FUNCTION pawl_api.list_bulks(jsonb) IS
'Route: bulk operations, newest first.
q: status (several by comma), operationName, createdBy, fromDate, toDate, limit (rows in the answer, 1 to 500), cursor
(next of the answer before). Returns the answer as JSON.
Errors: 22023 an invalid limit or cursor, or an unknown status; 0A000 pawl_bulk is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.list_bulks(''{"status": "Running", "limit": "20"}'')';

CREATE FUNCTION pawl_api.bulk_status(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    RETURN (SELECT to_jsonb(s) FROM pawl_bulk.status s WHERE s.operation = id);
END
$function$;
COMMENT ON FUNCTION pawl_api.bulk_status(jsonb) IS
'Route: status, counters and progress of an operation.
q: id (of the operation). Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 0A000 pawl_bulk is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.bulk_status(''{"id": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.get_bulk(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    o record;
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    SELECT x.* INTO o FROM pawl_bulk.operations x WHERE x.operation = id;
    RETURN (SELECT to_jsonb(s) FROM pawl_bulk.status s WHERE s.operation = id) || jsonb_build_object('metadata',
        o.metadata, 'source', o.source, 'format', o.format, 'columns', to_jsonb(o.columns),
        'input_bytes', o.input_bytes, 'checksum', o.checksum, 'sealed', o.sealed, 'input_error', o.input_error,
        'track_row_data', o.track_row_data, 'paused_by', o.paused_by,
        'steps',
        (SELECT coalesce(
                    jsonb_agg(jsonb_build_object('step_index', s.step_index, 'step_name', s.step_name, 'kind', s.kind)
                ORDER BY s.step_index), '[]')
                    FROM pawl_bulk.steps s WHERE s.name = o.definition AND s.version = o.version));
END
$function$;
COMMENT ON FUNCTION pawl_api.get_bulk(jsonb) IS
'Route: an operation with its metadata and steps.
q: id (of the operation). Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 0A000 pawl_bulk is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.get_bulk(''{"id": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.bulk_errors(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    page integer := pawl_api._limit(q);
    after bigint := coalesce((pawl_api._after(q, 1))[1]::bigint, 0);
    items jsonb;
    looked integer;
    last_row bigint;
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    -- a page of failed rows, each with all its errors, found by the two indexes on them
    SELECT count(*), max(f.row_number) INTO looked, last_row FROM (
        SELECT r.row_number FROM ((SELECT v.row_number FROM pawl_bulk.validations v
            WHERE v.operation = id AND v.errors IS NOT NULL AND v.row_number > after ORDER BY v.row_number LIMIT page)
                                  UNION (SELECT r.row_number FROM pawl_bulk.records r
                                      WHERE r.operation = id AND r.error_type IS NOT NULL AND r.row_number > after
                                      ORDER BY r.row_number LIMIT page)) r
         ORDER BY r.row_number LIMIT page) f;
    SELECT jsonb_agg(to_jsonb(e) ORDER BY e.row_number, e.step_index) INTO items FROM pawl_bulk.errors e
     WHERE e.operation = id AND e.row_number > after AND e.row_number <= last_row
         AND (q ->> 'rowNumber' IS NULL OR e.row_number = (q ->> 'rowNumber')::bigint)
       AND (q ->> 'rowId' IS NULL OR e.row_id = q ->> 'rowId')
       AND (q ->> 'errorType' IS NULL OR e.error_type = q ->> 'errorType');
    RETURN jsonb_build_object('items', coalesce(items, '[]'), 'next',
        CASE WHEN looked = page THEN pawl_api._cursor(ARRAY[last_row::text]) END);
END
$function$;
COMMENT ON FUNCTION pawl_api.bulk_errors(jsonb) IS
'Route: the errors of failed rows by row number; limit counts rows before the filters, so a page can be short.
q: id (of the operation), rowNumber, rowId, errorType, limit (rows in the answer, 1 to 500), cursor (next of the
answer before). Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 22023 an invalid limit or cursor; 0A000 pawl_bulk is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.bulk_errors(''{"id": "01890000-0000-7000-8000-000000000001", "errorType": "StepFailure"}'')';

CREATE FUNCTION pawl_api.bulk_error_summary(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    RETURN jsonb_build_object('items', (SELECT coalesce(jsonb_agg(to_jsonb(e) ORDER BY e.rows DESC), '[]')
        FROM pawl_bulk.error_summary e WHERE e.operation = id), 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.bulk_error_summary(jsonb) IS
'Route: failed rows by step, type and code.
q: id (of the operation). Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 0A000 pawl_bulk is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.bulk_error_summary(''{"id": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api._bulk_row(id uuid, first_row bigint, last_row bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    RETURN (SELECT jsonb_agg(jsonb_build_object('row_number', l.row_number, 'row_id', l.row_id, 'state', l.state,
        'step_name', l.step_name, 'step_index', l.step_index,
                'error_type', l.error_type, 'error_message', l.error_message, 'retry_attempt', l.retry_attempt,
                'created_at', l.created_at, 'completed_at', l.completed_at,
                'completed_steps', r.done, 'records', r.records) ORDER BY l.row_number)
              FROM pawl_bulk.latest_records l
              CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE x.step_index >= 0 AND x.state = 'Completed') AS done,
                  jsonb_agg(to_jsonb(x) - '{operation,row_number,row_id}'::text[] ORDER BY x.step_index) AS records
                                    FROM pawl_bulk.row_records x
            WHERE x.operation = l.operation AND x.row_number = l.row_number) r
             WHERE l.operation = id AND l.row_number BETWEEN first_row AND last_row);
END
$function$;
COMMENT ON FUNCTION pawl_api._bulk_row(uuid, bigint, bigint) IS 'internal: rows with their records';

CREATE FUNCTION pawl_api._find_rows(id uuid, f jsonb, after bigint, page integer, OUT numbers bigint[],
    OUT looked_until bigint)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    enough constant timestamptz := pawl_api._look_until();
    searched constant text := pawl_api._search(f);
    step constant integer := CASE WHEN searched IS NULL THEN 5000 ELSE 200 END;
    states constant text[] := pawl_api._states(f, 'state', 'pawl_bulk.row');
BEGIN
    numbers := '{}';
    LOOP
        numbers := numbers || ARRAY(SELECT l.row_number
              FROM (SELECT x.* FROM pawl_bulk.latest_records x WHERE x.operation = id AND x.row_number > after
                     ORDER BY x.row_number LIMIT step) l
             WHERE (f ->> 'rowId' IS NULL OR l.row_id = f ->> 'rowId') AND (states IS NULL OR l.state = ANY (states))
               AND (f ->> 'stepName' IS NULL OR l.step_name = f ->> 'stepName')
               AND (searched IS NULL OR pawl_api._has_text(searched, l.row_id, l.error_message, l.raw,
                   (SELECT coalesce(i.raw, i.data::text) FROM pawl_bulk.input i
                     WHERE i.operation = id AND i.row_number = l.row_number)))
             ORDER BY l.row_number LIMIT page - cardinality(numbers));
        EXIT WHEN cardinality(numbers) = page;
        looked_until := (SELECT x.row_number FROM pawl_bulk.latest_records x WHERE x.operation = id
            AND x.row_number > after ORDER BY x.row_number OFFSET step - 1 LIMIT 1);
        EXIT WHEN looked_until IS NULL OR clock_timestamp() > enough;
        after := looked_until;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_api._find_rows(uuid, jsonb, bigint, integer) IS
'internal: rows of an operation that a filter matches, by number; a text is searched in data, id and error';

CREATE FUNCTION pawl_api.bulk_rows(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    page integer := pawl_api._limit(q);
    after bigint := coalesce((pawl_api._after(q, 1))[1]::bigint, 0);
    found_ones record;
    items jsonb;
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    SELECT x.* INTO found_ones FROM pawl_api._find_rows(id, q, after, page) x;
    SELECT jsonb_agg(pawl_api._bulk_row(id, n, n) -> 0 ORDER BY n) INTO items FROM unnest(found_ones.numbers) n;
    RETURN pawl_api._filtered_page(items, page, '{row_number}', string_to_array(found_ones.looked_until::text, ','));
END
$function$;
COMMENT ON FUNCTION pawl_api.bulk_rows(jsonb) IS
'Route: rows with their states and records; the filters look at rows for 100 ms for each page (setting
pawl_api.look_for_ms), so a page can be short or empty and still have a next one.
q: id (of the operation), rowId, state, stepName, search (a text of the row''s data, id or error, in any case), limit
(rows in the answer, 1 to 500), cursor (next of the answer before). Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 22023 an invalid limit or cursor, or an unknown state; 0A000
pawl_bulk is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.bulk_rows(''{"id": "01890000-0000-7000-8000-000000000001", "state": "Failed"}'')';

CREATE FUNCTION pawl_api.bulk_row(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    wanted bigint := (q ->> 'row')::bigint;
    found_one jsonb;
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    found_one := pawl_api._bulk_row(id, wanted, wanted) -> 0;
    IF found_one IS NULL THEN
        PERFORM pawl.raise('P0002', format('operation %s has no row %s', id, wanted));
    END IF;
    RETURN found_one || jsonb_build_object('data',
        (SELECT pawl_bulk.row_data(id, wanted) FROM pawl_bulk.operations o WHERE o.operation = id AND o.track_row_data),
        'signal_keys', (SELECT coalesce(jsonb_agg(jsonb_build_object('key', k.key, 'step_index', k.step_index)), '[]')
            FROM pawl_bulk.signal_keys k WHERE k.row_number = wanted AND k.operation = id),
        'history', (SELECT coalesce(jsonb_agg(to_jsonb(h) - 'operation' ORDER BY h.step_index, h.attempt), '[]')
            FROM pawl_bulk.retry_history h WHERE h.operation = id AND h.row_number = wanted));
END
$function$;
COMMENT ON FUNCTION pawl_api.bulk_row(jsonb) IS
'Route: a row with its data, records, signal keys and retries.
q: id (of the operation), row (its number). Returns the answer as JSON.
Errors: P0002 no such operation or row; 22023 id is not a uuid; 0A000 pawl_bulk is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.bulk_row(''{"id": "01890000-0000-7000-8000-000000000001", "row": "1"}'')';

CREATE FUNCTION pawl_api.bulk_waiting(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    page integer := pawl_api._limit(q);
    after text[] := coalesce(pawl_api._after(q, 2), '{0,-1}');
    items jsonb;
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    SELECT jsonb_agg(jsonb_build_object('key', k.key, 'row_number', w.row_number, 'step_index', w.step_index,
        'step_name', s.step_name, 'since', r.started_at, 'timeout_at', w.deadline_at)
                     ORDER BY w.row_number, w.step_index) INTO items
      FROM (SELECT x.* FROM pawl_bulk.work x WHERE x.operation = id AND x.kind = 'signal'
          AND (x.row_number, x.step_index) > (after[1]::bigint, after[2]::integer)
             ORDER BY x.row_number, x.step_index LIMIT page) w
      JOIN pawl_bulk.operations o ON o.operation = id
      JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = w.step_index
      LEFT JOIN pawl_bulk.records r ON r.operation = id AND r.row_number = w.row_number AND r.step_index = w.step_index
      LEFT JOIN LATERAL (SELECT x.key FROM pawl_bulk.signal_keys x
          WHERE x.row_number = w.row_number AND x.operation = id AND x.step_index = w.step_index LIMIT 1) k ON true;
    RETURN pawl_api._page(items, page, 'row_number', 'step_index');
END
$function$;
COMMENT ON FUNCTION pawl_api.bulk_waiting(jsonb) IS
'Route: rows that wait for a signal, with its key.
q: id (of the operation), limit (rows in the answer, 1 to 500), cursor (next of the answer before). Returns the
answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 22023 an invalid limit or cursor; 0A000 pawl_bulk is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.bulk_waiting(''{"id": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.bulk_eligibility(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    RETURN (SELECT jsonb_build_object('eligible', c.eligible, 'reason', c.reason, 'message', c.message)
        FROM pawl_bulk.can_retry(id) c);
END
$function$;
COMMENT ON FUNCTION pawl_api.bulk_eligibility(jsonb) IS
'Route: whether an operation can be retried, and why not.
q: id (of the operation). Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 0A000 pawl_bulk is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.bulk_eligibility(''{"id": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.bulk_retries(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    id uuid := pawl_api._uuid(q, 'id');
    page integer := pawl_api._limit(q);
    after text[] := coalesce(pawl_api._after(q, 3), '{0,-1,-1}');
    items jsonb;
BEGIN
    PERFORM pawl_api._need_one('operation', id);
    SELECT jsonb_agg(to_jsonb(h) - 'operation' ORDER BY h.row_number, h.step_index, h.attempt) INTO items
      FROM (SELECT x.* FROM pawl_bulk.retry_history x WHERE x.operation = id
          AND (x.row_number, x.step_index, x.attempt) > (after[1]::bigint, after[2]::integer, after[3]::integer)
               AND (q ->> 'rowNumber' IS NULL OR x.row_number = (q ->> 'rowNumber')::bigint)
                   ORDER BY x.row_number, x.step_index, x.attempt LIMIT page) h;
    RETURN pawl_api._page(items, page, 'row_number', 'step_index', 'attempt');
END
$function$;
COMMENT ON FUNCTION pawl_api.bulk_retries(jsonb) IS
'Route: failed records as they were before a retry reset them.
q: id (of the operation), rowNumber, limit (rows in the answer, 1 to 500), cursor (next of the answer before).
Returns the answer as JSON.
Errors: P0002 no such operation; 22023 id is not a uuid; 22023 an invalid limit or cursor; 0A000 pawl_bulk is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.bulk_retries(''{"id": "01890000-0000-7000-8000-000000000001"}'')';
