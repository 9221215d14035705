-- pgTAP assertions. They run as the session that tests, with its search_path: pgTAP's own functions need that, too.

CREATE SCHEMA pawl_test;
GRANT USAGE ON SCHEMA pawl_test TO PUBLIC;
COMMENT ON SCHEMA pawl_test IS 'pgTAP assertions for machines and enforced tables';

CREATE FUNCTION pawl_test._verdict(passed boolean, description text, diagnosis text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
BEGIN
    RETURN ok(passed, description) || CASE WHEN passed THEN '' ELSE E'\n' || diag(diagnosis) END;
END
$function$;
COMMENT ON FUNCTION pawl_test._verdict(boolean, text, text) IS 'internal: a line of TAP, with a diagnosis if it failed';

-- Fires an event and undoes it.
CREATE FUNCTION pawl_test._fired(relation regclass, key anycompatible, event text, state_column name, OUT state text,
    OUT code text, OUT said text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
DECLARE
    message text;
    detail text;
    hint text;
BEGIN
    IF relation IS NULL OR key IS NULL OR event IS NULL THEN
        PERFORM pawl.raise('22004', CASE WHEN relation IS NULL THEN 'relation' WHEN key IS NULL THEN 'key'
            ELSE 'event' END || ' must not be null');
    END IF;
    BEGIN
        state := pawl.fire(relation, key, event, state_column => state_column);
        said := format('the row has changed to "%s"', state);
        PERFORM pawl.raise('PT000', 'undo');
    EXCEPTION WHEN SQLSTATE 'PT000' THEN
        RETURN;
    WHEN OTHERS OR ASSERT_FAILURE THEN
        GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
            hint = PG_EXCEPTION_HINT;
        state := NULL;
        said := concat_ws(E'\n', format('%s: %s', code, message), 'DETAIL: ' || nullif(detail, ''),
            'HINT: ' || nullif(hint, ''));
    END;
END
$function$;
COMMENT ON FUNCTION pawl_test._fired(regclass, anycompatible, text, name) IS
'internal: what an event would do with a row';

CREATE FUNCTION pawl_test.accepts(relation regclass, key anycompatible, event text, to_state text,
    description text DEFAULT NULL, state_column name DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
DECLARE
    outcome record := pawl_test._fired(relation, key, event, state_column);
BEGIN
    IF to_state IS NULL THEN
        PERFORM pawl.raise('22004', 'to_state must not be null');
    END IF;
    RETURN pawl_test._verdict(outcome.state IS NOT DISTINCT FROM to_state,
        coalesce(description, format('event "%s" leads row %s of %s to "%s"', event, key, relation, to_state)),
        format(E'have: %s\nwant: %s', outcome.said, to_state));
END
$function$;
COMMENT ON FUNCTION pawl_test.accepts(regclass, anycompatible, text, text, text, name) IS
'Tests that an event is possible for a row and leads to a state; the state change is undone.
relation: the enforced table. key: a value, row(a, b) or an array of texts. event: its name. to_state: the state.
description: null (default): one that names all of it. state_column: null: the only bound column.
Errors: 22004 null; every other error of pawl.fire is a test that fails. Privileges: all roles; those of pawl.fire.
Example: SELECT pawl_test.accepts(''orders'', 1, ''pay'', ''paid'')';

CREATE FUNCTION pawl_test.rejects(relation regclass, key anycompatible, event text, code text DEFAULT 'PW001',
    description text DEFAULT NULL, state_column name DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
DECLARE
    outcome record := pawl_test._fired(relation, key, event, state_column);
BEGIN
    IF code IS NULL THEN
        PERFORM pawl.raise('22004', 'code must not be null', NULL, 'code => ''PW001''');
    ELSIF code !~ '^[0-9A-Z]{5}$' THEN
        PERFORM pawl.raise('22023', 'code must be an SQLSTATE', format('It is "%s".', code), 'code => ''PW001''');
    END IF;
    RETURN pawl_test._verdict(outcome.code IS NOT DISTINCT FROM code,
        coalesce(description, format('event "%s" is rejected with %s for row %s of %s', event, code, key, relation)),
        format(E'have: %s\nwant: %s', outcome.said, code));
END
$function$;
COMMENT ON FUNCTION pawl_test.rejects(regclass, anycompatible, text, text, text, name) IS
'Tests that an event is rejected for a row, with this SQLSTATE.
relation: the enforced table. key: a value, row(a, b) or an array of texts. event: its name. code: the SQLSTATE;
default PW001, no such transition. description: null (default): one that names all of it. state_column: null: the
only bound column.
Errors: 22004 null; 22023 code is no SQLSTATE. Privileges: all roles; those of pawl.fire.
Example: SELECT pawl_test.rejects(''orders'', 1, ''send'', ''PW001'')';

CREATE FUNCTION pawl_test.history_is(relation regclass, key anycompatible, states text[],
    description text DEFAULT NULL, state_column name DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
DECLARE
    had text[];
    entries text;
BEGIN
    IF states IS NULL THEN
        PERFORM pawl.raise('22004', 'states must not be null', NULL, 'states => ''{new,paid}''');
    END IF;
    SELECT coalesce(array_agg(h.to_state ORDER BY h.sort_key), '{}'),
           string_agg(format('%s: %s%s', h.sort_key, coalesce(h.to_state, 'deleted'),
               coalesce(' by ' || h.event, '')), E'\n' ORDER BY h.sort_key)
      INTO had, entries FROM pawl.history(relation, key, state_column) h;
    RETURN pawl_test._verdict(had = states,
        coalesce(description, format('row %s of %s has passed through %s', key, relation, states)),
        format(E'have: %s\nwant: %s\n%s', had, states, coalesce(entries, 'the log has no entry of the row')));
END
$function$;
COMMENT ON FUNCTION pawl_test.history_is(regclass, anycompatible, text[], text, name) IS
'Tests that a row has passed through these states, oldest first, by its log.
relation: the enforced table. key: a value, row(a, b) or an array of texts. states: their names; a null element: the
row was deleted. description: null (default): one that names all of it. state_column: null: the only bound column.
Errors: 22004 null; those of pawl.history. Privileges: all roles; needs SELECT on the log.
Example: SELECT pawl_test.history_is(''orders'', 1, ''{new}'')';

-- A state that a machine has; null for null: before the row is inserted.
CREATE FUNCTION pawl_test._state_of(machine text, state text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
BEGIN
    IF state IS NOT NULL
       AND NOT EXISTS (SELECT FROM pawl.states(machine) s WHERE s.state = _state_of.state AND s.kind = 'state') THEN
        PERFORM pawl.raise('PW008', format('machine "%s" has no state "%s"', machine, state),
            (SELECT format('It has %s.', string_agg(format('"%s"', s.state), ', ' ORDER BY s.ordinal))
               FROM pawl.states(machine) s WHERE s.kind = 'state'),
            format('SELECT state FROM pawl.states(%L) WHERE kind = ''state'';', machine));
    END IF;
    RETURN state;
END
$function$;
COMMENT ON FUNCTION pawl_test._state_of(text, text) IS 'internal: a state of a machine, or an error';

CREATE FUNCTION pawl_test._has(machine text, from_state text, to_state text, event text, wanted boolean,
    description text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
DECLARE
    leaves text := pawl_test._state_of(machine, from_state);
    enters text := pawl_test._state_of(machine, to_state);
    found_one boolean;
    others text;
BEGIN
    IF to_state IS NULL THEN
        PERFORM pawl.raise('22004', 'to_state must not be null');
    END IF;
    SELECT coalesce(bool_or(t.to_state = enters AND (_has.event IS NULL OR t.event = _has.event)), false),
           string_agg(format('%s%s', t.to_state, ' by ' || t.event), ', ' ORDER BY t.ordinal)
      INTO found_one, others FROM pawl.transitions(machine) t WHERE t.from_state IS NOT DISTINCT FROM leaves;
    RETURN pawl_test._verdict(found_one = wanted,
        coalesce(description, format('machine "%s" has %s transition %s --> %s%s', machine,
            CASE WHEN wanted THEN 'a' ELSE 'no' END, coalesce(leaves, '[*]'), enters, ' : ' || event)),
        format('%s leads to: %s', coalesce(leaves, '[*]'), coalesce(others, 'nothing')));
END
$function$;
COMMENT ON FUNCTION pawl_test._has(text, text, text, text, boolean, text) IS
'internal: whether a machine has a transition, as it is wanted';

CREATE FUNCTION pawl_test.has_transition(machine text, from_state text, to_state text, event text DEFAULT NULL,
    description text DEFAULT NULL) RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
    SELECT pawl_test._has(machine, from_state, to_state, event, true, description)
$function$;
COMMENT ON FUNCTION pawl_test.has_transition(text, text, text, text, text) IS
'Tests that the newest version of a machine has a transition.
machine: its name. from_state: null: an insert. to_state: the state it leads to. event: null (default): any.
description: null (default): one that names all of it.
Errors: PW008 unknown machine or state; 22004 null. Privileges: all roles.
Example: SELECT pawl_test.has_transition(''order'', ''new'', ''paid'', ''pay'')';

CREATE FUNCTION pawl_test.hasnt_transition(machine text, from_state text, to_state text, event text DEFAULT NULL,
    description text DEFAULT NULL) RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
    SELECT pawl_test._has(machine, from_state, to_state, event, false, description)
$function$;
COMMENT ON FUNCTION pawl_test.hasnt_transition(text, text, text, text, text) IS
'Tests that the newest version of a machine has no such transition.
machine: its name. from_state: null: an insert. to_state: the state it leads to. event: null (default): any.
description: null (default): one that names all of it.
Errors: PW008 unknown machine or state; 22004 null. Privileges: all roles.
Example: SELECT pawl_test.hasnt_transition(''order'', ''sent'', ''new'')';

-- The shortest path, as a text; steps maps each state that can be reached to it.
CREATE FUNCTION pawl_test._path(machine text, from_state text, to_state text, wanted boolean, description text)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
DECLARE
    leaves text := pawl_test._state_of(machine, from_state);
    enters text := pawl_test._state_of(machine, to_state);
    steps jsonb := '{}';
    more jsonb;
BEGIN
    IF to_state IS NULL THEN
        PERFORM pawl.raise('22004', 'to_state must not be null');
    END IF;
    LOOP
        SELECT jsonb_object_agg(n.to_state, n.path) INTO more FROM (
            SELECT DISTINCT ON (t.to_state) t.to_state, format('%s --> %s%s',
                   CASE WHEN t.from_state IS NOT DISTINCT FROM leaves THEN coalesce(leaves, '[*]')
                       ELSE steps ->> t.from_state END, t.to_state, ' : ' || t.event) AS path
              FROM pawl.transitions(machine) t
             WHERE (t.from_state IS NOT DISTINCT FROM leaves OR steps ? t.from_state) AND NOT steps ? t.to_state
             ORDER BY t.to_state, t.ordinal) n;
        EXIT WHEN more IS NULL;
        steps := steps || more;
    END LOOP;
    RETURN pawl_test._verdict(steps ? enters = wanted,
        coalesce(description, format('machine "%s" has %s path from "%s" to "%s"', machine,
            CASE WHEN wanted THEN 'a' ELSE 'no' END, coalesce(leaves, '[*]'), enters)),
        CASE WHEN steps ? enters THEN 'path: ' || (steps ->> enters)
            ELSE format('%s leads to: %s', coalesce(leaves, '[*]'),
                coalesce((SELECT string_agg(k, ', ' ORDER BY k COLLATE "C") FROM jsonb_object_keys(steps) k),
                    'nothing')) END);
END
$function$;
COMMENT ON FUNCTION pawl_test._path(text, text, text, boolean, text) IS
'internal: whether transitions lead from a state to another, as it is wanted';

CREATE FUNCTION pawl_test.has_path(machine text, from_state text, to_state text, description text DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
    SELECT pawl_test._path(machine, from_state, to_state, true, description)
$function$;
COMMENT ON FUNCTION pawl_test.has_path(text, text, text, text) IS
'Tests that one or more transitions of a machine lead from a state to another; guards are not asked.
machine: its name, in the newest version. from_state: null: an insert. to_state: the last state. description: null
(default): one that names all of it.
Errors: PW008 unknown machine or state; 22004 null. Privileges: all roles.
Example: SELECT pawl_test.has_path(''order'', ''new'', ''sent'')';

CREATE FUNCTION pawl_test.hasnt_path(machine text, from_state text, to_state text, description text DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
    SELECT pawl_test._path(machine, from_state, to_state, false, description)
$function$;
COMMENT ON FUNCTION pawl_test.hasnt_path(text, text, text, text) IS
'Tests that no transitions of a machine lead from a state to another; on failure the diagnosis shows a shortest path.
machine: its name, in the newest version. from_state: null: an insert. to_state: the last state. description: null
(default): one that names all of it.
Errors: PW008 unknown machine or state; 22004 null. Privileges: all roles.
Example: SELECT pawl_test.hasnt_path(''order'', ''sent'', ''new'')';

CREATE FUNCTION pawl_test.covers(machine text, relation regclass DEFAULT NULL, since timestamptz DEFAULT NULL,
    description text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
DECLARE
    missing text := (SELECT string_agg(format('%s --> %s%s', coalesce(p.from_state, '[*]'), p.to_state,
            ' : ' || p.event), E'\n')
        FROM pawl.paths(machine, relation, since) p WHERE p.kind = 'transition' AND p.taken = 0);
BEGIN
    RETURN pawl_test._verdict(missing IS NULL,
        coalesce(description, format('every transition of machine "%s" was taken', machine)),
        E'never taken:\n' || missing);
END
$function$;
COMMENT ON FUNCTION pawl_test.covers(text, regclass, timestamptz, text) IS
'Tests that every transition of a machine was taken, by pawl.paths; the diagnosis lists the others.
machine: its name, in the newest version. relation: one table; null (default): all that enforce it. since: entries
from this time on; null (default): all. description: null (default): one that names the machine.
Errors: those of pawl.paths. Privileges: all roles; needs SELECT on the logs.
Example: SELECT pawl_test.covers(''order'', ''orders'')';
