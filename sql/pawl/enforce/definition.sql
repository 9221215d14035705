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

-- The audit, and how long it and the log are kept.
CREATE FUNCTION pawl._record_calls_of(bound pawl.binding) RETURNS TABLE (n integer, call text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT 12, pawl._call('audit', format('%L, %L', bound.relation,
                   (SELECT jsonb_object_agg(s.state, s.success) FROM (SELECT f, false FROM unnest(a.failure_states) f
                                                                      UNION ALL SELECT t, true
                                                                          FROM unnest(a.success_states) t) s(state,
                                                                          success))),
               '{into_table,parent,state_column}',
               ARRAY[quote_literal(c.relname), CASE WHEN a.parent_columns <> '{}'
                   THEN quote_literal(a.parent_columns) END, quote_literal(bound.state_column)])
      FROM pawl.audit_binding a JOIN pg_class c ON c.oid = a.audit WHERE a.log = bound.history
    UNION ALL
    SELECT 13, pawl._call('keep_log', format('%L, %s', bound.relation, coalesce(quote_literal(u.keep), 'null')),
               '{only_terminal,period,ahead,state_column}', ARRAY[CASE WHEN NOT u.only_terminal THEN 'false' END,
               quote_literal(u.period), CASE WHEN u.ahead <> 3 THEN u.ahead::text END,
               quote_literal(bound.state_column)])
      FROM pawl.log_upkeep u WHERE u.log = bound.history
    UNION ALL
    SELECT 14, pawl._call('keep_audit', format('%L, %s', bound.relation, coalesce(quote_literal(u.keep), 'null')),
               '{state_column}', ARRAY[quote_literal(bound.state_column)])
      FROM pawl.audit_binding a JOIN pawl.log_upkeep u ON u.log = a.audit WHERE a.log = bound.history
$function$;
COMMENT ON FUNCTION pawl._record_calls_of(pawl.binding) IS
'internal: the calls that make the audit of a binding, and say how long it and the log are kept';

-- The calls that make a binding, in the order in which they can be run.
CREATE FUNCTION pawl._calls_of(bound pawl.binding) RETURNS TABLE (n integer, call text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH names(target) AS (SELECT format('%L, %L', bound.relation, bound.state_column))
    SELECT 1,
    pawl._call('enforce', format('%s, %L', target, bound.machine),
               '{version,key,on_delete,always,errors,validate}', ARRAY[
               CASE WHEN bound.version < (SELECT max(m.version) FROM pawl.machine m WHERE m.machine = bound.machine)
                    THEN bound.version::text END,
               CASE WHEN bound.key_columns <> pawl._choose_key(bound.relation, bound.state_column, NULL)
                    THEN quote_literal(bound.key_columns) END,
               CASE WHEN bound.on_delete <> 'allow' THEN quote_literal(bound.on_delete) END,
               CASE WHEN bound.always THEN 'true' END,
               CASE WHEN bound.errors <> 'pawl' THEN quote_literal(bound.errors) END,
               CASE WHEN NOT bound.validated THEN 'false' END])
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
    SELECT r.n, r.call FROM pawl._record_calls_of(bound) r
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
pawl.set_result_columns, pawl.set_placing, pawl.audit, pawl.keep_log and pawl.keep_audit. The version is named only if
it is not the newest. Machines (pawl.diagram) and pauses are not part of it.
relation: the enforced table. state_column: null: the only bound column. Errors: 42704 no binding; 22023
several, and none is named.
Privileges: pawl_admin. Example: SELECT pawl.definition(''jobs'')';

-- That of a binding that is released, which may be damaged.
CREATE FUNCTION pawl._last_definition(bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN coalesce(pawl.definition(bound.relation, bound.state_column), '');
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    RETURN '';
END
$function$;
COMMENT ON FUNCTION pawl._last_definition(pawl.binding) IS
'internal: the definition of a binding; empty if it is damaged';

-- A table that was released: what its new binding has of the old one, and what not (yet).
CREATE FUNCTION pawl._compare_released(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    before pawl.released;
    present text := pawl.definition(bound.relation, bound.state_column);
    missing text;
BEGIN
    SELECT r.* INTO before FROM pawl.released r
     WHERE r.relation = bound.relation AND r.state_column = bound.state_column AND r.definition <> '';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT string_agg(c.call, E'\n' ORDER BY c.n) INTO missing
      FROM regexp_split_to_table(before.definition, E'(?<=\\);)\n') WITH ORDINALITY c(call, n)
     WHERE c.call <> ALL (regexp_split_to_array(present, E'(?<=\\);)\n'));
    IF missing IS NOT NULL THEN
        RAISE NOTICE USING MESSAGE = format('table %s had other policies before it was released', bound.relation),
            DETAIL = format('The binding is now: %s', replace(present, E'\n', ' ')),
            HINT = E'To restore them, run:\n' || missing;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._compare_released(pawl.binding) IS
'internal: raises a notice of the policies that a table had before it was released and does not have now';

-- The machines that bindings use, with all their versions up to the newest, because a version is known by its number;
-- then the calls of a kind of all bindings, because a table can be locked after another.
CREATE FUNCTION pawl.definitions() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(d.statement, E'\n' ORDER BY d.part, CASE d.part WHEN 2 THEN d.n END,
               d.name COLLATE "C", d.n)
      FROM (SELECT 1 AS part, m.machine AS name, m.version AS n,
                   format('select pawl.define(%L, %L%s);', m.machine, m.source,
                       CASE WHEN m.unbound = 'note' THEN ', unbound => ''note''' ELSE '' END) AS statement
              FROM pawl.machine m
             WHERE m.extension IS NULL AND EXISTS (SELECT FROM pawl.binding b WHERE b.machine = m.machine
                                                      AND b.extension IS NULL)
            UNION ALL
            SELECT 2, b.relation::text || ' ' || b.state_column, c.n, c.call
              FROM pawl.binding b CROSS JOIN LATERAL pawl._calls_of(b) c WHERE b.extension IS NULL) d
$function$;
COMMENT ON FUNCTION pawl.definitions() IS
'Returns statements that make all bindings of users again in a database that has their tables: the definitions of the
machines with all their versions, and what pawl.definition returns for each binding. What a schema-only dump lacks, it
adds: run it in the restored database. Bindings of extensions and pauses are not part of it.
Null if there is no binding. Errors: none. Privileges: pawl_admin.
Example: SELECT pawl.definitions()';

CREATE FUNCTION pawl.own_relations(OUT relation regclass, OUT schema_name name, OUT name name, OUT kind text)
    RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH made(relation, kind) AS (
        SELECT DISTINCT t.tgrelid, CASE WHEN t.tgfoid = 'pawl.protect_record()'::regprocedure THEN 'record'
            ELSE 'log' END
          FROM pg_trigger t
         WHERE t.tgfoid IN ('pawl.protect_log()'::regprocedure, 'pawl.log_insert()'::regprocedure,
                            'pawl.protect_record()'::regprocedure)
        UNION
        SELECT v.oid, 'view' FROM pg_trigger t JOIN pg_class l ON l.oid = t.tgrelid
          JOIN pg_class v ON v.relnamespace = l.relnamespace AND v.relkind = 'v' AND v.relname || '_log' = l.relname
         WHERE t.tgfoid = 'pawl.log_insert()'::regprocedure
        UNION
        SELECT c.oid, 'index' FROM pg_class c
         WHERE c.relkind IN ('i', 'I') AND c.relname ~ '_pawl_(claim|owned|due)$')
    SELECT m.relation::regclass, n.nspname, c.relname, m.kind
      FROM made m JOIN pg_class c ON c.oid = m.relation JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname NOT IN ('pawl', 'pawl_dag', 'pawl_bulk', 'pawl_saga')
     ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
$function$;
COMMENT ON FUNCTION pawl.own_relations() IS
'Returns the tables, views and indexes that pawl has made in users'' schemas, for tools that compare a schema with a
program''s models: they must not drop them.
Returns relation, schema_name, name and kind: log (a log and its partitions), view (on a log), record (an audit, the
ends of what was pruned) or index. Errors: none. Privileges: all roles.
Example: SELECT name FROM pawl.own_relations() WHERE kind <> ''index''';
