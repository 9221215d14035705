-- A flow that continues with another definition. Atoms are matched by their names and keep their numbers, because the
-- log has these; so the flow gets a definition of its own: the one it is altered to, with those numbers.

CREATE FUNCTION pawl_saga._own_definition(flow uuid, base pawl_saga.definitions) RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    made uuid := pawl.uuid_v7();
    numbers integer[];  -- the number here of each node there, from node 0 on
    free integer := (SELECT max(x.node) FROM (SELECT t.node FROM pawl_saga.tasks t WHERE t.flow_uuid = flow
        UNION ALL SELECT r.node FROM pawl_saga.retries r WHERE r.flow_uuid = flow
        UNION ALL SELECT j.node FROM pawl_saga.junctions j WHERE j.flow_uuid = flow) x);
BEGIN
    WITH known (node, name) AS MATERIALIZED (
        SELECT t.node, t.name FROM pawl_saga.tasks t WHERE t.flow_uuid = flow UNION ALL SELECT r.node, r.name
        FROM pawl_saga.retries r WHERE r.flow_uuid = flow)
    SELECT array_agg(coalesce(k.node, free + 1 + n.node) ORDER BY n.node) INTO numbers
      FROM pawl_saga.nodes n LEFT JOIN known k ON k.name = n.name AND n.kind IN ('task', 'retry')
      WHERE n.definition_uuid = base.definition_uuid;
    INSERT INTO pawl_saga.definitions (definition_uuid, name, version, structure, content_hash, last_node, created_by,
                                       flow_uuid, made_from)
    VALUES (made, base.name, base.version, base.structure, base.content_hash, numbers[base.last_node + 1],
        base.created_by, flow, base.definition_uuid);
    INSERT INTO pawl_saga.nodes (definition_uuid, node, kind, name, controller, waits_for, priority, votes, may_miss,
        careful, written)
    SELECT made, numbers[n.node + 1], n.kind, n.name, numbers[n.controller + 1], n.waits_for, n.priority, n.votes,
    n.may_miss, n.careful, n.written
      FROM pawl_saga.nodes n WHERE n.definition_uuid = base.definition_uuid;
    INSERT INTO pawl_saga.edges (definition_uuid, from_node, to_node, from_kind, to_kind, to_careful)
    SELECT made, numbers[e.from_node + 1], numbers[e.to_node + 1], e.from_kind, e.to_kind, e.to_careful
    FROM pawl_saga.edges e WHERE e.definition_uuid = base.definition_uuid;
    INSERT INTO pawl_saga.votes (definition_uuid, target, link, source, depth, decider)
    SELECT made, numbers[v.target + 1], v.link, numbers[v.source + 1], v.depth, v.decider FROM pawl_saga.votes v
    WHERE v.definition_uuid = base.definition_uuid;
    INSERT INTO pawl_saga.parameters (definition_uuid, node, parameter, name, optional, is_injected, injected,
        providers)
    SELECT made, numbers[p.node + 1], p.parameter, p.name, p.optional, p.is_injected, p.injected,
           ARRAY(SELECT numbers[o.node + 1] FROM unnest(p.providers) WITH ORDINALITY o(node, place) ORDER BY o.place)
      FROM pawl_saga.parameters p WHERE p.definition_uuid = base.definition_uuid;
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl_saga._own_definition(uuid, pawl_saga.definitions) IS
'internal: a definition with the numbers that the atoms of a flow have';

-- SECURITY DEFINER: a role that can alter a flow need not be one that can define flows.
CREATE FUNCTION pawl_saga._flow_altered() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.flows');
    base pawl_saga.definitions;
    trouble text;
BEGIN
    PERFORM pawl_saga._check_snapshot(OLD.flow_uuid);
    IF OLD.state NOT IN ('PENDING', 'SUSPENDED', 'SUCCESS', 'FAILURE', 'REVERTED') OR NEW.state <> OLD.state
       OR EXISTS (SELECT FROM pawl_saga.tasks t
           WHERE t.flow_uuid = OLD.flow_uuid AND t.state IN ('RUNNING', 'REVERTING')) THEN
        PERFORM pawl.raise('55000', 'the definition of a running flow cannot be changed',
            format('Flow %s is in state "%s".', OLD.flow_uuid, OLD.state),
            format('select pawl_saga.suspend(%L)', OLD.flow_uuid));
    END IF;
    SELECT d.* INTO base FROM pawl_saga.definitions d
        WHERE d.definition_uuid = NEW.definition_uuid AND d.flow_uuid IS NULL;
    IF NOT FOUND THEN
        PERFORM pawl.raise('PW008', format('unknown definition %s', NEW.definition_uuid), NULL,
            'select pawl_saga.define(...)');
    END IF;
    SELECT format('"%s"', a.name) INTO trouble FROM pawl_saga.atoms a
        JOIN pawl_saga.nodes n ON n.definition_uuid = base.definition_uuid AND n.name = a.name
     WHERE a.flow_uuid = OLD.flow_uuid AND n.kind IN ('task', 'retry') AND n.kind <> a.kind LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('%s cannot change between task and retry', trouble), NULL, 'another name');
    END IF;
    SELECT format('"%s"', t.name) INTO trouble FROM pawl_saga.tasks t
        WHERE t.flow_uuid = OLD.flow_uuid AND t.state = 'REVERT_FAILURE'
       AND NOT EXISTS (SELECT FROM pawl_saga.nodes n WHERE n.definition_uuid = base.definition_uuid AND n.name = t.name)
           LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('55000', format('the revert of task %s failed: it cannot be dropped', trouble), NULL,
            format('select pawl_saga.resolve(%L, ...)', OLD.flow_uuid));
    END IF;
    SELECT a.name INTO trouble FROM pawl_saga.atoms a
      JOIN pawl_saga.nodes n ON n.definition_uuid = base.definition_uuid AND n.name = a.name
     WHERE OLD.state = 'REVERTED' AND a.flow_uuid = OLD.flow_uuid AND a.dropped AND a.state = 'FAILURE' LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('55000', format('%s was dropped when it had failed: it cannot come back to a flow that is '
            'REVERTED', trouble), 'A failure is reverted by the flow that it is part of.', 'give it another name');
    END IF;
    NEW.definition_uuid := pawl_saga._own_definition(OLD.flow_uuid, base);
    NEW.name := base.name;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_saga._flow_altered() IS
'internal: checks that a flow can go on with another definition, and gives it its own';
CREATE TRIGGER altered BEFORE UPDATE OF definition_uuid ON pawl_saga.flows
    FOR EACH ROW WHEN (OLD.definition_uuid IS DISTINCT FROM NEW.definition_uuid)
    EXECUTE FUNCTION pawl_saga._flow_altered();

-- New atoms of a flow that is being reverted are not executed. They are to be reverted too, if all of the flow is, or
-- an atom before them, or all atoms behind them.
CREATE FUNCTION pawl_saga._turn_added(flow uuid, had integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    f pawl_saga.flows;
    turned integer[];
BEGIN
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow;
    IF f.state IN ('PENDING', 'SUCCESS', 'REVERTED') THEN
        RETURN;
    END IF;
    IF f.undoing THEN
        UPDATE pawl_saga.retries r SET intention = 'REVERT', due_at = NULL
            WHERE r.flow_uuid = flow AND NOT r.dropped AND r.intention <> 'REVERT';
        UPDATE pawl_saga.tasks t SET intention = 'REVERT'
            WHERE t.flow_uuid = flow AND NOT t.dropped AND t.intention <> 'REVERT';
        RETURN;
    END IF;
    PERFORM pawl_saga._close_behind(flow, false);
    -- new atoms do not prevent it for each other
    SELECT array_agg(a.node) INTO turned
      FROM pawl_saga.atoms a
     WHERE a.flow_uuid = flow AND NOT a.dropped AND a.node <> ALL (had) AND a.state = 'PENDING'
         AND a.intention = 'EXECUTE'
       AND (SELECT bool_and(x.intention = 'REVERT') FROM pawl_saga._behind(f.definition_uuid, a.node) b
              JOIN pawl_saga.atoms x ON x.flow_uuid = flow AND x.node = b.node
                  AND NOT (x.node <> ALL (had) AND x.state = 'PENDING'));
    UPDATE pawl_saga.retries r SET intention = 'REVERT' WHERE r.flow_uuid = flow AND r.node = ANY (turned);
    UPDATE pawl_saga.tasks t SET intention = 'REVERT' WHERE t.flow_uuid = flow AND t.node = ANY (turned);
    PERFORM pawl_saga._close_behind(flow, false);
END
$function$;
COMMENT ON FUNCTION pawl_saga._turn_added(uuid, integer[]) IS
'internal: atoms that were added to a flow that is being reverted are not executed';

-- Atoms that come back, after they were dropped, into a flow that went on without them: what was reverted can be
-- executed again, and what was to be reverted stays done. What the flow reverts now is turned with the new atoms.
CREATE FUNCTION pawl_saga._take_back(flow uuid, nodes integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    UPDATE pawl_saga.tasks t
       SET state = CASE t.state WHEN 'REVERTED' THEN 'PENDING' ELSE t.state END, intention = 'EXECUTE'
     WHERE t.flow_uuid = flow AND t.node = ANY (nodes)
       AND (t.state = 'REVERTED' OR t.state = ANY ('{PENDING,SUCCESS}') AND t.intention = 'REVERT');
    UPDATE pawl_saga.retries r
       SET state = CASE r.state WHEN 'REVERTED' THEN 'PENDING' ELSE r.state END, intention = 'EXECUTE'
     WHERE r.flow_uuid = flow AND r.node = ANY (nodes)
       AND (r.state = 'REVERTED' OR r.state = ANY ('{PENDING,SUCCESS}') AND r.intention = 'REVERT');
    UPDATE pawl_saga.retries r SET value = NULL, failure = NULL, revert_failure = NULL
     WHERE r.flow_uuid = flow AND r.node = ANY (nodes) AND r.state = 'PENDING';
END
$function$;
COMMENT ON FUNCTION pawl_saga._take_back(uuid, integer[]) IS
'internal: atoms that were dropped are part of a flow again that is not being reverted';

CREATE FUNCTION pawl_saga._alter_atoms() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.flows');
    had integer[] := ARRAY(SELECT a.node FROM pawl_saga.atoms a WHERE a.flow_uuid = NEW.flow_uuid AND NOT a.dropped);
BEGIN
    UPDATE pawl_saga.tasks t SET dropped = true, due_at = 'infinity', wait_until = NULL
     WHERE t.flow_uuid = NEW.flow_uuid AND NOT EXISTS (SELECT FROM pawl_saga.nodes n
         WHERE n.definition_uuid = NEW.definition_uuid AND n.node = t.node);
    UPDATE pawl_saga.retries r SET dropped = true, due_at = NULL
     WHERE r.flow_uuid = NEW.flow_uuid AND NOT EXISTS (SELECT FROM pawl_saga.nodes n
         WHERE n.definition_uuid = NEW.definition_uuid AND n.node = r.node);
    UPDATE pawl_saga.tasks t
       SET dropped = false, wait_until = NULL, priority = n.priority, queue = pawl_saga._queue(n.written),
       execute = coalesce(n.written ->> 'execute', n.name),
           revert = n.written ->> 'revert',
           timeout = make_interval(secs => (n.written ->> 'timeout_seconds')::double precision),
           revert_timeout = make_interval(secs => (n.written ->> 'revert_timeout_seconds')::double precision),
           signal = n.written ->> 'signal',
           wait = make_interval(secs => (n.written ->> 'wait_seconds')::double precision),
           max_losses = coalesce((n.written ->> 'max_losses')::integer, 20)
      FROM pawl_saga.nodes n
      WHERE n.definition_uuid = NEW.definition_uuid AND t.flow_uuid = NEW.flow_uuid AND t.node = n.node;
    UPDATE pawl_saga.retries r SET dropped = false, controller = n.written
      FROM pawl_saga.nodes n
      WHERE n.definition_uuid = NEW.definition_uuid AND r.flow_uuid = NEW.flow_uuid AND r.node = n.node;
    IF NEW.state <> 'REVERTED' AND NOT NEW.undoing THEN
        PERFORM pawl_saga._take_back(NEW.flow_uuid, ARRAY(SELECT a.node FROM pawl_saga.atoms a
            WHERE a.flow_uuid = NEW.flow_uuid AND NOT a.dropped AND a.node <> ALL (had)));
    END IF;
    DELETE FROM pawl_saga.junctions j WHERE j.flow_uuid = NEW.flow_uuid;
    PERFORM pawl_saga._add_atoms(NEW.flow_uuid, NEW.definition_uuid);
    PERFORM pawl_saga._turn_added(NEW.flow_uuid, had);
    PERFORM pawl_saga._recount(NEW.flow_uuid);
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_saga._alter_atoms() IS 'internal: the atoms of a flow that has another definition now';
CREATE TRIGGER alter_atoms AFTER UPDATE OF definition_uuid ON pawl_saga.flows
    FOR EACH ROW WHEN (OLD.definition_uuid IS DISTINCT FROM NEW.definition_uuid)
    EXECUTE FUNCTION pawl_saga._alter_atoms();

CREATE FUNCTION pawl_saga.alter_flow(flow uuid, definition uuid DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    f pawl_saga.flows;
BEGIN
    SELECT x.* INTO f FROM pawl_saga.flows x WHERE x.flow_uuid = flow FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no flow %s', flow));
    END IF;
    UPDATE pawl_saga.flows x
       SET definition_uuid = coalesce(definition, (SELECT d.definition_uuid FROM pawl_saga.definitions d
           WHERE d.name = f.name AND d.flow_uuid IS NULL ORDER BY d.version DESC LIMIT 1))
     WHERE x.flow_uuid = flow RETURNING x.definition_uuid INTO f.definition_uuid;
    RETURN f.definition_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_saga.alter_flow(uuid, uuid) IS
'Lets a flow that is not running continue with another definition, and returns the id of the definition it now has,
a copy. Atoms are matched by name and keep state, result and log; new atoms are PENDING; atoms that are missing in
the definition stay as they are and are not claimed. One that comes back after it was reverted is PENDING again.
flow: its id. definition: default null: the newest version of its own.
Errors: 55000 the flow is running, the revert of a missing task has failed, or an atom that failed and was dropped would
come back to a flow that is REVERTED; 22023 an atom changes between task
and retry; PW008 unknown definition; P0002 no such flow; 42501 not a pawl_operator. Privileges: pawl_admin,
pawl_operator.
Example: SELECT pawl_saga.alter_flow(''01890000-0000-7000-8000-000000000001'')';
