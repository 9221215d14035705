-- What workers report of the rows that they claimed.

CREATE FUNCTION pawl_bulk._bigint(value text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$ SELECT CASE WHEN value ~ '^-?[0-9]{1,18}$' THEN value::bigint END $function$;
COMMENT ON FUNCTION pawl_bulk._bigint(text) IS 'internal: a number; null: it is none';

CREATE FUNCTION pawl_bulk._uuid(value text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$ SELECT CASE WHEN value ~* '^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$' THEN value::uuid END $function$;
COMMENT ON FUNCTION pawl_bulk._uuid(text) IS 'internal: a uuid; null: it is none';

-- The results that can be looked at, in the order of their rows and of the report; again: some are of the same row.
-- invalid: the other elements, as an array; null: there are none.
CREATE FUNCTION pawl_bulk._read_results(report jsonb, OUT operations uuid[], OUT rows bigint[], OUT steps integer[],
    OUT tokens bigint[], OUT results text[], OUT messages text[], OUT again boolean, OUT invalid jsonb)
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_read_results';
COMMENT ON FUNCTION pawl_bulk._read_results(jsonb) IS 'internal: reads the results that a worker reports';

-- lost: the problem of rows whose lease has expired.
CREATE FUNCTION pawl_bulk._record_each(operations uuid[], rows bigint[], steps integer[], results text[],
        messages text[], problems text[], lost text) RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    FOR k IN 1 .. cardinality(rows) LOOP
        CONTINUE WHEN problems[k] IS NOT NULL;
        BEGIN
            PERFORM pawl_bulk._record_ends(operations[k:k], rows[k:k], steps[k:k], results[k:k], messages[k:k]);
        EXCEPTION WHEN SQLSTATE 'PW004' OR SQLSTATE 'PW005' THEN
            problems[k] := CASE WHEN EXISTS (SELECT FROM pawl_bulk.work w
                WHERE w.operation = operations[k] AND w.row_number = rows[k] AND w.step_index = steps[k]
                    AND w.lease_until <= clock_timestamp()) THEN lost ELSE SQLSTATE || ': ' || SQLERRM END;
        WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl_bulk._ends_duty(SQLSTATE) OR pawl.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            problems[k] := SQLSTATE || ': ' || SQLERRM;
        END;
    END LOOP;
    RETURN problems;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._record_each(uuid[], bigint[], integer[], text[], text[], text[], text) IS
'internal: records results one by one; returns what is wrong with each';

CREATE FUNCTION pawl_bulk._first_results(operations uuid[], rows bigint[], steps integer[], problems text[])
    RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT array_agg(x.first ORDER BY x.k)
      FROM (SELECT u.k,
          min(u.k) FILTER (WHERE u.problem IS NULL) OVER (PARTITION BY u.operation, u.row_number, u.step_index) AS first
              FROM unnest(operations, rows, steps, problems)
                  WITH ORDINALITY u(operation, row_number, step_index, problem, k)) x
$function$;
COMMENT ON FUNCTION pawl_bulk._first_results(uuid[], bigint[], integer[], text[]) IS
'internal: for each result the first one of its row that has no problem; null: none';

CREATE FUNCTION pawl_bulk.report(results jsonb, processor text)
    RETURNS TABLE (operation uuid, row_number bigint, step_index integer, ok boolean, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
DECLARE
    lost constant text := 'PW005: the lease is lost, or the row is already done';
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    said record;
    fine record;
    held record;
    problems text[];
    firsts bigint[];
    n integer;
    is_complete boolean;
    now_at timestamptz;
BEGIN
    IF jsonb_typeof(results) IS DISTINCT FROM 'array' THEN
        PERFORM pawl.raise('22023', 'results must be a JSON array', NULL,
            '[{"operation", "row_number", "step_index", "token", "result": "ok", "message"}]');
    ELSIF coalesce(report.processor, '') = '' THEN
        PERFORM pawl.raise('PW004', 'reports require a processor');
    END IF;
    said := pawl_bulk._read_results(report.results);
    -- each is checked alone: an invalid one does not affect the others
    IF said.invalid IS NOT NULL THEN
        RETURN QUERY SELECT pawl_bulk._uuid(e ->> 'operation'), pawl_bulk._bigint(e ->> 'row_number'),
            CASE WHEN pawl_bulk._bigint(e ->> 'step_index') BETWEEN -2147483648 AND 2147483647
                THEN pawl_bulk._bigint(e ->> 'step_index')::integer END, false,
            '22023: a result must have operation, row_number, step_index, token and result; result must '
            'be ok or fail of a start, done, pending or failed of a check'
          FROM jsonb_array_elements(said.invalid) e;
    END IF;
    IF said.operations IS NULL THEN
        RETURN;
    END IF;
    n := cardinality(said.rows);
    PERFORM pawl_bulk._hold(said.operations);
    PERFORM set_config('pawl.processor', report.processor, true);
    -- the work as it is once it is locked, in the order of the results; that of neighbours is read in order, and if
    -- some of it is missing, each is looked up
    IF said.operations[1] = said.operations[n] AND said.rows[n] - said.rows[1] < 2 * n
            AND said.steps[1] = ALL (said.steps) AND NOT said.again THEN
        SELECT array_agg(w.state) AS states, array_agg(w.kind) AS kinds, array_agg(w.worker) AS workers,
            array_agg(w.token) AS tokens, array_agg(w.lease_until) AS leases, array_agg(w.deadline_at) AS deadlines
          INTO held FROM (SELECT x.* FROM pawl_bulk.work x WHERE x.operation = said.operations[1]
              AND x.row_number BETWEEN said.rows[1] AND said.rows[n] AND x.step_index = said.steps[1]
              AND (x.row_number IN (SELECT unnest(said.rows))) IS TRUE ORDER BY x.row_number FOR UPDATE) w;
        is_complete := cardinality(held.states) = n;
    END IF;
    IF is_complete IS NOT TRUE THEN
        SELECT array_agg(w.state) AS states, array_agg(w.kind) AS kinds, array_agg(w.worker) AS workers,
            array_agg(w.token) AS tokens, array_agg(w.lease_until) AS leases, array_agg(w.deadline_at) AS deadlines
          INTO held FROM unnest(said.operations, said.rows, said.steps) u(operation, row_number, step_index)
          LEFT JOIN LATERAL (SELECT x.* FROM pawl_bulk.work x WHERE x.operation = u.operation
              AND x.row_number = u.row_number AND x.step_index = u.step_index FOR UPDATE) w ON true;
    END IF;
    -- a lease can expire between the check and the UPDATE: that row is lost, and the others are looked at again
    FOR look IN 1..3 LOOP
        now_at := clock_timestamp();
        problems := ARRAY(
            SELECT CASE WHEN (u.state = 'leased' AND u.worker = report.processor AND u.token = u.reported_token
                    AND u.lease_until > now_at) IS NOT TRUE THEN lost
                        WHEN u.result IN ('ok', 'fail') <> (u.kind = 'start')
                            THEN format('22023: "%s" is not a result of a %s', u.result, u.kind)
                        WHEN u.deadline_at <= now_at AND u.kind <> 'check' THEN lost END
              FROM unnest(said.tokens, said.results, held.states, held.kinds, held.workers, held.tokens, held.leases,
                  held.deadlines)
                   u(reported_token, result, state, kind, worker, token, lease_until, deadline_at));
        IF said.again THEN
            firsts := pawl_bulk._first_results(said.operations, said.rows, said.steps, problems);
            -- '': it repeats the first result, and gets the same answer
            problems := ARRAY(SELECT CASE WHEN u.problem IS NOT NULL OR u.k = u.first THEN u.problem
                WHEN (u.result, u.message) = (said.results[u.first], said.messages[u.first]) THEN '' ELSE lost END
                                FROM unnest(said.results, said.messages, problems, firsts)
                                    WITH ORDINALITY u(result, message, problem, first, k) ORDER BY u.k);
        END IF;
        IF array_remove(problems, NULL) = '{}' THEN
            fine := said;
        ELSE
            SELECT array_agg(u.operation) AS operations, array_agg(u.row_number) AS rows,
                array_agg(u.step_index) AS steps, array_agg(u.result) AS results, array_agg(u.message) AS messages
              INTO fine FROM unnest(said.operations, said.rows, said.steps, said.results, said.messages,
                  problems) u(operation, row_number, step_index, result, message, problem)
             WHERE u.problem IS NULL;
        END IF;
        EXIT WHEN fine.operations IS NULL;
        BEGIN
            PERFORM pawl_bulk._record_ends(fine.operations, fine.rows, fine.steps, fine.results, fine.messages);
            EXIT;
        EXCEPTION WHEN SQLSTATE 'PW005' THEN
            IF look = 3 THEN
                problems := pawl_bulk._record_each(said.operations, said.rows, said.steps, said.results, said.messages,
                    problems, lost);
            END IF;
        WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl_bulk._ends_duty(SQLSTATE) OR pawl.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            problems := pawl_bulk._record_each(said.operations, said.rows, said.steps, said.results, said.messages,
                problems, lost);
            EXIT;
        END;
    END LOOP;
    PERFORM set_config('pawl.processor', caller, true);
    IF said.again THEN
        problems := ARRAY(SELECT CASE u.problem WHEN '' THEN problems[u.first] ELSE u.problem END
            FROM unnest(problems, firsts) WITH ORDINALITY u(problem, first, k) ORDER BY u.k);
    END IF;
    RETURN QUERY
        SELECT u.operation, u.row_number, u.step_index, u.problem IS NULL, u.problem
          FROM unnest(said.operations, said.rows, said.steps, problems) u(operation, row_number, step_index, problem);
END
$function$;
COMMENT ON FUNCTION pawl_bulk.report(jsonb, text) IS
'Records results of claimed rows, and returns one row for each. The first result of a row counts; the same result
can be reported again.
results: [{"operation", "row_number", "step_index", "token", "result": ok, fail, done, pending or failed,
"message"}]. processor: the worker.
Returns operation, row_number, step_index, ok and problem (PW005: the lease is lost, or the row is already done;
22023: an invalid element).
Errors: 22023 results is not an array; PW004 no processor given. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_bulk.report(''[]'', ''worker 1'')';
