-- Definitions by one JSON value, so that they can be kept in a file.

CREATE FUNCTION pawl_bulk._known_fields(given jsonb, known text[], what text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    strange text;
BEGIN
    IF jsonb_typeof(given) IS DISTINCT FROM 'object' THEN
        PERFORM pawl.raise('22023', format('%s must be a JSON object', what));
    END IF;
    SELECT k INTO strange FROM jsonb_object_keys(given) k WHERE k <> ALL (known) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('%s has no field "%s"', what, strange),
            'Its fields are ' || array_to_string(known, ', ') || '.');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._known_fields(jsonb, text[], text) IS 'internal: rejects unknown fields; 22023';

CREATE FUNCTION pawl_bulk._texts(given jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(array_agg(x ORDER BY n), '{}')
        FROM jsonb_array_elements_text(CASE jsonb_typeof(given) WHEN 'array' THEN given ELSE '[]' END)
            WITH ORDINALITY e(x, n)
$function$;
COMMENT ON FUNCTION pawl_bulk._texts(jsonb) IS 'internal: a JSON array of texts';

CREATE FUNCTION pawl_bulk._known_definitions() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce('defined: ' || string_agg(quote_literal(k.name), ', ' ORDER BY k.name),
        'define it: select pawl_bulk.define(...)')
      FROM (SELECT DISTINCT d.name FROM pawl_bulk.definitions d WHERE d.dropped_at IS NULL ORDER BY d.name LIMIT 20) k
$function$;
COMMENT ON FUNCTION pawl_bulk._known_definitions() IS 'internal: the hint for an unknown definition';

-- A setting as JSON, null where it is not given: of its type, and in its range. Limits of
-- intervals are in seconds, of texts in bytes.
CREATE FUNCTION pawl_bulk._check_setting(what text, name text, given jsonb, type text, low numeric, high numeric)
    RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    said constant text := given #>> '{}';
    value numeric;
BEGIN
    IF said IS NULL THEN
        RETURN;
    END IF;
    BEGIN
        value := CASE type WHEN 'interval' THEN extract(epoch FROM said::interval) WHEN 'text' THEN octet_length(said)
            WHEN 'boolean' THEN said::boolean::integer ELSE said::numeric END;
    EXCEPTION WHEN data_exception THEN
        value := NULL;
    END;
    IF value IS NULL OR value NOT BETWEEN low AND high OR type = 'integer' AND value <> trunc(value)
        OR type IN ('text', 'interval') AND jsonb_typeof(given) <> 'string'
       OR type = 'interval' AND (said::interval < interval '0' OR NOT isfinite(now() + said::interval)) THEN
        PERFORM pawl.raise('22023', format('"%s" of %s is out of range', name, what),
            format('It is %s.', left(given::text, 100)),
            CASE type WHEN 'boolean' THEN 'true or false' WHEN 'text' THEN format('a text of %s to %s bytes', low, high)
                      WHEN 'interval'
                          THEN format('an interval from %s to %s', make_interval(secs => low::double precision),
                              justify_interval(make_interval(secs => high::double precision)))
                      ELSE format('%s from %s to %s', CASE type WHEN 'integer' THEN 'an integer' ELSE 'a number' END,
                          low, high) END);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._check_setting(text, text, jsonb, text, numeric, numeric) IS
'internal: rejects a setting of a definition that is out of range; 22023';

CREATE FUNCTION pawl_bulk._define_step(definition text, version integer, step_index integer, step jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    what text := format('step %s', step_index);
    kind text := coalesce(step ->> 'kind', 'sync');
    handler text := step ->> 'handler';
    checker text := step ->> 'check';
    placeholder text := substring(regexp_replace(step ->> 'signal_key', E'\\{(row|step|data\\.[^}]*)\\}', '', 'g')
        FROM E'\\{[^{}]*\\}');
BEGIN
    PERFORM pawl_bulk._known_fields(step, '{name,kind,handler,check,max_retries,backoff,poll_interval,poll_jitter,'
        'timeout,run_timeout,allow_operation_retry,signal_key}', what);
    IF coalesce(step ->> 'name', '') = '' THEN
        PERFORM pawl.raise('22023', format('%s has no name', what));
    ELSIF kind NOT IN ('sync', 'poll', 'signal') THEN
        PERFORM pawl.raise('22023', format('unknown kind "%s" of step "%s"', kind, step ->> 'name'), NULL,
            'sync, poll or signal');
    ELSIF kind <> 'sync' AND step ->> 'timeout' IS NULL THEN
        PERFORM pawl.raise('22023', format('step "%s" needs a timeout', step ->> 'name'),
            'A step that polls or waits for a signal must end after some time.');
    ELSIF kind = 'poll' AND step ->> 'poll_interval' IS NULL THEN
        PERFORM pawl.raise('22023', format('step "%s" needs a poll_interval', step ->> 'name'));
    ELSIF kind = 'sync' AND handler = 'none' THEN
        PERFORM pawl.raise('22023', format('step "%s" has no handler', step ->> 'name'));
    ELSIF placeholder IS NOT NULL THEN
        PERFORM pawl.raise('22023',
            format('the signal_key of step "%s" has an unknown placeholder %s', step ->> 'name', placeholder),
            'It would not be replaced, so all rows would wait for the same key.',
            'use {row}, {step} or {data.<field>}');
    END IF;
    PERFORM pawl_bulk._known_fields(coalesce(step -> 'backoff', '{}'), '{base,cap,jitter}', what || ', backoff');
    -- tries are a smallint; names and queues are in indexes
    PERFORM pawl_bulk._check_setting(format('step "%s"', left(step ->> 'name', 100)), x.name, x.given, x.type, x.low,
        x.high)
       FROM (VALUES ('name', step -> 'name', 'text', 1, 200), ('handler', step -> 'handler', 'text', 1, 200),
           ('check', step -> 'check', 'text', 1, 200),
                    ('signal_key', step -> 'signal_key', 'text', 1, 2000), ('max_retries', step -> 'max_retries',
                        'integer', 0, 32000), ('backoff.base', step #> '{backoff,base}', 'interval', 0, 31536000),
                    ('backoff.cap', step #> '{backoff,cap}', 'interval', 0, 31536000),
                    ('backoff.jitter', step #> '{backoff,jitter}', 'number', 0, 10),
                    ('poll_jitter', step -> 'poll_jitter', 'number', 0, 10),
                    ('poll_interval', step -> 'poll_interval', 'interval', 0.001, 31536000),
                    ('timeout', step -> 'timeout', 'interval', 0.001, 3153600000),
                    ('run_timeout', step -> 'run_timeout', 'interval', 0.001, 3153600000), ('allow_operation_retry',
                        step -> 'allow_operation_retry', 'boolean', 0, 1)) x(name, given, type, low, high);
    INSERT INTO pawl_bulk.steps (name, version, step_index, step_name, kind, queue, handler, check_queue, check_handler,
        max_retries, backoff_base, backoff_cap,
                                 backoff_jitter, poll_interval, poll_jitter, timeout, run_timeout,
                                 allow_operation_retry, signal_key)
    VALUES (definition, version, step_index, step ->> 'name', kind,
            CASE WHEN handler ^@ 'sql:' OR handler = 'none' THEN 'sql:' ELSE coalesce(handler, definition) END,
            CASE WHEN handler ^@ 'sql:' THEN substr(handler, 5) END,
            CASE WHEN checker ^@ 'sql:'
                THEN 'sql:' ELSE coalesce(checker,
                    CASE WHEN NOT handler ^@ 'sql:' AND handler <> 'none' THEN handler END, definition) END,
            CASE WHEN checker ^@ 'sql:' THEN substr(checker, 5) END,
            coalesce((step ->> 'max_retries')::integer, 0), coalesce((step #>> '{backoff,base}')::interval, '1 s'),
            coalesce((step #>> '{backoff,cap}')::interval, '30 s'),
            coalesce((step #>> '{backoff,jitter}')::double precision, 0.5), (step ->> 'poll_interval')::interval,
            coalesce((step ->> 'poll_jitter')::double precision, 0.2), (step ->> 'timeout')::interval,
            (step ->> 'run_timeout')::interval,
            coalesce((step ->> 'allow_operation_retry')::boolean, true), step ->> 'signal_key');
END
$function$;
COMMENT ON FUNCTION pawl_bulk._define_step(text, integer, integer, jsonb) IS
'internal: stores a step of a definition; 22023';

-- The steps of a definition: those it lists, or one for its handler.
CREATE FUNCTION pawl_bulk._steps_of(configuration jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    name text := configuration ->> 'name';
    of_step constant text[] := '{handler,max_retries,backoff,run_timeout,allow_operation_retry}';
    steps jsonb := configuration -> 'steps';
BEGIN
    IF configuration ?| of_step THEN
        IF steps IS NOT NULL THEN
            PERFORM pawl.raise('22023', format('definition "%s" has steps and a handler of its own', name), NULL,
                'Handlers belong to the steps.');
        END IF;
        RETURN jsonb_build_array(jsonb_build_object('name', 'process')
            || (SELECT jsonb_object_agg(k, v) FROM jsonb_each(configuration) e(k, v) WHERE k = ANY (of_step)));
    ELSIF jsonb_typeof(steps) IS DISTINCT FROM 'array' OR jsonb_array_length(steps) = 0 THEN
        PERFORM pawl.raise('22023', format('definition "%s" has no steps', name), 'It has no handler either.');
    ELSIF EXISTS (SELECT FROM jsonb_array_elements(steps) s GROUP BY lower(s ->> 'name') HAVING count(*) > 1) THEN
        PERFORM pawl.raise('22023', format('duplicate step name in definition "%s"', name),
            'Step names are compared case-insensitively.');
    END IF;
    RETURN steps;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._steps_of(jsonb) IS 'internal: the steps of a definition as JSON; 22023';

CREATE FUNCTION pawl_bulk.define(configuration jsonb) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    name text := configuration ->> 'name';
    steps jsonb;
    newest pawl_bulk.definitions;
    next_version integer;
BEGIN
    PERFORM pawl_bulk._known_fields(configuration, '{name,description,metadata,metadata_validators,row,validators,'
        'row_id,is_retryable,track_row_data,max_retry_attempts,max_takeovers,max_input_bytes,steps,handler,'
        'max_retries,backoff,run_timeout,allow_operation_retry}', 'a definition');
    IF coalesce(name, '') = '' OR length(name) > 100 THEN
        PERFORM pawl.raise('22023', 'the name of a definition must have 1 to 100 characters');
    END IF;
    steps := pawl_bulk._steps_of(configuration);
    PERFORM pawl_bulk._check_setting(format('definition "%s"', name), x.name, configuration -> x.name, x.type, x.low,
        x.high)
       FROM (VALUES ('max_retry_attempts', 'integer', 0, 32000), ('max_takeovers', 'integer', 0, 1000000),
           ('max_input_bytes', 'integer', 0, 1000000000000000),
                    ('is_retryable', 'boolean', 0, 1), ('track_row_data', 'boolean', 0, 1),
                    ('row_id', 'text', 0, 1000)) x(name, type, low, high);
    PERFORM pawl.acquire_lock(hashtextextended('pawl_bulk.define ' || name, 0));
    SELECT d.* INTO newest FROM pawl_bulk.definitions d WHERE d.name = configuration ->> 'name'
        ORDER BY d.version DESC LIMIT 1;
    IF newest.configuration = configuration AND newest.dropped_at IS NULL THEN
        RETURN newest.version;
    END IF;
    next_version := coalesce(newest.version, 0) + 1;
    INSERT INTO pawl_bulk.definitions (name, version, description, metadata_schema, metadata_validators, row_schema,
        row_validators, row_id, is_retryable, track_row_data,
                                       max_retry_attempts, max_takeovers, max_input_bytes, configuration)
    VALUES (name, next_version, configuration ->> 'description', coalesce(configuration -> 'metadata', '{}'),
        pawl_bulk._texts(configuration -> 'metadata_validators'),
            coalesce(configuration -> 'row', '{}'), pawl_bulk._texts(configuration -> 'validators'),
            configuration ->> 'row_id',
            coalesce((configuration ->> 'is_retryable')::boolean, false),
            coalesce((configuration ->> 'track_row_data')::boolean, false),
            coalesce((configuration ->> 'max_retry_attempts')::integer, 10),
            coalesce((configuration ->> 'max_takeovers')::integer, 5),
            coalesce((configuration ->> 'max_input_bytes')::bigint, 104857600), configuration);
    PERFORM pawl_bulk._define_step(name, next_version, (n - 1)::integer, s)
        FROM jsonb_array_elements(steps) WITH ORDINALITY e(s, n);
    IF configuration ? 'handler' THEN
        UPDATE pawl_bulk.steps s SET error_type = 'Processing'
            WHERE s.name = configuration ->> 'name' AND s.version = next_version;
    END IF;
    RETURN next_version;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.define(jsonb) IS
'Defines the next version of a definition and returns it; an equal definition returns the newest version.
configuration: {"name", "description", "metadata": schema, "metadata_validators": [function (metadata jsonb) returns
table (code text, message text)], "row": schema, "validators": [function (operation uuid, metadata jsonb,
row_numbers bigint[], rows jsonb[]) returns table (row_number bigint, code text, message text)], "row_id": field,
"is_retryable": false, "track_row_data": false, "max_retry_attempts": 10, "max_takeovers": 5, "max_input_bytes",
"steps": [{"name", "kind": "sync|poll|signal", "handler": "sql:<function>", the queue of its workers (default: the
name) or "none", "check": the same for polls, "max_retries": 0, "backoff": {"base": "1 s", "cap": "30 s", "jitter":
0.5}, "poll_interval", "poll_jitter": 0.2, "timeout", "run_timeout", "allow_operation_retry": true, "signal_key":
"carrier-{row}"}]}. Instead of steps it may have one handler, with max_retries, backoff, run_timeout and
allow_operation_retry beside it; its rows fail with Processing instead of StepFailure.
Errors: 22023 an invalid configuration. Privileges: pawl_admin.
Example: SELECT pawl_bulk.define(''{"name": "import", "steps": [{"name": "send"}]}'')';

CREATE FUNCTION pawl_bulk.drop_definition(name text, version integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    dropped integer;
BEGIN
    UPDATE pawl_bulk.definitions d SET dropped_at = clock_timestamp()
     WHERE d.name = drop_definition.name AND (drop_definition.version IS NULL OR d.version = drop_definition.version)
         AND d.dropped_at IS NULL;
    GET DIAGNOSTICS dropped = ROW_COUNT;
    RETURN dropped;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.drop_definition(text, integer) IS
'Drops a version of a definition, or all, and returns how many. Operations that wait for validation fail, running
ones continue, and none can be retried.
name: its name. version: default null: all.
Errors: none. Privileges: pawl_admin. Example: SELECT pawl_bulk.drop_definition(''import'', 1)';
