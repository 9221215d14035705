-- Operations that a duty cannot advance. An error of one operation does not stop the others: the operation waits,
-- longer each time, and is reported.

CREATE TABLE pawl_bulk.troubles (
    operation uuid PRIMARY KEY,
    failures integer NOT NULL DEFAULT 1 CHECK (failures OPERATOR(pg_catalog.>) 0),
    again_at timestamptz NOT NULL,
    sqlstate text COLLATE "C" NOT NULL,
    message text NOT NULL,
    since timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE pawl_bulk.troubles IS
'operations that pawl_bulk.advance could not move on: the error, how often in a row, and when it tries again. The row '
'goes when the operation goes on';
COMMENT ON COLUMN pawl_bulk.troubles.failures IS
'errors less successes. From 5 on an error of a class that is usually transient (40, 53) is the row''s own, '
'and fails it';
COMMENT ON COLUMN pawl_bulk.troubles.again_at IS
'not before this time: 1 s, 2 s, 4 s ... at most a minute after the error';
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.troubles', '');

-- Errors after which a duty must not continue: the cancel of its caller, and a conflict under an old snapshot, which a
-- subtransaction does not renew.
CREATE FUNCTION pawl_bulk._ends_duty(sqlstate text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN sqlstate = '57014' THEN current_setting('statement_timeout')::interval = '0'
        OR clock_timestamp() < statement_timestamp() + current_setting('statement_timeout')::interval
                WHEN sqlstate LIKE '57P%' THEN true
                ELSE sqlstate LIKE '40%'
                    AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable') END
$function$;
COMMENT ON FUNCTION pawl_bulk._ends_duty(text) IS
'internal: whether an error ends the duty instead of the row; a statement_timeout does, and is counted';

CREATE FUNCTION pawl_bulk._trouble(operation uuid, sqlstate text, message text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    counted integer;
BEGIN
    INSERT INTO pawl_bulk.troubles AS t (operation, again_at, sqlstate, message)
    SELECT o.operation, clock_timestamp() + interval '1 s', sqlstate, left(message, 2000) FROM pawl_bulk.operations o
     WHERE o.operation = _trouble.operation AND o.status = ANY ('{Pending,Validating,Running,Retrying}')
    ON CONFLICT ON CONSTRAINT troubles_pkey DO UPDATE SET failures = least(t.failures + 1, 1000),
        sqlstate = excluded.sqlstate, message = excluded.message,
           again_at = clock_timestamp() + least(interval '1 s' * power(2, least(t.failures, 6)), interval '1 min')
    RETURNING t.failures INTO counted;
    RETURN counted;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._trouble(uuid, text, text) IS
'internal: an active operation could not be moved on; returns how often in a row';

-- One success is not the end of it: the parts that it is moved on by grow again as they shrank. Errors that were found
-- to be the rows' own stay so.
CREATE FUNCTION pawl_bulk._ease(operation uuid) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH gone AS (DELETE FROM pawl_bulk.troubles t WHERE t.operation = _ease.operation AND t.failures = 1)
    UPDATE pawl_bulk.troubles t
    SET failures = t.failures - (t.sqlstate ~ '^5[37]' OR t.failures < 5)::integer, again_at = clock_timestamp()
     WHERE t.operation = _ease.operation AND t.failures > 1
$function$;
COMMENT ON FUNCTION pawl_bulk._ease(uuid) IS 'internal: an operation in trouble was moved on';

-- A name that is none is no function; to_regprocedure raises an error for it.
CREATE FUNCTION pawl_bulk._function(name text, arguments text) RETURNS regprocedure
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
BEGIN
    RETURN to_regprocedure(name || arguments);
EXCEPTION WHEN syntax_error_or_access_rule_violation OR feature_not_supported OR program_limit_exceeded
    OR invalid_schema_name THEN
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._function(text, text) IS
'internal: a function by its name and arguments; null: there is none';
