-- The event stream. A daemon reads the outbox once for all its listeners, with a consumer of its own; a position is the
-- snapshot of what was read, so a listener that loses its daemon continues at another.

CREATE FUNCTION pawl_api._position(seen pg_snapshot, at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT (extract(epoch FROM at) * 1000)::bigint || '-' || seen::text
$function$;
COMMENT ON FUNCTION pawl_api._position(pg_snapshot, timestamptz) IS 'internal: a place in the stream as text';

-- A consumer that no other daemon has. Those of daemons that are gone are taken over, or dropped: they would keep
-- events that are never read.
CREATE FUNCTION pawl_api._open_feed(OUT consumer text, OUT place text) RETURNS record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    locks constant bigint := 'pawl_api.tokens'::regclass::oid::bigint << 32;
BEGIN
    FOR slot IN 1 .. 64 LOOP
        IF pawl.acquire_session_lock(locks | slot) THEN
            IF consumer IS NULL THEN
                consumer := 'pawl_api:' || slot;
                -- any role can create consumers, also under this name
                DELETE FROM pawl.consumer c WHERE c.consumer = _open_feed.consumer
                    AND (c.owner <> current_user OR c.relations IS NOT NULL);
                IF NOT EXISTS (SELECT FROM pawl.consumer c WHERE c.consumer = _open_feed.consumer) THEN
                    PERFORM pawl.create_consumer(consumer);
                END IF;
            ELSE
                DELETE FROM pawl.consumer c WHERE c.consumer = 'pawl_api:' || slot;
                PERFORM pawl.release_session_lock(locks | slot);
            END IF;
        END IF;
    END LOOP;
    place := (SELECT pawl_api._position(c.seen, clock_timestamp()) FROM pawl.consumer c
        WHERE c.consumer = _open_feed.consumer);
END
$function$;
COMMENT ON FUNCTION pawl_api._open_feed() IS
'internal: the consumer of this daemon and its position; a lock of its session marks it; null: 64 daemons have theirs';

CREATE FUNCTION pawl_api._events_of(consumer text, batch integer, OUT txid text, OUT relation oid, OUT failed boolean,
        OUT event text) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY
        SELECT e.txid::text, e.relation::oid, coalesce('error' = ANY (s.tags), false),
               json_strip_nulls(json_build_object('relation', e.relation::text, 'state_column', e.state_column,
                   'machine', e.machine, 'key', e.key, 'sort_key', e.sort_key,
                   'from_state', e.from_state, 'to_state', e.to_state, 'event', e.event, 'processor', e.processor,
                   'correlation_id', e.correlation_id, 'at', e.at))::text
          FROM pawl.read_events(consumer, batch) e LEFT JOIN pawl.machine_state s ON s.machine = e.machine
              AND s.version = e.machine_version AND s.state = e.to_state;
END
$function$;
COMMENT ON FUNCTION pawl_api._events_of(text, integer) IS 'internal: the next events of a consumer as JSON';

-- The last row has the position instead of an event. Where there is nothing new nothing
-- is written, and no row is returned.
CREATE FUNCTION pawl_api._read_feed(consumer text, batch integer, OUT txid text, OUT relation oid, OUT failed boolean,
        OUT event text, OUT place text) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    c pawl.consumer;
BEGIN
    SELECT x.* INTO c FROM pawl.consumer x WHERE x.consumer = _read_feed.consumer;
    IF c.reading IS NULL AND c.missed = 0
        AND NOT EXISTS (SELECT FROM pawl.outbox_transactions t WHERE t.txid >= pg_snapshot_xmax(c.seen))
        AND NOT EXISTS (SELECT FROM pawl.outbox_transactions t
            WHERE t.txid = ANY (ARRAY(SELECT pg_snapshot_xip(c.seen)))) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT e.txid, e.relation, e.failed, e.event, NULL::text FROM pawl_api._events_of(consumer, batch) e;
    SELECT x.* INTO c FROM pawl.consumer x WHERE x.consumer = _read_feed.consumer;
    place := pawl_api._position(c.seen, clock_timestamp());
    RETURN NEXT;
END
$function$;
COMMENT ON FUNCTION pawl_api._read_feed(text, integer) IS
'internal: the next events for all listeners of a daemon, then the position behind them';

-- For one listener that comes back with a position that the daemon does not remember.
CREATE FUNCTION pawl_api._read_since(place text, batch integer, OUT txid text, OUT relation oid, OUT failed boolean,
        OUT event text, OUT seen text, OUT gap boolean) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    name text := 'pawl_api:resume:' || gen_random_uuid();
    since pg_snapshot;
    now constant pg_snapshot := pg_current_snapshot();
    c pawl.consumer;
BEGIN
    IF place !~ '^[0-9]{1,15}-[0-9]+:[0-9]+:[0-9,]*$' THEN
        PERFORM pawl.raise('22023', 'invalid position');
    END IF;
    since := split_part(place, '-', 2)::pg_snapshot;
    -- a position of another history, of a server that has since been restored or replaced: the listener begins now, and
    -- nothing of what comes is taken for seen
    IF pg_snapshot_xmax(since) > pg_snapshot_xmax(now) THEN
        event := pawl_api._position(now, clock_timestamp());
        seen := '1:1:';
        gap := true;
        RETURN NEXT;
        RETURN;
    END IF;
    INSERT INTO pawl.consumer (consumer, owner, seen) VALUES (name, current_user, since);
    RETURN QUERY SELECT e.txid, e.relation, e.failed, e.event, NULL::text, NULL::boolean
        FROM pawl_api._events_of(name, batch) e;
    SELECT x.* INTO c FROM pawl.consumer x WHERE x.consumer = name;
    DELETE FROM pawl.consumer x WHERE x.consumer = name;
    -- what was not read of the interval is lost to this listener, which is told
    seen := coalesce(c.reading, c.seen)::text;
    gap := c.reading IS NOT NULL
        OR (SELECT s.pruned_at > to_timestamp(split_part(place, '-', 1)::double precision / 1000)
            FROM pawl.outbox_slot s);
    RETURN NEXT;
END
$function$;
COMMENT ON FUNCTION pawl_api._read_since(text, integer) IS
'internal: the events after a position, then what was seen and whether events may be missing; after a position of
another history a new one instead of events; 22023: an invalid position';

CREATE FUNCTION pawl_api._visible_events(role name) RETURNS oid[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(array_agg(DISTINCT b.relation::oid ORDER BY b.relation::oid), '{}') FROM pawl.binding b
        JOIN pg_roles r ON r.rolname = role WHERE b.events AND pawl.may_read_events(b.relation, r.oid)
$function$;
COMMENT ON FUNCTION pawl_api._visible_events(name) IS 'internal: the tables whose events a role may see';

CREATE FUNCTION pawl_api._listen(kind text, digest bytea, relations text, OUT role name, OUT visible oid[])
    RETURNS record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    unknown text;
BEGIN
    _listen.role := pawl_api._login(kind, digest, 'read');
    visible := pawl_api._visible_events(_listen.role);
    IF relations IS NOT NULL THEN
        SELECT r INTO unknown FROM unnest(string_to_array(relations, ',')) r
            WHERE to_regclass(r) IS NULL OR to_regclass(r)::oid <> ALL (visible) LIMIT 1;
        IF FOUND THEN
            PERFORM pawl.raise('42704', format('no events of "%s" can be read', unknown),
                'The table has no events, or the role lacks SELECT on it, or row-level security applies to the role.');
        END IF;
        visible := ARRAY(SELECT to_regclass(r)::oid FROM unnest(string_to_array(relations, ',')) r ORDER BY 1);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_api._listen(text, bytea, text) IS
'internal: the tables whose events a listener gets; 28000, 42501: the token; 42704: a table that has none for it';
