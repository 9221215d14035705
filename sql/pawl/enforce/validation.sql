-- Rows that were there before a binding or its log, and that nothing has read yet: how pawl.validate reads them in the
-- order of their key, and begins their histories.

CREATE TABLE pawl.validation (
    relation regclass NOT NULL,
    state_column name NOT NULL,
    member regclass NOT NULL,
    position text[],
    checked bigint NOT NULL DEFAULT 0,
    begun bigint NOT NULL DEFAULT 0,
    illegal bigint NOT NULL DEFAULT 0,
    done boolean NOT NULL DEFAULT false,
    PRIMARY KEY (relation, state_column, member)
);
COMMENT ON TABLE pawl.validation IS
'how far pawl.validate has come in the tables of a binding that is not validated; written by pawl.validate';
COMMENT ON COLUMN pawl.validation.member IS 'a table with rows: the enforced one, a partition or an inheritance child';
COMMENT ON COLUMN pawl.validation.position IS 'the key of the last row that was checked; null: none was';
COMMENT ON COLUMN pawl.validation.checked IS 'how many rows were checked';
COMMENT ON COLUMN pawl.validation.begun IS 'how many histories were begun';
COMMENT ON COLUMN pawl.validation.illegal IS
'how many of them were in no state of the machine, or not where their log ends';
COMMENT ON COLUMN pawl.validation.done IS 'all rows of the member were checked';

SELECT pg_catalog.pg_extension_config_dump('pawl.validation', '');

-- A position is the key of a user's row, which others may not be able to read.
CREATE VIEW pawl._validation_positions WITH (security_barrier = true) AS
    SELECT v.relation, v.state_column, v.member, v.position FROM pawl.validation v WHERE pawl._owns(v.relation);
COMMENT ON VIEW pawl._validation_positions IS
'internal: where pawl.validate goes on in the tables that you own';

CREATE FUNCTION pawl._begin_logs(relation regclass, state_column name, member regclass, query text) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_begin_logs';
COMMENT ON FUNCTION pawl._begin_logs(regclass, name, regclass, text) IS
'internal: begins the histories of the rows that a query locks; it returns their key and state; owner only';

CREATE FUNCTION pawl._store_validation(relation regclass, state_column name, member regclass, place text[],
    checked bigint, begun bigint, illegal bigint, done boolean) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_store_validation';
COMMENT ON FUNCTION pawl._store_validation(regclass, name, regclass, text[], bigint, bigint, bigint, boolean) IS
'internal: stores how far pawl.validate has come; owner only';

CREATE FUNCTION pawl._end_validation(relation regclass, state_column name) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_end_validation';
COMMENT ON FUNCTION pawl._end_validation(regclass, name) IS 'internal: marks a binding as validated; owner only';

CREATE FUNCTION pawl._validation_progress(bound pawl.binding) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('rows that were there before are not validated: %s checked so far, %s in no state of machine "%s"',
                  coalesce(sum(v.checked), 0), coalesce(sum(v.illegal), 0), bound.machine)
      FROM pawl.validation v WHERE v.relation = bound.relation AND v.state_column = bound.state_column
$function$;
COMMENT ON FUNCTION pawl._validation_progress(pawl.binding) IS
'internal: a sentence that says how far pawl.validate has come';

-- The members whose rows are read by their key, in the order of an index.
CREATE FUNCTION pawl._has_key_index(member regclass, key_columns name[]) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT EXISTS (
        SELECT FROM pg_index i
          JOIN pg_class c ON c.oid = i.indexrelid
          JOIN pg_am m ON m.oid = c.relam AND m.amname = 'btree'
         WHERE i.indrelid = member AND i.indisvalid AND i.indpred IS NULL
           AND (i.indkey::smallint[])[0:cardinality(key_columns) - 1]
               = ARRAY(SELECT a.attnum FROM unnest(key_columns) WITH ORDINALITY k(name, n)
                         JOIN pg_attribute a ON a.attrelid = member AND a.attname = k.name ORDER BY k.n)
           AND (SELECT count(DISTINCT o.flags) = 1 AND bool_and(o.flags IN (0, 3))
                  FROM unnest(i.indoption::smallint[]) WITH ORDINALITY o(flags, n)
                 WHERE o.n <= cardinality(key_columns))
           AND NOT EXISTS (SELECT FROM unnest(i.indclass::oid[]) WITH ORDINALITY u(class, n)
                             JOIN pg_opclass p ON p.oid = u.class
                            WHERE u.n <= cardinality(key_columns) AND NOT p.opcdefault))
$function$;
COMMENT ON FUNCTION pawl._has_key_index(regclass, name[]) IS
'internal: whether the rows of a table can be read in the order of a key without sorting them';

-- The rows of a member after a position, in the order of the key, at most so many: key_0, key_1 ..., state and
-- log_state. A branch for each leading part of the key that is as in the position, so that each uses the index.
CREATE FUNCTION pawl._rows_after(bound pawl.binding, member regclass, place text[], batch integer) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    keys text := (SELECT string_agg(format('r.%I AS key_%s', k.name, k.n - 1), ', ' ORDER BY k.n)
                    FROM unnest(bound.key_columns) WITH ORDINALITY k(name, n));
    key_order text := (SELECT string_agg(format('key_%s', k.n - 1), ', ' ORDER BY k.n)
                         FROM unnest(bound.key_columns) WITH ORDINALITY k(name, n));
    given text := (SELECT string_agg(format('r.%I IS NOT NULL', k.name), ' AND ' ORDER BY k.n)
                     FROM unnest(bound.key_columns) WITH ORDINALITY k(name, n));
    branch text := format('(SELECT %s, pawl.value_text(r.%I) AS state, %s AS log_state FROM ONLY %s r%s '
        'WHERE %s AND %%s ORDER BY %s LIMIT %s)', keys, bound.state_column,
        CASE WHEN bound.history IS NULL THEN 'NULL::text' ELSE 'o.to_state' END, member,
        CASE WHEN bound.history IS NOT NULL
            THEN format(' LEFT JOIN LATERAL (%s) o ON true', pawl._newest_of_row(bound)) END,
        given, pawl._columns('r.', bound.key_columns), batch);
BEGIN
    IF place IS NULL THEN
        RETURN format(branch, 'true');
    END IF;
    RETURN format('(SELECT * FROM (%s) u ORDER BY %s LIMIT %s)',
        (SELECT string_agg(format(branch, b.condition), ' UNION ALL ' ORDER BY b.n DESC)
           FROM (SELECT k.n, string_agg(
                            CASE WHEN e.n < k.n THEN format('pawl.same_value(r.%I, %s)', e.name, e.value)
                                 ELSE format('pawl._above(r.%I, %s)', e.name, e.value) END, ' AND ' ORDER BY e.n)
                        AS condition
                   FROM generate_series(1, cardinality(bound.key_columns)) k(n)
                   JOIN (SELECT c.n, c.name,
                                pawl.value_expression(quote_literal(place[c.n]) || '::text', a.atttypid, a.atttypmod)
                                AS value
                           FROM unnest(bound.key_columns) WITH ORDINALITY c(name, n)
                           JOIN pg_attribute a ON a.attrelid = member AND a.attname = c.name) e ON e.n <= k.n
                  GROUP BY k.n) b), key_order, batch);
END
$function$;
COMMENT ON FUNCTION pawl._rows_after(pawl.binding, regclass, text[], integer) IS
'internal: a query for the rows of a member after a position, in the order of their key';

-- What is found in the next rows of a member, in one snapshot. begins: the keys of rows without a history. Up to the
-- first of these, only_checked, only_illegal and only_place are what checked, illegal and next_place are of all.
CREATE FUNCTION pawl._read_page(bound pawl.binding, member regclass, place text[], batch integer,
    OUT checked bigint, OUT illegal bigint, OUT next_place text[], OUT begins jsonb,
    OUT only_checked bigint, OUT only_illegal bigint, OUT only_place text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    key_text text := (SELECT 'ARRAY[' || string_agg(format('pawl.value_text(p.key_%s)', n - 1), ', ' ORDER BY n) || ']'
                        FROM generate_series(1, cardinality(bound.key_columns)) n);
BEGIN
    EXECUTE format($query$
        WITH page AS MATERIALIZED (
            SELECT row_number() OVER () AS n, %1$s AS key, p.log_state,
                   p.state IS NULL OR p.state COLLATE "C" <> ALL ($1) AS is_unknown,
                   p.log_state COLLATE "C" <> p.state COLLATE "C" AS differs
              FROM %2$s p),
        rows_before AS (
            SELECT g.* FROM page g WHERE g.n < ALL (SELECT f.n FROM page f
                WHERE %3$L AND NOT f.is_unknown AND f.log_state IS NULL ORDER BY f.n LIMIT 1))
        SELECT count(*), count(*) FILTER (WHERE g.is_unknown OR g.differs),
               (SELECT l.key FROM page l ORDER BY l.n DESC LIMIT 1),
               jsonb_agg(g.key ORDER BY g.n) FILTER (WHERE %3$L AND NOT g.is_unknown AND g.log_state IS NULL),
               (SELECT count(*) FROM rows_before), (SELECT count(*) FROM rows_before b WHERE b.is_unknown OR b.differs),
               (SELECT b.key FROM rows_before b ORDER BY b.n DESC LIMIT 1)
          FROM page g$query$, key_text, pawl._rows_after(bound, member, place, batch), bound.history IS NOT NULL)
       INTO checked, illegal, next_place, begins, only_checked, only_illegal, only_place
      USING pawl._atoms(bound.machine, bound.version);
END
$function$;
COMMENT ON FUNCTION pawl._read_page(pawl.binding, regclass, text[], integer) IS
'internal: reads the next rows of a member that pawl.validate has not checked';

-- Begins histories of the rows with these keys. The first is waited for, because nothing is locked yet; rows that other
-- sessions have locked are left out, so that no session waits for a row while it holds others.
CREATE FUNCTION pawl._begin_page(bound pawl.binding, member regclass, keys jsonb) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    query text := format('SELECT %s, r.%I FROM jsonb_array_elements(%L) WITH ORDINALITY u(key, n) '
        'JOIN ONLY %s r ON %s WHERE u.n ', pawl._columns('r.', bound.key_columns), bound.state_column, keys, member,
        (SELECT string_agg(format('pawl.same_value(r.%I, %s)', k.name,
                    pawl.value_expression(format('u.key ->> %s', k.n - 1), a.atttypid, a.atttypmod)),
                    ' AND ' ORDER BY k.n)
           FROM unnest(bound.key_columns) WITH ORDINALITY k(name, n)
           JOIN pg_attribute a ON a.attrelid = member AND a.attname = k.name));
BEGIN
    RETURN pawl._begin_logs(bound.relation, bound.state_column, member, query || '= 1 FOR NO KEY UPDATE OF r')
         + pawl._begin_logs(bound.relation, bound.state_column, member,
               query || '> 1 ORDER BY u.n FOR NO KEY UPDATE OF r SKIP LOCKED');
END
$function$;
COMMENT ON FUNCTION pawl._begin_page(pawl.binding, regclass, jsonb) IS
'internal: begins the histories of rows that were there before the log';

-- A batch of one member. The plans must not depend on statistics, which a large table may not have yet.
CREATE FUNCTION pawl._validate_member(bound pawl.binding, target regclass, batch integer,
    OUT member regclass, OUT checked bigint, OUT begun bigint, OUT illegal bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
DECLARE
    before record;
    page record;
BEGIN
    member := target;
    SELECT v.checked, v.begun, v.illegal, p.position INTO before
      FROM pawl.validation v JOIN pawl._validation_positions p USING (relation, state_column, member)
     WHERE v.relation = bound.relation AND v.state_column = bound.state_column AND v.member = target;
    IF NOT pawl._has_key_index(target, bound.key_columns) THEN
        PERFORM pawl.raise('55000', format('table %s has no index on the key (%s)', target,
            array_to_string(bound.key_columns, ', ')), 'Its rows are validated in the order of the key.',
            format('create unique index concurrently on %s (%s)', target, pawl._columns('', bound.key_columns)));
    END IF;
    IF before.position IS NULL THEN
        PERFORM pawl._reject_null_keys(bound, target);
    END IF;
    page := pawl._read_page(bound, target, before.position, batch);
    begun := 0;
    checked := page.checked;
    illegal := page.illegal;
    IF page.begins IS NOT NULL THEN
        begun := pawl._begin_page(bound, target, page.begins);
        IF begun < jsonb_array_length(page.begins) THEN  -- the next call goes on before the first row that is locked
            page := pawl._read_page(bound, target, before.position, batch);
            checked := page.only_checked;
            illegal := page.only_illegal;
            page.next_place := page.only_place;
        END IF;
    END IF;
    PERFORM pawl._store_validation(bound.relation, bound.state_column, target,
        coalesce(page.next_place, before.position), coalesce(before.checked, 0) + checked,
        coalesce(before.begun, 0) + begun, coalesce(before.illegal, 0) + illegal,
        checked = page.checked AND checked < batch);
END
$function$;
COMMENT ON FUNCTION pawl._validate_member(pawl.binding, regclass, integer) IS
'internal: validates the next rows of a member';

-- Rows whose key is null are not in the order of the key, and a log cannot identify them.
CREATE FUNCTION pawl._reject_null_keys(bound pawl.binding, member regclass) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    nullable name;
    found_one boolean;
BEGIN
    FOR nullable IN SELECT a.attname FROM pg_attribute a
                     WHERE a.attrelid = member AND a.attname = ANY (bound.key_columns) AND NOT a.attnotnull LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s r WHERE r.%I IS NULL)', member, nullable) INTO found_one;
        IF found_one THEN
            PERFORM pawl.raise('23502', format('table %s has rows whose key column "%s" is null', member, nullable),
                'A row is identified by its key.', format('update %s set %2$I = ... where %2$I is null', member,
                    nullable));
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._reject_null_keys(pawl.binding, regclass) IS
'internal: rejects rows with a null key; 23502';
