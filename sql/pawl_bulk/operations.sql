-- Operations, their input, and the results of its validation. The operation comes first in every key, so that an
-- operation with all its rows can be on any shard. There are no foreign keys, because a million rows would look up
-- their operation a million times.

CREATE TABLE pawl_bulk.operations (
    operation uuid PRIMARY KEY DEFAULT pawl.uuid_v7(),
    definition text COLLATE "C" NOT NULL CHECK (pg_catalog.length(definition) <= 100),
    version integer NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'Pending',
    metadata jsonb NOT NULL DEFAULT '{}',
    created_by text NOT NULL DEFAULT SESSION_USER CHECK (pg_catalog.length(created_by) <= 100),
    -- the trace in which it was submitted
    traceparent text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.traceparent', true), ''),
    tracestate text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.tracestate', true), ''),
    source text,
    file_name text CHECK (pg_catalog.length(file_name) <= 200),
    format text COLLATE "C" NOT NULL DEFAULT 'ndjson' CHECK (format = ANY ('{csv,ndjson,json}')),
    dialect jsonb NOT NULL DEFAULT '{}',
    columns text[],
    input_bytes bigint,
    checksum text,
    idempotency_key text CHECK (idempotency_key <> ''),
    priority integer NOT NULL DEFAULT 0,
    notifications jsonb,
    notified_by text COLLATE "C",
    sealed boolean NOT NULL DEFAULT false,
    input_error text,
    validated_through bigint NOT NULL DEFAULT 0,
    opened_through bigint NOT NULL DEFAULT 0,
    total_rows bigint NOT NULL DEFAULT 0,
    last_step integer NOT NULL,
    track_row_data boolean NOT NULL,
    retry_count integer NOT NULL DEFAULT 0,
    error_message text,
    paused_at timestamptz,
    paused_by text,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    started_at timestamptz,
    completed_at timestamptz,
    UNIQUE (definition, idempotency_key)
) WITH (fillfactor = 70);
COMMENT ON TABLE pawl_bulk.operations IS 'bulk operations; their counters are in pawl_bulk.status';
COMMENT ON COLUMN pawl_bulk.operations.dialect
IS E'how CSV is read: {"delimiter": ",", "quote": "\\"", "header": true, "map": {"column": "field"}}; quote: one '
    'character, or with an escape behind it, or empty for none';
COMMENT ON COLUMN pawl_bulk.operations.columns IS 'the fields of a CSV row, in order';
COMMENT ON COLUMN pawl_bulk.operations.notified_by IS 'the role that wrote the notifications; kept by a trigger';
COMMENT ON COLUMN pawl_bulk.operations.sealed IS 'the input is complete';
COMMENT ON COLUMN pawl_bulk.operations.input_error IS
'why the input could not be read further; the operation fails when what was read is validated';
COMMENT ON COLUMN pawl_bulk.operations.validated_through IS
'the rows up to this number are validated, or in a block of pawl_bulk.unvalidated';
COMMENT ON COLUMN pawl_bulk.operations.opened_through IS
'the valid rows up to this number have a record at step 0, or are in a block of work';
COMMENT ON COLUMN pawl_bulk.operations.total_rows IS 'validation records; 0 before the operation leaves Validating';
CREATE INDEX operations_active ON pawl_bulk.operations (priority DESC, operation)
    WHERE status = ANY ('{Pending,Validating,Running,Retrying}');

CREATE TABLE pawl_bulk.input (
    operation uuid NOT NULL DEFAULT pg_catalog.current_setting('pawl_bulk.operation')::uuid,
    row_number bigint NOT NULL DEFAULT pawl_bulk.next_row(),
    data jsonb,
    raw text,
    problem text,
    line_number bigint,
    PRIMARY KEY (operation, row_number),
    -- reports have numbers of at most 18 digits; 0 is the header of a CSV file
    CONSTRAINT input_row_number_check CHECK (row_number OPERATOR(pg_catalog.>=) 0
        AND row_number OPERATOR(pg_catalog.<=) 999999999999999999)
);
COMMENT ON TABLE pawl_bulk.input IS
'the rows of an operation as they came: data, or raw text in the format of the operation';
COMMENT ON COLUMN pawl_bulk.input.problem IS
'why the row could not be read; it fails validation with the code malformed';
COMMENT ON COLUMN pawl_bulk.input.line_number IS
'where the row began in its file; null: at its row number, behind the header if there is one';

CREATE TABLE pawl_bulk.unvalidated (
    operation uuid NOT NULL,
    first_row bigint NOT NULL,
    last_row bigint NOT NULL,
    PRIMARY KEY (operation, first_row),
    CHECK (first_row OPERATOR(pg_catalog.<=) last_row)
);
COMMENT ON TABLE pawl_bulk.unvalidated IS
'blocks of rows of operations in Validating that wait to be validated. A session that validates one locks its row and '
'deletes it, so several sessions validate several blocks';

CREATE TABLE pawl_bulk.validations (
    operation uuid NOT NULL,
    row_number bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    row_id text,
    errors jsonb,
    raw text,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (operation, row_number),
    CHECK ((state = 'Failed') = (errors IS NOT NULL))
);
COMMENT ON TABLE pawl_bulk.validations IS 'one validation record a row (step -1); written once, never changed';
COMMENT ON COLUMN pawl_bulk.validations.errors IS 'all errors in order: [{"code", "message", "field"}]';
COMMENT ON COLUMN pawl_bulk.validations.raw IS 'the text of a malformed row';
CREATE INDEX validations_failed ON pawl_bulk.validations (operation, row_number) WHERE errors IS NOT NULL;

CREATE TABLE pawl_bulk.tallies (
    operation uuid NOT NULL,
    tally uuid NOT NULL DEFAULT pawl.uuid_v7(),
    validated bigint NOT NULL,
    successful bigint NOT NULL,
    failed bigint NOT NULL,
    PRIMARY KEY (operation, tally)
);
COMMENT ON TABLE pawl_bulk.tallies IS
'what statements added to the counters of operations: their sum is the counter. Appended to, folded now and then, so '
'that workers do not wait for each other';

CREATE FUNCTION pawl_bulk._first_number(operation uuid) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    SELECT coalesce((SELECT i.row_number + 1 FROM pawl_bulk.input i WHERE i.operation = o.operation
        ORDER BY i.row_number DESC LIMIT 1),
                    CASE WHEN o.format = 'csv'
                        AND coalesce((o.dialect ->> 'header')::boolean, o.columns IS NULL) THEN 0 ELSE 1 END)
      FROM pawl_bulk.operations o WHERE o.operation = _first_number.operation
$function$;
COMMENT ON FUNCTION pawl_bulk._first_number(uuid) IS 'internal: the number of the next row of an operation';

SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.operations', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.input', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.unvalidated', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.validations', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.tallies', '');
