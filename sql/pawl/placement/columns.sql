-- The tables of rows that move, as they were when the rows left: they can get columns until the rows arrive or return.

CREATE FUNCTION pawl._placed_columns(kind text) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(jsonb_object_agg(p.ordinal, jsonb_build_object('table', p.relation::text, 'columns', (
               SELECT coalesce(jsonb_agg(a.attname ORDER BY a.attnum), '[]') FROM pg_attribute a
                WHERE a.attrelid = p.relation AND a.attnum > 0 AND NOT a.attisdropped))), '{}')
      FROM pawl._placed_tables($1) p
$function$;
COMMENT ON FUNCTION pawl._placed_columns(text) IS
'internal: the name and columns of each table that has rows of a kind, by ordinal';

-- The columns of a table that an INSERT of its moved rows names. columns: of the departure; {}: those of now. Generated
-- columns are computed again, and others that are not in columns get their defaults.
CREATE FUNCTION pawl._moved_columns(placed pawl.placed_table, columns jsonb) RETURNS name[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT ARRAY(SELECT a.attname FROM pg_attribute a
        WHERE a.attrelid = placed.relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
          AND coalesce(columns -> placed.ordinal::text -> 'columns' ? a.attname::text, true) ORDER BY a.attnum)
$function$;
COMMENT ON FUNCTION pawl._moved_columns(pawl.placed_table, jsonb) IS
'internal: the columns of a table that moved rows bring';

-- The text of a row r of a table as it was when it left, for digests.
CREATE FUNCTION pawl._moved_text(placed pawl.placed_table, columns jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(format('ROW(%s)::text', pawl._columns('r.', (SELECT array_agg(c::name ORDER BY n)
        FROM jsonb_array_elements_text(columns -> placed.ordinal::text -> 'columns') WITH ORDINALITY u(c, n)))),
        'r::text')
$function$;
COMMENT ON FUNCTION pawl._moved_text(pawl.placed_table, jsonb) IS
'internal: an expression for the text of a row with the columns that it had';

-- What has changed between two answers of pawl._placed_columns, in tables that both have. added: columns at the end
-- count as changes, too.
CREATE FUNCTION pawl._require_columns(columns jsonb, present jsonb, added boolean) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    differing record;
BEGIN
    SELECT t.value ->> 'table' AS table_name, t.value ->> 'columns' AS had, h.value ->> 'table' AS other_name,
           h.value ->> 'columns' AS has INTO differing
      FROM jsonb_each(columns) t JOIN jsonb_each(present) h ON h.key = t.key
     WHERE h.value -> 'table' <> t.value -> 'table'
        OR CASE WHEN added THEN h.value -> 'columns' ELSE (
               SELECT jsonb_agg(e.value ORDER BY e.n) FROM jsonb_array_elements(h.value -> 'columns')
                   WITH ORDINALITY e(value, n) WHERE e.n <= jsonb_array_length(t.value -> 'columns')) END
           IS DISTINCT FROM t.value -> 'columns' ORDER BY t.key LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('55000', format('table %s has changed since rows left it', differing.table_name),
            format('Its columns were %s, and table %s has the columns %s.', differing.had, differing.other_name,
                differing.has),
            CASE WHEN added THEN 'cancel the move, and move the namespace again'
                ELSE 'give it these columns in this order again until the move has ended; more can follow' END);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._require_columns(jsonb, jsonb, boolean) IS
'internal: rejects tables that have changed while rows move';

-- Rows in pawl.transit get nulls for the columns that their tables have got since, so that they can be read.
CREATE FUNCTION pawl._widen_transit(move uuid, kind text, columns jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    present constant jsonb := pawl._placed_columns(kind);
BEGIN
    PERFORM pawl._require_columns(columns, present, false);
    UPDATE pawl.transit x SET content = left(x.content, -1) || repeat(',', w.added) || ')'
      FROM (SELECT t.key::integer AS ordinal, jsonb_array_length(h.value -> 'columns')
                   - jsonb_array_length(t.value -> 'columns') AS added
              FROM jsonb_each(columns) t JOIN jsonb_each(present) h ON h.key = t.key) w
     WHERE x.move = _widen_transit.move AND x.ordinal = w.ordinal AND x.ordinal <> 0 AND w.added > 0;
END
$function$;
COMMENT ON FUNCTION pawl._widen_transit(uuid, text, jsonb) IS
'internal: makes rows in transit fit tables that have got columns';
