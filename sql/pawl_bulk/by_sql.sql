-- Plain SQL is checked like the functions. grants.sql says which columns each role can write; these triggers check the
-- values.

-- Whether the current user may cancel; functions of the owner may.
CREATE FUNCTION pawl_bulk._operates() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$ SELECT has_function_privilege(current_user, 'pawl_bulk.cancel(uuid)', 'EXECUTE') $function$;
COMMENT ON FUNCTION pawl_bulk._operates() IS 'internal: the current user may do what operators do';

-- Only roles that may run SQL functions begin and end their work.
CREATE FUNCTION pawl_bulk._runs_sql() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
RETURN pg_catalog.has_function_privilege(CURRENT_USER, 'pawl_bulk.run_sql_rows(integer)', 'EXECUTE');
COMMENT ON FUNCTION pawl_bulk._runs_sql() IS 'internal: the current user may run SQL functions';

CREATE FUNCTION pawl_bulk._operation_made() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.operations');
    d pawl_bulk.definitions;
BEGIN
    SELECT x.* INTO d FROM pawl_bulk.definitions x
        WHERE x.name = NEW.definition AND x.version = NEW.version AND x.dropped_at IS NULL;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no definition "%s" version %s', NEW.definition, NEW.version), NULL,
            pawl_bulk._known_definitions());
    ELSIF NEW.validated_through <> 0 OR NEW.opened_through <> 0 OR NEW.total_rows <> 0 OR NEW.retry_count <> 0
        OR NEW.started_at IS NOT NULL OR NEW.completed_at IS NOT NULL THEN
        PERFORM pawl.raise('55000', 'an operation must be inserted in its initial state',
            'Its counters must be 0 and its times null.');
    ELSIF octet_length(NEW.idempotency_key) > 1000 THEN
        PERFORM pawl.raise('22023', 'an idempotency key must have at most 1000 bytes',
            format('It has %s bytes.', octet_length(NEW.idempotency_key)));
    ELSIF NEW.format NOT IN ('csv', 'ndjson', 'json') THEN
        PERFORM pawl.raise('22023', format('unknown format "%s"', NEW.format), NULL, 'csv, ndjson or json');
    ELSIF NEW.idempotency_key = '' OR length(NEW.file_name) > 200 OR length(NEW.created_by) > 100 THEN
        PERFORM pawl.raise('22023',
            format('%s is out of range', CASE WHEN NEW.idempotency_key = '' THEN 'idempotency_key'
                WHEN length(NEW.file_name) > 200 THEN 'file_name' ELSE 'created_by' END), NULL,
            'idempotency_key must have at least one character, file_name at most 200, created_by at most 100');
    END IF;
    PERFORM pawl_bulk._known_fields(NEW.dialect, '{delimiter,quote,header,map}', 'a dialect');
    -- an impossible dialect is rejected here and not row by row
    PERFORM pawl_bulk.csv_fields('', coalesce(NEW.dialect ->> 'delimiter', ','), coalesce(NEW.dialect ->> 'quote', '"'))
        WHERE NEW.format = 'csv';
    NEW.track_row_data := d.track_row_data;
    NEW.last_step := (SELECT max(s.step_index) FROM pawl_bulk.steps s WHERE s.name = d.name AND s.version = d.version);
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._operation_made() IS 'internal: a new operation fits its definition; P0002, 22023, 55000';
CREATE TRIGGER made BEFORE INSERT ON pawl_bulk.operations
    FOR EACH ROW WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_bulk._operation_made();

-- The reasons of the duty for ending an operation. It happens once to an operation, so validators may be asked again.
CREATE FUNCTION pawl_bulk._may_fail(o pawl_bulk.operations) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
BEGIN
    RETURN CASE o.status
        WHEN 'Validating' THEN o.input_error IS NOT NULL
            OR EXISTS (SELECT FROM pawl_bulk.troubles t
                WHERE t.operation = o.operation AND t.failures > 5 AND t.sqlstate ~ '^57')
            OR pawl_bulk._operation_errors(o, false) <> '{}'
        WHEN 'Running' THEN false
        ELSE NOT EXISTS (SELECT FROM pawl_bulk.definitions d
            WHERE d.name = o.definition AND d.version = o.version AND d.dropped_at IS NULL)
            OR o.status = 'Pending' AND NOT o.sealed AND o.created_at <= clock_timestamp() - interval '1 day' END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._may_fail(pawl_bulk.operations) IS
'internal: an operation that cannot continue: its definition, input or metadata are missing or invalid';

CREATE FUNCTION pawl_bulk._operation_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.operations');
BEGIN
    IF NEW.status IS DISTINCT FROM OLD.status THEN
        IF NEW.status IN ('Cancelled', 'Retrying') AND NOT pawl_bulk._operates() THEN
            PERFORM pawl.raise('42501', format('permission denied to change operation %s to %s', NEW.operation,
                NEW.status), 'Only operators can cancel and retry.');
        ELSIF NEW.status = 'Failed' AND NOT pawl_bulk._operates() AND NOT pawl_bulk._may_fail(OLD) THEN
            PERFORM pawl.raise('42501',
                format('permission denied to change operation %s to %s', NEW.operation, NEW.status),
                'Its definition is there, its input and its metadata are valid; only operators can abort it.',
                format('select pawl_bulk.abort(%L, ...)', NEW.operation));
        ELSIF NEW.status = 'Validating' AND NOT NEW.sealed THEN
            PERFORM pawl.raise('PW003', format('operation %s cannot be validated', NEW.operation),
                'Its input is not complete.', format('select pawl_bulk.seal(%L)', NEW.operation));
        ELSIF NEW.status IN ('Validating', 'Running') AND OLD.paused_at IS NOT NULL AND NEW.paused_at IS NOT NULL THEN
            PERFORM pawl.raise('PW003', format('operation %s is paused', NEW.operation), NULL,
                format('select pawl_bulk.resume(%L)', NEW.operation));
        END IF;
    ELSIF NOT pawl_bulk._operates() THEN
        PERFORM pawl.raise('42501', format('permission denied to change operation %s', NEW.operation),
            'Only operators can pause it, and its message is set when it fails.');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._operation_by_sql() IS
'internal: rejects a change of status without the right or the reason for it; PW003, 42501';
CREATE TRIGGER by_sql BEFORE UPDATE ON pawl_bulk.operations FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.paused_at IS DISTINCT FROM NEW.paused_at
        OR OLD.error_message IS DISTINCT FROM NEW.error_message)
    EXECUTE FUNCTION pawl_bulk._operation_by_sql();

-- A record at rest does not change; tries are counted one by one.
CREATE FUNCTION pawl_bulk._record_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.records');
BEGIN
    IF NEW.state IS DISTINCT FROM OLD.state AND NEW.state IN ('Pending', 'Cancelled') THEN
        IF NOT pawl_bulk._operates() THEN
            PERFORM pawl.raise('42501', format('permission denied to change row %s to %s', NEW.row_number, NEW.state),
                'Only operators can retry and cancel.');
        END IF;
    ELSE
        PERFORM pawl.raise('55000',
            format('row %s at step %s cannot be changed in this way', NEW.row_number, NEW.step_index),
            CASE WHEN NEW.state = OLD.state AND OLD.completed_at IS NOT NULL AND OLD.state <> 'Running'
                THEN format('It is %s.', OLD.state) ELSE 'The number of attempts can only grow by one.' END);
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._record_by_sql() IS
'internal: rejects changes of records that no function makes; 42501, 55000';

-- Calls, of the functions above and pawl_bulk._record_entered, those that a row needs
-- (src/packs/bulk/row_triggers.cpp), and rejects lists of events.
CREATE FUNCTION pawl_bulk._record_written() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_bulk_record_written';
COMMENT ON FUNCTION pawl_bulk._record_written() IS
'internal: checks an updated record, and sets the columns about its state';
CREATE TRIGGER written BEFORE UPDATE ON pawl_bulk.records
    FOR EACH ROW EXECUTE FUNCTION pawl_bulk._record_written();

-- A row of a SQL function has work in the queue 'sql:', or no work of its own because it is in a block. Signals and
-- deadlines end it like any other. Before pawl_bulk._records_rest, which deletes work.
CREATE FUNCTION pawl_bulk._sql_rows_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.records');
    its record;
BEGIN
    SELECT n.operation, n.row_number, n.step_index INTO its
      FROM new_records n
      LEFT JOIN pawl_bulk.work w ON w.operation = n.operation AND w.row_number = n.row_number
          AND w.step_index = n.step_index
     WHERE n.state IN ('Running', 'Completed', 'Failed', 'WaitingForCompletion')
       AND CASE WHEN w.operation IS NOT NULL THEN w.queue = 'sql:' AND w.kind <> 'signal'
                ELSE n.step_index = 0 AND n.row_number <= (SELECT b.last_row FROM pawl_bulk.work b
                    WHERE b.operation = n.operation AND b.row_number <= n.row_number AND b.last_row IS NOT NULL
                    ORDER BY b.row_number DESC LIMIT 1) END LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('42501',
            format('permission denied to change row %s at step %s', its.row_number, its.step_index),
            'It is work of a SQL function; only roles that may run these begin and end it.',
            'select * from pawl_bulk.run_sql_rows()');
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._sql_rows_by_sql() IS
'internal: rejects changes of rows of SQL functions by roles that may not run these; 42501';
CREATE TRIGGER follow_0_sql AFTER UPDATE ON pawl_bulk.records REFERENCING NEW TABLE AS new_records
    FOR EACH STATEMENT WHEN (NOT pawl_bulk._runs_sql()) EXECUTE FUNCTION pawl_bulk._sql_rows_by_sql();

-- Times of work follow from its step: a run limit when it begins, a backoff when it failed. Operators bring them
-- forward, unless the operation is paused. Work of SQL functions has no lease.
CREATE FUNCTION pawl_bulk._work_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.work');
    now_at constant timestamptz := clock_timestamp();
    longest interval;
BEGIN
    IF NEW.state = 'leased' AND OLD.state <> 'leased' AND NEW.queue = 'sql:' THEN
        PERFORM pawl.raise('22023', 'the queue "sql:" is worked on inside the database',
            format('Row %s at step %s of operation %s is work of a SQL function.', NEW.row_number, NEW.step_index,
                NEW.operation), 'select * from pawl_bulk.run_sql_rows()');
    ELSIF OLD.held AND (NEW.state = 'leased' OR NEW.held AND NEW.due IS DISTINCT FROM 'infinity') THEN
        PERFORM pawl.raise('55000', format('row %s at step %s is held', NEW.row_number, NEW.step_index),
            'Its operation is paused, or waits to be retried.');
    ELSIF NEW.state = 'leased' AND OLD.state <> 'leased' AND OLD.due > now_at AND NOT pawl_bulk._operates() THEN
        PERFORM pawl.raise('55000', format('row %s at step %s is not due', NEW.row_number, NEW.step_index),
            format('It is due at %s.', OLD.due));
    END IF;
    IF NEW.due > now_at + interval '1 h' AND OLD.state = 'leased' AND NEW.state = 'ready' THEN
        SELECT greatest(s.backoff_cap * (1 + s.backoff_jitter), s.poll_interval * (1 + s.poll_jitter)) INTO longest
          FROM pawl_bulk.operations o JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version
         WHERE o.operation = NEW.operation AND s.step_index = NEW.step_index;
    END IF;
    IF (CASE WHEN NEW.due IS NOT DISTINCT FROM OLD.due THEN false
             WHEN NEW.due IS NULL THEN OLD.state = NEW.state AND OLD.due > now_at
             WHEN OLD.state = 'leased' AND NEW.state = 'ready' THEN NEW.due > now_at + greatest(longest, interval '1 h')
             ELSE true END
        OR NEW.takeovers < OLD.takeovers
        OR NEW.deadline_at IS DISTINCT FROM OLD.deadline_at
           AND (OLD.deadline_at IS NULL AND NEW.run_timeout IS NOT NULL
                OR OLD.deadline_at <= now_at
                AND NEW.deadline_at BETWEEN OLD.deadline_at AND now_at + interval '1 min') IS NOT TRUE)
       AND NOT pawl_bulk._operates() THEN
        PERFORM pawl.raise('42501',
            format('permission denied to change the times of row %s at step %s', NEW.row_number, NEW.step_index),
            'They follow from its step; only operators can change them.',
            'report a result: select * from pawl_bulk.report(...)');
    END IF;
    IF OLD.deadline_at IS NULL AND NEW.deadline_at IS NOT NULL AND NEW.run_timeout IS NOT NULL
        AND NOT pawl_bulk._operates() THEN
        NEW.deadline_at := now_at + NEW.run_timeout;
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._work_by_sql() IS
'internal: rejects changes of times of work without the right, and claims of work that is held, not due, or of a SQL '
'function; 22023, 42501, 55000';
-- Calls the function above and pawl_bulk._work_taken for rows that need them (src/packs/bulk/row_triggers.cpp), and
-- rejects lists of events.
CREATE FUNCTION pawl_bulk._work_written() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_bulk_work_written';
COMMENT ON FUNCTION pawl_bulk._work_written() IS 'internal: checks updated work, and sets the columns about its state';
CREATE TRIGGER written BEFORE UPDATE ON pawl_bulk.work
    FOR EACH ROW EXECUTE FUNCTION pawl_bulk._work_written();

-- The outcome of a notice is set when it is reported; the time of its next try follows from the tries.
CREATE FUNCTION pawl_bulk._notice_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.notices');
BEGIN
    IF NEW.state IN ('delivered', 'failed') AND OLD.state IS DISTINCT FROM NEW.state THEN
        NEW.ended_at := clock_timestamp();
    END IF;
    IF pawl_bulk._operates() THEN
        RETURN NEW;
    ELSIF NEW.message IS DISTINCT FROM OLD.message AND OLD.state IS NOT DISTINCT FROM NEW.state
          OR NEW.tries NOT IN (OLD.tries, OLD.tries + (NEW.state = 'leased' AND OLD.state = 'ready')::integer) THEN
        PERFORM pawl.raise('55000', format('notice %s cannot be changed in this way', NEW.notice),
            'The number of attempts can only grow by one, and a message needs a result.',
            'select * from pawl_bulk.report_notices(...)');
    ELSIF NEW.due IS DISTINCT FROM OLD.due
          AND (CASE WHEN NEW.due IS NULL THEN OLD.state = NEW.state AND OLD.due > clock_timestamp()
                    ELSE OLD.state = NEW.state OR NEW.due > clock_timestamp() + interval '15 min' END) THEN
        PERFORM pawl.raise('42501', format('permission denied to change the times of notice %s', NEW.notice),
            'They follow from its attempts; only operators can change them.',
            'select * from pawl_bulk.report_notices(...)');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._notice_by_sql() IS
'internal: sets the times of notices that end, and rejects changes that no function makes; 42501, 55000';
CREATE TRIGGER by_sql BEFORE UPDATE ON pawl_bulk.notices FOR EACH ROW
    WHEN ((OLD.state, OLD.message, OLD.tries, OLD.due) IS DISTINCT FROM (NEW.state, NEW.message, NEW.tries, NEW.due))
    EXECUTE FUNCTION pawl_bulk._notice_by_sql();

-- pawl.reap ends an expired lease, and every role may call it.
CREATE FUNCTION pawl_bulk._sql_notice_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.notices');
BEGIN
    IF (OLD.lease_until <= clock_timestamp() AND NEW.state <> 'delivered'
            AND coalesce(NEW.worker, OLD.worker) = OLD.worker
            AND coalesce(NEW.lease_until, OLD.lease_until) = OLD.lease_until) IS NOT TRUE THEN
        PERFORM pawl.raise('42501', format('permission denied to change notice %s', NEW.notice),
            'It is delivered by a SQL function; only roles that may run these take it and end it.',
            'select * from pawl_bulk.run_sql_notices()');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._sql_notice_by_sql() IS
'internal: rejects changes of notices to SQL functions by roles that may not run these; 42501';
CREATE TRIGGER by_sql_function BEFORE UPDATE ON pawl_bulk.notices FOR EACH ROW
    WHEN (NEW.channel = 'sql' AND (OLD.state = 'leased' OR NEW.state = 'leased') AND NOT pawl_bulk._runs_sql())
    EXECUTE FUNCTION pawl_bulk._sql_notice_by_sql();

-- Work belongs to an active record, or to a block of valid rows of a running operation.
CREATE FUNCTION pawl_bulk._work_came() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.work');
    one constant uuid := (SELECT n.operation FROM new_work n LIMIT 1);
    span record;
    is_valid boolean;
    alone record;
BEGIN
    SELECT count(*) AS rows, bool_and(n.operation = one AND n.last_row IS NULL) AS alike,
        min(n.row_number) AS first_row, max(n.row_number) AS last_row,
        min(n.step_index) AS first_step, max(n.step_index) AS last_step INTO span
      FROM new_work n;
    -- the usual case: rows without a gap, which are read in order and not looked up
    is_valid := span.alike AND span.first_step = span.last_step AND span.last_row - span.first_row = span.rows - 1
        AND span.rows = (SELECT count(*) FROM pawl_bulk.records r WHERE r.operation = one
            AND r.row_number BETWEEN span.first_row AND span.last_row AND r.step_index = span.last_step
            AND r.state IN ('Pending', 'Running', 'WaitingForCompletion'));
    SELECT n.operation, n.row_number INTO alone FROM new_work n
     WHERE is_valid IS NOT TRUE AND CASE WHEN n.last_row IS NULL
         THEN NOT EXISTS (SELECT FROM pawl_bulk.records r
             WHERE r.operation = n.operation AND r.row_number = n.row_number AND r.step_index = n.step_index
             AND r.state IN ('Pending', 'Running', 'WaitingForCompletion'))
                ELSE NOT EXISTS (SELECT FROM pawl_bulk.operations o
                    JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = 0
                                  WHERE o.operation = n.operation AND o.status = 'Running' AND s.kind = 'sync'
         AND s.handler IS NOT NULL) END LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('PW003', format('there is no work for row %s of operation %s', alone.row_number,
            alone.operation), 'It has no active record.');
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._work_came() IS 'internal: rejects work that belongs to no record; PW003';
CREATE TRIGGER came AFTER INSERT ON pawl_bulk.work REFERENCING NEW TABLE AS new_work
    FOR EACH STATEMENT WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_bulk._work_came();

-- A run is inserted by its session, and changed by it, or when it is lost.
CREATE FUNCTION pawl_bulk._run_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.sql_runs');
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.session = pg_backend_pid() AND NEW.lease_until <= clock_timestamp() + interval '1 day'
            AND NEW.lost_at IS NULL THEN
            RETURN NEW;
        END IF;
    ELSIF (OLD.session = pg_backend_pid() OR OLD.lost_at IS NOT NULL
        OR pawl_bulk._session_lost(OLD.session, OLD.lease_until) OR pawl_bulk._operates())
          AND NEW.again_at <= clock_timestamp() + interval '1 day' THEN
        RETURN NEW;
    END IF;
    PERFORM pawl.raise('55000', 'a run belongs to its session', 'Its lease can be at most a day.');
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._run_by_sql() IS 'internal: rejects changes of runs of other sessions; 55000';
CREATE TRIGGER by_sql BEFORE INSERT OR UPDATE ON pawl_bulk.sql_runs
    FOR EACH ROW EXECUTE FUNCTION pawl_bulk._run_by_sql();

-- Triggers look at the states before and after a statement, as if it took one transition. Those of records and work
-- reject lists themselves.
CREATE TRIGGER "!one_by_one" BEFORE UPDATE ON pawl_bulk.operations
    FOR EACH ROW WHEN (pawl.takes_list('pawl_bulk.operations')) EXECUTE FUNCTION pawl.one_transition();
CREATE TRIGGER "!one_by_one" BEFORE UPDATE ON pawl_bulk.notices
    FOR EACH ROW WHEN (pawl.takes_list('pawl_bulk.notices')) EXECUTE FUNCTION pawl.one_transition();
