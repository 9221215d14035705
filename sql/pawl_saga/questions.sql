-- Questions to users' functions: the votes of deciders on a node, or what the controllers of a failed atom say.
-- A report asks them itself where it concerns one flow. All else that changes flows leaves them here, for the
-- sessions that run SQL functions: an attempt is committed before the function is called, so the loss of a session
-- is counted against the question, and stops no other flow.

CREATE TABLE pawl_saga.questions (
    flow_uuid uuid NOT NULL REFERENCES pawl_saga.flows ON DELETE CASCADE,
    node integer NOT NULL,
    place integer NOT NULL,
    failure jsonb,
    attempt integer NOT NULL DEFAULT 0,
    losses integer NOT NULL DEFAULT 0,
    session integer,
    lease_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (flow_uuid, node),
    CHECK ((session IS NULL) = (lease_until IS NULL))
);
CREATE INDEX questions_next ON pawl_saga.questions (losses, created_at);
COMMENT ON TABLE pawl_saga.questions IS
'questions to deciders and controllers that are SQL functions, until work_sql_tasks or run_sql_tasks asks them';
COMMENT ON COLUMN pawl_saga.questions.node IS 'the node that is voted on, or the atom that failed';
COMMENT ON COLUMN pawl_saga.questions.place IS 'the questions of a flow are asked in this order';
COMMENT ON COLUMN pawl_saga.questions.failure IS
'the failure that controllers are asked about; null: votes on the node';
COMMENT ON COLUMN pawl_saga.questions.attempt IS 'how often it was taken';
COMMENT ON COLUMN pawl_saga.questions.losses IS
'sessions that were lost while they asked. After more than five the flow fails';
COMMENT ON COLUMN pawl_saga.questions.session IS 'the process that took it; null: none asks it now';
COMMENT ON COLUMN pawl_saga.questions.lease_until IS
'when an attempt that does not continue is lost, if its process still lives and does something else';
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.questions', '');

CREATE FUNCTION pawl_saga._leave_questions(leave boolean) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_leave_questions';
COMMENT ON FUNCTION pawl_saga._leave_questions(boolean) IS
'internal: true: from now on this transaction leaves questions to users'' functions; false: no longer';

CREATE FUNCTION pawl_saga._leaves_questions() RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_saga_leaves_questions';
COMMENT ON FUNCTION pawl_saga._leaves_questions() IS
'internal: whether questions to users'' functions are left for later';

-- Called where a user's function is about to be asked, and nowhere else. A flow that lost a worker may have lost it
-- to this very function. A session that may not call functions of the definer leaves them to those that may.
CREATE FUNCTION pawl_saga._left_question(flow uuid, node integer, failure jsonb) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    IF NOT pawl_saga._leaves_questions()
       AND NOT EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.flow_uuid = flow AND t.losses > 0)
       AND (SELECT pawl_saga._may_ask(d.created_by) FROM pawl_saga.flows f
              JOIN pawl_saga.definitions d ON d.definition_uuid = f.definition_uuid WHERE f.flow_uuid = flow) THEN
        RETURN false;
    END IF;
    INSERT INTO pawl_saga.questions AS q (flow_uuid, node, place, failure)
    SELECT flow, _left_question.node, coalesce(max(x.place), 0) + 1, _left_question.failure
      FROM pawl_saga.questions x WHERE x.flow_uuid = flow
    ON CONFLICT ON CONSTRAINT questions_pkey DO UPDATE SET place = excluded.place, failure = excluded.failure
     WHERE q.failure IS DISTINCT FROM excluded.failure;
    -- a question is no state change, and those that ask it wait for tasks
    PERFORM pawl.wake('pawl_saga.tasks');
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_saga._left_question(uuid, integer, jsonb) IS
'internal: whether a question is left for later; if so, it is in pawl_saga.questions';

-- A failure that is not decided yet is not reverted: its controller decides how much more is.
CREATE FUNCTION pawl_saga._is_decided(flow uuid, node integer) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    SELECT NOT EXISTS (SELECT FROM pawl_saga.questions q WHERE q.flow_uuid = flow AND q.node = _is_decided.node)
$function$;
COMMENT ON FUNCTION pawl_saga._is_decided(uuid, integer) IS
'internal: no question is open about the failure of an atom';

-- An attempt under way has its row locked. One whose row is not locked is lost when its session is gone or does
-- something else, or its lease is over.
CREATE FUNCTION pawl_saga._lost_questions() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    lost pawl_saga.questions;
BEGIN
    FOR lost IN
        SELECT q.* FROM pawl_saga.questions q JOIN pawl_saga.flows f ON f.flow_uuid = q.flow_uuid
         WHERE q.session IS NOT NULL
           AND (q.lease_until <= clock_timestamp() OR q.session = pg_backend_pid()
                OR NOT EXISTS (SELECT FROM pg_stat_get_activity(q.session)))
         ORDER BY q.flow_uuid, q.node LIMIT 100 FOR NO KEY UPDATE OF f SKIP LOCKED
    LOOP
        UPDATE pawl_saga.questions q SET session = NULL, lease_until = NULL, losses = q.losses + 1
         WHERE q.flow_uuid = lost.flow_uuid AND q.node = lost.node AND q.attempt = lost.attempt
           AND q.session = lost.session;
        CONTINUE WHEN NOT FOUND;
        PERFORM pawl_saga._set_aside(lost.flow_uuid, 'work_sql_tasks', '57P01',
            'the session or transaction that asked a decider or controller was lost');
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._lost_questions() IS
'internal: counts attempts that were lost; their flows are set aside. Called when this session asks nothing';

CREATE FUNCTION pawl_saga._take_question(lease interval) RETURNS pawl_saga.questions
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    taken pawl_saga.questions;
BEGIN
    IF NOT EXISTS (SELECT FROM pawl_saga.questions) THEN
        RETURN NULL;
    END IF;
    PERFORM pawl_saga._lost_questions();
    -- The flow is locked before its rows, as everywhere.
    SELECT q.* INTO taken FROM pawl_saga.questions q JOIN pawl_saga.flows f ON f.flow_uuid = q.flow_uuid
     WHERE q.session IS NULL
       AND NOT EXISTS (SELECT FROM pawl_saga.questions x WHERE x.flow_uuid = q.flow_uuid AND x.place < q.place)
       AND NOT EXISTS (SELECT FROM pawl_saga.set_aside s
                        WHERE s.flow_uuid = q.flow_uuid AND s.due_at > clock_timestamp())
     ORDER BY q.losses, q.created_at LIMIT 1 FOR NO KEY UPDATE OF f SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE pawl_saga.questions q
       SET attempt = q.attempt + 1, session = pg_backend_pid(),
           lease_until = clock_timestamp() + coalesce(lease, '60 s')
     WHERE q.flow_uuid = taken.flow_uuid AND q.node = taken.node AND q.attempt = taken.attempt AND q.session IS NULL
    RETURNING q.* INTO taken;
    RETURN CASE WHEN FOUND THEN taken END;
END
$function$;
COMMENT ON FUNCTION pawl_saga._take_question(interval) IS
'internal: takes the next question for this session, and returns it; null: there is none';

-- SECURITY DEFINER: as the follow-ups of atoms. The function itself is called with other rights: pawl_saga._ask.
CREATE FUNCTION pawl_saga._ask_question(taken pawl_saga.questions) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    held pawl_saga.questions;
    outermost boolean;
    f pawl_saga.flows;
BEGIN
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = taken.flow_uuid FOR NO KEY UPDATE;
    SELECT q.* INTO held FROM pawl_saga.questions q
     WHERE q.flow_uuid = taken.flow_uuid AND q.node = taken.node AND q.attempt = taken.attempt
       AND q.session = pg_backend_pid() FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pawl_saga._check_snapshot(held.flow_uuid);
    DELETE FROM pawl_saga.questions q WHERE q.flow_uuid = held.flow_uuid AND q.node = held.node;
    DELETE FROM pawl_saga.set_aside s WHERE s.flow_uuid = held.flow_uuid;
    IF f.state NOT IN ('RUNNING', 'SUSPENDING') OR f.broken THEN
        RETURN false;
    END IF;
    -- what follows from the answer leaves its own questions, so that each has its own attempts
    outermost := pawl_saga._follow(true);
    IF held.losses > 5 THEN
        PERFORM pawl_saga._break(held.flow_uuid, jsonb_build_object('sqlstate', '57P01', 'atom', n.name, 'message',
                format('%s sessions or transactions were lost that asked a decider or controller', held.losses)))
           FROM pawl_saga.nodes n WHERE n.definition_uuid = f.definition_uuid AND n.node = held.node;
    ELSIF held.failure IS NULL THEN
        PERFORM pawl_saga._examine(held.flow_uuid, held.node, true);
    ELSE
        PERFORM pawl_saga._decide_later(held.flow_uuid, held.node, held.failure);
    END IF;
    IF outermost THEN
        PERFORM pawl_saga._finish(ARRAY[held.flow_uuid]);
        PERFORM pawl_saga._followed();
    ELSE
        PERFORM pawl_saga._leave_end(held.flow_uuid);
    END IF;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_saga._ask_question(pawl_saga.questions) IS
'internal: asks a question that this session took, and does what follows; false: it is no longer open';

-- An error that is not the function's own, or that may pass: the question is open again.
CREATE FUNCTION pawl_saga._question_raised(taken pawl_saga.questions, duty text, code text, said text, lost boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    UPDATE pawl_saga.questions q
       SET session = NULL, lease_until = NULL,
           losses = q.losses + lost::integer
     WHERE q.flow_uuid = taken.flow_uuid AND q.node = taken.node AND q.attempt = taken.attempt
       AND q.session = pg_backend_pid();
    IF FOUND THEN
        PERFORM pawl_saga._set_aside(taken.flow_uuid, duty, code, said);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._question_raised(pawl_saga.questions, text, text, text, boolean) IS
'internal: a question that this session took could not be answered; its flow is set aside; lost: that counts as a loss';
