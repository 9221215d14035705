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

CREATE FUNCTION pawl.render(diagram text, format text DEFAULT 'mermaid') RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF diagram IS NULL OR format IS NULL THEN
        PERFORM pawl.raise('22004', pg_catalog.format('%s must not be null',
            CASE WHEN diagram IS NULL THEN 'diagram' ELSE 'format' END));
    ELSIF format NOT IN ('mermaid', 'dot') THEN
        PERFORM pawl.raise('22023', pg_catalog.format('unknown diagram format "%s"', format), NULL,
            'format is mermaid or dot');
    END IF;
    RETURN pawl._render(diagram, format, 'diagram');
END
$function$;
COMMENT ON FUNCTION pawl.render(text, text) IS
'Returns a diagram in its canonical form, without defining a machine. diagram: its text. format: mermaid (default) or
dot (Graphviz).
Errors: PW007 the diagram cannot be read; 22023 unknown format; 22004 null; 54000 the diagram is too large. Privileges:
all roles.
Example: SELECT pawl.render(''stateDiagram-v2
[*] --> a'', ''dot'')';

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

CREATE FUNCTION pawl._diff(machine text, from_version integer, to_version integer)
RETURNS TABLE (change text, kind text, state text, from_state text, event text, to_state text, detail text)
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 10 AS 'MODULE_PATHNAME', 'pawl_diff';
COMMENT ON FUNCTION pawl._diff(text, integer, integer) IS
'internal: what changes between two versions that exist; version 0 has nothing in it';

CREATE FUNCTION pawl.diff(machine text, from_version integer DEFAULT NULL, to_version integer DEFAULT NULL)
RETURNS TABLE (change text, kind text, state text, from_state text, event text, to_state text, detail text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wanted integer := pawl._version(machine, to_version);
    former integer := (SELECT max(m.version) FROM pawl.machine m
                        WHERE m.machine = diff.machine AND m.version < wanted);
BEGIN
    IF from_version IS NOT NULL THEN
        former := pawl._version(machine, from_version);
    END IF;
    RETURN QUERY SELECT d.* FROM pawl._diff(machine, coalesce(former, 0), wanted) d;
END
$function$;
COMMENT ON FUNCTION pawl.diff(text, integer, integer) IS
'Returns what changes from one version of a machine to another: first states, then transitions, each removed, changed,
added. Composite states and choices are resolved.
machine: its name. from_version: null (default): the version before to_version; of the first version everything is
added. to_version: null (default): the newest. Returns change (removed, changed, added), kind (state, transition),
state, or from_state (null: an initial state), event and to_state; detail (null: nothing more): what a changed one has
now and had before, the label of a transition.
Errors: PW008 unknown machine or version; 22004 null. Privileges: all roles.
Example: SELECT change, state, from_state, event, to_state FROM pawl.diff(''order'')';
