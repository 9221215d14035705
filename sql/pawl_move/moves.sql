-- Moves of namespaces, in the database whose placements count. Each state says what has been committed in the other
-- databases, so that a move that was interrupted is continued from there:
-- left: the namespace's database has put its rows into pawl.transit, and rejects new ones;
-- arrived: the other database has taken them over, which pawl.arrival says;
-- placed: pawl.placement here names the other database; done: the rows in pawl.transit are deleted.

CREATE SCHEMA pawl_move;
COMMENT ON SCHEMA pawl_move IS 'moves of namespaces between databases';

-- @diagram pawl_move.move move.mmd

CREATE TABLE pawl_move.moves (
    move uuid PRIMARY KEY DEFAULT pawl.uuid_v7(),
    kind text COLLATE "C" NOT NULL CHECK (kind <> ''),
    namespace text COLLATE "C" NOT NULL CHECK (namespace <> ''),
    source text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'requested',
    drain interval NOT NULL DEFAULT '30 s' CHECK (drain OPERATOR(pg_catalog.>=) '0'),
    verify boolean NOT NULL DEFAULT true,
    counts jsonb,
    receipt uuid,
    requested_by text NOT NULL DEFAULT CURRENT_USER,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CHECK (source OPERATOR(pg_catalog.<>) target)
);
COMMENT ON TABLE pawl_move.moves IS 'moves of namespaces from one database to another';
COMMENT ON COLUMN pawl_move.moves.drain IS 'how long claimed work may be reported before the rows leave';
COMMENT ON COLUMN pawl_move.moves.verify IS 'whether pawl.verify runs before the arrival is committed';
COMMENT ON COLUMN pawl_move.moves.counts IS
'rows and a digest of them, by the ordinal of the table in pawl.placed_table';
COMMENT ON COLUMN pawl_move.moves.receipt IS
'of the arrival: the proof for the database that the rows leave that it can delete them';
CREATE UNIQUE INDEX moves_open ON pawl_move.moves (kind, namespace)
    WHERE state OPERATOR(pg_catalog.<>) 'done' AND state OPERATOR(pg_catalog.<>) 'cancelled';
SELECT pg_catalog.pg_extension_config_dump('pawl_move.moves', '');

SELECT pawl.enforce('pawl_move.moves', 'state', 'pawl_move.move');
SELECT pawl.enable_log('pawl_move.moves', log_name => 'move_transitions');
SELECT pg_catalog.pg_extension_config_dump('pawl_move.move_transitions_log', '');

CREATE FUNCTION pawl_move.request(kind text, namespace text, database text, drain interval DEFAULT NULL,
    verify boolean DEFAULT NULL) RETURNS pawl_move.moves
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    open_move pawl_move.moves;
    source text;
    problem text := CASE WHEN kind IS NULL THEN 'kind' WHEN namespace IS NULL THEN 'namespace'
        WHEN database IS NULL THEN 'database' END;
BEGIN
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('22004', problem || ' must not be null');
    ELSIF octet_length(namespace) > 1000 THEN
        PERFORM pawl.raise('22023', 'the name of the namespace is longer than 1,000 bytes',
            format('It has %s.', octet_length(namespace)));
    ELSIF NOT EXISTS (SELECT FROM pawl.database d WHERE d.is_here AND d.is_home) THEN
        PERFORM pawl.raise('55000', 'moves begin in the database whose placements count',
            coalesce((SELECT format('That is database "%s".', d.name) FROM pawl.database d WHERE d.is_home),
                'There is none: this database is not one of several.'),
            coalesce((SELECT format('Connect there: %s', d.connection) FROM pawl.database d WHERE d.is_home),
                'pawl databases init NAME CONNECTION'));
    END IF;
    -- it is not removed before the request is committed
    PERFORM FROM pawl.database d WHERE d.name = database FOR KEY SHARE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('42704', format('there is no database "%s"', database), NULL,
            'select name from pawl.database');
    END IF;
    LOOP
        UPDATE pawl_move.moves m SET drain = coalesce(request.drain, m.drain),
               verify = coalesce(request.verify, m.verify)
         WHERE m.kind = request.kind AND m.namespace = request.namespace AND m.state <> 'done'
           AND m.state <> 'cancelled' AND m.target = database RETURNING m.* INTO open_move;
        EXIT WHEN FOUND;
        SELECT m.* INTO open_move FROM pawl_move.moves m WHERE m.kind = request.kind
            AND m.namespace = request.namespace AND m.state <> 'done' AND m.state <> 'cancelled';
        IF FOUND THEN
            PERFORM pawl.raise('55006', format('namespace "%s" is being moved to database "%s"', namespace,
                    open_move.target), format('Move %s is in state "%s".', open_move.move, open_move.state),
                format('pawl move %s %s --pack %s ends it; with --cancel it is cancelled', namespace, open_move.target,
                    kind));
        END IF;
        source := (SELECT w.database FROM pawl.where_is(kind, namespace) w);
        IF source IS NULL THEN
            PERFORM pawl.raise('PW009', format('namespace "%s" of kind "%s" is placed in no database', namespace, kind),
                NULL, format('insert into pawl.placement (kind, namespace, database) values (%L, null, ...)', kind));
        ELSIF source = database THEN
            PERFORM pawl.raise('55000', format('namespace "%s" is in database "%s" already', namespace, database));
        END IF;
        -- another session may request a move meanwhile
        INSERT INTO pawl_move.moves (kind, namespace, source, target, drain, verify)
            VALUES (kind, namespace, source, database, coalesce(drain, '30 s'), coalesce(verify, true))
            ON CONFLICT DO NOTHING RETURNING * INTO open_move;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN open_move;
END
$function$;
COMMENT ON FUNCTION pawl_move.request(text, text, text, interval, boolean) IS
'Requests a move of a namespace to another database, which pawl move carries out, and returns it. If the same move is
under way, it is returned, with the given drain and verify.
kind: dag, bulk or saga. namespace: its name; of bulk operations the name of their definition, of sagas the board.
database: where it moves to. drain: how long claimed work may be reported before the rows leave; default null: 30 s, or
what the open move has. verify: true: pawl.verify runs where it arrives, before the rows leave and before the arrival
is committed; default null: true, or what the open move has.
Errors: 22004 null; 22023 the name is longer than 1,000 bytes; 55006 it is being moved elsewhere; 55000 it is there
already, or this is not the database whose placements count; 42704 no such database; PW009 it is placed nowhere.
Privileges: pawl_admin.
Example: SELECT pawl_move.request(''dag'', ''billing'', ''b'')';

CREATE FUNCTION pawl_move.hold(move uuid) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT pawl.acquire_session_lock(hashtextextended('pawl_move.moves ' || move, 0))
$function$;
COMMENT ON FUNCTION pawl_move.hold(uuid) IS
'Makes this session the one that carries out a move, until it ends; false: another session does.
move: its id. Errors: none. Privileges: pawl_admin. Example: SELECT pawl_move.hold(''...'')';

CREATE FUNCTION pawl_move.place(move uuid) RETURNS pawl_move.moves
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    moved pawl_move.moves;
BEGIN
    UPDATE pawl_move.moves m SET state = 'placed' WHERE m.move = place.move RETURNING m.* INTO moved;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no move %s', move));
    END IF;
    INSERT INTO pawl.placement AS p (kind, namespace, database)
        VALUES (moved.kind, moved.namespace, moved.target)
        ON CONFLICT ON CONSTRAINT placement_kind_namespace_key DO UPDATE SET database = excluded.database,
            placed_at = clock_timestamp();
    RETURN moved;
END
$function$;
COMMENT ON FUNCTION pawl_move.place(uuid) IS
'Places the namespace of a move that has arrived in its new database, and returns the move; pawl move calls it.
move: its id. Errors: PW001 the move has not arrived; P0002 no such move. Privileges: pawl_admin.
Example: SELECT pawl_move.place(''...'')';

CREATE FUNCTION pawl_move.remove_database(name text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    removed pawl.database;
    placed text;
    open_move pawl_move.moves;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM pawl.raise('25001', 'databases are removed in isolation level read committed',
            'Another one would not see moves that were requested after the transaction began.',
            'begin isolation level read committed');
    END IF;
    SELECT d.* INTO removed FROM pawl.database d WHERE d.name = remove_database.name FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('42704', format('there is no database "%s"', remove_database.name), NULL,
            'select name from pawl.database');
    ELSIF removed.is_home OR NOT EXISTS (SELECT FROM pawl.database d WHERE d.is_here AND d.is_home) THEN
        PERFORM pawl.raise('55000', format('database "%s" cannot be removed here', removed.name),
            (SELECT format('The placements of database "%s" count.', d.name) FROM pawl.database d WHERE d.is_home),
            'databases are removed in the one whose placements count, which remains');
    END IF;
    SELECT string_agg(format('%s of %s', coalesce('"' || p.namespace || '"', 'all others'), p.kind), ', '
               ORDER BY p.kind, p.namespace NULLS FIRST) INTO placed
      FROM (SELECT p.* FROM pawl.placement p WHERE p.database = removed.name
             ORDER BY p.kind, p.namespace NULLS FIRST LIMIT 10) p;
    IF placed IS NOT NULL THEN
        PERFORM pawl.raise('55006', format('namespaces are placed in database "%s"', removed.name),
            (SELECT format('There are %s%s %s.', count(*), CASE WHEN count(*) > 10 THEN ', among them' ELSE ':' END,
                placed) FROM pawl.placement p WHERE p.database = removed.name),
            'pawl move each of them to another database; pawl databases default changes the place of all others');
    END IF;
    SELECT m.* INTO open_move FROM pawl_move.moves m WHERE m.state <> 'done' AND m.state <> 'cancelled'
        AND removed.name IN (m.source, m.target) ORDER BY m.created_at LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('55006', format('namespace "%s" is being moved from or to database "%s"',
                open_move.namespace, removed.name), format('Move %s from "%s" to "%s" is in state "%s".',
                open_move.move, open_move.source, open_move.target, open_move.state),
            format('pawl move %s %s --pack %s ends it; with --cancel it is cancelled', open_move.namespace,
                open_move.target, open_move.kind));
    END IF;
    DELETE FROM pawl.database d WHERE d.name = removed.name;
END
$function$;
COMMENT ON FUNCTION pawl_move.remove_database(text) IS
'Removes a database from those among which namespaces are divided; pawl databases remove calls it, in the one whose
placements count, and tells the others. The database itself is left as it is, and rejects namespaces as before.
name: of the database.
Errors: 55006 namespaces are placed in it, or being moved from or to it; 55000 it is the one whose placements count, or
this is another one; 42704 no such database; 25001 not READ COMMITTED. Privileges: pawl_admin.
Example: SELECT pawl_move.remove_database(''c'')';
