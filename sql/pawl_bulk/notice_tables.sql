-- Notices tell targets about an operation at least once, outside of the transaction that they are about.

CREATE TABLE pawl_bulk.notices (
    operation uuid NOT NULL,
    notice uuid NOT NULL DEFAULT pawl.uuid_v7(),
    event uuid NOT NULL,
    channel text COLLATE "C" NOT NULL CHECK (channel <> ''),
    target text NOT NULL,
    payload jsonb NOT NULL,
    asked_by text NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'ready',
    max_tries integer NOT NULL DEFAULT 10 CHECK (max_tries OPERATOR(pg_catalog.>) 0),
    message text,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    ended_at timestamptz,
    -- maintained by pawl
    tries integer NOT NULL DEFAULT 0,
    worker text COLLATE "C",
    lease_until timestamptz,
    token bigint NOT NULL DEFAULT 0,
    due timestamptz,
    PRIMARY KEY (operation, notice)
);
COMMENT ON TABLE pawl_bulk.notices IS
'what is to be told to the targets of operations.notifications, one row an event and target, written with the event. '
'Delivered at least once: its notice is the key by which a repeat is known';
COMMENT ON COLUMN pawl_bulk.notices.channel IS
'how it is delivered: ''sql'' is the function named by target, any other is claimed by pawl_bulk.claim_notices';
COMMENT ON COLUMN pawl_bulk.notices.asked_by IS
'the role that wrote the notifications of the operation: a function is called that it may execute';
COMMENT ON COLUMN pawl_bulk.notices.message IS 'why the last try failed';

CREATE INDEX notices_ended ON pawl_bulk.notices (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX notices_failed ON pawl_bulk.notices (operation, notice) WHERE state = 'failed';

CREATE TABLE pawl_bulk.upkeep (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    keep_notices interval CHECK (keep_notices OPERATOR(pg_catalog.>=) '0'::interval)
);
COMMENT ON TABLE pawl_bulk.upkeep IS 'what pawl_bulk.prune_notices may delete; no row: the default';

SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.notices', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.upkeep', '');
