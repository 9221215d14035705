-- The rows of a table by state, and how long they stay in each.

-- The rows by state: exact up to a limit, beyond that estimated from an even sample of the pages and the statistics.
CREATE FUNCTION pawl._states_statement(bound pawl.binding, sampled boolean) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    counted constant integer := 100000;
    rows_about double precision;
BEGIN
    IF NOT sampled THEN
        RETURN format('SELECT pawl.value_text(s.state), count(*), sum(count(*)) OVER () >= %1$s FROM (SELECT t.%2$I '
            'AS state FROM %3$s t LIMIT %1$s) s GROUP BY 1', counted, bound.state_column, bound.relation);
    END IF;
    SELECT greatest(sum(c.reltuples), counted) INTO rows_about FROM pg_class c
     WHERE c.oid IN (SELECT p.relid FROM pg_partition_tree(bound.relation) p UNION SELECT bound.relation)
         AND c.relkind = 'r';
    RETURN format('SELECT pawl.value_text(t.%I), round(count(*) * %s::double precision / sum(count(*)) OVER '
        '())::bigint, true FROM %s t TABLESAMPLE SYSTEM (%s) GROUP BY 1',
                  bound.state_column, rows_about, bound.relation, least(100, 20000 * 100 / rows_about));
END
$function$;
COMMENT ON FUNCTION pawl._states_statement(pawl.binding, boolean) IS 'internal: a query of the rows by state';

CREATE FUNCTION pawl.state_counts(bound pawl.binding) RETURNS TABLE (state text, n bigint, estimated boolean)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    counts jsonb;
BEGIN
    SELECT jsonb_agg(c) INTO counts
      FROM pawl.read_as_owner(bound.relation, bound.state_column, 'states') c(state text, n bigint, estimated boolean);
    IF counts #>> '{0,estimated}' = 'true' THEN
        RETURN QUERY SELECT c.* FROM pawl.read_as_owner(bound.relation, bound.state_column,
            'states_sampled') c(state text, n bigint, estimated boolean);
    ELSE
        RETURN QUERY SELECT c.* FROM jsonb_to_recordset(counts) c(state text, n bigint, estimated boolean);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.state_counts(pawl.binding) IS
'Counts the rows of a bound table by state: exactly up to 100,000 rows, from a sample beyond (estimated). bound: a
row of pawl.binding; result: state, n, estimated. Errors: 42501 no SELECT on the table. Privileges: pawl_reader and
above. Example: SELECT c.* FROM pawl.binding b, pawl.state_counts(b) c';

-- The entries at the end of a log (of each of its partitions, at most 16). A log is nearly in the order in which it was
-- written.
CREATE FUNCTION pawl._log_end(bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    pages constant integer := 250;
    one_page constant bigint := current_setting('block_size')::bigint;
    log constant regclass := bound.history;
    log_owner constant oid := (SELECT c.relowner FROM pg_class c WHERE c.oid = log);
    leaves constant regclass[] := ARRAY(SELECT t.relid FROM pg_partition_tree(log) t
        WHERE t.isleaf AND pg_relation_size(t.relid) > 0
                                         ORDER BY t.relid DESC LIMIT 16);
    parts constant regclass[] := ARRAY(SELECT l FROM unnest(leaves) l JOIN pg_class c ON c.oid = l
        WHERE c.relowner = log_owner);
    wanted constant text := (SELECT string_agg(format('x.%I', k), ', ')
                               FROM unnest(bound.log_key_columns || '{sort_key,from_state,created_at}'::name[]) k);
BEGIN
    -- partitions of other owners are read through the log, as far from the end of each as the largest one is long
    IF cardinality(parts) < cardinality(leaves) OR leaves = '{}' THEN
        RETURN format('SELECT %s FROM %s x WHERE x.ctid >= ''(%s,0)''', wanted, log,
                      (SELECT greatest(coalesce(max(pg_relation_size(l)),
                              0) / one_page - pages / greatest(cardinality(leaves), 1), 0)
                         FROM unnest(leaves) l));
    END IF;
    RETURN (SELECT string_agg(format('SELECT %s FROM %s x WHERE x.ctid >= ''(%s,0)''', wanted, part,
                                     greatest(pg_relation_size(part) / one_page - pages / cardinality(parts), 0)),
        ' UNION ALL ')
              FROM unnest(parts) part);
END
$function$;
COMMENT ON FUNCTION pawl._log_end(pawl.binding) IS 'internal: a query of the entries on the last 250 pages of a log';

CREATE FUNCTION pawl._stays_statement(bound pawl.binding) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    -- the entry before is looked up, however old it is: a window over new entries would only find short stays
    SELECT format(
        'SELECT s.from_state, count(*), round(avg(s.seconds)::numeric, 3), '
        'round(percentile_cont(0.95) WITHIN GROUP (ORDER BY s.seconds)::numeric, 3), round(max(s.seconds)::numeric, 3) '
        'FROM (SELECT l.from_state, extract(epoch FROM l.created_at - p.created_at)::double precision AS seconds '
        'FROM (SELECT e.from_state, e.created_at, e.sort_key, %4$s, '
        'row_number() OVER (PARTITION BY e.from_state ORDER BY e.created_at DESC) AS nth '
        'FROM (%1$s) e '
        'WHERE e.from_state IS NOT NULL) l CROSS JOIN LATERAL '
        '(SELECT o.created_at FROM %2$s o WHERE %3$s AND o.sort_key = l.sort_key - 1 OFFSET 0) p WHERE l.nth <= 300) '
        's GROUP BY s.from_state',
        pawl._log_end(bound), bound.history,
        pawl._same_key('o', bound.log_key_columns, 'l', keys.called, bound.history), keys.listed)
      FROM pawl._keys_apart('e', bound.log_key_columns) keys
$function$;
COMMENT ON FUNCTION pawl._stays_statement(pawl.binding) IS
'internal: a query of the seconds that rows stayed in each state: the newest 300 entries of a state';
