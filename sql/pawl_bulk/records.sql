-- One record per row and step, and beside each active one the work that it waits for.

CREATE TABLE pawl_bulk.records (
    operation uuid NOT NULL,
    row_number bigint NOT NULL,
    step_index integer NOT NULL CHECK (step_index OPERATOR(pg_catalog.>=) 0),
    tries smallint NOT NULL DEFAULT 0,
    retry_attempt smallint NOT NULL DEFAULT 0,
    state text COLLATE "C" NOT NULL DEFAULT 'Pending',
    error_type text COLLATE "C" CHECK (error_type = ANY ('{StepFailure,Timeout,SignalFailure,Processing}')),
    error_message text,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    started_at timestamptz,
    completed_at timestamptz,
    PRIMARY KEY (operation, row_number, step_index)
) WITH (fillfactor = 30);
COMMENT ON TABLE pawl_bulk.records IS
'the rows of operations at their steps; step -1 is in pawl_bulk.validations, both are in pawl_bulk.row_records';
COMMENT ON COLUMN pawl_bulk.records.tries IS 'reported executions of the start work in this attempt';
COMMENT ON COLUMN pawl_bulk.records.retry_attempt IS 'how often a retry of the operation has reset the record';
COMMENT ON COLUMN pawl_bulk.records.error_message IS 'of the last try that failed, whole';
-- Not by state: an index on the state would be written at every state change.
CREATE INDEX records_failed ON pawl_bulk.records (operation, row_number, step_index) WHERE error_type IS NOT NULL;

CREATE TABLE pawl_bulk.work (
    operation uuid NOT NULL,
    row_number bigint NOT NULL,
    step_index integer NOT NULL,
    kind text COLLATE "C" NOT NULL DEFAULT 'start' CHECK (kind = ANY ('{start,check,signal,rows}')),
    state text COLLATE "C" NOT NULL DEFAULT 'ready',
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL DEFAULT 0,
    takeovers integer NOT NULL DEFAULT 0,
    held boolean NOT NULL DEFAULT false,
    held_due timestamptz,
    last_row bigint,
    run_timeout interval,
    deadline_at timestamptz,
    -- maintained by pawl
    worker text COLLATE "C",
    lease_until timestamptz,
    token bigint NOT NULL DEFAULT 0,
    due timestamptz,
    PRIMARY KEY (operation, row_number, step_index),
    CHECK ((kind = 'rows') = (last_row IS NOT NULL) AND (kind = 'rows') = (step_index = -1))
) WITH (fillfactor = 70);
COMMENT ON TABLE pawl_bulk.work IS
'what each active record waits for: a worker that starts or checks it, or a signal. One row for each record in '
'Pending, Running or WaitingForCompletion, and no other, but that rows which a SQL function begins with are one row '
'together (kind rows, step -1): their records are made when it runs';
COMMENT ON COLUMN pawl_bulk.work.queue IS 'where workers claim it; ''sql:'' is worked on inside the database';
COMMENT ON COLUMN pawl_bulk.work.last_row IS 'kind rows: the block is that of the valid rows from row_number to here';
COMMENT ON COLUMN pawl_bulk.work.takeovers IS 'workers lost in this attempt';
COMMENT ON COLUMN pawl_bulk.work.held IS 'the operation is paused: due is infinity, held_due what it was';
COMMENT ON COLUMN pawl_bulk.work.deadline_at IS 'when the record times out: the run limit, or the end of the wait';
CREATE INDEX work_blocks ON pawl_bulk.work (operation, row_number) WHERE last_row IS NOT NULL;
CREATE INDEX work_deadlines ON pawl_bulk.work (deadline_at) WHERE deadline_at IS NOT NULL;

CREATE TABLE pawl_bulk.retry_history (
    operation uuid NOT NULL,
    row_number bigint NOT NULL,
    step_index integer NOT NULL,
    attempt smallint NOT NULL,
    error_type text COLLATE "C",
    error_message text,
    failed_at timestamptz,
    row_data jsonb,
    started_at timestamptz,
    tries smallint NOT NULL,
    submitted_by text NOT NULL DEFAULT SESSION_USER,
    submitted_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (operation, row_number, step_index, attempt)
);
COMMENT ON TABLE pawl_bulk.retry_history IS 'failed records as they were before a retry reset them; never changed';

CREATE TABLE pawl_bulk.signal_keys (
    operation uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    row_number bigint,
    step_index integer,
    early_result text COLLATE "C" CHECK (early_result = ANY ('{complete,fail}')),
    early_message text,
    early_attempt integer,
    PRIMARY KEY (operation, key)
);
COMMENT ON TABLE pawl_bulk.signal_keys IS
'which record a key names, and the signal that came before the record waited. Signals and records meet here, under '
'the lock of the row';
-- The row first: a search for a record's key must not read those of the whole operation.
CREATE INDEX signal_keys_of_row ON pawl_bulk.signal_keys (row_number, operation, step_index)
    WHERE row_number IS NOT NULL;

CREATE TABLE pawl_bulk.signals (
    operation uuid NOT NULL,
    signal uuid NOT NULL DEFAULT pawl.uuid_v7(),
    key text COLLATE "C" NOT NULL,
    result text COLLATE "C" NOT NULL DEFAULT 'complete',
    message text,
    payload jsonb,
    attempt integer,
    answer text COLLATE "C" NOT NULL,
    actor text NOT NULL DEFAULT SESSION_USER,
    received_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (operation, signal)
);
COMMENT ON TABLE pawl_bulk.signals IS
'every signal that was sent, with the answer it got. An INSERT without an answer sends one, as pawl_bulk.signal does';

CREATE TABLE pawl_bulk.events (
    operation uuid NOT NULL,
    event uuid NOT NULL DEFAULT pawl.uuid_v7(),
    type text COLLATE "C" NOT NULL,
    severity text COLLATE "C" NOT NULL DEFAULT 'Info' CHECK (severity = ANY ('{Info,Warning,Error}')),
    state text COLLATE "C" NOT NULL DEFAULT 'recorded',
    from_status text COLLATE "C",
    to_status text COLLATE "C",
    row_number bigint,
    step_index integer,
    message text,
    detail jsonb,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (operation, event)
);
COMMENT ON TABLE pawl_bulk.events IS 'what happened to operations; read them in commit order by pawl_bulk.read_feed';
CREATE INDEX events_in_order ON pawl_bulk.events (event);
COMMENT ON INDEX pawl_bulk.events_in_order IS 'the newest events of all operations';

SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.records', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.work', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.retry_history', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.signal_keys', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.signals', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.events', '');
