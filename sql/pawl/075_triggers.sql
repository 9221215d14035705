-- The triggers of an enforced table: which it needs, what they are called, how they come and go.

-- PostgreSQL fires triggers in the order of their names, and pawl.judge() must come last of those that may rewrite a row. A name
-- that sorts after all others; null when there is none, because a later one is as long as a name can be.
CREATE FUNCTION pawl._judge_name(relation regclass) RETURNS name
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN later.tgname IS NULL THEN '~pawl_judge'::name
                WHEN octet_length(later.tgname::text || '~pawl_judge') < 64 THEN (later.tgname::text || '~pawl_judge')::name
           END
      FROM (SELECT max(t.tgname COLLATE "C") AS tgname
              FROM pawl._members(relation) m JOIN pg_trigger t ON t.tgrelid = m
             WHERE t.tgtype & 19 = 19  -- BEFORE UPDATE FOR EACH ROW
               AND t.tgname COLLATE "C" > '~pawl_judge' AND t.tgfoid <> 'pawl.judge()'::regprocedure) later
$function$;
COMMENT ON FUNCTION pawl._judge_name(regclass) IS 'internal: a name for the trigger that judges, which sorts after those of all others';

-- An AFTER UPDATE trigger costs every UPDATE something, so a table has one only where rows cannot be judged before they are
-- written (they may move to another partition, or another trigger has the last word), or where there are effects to run.
CREATE FUNCTION pawl._settles_updates(relation regclass) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT c.relkind = 'p'
           OR pawl._judge_name(relation) IS NULL
           OR EXISTS (SELECT FROM pawl.binding b JOIN pawl.machine_transition t ON t.machine = b.machine AND t.version = b.version
                       WHERE b.relation = _settles_updates.relation AND t.effects <> '{}')
      FROM pg_class c WHERE c.oid = relation
$function$;
COMMENT ON FUNCTION pawl._settles_updates(regclass) IS 'internal: whether an enforced table needs an AFTER UPDATE trigger';

-- A tree gets its triggers at the root (PostgreSQL gives its partitions theirs), at every inheritance child, and the TRUNCATE
-- trigger at every member, because that one is not inherited.
CREATE FUNCTION pawl._expected_triggers(relation regclass)
RETURNS TABLE (member regclass, trigger_name name, definition text, function regprocedure, by_parent boolean)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT c.oid, e.name, e.definition, e.function::regprocedure, c.relispartition AND c.oid <> relation AND NOT e.statement_level
      FROM pawl._members(relation) m JOIN pg_class c ON c.oid = m
      CROSS JOIN (VALUES
          (coalesce(pawl._judge_name(relation), '~pawl_judge'), 'BEFORE UPDATE ON %s FOR EACH ROW', 'pawl.judge()', false),
          ('!pawl_update', 'AFTER UPDATE ON %s FOR EACH ROW WHEN (pawl.deferred())', 'pawl.settle()', false),
          ('~pawl_begin', 'BEFORE INSERT ON %s FOR EACH ROW', 'pawl.begin()', false),
          ('!pawl_settle', 'AFTER INSERT OR DELETE ON %s FOR EACH ROW', 'pawl.settle()', false),
          ('!pawl_truncate', 'BEFORE TRUNCATE ON %s FOR EACH STATEMENT', 'pawl.truncated()', true)) e(name, definition, function, statement_level)
     WHERE CASE e.name WHEN '!pawl_update' THEN pawl._settles_updates(relation)
                       WHEN '~pawl_begin' THEN EXISTS (SELECT FROM pawl.binding b WHERE b.relation = _expected_triggers.relation
                                                          AND (b.due_column IS NOT NULL OR b.owner_column IS NOT NULL))
                       ELSE true END
     ORDER BY c.oid <> relation, c.oid, e.name
$function$;
COMMENT ON FUNCTION pawl._expected_triggers(regclass) IS 'internal: the triggers an enforced table should have, member by member';

CREATE FUNCTION pawl._install(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    mode text := CASE WHEN (SELECT bool_or(b.always) FROM pawl.binding b WHERE b.relation = _install.relation) THEN 'ENABLE ALWAYS' ELSE 'ENABLE' END;
    expected record;
    present record;
BEGIN
    -- a restore without triggers has left the attribute numbers of another database
    PERFORM pawl._number_binding(relation);
    PERFORM pawl._outrank(relation);
    FOR expected IN SELECT * FROM pawl._expected_triggers(relation) LOOP
        SELECT t.tgname, t.tgenabled INTO present FROM pg_trigger t
         WHERE t.tgrelid = expected.member AND t.tgname = expected.trigger_name AND t.tgfoid = expected.function;
        IF NOT FOUND AND NOT expected.by_parent THEN
            EXECUTE format('CREATE TRIGGER %I ' || expected.definition || ' EXECUTE FUNCTION %s',
                           expected.trigger_name, expected.member, expected.function);
            present.tgenabled := 'O';
        END IF;
        IF present.tgenabled <> (CASE WHEN mode = 'ENABLE' THEN 'O' ELSE 'A' END) THEN
            EXECUTE format('ALTER TABLE %s %s TRIGGER %I', expected.member, mode, expected.trigger_name);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._install(regclass) IS 'internal: creates the triggers of an enforced table that are missing, and sets their mode';

-- Renames the judge where another trigger has come to sort after it (PostgreSQL renames the partitions' with the root's).
CREATE FUNCTION pawl._outrank(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    last_name name := pawl._judge_name(relation);
    judge record;
BEGIN
    FOR judge IN
        SELECT t.tgname, t.tgrelid::regclass AS member FROM pawl._members(relation) m JOIN pg_trigger t ON t.tgrelid = m
         WHERE t.tgfoid = 'pawl.judge()'::regprocedure AND t.tgparentid = 0 AND t.tgname COLLATE "C" < last_name
         ORDER BY t.tgrelid
    LOOP
        EXECUTE format('ALTER TRIGGER %I ON %s RENAME TO %I', judge.tgname, judge.member, last_name);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._outrank(regclass) IS 'internal: keeps the trigger that judges the last one of a table';

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
           AND t.tgfoid IN ('pawl.judge()'::regprocedure, 'pawl.begin()'::regprocedure, 'pawl.settle()'::regprocedure, 'pawl.truncated()'::regprocedure)
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
                      AND t.tgfoid IN ('pawl.judge()'::regprocedure, 'pawl.begin()'::regprocedure, 'pawl.settle()'::regprocedure, 'pawl.truncated()'::regprocedure))
           AND NOT EXISTS (SELECT FROM pawl.binding b WHERE b.relation IN (SELECT a FROM pawl._ancestors(_is_orphan.relation) a))
$function$;
COMMENT ON FUNCTION pawl._is_orphan(regclass) IS 'internal: whether a table has our triggers, but no lifecycle';
