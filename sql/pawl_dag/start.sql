-- Starts any number of tasks by one statement.

CREATE FUNCTION pawl_dag._template(name text, namespace text, version text) RETURNS pawl_dag.templates
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one pawl_dag.templates;
    known text;
BEGIN
    SELECT t.* INTO found_one FROM pawl_dag.templates t
     WHERE t.namespace = _template.namespace AND t.name = _template.name
         AND (_template.version IS NULL OR t.version = _template.version)
     ORDER BY t.created_at DESC, t.template_uuid DESC LIMIT 1;
    IF NOT FOUND THEN
        PERFORM pawl.require_here('dag', _template.namespace);
        SELECT string_agg(format('version %s in namespace "%s"', k.version, k.namespace), ', ') INTO known
          FROM (SELECT t.namespace, t.name, t.version FROM pawl_dag.templates t WHERE t.name = _template.name
              ORDER BY t.created_at DESC LIMIT 10) k;
        PERFORM pawl.raise('PW008', format('unknown template "%s"%s in namespace "%s"', _template.name,
                                             coalesce(' version ' || _template.version, ''), _template.namespace),
            NULL, coalesce('defined: ' || known, 'define it: select pawl_dag.define_template(...)'));
    END IF;
    RETURN found_one;
END
$function$;
COMMENT ON FUNCTION pawl_dag._template(text, text, text) IS 'internal: a version of a template, by default the newest';

-- The steps and edges of tasks that start. They are known to this transaction only and follow from the template, so
-- nothing is left to check: levels, counts of parents, names and keys. C++ writes the rows, their index entries and
-- the log, where tasks, steps and edges have no triggers or rules but those of the extensions.
CREATE FUNCTION pawl_dag._insert_steps(template uuid, namespace text, priority integer, tasks uuid[],
    ranks double precision[], contexts jsonb[], traceparents text[], tracestates text[]) RETURNS integer[]
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_insert_steps';
COMMENT ON FUNCTION pawl_dag._insert_steps(uuid, text, integer, uuid[], double precision[], jsonb[], text[], text[]) IS
'internal: inserts the steps and edges of the tasks that a start makes, and returns how many steps each has, and then '
'how many of these are ready; null: it did not, statements are needed';

CREATE FUNCTION pawl_dag._insert_checked_edges(new_tasks uuid[], tasks uuid[], parents uuid[], children uuid[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_dag._one_name_each(new_tasks);
    PERFORM pawl_dag._count_tasks(new_tasks);
    INSERT INTO pawl_dag.edges (task_uuid, parent_uuid, child_uuid) SELECT * FROM unnest(tasks, parents, children);
END
$function$;
COMMENT ON FUNCTION pawl_dag._insert_checked_edges(uuid[], uuid[], uuid[], uuid[]) IS
'internal: inserts edges of new tasks, whose steps are counted first, as by hand';

CREATE FUNCTION pawl_dag._require_arrays(template pawl_dag.templates, tasks uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    problem record;
BEGIN
    SELECT s.name, s.map_over, jsonb_typeof(t.context #> s.map_over) AS found_type INTO problem
      FROM pawl_dag.tasks t CROSS JOIN pawl_dag.template_steps s
     WHERE t.task_uuid = ANY (tasks) AND s.template_uuid = template.template_uuid AND s.map_over IS NOT NULL
       AND jsonb_typeof(t.context #> s.map_over) IS DISTINCT FROM 'array' LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('step "%s" needs an array in the context', problem.name),
            format('At %s there is %s.', array_to_string(problem.map_over, '.'),
                coalesce('a JSON ' || problem.found_type, 'nothing')));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_dag._require_arrays(pawl_dag.templates, uuid[]) IS
'internal: 22023: the context of a task has no array where a step of its template is mapped';

-- The steps of tasks whose template has mapped ones, by statements: as many of each as its array has elements. A mapped
-- step without elements is none, and those who would wait for it wait for those it would have waited for. Cost: one row
-- a step and an edge, however large a set.
CREATE FUNCTION pawl_dag._make_mapped_steps(template pawl_dag.templates, tasks uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    made record;
BEGIN
    WITH made AS MATERIALIZED (
        SELECT t.task_uuid, t.priority, t.rank, t.traceparent, t.tracestate, s.name, s.ordinal, x.items,
        jsonb_array_length(x.items) AS n,
               ARRAY(SELECT pawl.uuid_v7() FROM generate_series(1, jsonb_array_length(x.items))) AS ids
          FROM pawl_dag.tasks t CROSS JOIN pawl_dag.template_steps s
         CROSS JOIN LATERAL (SELECT CASE WHEN s.map_over IS NULL THEN '[null]' ELSE t.context #> s.map_over END
             AS items) x
         WHERE t.task_uuid = ANY (tasks) AND s.template_uuid = template.template_uuid),
    sized AS MATERIALIZED (SELECT m.task_uuid, m.name, m.ordinal, m.n FROM made m),
    drawn AS MATERIALIZED (SELECT e.parent, e.child FROM pawl_dag.template_edges e
        WHERE e.template_uuid = template.template_uuid), links AS MATERIALIZED (
        SELECT c.task_uuid, p.ordinal AS parent, c.ordinal AS child, p.n
          FROM sized c JOIN drawn e ON e.child = c.name JOIN sized p ON p.task_uuid = c.task_uuid AND p.name = e.parent
         WHERE c.n > 0 AND p.n > 0
        UNION
        SELECT c.task_uuid, g.ordinal, c.ordinal, g.n
          FROM sized c JOIN drawn e ON e.child = c.name
          JOIN sized p ON p.task_uuid = c.task_uuid AND p.name = e.parent AND p.n = 0
          JOIN drawn f ON f.child = p.name JOIN sized g ON g.task_uuid = c.task_uuid AND g.name = f.parent
         WHERE c.n > 0),
    waited_for AS MATERIALIZED (SELECT l.task_uuid, l.child, sum(l.n)::integer AS parents FROM links l
        GROUP BY l.task_uuid, l.child), steps AS (
        INSERT INTO pawl_dag.steps (task_uuid, step_uuid, name, namespace, priority, rank, handler, handler_options,
            map_of, map_index, level, total_parents,
                                    unsatisfied_parents, optional, retryable, max_attempts, backoff, timeout,
                                    traceparent, tracestate)
        SELECT m.task_uuid, u.id, CASE WHEN s.map_over IS NULL THEN s.name ELSE format('%s[%s]', s.name, u.n - 1) END,
               CASE WHEN s.handler ^@ 'sql:' THEN 'sql:' ELSE template.namespace END, m.priority, m.rank, s.handler,
               CASE WHEN s.map_over IS NULL THEN s.handler_options ELSE s.handler_options
                   || jsonb_build_object('item', u.item, 'index', u.n - 1) END,
               CASE WHEN s.map_over IS NOT NULL THEN s.name END, CASE WHEN s.map_over IS NOT NULL THEN u.n - 1 END,
               s.level, coalesce(w.parents, 0), coalesce(w.parents, 0), s.optional, s.retryable, s.max_attempts,
               s.backoff, s.timeout, m.traceparent, m.tracestate
          FROM made m
          JOIN pawl_dag.template_steps s ON s.template_uuid = template.template_uuid AND s.ordinal = m.ordinal
          LEFT JOIN waited_for w ON w.task_uuid = m.task_uuid AND w.child = m.ordinal
         CROSS JOIN LATERAL ROWS FROM (unnest(m.ids), jsonb_array_elements(m.items)) WITH ORDINALITY u(id, item, n))
    SELECT array_agg(l.task_uuid) AS edges_of, array_agg(a.id) AS parents, array_agg(b.id) AS children INTO made
      FROM links l JOIN made p ON p.task_uuid = l.task_uuid AND p.ordinal = l.parent
      JOIN made c ON c.task_uuid = l.task_uuid AND c.ordinal = l.child
     CROSS JOIN LATERAL unnest(p.ids) a(id) CROSS JOIN LATERAL unnest(c.ids) b(id);
    PERFORM pawl_dag._insert_checked_edges(tasks, made.edges_of, made.parents, made.children);
END
$function$;
COMMENT ON FUNCTION pawl_dag._make_mapped_steps(pawl_dag.templates, uuid[]) IS
'internal: inserts the steps and edges of new tasks whose template has mapped steps';

CREATE FUNCTION pawl_dag._make_steps(template pawl_dag.templates, tasks uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    drawn record;
BEGIN
    -- the ids of a task's steps by their ordinal: edges find theirs without a join that no statistics know of
    WITH numbered AS MATERIALIZED (
        SELECT t.task_uuid, t.priority, t.rank, t.traceparent, t.tracestate,
        ARRAY(SELECT pawl.uuid_v7() FROM generate_series(1, template.steps_total) WHERE t.task_uuid IS NOT NULL) AS ids
          FROM pawl_dag.tasks t WHERE t.task_uuid = ANY (tasks)),
    -- OFFSET 0: each step is looked up by its whole key, whatever the planner thinks of the size of templates
    linked AS MATERIALIZED (
        SELECT p.ordinal AS parent, c.ordinal AS child FROM pawl_dag.template_edges e
         CROSS JOIN LATERAL (SELECT s.ordinal FROM pawl_dag.template_steps s
             WHERE s.template_uuid = e.template_uuid AND s.name = e.parent OFFSET 0) p
         CROSS JOIN LATERAL (SELECT s.ordinal FROM pawl_dag.template_steps s
             WHERE s.template_uuid = e.template_uuid AND s.name = e.child OFFSET 0) c
         WHERE e.template_uuid = template.template_uuid),
    made AS (
        INSERT INTO pawl_dag.steps (task_uuid, step_uuid, name, namespace, priority, rank, handler, handler_options,
            level, total_parents, unsatisfied_parents,
                                    optional, retryable, max_attempts, backoff, timeout, traceparent, tracestate)
        SELECT t.task_uuid, t.ids[s.ordinal], s.name,
               CASE WHEN s.handler ^@ 'sql:' THEN 'sql:' ELSE template.namespace END, t.priority, t.rank, s.handler,
               s.handler_options, s.level, s.parents, s.parents, s.optional,
               s.retryable, s.max_attempts, s.backoff, s.timeout, t.traceparent, t.tracestate
          FROM numbered t CROSS JOIN pawl_dag.template_steps s
          WHERE s.template_uuid = template.template_uuid)
    SELECT array_agg(t.task_uuid) AS edges_of, array_agg(t.ids[l.parent]) AS parents,
           array_agg(t.ids[l.child]) AS children INTO drawn
      FROM linked l CROSS JOIN numbered t;
    PERFORM pawl_dag._insert_checked_edges(tasks, drawn.edges_of, drawn.parents, drawn.children);
END
$function$;
COMMENT ON FUNCTION pawl_dag._make_steps(pawl_dag.templates, uuid[]) IS
'internal: inserts the steps and edges of new tasks whose template has no mapped steps';

-- Some of these identity keys exist already, in the table or twice in this call.
CREATE FUNCTION pawl_dag._reject_repeated(template pawl_dag.templates, keys text[], new_tasks uuid[], key_hint text)
    RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    other record;
BEGIN
    SELECT t.task_uuid, t.state, t.identity_key INTO other FROM pawl_dag.tasks t
     WHERE t.namespace = template.namespace AND t.name = template.name AND t.identity_key = ANY (keys)
         AND t.task_uuid <> ALL (new_tasks) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('23505', format('task "%s" with this identity already exists', template.name),
            format('Task %s (%s) has the identity key "%s".', other.task_uuid, other.state, other.identity_key),
            format('select * from pawl_dag.tasks where task_uuid = %L; to create another one: %s', other.task_uuid,
                key_hint));
    END IF;
    PERFORM pawl.raise('23505', format('tasks "%s" have the same identity', template.name),
        (SELECT format('%s of them have the identity key "%s".', count(*), k) FROM unnest(keys) k GROUP BY k
            HAVING count(*) > 1 LIMIT 1), 'identity_keys => array[...] with different keys');
END
$function$;
COMMENT ON FUNCTION pawl_dag._reject_repeated(pawl_dag.templates, text[], uuid[], text) IS
'internal: 23505: says which task has an identity already';

-- key_hint: how the caller names the identity of a task.
CREATE FUNCTION pawl_dag._insert_tasks(name text, contexts jsonb[], namespace text, version text, priority integer,
    identity_keys text[], correlation_id uuid, parent_correlation_id uuid, key_hint text)
RETURNS uuid[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_column
-- A plan for each start would take longer than to start a task of ten steps.
DECLARE
    template pawl_dag.templates :=
        pawl_dag._template(_insert_tasks.name, _insert_tasks.namespace, _insert_tasks.version);
    mapped boolean := EXISTS (SELECT FROM pawl_dag.template_steps s
        WHERE s.template_uuid = template.template_uuid AND s.map_over IS NOT NULL);
    keys text[];
    started record;
    counted integer[];
    n integer;
BEGIN
    IF contexts IS NULL THEN
        PERFORM pawl.raise('22004', 'contexts must not be null');
    ELSIF priority IS NULL THEN
        PERFORM pawl.raise('22004', 'priority must not be null', NULL, 'priority => 0');
    END IF;
    IF identity_keys IS NOT NULL AND cardinality(identity_keys) <> cardinality(contexts) THEN
        PERFORM pawl.raise('2202E',
            format('%s contexts, but %s identity keys', cardinality(contexts), cardinality(identity_keys)));
    END IF;
    IF template.identity_strategy = 'caller_provided'
        AND (identity_keys IS NULL OR array_position(identity_keys, NULL) IS NOT NULL) THEN
        PERFORM pawl.raise('22004', format('template "%s" needs an identity key for each task', template.name), NULL,
            key_hint);
    ELSIF EXISTS (SELECT FROM unnest(identity_keys) i(key) WHERE octet_length(i.key) > 1000) THEN
        PERFORM pawl.raise('22023', 'an identity key must have at most 1000 bytes', NULL, key_hint);
    END IF;
    SELECT array_agg(coalesce(c.key, CASE template.identity_strategy
                                  WHEN 'strict' THEN
                                          encode(sha256(template.content_hash
                                              || convert_to(coalesce(c.context, '{}')::text, 'UTF8')), 'hex')
                                  ELSE pawl.uuid_v7()::text END) ORDER BY c.n) INTO keys
        FROM unnest(contexts, identity_keys) WITH ORDINALITY c(context, key, n);
    WITH started AS (
        INSERT INTO pawl_dag.tasks (template_uuid, namespace, name, version, priority, rank, context, identity_key,
            correlation_id, parent_correlation_id, failure_policy, steps_total, steps_ready, steps_blocked,
            deadline_at, stale_after)
        SELECT template.template_uuid, template.namespace, template.name, template.version, _insert_tasks.priority,
               pawl_dag._rank(_insert_tasks.priority, clock_timestamp()), coalesce(c.context, '{}'),
               c.key, coalesce(_insert_tasks.correlation_id, pawl.uuid_v7()), _insert_tasks.parent_correlation_id,
               template.failure_policy, CASE WHEN mapped THEN 0 ELSE template.steps_total END,
               CASE WHEN mapped THEN 0 ELSE template.steps_ready END,
               CASE WHEN mapped THEN 0 ELSE template.steps_total - template.steps_ready END,
               clock_timestamp() + template.max_duration, template.stale_after
          FROM unnest(contexts, keys) c(context, key)
        ON CONFLICT ON CONSTRAINT tasks_namespace_name_identity_key_key DO NOTHING
        RETURNING task_uuid, rank, tasks.context, traceparent, tracestate)
    SELECT coalesce(array_agg(s.task_uuid), '{}') AS tasks, array_agg(s.rank) AS ranks,
           array_agg(s.context) FILTER (WHERE mapped) AS contexts, array_agg(s.traceparent) AS traceparents,
           array_agg(s.tracestate) AS tracestates INTO started
      FROM started s;
    n := cardinality(started.tasks);
    IF n < cardinality(contexts) THEN
        PERFORM pawl_dag._reject_repeated(template, keys, started.tasks, key_hint);
    END IF;
    IF n = 0 THEN
        RETURN '{}';
    ELSIF mapped THEN
        PERFORM pawl_dag._require_arrays(template, started.tasks);
    END IF;
    counted := pawl_dag._insert_steps(template.template_uuid, template.namespace, _insert_tasks.priority,
        started.tasks, started.ranks, started.contexts, started.traceparents, started.tracestates);
    IF counted IS NULL AND mapped THEN
        PERFORM pawl_dag._make_mapped_steps(template, started.tasks);
    ELSIF counted IS NULL THEN
        PERFORM pawl_dag._make_steps(template, started.tasks);
    ELSIF mapped THEN
        -- the name of an element can be that of another step of the template
        IF EXISTS (SELECT FROM pawl_dag.template_steps s WHERE s.template_uuid = template.template_uuid
                       AND s.map_over IS NULL AND right(s.name, 1) = ']') THEN
            PERFORM pawl_dag._one_name_each(started.tasks);
        END IF;
        UPDATE pawl_dag.tasks t
           SET steps_total = c.total, steps_ready = c.ready, steps_blocked = c.total - c.ready
          FROM unnest(started.tasks, counted[1 : n], counted[n + 1 : 2 * n]) c(task, total, ready)
         WHERE t.task_uuid = c.task;
    END IF;
    RETURN started.tasks;
END
$function$;
COMMENT ON FUNCTION pawl_dag._insert_tasks(text, jsonb[], text, text, integer, text[], uuid, uuid, text) IS
'internal: inserts tasks as their template says, with their steps and edges';

-- What pawl_dag._insert_tasks inserts is counted and checked by its template; rows that any other statement inserts are
-- checked by triggers (by_sql.sql). So no role calls it but through this function, which says that it is at work.
CREATE FUNCTION pawl_dag._start_tasks(name text, contexts jsonb[], namespace text, version text, priority integer,
    identity_keys text[], correlation_id uuid, parent_correlation_id uuid, key_hint text) RETURNS uuid[]
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_start_tasks';
COMMENT ON FUNCTION pawl_dag._start_tasks(text, jsonb[], text, text, integer, text[], uuid, uuid, text) IS
'internal: pawl_dag.start_tasks';

CREATE FUNCTION pawl_dag.start_tasks(name text, contexts jsonb[], namespace text DEFAULT 'default',
    version text DEFAULT NULL,
    priority integer DEFAULT 0, identity_keys text[] DEFAULT NULL, correlation_id uuid DEFAULT NULL,
    parent_correlation_id uuid DEFAULT NULL)
RETURNS SETOF uuid
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
BEGIN ATOMIC
    SELECT unnest(pawl_dag._start_tasks(name, contexts, namespace, version, priority, identity_keys, correlation_id,
        parent_correlation_id, 'identity_keys => array[''...'']'));
END;
COMMENT ON FUNCTION pawl_dag.start_tasks(text, jsonb[], text, text, integer, text[], uuid, uuid) IS
'Starts a task for each context and returns their ids, in order.
name: of the template. contexts: JSON values. namespace: default "default". version: default null: the newest.
priority: higher is claimed first; default 0. identity_keys: one for each context; default null: by the
identity_strategy of the template (strict: template version and context; caller_provided; always_unique).
correlation_id: default null: a new one. parent_correlation_id: default null.
Errors: 23505 a task with this identity exists; PW008 unknown template; 22023 a mapped step has no array in the
context, lists of different lengths, or a key of more than 1000 bytes; 22004 null. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT pawl_dag.start_tasks(''invoice'', array[''{"order": 1}'', ''{"order": 2}'']::jsonb[])';

CREATE FUNCTION pawl_dag.start_task(name text, context jsonb DEFAULT '{}', namespace text DEFAULT 'default',
    version text DEFAULT NULL,
    priority integer DEFAULT 0, identity_key text DEFAULT NULL, correlation_id uuid DEFAULT NULL,
    parent_correlation_id uuid DEFAULT NULL)
RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC
    SELECT (pawl_dag._start_tasks(name, ARRAY[context], namespace, version, priority,
        CASE WHEN identity_key IS NOT NULL THEN ARRAY[identity_key] END,
                                  correlation_id, parent_correlation_id, 'identity_key => ''...'''))[1];
END;
COMMENT ON FUNCTION pawl_dag.start_task(text, jsonb, text, text, integer, text, uuid, uuid) IS
'Starts a task and returns its id.
name: of the template. context: a JSON value; default {}. namespace: default "default". version: default null: the
newest. priority: higher is claimed first; default 0. identity_key: default null: by the identity_strategy of the
template. correlation_id: default null: a new one. parent_correlation_id: default null.
Errors: 23505 a task with this identity exists; PW008 unknown template; 22023 a mapped step has no array in the
context, or a key of more than 1000 bytes; 22004 null. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_dag.start_task(''invoice'', ''{"order": 3}'')';
