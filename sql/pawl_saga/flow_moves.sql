-- What a state change of a flow means for its engine and its atoms.

CREATE FUNCTION pawl_saga._flow_entered() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.flows');
BEGIN
    NEW.entered_at := clock_timestamp();
    IF NEW.state = 'RUNNING' AND OLD.state IN ('PENDING', 'SUCCESS', 'FAILURE', 'SUSPENDED') THEN
        NEW.run := OLD.run + 1;
        NEW.broken := false;
        NEW.problem := NULL;
    ELSIF NEW.state = 'PENDING' THEN
        NEW.undoing := false;
        NEW.broken := false;
        NEW.problem := NULL;
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_saga._flow_entered() IS 'internal: what a flow remembers of the state it enters';
CREATE TRIGGER entered BEFORE UPDATE OF state ON pawl_saga.flows
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION pawl_saga._flow_entered();

-- The engine of a run: it waits while work is out, and ends with its flow. outcome: null: it begins.
CREATE FUNCTION pawl_saga._engine(flow uuid, number integer, outcome text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'pawl_saga_engine';
COMMENT ON FUNCTION pawl_saga._engine(uuid, integer, text) IS 'internal: begins or ends the engine of a run';

-- A finished flow starts again: every atom is as it was before it ran, and the log keeps what it tried.
CREATE FUNCTION pawl_saga._reset_atoms(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    UPDATE pawl_saga.attempts a SET closed_at = clock_timestamp() WHERE a.flow_uuid = flow AND a.closed_at IS NULL;
    UPDATE pawl_saga.signals s SET taken_at = clock_timestamp() WHERE s.flow_uuid = flow AND s.taken_at IS NULL;
    UPDATE pawl_saga.tasks t SET state = 'PENDING', intention = 'EXECUTE', wait_until = NULL
     WHERE t.flow_uuid = flow AND NOT t.dropped
       AND (t.state <> 'PENDING' OR t.intention <> 'EXECUTE' OR t.wait_until IS NOT NULL);
    UPDATE pawl_saga.retries r
        SET state = 'PENDING', intention = 'EXECUTE', value = NULL, failure = NULL, revert_failure = NULL, due_at = NULL
     WHERE r.flow_uuid = flow AND NOT r.dropped AND (r.state <> 'PENDING' OR r.intention <> 'EXECUTE');
END
$function$;
COMMENT ON FUNCTION pawl_saga._reset_atoms(uuid) IS 'internal: takes every atom of a flow back to its beginning';

-- Failures that were stored and not decided: from an import, or from an answer that could not be had. One whose atom is
-- to be reverted was decided if its controller says so, or the flow.
CREATE FUNCTION pawl_saga._decide_open(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    failed record;
    asked integer;
    f pawl_saga.flows;
BEGIN
    FOR failed IN
        SELECT a.node, a.failure, a.intention
          FROM (SELECT t.node, t.failure, t.intention FROM pawl_saga.tasks t
              WHERE t.flow_uuid = flow AND t.state = 'FAILURE' AND NOT t.dropped
                UNION ALL SELECT r.node, r.failure, r.intention FROM pawl_saga.retries r
              WHERE r.flow_uuid = flow AND r.state = 'FAILURE' AND NOT r.dropped) a
         ORDER BY a.node
    LOOP
        IF failed.intention = 'REVERT' THEN
            SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow;
            asked := failed.node;
            LOOP
                asked := (SELECT n.controller FROM pawl_saga.nodes n
                    WHERE n.definition_uuid = f.definition_uuid AND n.node = asked);
                EXIT WHEN asked IS NULL OR (SELECT r.state FROM pawl_saga.retries r
                    WHERE r.flow_uuid = flow AND r.node = asked) = 'SUCCESS';
            END LOOP;
            CONTINUE WHEN f.undoing OR asked IS NOT NULL AND (SELECT r.intention FROM pawl_saga.retries r
                WHERE r.flow_uuid = flow AND r.node = asked) <> 'EXECUTE';
        END IF;
        PERFORM pawl_saga._decide(flow, failed.node, failed.failure);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._decide_open(uuid) IS 'internal: decides failures that were not decided yet';

-- What is behind an atom that is to be reverted, or a retry that is to try again, is to be reverted as well. An import,
-- or an altered definition, may have it otherwise.
CREATE FUNCTION pawl_saga._close_behind(flow uuid, failures boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    turned integer[];
    changed bigint;
    more bigint;
BEGIN
    WITH RECURSIVE behind (definition, node) AS (
        SELECT f.definition_uuid, e.to_node
          FROM pawl_saga.flows f
          JOIN (SELECT t.node FROM pawl_saga.tasks t
              WHERE t.flow_uuid = flow AND t.intention = 'REVERT' AND NOT t.dropped
                UNION ALL SELECT r.node FROM pawl_saga.retries r
            WHERE r.flow_uuid = flow AND r.intention IN ('REVERT', 'RETRY') AND NOT r.dropped) a ON true
          JOIN pawl_saga.edges e ON e.definition_uuid = f.definition_uuid AND e.from_node = a.node
          WHERE f.flow_uuid = flow
        UNION SELECT b.definition, e.to_node FROM behind b
        JOIN pawl_saga.edges e ON e.definition_uuid = b.definition AND e.from_node = b.node)
    SELECT array_agg(b.node) INTO turned FROM behind b;
    UPDATE pawl_saga.retries r SET intention = 'REVERT', due_at = NULL
     WHERE r.flow_uuid = flow AND r.node = ANY (turned) AND r.intention <> 'REVERT'
         AND (failures OR r.state <> 'FAILURE');
    GET DIAGNOSTICS changed = ROW_COUNT;
    UPDATE pawl_saga.tasks t SET intention = 'REVERT' WHERE t.flow_uuid = flow AND t.node = ANY (turned)
        AND t.intention <> 'REVERT' AND (failures OR t.state <> 'FAILURE');
    GET DIAGNOSTICS more = ROW_COUNT;
    RETURN changed + more > 0;
END
$function$;
COMMENT ON FUNCTION pawl_saga._close_behind(uuid, boolean) IS
'internal: reverts what is behind a reverted atom, with failures that are undecided or not; true: there was
something';

-- A retry that was trying again continues with that when its scope is undone; one that cannot try again leaves the
-- decision to the next controller outside.
CREATE FUNCTION pawl_saga._mend_retries(flow uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    unable integer;
BEGIN
    UPDATE pawl_saga.retries r SET intention = 'RETRY'
        WHERE r.flow_uuid = flow AND r.state = 'RETRYING' AND r.intention IN ('EXECUTE', 'IGNORE') AND NOT r.dropped;
    FOR unable IN
        SELECT r.node FROM pawl_saga.retries r
         WHERE r.flow_uuid = flow AND r.intention = 'RETRY' AND r.state NOT IN ('SUCCESS', 'RETRYING') AND NOT r.dropped
         ORDER BY r.node
    LOOP
        UPDATE pawl_saga.retries r SET intention = CASE r.state WHEN 'IGNORE' THEN 'IGNORE' ELSE 'REVERT' END
            WHERE r.flow_uuid = flow AND r.node = unable;
        PERFORM pawl_saga._decide(flow, unable, '{"message": "its retry did not run"}');
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._mend_retries(uuid) IS
'internal: retries whose intention does not fit their state, as an import may have them';

-- SECURITY DEFINER: as the follow-ups of atoms.
CREATE FUNCTION pawl_saga._flow_moved() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.flows');
    outermost boolean;
    f pawl_saga.flows;
BEGIN
    PERFORM pawl_saga._check_snapshot(NEW.flow_uuid);
    IF NEW.state = 'RUNNING' THEN
        PERFORM pawl_saga._fill_flow(NEW.flow_uuid);
        PERFORM pawl_saga.validate(NEW.flow_uuid);
    END IF;
    IF NEW.run > OLD.run THEN
        PERFORM pawl_saga._engine(NEW.flow_uuid, NEW.run, NULL);
    ELSIF NEW.state IN ('SUCCESS', 'FAILURE', 'REVERTED', 'SUSPENDED') AND OLD.state IN ('RUNNING', 'SUSPENDING') THEN
        PERFORM pawl_saga._engine(NEW.flow_uuid, NEW.run, NEW.state);
        IF NEW.state <> 'SUSPENDED' THEN
            DELETE FROM pawl_saga.set_aside s WHERE s.flow_uuid = NEW.flow_uuid;
        END IF;
    ELSIF NEW.state = 'RESUMING' THEN
        PERFORM pawl_saga._engine(NEW.flow_uuid, NEW.run, 'SUSPENDED');
    END IF;
    outermost := pawl_saga._follow(true);
    PERFORM pawl_saga._changed(NEW.flow_uuid);
    -- decided anew below
    IF OLD.state <> 'PENDING' AND (NEW.state = 'PENDING' OR NEW.state = 'RUNNING') THEN
        DELETE FROM pawl_saga.questions q WHERE q.flow_uuid = NEW.flow_uuid;
    END IF;
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = NEW.flow_uuid;
    IF (f.state, f.run) IS DISTINCT FROM (NEW.state, NEW.run) THEN
        -- A trigger of a user came first, and changed it again: what follows from that is done.
        IF NEW.run > OLD.run AND f.run = NEW.run AND f.state IN ('SUCCESS', 'FAILURE', 'REVERTED', 'SUSPENDED') THEN
            PERFORM pawl_saga._engine(NEW.flow_uuid, NEW.run, f.state);
        END IF;
    ELSIF NEW.state = 'PENDING' THEN
        PERFORM pawl_saga._reset_atoms(NEW.flow_uuid);
        PERFORM pawl_saga._recount(NEW.flow_uuid);  -- nothing is ready before the flow runs
    ELSIF NEW.state = 'SUSPENDING' OR NEW.state = 'RESUMING' THEN
        PERFORM pawl_saga._hold(NEW.flow_uuid);
    ELSIF NEW.state = 'RUNNING' AND OLD.state = 'PENDING' AND NEW.run = 1
        AND pawl_saga._is_new(NEW.flow_uuid, NEW.definition_uuid) THEN
        PERFORM pawl_saga._begin(NEW.flow_uuid, NEW.definition_uuid);
        PERFORM pawl_saga._examine_all(NEW.flow_uuid);
    ELSIF NEW.state = 'RUNNING' THEN
        PERFORM pawl_saga._mend_retries(NEW.flow_uuid);
        PERFORM pawl_saga._close_behind(NEW.flow_uuid, false);
        PERFORM pawl_saga._recover(NEW.flow_uuid);
        IF NOT NEW.never_resolve THEN
            PERFORM pawl_saga._decide_open(NEW.flow_uuid);
            IF pawl_saga._close_behind(NEW.flow_uuid, true) THEN
                PERFORM pawl_saga._recover(NEW.flow_uuid);
            END IF;
        END IF;
    END IF;
    IF outermost THEN
        PERFORM pawl_saga._finish(ARRAY[NEW.flow_uuid]);
        PERFORM pawl_saga._followed();
    ELSE
        PERFORM pawl_saga._leave_end(NEW.flow_uuid);
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_saga._flow_moved() IS
'internal: what a state change of a flow means for its atoms and its engine';
CREATE TRIGGER moved AFTER UPDATE OF state ON pawl_saga.flows
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION pawl_saga._flow_moved();
