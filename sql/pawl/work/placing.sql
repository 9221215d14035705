-- Fixtures of tests: pawl.place puts a row into a state, where pawl.set_placing allows it; pawl.paths counts from the
-- logs what the tests did.

CREATE FUNCTION pawl.place(relation regclass, key anycompatible, state text, reason text, owner text DEFAULT NULL,
    lease interval DEFAULT NULL, state_column name DEFAULT NULL) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_place';
COMMENT ON FUNCTION pawl.place(regclass, anycompatible, text, text, text, interval, name) IS
'Puts one row into a state without a transition, as a fixture of a test, and returns the state. Guards and effects are
not called and ownership is not checked; triggers of the table fire, the due time of the state is set, the outbox gets
an event, an audit no row. The log entry has the event pawl.place and the reason in column placed.
relation: the enforced table. key: a value, row(a, b) or an array of texts. state: its name; also the one that the row
is in. reason: any text that is not blank. owner, lease: of an owned state, which needs both (lease: if the table has
a column for it). state_column: null: the only bound column.
Errors: 42501 the current user, or the role that calls the SECURITY DEFINER function around it, is not owner of the
table and member of pawl_admin; 55000 not allowed by pawl.set_placing, no log, no owner column, or triggers did not
fire; PW008 unknown state; P0002 no such row; 22004 null, or no owner or lease; 22023 a blank reason, an owner or
lease where none can be, or a lease that is not positive; 09000 a trigger suppressed the update; 42704 no binding.
Privileges: pawl_admin that owns the table.
Example: SELECT pawl.place(''orders'', 1, ''paid'', ''fixture of a test of refunds'')';

-- The view of a derived log shows the column, too, unless the owner has made another view of it.
CREATE FUNCTION pawl._show_placed(bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    shown name[] := ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = bound.history_view AND a.attnum > 0
        ORDER BY a.attnum);
    known name[] := ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = bound.history AND a.attnum > 0
        AND NOT a.attisdropped);
BEGIN
    IF bound.history_view IS NULL OR 'placed' = ANY (shown)
       OR array_remove(shown, 'most_recent') <@ known IS NOT TRUE OR NOT 'most_recent' = ANY (shown) THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE OR REPLACE VIEW %s WITH (security_invoker = true) AS SELECT %s, l.placed FROM %s l',
        bound.history_view,
        (SELECT string_agg(CASE WHEN s.name = 'most_recent'
            THEN pawl._is_newest(bound.history, bound.log_key_columns) || ' AS most_recent'
            ELSE format('l.%I', s.name) END, ', ' ORDER BY s.n) FROM unnest(shown) WITH ORDINALITY s(name, n)),
        bound.history);
END
$function$;
COMMENT ON FUNCTION pawl._show_placed(pawl.binding) IS 'internal: adds the column placed to the view on a log';

CREATE FUNCTION pawl.set_placing(relation regclass, allowed boolean DEFAULT true, state_column name DEFAULT NULL)
    RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._own_binding(relation, state_column);
    found_type text;
BEGIN
    PERFORM pawl._reject_distributed(bound.relation, 'pawl.set_placing');
    IF allowed IS NULL THEN
        PERFORM pawl.raise('22004', 'allowed must not be null');
    END IF;
    IF allowed AND bound.extension IS NOT NULL THEN
        PERFORM pawl.raise('55000', format('rows of table %s cannot be placed', bound.relation),
            format('It belongs to extension %s, which counts the transitions of its rows.', bound.extension));
    END IF;
    IF allowed THEN
        bound := pawl._logged(bound.relation, bound.state_column);
    END IF;
    bound := pawl._locked_binding(bound);
    IF allowed THEN
        SELECT format_type(a.atttypid, a.atttypmod) INTO found_type FROM pg_attribute a
         WHERE a.attrelid = bound.history AND a.attname = 'placed' AND a.attnum > 0 AND NOT a.attisdropped;
        IF found_type IS NULL THEN
            EXECUTE format('ALTER TABLE %s ADD COLUMN placed text', bound.history);
        ELSIF found_type <> 'text' OR 'placed' = ANY (bound.log_key_columns) THEN
            PERFORM pawl.raise('55000', format('log %s has another column "placed"', bound.history),
                'The column holds the reasons of placed rows, and is of type text.',
                format('alter table %s rename column placed to ...', bound.history));
        END IF;
        PERFORM pawl._show_placed(bound);
    END IF;
    IF bound.may_place <> set_placing.allowed THEN
        bound.may_place := set_placing.allowed;
        PERFORM pawl._change_binding(bound);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_placing(regclass, boolean, name) IS
'Allows pawl.place on a table, or no longer: for databases in which tests run. Adds a column placed to the log, which
stays. Waits for sessions that write to the table.
relation: the enforced table. allowed: default true; false: no longer. state_column: null: the only bound column.
Errors: 22004 allowed is null; 55000 no log, another column of that name, or a table of an extension; 42704 no
binding; 42501 not the owner. Privileges: pawl_admin that owns the table.
Example: SELECT pawl.set_placing(''orders'')';

-- How often a log has each transition and state, counted once for each log.
CREATE FUNCTION pawl._log_paths(bound pawl.binding, since timestamptz)
RETURNS TABLE (from_state text, event text, to_state text, taken bigint)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY
        EXECUTE format('SELECT l.from_state COLLATE "C", l.event COLLATE "C", l.to_state COLLATE "C", count(*) '
        'FROM %s l WHERE $1 IS NULL OR l.created_at >= $1 GROUP BY 1, 2, 3', bound.history) USING since;
END
$function$;
COMMENT ON FUNCTION pawl._log_paths(pawl.binding, timestamptz) IS 'internal: how often a log has each state change';

CREATE FUNCTION pawl.paths(machine text, relation regclass DEFAULT NULL, since timestamptz DEFAULT NULL,
    version integer DEFAULT NULL)
RETURNS TABLE (kind text, from_state text, event text, to_state text, taken bigint, placed bigint)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 30
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    wanted integer := pawl._version(paths.machine, paths.version);
    bound pawl.binding;
    logs pawl.binding[] := '{}';
BEGIN
    FOR bound IN SELECT b.* FROM pawl.binding b
         WHERE b.machine = paths.machine AND b.history IS NOT NULL
           AND (paths.relation IS NULL OR b.relation IN (SELECT a FROM pawl._ancestors(paths.relation) a)) LOOP
        logs := logs || pawl._readable_log(bound.relation, bound.state_column);
    END LOOP;
    IF logs = '{}' AND paths.relation IS NOT NULL THEN
        bound := pawl._binding(paths.relation, NULL);
        IF bound.machine <> paths.machine THEN
            PERFORM pawl.raise('42704', format('machine "%s" is not enforced on table %s', paths.machine,
                paths.relation), format('Machine "%s" is.', bound.machine));
        END IF;
        PERFORM pawl._logged(bound.relation, bound.state_column);
    END IF;
    IF logs = '{}' THEN
        PERFORM pawl.raise('55000', format('no table with a log enforces machine "%s"', paths.machine), NULL,
            format('select pawl.enforce(''table'', ''state'', %L); select pawl.enable_log(''table'', ''state'')',
                paths.machine));
    END IF;
    RETURN QUERY
        WITH change AS MATERIALIZED (
            SELECT p.from_state, p.event, p.to_state, sum(p.taken)::bigint AS taken
              FROM unnest(logs) l CROSS JOIN LATERAL pawl._log_paths(l, paths.since) p GROUP BY 1, 2, 3),
        transition AS (
            SELECT t.from_state COLLATE "C" AS from_state, t.event COLLATE "C" AS event,
                   t.to_state COLLATE "C" AS to_state, min(t.ordinal) AS ordinal
              FROM pawl.machine_transition t WHERE t.machine = paths.machine AND t.version = wanted GROUP BY 1, 2, 3)
        SELECT r.kind, r.from_state, r.event, r.to_state, r.taken, r.placed FROM (
            SELECT 1 AS part, t.ordinal, 'transition' AS kind, t.from_state, t.event, t.to_state,
                   coalesce(c.taken, 0) AS taken, 0::bigint AS placed
              FROM transition t LEFT JOIN change c ON c.from_state IS NOT DISTINCT FROM t.from_state
                  AND c.event IS NOT DISTINCT FROM t.event AND c.to_state = t.to_state
            UNION ALL
            SELECT 2, s.ordinal, 'state', NULL, NULL, s.state,
                   coalesce(sum(c.taken) FILTER (WHERE c.event IS NULL OR NOT c.event ^@ 'pawl.'), 0)::bigint,
                   coalesce(sum(c.taken) FILTER (WHERE c.event = 'pawl.place'), 0)::bigint
              FROM pawl.machine_state s LEFT JOIN change c ON c.to_state = s.state COLLATE "C"
             WHERE s.machine = paths.machine AND s.version = wanted AND s.kind = 'state'
             GROUP BY s.ordinal, s.state) r
         ORDER BY r.part, r.ordinal;
END
$function$;
COMMENT ON FUNCTION pawl.paths(text, regclass, timestamptz, integer) IS
'Counts in the logs of a machine how often each transition was taken and each state entered: coverage of a test run.
machine: its name. relation: one table; null (default): all that enforce the machine. since: entries from this time
on; null (default): all. version: whose transitions and states are listed; null (default): the newest.
Returns kind (transition or state), from_state, event, to_state, taken, and placed: how often pawl.place put a row
there, which counts as taken by no transition and for no state. Both are 0 for what no test did.
Errors: PW008 unknown machine or version; 22004 null; 55000 no log; 42704 the table does not enforce the machine;
42501 permission denied for a log; 42P01 no such table. Privileges: all roles; needs SELECT on the logs.
Example: SELECT from_state, event, to_state FROM pawl.paths(''order'') WHERE taken = 0';
