-- Further properties of bindings: the lock order, fencing tokens in log entries, result columns.

CREATE FUNCTION pawl.set_lock_order(relation regclass, after regclass, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._own_binding(relation, state_column);
    problem text;
BEGIN
    PERFORM pawl._reject_distributed(bound.relation, 'pawl.set_lock_order');
    IF after IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = after) THEN
        PERFORM pawl.raise('42P01', format('relation with OID %s does not exist', after::oid), NULL,
            'after => a table, or null for no order');
    END IF;
    IF after IS NOT NULL AND NOT coalesce(pawl._owns(after), false) THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s', after), NULL,
            pawl._owner_hint(after));
    END IF;
    IF after = bound.relation THEN
        PERFORM pawl.raise('22023', format('table %s cannot be its own lock parent', bound.relation));
    END IF;
    IF after IS NOT NULL THEN
        SELECT format('Column %s of its primary key is "%s"; column %s of the key is %s.', k.n, p.attname, k.n,
                      coalesce(format('"%s", of type %s', c.attname, format_type(c.atttypid, c.atttypmod)), 'missing'))
            INTO problem
          FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, n)
          JOIN pg_attribute p ON p.attrelid = i.indrelid AND p.attnum = k.attnum
          LEFT JOIN pg_attribute c ON c.attrelid = bound.relation AND c.attname = bound.key_columns[k.n]
              AND c.attnum > 0 AND NOT c.attisdropped
         WHERE i.indrelid = after AND i.indisprimary AND k.n <= i.indnkeyatts AND c.atttypid IS DISTINCT FROM p.atttypid
         ORDER BY k.n LIMIT 1;
        IF problem IS NULL AND NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
            WHERE i.indrelid = after AND i.indisprimary AND c.relkind IN ('r', 'p')) THEN
            problem := format('%s is not a table with a primary key.', after);
        ELSIF EXISTS (SELECT FROM pg_class c WHERE c.oid = after AND c.relpersistence = 't') THEN
            PERFORM pawl.raise('0A000', format('%s is a temporary table', after),
                'The order would outlive the table.', 'after => a table that is not temporary');
        END IF;
        IF problem IS NOT NULL THEN
            PERFORM pawl.raise('22023',
                format('the key of table %s does not begin with the key of %s', bound.relation, after), problem);
        END IF;
    END IF;
    bound := pawl._locked_binding(bound);
    IF bound.locked_after IS DISTINCT FROM set_lock_order.after THEN
        bound.locked_after := set_lock_order.after;
        PERFORM pawl._change_binding(bound);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_lock_order(regclass, regclass, name) IS
'Has rows locked after the row of another table whose primary key begins their key (steps after their task).
pawl.fire, pawl.fire_many, pawl.abandon and inserts into the log lock that row first, in the order of its key;
pawl.reap and pawl.fire_due skip rows whose other row is locked. So functions that lock the other row first cannot
deadlock with them; a plain UPDATE must lock it itself. Callers need UPDATE on a column of the other table. Waits
for sessions that write to the table. For a table of a pack it must be called again after a restore.
relation: the enforced table. after: the other table; null: no order. state_column: null: the only bound column.
Errors: 22023 the keys do not match; 42P01 no such table; 42704 no binding; 42501 not the owner of both tables.
Privileges: pawl_admin that owns both tables.
Example: SELECT pawl.set_lock_order(''steps'', ''tasks'')';

CREATE FUNCTION pawl.set_log_token(relation regclass, token boolean DEFAULT true, state_column name DEFAULT NULL)
    RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._own_binding(relation, state_column);
BEGIN
    IF token IS NULL THEN
        PERFORM pawl.raise('22004', 'token must not be null');
    END IF;
    bound := pawl._locked_binding(bound);
    IF bound.log_token <> set_log_token.token THEN
        bound.log_token := set_log_token.token;
        PERFORM pawl._change_binding(bound);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_log_token(regclass, boolean, name) IS
'Adds to the metadata of log entries "transaction_id" (pg_current_xact_id()) and, if the binding has a token column,
"token" (the fencing token after the change); values of the caller with these names are replaced. Waits for
sessions that write to the table. For a table of a pack it must be called again after a restore.
relation: the enforced table. token: default true; false: no longer. state_column: null: the only bound column.
Errors: 22004 token is null; 42704 no binding; 42501 not the owner. Privileges: pawl_admin that owns the table.
Example: SELECT pawl.set_log_token(''jobs'')';

CREATE FUNCTION pawl.set_result_columns(relation regclass, columns name[], state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._own_binding(relation, state_column);
    problem record;
BEGIN
    columns := pawl._check_list(columns, 'columns', '{result,error}');
    IF columns IS NULL OR array_position(columns, NULL) IS NOT NULL THEN
        PERFORM pawl.raise('22004', 'columns must be a list of column names', NULL, 'columns => ''{result,error}''');
    END IF;
    SELECT c.name, a.attnum, format_type(a.atttypid, a.atttypmod) AS type_name INTO problem
      FROM unnest(columns) c(name) LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = c.name
          AND a.attnum > 0 AND NOT a.attisdropped
     WHERE a.atttypid IS DISTINCT FROM 'jsonb'::regtype LIMIT 1;
    IF FOUND AND problem.attnum IS NULL THEN
        PERFORM pawl.raise('42703', format('column "%s" of table %s does not exist', problem.name, bound.relation));
    ELSIF FOUND THEN
        PERFORM pawl.raise('42804', format('column "%s" of table %s is of type %s', problem.name, bound.relation,
            problem.type_name), NULL, 'a result column is of type jsonb');
    END IF;
    bound := pawl._locked_binding(bound);
    IF bound.result_columns <> columns THEN
        bound.result_columns := columns;
        PERFORM pawl._change_binding(bound);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.set_result_columns(regclass, name[], name) IS
'Names the jsonb columns with the result or error of a row. If an UPDATE sets one of them and changes the state,
success and execution_time_ms of the object (metadata.execution_time_ms first) are copied to the metadata of the
log entry, where the audit reads them; a success that contradicts the state, or an execution time that is not a
non-negative number, is rejected (22023). Waits for sessions that write to the table. For a table of a pack it must
be called again after a restore.
relation: the enforced table. columns: their names; empty: none. state_column: null: the only bound column.
Errors: 42703 no such column; 42804 a column that is not jsonb; 22004 null; 42704 no binding; 42501 not the owner.
Privileges: pawl_admin that owns the table.
Example: SELECT pawl.set_result_columns(''jobs'', ''{result,error}'')';
