-- Views of flows.

CREATE VIEW pawl_saga.atoms AS
SELECT t.flow_uuid, t.node, 'task' AS kind, t.name, t.state, t.intention::text, t.blockers, t.due_at, t.worker,
t.result, t.failure, t.revert_failure, t.progress::double precision, t.signal, t.wait_until,
       t.dropped FROM pawl_saga.tasks t
UNION ALL
SELECT r.flow_uuid, r.node, 'retry', r.name, r.state, r.intention, r.blockers, r.due_at, NULL, r.value, r.failure,
r.revert_failure, NULL, NULL, NULL, r.dropped FROM pawl_saga.retries r;
COMMENT ON VIEW pawl_saga.atoms IS 'tasks and retries of flows; order by node for the order of the definition';

CREATE VIEW pawl_saga.timeline AS
SELECT l.flow_uuid, l.created_at, l.id, '$flow' AS subject, l.from_state, l.to_state, l.event, l.processor, l.metadata
FROM pawl_saga.flow_transitions l
UNION ALL
SELECT l.flow_uuid, l.created_at, l.id, t.name, l.from_state, l.to_state, l.event, l.processor, l.metadata
  FROM pawl_saga.task_transitions l JOIN pawl_saga.tasks t ON t.flow_uuid = l.flow_uuid AND t.node = l.node
UNION ALL
SELECT l.flow_uuid, l.created_at, l.id, r.name, l.from_state, l.to_state, l.event, l.processor, l.metadata
  FROM pawl_saga.retry_transitions l JOIN pawl_saga.retries r ON r.flow_uuid = l.flow_uuid AND r.node = l.node;
COMMENT ON VIEW pawl_saga.timeline IS
'every transition of a flow and its atoms: subject is $flow, or the name of the atom; order by created_at, id';

CREATE VIEW pawl_saga.engines AS
SELECT f.flow_uuid, f.name, f.state AS flow_state, r.run, r.state, r.began_at, r.ended_at
  FROM pawl_saga.runs r JOIN pawl_saga.flows f ON f.flow_uuid = r.flow_uuid;
COMMENT ON VIEW pawl_saga.engines IS
'the engine of each run of a flow: state is WAITING while the run goes on and its outcome once it ended (SUCCESS, '
'REVERTED, FAILURE or SUSPENDED); the states between are passed through in one statement. began_at, ended_at: of the '
'run; ended_at is null while it goes on. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader';

CREATE FUNCTION pawl_saga.progress(flow uuid, node integer, token bigint, progress double precision,
        details jsonb DEFAULT NULL, processor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
AS $function$
DECLARE
    caller text := coalesce(current_setting('pawl.processor', true), '');
    called text := coalesce(current_setting('pawl.token', true), '');
BEGIN
    IF progress.progress NOT BETWEEN 0 AND 1 THEN
        PERFORM pawl.raise('22023', 'progress must be from 0 to 1', format('It is %s.', progress.progress),
            'progress => 0.5');
    END IF;
    PERFORM set_config('pawl.processor', coalesce(progress.processor, caller), true),
        set_config('pawl.token', token::text, true);
    UPDATE pawl_saga.tasks t SET progress = progress.progress, progress_details = details
        WHERE t.flow_uuid = flow AND t.node = progress.node;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no task %s in flow %s', node, flow));
    END IF;
    PERFORM set_config('pawl.processor', caller, true), set_config('pawl.token', called, true);
END
$function$;
COMMENT ON FUNCTION pawl_saga.progress(uuid, integer, bigint, double precision, jsonb, text) IS
'Records the progress of a running task.
flow: its id. node: the number of the task. token: the fencing token of the claim. progress: 0 to 1. details: a JSON
value; default null. processor: default pawl.processor.
Errors: PW004 not the owner; PW005 a stale token, or the lease has expired; P0002 no such task; 22023 progress is out '
'of range. Privileges:
pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.progress(''01890000-0000-7000-8000-000000000001'', 1, 1, 0.5, processor => ''worker 1'')';

CREATE FUNCTION pawl_saga._label(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
RETURN replace(replace(replace(replace(name, '&', '#amp;'), '"', '#quot;'), '<', '#lt;'), E'\n', ' ');
COMMENT ON FUNCTION pawl_saga._label(text) IS 'internal: a name as Mermaid shows it';

CREATE FUNCTION pawl_saga.diagram(flow uuid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT 'flowchart TD' || coalesce(string_agg(l.line, '' ORDER BY l.part, l.one, l.two), '')
        || E'\n    classDef RUNNING,REVERTING,RETRYING fill:#ddf4ff,stroke:#0969da\n    classDef SUCCESS '
            'fill:#dafbe1,stroke:#1a7f37'
        || E'\n    classDef FAILURE,REVERT_FAILURE fill:#ffebe9,stroke:#cf222e\n    classDef REVERTED,IGNORE '
            'fill:#eaeef2,stroke:#6e7781\n'
      FROM (SELECT 1 AS part, n.node AS one, 0 AS two, CASE
                   WHEN n.kind = 'task'
                       THEN format(E'\n    n%s["%s<br/>%s"]:::%s', n.node, pawl_saga._label(n.name), a.state, a.state)
                   WHEN n.kind = 'retry'
                       THEN format(E'\n    n%s{{"%s<br/>%s"}}:::%s', n.node, pawl_saga._label(n.name), a.state, a.state)
                   ELSE format(E'\n    n%s(("%s"))', n.node,
              CASE n.kind WHEN 'entry' THEN pawl_saga._label(n.name) ELSE ' ' END) END AS line
              FROM pawl_saga.flows f JOIN pawl_saga.nodes n ON n.definition_uuid = f.definition_uuid
              LEFT JOIN pawl_saga.atoms a ON a.flow_uuid = f.flow_uuid AND a.node = n.node WHERE f.flow_uuid = flow
            UNION ALL
            SELECT 2, e.from_node, e.to_node, format(E'\n    n%s --> n%s', e.from_node, e.to_node)
              FROM pawl_saga.flows f JOIN pawl_saga.edges e ON e.definition_uuid = f.definition_uuid
              WHERE f.flow_uuid = flow) l
    HAVING EXISTS (SELECT FROM pawl_saga.flows f WHERE f.flow_uuid = flow)
$function$;
COMMENT ON FUNCTION pawl_saga.diagram(uuid) IS
'Returns a flow as a Mermaid flowchart, each atom with its state; null: no such flow. flow: its id.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_saga.diagram(''01890000-0000-7000-8000-000000000001'')';

-- Computes the counters from the definition and the states, in another way than they are maintained.
CREATE FUNCTION pawl_saga.verify(flow uuid DEFAULT NULL) RETURNS TABLE (flow_uuid uuid, atom text, problem text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH RECURSIVE looked_at AS MATERIALIZED (SELECT f.* FROM pawl_saga.flows f
        WHERE verify.flow IS NULL OR f.flow_uuid = verify.flow),
    steps AS MATERIALIZED (  -- what blocks which atom directly: entries and ends are looked through
        SELECT f.flow_uuid, e.from_node, e.to_node, e.from_kind, e.to_kind FROM looked_at f
            JOIN pawl_saga.edges e ON e.definition_uuid = f.definition_uuid),
    reach (flow_uuid, from_node, to_node, to_kind) AS (
        SELECT s.flow_uuid, s.from_node, s.to_node, s.to_kind FROM steps s WHERE s.from_kind IN ('task', 'retry')
        UNION SELECT r.flow_uuid, r.from_node, s.to_node, s.to_kind FROM reach r
        JOIN steps s ON s.flow_uuid = r.flow_uuid AND s.from_node = r.to_node),
    pairs AS MATERIALIZED (
        SELECT r.flow_uuid, b.node AS before, a.node AS after, b.state AS before_state, b.intention AS before_intention,
        a.state AS after_state
          FROM reach r JOIN pawl_saga.atoms b ON b.flow_uuid = r.flow_uuid AND b.node = r.from_node
          JOIN pawl_saga.atoms a ON a.flow_uuid = r.flow_uuid AND a.node = r.to_node
          WHERE r.to_kind IN ('task', 'retry')), facts AS MATERIALIZED (
        SELECT a.*, f.state AS flow_state, f.broken,
               EXISTS (SELECT FROM pairs p WHERE p.flow_uuid = a.flow_uuid AND p.after = a.node
                          AND NOT (p.before_state IN ('SUCCESS', 'IGNORE')
            AND p.before_intention IN ('EXECUTE', 'IGNORE'))) AS waits_before,
               EXISTS (SELECT FROM pairs p WHERE p.flow_uuid = a.flow_uuid AND p.before = a.node
                   AND p.after_state NOT IN ('PENDING', 'REVERTED', 'IGNORE')) AS waits_behind
          FROM looked_at f JOIN pawl_saga.atoms a ON a.flow_uuid = f.flow_uuid AND NOT a.dropped WHERE f.run > 0)
    SELECT x.flow_uuid, x.name, 'the number of blockers is wrong' FROM facts x
     WHERE x.flow_state IN ('RUNNING', 'SUSPENDING', 'SUSPENDED')
       AND (x.blockers < 0
            OR (x.blockers = 0)
               = CASE WHEN x.intention IN ('REVERT', 'RETRY') THEN x.waits_behind ELSE x.waits_before END)
    UNION ALL
    SELECT x.flow_uuid, x.name, 'can be claimed, and is not ready' FROM facts x
     WHERE x.kind = 'task' AND x.due_at IS NULL
         AND (x.state IN ('SUCCESS', 'FAILURE') AND (x.intention <> 'REVERT' OR x.waits_behind)
             OR x.state = 'PENDING' AND (x.intention <> 'EXECUTE' OR x.waits_before))
    UNION ALL
    SELECT x.flow_uuid, x.name, 'is ready, and cannot be claimed' FROM facts x
    JOIN looked_at f ON f.flow_uuid = x.flow_uuid
      JOIN pawl_saga.nodes n ON n.definition_uuid = f.definition_uuid AND n.node = x.node
     WHERE x.kind = 'task' AND x.due_at IS NOT NULL AND x.flow_state = 'RUNNING' AND NOT x.broken
         AND x.wait_until IS NULL
       AND (x.state IN ('SUCCESS', 'FAILURE') AND x.intention = 'REVERT' AND NOT x.waits_behind OR x.state = 'PENDING'
           AND x.intention = 'EXECUTE' AND NOT x.waits_before)
       AND NOT EXISTS (SELECT FROM pawl_saga.questions q WHERE q.flow_uuid = x.flow_uuid AND q.node = x.node)
    UNION ALL
    SELECT x.flow_uuid, x.name, format('%s, to be %s, in a flow that is REVERTED', x.state, lower(x.intention))
    FROM facts x JOIN looked_at f USING (flow_uuid) JOIN pawl_saga.definitions d USING (definition_uuid)
     WHERE x.flow_state = 'REVERTED'
       AND (x.state IN ('FAILURE', 'REVERT_FAILURE', 'RUNNING', 'REVERTING', 'RETRYING') OR x.state = 'SUCCESS'
           AND x.intention IN ('REVERT', 'RETRY') AND d.created_at <= f.entered_at)  -- not altered since
    UNION ALL
    SELECT x.flow_uuid, x.name, format('%s in a flow that is REVERTED, and %s', x.state, CASE x.state
        WHEN 'PENDING' THEN 'it was not executed' ELSE 'nothing was reverted' END) FROM facts x
      JOIN looked_at f ON f.flow_uuid = x.flow_uuid
     WHERE x.flow_state = 'REVERTED' AND CASE x.state WHEN 'PENDING' THEN x.intention = 'EXECUTE' AND NOT x.waits_before
             AND NOT EXISTS (SELECT FROM pawl_saga.definitions d WHERE d.definition_uuid = f.definition_uuid
                 AND d.created_at > f.entered_at)  -- altered since, and not run again
         ELSE x.state = 'SUCCESS' AND NOT f.undoing AND NOT EXISTS (SELECT FROM pawl_saga.atoms a
             WHERE a.flow_uuid = x.flow_uuid AND (a.intention = 'REVERT' OR a.state = 'REVERTED')) END
    UNION ALL
    SELECT x.flow_uuid, x.name, format('%s%s in a flow that is %s', x.state,
        CASE WHEN x.state NOT IN ('RUNNING', 'REVERTING') THEN ', and can be claimed,' END, x.flow_state) FROM facts x
     WHERE x.flow_state IN ('SUCCESS', 'FAILURE', 'REVERTED', 'SUSPENDED') AND x.kind = 'task'
       AND (x.state IN ('RUNNING', 'REVERTING')
           OR x.due_at IS NULL AND x.state IN ('PENDING', 'SUCCESS', 'FAILURE', 'REVERT_FAILURE'))
    UNION ALL
    SELECT x.flow_uuid, x.name, format('%s in a flow that is SUCCESS', x.state) FROM facts x
    JOIN looked_at f ON f.flow_uuid = x.flow_uuid
      JOIN pawl_saga.definitions d ON d.definition_uuid = f.definition_uuid
     WHERE x.flow_state = 'SUCCESS' AND x.state NOT IN ('SUCCESS', 'IGNORE')
         AND NOT (x.state IN ('PENDING', 'FAILURE') AND d.created_at > f.entered_at)  -- altered, and not run again
    UNION ALL
    SELECT f.flow_uuid, NULL, 'no work is in progress' FROM looked_at f
     WHERE f.state IN ('RUNNING', 'SUSPENDING')
       AND NOT EXISTS (SELECT FROM pawl_saga.questions q WHERE q.flow_uuid = f.flow_uuid)
       AND NOT EXISTS (SELECT FROM facts x WHERE x.flow_uuid = f.flow_uuid
                          AND (x.state IN ('RUNNING', 'REVERTING') OR x.kind = 'task' AND x.due_at IS NULL
                              AND x.state IN ('PENDING', 'SUCCESS', 'FAILURE', 'REVERT_FAILURE')
                               OR x.kind = 'retry' AND x.due_at IS NOT NULL OR x.wait_until IS NOT NULL
                               AND x.state = 'PENDING' AND x.intention = 'EXECUTE' AND x.blockers = 0))
    UNION ALL
    SELECT s.flow_uuid, NULL, format('is set aside until %s: %s raised %s: %s', s.due_at, s.duty, s.sqlstate, s.message)
    FROM looked_at f JOIN pawl_saga.set_aside s ON s.flow_uuid = f.flow_uuid
$function$;
COMMENT ON FUNCTION pawl_saga.verify(uuid) IS
'Checks a flow, or all: counters that do not match the states, and states that do not match those of the atoms. No
rows: nothing is wrong. The cost grows with the square of the size of a flow.
flow: its id; default null: all. Returns flow_uuid, atom (its name) and problem.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT * FROM pawl_saga.verify()';
