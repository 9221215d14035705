-- What the database runs itself when it is ready: retries, votes, and the check that all values exist.

-- The votes of the deciders into a node: null, or how far a no reaches (ALL, FLOW, NEIGHBORS, ATOM).
CREATE FUNCTION pawl_saga._vote(flow uuid, node integer) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    definition uuid := (SELECT f.definition_uuid FROM pawl_saga.flows f WHERE f.flow_uuid = flow);
    definer name := (SELECT d.created_by FROM pawl_saga.definitions d WHERE d.definition_uuid = definition);
    vote record;
    history jsonb;
    list jsonb;
    says boolean;
    widest text;
BEGIN
    SELECT coalesce(jsonb_object_agg(s.name, coalesce(s.result, 'null')), '{}') INTO history
      FROM pawl_saga.votes v JOIN pawl_saga.tasks s ON s.flow_uuid = flow AND s.node = v.source AND s.state = 'SUCCESS'
     WHERE v.definition_uuid = definition AND v.target = _vote.node;
    FOR vote IN
        SELECT v.depth, v.decider, s.state, s.result FROM pawl_saga.votes v
        LEFT JOIN pawl_saga.tasks s ON s.flow_uuid = flow AND s.node = v.source
         WHERE v.definition_uuid = definition AND v.target = _vote.node ORDER BY v.link
    LOOP
        CONTINUE WHEN vote.state = 'IGNORE';
        IF vote.decider ? 'allow' THEN
            says := (vote.decider ->> 'allow')::boolean;
        ELSIF vote.decider ? 'when_result_in' THEN
            -- not @>, by which a list contains each of its parts; one value that is no list is a list of it
            list := vote.decider -> 'when_result_in';
            list := CASE jsonb_typeof(list) WHEN 'array' THEN list ELSE jsonb_build_array(list) END;
            says := coalesce(vote.result, 'null') IN (SELECT w.value FROM jsonb_array_elements(list) w(value));
        ELSE
            says := pawl_saga._ask(pawl_saga._function(vote.decider ->> 'function', 'jsonb'), history,
                definer)::boolean;
        END IF;
        IF says IS NOT TRUE AND (widest IS NULL OR array_position('{ATOM,NEIGHBORS,FLOW,ALL}',
                vote.depth) > array_position('{ATOM,NEIGHBORS,FLOW,ALL}', widest)) THEN
            widest := vote.depth;
        END IF;
    END LOOP;
    RETURN widest;
END
$function$;
COMMENT ON FUNCTION pawl_saga._vote(uuid, integer) IS 'internal: what the deciders say about a node; null: it runs';

CREATE FUNCTION pawl_saga._ignore(flow uuid, node integer, depth text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    definition uuid := (SELECT f.definition_uuid FROM pawl_saga.flows f WHERE f.flow_uuid = flow);
    ignored integer[] := ARRAY[node];
    turned boolean;
BEGIN
    IF depth = 'ALL' THEN
        SELECT ignored || coalesce(array_agg(b.node), '{}') INTO ignored
            FROM pawl_saga._behind(definition, _ignore.node) b;
    ELSIF depth = 'FLOW' THEN
        -- tasks that are reached without leaving or entering a flow
        WITH RECURSIVE near (node) AS (
            SELECT _ignore.node
            UNION SELECT e.to_node FROM near n
            JOIN pawl_saga.edges e ON e.definition_uuid = definition AND e.from_node = n.node AND e.to_kind = 'task')
        SELECT array_agg(n.node) INTO ignored FROM near n;
    ELSIF depth = 'NEIGHBORS' THEN
        -- a retry lies behind the entry of its flow only, and entries and ends have no state
        SELECT ignored || coalesce(array_agg(e.to_node), '{}') INTO ignored
          FROM pawl_saga.edges e WHERE e.definition_uuid = definition AND e.from_node = _ignore.node;
    END IF;
    -- what was to be reverted is counted forward from now on
    UPDATE pawl_saga.retries r SET intention = 'IGNORE', due_at = NULL
     WHERE r.flow_uuid = flow AND r.node = ANY (ignored) AND r.state = 'PENDING' AND r.intention = 'REVERT';
    turned := FOUND;
    UPDATE pawl_saga.tasks t SET intention = 'IGNORE'
     WHERE t.flow_uuid = flow AND t.node = ANY (ignored) AND t.state = 'PENDING' AND t.intention = 'REVERT';
    IF turned OR FOUND THEN
        PERFORM pawl_saga._recount(flow);
    END IF;
    -- those behind first: when the first one passes on, they are ignored already
    UPDATE pawl_saga.retries r SET state = 'IGNORE', intention = 'IGNORE'
        WHERE r.flow_uuid = flow AND r.node = ANY (ignored) AND r.state = 'PENDING' AND r.blockers > 0;
    UPDATE pawl_saga.tasks t SET state = 'IGNORE', intention = 'IGNORE'
        WHERE t.flow_uuid = flow AND t.node = ANY (ignored) AND t.state = 'PENDING' AND t.blockers > 0;
    UPDATE pawl_saga.retries r SET state = 'IGNORE', intention = 'IGNORE'
        WHERE r.flow_uuid = flow AND r.node = ANY (ignored) AND r.state = 'PENDING';
    UPDATE pawl_saga.tasks t SET state = 'IGNORE', intention = 'IGNORE'
        WHERE t.flow_uuid = flow AND t.node = ANY (ignored) AND t.state = 'PENDING';
END
$function$;
COMMENT ON FUNCTION pawl_saga._ignore(uuid, integer, text) IS
'internal: ignores a node, and as many behind it as a no reaches';

-- One attempt of a retry: it runs and provides its next value.
CREATE FUNCTION pawl_saga._try(flow uuid, node integer) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    how jsonb := (SELECT r.controller FROM pawl_saga.retries r WHERE r.flow_uuid = flow AND r.node = _try.node);
    left_over jsonb[];
    provided jsonb := coalesce(how -> 'value', 'null');
    tried integer;
BEGIN
    UPDATE pawl_saga.retries r SET state = 'RUNNING'
        WHERE r.flow_uuid = flow AND r.node = _try.node AND r.state <> 'RUNNING';
    SELECT count(*) FILTER (WHERE a.closed_at IS NULL) INTO tried FROM pawl_saga.attempts a
        WHERE a.flow_uuid = flow AND a.node = _try.node;
    IF how ->> 'retry' LIKE '%ForEach' THEN
        left_over := pawl_saga._values_left(flow, node);
        IF cardinality(left_over) = 0 THEN
            UPDATE pawl_saga.retries r SET state = 'FAILURE', value = NULL, failure = '{"message": "no elements left"}'
                WHERE r.flow_uuid = flow AND r.node = _try.node;
            RETURN;
        END IF;
        provided := left_over[1];
    ELSIF how ->> 'retry' IN ('Times', 'Function') THEN
        provided := to_jsonb(tried + 1);
    END IF;
    INSERT INTO pawl_saga.attempts (flow_uuid, node, attempt, value)
    SELECT flow, _try.node, coalesce(max(a.attempt), 0) + 1, provided FROM pawl_saga.attempts a
    WHERE a.flow_uuid = flow AND a.node = _try.node;
    UPDATE pawl_saga.retries r SET state = 'SUCCESS', value = provided, failure = NULL
        WHERE r.flow_uuid = flow AND r.node = _try.node;
END
$function$;
COMMENT ON FUNCTION pawl_saga._try(uuid, integer) IS 'internal: runs a retry';

-- A retry tries again: its scope, and all that is behind it, begins anew.
CREATE FUNCTION pawl_saga._restart(flow uuid, node integer) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    definition uuid := (SELECT f.definition_uuid FROM pawl_saga.flows f WHERE f.flow_uuid = flow);
BEGIN
    UPDATE pawl_saga.retries r SET state = 'RETRYING', intention = 'EXECUTE', due_at = NULL
        WHERE r.flow_uuid = flow AND r.node = _restart.node;
    UPDATE pawl_saga.tasks t SET state = 'PENDING', intention = 'EXECUTE', wait_until = NULL
        FROM pawl_saga._behind(definition, _restart.node) b
     WHERE t.flow_uuid = flow AND t.node = b.node;
    IF NOT EXISTS (SELECT FROM pawl_saga.retries r
            WHERE r.flow_uuid = flow AND r.node = _restart.node AND r.state = 'RETRYING') THEN
        RETURN;  -- a trigger resumed the flow, which began the attempt
    END IF;
    DELETE FROM pawl_saga.questions q USING pawl_saga._behind(definition, _restart.node) b
     WHERE q.flow_uuid = flow AND q.node = b.node;
    UPDATE pawl_saga.retries r SET state = 'PENDING', intention = 'EXECUTE', value = NULL, failure = NULL, due_at = NULL
        FROM pawl_saga._behind(definition, _restart.node) b
     WHERE r.flow_uuid = flow AND r.node = b.node;
    PERFORM pawl_saga._recount(flow);
    PERFORM pawl_saga._try(flow, node);
END
$function$;
COMMENT ON FUNCTION pawl_saga._restart(uuid, integer) IS 'internal: begins the next attempt of a retry';

CREATE FUNCTION pawl_saga._examine_retry(f pawl_saga.flows, r pawl_saga.retries) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    tried integer;
BEGIN
    IF r.intention = 'EXECUTE' AND r.state IN ('PENDING', 'RUNNING') THEN
        PERFORM pawl_saga._try(f.flow_uuid, r.node);
    ELSIF r.intention IN ('EXECUTE', 'RETRY') AND r.state = 'RETRYING' THEN
        PERFORM pawl_saga._restart(f.flow_uuid, r.node);
    ELSIF r.intention = 'RETRY' AND r.state = 'SUCCESS' THEN
        -- a failure in its scope that is not decided yet
        IF EXISTS (SELECT FROM pawl_saga.questions q
                    WHERE q.flow_uuid = f.flow_uuid AND q.failure IS NOT NULL
                      AND q.node IN (SELECT b.node FROM pawl_saga._behind(f.definition_uuid, r.node) b)) THEN
            RETURN;
        END IF;
        IF r.due_at IS NULL AND r.controller ? 'backoff' THEN
            SELECT count(*) INTO tried FROM pawl_saga.attempts a
                WHERE a.flow_uuid = r.flow_uuid AND a.node = r.node AND a.closed_at IS NULL;
            r.due_at := clock_timestamp() + pawl.backoff(greatest(tried, 1), r.controller -> 'backoff');
            UPDATE pawl_saga.retries x SET due_at = r.due_at WHERE x.flow_uuid = r.flow_uuid AND x.node = r.node;
        END IF;
        IF coalesce(r.due_at <= clock_timestamp(), true) THEN
            PERFORM pawl_saga._restart(f.flow_uuid, r.node);
        END IF;
    ELSIF r.intention = 'REVERT' AND r.state = 'FAILURE' AND NOT pawl_saga._is_decided(f.flow_uuid, r.node) THEN
        RETURN;
    ELSIF r.intention = 'REVERT' AND r.state IN ('SUCCESS', 'FAILURE', 'REVERTING') THEN
        UPDATE pawl_saga.retries x SET state = 'REVERTING', due_at = NULL
            WHERE x.flow_uuid = r.flow_uuid AND x.node = r.node AND x.state <> 'REVERTING';
        UPDATE pawl_saga.attempts a SET closed_at = clock_timestamp()
            WHERE a.flow_uuid = r.flow_uuid AND a.node = r.node AND a.closed_at IS NULL;
        UPDATE pawl_saga.retries x SET state = 'REVERTED', value = NULL
            WHERE x.flow_uuid = r.flow_uuid AND x.node = r.node;
    ELSIF r.intention = 'REVERT' AND r.state IN ('RETRYING', 'RUNNING') THEN
        -- imported in the middle of an attempt: what came of it is unknown, and it is reverted from FAILURE
        UPDATE pawl_saga.retries x SET state = 'RUNNING'
            WHERE x.flow_uuid = r.flow_uuid AND x.node = r.node AND x.state <> 'RUNNING';
        UPDATE pawl_saga.retries x SET state = 'FAILURE', value = NULL, failure = '{"message": "unknown outcome"}'
            WHERE x.flow_uuid = r.flow_uuid AND x.node = r.node;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._examine_retry(pawl_saga.flows, pawl_saga.retries) IS
'internal: what a retry that nothing blocks does next';

-- Examines a node that nothing blocks, and begins what can begin.
CREATE FUNCTION pawl_saga._examine(flow uuid, node integer, asks boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    f pawl_saga.flows;
    n pawl_saga.nodes;
    r pawl_saga.retries;
    t pawl_saga.tasks;
    depth text;
    missing text;
    said text;
    code text;
BEGIN
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow;
    SELECT x.* INTO n FROM pawl_saga.nodes x WHERE x.definition_uuid = f.definition_uuid AND x.node = _examine.node;
    -- in SUSPENDING votes are taken and nothing is begun
    IF f.broken OR f.state <> 'RUNNING' AND NOT (f.state = 'SUSPENDING' AND n.votes) THEN
        RETURN;
    END IF;
    IF n.kind = 'retry' THEN
        SELECT x.* INTO r FROM pawl_saga.retries x
            WHERE x.flow_uuid = flow AND x.node = _examine.node AND x.blockers = 0;
    ELSE
        SELECT x.* INTO t FROM pawl_saga.tasks x WHERE x.flow_uuid = flow AND x.node = _examine.node AND x.blockers = 0
            AND x.state = 'PENDING' AND x.intention = 'EXECUTE';
    END IF;
    IF r.node IS NULL AND t.node IS NULL THEN
        RETURN;
    END IF;
    IF coalesce(r.state, t.state) = 'PENDING' AND coalesce(r.intention, t.intention) = 'EXECUTE' THEN
        IF n.votes AND NOT asks
           AND EXISTS (SELECT FROM pawl_saga.votes v
                        WHERE v.definition_uuid = f.definition_uuid AND v.target = _examine.node
                            AND v.decider ? 'function')
           AND pawl_saga._left_question(flow, node, NULL) THEN
            RETURN;
        END IF;
        BEGIN
            depth := CASE WHEN n.votes THEN pawl_saga._vote(flow, node) END;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            PERFORM pawl_saga._break(flow, jsonb_build_object('message', said, 'sqlstate', code, 'atom', n.name));
            RETURN;
        END;
        IF n.votes THEN
            -- a decider can change its flow
            SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow;
            IF f.broken OR f.state NOT IN ('RUNNING', 'SUSPENDING') OR NOT EXISTS (
                SELECT FROM pawl_saga.atoms a WHERE a.flow_uuid = flow AND a.node = _examine.node AND a.blockers = 0
                   AND a.state = 'PENDING' AND a.intention = 'EXECUTE') THEN
                RETURN;
            END IF;
        END IF;
        IF depth IS NOT NULL THEN
            PERFORM pawl_saga._ignore(flow, node, depth);
            RETURN;
        END IF;
        IF n.may_miss AND f.state = 'RUNNING' THEN
            SELECT a.parameter INTO missing FROM pawl_saga._arguments(flow, node) a
                WHERE NOT a.found AND NOT a.optional LIMIT 1;
            IF FOUND THEN
                PERFORM pawl_saga._break(flow, jsonb_build_object('message',
                    format('no atom provides "%s", which "%s" requires', missing, n.name), 'atom', n.name));
                RETURN;
            END IF;
        END IF;
    END IF;
    IF f.state <> 'RUNNING' THEN
        RETURN;
    ELSIF n.kind = 'retry' THEN
        PERFORM pawl_saga._examine_retry(f, r);
    ELSE
        PERFORM pawl_saga._begin_task(t);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._examine(uuid, integer, boolean) IS
'internal: begins what nothing blocks any more: a retry, or a careful task; asks: deciders are asked in any case';
