-- Any row of an enforced table: its state, its history, and events that can be fired.

CREATE FUNCTION pawl_api._bound(relation text, state_column text) RETURNS pawl.binding
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    b pawl.binding;
BEGIN
    SELECT x.* INTO b FROM pawl.binding x
     WHERE x.relation = to_regclass(_bound.relation)
         AND (_bound.state_column IS NULL OR x.state_column = _bound.state_column) ORDER BY x.state_column LIMIT 1;
    IF NOT FOUND THEN
        PERFORM pawl.raise('42704', format('no machine is enforced on "%s"', relation), NULL, 'GET /v1/bindings');
    END IF;
    RETURN b;
END
$function$;
COMMENT ON FUNCTION pawl_api._bound(text, text) IS 'internal: the binding of a table; 42704: it has none';

-- A key is its text; of several columns a JSON array in their order or an object by their names.
CREATE FUNCTION pawl_api._key(b pawl.binding, given text) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    parts text[];
BEGIN
    IF given IS NULL THEN
        PERFORM pawl.raise('22023', 'the key of the row is missing', NULL, array_to_string(b.key_columns, ', '));
    ELSIF cardinality(b.key_columns) = 1 AND left(given, 1) NOT IN ('[', '{') THEN
        RETURN ARRAY[given];
    END IF;
    BEGIN
        parts := CASE jsonb_typeof(given::jsonb)
            WHEN 'array' THEN ARRAY(SELECT e FROM jsonb_array_elements_text(given::jsonb) WITH ORDINALITY x(e, n)
                ORDER BY n)
            WHEN 'object'
                THEN ARRAY(SELECT given::jsonb ->> c::text FROM unnest(b.key_columns) WITH ORDINALITY k(c, n)
                    ORDER BY n) END;
    EXCEPTION WHEN invalid_text_representation THEN
        NULL;
    END;
    IF cardinality(parts) IS DISTINCT FROM cardinality(b.key_columns) OR array_position(parts, NULL) IS NOT NULL THEN
        PERFORM pawl.raise('22023', format('the key of %s must be (%s)', b.relation,
            array_to_string(b.key_columns, ', ')), NULL, 'a JSON array of texts');
    END IF;
    RETURN parts;
END
$function$;
COMMENT ON FUNCTION pawl_api._key(pawl.binding, text) IS 'internal: the key of a row as texts; 22023';

CREATE FUNCTION pawl_api._row(b pawl.binding, key text[]) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one jsonb;
BEGIN
    -- a type of a user's can have a cast to json, which to_jsonb would call: of those the text is shown
    EXECUTE format(
            'SELECT (SELECT jsonb_object_agg(c.name, c.value) FROM (VALUES %s) c(name, value)) FROM %s t WHERE %s', (
        SELECT string_agg(
            format(CASE WHEN pawl.base_type(a.atttypid) < 16384
                THEN '(%L::text, to_jsonb(t.%I))' ELSE '(%L::text, to_jsonb(pawl.value_text(t.%I)))' END,
                                 a.attname, a.attname), ', ' ORDER BY a.attnum)
          FROM pg_attribute a WHERE a.attrelid = b.relation AND a.attnum > 0 AND NOT a.attisdropped), b.relation, (
        SELECT string_agg(format('pawl.same_value(t.%I, %s)', a.attname,
                pawl.value_expression(quote_literal(key[n]) || '::text', a.atttypid, a.atttypmod)), ' AND ')
          FROM unnest(b.key_columns) WITH ORDINALITY k(c, n)
            JOIN pg_attribute a ON a.attrelid = b.relation AND a.attname = k.c)) INTO found_one;
    RETURN found_one;
END
$function$;
COMMENT ON FUNCTION pawl_api._row(pawl.binding, text[]) IS 'internal: a row as JSON; null: there is none';

CREATE FUNCTION pawl_api._available(b pawl.binding, key text[]) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    -- an array that is the key of one column would be taken for its value
    IF cardinality(key) = 1 THEN
        RETURN (SELECT coalesce(jsonb_agg(to_jsonb(a)), '[]')
            FROM pawl.available(b.relation, key[1], b.state_column) a);
    END IF;
    RETURN (SELECT coalesce(jsonb_agg(to_jsonb(a)), '[]') FROM pawl.available(b.relation, key, b.state_column) a);
END
$function$;
COMMENT ON FUNCTION pawl_api._available(pawl.binding, text[]) IS 'internal: the events of a row';

CREATE FUNCTION pawl_api.history(q jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    b pawl.binding := pawl_api._bound(q ->> 'relation', q ->> 'state_column');
    key text[] := pawl_api._key(b, q ->> 'key');
    found_one jsonb := pawl_api._row(b, key);
    items jsonb := '[]';
BEGIN
    IF b.history IS NOT NULL AND cardinality(key) = 1 THEN
        SELECT coalesce(jsonb_agg(pawl_api._transition(h) ORDER BY h.sort_key), '[]') INTO items
            FROM pawl.history(b.relation, key[1], b.state_column) h;
    ELSIF b.history IS NOT NULL THEN
        SELECT coalesce(jsonb_agg(pawl_api._transition(h) ORDER BY h.sort_key), '[]') INTO items
            FROM pawl.history(b.relation, key, b.state_column) h;
    END IF;
    IF found_one IS NULL AND items = '[]' THEN
        PERFORM pawl.raise('P0002', format('%s has no row (%s)', b.relation, array_to_string(key, ', ')));
    END IF;
    RETURN jsonb_build_object('relation', b.relation::text, 'state_column', b.state_column, 'machine', b.machine, 'key',
        to_jsonb(key), 'row', found_one, 'state', found_one ->> b.state_column,
        'items', items, 'next', NULL, 'may_fire', has_column_privilege(b.relation, b.state_column::text, 'UPDATE'),
        'available',
        CASE WHEN found_one IS NULL THEN '[]' ELSE pawl_api._available(b, key) END);
END
$function$;
COMMENT ON FUNCTION pawl_api.history(jsonb) IS
'Route: a row, its log entries, its available events, and whether the role may fire them (may_fire).
q: relation, key (a JSON array of texts), state_column (omitted: the only one). Returns the answer as JSON.
Errors: P0002 no such row; 42704 no machine is enforced on the table; 22023 an invalid key. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.history(''{"relation": "orders", "key": ["1"]}'')';

CREATE FUNCTION pawl_api.available(q jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    b pawl.binding := pawl_api._bound(q ->> 'relation', q ->> 'state_column');
    key text[] := pawl_api._key(b, q ->> 'key');
BEGIN
    IF pawl_api._row(b, key) IS NULL THEN
        PERFORM pawl.raise('P0002', format('%s has no row (%s)', b.relation, array_to_string(key, ', ')));
    END IF;
    RETURN jsonb_build_object('items', pawl_api._available(b, key), 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.available(jsonb) IS
'Route: the events of a row, each allowed, or blocked by which guard.
q: relation, key (a JSON array of texts), state_column (omitted: the only one). Returns the answer as JSON.
Errors: P0002 no such row; 42704 no machine is enforced on the table; 22023 an invalid key. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.available(''{"relation": "orders", "key": ["1"]}'')';

CREATE FUNCTION pawl_api.fire(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    f jsonb := pawl_api._object(body, '{relation,key,event,metadata,state_column}');
    b pawl.binding := pawl_api._bound(pawl_api._required(f, 'relation'), f ->> 'state_column');
    key text[] := pawl_api._key(b, f ->> 'key');
BEGIN
    RETURN jsonb_build_object('relation', b.relation::text, 'key', to_jsonb(key), 'state',
        CASE WHEN cardinality(key) = 1
        THEN pawl.fire(b.relation, key[1], pawl_api._required(f, 'event'), f -> 'metadata', b.state_column)
        ELSE pawl.fire(b.relation, key, pawl_api._required(f, 'event'), f -> 'metadata', b.state_column) END);
END
$function$;
COMMENT ON FUNCTION pawl_api.fire(jsonb, jsonb) IS
'Route: fires an event for a row; returns its new state.
q: none. body: relation, key (a JSON array of texts), event, metadata, state_column; the last two are optional.
Returns the answer as JSON.
Errors: P0002 no such row; 42704 no machine is enforced on the table; 22023 an invalid key; 22023 an invalid body;
those of pawl.fire. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on
the tables.
Example: SELECT pawl_api.fire(''{}'', ''{"relation": "orders", "key": ["1"], "event": "pay"}'')';
