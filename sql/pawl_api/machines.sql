-- Machines, the tables they are enforced on, and any row of these.

CREATE FUNCTION pawl_api._binding(b pawl.binding) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('relation', b.relation::text, 'state_column', b.state_column, 'machine', b.machine,
        'version', b.version, 'key_columns', to_jsonb(b.key_columns),
        'history', b.history::text, 'owned', b.owner_column IS NOT NULL, 'events', b.events,
        'paused', EXISTS (SELECT FROM pawl.paused p WHERE p.relation = b.relation AND p.state_column = b.state_column
            AND (p.until IS NULL OR p.until > now())));
END
$function$;
COMMENT ON FUNCTION pawl_api._binding(pawl.binding) IS 'internal: a binding as JSON';

CREATE FUNCTION pawl_api._need_machine(machine text) RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    newest integer;
BEGIN
    SELECT max(m.version) INTO newest FROM pawl.machine m WHERE m.machine = _need_machine.machine;
    IF newest IS NULL THEN
        PERFORM pawl.raise('PW008', format('unknown machine "%s"', machine));
    END IF;
    RETURN newest;
END
$function$;
COMMENT ON FUNCTION pawl_api._need_machine(text) IS 'internal: the newest version of a machine; PW008: there is none';

CREATE FUNCTION pawl_api.list_machines(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    after text := (pawl_api._after(q, 1))[1];
    page integer := pawl_api._limit(q);
    items jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_object('machine', m.machine, 'version', m.newest, 'versions', m.versions,
               'states', (SELECT count(*) FROM pawl.machine_state s
                   WHERE s.machine = m.machine AND s.version = m.newest AND s.kind = 'state'),
               'transitions', (SELECT count(*) FROM pawl.machine_transition t
                   WHERE t.machine = m.machine AND t.version = m.newest AND t.from_state IS NOT NULL),
               'bindings', (SELECT coalesce(jsonb_agg(pawl_api._binding(b) ORDER BY b.relation::text), '[]')
            FROM pawl.binding b WHERE b.machine = m.machine)) ORDER BY m.machine) INTO items
      FROM (SELECT m.machine, max(m.version) AS newest, count(*) AS versions FROM pawl.machine m
          WHERE after IS NULL OR m.machine > after GROUP BY m.machine ORDER BY m.machine LIMIT page) m;
    RETURN pawl_api._page(items, page, 'machine');
END
$function$;
COMMENT ON FUNCTION pawl_api.list_machines(jsonb) IS
'Route: machines, and the tables on which they are enforced.
q: limit (rows in the answer, 1 to 500), cursor (next of the answer before). Returns the answer as JSON.
Errors: 22023 an invalid limit or cursor. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the
rights of the role on the tables.
Example: SELECT pawl_api.list_machines(''{}'')';

CREATE FUNCTION pawl_api.get_machine(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    newest integer := pawl_api._need_machine(q ->> 'machine');
    wanted integer := coalesce((q ->> 'version')::integer, newest);
BEGIN
    RETURN jsonb_build_object('machine', q ->> 'machine', 'version', wanted, 'newest', newest,
        'states', (SELECT coalesce(
            jsonb_agg(jsonb_build_object('state', s.state, 'kind', s.kind, 'parent', s.parent, 'initial', s.initial,
                'terminal', s.terminal, 'tags', s.tags,
                       'description', s.description) ORDER BY s.ordinal), '[]')
            FROM pawl.states(q ->> 'machine', wanted) s),
        'transitions', (SELECT coalesce(
            jsonb_agg(jsonb_build_object('from', t.from_state, 'to', t.to_state, 'event', t.event, 'guards', t.guards,
                'effects', t.effects,
                            'after', t.after, 'notes', t.notes) ORDER BY t.ordinal), '[]')
            FROM pawl.transitions(q ->> 'machine', wanted) t),
        'bindings', (SELECT coalesce(jsonb_agg(pawl_api._binding(b) ORDER BY b.relation::text), '[]')
            FROM pawl.binding b WHERE b.machine = q ->> 'machine'));
END
$function$;
COMMENT ON FUNCTION pawl_api.get_machine(jsonb) IS
'Route: the states and transitions of a machine.
q: machine, version (omitted: the newest). Returns the answer as JSON.
Errors: PW008 unknown machine or version. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the
rights of the role on the tables.
Example: SELECT pawl_api.get_machine(''{"machine": "order"}'')';

CREATE FUNCTION pawl_api.machine_diagram(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    newest integer := pawl_api._need_machine(q ->> 'machine');
    wanted integer := coalesce((q ->> 'version')::integer, newest);
BEGIN
    RETURN to_jsonb(pawl.diagram(q ->> 'machine', wanted, coalesce(q ->> 'format', 'mermaid')));
END
$function$;
COMMENT ON FUNCTION pawl_api.machine_diagram(jsonb) IS
'Route: a machine as a diagram.
q: machine, version (omitted: the newest), format (mermaid or dot; omitted: mermaid). Returns the answer as JSON.
Errors: PW008 unknown machine or version; 22023 unknown format. Privileges: pawl_admin, pawl_operator, pawl_worker,
pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.machine_diagram(''{"machine": "order"}'')';

-- The diagram is given back in its canonical form if it has no errors. A hint belongs to the error that ends the
-- reading.
CREATE FUNCTION pawl_api.check_diagram(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    most constant integer := 100000;
    b jsonb := pawl_api._object(body, '{diagram}');
    given text := b ->> 'diagram';
    findings jsonb;
    canonical text;
    hint text;
BEGIN
    IF jsonb_typeof(b -> 'diagram') IS DISTINCT FROM 'string' THEN
        PERFORM pawl.raise('22023', 'the body must have "diagram", a string');
    ELSIF length(given) > most THEN
        PERFORM pawl.raise('54000', format('a diagram must have at most %s characters', most),
            format('It has %s.', length(given)));
    END IF;
    SELECT coalesce(jsonb_agg(to_jsonb(c) ORDER BY c.line, c.col), '[]') INTO findings FROM pawl.check(given) c;
    BEGIN
        canonical := pawl.render(given);
    EXCEPTION WHEN SQLSTATE 'PW007' THEN
        GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    END;
    RETURN jsonb_build_object('findings', findings, 'hint', nullif(hint, ''),
        'diagram', CASE WHEN NOT findings @> '[{"severity": "error"}]' THEN canonical END);
END
$function$;
COMMENT ON FUNCTION pawl_api.check_diagram(jsonb, jsonb) IS
'Route: what pawl.check finds in a diagram, and its canonical form. Nothing is defined.
q: none. body: diagram (Mermaid, at most 100000 characters). Returns findings (severity, code, line, col, message),
hint (what to write instead, if that is known; else null) and diagram (null: it has errors) as JSON.
Errors: 22023 an invalid body; 54000 the diagram is too long. Privileges: pawl_admin, pawl_operator, pawl_worker,
pawl_reader.
Example: SELECT pawl_api.check_diagram(''{}'', ''{"diagram": "stateDiagram-v2"}'')';

CREATE FUNCTION pawl_api._state_counts(b pawl.binding) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    counts jsonb;
    is_sample boolean;
BEGIN
    SELECT coalesce(jsonb_object_agg(c.state, c.n) FILTER (WHERE c.state IS NOT NULL), '{}'),
            coalesce(bool_or(c.estimated), false) INTO counts, is_sample
      FROM pawl.state_counts(b) c;
    RETURN jsonb_build_object('relation', b.relation::text, 'state_column', b.state_column, 'estimated', is_sample,
        'counts',
        (SELECT coalesce(
                    jsonb_agg(jsonb_build_object('state', s.state, 'count', coalesce((counts ->> s.state)::bigint, 0))
                ORDER BY s.ordinal), '[]')
           FROM pawl.machine_state s WHERE s.machine = b.machine AND s.version = b.version AND s.kind = 'state'));
END
$function$;
COMMENT ON FUNCTION pawl_api._state_counts(pawl.binding) IS
'internal: the rows of a table by state; exact up to 100,000 rows, beyond that estimated from a sample';

CREATE FUNCTION pawl_api.machine_counts(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need_machine(q ->> 'machine');
    RETURN jsonb_build_object('items',
        (SELECT coalesce(jsonb_agg(pawl_api._state_counts(b) ORDER BY b.relation::text), '[]') FROM pawl.binding b
                                         JOIN pg_class r ON r.oid = b.relation AND r.relkind IN ('r', 'p')
            WHERE b.machine = q ->> 'machine' AND has_column_privilege(b.relation, b.state_column, 'SELECT')
                                           AND pawl.policies_are_safe(b.relation)), 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.machine_counts(jsonb) IS
'Route: how many rows are in each state, for each table that the role can read.
q: machine. Returns the answer as JSON.
Errors: PW008 unknown machine. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of
the role on the tables.
Example: SELECT pawl_api.machine_counts(''{"machine": "order"}'')';

CREATE FUNCTION pawl_api.machine_slowest(q jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    b pawl.binding;
    items jsonb := '[]';
BEGIN
    PERFORM pawl_api._need_machine(q ->> 'machine');
    FOR b IN SELECT x.* FROM pawl.binding x
              WHERE x.machine = q ->> 'machine' AND x.history IS NOT NULL AND has_table_privilege(x.history, 'SELECT')
                AND pawl.policies_are_safe(x.history) LOOP
        items := items || (
            SELECT coalesce(jsonb_agg(jsonb_build_object('relation', b.relation::text, 'state', d.state, 'samples', d.n,
                                      'mean_s', d.mean, 'p95_s', d.p95, 'max_s', d.longest) ORDER BY d.mean DESC), '[]')
                             FROM pawl.read_as_owner(b.relation, b.state_column, 'stays')
                                      d(state text, n bigint, mean numeric, p95 numeric, longest numeric));
    END LOOP;
    RETURN jsonb_build_object('items', items, 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.machine_slowest(jsonb) IS
'Route: how long rows stayed in each state: the newest 300 entries of a state on the last 250 pages of each log,
with the entry before each.
q: machine. Returns the answer as JSON.
Errors: PW008 unknown machine. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of
the role on the tables.
Example: SELECT pawl_api.machine_slowest(''{"machine": "order"}'')';

CREATE FUNCTION pawl_api.list_bindings(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('items',
        (SELECT coalesce(jsonb_agg(pawl_api._binding(b) ORDER BY b.relation::text, b.state_column), '[]')
            FROM pawl.binding b), 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.list_bindings(jsonb) IS
'Route: the tables on which machines are enforced.
q: none. Returns the answer as JSON.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.list_bindings(''{}'')';

CREATE FUNCTION pawl_api.health(q jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('items',
        (SELECT coalesce(
            jsonb_agg(jsonb_build_object('relation', h.relation::text, 'state_column', h.state_column, 'check',
                h.check_name,
        'status', h.status, 'detail', h.detail, 'hint', h.hint)), '[]') FROM pawl.health() h), 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.health(jsonb) IS
'Route: the rows of pawl.health().
q: none. Returns the answer as JSON.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.health(''{}'')';
