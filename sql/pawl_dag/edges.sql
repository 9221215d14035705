-- Edges are checked when they are written: both steps are in one task, and there is no cycle, also when two sessions
-- write edges at once.

-- SECURITY DEFINER: see pawl_dag._steps_moved.
CREATE FUNCTION pawl_dag._edges_written() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT OR DELETE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.edges');
    suspect record;
    restoring constant boolean := pawl.restoring();
BEGIN
    -- plans that are made while the tables are empty are kept, and are none for anything else
    IF NOT EXISTS (SELECT FROM changed_edges) THEN
        RETURN NULL;
    END IF;
    -- A session that adds edges to the same task waits here; the UPDATE raises 40001 if its snapshot is older. A task
    -- of this transaction is not visible to other sessions yet.
    PERFORM FROM pawl_dag.tasks t
        WHERE t.task_uuid IN (SELECT e.task_uuid FROM changed_edges e) AND t.xmin <> pg_current_xact_id()::xid
      ORDER BY t.task_uuid FOR NO KEY UPDATE;
    UPDATE pawl_dag.tasks t SET evaluate = true
     WHERE t.task_uuid IN (SELECT e.task_uuid FROM changed_edges e) AND t.xmin <> pg_current_xact_id()::xid
         AND NOT restoring;
    SELECT c.task_uuid, c.name, c.state INTO suspect FROM changed_edges e
      JOIN LATERAL (SELECT x.* FROM pawl_dag.steps x
          WHERE x.task_uuid = e.task_uuid AND x.step_uuid = e.child_uuid OFFSET 0) c ON true
      JOIN LATERAL (SELECT x.* FROM pawl_dag.steps x
          WHERE x.task_uuid = e.task_uuid AND x.step_uuid = e.parent_uuid OFFSET 0) p ON true
     WHERE TG_OP = 'INSERT' AND c.state <> 'pending'
         AND pawl_dag._kind(p.state, p.unsatisfied_parents, p.optional) <> 'satisfied' LIMIT 1;
    IF FOUND AND NOT restoring THEN
        PERFORM pawl.raise('55000', format('step "%s" can no longer get an unsatisfied parent', suspect.name),
            format('Task %s: the step is in state "%s", not pending.', suspect.task_uuid, suspect.state));
    END IF;
    -- (OFFSET 0: each step is looked up by its whole key, whatever the planner thinks of tables without statistics.)
    -- Levels rise along every edge; where they do not, they are lifted, and an edge that leads back to itself is found.
    FOR suspect IN
        SELECT e.task_uuid, e.parent_uuid, e.child_uuid FROM changed_edges e
          JOIN LATERAL (SELECT x.* FROM pawl_dag.steps x
              WHERE x.task_uuid = e.task_uuid AND x.step_uuid = e.parent_uuid OFFSET 0) p ON true
          JOIN LATERAL (SELECT x.* FROM pawl_dag.steps x
              WHERE x.task_uuid = e.task_uuid AND x.step_uuid = e.child_uuid OFFSET 0) c ON true
         WHERE c.level <= p.level ORDER BY p.level, e.task_uuid, e.parent_uuid, e.child_uuid
    LOOP
        PERFORM pawl_dag._lift(suspect.task_uuid, suspect.parent_uuid, suspect.child_uuid);
    END LOOP;
    UPDATE pawl_dag.steps s SET total_parents = c.total, unsatisfied_parents = c.unsatisfied
      FROM (SELECT x.task_uuid, x.child_uuid, count(p.step_uuid)::integer AS total,
                   count(p.step_uuid) FILTER (WHERE pawl_dag._kind(p.state, p.unsatisfied_parents,
                       p.optional) <> 'satisfied')::integer AS unsatisfied
              FROM (SELECT DISTINCT e.task_uuid, e.child_uuid FROM changed_edges e) x
              LEFT JOIN pawl_dag.edges e ON e.task_uuid = x.task_uuid AND e.child_uuid = x.child_uuid
              LEFT JOIN pawl_dag.steps p ON p.task_uuid = e.task_uuid AND p.step_uuid = e.parent_uuid
             GROUP BY x.task_uuid, x.child_uuid) c
     WHERE s.task_uuid = c.task_uuid AND s.step_uuid = c.child_uuid
       AND (s.total_parents, s.unsatisfied_parents) <> (c.total, c.unsatisfied);
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._edges_written() IS 'internal: checks new edges, and counts the parents of their children';

-- Raises the levels below a new edge as far as needed. 22023: the edge would close a cycle.
CREATE FUNCTION pawl_dag._lift(task uuid, parent uuid, child uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    frontier uuid[] := ARRAY[child];
    next_level integer := (SELECT s.level + 1 FROM pawl_dag.steps s WHERE s.task_uuid = task AND s.step_uuid = parent);
    remaining integer := (SELECT count(*) FROM pawl_dag.steps s WHERE s.task_uuid = task);  -- no path is longer
BEGIN
    WHILE frontier <> '{}' LOOP
        remaining := remaining - 1;
        IF parent = ANY (frontier) OR remaining < 0 THEN
            PERFORM pawl.raise('22023', 'the edge would close a cycle',
                format('Task %s: on the cycle, or dependent on it, are step "%s" and step "%s".', task,
                       (SELECT s.name FROM pawl_dag.steps s WHERE s.task_uuid = task AND s.step_uuid = parent),
                       (SELECT s.name FROM pawl_dag.steps s WHERE s.task_uuid = task AND s.step_uuid = child)));
        END IF;
        WITH lifted AS (
            UPDATE pawl_dag.steps s SET level = next_level
             WHERE s.task_uuid = task AND s.step_uuid = ANY (frontier) AND s.level < next_level RETURNING s.step_uuid)
        SELECT coalesce(array_agg(DISTINCT e.child_uuid), '{}') INTO frontier
          FROM lifted l JOIN pawl_dag.edges e ON e.task_uuid = task AND e.parent_uuid = l.step_uuid;
        next_level := next_level + 1;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_dag._lift(uuid, uuid, uuid) IS
'internal: makes levels rise along a new edge; 22023: it closes a cycle';

CREATE TRIGGER checked_insert AFTER INSERT ON pawl_dag.edges REFERENCING NEW TABLE AS changed_edges
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_dag._edges_written();

CREATE FUNCTION pawl_dag._edges_fixed() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.edges');
BEGIN
    PERFORM pawl.raise('0A000', 'an edge cannot be updated', NULL, 'delete it and insert the other one');
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._edges_fixed() IS 'internal: rejects changes of edges';
CREATE TRIGGER fixed BEFORE UPDATE ON pawl_dag.edges FOR EACH STATEMENT EXECUTE FUNCTION pawl_dag._edges_fixed();

CREATE TRIGGER counted_delete AFTER DELETE ON pawl_dag.edges REFERENCING OLD TABLE AS changed_edges
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_dag._edges_written();
