-- Workers outside: they claim, work, and report.

CREATE FUNCTION pawl_bulk.claim(worker text, queue text DEFAULT NULL, batch integer DEFAULT 100, lease interval DEFAULT NULL)
RETURNS TABLE (operation uuid, row_number bigint, step_index integer, step_name text, kind text, token bigint, attempt integer, tries integer,
               idempotency_key text, row_id text, data jsonb, metadata jsonb, lease_until timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
#variable_conflict use_column
DECLARE
    taken pawl_bulk.work[];
BEGIN
    IF coalesce(claim.worker, '') = '' THEN
        PERFORM pawl._raise('22004', 'a worker needs a name');
    END IF;
    -- times that have passed are seen to here too, so that a worker alone gets on
    PERFORM FROM pawl.fire_due('pawl_bulk.work', greatest(batch, 100));
    SELECT array_agg(c) INTO taken FROM pawl.claim(NULL::pawl_bulk.work, 'Take', claim.worker, claim.lease, claim.batch, claim.queue) c
     WHERE c.queue <> 'sql:';
    RETURN QUERY
        SELECT w.operation, w.row_number, w.step_index, s.step_name, w.kind, w.fence, r.retry_attempt::integer, r.tries::integer,
               format('%s/%s/%s/%s', w.operation, w.row_number, w.step_index, r.retry_attempt), v.row_id,
               CASE WHEN i.data IS NOT NULL THEN i.data ELSE pawl_bulk.row_data(w.operation, w.row_number) END, o.metadata, w.lease_until
          FROM unnest(taken) WITH ORDINALITY w
          JOIN pawl_bulk.records r ON r.operation = w.operation AND r.row_number = w.row_number AND r.step_index = w.step_index
          JOIN pawl_bulk.operations o ON o.operation = w.operation
          JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = w.step_index
          JOIN pawl_bulk.validations v ON v.operation = w.operation AND v.row_number = w.row_number
          LEFT JOIN pawl_bulk.input i ON i.operation = w.operation AND i.row_number = w.row_number
         ORDER BY w.ordinality;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.claim(text, text, integer, interval) IS
'takes at most batch rows to be worked on, the lowest row numbers of the oldest operations of the highest priority first, and returns them with what a handler needs. kind: start (do the step''s work, report ok or fail) or check (look whether it is done, report done, pending or failed). idempotency_key is the same for every execution of an attempt. The lease (60 s) is extended by pawl.heartbeat(''pawl_bulk.work'', worker)';

CREATE FUNCTION pawl_bulk.report(results jsonb, worker text) RETURNS TABLE (operation uuid, row_number bigint, step_index integer, ok boolean, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
#variable_conflict use_column
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    said record;
    fine record;
    now_at timestamptz;
BEGIN
    IF jsonb_typeof(results) IS DISTINCT FROM 'array' THEN
        PERFORM pawl._raise('22023', 'results must be a JSON array', NULL, '[{"operation", "row_number", "step_index", "token", "result": "ok", "message"}]');
    ELSIF coalesce(report.worker, '') = '' THEN
        PERFORM pawl._raise('PW004', 'a report is of somebody');
    END IF;
    SELECT array_agg(x.operation ORDER BY x.operation, x.row_number, x.step_index) AS operations, array_agg(x.row_number ORDER BY x.operation, x.row_number, x.step_index) AS rows,
           array_agg(x.step_index ORDER BY x.operation, x.row_number, x.step_index) AS steps, array_agg(x.token ORDER BY x.operation, x.row_number, x.step_index) AS tokens,
           array_agg(x.result ORDER BY x.operation, x.row_number, x.step_index) AS results, array_agg(coalesce(x.message, '') ORDER BY x.operation, x.row_number, x.step_index) AS messages
      INTO said FROM jsonb_to_recordset(report.results) x(operation uuid, row_number bigint, step_index integer, token bigint, result text, message text);
    IF said.operations IS NULL THEN
        RETURN;
    ELSIF array_position(said.operations, NULL) IS NOT NULL OR array_position(said.rows, NULL) IS NOT NULL OR array_position(said.steps, NULL) IS NOT NULL
          OR NOT said.results <@ '{ok,fail,done,pending,failed}' OR array_position(said.results, NULL) IS NOT NULL THEN
        PERFORM pawl._raise('22023', 'a result names operation, row_number, step_index, token and result', 'result is ok or fail of a start, done, pending or failed of a check.');
    END IF;
    PERFORM pawl_bulk._hold(said.operations);
    PERFORM set_config('pawl.processor', report.worker, true);
    PERFORM FROM unnest(said.operations, said.rows, said.steps) u(operation, row_number, step_index)
       JOIN pawl_bulk.work w ON w.operation = u.operation AND w.row_number = u.row_number AND w.step_index = u.step_index FOR UPDATE OF w;
    now_at := clock_timestamp();
    SELECT array_agg(u.n) AS places, array_agg(u.operation) AS operations, array_agg(u.row_number) AS rows, array_agg(u.step_index) AS steps, array_agg(u.result) AS results,
           array_agg(u.message) AS messages
      INTO fine
      FROM unnest(said.operations, said.rows, said.steps, said.tokens, said.results, said.messages) WITH ORDINALITY u(operation, row_number, step_index, token, result, message, n)
      JOIN pawl_bulk.work w ON w.operation = u.operation AND w.row_number = u.row_number AND w.step_index = u.step_index
     WHERE w.state = 'leased' AND w.worker = report.worker AND w.fence = u.token AND w.lease_until > now_at
       AND (w.deadline_at IS NULL OR w.deadline_at > now_at OR w.kind = 'check')
       AND u.result = ANY (CASE w.kind WHEN 'start' THEN '{ok,fail}'::text[] ELSE '{done,pending,failed}' END);
    IF fine.operations IS NOT NULL THEN
        PERFORM pawl_bulk._settle(fine.operations, fine.rows, fine.steps, fine.results, fine.messages);
    END IF;
    PERFORM set_config('pawl.processor', caller, true);
    RETURN QUERY
        SELECT u.operation, u.row_number, u.step_index, u.n = ANY (fine.places) IS TRUE,
               CASE WHEN u.n = ANY (fine.places) THEN NULL
                    WHEN w.worker = report.worker AND w.fence = u.token AND w.lease_until > now_at AND w.state = 'leased' AND u.result IN ('ok', 'fail') <> (w.kind = 'start')
                    THEN format('22023: "%s" is no result of a %s', u.result, w.kind)
                    ELSE 'PW005: the row is lost, or is done already' END
          FROM unnest(said.operations, said.rows, said.steps, said.tokens, said.results) WITH ORDINALITY u(operation, row_number, step_index, token, result, n)
          LEFT JOIN pawl_bulk.work w ON w.operation = u.operation AND w.row_number = u.row_number AND w.step_index = u.step_index
         ORDER BY u.n;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.report(jsonb, text) IS
'tells what came of rows that the worker claimed: [{"operation", "row_number", "step_index", "token", "result", "message"}], in one statement for all. Rows whose lease or token is lost are refused (ok false, problem PW005) and leave the others alone. 22023: no such result; PW004: no worker is named';
