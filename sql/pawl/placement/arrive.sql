-- The side of a move that the namespace comes to.

CREATE FUNCTION pawl._same_identity(placed pawl.placed_table, a text, b text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('%s.%I = %s.%I', a, c, b, c), ' AND ') FROM unnest(placed.identity) c
$function$;
COMMENT ON FUNCTION pawl._same_identity(pawl.placed_table, text, text) IS
'internal: a condition that two shared rows are the same definition';

-- Definitions that are not here are inserted; the others must be equal.
CREATE FUNCTION pawl._import_shared(move uuid, kind text, columns jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    placed pawl.placed_table;
    differing text;
    missing text;
    brought name[];
BEGIN
    FOR placed IN SELECT p.* FROM pawl.placed_table p WHERE p.kind = _import_shared.kind AND p.role = 'shared'
        ORDER BY p.ordinal LOOP
        IF placed.identity = '{}' THEN
            missing := format('EXISTS (SELECT FROM %s h WHERE (%s) = (%s))', placed.parent,
                pawl._columns('h.', placed.parent_columns), pawl._columns('r.', placed.key_columns));
        ELSE
            IF placed.content <> '{}' THEN
                EXECUTE format('SELECT concat_ws('' '', %s) FROM %s n JOIN (SELECT r.* FROM %s r WHERE %s) h ON %s '
                    'WHERE (%s) IS DISTINCT FROM (%s) LIMIT 1', pawl._columns('n.', placed.identity),
                    pawl._rows_in_transit(placed), placed.relation, coalesce(placed.only_if, 'true'),
                    pawl._same_identity(placed, 'n', 'h'), pawl._columns('n.', placed.content),
                    pawl._columns('h.', placed.content)) INTO differing USING move;
                IF differing IS NOT NULL THEN
                    PERFORM pawl.raise('55000', format('the databases have different definitions of "%s"', differing),
                        format('The rows of %s with this name and version are not equal.', placed.relation),
                        'define it again in both databases, so that the next version is the same');
                END IF;
            END IF;
            missing := format('NOT EXISTS (SELECT FROM (SELECT r.* FROM %s r WHERE %s) h WHERE %s)', placed.relation,
                coalesce(placed.only_if, 'true'), pawl._same_identity(placed, 'r', 'h'));
        END IF;
        brought := pawl._moved_columns(placed, columns);
        EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM %s r WHERE %s '
            'ON CONFLICT DO NOTHING', placed.relation, pawl._columns('', brought), pawl._columns('r.', brought),
            pawl._rows_in_transit(placed), missing) USING move;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._import_shared(uuid, text, jsonb) IS 'internal: takes over the definitions of a move';

-- Where a definition has another id here, the rows of the namespace get this one.
CREATE FUNCTION pawl._refer_to_shared(move uuid, kind text, namespace text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    link record;
    placed pawl.placed_table;
BEGIN
    FOR link IN SELECT p AS shared, q AS referring, q.relation, u.referring_column FROM pawl.placed_table p
        CROSS JOIN LATERAL unnest(p.referring, p.referring_columns) u(referring_table, referring_column)
        JOIN pawl.placed_table q ON q.kind = p.kind AND q.relation = u.referring_table AND q.role <> 'shared'
        WHERE p.kind = _refer_to_shared.kind AND p.role = 'shared' LOOP
        placed := link.shared;
        EXECUTE format('UPDATE %1$s r SET %2$I = h.%3$I FROM %4$s n JOIN (SELECT r.* FROM %5$s r WHERE %6$s) h ON %7$s '
            'WHERE n.%3$I <> h.%3$I AND r.%2$I = n.%3$I AND %8$s', link.relation, link.referring_column,
            placed.id_column, pawl._rows_in_transit(placed), placed.relation, coalesce(placed.only_if, 'true'),
            pawl._same_identity(placed, 'n', 'h'), pawl._placed_condition(kind, link.referring, false))
            USING move, namespace;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._refer_to_shared(uuid, text, text) IS 'internal: replaces ids of definitions in moved rows';

-- Logs that were pruned where they come from are pruned here, too, and so are audits; redactions are recorded.
CREATE FUNCTION pawl._record_logs(move uuid, kind text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    records jsonb := (SELECT x.content FROM pawl.transit x WHERE x.move = _record_logs.move AND x.ordinal = 0);
    pruned record;
BEGIN
    FOR pruned IN
        SELECT p.relation, b, (records -> 'horizons' ->> p.relation::text)::timestamptz AS horizon
          FROM pawl.placed_table p JOIN pawl.binding b ON b.history = p.relation
         WHERE p.kind = _record_logs.kind
           AND EXISTS (SELECT FROM pawl.transit x WHERE x.move = _record_logs.move AND x.ordinal = -p.ordinal) LOOP
        UPDATE pawl.pruned_log l SET horizon = greatest(l.horizon, pruned.horizon) WHERE l.log = pruned.relation;
        IF NOT FOUND THEN
            INSERT INTO pawl.pruned_log (log, anchors, horizon, pruned_by)
                VALUES (pruned.relation, pawl._make_anchors(pruned.b), pruned.horizon, session_user);
        END IF;
    END LOOP;
    INSERT INTO pawl.pruned_audit AS a (log, pruned_before)
        SELECT p.relation, (records -> 'audited_since' ->> p.relation::text)::timestamptz FROM pawl.placed_table p
         WHERE p.kind = _record_logs.kind AND records -> 'audited_since' ? p.relation::text
        ON CONFLICT ON CONSTRAINT pruned_audit_pkey DO UPDATE
            SET pruned_before = greatest(a.pruned_before, excluded.pruned_before);
    INSERT INTO pawl.redaction
        SELECT r.* FROM jsonb_populate_recordset(NULL::pawl.redaction, records -> 'redactions') r
         WHERE r.log IN (SELECT p.relation FROM pawl.placed_table p WHERE p.kind = _record_logs.kind)
        ON CONFLICT ON CONSTRAINT redaction_pkey DO NOTHING;
END
$function$;
COMMENT ON FUNCTION pawl._record_logs(uuid, text) IS 'internal: takes over what goes with the logs of a move';

-- Moves rows from pawl.transit into their tables. columns: that they left with.
CREATE FUNCTION pawl._take_in(move uuid, kind text, columns jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    placed pawl.placed_table;
    brought name[];
    taken bigint;
    wanted bigint;
BEGIN
    FOR placed IN SELECT p.* FROM pawl._placed_tables(kind) p WHERE p.role <> 'shared'
        ORDER BY abs(p.ordinal), p.ordinal DESC LOOP
        brought := pawl._moved_columns(placed, columns);
        EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM %s r', placed.relation,
            pawl._columns('', brought), pawl._columns('r.', brought), pawl._rows_in_transit(placed)) USING move;
        GET DIAGNOSTICS taken = ROW_COUNT;
        SELECT count(*) INTO wanted FROM pawl.transit x WHERE x.move = _take_in.move AND x.ordinal = placed.ordinal;
        IF taken <> wanted THEN
            PERFORM pawl.raise('XX001', format('table %s does not take all rows of the move', placed.relation),
                format('It took %s of %s.', taken, wanted), 'look for triggers and rules of the table');
        END IF;
    END LOOP;
    PERFORM pawl._note_moved(move, kind, 'arrived_at');
END
$function$;
COMMENT ON FUNCTION pawl._take_in(uuid, text, jsonb) IS 'internal: inserts the rows of a move';

CREATE FUNCTION pawl._require_counts(found_counts jsonb, expected jsonb, kind text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    differing record;
BEGIN
    SELECT coalesce(e.key, f.key) AS ordinal, coalesce(e.value ->> 'rows', '0') AS wanted,
           coalesce(f.value ->> 'rows', '0') AS got INTO differing
      FROM jsonb_each(expected) e FULL JOIN jsonb_each(found_counts) f ON f.key = e.key
     WHERE e.value IS DISTINCT FROM f.value ORDER BY 1 LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('XX001', 'the rows of the move are not those that left',
            format('Table %s: %s rows left, and %s are here; or they differ.', (SELECT p.relation
                FROM pawl._placed_tables(kind) p WHERE p.ordinal = differing.ordinal::integer), differing.wanted,
                differing.got));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._require_counts(jsonb, jsonb, text) IS 'internal: compares what left with what arrives';

-- A move ends in another database than the one that it leaves, whose rows in pawl.transit may be the only ones.
CREATE FUNCTION pawl._check_comes_here(move uuid) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    moving pawl.departure;
BEGIN
    SELECT d.* INTO moving FROM pawl.departure d WHERE d.move = _check_comes_here.move;
    IF FOUND THEN
        PERFORM pawl.raise('55000', format('move %s leaves this database', move),
            format('It takes namespace "%s" to database "%s".', moving.namespace, moving.database),
            format('connect there: select connection from pawl.database where name = %L', moving.database));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_comes_here(uuid) IS 'internal: rejects a move that leaves this database';

CREATE FUNCTION pawl._check_no_rows(move uuid, kind text, namespace text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF pawl._placed_counts(kind, namespace, move) <> '{}' THEN
        PERFORM pawl.raise('55000', format('namespace "%s" has rows in both databases', namespace),
            format('Kind "%s": the rows here cannot be told from those that would come.', kind),
            'move these away first, or delete them');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_no_rows(uuid, text, text) IS 'internal: rejects a namespace that has rows here';

CREATE FUNCTION pawl._verify_placed(kind text, arrived boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    table_name regclass;
    problem record;
BEGIN
    FOR table_name IN
        SELECT DISTINCT p.relation FROM pawl.placed_table p JOIN pawl.binding b ON b.relation = p.relation
         WHERE p.kind = _verify_placed.kind AND p.role <> 'shared' LOOP
        SELECT v.key, v.problem, v.detail INTO problem FROM pawl.verify(table_name) v LIMIT 1;
        IF FOUND THEN
            PERFORM pawl.raise('XX001', CASE WHEN arrived
                    THEN format('table %s is not sound with the rows of the move', table_name)
                    ELSE format('table %s is not sound where the namespace would arrive', table_name) END,
                format('Row %s: %s (%s).', problem.key, problem.problem, problem.detail),
                format('select * from pawl.verify(%L)%s', table_name,
                    CASE WHEN arrived THEN ', here and where the namespace comes from'
                        ELSE ' there; pawl move --no-verify moves nevertheless' END));
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._verify_placed(text, boolean) IS
'internal: runs pawl.verify of the tables that rows move into';

-- What left, as the row of pawl.transit with ordinal 0 says; null: there is none.
CREATE FUNCTION pawl._departed(move uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    content text := (SELECT x.content FROM pawl.transit x WHERE x.move = _departed.move AND x.ordinal = 0);
    departed jsonb;
    problem text;
BEGIN
    BEGIN
        departed := content::jsonb;
    EXCEPTION WHEN data_exception OR statement_too_complex THEN
        problem := 'It is no JSON.';
    END;
    SELECT coalesce(problem, format('"%s" in it is %s.', k.key, CASE WHEN departed ? k.key
               THEN 'of type ' || jsonb_typeof(departed -> k.key) ELSE 'missing' END)) INTO problem
      FROM (VALUES ('kind', 'string'), ('namespace', 'string'), ('database', 'string'), ('counts', 'object'),
               ('receipt', 'string'), ('columns', 'object')) k(key, type)
     WHERE content IS NOT NULL AND jsonb_typeof(departed -> k.key) IS DISTINCT FROM k.type LIMIT 1;
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('XX001', format('the row of pawl.transit that says what left by move %s is damaged', move),
            problem, format('copy the rows of pawl.transit where move = %L again from the database that they leave',
                move));
    END IF;
    RETURN departed;
END
$function$;
COMMENT ON FUNCTION pawl._departed(uuid) IS 'internal: what left by a move; XX001 the row that says it is damaged';

CREATE FUNCTION pawl.arrive(move uuid, verify boolean DEFAULT true) RETURNS pawl.arrival
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET session_replication_role = replica
SET pawl.restoring = on
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
SET jit = off
AS $function$
DECLARE
    here text := (SELECT d.name FROM pawl.database d WHERE d.is_here);
    departed jsonb := pawl._departed(move);
    columns jsonb := coalesce(departed -> 'columns', '{}');
    arrived pawl.arrival;
BEGIN
    PERFORM pawl._check_isolation('pawl.arrive');
    PERFORM pawl._commit_durably();
    PERFORM pawl._check_comes_here(move);
    INSERT INTO pawl.arrival (move, kind, namespace, outcome, counts, receipt)
        SELECT arrive.move, s.kind, s.namespace, 'arrived', s.counts, s.receipt
          FROM jsonb_populate_record(NULL::pawl.arrival, departed) s WHERE departed IS NOT NULL
        ON CONFLICT ON CONSTRAINT arrival_pkey DO NOTHING RETURNING * INTO arrived;
    IF NOT FOUND THEN
        SELECT a.* INTO arrived FROM pawl.arrival a WHERE a.move = arrive.move;
        IF NOT FOUND THEN
            PERFORM pawl.raise('XX001', format('the rows of move %s are not all in pawl.transit', move),
                'The row that says what has left is not there.',
                format('copy all rows of pawl.transit where move = %L from the database that they leave, where '
                    'pawl.departure has the phase "left"', move));
        END IF;
        DELETE FROM pawl.transit x WHERE x.move = arrive.move;
        RETURN arrived;
    ELSIF departed ->> 'database' IS DISTINCT FROM here THEN
        PERFORM pawl.raise('55000', format('move %s goes to database "%s"', move, departed ->> 'database'),
            coalesce(format('This is database "%s".', here), 'This database is not one of several.'));
    END IF;
    PERFORM pawl._require_counts(pawl._transit_counts(move, arrived.kind), arrived.counts, arrived.kind);
    PERFORM pawl._check_no_rows(move, arrived.kind, arrived.namespace);
    PERFORM pawl._record_logs(move, arrived.kind);
    PERFORM pawl._widen_transit(move, arrived.kind, columns);
    PERFORM pawl._import_shared(move, arrived.kind, columns);
    PERFORM pawl._take_in(move, arrived.kind, columns);
    PERFORM pawl._require_counts(pawl._placed_counts(arrived.kind, arrived.namespace, move, columns), arrived.counts,
        arrived.kind);
    PERFORM pawl._refer_to_shared(move, arrived.kind, arrived.namespace);
    IF verify THEN
        PERFORM pawl._verify_placed(arrived.kind, true);
    END IF;
    INSERT INTO pawl.placement AS p (kind, namespace, database) VALUES (arrived.kind, arrived.namespace, here)
        ON CONFLICT ON CONSTRAINT placement_kind_namespace_key DO UPDATE SET database = excluded.database,
            placed_at = clock_timestamp();
    DELETE FROM pawl.transit x WHERE x.move = arrive.move;
    PERFORM pawl.wake(b.relation) FROM pawl.binding b JOIN pawl.placed_table p ON p.relation = b.relation
      WHERE p.kind = arrived.kind AND p.role <> 'shared' AND b.wake;
    arrived.receipt := NULL;
    RETURN arrived;
END
$function$;
COMMENT ON FUNCTION pawl.arrive(uuid, boolean) IS
'Moves the rows of a move from pawl.transit into their tables, compares them with what left, verifies them, and takes
new work of the namespace; pawl move calls it, in the transaction that has copied them into pawl.transit. Called again
it deletes what was copied and returns what was recorded.
move: its id. verify: true (default): also pawl.verify of each table, which reads all of it.
Returns the row of pawl.arrival, without the receipt, which counts once the transaction is committed; outcome rejected:
the move was cancelled, and nothing is moved.
Errors: XX001 the rows are not those that left, not all of them, or not sound; 55000 the namespace has rows here,
definitions differ, or the move goes elsewhere; 25001 not READ COMMITTED. Privileges: pawl_restore.
Example: SELECT outcome FROM pawl.arrive(''01a2080d-be00-78c8-af29-543bc31dc522'')';

CREATE FUNCTION pawl.reject_arrival(move uuid, kind text, namespace text) RETURNS pawl.arrival
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    answer pawl.arrival;
BEGIN
    PERFORM pawl._check_isolation('pawl.reject_arrival');
    PERFORM pawl._commit_durably();
    PERFORM pawl._check_comes_here(move);
    INSERT INTO pawl.arrival (move, kind, namespace, outcome) VALUES (move, kind, namespace, 'rejected')
        ON CONFLICT ON CONSTRAINT arrival_pkey DO NOTHING;
    SELECT a.* INTO answer FROM pawl.arrival a WHERE a.move = reject_arrival.move;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl.reject_arrival(uuid, text, text) IS
'Cancels a move at the database that the namespace would come to, if it has not arrived, and returns the row of
pawl.arrival; pawl move --cancel calls it, before pawl.return_departed at the other database.
move: its id. kind: dag, bulk or saga. namespace: its name.
Errors: 55000 the move leaves this database; 25001 not READ COMMITTED. Privileges: pawl_restore.
Example: SELECT outcome FROM pawl.reject_arrival(''01a2080d-be00-78c8-af29-543bc31dc522'', ''dag'', ''billing'')';

CREATE FUNCTION pawl.return_departed(move uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET session_replication_role = replica
SET pawl.restoring = on
AS $function$
DECLARE
    moving pawl.departure;
BEGIN
    PERFORM pawl._check_isolation('pawl.return_departed');
    UPDATE pawl.departure d SET phase = 'returned' WHERE d.move = return_departed.move
        AND d.phase = ANY ('{closed,leaving,left}') RETURNING d.* INTO moving;
    IF NOT FOUND THEN
        IF EXISTS (SELECT FROM pawl.departure d WHERE d.move = return_departed.move AND d.phase = 'returned') THEN
            RETURN;
        END IF;
        PERFORM pawl.raise('55000', format('move %s is not one that can be cancelled', move), NULL,
            'select * from pawl.departure');
    END IF;
    PERFORM pawl._widen_transit(move, moving.kind, coalesce(moving.columns, '{}'));
    PERFORM pawl._take_in(move, moving.kind, coalesce(moving.columns, '{}'));
    DELETE FROM pawl.transit x WHERE x.move = return_departed.move;
    UPDATE pawl.placement p SET database = d.name, placed_at = clock_timestamp() FROM pawl.database d
     WHERE d.is_here AND p.kind = moving.kind AND p.namespace = moving.namespace;
    PERFORM pawl.wake(b.relation) FROM pawl.binding b JOIN pawl.placed_table p ON p.relation = b.relation
      WHERE p.kind = moving.kind AND p.role <> 'shared' AND b.wake;
END
$function$;
COMMENT ON FUNCTION pawl.return_departed(uuid) IS
'Brings back the rows of a move that was cancelled, and accepts new rows of the namespace again; pawl move --cancel
calls it, after pawl.reject_arrival at the other database, without which the rows could be in both.
move: its id. Errors: 55000 the move has ended; 25001 not READ COMMITTED. Privileges: pawl_restore.
Example: SELECT pawl.return_departed(''01a2080d-be00-78c8-af29-543bc31dc522'')';
