-- Delivery of notices: by a SQL function, or by workers that claim them.

CREATE FUNCTION pawl_bulk._end_notice(n pawl_bulk.notices, problem text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    PERFORM set_config('pawl.processor', n.worker, true);
    UPDATE pawl_bulk.notices x
       SET state = CASE WHEN problem IS NULL THEN 'delivered' WHEN n.tries < n.max_tries THEN 'ready' ELSE 'failed' END,
       message = problem
     WHERE x.operation = n.operation AND x.notice = n.notice;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._end_notice(pawl_bulk.notices, text) IS
'internal: records the result of a delivery of a notice; null: it succeeded';

-- Calls the function of a notice, which the role that submitted the operation named; returns the error, or null. The
-- function must belong to a role whose handlers are run too, and the submitter must have EXECUTE on it.
CREATE FUNCTION pawl_bulk._deliver(n pawl_bulk.notices, patient boolean) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    called regprocedure;
BEGIN
    called := to_regprocedure(n.target || '(jsonb)');
    IF called IS NULL THEN
        RETURN format('no function %s(jsonb)', n.target);
    ELSIF NOT EXISTS (SELECT FROM pg_proc p WHERE p.oid = called
            AND (pg_has_role(p.proowner, 'pawl_admin', 'USAGE') OR pg_get_userbyid(p.proowner) = current_user)) THEN
        RETURN format('the owner of function %s is not a member of pawl_admin', called);
    ELSIF NOT EXISTS (SELECT FROM pg_proc p JOIN pg_roles r ON r.rolname = n.asked_by
                       WHERE p.oid = called AND has_schema_privilege(r.oid, p.pronamespace, 'USAGE')
            AND has_function_privilege(r.oid, called, 'EXECUTE')) THEN
        RETURN format('role "%s", which requested it, lacks EXECUTE on function %s', n.asked_by, called);
    END IF;
    PERFORM pawl.call_as_definer(n.asked_by::name, called, format('SELECT count(*) FROM %s($1)', called::oid::regproc),
        NULL::bigint, n.payload);
    RETURN NULL;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_bulk._ends_duty(SQLSTATE) OR patient AND pawl.is_transient(SQLSTATE) THEN
        RAISE;
    END IF;
    RETURN SQLERRM;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._deliver(pawl_bulk.notices, boolean) IS
'internal: calls the function of a notice and returns its error; patient: a transient error is raised';

-- What it did is undone; its lease ends when it is tried again, or, after max_tries, given up.
CREATE FUNCTION pawl_bulk._notice_raised(n jsonb, worker text, code text, said text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.processor = ''
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_variable
BEGIN
    PERFORM set_config('pawl.processor', worker, true);
    RAISE WARNING 'notice % of operation % is put off: %', n ->> 'notice', n ->> 'operation', said USING ERRCODE = code;
    UPDATE pawl_bulk.notices x SET message = left(said, 2000),
           lease_until = clock_timestamp() + least(interval '10 min', interval '1 s' * 2 ^ least(x.tries, 10))
     WHERE x.operation = (n ->> 'operation')::uuid AND x.notice = (n ->> 'notice')::uuid AND x.state = 'leased'
       AND x.token = (n ->> 'token')::bigint AND x.worker = worker;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_bulk._ends_duty(SQLSTATE) THEN
        RAISE;
    END IF;
    RAISE WARNING 'the lease of notice % stays as it is: %', n ->> 'notice', SQLERRM;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._notice_raised(jsonb, text, text, text) IS
'internal: a notice whose delivery could not be recorded is put off';

CREATE FUNCTION pawl_bulk._deliver_apart(n pawl_bulk.notices) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_bulk._end_notice(n, pawl_bulk._deliver(n, false));
    RETURN 1;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_bulk._ends_duty(SQLSTATE) THEN
        RAISE;
    END IF;
    PERFORM pawl_bulk._notice_raised(jsonb_build_object('operation', n.operation, 'notice', n.notice, 'token', n.token),
        n.worker, SQLSTATE, SQLERRM);
    RETURN 0;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._deliver_apart(pawl_bulk.notices) IS
'internal: delivers a claimed notice; 0: that could not be recorded, and is undone';

CREATE FUNCTION pawl_bulk.run_sql_notices(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_variable
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    taken pawl_bulk.notices[];
    n pawl_bulk.notices;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    -- all in this transaction, so the lease does not matter
    taken := ARRAY(SELECT c FROM pawl.claim(NULL::pawl_bulk.notices, 'Take', 'run_sql_notices ' || pg_backend_pid(),
        '1 day', batch, 'sql') c);
    done := 0;
    FOREACH n IN ARRAY taken LOOP
        done := done + pawl_bulk._deliver_apart(n);
    END LOOP;
    PERFORM set_config('pawl.processor', caller, true);
    next_at := clock_timestamp() + interval '1 s';
END
$function$;
COMMENT ON FUNCTION pawl_bulk.run_sql_notices(integer) IS
'Delivers notices of the channel sql in the transaction of the caller, with the rights that pawl.call_as_definer gives
to functions of the role that submitted the operation: calls target(notice jsonb) of each, a function that belongs to '
'a member of pawl_admin or to the caller, and on which the role that
submitted the operation has EXECUTE. pawl_bulk.work_sql_notices is the duty. A delivery that raises an error is
retried with a backoff, max_tries times.
batch: 1 to 10000; default 100. Returns done (how many) and next_at (when to call it again).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator.
Example: SELECT * FROM pawl_bulk.run_sql_notices()';

CREATE FUNCTION pawl_bulk._take_notice(worker text, lease interval) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
AS $function$
BEGIN
    RETURN (SELECT jsonb_build_object('operation', c.operation, 'notice', c.notice, 'token', c.token)
      FROM pawl.claim(NULL::pawl_bulk.notices, 'Take', worker, lease, 1, 'sql') c);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._take_notice(text, interval) IS
'internal: the keys of the next notice for a SQL function, or null';

CREATE FUNCTION pawl_bulk._deliver_taken(n jsonb, worker text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_variable
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    held pawl_bulk.notices;
BEGIN
    -- until this transaction ends, the row is locked and the lease is long; a rollback brings the short lease back
    PERFORM set_config('pawl.processor', worker, true);
    UPDATE pawl_bulk.notices x SET lease_until = clock_timestamp() + interval '1 day'
     WHERE x.operation = (n ->> 'operation')::uuid AND x.notice = (n ->> 'notice')::uuid AND x.state = 'leased'
         AND x.token = (n ->> 'token')::bigint AND x.lease_until > clock_timestamp() RETURNING x.* INTO held;
    PERFORM set_config('pawl.processor', caller, true);
    IF held.notice IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM pawl_bulk._end_notice(held, pawl_bulk._deliver(held, true));
    PERFORM set_config('pawl.processor', caller, true);
    RETURN 1;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._deliver_taken(jsonb, text) IS
'internal: delivers a notice that was claimed in an earlier transaction; 0: it is lost';

CREATE PROCEDURE pawl_bulk.work_sql_notices(batch integer DEFAULT 100, lease interval DEFAULT NULL,
    INOUT done bigint DEFAULT NULL, INOUT wait_ms integer DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER
AS $function$
DECLARE
    delivered integer;
BEGIN
    -- it commits, so it cannot have settings for its whole run
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    PERFORM pawl.check_batch(batch, 10000), pawl.check_lease(lease);
    CALL pawl.claim_and_run('SELECT pawl_bulk._take_notice($1, $2)', 'SELECT pawl_bulk._deliver_taken($1, $2)',
        'SELECT pawl_bulk._notice_raised($1, $2, $3, $4)', 'work_sql_notices ' || pg_backend_pid(), lease, batch,
        delivered);
    done := delivered;
    wait_ms := 1000;
END
$function$;
COMMENT ON PROCEDURE pawl_bulk.work_sql_notices(integer, interval, bigint, integer) IS
'Procedure, a duty: delivers what pawl_bulk.run_sql_notices delivers, each notice in a transaction of its own, as
many as start within 100 ms. Each is claimed in an earlier transaction, so a function that ends its session has
used an attempt. What the function writes and the delivery are one transaction.
batch: 1 to 10000; default 100. lease: default 60 s. Returns done (how many) and wait_ms (when to call it again, in
milliseconds, if there was nothing to do).
Errors: 2D000 inside a transaction; 22023 batch or lease out of range. Privileges: pawl_admin, pawl_operator.
Example: CALL pawl_bulk.work_sql_notices(10)';

CREATE FUNCTION pawl_bulk.claim_notices(processor text, channel text, batch integer DEFAULT 10,
    lease interval DEFAULT NULL)
RETURNS TABLE (operation uuid, notice uuid, token bigint, tries integer, target text, payload jsonb,
    lease_until timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM pawl.check_batch(batch, 10000), pawl.check_lease(claim_notices.lease);
    IF coalesce(claim_notices.processor, '') = '' THEN
        PERFORM pawl.raise('22004', 'no processor given');
    ELSIF coalesce(claim_notices.channel, '') IN ('', 'sql') THEN
        PERFORM pawl.raise('22023', 'channel must not be null or "sql"', NULL,
            'select * from pawl_bulk.run_sql_notices()');
    END IF;
    PERFORM FROM pawl.fire_due('pawl_bulk.notices', greatest(batch, 100));
    RETURN QUERY SELECT c.operation, c.notice, c.token, c.tries, c.target, c.payload, c.lease_until
                   FROM pawl.claim(NULL::pawl_bulk.notices, 'Take', claim_notices.processor, claim_notices.lease, batch,
                       claim_notices.channel) c;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.claim_notices(text, text, integer, interval) IS
'Claims notices of a channel for delivery, oldest first. A notice can be claimed again after its lease expires; its
id, also in the payload, identifies it.
processor: the worker. channel: not sql. batch: 1 to 10000; default 10. lease: default 60 s.
Returns operation, notice, token (the fencing token), tries, target, payload and lease_until.
Errors: 22004 no processor given; 22023 no channel or sql, batch or lease out of range. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_bulk.claim_notices(''mailer 1'', ''email'')';

CREATE FUNCTION pawl_bulk.report_notices(results jsonb, processor text)
    RETURNS TABLE (operation uuid, notice uuid, ok boolean, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_column
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    lost constant text := 'PW005: the lease is lost, or the notice is already done';
    said record;
    n pawl_bulk.notices;
BEGIN
    IF jsonb_typeof(results) IS DISTINCT FROM 'array' THEN
        PERFORM pawl.raise('22023', 'results must be a JSON array', NULL,
            '[{"operation", "notice", "token", "result": "ok", "message"}]');
    ELSIF coalesce(report_notices.processor, '') = '' THEN
        PERFORM pawl.raise('PW004', 'reports require a processor');
    END IF;
    SELECT x.n, x.e INTO said FROM jsonb_array_elements(results) WITH ORDINALITY x(e, n)
     WHERE (pawl_bulk._uuid(x.e ->> 'operation') IS NOT NULL AND pawl_bulk._uuid(x.e ->> 'notice') IS NOT NULL
            AND coalesce(x.e ->> 'token', '0') ~ '^-?[0-9]{1,18}$' AND x.e ->> 'result' IN ('ok', 'fail')) IS NOT TRUE
     ORDER BY x.n LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', 'a result must have operation, notice, token and result',
            format('Element %s is %s.', said.n, left(said.e::text, 200)),
            '[{"operation", "notice", "token", "result": "ok" or "fail", "message"}]');
    END IF;
    FOR said IN SELECT *
        FROM jsonb_to_recordset(results) y(operation uuid, notice uuid, token bigint, result text, message text)
        ORDER BY y.operation, y.notice LOOP
        operation := said.operation;
        notice := said.notice;
        problem := NULL;
        SELECT x.* INTO n FROM pawl_bulk.notices x
            WHERE x.operation = said.operation AND x.notice = said.notice FOR UPDATE;
        IF (n.state = 'leased' AND n.worker = report_notices.processor AND n.token = said.token
                AND n.lease_until > clock_timestamp()) IS NOT TRUE THEN
            problem := lost;
        ELSE
            -- a lease can expire between the check and the UPDATE: that notice is lost,
            -- and the others are reported all the same
            BEGIN
                PERFORM pawl_bulk._end_notice(n, CASE said.result WHEN 'fail' THEN coalesce(said.message, '') END);
            EXCEPTION WHEN SQLSTATE 'PW005' THEN
                problem := lost;
            WHEN OTHERS OR ASSERT_FAILURE THEN
                IF pawl_bulk._ends_duty(SQLSTATE) OR pawl.is_transient(SQLSTATE) THEN
                    RAISE;
                END IF;
                problem := SQLSTATE || ': ' || SQLERRM;
            END;
        END IF;
        ok := problem IS NULL;
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('pawl.processor', caller, true);
END
$function$;
COMMENT ON FUNCTION pawl_bulk.report_notices(jsonb, text) IS
'Records the results of deliveries, and returns one row for each. A failed delivery is retried with a backoff,
max_tries times.
results: [{"operation", "notice", "token", "result": "ok" or "fail", "message"}]. processor: the worker.
Returns operation, notice, ok and problem (PW005: the lease is lost, or the notice is already done; otherwise the
SQLSTATE and message of what its report raised; the other notices are reported).
Errors: 22023 not an array, or an invalid element; PW004 no processor given. Privileges: pawl_admin, pawl_operator,
pawl_worker.
Example: SELECT * FROM pawl_bulk.report_notices(''[]'', ''mailer 1'')';
