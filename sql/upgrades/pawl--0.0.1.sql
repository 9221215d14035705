\echo Use "CREATE EXTENSION pawl VERSION '0.0.1'" to load this file. \quit
-- Frozen: the first version that enforced anything. It is kept so that the way from it to the newest is tested.
CREATE SCHEMA pawl;
COMMENT ON SCHEMA pawl IS 'state machines that tables cannot break: machines, their attachment to tables, and the functions that move rows';

-- Roles belong to the cluster, not to the database, so they may be here already; they are never dropped with the extension.
DO $roles$
DECLARE
    role_name text;
    about text;
BEGIN
    FOR role_name, about IN
        VALUES ('pawl_admin', 'pawl: defines machines, attaches them to tables it owns, releases and upgrades them'),
               ('pawl_operator', 'pawl: moves rows by event, watches health and verifies logs'),
               ('pawl_worker', 'pawl: moves rows by event and reads their history'),
               ('pawl_reader', 'pawl: reads machines, histories, health')
    LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = role_name) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', role_name);
                EXECUTE pg_catalog.format('COMMENT ON ROLE %I IS %L', role_name, about);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;  -- another database of the cluster creates the extension at this moment
            END;
        END IF;
    END LOOP;
END
$roles$;
-- Machines: what was drawn, and what it compiles to. Written by pawl.define, never changed afterwards.

CREATE TABLE pawl.machine (
    machine text COLLATE "C" NOT NULL CHECK (machine <> ''),
    version integer NOT NULL CHECK (version > 0),
    source text NOT NULL,
    diagram text NOT NULL,
    unbound text NOT NULL DEFAULT 'refuse' CHECK (unbound IN ('refuse', 'note')),
    defined_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    -- a name, not a regrole: a dump must load where that role does not exist
    defined_by text NOT NULL DEFAULT CURRENT_USER,
    PRIMARY KEY (machine, version)
);
COMMENT ON TABLE pawl.machine IS 'one row a version of a machine; immutable';
COMMENT ON COLUMN pawl.machine.source IS 'the diagram as it was given';
COMMENT ON COLUMN pawl.machine.diagram IS 'its canonical form: two diagrams that mean the same have the same one';
COMMENT ON COLUMN pawl.machine.unbound IS 'what became of guards and effects that name no function: refuse or note';

CREATE TABLE pawl.machine_state (
    machine text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    ordinal integer NOT NULL,
    state text COLLATE "C" NOT NULL,
    kind text NOT NULL DEFAULT 'state' CHECK (kind IN ('state', 'composite', 'choice')),
    parent text COLLATE "C",
    initial boolean NOT NULL DEFAULT false,
    terminal boolean NOT NULL DEFAULT false,
    tags text[] NOT NULL DEFAULT '{}',
    description text,
    PRIMARY KEY (machine, version, ordinal),
    UNIQUE (machine, version, state),
    FOREIGN KEY (machine, version) REFERENCES pawl.machine ON DELETE CASCADE
);
COMMENT ON TABLE pawl.machine_state IS 'the states of a machine; a column holds only those of kind "state"';

CREATE TABLE pawl.machine_transition (
    machine text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    ordinal integer NOT NULL,
    from_state text COLLATE "C",
    to_state text COLLATE "C" NOT NULL,
    event text COLLATE "C",
    params text[] NOT NULL DEFAULT '{}',
    guards text[] NOT NULL DEFAULT '{}',
    effects text[] NOT NULL DEFAULT '{}',
    after interval,
    notes text[] NOT NULL DEFAULT '{}',
    drawn_from text COLLATE "C",
    PRIMARY KEY (machine, version, ordinal),
    FOREIGN KEY (machine, version) REFERENCES pawl.machine ON DELETE CASCADE
);
COMMENT ON TABLE pawl.machine_transition IS 'the arrows of a machine, from state to state, in drawing order; from_state is null for a first state';
COMMENT ON COLUMN pawl.machine_transition.guards IS 'qualified names of functions f(old, new) that must say yes';
COMMENT ON COLUMN pawl.machine_transition.effects IS 'qualified names of functions f(old, new) that run after the move';
COMMENT ON COLUMN pawl.machine_transition.notes IS 'remarks of the label that name no function';
COMMENT ON COLUMN pawl.machine_transition.drawn_from IS 'the composite state this arrow was inherited from';

-- verify and the functions that read arrows ask for one pair of states of one version.
CREATE INDEX ON pawl.machine_transition (machine, version, from_state, to_state);

SELECT pg_catalog.pg_extension_config_dump('pawl.machine', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.machine_state', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.machine_transition', '');

-- A version that a row was ever judged by must stay what it was.
CREATE FUNCTION pawl._machine_immutable() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    log regclass;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION USING ERRCODE = 'PW006',
            MESSAGE = format('version %s of machine "%s" is immutable', OLD.version, OLD.machine),
            DETAIL = 'Rows and logs are judged by the versions they were written under.',
            HINT = format('define the next version: select pawl.define(%L, ...)', OLD.machine);
    END IF;
    IF TG_TABLE_NAME <> 'machine' THEN
        -- a version goes as a whole: its states and arrows follow it, when it is already out of sight
        IF EXISTS (SELECT FROM pawl.machine m WHERE m.machine = OLD.machine AND m.version = OLD.version) THEN
            RAISE EXCEPTION USING ERRCODE = 'PW006',
                MESSAGE = format('version %s of machine "%s" is immutable', OLD.version, OLD.machine),
                HINT = format('delete from pawl.machine where machine = %L and version = %s', OLD.machine, OLD.version);
        END IF;
        RETURN OLD;
    END IF;
    SELECT b.history INTO log FROM pawl.binding b
     WHERE b.machine = OLD.machine AND b.history IS NOT NULL ORDER BY b.relation LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'PW006',
            MESSAGE = format('version %s of machine "%s" cannot be deleted', OLD.version, OLD.machine),
            DETAIL = format('Its moves may be in the log %s.', log);
    END IF;
    RETURN OLD;
END
$function$;
COMMENT ON FUNCTION pawl._machine_immutable() IS 'internal: refuses changes of a defined machine';

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl.machine
    FOR EACH ROW EXECUTE FUNCTION pawl._machine_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl.machine_state
    FOR EACH ROW EXECUTE FUNCTION pawl._machine_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl.machine_transition
    FOR EACH ROW EXECUTE FUNCTION pawl._machine_immutable();

-- States and arrows come with their version, in the transaction that defines it. A version that is bound gets no more of them,
-- save from a superuser: a restore fills the tables in an order of its own.
CREATE FUNCTION pawl._machine_complete() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound record;
BEGIN
    IF current_setting('is_superuser') = 'on' THEN
        RETURN NULL;
    END IF;
    SELECT b.machine, b.version INTO bound
      FROM (SELECT DISTINCT a.machine, a.version FROM added a) v
      JOIN pawl.binding b ON b.machine = v.machine AND b.version = v.version LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'PW006',
            MESSAGE = format('version %s of machine "%s" is immutable', bound.version, bound.machine),
            HINT = format('define the next version: select pawl.define(%L, ...)', bound.machine);
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl._machine_complete() IS 'internal: a machine that is in use gets no further states or arrows';

CREATE TRIGGER complete AFTER INSERT ON pawl.machine_state REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION pawl._machine_complete();
CREATE TRIGGER complete AFTER INSERT ON pawl.machine_transition REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION pawl._machine_complete();
-- Bindings: which machine guards which column of which table.

CREATE TABLE pawl.binding (
    relation regclass NOT NULL,
    state_column name NOT NULL,
    machine text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    key_columns name[] NOT NULL DEFAULT '{}',
    history regclass,
    most_recent text NOT NULL DEFAULT 'stored' CHECK (most_recent IN ('stored', 'derived')),
    hash_chain boolean NOT NULL DEFAULT false,
    on_delete text NOT NULL DEFAULT 'allow' CHECK (on_delete IN ('allow', 'terminal', 'deny')),
    always boolean NOT NULL DEFAULT false,
    enforced_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    enforced_by text NOT NULL DEFAULT CURRENT_USER,
    history_view regclass,
    log_key_columns name[] NOT NULL DEFAULT '{}',
    -- What the names above meant when they were written: a rename is an attribute number whose name is another one now.
    -- They count only while relation_oid is relation's: after a restore the names decide.
    relation_oid oid,
    state_attnum smallint,
    key_attnums smallint[],
    PRIMARY KEY (relation, state_column),
    FOREIGN KEY (machine, version) REFERENCES pawl.machine,
    CHECK (history IS NULL OR pg_catalog.cardinality(key_columns) > 0),
    CHECK (history IS NULL OR pg_catalog.cardinality(log_key_columns) OPERATOR(pg_catalog.=) pg_catalog.cardinality(key_columns))
);
COMMENT ON TABLE pawl.binding IS 'one row a lifecycle attached to a table; written by pawl.enforce, pawl.release and pawl.upgrade';
COMMENT ON COLUMN pawl.binding.relation IS 'the root: partitions and inheritance children are found through pg_inherits';
COMMENT ON COLUMN pawl.binding.key_columns IS 'the columns that identify a row, in the order of the key; empty when the table has no primary key';
COMMENT ON COLUMN pawl.binding.history IS 'the table the log is written to';
COMMENT ON COLUMN pawl.binding.history_view IS 'the view on the log that derives most_recent';
COMMENT ON COLUMN pawl.binding.log_key_columns IS 'the names of key_columns in the log: the same, or subject_... where the log has a column of that name itself';

SELECT pg_catalog.pg_extension_config_dump('pawl.binding', '');

-- A relation and its parents up to the root.
CREATE FUNCTION pawl._ancestors(relation oid) RETURNS SETOF oid
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH RECURSIVE up(oid) AS (
        SELECT relation
        UNION
        SELECT i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.oid AND NOT i.inhdetachpending
    )
    SELECT up.oid FROM up
$function$;
COMMENT ON FUNCTION pawl._ancestors(oid) IS 'internal: a relation and all it inherits from';

-- A relation with all its partitions and inheritance children.
CREATE FUNCTION pawl._members(relation oid) RETURNS SETOF oid
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH RECURSIVE down(oid) AS (
        SELECT relation
        UNION
        SELECT i.inhrelid FROM down JOIN pg_inherits i ON i.inhparent = down.oid AND NOT i.inhdetachpending
    )
    SELECT down.oid FROM down
$function$;
COMMENT ON FUNCTION pawl._members(oid) IS 'internal: a relation and all that inherit from it';

CREATE FUNCTION pawl._owns(relation oid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT pg_has_role(current_user, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation
$function$;
COMMENT ON FUNCTION pawl._owns(oid) IS 'internal: whether the current user has the rights of the owner; null when there is no such relation';

-- Whoever may write this table still speaks only for tables of his own.
CREATE FUNCTION pawl._binding_check() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    foreign_table regclass;
BEGIN
    SELECT r.relation INTO foreign_table
      FROM (SELECT CASE WHEN TG_OP <> 'INSERT' THEN OLD.relation END
            UNION ALL SELECT CASE WHEN TG_OP <> 'INSERT' THEN OLD.history END
            UNION ALL SELECT CASE WHEN TG_OP <> 'DELETE' THEN NEW.relation END
            UNION ALL SELECT CASE WHEN TG_OP <> 'DELETE' THEN NEW.history END
            UNION ALL SELECT CASE WHEN TG_OP <> 'DELETE' THEN NEW.history_view END) r(relation)
     WHERE NOT pawl._owns(r.relation) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = format('must be owner of table %s', foreign_table);
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    NEW.relation_oid := NEW.relation::oid;
    SELECT a.attnum INTO NEW.state_attnum FROM pg_attribute a
     WHERE a.attrelid = NEW.relation AND a.attname = NEW.state_column AND a.attnum > 0 AND NOT a.attisdropped;
    SELECT array_agg(a.attnum ORDER BY k.n) INTO NEW.key_attnums
      FROM unnest(NEW.key_columns) WITH ORDINALITY k(name, n)
      LEFT JOIN pg_attribute a ON a.attrelid = NEW.relation AND a.attname = k.name AND a.attnum > 0 AND NOT a.attisdropped;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._binding_check() IS 'internal: a binding can be written only by the owner of its table and log';

CREATE TRIGGER owner_only BEFORE INSERT OR UPDATE OR DELETE ON pawl.binding
    FOR EACH ROW EXECUTE FUNCTION pawl._binding_check();

-- The binding of a column; of the only bound column when none is named. The relation may be any member of the tree.
CREATE FUNCTION pawl._binding(relation regclass, state_column name) RETURNS pawl.binding
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one pawl.binding;
    bound_columns text;
    many boolean;
BEGIN
    IF relation IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'relation must not be null';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relation) THEN
        RAISE EXCEPTION USING ERRCODE = '42P01', MESSAGE = format('relation with OID %s does not exist', relation::oid);
    END IF;
    SELECT string_agg(quote_literal(b.state_column), ', ' ORDER BY b.state_column), count(*) > 1 INTO bound_columns, many
      FROM pawl.binding b WHERE b.relation IN (SELECT a FROM pawl._ancestors(_binding.relation) a);
    IF bound_columns IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '42704',
            MESSAGE = format('no lifecycle is enforced on table %s', relation),
            HINT = format('select pawl.enforce(%L, state_column, machine)', relation);
    END IF;
    IF many AND _binding.state_column IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('table %s has several lifecycles', relation),
            DETAIL = format('They are on the columns %s.', bound_columns),
            HINT = format('name one: state_column => %s', split_part(bound_columns, ', ', 1));
    END IF;
    SELECT b.* INTO found_one FROM pawl.binding b
     WHERE b.relation IN (SELECT a FROM pawl._ancestors(_binding.relation) a)
       AND (_binding.state_column IS NULL OR b.state_column = _binding.state_column);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42704',
            MESSAGE = format('no lifecycle is enforced on column "%s" of table %s', state_column, relation),
            HINT = format('state_column => %s', bound_columns);
    END IF;
    RETURN found_one;
END
$function$;
COMMENT ON FUNCTION pawl._binding(regclass, name) IS 'internal: the binding of a column, or an error that says what there is';
-- The functions written in C++.

CREATE FUNCTION pawl.define(machine text, diagram text, unbound text DEFAULT 'refuse') RETURNS integer
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_define';
COMMENT ON FUNCTION pawl.define(text, text, text) IS
'defines a machine by a Mermaid state diagram and returns its version; the same machine again gives the same version. unbound: refuse or note guards and effects that name no function. PW007: the diagram is wrong, at a line and column';

CREATE FUNCTION pawl.check(diagram text) RETURNS TABLE (severity text, code text, line integer, col integer, message text)
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 10 AS 'MODULE_PATHNAME', 'pawl_check';
COMMENT ON FUNCTION pawl.check(text) IS
'remarks on a Mermaid state diagram: errors that pawl.define would raise, and what a careful reader would ask about; nothing is stored';

CREATE FUNCTION pawl._render(diagram text, format text, name text) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_render';
COMMENT ON FUNCTION pawl._render(text, text, text) IS 'internal: a canonical diagram as mermaid or dot';

CREATE FUNCTION pawl.judge() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_judge';
COMMENT ON FUNCTION pawl.judge() IS 'trigger of an enforced table: may this row move?';
CREATE FUNCTION pawl.settle() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_settle';
COMMENT ON FUNCTION pawl.settle() IS 'trigger of an enforced table: first states, deletions, moves between partitions, effects';
CREATE FUNCTION pawl.truncated() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_truncated';
COMMENT ON FUNCTION pawl.truncated() IS 'trigger of an enforced table: may it be emptied?';
CREATE FUNCTION pawl.log_door() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_log_door';
COMMENT ON FUNCTION pawl.log_door() IS 'trigger of a log: an insert is a request to move the row';
CREATE FUNCTION pawl.log_guard() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_log_guard';
COMMENT ON FUNCTION pawl.log_guard() IS 'trigger of a log: it cannot be changed (PW006)';
CREATE FUNCTION pawl.invalidate() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_invalidate';
COMMENT ON FUNCTION pawl.invalidate() IS 'trigger of pawl.machine and pawl.binding: every session forgets what it compiled';

CREATE FUNCTION pawl.deferred() RETURNS boolean
LANGUAGE c VOLATILE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_deferred';
COMMENT ON FUNCTION pawl.deferred() IS 'whether this transaction has rows to be judged, or effects to be run, after their statement';

CREATE FUNCTION pawl.fire(relation regclass, key "any", event text, metadata jsonb DEFAULT NULL, state_column name DEFAULT NULL)
RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_fire';
COMMENT ON FUNCTION pawl.fire(regclass, "any", text, jsonb, name) IS
'moves one row by an event and returns its new state. The key is a value, row(a, b), or a text array. PW001: no such move from here; PW003: a guard said no; PW008: unknown event; P0002: no such row';

CREATE FUNCTION pawl.fire_many(relation regclass, keys "any", event text, metadata jsonb DEFAULT NULL, state_column name DEFAULT NULL)
RETURNS TABLE (key text, ok boolean, from_state text, to_state text, sqlstate text, message text)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_fire_many';
COMMENT ON FUNCTION pawl.fire_many(regclass, "any", text, jsonb, name) IS
'moves many rows by an event; one result row a key: what cannot move says why and keeps nobody else from moving';

CREATE FUNCTION pawl.available(relation regclass, key "any", state_column name DEFAULT NULL)
RETURNS TABLE (event text, to_state text, allowed boolean, blocked_by text, params text[], guards text[], notes text[])
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10 AS 'MODULE_PATHNAME', 'pawl_available';
COMMENT ON FUNCTION pawl.available(regclass, "any", name) IS
'the moves that leave a row''s state, each allowed or blocked by a named guard';

CREATE FUNCTION pawl.uuid_v7(at timestamptz DEFAULT pg_catalog.clock_timestamp()) RETURNS uuid
LANGUAGE c VOLATILE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_uuid_v7';
COMMENT ON FUNCTION pawl.uuid_v7(timestamptz) IS 'a version 7 UUID: ordered by the time given, random below a millisecond';

CREATE FUNCTION pawl._key_text(relation regclass, key "any", state_column name) RETURNS text[]
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_key_text';
COMMENT ON FUNCTION pawl._key_text(regclass, "any", name) IS 'internal: the values of a key as text, in the order of binding.key_columns';

CREATE FUNCTION pawl._remap(relation regclass, state_column name, remap jsonb) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_remap';
COMMENT ON FUNCTION pawl._remap(regclass, name, jsonb) IS 'internal: moves rows to new states as part of pawl.upgrade; owner only';

CREATE FUNCTION pawl._guard_functions(relation regclass, machine text, version integer) RETURNS SETOF text
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 1 AS 'MODULE_PATHNAME', 'pawl_guard_functions';
COMMENT ON FUNCTION pawl._guard_functions(regclass, text, integer) IS
'internal: the guards and effects of a machine that cannot be called as f(old row, new row) of this table';

-- Compiled machines live in every session; these tell them to look again. ALWAYS: also when a restore runs as a replica.
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON pawl.machine
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate_truncate AFTER TRUNCATE ON pawl.machine
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON pawl.binding
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate_truncate AFTER TRUNCATE ON pawl.binding
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
ALTER TABLE pawl.machine ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE pawl.machine ENABLE ALWAYS TRIGGER invalidate_truncate;
ALTER TABLE pawl.binding ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE pawl.binding ENABLE ALWAYS TRIGGER invalidate_truncate;
-- Machines read back: as rows, as a picture.

CREATE FUNCTION pawl._version(machine text, version integer) RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    newest integer;
    known text;
BEGIN
    IF machine IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'machine must not be null';
    END IF;
    SELECT max(m.version) INTO newest FROM pawl.machine m WHERE m.machine = _version.machine;
    IF newest IS NULL THEN
        SELECT string_agg(quote_literal(k.machine), ', ' ORDER BY k.machine) INTO known
          FROM (SELECT DISTINCT m.machine FROM pawl.machine m ORDER BY 1 LIMIT 10) k;
        RAISE EXCEPTION USING ERRCODE = 'PW008',
            MESSAGE = format('unknown machine "%s"', machine),
            HINT = coalesce('defined are: ' || known, format('define it: select pawl.define(%L, diagram)', machine));
    END IF;
    IF version IS NULL THEN
        RETURN newest;
    END IF;
    IF NOT EXISTS (SELECT FROM pawl.machine m WHERE m.machine = _version.machine AND m.version = _version.version) THEN
        RAISE EXCEPTION USING ERRCODE = 'PW008',
            MESSAGE = format('machine "%s" has no version %s', machine, version),
            HINT = format('the newest is %s', newest);
    END IF;
    RETURN version;
END
$function$;
COMMENT ON FUNCTION pawl._version(text, integer) IS 'internal: a version of a machine that exists, by default the newest';

CREATE FUNCTION pawl.diagram(machine text, version integer DEFAULT NULL, format text DEFAULT 'mermaid') RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wanted integer := pawl._version(machine, version);
BEGIN
    IF format IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'format must not be null';
    END IF;
    IF format NOT IN ('mermaid', 'dot') THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = pg_catalog.format('unknown diagram format "%s"', format),
            HINT = 'format is mermaid or dot';
    END IF;
    RETURN (SELECT pawl._render(m.diagram, diagram.format, m.machine) FROM pawl.machine m
             WHERE m.machine = diagram.machine AND m.version = wanted);
END
$function$;
COMMENT ON FUNCTION pawl.diagram(text, integer, text) IS
'a machine as text: mermaid or dot (Graphviz); the newest version unless one is given. PW008: unknown machine or version; 22023: unknown format';

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
'the states of a machine in drawing order; the newest version unless one is given. PW008: unknown machine or version';

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
'the arrows of a machine in drawing order, composites and choices resolved; the newest version unless one is given. PW008: unknown machine or version';
-- The log beside an enforced table: its names, its shape, its first rows.

-- The text that a row's hash is made of, after its predecessor's hash: a JSON array in one line,
--   [key..., sort_key, from_state, to_state, event, processor, actor, correlation_id, metadata, machine_version, created_at]
-- its elements separated by a comma and a space, nothing else between or around them. Each key value is an element of its own.
-- Key values and texts are JSON strings as to_json(text) prints them: in double quotes; \" \\ \b \f \n \r \t for these seven,
-- \u00xx (lower case) for the other characters below U+0020, every other character as it is, also / and what is not ASCII.
-- NULL is null. sort_key and machine_version are plain decimal integers. metadata is a JSON string that holds the output of
-- jsonb. created_at is an integer: microseconds since 1970-01-01 00:00:00 UTC.
-- Key values are in the form of their type's output function under datestyle 'ISO, YMD', intervalstyle 'postgres', timezone UTC,
-- extra_float_digits 1, bytea_output hex, whatever the session has set.
CREATE FUNCTION pawl._log_content(key text[], sort_key integer, from_state text, to_state text, event text, processor text,
    actor text, correlation_id text, metadata jsonb, machine_version integer, created_at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT '[' || array_to_string(
        ARRAY(SELECT to_json(k.value)::text FROM unnest(key) WITH ORDINALITY k(value, n) ORDER BY k.n)
        || ARRAY[sort_key::text, to_json(from_state)::text, to_json(to_state)::text, to_json(event)::text,
                 to_json(processor)::text, to_json(actor)::text, to_json(correlation_id)::text,
                 to_json(metadata::text)::text, machine_version::text,
                 (extract(epoch FROM created_at) * 1000000)::bigint::text],
        ', ', 'null') || ']'
$function$;
COMMENT ON FUNCTION pawl._log_content(text[], integer, text, text, text, text, text, text, jsonb, integer, timestamptz) IS
'internal: the text of a log row that its hash is made of';

CREATE FUNCTION pawl._log_hash(previous bytea, content text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN pg_catalog.sha256(COALESCE(previous, ''::pg_catalog.bytea)
                         OPERATOR(pg_catalog.||) pg_catalog.convert_to(content, 'UTF8'));
COMMENT ON FUNCTION pawl._log_hash(bytea, text) IS
'internal: the hash of a log row; the first row of a subject has nothing before it';

-- A log has columns of its own; a key column with such a name (many a table is keyed by "id") is subject_<name> there.
CREATE FUNCTION pawl._log_key_columns(key_columns name[]) RETURNS name[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(array_agg(CASE WHEN k.name IN ('id', 'sort_key', 'from_state', 'to_state', 'event', 'processor', 'actor',
                                   'correlation_id', 'metadata', 'machine_version', 'created_at', 'most_recent', 'hash')
                                   THEN ('subject_' || k.name)::name ELSE k.name END ORDER BY k.n), '{}')
      FROM unnest(key_columns) WITH ORDINALITY k(name, n)
$function$;
COMMENT ON FUNCTION pawl._log_key_columns(name[]) IS 'internal: what the key columns of a table are called in its log';

-- A name made of a base and a suffix that PostgreSQL will not cut: a base too long is cut here, and told apart by its hash.
CREATE FUNCTION pawl._log_name(base text, suffix text) RETURNS name
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    short text := base;
    room integer;
BEGIN
    IF octet_length(base || suffix) > 63 THEN
        room := 63 - octet_length(suffix) - 7;
        WHILE octet_length(short) > room LOOP
            short := left(short, -1);
        END LOOP;
        short := short || '_' || left(md5(base), 6);
    END IF;
    RETURN (short || suffix)::name;
END
$function$;
COMMENT ON FUNCTION pawl._log_name(text, text) IS 'internal: a name that fits into 63 bytes';

-- The columns a log begins with, in order.
CREATE FUNCTION pawl._log_columns(relation regclass, key_columns name[], most_recent text, hash_chain boolean)
RETURNS TABLE (n bigint, name name, type text, "collation" oid, not_null boolean)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 15
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT row_number() OVER (ORDER BY c.part, c.n), c.name, c.type, c.coll, c.not_null
      FROM (SELECT 2 AS part, k.n, l.name, format_type(a.atttypid, a.atttypmod) AS type,
                   CASE WHEN a.attcollation <> t.typcollation THEN a.attcollation ELSE 0::oid END AS coll, true AS not_null
              FROM unnest(key_columns) WITH ORDINALITY k(name, n)
              JOIN unnest(pawl._log_key_columns(key_columns)) WITH ORDINALITY l(name, n) ON l.n = k.n
              JOIN pg_attribute a ON a.attrelid = relation AND a.attname = k.name AND NOT a.attisdropped
              JOIN pg_type t ON t.oid = a.atttypid
            UNION ALL
            SELECT f.part, f.n, f.name::name, f.type, 0::oid, f.not_null
              FROM (VALUES (1, 1, 'id', 'uuid', true), (3, 1, 'sort_key', 'integer', true), (3, 2, 'from_state', 'text', false),
                           (3, 3, 'to_state', 'text', false), (3, 4, 'event', 'text', false), (3, 5, 'processor', 'text', false),
                           (3, 6, 'actor', 'text', true), (3, 7, 'correlation_id', 'text', false),
                           (3, 8, 'metadata', 'jsonb', false), (3, 9, 'machine_version', 'integer', true),
                           (3, 10, 'created_at', 'timestamp with time zone', true), (3, 11, 'most_recent', 'boolean', true),
                           (3, 12, 'hash', 'bytea', true)) f(part, n, name, type, not_null)
             WHERE (f.name <> 'most_recent' OR most_recent = 'stored') AND (f.name <> 'hash' OR hash_chain)) c
$function$;
COMMENT ON FUNCTION pawl._log_columns(regclass, name[], text, boolean) IS 'internal: the columns of the log of a table';

-- Why a table is not the log it should be; null when it is.
CREATE FUNCTION pawl._log_problem(log regclass, relation regclass, key_columns name[], most_recent text, hash_chain boolean)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    expected text;
    got text;
    key_attnums smallint[];
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = log) THEN
        RETURN 'it does not exist';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = log AND c.relkind = 'r' AND c.relpersistence <> 't') THEN
        RETURN 'it is not a plain table';
    END IF;
    FOR expected, got IN
        SELECT e.name || ' ' || e.type, a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
          FROM pawl._log_columns(relation, key_columns, most_recent, hash_chain) e
          LEFT JOIN (SELECT x.*, row_number() OVER (ORDER BY x.attnum) AS n FROM pg_attribute x
                      WHERE x.attrelid = log AND x.attnum > 0 AND NOT x.attisdropped) a ON a.n = e.n
         ORDER BY e.n
    LOOP
        IF expected IS DISTINCT FROM got THEN
            RETURN format('it has %s where %s should be', coalesce(got, 'nothing'), expected);
        END IF;
    END LOOP;
    SELECT array_agg(a.attnum ORDER BY k.n) INTO key_attnums
      FROM unnest(pawl._log_key_columns(key_columns)) WITH ORDINALITY k(name, n)
      JOIN pg_attribute a ON a.attrelid = log AND a.attname = k.name;
    IF NOT EXISTS (SELECT FROM pg_index i JOIN pg_attribute s ON s.attrelid = log AND s.attname = 'sort_key'
                    WHERE i.indrelid = log AND i.indisprimary AND i.indisvalid
                      AND (i.indkey::smallint[])[0:i.indnatts - 1] = key_attnums || s.attnum) THEN
        RETURN 'its primary key is not (key, sort_key)';
    END IF;
    IF most_recent = 'stored'
       AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = log AND i.indisunique AND i.indisvalid AND i.indpred IS NOT NULL
                          AND (i.indkey::smallint[])[0:i.indnatts - 1] = key_attnums
                          AND pg_get_expr(i.indpred, log) = 'most_recent') THEN
        RETURN 'it has no unique index on the key where most_recent';
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl._log_problem(regclass, regclass, name[], text, boolean) IS
'internal: why a table cannot be the log of another; null when it can';

-- The list of key columns of an alias, quoted; and a condition that two aliases have the same key.
CREATE FUNCTION pawl._columns(alias text, names name[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('%s%I', alias, k.name), ', ' ORDER BY k.n) FROM unnest(names) WITH ORDINALITY k(name, n)
$function$;
COMMENT ON FUNCTION pawl._columns(text, name[]) IS 'internal: a list of quoted column names';

CREATE FUNCTION pawl._same_key(one text, names name[], other text, other_names name[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('%s.%I = %s.%I', one, k.name, other, o.name), ' AND ' ORDER BY k.n)
      FROM unnest(names) WITH ORDINALITY k(name, n) JOIN unnest(other_names) WITH ORDINALITY o(name, n) ON o.n = k.n
$function$;
COMMENT ON FUNCTION pawl._same_key(text, name[], text, name[]) IS 'internal: a condition that two rows have the same key';

-- The key of a row as people read it, and as text[]: the output functions, not casts (a cast changes char(n), boolean, inet).
CREATE FUNCTION pawl._key_label(alias text, names name[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN cardinality(names) = 0 THEN 'NULL::text'
                WHEN cardinality(names) = 1 THEN format('format(''%%s'', %s.%I)', alias, names[1])
                ELSE format('format(''(%s)'', %s)', array_to_string(array_fill('%s'::text, ARRAY[cardinality(names)]), ', '),
                            pawl._columns(alias || '.', names)) END
$function$;
COMMENT ON FUNCTION pawl._key_label(text, name[]) IS 'internal: an expression that shows the key of a row';

CREATE FUNCTION pawl._key_array(alias text, names name[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT 'ARRAY[' || string_agg(format('format(''%%s'', %s.%I)', alias, k.name), ', ' ORDER BY k.n) || ']'
      FROM unnest(names) WITH ORDINALITY k(name, n)
$function$;
COMMENT ON FUNCTION pawl._key_array(text, name[]) IS 'internal: an expression that gives the key of a row as text[]';

-- Makes the log table (and the view on it) beside its table, without triggers: it is empty.
CREATE FUNCTION pawl._make_log(relation regclass, key_columns name[], most_recent text, hash_chain boolean,
    log_table name, log_view name, OUT log regclass, OUT view regclass)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    schema_name name;
    owner regrole;
    log_keys name[] := pawl._log_key_columns(key_columns);
    columns text;
BEGIN
    SELECT n.nspname, c.relowner INTO schema_name, owner
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    SELECT string_agg(format('%I %s%s%s', c.name, c.type,
                             CASE WHEN c."collation" <> 0 THEN ' COLLATE ' || c."collation"::regcollation END,
                             CASE WHEN c.not_null THEN ' NOT NULL' END), ', ' ORDER BY c.n)
      INTO columns FROM pawl._log_columns(relation, key_columns, most_recent, hash_chain) c;
    EXECUTE format('CREATE TABLE %I.%I (%s, PRIMARY KEY (%s, sort_key))', schema_name, log_table, columns,
                   pawl._columns('', log_keys));
    log := format('%I.%I', schema_name, log_table)::regclass;
    EXECUTE format('COMMENT ON TABLE %s IS %L', log, 'the moves of ' || relation || ', kept by pawl');
    IF most_recent = 'stored' THEN
        EXECUTE format('CREATE UNIQUE INDEX ON %s (%s) WHERE most_recent', log, pawl._columns('', log_keys));
    ELSE
        -- sort_key has no gaps: the newest row is the one without a next
        EXECUTE format('CREATE VIEW %I.%I WITH (security_invoker = true) AS SELECT l.*, NOT EXISTS (SELECT FROM %s n WHERE %s AND n.sort_key = l.sort_key + 1) AS most_recent FROM %s l',
                       schema_name, log_view, log, pawl._same_key('n', log_keys, 'l', log_keys), log);
        view := format('%I.%I', schema_name, log_view)::regclass;
        EXECUTE format('COMMENT ON VIEW %s IS %L', view, 'the moves of ' || relation || ', kept by pawl');
    END IF;
    IF owner::oid <> (SELECT c.relowner FROM pg_class c WHERE c.oid = log) THEN
        EXECUTE format('ALTER TABLE %s OWNER TO %s', log, owner);
        IF view IS NOT NULL THEN
            EXECUTE format('ALTER VIEW %s OWNER TO %s', view, owner);
        END IF;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._make_log(regclass, name[], text, boolean, name, name) IS 'internal: creates a log beside its table';

-- Who may read the table may read its log; who may move its rows may do so through the log. PUBLIC gets nothing, and where
-- row-level security hides rows nobody gets a log that would show them.
CREATE FUNCTION pawl._grant_log(relation regclass, state_column name, log regclass, view regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    privilege text;
    grantee regrole;
    target regclass;
BEGIN
    FOR privilege, grantee IN
        SELECT DISTINCT CASE g.privilege_type WHEN 'UPDATE' THEN 'INSERT' ELSE 'SELECT' END, g.grantee::regrole
          FROM pg_class c
          CROSS JOIN LATERAL (SELECT t.grantee, t.privilege_type FROM aclexplode(c.relacl) t
                              UNION ALL
                              SELECT t.grantee, t.privilege_type FROM pg_attribute a, aclexplode(a.attacl) t
                               WHERE a.attrelid = c.oid AND a.attname = state_column AND t.privilege_type = 'UPDATE') g
         WHERE c.oid = relation AND g.grantee <> 0 AND g.grantee <> c.relowner
           AND (g.privilege_type = 'UPDATE' OR g.privilege_type = 'SELECT' AND NOT c.relrowsecurity)
    LOOP
        FOREACH target IN ARRAY array_remove(ARRAY[log, view], NULL) LOOP
            EXECUTE format('GRANT %s ON %s TO %s', privilege, target, grantee);
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._grant_log(regclass, name, regclass, regclass) IS 'internal: gives the users of a table the same of its log';

-- The guard keeps the log as it is; the door turns a client's insert into a move.
CREATE FUNCTION pawl._close_log(log regclass, door boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    trigger_name text;
    moment text;
    function_name text;
BEGIN
    FOR trigger_name, moment, function_name IN
        VALUES ('!pawl_guard', 'BEFORE UPDATE OR DELETE ON %s FOR EACH STATEMENT', 'pawl.log_guard'),
               -- a statement aimed at a parent of the log fires row triggers here only
               ('!pawl_guard_row', 'BEFORE UPDATE OR DELETE ON %s FOR EACH ROW', 'pawl.log_guard'),
               ('!pawl_guard_truncate', 'BEFORE TRUNCATE ON %s FOR EACH STATEMENT', 'pawl.log_guard'),
               ('~pawl_door', 'BEFORE INSERT ON %s FOR EACH ROW', 'pawl.log_door')
    LOOP
        IF function_name = 'pawl.log_door' AND NOT door THEN
            CONTINUE;
        END IF;
        IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = log AND t.tgname = trigger_name AND NOT t.tgisinternal) THEN
            EXECUTE format('ALTER TABLE %s ENABLE TRIGGER %I', log, trigger_name);
        ELSE
            EXECUTE format('CREATE TRIGGER %I ' || moment || ' EXECUTE FUNCTION %s()', trigger_name, log, function_name);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._close_log(regclass, boolean) IS 'internal: creates or enables the triggers of a log';

CREATE FUNCTION pawl._open_log(log regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    trigger_name name;
BEGIN
    FOR trigger_name IN
        SELECT t.tgname FROM pg_trigger t
         WHERE t.tgrelid = log AND NOT t.tgisinternal AND t.tgenabled <> 'D'
           AND t.tgfoid IN ('pawl.log_guard()'::regprocedure, 'pawl.log_door()'::regprocedure)
    LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', log, trigger_name);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._open_log(regclass) IS 'internal: disables the triggers of a log while its owner attaches rows';

-- Rows that the log does not know begin with pawl.attach; a log that says something else of a row is an error.
-- Source is the tree, or `ONLY` one new member of it.
CREATE FUNCTION pawl._attach_rows(bound pawl.binding, source text) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
DECLARE
    same text := pawl._same_key('l', bound.log_key_columns, 'r', bound.key_columns);
    newest text := format('SELECT l.* FROM %s l WHERE %s ORDER BY l.sort_key DESC LIMIT 1', bound.history, same);
    used boolean;
    wrong bigint;
    example text;
    attached bigint;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', bound.history) INTO used;
    IF used THEN
        EXECUTE format('SELECT count(*), min(format(''row %%s is in "%%s", its log ends with "%%s"'', %s, r.%I, o.to_state)) FROM %s r CROSS JOIN LATERAL (%s) o WHERE o.to_state COLLATE "C" <> r.%I::text',
                       pawl._key_label('r', bound.key_columns), bound.state_column, source, newest, bound.state_column)
           INTO wrong, example;
        IF wrong > 0 THEN
            RAISE EXCEPTION USING ERRCODE = '55000',
                MESSAGE = format('the log %s does not agree with the rows of table %s', bound.history, bound.relation),
                DETAIL = format('%s differ: %s.', CASE wrong WHEN 1 THEN '1 row' ELSE wrong || ' rows' END, example),
                HINT = format('bring these rows to where their log ends, or begin a new log: log_name => %L', 'another_name');
        END IF;
        IF bound.most_recent = 'stored' THEN
            EXECUTE format('UPDATE %s l SET most_recent = false FROM %s r WHERE l.most_recent AND l.to_state IS NULL AND %s',
                           bound.history, source, same);
        END IF;
    END IF;
    EXECUTE format('INSERT INTO %s (id, %s, sort_key, to_state, event, processor, actor, correlation_id, machine_version, created_at%s%s) '
                   'SELECT pawl.uuid_v7(n.created_at), %s, n.sort_key, r.%I::text, ''pawl.attach'', c.processor, current_user, c.correlation_id, $1, n.created_at%s%s '
                   'FROM %s r '
                   'CROSS JOIN (SELECT nullif(current_setting(''pawl.processor'', true), '''') AS processor, nullif(current_setting(''pawl.correlation_id'', true), '''') AS correlation_id) c '
                   'LEFT JOIN LATERAL (%s) o ON true '
                   'CROSS JOIN LATERAL (SELECT coalesce(o.sort_key, 0) + 1 AS sort_key, greatest($2, o.created_at) AS created_at) n '
                   'WHERE o.to_state IS NULL',
                   bound.history, pawl._columns('', bound.log_key_columns),
                   CASE WHEN bound.most_recent = 'stored' THEN ', most_recent' ELSE '' END,
                   CASE WHEN bound.hash_chain THEN ', hash' ELSE '' END,
                   pawl._columns('r.', bound.key_columns), bound.state_column,
                   CASE WHEN bound.most_recent = 'stored' THEN ', true' ELSE '' END,
                   CASE WHEN bound.hash_chain THEN
                        format(', pawl._log_hash(o.hash, pawl._log_content(%s, n.sort_key, NULL, r.%I::text, ''pawl.attach'', c.processor, current_user, c.correlation_id, NULL, $1, n.created_at))',
                               pawl._key_array('r', bound.key_columns), bound.state_column)
                        ELSE '' END,
                   source, newest)
      USING bound.version, clock_timestamp();
    GET DIAGNOSTICS attached = ROW_COUNT;
    RETURN attached;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION USING ERRCODE = '23505',
        MESSAGE = format('the key (%s) does not identify one row of table %s', array_to_string(bound.key_columns, ', '), bound.relation),
        DETAIL = SQLERRM,
        HINT = 'name columns that do: key => array[...]';
END
$function$;
COMMENT ON FUNCTION pawl._attach_rows(pawl.binding, text) IS 'internal: writes the first log rows of existing rows';
-- What must be true of a table, a column and its rows before a machine guards them.

-- The states a column can hold.
CREATE FUNCTION pawl._atoms(machine text, version integer) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(array_agg(s.state ORDER BY s.ordinal), '{}') FROM pawl.machine_state s
     WHERE s.machine = _atoms.machine AND s.version = _atoms.version AND s.kind = 'state'
$function$;
COMMENT ON FUNCTION pawl._atoms(text, integer) IS 'internal: the states of a machine that a column can hold';

CREATE FUNCTION pawl._quoted_list(names text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.n)
           || CASE WHEN cardinality(names) > 10 THEN format(' and %s more', cardinality(names) - 10) ELSE '' END
      FROM unnest(names) WITH ORDINALITY u(name, n) WHERE u.n <= 10
$function$;
COMMENT ON FUNCTION pawl._quoted_list(text[]) IS 'internal: the first ten names of a list, for messages';

-- What keeps a column from being the state column of a machine; message is null when nothing does. Only on request are the CHECKs
-- of a domain tried: they are the user's code.
CREATE FUNCTION pawl._column_problem(relation regclass, state_column name, machine text, version integer, try_domain boolean,
    OUT code text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    col pg_attribute;
    base oid;
    typmod integer;
    is_domain boolean;
    type_name text;
    state text;
    misfits text[] := '{}';
BEGIN
    SELECT a.* INTO col FROM pg_attribute a
     WHERE a.attrelid = relation AND a.attname = state_column AND NOT a.attisdropped;
    IF NOT FOUND THEN
        code := '42703';
        message := format('column "%s" of table %s does not exist', state_column, relation);
        RETURN;
    END IF;
    IF col.attnum < 0 OR col.attgenerated <> '' OR col.attidentity <> '' THEN
        code := '0A000';
        message := format('column "%s" of table %s cannot hold a state', state_column, relation);
        detail := format('It is %s column.', CASE WHEN col.attnum < 0 THEN 'a system'
                                                  WHEN col.attgenerated <> '' THEN 'a generated' ELSE 'an identity' END);
        RETURN;
    END IF;

    type_name := format_type(col.atttypid, col.atttypmod);
    WITH RECURSIVE down(base, typmod, steps) AS (
        SELECT col.atttypid, col.atttypmod, 0
        UNION ALL
        SELECT t.typbasetype, CASE WHEN d.typmod = -1 THEN t.typtypmod ELSE d.typmod END, d.steps + 1
          FROM down d JOIN pg_type t ON t.oid = d.base AND t.typtype = 'd')
    SELECT d.base, d.typmod, d.steps > 0 INTO base, typmod, is_domain FROM down d ORDER BY d.steps DESC LIMIT 1;

    IF base NOT IN ('text'::regtype, 'varchar'::regtype) AND (SELECT t.typtype FROM pg_type t WHERE t.oid = base) <> 'e' THEN
        code := '42804';
        message := format('column "%s" of table %s is of type %s', state_column, relation, type_name);
        hint := 'a state column is of type text, varchar, an enum, or a domain over one of them';
        RETURN;
    END IF;

    FOREACH state IN ARRAY pawl._atoms(machine, version) LOOP
        IF base = 'varchar'::regtype AND typmod > 0 AND length(state) > typmod - 4
           OR base NOT IN ('text'::regtype, 'varchar'::regtype)
              AND NOT EXISTS (SELECT FROM pg_enum e WHERE e.enumtypid = base AND e.enumlabel = state) THEN
            misfits := misfits || state;
        ELSIF is_domain AND try_domain THEN
            BEGIN
                EXECUTE format('SELECT %L::%s', state, type_name);
            EXCEPTION WHEN check_violation THEN
                misfits := misfits || state;
            END;
        END IF;
    END LOOP;
    IF misfits <> '{}' THEN
        code := '42804';
        message := format('type %s of column "%s" cannot hold every state of machine "%s"', type_name, state_column, machine);
        detail := format('It has no room for %s.', pawl._quoted_list(misfits));
        hint := CASE WHEN base NOT IN ('text'::regtype, 'varchar'::regtype)
                     THEN format('alter type %s add value %L', format_type(base, NULL), misfits[1])
                     ELSE format('alter table %s alter column %I type text', relation, state_column) END;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._column_problem(regclass, name, text, integer, boolean) IS
'internal: what keeps a column from holding the states of a machine; message is null when nothing does';

-- Raises what a function found, with the fields that are there.
CREATE FUNCTION pawl._raise(code text, message text, detail text DEFAULT NULL, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF detail IS NOT NULL AND hint IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
    ELSIF detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail;
    ELSIF hint IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message;
END
$function$;
COMMENT ON FUNCTION pawl._raise(text, text, text, text) IS 'internal: raises an error';

-- Refuses whatever is not the root of ordinary tables that the current user owns.
CREATE FUNCTION pawl._check_table(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    class pg_class;
    root regclass;
    member regclass;
    kind "char";
    persistence "char";
BEGIN
    SELECT c.* INTO class FROM pg_class c WHERE c.oid = relation;
    IF NOT FOUND THEN
        PERFORM pawl._raise('42P01', format('relation with OID %s does not exist', relation::oid));
    END IF;
    IF class.relnamespace::regnamespace::text IN ('pg_catalog', 'information_schema', 'pg_toast') THEN
        PERFORM pawl._raise('42501', format('%s is a system catalog', relation));
    END IF;
    IF class.relnamespace = 'pawl'::regnamespace THEN
        PERFORM pawl._raise('0A000', format('%s belongs to pawl itself', relation));
    END IF;
    IF class.relkind NOT IN ('r', 'p') THEN
        PERFORM pawl._raise('42809', format('%s is not a table', relation),
            format('It is %s.', CASE class.relkind WHEN 'v' THEN 'a view' WHEN 'm' THEN 'a materialized view' WHEN 'f' THEN 'a foreign table'
                                WHEN 'S' THEN 'a sequence' WHEN 'c' THEN 'a composite type' ELSE 'an index' END),
            CASE WHEN class.relkind = 'v' THEN 'enforce the table below it: updates through the view are judged there' END);
    END IF;
    IF class.relpersistence = 't' THEN
        PERFORM pawl._raise('0A000', format('%s is a temporary table', relation),
            'Its definition and its lifecycle would not live equally long.');
    END IF;
    IF NOT pawl._owns(relation) THEN
        PERFORM pawl._raise('42501', format('must be owner of table %s', relation));
    END IF;
    IF class.relispartition THEN
        SELECT pg_partition_root(relation) INTO root;
        PERFORM pawl._raise('0A000', format('%s is a partition of table %s', relation, root), NULL,
            format('enforce the root: %L', root));
    END IF;
    FOR member IN SELECT a FROM pawl._ancestors(relation) a WHERE a <> relation LOOP
        IF EXISTS (SELECT FROM pawl.binding b WHERE b.relation = member) THEN
            PERFORM pawl._raise('0A000', format('%s inherits from table %s, which has a lifecycle', relation, member), NULL,
                format('enforce the root: %L', member));
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._check_table(regclass) IS 'internal: refuses what a lifecycle cannot be attached to';

-- Refuses members that a tree with a lifecycle cannot have.
CREATE FUNCTION pawl._check_members(relation regclass, members oid[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    member regclass;
    kind "char";
    persistence "char";
    other regclass;
BEGIN
    FOR member, kind, persistence IN
        SELECT c.oid, c.relkind, c.relpersistence FROM pg_class c
         WHERE c.oid = ANY (members) AND c.oid <> relation ORDER BY c.oid
    LOOP
        IF kind NOT IN ('r', 'p') OR persistence = 't' THEN
            PERFORM pawl._raise('0A000', format('%s cannot be part of table %s, which has a lifecycle', member, relation),
                format('It is a %s table.', CASE WHEN kind = 'f' THEN 'foreign' ELSE 'temporary' END));
        END IF;
        SELECT b.relation INTO other FROM pawl.binding b
         WHERE b.relation IN (SELECT a FROM pawl._ancestors(member) a) AND b.relation <> _check_members.relation LIMIT 1;
        IF FOUND THEN
            PERFORM pawl._raise('55000', format('%s cannot be part of table %s, which has a lifecycle', member, relation),
                format('The lifecycle of table %s covers it.', other), format('select pawl.release(%L)', other));
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._check_members(regclass, oid[]) IS 'internal: refuses partitions and children that cannot be guarded';

-- Counts the rows that are in none of these states: `2 rows in "foo", 1 row is null`; null when there are none.
-- Source is a table name, or `ONLY` one.
CREATE FUNCTION pawl._strange_rows(source text, state_column name, states text[]) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    counts text;
BEGIN
    EXECUTE format($query$
        SELECT string_agg(CASE WHEN g.n = 1 THEN '1 row ' ELSE g.n || ' rows ' END
                          || CASE WHEN g.state IS NOT NULL THEN format('in "%%s"', g.state)
                                  WHEN g.n = 1 THEN 'is null' ELSE 'are null' END, ', ' ORDER BY g.state COLLATE "C" NULLS LAST)
          FROM (SELECT t.%1$I::text AS state, count(*) AS n FROM %2$s t
                 WHERE t.%1$I IS NULL OR t.%1$I::text COLLATE "C" <> ALL ($1)
                 GROUP BY 1 ORDER BY 2 DESC LIMIT 20) g$query$, state_column, source)
       INTO counts USING states;
    RETURN counts;
END
$function$;
COMMENT ON FUNCTION pawl._strange_rows(text, name, text[]) IS 'internal: counts rows by state that are in none of the states given';

-- The four triggers of an enforced table. A tree gets them at its root (PostgreSQL gives its partitions theirs), at every
-- inheritance child, and the TRUNCATE trigger at every member, because that one is not inherited.
CREATE FUNCTION pawl._install(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    always boolean := (SELECT bool_or(b.always) FROM pawl.binding b WHERE b.relation = _install.relation);
    member regclass;
    cloned boolean;
    trigger_name text;
    definition text;
    function_name text;
    statement_level boolean;
BEGIN
    FOR member, cloned IN
        SELECT c.oid, c.relispartition AND c.oid <> relation
          FROM pawl._members(relation) m JOIN pg_class c ON c.oid = m ORDER BY c.oid <> relation, c.oid
    LOOP
        FOR trigger_name, definition, function_name, statement_level IN
            VALUES ('~pawl_judge', 'BEFORE UPDATE ON %s FOR EACH ROW', 'pawl.judge()', false),
                   ('!pawl_update', 'AFTER UPDATE ON %s FOR EACH ROW WHEN (pawl.deferred())', 'pawl.settle()', false),
                   ('!pawl_settle', 'AFTER INSERT OR DELETE ON %s FOR EACH ROW', 'pawl.settle()', false),
                   ('!pawl_truncate', 'BEFORE TRUNCATE ON %s FOR EACH STATEMENT', 'pawl.truncated()', true)
        LOOP
            IF (statement_level OR NOT cloned)
               AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = member AND t.tgname = trigger_name
                                  AND t.tgfoid = function_name::regprocedure) THEN
                EXECUTE format('CREATE TRIGGER %I ' || definition || ' EXECUTE FUNCTION %s', trigger_name, member, function_name);
            END IF;
            IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = member AND t.tgname = trigger_name
                          AND t.tgenabled <> CASE WHEN always THEN 'A' ELSE 'O' END::"char") THEN
                EXECUTE format('ALTER TABLE %s %s TRIGGER %I', member, CASE WHEN always THEN 'ENABLE ALWAYS' ELSE 'ENABLE' END,
                               trigger_name);
            END IF;
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._install(regclass) IS 'internal: creates the triggers of an enforced table that are missing, and sets their mode';

CREATE FUNCTION pawl._uninstall(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    member regclass;
    trigger_name name;
BEGIN
    FOR member, trigger_name IN
        SELECT t.tgrelid, t.tgname FROM pawl._members(relation) m JOIN pg_trigger t ON t.tgrelid = m
         WHERE t.tgparentid = 0  -- clones go with their parent's
           AND t.tgfoid IN ('pawl.judge()'::regprocedure, 'pawl.settle()'::regprocedure, 'pawl.truncated()'::regprocedure)
         ORDER BY 1, 2
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', trigger_name, member);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._uninstall(regclass) IS 'internal: drops the triggers of an enforced table';
-- Attaching machines to tables: pawl.enforce, pawl.release, pawl.upgrade.

-- The key of a table: the columns given, or its primary key without the state (a table partitioned by its state has that in
-- the primary key, but a row keeps its identity when it moves).
CREATE FUNCTION pawl._choose_key(relation regclass, state_column name, key name[]) RETURNS name[]
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    chosen name[];
    missing name;
    nullable name[];
    attnums smallint[];
BEGIN
    IF key IS NULL THEN
        SELECT coalesce(array_agg(a.attname ORDER BY k.n), '{}') INTO chosen
          FROM pg_index i
          CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, n)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
         WHERE i.indrelid = relation AND i.indisprimary AND k.n <= i.indnkeyatts AND a.attname <> state_column;
        RETURN chosen;
    END IF;
    IF array_ndims(key) IS DISTINCT FROM 1 OR array_position(key, NULL) IS NOT NULL THEN
        PERFORM pawl._raise('22023', 'key must be a list of column names');
    END IF;
    SELECT k INTO missing FROM unnest(key) k
     WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = k AND a.attnum > 0 AND NOT a.attisdropped)
     LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('42703', format('key column "%s" of table %s does not exist', missing, relation));
    END IF;
    IF state_column = ANY (key) THEN
        PERFORM pawl._raise('22023', format('the state column "%s" cannot be part of the key', state_column),
            'A row keeps its key when it moves.');
    END IF;
    IF (SELECT count(DISTINCT k) FROM unnest(key) k) < cardinality(key) THEN
        PERFORM pawl._raise('42701', 'a key column is named twice');
    END IF;
    SELECT array_agg(a.attname ORDER BY a.attnum) FILTER (WHERE NOT a.attnotnull), array_agg(a.attnum)
      INTO nullable, attnums
      FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = ANY (key);
    IF nullable IS NOT NULL THEN
        RAISE WARNING USING ERRCODE = '01000', MESSAGE = format('key column "%s" of table %s may be null', nullable[1], relation),
            HINT = format('alter table %s alter column %I set not null', relation, nullable[1]);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND i.indisunique AND i.indisvalid
                      AND i.indpred IS NULL AND i.indexprs IS NULL
                      AND (SELECT bool_and(u.attnum = ANY (attnums)
                                           OR u.attnum = (SELECT s.attnum FROM pg_attribute s
                                                           WHERE s.attrelid = relation AND s.attname = state_column))
                             FROM unnest(i.indkey::smallint[]) WITH ORDINALITY u(attnum, n) WHERE u.n <= i.indnkeyatts)) THEN
        RAISE WARNING USING ERRCODE = '01000',
            MESSAGE = format('nothing keeps the key (%s) of table %s unique', array_to_string(key, ', '), relation),
            HINT = format('alter table %s add unique (%s)', relation, pawl._columns('', key));
    END IF;
    RETURN key;
END
$function$;
COMMENT ON FUNCTION pawl._choose_key(regclass, name, name[]) IS 'internal: the key columns of a table, given or its primary key';

-- Where the log of a column goes. A second lifecycle of a table, or one that had a log of its own before, names its column.
CREATE FUNCTION pawl._choose_log(relation regclass, state_column name, log_name name) RETURNS name
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    class pg_class;
    short name;
    long name;
BEGIN
    IF log_name IS NOT NULL THEN
        IF log_name = '' OR octet_length(log_name) > 59 THEN
            PERFORM pawl._raise('42622', 'log_name must have 1 to 59 bytes', 'A derived log adds _log to it.');
        END IF;
        RETURN log_name;
    END IF;
    SELECT c.* INTO class FROM pg_class c WHERE c.oid = relation;
    -- both with room for _transitions_log
    short := left(pawl._log_name(class.relname, '_transitions_log'), -4);
    long := left(pawl._log_name(class.relname || '_' || state_column, '_transitions_log'), -4);
    IF EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = class.relnamespace AND c.relname IN (long, long || '_log')
                  AND NOT EXISTS (SELECT FROM pawl.binding b WHERE c.oid IN (b.history, b.history_view)))
       OR EXISTS (SELECT FROM pg_class c JOIN pawl.binding b ON c.oid IN (b.history, b.history_view)
                   WHERE c.relnamespace = class.relnamespace AND c.relname IN (short, short || '_log')) THEN
        RETURN long;
    END IF;
    RETURN short;
END
$function$;
COMMENT ON FUNCTION pawl._choose_log(regclass, name, name) IS 'internal: the name of the log of a column';

CREATE FUNCTION pawl.enforce(relation regclass, state_column name, machine text, version integer DEFAULT NULL,
    history boolean DEFAULT false, most_recent text DEFAULT 'stored', hash_chain boolean DEFAULT false, key name[] DEFAULT NULL,
    on_delete text DEFAULT 'allow', always boolean DEFAULT false, log_name name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    problem record;
    given record;
    wanted integer;
    bound pawl.binding;
    found_one text;
    is_new boolean;
BEGIN
    FOR given IN
        SELECT * FROM (VALUES ('relation', relation IS NULL), ('state_column', state_column IS NULL), ('machine', machine IS NULL),
            ('history', history IS NULL), ('most_recent', most_recent IS NULL), ('hash_chain', hash_chain IS NULL),
            ('on_delete', on_delete IS NULL), ('always', always IS NULL)) a(name, is_missing) WHERE is_missing
    LOOP
        PERFORM pawl._raise('22004', format('%s must not be null', given.name));
    END LOOP;
    IF most_recent NOT IN ('stored', 'derived') THEN
        PERFORM pawl._raise('22023', format('unknown value "%s" for most_recent', most_recent), NULL, 'stored or derived');
    END IF;
    IF on_delete NOT IN ('allow', 'terminal', 'deny') THEN
        PERFORM pawl._raise('22023', format('unknown value "%s" for on_delete', on_delete), NULL, 'allow, terminal or deny');
    END IF;
    IF NOT history AND (hash_chain OR log_name IS NOT NULL) THEN
        PERFORM pawl._raise('22023', format('%s needs a log', CASE WHEN hash_chain THEN 'hash_chain' ELSE 'log_name' END), NULL,
            'history => true');
    END IF;

    PERFORM pawl._check_table(relation);
    wanted := pawl._version(machine, version);
    -- from here on no row changes and nobody else attaches
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', relation);
    PERFORM pawl._check_table(relation);

    IF EXISTS (SELECT FROM pawl.binding b WHERE b.relation = enforce.relation AND b.state_column = enforce.state_column) THEN
        PERFORM pawl._raise('42710', format('column "%s" of table %s has a lifecycle already', state_column, relation),
            (SELECT format('It is machine "%s", version %s.', b.machine, b.version) FROM pawl.binding b
              WHERE b.relation = enforce.relation AND b.state_column = enforce.state_column),
            format('select pawl.upgrade(%L, %L), or select pawl.release(%L, %L)', relation, state_column, relation, state_column));
    END IF;
    SELECT * INTO problem FROM pawl._column_problem(relation, state_column, machine, wanted, true);
    IF problem.message IS NOT NULL THEN
        PERFORM pawl._raise(problem.code, problem.message, problem.detail, problem.hint);
    END IF;
    PERFORM pawl._check_members(relation, ARRAY(SELECT m FROM pawl._members(relation) m));

    SELECT string_agg(g, ', ' ORDER BY g) INTO found_one FROM pawl._guard_functions(relation, machine, wanted) g;
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('PW007', format('machine "%s" has guards or effects that cannot be called for table %s', machine, relation),
            format('There is no such function of two rows of the table: %s.', found_one),
            format('create function f(old %s, new %s) returns boolean ...', relation, relation));
    END IF;

    bound.relation := relation;
    bound.state_column := state_column;
    bound.machine := machine;
    bound.version := wanted;
    bound.most_recent := most_recent;
    bound.hash_chain := hash_chain;
    bound.on_delete := on_delete;
    bound.always := always;
    bound.enforced_at := now();
    bound.enforced_by := current_user;
    bound.key_columns := pawl._choose_key(relation, state_column, key);
    bound.log_key_columns := pawl._log_key_columns(bound.key_columns);
    IF history AND bound.key_columns = '{}' THEN
        PERFORM pawl._raise('55000', format('table %s has no key for its log', relation),
            CASE WHEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND i.indisprimary)
                 THEN 'Its primary key is the state alone.' ELSE 'It has no primary key.' END,
            'add one, or name columns that identify a row: key => array[...]');
    END IF;

    found_one := pawl._strange_rows(relation::text, state_column, pawl._atoms(machine, wanted));
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('PW008', format('table %s has rows that are in no state of machine "%s"', relation, machine), found_one,
            format('update %s set %I = ... where %I is null or %I::text not in (select state from pawl.states(%L))',
                   relation, state_column, state_column, state_column, machine));
    END IF;

    IF history THEN
        SELECT * INTO bound.history, bound.history_view, is_new
          FROM pawl._take_log(bound, pawl._choose_log(relation, state_column, log_name));
        PERFORM pawl._open_log(bound.history);
        PERFORM pawl._attach_rows(bound, relation::text);
    END IF;
    INSERT INTO pawl.binding SELECT bound.*;
    PERFORM pawl._install(relation);
    IF history THEN
        PERFORM pawl._close_log(bound.history, door => true);
        PERFORM pawl._grant_log(relation, state_column, bound.history, bound.history_view);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.enforce(regclass, name, text, integer, boolean, text, boolean, name[], text, boolean, name) IS
'attaches a machine to a column of a table: from now on its rows move only along the arrows. history keeps a log beside the table; most_recent is stored or derived; hash_chain makes each log row hash its predecessor; key names the columns that identify a row (default: the primary key); on_delete is allow, terminal or deny; always judges replicated rows too. Errors: PW008 unknown machine, or rows in no state of it; PW007 guards that do not fit; 42501 not the owner; 42710 already enforced';

-- A log that was made before, by an earlier attachment or a restore, is taken up again when it fits.
CREATE FUNCTION pawl._take_log(bound pawl.binding, log_name name, OUT log regclass, OUT view regclass, OUT is_new boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    schema_oid oid := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = bound.relation);
    table_name name := CASE WHEN bound.most_recent = 'derived' THEN log_name || '_log' ELSE log_name END;
    view_name name := CASE WHEN bound.most_recent = 'derived' THEN log_name END;
    problem text;
BEGIN
    SELECT c.oid INTO log FROM pg_class c WHERE c.relnamespace = schema_oid AND c.relname = table_name;
    SELECT c.oid INTO view FROM pg_class c WHERE c.relnamespace = schema_oid AND c.relname = view_name;
    is_new := log IS NULL AND view IS NULL;
    IF is_new THEN
        SELECT m.log, m.view INTO log, view
          FROM pawl._make_log(bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain, table_name, view_name) m;
        RETURN;
    END IF;
    problem := CASE WHEN log IS NULL THEN format('there is a relation %s, but no log %I', view, table_name)
                    WHEN EXISTS (SELECT FROM pawl.binding b WHERE b.history = log) THEN 'it is the log of another lifecycle'
                    WHEN NOT pawl._owns(log) THEN 'it belongs to another role'
                    WHEN view_name IS NOT NULL AND view IS NULL THEN format('the view %I on it is missing', view_name)
                    WHEN view IS NOT NULL AND (SELECT c.relkind FROM pg_class c WHERE c.oid = view) <> 'v' THEN format('%s is not a view', view)
                    ELSE pawl._log_problem(log, bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain) END;
    IF problem IS NOT NULL THEN
        PERFORM pawl._raise('42P07', format('relation "%s" exists and cannot be the log of table %s', table_name, bound.relation),
            upper(left(problem, 1)) || substr(problem, 2) || '.', 'choose another name: log_name => ...');
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', log);
    EXECUTE format('SELECT min(format(''row %%s moved from %%s to %%s under version %%s'', %s, coalesce(quote_ident(l.from_state), ''nothing''), coalesce(quote_ident(l.to_state), ''nothing''), l.machine_version)) FROM %s l WHERE %s',
                   pawl._key_label('l', bound.log_key_columns), log, pawl._foreign_hop('l')) INTO problem USING bound.machine;
    IF problem IS NOT NULL THEN
        PERFORM pawl._raise('55000', format('the log %s is not one of machine "%s"', log, bound.machine), problem,
            'choose another name: log_name => ...');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._take_log(pawl.binding, name) IS 'internal: the log of an earlier attachment, or a new one';

CREATE FUNCTION pawl.release(relation regclass, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
BEGIN
    IF NOT pawl._owns(bound.relation) THEN
        PERFORM pawl._raise('42501', format('must be owner of table %s', bound.relation));
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', bound.relation);
    DELETE FROM pawl.binding b WHERE b.relation = bound.relation AND b.state_column = bound.state_column;
    IF NOT FOUND THEN
        PERFORM pawl._raise('42704', format('no lifecycle is enforced on table %s', bound.relation), 'It was released a moment ago.');
    END IF;
    IF bound.history IS NOT NULL THEN
        PERFORM pawl._retire_log(bound.history, bound.history_view);
    END IF;
    IF EXISTS (SELECT FROM pawl.binding b WHERE b.relation = bound.relation) THEN
        PERFORM pawl._install(bound.relation);
    ELSE
        PERFORM pawl._uninstall(bound.relation);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.release(regclass, name) IS
'takes a lifecycle off its table; name the column when the table has several. The log stays, closed: nobody can change it, nothing is added. 42704: there is no such lifecycle; 42501: not the owner';

-- A log without a lifecycle: no door, no right to insert; the guard stays.
CREATE FUNCTION pawl._retire_log(log regclass, view regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    target regclass;
    grantee regrole;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = log) THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = log AND t.tgname = '~pawl_door' AND t.tgfoid = 'pawl.log_door()'::regprocedure) THEN
        EXECUTE format('DROP TRIGGER "~pawl_door" ON %s', log);
    END IF;
    FOR target, grantee IN
        SELECT c.oid, a.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
         WHERE c.oid IN (log, view) AND a.privilege_type = 'INSERT' AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE INSERT ON %s FROM %s', target, CASE WHEN grantee::oid = 0 THEN 'PUBLIC' ELSE grantee::text END);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._retire_log(regclass, regclass) IS 'internal: closes a log whose lifecycle ends';

CREATE FUNCTION pawl.upgrade(relation regclass, state_column name DEFAULT NULL, remap jsonb DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
    newest integer;
    old_states text[];
    new_states text[];
    pair record;
    problem record;
    found_one text;
BEGIN
    IF NOT pawl._owns(bound.relation) THEN
        PERFORM pawl._raise('42501', format('must be owner of table %s', bound.relation));
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', bound.relation);
    bound := pawl._binding(bound.relation, bound.state_column);
    newest := pawl._version(bound.machine, NULL);
    IF newest = bound.version THEN
        IF remap IS NOT NULL THEN
            PERFORM pawl._raise('55000', format('table %s is at the newest version of machine "%s" already', bound.relation, bound.machine),
                format('Version %s is enforced; rows are remapped only on the way to another.', newest));
        END IF;
        RETURN newest;
    END IF;

    old_states := pawl._atoms(bound.machine, bound.version);
    new_states := pawl._atoms(bound.machine, newest);
    IF remap IS NOT NULL AND jsonb_typeof(remap) <> 'object' THEN
        PERFORM pawl._raise('22023', 'remap must be a JSON object', NULL, '{"old state": "new state"}');
    END IF;
    FOR pair IN SELECT e.key AS old_state, e.value AS value, e.value #>> '{}' AS new_state
                  FROM jsonb_each(coalesce(remap, '{}')) e ORDER BY e.key COLLATE "C" LOOP
        IF pair.old_state <> ALL (old_states) THEN
            PERFORM pawl._raise('PW008', format('unknown state "%s" in remap', pair.old_state),
                format('Version %s of machine "%s" has %s.', bound.version, bound.machine, pawl._quoted_list(old_states)));
        END IF;
        IF jsonb_typeof(pair.value) <> 'string' THEN
            PERFORM pawl._raise('22023', format('remap of state "%s" is not the name of a state', pair.old_state), NULL, '{"old state": "new state"}');
        END IF;
        IF pair.new_state <> ALL (new_states) THEN
            PERFORM pawl._raise('PW008', format('unknown state "%s" in remap', pair.new_state),
                format('Version %s of machine "%s" has %s.', newest, bound.machine, pawl._quoted_list(new_states)));
        END IF;
    END LOOP;
    SELECT * INTO problem FROM pawl._column_problem(bound.relation, bound.state_column, bound.machine, newest, true);
    IF problem.message IS NOT NULL THEN
        PERFORM pawl._raise(problem.code, problem.message, problem.detail, problem.hint);
    END IF;
    SELECT string_agg(g, ', ' ORDER BY g) INTO found_one FROM pawl._guard_functions(bound.relation, bound.machine, newest) g;
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('PW007', format('version %s of machine "%s" has guards or effects that cannot be called for table %s',
                                            newest, bound.machine, bound.relation),
            format('There is no such function of two rows of the table: %s.', found_one));
    END IF;
    found_one := pawl._strange_rows(bound.relation::text, bound.state_column,
                                    new_states || ARRAY(SELECT jsonb_object_keys(coalesce(remap, '{}'))));
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('PW008', format('table %s has rows that are in no state of version %s of machine "%s"',
                                            bound.relation, newest, bound.machine), found_one,
            format('select pawl.upgrade(%L, %L, remap => ''{"old state": "new state"}'')', bound.relation, bound.state_column));
    END IF;

    UPDATE pawl.binding b SET version = newest WHERE b.relation = bound.relation AND b.state_column = bound.state_column;
    IF remap IS NOT NULL AND remap <> '{}' THEN
        PERFORM pawl._remap(bound.relation, bound.state_column, remap);
    END IF;
    RETURN newest;
END
$function$;
COMMENT ON FUNCTION pawl.upgrade(regclass, name, jsonb) IS
'judges a table by the newest version of its machine from now on, and returns that version. remap moves the rows of states that the new version lacks: {"old state": "new state"}, logged as pawl.upgrade. PW008: rows, or names in remap, that are no states; 42501: not the owner';
-- What people do to enforced tables by DDL. The event triggers that call these functions are created last of all, in 900.

-- New members of an enforced tree: their rows are vetted, their triggers made, their logs begun. Runs with the rights of whoever
-- attached them, because it reads and writes their tables.
CREATE FUNCTION pawl._adopt() RETURNS event_trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    touched oid[];
    root regclass;
    newcomers oid[];
BEGIN
    SELECT array_agg(DISTINCT c.objid) INTO touched FROM pg_event_trigger_ddl_commands() c
     WHERE c.classid = 'pg_class'::regclass AND c.object_type IN ('table', 'foreign table') AND NOT c.in_extension;
    IF touched IS NULL THEN
        RETURN;
    END IF;
    IF NOT has_schema_privilege('pawl', 'USAGE') THEN
        -- somebody shut out of the schema: no harm to his other tables, but an enforced tree takes nothing in unseen
        IF EXISTS (WITH RECURSIVE up(oid) AS (
                       SELECT unnest(touched)
                       UNION
                       SELECT i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.oid),
                   down(oid) AS (
                       SELECT up.oid FROM up JOIN pg_trigger t ON t.tgrelid = up.oid AND t.tgname = '!pawl_truncate'
                       UNION
                       SELECT i.inhrelid FROM down JOIN pg_inherits i ON i.inhparent = down.oid)
                   SELECT FROM down d
                    WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = d.oid AND t.tgname = '!pawl_truncate')) THEN
            RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'permission denied for schema pawl',
                DETAIL = 'The rows of a table that joins an enforced one must be checked.',
                HINT = format('grant usage on schema pawl to %I', current_user);
        END IF;
        RETURN;
    END IF;
    FOR root IN
        SELECT DISTINCT b.relation FROM pawl.binding b
         WHERE b.relation IN (SELECT a FROM unnest(touched) t, pawl._ancestors(t) a) ORDER BY 1
    LOOP
        SELECT array_agg(DISTINCT m ORDER BY m) INTO newcomers
          FROM unnest(touched) t CROSS JOIN LATERAL pawl._members(t) m
         WHERE root IN (SELECT a FROM pawl._ancestors(t) a) AND m <> root
           AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = m AND g.tgfoid = 'pawl.truncated()'::regprocedure);
        IF newcomers IS NOT NULL THEN
            PERFORM pawl._adopt_members(root, newcomers);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._adopt() IS 'internal: event trigger pawl_adopt: partitions and children that join an enforced table';

CREATE FUNCTION pawl._adopt_members(root regclass, newcomers oid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    bound pawl.binding;
    member regclass;
    strange text;
BEGIN
    PERFORM pawl._check_members(root, newcomers);
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = root ORDER BY b.state_column LOOP
        FOR member IN SELECT c.oid FROM pg_class c WHERE c.oid = ANY (newcomers) AND c.relkind = 'r' ORDER BY c.oid LOOP
            strange := pawl._strange_rows('ONLY ' || member, bound.state_column, pawl._atoms(bound.machine, bound.version));
            IF strange IS NOT NULL THEN
                PERFORM pawl._raise('PW008', format('%s cannot join table %s: it has rows that are in no state of machine "%s"',
                                                    member, root, bound.machine), strange,
                    format('update %s set %I = ... where %I is null or %I::text not in (select state from pawl.states(%L, %s))',
                           member, bound.state_column, bound.state_column, bound.state_column, bound.machine, bound.version));
            END IF;
        END LOOP;
    END LOOP;
    PERFORM pawl._install(root);
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = root AND b.history IS NOT NULL ORDER BY b.state_column LOOP
        FOR member IN SELECT c.oid FROM pg_class c WHERE c.oid = ANY (newcomers) AND c.relkind = 'r' ORDER BY c.oid LOOP
            IF pawl._has_rows(member) THEN
                PERFORM pawl._open_log(bound.history);
                PERFORM pawl._attach_rows(bound, 'ONLY ' || member);
                PERFORM pawl._close_log(bound.history, door => true);
            END IF;
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._adopt_members(regclass, oid[]) IS 'internal: takes partitions and children into an enforced tree';

CREATE FUNCTION pawl._has_rows(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    answer boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', relation) INTO answer;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl._has_rows(regclass) IS 'internal: whether a table, without its children, has rows';

-- Renames are written into the bindings, changes that would break one are refused, members that left lose our triggers.
-- SECURITY DEFINER because the owner of a table need not be one who may write bindings; it reads catalogs only, never a user's
-- table, and runs no code of theirs (not even the CHECK of a domain).
CREATE FUNCTION pawl._follow() RETURNS event_trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    touched regclass;
    changed_type regtype;
    bound pawl.binding;
    problem record;
BEGIN
    IF NOT EXISTS (SELECT FROM pawl.binding) THEN
        RETURN;
    END IF;
    FOR touched IN
        SELECT DISTINCT c.objid FROM pg_event_trigger_ddl_commands() c
         WHERE c.classid = 'pg_class'::regclass AND NOT c.in_extension
           AND c.object_type IN ('table', 'table column', 'foreign table') ORDER BY 1
    LOOP
        FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = touched ORDER BY b.state_column LOOP
            PERFORM pawl._follow_columns(bound);
        END LOOP;
        FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.history = touched LOOP
            problem := (SELECT ROW(pawl._log_problem(bound.history, bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain)));
            IF problem.f1 IS NOT NULL THEN
                PERFORM pawl._raise('55000', format('the log %s of table %s must stay as it is', bound.history, bound.relation),
                    format('After this command %s.', problem.f1), format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
            END IF;
        END LOOP;
        IF TG_TAG = 'ALTER TABLE' THEN
            PERFORM pawl._let_go(touched);
        END IF;
    END LOOP;
    FOR changed_type IN
        SELECT DISTINCT c.objid FROM pg_event_trigger_ddl_commands() c
         WHERE c.classid = 'pg_type'::regclass AND c.object_type = 'type' AND NOT c.in_extension
    LOOP
        -- ALTER TYPE ... RENAME VALUE moves rows without an arrow
        FOR bound IN
            SELECT b.* FROM pawl.binding b
             WHERE changed_type = (WITH RECURSIVE down(base, steps) AS (
                       SELECT a.atttypid, 0 FROM pg_attribute a WHERE a.attrelid = b.relation AND a.attname = b.state_column
                       UNION ALL
                       SELECT t.typbasetype, d.steps + 1 FROM down d JOIN pg_type t ON t.oid = d.base AND t.typtype = 'd')
                       SELECT d.base FROM down d ORDER BY d.steps DESC LIMIT 1)
        LOOP
            SELECT * INTO problem FROM pawl._column_problem(bound.relation, bound.state_column, bound.machine, bound.version, false);
            IF problem.message IS NOT NULL THEN
                PERFORM pawl._raise('2BP01', format('type %s holds the states of table %s', changed_type, bound.relation), problem.detail,
                    format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
            END IF;
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._follow() IS 'internal: event trigger pawl_follow: renames and changes of enforced tables';

-- An attribute number whose name is another one now was renamed.
CREATE FUNCTION pawl._follow_columns(bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    new_state_column name := bound.state_column;
    new_keys name[] := bound.key_columns;
    new_log_keys name[];
    problem record;
    pair record;
BEGIN
    IF bound.relation_oid IS NOT DISTINCT FROM bound.relation::oid THEN
        SELECT a.attname INTO new_state_column FROM pg_attribute a
         WHERE a.attrelid = bound.relation AND a.attnum = bound.state_attnum AND NOT a.attisdropped;
        new_state_column := coalesce(new_state_column, bound.state_column);
        SELECT coalesce(array_agg(coalesce(a.attname, k.name) ORDER BY k.n), '{}') INTO new_keys
          FROM unnest(bound.key_columns, bound.key_attnums) WITH ORDINALITY k(name, attnum, n)
          LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attnum = k.attnum AND NOT a.attisdropped;
    END IF;
    SELECT * INTO problem FROM pawl._column_problem(bound.relation, new_state_column, bound.machine, bound.version, false);
    IF problem.message IS NOT NULL THEN
        PERFORM pawl._raise(problem.code, problem.message, problem.detail, format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
    END IF;
    new_log_keys := pawl._log_key_columns(new_keys);
    IF new_state_column <> bound.state_column OR new_keys <> bound.key_columns THEN
        UPDATE pawl.binding b
           SET state_column = new_state_column, key_columns = new_keys, log_key_columns = new_log_keys
         WHERE b.relation = bound.relation AND b.state_column = bound.state_column;
    END IF;
    IF bound.history IS NULL THEN
        RETURN;
    END IF;
    FOR pair IN SELECT o.name AS old_name, n.name AS new_name
                  FROM unnest(bound.log_key_columns) WITH ORDINALITY o(name, n)
                  JOIN unnest(new_log_keys) WITH ORDINALITY n(name, n) ON n.n = o.n WHERE o.name <> n.name LOOP
        EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', bound.history, pair.old_name, pair.new_name);
        IF bound.history_view IS NOT NULL THEN
            EXECUTE format('ALTER VIEW %s RENAME COLUMN %I TO %I', bound.history_view, pair.old_name, pair.new_name);
        END IF;
    END LOOP;
    problem := (SELECT ROW(pawl._log_problem(bound.history, bound.relation, new_keys, bound.most_recent, bound.hash_chain)));
    IF problem.f1 IS NOT NULL THEN
        PERFORM pawl._raise('55000', format('table %s and its log %s would no longer fit together', bound.relation, bound.history),
            format('Of the log: %s.', problem.f1), format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._follow_columns(pawl.binding) IS 'internal: follows renamed columns of an enforced table';

-- A table that left its tree (DETACH PARTITION, NO INHERIT) keeps no trigger of ours. PostgreSQL itself drops the row triggers
-- of a detached partition; the statement trigger is left behind.
CREATE FUNCTION pawl._let_go(touched regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    left_behind regclass;
    judge oid := 'pawl.judge()'::regprocedure;
    truncated oid := 'pawl.truncated()'::regprocedure;
BEGIN
    IF EXISTS (SELECT FROM pawl.binding b WHERE b.relation IN (SELECT a FROM pawl._ancestors(touched) a)) THEN
        FOR left_behind IN
            SELECT t.tgrelid FROM pg_depend d JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
             WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = truncated
               AND NOT EXISTS (SELECT FROM pg_trigger j WHERE j.tgrelid = t.tgrelid AND j.tgfoid = judge)
               AND NOT EXISTS (SELECT FROM pawl.binding b WHERE b.relation IN (SELECT a FROM pawl._ancestors(t.tgrelid) a))
        LOOP
            EXECUTE format('DROP TRIGGER "!pawl_truncate" ON %s', left_behind);
        END LOOP;
    ELSIF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = touched AND t.tgfoid = judge AND t.tgparentid = 0)
          AND EXISTS (SELECT FROM pg_class c WHERE c.oid = touched AND NOT c.relispartition) THEN
        PERFORM pawl._uninstall(touched);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._let_go(regclass) IS 'internal: drops the triggers of tables that left an enforced tree';

-- Bindings of dropped tables go; columns and logs that a binding needs stay. SECURITY DEFINER as above.
CREATE FUNCTION pawl._gone() RETURNS event_trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    gone oid[];
    dropped record;
    bound pawl.binding;
BEGIN
    IF NOT EXISTS (SELECT FROM pawl.binding) THEN
        RETURN;
    END IF;
    SELECT array_agg(d.objid) INTO gone FROM pg_event_trigger_dropped_objects() d
     WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0;
    FOR bound IN DELETE FROM pawl.binding b WHERE b.relation::oid = ANY (gone) RETURNING b.* LOOP
        IF bound.history IS NOT NULL AND bound.history::oid <> ALL (gone) THEN
            PERFORM pawl._retire_log(bound.history, bound.history_view);
        END IF;
    END LOOP;
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.history::oid = ANY (gone) LOOP
        -- without triggers the table is being taken apart, by pg_restore --clean for one
        IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = bound.relation AND t.tgfoid = 'pawl.judge()'::regprocedure) THEN
            PERFORM pawl._raise('2BP01', format('the log of table %s cannot be dropped while it is kept', bound.relation), NULL,
                format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
        END IF;
        UPDATE pawl.binding b SET history = NULL, history_view = NULL
         WHERE b.relation = bound.relation AND b.state_column = bound.state_column;
    END LOOP;
    UPDATE pawl.binding b SET history_view = NULL WHERE b.history_view::oid = ANY (gone);
    FOR dropped IN
        SELECT b.relation, b.state_column, d.address_names[3] AS column_name
          FROM pg_event_trigger_dropped_objects() d JOIN pawl.binding b ON b.relation::oid = d.objid
         WHERE d.classid = 'pg_class'::regclass AND d.objsubid <> 0
           AND (CASE WHEN b.relation_oid = b.relation::oid THEN d.objsubid = b.state_attnum OR d.objsubid = ANY (b.key_attnums)
                     ELSE d.address_names[3] = b.state_column OR d.address_names[3] = ANY (b.key_columns) END)
         ORDER BY 1, 2
    LOOP
        PERFORM pawl._raise('2BP01', format('column "%s" of table %s cannot be dropped: a lifecycle depends on it', dropped.column_name, dropped.relation),
            format('It is %s of the lifecycle on column "%s".',
                   CASE WHEN dropped.column_name = dropped.state_column THEN 'the state' ELSE 'part of the key' END, dropped.state_column),
            format('select pawl.release(%L, %L)', dropped.relation, dropped.state_column));
    END LOOP;
    FOR dropped IN
        SELECT b.relation, b.state_column, b.history FROM pg_event_trigger_dropped_objects() d JOIN pawl.binding b ON b.history::oid = d.objid
         WHERE d.classid = 'pg_class'::regclass AND d.objsubid <> 0
           AND pawl._log_problem(b.history, b.relation, b.key_columns, b.most_recent, b.hash_chain) IS NOT NULL
    LOOP
        PERFORM pawl._raise('2BP01', format('the log %s of table %s must stay as it is', dropped.history, dropped.relation), NULL,
            format('select pawl.release(%L, %L)', dropped.relation, dropped.state_column));
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._gone() IS 'internal: event trigger pawl_gone: dropped tables, columns and logs';
-- Reading the log, and telling it what plain SQL cannot.

CREATE FUNCTION pawl._logged(relation regclass, state_column name) RETURNS pawl.binding
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
BEGIN
    IF bound.history IS NULL THEN
        PERFORM pawl._raise('55000', format('table %s keeps no history of column "%s"', bound.relation, bound.state_column), NULL,
            format('select pawl.release(%1$L, %2$L); select pawl.enforce(%1$L, %2$L, %3$L, history => true)',
                   bound.relation, bound.state_column, bound.machine));
    END IF;
    RETURN bound;
END
$function$;
COMMENT ON FUNCTION pawl._logged(regclass, name) IS 'internal: a binding that keeps a log, or an error';

-- A condition that a log row belongs to a key, given as text[] in $1; every value is read as its column's own type.
CREATE FUNCTION pawl._of_subject(bound pawl.binding) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(format('l.%I = ($1)[%s]::%s', k.name, k.n, format_type(a.atttypid, a.atttypmod)), ' AND ' ORDER BY k.n)
      FROM unnest(bound.log_key_columns) WITH ORDINALITY k(name, n)
      JOIN pg_attribute a ON a.attrelid = bound.history AND a.attname = k.name
$function$;
COMMENT ON FUNCTION pawl._of_subject(pawl.binding) IS 'internal: a condition on the key of a log row';

CREATE FUNCTION pawl.history(relation regclass, key anycompatible, state_column name DEFAULT NULL)
RETURNS TABLE (sort_key integer, from_state text, to_state text, event text, processor text, actor text, correlation_id text,
    metadata jsonb, machine_version integer, created_at timestamptz, most_recent boolean, id uuid)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
    key_text text[] := pawl._key_text(bound.relation, key, bound.state_column);
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT l.sort_key, l.from_state, l.to_state, l.event, l.processor, l.actor, l.correlation_id, l.metadata, l.machine_version, '
        'l.created_at, lead(l.sort_key) OVER (ORDER BY l.sort_key) IS NULL, l.id FROM %s l WHERE %s ORDER BY l.sort_key',
        bound.history, pawl._of_subject(bound)) USING key_text;
END
$function$;
COMMENT ON FUNCTION pawl.history(regclass, anycompatible, name) IS
'the moves of one row, first to last; to_state is null where it was deleted. The key is a value, row(a, b), or a text array. 55000: the table keeps no log';

CREATE FUNCTION pawl.state_at(relation regclass, key anycompatible, at timestamptz, state_column name DEFAULT NULL) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
    key_text text[] := pawl._key_text(bound.relation, key, bound.state_column);
    answer text;
BEGIN
    IF at IS NULL THEN
        PERFORM pawl._raise('22004', 'at must not be null');
    END IF;
    EXECUTE format('SELECT l.to_state FROM %s l WHERE %s AND l.created_at <= $2 ORDER BY l.sort_key DESC LIMIT 1',
                   bound.history, pawl._of_subject(bound)) INTO answer USING key_text, at;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl.state_at(regclass, anycompatible, timestamptz, name) IS
'the state a row was in at a time; null before it was there and after it was deleted. 55000: the table keeps no log';

CREATE FUNCTION pawl.set_context(processor text DEFAULT NULL, event text DEFAULT NULL, correlation_id text DEFAULT NULL,
    metadata jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF processor IS NOT NULL THEN
        PERFORM set_config('pawl.processor', processor, true);
    END IF;
    IF event IS NOT NULL THEN
        PERFORM set_config('pawl.event', event, true);
    END IF;
    IF correlation_id IS NOT NULL THEN
        PERFORM set_config('pawl.correlation_id', correlation_id, true);
    END IF;
    IF metadata IS NOT NULL THEN
        PERFORM set_config('pawl.metadata', CASE WHEN metadata = 'null' THEN '' ELSE metadata::text END, true);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_context(text, text, text, jsonb) IS
'says for the rest of the transaction who moves rows, by which event, in which connection, with what remarks; what is not given stays, an empty text (metadata: a JSON null) takes it back';
-- pawl.verify: the rows and logs themselves, read against the machines.

-- Whether a log row (alias) is a hop that no version of the machine in $1 allows.
CREATE FUNCTION pawl._foreign_hop(alias text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT replace($query$
        (CASE WHEN NOT EXISTS (SELECT FROM pawl.machine v WHERE v.machine = $1 AND v.version = {}.machine_version) THEN true
              WHEN {}.to_state IS NULL THEN {}.event IS NULL OR {}.event NOT IN ('pawl.delete', 'pawl.truncate')
              WHEN {}.event IN ('pawl.attach', 'pawl.upgrade') THEN NOT EXISTS (
                   SELECT FROM pawl.machine_state s WHERE s.machine = $1 AND s.version = {}.machine_version
                      AND s.state = {}.to_state COLLATE "C" AND s.kind = 'state')
              WHEN {}.from_state IS NULL THEN NOT EXISTS (
                   SELECT FROM pawl.machine_state s WHERE s.machine = $1 AND s.version = {}.machine_version
                      AND s.state = {}.to_state COLLATE "C" AND s.kind = 'state' AND s.initial)
              ELSE NOT EXISTS (
                   SELECT FROM pawl.machine_transition t WHERE t.machine = $1 AND t.version = {}.machine_version
                      AND t.from_state = {}.from_state COLLATE "C" AND t.to_state = {}.to_state COLLATE "C") END)
        $query$, '{}', alias)
$function$;
COMMENT ON FUNCTION pawl._foreign_hop(text) IS 'internal: a condition that a log row is a move its machine does not allow';

CREATE FUNCTION pawl._verify(only_relation regclass)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding;
    root regclass;
BEGIN
    IF only_relation IS NOT NULL THEN
        SELECT b.relation INTO root FROM pawl.binding b
         WHERE b.relation IN (SELECT a FROM pawl._ancestors(only_relation) a) LIMIT 1;
        IF NOT FOUND THEN
            PERFORM pawl._binding(only_relation, NULL);  -- says what is wrong with it
        END IF;
    END IF;
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE root IS NULL OR b.relation = root
                  ORDER BY b.relation::text COLLATE "C", b.state_column LOOP
        IF root IS NULL THEN
            problem := CASE WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = bound.relation) THEN 'it does not exist'
                            WHEN NOT has_table_privilege(bound.relation, 'SELECT') THEN 'you may not read it'
                            WHEN bound.history IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = bound.history) THEN 'its log does not exist'
                            WHEN NOT has_table_privilege(bound.history, 'SELECT') THEN 'you may not read its log'
                            WHEN row_security_active(bound.relation) OR row_security_active(bound.history) THEN 'row-level security hides rows from you' END;
            IF problem IS NOT NULL THEN
                relation := bound.relation;
                state_column := bound.state_column;
                detail := problem;
                problem := 'not_checked';
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;
        RETURN QUERY EXECUTE format(
            'SELECT $1, $2, %1$s, ''unknown_state'', coalesce(format(''the row is in "%%s"'', r.%2$I), ''the state is null'') '
            'FROM %3$s r WHERE r.%2$I IS NULL OR r.%2$I::text COLLATE "C" <> ALL ($3) ORDER BY 3',
            pawl._key_label('r', bound.key_columns), bound.state_column, bound.relation)
            USING bound.relation, bound.state_column, pawl._atoms(bound.machine, bound.version);
        IF bound.history IS NOT NULL THEN
            RETURN QUERY SELECT v.* FROM pawl._verify_ends(bound) v;
            RETURN QUERY SELECT v.* FROM pawl._verify_log(bound) v;
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._verify(regclass) IS 'internal: see pawl.verify';

-- Every row is where its log ends, and every log ends at a row.
CREATE FUNCTION pawl._verify_ends(bound pawl.binding)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY EXECUTE format($query$
        WITH newest AS (SELECT DISTINCT ON (%1$s) l.* FROM %2$s l ORDER BY %1$s, l.sort_key DESC),
             ends AS (SELECT CASE WHEN r.present THEN %3$s ELSE %4$s END AS key, r.present, r.%5$I::text AS state,
                             n.sort_key, n.to_state
                        FROM (SELECT t.*, true AS present FROM %6$s t) r FULL JOIN newest n ON %7$s)
        SELECT $1, $2, e.key, p.problem, p.detail
          FROM ends e
          CROSS JOIN LATERAL (VALUES
               ('log_missing', e.present AND e.sort_key IS NULL, format('the row is in "%%s", it has no log', e.state)),
               ('row_missing', e.present IS NULL AND e.to_state IS NOT NULL, format('the log ends with "%%s", there is no row', e.to_state)),
               ('log_differs', e.present AND e.sort_key IS NOT NULL AND e.state COLLATE "C" IS DISTINCT FROM e.to_state COLLATE "C",
                format('the row is in "%%s", the log ends with %%s', e.state, coalesce(format('"%%s"', e.to_state), 'its deletion')))
               ) p(problem, holds, detail)
         WHERE p.holds ORDER BY e.key COLLATE "C"$query$,
        pawl._columns('l.', bound.log_key_columns), bound.history,
        pawl._key_label('r', bound.key_columns), pawl._key_label('n', bound.log_key_columns), bound.state_column, bound.relation,
        pawl._same_key('n', bound.log_key_columns, 'r', bound.key_columns))
        USING bound.relation, bound.state_column;
END
$function$;
COMMENT ON FUNCTION pawl._verify_ends(pawl.binding) IS 'internal: rows that are not where their log ends';

-- Every log is a chain: numbered 1, 2, 3 ..., each row begins where the one before ended, and each hop was allowed.
CREATE FUNCTION pawl._verify_log(bound pawl.binding)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY EXECUTE format($query$
        WITH chain AS (
            SELECT l.*, lag(l.sort_key) OVER w AS last_sort_key, lag(l.to_state) OVER w AS last_to_state,
                   lag(l.created_at) OVER w AS last_created_at, lead(l.sort_key) OVER w IS NULL AS is_newest %1$s
              FROM %2$s l WINDOW w AS (PARTITION BY %3$s ORDER BY l.sort_key))
        SELECT $2, $3, %4$s, p.problem, format('sort_key %%s: ', c.sort_key) || p.detail
          FROM chain c
          CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pawl.machine v WHERE v.machine = $1 AND v.version = c.machine_version) AS known) k
          CROSS JOIN LATERAL (VALUES
               ('sort_key_gap', c.sort_key <> coalesce(c.last_sort_key, 0) + 1,
                format('%%s should come before it', c.sort_key - 1)),
               ('chain_broken', c.from_state COLLATE "C" IS DISTINCT FROM c.last_to_state COLLATE "C",
                format('it begins at %%s, the one before ended at %%s', coalesce(format('"%%s"', c.from_state), 'nothing'),
                       coalesce(format('"%%s"', c.last_to_state), 'nothing'))),
               ('unknown_version', NOT k.known, format('machine "%%s" has no version %%s', $1, c.machine_version)),
               ('illegal_hop', k.known AND %5$s,
                format('%%s to %%s is no arrow of version %%s', coalesce(format('"%%s"', c.from_state), 'nothing'),
                       coalesce(format('"%%s"', c.to_state), 'nothing'), c.machine_version)),
               ('most_recent', %6$s, CASE WHEN c.is_newest THEN 'it is the newest and does not say so' ELSE 'it says it is the newest, but is not' END),
               ('clock_backwards', c.created_at < c.last_created_at, format('written %%s before the one before', c.last_created_at - c.created_at)),
               ('hash_mismatch', %7$s, 'its hash is not that of its content and its predecessor''s hash')
               ) p(problem, holds, detail)
         WHERE p.holds ORDER BY 3, c.sort_key, p.problem COLLATE "C"$query$,
        CASE WHEN bound.hash_chain THEN ', lag(l.hash) OVER w AS last_hash' END,
        bound.history, pawl._columns('l.', bound.log_key_columns), pawl._key_label('c', bound.log_key_columns),
        pawl._foreign_hop('c'),
        CASE WHEN bound.most_recent = 'stored' THEN 'c.most_recent <> c.is_newest' ELSE 'false' END,
        CASE WHEN bound.hash_chain THEN
             format('c.hash IS DISTINCT FROM pawl._log_hash(c.last_hash, pawl._log_content(%s, c.sort_key, c.from_state, c.to_state, c.event, '
                    'c.processor, c.actor, c.correlation_id, c.metadata, c.machine_version, c.created_at))', pawl._key_array('c', bound.log_key_columns))
             ELSE 'false' END)
        USING bound.machine, bound.relation, bound.state_column;
END
$function$;
COMMENT ON FUNCTION pawl._verify_log(pawl.binding) IS 'internal: logs that are not a chain of allowed moves';

CREATE FUNCTION pawl.verify(relation regclass DEFAULT NULL)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
AS $function$
    SELECT v.relation, v.state_column, v.key, v.problem, v.detail FROM pawl._verify($1) v
$function$;
COMMENT ON FUNCTION pawl.verify(regclass) IS
'reads the rows and logs of a table (of all tables) and returns what is wrong: unknown_state, log_missing, row_missing, log_differs, sort_key_gap, chain_broken, unknown_version, illegal_hop, most_recent, clock_backwards, hash_mismatch; not_checked where you may not read. No rows: nothing is wrong. All of it is one snapshot';
-- pawl.health: is everything in place that enforcement needs? Reads catalogs only.

CREATE FUNCTION pawl._short_list(names text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(u.name, ', ' ORDER BY u.n) || CASE WHEN cardinality(names) > 5 THEN format(' and %s more', cardinality(names) - 5) ELSE '' END
      FROM unnest(names) WITH ORDINALITY u(name, n) WHERE u.n <= 5
$function$;
COMMENT ON FUNCTION pawl._short_list(text[]) IS 'internal: the first five of a list, for messages';

-- One lifecycle. A row with status ok has neither detail nor hint.
CREATE FUNCTION pawl._health(bound pawl.binding)
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    attach_again text := format('select pawl._install(%L)', bound.relation);
    problem record;
    wrong text[];
    newest integer;
BEGIN
    check_name := 'table';
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = bound.relation) THEN
        RETURN QUERY SELECT check_name, 'error', format('there is no relation with OID %s', bound.relation::oid),
            format('delete from pawl.binding where relation = %s::regclass', bound.relation::oid);
        RETURN;
    END IF;
    RETURN QUERY SELECT check_name, 'ok', NULL, NULL;

    SELECT * INTO problem FROM pawl._column_problem(bound.relation, bound.state_column, bound.machine, bound.version, false);
    RETURN QUERY SELECT 'state_column', CASE WHEN problem.message IS NULL THEN 'ok' ELSE 'error' END,
        concat_ws(': ', problem.message, problem.detail), problem.hint WHERE problem.message IS NOT NULL
        UNION ALL SELECT 'state_column', 'ok', NULL, NULL WHERE problem.message IS NULL;

    SELECT array_agg(k ORDER BY k) INTO wrong FROM unnest(bound.key_columns) k
     WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = bound.relation AND a.attname = k AND a.attnum > 0 AND NOT a.attisdropped);
    RETURN QUERY SELECT 'key_columns', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        'there is no column ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN format('select pawl.release(%1$L, %2$L), then pawl.enforce(%1$L, %2$L, %3$L, ...)',
                                                bound.relation, bound.state_column, bound.machine) END;

    SELECT array_agg(format('%I on %s', e.name, c.oid::regclass) ORDER BY c.oid::regclass::text, e.name) INTO wrong
      FROM pawl._members(bound.relation) m JOIN pg_class c ON c.oid = m
      CROSS JOIN (VALUES ('~pawl_judge', 'pawl.judge()'::regprocedure), ('!pawl_update', 'pawl.settle()'),
                         ('!pawl_settle', 'pawl.settle()'), ('!pawl_truncate', 'pawl.truncated()')) e(name, function)
     WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = m AND t.tgname = e.name AND t.tgfoid = e.function);
    RETURN QUERY SELECT 'triggers', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        'missing: ' || pawl._short_list(wrong), CASE WHEN wrong IS NOT NULL THEN attach_again END;

    SELECT array_agg(format('%I on %s', t.tgname, t.tgrelid::regclass) ORDER BY t.tgrelid::regclass::text, t.tgname) INTO wrong
      FROM pawl._members(bound.relation) m JOIN pg_trigger t ON t.tgrelid = m
     WHERE t.tgfoid IN ('pawl.judge()'::regprocedure, 'pawl.settle()'::regprocedure, 'pawl.truncated()'::regprocedure)
       AND t.tgenabled IN ('D', 'R');
    RETURN QUERY SELECT 'triggers_enabled', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        'disabled: ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN attach_again || format(', then select * from pawl.verify(%L)', bound.relation) END;

    SELECT array_agg(format('%I on %s', t.tgname, t.tgrelid::regclass) ORDER BY t.tgrelid::regclass::text, t.tgname) INTO wrong
      FROM pawl._members(bound.relation) m JOIN pg_trigger t ON t.tgrelid = m
     WHERE t.tgfoid IN ('pawl.judge()'::regprocedure, 'pawl.settle()'::regprocedure, 'pawl.truncated()'::regprocedure)
       AND t.tgenabled = CASE WHEN (SELECT bool_or(b.always) FROM pawl.binding b WHERE b.relation = bound.relation) THEN 'O' ELSE 'A' END::"char";
    RETURN QUERY SELECT 'always', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'warning' END,
        CASE WHEN bound.always THEN 'replicated rows are not judged by ' ELSE 'replicated rows are judged by ' END || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN attach_again END;

    SELECT array_agg(format('%I on %s', t.tgname, t.tgrelid::regclass) ORDER BY t.tgrelid::regclass::text, t.tgname) INTO wrong
      FROM pawl._members(bound.relation) m JOIN pg_trigger t ON t.tgrelid = m
     WHERE t.tgtype & 19 = 19 AND t.tgname > '~pawl_judge' AND NOT t.tgisinternal AND t.tgenabled <> 'D'
       AND t.tgfoid <> 'pawl.judge()'::regprocedure;
    RETURN QUERY SELECT 'later_triggers', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'info' END,
        'run after ~pawl_judge, so that rows are judged once more after their statement: ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN 'give these triggers names that sort before ~pawl_judge' END;

    SELECT max(m.version) INTO newest FROM pawl.machine m WHERE m.machine = bound.machine;
    RETURN QUERY SELECT 'version', CASE WHEN newest = bound.version THEN 'ok' ELSE 'info' END,
        CASE WHEN newest <> bound.version THEN format('version %s of machine "%s" is enforced, the newest is %s', bound.version, bound.machine, newest) END,
        CASE WHEN newest <> bound.version THEN format('select pawl.upgrade(%L, %L)', bound.relation, bound.state_column) END;

    SELECT array_agg(g ORDER BY g) INTO wrong FROM pawl._guard_functions(bound.relation, bound.machine, bound.version) g;
    RETURN QUERY SELECT 'functions', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        'guards or effects that cannot be called: ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN format('create function %s(old %s, new %s) ...', wrong[1], bound.relation, bound.relation) END;

    IF bound.history IS NULL THEN
        RETURN;
    END IF;
    check_name := pawl._log_problem(bound.history, bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain);
    RETURN QUERY SELECT 'log', CASE WHEN check_name IS NULL THEN 'ok' ELSE 'error' END, format('the log %s: ', bound.history) || check_name,
        CASE WHEN check_name IS NOT NULL THEN format('select pawl.release(%1$L, %2$L), then pawl.enforce(%1$L, %2$L, %3$L, history => true, ...)',
                                                     bound.relation, bound.state_column, bound.machine) END;
    SELECT array_agg(quote_ident(e.name) ORDER BY e.name) INTO wrong
      FROM (VALUES ('!pawl_guard', 'pawl.log_guard()'::regprocedure), ('!pawl_guard_row', 'pawl.log_guard()'),
                   ('!pawl_guard_truncate', 'pawl.log_guard()'), ('~pawl_door', 'pawl.log_door()')) e(name, function)
     WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = bound.history AND t.tgname = e.name AND t.tgfoid = e.function
                          AND t.tgenabled NOT IN ('D', 'R'));
    RETURN QUERY SELECT 'log_triggers', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        format('missing or disabled on %s: ', bound.history) || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN format('select pawl._close_log(%L, true)', bound.history) END;
END
$function$;
COMMENT ON FUNCTION pawl._health(pawl.binding) IS 'internal: the health of one lifecycle';

CREATE FUNCTION pawl.health()
RETURNS TABLE (relation regclass, state_column name, check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 50
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    wrong text[];
BEGIN
    SELECT array_agg(e.name ORDER BY e.name) INTO wrong FROM unnest(ARRAY['pawl_adopt', 'pawl_follow', 'pawl_gone']) e(name)
     WHERE NOT EXISTS (SELECT FROM pg_event_trigger t WHERE t.evtname = e.name AND t.evtenabled NOT IN ('D', 'R'));
    RETURN QUERY SELECT NULL::regclass, NULL::name, 'event_triggers', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        'missing or disabled: ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN format('alter event trigger %I enable', wrong[1]) END;

    RETURN QUERY SELECT b.relation, b.state_column, h.check_name, h.status, nullif(h.detail, ''), h.hint
                   FROM pawl.binding b CROSS JOIN LATERAL pawl._health(b) h
                  ORDER BY b.relation::text COLLATE "C", b.state_column;

    RETURN QUERY
        SELECT t.tgrelid::regclass, NULL::name, 'orphaned_triggers', 'warning', 'no lifecycle stands behind ' || string_agg(quote_ident(t.tgname), ', ' ORDER BY t.tgname),
               string_agg(format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass), '; ' ORDER BY t.tgname)
          FROM pg_depend d JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid AND t.tgparentid = 0
         WHERE d.refclassid = 'pg_proc'::regclass
           AND (d.refobjid IN ('pawl.judge()'::regprocedure, 'pawl.settle()'::regprocedure, 'pawl.truncated()'::regprocedure)
                AND NOT EXISTS (SELECT FROM pawl.binding b WHERE b.relation IN (SELECT a FROM pawl._ancestors(t.tgrelid) a))
                OR d.refobjid = 'pawl.log_door()'::regprocedure
                AND NOT EXISTS (SELECT FROM pawl.binding b WHERE b.history = t.tgrelid))
         GROUP BY t.tgrelid ORDER BY t.tgrelid::regclass::text COLLATE "C";
END
$function$;
COMMENT ON FUNCTION pawl.health() IS
'checks that everything enforcement needs is in place, one row a check: event_triggers, table, state_column, key_columns, triggers, triggers_enabled, always, later_triggers, version, functions, log, log_triggers, orphaned_triggers. status is ok, info, warning or error; hint can be pasted. It reads catalogs only; the rows are the matter of pawl.verify';
-- Who may do what. Everything is taken from PUBLIC, then given by role.
-- PUBLIC may use what acts with the caller's own rights on tables. The catalog tables are open as PostgreSQL's own are.
-- The trigger functions are PUBLIC's too: PostgreSQL asks for EXECUTE from whoever creates a partition of an enforced table.

GRANT USAGE ON SCHEMA pawl TO PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl FROM PUBLIC;

GRANT SELECT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding TO PUBLIC;
GRANT SELECT, INSERT ON pawl.machine_state, pawl.machine_transition TO pawl_admin;
GRANT SELECT, INSERT, DELETE ON pawl.machine TO pawl_admin;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.binding TO pawl_admin;
GRANT SELECT ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding TO pawl_operator, pawl_worker, pawl_reader;
GRANT USAGE ON SCHEMA pawl TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;

GRANT EXECUTE ON FUNCTION
    pawl.define(text, text, text),
    pawl.enforce(regclass, name, text, integer, boolean, text, boolean, name[], text, boolean, name),
    pawl.release(regclass, name),
    pawl.upgrade(regclass, name, jsonb),
    pawl._remap(regclass, name, jsonb)
TO pawl_admin;

GRANT EXECUTE ON FUNCTION pawl.verify(regclass), pawl.health() TO pawl_admin, pawl_operator, pawl_reader;

DO $grants$
DECLARE
    routine regprocedure;
BEGIN
    -- what acts on tables with the caller's own rights, or on nothing
    FOR routine IN
        SELECT p.oid FROM pg_catalog.pg_proc p
         WHERE p.pronamespace = 'pawl'::pg_catalog.regnamespace
           AND (p.prorettype = 'pg_catalog.trigger'::pg_catalog.regtype
                OR p.proname IN ('check', 'diagram', 'states', 'transitions', 'fire', 'fire_many', 'available', 'history', 'state_at',
                                 'set_context', 'deferred', 'uuid_v7')
                OR p.proname ^@ '_' AND NOT p.prosecdef AND p.proname <> '_remap'
                   AND p.prorettype <> 'pg_catalog.event_trigger'::pg_catalog.regtype)
         ORDER BY p.oid
    LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC, pawl_admin, pawl_operator, pawl_worker, pawl_reader', routine);
    END LOOP;
END
$grants$;

CREATE EVENT TRIGGER pawl_adopt ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE')
    EXECUTE FUNCTION pawl._adopt();
COMMENT ON EVENT TRIGGER pawl_adopt IS 'takes partitions and inheritance children into the enforced tables they join';
CREATE EVENT TRIGGER pawl_follow ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER TYPE', 'CREATE TABLE')
    EXECUTE FUNCTION pawl._follow();
COMMENT ON EVENT TRIGGER pawl_follow IS 'follows renames, refuses changes that would break a lifecycle';
CREATE EVENT TRIGGER pawl_gone ON sql_drop
    EXECUTE FUNCTION pawl._gone();
COMMENT ON EVENT TRIGGER pawl_gone IS 'removes the lifecycles of dropped tables, keeps columns and logs that are needed';
