-- The outbox, its consumers and pauses in pawl.health and pawl.verify.

-- The events of log entries, for roles that may see the events of their tables.
CREATE VIEW pawl._events WITH (security_barrier = true) AS
    SELECT o.relation, o.state_column, o.txid, o.n, o.log_id, o.sort_key, o.key, o.from_state, o.to_state, o.at
      FROM (SELECT e.relation, e.state_column, e.txid, e.n, e.log_id, e.sort_key, e.key, e.from_state, e.to_state, e.at
          FROM pawl.outbox_1 e
            UNION ALL SELECT e.relation, e.state_column, e.txid, e.n, e.log_id, e.sort_key, e.key, e.from_state,
                e.to_state, e.at FROM pawl.outbox_2 e
            UNION ALL SELECT e.relation, e.state_column, e.txid, e.n, e.log_id, e.sort_key, e.key, e.from_state,
                e.to_state, e.at FROM pawl.outbox_3 e) o
     WHERE o.relation OPERATOR(pg_catalog.=) ANY (ARRAY(
           SELECT b.relation FROM pawl.binding b
            WHERE b.events AND pawl.may_read_events(b.relation,
                (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user))));
COMMENT ON VIEW pawl._events IS 'internal: the events in the outbox of tables that you may read';

-- Events are written with their log entries and never later, so both must agree: for entries younger than the last
-- pruning, which may have removed events of older ones, and than the binding itself. A full join, because the planner
-- cannot run it row by row, whatever it expects of the outbox.
CREATE FUNCTION pawl._verify_events(bound pawl.binding)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    since timestamptz := greatest(coalesce(bound.events_since, bound.enforced_at), pawl._events_pruned_at());
    cut timestamptz := coalesce((SELECT p.horizon FROM pawl.pruned_log p WHERE p.log = bound.history), '-infinity');
    -- null unless rows of the table have come from another database, or moved to one
    kind text := (SELECT p.kind FROM pawl.placed_table p WHERE p.relation = bound.relation AND p.role <> 'shared'
        AND EXISTS (SELECT FROM pawl.moved_unit m WHERE m.kind = p.kind) LIMIT 1);
    reader oid := (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user);
    truncated boolean;
BEGIN
    IF bound.history IS NULL OR NOT pawl.may_read_events(bound.relation, reader) THEN
        RETURN;
    END IF;
    FOR relation, state_column, key, problem, detail IN EXECUTE $query$
        SELECT $1, $2, k.key, p.problem, format('sort_key %s: ', coalesce(l.sort_key, e.sort_key)) || p.detail
          FROM (SELECT x.* FROM pawl._events x WHERE x.relation = $1 AND x.state_column = $2 AND x.at > $3) e
          FULL JOIN pawl.read_as_owner($1, $2, 'log') l(id uuid, key text, sort_key integer, from_state text,
              to_state text, event text, created_at timestamptz)
                 ON l.id = e.log_id
          CROSS JOIN LATERAL (SELECT CASE WHEN l.id IS NULL THEN array_to_string(e.key, ', ') ELSE l.key END AS key) k
          CROSS JOIN LATERAL (VALUES
               ('event_missing', e.txid IS NULL AND l.created_at > $5 AND NOT $6
                   AND l.event IS DISTINCT FROM 'pawl.attach'
                   AND NOT ($7 IS NOT NULL AND EXISTS (SELECT FROM pawl.moved_unit m WHERE m.kind = $7
                       AND m.key = split_part(ltrim(l.key, '('), ', ', 1) AND m.arrived_at >= l.created_at)),
                'the outbox has no event of this entry'),
               ('event_unfounded', l.id IS NULL AND e.at >= $4
                   AND NOT ($7 IS NOT NULL AND EXISTS (SELECT FROM pawl.moved_unit m WHERE m.kind = $7
                       AND m.key = e.key[1] AND m.departed_at >= e.at)),
                'the outbox has an event that is not in the log'),
               ('event_differs', e.log_id = l.id AND (e.sort_key IS DISTINCT FROM l.sort_key
                   OR e.from_state COLLATE "C" IS DISTINCT FROM l.from_state COLLATE "C"
                   OR e.to_state COLLATE "C" IS DISTINCT FROM l.to_state COLLATE "C"),
                format('the event says %s to %s, number %s', coalesce(quote_ident(e.from_state), 'nothing'),
                    coalesce(quote_ident(e.to_state), 'nothing'), e.sort_key))
               ) p(problem, holds, detail)
         WHERE p.holds ORDER BY k.key COLLATE "C", coalesce(l.sort_key, e.sort_key), p.problem$query$
        USING bound.relation, bound.state_column, bound.enforced_at, cut, since,
              -- that log was written elsewhere
              EXISTS (SELECT FROM pg_subscription_rel s WHERE s.srrelid = bound.history), kind
    LOOP
        -- TRUNCATE ignores snapshots: events that were pruned after this snapshot was taken are gone, and it does not
        -- show the time of the pruning
        IF problem = 'event_missing' THEN
            truncated := coalesce(truncated, EXISTS (SELECT FROM pg_class c
                WHERE c.oid IN ('pawl.outbox_1'::regclass, 'pawl.outbox_2'::regclass, 'pawl.outbox_3'::regclass)
                                                        AND c.relfilenode <> pg_relation_filenode(c.oid)));
            CONTINUE WHEN truncated;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._verify_events(pawl.binding) IS 'internal: events that do not agree with their log';

CREATE FUNCTION pawl._events_pruned_at() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT s.pruned_at FROM pawl.outbox_slot s
$function$;
COMMENT ON FUNCTION pawl._events_pruned_at() IS 'internal: when events were last taken out of the outbox';

-- Every event has its transaction in the table of the same number, or no consumer would read it. The current
-- transaction gets its place when it commits.
CREATE FUNCTION pawl._verify_outbox()
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    now_seen pg_snapshot := pawl._snapshot();
BEGIN
    FOR slot IN 1 .. 3 LOOP
        RETURN QUERY EXECUTE format($query$
            SELECT NULL::regclass, NULL::name, format('transaction %%s', txid), 'outbox_differs',
                   CASE WHEN t.events IS NULL
                       THEN format('%%s events have no position in the order of commits and cannot be read', e.events)
                        ELSE format('pawl.outbox_%1$s has %%s of its %%s events', coalesce(e.events, 0), t.events) END
              FROM (SELECT o.txid, count(*) AS events FROM pawl.outbox_%1$s o GROUP BY o.txid) e
              FULL JOIN (SELECT c.txid, sum(c.events) AS events FROM pawl.outbox_commit_%1$s c GROUP BY c.txid) t
              USING (txid)
             WHERE e.events IS DISTINCT FROM t.events AND pg_visible_in_snapshot(txid, $1) ORDER BY txid$query$, slot)
            USING now_seen;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._verify_outbox() IS 'internal: transactions whose events and places do not agree';

-- The outbox as a whole. A reader that has read nothing for a day is gone rather than slow.
CREATE FUNCTION pawl._health_outbox()
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 5
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    large constant bigint := 256 * 1024 * 1024;  -- bytes
    slow constant interval := '1 hour';
    bytes bigint := (SELECT sum(pg_total_relation_size(format('pawl.outbox_%s', n)::regclass))
        FROM generate_series(1, 3) n);
    tables bigint := (SELECT count(DISTINCT b.relation) FROM pawl.binding b WHERE b.events);
    reader record;
    dead regclass[];
BEGIN
    IF tables > 0 OR bytes > large THEN
        RETURN QUERY SELECT 'outbox', CASE WHEN bytes > large THEN 'warning' ELSE 'ok' END,
            CASE WHEN bytes > large
                THEN format('it has grown to %s, and was last emptied %s', pg_size_pretty(bytes),
                    pawl._events_pruned_at()) END,
            CASE WHEN bytes > large
                THEN 'select * from pawl.consumers order by behind desc; select pawl.prune_events()' END;
    END IF;
    FOR reader IN SELECT c.* FROM pawl.consumers c ORDER BY c.consumer LOOP
        SELECT array_agg(r) INTO dead FROM unnest(reader.relations) r
         WHERE NOT EXISTS (SELECT FROM pawl.binding b WHERE b.relation = r AND b.events);
        check_name := 'consumer';
        status := 'warning';
        hint := format('select pawl.drop_consumer(%L)', reader.consumer);
        IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = reader.owner) THEN
            detail := format('consumer "%s" belongs to role "%s", which does not exist', reader.consumer, reader.owner);
        ELSIF cardinality(dead) = cardinality(reader.relations) THEN
            detail := format('consumer "%s" reads only tables without events: %s', reader.consumer,
                pawl._short_list(dead::text[]));
        ELSIF reader.age > slow OR reader.and_more THEN
            detail := format('consumer "%s" is %s%s events and %s behind', reader.consumer,
                CASE WHEN reader.and_more THEN 'more than ' END, reader.behind, date_trunc('second', reader.age));
            hint := format('select * from pawl.read_events(%L); if it is not needed: select pawl.drop_consumer(%1$L)',
                reader.consumer);
        ELSIF reader.missed > 0 THEN
            detail := format('consumer "%s" has lost %s events to retention, which it has not read yet',
                reader.consumer, reader.missed);
            hint := format('select * from pawl.read_events(%L)', reader.consumer);
        ELSE
            status := 'ok';
            detail := NULL;
            hint := NULL;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._health_outbox() IS 'internal: the health of the outbox and of the consumers that you may see';

CREATE FUNCTION pawl._health_pauses(bound pawl.binding)
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT 'paused', 'info', format('%s paused since %s by %s%s%s',
        coalesce('queue "' || p.queue || '" is', 'all claims are'), p.paused_at, p.paused_by,
                                    ', until ' || p.until, ': ' || p.reason),
           format('select pawl.resume(%L%s, state_column => %L)', p.relation, ', ' || quote_literal(p.queue),
               p.state_column)
      FROM pawl.paused p
     WHERE p.relation = bound.relation AND p.state_column = bound.state_column
         AND (p.until IS NULL OR p.until > clock_timestamp())
     ORDER BY p.queue NULLS FIRST
$function$;
COMMENT ON FUNCTION pawl._health_pauses(pawl.binding) IS 'internal: the pauses of a binding';

-- Rows of pawl's tables that name objects that no longer exist, left by a partial restore or by hand.
CREATE FUNCTION pawl._health_orphans()
RETURNS TABLE (relation regclass, state_column name, check_name text, status text, detail text, hint text)
LANGUAGE sql STABLE PARALLEL RESTRICTED STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT p.relation, p.state_column, 'paused', 'warning', 'claims are paused where no machine is enforced',
           format('delete from pawl.paused where relation = %s and state_column = %L', p.relation::oid, p.state_column)
      FROM pawl.paused p
      WHERE NOT EXISTS (SELECT FROM pawl.binding b WHERE b.relation = p.relation AND b.state_column = p.state_column)
     GROUP BY p.relation, p.state_column
    UNION ALL
    SELECT l.log, NULL, 'orphaned_logs', 'info',
    'no binding writes this log: its table was released, or has another log',
           format('enforce the machine and select pawl.enable_log(..., log_name => %L), which continues it; or drop it',
                  pawl._log_called_by(l.log))
      FROM pawl._orphaned_logs() l(log)
$function$;
COMMENT ON FUNCTION pawl._health_orphans() IS 'internal: pauses and logs that no binding stands behind';
