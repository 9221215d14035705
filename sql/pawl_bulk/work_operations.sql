-- The duty that advances operations. Validators are users' functions: an attempt is committed before they are called,
-- so the loss of a session is counted against the operation that it worked on.

-- Attempts for the next operations whose metadata or rows are to be validated. Those in trouble are tried alone. Those
-- that lost a session or ran out of time are tried with one block on record, which becomes smaller with each loss.
CREATE FUNCTION pawl_bulk._begin_attempts(batch integer, lease interval, in_trouble boolean, tried uuid[])
RETURNS pawl_bulk.validation_attempts[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    trouble pawl_bulk.troubles;
    divided boolean;
    block record;
    attempt pawl_bulk.validation_attempts;
    attempts pawl_bulk.validation_attempts[] := '{}';
    rows bigint := 0;
BEGIN
    FOR o IN SELECT x.* FROM pawl_bulk.operations x
              WHERE x.status = ANY ('{Pending,Validating,Running,Retrying}') AND x.paused_at IS NULL
                AND (x.status = 'Validating' OR x.status = 'Pending' AND x.sealed) AND x.operation <> ALL (tried)
                AND EXISTS (SELECT FROM pawl_bulk.troubles t WHERE t.operation = x.operation) = in_trouble
                AND NOT EXISTS (SELECT FROM pawl_bulk.troubles t
                                 WHERE t.operation = x.operation AND t.again_at > clock_timestamp())
              ORDER BY x.priority DESC, x.operation FOR NO KEY UPDATE SKIP LOCKED LOOP
        SELECT t.* INTO trouble FROM pawl_bulk.troubles t WHERE t.operation = o.operation;
        attempt := NULL;
        divided := coalesce(trouble.sqlstate ~ '^5[37]', false);
        IF o.status = 'Validating' AND o.validated_through > 0 THEN
            block := pawl_bulk._take_unvalidated(o.operation,
                CASE WHEN divided THEN pawl_bulk._rows_at_once(trouble, batch) ELSE 2147483647 END);
            -- no operation is free: other sessions validate, or all are done
            CONTINUE WHEN block.first_row IS NULL;
            IF divided THEN
                attempt.first_row := block.first_row;
                attempt.last_row := block.last_row;
            END IF;
        END IF;
        INSERT INTO pawl_bulk.validation_attempts AS a (operation, first_row, last_row, lease_until)
        VALUES (o.operation, attempt.first_row, attempt.last_row, clock_timestamp() + least(lease, interval '1 day'))
        RETURNING a.* INTO attempt;
        attempts := attempts || attempt;
        rows := rows + CASE o.status WHEN 'Pending' THEN 1 ELSE greatest(o.total_rows, 1) END;
        EXIT WHEN in_trouble OR rows >= batch OR cardinality(attempts) >= 100;
    END LOOP;
    RETURN attempts;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._begin_attempts(integer, interval, boolean, uuid[]) IS
'internal: puts attempts to validate the next operations on record; in_trouble: one that is in trouble';

CREATE FUNCTION pawl_bulk._begin_to_help(lease interval) RETURNS pawl_bulk.validation_attempts[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    candidate uuid;
    attempt pawl_bulk.validation_attempts;
BEGIN
    FOR candidate IN SELECT x.operation FROM pawl_bulk.operations x
                      WHERE x.status = ANY ('{Pending,Validating,Running,Retrying}') AND x.status = 'Validating'
                        AND x.paused_at IS NULL
                        AND NOT EXISTS (SELECT FROM pawl_bulk.troubles t WHERE t.operation = x.operation)
                      ORDER BY x.priority DESC, x.operation LOOP
        PERFORM FROM pawl_bulk.unvalidated u WHERE u.operation = candidate ORDER BY u.first_row LIMIT 1
            FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            INSERT INTO pawl_bulk.validation_attempts AS a (operation, lease_until)
            VALUES (candidate, clock_timestamp() + least(lease, interval '1 day')) RETURNING a.* INTO attempt;
            RETURN ARRAY[attempt];
        END IF;
    END LOOP;
    RETURN '{}';
END
$function$;
COMMENT ON FUNCTION pawl_bulk._begin_to_help(interval) IS
'internal: puts an attempt to validate a block on record, of an operation that another session may be validating too';

-- While this transaction lasts the attempts are not lost, however long the validators run.
CREATE FUNCTION pawl_bulk._hold_attempts(attempts pawl_bulk.validation_attempts[])
RETURNS pawl_bulk.validation_attempts[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    begun pawl_bulk.validation_attempts;
    held pawl_bulk.validation_attempts;
    answer pawl_bulk.validation_attempts[] := '{}';
BEGIN
    FOREACH begun IN ARRAY attempts LOOP
        SELECT a.* INTO held FROM pawl_bulk.validation_attempts a
         WHERE a.operation = begun.operation AND a.attempt = begun.attempt AND a.session = pg_backend_pid() FOR UPDATE;
        IF FOUND THEN
            answer := answer || held;
        END IF;
    END LOOP;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._hold_attempts(pawl_bulk.validation_attempts[]) IS
'internal: locks attempts of this session; returns those that were not counted as lost';

CREATE FUNCTION pawl_bulk._end_attempts(attempts pawl_bulk.validation_attempts[]) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    DELETE FROM pawl_bulk.validation_attempts a USING unnest(attempts) b
     WHERE a.operation = b.operation AND a.attempt = b.attempt AND a.session = pg_backend_pid()
$function$;
COMMENT ON FUNCTION pawl_bulk._end_attempts(pawl_bulk.validation_attempts[]) IS
'internal: attempts of this session have ended';

-- Called while this session has no attempt in progress.
CREATE FUNCTION pawl_bulk._lost_attempts() RETURNS SETOF pawl_bulk.validation_attempts
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    DELETE FROM pawl_bulk.validation_attempts a
     USING (SELECT x.operation, x.attempt FROM pawl_bulk.validation_attempts x
             WHERE x.session = pg_backend_pid() OR pawl_bulk._session_lost(x.session, x.lease_until)
             ORDER BY x.operation, x.attempt LIMIT 100 FOR UPDATE SKIP LOCKED) l
     WHERE a.operation = l.operation AND a.attempt = l.attempt
    RETURNING a.*
$function$;
COMMENT ON FUNCTION pawl_bulk._lost_attempts() IS
'internal: removes and returns attempts whose session was lost, or that did not go on in it';

CREATE FUNCTION pawl_bulk._bury_attempts() RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT pawl_bulk._met(a.operation, '57P01', 'the session or transaction that validated was lost', a)
      FROM pawl_bulk._lost_attempts() a
$function$;
COMMENT ON FUNCTION pawl_bulk._bury_attempts() IS 'internal: counts lost attempts against their operations';

-- guarded: an error is counted, and ends nothing but this.
CREATE FUNCTION pawl_bulk._run_attempt(attempt pawl_bulk.validation_attempts, batch integer, guarded boolean)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    IF NOT guarded THEN
        RETURN greatest(pawl_bulk._advance_candidate(attempt.operation, batch, true, attempt.first_row), 0);
    END IF;
    BEGIN
        RETURN greatest(pawl_bulk._advance_candidate(attempt.operation, batch, true, attempt.first_row), 0);
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        PERFORM pawl_bulk._met(attempt.operation, SQLSTATE, SQLERRM, attempt);
        RETURN 0;
    END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._run_attempt(pawl_bulk.validation_attempts, integer, boolean) IS
'internal: advances an operation whose attempt is on record; returns how much was done';

CREATE FUNCTION pawl_bulk._operations_wait(next_at timestamptz) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    SELECT CASE WHEN EXISTS (SELECT FROM pawl_bulk.operations x
                              WHERE x.status = ANY ('{Pending,Validating,Running,Retrying}') AND x.status = 'Validating'
                        AND x.paused_at IS NULL
                                AND EXISTS (SELECT FROM pawl_bulk.unvalidated u WHERE u.operation = x.operation)
                                AND NOT EXISTS (SELECT FROM pawl_bulk.troubles t WHERE t.operation = x.operation))
                THEN 50
                ELSE ceil(1000 * extract(epoch FROM least(next_at, (SELECT min(t.again_at) FROM pawl_bulk.troubles t),
                                                          clock_timestamp() + interval '1 h') - clock_timestamp())) END
$function$;
COMMENT ON FUNCTION pawl_bulk._operations_wait(timestamptz) IS
'internal: when to look for operations again, in ms: soon where other sessions validate';

-- It commits, so it cannot have settings for its whole run: each transaction begins with the search_path.
CREATE PROCEDURE pawl_bulk.work_operations(batch integer DEFAULT 10000, lease interval DEFAULT '60 s',
    INOUT done bigint DEFAULT NULL, INOUT wait_ms integer DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER
AS $function$
DECLARE
    until timestamptz;
    moved record;
    attempts pawl_bulk.validation_attempts[];
    attempt pawl_bulk.validation_attempts;
    in_trouble boolean := false;
    guarded boolean;
    tried uuid[] := '{}';
    did bigint;
    code text;
    said text;
    ended boolean;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    PERFORM pawl.check_batch(batch, 1000000), pawl.check_lease(coalesce(lease, '0'));
    done := 0;
    until := clock_timestamp() + interval '100 ms';
    PERFORM pawl_bulk._bury_attempts();
    COMMIT;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    SELECT a.done, a.next_at INTO moved FROM pawl_bulk._advance(batch, false) a;
    done := moved.done;
    attempts := pawl_bulk._begin_attempts(batch, lease, false, tried);
    COMMIT;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    -- first those that have no trouble, together; then those that have, each alone
    LOOP
        guarded := false;
        WHILE attempts <> '{}' LOOP
            code := NULL;
            did := 0;
            attempt := NULL;
            BEGIN
                FOREACH attempt IN ARRAY pawl_bulk._hold_attempts(attempts) LOOP
                    did := did + coalesce(pawl_bulk._run_attempt(attempt, batch, guarded), 0);
                    EXIT WHEN did >= batch;
                END LOOP;
                PERFORM pawl_bulk._end_attempts(attempts);
            EXCEPTION WHEN OTHERS OR ASSERT_FAILURE OR QUERY_CANCELED THEN
                ended := pawl_bulk._ends_duty(SQLSTATE);
                GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            END;
            IF code IS NULL THEN
                done := done + did;
                COMMIT;
                PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
                EXIT;
            END IF;
            ROLLBACK;
            PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            IF code <> '57014' AND NOT guarded AND cardinality(attempts) > 1 THEN
                -- together again, each in a subtransaction of its own
                guarded := true;
                CONTINUE;
            END IF;
            PERFORM pawl_bulk._met(attempt.operation, code, said, attempt), pawl_bulk._end_attempts(attempts);
            COMMIT;
            PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            IF code = '57014' AND ended THEN
                PERFORM pawl.raise(code, said);
            ELSIF code = '57014' THEN
                -- the time of this call is over; the others have the next one
                wait_ms := 0;
                RETURN;
            END IF;
            EXIT;
        END LOOP;
        EXIT WHEN in_trouble AND (attempts = '{}' OR clock_timestamp() >= until);
        in_trouble := true;
        attempts := pawl_bulk._begin_attempts(batch, lease, true, tried);
        tried := tried || (SELECT array_agg(a.operation) FROM unnest(attempts) a);
        COMMIT;
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    END LOOP;
    wait_ms := pawl_bulk._operations_wait(moved.next_at);
END
$function$;
COMMENT ON PROCEDURE pawl_bulk.work_operations(integer, interval, bigint, integer) IS
'A duty: like pawl_bulk.advance, but commits an attempt (pawl_bulk.validation_attempts) before validators are called.
A session lost during an attempt, or a commit that fails, is counted in pawl_bulk.troubles: the operation waits, and its
rows are tried in blocks of a tenth, and then of a tenth of that, until one row is alone. After more than five losses
the row fails, or the operation where its metadata are validated. All other operations continue.
batch: about how many rows at most (1 to 1,000,000). lease: when an attempt that does not continue is lost (60 s).
done: how much it did. wait_ms: when to call it again if that was nothing; null: no time is known.
Errors: 22023 batch or lease is out of range; 2D000 it is called inside a transaction (use pawl_bulk.advance there).
Privileges: pawl_admin, pawl_operator. Validators run as in pawl_bulk.advance.
Example: CALL pawl_bulk.work_operations(10000)';
