-- pawl.verify of tables that Citus distributes: each node reads its own shards, with the shards of the log beside them.
-- So every shard is read in one snapshot, and different shards in different ones: no row has a log in another shard.

CREATE FUNCTION pawl._shards_here(relation regclass) RETURNS regclass[]
LANGUAGE c STABLE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_shards_here';
COMMENT ON FUNCTION pawl._shards_here(regclass) IS 'internal: the shards of a distributed table on this node';

CREATE FUNCTION pawl._shard_beside(shard regclass, log regclass) RETURNS regclass
LANGUAGE c STABLE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_shard_beside';
COMMENT ON FUNCTION pawl._shard_beside(regclass, regclass) IS
'internal: the shard of a log with the entries of the rows of a shard; null: it is not on this node';

-- The binding of a table, or that of the table of a shard with the shard and its log in its place.
CREATE FUNCTION pawl._binding_here(relation regclass, state_column name) RETURNS pawl.binding
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding;
    logical regclass;
BEGIN
    SELECT b.* INTO bound FROM pawl.binding b
     WHERE b.relation = _binding_here.relation AND b.state_column = _binding_here.state_column;
    IF FOUND THEN
        RETURN bound;
    END IF;
    logical := pawl._logical(relation);
    SELECT b.* INTO bound FROM pawl.binding b
     WHERE b.relation = logical AND b.state_column = _binding_here.state_column;
    IF FOUND THEN
        bound.relation := relation;
        bound.history := pawl._shard_beside(relation, bound.history);
    END IF;
    RETURN bound;
END
$function$;
COMMENT ON FUNCTION pawl._binding_here(regclass, name) IS
'internal: the binding of a table or a shard, as its rows on this node have it';

-- The problems of one shard, on its node.
CREATE FUNCTION pawl.verify_shard(shard regclass, state_column name)
RETURNS TABLE (key text, problem text, detail text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding;
BEGIN
    PERFORM set_config('citus.override_table_visibility', 'off', true);
    bound := pawl._binding_here(shard, state_column);
    IF bound.relation IS NULL THEN
        PERFORM pawl.raise('42704', format('no machine is enforced on column "%s" of shard %s', state_column, shard));
    END IF;
    RETURN QUERY SELECT v.key, v.problem, v.detail FROM pawl.read_as_owner(shard, bound.state_column, 'verify')
                     v(relation regclass, state_column name, key text, problem text, detail text);
    IF bound.owner_column IS NOT NULL OR bound.due_column IS NOT NULL THEN
        RETURN QUERY SELECT v.key, v.problem, v.detail FROM pawl.read_as_owner(shard, bound.state_column, 'verify_work')
                         v(relation regclass, state_column name, key text, problem text, detail text);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.verify_shard(regclass, name) IS
'Returns key, problem and detail of what pawl.verify finds in one shard of a table that Citus distributes. It runs on
the node that has the shard. shard: the shard. state_column: of the binding. Errors: 42704 no binding; 42501 permission
denied. Privileges: pawl_admin, pawl_operator, pawl_reader; needs SELECT on the shard and its log.
Example: SELECT * FROM run_command_on_shards(''orders'', $$SELECT json_agg(v) FROM
pawl.verify_shard(''%s'', ''state'') v$$)';

-- Reads the shards of all nodes from the coordinator, and those of this node elsewhere.
CREATE FUNCTION pawl._verify_distributed(bound pawl.binding)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    shard record;
BEGIN
    IF NOT pawl._is_coordinator() THEN
        RETURN QUERY SELECT bound.relation, bound.state_column, v.key, v.problem, v.detail
            FROM unnest(pawl._shards_here(bound.relation)) s, pawl.verify_shard(s, bound.state_column) v;
        RETURN;
    END IF;
    FOR shard IN EXECUTE 'SELECT c.shardid, c.success, c.result FROM pg_catalog.run_command_on_shards($1, $2) c '
        'ORDER BY c.shardid' USING bound.relation,
            format('SELECT coalesce(json_agg(v), ''[]'') FROM pawl.verify_shard(''%%s'', %L) v', bound.state_column)
    LOOP
        IF shard.success THEN
            RETURN QUERY SELECT bound.relation, bound.state_column, p.key, p.problem, p.detail
                FROM json_to_recordset(shard.result::json) p(key text, problem text, detail text);
        ELSE
            RETURN QUERY SELECT bound.relation, bound.state_column, NULL::text, 'not_checked',
                format('shard %s: %s', shard.shardid, shard.result);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._verify_distributed(pawl.binding) IS
'internal: the problems of a distributed table, shard by shard';
