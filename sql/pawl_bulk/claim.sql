-- Claims of rows by workers.

-- Claims from all queues but that of SQL functions, in the order of what each would give first.
CREATE FUNCTION pawl_bulk._claim_any(worker text, batch integer, lease interval) RETURNS pawl_bulk.work[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    queue text;
    taken pawl_bulk.work[] := '{}';
BEGIN
    FOR queue IN
        WITH RECURSIVE queues(name) AS (
            SELECT min(w.queue) FROM pawl_bulk.work w WHERE w.state IN ('ready', 'lost') AND w.due IS NULL
            UNION ALL
            SELECT (SELECT min(w.queue) FROM pawl_bulk.work w WHERE w.queue > q.name AND w.state IN ('ready', 'lost')
                AND w.due IS NULL) FROM queues q WHERE q.name IS NOT NULL)
        SELECT q.name FROM queues q
         CROSS JOIN LATERAL (SELECT w.priority, w.operation, w.row_number FROM pawl_bulk.work w
             WHERE w.queue = q.name AND w.state IN ('ready', 'lost') AND w.due IS NULL
                              ORDER BY w.priority DESC, w.operation, w.row_number, w.step_index LIMIT 1) head
         WHERE q.name <> 'sql:' ORDER BY head.priority DESC, head.operation, head.row_number LOOP
        taken := taken || ARRAY(SELECT c
            FROM pawl.claim(NULL::pawl_bulk.work, 'Take', worker, lease, batch - cardinality(taken), queue) c);
        EXIT WHEN cardinality(taken) >= batch;
    END LOOP;
    RETURN taken;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._claim_any(text, integer, interval) IS 'internal: claims rows of any queue';

-- queue: null: all but those of SQL functions.
CREATE FUNCTION pawl_bulk._take(worker text, queue text, batch integer, lease interval, OUT operations uuid[],
    OUT rows bigint[], OUT steps integer[], OUT kinds text[], OUT tokens bigint[], OUT leases timestamptz[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
BEGIN
    IF queue IS NOT NULL THEN
        SELECT array_agg(c.operation), array_agg(c.row_number), array_agg(c.step_index), array_agg(c.kind),
            array_agg(c.token), array_agg(c.lease_until) INTO operations, rows, steps, kinds, tokens, leases
          FROM pawl.claim(NULL::pawl_bulk.work, 'Take', worker, lease, batch, queue) c;
    ELSE
        SELECT array_agg(c.operation), array_agg(c.row_number), array_agg(c.step_index), array_agg(c.kind),
            array_agg(c.token), array_agg(c.lease_until) INTO operations, rows, steps, kinds, tokens, leases
          FROM unnest(pawl_bulk._claim_any(worker, batch, lease)) c;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._take(text, text, integer, interval) IS
'internal: claims rows; returns them, an array a column; null: there are none';

CREATE FUNCTION pawl_bulk.claim(processor text, queue text DEFAULT NULL, batch integer DEFAULT 100,
    lease interval DEFAULT NULL)
RETURNS TABLE (operation uuid, row_number bigint, step_index integer, step_name text, kind text, token bigint,
    attempt integer, tries integer,
               idempotency_key text, row_id text, data jsonb, metadata jsonb, lease_until timestamptz, traceparent text,
               tracestate text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
SET enable_nestloop = on
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
DECLARE
    taken record;
    its record;
    neighbours boolean := false;
BEGIN
    PERFORM pawl.check_batch(claim.batch, 10000), pawl.check_lease(claim.lease);
    IF coalesce(claim.processor, '') = '' THEN
        PERFORM pawl.raise('22004', 'no processor given');
    ELSIF claim.queue = 'sql:' THEN
        PERFORM pawl.raise('22023', 'the queue "sql:" is worked on inside the database', NULL,
            'select * from pawl_bulk.run_sql_rows()');
    END IF;
    -- due times are handled here too, so that a worker without a daemon gets on
    PERFORM FROM pawl.fire_due('pawl_bulk.work', greatest(batch, 100));
    taken := pawl_bulk._take(claim.processor, claim.queue, claim.batch, claim.lease);
    IF taken.rows IS NULL THEN
        RETURN;
    ELSIF cardinality(taken.rows) > 4 THEN
        -- whether they are neighbours of one step of an operation; to ask this costs more than a few look-ups
        SELECT o.operation, x.step_index, x.step_name, o.metadata, o.format, o.columns, o.traceparent, o.tracestate,
               coalesce(o.dialect ->> 'delimiter', ',') AS delimiter, coalesce(o.dialect ->> 'quote', '"') AS quote,
               rows.first, rows.last
          INTO its
          FROM (SELECT min(r) AS first, max(r) AS last, count(*) AS n FROM unnest(taken.rows) r) rows
         CROSS JOIN LATERAL (SELECT y.* FROM pawl_bulk.operations y WHERE y.operation = taken.operations[1] OFFSET 0) o
         CROSS JOIN LATERAL (SELECT y.* FROM pawl_bulk.steps y WHERE y.name = o.definition AND y.version = o.version
             AND y.step_index = taken.steps[1] OFFSET 0) x
         WHERE rows.last - rows.first < 2 * rows.n
           AND taken.operations[1] = ALL (taken.operations) AND taken.steps[1] = ALL (taken.steps);
        neighbours := FOUND;
    END IF;
    IF neighbours THEN
        -- read in order, and joined by hashes also if the plan was made while the tables were small
        PERFORM set_config('enable_nestloop', 'off', true);
        RETURN QUERY
            SELECT its.operation, w.row_number, its.step_index, its.step_name, w.kind, w.token,
                   r.retry_attempt::integer, r.tries::integer,
                   its.operation || '/' || w.row_number || '/' || its.step_index || '/' || r.retry_attempt, v.row_id,
                   CASE WHEN i.data IS NOT NULL THEN i.data WHEN i.problem IS NOT NULL THEN NULL
                        WHEN its.format = 'csv' THEN pawl_bulk.csv_row(i.raw, its.columns, its.delimiter, its.quote)
                        ELSE pawl_bulk._json(i.raw) END,
                   its.metadata, w.lease_until, its.traceparent, its.tracestate
              FROM unnest(taken.rows, taken.kinds, taken.tokens, taken.leases)
                  WITH ORDINALITY w(row_number, kind, token, lease_until)
              JOIN pawl_bulk.records r ON r.operation = its.operation AND r.row_number = w.row_number
               AND r.step_index = its.step_index AND r.row_number BETWEEN its.first AND its.last
              JOIN pawl_bulk.validations v ON v.operation = its.operation AND v.row_number = w.row_number
               AND v.row_number BETWEEN its.first AND its.last
              LEFT JOIN pawl_bulk.input i ON i.operation = its.operation AND i.row_number = w.row_number
               AND i.row_number BETWEEN its.first AND its.last
             ORDER BY w.ordinality;
        RETURN;
    END IF;
    -- looked up by whole keys: a plan made while the tables were small would walk through an operation for each row
    RETURN QUERY
        WITH s AS MATERIALIZED (
            SELECT o.operation, x.step_index, x.step_name, o.metadata, o.format, o.columns, o.traceparent, o.tracestate,
                   coalesce(o.dialect ->> 'delimiter', ',') AS delimiter, coalesce(o.dialect ->> 'quote', '"') AS quote
              FROM (SELECT DISTINCT u.operation, u.step_index
                  FROM unnest(taken.operations, taken.steps) u(operation, step_index)) t
             CROSS JOIN LATERAL (SELECT y.* FROM pawl_bulk.operations y WHERE y.operation = t.operation OFFSET 0) o
             CROSS JOIN LATERAL (SELECT y.* FROM pawl_bulk.steps y WHERE y.name = o.definition
                 AND y.version = o.version AND y.step_index = t.step_index OFFSET 0) x)
        SELECT w.operation, w.row_number, w.step_index, s.step_name, w.kind, w.token, r.retry_attempt::integer,
        r.tries::integer, w.operation || '/' || w.row_number || '/' || w.step_index || '/' || r.retry_attempt, v.row_id,
               CASE WHEN i.data IS NOT NULL THEN i.data WHEN i.problem IS NOT NULL THEN NULL
                    WHEN s.format = 'csv' THEN pawl_bulk.csv_row(i.raw, s.columns, s.delimiter, s.quote)
                    ELSE pawl_bulk._json(i.raw) END, s.metadata, w.lease_until, s.traceparent, s.tracestate
          FROM unnest(taken.operations, taken.rows, taken.steps, taken.kinds, taken.tokens, taken.leases)
                  WITH ORDINALITY w(operation, row_number, step_index, kind, token, lease_until)
          JOIN s ON s.operation = w.operation AND s.step_index = w.step_index
         CROSS JOIN LATERAL (SELECT x.retry_attempt, x.tries FROM pawl_bulk.records x WHERE x.operation = w.operation
             AND x.row_number = w.row_number AND x.step_index = w.step_index OFFSET 0) r
         CROSS JOIN LATERAL (SELECT x.row_id FROM pawl_bulk.validations x
             WHERE x.operation = w.operation AND x.row_number = w.row_number OFFSET 0) v
          LEFT JOIN LATERAL (SELECT x.data, x.raw, x.problem FROM pawl_bulk.input x
                              WHERE x.operation = w.operation AND x.row_number = w.row_number OFFSET 0) i ON true
         ORDER BY w.ordinality;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.claim(text, text, integer, interval) IS
'Claims rows for a worker: operations of the highest priority first, then the oldest, then the lowest row numbers.
pawl.heartbeat(''pawl_bulk.work'', processor) extends the leases.
processor: the worker. queue: default null: all but those of SQL functions. batch: 1 to 10000; default 100.
lease: default 60 s.
Returns operation, row_number, step_index, step_name, kind (start: do the work, report ok or fail; check: look
whether it is done, report done, pending or failed), token (the fencing token), attempt (of the operation), tries
(of the row), idempotency_key (the same for all executions of an attempt), row_id, data, metadata, lease_until,
traceparent and tracestate (of the trace in which the operation was submitted).
Errors: 22023 the queue is sql:, batch or lease out of range; 22004 no processor given. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT row_number, kind, data FROM pawl_bulk.claim(''worker 1'', ''send'', 10)';
