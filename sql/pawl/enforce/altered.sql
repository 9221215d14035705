-- Finds what a DDL command did to enforced tables and logs other than the table that it names.

-- A command on a parent alters its children too, and one on a composite type alters the tables of that type; event
-- triggers report only the parent or the type.
CREATE FUNCTION pawl._altered_with(relation oid) RETURNS SETOF oid
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE down(oid) AS (
        (SELECT relation
         UNION ALL
         SELECT c.oid FROM pg_class t JOIN pg_class c ON c.reloftype = t.reltype
          WHERE t.oid = relation AND t.relkind = 'c')
        UNION
        -- most have no children, and are many where a log has many partitions
        SELECT i.inhrelid FROM down JOIN pg_class p ON p.oid = down.oid AND p.relhassubclass
          JOIN pg_inherits i ON i.inhparent = p.oid
    )
    SELECT down.oid FROM down;
END
$function$;
COMMENT ON FUNCTION pawl._altered_with(oid) IS
'internal: a relation, all that inherit from it, and the tables of a composite type';

-- ... TYPE ... USING writes any state, any owner, or any key into any row, and no trigger fires; so does a user-defined
-- cast. Casts that keep the text of each value (USING col::x) are not among the rewritten columns. A varchar that is
-- too short cuts values; the type of a state column has to hold all states, so a cast to that length cuts none.
CREATE FUNCTION pawl._reject_rewrite(bound pawl.binding, rewritten name[], cut name[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    kept name;
    hint text := format('keep what pawl.definition(%1$L, %2$L) returns, select pawl.release(%1$L, %2$L), alter it, '
        'and run that', bound.relation, bound.state_column);
BEGIN
    IF bound.state_column = ANY (cut) THEN
        PERFORM pawl.raise('2BP01', format('column "%s" of table %s is a state column: its values cannot be rewritten',
                                            bound.state_column, bound.relation),
            'ALTER COLUMN ... TYPE ... USING would change states without a transition.',
            'cast the column and no more in USING; or ' || hint);
    END IF;
    SELECT w.name INTO kept FROM pawl._work_columns(bound) w WHERE w.is_written AND w.name = ANY (rewritten) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('2BP01',
            format('column "%s" of table %s is a managed column: its values cannot be rewritten', kept, bound.relation),
            'ALTER COLUMN ... TYPE ... USING would write rows without validation.', hint);
    END IF;
    SELECT k INTO kept FROM unnest(bound.key_columns) k WHERE bound.history IS NOT NULL AND k = ANY (rewritten) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('2BP01',
            format('column "%s" of table %s is part of the key of a log: its values cannot be rewritten', kept,
                bound.relation),
            format('ALTER COLUMN ... TYPE ... USING would separate rows from their entries in %s.', bound.history),
            hint);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._reject_rewrite(pawl.binding, name[], name[]) IS
'internal: rejects ALTER COLUMN ... TYPE ... USING for columns that a binding needs';

-- A log keeps its columns and what is in them, and it is logged to WAL if the rows of its table are.
CREATE FUNCTION pawl._check_altered_log(bound pawl.binding, rewritten name[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    problem text :=
        pawl._log_problem(bound.history, bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain, true);
    forged name;
BEGIN
    IF problem IS NOT NULL THEN
        problem := format('After this command %s.', problem);
    ELSE
        SELECT c.name INTO forged
            FROM pawl._log_columns(bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain) c
         WHERE c.name = ANY (rewritten) LIMIT 1;
        IF FOUND THEN
            problem := format('ALTER COLUMN ... TYPE ... USING would rewrite recorded values in column "%s".', forged);
        END IF;
    END IF;
    IF problem IS NOT NULL THEN
        PERFORM pawl.raise('55000',
            format('the log %s of table %s cannot be altered in this way', bound.history, bound.relation), problem,
            format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_altered_log(pawl.binding, name[]) IS
'internal: rejects commands that would break or rewrite a log';

-- Before a state column becomes an enum, or stops being one: the predicate of its claim index compares it with values
-- of the old type, so the index goes, and pawl_adopt makes it again.
CREATE FUNCTION pawl._before_enum(relation regclass, changed name) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding;
    found_one regclass;
BEGIN
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = _before_enum.relation AND b.state_column = changed
                    AND b.claim_events <> '{}' AND pawl._owns(b.relation) LOOP
        FOR found_one IN SELECT f FROM pawl._members(bound.relation) m, pawl._work_index(m, 'claim', changed) f
                          WHERE f IS NOT NULL AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = f) LOOP
            EXECUTE format('DROP INDEX %s', found_one);
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._before_enum(regclass, name) IS
'internal: drops claim indexes whose predicate cannot be converted with the column';

CREATE FUNCTION pawl._prepare() RETURNS event_trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_prepare';
COMMENT ON FUNCTION pawl._prepare() IS
'internal: event trigger pawl_prepare: before a state column becomes an enum, or stops being one';

-- Whether a value keeps its text when a column of one type gets the other.
CREATE FUNCTION pawl._keeps_text(before oid, after oid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT bool_and(f.base IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype))
        OR bool_and(f.base IN ('text'::regtype, 'varchar'::regtype) OR f.is_enum)
        OR bool_or(f.base = 'uuid'::regtype AND f.n = 1)
           AND bool_and(f.base IN ('text'::regtype, 'varchar'::regtype) OR f.n = 1)
      FROM (SELECT u.n, t.* FROM unnest(ARRAY[before, after]) WITH ORDINALITY u(type, n)
             CROSS JOIN LATERAL pawl._type_facts(u.type) t) f
$function$;
COMMENT ON FUNCTION pawl._keeps_text(oid, oid) IS
'internal: whether values of one type have the same text as values of another';

-- The tables that repeat the key of a table, with their columns for it: its log, its audit, the pruned ends.
CREATE FUNCTION pawl._key_copies(bound pawl.binding) RETURNS TABLE (copy regclass, names name[])
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY SELECT bound.history, bound.log_key_columns WHERE bound.history IS NOT NULL
    UNION ALL
    SELECT p.anchors, pawl._anchor_keys(bound, p.anchors) FROM pawl.pruned_log p JOIN pg_class c ON c.oid = p.anchors
     WHERE p.log = bound.history
    UNION ALL
    SELECT a.audit, a.key_columns FROM pawl.audit_binding a JOIN pg_class c ON c.oid = a.audit
     WHERE a.log = bound.history;
END
$function$;
COMMENT ON FUNCTION pawl._key_copies(pawl.binding) IS
'internal: the tables whose first columns have the key of an enforced table';

-- ALTER COLUMN ... TYPE on a column of the key (integer to bigint): the log, the audit and the table of pruned ends get
-- the type too, with the rights of the role that gives the command.
CREATE FUNCTION pawl._follow_key_types(touched oid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding;
    copied record;
    commands text;
BEGIN
    FOR bound IN SELECT b.* FROM pawl._altered_with(touched) a JOIN pawl.binding b ON b.relation = a
                  WHERE b.history IS NOT NULL ORDER BY b.relation, b.state_column LOOP
        FOR copied IN SELECT c.copy, c.names FROM pawl._key_copies(bound) c LOOP
            SELECT string_agg(format('ALTER COLUMN %I TYPE %s%s', l.attname, format_type(a.atttypid, a.atttypmod),
                       CASE WHEN a.attcollation <> t.typcollation
                           THEN ' COLLATE ' || a.attcollation::regcollation ELSE '' END), ', ' ORDER BY k.n)
              INTO commands
              FROM unnest(bound.key_columns, copied.names) WITH ORDINALITY k(name, copy_name, n)
              JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = k.name AND NOT a.attisdropped
              JOIN pg_type t ON t.oid = a.atttypid
              JOIN pg_attribute l ON l.attrelid = copied.copy AND l.attname = k.copy_name
             WHERE (l.atttypid, l.atttypmod) <> (a.atttypid, a.atttypmod) AND pawl._keeps_text(l.atttypid, a.atttypid);
            IF commands IS NULL THEN
                CONTINUE;
            END IF;
            BEGIN
                IF copied.copy = bound.history AND bound.history_view IS NOT NULL THEN
                    PERFORM pawl._alter_under_view(bound, commands);
                ELSE
                    EXECUTE format('ALTER TABLE %s %s', copied.copy, commands);
                END IF;
            EXCEPTION WHEN data_exception OR check_violation THEN  -- rows that were deleted still have their entries
                PERFORM pawl.raise(SQLSTATE,
                    format('table %s has keys that the new type of the key of table %s cannot hold', copied.copy,
                        bound.relation), format('The column would be altered too: %s.', SQLERRM),
                    format('choose a type that holds every key in %s', copied.copy));
            END;
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._follow_key_types(oid) IS
'internal: gives the copies of a key the types that the key has now';

-- PostgreSQL does not alter the type of a column that a view shows, so the view is made again, with its owner, rights
-- and comment.
CREATE FUNCTION pawl._alter_under_view(bound pawl.binding, commands text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    name text := bound.history_view::text;
    class pg_class;
    comment text := obj_description(bound.history_view, 'pg_class');
    again text;
BEGIN
    SELECT c.* INTO class FROM pg_class c WHERE c.oid = bound.history_view;
    EXECUTE format('DROP VIEW %s', name);
    EXECUTE format('ALTER TABLE %s %s', bound.history, commands);
    EXECUTE pawl._view_command(name, bound.history, bound.log_key_columns);
    EXECUTE format('COMMENT ON VIEW %s IS %L', name, comment);
    FOR again IN
        SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, name,
                      CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
                      CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
          FROM aclexplode(class.relacl) a WHERE a.grantee <> class.relowner
    LOOP
        EXECUTE again;
    END LOOP;
    IF class.relowner <> (SELECT c.relowner FROM pg_class c WHERE c.oid = name::regclass) THEN
        EXECUTE format('ALTER VIEW %s OWNER TO %s', name, class.relowner::regrole);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._alter_under_view(pawl.binding, text) IS
'internal: alters a log that has a view, and makes the view again';
