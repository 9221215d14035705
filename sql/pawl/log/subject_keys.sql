-- Expressions over the key columns of a table and of its log, as parts of dynamic statements.

-- The list of key columns of an alias, quoted; and a condition that two aliases have the same key.
CREATE FUNCTION pawl._columns(alias text, names name[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT string_agg(format('%s%I', alias, k.name), ', ' ORDER BY k.n)
              FROM unnest(names) WITH ORDINALITY k(name, n));
END
$function$;
COMMENT ON FUNCTION pawl._columns(text, name[]) IS 'internal: a list of quoted column names';

-- Compares by the operators of the columns' own types, which need not be in any search_path (citext, ltree).
CREATE FUNCTION pawl._same_key(one text, names name[], other text, other_names name[], relation regclass) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('pawl.same_value(%s.%I, %s.%I)', one, k.name, other, o.name), ' AND ' ORDER BY k.n)
      FROM unnest(names) WITH ORDINALITY k(name, n) JOIN unnest(other_names) WITH ORDINALITY o(name, n) ON o.n = k.n
$function$;
COMMENT ON FUNCTION pawl._same_key(text, name[], text, name[], regclass) IS
'internal: a condition that two rows have the same key; the relation is that of the first names';

-- The key columns of an alias under names of their own, so that a subquery can compute other columns beside them,
-- whatever they are called.
CREATE FUNCTION pawl._keys_apart(alias text, names name[], OUT listed text, OUT called name[])
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('%s.%I AS key_%s', alias, k.name, k.n), ', ' ORDER BY k.n),
           array_agg(('key_' || k.n)::name ORDER BY k.n)
      FROM unnest(names) WITH ORDINALITY k(name, n)
$function$;
COMMENT ON FUNCTION pawl._keys_apart(text, name[]) IS
'internal: a list of key columns as key_1, key_2 and so on, and these names';

-- The key of a row for messages, and as text[]. It uses output functions, because a cast changes char(n), boolean and
-- inet.
CREATE FUNCTION pawl._key_label(alias text, names name[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN CASE WHEN cardinality(names) = 0 THEN 'NULL::text'
                WHEN cardinality(names) = 1 THEN format('format(''%%s'', %s.%I)', alias, names[1])
                ELSE format('format(''(%s)'', %s)',
                    array_to_string(array_fill('%s'::text, ARRAY[cardinality(names)]), ', '),
                            pawl._columns(alias || '.', names)) END;
END
$function$;
COMMENT ON FUNCTION pawl._key_label(text, name[]) IS 'internal: an expression that shows the key of a row';

CREATE FUNCTION pawl._key_array(alias text, names name[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT 'ARRAY[' || string_agg(format('format(''%%s'', %s.%I)', alias, k.name), ', ' ORDER BY k.n) || ']'
              FROM unnest(names) WITH ORDINALITY k(name, n));
END
$function$;
COMMENT ON FUNCTION pawl._key_array(text, name[]) IS 'internal: an expression that gives the key of a row as text[]';
