-- Templates as JSON: read, checked, stored.

-- A field of a JSON object, if it is what it must be; null when it is not there. of_what:
-- whose field it is, for the message.
CREATE FUNCTION pawl_dag._field(object jsonb, field text, of_what text, kind text, low numeric DEFAULT NULL,
        high numeric DEFAULT NULL, allowed text[] DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    value constant jsonb := object -> field;
    found_kind constant text := jsonb_typeof(value);
    expected text;
BEGIN
    IF value IS NULL OR found_kind = 'null' THEN
        RETURN NULL;
    END IF;
    IF found_kind <> (CASE kind WHEN 'integer' THEN 'number' ELSE kind END) THEN
        expected := CASE kind WHEN 'object' THEN 'a JSON object' WHEN 'array' THEN 'a JSON array'
            WHEN 'string' THEN 'a text' WHEN 'boolean' THEN 'true or false' ELSE 'a number' END;
    ELSIF kind IN ('number', 'integer') AND (value::numeric NOT BETWEEN low AND high OR kind = 'integer'
            AND value::numeric <> trunc(value::numeric)) THEN
        expected := format('%s from %s to %s', CASE kind WHEN 'integer' THEN 'an integer' ELSE 'a number' END, low,
            high);
    ELSIF kind = 'string' AND allowed IS NOT NULL AND (value #>> '{}') <> ALL (allowed) THEN
        expected := 'one of ' || array_to_string(allowed, ', ');
    ELSIF kind = 'string' AND length(value #>> '{}') NOT BETWEEN coalesce(low, 0) AND coalesce(high, 1000000) THEN
        expected := format('a text of %s to %s characters', coalesce(low, 0), high);
    END IF;
    IF expected IS NOT NULL THEN
        PERFORM pawl.raise('22023', format('%s of %s must be %s', field, of_what, expected),
            format('It is %s.', left(value::text, 100)),
            format('"%s": %s', field, CASE kind WHEN 'object' THEN '{...}' WHEN 'array' THEN '[...]'
                WHEN 'string' THEN format('"%s"', coalesce(allowed[1], '...')) WHEN 'boolean' THEN 'true'
                                                ELSE greatest(low, 1)::text END));
    END IF;
    RETURN value;
END
$function$;
COMMENT ON FUNCTION pawl_dag._field(jsonb, text, text, text, numeric, numeric, text[]) IS
'internal: a field of a JSON object; 22023: of another kind, out of range (a string: its length), or not allowed';

-- A step of a template with every default filled in; unknown keys are rejected.
CREATE FUNCTION pawl_dag._template_step(step jsonb, ordinal integer) RETURNS pawl_dag.template_steps
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    made pawl_dag.template_steps;
    retry jsonb;
    unknown text;
    of_what text := 'step ' || ordinal;
    said text;
BEGIN
    IF jsonb_typeof(step) <> 'object' THEN
        PERFORM pawl.raise('22023', format('%s must be a JSON object', of_what),
            format('It is %s.', left(step::text, 100)), '{"name": "...", "handler": "..."}');
    END IF;
    made.name := pawl_dag._field(step, 'name', of_what, 'string', 0, 255) #>> '{}';
    IF coalesce(made.name, '') = '' THEN
        PERFORM pawl.raise('22023', format('step %s has no name', ordinal), NULL, '{"name": "...", "handler": "..."}');
    END IF;
    of_what := format('step "%s"', made.name);
    retry := coalesce(pawl_dag._field(step, 'retry', of_what, 'object'), '{}');
    SELECT k INTO unknown FROM jsonb_object_keys(step) k
     WHERE k NOT IN ('name', 'description', 'handler', 'handler_options', 'dependencies', 'depends_on', 'retry',
         'timeout_seconds', 'optional', 'map') LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023',
            format('step "%s" has an unknown key "%s"', coalesce(step ->> 'name', ordinal::text), unknown), NULL,
            'name, description, handler, handler_options, dependencies, retry, timeout_seconds, optional, map');
    END IF;
    SELECT k INTO unknown FROM jsonb_object_keys(retry) k
     WHERE k NOT IN ('retryable', 'max_attempts', 'backoff', 'backoff_base_ms', 'max_backoff_ms', 'multiplier',
         'jitter') LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('retry of step "%s" has an unknown key "%s"',
            coalesce(step ->> 'name', ordinal::text), unknown), NULL,
            'retryable, max_attempts, backoff, backoff_base_ms, max_backoff_ms, multiplier, jitter');
    END IF;
    made.ordinal := ordinal;
    made.description := pawl_dag._field(step, 'description', of_what, 'string') #>> '{}';
    made.handler := coalesce(pawl_dag._field(step, 'handler', of_what, 'string', 1, 1000) #>> '{}', made.name);
    made.handler_options := coalesce(pawl_dag._field(step, 'handler_options', of_what, 'object'), '{}');
    made.retryable := coalesce(pawl_dag._field(retry, 'retryable', 'retry of ' || of_what, 'boolean')::boolean, true);
    -- all attempts, the first one included
    made.max_attempts :=
        coalesce(pawl_dag._field(retry, 'max_attempts', 'retry of ' || of_what, 'integer', 1, 1000000)::integer, 3);
    IF NOT made.retryable THEN
        made.max_attempts := 1;
    END IF;
    PERFORM pawl_dag._field(retry, 'backoff', 'retry of ' || of_what, 'string', NULL, NULL,
        '{none,linear,exponential,fibonacci}'),
            pawl_dag._field(retry, k, 'retry of ' || of_what, 'number', 0, 1e12)
            FROM unnest('{backoff_base_ms,max_backoff_ms}'::text[]) k;
    PERFORM pawl_dag._field(retry, 'multiplier', 'retry of ' || of_what, 'number', 1, 1000000);
    made.backoff := jsonb_strip_nulls(jsonb_build_object(
        'strategy', coalesce(retry ->> 'backoff', 'exponential'),
        'base', coalesce(retry ->> 'backoff_base_ms', '1000') || ' ms',
        'cap', coalesce(retry ->> 'max_backoff_ms', '60000') || ' ms',
        'multiplier', coalesce((retry ->> 'multiplier')::numeric, 2),
        'jitter', coalesce(retry -> 'jitter', '0.1')));
    BEGIN
        PERFORM pawl.backoff(1, made.backoff);  -- says what else is wrong with it
    EXCEPTION WHEN data_exception THEN
        GET STACKED DIAGNOSTICS said = MESSAGE_TEXT;
        PERFORM pawl.raise('22023', format('retry of step "%s": %s', made.name, said),
            format('Its retry is %s.', left(retry::text, 500)),
            '"retry": {"backoff": "exponential", "backoff_base_ms": 1000, "multiplier": 2, "max_backoff_ms": 60000, '
            '"jitter": 0.1}');
    END;
    made.timeout := make_interval(secs => pawl_dag._field(step, 'timeout_seconds', of_what, 'number', 0.001,
        1e9)::double precision);
    made.optional := coalesce(pawl_dag._field(step, 'optional', of_what, 'boolean')::boolean, false);
    PERFORM pawl_dag._field(step, k, of_what, 'array') FROM unnest('{dependencies,depends_on}'::text[]) k;
    IF EXISTS (SELECT FROM unnest('{dependencies,depends_on}'::text[]) k,
            jsonb_array_elements(coalesce(nullif(step -> k, 'null'), '[]')) d WHERE jsonb_typeof(d) <> 'string') THEN
        PERFORM pawl.raise('22023', format('dependencies of step "%s" must be names of steps', made.name), NULL,
            '"dependencies": ["..."]');
    END IF;
    IF step ? 'map' THEN
        made.map_over := CASE jsonb_typeof(step -> 'map') WHEN 'string' THEN ARRAY[step ->> 'map']
            WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(step -> 'map')) END;
        IF made.map_over IS NULL OR made.map_over = '{}' OR array_position(made.map_over, NULL) IS NOT NULL THEN
            PERFORM pawl.raise('22023', format('map of step "%s" is not a path into the context', made.name), NULL,
                '"map": "items", or "map": ["order", "items"]');
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
        WITH met AS (SELECT e.child, count(*) AS n FROM unnest(parents, children) e(parent, child)
            WHERE e.parent = ANY (ready) GROUP BY e.child),
             left_over AS (SELECT m.child, (waiting ->> m.child)::integer - m.n AS n FROM met m)
        SELECT waiting || coalesce(jsonb_object_agg(l.child, l.n), '{}'),
        coalesce(array_agg(l.child) FILTER (WHERE l.n = 0), '{}')
          INTO waiting, ready FROM left_over l;
        depth := depth + 1;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_dag._levels(text[], text[], text[]) IS
'internal: the longest path to each node of a graph; nodes on a cycle have none';

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
        PERFORM pawl.raise('22023', 'a template is a JSON object', NULL,
            '{"name": "...", "steps": [{"name": "...", "handler": "..."}]}');
    END IF;
    SELECT k INTO problem FROM jsonb_object_keys(template) k
     WHERE k NOT IN ('namespace', 'name', 'version', 'description', 'identity_strategy', 'failure_policy',
         'max_duration_minutes', 'lifecycle', 'steps', 'metadata') LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('template has an unknown key "%s"', problem), NULL,
            'namespace, name, version, description, identity_strategy, failure_policy, max_duration_minutes, '
            'lifecycle, metadata, steps');
    END IF;
    PERFORM pawl_dag._field(template, 'lifecycle', 'the template', 'object');
    SELECT k INTO problem FROM jsonb_each_text(coalesce(nullif(template -> 'lifecycle', 'null'), '{}')) l(k, v)
     WHERE CASE WHEN k ~ '^max_(waiting_for_dependencies|waiting_for_retry|steps_in_process)_minutes$'
         THEN v !~ '^[1-9][0-9]{0,6}$'
                WHEN k = 'staleness_action' THEN v NOT IN ('dlq', 'error', 'none')
                WHEN k IN ('auto_fail_on_timeout', 'auto_dlq_on_timeout') THEN v NOT IN ('true', 'false') ELSE true END
     LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023',
            format('lifecycle of the template has an unknown key, or a wrong value: "%s"', problem), NULL,
            '{"max_waiting_for_dependencies_minutes": 60, "max_waiting_for_retry_minutes": 30, '
            '"max_steps_in_process_minutes": 30, "staleness_action": "dlq", "auto_fail_on_timeout": true, '
            '"auto_dlq_on_timeout": true}');
    END IF;
    PERFORM pawl_dag._field(template, 'name', 'the template', 'string', 0, 255);
    IF coalesce(template ->> 'name', '') = '' THEN
        PERFORM pawl.raise('22023', 'template has no name', NULL, '{"name": "...", "steps": [...]}');
    END IF;
    PERFORM pawl_dag._field(template, 'steps', 'the template', 'array');
    made.template_uuid := pawl.uuid_v7();
    made.namespace :=
        coalesce(pawl_dag._field(template, 'namespace', 'the template', 'string', 1, 29) #>> '{}', 'default');
    IF made.namespace !~ '^[a-z][a-z0-9_]{0,28}$' THEN
        PERFORM pawl.raise('22023', 'namespace of the template must be lower-case letters, digits and _, and begin '
            'with a letter', format('It is "%s".', made.namespace), '"namespace": "default"');
    END IF;
    made.name := template ->> 'name';
    made.version := coalesce(pawl_dag._field(template, 'version', 'the template', 'string', 1, 255) #>> '{}', '1.0.0');
    made.description := pawl_dag._field(template, 'description', 'the template', 'string') #>> '{}';
    made.identity_strategy := coalesce(pawl_dag._field(template, 'identity_strategy', 'the template', 'string', NULL,
            NULL, '{strict,caller_provided,always_unique}') #>> '{}', 'strict');
    made.failure_policy := coalesce(pawl_dag._field(template, 'failure_policy', 'the template', 'string', NULL, NULL,
            '{block,continue}') #>> '{}', 'block');
    made.max_duration := make_interval(secs => 60
            * coalesce(pawl_dag._field(template, 'max_duration_minutes', 'the template', 'number', 0.001,
                50000000)::double precision, 1440));
    made.stale_after := (SELECT min(pawl_dag._threshold(x.state, template -> 'lifecycle'))
                           FROM unnest(ARRAY['waiting_for_dependencies', 'waiting_for_retry', 'steps_in_process',
                               'initializing']) x(state));
    made.configuration := template;
    made.content_hash := sha256(convert_to(template::text, 'UTF8'));
    made.created_at := clock_timestamp();

    SELECT coalesce(array_agg(pawl_dag._template_step(s.step, s.n::integer) ORDER BY s.n), '{}') INTO steps
      FROM jsonb_array_elements(coalesce(nullif(template -> 'steps', 'null'), '[]')) WITH ORDINALITY s(step, n);
    SELECT coalesce(array_agg(s.name ORDER BY s.ordinal), '{}') INTO names FROM unnest(steps) s;
    SELECT n.name INTO problem FROM unnest(names) n(name) GROUP BY n.name HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('template "%s" has two steps named "%s"', made.name, problem));
    END IF;
    SELECT coalesce(array_agg(e.parent), '{}'), coalesce(array_agg(e.child), '{}') INTO edge_parents, edge_children
      FROM (SELECT DISTINCT d.parent, s.step ->> 'name' AS child
              FROM jsonb_array_elements(coalesce(nullif(template -> 'steps', 'null'), '[]')) s(step)
              CROSS JOIN LATERAL jsonb_array_elements_text(coalesce(nullif(s.step -> 'dependencies', 'null'),
          nullif(s.step -> 'depends_on', 'null'), '[]')) d(parent)) e;
    SELECT format('step "%s" depends on "%s", which is not a step of template "%s"', e.child, e.parent, made.name)
        INTO problem
      FROM unnest(edge_parents, edge_children) e(parent, child) WHERE e.parent <> ALL (names) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', problem);
    END IF;
    SELECT string_agg(format('"%s"', n.name), ', ') INTO problem FROM unnest(names) n(name)
     WHERE n.name NOT IN (SELECT l.name FROM pawl_dag._levels(names, edge_parents, edge_children) l);
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('22023', format('the steps of template "%s" have a dependency cycle', made.name),
            format('On a cycle, or dependent on one, are %s.', problem));
    END IF;

    SELECT format('mapped step "%s" depends on "%s", which is also mapped', e.child, e.parent) INTO problem
      FROM unnest(edge_parents, edge_children) e(parent, child)
      JOIN unnest(steps) p ON p.name = e.parent AND p.map_over IS NOT NULL
      JOIN unnest(steps) c ON c.name = e.child AND c.map_over IS NOT NULL LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', problem, 'Each instance of one step would wait for each instance of the other.',
            'put a step between them that collects the results of the first');
    END IF;

    INSERT INTO pawl_dag.namespaces (namespace) VALUES (made.namespace) ON CONFLICT DO NOTHING;
    made.steps_total := cardinality(names);
    made.steps_ready := (SELECT count(*) FROM unnest(names) n(name) WHERE n.name <> ALL (edge_children));
    made.created_by := current_user;
    INSERT INTO pawl_dag.templates SELECT made.* ON CONFLICT (namespace, name, version) DO NOTHING;
    IF NOT FOUND THEN
        SELECT * INTO known FROM pawl_dag.templates t
            WHERE t.namespace = made.namespace AND t.name = made.name AND t.version = made.version;
        IF known.content_hash <> made.content_hash THEN
            PERFORM pawl.raise('42710',
                format('version %s of template "%s" already exists with another definition', made.version, made.name),
                'A version never changes, because tasks keep their version.', '"version": "..."');
        END IF;
        RETURN known.template_uuid;
    END IF;
    INSERT INTO pawl_dag.template_steps (template_uuid, name, ordinal, level, parents, description, handler,
        handler_options, retryable, max_attempts, backoff, timeout, optional, map_over)
    SELECT made.template_uuid, s.name, s.ordinal, l.level, coalesce(p.n, 0), s.description, s.handler,
           s.handler_options, s.retryable, s.max_attempts, s.backoff, s.timeout, s.optional, s.map_over
      FROM unnest(steps) s JOIN pawl_dag._levels(names, edge_parents, edge_children) l ON l.name = s.name
      LEFT JOIN (SELECT c.name, count(*) AS n FROM unnest(edge_children) c(name) GROUP BY c.name) p ON p.name = s.name;
    INSERT INTO pawl_dag.template_edges SELECT made.template_uuid, e.parent, e.child
        FROM unnest(edge_parents, edge_children) e(parent, child);
    RETURN made.template_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_dag.define_template(jsonb) IS
'Defines a version of a workflow and returns its id. An equal definition returns the id that exists.
template: a JSON object: {"namespace", "name", "version", "identity_strategy": strict | caller_provided |
always_unique, "failure_policy": block | continue, "max_duration_minutes", "lifecycle": {...}, "steps": [{"name",
"handler", "handler_options", "dependencies": [...], "retry": {"retryable", "max_attempts", "backoff",
"backoff_base_ms", "max_backoff_ms", "multiplier", "jitter"}, "timeout_seconds", "optional", "map": path of an array
in the context, of which each element becomes a step}]}.
Errors: 22023 an invalid template; 42710 the version exists with another definition. Privileges: pawl_admin.
Example: SELECT
pawl_dag.define_template(''{"name": "invoice", "steps": [{"name": "draft"}, {"name": "send", "dependencies": '
'["draft"]}]}'')';

CREATE FUNCTION pawl_dag._template_immutable() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.templates', 'pawl_dag.template_steps', 'pawl_dag.template_edges');
    used_template uuid := OLD.template_uuid;
BEGIN
    IF TG_OP = 'UPDATE' OR EXISTS (SELECT FROM pawl_dag.tasks t WHERE t.template_uuid = used_template) THEN
        PERFORM pawl.raise('PW006', 'a template is immutable',
            format('Template %s: tasks keep their version.', used_template),
            'define the next version: select pawl_dag.define_template(...)');
    END IF;
    RETURN OLD;
END
$function$;
COMMENT ON FUNCTION pawl_dag._template_immutable() IS
'internal: rejects changes of templates, and removal of one that tasks run';
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_dag.templates
    FOR EACH ROW EXECUTE FUNCTION pawl_dag._template_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_dag.template_steps
    FOR EACH ROW EXECUTE FUNCTION pawl_dag._template_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_dag.template_edges
    FOR EACH ROW EXECUTE FUNCTION pawl_dag._template_immutable();

-- Functions that a template names may run with the rights of the role that defined it, so no other role adds to it.
CREATE FUNCTION pawl_dag._template_own() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.templates', 'pawl_dag.template_steps');
    other name;
BEGIN
    SELECT t.created_by INTO other FROM pawl_dag.templates t
     WHERE t.template_uuid IN (SELECT n.template_uuid FROM new_rows n) AND NOT pawl.may_act_as(t.created_by) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('42501', format('permission denied to define as role "%s"', other),
            'SQL functions of steps may run with the rights of the role that defined a template.',
            'select pawl_dag.define_template(...)');
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_dag._template_own() IS
'internal: rejects rows of templates in the name of another role; 42501';
CREATE TRIGGER own AFTER INSERT ON pawl_dag.templates REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_dag._template_own();
CREATE TRIGGER own AFTER INSERT ON pawl_dag.template_steps REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_dag._template_own();
