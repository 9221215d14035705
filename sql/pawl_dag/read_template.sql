-- Templates as JSON: what a template and its steps say, checked field by field.

-- A field of a JSON object, if it is of the right kind; null if it is missing. of_what: the object, for the message.
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

-- How a step of a template is retried, with every default filled in; unknown keys are rejected.
CREATE FUNCTION pawl_dag._template_retry(made pawl_dag.template_steps, retry jsonb) RETURNS pawl_dag.template_steps
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    of_what constant text := format('retry of step "%s"', made.name);
    unknown text;
    said text;
BEGIN
    SELECT k INTO unknown FROM jsonb_object_keys(retry) k
     WHERE k NOT IN ('retryable', 'max_attempts', 'backoff', 'backoff_base_ms', 'max_backoff_ms', 'multiplier',
         'jitter') LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('retry of step "%s" has an unknown key "%s"', made.name, unknown), NULL,
            'retryable, max_attempts, backoff, backoff_base_ms, max_backoff_ms, multiplier, jitter');
    END IF;
    made.retryable := coalesce(pawl_dag._field(retry, 'retryable', of_what, 'boolean')::boolean, true);
    -- all attempts, the first one included
    made.max_attempts :=
        coalesce(pawl_dag._field(retry, 'max_attempts', of_what, 'integer', 1, 1000000)::integer, 3);
    IF NOT made.retryable THEN
        made.max_attempts := 1;
    END IF;
    PERFORM pawl_dag._field(retry, 'backoff', of_what, 'string', NULL, NULL, '{none,linear,exponential,fibonacci}'),
            pawl_dag._field(retry, k, of_what, 'number', 0, 1e12)
            FROM unnest('{backoff_base_ms,max_backoff_ms}'::text[]) k;
    PERFORM pawl_dag._field(retry, 'multiplier', of_what, 'number', 1, 1000000);
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
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl_dag._template_retry(pawl_dag.template_steps, jsonb) IS
'internal: reads how one step of a template is retried';

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
    made.ordinal := ordinal;
    made.description := pawl_dag._field(step, 'description', of_what, 'string') #>> '{}';
    made.handler := coalesce(pawl_dag._field(step, 'handler', of_what, 'string', 1, 1000) #>> '{}', made.name);
    made.handler_options := coalesce(pawl_dag._field(step, 'handler_options', of_what, 'object'), '{}');
    made := pawl_dag._template_retry(made, retry);
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

CREATE FUNCTION pawl_dag._check_lifecycle(template jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    problem text;
BEGIN
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
END
$function$;
COMMENT ON FUNCTION pawl_dag._check_lifecycle(jsonb) IS
'internal: 22023 the lifecycle of a template has an unknown key or value';

-- A template with every default filled in, but for what its steps decide; unknown keys are rejected.
CREATE FUNCTION pawl_dag._read_template(template jsonb) RETURNS pawl_dag.templates
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    made pawl_dag.templates;
    problem text;
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
    PERFORM pawl_dag._check_lifecycle(template);
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
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl_dag._read_template(jsonb) IS 'internal: reads a template without its steps';
