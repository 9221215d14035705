-- Waiting for jobs: until one is complete, or until a board has some.

-- How long to wait: a time that is further from now is not a timestamp.
CREATE FUNCTION pawl_saga._wait(timeout interval) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN greatest(least(timeout, interval '100 years'), interval '0');
COMMENT ON FUNCTION pawl_saga._wait(interval) IS 'internal: a timeout from 0 to 100 years; null: none';

CREATE FUNCTION pawl_saga.wait_for_job(job uuid, timeout interval DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    until timestamptz := clock_timestamp() + pawl_saga._wait(timeout);
    state text;
BEGIN
    LOOP
        SELECT j.state INTO state FROM pawl_saga.jobs j WHERE j.job_uuid = job;
        IF NOT FOUND THEN
            PERFORM pawl.raise('P0002', format('there is no job %s', job));
        END IF;
        EXIT WHEN state = 'COMPLETE' OR clock_timestamp() >= until;
        PERFORM pg_sleep(least(0.05, greatest(extract(epoch FROM until - clock_timestamp()), 0.001)));
    END LOOP;
    RETURN state = 'COMPLETE';
END
$function$;
COMMENT ON FUNCTION pawl_saga.wait_for_job(uuid, interval) IS
'Waits until a job is COMPLETE (true) or the timeout has passed (false). Not in REPEATABLE READ. job: its id.
timeout: default null: none.
Errors: P0002 no such job. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_saga.wait_for_job(j.job_uuid, ''1 s'') FROM pawl_saga.jobs j WHERE j.name = ''trip of Ada''';

CREATE FUNCTION pawl_saga.wait_for_jobs(board text DEFAULT 'default', timeout interval DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    until timestamptz := clock_timestamp() + pawl_saga._wait(timeout);
    there bigint;
BEGIN
    LOOP
        SELECT count(*) INTO there FROM pawl_saga.jobs j
            WHERE j.board = wait_for_jobs.board AND j.state = 'UNCLAIMED' AND j.due_at IS NULL;
        EXIT WHEN there > 0;
        IF clock_timestamp() >= until THEN
            PERFORM pawl.raise('P0002', format('there are no jobs on board "%s"', board));
        END IF;
        PERFORM pg_sleep(least(0.05, greatest(extract(epoch FROM until - clock_timestamp()), 0.001)));
    END LOOP;
    RETURN there;
END
$function$;
COMMENT ON FUNCTION pawl_saga.wait_for_jobs(text, interval) IS
'Waits until a board has jobs to claim, and returns how many. Not in REPEATABLE READ. board: default "default".
timeout: default null: none.
Errors: P0002 no jobs within the timeout. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_saga.wait_for_jobs(timeout => ''1 s'')';
