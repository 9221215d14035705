-- Decisions after a failure, and what retry controllers do.

-- Reverses atoms: all of them, or a retry and all that comes behind it. The retry itself is to be reverted too, or to
-- try again.
CREATE FUNCTION pawl_saga._turn(flow uuid, retry integer, aim text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    definition uuid := (SELECT f.definition_uuid FROM pawl_saga.flows f WHERE f.flow_uuid = flow);
BEGIN
    IF retry IS NULL THEN
        UPDATE pawl_saga.flows f SET undoing = true WHERE f.flow_uuid = flow AND NOT f.undoing;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        UPDATE pawl_saga.tasks t SET intention = 'REVERT'
            WHERE t.flow_uuid = flow AND t.intention <> 'REVERT' AND NOT t.dropped;
        UPDATE pawl_saga.retries r SET intention = 'REVERT', due_at = NULL
            WHERE r.flow_uuid = flow AND r.intention <> 'REVERT' AND NOT r.dropped;
    ELSE
        -- a decision to revert is not undone by a weaker one
        UPDATE pawl_saga.retries r SET intention = aim
            WHERE r.flow_uuid = flow AND r.node = retry AND r.intention <> 'REVERT' AND r.intention <> aim;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        UPDATE pawl_saga.retries r SET intention = 'REVERT', due_at = NULL FROM pawl_saga._behind(definition, retry) b
         WHERE r.flow_uuid = flow AND r.node = b.node AND r.intention <> 'REVERT';
        UPDATE pawl_saga.tasks t SET intention = 'REVERT' FROM pawl_saga._behind(definition, retry) b
         WHERE t.flow_uuid = flow AND t.node = b.node AND t.intention <> 'REVERT';
    END IF;
    PERFORM pawl_saga._recover(flow);
END
$function$;
COMMENT ON FUNCTION pawl_saga._turn(uuid, integer, text) IS 'internal: reverts a scope, or (retry null) a whole flow';

CREATE FUNCTION pawl_saga._behind(definition uuid, node integer) RETURNS TABLE (node integer)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    WITH RECURSIVE behind (node) AS (
        SELECT e.to_node FROM pawl_saga.edges e WHERE e.definition_uuid = definition AND e.from_node = _behind.node
        UNION SELECT e.to_node FROM behind b
        JOIN pawl_saga.edges e ON e.definition_uuid = definition AND e.from_node = b.node)
    SELECT b.node FROM behind b
$function$;
COMMENT ON FUNCTION pawl_saga._behind(uuid, integer) IS 'internal: all nodes behind a node';

-- The values of a ForEach that were not provided yet, each as often as it is there.
CREATE FUNCTION pawl_saga._values_left(flow uuid, retry integer) RETURNS jsonb[]
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    how jsonb := (SELECT r.controller FROM pawl_saga.retries r WHERE r.flow_uuid = flow AND r.node = retry);
    list jsonb := how -> 'values';
BEGIN
    IF how ->> 'retry' = 'ParameterizedForEach' THEN
        SELECT a.value INTO list FROM pawl_saga._arguments(flow, retry) a WHERE a.parameter = 'values' AND a.found;
    END IF;
    IF jsonb_typeof(list) IS DISTINCT FROM 'array' THEN
        RETURN '{}';
    END IF;
    RETURN coalesce((SELECT array_agg(l.value ORDER BY l.place)
              FROM (SELECT v.value, v.place, row_number() OVER (PARTITION BY v.value ORDER BY v.place) AS nth
                  FROM jsonb_array_elements(list) WITH ORDINALITY v(value, place)) l
             WHERE l.nth > (SELECT count(*) FROM pawl_saga.attempts a
            WHERE a.flow_uuid = flow AND a.node = retry AND a.closed_at IS NULL AND a.value = l.value)), '{}');
END
$function$;
COMMENT ON FUNCTION pawl_saga._values_left(uuid, integer) IS 'internal: what a ForEach has left';

-- The decision of a controller about a failure in its scope: RETRY, REVERT, REVERT_ALL.
CREATE FUNCTION pawl_saga._answer(flow uuid, retry integer, failure jsonb) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    how jsonb := (SELECT r.controller FROM pawl_saga.retries r WHERE r.flow_uuid = flow AND r.node = retry);
    made bigint;
    otherwise text := CASE WHEN (how ->> 'revert_all')::boolean THEN 'REVERT_ALL' ELSE 'REVERT' END;
    answer text := coalesce(how -> 'on' ->> (failure ->> 'sqlstate'), how -> 'on' ->> (failure ->> 'type'));
    history jsonb;
    called text;
    definer name;
BEGIN
    IF answer IS NULL OR answer = 'RETRY' THEN
        CASE how ->> 'retry'
            WHEN 'AlwaysRevert' THEN answer := 'REVERT';
            WHEN 'AlwaysRevertAll' THEN answer := 'REVERT_ALL';
            WHEN 'Times' THEN
                SELECT count(*) INTO made FROM pawl_saga.attempts a
                    WHERE a.flow_uuid = flow AND a.node = retry AND a.closed_at IS NULL;
                answer := CASE WHEN made < coalesce((how ->> 'attempts')::integer, 1) THEN 'RETRY' ELSE otherwise END;
            WHEN 'ForEach', 'ParameterizedForEach' THEN
                answer := CASE WHEN cardinality(pawl_saga._values_left(flow, retry)) > 0 THEN 'RETRY'
                    ELSE otherwise END;
            ELSE
                SELECT coalesce(jsonb_agg(jsonb_build_object('value', a.value, 'failures', a.failures)
                            ORDER BY a.attempt), '[]') INTO history
                  FROM pawl_saga.attempts a WHERE a.flow_uuid = flow AND a.node = retry AND a.closed_at IS NULL;
                -- as it was defined: operators may write the row
                SELECT n.written ->> 'function', d.created_by INTO called, definer
                  FROM pawl_saga.flows f JOIN pawl_saga.definitions d ON d.definition_uuid = f.definition_uuid
                  JOIN pawl_saga.nodes n ON n.definition_uuid = d.definition_uuid AND n.node = retry
                 WHERE f.flow_uuid = flow;
                answer := pawl_saga._ask(pawl_saga._function(called, 'jsonb'), history, definer);
        END CASE;
    END IF;
    IF answer IS NULL OR answer NOT IN ('RETRY', 'REVERT', 'REVERT_ALL') THEN
        PERFORM pawl.raise('22023', format('a retry controller answered "%s"', answer), NULL,
            'RETRY, REVERT, REVERT_ALL');
    END IF;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl_saga._answer(uuid, integer, jsonb) IS 'internal: what a controller decides';

-- Finds a function by its qualified name. 42883: there is none.
CREATE FUNCTION pawl_saga._function(name text, arguments text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one regprocedure := to_regprocedure(name || '(' || arguments || ')');
BEGIN
    IF found_one IS NULL THEN
        PERFORM pawl.raise('42883', format('no function %s(%s)', name, arguments), 'Its name must include the schema.',
            format('create function %s(%s) ...', name, arguments));
    END IF;
    RETURN found_one::oid::regproc;
END
$function$;
COMMENT ON FUNCTION pawl_saga._function(text, text) IS 'internal: a function by its name; 42883: there is none';

-- Follow-ups run with the rights of the extension's owner; functions of users must not.
CREATE FUNCTION pawl_saga._ask(function text, argument jsonb, definer name) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_ask';
COMMENT ON FUNCTION pawl_saga._ask(text, jsonb, name) IS
'internal: calls a decider or controller with the role that pawl.call_as_definer chooses for the role of the session;
42501: in a security-restricted operation';

CREATE FUNCTION pawl_saga._may_ask(definer name) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_saga_may_ask';
COMMENT ON FUNCTION pawl_saga._may_ask(name) IS
'internal: whether the role of the session may call functions that a role named in a definition';

-- Stops a flow: nothing more is begun in it, and it will end in FAILURE.
CREATE FUNCTION pawl_saga._break(flow uuid, problem jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    UPDATE pawl_saga.flows f SET broken = true, problem = coalesce(f.problem, _break.problem)
        WHERE f.flow_uuid = flow AND NOT f.broken;
    DELETE FROM pawl_saga.questions q WHERE q.flow_uuid = flow;
    PERFORM pawl_saga._hold(flow);
END
$function$;
COMMENT ON FUNCTION pawl_saga._break(uuid, jsonb) IS 'internal: nothing more is begun in a flow';

CREATE FUNCTION pawl_saga._hold(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    UPDATE pawl_saga.tasks t SET due_at = 'infinity'
        WHERE t.flow_uuid = flow AND t.due_at IS NULL AND t.state = ANY ('{PENDING,SUCCESS,FAILURE,REVERT_FAILURE}');
END
$function$;
COMMENT ON FUNCTION pawl_saga._hold(uuid) IS 'internal: takes back what could be claimed';

-- A failure goes into the history of the controller that is asked; the first of each atom is kept.
CREATE FUNCTION pawl_saga._note_failure(flow uuid, retry integer, atom text, failure jsonb) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    UPDATE pawl_saga.attempts a SET failures = jsonb_build_object(atom, coalesce(failure, 'null')) || a.failures
     WHERE a.flow_uuid = flow AND a.node = retry AND a.closed_at IS NULL AND NOT a.failures ? atom
       AND a.attempt = (SELECT max(x.attempt) FROM pawl_saga.attempts x WHERE x.flow_uuid = flow AND x.node = retry)
$function$;
COMMENT ON FUNCTION pawl_saga._note_failure(uuid, integer, text, jsonb) IS
'internal: keeps a failure in the history of a retry';

-- Asks the controllers from the inside outwards, and carries out what they decide.
CREATE FUNCTION pawl_saga._decide(flow uuid, node integer, failure jsonb, asks boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    f pawl_saga.flows;
    asking pawl_saga.nodes;
    reverting integer[] := '{}';  -- controllers that said REVERT, from the inside outwards
    answer text;
    said text;
    code text;
BEGIN
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow;
    IF f.never_resolve THEN
        PERFORM pawl_saga._break(flow, NULL);
        RETURN;
    END IF;
    SELECT n.* INTO asking FROM pawl_saga.nodes n WHERE n.definition_uuid = f.definition_uuid AND n.node = _decide.node;
    LOOP
        -- a controller that did not run (it is ignored, or was imported like that) provides no attempt that could be
        -- repeated: the next one outside is asked
        WHILE asking.controller IS NOT NULL
              AND (SELECT r.state FROM pawl_saga.retries r
                  WHERE r.flow_uuid = flow AND r.node = asking.controller) IS DISTINCT FROM 'SUCCESS' LOOP
            asking.controller := (SELECT n.controller FROM pawl_saga.nodes n
                WHERE n.definition_uuid = f.definition_uuid AND n.node = asking.controller);
        END LOOP;
        IF asking.controller IS NULL THEN
            PERFORM pawl_saga._turn(flow, CASE WHEN f.defer_reverts OR reverting = '{}' THEN NULL ELSE reverting[1] END,
                'REVERT');
            RETURN;
        END IF;
        PERFORM pawl_saga._note_failure(flow, asking.controller, asking.name, failure);
        IF NOT asks AND (SELECT r.controller ->> 'retry' FROM pawl_saga.retries r
                          WHERE r.flow_uuid = flow AND r.node = asking.controller) = 'Function'
           AND pawl_saga._left_question(flow, node, coalesce(failure, 'null')) THEN
            RETURN;
        END IF;
        BEGIN
            answer := pawl_saga._answer(flow, asking.controller, failure);
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            PERFORM pawl_saga._break(flow, jsonb_build_object('message', said, 'sqlstate', code, 'atom', asking.name));
            RETURN;
        END;
        IF answer = 'REVERT_ALL' THEN
            PERFORM pawl_saga._turn(flow, NULL, 'REVERT');
            RETURN;
        ELSIF answer = 'RETRY' THEN
            PERFORM pawl_saga._turn(flow, asking.controller, 'RETRY');
            RETURN;
        END IF;
        reverting := reverting || asking.controller;
        SELECT n.* INTO asking FROM pawl_saga.nodes n
            WHERE n.definition_uuid = f.definition_uuid AND n.node = asking.controller;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._decide(uuid, integer, jsonb, boolean) IS
'internal: what follows from the failure of an atom; asks: users'' functions are asked in any case';

CREATE FUNCTION pawl_saga._decide_later(flow uuid, node integer, failure jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    PERFORM pawl_saga._decide(flow, node, failure, true);
    -- what waited for the decision: the revert of the failed atom, and retries of the scope
    IF (SELECT f.state FROM pawl_saga.flows f WHERE f.flow_uuid = flow) = 'RUNNING' THEN
        PERFORM pawl_saga._recover(flow);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._decide_later(uuid, integer, jsonb) IS
'internal: what follows from a failure whose decision was left for later';
