-- Definitions: what an operation does with each row. They have versions; an operation keeps the version that it was
-- created with.

CREATE TABLE pawl_bulk.definitions (
    name text COLLATE "C" NOT NULL CHECK (name <> '' AND pg_catalog.length(name) <= 100),
    version integer NOT NULL,
    description text,
    metadata_schema jsonb NOT NULL DEFAULT '{}',
    metadata_validators text[] NOT NULL DEFAULT '{}',
    row_schema jsonb NOT NULL DEFAULT '{}',
    row_validators text[] NOT NULL DEFAULT '{}',
    row_id text,
    is_retryable boolean NOT NULL DEFAULT false,
    track_row_data boolean NOT NULL DEFAULT false,
    max_retry_attempts integer NOT NULL DEFAULT 10 CHECK (max_retry_attempts OPERATOR(pg_catalog.>=) 0),
    max_takeovers integer NOT NULL DEFAULT 5 CHECK (max_takeovers OPERATOR(pg_catalog.>=) 0),
    max_input_bytes bigint NOT NULL DEFAULT 104857600 CHECK (max_input_bytes OPERATOR(pg_catalog.>=) 0),
    configuration jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    dropped_at timestamptz,
    created_by name NOT NULL DEFAULT CURRENT_USER,
    PRIMARY KEY (name, version)
);
COMMENT ON TABLE pawl_bulk.definitions IS
'kinds of bulk operations in versions; written by pawl_bulk.define, changed by pawl_bulk.drop_definition only';
COMMENT ON COLUMN pawl_bulk.definitions.row_id IS 'the field of a row that is its business key';
COMMENT ON COLUMN pawl_bulk.definitions.max_retry_attempts IS
'how often an operation may be retried; 0: without a limit';
COMMENT ON COLUMN pawl_bulk.definitions.max_takeovers IS
'how many workers a record may lose in one attempt before it fails';
COMMENT ON COLUMN pawl_bulk.definitions.max_input_bytes IS 'limit of the stored input in bytes; 0: none';
COMMENT ON COLUMN pawl_bulk.definitions.created_by IS
'the role that defined it; its SQL functions run as pawl.call_as_definer runs functions that this role named';
COMMENT ON COLUMN pawl_bulk.definitions.dropped_at IS
'when it was dropped: operations that are queued fail, nothing is retried';

CREATE TABLE pawl_bulk.steps (
    name text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    step_index integer NOT NULL CHECK (step_index OPERATOR(pg_catalog.>=) 0),
    step_name text COLLATE "C" NOT NULL CHECK (step_name <> ''),
    kind text COLLATE "C" NOT NULL CHECK (kind = ANY ('{sync,poll,signal}')),
    queue text COLLATE "C" NOT NULL,
    handler text,
    check_queue text COLLATE "C" NOT NULL,
    check_handler text,
    max_retries integer NOT NULL DEFAULT 0 CHECK (max_retries OPERATOR(pg_catalog.>=) 0),
    backoff_base interval NOT NULL DEFAULT '1 s' CHECK (backoff_base OPERATOR(pg_catalog.>=) '0'),
    backoff_cap interval NOT NULL DEFAULT '30 s' CHECK (backoff_cap OPERATOR(pg_catalog.>=) '0'),
    backoff_jitter double precision NOT NULL DEFAULT 0.5 CHECK (backoff_jitter OPERATOR(pg_catalog.>=) 0),
    poll_interval interval CHECK (poll_interval OPERATOR(pg_catalog.>) '0'),
    poll_jitter double precision NOT NULL DEFAULT 0.2 CHECK (poll_jitter OPERATOR(pg_catalog.>=) 0),
    timeout interval CHECK (timeout OPERATOR(pg_catalog.>) '0'),
    run_timeout interval CHECK (run_timeout OPERATOR(pg_catalog.>) '0'),
    allow_operation_retry boolean NOT NULL DEFAULT true,
    signal_key text,
    error_type text COLLATE "C" NOT NULL DEFAULT 'StepFailure' CHECK (error_type = ANY ('{StepFailure,Processing}')),
    PRIMARY KEY (name, version, step_index),
    FOREIGN KEY (name, version) REFERENCES pawl_bulk.definitions ON DELETE CASCADE,
    CHECK (kind = 'sync' OR timeout IS NOT NULL),
    CHECK (kind <> 'poll' OR poll_interval IS NOT NULL)
);
COMMENT ON TABLE pawl_bulk.steps IS 'the steps of a definition, in the order in which each row goes through them';
COMMENT ON COLUMN pawl_bulk.steps.queue IS
'where workers claim the step; ''sql:'' where the handler is a SQL function, or there is nothing to start';
COMMENT ON COLUMN pawl_bulk.steps.timeout IS 'how long a poll or signal step may wait';
COMMENT ON COLUMN pawl_bulk.steps.run_timeout IS
'how long an attempt may take in Running, waits between tries included';
COMMENT ON COLUMN pawl_bulk.steps.signal_key IS
'pattern of the key: {row}, {step}, {data.<field>}; by default s{step}-r{row}';
COMMENT ON COLUMN pawl_bulk.steps.error_type IS
'what a failure of the handler is called: Processing where the definition is one handler without steps';
CREATE UNIQUE INDEX steps_names ON pawl_bulk.steps (name, version, pg_catalog.lower(step_name));

SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.definitions', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.steps', '');

-- Functions that a definition names may run with the rights of the role that defined it, so no other role changes it.
-- Any admin may drop it.
CREATE FUNCTION pawl_bulk._definition_own() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.definitions', 'pawl_bulk.steps');
    definers name[];
    other name;
BEGIN
    IF TG_TABLE_NAME = 'definitions' THEN
        IF TG_OP = 'UPDATE' THEN
            IF to_jsonb(NEW) - 'dropped_at' = to_jsonb(OLD) - 'dropped_at' THEN
                RETURN NEW;
            END IF;
            definers := ARRAY[OLD.created_by];
        END IF;
        definers := definers || NEW.created_by;
    ELSE
        definers := ARRAY(SELECT d.created_by FROM pawl_bulk.definitions d
            WHERE (d.name, d.version) = (NEW.name, NEW.version)
               OR TG_OP = 'UPDATE' AND (d.name, d.version) = (OLD.name, OLD.version));
    END IF;
    SELECT d INTO other FROM unnest(definers) d WHERE NOT pawl.may_act_as(d) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('42501', format('permission denied to define as role "%s"', other),
            'SQL functions of a definition may run with the rights of the role that defined it.',
            'select pawl_bulk.define(...)');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._definition_own() IS
'internal: rejects definitions in the name of another role, and changes of those of others; 42501';
CREATE TRIGGER own BEFORE INSERT OR UPDATE ON pawl_bulk.definitions
    FOR EACH ROW WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_bulk._definition_own();
CREATE TRIGGER own BEFORE INSERT OR UPDATE ON pawl_bulk.steps
    FOR EACH ROW WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_bulk._definition_own();
