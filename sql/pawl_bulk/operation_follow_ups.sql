-- What follows when an operation changes its status, is paused or is resumed.

CREATE FUNCTION pawl_bulk._operation_entered() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.operations');
    now_at timestamptz;
BEGIN
    -- sessions that insert records of it finish first
    PERFORM pawl.acquire_lock(pawl_bulk._lock_key(NEW.operation));
    IF NEW.status IN ('Pending', 'Validating', 'Running', 'Retrying')
        AND (NEW.paused_at IS DISTINCT FROM OLD.paused_at
            OR OLD.status = 'Retrying' AND NEW.status IS DISTINCT FROM OLD.status) THEN
        -- and sessions that return work, which is then held or not. The end of an operation deletes held work
        PERFORM pawl.acquire_lock(pawl_bulk._pause_key(NEW.operation));
        IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
            -- an old snapshot does not see what they returned: 40001. Those that still have work look again themselves
            PERFORM FROM pawl_bulk.work w WHERE w.operation = NEW.operation
                ORDER BY w.row_number, w.step_index FOR UPDATE SKIP LOCKED;
        END IF;
    END IF;
    now_at := clock_timestamp();
    IF NEW.status IS DISTINCT FROM OLD.status THEN
        NEW.started_at := coalesce(NEW.started_at, CASE NEW.status WHEN 'Validating' THEN now_at END);
        NEW.completed_at :=
            CASE WHEN NEW.status IN ('Completed', 'CompletedWithErrors', 'Failed', 'Cancelled') THEN now_at END;
        NEW.retry_count := OLD.retry_count + (NEW.status = 'Retrying')::integer;
        IF OLD.status IN ('Pending', 'Validating') AND NEW.status <> 'Validating' THEN
            NEW.total_rows := (pawl_bulk._sums(NEW.operation)).validated;
        END IF;
    END IF;
    IF NEW.completed_at IS NOT NULL THEN
        IF NEW.paused_at IS NOT NULL AND OLD.paused_at IS NULL THEN
            PERFORM pawl.raise('55000', format('operation %s cannot be paused', NEW.operation),
                format('It is %s.', NEW.status));
        END IF;
        NEW.paused_at := NULL;
    END IF;
    NEW.paused_by := CASE WHEN NEW.paused_at IS NOT NULL THEN coalesce(NEW.paused_by, session_user) END;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._operation_entered() IS
'internal: locks an operation that changes its status, and sets its times';
CREATE TRIGGER entered BEFORE UPDATE ON pawl_bulk.operations FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.paused_at IS DISTINCT FROM NEW.paused_at)
    EXECUTE FUNCTION pawl_bulk._operation_entered();

-- The role that requests the call of a function is the current user, whatever the row says.
CREATE FUNCTION pawl_bulk._notifications_written() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.operations');
BEGIN
    PERFORM pawl_bulk._check_notifications(NEW.notifications);
    NEW.notified_by := CASE WHEN NEW.notifications IS NOT NULL THEN current_user END;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._notifications_written() IS
'internal: checks the notifications of an operation, and sets the role that wrote them; 22023';
CREATE TRIGGER written BEFORE INSERT OR UPDATE OF notifications, notified_by ON pawl_bulk.operations FOR EACH ROW
    WHEN ((NEW.notifications IS NOT NULL OR NEW.notified_by IS NOT NULL) AND NOT pawl.restoring())
        EXECUTE FUNCTION pawl_bulk._notifications_written();

-- The targets of an operation's notices. An invalid element is left out, and does not stop the change.
CREATE FUNCTION pawl_bulk._notify(o pawl_bulk.operations, event uuid, type text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    reason constant text := CASE type WHEN 'Completed' THEN 'completion'
        WHEN 'CompletedWithErrors' THEN 'completion_with_errors' WHEN 'Failed' THEN 'failure'
                                      WHEN 'Cancelled' THEN 'cancelled' WHEN 'StatusChanged' THEN 'status_change' END;
    sums record;
BEGIN
    IF o.notifications IS NULL THEN
        RETURN;
    END IF;
    sums := pawl_bulk._sums(o.operation);
    INSERT INTO pawl_bulk.notices (operation, notice, event, channel, target, asked_by, payload)
    SELECT o.operation, k.key, event, t.target ->> 'channel', t.target ->> 'target', coalesce(o.notified_by, ''),
           jsonb_build_object('key', k.key, 'operation', o.operation, 'definition', o.definition, 'trigger', reason,
               'status', o.status, 'message', o.error_message,
                              'total_rows', o.total_rows, 'successful_rows', sums.successful, 'failed_rows',
                              sums.failed, 'at', clock_timestamp())
      FROM jsonb_array_elements(CASE jsonb_typeof(o.notifications) WHEN 'array' THEN o.notifications
          ELSE jsonb_build_array(o.notifications) END) t(target)
     CROSS JOIN LATERAL (SELECT pawl.uuid_v7() AS key, t.target) k
     WHERE t.target ->> 'channel' <> '' AND octet_length(t.target ->> 'channel') <= 200 AND t.target ->> 'target' <> ''
         AND coalesce(t.target -> 'triggers', '["failure"]') @> to_jsonb(reason);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._notify(pawl_bulk.operations, uuid, text) IS
'internal: the notices of an event, one for each target that asked for it';

-- The session has the lock of the pause, for which sessions that return work wait, with that work locked. So it waits
-- only for work that a session has claimed and not committed, a row at a time: what was ready when the statement began
-- may have been claimed and returned meanwhile, but is not ready for the next statement.
CREATE FUNCTION pawl_bulk._hold_work(operation uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    claimed record;
    locked text;  -- the work that this session has locked, which the next UPDATE must hold
BEGIN
    LOOP
        UPDATE pawl_bulk.work w SET held = true, held_due = w.due, due = 'infinity'
          FROM (SELECT x.row_number, x.step_index FROM pawl_bulk.work x
                 WHERE x.operation = _hold_work.operation AND x.kind = ANY ('{start,rows}')
                   AND x.state IN ('ready', 'lost') AND NOT x.held FOR UPDATE SKIP LOCKED) l
         WHERE w.operation = _hold_work.operation AND w.row_number = l.row_number AND w.step_index = l.step_index;
        SELECT x.row_number, x.step_index INTO claimed FROM pawl_bulk.work x
         WHERE x.operation = _hold_work.operation AND x.kind = ANY ('{start,rows}') AND x.state IN ('ready', 'lost')
           AND NOT x.held ORDER BY x.row_number, x.step_index LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF claimed::text = locked THEN
            PERFORM pawl.raise('55000', format('row %s of operation %s cannot be held', claimed.row_number, operation),
                'A trigger of pawl_bulk.work has suppressed the update.',
                'select tgname from pg_trigger where tgrelid = ''pawl_bulk.work''::regclass and not tgisinternal');
        END IF;
        PERFORM FROM pawl_bulk.work x
         WHERE x.operation = _hold_work.operation AND x.row_number = claimed.row_number
           AND x.step_index = claimed.step_index AND x.state IN ('ready', 'lost') FOR UPDATE;
        locked := CASE WHEN FOUND THEN claimed::text END;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._hold_work(uuid) IS 'internal: holds the work of a paused operation that has not begun';

CREATE FUNCTION pawl_bulk._operation_moved() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.operations');
    told uuid;
BEGIN
    IF OLD.status IS DISTINCT FROM NEW.status THEN
        INSERT INTO pawl_bulk.events AS e (operation, type, from_status, to_status)
            VALUES (NEW.operation, 'StatusChanged', OLD.status, NEW.status) RETURNING e.event INTO told;
        PERFORM pawl_bulk._notify(NEW, told, 'StatusChanged');
        IF NEW.completed_at IS NOT NULL THEN
            INSERT INTO pawl_bulk.events AS e (operation, type, severity, to_status, message)
            VALUES (NEW.operation, NEW.status,
                CASE NEW.status WHEN 'Failed' THEN 'Error' WHEN 'CompletedWithErrors' THEN 'Warning' ELSE 'Info' END,
                    NEW.status, NEW.error_message) RETURNING e.event INTO told;
            PERFORM pawl_bulk._notify(NEW, told, NEW.status);
        END IF;
        IF NEW.status IN ('Cancelled', 'Failed') THEN
            -- work before records, as workers lock them
            PERFORM FROM pawl_bulk.work w WHERE w.operation = NEW.operation
                ORDER BY w.row_number, w.step_index FOR UPDATE;
            UPDATE pawl_bulk.records r SET state = 'Cancelled', completed_at = NEW.completed_at, error_message = NULL
                FROM pawl_bulk.work w
             WHERE w.operation = NEW.operation AND r.operation = w.operation AND r.row_number = w.row_number
                 AND r.step_index = w.step_index
               AND r.state IN ('Pending', 'Running', 'WaitingForCompletion');
            UPDATE pawl_bulk.records r SET state = 'Cancelled', completed_at = NEW.completed_at, error_message = NULL
                FROM pawl_bulk.work w
             WHERE w.operation = NEW.operation AND w.last_row IS NOT NULL AND r.operation = w.operation
                 AND r.row_number BETWEEN w.row_number AND w.last_row
               AND r.step_index = 0 AND r.state IN ('Pending', 'Running');
        END IF;
        IF NEW.completed_at IS NOT NULL THEN
            DELETE FROM pawl_bulk.work w WHERE w.operation = NEW.operation AND w.last_row IS NOT NULL;
            DELETE FROM pawl_bulk.unvalidated u WHERE u.operation = NEW.operation;
            DELETE FROM pawl_bulk.troubles t WHERE t.operation = NEW.operation;
        END IF;
    END IF;
    IF (OLD.paused_at IS NULL) <> (NEW.paused_at IS NULL) AND NEW.completed_at IS NULL THEN
        INSERT INTO pawl_bulk.events (operation, type, message)
        VALUES (NEW.operation, CASE WHEN NEW.paused_at IS NULL THEN 'Resumed' ELSE 'Paused' END, NEW.paused_by);
        IF NEW.paused_at IS NOT NULL THEN
            PERFORM pawl_bulk._hold_work(NEW.operation);
        END IF;
    END IF;
    -- work that has not begun is held while its operation is paused, and until a retry is picked up
    IF NEW.paused_at IS NULL AND NEW.status = 'Running' AND (OLD.paused_at IS NOT NULL OR OLD.status = 'Retrying') THEN
        UPDATE pawl_bulk.work w
            SET held = false, held_due = NULL, due = CASE WHEN w.held_due > clock_timestamp() THEN w.held_due END
         WHERE w.operation = NEW.operation AND w.held;
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._operation_moved() IS
'internal: the events of an operation, and what its end or a pause means for its records';
CREATE TRIGGER moved AFTER UPDATE ON pawl_bulk.operations FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.paused_at IS DISTINCT FROM NEW.paused_at)
    EXECUTE FUNCTION pawl_bulk._operation_moved();

CREATE FUNCTION pawl_bulk._operation_came() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.operations');
BEGIN
    INSERT INTO pawl_bulk.events (operation, type, to_status, message)
        VALUES (NEW.operation, 'Created', NEW.status, NEW.definition);
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._operation_came() IS 'internal: the event of a new operation';
CREATE TRIGGER came AFTER INSERT ON pawl_bulk.operations
    FOR EACH ROW WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_bulk._operation_came();

-- An operation is deleted with all that it has.
CREATE FUNCTION pawl_bulk._operation_gone() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.operations');
BEGIN
    DELETE FROM pawl_bulk.troubles x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.sql_runs x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.validation_attempts x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.work x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.records x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.unvalidated x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.validations x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.input x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.tallies x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.retry_history x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.signal_keys x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.signals x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.notices x WHERE x.operation = OLD.operation;
    DELETE FROM pawl_bulk.events x WHERE x.operation = OLD.operation;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._operation_gone() IS 'internal: deletes what belongs to a deleted operation';
CREATE TRIGGER gone AFTER DELETE ON pawl_bulk.operations FOR EACH ROW EXECUTE FUNCTION pawl_bulk._operation_gone();

CREATE FUNCTION pawl_bulk._operation_may_go() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.operations');
BEGIN
    PERFORM pawl.raise('55000', format('operation %s is not at rest', OLD.operation), format('It is %s.', OLD.status),
        format('select pawl_bulk.cancel(%L)', OLD.operation));
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._operation_may_go() IS
'internal: rejects the deletion of an operation that is not at rest';
CREATE TRIGGER may_go BEFORE DELETE ON pawl_bulk.operations FOR EACH ROW
    WHEN (OLD.status = ANY ('{Pending,Validating,Running,Retrying}')) EXECUTE FUNCTION pawl_bulk._operation_may_go();
