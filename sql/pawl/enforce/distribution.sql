-- Tables that Citus distributes. The coordinator keeps what it knows of their bindings and machines in a reference
-- table, pawl_citus.definition, so that each node has a copy that commits with the change. A node takes from its copy
-- into its own pawl.binding and pawl.machine what the tables that it has need: at once if it sees these tables, else
-- when a shard is written for the first time. Nothing here needs Citus when it is created.

CREATE FUNCTION pawl._is_distributed(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN pawl._distributed(ARRAY[relation]) IS NOT NULL;
END
$function$;
COMMENT ON FUNCTION pawl._is_distributed(regclass) IS 'internal: whether Citus distributes a table';

CREATE FUNCTION pawl._logical(shard regclass, left_behind boolean DEFAULT false) RETURNS regclass
LANGUAGE c STABLE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_logical';
COMMENT ON FUNCTION pawl._logical(regclass, boolean) IS
'internal: the distributed table that a shard belongs to; null: it is no shard. left_behind: also if it went away';

-- Whether this database tells other nodes of its bindings.
CREATE FUNCTION pawl._is_coordinator() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    is_it boolean := false;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_shard') IS NOT NULL THEN
        EXECUTE 'SELECT pg_catalog.citus_is_coordinator()' INTO is_it;
    END IF;
    RETURN is_it;
END
$function$;
COMMENT ON FUNCTION pawl._is_coordinator() IS 'internal: whether this node is the coordinator of a Citus cluster';

-- How a table is distributed. shard_column is null where all rows are in one shard: in reference tables, and in
-- schemas that are distributed as a whole.
CREATE FUNCTION pawl._distribution(relation regclass, OUT method "char", OUT shard_column name,
    OUT is_reference boolean)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    EXECUTE 'SELECT p.partmethod, CASE WHEN p.partmethod <> ''n'' '
        'THEN pg_catalog.column_to_column_name(p.logicalrelid, p.partkey) END, p.repmodel = ''t'' '
        'FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid = $1' INTO method, shard_column, is_reference
      USING relation;
END
$function$;
COMMENT ON FUNCTION pawl._distribution(regclass) IS 'internal: how Citus distributes a table';

-- Rejects distributed tables that cannot be enforced.
CREATE FUNCTION pawl._check_distributed(relation regclass, members regclass[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    member regclass := pawl._distributed(members);
    method "char";
    owner constant oid := (SELECT c.relowner FROM pg_class c WHERE c.oid = 'pawl.binding'::regclass);
BEGIN
    IF member IS NULL THEN
        RETURN;
    END IF;
    IF cardinality(members) > 1 THEN
        PERFORM pawl.raise('0A000', format('%s is a distributed table with partitions', member),
            'Machines are enforced on distributed tables without partitions only.',
            format('select undistribute_table(%L)', member));
    END IF;
    EXECUTE 'SELECT p.partmethod FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid = $1'
       INTO method USING relation;
    IF method NOT IN ('h', 'n') THEN
        PERFORM pawl.raise('0A000', format('%s is a table that is distributed by %s', relation,
            CASE method WHEN 'r' THEN 'range' ELSE 'append' END),
            'Shards of such a table come and go one by one, without the triggers of the table.',
            format('select undistribute_table(%L), then create_distributed_table', relation));
    END IF;
    IF (pawl._distribution(relation)).is_reference AND (current_user::regrole <> owner
        OR owner <> (SELECT c.relowner FROM pg_class c WHERE c.oid = relation)) THEN
        PERFORM pawl.raise('0A000',
            format('reference table %s does not belong to the owner of the extension', relation),
            'Citus cannot write it and pawl_citus.definition in one transaction as two roles.',
            format('alter table %s owner to %s, and enforce it as that role', relation, owner::regrole));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_distributed(regclass, regclass[]) IS
'internal: rejects distributed tables that a machine cannot be enforced on';

-- From here to the end of the transaction triggers can be made on distributed tables, and each node is told of
-- everything over one connection, so that later statements there see what earlier ones have done.
CREATE FUNCTION pawl._begin_distributed(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF pawl._is_distributed(relation) THEN
        IF NOT pawl._is_coordinator() THEN
            PERFORM pawl.raise('0A000', format('%s is a distributed table', relation),
                'Bindings of distributed tables are changed on the coordinator, which tells the other nodes of them.',
                'connect to the coordinator');
        END IF;
        PERFORM set_config('citus.enable_unsafe_triggers', 'on', true),
                set_config('citus.multi_shard_modify_mode', 'sequential', true),
                pawl._check_at_commit(relation);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._begin_distributed(regclass) IS
'internal: prepares the transaction for a change of the binding of a distributed table';

-- What the key of a distributed table must be: then a row, its log and the row's place in an index are in one shard.
CREATE FUNCTION pawl._check_shard_key(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    shard_column name;
BEGIN
    IF NOT pawl._is_distributed(bound.relation) THEN
        RETURN;
    END IF;
    shard_column := (pawl._distribution(bound.relation)).shard_column;
    IF shard_column IS NOT NULL AND bound.key_columns <> '{}' AND bound.key_columns[1] <> shard_column THEN
        PERFORM pawl.raise('0A000', format('the key (%s) of table %s does not begin with its distribution column "%s"',
            array_to_string(bound.key_columns, ', '), bound.relation, shard_column),
            'The log is distributed by the first column of the key, and an entry must be on the node of its row.',
            format('key => array[%L, ...]', shard_column));
    END IF;
    IF NOT bound.validated OR bound.always OR bound.locked_after IS NOT NULL THEN
        PERFORM pawl.raise('0A000', format('distributed table %s cannot be enforced with %s', bound.relation,
            CASE WHEN bound.always THEN 'always' WHEN NOT bound.validated THEN 'rows that are not validated'
                 ELSE 'a lock order' END),
            CASE WHEN bound.always THEN 'A shard is replicated to another node, and its rows would be recorded twice.'
                 WHEN NOT bound.validated THEN 'pawl.validate works on one node.'
                 ELSE 'The row that is locked first can be on another node.' END,
            CASE WHEN bound.always THEN 'leave out always' WHEN NOT bound.validated
                 THEN format('select pawl.validate_all(%L, %L) before it is distributed', bound.relation,
                     bound.state_column)
                 ELSE format('select pawl.set_lock_order(%L, NULL)', bound.relation) END);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_shard_key(pawl.binding) IS
'internal: rejects keys of distributed tables that do not begin with the distribution column';

-- For functions that read or write the log of a table as one table.
CREATE FUNCTION pawl._reject_distributed(relation regclass, doing text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF pawl._is_distributed(relation) THEN
        PERFORM pawl.raise('0A000', format('%s cannot be used on distributed table %s', doing, relation),
            'Its rows and their log are in shards on several nodes.', format('select undistribute_table(%L)',
            relation));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._reject_distributed(regclass, text) IS
'internal: 0A000 for functions that need the rows of a table on one node';

-- What a log of a distributed table cannot be.
CREATE FUNCTION pawl._check_distributed_log(bound pawl.binding, is_new boolean, log_partition text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF NOT pawl._is_distributed(bound.relation) THEN
        RETURN;
    END IF;
    IF log_partition IS NOT NULL THEN
        PERFORM pawl.raise('0A000', format('the log of distributed table %s cannot be partitioned', bound.relation),
            'It has the shards of its table.', 'leave out log_partition');
    END IF;
    IF NOT bound.validated THEN
        PERFORM pawl.raise('0A000', format('rows of distributed table %s must be validated at once', bound.relation),
            'pawl.validate works on one node.', 'leave out validate');
    END IF;
    IF NOT is_new THEN
        PERFORM pawl.raise('0A000', format('distributed table %s cannot continue the log %s', bound.relation,
            bound.history), 'Rows and log cannot be compared over several nodes in one statement.',
            'begin another log: log_name => ...');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_distributed_log(pawl.binding, boolean, text) IS
'internal: rejects logs that a distributed table cannot have';

-- Distributes a new log like its table.
CREATE FUNCTION pawl._distribute_log(relation regclass, log regclass, key_column name) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF pawl._is_distributed(relation) THEN
        PERFORM pawl._begin_distributed(relation);
        EXECUTE 'SELECT ' || pawl._distribution_command(relation, log, key_column);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._distribute_log(regclass, regclass, name) IS 'internal: distributes a new log like its table';

CREATE FUNCTION pawl._distribution_command(relation regclass, log regclass, key_column name) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    how record := pawl._distribution(relation);
BEGIN
    RETURN CASE WHEN how.method = 'h' THEN format('pg_catalog.create_distributed_table(%L, %L, colocate_with => %L)',
                    log, key_column, relation)
                WHEN how.is_reference THEN format('pg_catalog.create_reference_table(%L)', log)
                ELSE format('pg_catalog.create_distributed_table(%L, NULL, colocate_with => %L)', log, relation) END;
END
$function$;
COMMENT ON FUNCTION pawl._distribution_command(regclass, regclass, name) IS
'internal: the call of Citus that distributes a log like its table';
