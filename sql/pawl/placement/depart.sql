-- The side of a move that the namespace leaves.

-- Two databases can exchange rows of a kind if what describes them is the same in both: the columns of the tables, and
-- the versions of machines that log entries name.
CREATE FUNCTION pawl.placed_shape(kind text) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(jsonb_object_agg(s.what, s.value), '{}') FROM (
        SELECT 'columns of ' || p.relation AS what, string_agg(format('%s %s', a.attname,
                   format_type(a.atttypid, a.atttypmod)) || CASE WHEN a.attgenerated = '' THEN '' ELSE
                   ' generated as ' || pg_get_expr(d.adbin, d.adrelid) END, ', ' ORDER BY a.attnum) AS value
          FROM pawl.placed_table p JOIN pg_attribute a ON a.attrelid = p.relation AND a.attnum > 0
               AND NOT a.attisdropped
          LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE p.kind = placed_shape.kind GROUP BY p.relation, p.ordinal
        UNION ALL
        SELECT format('machine "%s" version %s', m.machine, m.version),
               encode(sha256(convert_to(m.diagram, 'UTF8')), 'hex')
          FROM pawl.machine m WHERE m.machine IN (SELECT b.machine FROM pawl.binding b JOIN pawl.placed_table p
              ON p.relation = b.relation WHERE p.kind = placed_shape.kind)
        UNION ALL
        SELECT 'log of ' || b.relation || ' by ' || b.state_column,
               format('%s, hash chain: %s', b.history, b.hash_chain)
          FROM pawl.binding b WHERE b.history IS NOT NULL AND b.relation IN (SELECT p.relation
              FROM pawl.placed_table p WHERE p.kind = placed_shape.kind)) s
$function$;
COMMENT ON FUNCTION pawl.placed_shape(text) IS
'Returns what two databases must have in common so that a namespace can move from one to the other: the columns of the
tables, the versions of their machines, their logs.
kind: dag, bulk or saga. Errors: none. Privileges: pawl_admin. Example: SELECT pawl.placed_shape(''dag'')';

-- Definitions that a namespace needs, as rows of pawl.transit.
CREATE FUNCTION pawl.shared_rows(kind text, namespace text) RETURNS TABLE (ordinal integer, content text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
DECLARE
    placed pawl.placed_table;
BEGIN
    FOR placed IN SELECT p.* FROM pawl.placed_table p WHERE p.kind = shared_rows.kind AND p.role = 'shared'
        ORDER BY p.ordinal LOOP
        RETURN QUERY EXECUTE format('SELECT %s, r::text FROM %s r WHERE $1 IS NULL AND %s', placed.ordinal,
            placed.relation, pawl._placed_condition(kind, placed, false)) USING NULL::uuid, namespace;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl.shared_rows(text, text) IS
'Returns the definitions that the work of a namespace needs: ordinal (of the table in pawl.placed_table) and content
(the text of the row).
kind: dag, bulk or saga. namespace: its name. Errors: none. Privileges: pawl_admin.
Example: SELECT count(*) FROM pawl.shared_rows(''dag'', ''billing'')';

CREATE FUNCTION pawl.namespaces(definitions boolean DEFAULT false) RETURNS TABLE (kind text, namespace text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    statement text;
BEGIN
    SELECT string_agg(format('SELECT %L, pawl.value_text(r.%I) FROM %s r', p.kind, p.namespace_column, p.relation),
               ' UNION ') INTO statement
      FROM pawl.placed_table p JOIN pg_class c ON c.oid = p.relation
     WHERE p.namespace_column IS NOT NULL AND (p.role = 'unit' OR definitions AND p.role = 'shared');
    IF statement IS NOT NULL THEN
        RETURN QUERY EXECUTE statement;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.namespaces(boolean) IS
'Returns kind and namespace of the rows that this database has; reads all of them. definitions: also of definitions,
which may be copies that moves have left; default false. Errors: none. Privileges: pawl_admin.
Example: SELECT * FROM pawl.namespaces()';

CREATE FUNCTION pawl.in_flight(kind text, namespace text) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    queue record;
    counted bigint;
    total bigint := 0;
BEGIN
    FOR queue IN SELECT p AS placed, p.relation, b.lease_column
          FROM pawl.placed_table p JOIN pawl.binding b ON b.relation = p.relation
         WHERE p.kind = in_flight.kind AND p.role <> 'shared' AND b.lease_column IS NOT NULL
           AND b.queue_column IS NOT NULL LOOP
        EXECUTE format('SELECT count(*) FROM %s r WHERE $1 IS NULL AND r.%I > clock_timestamp() AND %s', queue.relation,
            queue.lease_column, pawl._placed_condition(kind, queue.placed, false))
            INTO counted USING NULL::uuid, namespace;
        total := total + counted;
    END LOOP;
    RETURN total;
END
$function$;
COMMENT ON FUNCTION pawl.in_flight(text, text) IS
'Returns how many rows of a namespace are claimed by workers whose lease has not expired.
kind: dag, bulk or saga. namespace: its name. Errors: none. Privileges: pawl_admin.
Example: SELECT pawl.in_flight(''dag'', ''billing'')';

-- PREPARE TRANSACTION gives a transaction another name, which nothing links to the one before. It shows the prepared
-- transaction before it releases the lock of the virtual one, so the virtual ones are read first. While some of these
-- go, every prepared transaction may have been one of them; after that the list only gets shorter.
CREATE FUNCTION pawl.transactions(among text[] DEFAULT NULL) RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    were_virtual bigint := (SELECT count(*) FROM unnest(among) a WHERE a NOT LIKE 'prepared transaction %');
    virtual text[];
BEGIN
    PERFORM pg_stat_clear_snapshot();
    virtual := ARRAY(SELECT t.id FROM (
        SELECT l.virtualxid || ' of process ' || l.pid AS id FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
         WHERE l.locktype = 'virtualxid' AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid()
           AND a.datid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
           -- null where the role may not see it
           AND a.backend_type IS DISTINCT FROM 'autovacuum worker') t
     WHERE among IS NULL OR t.id = ANY (among) ORDER BY t.id);
    RETURN virtual || ARRAY(SELECT t.id FROM (
        SELECT format('prepared transaction %s "%s"', p.transaction, p.gid) AS id FROM pg_prepared_xacts p
         WHERE p.database = current_database()) t
     WHERE among IS NULL OR t.id = ANY (among) OR cardinality(virtual) < were_virtual ORDER BY t.id);
END
$function$;
COMMENT ON FUNCTION pawl.transactions(text[]) IS
'Returns the transactions of other sessions that are open in this database, and those that are prepared: to wait until
those that were have ended. Call it again with its last answer until it is empty.
among: the last answer; null (default): all. Returns those of it that are still open; when one of them has gone that was
not prepared, also each that is prepared, which may be the same transaction. Errors: none. Privileges: pawl_admin.
Example: SELECT pawl.transactions()';

CREATE FUNCTION pawl._leave(moving pawl.departure) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    placed pawl.placed_table;
    rows_of text;
BEGIN
    DELETE FROM pawl.transit x USING pawl.placed_table p
     WHERE x.move = moving.move AND p.kind = moving.kind AND p.ordinal = x.ordinal AND p.role = 'shared';
    FOR placed IN SELECT p.* FROM pawl._placed_tables(moving.kind) p
        ORDER BY p.role = 'shared', abs(p.ordinal), p.ordinal DESC LOOP
        rows_of := format('%s r WHERE %s', placed.relation, pawl._placed_condition(moving.kind, placed, true));
        IF placed.role = 'shared' THEN
            EXECUTE format('INSERT INTO pawl.transit (move, ordinal, content) SELECT $1, %s, r::text FROM %s '
                'AND $2 <> ''''', placed.ordinal, rows_of) USING moving.move, moving.namespace;
        ELSE
            PERFORM pawl._remove_moved(placed.relation, format('WITH gone AS (DELETE FROM %s '
                'RETURNING r::text AS content) INSERT INTO pawl.transit (move, ordinal, content) '
                'SELECT $1, %s, g.content FROM gone g WHERE $2 <> ''''', rows_of, placed.ordinal),
                moving.move, moving.namespace);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._leave(pawl.departure) IS 'internal: moves the rows of a namespace into pawl.transit';

-- What is known of the logs of a move that is not in them: up to when they were pruned, and what was redacted.
CREATE FUNCTION pawl._records_of_logs(move uuid, kind text) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    log record;
    found_redactions jsonb;
    redactions jsonb := '[]';
BEGIN
    FOR log IN SELECT p AS placed, b.log_key_columns FROM pawl.placed_table p
        JOIN pawl.binding b ON b.history = p.relation
        WHERE p.kind = _records_of_logs.kind AND EXISTS (SELECT FROM pawl.redaction x WHERE x.log = p.relation) LOOP
        EXECUTE format('SELECT coalesce(jsonb_agg(x), ''[]'') FROM pawl.redaction x WHERE x.log = $2 AND x.key IN ('
            'SELECT %s FROM %s r)', pawl._key_array('r', log.log_key_columns), pawl._rows_in_transit(log.placed))
            INTO found_redactions USING move, (log.placed).relation;
        redactions := redactions || found_redactions;
    END LOOP;
    RETURN jsonb_build_object('redactions', redactions,
        'horizons', (SELECT coalesce(jsonb_object_agg(l.log, l.horizon), '{}') FROM pawl.pruned_log l
            JOIN pawl.placed_table p ON p.relation = l.log WHERE p.kind = _records_of_logs.kind),
        'audited_since', (SELECT coalesce(jsonb_object_agg(a.log, a.pruned_before), '{}') FROM pawl.pruned_audit a
            JOIN pawl.placed_table p ON p.relation = a.log WHERE p.kind = _records_of_logs.kind));
END
$function$;
COMMENT ON FUNCTION pawl._records_of_logs(uuid, text) IS 'internal: what goes with the logs of a move';

CREATE FUNCTION pawl.depart(move uuid, kind text, namespace text, database text, phase text) RETURNS pawl.departure
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
    moving pawl.departure;
    columns jsonb;
    phases constant text[] := '{closed,leaving,left}';
BEGIN
    PERFORM pawl._check_isolation('pawl.depart');
    PERFORM pawl._commit_durably();
    IF phase <> ALL (phases) THEN
        PERFORM pawl.raise('22023', format('unknown phase "%s"', phase), NULL, 'closed, leaving or left');
    ELSIF NOT EXISTS (SELECT FROM pawl.placed_table p WHERE p.kind = depart.kind) THEN
        PERFORM pawl.raise('22023', format('no extension here divides its work by namespaces of kind "%s"', kind), NULL,
            'select distinct kind from pawl.placed_table');
    END IF;
    PERFORM pawl.acquire_lock(hashtextextended('pawl.departure ' || kind || ' ' || namespace, 0));
    SELECT d.* INTO moving FROM pawl.departure d WHERE d.move = depart.move;
    IF NOT FOUND THEN
        PERFORM pawl.require_here(kind, namespace);
        SELECT d.* INTO moving FROM pawl.departure d WHERE d.kind = depart.kind AND d.namespace = depart.namespace
            AND d.phase <> 'returned' AND d.phase <> 'gone';
        IF FOUND THEN
            PERFORM pawl.raise('55006', format('namespace "%s" is being moved', namespace),
                format('Move %s takes it to database "%s".', moving.move, moving.database));
        ELSIF NOT EXISTS (SELECT FROM pawl.database d WHERE d.name = depart.database AND NOT d.is_here) THEN
            PERFORM pawl.raise('42704', format('there is no other database "%s"', database), NULL,
                'select name from pawl.database');
        END IF;
        INSERT INTO pawl.departure (move, kind, namespace, database)
            VALUES (move, kind, namespace, database) RETURNING * INTO moving;
        INSERT INTO pawl.placement AS p (kind, namespace, database) VALUES (kind, namespace, database)
            ON CONFLICT ON CONSTRAINT placement_kind_namespace_key DO UPDATE SET database = excluded.database,
                placed_at = clock_timestamp();
    ELSIF (moving.kind, moving.namespace, moving.database) <> (kind, namespace, database)
        OR moving.phase <> ALL (phases) THEN
        PERFORM pawl.raise('55000', format('move %s has ended, or is another one', move),
            format('It took namespace "%s" to database "%s", and is %s.', moving.namespace, moving.database,
                moving.phase));
    END IF;
    IF array_position(phases, phase) <= array_position(phases, moving.phase) THEN
        RETURN moving;
    END IF;
    IF moving.phase = 'closed' THEN
        PERFORM pawl._check_returnable(kind, namespace);
    ELSE
        PERFORM pawl._require_columns(moving.columns, pawl._placed_columns(kind), true);
    END IF;
    PERFORM pawl._leave(moving);
    -- from now on the tables are locked, so that the columns stay
    columns := pawl._placed_columns(kind);
    PERFORM pawl._require_columns(moving.columns, columns, true);
    moving.columns := columns;
    PERFORM pawl._note_moved(move, kind, 'departed_at');
    IF phase = 'left' THEN
        moving.counts := pawl._transit_counts(move, kind);
        INSERT INTO pawl.transit (move, ordinal, content)
            SELECT move, 0, to_jsonb(moving) || jsonb_build_object('receipt', gen_random_uuid())
                || pawl._records_of_logs(move, kind);
    END IF;
    UPDATE pawl.departure d SET phase = depart.phase, counts = moving.counts,
        columns = moving.columns WHERE d.move = depart.move
        RETURNING d.* INTO moving;
    RETURN moving;
END
$function$;
COMMENT ON FUNCTION pawl.depart(uuid, text, text, text, text) IS
'A phase of a move of a namespace from here to another database, which pawl move calls; again, it does nothing. From the
first on, new rows and claims of the namespace are rejected with PW009.
move: its id. kind: dag, bulk or saga. namespace: its name. database: where it moves to. phase: closed: what is claimed
can still be reported; leaving: all rows are put into pawl.transit; left: those, too, that transactions have written
which began before; the caller waits for these.
Returns the row of pawl.departure.
Errors: PW009 the namespace is not here; 55006 another move of it; 55000 the move has ended, a table has changed since
rows left it, or see pawl.prepare_departure; 42704 no such database;
22023 unknown kind or phase; 25001 not READ COMMITTED. Privileges: pawl_restore.
Example: SELECT pawl.depart(pawl.uuid_v7(), ''dag'', ''billing'', ''b'', ''closed'')';

CREATE FUNCTION pawl.forget_departed(move uuid, receipt uuid) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    moving pawl.departure;
    forgotten bigint;
BEGIN
    SELECT d.* INTO moving FROM pawl.departure d WHERE d.move = forget_departed.move FOR UPDATE;
    IF moving.phase = 'gone' THEN
        RETURN 0;
    ELSIF moving.phase IS DISTINCT FROM 'left' THEN
        PERFORM pawl.raise('55000', format('move %s is not one that has left', move), NULL,
            'select * from pawl.departure');
    ELSIF NOT EXISTS (SELECT FROM pawl.transit x WHERE x.move = forget_departed.move AND x.ordinal = 0
        AND x.content::jsonb ->> 'receipt' = forget_departed.receipt::text) THEN
        PERFORM pawl.raise('55000', format('this is not the receipt of move %s', move),
            format('Database "%s" has the receipt when it has the rows of namespace "%s"; until then they are kept '
                'here.', moving.database, moving.namespace),
            format('select receipt from pawl.arrival where move = %L, in database "%s"', move, moving.database));
    END IF;
    DELETE FROM pawl.transit x WHERE x.move = forget_departed.move;
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    UPDATE pawl.departure d SET phase = 'gone' WHERE d.move = forget_departed.move;
    RETURN forgotten;
END
$function$;
COMMENT ON FUNCTION pawl.forget_departed(uuid, uuid) IS
'Deletes the rows of a move that the other database has, and returns how many; pawl move calls it. Again, it does
nothing.
move: its id. receipt: of the row of pawl.arrival in the other database, after its transaction has been committed: the
proof that the rows are there.
Errors: 55000 not the receipt, the move has not left, or was cancelled. Privileges: pawl_restore.
Example: SELECT pawl.forget_departed(''01a2080d-be00-78c8-af29-543bc31dc522'',
''6ecd8c99-4036-403d-bf84-cf8400f67836'')';

CREATE FUNCTION pawl.left_for(kind text, key text, OUT database text, OUT connection text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT w.database, w.connection FROM pawl.moved_unit u JOIN pawl.departure d ON d.move = u.move
     CROSS JOIN LATERAL pawl.where_is(d.kind, d.namespace) w
     WHERE u.kind = $1 AND u.key = $2 AND u.departed_at IS NOT NULL AND NOT w.here
$function$;
COMMENT ON FUNCTION pawl.left_for(text, text) IS
'Returns the database that a task, an operation, a job or a flow has moved to, as this one knows it: database and
connection; null: it has not moved from here.
kind: dag, bulk or saga. key: its id. Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT * FROM pawl.left_for(''dag'', ''01a2080d-be00-78c8-af29-543bc31dc522'')';
