-- The conductor starts the flows of jobs, and completes the jobs of those that have ended.

-- Any number of sessions can run the conductor under one name; each call is a transaction and leaves nothing half done.
CREATE FUNCTION pawl_saga.conductor() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN '019b0000-0000-7000-8000-00000005a9a0'::pg_catalog.text;
COMMENT ON FUNCTION pawl_saga.conductor() IS
'Returns the processor under which pawl_saga.conduct owns jobs.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT pawl_saga.conductor()';

-- A flow that a policy hides from the caller is not gone.
CREATE FUNCTION pawl_saga._is_gone(flow uuid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    SELECT NOT row_security_active('pawl_saga.flows')
        AND NOT EXISTS (SELECT FROM pawl_saga.flows f WHERE f.flow_uuid = flow)
$function$;
COMMENT ON FUNCTION pawl_saga._is_gone(uuid) IS 'internal: whether a flow was deleted';

-- A job of the conductor whose flow has ended, or is gone, waits for a minute.
CREATE FUNCTION pawl_saga._put_off_job(job uuid, code text, said text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    RAISE WARNING 'job % is put off: %', job, said USING ERRCODE = code;
    PERFORM set_config('pawl.processor', pawl_saga.conductor(), true);
    UPDATE pawl_saga.jobs j SET due_at = clock_timestamp() + interval '1 min' WHERE j.job_uuid = job;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_saga._ends_duty(SQLSTATE) THEN
        RAISE;
    END IF;
    RAISE WARNING 'job % is tried again at once: %', job, SQLERRM USING ERRCODE = SQLSTATE;
END
$function$;
COMMENT ON FUNCTION pawl_saga._put_off_job(uuid, text, text) IS
'internal: a job that raised an error when its flow had ended is put off';

CREATE FUNCTION pawl_saga._end_job(job uuid, flow uuid) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    IF flow IS NOT NULL THEN
        PERFORM pawl_saga.consume_job(job, pawl_saga.conductor());
    ELSE
        -- what it stored is lost: another flow is started for the job, as often as it can be taken
        PERFORM set_config('pawl.processor', pawl_saga.conductor(), true);
        UPDATE pawl_saga.jobs j SET flow_uuid = NULL WHERE j.job_uuid = job;
        PERFORM pawl_saga.abandon_job(job, pawl_saga.conductor());
    END IF;
    RETURN 1;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_saga._ends_duty(SQLSTATE) THEN
        RAISE;
    END IF;
    PERFORM pawl_saga._put_off_job(job, SQLSTATE, SQLERRM);
    RETURN 0;
END
$function$;
COMMENT ON FUNCTION pawl_saga._end_job(uuid, uuid) IS
'internal: completes a job whose flow has ended, or abandons one whose flow is gone (null); 0: that raised an error';

-- A transient error may not come again: the job is abandoned, max_attempts times.
CREATE FUNCTION pawl_saga._give_up_job(job uuid, code text, said text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    BEGIN
        IF pawl.is_transient(code) THEN
            PERFORM pawl_saga.abandon_job(job, pawl_saga.conductor());
        ELSE
            PERFORM pawl_saga.trash_job(job, pawl_saga.conductor(), said);
        END IF;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl_saga._ends_duty(SQLSTATE) THEN
            RAISE;
        END IF;
        RAISE WARNING 'job % is not given up: %', job, SQLERRM USING ERRCODE = SQLSTATE;
        PERFORM set_config('pawl.processor', pawl_saga.conductor(), true);
        UPDATE pawl_saga.jobs j SET lease_until = clock_timestamp() + interval '1 min' WHERE j.job_uuid = job;
    END;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_saga._ends_duty(SQLSTATE) THEN
        RAISE;
    END IF;
    RAISE WARNING 'the lease of job % stays as it is: %', job, SQLERRM USING ERRCODE = SQLSTATE;
END
$function$;
COMMENT ON FUNCTION pawl_saga._give_up_job(uuid, text, text) IS
'internal: a job whose flow could not be started or continued is abandoned or trashed, or its lease ends soon';

CREATE FUNCTION pawl_saga.conduct(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    job record;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    -- a suspended flow keeps its job: on the board, the next call would claim it and undo what the operator decided
    FOR job IN
        SELECT j.job_uuid, f.flow_uuid FROM pawl_saga.jobs j LEFT JOIN pawl_saga.flows f ON f.flow_uuid = j.flow_uuid
         WHERE j.owner = pawl_saga.conductor() AND (f.state IN ('SUCCESS', 'FAILURE', 'REVERTED')
             OR f.flow_uuid IS NULL AND pawl_saga._is_gone(j.flow_uuid))
           AND (j.due_at > clock_timestamp()) IS NOT TRUE
         ORDER BY j.job_uuid FOR NO KEY UPDATE OF j SKIP LOCKED
    LOOP
        EXIT WHEN done >= batch;
        done := done + pawl_saga._end_job(job.job_uuid, job.flow_uuid);
    END LOOP;
    IF NOT (SELECT w.here FROM pawl.where_is('saga', 'default') w) THEN
        RETURN;
    END IF;
    FOR job IN SELECT c.*
        FROM pawl.claim(NULL::pawl_saga.jobs, 'claim', pawl_saga.conductor(), '100 years', batch, 'default') c LOOP
        BEGIN
            IF job.flow_uuid IS NULL OR pawl_saga._is_gone(job.flow_uuid) THEN
                job.flow_uuid := pawl_saga.start(job.flow, job.inputs);
                PERFORM set_config('pawl.processor', pawl_saga.conductor(), true);
                UPDATE pawl_saga.jobs j SET flow_uuid = job.flow_uuid WHERE j.job_uuid = job.job_uuid;
            ELSIF EXISTS (SELECT FROM pawl_saga.flows f
                    WHERE f.flow_uuid = job.flow_uuid AND f.state = 'PENDING') THEN
                PERFORM pawl_saga.run(job.flow_uuid);
            ELSIF NOT EXISTS (SELECT FROM pawl_saga.flows f
                    WHERE f.flow_uuid = job.flow_uuid AND f.state IN ('SUSPENDING', 'SUSPENDED')) THEN
                PERFORM pawl_saga.resume(job.flow_uuid);
            END IF;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl_saga._ends_duty(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM pawl_saga._give_up_job(job.job_uuid, SQLSTATE, SQLERRM);
        END;
        done := done + 1;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga.conduct(integer) IS
'Claims jobs of the board "default" and starts or continues their flows; consumes jobs of flows that have ended,
keeps those of suspended and reset flows until these run again, abandons jobs whose flow was deleted, and trashes
jobs whose flow cannot start. In a database that has not the board it claims none. A duty: call it periodically.
batch: 1 to 10000; default 100. Returns done (how many jobs it handled) and next_at (when to call it again).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_saga.conduct()';
