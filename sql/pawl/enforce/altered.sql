-- Finds what a DDL command did to enforced tables and logs other than the table that it names.

-- A command on a parent alters its children too, and one on a composite type alters the tables of that type; event
-- triggers report only the parent or the type.
CREATE FUNCTION pawl._altered_with(relation oid) RETURNS SETOF oid
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
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
    SELECT down.oid FROM down
$function$;
COMMENT ON FUNCTION pawl._altered_with(oid) IS
'internal: a relation, all that inherit from it, and the tables of a composite type';

-- ... TYPE ... USING writes any state, any owner, or any key into any row, and no trigger
-- fires; so does a user-defined cast.
CREATE FUNCTION pawl._reject_rewrite(bound pawl.binding, rewritten name[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    kept name;
    hint text := format('keep what pawl.definition(%1$L, %2$L) returns, select pawl.release(%1$L, %2$L), alter it, '
        'and run that', bound.relation, bound.state_column);
BEGIN
    IF bound.state_column = ANY (rewritten) THEN
        PERFORM pawl.raise('2BP01', format('column "%s" of table %s is a state column: its values cannot be rewritten',
                                            bound.state_column, bound.relation),
            'ALTER COLUMN ... TYPE ... USING would change states without a transition.', hint);
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
COMMENT ON FUNCTION pawl._reject_rewrite(pawl.binding, name[]) IS
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
