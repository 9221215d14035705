-- The columns of a row that name its W3C trace.

CREATE FUNCTION pawl.set_trace(relation regclass, traceparent name, tracestate name DEFAULT NULL,
        state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._own_binding(relation, state_column);
    named constant name[] := array_remove(ARRAY[set_trace.traceparent, set_trace.tracestate], NULL);
    problem record;
BEGIN
    IF set_trace.traceparent IS NULL AND set_trace.tracestate IS NOT NULL THEN
        PERFORM pawl.raise('22004', 'a tracestate needs a traceparent', NULL,
            'select pawl.set_trace(relation, ''traceparent'', ''tracestate'')');
    END IF;
    SELECT n.name, t.typname INTO problem
      FROM unnest(named) n(name)
      LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = n.name AND a.attnum > 0
          AND NOT a.attisdropped
      LEFT JOIN pg_type t ON t.oid = a.atttypid
     WHERE coalesce(nullif(t.typbasetype, 0), t.oid) IS DISTINCT FROM 'text'::regtype
         AND coalesce(nullif(t.typbasetype, 0), t.oid) IS DISTINCT FROM 'varchar'::regtype
     LIMIT 1;
    IF FOUND AND problem.typname IS NULL THEN
        PERFORM pawl.raise('42703', format('column "%s" of table %s does not exist', problem.name, bound.relation),
            NULL, format('alter table %s add column %I text', bound.relation, problem.name));
    ELSIF FOUND THEN
        PERFORM pawl.raise('42804', format('column "%s" of table %s cannot hold a trace', problem.name, bound.relation),
            format('Its type is %s; it must be text or varchar, or a domain over one of them.', problem.typname));
    END IF;
    bound := pawl._locked_binding(bound);
    IF bound.trace_columns <> named THEN
        bound.trace_columns := named;
        PERFORM pawl._change_binding(bound);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_trace(regclass, name, name, name) IS
'Names the columns that hold the W3C trace context of each row. A state change outside of a trace (pawl.traceparent
is not set), such as that of a timer, is recorded in the trace of its row. Waits for sessions that write to the
table. For a table of a pack it must be called again after a restore.
relation: the enforced table. traceparent: a text column, null: no columns; values that are no traceparent are
ignored. tracestate: a text column, default null. state_column: null: the only bound column.
Errors: 42703 no such column; 42804 a column of another type; 22004 tracestate without traceparent; 42704 no
binding; 42501 not the owner.
Privileges: pawl_admin that owns the table.
Example: SELECT pawl.set_trace(''orders'', ''traceparent'')';

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
