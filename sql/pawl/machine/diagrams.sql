-- Prints machines, as rows and as diagrams.

CREATE FUNCTION pawl._version(machine text, version integer) RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    newest integer;
    known text;
BEGIN
    IF machine IS NULL THEN
        PERFORM pawl.raise('22004', 'machine must not be null');
    END IF;
    SELECT max(m.version) INTO newest FROM pawl.machine m WHERE m.machine = _version.machine;
    IF newest IS NULL THEN
        SELECT string_agg(quote_literal(k.machine), ', ' ORDER BY k.machine) INTO known
          FROM (SELECT DISTINCT m.machine FROM pawl.machine m ORDER BY 1 LIMIT 10) k;
        PERFORM pawl.raise('PW008', format('unknown machine "%s"', machine), NULL,
            coalesce('defined: ' || known, format('define it: select pawl.define(%L, diagram)', machine)));
    END IF;
    IF version IS NULL THEN
        RETURN newest;
    END IF;
    IF NOT EXISTS (SELECT FROM pawl.machine m WHERE m.machine = _version.machine AND m.version = _version.version) THEN
        PERFORM pawl.raise('PW008', format('machine "%s" has no version %s', machine, version), NULL,
            format('the newest is %s', newest));
    END IF;
    RETURN version;
END
$function$;
COMMENT ON FUNCTION pawl._version(text, integer) IS
'internal: a version of a machine that exists, by default the newest';

CREATE FUNCTION pawl.diagram(machine text, version integer DEFAULT NULL, format text DEFAULT 'mermaid') RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wanted integer := pawl._version(machine, version);
BEGIN
    IF format IS NULL THEN
        PERFORM pawl.raise('22004', 'format must not be null');
    END IF;
    IF format NOT IN ('mermaid', 'dot') THEN
        PERFORM pawl.raise('22023', pg_catalog.format('unknown diagram format "%s"', format), NULL,
            'format is mermaid or dot');
    END IF;
    RETURN (SELECT pawl._render(m.diagram, diagram.format, m.machine) FROM pawl.machine m
             WHERE m.machine = diagram.machine AND m.version = wanted);
END
$function$;
COMMENT ON FUNCTION pawl.diagram(text, integer, text) IS
'Returns a machine as a diagram. machine: its name. version: null (default): the newest. format: mermaid (default)
or dot (Graphviz).
Errors: PW008 unknown machine or version; 22023 unknown format; 22004 null. Privileges: all roles.
Example: SELECT pawl.diagram(''order'', format => ''dot'')';

CREATE FUNCTION pawl.states(machine text, version integer DEFAULT NULL) RETURNS SETOF pawl.machine_state
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wanted integer := pawl._version(machine, version);
BEGIN
    RETURN QUERY SELECT s.* FROM pawl.machine_state s
                  WHERE s.machine = states.machine AND s.version = wanted ORDER BY s.ordinal;
END
$function$;
COMMENT ON FUNCTION pawl.states(text, integer) IS
'Returns the states of a machine in the order of its diagram, as rows of pawl.machine_state. machine: its name.
version: null (default): the newest.
Errors: PW008 unknown machine or version; 22004 null. Privileges: all roles.
Example: SELECT state, initial, terminal FROM pawl.states(''order'')';

CREATE FUNCTION pawl.transitions(machine text, version integer DEFAULT NULL) RETURNS SETOF pawl.machine_transition
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wanted integer := pawl._version(machine, version);
BEGIN
    RETURN QUERY SELECT t.* FROM pawl.machine_transition t
                  WHERE t.machine = transitions.machine AND t.version = wanted ORDER BY t.ordinal;
END
$function$;
COMMENT ON FUNCTION pawl.transitions(text, integer) IS
'Returns the transitions of a machine in the order of its diagram, as rows of pawl.machine_transition; composite
states and choices are resolved. machine: its name. version: null (default): the newest.
Errors: PW008 unknown machine or version; 22004 null. Privileges: all roles.
Example: SELECT from_state, event, to_state FROM pawl.transitions(''order'')';
