-- A binding as the calls that make it: pawl.definition.

-- A call, with the arguments that are not null, in lines that can be read.
CREATE FUNCTION pawl._call(function text, first text, arguments text[], given text[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('select pawl.%s(%s%s);', function, first,
                  string_agg(CASE WHEN l.ends / 100 > (l.ends - l.width) / 100 THEN E',\n    ' ELSE ', ' END || l.text,
                             '' ORDER BY l.n))
      FROM (SELECT a.n, a.width, a.argument || ' => ' || a.value AS text,
          sum(a.width) OVER (ORDER BY a.n)::integer AS ends
              FROM (SELECT u.n, u.argument, u.value, length(u.argument || u.value) + 6 AS width
                      FROM unnest(arguments, given) WITH ORDINALITY u(argument, value, n)
                      WHERE u.value IS NOT NULL) a) l
$function$;
COMMENT ON FUNCTION pawl._call(text, text, text[], text[]) IS 'internal: the text of a call of a function of pawl';

-- The calls that make a binding, in the order in which they can be run.
CREATE FUNCTION pawl._calls_of(bound pawl.binding) RETURNS TABLE (n integer, call text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH names(target) AS (SELECT format('%L, %L', bound.relation, bound.state_column))
    SELECT 1,
    pawl._call('enforce', format('%s, %L', target, bound.machine), '{version,key,on_delete,always,errors}', ARRAY[
               CASE WHEN bound.version < (SELECT max(m.version) FROM pawl.machine m WHERE m.machine = bound.machine)
                    THEN bound.version::text END,
               CASE WHEN bound.key_columns <> pawl._choose_key(bound.relation, bound.state_column, NULL)
                    THEN quote_literal(bound.key_columns) END,
               CASE WHEN bound.on_delete <> 'allow' THEN quote_literal(bound.on_delete) END,
               CASE WHEN bound.always THEN 'true' END,
               CASE WHEN bound.errors <> 'pawl' THEN quote_literal(bound.errors) END])
      FROM names
    UNION ALL
    SELECT 2, pawl._call('enable_log', target, '{most_recent,hash_chain,log_name,log_partition}', ARRAY[
               CASE WHEN bound.most_recent <> 'derived' THEN quote_literal(bound.most_recent) END,
               CASE WHEN bound.hash_chain THEN 'true' END,
               quote_literal(pawl._log_called(bound)), quote_literal(pawl._log_partition(bound))])
      FROM names WHERE bound.history IS NOT NULL
    UNION ALL
    SELECT 3, pawl._call('enable_queue', target, '{owner,lease,token,attempts,max_attempts,queue}',
               ARRAY(SELECT quote_literal(c) FROM unnest(ARRAY[bound.owner_column, bound.lease_column,
                   bound.token_column,
                                                               bound.attempts_column, bound.max_attempts_column,
                                                               bound.queue_column]) WITH ORDINALITY u(c, n)
                                                                   ORDER BY u.n))
      FROM names WHERE bound.owner_column IS NOT NULL
    UNION ALL
    SELECT 4, pawl._call('enable_timers', target, '{due}', ARRAY[quote_literal(bound.due_column)])
      FROM names WHERE bound.due_column IS NOT NULL
    UNION ALL
    SELECT 5, pawl._call('set_claiming', target, c.arguments, c.given)
      FROM names, LATERAL (SELECT
               ('{claim,claim_order,lease_time,on_expiry,on_expiry_else,'
                || 'retry,backoff,backoff_column,operator_events}')::text[],
               ARRAY[CASE WHEN bound.claim_events <> '{}' THEN quote_literal(bound.claim_events) END,
                     (SELECT quote_literal(string_agg(quote_ident(o.name) || CASE WHEN o.is_descending THEN ' desc'
                         ELSE '' END, ', ' ORDER BY o.n))
                        FROM unnest(bound.claim_columns, bound.claim_descending) WITH ORDINALITY o(name,
                            is_descending, n)),
                     CASE WHEN bound.lease_time <> '60 s' THEN quote_literal(bound.lease_time) END,
                     quote_literal(bound.on_expiry), quote_literal(bound.on_expiry_else),
                     CASE WHEN bound.retry_events <> '{}' THEN quote_literal(bound.retry_events) END,
                     quote_literal(bound.backoff), quote_literal(bound.backoff_column),
                     CASE WHEN bound.operator_events <> '{}'
                         THEN quote_literal(bound.operator_events) END]) c(arguments, given)
     WHERE array_remove(c.given, NULL) <> '{}'
    UNION ALL
    SELECT 6, pawl._call('enable_events', target, '{events,wake}', ARRAY[CASE WHEN NOT bound.events
        THEN 'false' END, CASE WHEN bound.wake THEN 'true' END])
      FROM names WHERE bound.events OR bound.wake
    UNION ALL
    SELECT 7, pawl._call('set_trace', format('%L, %L', bound.relation, bound.trace_columns[1]),
        '{tracestate,state_column}',
                         ARRAY[quote_literal(bound.trace_columns[2]), quote_literal(bound.state_column)])
     WHERE bound.trace_columns <> '{}'
    UNION ALL
    SELECT 8, pawl._call('set_lock_order', format('%L, %L', bound.relation, bound.locked_after), '{state_column}',
        ARRAY[quote_literal(bound.state_column)])
     WHERE bound.locked_after IS NOT NULL
    UNION ALL
    SELECT 9, pawl._call('set_log_token', quote_literal(bound.relation), '{state_column}',
        ARRAY[quote_literal(bound.state_column)])
     WHERE bound.log_token
    UNION ALL
    SELECT 10, pawl._call('set_result_columns', format('%L, %L', bound.relation, bound.result_columns),
        '{state_column}', ARRAY[quote_literal(bound.state_column)])
     WHERE bound.result_columns <> '{}'
    UNION ALL
    SELECT 11, pawl._call('set_placing', quote_literal(bound.relation), '{state_column}',
        ARRAY[quote_literal(bound.state_column)])
     WHERE bound.may_place
    UNION ALL
    SELECT 12, pawl._call('audit', format('%L, %L', bound.relation,
                   (SELECT jsonb_object_agg(s.state, s.success) FROM (SELECT f, false FROM unnest(a.failure_states) f
                                                                      UNION ALL SELECT t, true
                                                                          FROM unnest(a.success_states) t) s(state,
                                                                          success))),
               '{into_table,parent,state_column}',
               ARRAY[quote_literal(c.relname), CASE WHEN a.parent_columns <> '{}'
                   THEN quote_literal(a.parent_columns) END, quote_literal(bound.state_column)])
      FROM pawl.audit_binding a JOIN pg_class c ON c.oid = a.audit WHERE a.log = bound.history
$function$;
COMMENT ON FUNCTION pawl._calls_of(pawl.binding) IS 'internal: the calls that make a binding what it is';

CREATE FUNCTION pawl.definition(relation regclass, state_column name DEFAULT NULL) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT string_agg(c.call, E'\n' ORDER BY c.n) FROM pawl._calls_of(pawl._binding(relation,
        state_column)) c);
END
$function$;
COMMENT ON FUNCTION pawl.definition(regclass, name) IS
'Returns the calls that made a binding what it is, one statement a function, in an order in which they can be
run: pawl.enforce, and where they say something pawl.enable_log, pawl.enable_queue, pawl.enable_timers,
pawl.set_claiming, pawl.enable_events, pawl.set_trace, pawl.set_lock_order, pawl.set_log_token,
pawl.set_result_columns, pawl.set_placing and pawl.audit. The version is named only if it is not the newest. Machines
(pawl.diagram), retention (pawl.keep_log) and pauses are not part of it.
relation: the enforced table. state_column: null: the only bound column. Errors: 42704 no binding; 22023
several, and none is named.
Privileges: pawl_admin. Example: SELECT pawl.definition(''jobs'')';
