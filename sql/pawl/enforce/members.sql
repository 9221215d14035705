-- Members that join or leave an enforced tree: partitions and inheritance children. The event triggers are created
-- last, in grants.sql.

-- An UPDATE of the root could put rows of an enforced partition into one without rules, and from there back.
CREATE FUNCTION pawl._check_joined(touched oid[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    enforced regclass;
    root regclass;
BEGIN
    SELECT b.relation, pg_partition_root(b.relation) INTO enforced, root
      FROM unnest(touched) t CROSS JOIN LATERAL pawl._members(t) m
      JOIN pawl.binding b ON b.relation = m JOIN pg_class c ON c.oid = m AND c.relispartition LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('0A000',
            format('%s is enforced and cannot be a partition of table %s, which is not', enforced, root),
            'A machine is enforced on a partitioned table as a whole.',
            format('select pawl.release(%1$L), attach it, and enforce %2$L', enforced, root));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_joined(oid[]) IS
'internal: rejects a table with a binding that becomes a partition of a table without';

-- New members of an enforced tree: their rows are checked, their triggers and logs created. Runs with the rights of the
-- role that attached them, because it reads and writes their tables.
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
    IF NOT has_schema_privilege('pawl', 'USAGE') THEN
        PERFORM FROM pg_event_trigger_ddl_commands() c
         WHERE c.classid = 'pg_class'::regclass
           -- a role without USAGE on the schema: its other tables are not affected, but
           -- an enforced tree accepts no unchecked rows
           AND EXISTS (WITH RECURSIVE up(oid) AS (
                           SELECT c.objid
                           UNION
                           SELECT i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.oid),
                       down(oid) AS (
                           SELECT up.oid FROM up
                           JOIN pg_trigger t ON t.tgrelid = up.oid AND t.tgname = '!pawl_record_truncate'
                           UNION
                           SELECT i.inhrelid FROM down JOIN pg_inherits i ON i.inhparent = down.oid)
                       SELECT FROM down d
                        WHERE NOT EXISTS (SELECT FROM pg_trigger t
                            WHERE t.tgrelid = d.oid AND t.tgname = '!pawl_record_truncate'));
        IF FOUND THEN
            RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'permission denied for schema pawl',
                DETAIL = 'The rows of a table that joins an enforced table must be checked.',
                HINT = format('grant usage on schema pawl to %I', current_user);
        END IF;
        RETURN;
    END IF;
    IF TG_TAG = 'ALTER TABLE' THEN
        -- only commands that can have changed a type: a parallel restore adds a primary key before the catalog is there
        FOR root IN SELECT DISTINCT c.objid FROM pg_event_trigger_ddl_commands() c
                     WHERE c.classid = 'pg_class'::regclass AND NOT c.in_extension AND c.object_type = 'table'
                       AND pawl._tree_change(c.command) IS NOT NULL LOOP
            PERFORM pawl._follow_key_types(root), pawl._remake_claim_indexes(root);
        END LOOP;
    END IF;
    -- only commands that attach a table to a tree: a restore creates a tree before its triggers
    SELECT array_agg(DISTINCT c.objid) INTO touched FROM pg_event_trigger_ddl_commands() c
     WHERE c.classid = 'pg_class'::regclass AND NOT c.in_extension AND pawl._tree_change(c.command) = 'join';
    IF touched IS NULL THEN
        RETURN;
    END IF;
    FOR root IN
        SELECT DISTINCT b.relation FROM pawl.binding b
         WHERE b.relation IN (SELECT a FROM unnest(touched) t, pawl._ancestors(t) a) ORDER BY 1
    LOOP
        SELECT array_agg(DISTINCT m ORDER BY m) INTO newcomers
          FROM unnest(touched) t CROSS JOIN LATERAL pawl._members(t) m
         WHERE root IN (SELECT a FROM pawl._ancestors(t) a) AND m <> root
           AND (NOT EXISTS (SELECT FROM pg_trigger g
               WHERE g.tgrelid = m AND g.tgfoid = 'pawl.record_truncate()'::regprocedure)
                OR EXISTS (SELECT FROM pawl.binding o WHERE o.relation = m));
        IF newcomers IS NOT NULL THEN
            IF TG_TAG NOT IN ('CREATE TABLE', 'CREATE SCHEMA') THEN  -- what has just been created is empty
                PERFORM pawl._check_isolation(TG_TAG || format(' on enforced table %s,', root));
            END IF;
            PERFORM pawl._adopt_members(root, newcomers);
        END IF;
    END LOOP;
    FOR root IN
        SELECT DISTINCT b.history FROM pawl.binding b
         WHERE b.history IN (SELECT a FROM unnest(touched) t, pawl._ancestors(t) a) ORDER BY 1
    LOOP
        PERFORM pawl._adopt_partitions(root, touched);
    END LOOP;
    PERFORM pawl._check_joined(touched);
END
$function$;
COMMENT ON FUNCTION pawl._adopt() IS
'internal: event trigger pawl_adopt: partitions and children that join an enforced table';

-- A claim index that pawl_prepare has dropped.
CREATE FUNCTION pawl._remake_claim_indexes(touched oid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding;
BEGIN
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = touched AND b.validated AND b.claim_events <> '{}'
                    AND pawl._owns(b.relation) AND pawl._work_index(b.relation, 'claim', b.state_column) IS NULL
                    AND (pawl._work_column_problem(b)).message IS NULL
                    AND EXISTS (SELECT FROM pg_trigger t
                        WHERE t.tgrelid = b.relation AND t.tgfoid = 'pawl.validate()'::regprocedure) LOOP
        PERFORM pawl._make_indexes(bound);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._remake_claim_indexes(oid) IS
'internal: makes claim indexes again that a change of a type has made unusable';

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
            strange := pawl._strange_rows('ONLY ' || member, bound.state_column,
                pawl._atoms(bound.machine, bound.version));
            IF strange IS NOT NULL THEN
                PERFORM pawl.raise('PW008',
                    format('%s cannot join table %s: it has rows that are in no state of machine "%s"',
                                                    member, root, bound.machine), strange,
                    format('update %s set %I = ... where %I is null or %I::text not in (select state from '
                    'pawl.states(%L, %s))',
                           member, bound.state_column, bound.state_column, bound.state_column, bound.machine,
                           bound.version));
            END IF;
            strange := pawl._wrongly_owned_rows('ONLY ' || member, bound);
            IF strange IS NOT NULL THEN
                PERFORM pawl.raise('55000',
                    format('%s cannot join table %s: it has rows with an owner or a lease in states that are not owned',
                                                    member, root), strange, pawl._disown_hint(member, bound));
            END IF;
        END LOOP;
    END LOOP;
    PERFORM pawl._install(root);
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = root ORDER BY b.state_column LOOP
        PERFORM pawl._make_indexes(bound, newcomers);
    END LOOP;
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = root AND b.history IS NOT NULL
        ORDER BY b.state_column LOOP
        FOR member IN SELECT c.oid FROM pg_class c WHERE c.oid = ANY (newcomers) AND c.relkind = 'r' ORDER BY c.oid LOOP
            IF pawl._has_rows(member) THEN
                PERFORM pawl._open_log(bound.history);
                PERFORM pawl._attach_rows(bound, 'ONLY ' || member);
                PERFORM pawl._close_log(bound.history, requests => true);
            END IF;
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._adopt_members(regclass, oid[]) IS
'internal: adds partitions and children to an enforced tree';

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

-- Removes pawl's triggers from a table that left its tree (DETACH PARTITION, NO INHERIT). PostgreSQL itself drops the
-- row triggers of a detached partition, but not the statement trigger.
CREATE FUNCTION pawl._let_go(touched regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    left_behind regclass;
    validator oid := 'pawl.validate()'::regprocedure;
    truncated oid := 'pawl.record_truncate()'::regprocedure;
BEGIN
    IF EXISTS (SELECT FROM pawl.binding b WHERE b.relation IN (SELECT a FROM pawl._ancestors(touched) a)) THEN
        FOR left_behind IN
            SELECT t.tgrelid FROM pg_depend d
            JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
             WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = truncated
               -- any role can use that function on its own table under another name
               AND t.tgname = '!pawl_record_truncate'
               AND NOT EXISTS (SELECT FROM pg_trigger j WHERE j.tgrelid = t.tgrelid AND j.tgfoid = validator)
               AND NOT EXISTS (SELECT FROM pawl.binding b
                   WHERE b.relation IN (SELECT a FROM pawl._ancestors(t.tgrelid) a))
        LOOP
            EXECUTE format('DROP TRIGGER "!pawl_record_truncate" ON %s', left_behind);
        END LOOP;
    ELSIF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = touched AND t.tgfoid = validator AND t.tgparentid = 0)
          AND EXISTS (SELECT FROM pg_class c WHERE c.oid = touched AND NOT c.relispartition) THEN
        PERFORM pawl._uninstall(touched);
        PERFORM pawl._drop_lost_indexes(touched);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._let_go(regclass) IS 'internal: drops the triggers of tables that left an enforced tree';
