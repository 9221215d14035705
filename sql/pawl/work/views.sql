-- The work of a table: pawl.queue_depth, pawl.owners, pawl.timers. They read the tables by their work indexes and count
-- up to a limit. Tables that the caller may not read are left out; the others are read as their owners, unless
-- row-level security applies to the caller.

-- How many rows of a queue, of an owner, or with a due time are counted; more are reported as "at least".
CREATE FUNCTION pawl._count_cap() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE SECURITY INVOKER
RETURN 10000;
COMMENT ON FUNCTION pawl._count_cap() IS 'internal: the views on work count no further than this';

-- The bindings whose table and managed columns exist and may be read.
CREATE FUNCTION pawl._may_count(bound pawl.binding) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT has_schema_privilege(c.relnamespace, 'USAGE')
           AND (has_table_privilege(c.oid, 'SELECT')
                OR (SELECT bool_and(has_column_privilege(c.oid, a.attnum, 'SELECT'))
                      FROM unnest(bound.state_column || bound.key_columns || pawl._managed_columns(bound)) u(name)
                      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = u.name AND NOT a.attisdropped))
      FROM pg_class c WHERE c.oid = bound.relation
$function$;
COMMENT ON FUNCTION pawl._may_count(pawl.binding) IS
'internal: whether the current user may read what the views on work read of a table';

-- Policies are code of a table's owner, and run as the role that reads. Lists that name no table leave out a table
-- whose owner would gain rights by that.
CREATE FUNCTION pawl.policies_are_safe(relation regclass) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT NOT row_security_active(c.oid) OR pg_has_role(c.relowner, current_user, 'USAGE') FROM pg_class c
        WHERE c.oid = relation
$function$;
COMMENT ON FUNCTION pawl.policies_are_safe(regclass) IS
'Whether reading a table runs no row-level security policy with rights that its owner lacks: no policy applies to the
current user, or the owner has the rights of the current user. relation: the table. Errors: none. Privileges: all
roles. Example: SELECT pawl.policies_are_safe(''orders'')';

CREATE FUNCTION pawl._readable_bindings(view_name text) RETURNS SETOF pawl.binding
LANGUAGE sql STABLE PARALLEL UNSAFE SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT b.* FROM pawl.binding b JOIN pg_class c ON c.oid = b.relation
     WHERE c.relkind IN ('r', 'p')
       AND CASE view_name WHEN 'queue_depth' THEN b.claim_events <> '{}' WHEN 'owners' THEN b.owner_column IS NOT NULL
                          WHEN 'timers' THEN b.due_column IS NOT NULL END
       AND (SELECT p.message IS NULL FROM pawl._work_column_problem(b) p)
       AND pawl._may_count(b)
       AND pawl.policies_are_safe(b.relation)
       AND pawl._binding_problem(b.relation, b.state_column) IS NULL  -- pawl.health tells
     ORDER BY b.relation::text COLLATE "C", b.state_column
$function$;
COMMENT ON FUNCTION pawl._readable_bindings(text) IS
'internal: the bindings that queue_depth, owners or timers has rows of, and whose tables the current user may read';

-- A query of the distinct values of a column that leads an index: one probe a value. Its last row is null.
CREATE FUNCTION pawl._distinct_query(relation regclass, column_name name, condition text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('WITH RECURSIVE d(value) AS ((SELECT t.%1$I FROM %2$s t WHERE %3$s ORDER BY t.%1$I LIMIT 1) '
                  'UNION ALL SELECT (SELECT t.%1$I FROM %2$s t WHERE %3$s AND pawl._above(t.%1$I, d.value) ORDER BY '
                  't.%1$I LIMIT 1) FROM d WHERE d.value IS NOT NULL) '
                  'SELECT d.value FROM d', column_name, relation, condition)
$function$;
COMMENT ON FUNCTION pawl._distinct_query(regclass, name, text) IS
'internal: a query that finds the values of a column by skipping through its index';

-- A query of the rows of one queue that may be claimed: how many, counted up to the limit in claim order, and since
-- when they wait. That is the oldest time of a column of the claim order; else, from a log that may be read, the time
-- when the next row entered its state; else null. The condition on the queue comes between first_part and last_part.
CREATE FUNCTION pawl._claimable_query(bound pawl.binding, OUT condition text, OUT first_part text, OUT last_part text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    claim_order text;
    time_column name;
    since text := 'NULL::timestamptz';
BEGIN
    SELECT w.condition, (SELECT string_agg(format('t.%I%s', u.name, CASE WHEN u.is_descending THEN ' DESC' ELSE '' END),
               ', ' ORDER BY u.n) FROM unnest(w.columns, w.descending) WITH ORDINALITY u(name, is_descending, n))
      INTO condition, claim_order FROM pawl._work_indexes(bound) w WHERE w.kind = 'claim';
    SELECT u.name INTO time_column FROM unnest(bound.claim_columns) WITH ORDINALITY u(name, n)
      JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = u.name
     WHERE a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype) ORDER BY u.n LIMIT 1;
    IF FOUND THEN
        since := format('(SELECT min(c.%I)::timestamptz FROM c)', time_column);
    ELSIF has_table_privilege(bound.history, 'SELECT') AND NOT row_security_active(bound.history)
        AND pawl._same_owner(bound.relation, bound.history) THEN
        since := format(
            '(SELECT l.created_at FROM (SELECT c.* FROM c LIMIT 1) r JOIN %s l ON %s ORDER BY l.sort_key DESC LIMIT 1)',
                        bound.history,
                        pawl._same_key('l', bound.log_key_columns, 'r', bound.key_columns, bound.history));
    END IF;
    first_part := format('(WITH c AS MATERIALIZED (SELECT %s FROM %s t WHERE %s',
        coalesce('t.' || quote_ident(time_column), pawl._columns('t.', bound.key_columns)), bound.relation, condition);
    last_part := format(' ORDER BY %s LIMIT %s) SELECT (SELECT count(*) FROM c), %s) c(n, since)', claim_order,
        pawl._count_cap(), since);
END
$function$;
COMMENT ON FUNCTION pawl._claimable_query(pawl.binding) IS
'internal: a query that counts the claimable rows of a queue and says since when they wait';

CREATE FUNCTION pawl._claimable_statement(bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    query constant record := pawl._claimable_query(bound);
BEGIN
    IF bound.queue_column IS NULL THEN
        RETURN 'SELECT NULL::text, c.* FROM ' || query.first_part || query.last_part;
    END IF;
    RETURN format('SELECT pawl.value_text(q.value), c.* FROM (%s) q CROSS JOIN LATERAL %s WHERE q.value '
        'IS NOT NULL UNION ALL SELECT NULL, c.* FROM %s',
        pawl._distinct_query(bound.relation, bound.queue_column, query.condition),
        query.first_part || format(' AND pawl.same_value(t.%I, q.value)', bound.queue_column) || query.last_part,
        query.first_part || format(' AND t.%I IS NULL', bound.queue_column) || query.last_part);
END
$function$;
COMMENT ON FUNCTION pawl._claimable_statement(pawl.binding) IS
'internal: a query of the claimable rows of a binding, queue by queue';

-- Counts owned rows, and rows that only their due time keeps from being claimed, by queue. Neither index contains the
-- queue, so one limit holds for all queues together.
CREATE FUNCTION pawl._other_rows_statement(bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    queue_text text := CASE WHEN bound.queue_column IS NULL THEN 'NULL::text'
        ELSE format('pawl.value_text(t.%I)', bound.queue_column) END;
    claimable text := pawl._state_among(bound.relation, bound.state_column,
        pawl._claimable_states(bound.machine, bound.version, bound.claim_events));
    owned_order text := concat_ws(', ', quote_ident(bound.owner_column), quote_ident(bound.lease_column));
    parts text[] := ARRAY[format('(SELECT %s, 0, 1 FROM %s t WHERE %I IS NOT NULL ORDER BY %s LIMIT %s)',
                                 queue_text, bound.relation, bound.owner_column, owned_order, pawl._count_cap())];
BEGIN
    IF bound.due_column IS NOT NULL THEN
        parts := parts || format('(SELECT %s, CASE WHEN %s THEN 1 ELSE 0 END, 0 FROM %s t WHERE %I IS NOT NULL ORDER '
            'BY %s LIMIT %s)',
                                 queue_text, claimable, bound.relation, bound.due_column,
                                 pawl._columns('t.', bound.due_column || bound.key_columns),
                                 pawl._count_cap());
    END IF;
    RETURN format('SELECT o.queue, sum(o.due)::bigint, sum(o.owned)::bigint, bool_or(o.n >= %s) '
        'FROM (SELECT p.queue, sum(p.due) AS due, sum(p.owned) AS owned, sum(count(*)) OVER (PARTITION BY p.part) AS n '
        'FROM (%s) p(part, queue, due, owned) GROUP BY p.part, p.queue) o GROUP BY o.queue',
        pawl._count_cap(), (SELECT string_agg(format('SELECT %s, x.* FROM %s x', n, part), ' UNION ALL ')
            FROM unnest(parts) WITH ORDINALITY u(part, n)));
END
$function$;
COMMENT ON FUNCTION pawl._other_rows_statement(pawl.binding) IS
'internal: a query of the owned rows of a binding and those that are due later, queue by queue';

CREATE FUNCTION pawl._queue_depth()
RETURNS TABLE (relation regclass, state_column name, queue text, claimable bigint, due_later bigint, owned bigint,
    at_least boolean, oldest interval, is_paused boolean)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $function$
DECLARE
    bound pawl.binding;
BEGIN
    FOR bound IN SELECT b.* FROM pawl._readable_bindings('queue_depth') b LOOP
        RETURN QUERY
            WITH other AS MATERIALIZED (
                SELECT * FROM pawl.read_as_owner(bound.relation, bound.state_column, 'other') o(queue text,
                    due_later bigint, owned bigint, is_capped boolean)),
            resting AS MATERIALIZED (
                SELECT p.queue FROM pawl.paused p
                WHERE p.relation = bound.relation AND p.state_column = bound.state_column
                   AND (p.until IS NULL OR p.until > clock_timestamp())),
            counted AS (
                SELECT q.queue, coalesce(max(q.n), 0) AS n, coalesce(max(q.due_later), 0) AS due_later,
                coalesce(max(q.owned), 0) AS owned, max(q.since) AS since, bool_or(q.rests) AS rests
                  FROM (SELECT c.queue, c.n, NULL::bigint AS due_later, NULL::bigint AS owned, c.since, false AS rests
                          FROM pawl.read_as_owner(bound.relation, bound.state_column, 'claimable') c(queue text,
                              n bigint, since timestamptz)
                        UNION ALL SELECT o.queue, NULL, o.due_later, o.owned, NULL, false FROM other o
                        UNION ALL SELECT r.queue, NULL, NULL, NULL, NULL, true FROM resting r
                        WHERE r.queue IS NOT NULL) q
                 GROUP BY q.queue)
            SELECT bound.relation, bound.state_column, c.queue, c.n, c.due_later, c.owned,
                   c.n >= pawl._count_cap() OR coalesce((SELECT bool_or(o.is_capped) FROM other o), false),
                   CASE WHEN isfinite(c.since) THEN clock_timestamp() - c.since END,
                   c.rests OR EXISTS (SELECT FROM resting r WHERE r.queue IS NULL)
              FROM counted c
             WHERE c.n + c.due_later + c.owned > 0 OR c.rests OR bound.queue_column IS NULL
             ORDER BY c.queue COLLATE "C";
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._queue_depth() IS 'internal: the rows of pawl.queue_depth';

-- The processors of one binding, found by skipping from one to the next in the index on owners and leases. Dead entries
-- of an owner's leases are read once: the owner is found with its earliest lease, and the others from there.
CREATE FUNCTION pawl._owners_statement(bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF bound.lease_column IS NULL THEN
        RETURN format(
            'SELECT $1, $2, pawl.value_text(o.value), c.n, c.n >= %1$s, NULL::timestamptz, NULL::timestamptz, '
            '0::bigint FROM (%2$s) o '
            'CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM %3$s t WHERE t.%4$I IS NOT NULL AND '
            'pawl.same_value(t.%4$I, o.value) LIMIT %1$s) t) c '
            'WHERE o.value IS NOT NULL',
            pawl._count_cap(),
            pawl._distinct_query(bound.relation, bound.owner_column, format('t.%I IS NOT NULL', bound.owner_column)),
            bound.relation, bound.owner_column);
    ELSE
        RETURN format($query$
            WITH RECURSIVE o(owner, first) AS (
                (SELECT t.%2$I, t.%3$I FROM %1$s t WHERE t.%2$I IS NOT NULL ORDER BY t.%2$I, t.%3$I LIMIT 1)
                UNION ALL
                SELECT n.* FROM o CROSS JOIN LATERAL (
                    SELECT t.%2$I, t.%3$I FROM %1$s t WHERE t.%2$I IS NOT NULL AND pawl._above(t.%2$I, o.owner)
                    ORDER BY t.%2$I, t.%3$I LIMIT 1) n)
            SELECT $1, $2, pawl.value_text(o.owner), least(c.n + e.n, %4$s), c.n + e.n >= %4$s, o.first,
                   (SELECT t.%3$I FROM %1$s t WHERE t.%2$I IS NOT NULL AND pawl.same_value(t.%2$I, o.owner)
                       AND t.%3$I >= o.first ORDER BY t.%2$I DESC, t.%3$I DESC LIMIT 1), c.expired
              FROM o
             CROSS JOIN LATERAL (SELECT count(*) AS n, count(*) FILTER (WHERE l.ends <= $3) AS expired
                                   FROM (SELECT t.%3$I AS ends FROM %1$s t WHERE t.%2$I IS NOT NULL
                                       AND pawl.same_value(t.%2$I, o.owner) AND t.%3$I >= o.first
                                          ORDER BY t.%2$I, t.%3$I LIMIT %4$s) l) c
             CROSS JOIN LATERAL (SELECT count(*) AS n
                 FROM (SELECT FROM %1$s t WHERE t.%2$I IS NOT NULL AND pawl.same_value(t.%2$I, o.owner)
                     AND t.%3$I IS NULL LIMIT %4$s) l) e$query$,
            bound.relation, bound.owner_column, bound.lease_column, pawl._count_cap());
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._owners_statement(pawl.binding) IS 'internal: a query of the processors of one binding';

CREATE FUNCTION pawl._owners()
RETURNS TABLE (relation regclass, state_column name, processor text, owned bigint, at_least boolean,
    next_lease_end timestamptz, last_lease_end timestamptz, expired bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $function$
DECLARE
    bound pawl.binding;
BEGIN
    FOR bound IN SELECT b.* FROM pawl._readable_bindings('owners') b LOOP
        RETURN QUERY SELECT o.* FROM pawl.read_as_owner(bound.relation, bound.state_column, 'owners')
                         o(relation regclass, state_column name, processor text, owned bigint, at_least boolean,
                             next_lease_end timestamptz, last_lease_end timestamptz, expired bigint);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._owners() IS 'internal: the rows of pawl.owners';

CREATE FUNCTION pawl._timers_statement(bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN format(
        'SELECT $1, $2, c.n, c.n >= %1$s, (SELECT t.%2$I FROM %3$s t WHERE t.%2$I > $3 ORDER BY t.%2$I LIMIT 1), '
        '(SELECT CASE WHEN isfinite(f.due) THEN $3 - f.due END '
        'FROM (SELECT t.%2$I AS due FROM %3$s t WHERE t.%2$I <= $3 ORDER BY t.%2$I LIMIT 1) f) '
        'FROM (SELECT count(*) AS n FROM (SELECT FROM %3$s t WHERE t.%2$I <= $3 ORDER BY t.%2$I LIMIT %1$s) t) c',
        pawl._count_cap(), bound.due_column, bound.relation);
END
$function$;
COMMENT ON FUNCTION pawl._timers_statement(pawl.binding) IS 'internal: a query of the due times of one binding';

CREATE FUNCTION pawl._timers()
RETURNS TABLE (relation regclass, state_column name, due bigint, at_least boolean, next_due timestamptz, lag interval)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $function$
DECLARE
    bound pawl.binding;
BEGIN
    FOR bound IN SELECT b.* FROM pawl._readable_bindings('timers') b LOOP
        RETURN QUERY SELECT t.* FROM pawl.read_as_owner(bound.relation, bound.state_column, 'timers')
                         t(relation regclass, state_column name, due bigint, at_least boolean, next_due timestamptz,
                             lag interval);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._timers() IS 'internal: the rows of pawl.timers';

CREATE VIEW pawl.queue_depth WITH (security_invoker = true) AS SELECT * FROM pawl._queue_depth();
COMMENT ON VIEW pawl.queue_depth IS
'what waits to be claimed, one row a queue of each table that you may read: claimable now; due_later, claimable but '
'for a due time; owned; oldest, how long the oldest claimable row waits (by a time in the claim order, else by the '
'log for the row that is next, else null); is_paused. Nothing is counted beyond 10,000 rows: at_least says so';
CREATE VIEW pawl.owners WITH (security_invoker = true) AS SELECT * FROM pawl._owners();
COMMENT ON VIEW pawl.owners IS
'owned rows, one row for each processor and table that you can read: rows owned (at_least: no more than 10,000 are '
'counted), when the next and the last of their leases end, and how many have expired and wait for pawl.reap';
CREATE VIEW pawl.timers WITH (security_invoker = true) AS SELECT * FROM pawl._timers();
COMMENT ON VIEW pawl.timers IS
'one row a table with a due column that you may read: how many rows are due now and wait for pawl.fire_due (at_least: '
'no more than 10,000 are counted), when the next one will be, and for how long the oldest has been due';
