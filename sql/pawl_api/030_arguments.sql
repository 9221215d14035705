-- What the functions of routes share. A route is pawl_api.<name>(q jsonb) or, where it acts, (q jsonb, body jsonb): q has the
-- parameters of path and query by name, all text.

CREATE FUNCTION pawl_api._need(pack text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF to_regnamespace(pack) IS NULL THEN
        PERFORM pawl._raise('0A000', format('%s is not installed in this database', pack), NULL, format('create extension %I', pack));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_api._need(text) IS 'internal: refuses a route whose pack is not installed; 0A000';

CREATE FUNCTION pawl_api._limit(q jsonb) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wanted integer := coalesce((q ->> 'limit')::integer, 50);
BEGIN
    IF wanted NOT BETWEEN 1 AND 500 THEN
        PERFORM pawl._raise('22023', 'limit must be from 1 to 500');
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
          FROM jsonb_array_elements_text(convert_from(decode(rpad(translate(given, '-_', '+/'), (length(given) + 3) / 4 * 4, '='), 'base64'), 'UTF8')::jsonb) WITH ORDINALITY x(e, n);
    EXCEPTION WHEN data_exception THEN
        NULL;
    END;
    IF coalesce(cardinality(place), 0) <> keys THEN
        PERFORM pawl._raise('22023', 'the cursor is none that this list gave');
    END IF;
    RETURN place;
END
$function$;
COMMENT ON FUNCTION pawl_api._after(jsonb, integer) IS 'internal: the keys of the cursor; null: from the beginning; 22023: it is none';

CREATE FUNCTION pawl_api._uuid(q jsonb, name text) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (q ->> name)::uuid;
EXCEPTION WHEN invalid_text_representation THEN
    PERFORM pawl._raise('22023', format('%s must be a uuid', name));
END
$function$;
COMMENT ON FUNCTION pawl_api._uuid(jsonb, text) IS 'internal: a parameter that is a uuid; 22023';

CREATE FUNCTION pawl_api._object(body jsonb, known text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    unknown text;
BEGIN
    IF coalesce(jsonb_typeof(body), 'object') <> 'object' THEN
        PERFORM pawl._raise('22023', 'the body must be a JSON object', NULL, array_to_string(known, ', '));
    END IF;
    SELECT k INTO unknown FROM jsonb_object_keys(body) k WHERE k <> ALL (known) ORDER BY k LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('22023', format('the body has an unknown field "%s"', unknown), NULL, array_to_string(known, ', '));
    END IF;
    RETURN coalesce(body, '{}');
END
$function$;
COMMENT ON FUNCTION pawl_api._object(jsonb, text[]) IS 'internal: the body, an object of these fields; 22023';

CREATE FUNCTION pawl_api._required(body jsonb, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF coalesce(body ->> name, '') = '' THEN
        PERFORM pawl._raise('22023', format('the body must have "%s"', name));
    END IF;
    RETURN body ->> name;
END
$function$;
COMMENT ON FUNCTION pawl_api._required(jsonb, text) IS 'internal: a field that must be there; 22023';
