-- Jobs that belong to a session: when it ends, for whatever reason, they return to the board at once, without a lease
-- that has to expire.

-- A session that has jobs tied to it holds one lock (0x73616761 and its number), and the jobs say which.
CREATE FUNCTION pawl_saga._session_locks() RETURNS TABLE (pid integer, number integer)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT l.pid, l.objid::bigint::integer FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.objsubid = 7104 AND l.classid = 1935763297 AND l.mode = 'ExclusiveLock'
         AND l.granted
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
$function$;
COMMENT ON FUNCTION pawl_saga._session_locks() IS 'internal: the sessions of this database that have jobs tied to them';

CREATE FUNCTION pawl_saga.tie_job(job uuid, processor text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
SET pawl.processor = ''
AS $function$
DECLARE
    j pawl_saga.jobs := pawl_saga._owned_job(job, processor);
    mine integer := (SELECT l.number FROM pawl_saga._session_locks() l WHERE l.pid = pg_backend_pid() LIMIT 1);
BEGIN
    WHILE mine IS NULL LOOP
        mine := floor(random() * 2147483647);
        IF NOT pawl.acquire_session_lock(1935763297::bigint << 32 | mine) THEN
            mine := NULL;
        END IF;
    END LOOP;
    UPDATE pawl_saga.jobs x SET session_lock = mine, lease_until = clock_timestamp() + interval '100 years'
        WHERE x.job_uuid = j.job_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_saga.tie_job(uuid, text) IS
'Ties a job to the session of its owner, which calls this, instead of a lease: when the session ends or releases its
advisory locks, the job returns to its board. Not behind a pooler in transaction mode. job: its id. processor: its
owner.
Errors: P0002 no such job, or it has no owner; PW004 another owner; PW005 the lease has expired. Privileges:
pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.tie_job(j.job_uuid, ''conductor 1'') FROM pawl_saga.jobs j WHERE j.owner = ''conductor 1''';

CREATE FUNCTION pawl_saga._return_job(job uuid, owner text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    PERFORM set_config('pawl.processor', owner, true);  -- in the name of its owner
    UPDATE pawl_saga.jobs j SET state = 'UNCLAIMED' WHERE j.job_uuid = job;
    RETURN 1;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_saga._ends_duty(SQLSTATE) THEN
        RAISE;
    END IF;
    RAISE WARNING 'job % is not returned: %', job, SQLERRM USING ERRCODE = SQLSTATE;
    RETURN 0;
END
$function$;
COMMENT ON FUNCTION pawl_saga._return_job(uuid, text) IS
'internal: returns a job whose session has ended to its board; 0: that raised an error';

CREATE FUNCTION pawl_saga.release_jobs(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
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
    SELECT array_agg(g) INTO gone FROM unnest(gone) g
        WHERE g <> ALL (ARRAY(SELECT l.number FROM pawl_saga._session_locks() l));
    FOR job IN SELECT j.job_uuid, j.owner FROM pawl_saga.jobs j
        WHERE j.session_lock = ANY (gone) AND j.state = 'CLAIMED'
                ORDER BY j.job_uuid FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        EXIT WHEN done >= batch;
        done := done + pawl_saga._return_job(job.job_uuid, job.owner);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga.release_jobs(integer) IS
'Returns jobs to their boards that were tied to a session that has ended. A duty: call it periodically.
batch: 1 to 10000; default 100. Returns done (how many) and next_at (null).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_saga.release_jobs()';

-- Triggers look at the states before and after a statement, as if it took one transition. pawl_saga._task_written
-- rejects lists for tasks; pawl_saga._engine lists events of runs.
CREATE TRIGGER "!one_by_one" BEFORE UPDATE ON pawl_saga.flows
    FOR EACH ROW WHEN (pawl.takes_list('pawl_saga.flows')) EXECUTE FUNCTION pawl.one_transition();
CREATE TRIGGER "!one_by_one" BEFORE UPDATE ON pawl_saga.retries
    FOR EACH ROW WHEN (pawl.takes_list('pawl_saga.retries')) EXECUTE FUNCTION pawl.one_transition();
CREATE TRIGGER "!one_by_one" BEFORE UPDATE ON pawl_saga.jobs
    FOR EACH ROW WHEN (pawl.takes_list('pawl_saga.jobs')) EXECUTE FUNCTION pawl.one_transition();
