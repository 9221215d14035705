-- What follows when Citus distributes an enforced table: src/ddl/distribution.cpp runs these statements after the one
-- that did it, and before the commit.

CREATE FUNCTION pawl._check_at_commit(relation regclass) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_check_at_commit';
COMMENT ON FUNCTION pawl._check_at_commit(regclass) IS
'internal: the rows of a distributed table are checked before this transaction commits';

-- Bindings of tables that Citus distributes, of which the nodes do not know, or whose log is not distributed.
CREATE FUNCTION pawl._newly_distributed(unused regclass) RETURNS TABLE (relation regclass)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    -- The copy of this node: Citus would not read the table for another role than the one that has written a reference
    -- table in this transaction.
    definitions constant regclass := coalesce(pawl._local_definitions(), to_regclass('pawl_citus.definition'));
    told text[] := '{}';
BEGIN
    IF NOT EXISTS (SELECT FROM pawl.binding) OR NOT pawl._is_coordinator() THEN
        RETURN;
    END IF;
    IF definitions IS NOT NULL THEN
        EXECUTE format('SELECT coalesce(array_agg(d.name), ''{}'') FROM %s d WHERE d.kind = ''binding''', definitions)
           INTO told;
    END IF;
    RETURN QUERY EXECUTE 'SELECT DISTINCT b.relation FROM pawl.binding b '
        'JOIN pg_catalog.pg_dist_partition p ON p.logicalrelid = b.relation '
        'LEFT JOIN pg_catalog.pg_dist_partition l ON l.logicalrelid = b.history '
        'WHERE NOT pawl._spread_name(b.relation, b.state_column) = ANY ($1) '
        'OR b.history IS NOT NULL AND l.logicalrelid IS NULL' USING told;
END
$function$;
COMMENT ON FUNCTION pawl._newly_distributed(regclass) IS
'internal: enforced tables that were distributed, and whose bindings the nodes do not know';

-- What is done when an enforced table was distributed: statements, and the roles that run them.
CREATE FUNCTION pawl._distribution_steps(relation regclass) RETURNS TABLE (role oid, statement text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 5
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding;
BEGIN
    IF pawl._is_distributed(to_regclass('pawl_citus.definition')) IS NOT TRUE THEN
        PERFORM pawl.raise('55000', format('table %s was enforced before this database was the coordinator', relation),
            'The table by which the nodes learn of bindings is missing, or comes from a dump of another coordinator.',
            'first: select pawl.spread_definitions()');
    END IF;
    PERFORM pawl._check_distributed(relation, ARRAY(SELECT m FROM pawl._members(relation) m));
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = _distribution_steps.relation
        ORDER BY b.state_column LOOP
        PERFORM pawl._check_shard_key(bound);
        PERFORM pawl._check_distributed_parts(bound);
        IF bound.history IS NOT NULL AND NOT pawl._is_distributed(bound.history) THEN
            SELECT c.relowner INTO role FROM pg_class c WHERE c.oid = bound.history;
            statement := 'SELECT pg_catalog.set_config(''citus.enable_unsafe_triggers'', ''on'', true), '
                || pawl._distribution_command(relation, bound.history, bound.log_key_columns[1]);
            RETURN NEXT;
        END IF;
        SELECT c.relowner INTO role FROM pg_class c WHERE c.oid = 'pawl.binding'::regclass;
        statement := format('SELECT pawl._spread(b) FROM pawl.binding b WHERE b.relation = %L::pg_catalog.regclass '
            'AND b.state_column = %L', relation, bound.state_column);
        RETURN NEXT;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._distribution_steps(regclass) IS
'internal: the statements that follow when an enforced table was distributed';

-- What is looked for at the end of a transaction that distributed an enforced table, or enforced a distributed one.
CREATE FUNCTION pawl._distribution_checks(relation regclass) RETURNS TABLE (role oid, statement text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding;
BEGIN
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = _distribution_checks.relation AND b.validated
        ORDER BY b.state_column LOOP
        IF NOT pawl._is_distributed(relation) THEN
            CONTINUE;
        END IF;
        SELECT c.relowner INTO role FROM pg_class c WHERE c.oid = bound.relation;
        statement := format('SELECT CASE WHEN count(*) > 0 THEN format(''%%s rows of table %%s were written before '
            'its machine was known to all nodes'', count(*), %L) END AS problem FROM %s r WHERE %I IS NULL '
            'OR pawl.value_text(r.%I) COLLATE "C" <> ALL (%L::text[])', relation::text, relation, bound.state_column,
            bound.state_column, pawl._atoms(bound.machine, bound.version));
        RETURN NEXT;
        IF bound.history IS NOT NULL THEN
            statement := format('SELECT CASE WHEN count(*) > 0 THEN format(''%%s rows of table %%s have no log entry '
                'of their state'', count(*), %L) END AS problem FROM %s r WHERE NOT EXISTS (SELECT FROM %s l WHERE %s '
                'AND l.to_state COLLATE "C" = pawl.value_text(r.%I))', relation::text, relation,
                bound.history, pawl._same_key('l', bound.log_key_columns, 'r', bound.key_columns, bound.history),
                bound.state_column);
            RETURN NEXT;
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._distribution_checks(regclass) IS
'internal: the queries that look for rows which shards did not validate or record';

-- What a binding cannot have when its table is distributed.
CREATE FUNCTION pawl._check_distributed_parts(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF EXISTS (SELECT FROM pawl.audit_binding a WHERE a.log = bound.history) THEN
        PERFORM pawl.raise('0A000', format('table %s is audited and cannot be distributed', bound.relation),
            'The audit is one table on one node, and the log has shards on several.',
            format('select pawl.unaudit(%L, %L)', bound.relation, bound.state_column));
    END IF;
    IF pawl._anchors(bound.history) IS NOT NULL THEN
        PERFORM pawl.raise('0A000', format('table %s has a pruned log and cannot be distributed', bound.relation),
            'The ends of pruned entries are in one table on one node.',
            format('begin another log: select pawl.enable_log(%L, %L, log_name => ...)', bound.relation,
                bound.state_column));
    END IF;
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = bound.history AND c.relkind = 'p') THEN
        PERFORM pawl.raise('0A000', format('table %s has a partitioned log and cannot be distributed', bound.relation),
            'A log has the shards of its table.',
            format('begin another log: select pawl.enable_log(%L, %L, log_name => ...)', bound.relation,
                bound.state_column));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_distributed_parts(pawl.binding) IS
'internal: rejects bindings whose parts cannot be on several nodes';
