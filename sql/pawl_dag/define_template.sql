-- Templates: checked as graphs, and stored.

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

CREATE FUNCTION pawl_dag._check_edges(template text, steps pawl_dag.template_steps[], parents text[], children text[])
    RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    names constant text[] := ARRAY(SELECT s.name FROM unnest(steps) s ORDER BY s.ordinal);
    problem text;
BEGIN
    SELECT format('step "%s" depends on "%s", which is not a step of template "%s"', e.child, e.parent, template)
        INTO problem
      FROM unnest(parents, children) e(parent, child) WHERE e.parent <> ALL (names) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', problem);
    END IF;
    SELECT string_agg(format('"%s"', n.name), ', ') INTO problem FROM unnest(names) n(name)
     WHERE n.name NOT IN (SELECT l.name FROM pawl_dag._levels(names, parents, children) l);
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('22023', format('the steps of template "%s" have a dependency cycle', template),
            format('On a cycle, or dependent on one, are %s.', problem));
    END IF;

    SELECT format('mapped step "%s" depends on "%s", which is also mapped', e.child, e.parent) INTO problem
      FROM unnest(parents, children) e(parent, child)
      JOIN unnest(steps) p ON p.name = e.parent AND p.map_over IS NOT NULL
      JOIN unnest(steps) c ON c.name = e.child AND c.map_over IS NOT NULL LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', problem, 'Each instance of one step would wait for each instance of the other.',
            'put a step between them that collects the results of the first');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_dag._check_edges(text, pawl_dag.template_steps[], text[], text[]) IS
'internal: 22023 a dependency of a template on a step that is not in it, on a cycle, or between two mapped steps';

-- How many elements there are is known only when a task starts, so any number counts.
CREATE FUNCTION pawl_dag._check_element_names(steps pawl_dag.template_steps[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    twin record;
BEGIN
    SELECT s.name, m.name AS mapped INTO twin FROM unnest(steps) m JOIN unnest(steps) s ON s.name ^@ m.name
     WHERE m.map_over IS NOT NULL AND substr(s.name, length(m.name) + 1) ~ E'^\\[(0|[1-9][0-9]*)\\]$'
     ORDER BY s.ordinal LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('step "%s" has the name of an element of mapped step "%s"', twin.name,
            twin.mapped), format('The elements of "%s" are steps named "%1$s[0]", "%1$s[1]" and so on.', twin.mapped),
            format('"name": "%s"', translate(twin.name, '[]', '_')));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_dag._check_element_names(pawl_dag.template_steps[]) IS
'internal: 22023 a step has a name that an element of a mapped step can have';

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
    made := pawl_dag._read_template(template);
    SELECT coalesce(array_agg(pawl_dag._template_step(s.step, s.n::integer) ORDER BY s.n), '{}') INTO steps
      FROM jsonb_array_elements(coalesce(nullif(template -> 'steps', 'null'), '[]')) WITH ORDINALITY s(step, n);
    SELECT coalesce(array_agg(s.name ORDER BY s.ordinal), '{}') INTO names FROM unnest(steps) s;
    SELECT n.name INTO problem FROM unnest(names) n(name) GROUP BY n.name HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('template "%s" has two steps named "%s"', made.name, problem));
    END IF;
    PERFORM pawl_dag._check_element_names(steps);
    SELECT coalesce(array_agg(e.parent), '{}'), coalesce(array_agg(e.child), '{}') INTO edge_parents, edge_children
      FROM (SELECT DISTINCT d.parent, s.step ->> 'name' AS child
              FROM jsonb_array_elements(coalesce(nullif(template -> 'steps', 'null'), '[]')) s(step)
              CROSS JOIN LATERAL jsonb_array_elements_text(coalesce(nullif(s.step -> 'dependencies', 'null'),
          nullif(s.step -> 'depends_on', 'null'), '[]')) d(parent)) e;
    PERFORM pawl_dag._check_edges(made.name, steps, edge_parents, edge_children);

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
SET enable_seqscan = off
SET jit = off
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
