-- What bindings say besides pawl.enforce: which row is locked before another, and what log entries say of fences.

CREATE FUNCTION pawl.set_lock_order(relation regclass, after regclass, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
    problem text;
BEGIN
    IF NOT pawl._owns(bound.relation) THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s', bound.relation));
    END IF;
    IF after IS NOT NULL AND NOT coalesce(pawl._owns(after), false) THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s', after));
    END IF;
    IF after = bound.relation THEN
        PERFORM pawl.raise('22023', format('rows of table %s cannot be locked after themselves', bound.relation));
    END IF;
    IF after IS NOT NULL THEN
        SELECT format('Column %s of its primary key is "%s"; column %s of the key is %s.', k.n, p.attname, k.n,
                      coalesce(format('"%s", of type %s', c.attname, format_type(c.atttypid, c.atttypmod)), 'missing')) INTO problem
          FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, n)
          JOIN pg_attribute p ON p.attrelid = i.indrelid AND p.attnum = k.attnum
          LEFT JOIN pg_attribute c ON c.attrelid = bound.relation AND c.attname = bound.key_columns[k.n] AND c.attnum > 0 AND NOT c.attisdropped
         WHERE i.indrelid = after AND i.indisprimary AND k.n <= i.indnkeyatts AND c.atttypid IS DISTINCT FROM p.atttypid ORDER BY k.n LIMIT 1;
        IF problem IS NULL AND NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
                                            WHERE i.indrelid = after AND i.indisprimary AND c.relkind IN ('r', 'p')) THEN
            problem := format('%s is no table with a primary key.', after);
        END IF;
        IF problem IS NOT NULL THEN
            PERFORM pawl.raise('22023', format('the key of table %s does not begin with that of %s', bound.relation, after), problem);
        END IF;
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', bound.relation);
    bound := pawl._binding(bound.relation, bound.state_column);
    IF bound.locked_after IS DISTINCT FROM set_lock_order.after THEN
        bound.locked_after := set_lock_order.after;
        PERFORM pawl._change_binding(bound);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_lock_order(regclass, regclass, name) IS
'has rows locked after the row of another table that their key begins with (steps after their task): pawl.fire, pawl.fire_many, pawl.abandon and inserts into the log lock that row first, in the order of its key; pawl.reap and pawl.fire_due leave out rows whose other row another transaction has locked. So functions that lock the other row first never meet these in a deadlock. A plain UPDATE locks its row first: lock the other one before it. Whoever calls these functions needs UPDATE on a column of the other table. after null: no order. Waits until no other session is writing to the table. For a table of a pack it is to be said again after a restore. 42704: no lifecycle; 22023: the keys do not fit; 42501: not the owner of both';

CREATE FUNCTION pawl.set_log_fence(relation regclass, fence boolean DEFAULT true, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
BEGIN
    IF NOT pawl._owns(bound.relation) THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s', bound.relation));
    END IF;
    IF fence IS NULL THEN
        PERFORM pawl.raise('22004', 'fence must not be null');
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', bound.relation);
    bound := pawl._binding(bound.relation, bound.state_column);
    IF bound.log_fence <> set_log_fence.fence THEN
        bound.log_fence := set_log_fence.fence;
        PERFORM pawl._change_binding(bound);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_log_fence(regclass, boolean, name) IS
'from now on metadata of log entries has "transaction_id", of the transaction that made the state change (pg_current_xact_id()), and, where the table has a token column, "fence", the fencing token that the row has after it; what a caller says under these names is replaced. Waits until no other session is writing to the table. For a table of a pack it is to be said again after a restore. 42704: no lifecycle; 42501: not the owner; 22004: fence is null';

CREATE FUNCTION pawl.set_result_columns(relation regclass, columns name[], state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
    problem record;
BEGIN
    IF NOT pawl._owns(bound.relation) THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s', bound.relation));
    END IF;
    IF columns IS NULL OR array_position(columns, NULL) IS NOT NULL OR array_ndims(columns) > 1 THEN
        PERFORM pawl.raise('22004', 'columns must be a list of column names', NULL, 'columns => ''{result,error}''');
    END IF;
    SELECT c.name, a.attnum, format_type(a.atttypid, a.atttypmod) AS type_name INTO problem
      FROM unnest(columns) c(name) LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = c.name AND a.attnum > 0 AND NOT a.attisdropped
     WHERE a.atttypid IS DISTINCT FROM 'jsonb'::regtype LIMIT 1;
    IF FOUND AND problem.attnum IS NULL THEN
        PERFORM pawl.raise('42703', format('column "%s" of table %s does not exist', problem.name, bound.relation));
    ELSIF FOUND THEN
        PERFORM pawl.raise('42804', format('column "%s" of table %s is of type %s', problem.name, bound.relation, problem.type_name), NULL, 'a result column is of type jsonb');
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', bound.relation);
    bound := pawl._binding(bound.relation, bound.state_column);
    IF bound.result_columns <> columns THEN
        bound.result_columns := columns;
        PERFORM pawl._change_binding(bound);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_result_columns(regclass, name[], name) IS
'names the jsonb columns with the result of a row, or with its error: when an UPDATE sets one of them and moves the row, what the object says of itself (success; metadata.execution_time_ms, else execution_time_ms) goes to the metadata of the log entry, where the audit reads it, and rejects a success that contradicts the state and a time that is no number from 0 on (22023). Waits until no other session is writing to the table. For a table of a pack it is to be said again after a restore. 42704: no lifecycle; 42703, 42804: a column that is missing or no jsonb; 42501: not the owner; 22004';
