-- The statements that pawl.read_as_owner runs, and the tables that they read.

CREATE FUNCTION pawl._same_owner(relation regclass, VARIADIC others regclass[]) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN NOT EXISTS (SELECT FROM pg_class c JOIN pg_class r ON r.oid = relation
                        WHERE c.oid = ANY (others) AND (c.relowner <> r.relowner OR c.relkind NOT IN ('r', 'p')));
END
$function$;
COMMENT ON FUNCTION pawl._same_owner(regclass, regclass[]) IS
'internal: whether these are tables of the owner of the first';

-- Every table that verify reads for a binding; audits that the caller may not read are left out.
CREATE FUNCTION pawl._verified_tables(bound pawl.binding) RETURNS regclass[]
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN array_remove(ARRAY[bound.relation, bound.history, pawl._anchors(bound.history)]
                        || ARRAY(SELECT a.audit FROM pawl.audit_binding a JOIN pg_class c ON c.oid = a.audit
                            WHERE a.log = bound.history
                                    AND has_table_privilege(a.audit, 'SELECT') AND NOT row_security_active(a.audit)),
        NULL);
END
$function$;
COMMENT ON FUNCTION pawl._verified_tables(pawl.binding) IS 'internal: the tables that verify reads for a binding';

-- Reading a table can run expressions of its owner: of policies and rules, and, as constants are computed for the
-- planner, of indexes, statistics, CHECK constraints and partitions.
CREATE FUNCTION pawl._runs_no_code(relation regclass) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH part AS (SELECT a.oid FROM pawl._altered_with(relation) a(oid))
    SELECT NOT EXISTS (SELECT FROM part JOIN pg_class c USING (oid)
                        WHERE c.relkind NOT IN ('r', 'p') OR c.relrowsecurity OR c.relhasrules)
       AND NOT EXISTS (SELECT FROM part JOIN pg_index i ON i.indrelid = part.oid
                        WHERE i.indexprs IS NOT NULL OR pg_get_expr(i.indpred, part.oid) <> 'most_recent')
       AND NOT EXISTS (SELECT FROM part JOIN pg_statistic_ext s ON s.stxrelid = part.oid WHERE s.stxexprs IS NOT NULL)
       AND NOT EXISTS (SELECT FROM part JOIN pg_constraint k ON k.conrelid = part.oid WHERE k.contype = 'c')
       AND NOT EXISTS (SELECT FROM part JOIN pg_partitioned_table p ON p.partrelid = part.oid
                        WHERE p.partexprs IS NOT NULL)
       AND NOT EXISTS (SELECT FROM part JOIN pg_attribute a ON a.attrelid = part.oid WHERE a.attgenerated = 'v')
$function$;
COMMENT ON FUNCTION pawl._runs_no_code(regclass) IS
'internal: whether reading a table runs no expression that its owner has attached to it';

-- The owner of the table can read a log that belongs to another role if the log's owner lets it, and runs no code of
-- that owner by it.
CREATE FUNCTION pawl._of_another(relation regclass, others regclass[]) RETURNS regclass
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT o FROM unnest(others) WITH ORDINALITY u(o, n)
             WHERE NOT pawl._same_owner(relation, o)
               AND NOT (has_table_privilege((SELECT c.relowner FROM pg_class c WHERE c.oid = relation), o, 'SELECT')
                        AND pawl._runs_no_code(o))
             ORDER BY n LIMIT 1);
END
$function$;
COMMENT ON FUNCTION pawl._of_another(regclass, regclass[]) IS
'internal: the first of these that is not to be read with the rights of the owner of the relation; null: there is none';

-- Builds what pawl.read_as_owner runs, and checks it with the caller's rights. The role is the table's owner; null
-- means the caller, if row-level security applies to the caller, who then sees the rows that the policies allow.
CREATE FUNCTION pawl._owner_statements(relation regclass, state_column name, what text)
RETURNS TABLE (role oid, statement text, types regtype[], parameters text[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 5
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding;
    is_count constant boolean := what IN ('claimable', 'other', 'owners', 'timers', 'states', 'states_sampled');
    owner oid;
    read regclass[];
    blocked regclass;
BEGIN
    bound := pawl._binding_here(relation, state_column);
    SELECT c.relowner INTO owner FROM pg_class c WHERE c.oid = bound.relation AND c.relkind IN ('r', 'p');
    IF NOT FOUND THEN
        PERFORM pawl.raise('42809', format('%s is not a table with a binding on column "%s"', relation, state_column));
    END IF;
    IF is_count THEN
        IF NOT (CASE WHEN what ^@ 'states' THEN has_column_privilege(bound.relation, bound.state_column, 'SELECT')
                ELSE pawl._may_count(bound) END) THEN
            PERFORM pawl.raise('42501', format('permission denied for table %s', relation), NULL,
                format('grant select on %s to %I', relation, current_user));
        END IF;
        IF row_security_active(bound.relation) THEN
            IF NOT pawl.policies_are_safe(bound.relation) THEN
                PERFORM pawl.raise('42501',
                    format('policies of table %s would run with the rights of role "%s"', relation, current_user));
            END IF;
            owner := NULL;
        END IF;
    ELSIF what = 'stays' THEN
        IF NOT coalesce(has_table_privilege(bound.history, 'SELECT'), false) THEN
            PERFORM pawl.raise('42501', format('permission denied for the log of table %s', relation), NULL,
                format('grant select on %s to %I', bound.history, current_user));
        ELSIF NOT pawl.policies_are_safe(bound.history) THEN
            PERFORM pawl.raise('42501',
                format('policies of table %s would run with the rights of role "%s"', bound.history, current_user));
        END IF;
        owner := CASE WHEN NOT row_security_active(bound.history)
            THEN (SELECT c.relowner FROM pg_class c WHERE c.oid = bound.history) END;
    ELSE
        read := pawl._verified_tables(bound);
        SELECT r INTO blocked FROM unnest(read) WITH ORDINALITY u(r, n)
         WHERE NOT has_table_privilege(r, 'SELECT') OR row_security_active(r) ORDER BY n LIMIT 1;
        IF FOUND AND has_table_privilege(blocked, 'SELECT') THEN
            PERFORM pawl.raise('42501',
                format('query would be affected by row-level security policy for table %s', blocked));
        ELSIF FOUND THEN
            PERFORM pawl.raise('42501', format('permission denied for table %s', blocked), NULL,
                format('grant select on %s to %I', blocked, current_user));
        END IF;
        blocked := pawl._of_another(bound.relation, read);
        IF blocked IS NOT NULL THEN
            PERFORM pawl.raise('42501', format('tables %s and %s have different owners', relation, blocked),
                'Both are read with the privileges of the owner of the first.',
                CASE WHEN pawl._runs_no_code(blocked) THEN format('grant select on %s to %s', blocked, owner::regrole)
                     ELSE format('drop policies, rules, CHECK constraints, and indexes and statistics with expressions '
                         'of %s, which would run with these privileges', blocked) END);
        END IF;
    END IF;
    IF what = 'claimable' THEN
        RETURN QUERY SELECT owner, pawl._claimable_statement(bound), '{}'::regtype[], '{}'::text[];
    ELSIF what = 'other' THEN
        RETURN QUERY SELECT owner, pawl._other_rows_statement(bound), '{}'::regtype[], '{}'::text[];
    ELSIF what = 'owners' THEN
        RETURN QUERY SELECT owner, pawl._owners_statement(bound), '{regclass,name,timestamptz}'::regtype[],
                            ARRAY[bound.relation::oid::text, bound.state_column::text, clock_timestamp()::text];
    ELSIF what = 'timers' THEN
        RETURN QUERY SELECT owner, pawl._timers_statement(bound), '{regclass,name,timestamptz}'::regtype[],
                            ARRAY[bound.relation::oid::text, bound.state_column::text, clock_timestamp()::text];
    ELSIF what ^@ 'states' THEN
        RETURN QUERY
            SELECT owner, pawl._states_statement(bound, what = 'states_sampled'), '{}'::regtype[], '{}'::text[];
    ELSIF what = 'stays' THEN
        RETURN QUERY SELECT owner, pawl._stays_statement(bound), '{}'::regtype[], '{}'::text[];
    ELSE
        RETURN QUERY SELECT owner, s.* FROM pawl._verify_statements(bound, what) s;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._owner_statements(regclass, name, text) IS
'internal: the statements of pawl.read_as_owner and the role: counts, times in the states, or the checks of
pawl.verify';
