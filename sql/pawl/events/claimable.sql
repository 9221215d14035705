-- Reads the rows that became claimable from the outbox, for programs that send messages about work.

-- The rows that events name and that are claimable now, by the condition of the claim index.
CREATE FUNCTION pawl._claimable_of(bound pawl.binding, keys jsonb) RETURNS TABLE (n bigint, queue text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1000
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    columns text;
    condition text;
BEGIN
    SELECT string_agg(format('%s AS "pawl~k%s"',
                pawl.value_expression(format('k.value ->> %s', c.n - 1), a.atttypid, -1), c.n - 1), ', ' ORDER BY c.n),
           string_agg(format('pawl.same_value(t.%I, e."pawl~k%s")', c.name, c.n - 1), ' AND ' ORDER BY c.n)
      INTO columns, condition
      FROM unnest(bound.key_columns) WITH ORDINALITY c(name, n)
      JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = c.name;
    RETURN QUERY EXECUTE format($query$
        SELECT e."pawl~n", r.queue
          FROM (SELECT k.ordinality AS "pawl~n", %s FROM jsonb_array_elements($1) WITH ORDINALITY k OFFSET 0) e
          CROSS JOIN LATERAL (SELECT %s AS queue FROM %s t WHERE %s AND %s OFFSET 0) r$query$,
        columns, CASE WHEN bound.queue_column IS NULL
            THEN 'NULL::text' ELSE format('pawl.value_text(t.%I)', bound.queue_column) END, bound.relation, condition,
        (SELECT w.condition FROM pawl._work_indexes(bound) w WHERE w.kind = 'claim')) USING keys;
END
$function$;
COMMENT ON FUNCTION pawl._claimable_of(pawl.binding, jsonb) IS
'internal: of rows given by keys, [["1"], ...], those that can be claimed: their places in the list, and queues';

CREATE FUNCTION pawl.read_claimable(consumer text, batch integer DEFAULT 1000)
RETURNS TABLE (relation regclass, state_column text, key text[], queue text, txid xid8, at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 1000
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    events jsonb;
    read bigint;
BEGIN
    -- Events that make nothing claimable do not end the reading, but a transaction must end. The states of a binding
    -- are read once for each call, not for each event.
    FOR round IN 1 .. 20 LOOP
        WITH claimable AS MATERIALIZED (
            SELECT b.relation, b.state_column, pawl._claimable_states(b.machine, b.version, b.claim_events) AS states
              FROM pawl.binding b WHERE b.claim_events <> '{}')
        SELECT count(*),
            jsonb_agg(jsonb_build_array(e.relation::oid::text, e.state_column, e.key, e.txid, e.at) ORDER BY e.n)
                             FILTER (WHERE e.to_state = ANY (c.states))
          INTO read, events
          FROM pawl.read_events(consumer, batch) WITH ORDINALITY
                   e(txid, relation, state_column, machine, machine_version, key, sort_key, from_state, to_state, event,
                       processor, actor, correlation_id, metadata, at, log_id, n)
          LEFT JOIN claimable c ON c.relation = e.relation AND c.state_column = e.state_column;
        RETURN QUERY
            WITH named AS MATERIALIZED (
                SELECT (v.value ->> 0)::oid AS oid, v.value ->> 1 AS state_column, v.value -> 2 AS key,
                min(v.ordinality) AS first, max((v.value ->> 3)::xid8) AS txid, max((v.value ->> 4)::timestamptz) AS at
                  FROM jsonb_array_elements(events) WITH ORDINALITY v GROUP BY 1, 2, 3),
            listed AS MATERIALIZED (
                SELECT n.oid, n.state_column, jsonb_agg(n.key ORDER BY n.first) AS keys,
                array_agg(n.first ORDER BY n.first) AS firsts FROM named n GROUP BY 1, 2),
            found AS MATERIALIZED (  -- once a binding, not once a row
                SELECT b.relation, l.oid, l.state_column, l.firsts[c.n] AS first, c.queue
                  FROM listed l
                  JOIN pawl.binding b ON b.relation::oid = l.oid AND b.state_column = l.state_column
                  CROSS JOIN LATERAL pawl._claimable_of(b, l.keys) c)
            SELECT f.relation, f.state_column, ARRAY(SELECT jsonb_array_elements_text(n.key)), f.queue, n.txid, n.at
              FROM found f JOIN named n ON n.oid = f.oid AND n.state_column = f.state_column AND n.first = f.first
             ORDER BY n.first;
        EXIT WHEN FOUND OR read = 0;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl.read_claimable(text, integer) IS
'Returns the rows that became claimable by the next events of a consumer, each once, in the order of the events. The
position of the consumer is part of the transaction: after a rollback the rows are returned again. Rows that were
claimed meanwhile are left out. Rows whose due time has passed become claimable without an event and are not
returned.
consumer: its name. batch: how many events are read at a time, 1 to 100000; default 1000.
Returns relation, state_column, key, queue (null: none), txid and at (the transaction and the time of its event). No
rows: no events are left, or many events made no row claimable.
Errors: those of pawl.read_events. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader that own the
consumer.
Example: SELECT * FROM pawl.read_claimable(''broker'', 100)';
