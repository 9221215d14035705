-- Counters without lock waits: each statement appends what it changed, a sum reads them, a duty folds them.

-- A session that inserts records of an operation locks it in shared mode; one that changes or pauses it waits for
-- these. This lock comes before all row locks, so the two cannot deadlock.
CREATE FUNCTION pawl_bulk._lock_key(operation uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN pg_catalog.hashtextextended('pawl_bulk' || operation::text, 0);
COMMENT ON FUNCTION pawl_bulk._lock_key(uuid) IS 'internal: the number of the lock of an operation';

CREATE FUNCTION pawl_bulk._try_lock(operation uuid) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
RETURN pawl.acquire_lock(pawl_bulk._lock_key(operation), shared => true, wait => false);
COMMENT ON FUNCTION pawl_bulk._try_lock(uuid) IS
'internal: locks an operation in shared mode, unless a session changes it';

-- A session that returns work locks it in shared mode, if it does not get _lock_key at once; one that pauses or resumes
-- the operation waits for these. It does not wait for _lock_key: it has locked work already, which a session that
-- cancels waits for.
CREATE FUNCTION pawl_bulk._pause_key(operation uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN pg_catalog.hashtextextended('pawl_bulk pause' || operation::text, 0);
COMMENT ON FUNCTION pawl_bulk._pause_key(uuid) IS 'internal: the number of the lock of the pause of an operation';

-- An old snapshot does not see what was decided since; locking the row finds out. Before the advisory locks, as in
-- sessions that change the operation.
CREATE FUNCTION pawl_bulk._lock_rows(operations uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        PERFORM FROM pawl_bulk.operations o WHERE o.operation = ANY (operations) ORDER BY o.operation FOR SHARE;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._lock_rows(uuid[]) IS
'internal: locks the rows of operations where the snapshot may be old; 40001 if one has changed';

CREATE FUNCTION pawl_bulk._hold(operations uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
BEGIN
    PERFORM pawl_bulk._lock_rows(operations);
    PERFORM pawl.acquire_lock(pawl_bulk._lock_key(u.operation), shared => true)
       FROM (SELECT DISTINCT o AS operation FROM unnest(operations) o ORDER BY o) u;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._hold(uuid[]) IS 'internal: keeps operations as they are until the transaction ends';

-- For sessions that can leave an operation alone. The row comes before the lock here too: the records that follow need
-- both, and a session that has the row may wait for the lock.
CREATE FUNCTION pawl_bulk._try_hold(operation uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        PERFORM FROM pawl_bulk.operations o WHERE o.operation = _try_hold.operation FOR SHARE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    RETURN pawl_bulk._try_lock(operation);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._try_hold(uuid) IS
'internal: pawl_bulk._hold without a wait; false: another session changes the operation, or has locked its row; 40001';

CREATE FUNCTION pawl_bulk._hold_pauses(operations uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    -- the other lock if it is free: such a session may report next, which needs it
    PERFORM pawl.acquire_lock(pawl_bulk._pause_key(u.operation), shared => true)
       FROM (SELECT DISTINCT o AS operation FROM unnest(operations) o ORDER BY o) u
      WHERE NOT pawl_bulk._try_lock(u.operation);
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        -- 40001 if an old snapshot does not see a pause or its end. A row that is locked has not been paused or resumed
        -- by that session, which would need these locks first; it may cancel, and wait for work that this one has
        PERFORM FROM pawl_bulk.operations o WHERE o.operation = ANY (operations) FOR SHARE SKIP LOCKED;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._hold_pauses(uuid[]) IS
'internal: keeps operations paused, or not paused, until the transaction ends; 40001 if the snapshot is older';

CREATE FUNCTION pawl_bulk.fold_counters(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    folded bigint;
    o uuid;
BEGIN
    PERFORM pawl.check_batch(batch, 100000);
    done := 0;
    -- operations that end are folded once more, so that the sum of each is one row
    FOR o IN SELECT c.operation FROM pawl_bulk.operations c
              WHERE c.status = ANY ('{Validating,Running,Retrying}')
                  OR c.completed_at > clock_timestamp() - interval '1 minute' ORDER BY c.operation LIMIT batch LOOP
        BEGIN
            WITH taken AS (
                DELETE FROM pawl_bulk.tallies t
                 WHERE t.operation = o AND t.tally IN (SELECT x.tally FROM pawl_bulk.tallies x WHERE x.operation = o
                     ORDER BY x.tally LIMIT 10000 FOR UPDATE SKIP LOCKED)
                   AND EXISTS (SELECT FROM pawl_bulk.tallies x WHERE x.operation = o OFFSET 31)
                RETURNING t.validated, t.successful, t.failed),
            summed AS (INSERT INTO pawl_bulk.tallies (operation, validated, successful, failed)
                       SELECT o, sum(t.validated), sum(t.successful), sum(t.failed) FROM taken t HAVING count(*) > 0)
            SELECT count(*) INTO folded FROM taken;
            done := done + folded;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl_bulk._ends_duty(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'counters of operation % are not added up: %', o, SQLERRM USING ERRCODE = SQLSTATE;
        END;
    END LOOP;
    next_at := clock_timestamp() + interval '5 s';
END
$function$;
COMMENT ON FUNCTION pawl_bulk.fold_counters(integer) IS
'Adds entries of pawl_bulk''s counters up, for at most batch operations (1 to 100000, default 100). A duty: call it
periodically.
Returns done (entries that were added up) and next_at (when to call it again).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_bulk.fold_counters()';

-- Validation records are inserted while their operation is validated, for rows of its input.
CREATE FUNCTION pawl_bulk._validations_came() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.validations');
    its record;
    alone record;
BEGIN
    FOR its IN SELECT n.operation, min(n.row_number) AS first_row, max(n.row_number) AS last_row FROM new_validations n
        GROUP BY n.operation LOOP
        IF NOT EXISTS (SELECT FROM pawl_bulk.operations o
            WHERE o.operation = its.operation AND o.status = 'Validating') THEN
            PERFORM pawl.raise('PW003', format('operation %s accepts no validation records', its.operation),
                'Validation records are written while its state is Validating.');
        END IF;
        SELECT x.row_number INTO alone
            FROM (SELECT n.row_number FROM new_validations n WHERE n.operation = its.operation
                EXCEPT SELECT i.row_number FROM pawl_bulk.input i WHERE i.operation = its.operation
                AND i.row_number BETWEEN greatest(its.first_row, 1) AND its.last_row) x LIMIT 1;
        IF FOUND THEN
            PERFORM pawl.raise('PW003', format('operation %s has no row %s', its.operation, alone.row_number));
        END IF;
    END LOOP;
    INSERT INTO pawl_bulk.tallies (operation, validated, successful, failed)
    SELECT n.operation, count(*), 0, count(*) FILTER (WHERE n.state = 'Failed') FROM new_validations n
    GROUP BY n.operation;
    INSERT INTO pawl_bulk.events (operation, type, severity, row_number, step_index, message)
    SELECT n.operation, 'RowFailed', 'Warning', n.row_number, -1,
    (SELECT string_agg(e ->> 'code', ', ') FROM jsonb_array_elements(n.errors) e)
      FROM new_validations n WHERE n.errors IS NOT NULL ORDER BY n.operation, n.row_number;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._validations_came() IS
'internal: counts validation records, and writes events about those that failed';
CREATE TRIGGER counted AFTER INSERT ON pawl_bulk.validations REFERENCING NEW TABLE AS new_validations
    FOR EACH STATEMENT WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_bulk._validations_came();

-- Rows that are written once (validation records, histories, signals, events) are deleted only with their operation.
CREATE FUNCTION pawl_bulk._immutable() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE OR DELETE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL,
        'pawl_bulk.validations', 'pawl_bulk.retry_history', 'pawl_bulk.signals', 'pawl_bulk.events');
BEGIN
    IF TG_OP = 'UPDATE' OR EXISTS (SELECT FROM pawl_bulk.operations o WHERE o.operation = OLD.operation) THEN
        PERFORM pawl.raise('PW006', format('%s of %s.%s is not allowed', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME),
            'Its rows never change and are deleted with their operation.');
    END IF;
    RETURN OLD;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._immutable() IS 'internal: rejects changes of recorded rows; PW006';
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_bulk.validations
    FOR EACH ROW EXECUTE FUNCTION pawl_bulk._immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_bulk.retry_history
    FOR EACH ROW EXECUTE FUNCTION pawl_bulk._immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_bulk.signals
    FOR EACH ROW EXECUTE FUNCTION pawl_bulk._immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_bulk.events
    FOR EACH ROW EXECUTE FUNCTION pawl_bulk._immutable();
