-- How the nodes of a Citus cluster learn of bindings: see enforce/distribution.sql.

-- The reference table is no member of the extension: an extension whose tables are distributed cannot be updated. It
-- belongs to the owner of pawl.binding, and no other role can write it.
CREATE FUNCTION pawl._prepare_spread() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    owner oid := (SELECT c.relowner FROM pg_class c WHERE c.oid = 'pawl.binding'::regclass);
BEGIN
    IF to_regnamespace('pawl_citus') IS NULL THEN
        CREATE SCHEMA pawl_citus;
        COMMENT ON SCHEMA pawl_citus IS 'what the nodes of this Citus cluster know of machines and bindings';
    END IF;
    IF (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'pawl_citus') <> owner THEN
        PERFORM pawl.raise('42501', 'schema pawl_citus belongs to another role than pawl.binding',
            'Its owner would decide which state changes the nodes allow.', 'drop schema pawl_citus');
    END IF;
    IF NOT pawl._is_distributed(to_regclass('pawl_citus.definition')) THEN
        DROP TABLE pawl_citus.definition;  -- of another cluster, from a dump of its coordinator
    END IF;
    IF to_regclass('pawl_citus.definition') IS NULL THEN
        CREATE TABLE pawl_citus.definition (
            kind text COLLATE "C" NOT NULL CHECK (kind IN ('machine', 'binding')),
            name text COLLATE "C" NOT NULL,
            content jsonb NOT NULL,
            PRIMARY KEY (kind, name)
        );
        COMMENT ON TABLE pawl_citus.definition IS
        'versions of machines and bindings of distributed tables, as the coordinator has them; written by pawl';
    END IF;
    IF NOT pawl._is_distributed('pawl_citus.definition') THEN
        EXECUTE 'SELECT pg_catalog.create_reference_table(''pawl_citus.definition'')';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = to_regclass('pawl_citus.definition')
                      AND t.tgname = 'changed') THEN
        PERFORM set_config('citus.enable_unsafe_triggers', 'on', true);
        CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON pawl_citus.definition
            FOR EACH ROW EXECUTE FUNCTION pawl._definition_changed();
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._prepare_spread() IS 'internal: creates the reference table of definitions';

CREATE FUNCTION pawl._prepare_definitions() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_prepare_definitions';
COMMENT ON FUNCTION pawl._prepare_definitions() IS
'internal: creates the reference table of definitions, with the rights of the owner of pawl.binding';

-- The name of a binding there: it stays when the table is renamed, and is known when the table is gone.
CREATE FUNCTION pawl._spread_name(relation regclass, state_column name) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$ SELECT format('%s.%s', relation::oid, state_column) $function$;
COMMENT ON FUNCTION pawl._spread_name(regclass, name) IS 'internal: the name of a binding among the definitions';

CREATE FUNCTION pawl._spread(bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET intervalstyle = 'postgres'
SET datestyle = 'ISO, YMD'
AS $function$
DECLARE
    version record;
BEGIN
    PERFORM pawl._prepare_spread();
    FOR version IN
        SELECT format('%s %s', m.version, m.machine) AS name,
               jsonb_build_object('machine', to_jsonb(m),
                   'states', (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.ordinal), '[]') FROM pawl.machine_state s
                               WHERE s.machine = m.machine AND s.version = m.version),
                   'transitions', (SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY t.ordinal), '[]')
                                     FROM pawl.machine_transition t
                                    WHERE t.machine = m.machine AND t.version = m.version)) AS content
          FROM pawl.machine m WHERE m.machine = bound.machine ORDER BY m.version
    LOOP
        EXECUTE 'INSERT INTO pawl_citus.definition VALUES (''machine'', $1, $2) ON CONFLICT (kind, name) '
            'DO UPDATE SET content = excluded.content' USING version.name, version.content;
    END LOOP;
    EXECUTE 'INSERT INTO pawl_citus.definition VALUES (''binding'', $1, $2) ON CONFLICT (kind, name) '
        'DO UPDATE SET content = excluded.content'
      USING pawl._spread_name(bound.relation, bound.state_column), to_jsonb(bound);
END
$function$;
COMMENT ON FUNCTION pawl._spread(pawl.binding) IS 'internal: tells the nodes of a binding and its machine';

CREATE FUNCTION pawl._binding_changed() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT OR UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.binding');
BEGIN
    IF NOT pawl._is_coordinator() THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'DELETE' THEN
        IF to_regclass('pawl_citus.definition') IS NOT NULL THEN
            EXECUTE 'DELETE FROM pawl_citus.definition d WHERE d.kind = ''binding'' AND d.name = $1'
              USING pawl._spread_name(OLD.relation, OLD.state_column);
        END IF;
    ELSIF pawl._is_distributed(NEW.relation) AND (NEW.history IS NULL OR pawl._is_distributed(NEW.history)) THEN
        PERFORM pawl._spread(NEW);
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl._binding_changed() IS
'internal: tells the nodes of a Citus cluster of bindings of distributed tables';

CREATE TRIGGER spread AFTER INSERT OR UPDATE OR DELETE ON pawl.binding
    FOR EACH ROW EXECUTE FUNCTION pawl._binding_changed();

-- Takes a version of a machine from its definition, if this node does not have it.
CREATE FUNCTION pawl._adopt_machine(content jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    taken pawl.machine := jsonb_populate_record(NULL::pawl.machine, content->'machine');
    present pawl.machine;
BEGIN
    INSERT INTO pawl.machine SELECT (taken).* ON CONFLICT (machine, version) DO NOTHING;
    IF NOT FOUND THEN
        SELECT m.* INTO present FROM pawl.machine m WHERE m.machine = taken.machine AND m.version = taken.version;
        IF present.diagram <> taken.diagram THEN
            PERFORM pawl.raise('55000', format('version %s of machine "%s" is another one on this node',
                taken.version, taken.machine), 'It was defined here, and not on the coordinator.',
                format('on this node: select pawl.drop_machine(%L, %s)', taken.machine, taken.version));
        END IF;
        RETURN;
    END IF;
    INSERT INTO pawl.machine_state SELECT * FROM jsonb_populate_recordset(NULL::pawl.machine_state, content->'states');
    INSERT INTO pawl.machine_transition
        SELECT * FROM jsonb_populate_recordset(NULL::pawl.machine_transition, content->'transitions');
END
$function$;
COMMENT ON FUNCTION pawl._adopt_machine(jsonb) IS 'internal: stores a version of a machine of the coordinator';

-- The copy of the definitions on this node; null: it has none.
CREATE FUNCTION pawl._local_definitions() RETURNS regclass
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one regclass;
BEGIN
    IF to_regclass('pawl_citus.definition') IS NULL OR to_regclass('pg_catalog.pg_dist_shard') IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE 'SELECT to_regclass(pg_catalog.shard_name(s.logicalrelid, s.shardid)) FROM pg_catalog.pg_dist_shard s '
        'WHERE s.logicalrelid = to_regclass(''pawl_citus.definition'') LIMIT 1' INTO found_one;
    RETURN found_one;
END
$function$;
COMMENT ON FUNCTION pawl._local_definitions() IS 'internal: the copy of the definitions on this node';

-- When Citus drops the tables of a node, as before the node comes back, no event trigger fires.
CREATE FUNCTION pawl._forget_dropped() RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    DELETE FROM pawl.binding b WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = b.relation)
$function$;
COMMENT ON FUNCTION pawl._forget_dropped() IS
'internal: removes bindings of tables that Citus has dropped on this node';

-- Takes a binding from its definition. Without the table, or its log, on this node there is nothing to take: a binding
-- that lacks its log would record nothing.
CREATE FUNCTION pawl._adopt_binding(content jsonb) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound_table regclass := to_regclass(content->>'relation');
    taken pawl.binding;
    machine jsonb;
BEGIN
    IF bound_table IS NULL THEN
        RETURN false;
    END IF;
    DELETE FROM pawl.binding b WHERE b.relation = bound_table AND b.state_column = content->>'state_column';
    IF to_regclass(content->>'history') IS NULL AND content->>'history' IS NOT NULL THEN
        RETURN false;
    END IF;
    FOR machine IN EXECUTE format('SELECT d.content FROM %s d WHERE d.kind = ''machine'' '
        'AND d.content->''machine''->>''machine'' = $1', pawl._local_definitions()) USING content->>'machine' LOOP
        PERFORM pawl._adopt_machine(machine);
    END LOOP;
    IF to_regclass(content->>'history_view') IS NULL THEN
        content := jsonb_set(content, '{history_view}', 'null');
    END IF;
    taken := jsonb_populate_record(NULL::pawl.binding, content);
    INSERT INTO pawl.binding SELECT (taken).* ON CONFLICT DO NOTHING;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl._adopt_binding(jsonb) IS 'internal: stores a binding of the coordinator on this node';

CREATE FUNCTION pawl._adopt(relation regclass) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    definitions regclass := pawl._local_definitions();
    content jsonb;
    adopted boolean := false;
BEGIN
    IF definitions IS NULL OR pawl._is_coordinator() THEN
        RETURN false;
    END IF;
    PERFORM pawl._forget_dropped();
    FOR content IN EXECUTE format('SELECT d.content FROM %s d WHERE d.kind = ''binding'' '
        'AND to_regclass(d.content->>''relation'') = $1 ORDER BY d.name', definitions) USING relation LOOP
        adopted := pawl._adopt_binding(content) OR adopted;
    END LOOP;
    RETURN adopted;
END
$function$;
COMMENT ON FUNCTION pawl._adopt(regclass) IS
'internal: takes the bindings of a distributed table from the definitions on this node; false: there are none';

CREATE FUNCTION pawl._adopt_missing() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    definitions regclass := pawl._local_definitions();
    content jsonb;
BEGIN
    IF definitions IS NULL OR pawl._is_coordinator() THEN
        RETURN;
    END IF;
    PERFORM pawl._forget_dropped();
    FOR content IN EXECUTE format('SELECT d.content FROM %s d WHERE d.kind = ''binding'' AND NOT EXISTS (SELECT '
        'FROM pawl.binding b WHERE b.relation = to_regclass(d.content->>''relation'') '
        'AND b.state_column = d.content->>''state_column'') ORDER BY d.name', definitions) LOOP
        PERFORM pawl._adopt_binding(content);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._adopt_missing() IS 'internal: takes the bindings of which this node does not know yet';

-- On each node, when the coordinator changes a definition.
CREATE FUNCTION pawl._definition_changed() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    -- on the copy of this node, which has the number of its shard in its name
    fired constant boolean := pawl.fired_by('AFTER INSERT OR UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, coalesce(pawl._local_definitions(), 'pawl.binding'));
BEGIN
    IF pawl._is_coordinator() THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' AND OLD.kind = 'binding' THEN
        DELETE FROM pawl.binding b
         WHERE b.relation = to_regclass(OLD.content->>'relation') AND b.state_column = OLD.content->>'state_column';
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.kind = 'binding' THEN
        PERFORM pawl._adopt_binding(NEW.content);
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl._definition_changed() IS
'internal: takes what the coordinator has changed into the catalog of this node';

CREATE FUNCTION pawl.spread_definitions() RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding;
    n integer := 0;
BEGIN
    IF NOT pawl._is_coordinator() THEN
        PERFORM pawl.raise('55000', 'this database is not the coordinator of a Citus cluster', NULL,
            'connect to the coordinator');
    END IF;
    PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);
    PERFORM pawl._prepare_spread();
    PERFORM pawl._begin_distributed(b.relation) FROM pawl.binding b WHERE pawl._is_distributed(b.relation) LIMIT 1;
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE pawl._is_distributed(b.relation)
        ORDER BY b.relation, b.state_column LOOP
        PERFORM pawl._spread(bound);
        n := n + 1;
    END LOOP;
    IF to_regclass('pawl_citus.definition') IS NOT NULL THEN
        EXECUTE 'DELETE FROM pawl_citus.definition d WHERE d.kind = ''binding'' AND NOT d.name = ANY ($1)'
          USING ARRAY(SELECT pawl._spread_name(b.relation, b.state_column) FROM pawl.binding b);
    END IF;
    RETURN n;
END
$function$;
COMMENT ON FUNCTION pawl.spread_definitions() IS
'Tells the nodes of a Citus cluster again of the bindings of distributed tables and their machines, and returns how many
bindings there are. pawl does this by itself with every change; call it after distributed tables were renamed, or a
coordinator was restored from a dump. Errors: 55000 not on the coordinator; 42501 not a superuser. Privileges: the owner
of the extension. Example: SELECT pawl.spread_definitions()';
