-- Functions that read the log, and that set what plain SQL cannot say in an UPDATE.

CREATE FUNCTION pawl._logged(relation regclass, state_column name) RETURNS pawl.binding
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
BEGIN
    IF bound.history IS NULL THEN
        PERFORM pawl.raise('55000', format('table %s has no log of column "%s"', bound.relation, bound.state_column),
            NULL, format('select pawl.enable_log(%L, %L)', bound.relation, bound.state_column));
    END IF;
    RETURN bound;
END
$function$;
COMMENT ON FUNCTION pawl._logged(regclass, name) IS 'internal: a binding that keeps a log, or an error';

CREATE FUNCTION pawl._readable_log(relation regclass, state_column name) RETURNS pawl.binding
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
BEGIN
    -- of single columns PostgreSQL says which one is missing
    IF NOT has_any_column_privilege(bound.history, 'SELECT') THEN
        PERFORM pawl.raise('42501', format('permission denied for table %s', bound.history), NULL,
            format('grant select on %s to %I', concat_ws(', ', bound.history, bound.history_view), current_user));
    END IF;
    RETURN bound;
END
$function$;
COMMENT ON FUNCTION pawl._readable_log(regclass, name) IS
'internal: a binding with a log that the current user can read, or an error';

CREATE FUNCTION pawl.base_type(type oid) RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH RECURSIVE down(base, steps) AS (
        SELECT type, 0
        UNION ALL
        SELECT t.typbasetype, d.steps + 1 FROM down d JOIN pg_type t ON t.oid = d.base AND t.typtype = 'd')
    SELECT d.base FROM down d ORDER BY d.steps DESC LIMIT 1
$function$;
COMMENT ON FUNCTION pawl.base_type(oid) IS
'Returns the type that a domain is over, or the type itself. type: its OID. Errors: none. Privileges: all roles.
Example: SELECT pawl.base_type(''information_schema.sql_identifier''::regtype)';

-- A condition that a log row belongs to a key, given as text[] in $1. Every value is read as its column's own type, or
-- the type below a domain, whose CHECK is code of the table's owner and must not run in a look-up.
CREATE FUNCTION pawl._of_subject(bound pawl.binding) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format(CASE WHEN to_regclass('pg_catalog.pg_dist_partition') IS NULL
                                  THEN 'pawl.same_value(l.%I, %s)'
                                  WHEN a.atttypid < 16384 AND pawl._is_distributed(bound.history)
                                  THEN 'l.%I OPERATOR(pg_catalog.=) %s'  -- by which Citus finds the shard
                                  ELSE 'pawl.same_value(l.%I, %s)' END, k.name,
                pawl.value_expression(format('($1)[%s]', k.n), a.atttypid, a.atttypmod)), ' AND ' ORDER BY k.n)
      FROM unnest(bound.log_key_columns) WITH ORDINALITY k(name, n)
      JOIN pg_attribute a ON a.attrelid = bound.history AND a.attname = k.name
$function$;
COMMENT ON FUNCTION pawl._of_subject(pawl.binding) IS 'internal: a condition on the key of a log row';

-- The reason for which pawl.place put a row into its state, as an expression on a log row (alias): null for any other
-- entry, and in a log without that column.
CREATE FUNCTION pawl._placed(bound pawl.binding, alias text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN coalesce((
        SELECT format('CASE WHEN %1$I.event OPERATOR(pg_catalog.=) ''pawl.place'' THEN %1$I.placed END', alias)
          FROM pg_attribute a WHERE a.attrelid = bound.history AND a.attname = 'placed' AND a.attnum > 0
           AND NOT a.attisdropped AND a.atttypid = 'text'::regtype), 'NULL::text');
END
$function$;
COMMENT ON FUNCTION pawl._placed(pawl.binding, text) IS 'internal: the reason of pawl.place in a log row';

CREATE FUNCTION pawl._history_by_key(relation regclass, key anycompatible, state_column name)
RETURNS TABLE (sort_key integer, from_state text, to_state text, event text, processor text, actor text,
    correlation_id text, metadata jsonb, machine_version integer, created_at timestamptz, most_recent boolean, id uuid,
    placed text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding := pawl._readable_log(relation, state_column);
    key_text text[] := pawl._key_text(bound.relation, key, bound.state_column);
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT l.sort_key, l.from_state, l.to_state, l.event, l.processor, l.actor, l.correlation_id, l.metadata, '
        'l.machine_version, '
        'l.created_at, lead(l.sort_key) OVER (ORDER BY l.sort_key) IS NULL, l.id, %s FROM %s l WHERE %s ORDER '
        'BY l.sort_key', pawl._placed(bound, 'l'), bound.history, pawl._of_subject(bound)) USING key_text;
END
$function$;
COMMENT ON FUNCTION pawl._history_by_key(regclass, anycompatible, name) IS
'internal: pawl.history, for keys that are no array of records';

CREATE FUNCTION pawl.history(relation regclass, key anycompatible, state_column name DEFAULT NULL)
RETURNS TABLE (sort_key integer, from_state text, to_state text, event text, processor text, actor text,
    correlation_id text, metadata jsonb, machine_version integer, created_at timestamptz, most_recent boolean, id uuid,
    placed text)
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 10
AS 'MODULE_PATHNAME', 'pawl_by_key';
COMMENT ON FUNCTION pawl.history(regclass, anycompatible, name) IS
'Returns the log entries of one row, oldest first.
relation: the enforced table. key: a value, row(a, b) or an array of texts. state_column: null: the only bound
column.
Returns sort_key (from 1), from_state, to_state (null: the row was deleted), event, processor, actor (the role),
correlation_id, metadata, machine_version, created_at, most_recent, id and placed (the reason, if pawl.place has put the
row there).
Errors: 55000 no log; 42704 no binding; 22023 several bindings, or a key of another length; 22004 null. Privileges:
all roles; needs SELECT on the log.
Example: SELECT sort_key, event, to_state FROM pawl.history(''orders'', 1)';

CREATE FUNCTION pawl._state_at_by_key(relation regclass, key anycompatible, at timestamptz, state_column name)
    RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._readable_log(relation, state_column);
    key_text text[] := pawl._key_text(bound.relation, key, bound.state_column);
    answer text;
    anchors regclass := pawl._anchors(bound.history);
    entries integer;
BEGIN
    IF at IS NULL THEN
        PERFORM pawl.raise('22004', 'at must not be null');
    END IF;
    EXECUTE format('SELECT l.to_state FROM %s l WHERE %s AND l.created_at <= $2 ORDER BY l.sort_key DESC LIMIT 1',
                   bound.history, pawl._of_subject(bound)) INTO answer USING key_text, at;
    GET DIAGNOSTICS entries = ROW_COUNT;
    IF entries = 0 AND has_table_privilege(anchors, 'SELECT') THEN  -- of what was pruned the last entry is known
        bound.log_key_columns := pawl._anchor_keys(bound, anchors);
        bound.history := anchors;
        EXECUTE format('SELECT l.to_state FROM %s l WHERE %s AND l.created_at <= $2', anchors, pawl._of_subject(bound))
            INTO answer USING key_text, at;
    END IF;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl._state_at_by_key(regclass, anycompatible, timestamptz, name) IS
'internal: pawl.state_at, for keys that are no array of records';

CREATE FUNCTION pawl.state_at(relation regclass, key anycompatible, at timestamptz, state_column name DEFAULT NULL)
    RETURNS text
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'pawl_by_key';
COMMENT ON FUNCTION pawl.state_at(regclass, anycompatible, timestamptz, name) IS
'Returns the state that a row had at a time; null before it was inserted and after it was deleted.
relation: the enforced table. key: a value, row(a, b) or an array of texts. at: the time. state_column: null: the
only bound column.
Errors: 55000 no log; 22004 null; 42704 no binding; 22023 several bindings, or a key of another length. Privileges:
all roles; needs SELECT on the log.
Example: SELECT pawl.state_at(''orders'', 1, now() - interval ''1 hour'')';

CREATE FUNCTION pawl.set_context(processor text DEFAULT NULL, event text DEFAULT NULL, correlation_id text DEFAULT NULL,
    metadata jsonb DEFAULT NULL, token bigint DEFAULT NULL, delay interval DEFAULT NULL, traceparent text DEFAULT NULL,
    tracestate text DEFAULT NULL)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_set_context';
COMMENT ON FUNCTION pawl.set_context(text, text, text, jsonb, bigint, interval, text, text) IS
'Sets, until the end of the transaction, what the log records with state changes. An argument that is null (default)
leaves its setting unchanged; an empty text, or a JSON null as metadata, resets it.
processor: the acting processor. event: the event that state changes are. correlation_id: any text. metadata: a JSON
value. token: the fencing token that rows must have. delay: the delay before a retry, instead of the backoff.
traceparent, tracestate: a W3C trace context; a traceparent without tracestate resets the latter.
Warns (25P01) outside a transaction block, where the statement that calls it is the whole transaction.
Errors: 22023 an invalid traceparent or tracestate. Privileges: all roles.
Example: SELECT pawl.set_context(processor => ''billing'', correlation_id => ''request 17'')';

CREATE FUNCTION pawl._set_on_nodes(setting text, value text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_set_on_nodes';
COMMENT ON FUNCTION pawl._set_on_nodes(text, text) IS
'internal: sets a setting of pawl for this transaction, here and on the nodes of a Citus cluster';

CREATE FUNCTION pawl.child_span(traceparent text) RETURNS text
LANGUAGE sql VOLATILE PARALLEL RESTRICTED STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('00-%s-%s-%s', p.context[2], substr(replace(gen_random_uuid()::text, '-', ''), 1, 16), p.context[4])
      FROM (SELECT string_to_array(traceparent, '-')) p(context) WHERE pawl.trace_of(traceparent) IS NOT NULL
$function$;
COMMENT ON FUNCTION pawl.child_span(text) IS
'Returns a traceparent of the same trace with a new random span; null if the argument is not a W3C traceparent.
traceparent: 00-<trace>-<span>-<flags>.
Errors: none. Privileges: all roles.
Example: SELECT pawl.child_span(''00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'')';

CREATE FUNCTION pawl.trace_of(headers text) RETURNS text[]
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_trace_of';
COMMENT ON FUNCTION pawl.trace_of(text) IS
'Splits the headers of a W3C trace context into traceparent and tracestate; null if the traceparent is not valid, an
empty tracestate if that is not. headers: both with a blank between. Errors: none. Privileges: all roles. Example:
SELECT pawl.trace_of(''00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'')';
