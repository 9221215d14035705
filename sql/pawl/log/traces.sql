-- Traces: columns by which a row tells to which W3C trace it belongs.

CREATE FUNCTION pawl.set_trace(relation regclass, traceparent name, tracestate name DEFAULT NULL, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
    named constant name[] := array_remove(ARRAY[set_trace.traceparent, set_trace.tracestate], NULL);
    problem record;
BEGIN
    IF NOT pawl._owns(bound.relation) THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s', bound.relation));
    END IF;
    IF set_trace.traceparent IS NULL AND set_trace.tracestate IS NOT NULL THEN
        PERFORM pawl.raise('22004', 'a tracestate needs a traceparent', NULL, 'select pawl.set_trace(relation, ''traceparent'', ''tracestate'')');
    END IF;
    SELECT n.name, t.typname INTO problem
      FROM unnest(named) n(name)
      LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = n.name AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_type t ON t.oid = a.atttypid
     WHERE coalesce(nullif(t.typbasetype, 0), t.oid) IS DISTINCT FROM 'text'::regtype AND coalesce(nullif(t.typbasetype, 0), t.oid) IS DISTINCT FROM 'varchar'::regtype
     LIMIT 1;
    IF FOUND AND problem.typname IS NULL THEN
        PERFORM pawl.raise('42703', format('column "%s" of table %s does not exist', problem.name, bound.relation), NULL,
            format('alter table %s add column %I text', bound.relation, problem.name));
    ELSIF FOUND THEN
        PERFORM pawl.raise('42804', format('column "%s" of table %s cannot hold a trace', problem.name, bound.relation),
            format('Its type is %s; it must be text or varchar, or a domain over one of them.', problem.typname));
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', bound.relation);
    bound := pawl._binding(bound.relation, bound.state_column);
    IF bound.trace_columns <> named THEN
        bound.trace_columns := named;
        PERFORM pawl._change_binding(bound);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_trace(regclass, name, name, name) IS
'names the columns with the W3C traceparent of each row, and with its tracestate: a move that is made in no trace (pawl.traceparent is not set), as those of timers, lost leases and other duties, is recorded in the trace of its row. traceparent null: no columns. What is no traceparent counts as none. Waits until nobody is writing to the table. For a table of a pack it is to be said again after a restore. 42704: no lifecycle; 42703, 42804: a column that is missing or no text; 42501: not the owner';

CREATE FUNCTION pawl.enter_span(traceparent text, tracestate text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    span constant text := coalesce(pawl.child_span(traceparent), '');
BEGIN
    PERFORM set_config('pawl.traceparent', span, true),
            set_config('pawl.tracestate', coalesce((pawl.trace_of(span || ' ' || tracestate))[2], ''), true);
END
$function$;
COMMENT ON FUNCTION pawl.enter_span(text, text) IS
'Makes a new span of a trace the span of this transaction; a traceparent that is not valid ends the current one.
traceparent, tracestate: W3C trace context, null for none. The caller restores the settings pawl.traceparent and
pawl.tracestate. Errors: none. Privileges: pawl_worker and above. Example: SELECT
pawl.enter_span(''00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'', null)';
