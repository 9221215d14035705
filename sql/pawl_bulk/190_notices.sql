-- Delivery of notices: by a SQL function, or by who claims them.

CREATE FUNCTION pawl_bulk._end_notice(n pawl_bulk.notices, problem text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
BEGIN
    PERFORM set_config('pawl.processor', n.worker, true);
    UPDATE pawl_bulk.notices x
       SET state = CASE WHEN problem IS NULL THEN 'delivered' WHEN n.tries < n.max_tries THEN 'ready' ELSE 'failed' END, message = problem,
           ended_at = CASE WHEN problem IS NULL OR n.tries >= n.max_tries THEN clock_timestamp() END
     WHERE x.operation = n.operation AND x.notice = n.notice;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._end_notice(pawl_bulk.notices, text) IS 'internal: what came of a try to deliver a notice; null: it went well';

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
    called regprocedure;
    problem text;
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 10000 THEN
        PERFORM pawl._raise('22023', 'batch must be from 1 to 10000');
    END IF;
    -- all in this transaction: if its session dies nothing is taken, and nobody waits for the lease
    taken := ARRAY(SELECT c FROM pawl.claim(NULL::pawl_bulk.notices, 'Take', 'run_sql_notices ' || pg_backend_pid(), '1 day', batch, 'sql') c);
    FOREACH n IN ARRAY taken LOOP
        problem := NULL;
        BEGIN
            called := to_regprocedure(n.target || '(jsonb)');
            IF called IS NULL THEN
                problem := format('no function %s(jsonb)', n.target);
            -- Who runs this may do more than who may write operations, so the function is of somebody whose handlers are run as well.
            ELSIF NOT EXISTS (SELECT FROM pg_proc p WHERE p.oid = called AND (pg_has_role(p.proowner, 'pawl_admin', 'USAGE') OR pg_get_userbyid(p.proowner) = current_user)) THEN
                problem := format('the owner of function %s is not a member of pawl_admin', called);
            ELSE
                EXECUTE format('SELECT FROM %s($1)', called::oid::regproc) USING n.payload;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF SQLSTATE LIKE '40%' OR SQLSTATE LIKE '57P%' OR SQLSTATE LIKE '53%' THEN
                RAISE;
            END IF;
            problem := SQLERRM;
        END;
        PERFORM pawl_bulk._end_notice(n, problem);
    END LOOP;
    PERFORM set_config('pawl.processor', caller, true);
    done := cardinality(taken);
    next_at := clock_timestamp() + interval '1 s';
END
$function$;
COMMENT ON FUNCTION pawl_bulk.run_sql_notices(integer) IS
'a duty: delivers at most batch notices of the channel sql, with the caller''s rights: calls target(notice jsonb) of each, a function that belongs to a member of pawl_admin or to the caller. What the function writes and that the notice is delivered is one transaction, so in this database it happens once. An error is tried again with a backoff, max_tries times. 22023: batch is from 1 to 10000';

CREATE FUNCTION pawl_bulk.claim_notices(worker text, channel text, batch integer DEFAULT 10, lease interval DEFAULT NULL)
RETURNS TABLE (operation uuid, notice uuid, token bigint, tries integer, target text, payload jsonb, lease_until timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
AS $function$
#variable_conflict use_column
BEGIN
    IF coalesce(claim_notices.worker, '') = '' THEN
        PERFORM pawl._raise('22004', 'a worker needs a name');
    ELSIF coalesce(claim_notices.channel, '') IN ('', 'sql') THEN
        PERFORM pawl._raise('22023', 'a channel other than "sql" must be named', NULL, 'select * from pawl_bulk.run_sql_notices()');
    END IF;
    PERFORM FROM pawl.fire_due('pawl_bulk.notices', greatest(batch, 100));
    RETURN QUERY SELECT c.operation, c.notice, c.fence, c.tries, c.target, c.payload, c.lease_until
                   FROM pawl.claim(NULL::pawl_bulk.notices, 'Take', claim_notices.worker, claim_notices.lease, batch, claim_notices.channel) c;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.claim_notices(text, text, integer, interval) IS
'takes at most batch notices of a channel to be delivered by this worker, the oldest first. The same notice may come again, to another worker or after a lease (60 s) that ran out: notice, which is the payload''s key too, tells. 22004: no name; 22023: no channel, or sql';

CREATE FUNCTION pawl_bulk.report_notices(results jsonb, worker text) RETURNS TABLE (operation uuid, notice uuid, ok boolean, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_column
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    lost constant text := 'PW005: the notice is lost, or is done already';
    said record;
    n pawl_bulk.notices;
BEGIN
    IF jsonb_typeof(results) IS DISTINCT FROM 'array' THEN
        PERFORM pawl._raise('22023', 'results must be a JSON array', NULL, '[{"operation", "notice", "token", "result": "ok", "message"}]');
    ELSIF coalesce(report_notices.worker, '') = '' THEN
        PERFORM pawl._raise('PW004', 'a report is of somebody');
    END IF;
    FOR said IN SELECT * FROM jsonb_to_recordset(results) y(operation uuid, notice uuid, token bigint, result text, message text) ORDER BY y.operation, y.notice LOOP
        IF (said.operation IS NOT NULL AND said.notice IS NOT NULL AND said.result IN ('ok', 'fail')) IS NOT TRUE THEN
            PERFORM pawl._raise('22023', 'a result names operation, notice, token and result', 'result is ok or fail.');
        END IF;
        operation := said.operation;
        notice := said.notice;
        problem := NULL;
        SELECT x.* INTO n FROM pawl_bulk.notices x WHERE x.operation = said.operation AND x.notice = said.notice FOR UPDATE;
        IF (n.state = 'leased' AND n.worker = report_notices.worker AND n.fence = said.token AND n.lease_until > clock_timestamp()) IS NOT TRUE THEN
            problem := lost;
        ELSE
            -- a lease may end between the look and the move: that notice is lost, and the others are reported all the same
            BEGIN
                PERFORM pawl_bulk._end_notice(n, CASE said.result WHEN 'fail' THEN coalesce(said.message, '') END);
            EXCEPTION WHEN SQLSTATE 'PW005' THEN
                problem := lost;
            END;
        END IF;
        ok := problem IS NULL;
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('pawl.processor', caller, true);
END
$function$;
COMMENT ON FUNCTION pawl_bulk.report_notices(jsonb, text) IS
'how deliveries went: [{"operation", "notice", "token", "result": "ok" or "fail", "message"}]. What failed is tried again with a backoff, max_tries times. A notice that another has by now is refused alone: ok false, PW005. 22023: no array, or a result that is none; PW004: no worker';
