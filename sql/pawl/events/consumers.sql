-- Reads and empties the outbox.

CREATE FUNCTION pawl._snapshot() RETURNS pg_snapshot
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_snapshot';
COMMENT ON FUNCTION pawl._snapshot() IS
'internal: the transactions that are visible now, by the numbers of the outbox; not the transaction that asks';

CREATE FUNCTION pawl.read_events(consumer text, batch integer DEFAULT 1000)
RETURNS TABLE (txid xid8, relation regclass, state_column text, machine text, machine_version integer, key text[],
    sort_key integer,
    from_state text, to_state text, event text, processor text, actor text, correlation_id text, metadata jsonb,
    at timestamptz, log_id uuid)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 1000 AS 'MODULE_PATHNAME', 'pawl_read_events';
COMMENT ON FUNCTION pawl.read_events(text, integer) IS
'Returns the next events of a consumer in the order of commits, without gaps. The position of the consumer is part
of the transaction: after a rollback the events are returned again.
consumer: its name. batch: how many at most, 1 to 100000; default 1000.
Returns txid, relation, state_column, machine, machine_version, key, sort_key, from_state, to_state, event,
processor, actor, correlation_id, metadata, at (the time of the state change) and log_id (the id of the log entry).
No rows: no events are left. An event pawl.gap with a null relation reports once, in its metadata, how many events
retention removed unread.
Errors: PW008 unknown consumer; 42501 another role owns it, or you cannot read one of its tables; 40001 another
session read meanwhile; 22023 batch out of range; 22004 null.
Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader that own the consumer.
Example: SELECT key, to_state FROM pawl.read_events(''mailer'', 100)';

CREATE FUNCTION pawl.create_consumer(consumer text, start text DEFAULT 'now', relations regclass[] DEFAULT NULL)
    RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_create_consumer';
COMMENT ON FUNCTION pawl.create_consumer(text, text, regclass[]) IS
'Creates a consumer of the outbox that the current role owns.
consumer: a new name. start: now (default): what is committed from now on; beginning: also what the outbox still
has. relations: the enforced tables whose events it reads; null (default): all that the role can read.
Errors: 42710 the name exists; 42501 a table cannot be read; 55000 a table has no events; 42704 no machine is
enforced on a table; 22023 unknown start, empty name or list, or a name of more than 1000 bytes; 22004 null.
Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl.create_consumer(''mailer'', relations => ''{orders}'')';

CREATE FUNCTION pawl.drop_consumer(consumer text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_drop_consumer';
COMMENT ON FUNCTION pawl.drop_consumer(text) IS
'Drops a consumer. consumer: its name.
Errors: PW008 unknown consumer; 42501 another role owns it; 22004 null.
Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader that own the consumer; pawl_operator and pawl_admin
any consumer.
Example: SELECT pawl.drop_consumer(''mailer'')';

-- Locks and returns a consumer, if the caller may act for it.
CREATE FUNCTION pawl._lock_consumer(name text, reader oid, for_operators boolean) RETURNS pawl.consumer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one pawl.consumer;
BEGIN
    IF name IS NULL THEN
        PERFORM pawl.raise('22004', 'consumer must not be null');
    END IF;
    SELECT c.* INTO found_one FROM pawl.consumer c WHERE c.consumer = name FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('PW008', format('unknown consumer "%s"', name), NULL,
            format('select pawl.create_consumer(%L)', name));
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles r
                    WHERE (r.rolname = found_one.owner OR for_operators AND r.rolname = 'pawl_operator')
            AND pg_has_role(reader, r.oid, 'MEMBER')) THEN
        PERFORM pawl.raise('42501', format('consumer "%s" belongs to another role', name),
            format('It belongs to %s.', found_one.owner),
            format('grant %I to %I', found_one.owner, (SELECT r.rolname FROM pg_roles r WHERE r.oid = reader)));
    END IF;
    RETURN found_one;
END
$function$;
COMMENT ON FUNCTION pawl._lock_consumer(text, oid, boolean) IS
'internal: a consumer, locked; PW008 there is none, 42501 it is another role''s';

-- A dropped table needs no privilege, because the role that named it had one. A consumer sees no events of a table
-- whose rows row-level security hides from it.
CREATE FUNCTION pawl._check_readable(relations regclass[], reader oid) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    closed regclass;
BEGIN
    SELECT c.oid INTO closed FROM pg_class c
     WHERE c.oid = ANY (relations) AND NOT pawl.may_read_events(c.oid, reader) ORDER BY c.oid LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('42501', format('permission denied for the events of table %s', closed),
            'Reading events requires SELECT on the table, and that row-level security does not apply to the role.',
            format('grant select on %s to %I', closed, (SELECT r.rolname FROM pg_roles r WHERE r.oid = reader)));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_readable(regclass[], oid) IS
'internal: rejects tables whose events a role cannot read (42501)';

CREATE FUNCTION pawl.may_read_events(relation oid, reader oid) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_shows_events';
COMMENT ON FUNCTION pawl.may_read_events(oid, oid) IS
'Returns whether a role can read the events of a table: it has SELECT on the table or its log, and no policy hides
rows.
relation, reader: OIDs of the table and the role. Errors: none. Privileges: all roles.
Example: SELECT pawl.may_read_events(''orders''::regclass, ''pawl_reader''::regrole)';

CREATE FUNCTION pawl._create_consumer(name text, start text, relations regclass[], reader oid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wanted regclass;
    roots regclass[];
    root regclass;
BEGIN
    IF name IS NULL OR start IS NULL THEN
        PERFORM pawl.raise('22004',
            format('%s must not be null', CASE WHEN name IS NULL THEN 'consumer' ELSE 'start' END));
    END IF;
    IF name = '' THEN
        PERFORM pawl.raise('22023', 'consumer must not be empty');
    ELSIF octet_length(name) > 1000 THEN
        PERFORM pawl.raise('22023', 'consumer must have at most 1000 bytes',
            format('It has %s.', octet_length(name)), 'consumer => ''mailer''');
    END IF;
    IF start NOT IN ('now', 'beginning') THEN
        PERFORM pawl.raise('22023', format('unknown value "%s" for start', start), NULL, 'now or beginning');
    END IF;
    IF array_ndims(relations) > 1 OR array_position(relations, NULL) IS NOT NULL OR relations = '{}' THEN
        PERFORM pawl.raise('22023', 'relations must be a list of tables', NULL, 'array[''orders'']::regclass[]');
    END IF;
    FOREACH wanted IN ARRAY coalesce(relations, '{}') LOOP
        SELECT b.relation INTO root FROM pawl.binding b
         WHERE b.relation IN (SELECT a FROM pawl._ancestors(wanted) a) AND b.events LIMIT 1;
        IF NOT FOUND THEN
            IF NOT EXISTS (SELECT FROM pawl.binding b
                WHERE b.relation IN (SELECT a FROM pawl._ancestors(wanted) a)) THEN
                PERFORM pawl.raise('42704', format('no machine is enforced on table %s', wanted), NULL,
                    format('select pawl.enforce(%L, state_column, machine); select pawl.enable_events(%L)', wanted,
                        wanted));
            END IF;
            PERFORM pawl.raise('55000', format('table %s has no events', wanted), NULL,
                format('select pawl.enable_events(%L)', wanted));
        END IF;
        roots := roots || root;
    END LOOP;
    PERFORM pawl._check_readable(roots, reader);
    -- nothing is pruned until this transaction ends: a session that prunes does not see the new consumer before
    PERFORM FROM pawl.outbox_slot FOR KEY SHARE;
    INSERT INTO pawl.consumer (consumer, owner, relations, seen)
    VALUES (name, (SELECT r.rolname FROM pg_roles r WHERE r.oid = reader), roots,
            CASE start WHEN 'now' THEN pawl._snapshot() ELSE '1:1:' END);
EXCEPTION WHEN unique_violation THEN
    PERFORM pawl.raise('42710', format('consumer "%s" already exists', name), NULL,
        format('select pawl.drop_consumer(%L)', name));
END
$function$;
COMMENT ON FUNCTION pawl._create_consumer(text, text, regclass[], oid) IS
'internal: pawl.create_consumer with the rights of the extension''s owner';

-- Whether all consumers have read a transaction. One between `seen` and `reading` counts as not read.
CREATE FUNCTION pawl._unread(seen pg_snapshot, slot integer) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT EXISTS (SELECT FROM pawl.outbox_transactions c
                    WHERE c.slot = _unread.slot
                      AND (c.txid >= pg_snapshot_xmax(_unread.seen)
                          OR c.txid = ANY (ARRAY(SELECT pg_snapshot_xip(_unread.seen)))))
$function$;
COMMENT ON FUNCTION pawl._unread(pg_snapshot, integer) IS
'internal: whether a table of the outbox has transactions that are not visible in a snapshot';

-- Notes with each consumer how many unread events are about to be removed (of these transactions; null: of all), so
-- that it gets a gap event once. The caller has locked the consumers' rows.
CREATE FUNCTION pawl._note_missed(slot integer, gone xid8[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    reader pawl.consumer;
    lost bigint;
    latest timestamptz;
BEGIN
    FOR reader IN SELECT c.* FROM pawl.consumer c ORDER BY c.consumer LOOP
        EXECUTE format($query$
            SELECT count(*), max(t.at) FROM pawl.outbox_commit_%1$s t JOIN pawl.outbox_%1$s e ON e.txid = t.txid
             WHERE (t.txid >= pg_snapshot_xmax($1) OR t.txid = ANY (ARRAY(SELECT pg_snapshot_xip($1))))
               AND ($2 IS NULL OR NOT pg_visible_in_snapshot(t.txid, $2) OR (t.place, t.txid, e.n) > ($3, $4, $5))
               AND ($6 IS NULL OR t.txid = ANY ($6)) AND ($7 IS NULL OR e.relation = ANY ($7))$query$, slot)
           INTO lost, latest
           USING reader.seen, reader.reading, reader.place, reader.place_txid, reader.place_n, gone, reader.relations;
        IF lost > 0 THEN
            UPDATE pawl.consumer c SET missed = c.missed + lost, missed_until = greatest(c.missed_until, latest)
             WHERE c.consumer = reader.consumer;
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._note_missed(integer, xid8[]) IS
'internal: notes what consumers lose when a table of the outbox is emptied';

-- Truncates a table of the outbox if no consumer needs it, and returns how many events it had. Locks are taken in the
-- order in which readers take them: consumers, then events, then transactions. It does not wait long for other
-- sessions.
CREATE FUNCTION pawl._truncate_slot(slot integer, before timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '200ms'
AS $function$
DECLARE
    wanted boolean := EXISTS (SELECT FROM pawl.consumer c WHERE pawl._unread(c.seen, slot));
    removed bigint;
    newest timestamptz;
BEGIN
    IF wanted THEN
        SELECT c.at INTO newest FROM pawl.outbox_transactions c WHERE c.slot = _truncate_slot.slot
            ORDER BY c.place DESC LIMIT 1;
        IF before IS NULL OR newest >= before THEN
            RETURN 0;
        END IF;
        PERFORM FROM pawl.consumer c ORDER BY c.consumer FOR UPDATE;
    END IF;
    EXECUTE format('LOCK TABLE pawl.outbox_%1$s, pawl.outbox_commit_%1$s IN ACCESS EXCLUSIVE MODE', slot);
    -- all transactions that wrote here have ended: look again
    EXECUTE format('SELECT coalesce(sum(t.events), 0), max(t.at) FROM pawl.outbox_commit_%s t', slot)
        INTO removed, newest;
    IF EXISTS (SELECT FROM pawl.consumer c WHERE pawl._unread(c.seen, slot)) THEN
        IF NOT wanted OR newest >= before THEN
            RETURN 0;
        END IF;
        PERFORM pawl._note_missed(slot, NULL);
    END IF;
    EXECUTE format('TRUNCATE pawl.outbox_%1$s, pawl.outbox_commit_%1$s', slot);
    RETURN removed;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;  -- the next call tries again
END
$function$;
COMMENT ON FUNCTION pawl._truncate_slot(integer, timestamptz) IS
'internal: empties a table of the outbox that no consumer needs';

-- Does the same by DELETE for the current table while it is small. What to remove is decided first, because a prepared
-- transaction may commit meanwhile.
CREATE FUNCTION pawl._trim_slot(slot integer, before timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '200ms'
AS $function$
DECLARE
    gone xid8[];
    removed bigint;
BEGIN
    IF before IS NOT NULL AND EXISTS (SELECT FROM pawl.consumer c WHERE pawl._unread(c.seen, slot)) THEN
        PERFORM FROM pawl.consumer c ORDER BY c.consumer FOR UPDATE;
    ELSE
        before := NULL;
    END IF;
    SELECT coalesce(array_agg(t.txid), '{}') INTO gone FROM pawl.outbox_transactions t
     WHERE t.slot = _trim_slot.slot
       AND (t.at < before OR NOT EXISTS (SELECT FROM pawl.consumer c WHERE NOT pg_visible_in_snapshot(t.txid, c.seen)));
    IF before IS NOT NULL THEN
        PERFORM pawl._note_missed(slot, gone);
    END IF;
    EXECUTE format('DELETE FROM pawl.outbox_commit_%s t WHERE t.txid = ANY ($1)', slot) USING gone;
    EXECUTE format('DELETE FROM pawl.outbox_%s e WHERE e.txid = ANY ($1)', slot) USING gone;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$function$;
COMMENT ON FUNCTION pawl._trim_slot(integer, timestamptz) IS
'internal: deletes what no consumer needs from a small table of the outbox';

CREATE FUNCTION pawl._slot_size(slot integer) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT pg_relation_size(format('pawl.outbox_%s', slot)::regclass)
        + pg_relation_size(format('pawl.outbox_commit_%s', slot)::regclass)
$function$;
COMMENT ON FUNCTION pawl._slot_size(integer) IS 'internal: the bytes of a table of the outbox, 0 once it is truncated';

CREATE FUNCTION pawl.prune_events(older_than interval DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    small constant bigint := 1024 * 1024;  -- bytes: a smaller table is emptied by DELETE
    before timestamptz := clock_timestamp() - pawl._check_age(older_than, 'older_than');
    writing integer;
    next integer;
    slot integer;
    removed bigint := 0;
BEGIN
    PERFORM pawl._check_isolation('pawl.prune_events');
    SELECT s.current INTO writing FROM pawl.outbox_slot s FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;  -- another session prunes, or creates a consumer
    END IF;
    next := writing % 3 + 1;
    FOREACH slot IN ARRAY ARRAY[next, next % 3 + 1] LOOP
        IF pawl._slot_size(slot) > 0 THEN
            removed := removed + pawl._truncate_slot(slot, before);
        END IF;
    END LOOP;
    IF pawl._slot_size(writing) <= small THEN
        removed := removed + pawl._trim_slot(writing, before);
    ELSIF pawl._slot_size(next) = 0 THEN
        UPDATE pawl.outbox_slot SET current = next;
    END IF;
    IF removed > 0 THEN
        UPDATE pawl.outbox_slot SET pruned_at = clock_timestamp();
    END IF;
    RETURN removed;
END
$function$;
COMMENT ON FUNCTION pawl.prune_events(interval) IS
'Removes events from the outbox that all consumers have read, and returns how many. Returns 0 while another session
prunes.
older_than: null (default): only read events; an interval: also unread events of that age, which their consumers are
told of once.
Errors: 22023 older_than is not from 0 to 1000 years; 25001 not READ COMMITTED. Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl.prune_events(''30 days'')';
