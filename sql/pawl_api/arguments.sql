-- What the functions of routes share. A route is pawl_api.<name>(q jsonb) or, where it acts, (q jsonb, body jsonb): q
-- has the parameters of path and query by name, all text.

CREATE FUNCTION pawl_api._need(pack text) RETURNS void
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_api_need';
COMMENT ON FUNCTION pawl_api._need(text) IS 'internal: rejects a route whose pack is not installed; 0A000';

CREATE FUNCTION pawl_api._need_one(kind text, id uuid) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    is_there boolean;
BEGIN
    CASE kind
        WHEN 'task' THEN
            PERFORM pawl_api._need('pawl_dag');
            is_there := EXISTS (SELECT FROM pawl_dag.tasks t WHERE t.task_uuid = id);
        WHEN 'operation' THEN
            PERFORM pawl_api._need('pawl_bulk');
            is_there := EXISTS (SELECT FROM pawl_bulk.operations o WHERE o.operation = id);
        WHEN 'flow' THEN
            PERFORM pawl_api._need('pawl_saga');
            is_there := EXISTS (SELECT FROM pawl_saga.flows f WHERE f.flow_uuid = id);
    END CASE;
    IF NOT is_there THEN
        PERFORM pawl.raise('P0002', format('there is no %s %s', kind, id));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_api._need_one(text, uuid) IS
'internal: rejects a task, operation or flow that does not exist (P0002), or whose pack is not installed (0A000)';

CREATE FUNCTION pawl_api._limit(q jsonb) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wanted integer := coalesce((q ->> 'limit')::integer, 50);
BEGIN
    IF wanted NOT BETWEEN 1 AND 500 THEN
        PERFORM pawl.raise('22023', 'limit must be from 1 to 500');
    END IF;
    RETURN wanted;
END
$function$;
COMMENT ON FUNCTION pawl_api._limit(jsonb) IS 'internal: the rows of a page; 22023';

-- A cursor is the key of the last row in a form that URLs carry; clients hand it back as it is.
CREATE FUNCTION pawl_api._cursor(keys text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT rtrim(translate(encode(convert_to(to_jsonb(keys)::text, 'UTF8'), 'base64'), E'+/\n', '-_'), '=')
$function$;
COMMENT ON FUNCTION pawl_api._cursor(text[]) IS 'internal: a place in a list as text';

CREATE FUNCTION pawl_api._after(q jsonb, keys integer) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    given text := q ->> 'cursor';
    place text[];
BEGIN
    IF given IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        SELECT array_agg(e ORDER BY n) INTO place
          FROM jsonb_array_elements_text(
                          convert_from(decode(rpad(translate(given, '-_', '+/'), (length(given) + 3) / 4 * 4, '='),
                              'base64'), 'UTF8')::jsonb) WITH ORDINALITY x(e, n);
    EXCEPTION WHEN data_exception THEN
        NULL;
    END;
    IF coalesce(cardinality(place), 0) <> keys THEN
        PERFORM pawl.raise('22023', 'invalid cursor');
    END IF;
    RETURN place;
END
$function$;
COMMENT ON FUNCTION pawl_api._after(jsonb, integer) IS
'internal: the keys of the cursor; null: from the beginning; 22023: an invalid cursor';

-- A page of items given as JSON in their order.
CREATE FUNCTION pawl_api._page(items jsonb, page integer, VARIADIC keys text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('items', coalesce(items, '[]'), 'next', CASE WHEN jsonb_array_length(items) = page
        THEN pawl_api._cursor(ARRAY(SELECT items #>> ARRAY[(page - 1)::text, k]
        FROM unnest(keys) WITH ORDINALITY u(k, n) ORDER BY n)) END);
END
$function$;
COMMENT ON FUNCTION pawl_api._page(jsonb, integer, text[]) IS
'internal: a page, whose next one begins behind the keys of its last item';

-- A filter without an index reads rows in steps until a page is full or this time has come; the cursor says where to
-- continue.
CREATE FUNCTION pawl_api._look_until() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN clock_timestamp() + coalesce(nullif(current_setting('pawl_api.look_for_ms', true), ''),
        '100')::integer * interval '1 ms';
END
$function$;
COMMENT ON FUNCTION pawl_api._look_until() IS
'internal: when a filter stops: after 100 ms, or the setting pawl_api.look_for_ms';

CREATE FUNCTION pawl_api._filtered_page(items jsonb, page integer, keys text[], looked_until text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN CASE WHEN looked_until IS NULL OR jsonb_array_length(items) = page
                THEN pawl_api._page(items, page, VARIADIC keys)
                ELSE jsonb_build_object('items', coalesce(items, '[]'), 'next', pawl_api._cursor(looked_until)) END;
END
$function$;
COMMENT ON FUNCTION pawl_api._filtered_page(jsonb, integer, text[], text[]) IS
'internal: a page that continues after its last item, or, if it is short, where the filters stopped; null: at the end';

CREATE FUNCTION pawl_api._uuid(q jsonb, name text) RETURNS uuid
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_api_uuid';
COMMENT ON FUNCTION pawl_api._uuid(jsonb, text) IS 'internal: a parameter that is a uuid; 22023';

CREATE FUNCTION pawl_api._object(body jsonb, known text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    unknown text;
BEGIN
    IF coalesce(jsonb_typeof(body), 'object') <> 'object' THEN
        PERFORM pawl.raise('22023', 'the body must be a JSON object', NULL, array_to_string(known, ', '));
    END IF;
    SELECT k INTO unknown FROM jsonb_object_keys(body) k WHERE k <> ALL (known) ORDER BY k LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('the body has an unknown field "%s"', unknown), NULL,
            array_to_string(known, ', '));
    END IF;
    RETURN coalesce(body, '{}');
END
$function$;
COMMENT ON FUNCTION pawl_api._object(jsonb, text[]) IS 'internal: the body, an object of these fields; 22023';

CREATE FUNCTION pawl_api._order(pack text, body jsonb, known text[]) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need(pack);
    RETURN pawl_api._object(body, known);
END
$function$;
COMMENT ON FUNCTION pawl_api._order(text, jsonb, text[]) IS
'internal: the body of a request to create something in a pack, an object of these fields; 0A000, 22023';

CREATE FUNCTION pawl_api._required(body jsonb, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF coalesce(body ->> name, '') = '' THEN
        PERFORM pawl.raise('22023', format('the body must have "%s"', name));
    END IF;
    RETURN body ->> name;
END
$function$;
COMMENT ON FUNCTION pawl_api._required(jsonb, text) IS 'internal: a field that must be there; 22023';

CREATE FUNCTION pawl_api._counts(states text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(jsonb_object_agg(c.state, c.n), '{}')
        FROM (SELECT s.state, count(*) AS n FROM unnest(states) s(state) GROUP BY s.state) c
$function$;
COMMENT ON FUNCTION pawl_api._counts(text[]) IS 'internal: how often each state is among these';
