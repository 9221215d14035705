-- The duty that advances operations. Any number of sessions can call it; each skips operations that another one works
-- on.

CREATE FUNCTION pawl_bulk._fail(operation uuid, message text, event text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    PERFORM set_config('pawl.event', event, true);
    UPDATE pawl_bulk.operations o SET status = 'Failed', error_message = message WHERE o.operation = _fail.operation;
    PERFORM set_config('pawl.event', '', true);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._fail(uuid, text, text) IS 'internal: ends an operation that cannot continue';

CREATE FUNCTION pawl_bulk._finish(o pawl_bulk.operations) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    sums record;
BEGIN
    sums := pawl_bulk._sums(o.operation);
    IF sums.successful + sums.failed < o.total_rows THEN
        RETURN 0;
    END IF;
    UPDATE pawl_bulk.operations x SET status = CASE WHEN sums.failed = 0 THEN 'Completed' ELSE 'CompletedWithErrors' END
        WHERE x.operation = o.operation;
    RETURN 1;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._finish(pawl_bulk.operations) IS 'internal: ends an operation whose rows have all ended';

-- Rows that ran out of time or memory, or whose session was lost, are tried again in tenths, and tenths of these, until
-- one row is alone.
CREATE FUNCTION pawl_bulk._rows_at_once(trouble pawl_bulk.troubles, batch integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN trouble.sqlstate ~ '^5[37]'
        THEN greatest(batch / power(10, least(trouble.failures, 7)), 1)::integer ELSE batch END
$function$;
COMMENT ON FUNCTION pawl_bulk._rows_at_once(pawl_bulk.troubles, integer) IS
'internal: how many rows of an operation in trouble are validated together';

CREATE FUNCTION pawl_bulk._advance_one(o pawl_bulk.operations, batch integer, trouble pawl_bulk.troubles,
        validate boolean, first_row bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    did bigint;
    rows bigint;
    errors text[];
    patient constant boolean := coalesce(trouble.failures < 5, true);
    size constant integer := pawl_bulk._rows_at_once(trouble, batch);
BEGIN
    IF o.status = 'Running' THEN
        did := CASE WHEN o.paused_at IS NULL THEN pawl_bulk._open_rows(o, batch) ELSE 0 END;
        RETURN CASE WHEN did > 0 THEN did ELSE pawl_bulk._finish(o) END;
    ELSIF o.paused_at IS NOT NULL THEN
        RETURN 0;
    ELSIF o.status = 'Pending' AND NOT o.sealed THEN
        IF o.created_at > clock_timestamp() - interval '1 day' THEN
            RETURN 0;
        END IF;
        PERFORM pawl_bulk._fail(o.operation, 'the input was never completed', 'Definition missing');
        RETURN 1;
    ELSIF o.status = 'Retrying' OR o.status = 'Pending' AND validate THEN
        RETURN pawl_bulk._pick_up(o, patient);
    ELSIF o.status = 'Pending' THEN
        RETURN 0;
    END IF;
    IF validate AND o.validated_through = 0
        AND NOT EXISTS (SELECT FROM pawl_bulk.unvalidated u WHERE u.operation = o.operation) THEN
        -- picked up by hand, or without rows
        errors := pawl_bulk._operation_errors(o, patient);
        IF errors <> '{}' THEN
            PERFORM pawl_bulk._fail(o.operation, array_to_string(errors, '; '), 'Metadata validation fails');
            RETURN 1;
        END IF;
    END IF;
    PERFORM pawl_bulk._lay_unvalidated(o.operation);
    did := 0;
    WHILE validate LOOP
        rows := pawl_bulk._validate_block(o.operation, least(size, batch - did::integer), patient, first_row);
        did := did + rows;
        -- which row ran out of time or ended its session must be known
        EXIT WHEN rows = 0 OR did >= batch OR trouble.sqlstate ~ '^57' OR first_row IS NOT NULL;
    END LOOP;
    -- another session has validated it meanwhile
    IF did = 0 AND (first_row IS NOT NULL OR NOT validate AND o.validated_through = 0) THEN
        RETURN 0;
    END IF;
    -- other sessions work on the remaining blocks: the operation continues when they are done
    IF did = 0 AND NOT EXISTS (SELECT FROM pawl_bulk.unvalidated u WHERE u.operation = o.operation) THEN
        IF o.input_error IS NULL THEN
            UPDATE pawl_bulk.operations x SET status = 'Running' WHERE x.operation = o.operation;
        ELSE
            PERFORM pawl_bulk._fail(o.operation, o.input_error, 'Metadata validation fails');
        END IF;
        did := 1;
    END IF;
    RETURN did;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._advance_one(pawl_bulk.operations, integer, pawl_bulk.troubles, boolean, bigint) IS
'internal: does the next part of an operation and returns how much; validate: users'' functions may be called';

-- Null: another session has locked it.
CREATE FUNCTION pawl_bulk._advance_candidate(candidate uuid, batch integer, validate boolean,
        first_row bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
    trouble pawl_bulk.troubles;
    did bigint;
BEGIN
    SELECT x.* INTO o FROM pawl_bulk.operations x
        WHERE x.operation = candidate AND x.status = ANY ('{Pending,Validating,Running,Retrying}')
       FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT t.* INTO trouble FROM pawl_bulk.troubles t WHERE t.operation = candidate;
    did := pawl_bulk._advance_one(o, batch, trouble, validate, first_row);
    IF trouble.operation IS NOT NULL THEN
        PERFORM pawl_bulk._ease(candidate);
    END IF;
    -- other sessions are validating
    RETURN CASE WHEN did = 0 AND o.status = 'Validating' AND o.paused_at IS NULL THEN -1 ELSE did END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._advance_candidate(uuid, integer, boolean, bigint) IS
'internal: does the next part of an operation and returns how much; null: another session has it; -1: others validate';

-- After a rollback. What was alone, and ran out of time or lost its session once more, is not tried again: the row
-- fails, or the operation where it is the metadata. attempt null: it is not on record
-- which rows it was, so it was the next ones.
CREATE FUNCTION pawl_bulk._met(candidate uuid, state text, message text,
        attempt pawl_bulk.validation_attempts DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_variable
DECLARE
    o pawl_bulk.operations;
BEGIN
    IF coalesce(pawl_bulk._trouble(candidate, state, message), 0) <= 5 OR state !~ '^57' THEN
        RETURN;
    END IF;
    BEGIN
        SELECT x.* INTO o FROM pawl_bulk.operations x
            WHERE x.operation = candidate AND x.status IN ('Pending', 'Validating') AND x.paused_at IS NULL
           FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        ELSIF o.status = 'Pending' OR o.validated_through = 0
            AND NOT EXISTS (SELECT FROM pawl_bulk.unvalidated u WHERE u.operation = candidate) THEN
            UPDATE pawl_bulk.operations x SET status = 'Validating'
                WHERE x.operation = candidate AND x.status = 'Pending';
            PERFORM pawl_bulk._fail(candidate, format('the metadata could not be validated: %s', message),
                'Metadata validation fails');
        ELSIF attempt.operation IS NULL OR attempt.first_row = attempt.last_row THEN
            IF pawl_bulk._fail_row(candidate, attempt.first_row,
                    jsonb_build_object('code', 'exception', 'message', message, 'sqlstate', state)) THEN
                PERFORM pawl_bulk._ease(candidate);
            END IF;
        END IF;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        -- it cannot be failed either: it stays in troubles
        RAISE WARNING 'operation % cannot advance: %', candidate, SQLERRM;
    END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._met(uuid, text, text, pawl_bulk.validation_attempts) IS
'internal: an error of the duty in an operation';

-- validate: also advances operations whose metadata or rows are to be validated.
CREATE FUNCTION pawl_bulk._advance(batch integer, validate boolean, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    candidate uuid;
    candidates uuid[];
    did bigint;
BEGIN
    candidates := ARRAY(SELECT x.operation FROM pawl_bulk.operations x
        WHERE x.status = ANY ('{Pending,Validating,Running,Retrying}')
                           AND NOT EXISTS (SELECT FROM pawl_bulk.troubles t
                               WHERE t.operation = x.operation AND t.again_at > clock_timestamp())
                           AND (validate OR x.status IN ('Running', 'Retrying') OR NOT x.sealed
                                OR x.validated_through > 0
                                AND NOT EXISTS (SELECT FROM pawl_bulk.unvalidated u WHERE u.operation = x.operation))
                         ORDER BY x.priority DESC, x.operation);
    -- all of them together; where one raises an error, each in a subtransaction of its own
    FOR attempt IN 1 .. 2 LOOP
        done := 0;
        next_at := NULL;
        BEGIN
            FOREACH candidate IN ARRAY candidates LOOP
                IF attempt = 1 THEN
                    did := pawl_bulk._advance_candidate(candidate, batch, validate);
                ELSE
                    BEGIN
                        did := pawl_bulk._advance_candidate(candidate, batch, validate);
                    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
                        IF pawl_bulk._ends_duty(SQLSTATE) THEN
                            RAISE;
                        END IF;
                        PERFORM pawl_bulk._met(candidate, SQLSTATE, SQLERRM);
                        did := 0;
                    END;
                END IF;
                done := done + greatest(did, 0);
                IF did = -1 THEN
                    next_at := clock_timestamp() + interval '50 ms';
                END IF;
                EXIT WHEN done >= batch;
            END LOOP;
            EXIT;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE OR QUERY_CANCELED THEN
            IF pawl_bulk._ends_duty(SQLSTATE) THEN
                RAISE;
            ELSIF SQLSTATE = '57014' THEN
                -- the time of this call is over: what it did is undone, and the others are tried by the next one
                done := 0;
                next_at := clock_timestamp();
                PERFORM pawl_bulk._met(candidate, SQLSTATE, SQLERRM);
                EXIT;
            END IF;
        END;
    END LOOP;
    next_at := least(next_at, (SELECT min(t.again_at) FROM pawl_bulk.troubles t WHERE t.again_at > clock_timestamp()));
END
$function$;
COMMENT ON FUNCTION pawl_bulk._advance(integer, boolean) IS 'internal: advances operations, as pawl_bulk.advance does';

CREATE FUNCTION pawl_bulk.advance(batch integer DEFAULT 10000, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
BEGIN
    PERFORM pawl.check_batch(batch, 1000000);
    SELECT a.done, a.next_at INTO done, next_at FROM pawl_bulk._advance(batch, true) a;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.advance(integer) IS
'Advances operations: validates rows, creates the first records of valid rows, and ends operations whose rows all
have an outcome. Validators run in the transaction of the caller, with the rights that pawl.call_as_definer gives to
functions of the role that defined the operation''s definition; pawl_bulk.work_operations is the duty. A row whose '
'validation raises an error fails; an operation that cannot advance waits in
pawl_bulk.troubles, for 1 s to 1 min, and does not stop others.
batch: about how many rows it validates at most, 1 to 1000000; default 10000.
Returns done (how much it did; call it again until 0) and next_at (when to call it again).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator.
Example: SELECT * FROM pawl_bulk.advance()';
