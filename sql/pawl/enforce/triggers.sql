-- The triggers of an enforced table: which it needs, what they are called, how they come and go.

-- The trigger functions of enforced tables. This is the only list of them.
CREATE FUNCTION pawl._table_functions() RETURNS regprocedure[]
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT '{pawl.validate(),pawl.validate_insert(),pawl.record(),pawl.record_truncate()}'::regprocedure[]
$function$;
COMMENT ON FUNCTION pawl._table_functions() IS 'internal: the trigger functions of an enforced table';

-- Whether a trigger is what a definition such as BEFORE UPDATE ON %s FOR EACH ROW would make of a function: the same
-- event, time and level, and no condition, columns, arguments or deferral of its own.
CREATE FUNCTION pawl._trigger_fits(trigger oid, function regprocedure, definition text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off
AS $function$
    SELECT t.tgfoid = function
           AND t.tgtype = CASE WHEN definition ~ 'FOR EACH ROW' THEN 1 ELSE 0 END + CASE
               WHEN definition ~ '^BEFORE' THEN 2 ELSE 0 END
                          + CASE WHEN definition ~ 'INSERT' THEN 4 ELSE 0 END
                          + CASE WHEN definition ~ 'DELETE' THEN 8 ELSE 0 END
                          + CASE WHEN definition ~ 'UPDATE' THEN 16 ELSE 0 END
                          + CASE WHEN definition ~ 'TRUNCATE' THEN 32 ELSE 0 END
           AND cardinality(t.tgattr::smallint[]) = 0 AND t.tgnargs = 0 AND NOT t.tgdeferrable
           AND coalesce(substring(pg_get_triggerdef(t.oid) from E' WHEN \\((.*)\\) EXECUTE '), '')
               = coalesce(substring(definition from E' WHEN \\((.*)\\)$'), '')
           AND (t.tgnewtable IS NULL) = (definition !~ 'REFERENCING NEW TABLE') AND t.tgoldtable IS NULL
      FROM pg_trigger t WHERE t.oid = trigger
$function$;
COMMENT ON FUNCTION pawl._trigger_fits(oid, regprocedure, text) IS
'internal: whether a trigger calls this function at this moment, always';

-- PostgreSQL fires triggers in the order of their names, and pawl.validate() must be the last that may change a row.
-- Returns a name that sorts after all others, or null if a later name has the maximal length.
CREATE FUNCTION pawl._validate_trigger_name(relation regclass) RETURNS name
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN later.tgname IS NULL THEN '~pawl_validate'::name
                WHEN octet_length(later.tgname::text || '~pawl_validate') < 64
                    THEN (later.tgname::text || '~pawl_validate')::name
           END
      FROM (SELECT max(t.tgname COLLATE "C") AS tgname
              FROM pawl._members(relation) m JOIN pg_trigger t ON t.tgrelid = m
             WHERE t.tgtype & 19 = 19  -- BEFORE UPDATE FOR EACH ROW
               AND t.tgname COLLATE "C" > '~pawl_validate' AND t.tgfoid <> 'pawl.validate()'::regprocedure) later
$function$;
COMMENT ON FUNCTION pawl._validate_trigger_name(regclass) IS
'internal: a name for the validating trigger, which sorts after all others';

-- An AFTER UPDATE trigger costs every UPDATE something, so a table has one only where rows cannot be validated before
-- they are written (they may move to another partition, or another trigger has the last
-- word), or where there are effects to run.
CREATE FUNCTION pawl._needs_record_update(relation regclass) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT c.relkind = 'p'
           OR pawl._validate_trigger_name(relation) IS NULL
           OR EXISTS (SELECT FROM pawl.binding b
               JOIN pawl.machine_transition t ON t.machine = b.machine AND t.version = b.version
                       WHERE b.relation = _needs_record_update.relation AND t.effects <> '{}')
      FROM pg_class c WHERE c.oid = relation
$function$;
COMMENT ON FUNCTION pawl._needs_record_update(regclass) IS
'internal: whether an enforced table needs an AFTER UPDATE trigger';

-- The root of a tree gets the triggers (PostgreSQL clones them to its partitions), and so does each inheritance child.
-- Every member gets the TRUNCATE trigger, because that one is not cloned.
CREATE FUNCTION pawl._expected_triggers(relation regclass)
RETURNS TABLE (member regclass, trigger_name name, definition text, function regprocedure, by_parent boolean)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT c.oid, e.name, e.definition, e.function::regprocedure, c.relispartition AND c.oid <> relation
        AND NOT e.statement_level
      FROM pawl._members(relation) m JOIN pg_class c ON c.oid = m
      CROSS JOIN (VALUES
          (coalesce(pawl._validate_trigger_name(relation), '~pawl_validate'), 'BEFORE UPDATE ON %s FOR EACH ROW',
              'pawl.validate()', false),
          ('!pawl_record_update', 'AFTER UPDATE ON %s FOR EACH ROW WHEN (pawl.deferred())', 'pawl.record()', false),
          ('~pawl_validate_insert', 'BEFORE INSERT ON %s FOR EACH ROW', 'pawl.validate_insert()', false),
          ('!pawl_record', 'AFTER INSERT OR DELETE ON %s FOR EACH ROW', 'pawl.record()', false),
          ('!pawl_record_truncate', 'BEFORE TRUNCATE ON %s FOR EACH STATEMENT', 'pawl.record_truncate()', true)) e(name,
          definition, function, statement_level)
     WHERE CASE e.name WHEN '!pawl_record_update' THEN pawl._needs_record_update(relation)
                       WHEN '~pawl_validate_insert'
                           THEN EXISTS (SELECT FROM pawl.binding b WHERE b.relation = _expected_triggers.relation
                                                          AND (b.due_column IS NOT NULL OR b.owner_column IS NOT NULL))
                       ELSE true END
     ORDER BY c.oid <> relation, c.oid, e.name
$function$;
COMMENT ON FUNCTION pawl._expected_triggers(regclass) IS
'internal: the triggers an enforced table should have, member by member';

-- The triggers of a binding's table, log, audit and anchors of pruned entries, with all partitions. pawl.health
-- compares them with pg_trigger.
CREATE FUNCTION pawl._binding_triggers(bound pawl.binding)
RETURNS TABLE (part text, member regclass, trigger_name name, function regprocedure, definition text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH logs AS (SELECT m.m AS member FROM pawl._members(bound.history) m JOIN pg_class c ON c.oid = m.m
        WHERE m.m = bound.history OR c.relispartition),
    audits AS (SELECT a.audit FROM pawl.audit_binding a JOIN pg_class c ON c.oid = a.audit WHERE a.log = bound.history),
    records AS (SELECT 'audit' AS part, a.audit AS member FROM audits a
                UNION ALL SELECT 'pruned', c.oid FROM pg_class c
                WHERE c.oid = (SELECT p.anchors FROM pawl.pruned_log p WHERE p.log = bound.history))
    SELECT 'table', e.member, e.trigger_name, e.function, e.definition FROM pawl._expected_triggers(bound.relation) e
    UNION ALL
    SELECT 'log', l.member, g.name, g.function::regprocedure, g.definition
      FROM logs l, (VALUES ('!pawl_protect', 'pawl.protect_log()', 'BEFORE UPDATE OR DELETE ON %s FOR EACH STATEMENT'),
                           ('!pawl_protect_row', 'pawl.protect_log()', 'BEFORE UPDATE OR DELETE ON %s FOR EACH ROW'),
                           ('!pawl_protect_truncate', 'pawl.protect_log()', 'BEFORE TRUNCATE ON %s FOR EACH STATEMENT'),
                           ('~pawl_log_insert', 'pawl.log_insert()', 'BEFORE INSERT ON %s FOR EACH ROW')) g(name,
                           function, definition)
    UNION ALL
    SELECT 'audit', l.member, '!pawl_audit', 'pawl.audit_results()'::regprocedure,
    'AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT'
      FROM logs l WHERE EXISTS (SELECT FROM audits)
    UNION ALL
    SELECT r.part, r.member, g.name, 'pawl.protect_record()'::regprocedure, g.definition
      FROM records r, (VALUES ('!pawl_protect', 'BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT'),
                              ('!pawl_protect_row', 'BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW'),
                              ('!pawl_protect_truncate', 'BEFORE TRUNCATE ON %s FOR EACH STATEMENT')) g(name,
                              definition)
$function$;
COMMENT ON FUNCTION pawl._binding_triggers(pawl.binding) IS
'internal: the triggers that a binding needs on its table (table), log, audit and table of pruned ends (pruned)';

CREATE FUNCTION pawl._install(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    mode text := CASE WHEN (SELECT bool_or(b.always) FROM pawl.binding b WHERE b.relation = _install.relation)
        THEN 'ENABLE ALWAYS' ELSE 'ENABLE' END;
    expected record;
    present record;
BEGIN
    -- a restore without triggers has left the attribute numbers of another database
    PERFORM pawl._number_binding(relation);
    PERFORM pawl._outrank(relation);
    FOR expected IN SELECT * FROM pawl._expected_triggers(relation) LOOP
        SELECT t.tgname, t.tgenabled INTO present FROM pg_trigger t
         WHERE t.tgrelid = expected.member AND t.tgname = expected.trigger_name
             AND pawl._trigger_fits(t.oid, expected.function, expected.definition);
        IF NOT FOUND AND NOT expected.by_parent THEN
            EXECUTE format('CREATE OR REPLACE TRIGGER %I ' || expected.definition || ' EXECUTE FUNCTION %s',
                           expected.trigger_name, expected.member, expected.function);
            present.tgenabled := 'O';
        END IF;
        IF present.tgenabled <> (CASE WHEN mode = 'ENABLE' THEN 'O' ELSE 'A' END) THEN
            EXECUTE format('ALTER TABLE %s %s TRIGGER %I', expected.member, mode, expected.trigger_name);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._install(regclass) IS
'internal: creates the triggers of an enforced table that are missing, and sets their mode';

-- Renames the validating trigger where another trigger sorts after it (PostgreSQL renames
-- the partitions' with the root's).
CREATE FUNCTION pawl._outrank(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    last_name name := pawl._validate_trigger_name(relation);
    found_one record;
BEGIN
    FOR found_one IN
        SELECT t.tgname, t.tgrelid::regclass AS member FROM pawl._members(relation) m JOIN pg_trigger t ON t.tgrelid = m
         WHERE t.tgfoid = 'pawl.validate()'::regprocedure AND t.tgparentid = 0 AND t.tgname COLLATE "C" < last_name
         ORDER BY t.tgrelid
    LOOP
        EXECUTE format('ALTER TRIGGER %I ON %s RENAME TO %I', found_one.tgname, found_one.member, last_name);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._outrank(regclass) IS 'internal: keeps the validating trigger the last one of a table';

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
           AND t.tgfoid = ANY (pawl._table_functions())
         ORDER BY 1, 2
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', trigger_name, member);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._uninstall(regclass) IS 'internal: drops the triggers of an enforced table';

CREATE FUNCTION pawl._is_orphan(relation regclass) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = relation AND t.tgparentid = 0
                      AND t.tgfoid = ANY (pawl._table_functions()))
           AND NOT EXISTS (SELECT FROM pawl.binding b
               WHERE b.relation IN (SELECT a FROM pawl._ancestors(_is_orphan.relation) a))
$function$;
COMMENT ON FUNCTION pawl._is_orphan(regclass) IS 'internal: whether a table has triggers of pawl, but no binding';
