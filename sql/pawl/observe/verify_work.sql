-- pawl.verify of owned work: rows whose managed columns contradict their state.

CREATE FUNCTION pawl._verify_work(bound pawl.binding)
RETURNS TABLE (statement text, types regtype[], parameters text[])
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    owner_value text := coalesce('pawl.value_text(r.' || quote_ident(bound.owner_column) || ')', 'NULL::text');
    lease_value text := coalesce('r.' || quote_ident(bound.lease_column), 'NULL::timestamptz');
    due_value text := coalesce('r.' || quote_ident(bound.due_column), 'NULL::timestamptz');
    owned text[];
    timed text[];
BEGIN
    SELECT coalesce(array_agg(s.state) FILTER (WHERE 'owned' = ANY (s.tags)), '{}') INTO owned
      FROM pawl.machine_state s WHERE s.machine = bound.machine AND s.version = bound.version AND s.kind = 'state';
    SELECT coalesce(array_agg(DISTINCT t.from_state), '{}') INTO timed
      FROM pawl.machine_transition t
      WHERE t.machine = bound.machine AND t.version = bound.version AND t.after IS NOT NULL;
    RETURN QUERY SELECT format($query$
        SELECT $1, $2, %1$s, p.problem, p.detail
          FROM %2$s r
          CROSS JOIN LATERAL (SELECT pawl.value_text(r.%3$I) COLLATE "C" = ANY ($3) AS is_owned,
              pawl.value_text(r.%3$I) COLLATE "C" = ANY ($4) AS is_timed,
                                     %4$s AS owner, %5$s AS lease, %6$s AS due) w
          CROSS JOIN LATERAL (VALUES
               ('stray_owner', NOT w.is_owned AND (w.owner IS NOT NULL OR w.lease IS NOT NULL),
                format('state "%%s" is not owned, the row has %%s', r.%3$I,
                    CASE WHEN w.owner IS NULL THEN 'a lease' ELSE format('the owner "%%s"', w.owner) END)),
               ('lease_missing', $5 AND w.is_owned AND w.owner IS NOT NULL
                   AND w.lease IS NULL, format('"%%s" owns the row without a lease', w.owner)),
               ('timer_missing', $6 AND w.is_timed
                   AND w.due IS NULL, format('state "%%s" has a timer, the row has no due time', r.%3$I))
               ) p(problem, holds, detail)
         WHERE p.holds ORDER BY 3, 4$query$,
        pawl._key_label('r', bound.key_columns), bound.relation, bound.state_column, owner_value, lease_value,
        due_value),
        '{regclass,name,text[],text[],boolean,boolean}'::regtype[], ARRAY[bound.relation::oid::text, bound.state_column,
            owned::text, timed::text, (bound.lease_column IS NOT NULL)::text, (bound.due_column IS NOT NULL)::text];
END
$function$;
COMMENT ON FUNCTION pawl._verify_work(pawl.binding) IS
'internal: rows with an owner, a lease or a timer that their state does not have, or without one that it has';
