-- Rows of a namespace that move from one database to another. pawl.depart moves them into pawl.transit, in one
-- transaction with the placement that rejects new ones; from then on nothing here can see or change them. The rows are
-- copied as texts, and pawl.arrive, at the other database, moves them into the tables in one transaction that also
-- records the arrival. Until it commits, pawl.return_departed can bring them back. The row with ordinal 0 says what
-- left, with a random receipt: pawl.arrival has it once the rows are there, and pawl.forget_departed asks for it.

CREATE TABLE pawl.transit (
    move uuid NOT NULL,
    ordinal integer NOT NULL,
    content text NOT NULL
);
COMMENT ON TABLE pawl.transit IS 'rows that move to another database, each as the text of a value of its table''s type';
COMMENT ON COLUMN pawl.transit.ordinal IS
'of the table in pawl.placed_table; negative: of the table of the ends of its log; 0: what left, and the receipt';
CREATE INDEX transit_move ON pawl.transit (move, ordinal);
SELECT pg_catalog.pg_extension_config_dump('pawl.transit', '');

CREATE TABLE pawl.departure (
    move uuid PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    database text COLLATE "C" NOT NULL,
    phase text COLLATE "C" NOT NULL DEFAULT 'closed' CHECK (phase = ANY ('{closed,leaving,left,returned,gone}')),
    counts jsonb,
    columns jsonb,
    began_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE pawl.departure IS 'namespaces that have moved, or are moving, from here to another database';
COMMENT ON COLUMN pawl.departure.phase IS
'closed: new work is rejected; leaving: the rows are in pawl.transit, but for some that were being written; left: all '
'are; returned: the move was cancelled; gone: the other database has them';
COMMENT ON COLUMN pawl.departure.counts IS 'rows and a digest of them, by ordinal';
COMMENT ON COLUMN pawl.departure.columns IS 'the name and columns of each table when the rows left, by ordinal';
CREATE UNIQUE INDEX departure_open ON pawl.departure (kind, namespace) WHERE phase <> 'returned' AND phase <> 'gone';
SELECT pg_catalog.pg_extension_config_dump('pawl.departure', '');

CREATE TABLE pawl.arrival (
    move uuid PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL CHECK (outcome = ANY ('{arrived,rejected}')),
    counts jsonb,
    receipt uuid,
    recorded_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE pawl.arrival IS
'moves that have ended here: the namespace has arrived, or the move was cancelled before';
COMMENT ON COLUMN pawl.arrival.receipt IS
'came with the rows; pawl.forget_departed, where they come from, takes it as the proof that they are here';
SELECT pg_catalog.pg_extension_config_dump('pawl.arrival', '');

-- What the databases of a move say to each other must outlive a crash: the commit waits for the disk.
CREATE FUNCTION pawl._commit_durably() RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'
$function$;
COMMENT ON FUNCTION pawl._commit_durably() IS 'internal: the transaction ends as if synchronous_commit were on';

-- By these keys a task is found that is asked for by its id, and pawl.verify knows why the outbox has events of entries
-- that are not in a log, and none of entries that are.
CREATE TABLE pawl.moved_unit (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    move uuid NOT NULL,
    departed_at timestamptz,
    arrived_at timestamptz,
    PRIMARY KEY (kind, key)
);
COMMENT ON TABLE pawl.moved_unit IS
'tasks, operations, jobs and flows that have moved to another database or come from one, by their ids';
COMMENT ON COLUMN pawl.moved_unit.move IS 'the last move';
SELECT pg_catalog.pg_extension_config_dump('pawl.moved_unit', '');

-- The declared tables of a kind in the order of their ordinals, and for each log that was pruned the table of its ends.
CREATE FUNCTION pawl._placed_tables(kind text) RETURNS SETOF pawl.placed_table
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT p.* FROM pawl.placed_table p JOIN pg_class c ON c.oid = p.relation WHERE p.kind = $1
    UNION ALL
    SELECT p.kind, -p.ordinal, l.anchors::regclass, p.role, p.namespace_column,
           (pawl._anchor_keys(b, l.anchors::regclass))[1:cardinality(p.key_columns)], p.parent, p.parent_columns, NULL,
           false, '{}', '{}', '{}', NULL, '{}', '{}'
      FROM pawl.placed_table p JOIN pg_class c ON c.oid = p.relation JOIN pawl.pruned_log l ON l.log = p.relation
      JOIN pawl.binding b ON b.history = p.relation WHERE p.kind = $1
     ORDER BY 2
$function$;
COMMENT ON FUNCTION pawl._placed_tables(text) IS 'internal: the tables that have rows of a kind';

CREATE FUNCTION pawl._rows_in_transit(placed pawl.placed_table) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('(SELECT (t.r).* FROM (SELECT x.content::%s AS r FROM pawl.transit x '
        'WHERE x.move = $1 AND x.ordinal = %s OFFSET 0) t)', placed.relation, placed.ordinal)
$function$;
COMMENT ON FUNCTION pawl._rows_in_transit(pawl.placed_table) IS 'internal: the rows of a table in pawl.transit';

-- Remembers the ids of a move: of tables with a key of one uuid. what: the column of pawl.moved_unit to set.
CREATE FUNCTION pawl._note_moved(move uuid, kind text, what name) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    unit record;
BEGIN
    FOR unit IN SELECT p.relation, p.ordinal, a.attname AS key FROM pawl.placed_table p
        JOIN pg_index i ON i.indrelid = p.relation AND i.indisprimary AND i.indnkeyatts = 1
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] AND a.atttypid = 'uuid'::regtype
        WHERE p.kind = _note_moved.kind AND p.role <> 'shared' LOOP
        EXECUTE format('INSERT INTO pawl.moved_unit (kind, key, move, %1$I) '
            'SELECT $2, (t.r).%2$I, $1, clock_timestamp() FROM (SELECT x.content::%3$s AS r '
            'FROM pawl.transit x WHERE x.move = $1 AND x.ordinal = %4$s OFFSET 0) t '
            'ON CONFLICT ON CONSTRAINT moved_unit_pkey DO UPDATE SET move = excluded.move, %1$I = excluded.%1$I',
            what, unit.key, unit.relation, unit.ordinal) USING move, kind;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._note_moved(uuid, text, name) IS 'internal: remembers the ids of what moves';

-- A condition on rows r of a placed table: they belong to the namespace $2. in_transit: the parents are those of the
-- move $1 in pawl.transit; false: those in their tables.
CREATE FUNCTION pawl._placed_condition(kind text, placed pawl.placed_table, in_transit boolean) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    above pawl.placed_table;
    parents text;
    wanted text := CASE WHEN placed.only_if IS NULL THEN '' ELSE format('(%s) AND ', placed.only_if) END;
BEGIN
    IF placed.parent IS NULL THEN
        RETURN wanted || format('r.%I = $2', placed.namespace_column);
    END IF;
    -- a table may have rows that move and rows that are shared; those below belong to the ones or the others
    FOR above IN SELECT p.* FROM pawl.placed_table p
        WHERE p.kind = _placed_condition.kind AND p.relation = placed.parent
          AND ((p.role = 'shared') = (placed.role = 'shared') OR placed.role = 'shared' AND NOT EXISTS (SELECT
              FROM pawl.placed_table q WHERE q.kind = p.kind AND q.relation = p.relation AND q.role = 'shared'))
        ORDER BY p.ordinal LOOP
        parents := concat_ws(' UNION ALL ', parents, CASE WHEN in_transit THEN
            format('SELECT %s FROM (SELECT x.content::%s AS r FROM pawl.transit x '
                'WHERE x.move = $1 AND x.ordinal = %s OFFSET 0) t',
                (SELECT string_agg(format('(t.r).%I', c), ', ' ORDER BY n)
                   FROM unnest(placed.parent_columns) WITH ORDINALITY u(c, n)), above.relation, above.ordinal)
            ELSE format('SELECT %s FROM %s r WHERE %s', pawl._columns('r.', placed.parent_columns), above.relation,
                pawl._placed_condition(kind, above, false)) END);
    END LOOP;
    RETURN wanted || format('(%s) IN (%s)', pawl._columns('r.', placed.key_columns), parents);
END
$function$;
COMMENT ON FUNCTION pawl._placed_condition(text, pawl.placed_table, boolean) IS
'internal: which rows of a table belong to a namespace';

CREATE FUNCTION pawl._remove_moved(relation regclass, statement text, move uuid, namespace text) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_remove_moved';
COMMENT ON FUNCTION pawl._remove_moved(regclass, text, uuid, text) IS
'internal: runs a statement that moves rows out of a table, also of a log or an audit';

-- A digest of texts in any order.
CREATE FUNCTION pawl._digest(texts text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN pg_catalog.format(
    'jsonb_build_object(''rows'', count(*), ''digest'', concat(sum(hashtextextended(%1$s, 0)::numeric), '' '', '
    'sum(hashtextextended(%1$s, 1)::numeric)))', texts);
COMMENT ON FUNCTION pawl._digest(text) IS 'internal: an expression that counts texts and digests them';

CREATE FUNCTION pawl._transit_counts(move uuid, kind text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    counts jsonb;
BEGIN
    EXECUTE format('SELECT coalesce(jsonb_object_agg(c.ordinal, c.counted), ''{}'') FROM (SELECT x.ordinal, %s '
        'AS counted FROM pawl.transit x WHERE x.move = $1 AND (x.ordinal < 0 OR x.ordinal IN ('
        'SELECT p.ordinal FROM pawl.placed_table p WHERE p.kind = $2 AND p.role <> ''shared'')) GROUP BY x.ordinal) c',
        pawl._digest('x.content')) INTO counts USING move, kind;
    RETURN counts;
END
$function$;
COMMENT ON FUNCTION pawl._transit_counts(uuid, text) IS 'internal: what pawl.transit has of a move';

-- The namespace's rows in their tables, as pawl._transit_counts has them. columns: that they left with.
CREATE FUNCTION pawl._placed_counts(kind text, namespace text, move uuid, columns jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
DECLARE
    placed pawl.placed_table;
    counted jsonb;
    counts jsonb := '{}';
BEGIN
    FOR placed IN SELECT p.* FROM pawl._placed_tables(kind) p WHERE p.role <> 'shared' LOOP
        EXECUTE format('SELECT %s FROM %s r WHERE %s', pawl._digest(pawl._moved_text(placed, columns)),
            placed.relation, pawl._placed_condition(kind, placed, false)) INTO counted USING move, namespace;
        IF counted ->> 'rows' <> '0' THEN
            counts := counts || jsonb_build_object(placed.ordinal, counted);
        END IF;
    END LOOP;
    RETURN counts;
END
$function$;
COMMENT ON FUNCTION pawl._placed_counts(text, text, uuid, jsonb) IS 'internal: what the tables have of a namespace';
