-- Paused queues, which pawl.claim skips.

CREATE TABLE pawl.paused (
    relation regclass NOT NULL,
    state_column name NOT NULL,
    queue text COLLATE "C",
    until timestamptz,
    reason text,
    paused_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    -- a name, not a regrole: a dump must load where that role does not exist
    paused_by text NOT NULL DEFAULT CURRENT_USER,
    UNIQUE NULLS NOT DISTINCT (relation, state_column, queue)
);
COMMENT ON TABLE pawl.paused IS 'queues from which nothing is claimed; written by pawl.pause and pawl.resume';
COMMENT ON COLUMN pawl.paused.queue IS 'null: all queues of the binding';
COMMENT ON COLUMN pawl.paused.until IS 'null: until pawl.resume';

SELECT pg_catalog.pg_extension_config_dump('pawl.paused', '');
