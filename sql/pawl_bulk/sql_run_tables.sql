-- Runs of SQL functions over rows, stored before they begin, so that the rows of a function that ends its session are
-- known.

CREATE TABLE pawl_bulk.sql_runs (
    operation uuid NOT NULL,
    run uuid NOT NULL DEFAULT pawl.uuid_v7(),
    step_index integer NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (kind = ANY ('{start,check,rows}')),
    first_row bigint NOT NULL,
    last_row bigint NOT NULL,
    size integer NOT NULL CHECK (size OPERATOR(pg_catalog.>) 0),
    session integer NOT NULL DEFAULT pg_catalog.pg_backend_pid(),
    lease_until timestamptz NOT NULL,
    lost_at timestamptz,
    again_at timestamptz,
    PRIMARY KEY (operation, run),
    CHECK (first_row OPERATOR(pg_catalog.<=) last_row),
    CHECK ((lost_at IS NULL) = (again_at IS NULL))
);
COMMENT ON TABLE pawl_bulk.sql_runs IS
'runs of SQL functions over rows. A run under way has its row locked. One whose row is not locked is lost when its '
'session is gone or works on something else, or when lease_until is over: its rows are tried again in smaller runs, '
'until one row is alone';
COMMENT ON COLUMN pawl_bulk.sql_runs.kind IS 'what the rows'' work is: start, check, or rows of a block (step -1)';
COMMENT ON COLUMN pawl_bulk.sql_runs.size IS
'how many rows at most; of a lost run: how many may run together of those from first_row to last_row';
COMMENT ON COLUMN pawl_bulk.sql_runs.session IS 'the process that began it';
COMMENT ON COLUMN pawl_bulk.sql_runs.again_at IS 'when the rows of a lost run may run again';

-- The same for validators: an attempt is committed before a user's function validates an operation.
CREATE TABLE pawl_bulk.validation_attempts (
    operation uuid NOT NULL,
    attempt uuid NOT NULL DEFAULT pawl.uuid_v7(),
    first_row bigint,
    last_row bigint,
    session integer NOT NULL DEFAULT pg_catalog.pg_backend_pid(),
    lease_until timestamptz NOT NULL,
    PRIMARY KEY (operation, attempt),
    CHECK ((first_row IS NULL) = (last_row IS NULL)),
    CHECK (first_row OPERATOR(pg_catalog.<=) last_row)
);
COMMENT ON TABLE pawl_bulk.validation_attempts IS
'attempts to validate operations. An attempt under way has its row locked. One whose row is not locked is lost when '
'its session is gone or works on something else, or when lease_until is over: the loss is counted in '
'pawl_bulk.troubles';
COMMENT ON COLUMN pawl_bulk.validation_attempts.first_row IS
'the block of rows that is validated; null: as many blocks as fit, or the metadata';
COMMENT ON COLUMN pawl_bulk.validation_attempts.session IS 'the process that began it';

-- Of a run or an attempt whose row is not locked.
CREATE FUNCTION pawl_bulk._session_lost(session integer, lease_until timestamptz) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT lease_until <= clock_timestamp() OR NOT EXISTS (SELECT FROM pg_stat_get_activity(session))
$function$;
COMMENT ON FUNCTION pawl_bulk._session_lost(integer, timestamptz) IS
'internal: the process is gone, or its lease is over';
