-- Machines: the diagrams as given, and what they compile to. pawl.define writes them, and nothing changes them
-- afterwards. There are no foreign keys, because a parallel pg_restore fills the tables in any order; triggers check
-- the same.

CREATE FUNCTION pawl._creating_extension() RETURNS name
LANGUAGE c STABLE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_creating_extension';
COMMENT ON FUNCTION pawl._creating_extension() IS 'internal: the extension whose script runs; null when none does';

CREATE TABLE pawl.machine (
    machine text COLLATE "C" NOT NULL CHECK (machine <> ''),
    version integer NOT NULL CHECK (version > 0),
    source text NOT NULL,
    diagram text NOT NULL,
    unbound text NOT NULL DEFAULT 'reject' CHECK (unbound IN ('reject', 'note')),
    defined_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    -- a name, not a regrole: a dump must load where that role does not exist
    defined_by text NOT NULL DEFAULT CURRENT_USER,
    extension name DEFAULT pawl._creating_extension(),
    owner text NOT NULL DEFAULT CURRENT_USER,
    PRIMARY KEY (machine, version)
);
COMMENT ON TABLE pawl.machine IS 'one row a version of a machine; immutable';
COMMENT ON COLUMN pawl.machine.source IS 'the diagram as it was given';
COMMENT ON COLUMN pawl.machine.diagram IS 'its canonical form: two diagrams that mean the same have the same one';
COMMENT ON COLUMN pawl.machine.extension IS
'the extension whose script defined it, and defines it again after a restore; null: a user did';
COMMENT ON COLUMN pawl.machine.owner IS
'the role that defines the next version, drops the machine or gives it away, the same in all versions; where the role '
'does not exist, the owner of the extension does';
COMMENT ON COLUMN pawl.machine.unbound IS 'how guards and effects that name no function are treated: reject or note';

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
    UNIQUE (machine, version, state)
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
    PRIMARY KEY (machine, version, ordinal)
);
COMMENT ON TABLE pawl.machine_transition IS
'the transitions of a machine in the order of its diagram; from_state is null for an initial state';
COMMENT ON COLUMN pawl.machine_transition.guards IS 'qualified names of functions f(old, new) that must say yes';
COMMENT ON COLUMN pawl.machine_transition.effects IS
'qualified names of functions f(old, new) that run after the state change';
COMMENT ON COLUMN pawl.machine_transition.notes IS 'guards and effects of the label that name no function';
COMMENT ON COLUMN pawl.machine_transition.drawn_from IS 'the composite state from which the transition was inherited';

-- verify and the functions that read transitions search by a pair of states of one version.
CREATE INDEX ON pawl.machine_transition (machine, version, from_state, to_state);

-- Machines of an extension come back with its CREATE EXTENSION, not with the data.
SELECT pg_catalog.pg_extension_config_dump('pawl.machine', 'WHERE extension IS NULL');
SELECT pg_catalog.pg_extension_config_dump('pawl.machine_state', 'WHERE pawl._is_users(machine, version)');
SELECT pg_catalog.pg_extension_config_dump('pawl.machine_transition', 'WHERE pawl._is_users(machine, version)');

CREATE FUNCTION pawl._is_users(machine text, version integer) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT NOT EXISTS (SELECT FROM pawl.machine m
                        WHERE m.machine = _is_users.machine AND m.version = _is_users.version
                            AND m.extension IS NOT NULL)
$function$;
COMMENT ON FUNCTION pawl._is_users(text, integer) IS
'internal: whether a version of a machine belongs into a dump: no extension defines it';

-- A version that was ever enforced must not change.
CREATE FUNCTION pawl._machine_immutable() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.machine', 'pawl.machine_state', 'pawl.machine_transition');
    bound regclass;
    log regclass;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF TG_TABLE_NAME = 'machine' AND to_jsonb(NEW) - 'owner' = to_jsonb(OLD) - 'owner' THEN
            RETURN NEW;  -- pawl.set_machine_owner
        END IF;
        PERFORM pawl.raise('PW006', format('version %s of machine "%s" is immutable', OLD.version, OLD.machine),
            'Rows and log entries refer to the version that was enforced when they were written.',
            format('define the next version: select pawl.define(%L, ...)', OLD.machine));
    END IF;
    IF TG_TABLE_NAME <> 'machine' THEN
        -- a version is deleted as a whole: its states and transitions follow it
        IF EXISTS (SELECT FROM pawl.machine m WHERE m.machine = OLD.machine AND m.version = OLD.version) THEN
            PERFORM pawl.raise('PW006', format('version %s of machine "%s" is immutable', OLD.version, OLD.machine),
                NULL, format('select pawl.drop_machine(%L, %s)', OLD.machine, OLD.version));
        END IF;
        RETURN OLD;
    END IF;
    SELECT b.relation, b.history INTO bound, log FROM pawl.binding b
     WHERE b.machine = OLD.machine AND (b.version = OLD.version OR b.history IS NOT NULL)
     ORDER BY b.version <> OLD.version, b.relation LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('2BP01', format('version %s of machine "%s" cannot be deleted', OLD.version, OLD.machine),
            CASE
                WHEN EXISTS (SELECT FROM pawl.binding b WHERE b.machine = OLD.machine AND b.version = OLD.version)
                THEN format('It is enforced on table %s.', bound)
                ELSE format('The log %s can have entries of this version.', log) END);
    END IF;
    RETURN OLD;
END
$function$;
COMMENT ON FUNCTION pawl._machine_immutable() IS 'internal: rejects changes of a defined machine';

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl.machine
    FOR EACH ROW EXECUTE FUNCTION pawl._machine_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl.machine_state
    FOR EACH ROW EXECUTE FUNCTION pawl._machine_immutable();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON pawl.machine_transition
    FOR EACH ROW EXECUTE FUNCTION pawl._machine_immutable();

CREATE FUNCTION pawl._machine_gone() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER DELETE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.machine');
BEGIN
    DELETE FROM pawl.machine_state s WHERE s.machine = OLD.machine AND s.version = OLD.version;
    DELETE FROM pawl.machine_transition t WHERE t.machine = OLD.machine AND t.version = OLD.version;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl._machine_gone() IS 'internal: states and transitions are deleted with their version';

CREATE TRIGGER gone AFTER DELETE ON pawl.machine FOR EACH ROW EXECUTE FUNCTION pawl._machine_gone();

-- States and transitions are inserted with their version. A bound version gets no more of them, except from a superuser
-- or a member of pawl_restore: a restore fills the tables in any order.
CREATE FUNCTION pawl._machine_complete() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.machine_state', 'pawl.machine_transition');
    bound record;
BEGIN
    IF pawl._has_role('pawl_restore') THEN
        RETURN NULL;
    END IF;
    SELECT v.machine, v.version INTO bound FROM (SELECT DISTINCT a.machine, a.version FROM added a) v
     WHERE NOT EXISTS (SELECT FROM pawl.machine m WHERE m.machine = v.machine AND m.version = v.version) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('PW008', format('machine "%s" has no version %s', bound.machine, bound.version));
    END IF;
    SELECT b.machine, b.version INTO bound
      FROM (SELECT DISTINCT a.machine, a.version FROM added a) v
      JOIN pawl.binding b ON b.machine = v.machine AND b.version = v.version LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('PW006', format('version %s of machine "%s" is immutable', bound.version, bound.machine),
            NULL, format('define the next version: select pawl.define(%L, ...)', bound.machine));
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl._machine_complete() IS
'internal: a machine that is in use gets no further states or transitions';

CREATE FUNCTION pawl._hold_version(machine text, version integer) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_hold_version';
COMMENT ON FUNCTION pawl._hold_version(text, integer) IS
'internal: a version of a machine cannot be dropped before the end of the transaction';

CREATE FUNCTION pawl.set_machine_owner(machine text, owner name) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_set_machine_owner';
COMMENT ON FUNCTION pawl.set_machine_owner(text, name) IS
'Gives all versions of a machine to another role, which can then define the next version. machine: its name. owner:
a role.
Errors: PW008 unknown machine; 42704 no such role; 42501 not the owner, or not a member of the new owner; 22004
null. Privileges: pawl_admin that owns the machine and is a member of the new owner.
Example: SELECT pawl.set_machine_owner(''order'', ''pawl_admin'')';

CREATE FUNCTION pawl.drop_machine(machine text, version integer DEFAULT NULL) RETURNS integer
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_drop_machine';
COMMENT ON FUNCTION pawl.drop_machine(text, integer) IS
'Drops a version of a machine, or all versions, and returns how many. machine: its name. version: null (default):
all.
Errors: PW008 unknown machine or version; 2BP01 a version is enforced on a table, or a log can have its transitions;
42501 not the owner; 22004 null. Privileges: pawl_admin that owns the machine.
Example: SELECT pawl.drop_machine(''draft'')';

CREATE TRIGGER complete AFTER INSERT ON pawl.machine_state REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION pawl._machine_complete();
CREATE TRIGGER complete AFTER INSERT ON pawl.machine_transition REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION pawl._machine_complete();
