-- Views of operations: status, rows, errors, recounted counters, events in order.

CREATE VIEW pawl_bulk.status AS
SELECT o.operation, o.definition, o.version, o.status, o.paused_at, t.total_rows,
t.successful_rows + t.failed_rows AS processed_rows,
       t.successful_rows, t.failed_rows,
       CASE WHEN t.total_rows > 0 THEN round(100.0 * (t.successful_rows + t.failed_rows) / t.total_rows, 2) ELSE 0 END
       AS progress, t.validated_rows, t.rate, CASE WHEN o.status = 'Running' AND t.rate > 0 AND o.paused_at IS NULL
           THEN pg_catalog.clock_timestamp()
           + pg_catalog.make_interval(
               secs => ((t.total_rows - t.successful_rows - t.failed_rows) / t.rate)::double precision) END
           AS estimated_end,
       o.retry_count, o.error_message, o.priority, o.created_by, o.file_name, o.created_at, o.started_at, o.completed_at
  FROM pawl_bulk.operations o
 CROSS JOIN LATERAL (SELECT CASE WHEN o.status IN ('Pending', 'Validating') THEN 0 ELSE o.total_rows END AS total_rows,
     s.validated AS validated_rows, s.successful AS successful_rows, s.failed AS failed_rows,
                            CASE WHEN o.started_at IS NOT NULL AND s.successful + s.failed > 0
                                 THEN round(((s.successful + s.failed) / greatest(extract(epoch
                 FROM coalesce(o.completed_at, pg_catalog.clock_timestamp()) - o.started_at), 0.001))::numeric, 1) END
     AS rate
                       FROM (SELECT coalesce(sum(x.validated), 0)::bigint AS validated,
                           coalesce(sum(x.successful), 0)::bigint AS successful,
                                    coalesce(sum(x.failed), 0)::bigint AS failed FROM pawl_bulk.tallies x
                                    WHERE x.operation = o.operation) s) t;
COMMENT ON VIEW pawl_bulk.status IS
'operations with their counters, the progress in percent, rows per second since the start, and the estimated end. '
'total_rows is 0 until the rows are validated; validated_rows counts meanwhile';

-- Counts an operation again, from the records themselves.
CREATE FUNCTION pawl_bulk.recount(operation uuid,
    OUT total bigint, OUT processed bigint, OUT successful bigint, OUT failed bigint, OUT differs boolean)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT c.total, c.successful + c.failed, c.successful, c.failed,
           (c.total, c.successful, c.failed) IS DISTINCT FROM (s.total_rows, s.successful_rows, s.failed_rows)
      FROM (SELECT CASE WHEN o.status IN ('Pending', 'Validating') THEN 0 ELSE v.total END AS total,
          coalesce(r.successful, 0) AS successful, v.failed + coalesce(r.failed, 0) AS failed
              FROM pawl_bulk.operations o
             CROSS JOIN LATERAL (SELECT count(*) AS total, count(*) FILTER (WHERE x.state = 'Failed') AS failed
                                   FROM pawl_bulk.validations x WHERE x.operation = o.operation) v
             CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE l.state = 'Completed' AND l.step_index = o.last_step)
                 AS successful, count(*) FILTER (WHERE l.state IN ('Failed', 'TimedOut')) AS failed
                                   FROM (SELECT DISTINCT ON (x.row_number) x.step_index, x.state
                                       FROM pawl_bulk.records x
                                          WHERE x.operation = o.operation ORDER BY x.row_number, x.step_index DESC) l) r
             WHERE o.operation = recount.operation) c
      JOIN pawl_bulk.status s ON s.operation = recount.operation
$function$;
COMMENT ON FUNCTION pawl_bulk.recount(uuid) IS
'Counts the records of an operation again, in one snapshot. operation: its id.
Returns total, processed, successful, failed, and differs (pawl_bulk.status has other counts).
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT r.* FROM pawl_bulk.operations o CROSS JOIN LATERAL pawl_bulk.recount(o.operation) r';

CREATE VIEW pawl_bulk.row_records AS
SELECT v.operation, v.row_number, v.row_id, -1 AS step_index, 'validation'::text COLLATE "C" AS step_name, v.state,
CASE WHEN v.errors IS NOT NULL THEN 'Validation'::text COLLATE "C" END AS error_type,
       (SELECT pg_catalog.string_agg(coalesce(e ->> 'message', e ->> 'code'), '; ')
               FROM pg_catalog.jsonb_array_elements(v.errors) e) AS error_message, v.errors,
       0 AS retry_attempt, NULL::integer AS retry_from_step_index, 0 AS tries, v.created_at, v.created_at AS started_at,
       v.created_at AS completed_at
  FROM pawl_bulk.validations v
UNION ALL
SELECT r.operation, r.row_number, v.row_id, r.step_index, s.step_name, r.state, r.error_type, r.error_message,
NULL::jsonb, r.retry_attempt::integer,
       CASE WHEN r.retry_attempt > 0 THEN r.step_index END, r.tries::integer, r.created_at, r.started_at, r.completed_at
  FROM pawl_bulk.records r
  JOIN pawl_bulk.operations o ON o.operation = r.operation
  JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = r.step_index
  JOIN pawl_bulk.validations v ON v.operation = r.operation AND v.row_number = r.row_number;
COMMENT ON VIEW pawl_bulk.row_records IS 'every record of every row: step -1 is its validation';

CREATE VIEW pawl_bulk.errors AS
SELECT v.operation, v.row_number, v.row_id, -1 AS step_index, 'validation'::text COLLATE "C" AS step_name,
'Validation'::text COLLATE "C" AS error_type, e.error ->> 'code' AS code,
       coalesce(e.error ->> 'message', e.error ->> 'code') AS message, v.created_at AS failed_at, 0 AS retry_attempt
  FROM pawl_bulk.validations v CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(v.errors) e(error)
 WHERE v.errors IS NOT NULL
UNION ALL
SELECT r.operation, r.row_number, v.row_id, r.step_index, s.step_name, r.error_type, NULL, r.error_message,
r.completed_at, r.retry_attempt::integer
  FROM pawl_bulk.records r
  JOIN pawl_bulk.operations o ON o.operation = r.operation
  JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = r.step_index
  JOIN pawl_bulk.validations v ON v.operation = r.operation AND v.row_number = r.row_number
 WHERE r.error_type IS NOT NULL AND r.state IN ('Failed', 'TimedOut');
COMMENT ON VIEW pawl_bulk.errors IS
'why rows are failed: one line for every error of a validation, one for a failed step';

CREATE VIEW pawl_bulk.error_summary AS
SELECT e.operation, e.step_index, e.step_name, e.error_type, e.code, count(DISTINCT e.row_number) AS rows,
min(e.row_number) AS first_row, min(e.message) AS example
  FROM pawl_bulk.errors e GROUP BY e.operation, e.step_index, e.step_name, e.error_type, e.code;
COMMENT ON VIEW pawl_bulk.error_summary IS 'failed rows of operations by step, type and code';

-- The invariants of a pause, and of going on.
CREATE FUNCTION pawl_bulk._verify_steps(operation uuid) RETURNS TABLE (operation_id uuid, problem text, detail text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT w.operation, 'held without a pause', format('row %s step %s', w.row_number, w.step_index)
    FROM pawl_bulk.work w JOIN pawl_bulk.operations o ON o.operation = w.operation
     WHERE (_verify_steps.operation IS NULL OR w.operation = _verify_steps.operation) AND w.held
         AND o.paused_at IS NULL AND o.status <> 'Retrying'
    UNION ALL
    SELECT w.operation, 'not held in a pause', format('row %s step %s %s', w.row_number, w.step_index, w.state)
    FROM pawl_bulk.work w JOIN pawl_bulk.operations o ON o.operation = w.operation
     WHERE (_verify_steps.operation IS NULL OR w.operation = _verify_steps.operation) AND NOT w.held
         AND w.kind IN ('start', 'rows') AND w.state IN ('ready', 'lost') AND o.paused_at IS NOT NULL
    UNION ALL
    SELECT r.operation, 'step missing', format('row %s step %s', r.row_number, r.step_index + 1)
    FROM pawl_bulk.records r JOIN pawl_bulk.operations o ON o.operation = r.operation
     WHERE (_verify_steps.operation IS NULL OR r.operation = _verify_steps.operation) AND r.state = 'Completed'
         AND r.step_index < o.last_step AND o.status = 'Running'
       AND NOT EXISTS (SELECT FROM pawl_bulk.records x
           WHERE x.operation = r.operation AND x.row_number = r.row_number AND x.step_index = r.step_index + 1)
$function$;
COMMENT ON FUNCTION pawl_bulk._verify_steps(uuid) IS
'internal: work that a pause holds or not, against the operation, and completed records that did not go on';

-- Invariants; no row: all hold.
CREATE FUNCTION pawl_bulk.verify(operation uuid DEFAULT NULL)
    RETURNS TABLE (operation_id uuid, problem text, detail text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT o.operation, 'counters', format('recount %s', c) FROM pawl_bulk.operations o
        CROSS JOIN LATERAL pawl_bulk.recount(o.operation) c
     WHERE (verify.operation IS NULL OR o.operation = verify.operation) AND c.differs
    UNION ALL
    SELECT t.operation, 'cannot advance', format('%s times, %s: %s', t.failures, t.sqlstate, t.message)
    FROM pawl_bulk.troubles t
     WHERE (verify.operation IS NULL OR t.operation = verify.operation) AND t.failures >= 5
    UNION ALL
    SELECT r.operation, 'active record without work', format('row %s step %s %s', r.row_number, r.step_index, r.state)
    FROM pawl_bulk.records r
     WHERE (verify.operation IS NULL OR r.operation = verify.operation)
         AND r.state IN ('Pending', 'Running', 'WaitingForCompletion')
       AND NOT EXISTS (SELECT FROM pawl_bulk.work w
           WHERE w.operation = r.operation AND w.row_number = r.row_number AND w.step_index = r.step_index)
       AND NOT EXISTS (SELECT FROM pawl_bulk.work w
           WHERE w.operation = r.operation AND r.step_index = 0 AND r.row_number BETWEEN w.row_number AND w.last_row)
    UNION ALL
    SELECT v.operation, 'valid row without record or block', format('row %s', v.row_number) FROM pawl_bulk.validations v
      JOIN pawl_bulk.operations o ON o.operation = v.operation
     WHERE (verify.operation IS NULL OR v.operation = verify.operation) AND v.state = 'Completed'
         AND v.row_number <= o.opened_through AND o.completed_at IS NULL
       AND NOT EXISTS (SELECT FROM pawl_bulk.records r
           WHERE r.operation = v.operation AND r.row_number = v.row_number AND r.step_index = 0)
       AND NOT EXISTS (SELECT FROM pawl_bulk.work w
           WHERE w.operation = v.operation AND v.row_number BETWEEN w.row_number AND w.last_row)
    UNION ALL
    SELECT w.operation, 'work without active record', format('row %s step %s', w.row_number, w.step_index)
    FROM pawl_bulk.work w
      LEFT JOIN pawl_bulk.records r ON r.operation = w.operation AND r.row_number = w.row_number
          AND r.step_index = w.step_index
     WHERE (verify.operation IS NULL OR w.operation = verify.operation)
         AND (r.state IN ('Pending', 'Running', 'WaitingForCompletion')) IS NOT TRUE AND w.last_row IS NULL
    UNION ALL
    SELECT r.operation, 'step out of order', format('row %s step %s', r.row_number, r.step_index)
    FROM pawl_bulk.records r
      LEFT JOIN pawl_bulk.records p ON p.operation = r.operation AND p.row_number = r.row_number
          AND p.step_index = r.step_index - 1
     WHERE (verify.operation IS NULL OR r.operation = verify.operation) AND r.step_index > 0
         AND p.state IS DISTINCT FROM 'Completed'
    UNION ALL
    SELECT r.operation, 'invalid row processed', format('row %s', r.row_number) FROM pawl_bulk.records r
      LEFT JOIN pawl_bulk.validations v ON v.operation = r.operation AND v.row_number = r.row_number
     WHERE (verify.operation IS NULL OR r.operation = verify.operation) AND r.step_index = 0
         AND v.state IS DISTINCT FROM 'Completed'
    UNION ALL
    SELECT u.operation, 'block to validate at the wrong time',
    format('rows %s to %s: %s', u.first_row, u.last_row, o.status) FROM pawl_bulk.unvalidated u
      LEFT JOIN pawl_bulk.operations o ON o.operation = u.operation
     WHERE (verify.operation IS NULL OR u.operation = verify.operation) AND o.status IS DISTINCT FROM 'Validating'
    UNION ALL
    SELECT u.operation, 'validated twice', format('row %s', v.row_number) FROM pawl_bulk.unvalidated u
      JOIN pawl_bulk.validations v ON v.operation = u.operation AND v.row_number BETWEEN u.first_row AND u.last_row
     WHERE verify.operation IS NULL OR u.operation = verify.operation
    UNION ALL
    SELECT o.operation, 'rows without a block to validate them',
    format('%s rows from row %s on', count(*), min(i.row_number))
      FROM pawl_bulk.operations o
      JOIN pawl_bulk.input i ON i.operation = o.operation AND i.row_number BETWEEN 1 AND o.validated_through
     WHERE (verify.operation IS NULL OR o.operation = verify.operation) AND o.status NOT IN ('Cancelled', 'Failed')
       AND NOT EXISTS (SELECT FROM pawl_bulk.validations v
           WHERE v.operation = i.operation AND v.row_number = i.row_number)
       AND NOT EXISTS (SELECT FROM pawl_bulk.unvalidated u
           WHERE u.operation = i.operation AND i.row_number BETWEEN u.first_row AND u.last_row)
     GROUP BY o.operation
    UNION ALL
    SELECT o.operation, 'active at rest', o.status FROM pawl_bulk.operations o
     WHERE (verify.operation IS NULL OR o.operation = verify.operation) AND o.completed_at IS NOT NULL
       AND EXISTS (SELECT FROM pawl_bulk.work w WHERE w.operation = o.operation)
    UNION ALL
    SELECT o.operation, 'terminal events', format('%s entries into rest, %s events', h.n, e.n)
    FROM pawl_bulk.operations o
     CROSS JOIN LATERAL (SELECT count(*) AS n FROM pawl_bulk.operation_transitions_log l
                          WHERE l.operation = o.operation
                              AND l.to_state IN ('Completed', 'CompletedWithErrors', 'Failed', 'Cancelled')) h
     CROSS JOIN LATERAL (SELECT count(*) AS n FROM pawl_bulk.events x
                          WHERE x.operation = o.operation
                              AND x.type IN ('Completed', 'CompletedWithErrors', 'Failed', 'Cancelled')) e
     WHERE (verify.operation IS NULL OR o.operation = verify.operation) AND h.n <> e.n
    UNION ALL SELECT s.operation_id, s.problem, s.detail FROM pawl_bulk._verify_steps(verify.operation) s
$function$;
COMMENT ON FUNCTION pawl_bulk.verify(uuid) IS
'Checks the records of an operation: counters, work without an active record and the reverse, order of steps and
steps that are missing, work that is held without a pause or not held in one, rows that no block validates, activity
after the end, terminal events. No rows: nothing is wrong.
operation: its id; default null: all. Returns operation_id, problem and detail.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT * FROM pawl_bulk.verify()';
