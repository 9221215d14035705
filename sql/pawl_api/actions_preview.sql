-- What an action would do to tasks and bulk operations, by the states that they are in. It locks nothing and changes
-- nothing. Outcomes are changed, unchanged (it is so already) and rejected.

CREATE FUNCTION pawl_api._outcome(id uuid, state text, outcome text, code text, reason text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT jsonb_build_object('id', id, 'state', state, 'outcome', outcome, 'sqlstate', code, 'reason', reason)
$function$;
COMMENT ON FUNCTION pawl_api._outcome(uuid, text, text, text, text) IS
'internal: what an action did, or would do, to one task or operation';

-- The states from which the machine of tasks has the event of the action. A retry also continues a blocked task.
CREATE FUNCTION pawl_api._preview_tasks(tasks uuid[], action text) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant text := CASE action WHEN 'cancel' THEN 'Cancel' WHEN 'resolve' THEN 'ResolveManually'
        WHEN 'give_up' THEN 'GiveUp' ELSE 'Reset' END;
    target constant text := CASE action WHEN 'cancel' THEN 'cancelled' WHEN 'resolve' THEN 'resolved_manually'
        WHEN 'give_up' THEN 'error' ELSE 'pending' END;
    open text[] := ARRAY(SELECT t.from_state FROM pawl.transitions('pawl_dag.task') t
        WHERE t.event = fired);
BEGIN
    IF action = 'retry' THEN
        open := open || 'blocked_by_failures'::text;
    END IF;
    RETURN (SELECT coalesce(jsonb_agg(CASE
                WHEN t.task_uuid IS NULL
                    THEN pawl_api._outcome(u.id, NULL, 'rejected', 'P0002', 'there is no such task')
                WHEN t.state = target
                    THEN pawl_api._outcome(u.id, t.state, 'unchanged', NULL, format('it is %s already', t.state))
                WHEN t.state = ANY (open) THEN pawl_api._outcome(u.id, t.state, 'changed', NULL, NULL)
                ELSE pawl_api._outcome(u.id, t.state, 'rejected', 'PW001',
                    format('event "%s" is not possible in state "%s"', fired, t.state)) END ORDER BY u.n), '[]')
              FROM unnest(tasks) WITH ORDINALITY u(id, n) LEFT JOIN pawl_dag.tasks t ON t.task_uuid = u.id);
END
$function$;
COMMENT ON FUNCTION pawl_api._preview_tasks(uuid[], text) IS
'internal: what an action would do to tasks, in their order';

CREATE FUNCTION pawl_api._preview_bulk(o record, action text, open text[]) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    may record;
BEGIN
    CASE
        WHEN action = 'retry' THEN
            may := pawl_bulk.can_retry(o.operation);
            RETURN CASE WHEN may.eligible THEN pawl_api._outcome(o.operation, o.status, 'changed', NULL, NULL)
                ELSE pawl_api._outcome(o.operation, o.status, 'rejected', 'PW003', may.message) END;
        WHEN action = 'cancel' AND o.status = 'Cancelled' OR action = 'pause' AND o.paused_at IS NOT NULL
             OR action = 'resume' AND o.paused_at IS NULL AND o.completed_at IS NULL THEN
            RETURN pawl_api._outcome(o.operation, o.status, 'unchanged', NULL,
                CASE action WHEN 'cancel' THEN 'it is Cancelled already' WHEN 'pause' THEN 'it is paused already'
                    ELSE 'it is not paused' END);
        WHEN action = 'cancel' AND o.status <> ALL (open) THEN
            RETURN pawl_api._outcome(o.operation, o.status, 'rejected', 'PW001',
                format('an operation that is %s cannot be cancelled', o.status));
        WHEN action <> 'cancel' AND o.completed_at IS NOT NULL THEN
            RETURN pawl_api._outcome(o.operation, o.status, 'rejected', '55000',
                format('an operation that is %s cannot be %sd', o.status, action));
        ELSE
            RETURN pawl_api._outcome(o.operation, o.status, 'changed', NULL, NULL);
    END CASE;
END
$function$;
COMMENT ON FUNCTION pawl_api._preview_bulk(record, text, text[]) IS
'internal: what an action would do to a bulk operation; open: the states in which it can be cancelled';

CREATE FUNCTION pawl_api._preview_bulks(operations uuid[], action text) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    open constant text[] := ARRAY(SELECT t.from_state FROM pawl.transitions('pawl_bulk.operation') t
        WHERE t.to_state = 'Cancelled');
BEGIN
    RETURN (SELECT coalesce(jsonb_agg(CASE WHEN o.operation IS NULL
                THEN pawl_api._outcome(u.id, NULL, 'rejected', 'P0002', 'there is no such operation')
                ELSE pawl_api._preview_bulk(o, action, open) END ORDER BY u.n), '[]')
              FROM unnest(operations) WITH ORDINALITY u(id, n)
              LEFT JOIN pawl_bulk.operations o ON o.operation = u.id);
END
$function$;
COMMENT ON FUNCTION pawl_api._preview_bulks(uuid[], text) IS
'internal: what an action would do to bulk operations, in their order';

CREATE FUNCTION pawl_api._preview(kind text, ids uuid[], action text) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE kind WHEN 'operation' THEN pawl_api._preview_bulks(ids, action)
        ELSE pawl_api._preview_tasks(ids, action) END
$function$;
COMMENT ON FUNCTION pawl_api._preview(text, uuid[], text) IS
'internal: what an action would do to tasks or operations, in their order';

-- Outcomes that differ only in what they belong to are one group.
CREATE FUNCTION pawl_api._outcome_groups(outcomes jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(jsonb_agg(jsonb_build_object('outcome', g.outcome, 'state', g.state, 'sqlstate', g.code,
                'reason', g.reason, 'count', g.n, 'examples', g.examples)
            ORDER BY g.outcome, g.n DESC, g.state, g.reason), '[]')
      FROM (SELECT o ->> 'outcome' AS outcome, o ->> 'state' AS state, o ->> 'sqlstate' AS code, r.reason,
                   count(*) AS n, to_jsonb((array_agg(o ->> 'id'))[1:3]) AS examples
              FROM jsonb_array_elements(outcomes) o
              CROSS JOIN LATERAL (SELECT regexp_replace(o ->> 'reason', '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}',
                  '...', 'g') AS reason) r
             GROUP BY 1, 2, 3, 4) g
$function$;
COMMENT ON FUNCTION pawl_api._outcome_groups(jsonb) IS
'internal: outcomes counted by state and reason, each with up to three examples';
