-- Templates as JSON: read, checked, stored.

-- A step of a template with every default filled in; what is not known is refused.
CREATE FUNCTION pawl_dag._template_step(step jsonb, ordinal integer) RETURNS pawl_dag.template_steps
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    made pawl_dag.template_steps;
    retry jsonb := coalesce(step -> 'retry', '{}');
    unknown text;
BEGIN
    SELECT k INTO unknown FROM jsonb_object_keys(step) k
     WHERE k NOT IN ('name', 'description', 'handler', 'handler_options', 'dependencies', 'depends_on', 'retry', 'timeout_seconds', 'optional', 'map') LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('22023', format('step "%s" has an unknown key "%s"', coalesce(step ->> 'name', ordinal::text), unknown), NULL,
            'name, description, handler, handler_options, dependencies, retry, timeout_seconds, optional, map');
    END IF;
    SELECT k INTO unknown FROM jsonb_object_keys(retry) k
     WHERE k NOT IN ('retryable', 'max_attempts', 'backoff', 'backoff_base_ms', 'max_backoff_ms', 'multiplier', 'jitter') LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('22023', format('retry of step "%s" has an unknown key "%s"', coalesce(step ->> 'name', ordinal::text), unknown), NULL,
            'retryable, max_attempts, backoff, backoff_base_ms, max_backoff_ms, multiplier, jitter');
    END IF;
    IF coalesce(step ->> 'name', '') = '' THEN
        PERFORM pawl._raise('22023', format('step %s has no name', ordinal), NULL, '{"name": "...", "handler": "..."}');
    END IF;
    made.name := step ->> 'name';
    made.ordinal := ordinal;
    made.description := step ->> 'description';
    made.handler := coalesce(step ->> 'handler', made.name);
    made.handler_options := coalesce(step -> 'handler_options', '{}');
    made.retryable := coalesce((retry ->> 'retryable')::boolean, true);
    made.max_attempts := CASE WHEN made.retryable THEN coalesce((retry ->> 'max_attempts')::integer, 3) ELSE 1 END;
    IF made.max_attempts < 1 THEN
        PERFORM pawl._raise('22023', format('max_attempts of step "%s" is %s', made.name, made.max_attempts),
            'It counts all attempts, the first one included.', '"max_attempts": 1');
    END IF;
    made.backoff := jsonb_strip_nulls(jsonb_build_object(
        'strategy', coalesce(retry ->> 'backoff', 'exponential'),
        'base', coalesce(retry ->> 'backoff_base_ms', '1000') || ' ms',
        'cap', coalesce(retry ->> 'max_backoff_ms', '60000') || ' ms',
        'multiplier', coalesce((retry ->> 'multiplier')::numeric, 2),
        'jitter', coalesce(retry -> 'jitter', '0.1')));
    PERFORM pawl.backoff(1, made.backoff);  -- says what is wrong with it
    made.timeout := make_interval(secs => (step ->> 'timeout_seconds')::double precision);
    made.optional := coalesce((step ->> 'optional')::boolean, false);
    IF step ? 'map' THEN
        made.map_over := CASE jsonb_typeof(step -> 'map') WHEN 'string' THEN ARRAY[step ->> 'map']
                                                          WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(step -> 'map')) END;
        IF made.map_over IS NULL OR made.map_over = '{}' OR array_position(made.map_over, NULL) IS NOT NULL THEN
            PERFORM pawl._raise('22023', format('map of step "%s" is no path into the context', made.name), NULL, '"map": "items", or "map": ["order", "items"]');
        END IF;
    END IF;
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl_dag._template_step(jsonb, integer) IS 'internal: reads one step of a template';

-- Levels of a graph given as pairs of names: the longest path to each. What is on a cycle gets none.
CREATE FUNCTION pawl_dag._levels(names text[], parents text[], children text[]) RETURNS TABLE (name text, level integer)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    waiting jsonb := '{}';  -- how many parents of a step have no level yet
    ready text[];
    depth integer := 0;
BEGIN
    SELECT coalesce(jsonb_object_agg(c.child, c.n), '{}') INTO waiting
      FROM (SELECT e.child, count(*) AS n FROM unnest(children) e(child) GROUP BY e.child) c;
    SELECT coalesce(array_agg(n.name), '{}') INTO ready FROM unnest(names) n(name) WHERE NOT waiting ? n.name;
    WHILE ready <> '{}' LOOP
        RETURN QUERY SELECT r, depth FROM unnest(ready) r;
        WITH met AS (SELECT e.child, count(*) AS n FROM unnest(parents, children) e(parent, child) WHERE e.parent = ANY (ready) GROUP BY e.child),
             left_over AS (SELECT m.child, (waiting ->> m.child)::integer - m.n AS n FROM met m)
        SELECT waiting || coalesce(jsonb_object_agg(l.child, l.n), '{}'), coalesce(array_agg(l.child) FILTER (WHERE l.n = 0), '{}')
          INTO waiting, ready FROM left_over l;
        depth := depth + 1;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_dag._levels(text[], text[], text[]) IS 'internal: the longest path to each node of a graph; nodes on a cycle have none';

CREATE FUNCTION pawl_dag.define_template(template jsonb) RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    made pawl_dag.templates;
    steps pawl_dag.template_steps[];
    names text[];
    edge_parents text[];
    edge_children text[];
    problem text;
    known pawl_dag.templates;
BEGIN
    IF template IS NULL OR jsonb_typeof(template) <> 'object' THEN
        PERFORM pawl._raise('22023', 'a template is a JSON object', NULL, '{"name": "...", "steps": [{"name": "...", "handler": "..."}]}');
    END IF;
    SELECT k INTO problem FROM jsonb_object_keys(template) k
     WHERE k NOT IN ('namespace', 'name', 'version', 'description', 'identity_strategy', 'failure_policy', 'max_duration_minutes', 'lifecycle', 'steps', 'metadata') LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('22023', format('template has an unknown key "%s"', problem), NULL,
            'namespace, name, version, description, identity_strategy, failure_policy, max_duration_minutes, lifecycle, metadata, steps');
    END IF;
    SELECT k INTO problem FROM jsonb_each_text(coalesce(template -> 'lifecycle', '{}')) l(k, v)
     WHERE CASE WHEN k ~ '^max_(waiting_for_dependencies|waiting_for_retry|steps_in_process)_minutes$' THEN v !~ '^[1-9][0-9]{0,6}$'
                WHEN k = 'staleness_action' THEN v NOT IN ('dlq', 'error', 'none')
                WHEN k IN ('auto_fail_on_timeout', 'auto_dlq_on_timeout') THEN v NOT IN ('true', 'false') ELSE true END LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('22023', format('lifecycle of the template has an unknown key, or a wrong value: "%s"', problem), NULL,
            '{"max_waiting_for_dependencies_minutes": 60, "max_waiting_for_retry_minutes": 30, "max_steps_in_process_minutes": 30, "staleness_action": "dlq", "auto_fail_on_timeout": true, "auto_dlq_on_timeout": true}');
    END IF;
    IF coalesce(template ->> 'name', '') = '' THEN
        PERFORM pawl._raise('22023', 'template has no name', NULL, '{"name": "...", "steps": [...]}');
    END IF;
    IF jsonb_typeof(coalesce(template -> 'steps', '[]')) <> 'array' THEN
        PERFORM pawl._raise('22023', 'steps of a template must be a JSON array', NULL, '"steps": [{"name": "..."}]');
    END IF;
    made.template_uuid := pawl.uuid_v7();
    made.namespace := coalesce(template ->> 'namespace', 'default');
    made.name := template ->> 'name';
    made.version := coalesce(template ->> 'version', '1.0.0');
    made.description := template ->> 'description';
    made.identity_strategy := coalesce(template ->> 'identity_strategy', 'strict');
    made.failure_policy := coalesce(template ->> 'failure_policy', 'block');
    made.max_duration := make_interval(secs => 60 * coalesce((template ->> 'max_duration_minutes')::double precision, 1440));
    made.stale_after := (SELECT min(pawl_dag._threshold(x.state, template -> 'lifecycle'))
                           FROM unnest(ARRAY['waiting_for_dependencies', 'waiting_for_retry', 'steps_in_process', 'initializing']) x(state));
    made.configuration := template;
    made.content_hash := sha256(convert_to(template::text, 'UTF8'));
    made.created_at := clock_timestamp();

    SELECT coalesce(array_agg(pawl_dag._template_step(s.step, s.n::integer) ORDER BY s.n), '{}') INTO steps
      FROM jsonb_array_elements(coalesce(template -> 'steps', '[]')) WITH ORDINALITY s(step, n);
    SELECT coalesce(array_agg(s.name ORDER BY s.ordinal), '{}') INTO names FROM unnest(steps) s;
    SELECT n.name INTO problem FROM unnest(names) n(name) GROUP BY n.name HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('22023', format('template "%s" has two steps named "%s"', made.name, problem));
    END IF;
    SELECT coalesce(array_agg(e.parent), '{}'), coalesce(array_agg(e.child), '{}') INTO edge_parents, edge_children
      FROM (SELECT DISTINCT d.parent, s.step ->> 'name' AS child
              FROM jsonb_array_elements(coalesce(template -> 'steps', '[]')) s(step)
              CROSS JOIN LATERAL jsonb_array_elements_text(coalesce(s.step -> 'dependencies', s.step -> 'depends_on', '[]')) d(parent)) e;
    SELECT format('step "%s" depends on "%s", which is no step of template "%s"', e.child, e.parent, made.name) INTO problem
      FROM unnest(edge_parents, edge_children) e(parent, child) WHERE e.parent <> ALL (names) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('22023', problem);
    END IF;
    SELECT string_agg(format('"%s"', n.name), ', ') INTO problem FROM unnest(names) n(name)
     WHERE n.name NOT IN (SELECT l.name FROM pawl_dag._levels(names, edge_parents, edge_children) l);
    IF problem IS NOT NULL THEN
        PERFORM pawl._raise('22023', format('the steps of template "%s" wait for each other', made.name), format('On or behind a cycle are %s.', problem));
    END IF;

    SELECT format('mapped step "%s" depends on "%s", which is mapped, too', e.child, e.parent) INTO problem
      FROM unnest(edge_parents, edge_children) e(parent, child)
      JOIN unnest(steps) p ON p.name = e.parent AND p.map_over IS NOT NULL JOIN unnest(steps) c ON c.name = e.child AND c.map_over IS NOT NULL LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('22023', problem, 'Each of the one would wait for each of the other.', 'put a step between them that collects the results of the first');
    END IF;

    INSERT INTO pawl_dag.namespaces (namespace) VALUES (made.namespace) ON CONFLICT DO NOTHING;
    made.steps_total := cardinality(names);
    made.steps_ready := (SELECT count(*) FROM unnest(names) n(name) WHERE n.name <> ALL (edge_children));
    INSERT INTO pawl_dag.templates SELECT made.* ON CONFLICT (namespace, name, version) DO NOTHING;
    IF NOT FOUND THEN
        SELECT * INTO known FROM pawl_dag.templates t WHERE t.namespace = made.namespace AND t.name = made.name AND t.version = made.version;
        IF known.content_hash <> made.content_hash THEN
            PERFORM pawl._raise('42710', format('version %s of template "%s" is another one already', made.version, made.name),
                'A version never changes: tasks run what they began with.', '"version": "..."');
        END IF;
        RETURN known.template_uuid;
    END IF;
    INSERT INTO pawl_dag.template_steps (template_uuid, name, ordinal, level, parents, description, handler, handler_options, retryable, max_attempts,
                                         backoff, timeout, optional, map_over)
    SELECT made.template_uuid, s.name, s.ordinal, l.level, coalesce(p.n, 0), s.description, s.handler,
           s.handler_options, s.retryable, s.max_attempts, s.backoff, s.timeout, s.optional, s.map_over
      FROM unnest(steps) s JOIN pawl_dag._levels(names, edge_parents, edge_children) l ON l.name = s.name
      LEFT JOIN (SELECT c.name, count(*) AS n FROM unnest(edge_children) c(name) GROUP BY c.name) p ON p.name = s.name;
    INSERT INTO pawl_dag.template_edges SELECT made.template_uuid, e.parent, e.child FROM unnest(edge_parents, edge_children) e(parent, child);
    RETURN made.template_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_dag.define_template(jsonb) IS
'defines a version of a workflow and returns its id; the same text again gives the same one. {"namespace", "name", "version", "identity_strategy": strict | caller_provided | always_unique, "failure_policy": block | continue, "max_duration_minutes", "steps": [{"name", "handler", "handler_options", "dependencies": [...], "retry": {"retryable", "max_attempts", "backoff", "backoff_base_ms", "max_backoff_ms", "multiplier", "jitter"}, "timeout_seconds", "optional", "map": path of an array in the context, the step becomes one for each element}]}. 22023: what is wrong with it; 42710: the version is another one already';

CREATE FUNCTION pawl_dag._template_immutable() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl._fired_by('BEFORE UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.templates', 'pawl_dag.template_steps', 'pawl_dag.template_edges');
    used_template uuid := OLD.template_uuid;
BEGIN
    IF TG_OP = 'UPDATE' OR EXISTS (SELECT FROM pawl_dag.tasks t WHERE t.template_uuid = used_template) THEN
        PERFORM pawl._raise('PW006', 'a template is immutable', format('Template %s: tasks run what they began with.', used_template),
            'define the next version: select pawl_dag.define_template(...)');
    END IF;
    RETURN OLD;
END
$function$;
COMMENT ON FUNCTION pawl_dag._template_immutable() IS 'internal: refuses changes of templates, and removal of one that tasks run';
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_dag.templates FOR EACH ROW EXECUTE FUNCTION pawl_dag._template_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_dag.template_steps FOR EACH ROW EXECUTE FUNCTION pawl_dag._template_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_dag.template_edges FOR EACH ROW EXECUTE FUNCTION pawl_dag._template_immutable();
