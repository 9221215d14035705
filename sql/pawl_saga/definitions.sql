-- Definitions: structures of tasks, compiled to graphs, in versions. A flow keeps the version that it was started with.

CREATE TABLE pawl_saga.definitions (
    definition_uuid uuid PRIMARY KEY DEFAULT pawl.uuid_v7(),
    name text COLLATE "C" NOT NULL CHECK (name OPERATOR(pg_catalog.<>) ''),
    version integer NOT NULL,
    structure jsonb NOT NULL,
    content_hash bytea NOT NULL,
    last_node integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    created_by name NOT NULL DEFAULT current_user,
    flow_uuid uuid,
    made_from uuid
);
CREATE UNIQUE INDEX definitions_name_version ON pawl_saga.definitions (name, version) WHERE flow_uuid IS NULL;
CREATE INDEX definitions_flow ON pawl_saga.definitions (flow_uuid) WHERE flow_uuid IS NOT NULL;
COMMENT ON TABLE pawl_saga.definitions IS
'structures of flows in versions; written by pawl_saga.define, never changed afterwards';
COMMENT ON COLUMN pawl_saga.definitions.last_node IS 'the end of the outermost flow';
COMMENT ON COLUMN pawl_saga.definitions.created_by IS
'the role with whose rights deciders and controllers run in a superuser''s session';
COMMENT ON COLUMN pawl_saga.definitions.flow_uuid IS
'the one flow that was altered to this one; null: any flow may begin with it';
COMMENT ON COLUMN pawl_saga.definitions.made_from IS
'of an altered flow: the version that it was altered to, here with the numbers that its atoms have already';

CREATE TABLE pawl_saga.nodes (
    definition_uuid uuid NOT NULL REFERENCES pawl_saga.definitions ON DELETE CASCADE,
    node integer NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (kind OPERATOR(pg_catalog.=) ANY ('{entry,end,task,retry}'::text[])),
    name text COLLATE "C" NOT NULL,
    controller integer,
    waits_for integer NOT NULL,
    priority integer NOT NULL,
    votes boolean NOT NULL,
    may_miss boolean NOT NULL,
    careful boolean NOT NULL,
    written jsonb,
    PRIMARY KEY (definition_uuid, node)
);
COMMENT ON TABLE pawl_saga.nodes IS
'the compiled graph: atoms (tasks and retries), and an entry and an end for each flow, numbered in the order of '
'the definition';
COMMENT ON COLUMN pawl_saga.nodes.controller IS 'the retry that is asked when this atom fails';
COMMENT ON COLUMN pawl_saga.nodes.waits_for IS
'edges that lead here from nodes that are not passed as a flow begins';
COMMENT ON COLUMN pawl_saga.nodes.votes IS 'deciders have a say whether it runs';
COMMENT ON COLUMN pawl_saga.nodes.may_miss IS
'what it requires may not be there, because those who provide it may be ignored';
COMMENT ON COLUMN pawl_saga.nodes.careful IS
'the database looks at it before it may run: votes, values that may be missing, signals and times to wait for';

CREATE TABLE pawl_saga.edges (
    definition_uuid uuid NOT NULL REFERENCES pawl_saga.definitions ON DELETE CASCADE,
    from_node integer NOT NULL,
    to_node integer NOT NULL,
    from_kind text COLLATE "C" NOT NULL,
    to_kind text COLLATE "C" NOT NULL,
    to_careful boolean NOT NULL,
    PRIMARY KEY (definition_uuid, from_node, to_node)
);
COMMENT ON TABLE pawl_saga.edges IS 'what comes directly behind what';
COMMENT ON COLUMN pawl_saga.edges.to_careful IS 'the node that it leads to is careful';
-- The node first: so that nothing else than what leads to a node is looked up in it, also without statistics.
CREATE INDEX edges_back ON pawl_saga.edges (to_node, definition_uuid, from_node);

CREATE TABLE pawl_saga.votes (
    definition_uuid uuid NOT NULL REFERENCES pawl_saga.definitions ON DELETE CASCADE,
    target integer NOT NULL,
    link integer NOT NULL,
    source integer,
    depth text COLLATE "C" NOT NULL,
    decider jsonb NOT NULL,
    PRIMARY KEY (definition_uuid, target, link)
);
COMMENT ON TABLE pawl_saga.votes IS
'deciders: what decides whether a node runs; source is null where the link comes from a flow';

CREATE TABLE pawl_saga.parameters (
    definition_uuid uuid NOT NULL REFERENCES pawl_saga.definitions ON DELETE CASCADE,
    node integer NOT NULL,
    parameter text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    optional boolean NOT NULL,
    is_injected boolean NOT NULL,
    injected jsonb,
    providers integer[] NOT NULL,
    PRIMARY KEY (definition_uuid, node, parameter)
);
COMMENT ON TABLE pawl_saga.parameters IS
'what an atom is given: the name that is looked up for each parameter, and the atoms that provide it, the '
'preferred one first';

SELECT pg_catalog.pg_extension_config_dump('pawl_saga.definitions', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.nodes', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.edges', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.votes', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.parameters', '');

CREATE FUNCTION pawl_saga._compile(structure text) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_saga_compile';
COMMENT ON FUNCTION pawl_saga._compile(text) IS
'internal: the graph of a structure, JSON to JSON; PW007: what is wrong with it';

CREATE FUNCTION pawl_saga.define(structure jsonb) RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    graph jsonb;
    made pawl_saga.definitions;
    known pawl_saga.definitions;
    idle text;
BEGIN
    IF structure IS NULL THEN
        PERFORM pawl.raise('22004', 'structure must not be null');
    END IF;
    graph := pawl_saga._compile(structure::text)::jsonb;
    PERFORM pawl.backoff(1, n.written -> 'backoff')
       FROM jsonb_to_recordset(graph -> 'nodes') n(kind text, written jsonb)
      WHERE n.kind = 'retry' AND n.written ? 'backoff';
    SELECT string_agg(format('"%s" into "%s"', i.name, n.name), ', ' ORDER BY n.node, i.name) INTO idle
      FROM jsonb_to_recordset(graph -> 'nodes') n(node integer, name text, written jsonb)
     CROSS JOIN jsonb_object_keys(CASE jsonb_typeof(n.written -> 'inject') WHEN 'object' THEN n.written -> 'inject'
         ELSE '{}' END) i(name)
     WHERE NOT EXISTS (SELECT FROM jsonb_to_recordset(graph -> 'parameters') p(node integer, name text)
         WHERE p.node = n.node AND p.name = i.name);
    IF idle IS NOT NULL THEN
        RAISE WARNING 'flow "%" injects values that are not required',
            coalesce(structure ->> 'name', structure ->> 'task')
            USING DETAIL = format('Injected are %s; these values are not used.', idle),
                  HINT = 'name it in "requires" or "optional" too, or as a value of "rebind"';
    END IF;
    made.name := coalesce(structure ->> 'name', structure ->> 'task');
    made.content_hash := sha256(convert_to(structure::text, 'UTF8'));
    -- a session that defines the same name at the same time waits here, and then sees the other version
    PERFORM pawl.acquire_lock(hashtextextended('pawl_saga.define ' || made.name, 0));
    SELECT * INTO known FROM pawl_saga.definitions d WHERE d.name = made.name AND d.flow_uuid IS NULL
        ORDER BY d.version DESC LIMIT 1;
    IF known.content_hash = made.content_hash THEN
        RETURN known.definition_uuid;
    END IF;
    made.definition_uuid := pawl.uuid_v7();
    made.version := coalesce(known.version, 0) + 1;
    made.structure := structure;
    made.last_node := jsonb_array_length(graph -> 'nodes') - 1;
    made.created_at := clock_timestamp();
    made.created_by := current_user;
    INSERT INTO pawl_saga.definitions SELECT made.*;
    INSERT INTO pawl_saga.nodes (definition_uuid, node, kind, name, controller, waits_for, priority, votes, may_miss,
        careful, written)
    SELECT made.definition_uuid, n.node, n.kind, n.name, n.controller, n.waits_for, n.priority, n.votes, n.may_miss,
           n.votes OR n.may_miss OR (n.kind = 'task'
               AND (n.written ->> 'signal' IS NOT NULL OR n.written ->> 'wait_seconds' IS NOT NULL)), n.written
      FROM jsonb_to_recordset(graph -> 'nodes') n(node integer, kind text, name text, controller integer,
          waits_for integer, priority integer, votes boolean,
                                                  may_miss boolean, written jsonb);
    INSERT INTO pawl_saga.edges
    SELECT made.definition_uuid, f.node, t.node, f.kind, t.kind, t.careful
      FROM jsonb_array_elements(graph -> 'edges') e
      JOIN pawl_saga.nodes f ON f.definition_uuid = made.definition_uuid AND f.node = (e ->> 0)::integer
      JOIN pawl_saga.nodes t ON t.definition_uuid = made.definition_uuid AND t.node = (e ->> 1)::integer;
    INSERT INTO pawl_saga.votes
    SELECT made.definition_uuid, v.* FROM jsonb_to_recordset(graph -> 'votes') v(target integer, link integer,
        source integer, depth text, decider jsonb);
    INSERT INTO pawl_saga.parameters
    SELECT made.definition_uuid, p.node, p.parameter, p.name, p.optional, p.is_injected,
    CASE WHEN p.is_injected THEN coalesce(p.injected, 'null') END, p.providers
      FROM jsonb_to_recordset(graph -> 'parameters') p(node integer, parameter text, name text, optional boolean,
          is_injected boolean, injected jsonb, providers integer[]);
    RETURN made.definition_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_saga.define(jsonb) IS
'Defines a version of a flow and returns its id. An equal structure returns the id that exists. A value of inject
that its task does not require raises a warning.
structure: {"flow": linear | unordered | graph, "name", "retry": {...}, "children": [tasks and flows], "links":
[{"from", "to", "decider", "depth"}]}; a task is {"task", "priority", "requires", "optional", "provides", "rebind",
"inject", "execute", "revert", "queue", "timeout_seconds", "revert_timeout_seconds", "max_losses": 20}; a task that
waits has "signal", "wait_seconds" or both, and no "execute".
Errors: PW007 an invalid structure; 22023 a backoff that pawl.backoff rejects; 22004 null. Privileges: pawl_admin.
Example: SELECT pawl_saga.define(''{"flow": "linear", "name": "trip", "children": [{"task": "book", "execute":
"book", "revert": "cancel"}]}'')';

CREATE FUNCTION pawl_saga._definition_immutable() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE OR DELETE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL,
        'pawl_saga.definitions', 'pawl_saga.nodes', 'pawl_saga.edges', 'pawl_saga.votes', 'pawl_saga.parameters');
    used uuid := OLD.definition_uuid;
BEGIN
    IF TG_OP = 'UPDATE' OR EXISTS (SELECT FROM pawl_saga.flows f WHERE f.definition_uuid = used) THEN
        PERFORM pawl.raise('PW006', 'a definition is immutable',
            format('Definition %s: flows keep their version.', used),
            'define the next version: select pawl_saga.define(...)');
    END IF;
    RETURN OLD;
END
$function$;
COMMENT ON FUNCTION pawl_saga._definition_immutable() IS
'internal: rejects changes of definitions, and removal of one that flows run';
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_saga.definitions
    FOR EACH ROW EXECUTE FUNCTION pawl_saga._definition_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_saga.nodes
    FOR EACH ROW EXECUTE FUNCTION pawl_saga._definition_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_saga.edges
    FOR EACH ROW EXECUTE FUNCTION pawl_saga._definition_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_saga.votes
    FOR EACH ROW EXECUTE FUNCTION pawl_saga._definition_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl_saga.parameters
    FOR EACH ROW EXECUTE FUNCTION pawl_saga._definition_immutable();

-- Functions that a definition names may run with the rights of the role that defined it, so no other role adds to it.
CREATE FUNCTION pawl_saga._definition_own() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT STATEMENT', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL,
        'pawl_saga.definitions', 'pawl_saga.nodes', 'pawl_saga.votes');
    other name;
BEGIN
    SELECT d.created_by INTO other FROM pawl_saga.definitions d
     WHERE d.definition_uuid IN (SELECT n.definition_uuid FROM new_rows n) AND d.created_by <> current_user
       AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = d.created_by AND pg_has_role(r.oid, 'MEMBER'))
       AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = current_user AND r.rolsuper) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('42501', format('permission denied to define as role "%s"', other),
            'Deciders and controllers may run with the rights of the role that defined a flow.',
            'select pawl_saga.define(...)');
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_saga._definition_own() IS
'internal: rejects rows of definitions in the name of another role; 42501';
CREATE TRIGGER own AFTER INSERT ON pawl_saga.definitions REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_saga._definition_own();
CREATE TRIGGER own AFTER INSERT ON pawl_saga.nodes REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_saga._definition_own();
CREATE TRIGGER own AFTER INSERT ON pawl_saga.votes REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_saga._definition_own();
