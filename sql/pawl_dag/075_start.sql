-- Tasks that begin: one statement for any number of them.

CREATE FUNCTION pawl_dag._template(name text, namespace text, version text) RETURNS pawl_dag.templates
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one pawl_dag.templates;
    known text;
BEGIN
    SELECT t.* INTO found_one FROM pawl_dag.templates t
     WHERE t.namespace = _template.namespace AND t.name = _template.name AND (_template.version IS NULL OR t.version = _template.version)
     ORDER BY t.created_at DESC, t.template_uuid DESC LIMIT 1;
    IF NOT FOUND THEN
        SELECT string_agg(format('%s %s %s', k.namespace, k.name, k.version), ', ') INTO known
          FROM (SELECT t.namespace, t.name, t.version FROM pawl_dag.templates t WHERE t.name = _template.name ORDER BY t.created_at DESC LIMIT 10) k;
        PERFORM pawl._raise('PW008', format('unknown template "%s"%s in namespace "%s"', _template.name,
                                             coalesce(' version ' || _template.version, ''), _template.namespace),
            NULL, coalesce('defined are: ' || known, 'define it: select pawl_dag.define_template(…)'));
    END IF;
    RETURN found_one;
END
$function$;
COMMENT ON FUNCTION pawl_dag._template(text, text, text) IS 'internal: a version of a template, by default the newest';

CREATE FUNCTION pawl_dag.start_tasks(name text, contexts jsonb[], namespace text DEFAULT 'default', version text DEFAULT NULL,
    priority integer DEFAULT 0, identity_keys text[] DEFAULT NULL, correlation_id uuid DEFAULT NULL, parent_correlation_id uuid DEFAULT NULL)
RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    template pawl_dag.templates := pawl_dag._template(start_tasks.name, start_tasks.namespace, start_tasks.version);
BEGIN
    IF contexts IS NULL THEN
        PERFORM pawl._raise('22004', 'contexts must not be null');
    END IF;
    IF identity_keys IS NOT NULL AND cardinality(identity_keys) <> cardinality(contexts) THEN
        PERFORM pawl._raise('2202E', format('%s contexts, but %s identity keys', cardinality(contexts), cardinality(identity_keys)));
    END IF;
    IF template.identity_strategy = 'caller_provided' AND (identity_keys IS NULL OR array_position(identity_keys, NULL) IS NOT NULL) THEN
        PERFORM pawl._raise('22004', format('template "%s" needs an identity key for each task', template.name), NULL, 'identity_keys => array[…]');
    END IF;
    RETURN QUERY
    WITH started AS (
        INSERT INTO pawl_dag.tasks (template_uuid, namespace, name, version, priority, rank, context, identity_key, correlation_id, parent_correlation_id,
                                    failure_policy, steps_total, steps_ready, steps_blocked, deadline_at, stale_after)
        SELECT template.template_uuid, template.namespace, template.name, template.version, start_tasks.priority,
               pawl_dag._rank(start_tasks.priority, clock_timestamp()), coalesce(c.context, '{}'),
               coalesce(c.key, CASE template.identity_strategy
                   WHEN 'strict' THEN encode(sha256(template.content_hash || convert_to(coalesce(c.context, '{}')::text, 'UTF8')), 'hex')
                   ELSE pawl.uuid_v7()::text END),
               coalesce(start_tasks.correlation_id, pawl.uuid_v7()), start_tasks.parent_correlation_id, template.failure_policy,
               template.steps_total, template.steps_ready, template.steps_total - template.steps_ready, clock_timestamp() + template.max_duration, template.stale_after
          FROM unnest(contexts, identity_keys) c(context, key)
        RETURNING task_uuid, priority, rank),
    -- the ids of a task's steps by their ordinal: edges find theirs without a join that no statistics know of
    numbered AS MATERIALIZED (
        SELECT t.task_uuid, t.priority, t.rank, ARRAY(SELECT pawl.uuid_v7() FROM generate_series(1, template.steps_total) WHERE t.task_uuid IS NOT NULL) AS ids
          FROM started t),
    made AS (
        INSERT INTO pawl_dag.steps (task_uuid, step_uuid, name, namespace, priority, rank, handler, handler_options, level, total_parents, unsatisfied_parents,
                                    optional, retryable, max_attempts, backoff, timeout)
        SELECT t.task_uuid, t.ids[s.ordinal], s.name,
               CASE WHEN s.handler ^@ 'sql:' THEN 'sql:' ELSE template.namespace END, t.priority, t.rank, s.handler, s.handler_options, s.level, s.parents, s.parents, s.optional,
               s.retryable, s.max_attempts, s.backoff, s.timeout
          FROM numbered t CROSS JOIN pawl_dag.template_steps s WHERE s.template_uuid = template.template_uuid),
    drawn AS (
        INSERT INTO pawl_dag.edges (task_uuid, parent_uuid, child_uuid)
        SELECT t.task_uuid, t.ids[p.ordinal], t.ids[c.ordinal]
          FROM pawl_dag.template_edges e
          JOIN pawl_dag.template_steps p ON p.template_uuid = e.template_uuid AND p.name = e.parent
          JOIN pawl_dag.template_steps c ON c.template_uuid = e.template_uuid AND c.name = e.child
          CROSS JOIN numbered t WHERE e.template_uuid = template.template_uuid)
    SELECT t.task_uuid FROM started t;
END
$function$;
COMMENT ON FUNCTION pawl_dag.start_tasks(text, jsonb[], text, text, integer, text[], uuid, uuid) IS
'starts a task for each context and returns their ids. What makes a task the same as another is the template''s identity_strategy: strict (template version and context), caller_provided, always_unique; a key given overrides it. 23505: such a task is there already; PW008: unknown template';

CREATE FUNCTION pawl_dag.start_task(name text, context jsonb DEFAULT '{}', namespace text DEFAULT 'default', version text DEFAULT NULL,
    priority integer DEFAULT 0, identity_key text DEFAULT NULL, correlation_id uuid DEFAULT NULL, parent_correlation_id uuid DEFAULT NULL)
RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC
    SELECT pawl_dag.start_tasks(name, ARRAY[context], namespace, version, priority,
                                CASE WHEN identity_key IS NULL THEN NULL ELSE ARRAY[identity_key] END, correlation_id, parent_correlation_id);
END;
COMMENT ON FUNCTION pawl_dag.start_task(text, jsonb, text, text, integer, text, uuid, uuid) IS
'starts one task and returns its id; see pawl_dag.start_tasks';
