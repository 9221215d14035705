-- Jobs that belong to a session: when it ends, however it ends, they are back on the board, without any lease having to run out.

-- A session that has jobs tied to it holds one advisory lock (0x73616761, its number), and the jobs say which.
CREATE FUNCTION pawl_saga._session_locks() RETURNS TABLE (pid integer, number integer)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT l.pid, l.objid::bigint::integer FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = 1935763297 AND l.mode = 'ExclusiveLock' AND l.granted
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
$function$;
COMMENT ON FUNCTION pawl_saga._session_locks() IS 'internal: the sessions of this database that have jobs tied to them';

CREATE FUNCTION pawl_saga.tie_job(job uuid, who text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET pawl.processor = ''
AS $function$
DECLARE
    j pawl_saga.jobs := pawl_saga._owned_job(job, who);
    mine integer := (SELECT l.number FROM pawl_saga._session_locks() l WHERE l.pid = pg_backend_pid() LIMIT 1);
BEGIN
    WHILE mine IS NULL LOOP
        mine := floor(random() * 2147483647);
        IF NOT pg_try_advisory_lock(1935763297, mine) THEN
            mine := NULL;
        END IF;
    END LOOP;
    UPDATE pawl_saga.jobs x SET session_lock = mine, lease_until = clock_timestamp() + interval '100 years' WHERE x.job_uuid = j.job_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_saga.tie_job(uuid, text) IS
'ties a job to the session of its owner, who calls this: instead of a lease to be extended it has the session, and when that ends (or drops its advisory locks) it goes back to the board. The session must be the owner''s own, not one of a pool that hands out transactions. P0002: there is none, or nobody owns it; PW004: somebody else does; PW005: the lease has expired';

CREATE FUNCTION pawl_saga.release_jobs(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = 'gone'
SET pawl.token = ''
SET pawl.processor = ''
AS $function$
DECLARE
    gone integer[];
    job record;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    -- the jobs first and then the locks: a session whose job is seen here had its lock before
    SELECT array_agg(DISTINCT j.session_lock) INTO gone FROM pawl_saga.jobs j WHERE j.session_lock IS NOT NULL;
    SELECT array_agg(g) INTO gone FROM unnest(gone) g WHERE g <> ALL (ARRAY(SELECT l.number FROM pawl_saga._session_locks() l));
    FOR job IN SELECT j.job_uuid, j.owner FROM pawl_saga.jobs j WHERE j.session_lock = ANY (gone) AND j.state = 'CLAIMED'
                ORDER BY j.job_uuid LIMIT batch FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        PERFORM set_config('pawl.processor', job.owner, true);  -- he would say so himself if he could
        UPDATE pawl_saga.jobs j SET state = 'UNCLAIMED' WHERE j.job_uuid = job.job_uuid;
        done := done + 1;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga.release_jobs(integer) IS
'gives jobs back to the board whose owner tied them to a session that has ended; returns how many. A duty';
