-- How long notices are kept that are delivered or given up.

CREATE FUNCTION pawl_bulk.keep_notices(keep interval) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF keep NOT BETWEEN interval '0' AND interval '1000 years' THEN
        PERFORM pawl.raise('22023', 'keep must be from 0 to 1000 years', format('It is %s.', keep),
            'keep => ''30 days'', or null for ever');
    END IF;
    INSERT INTO pawl_bulk.upkeep AS u (keep_notices)
        VALUES (keep) ON CONFLICT (one) DO UPDATE SET keep_notices = excluded.keep_notices;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.keep_notices(interval) IS
'Declares how long delivered and failed notices are kept; without a declaration 30 days. keep: 0 to 1000 years;
null: for ever.
Errors: 22023 keep is out of range. Privileges: pawl_admin. Example: SELECT pawl_bulk.keep_notices(''7 days'')';

-- Past what cannot be deleted, which stays the oldest.
CREATE FUNCTION pawl_bulk._prune_apart(keep interval, batch integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    old record;
    done bigint := 0;
BEGIN
    FOR old IN SELECT x.operation, x.notice FROM pawl_bulk.notices x WHERE x.ended_at < clock_timestamp() - keep
                ORDER BY x.ended_at FOR UPDATE SKIP LOCKED LOOP
        EXIT WHEN done >= batch;
        BEGIN
            DELETE FROM pawl_bulk.notices n WHERE n.operation = old.operation AND n.notice = old.notice;
            done := done + 1;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl_bulk._ends_duty(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'notice % cannot be deleted: %', old.notice, SQLERRM USING ERRCODE = SQLSTATE;
        END;
    END LOOP;
    RETURN done;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._prune_apart(interval, integer) IS
'internal: deletes old notices one by one; returns how many';

-- It deletes what an admin has declared, whichever role calls it.
CREATE FUNCTION pawl_bulk.prune_notices(batch integer DEFAULT 1000, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    keep interval := '30 days';
BEGIN
    PERFORM pawl.check_batch(batch, 100000);
    SELECT u.keep_notices INTO keep FROM pawl_bulk.upkeep u;
    IF NOT FOUND THEN
        keep := '30 days';
    END IF;
    BEGIN
        DELETE FROM pawl_bulk.notices n
         WHERE (n.operation, n.notice) IN (SELECT x.operation, x.notice FROM pawl_bulk.notices x
             WHERE x.ended_at < clock_timestamp() - keep ORDER BY x.ended_at LIMIT batch FOR UPDATE SKIP LOCKED);
        GET DIAGNOSTICS done = ROW_COUNT;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl_bulk._ends_duty(SQLSTATE) THEN
            RAISE;
        END IF;
        done := pawl_bulk._prune_apart(keep, batch);
    END;
    next_at := clock_timestamp() + interval '1 hour';
END
$function$;
COMMENT ON FUNCTION pawl_bulk.prune_notices(integer) IS
'Deletes notices that are older than pawl_bulk.keep_notices declares. A duty: call it periodically.
batch: 1 to 100000; default 1000. Returns done (how many) and next_at (when to call it again).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_bulk.prune_notices()';
