-- The outbox: every transition of the bindings with events, and the place that each
-- transaction takes in the order of commits.

-- Three tables take turns, so that events that have been read are truncated instead of deleted row by row. Only the
-- library writes rows, never SQL. `txid` and `place` are the server's own numbers; after a restore into another
-- cluster, where these begin again, they count from a higher base (see pawl.outbox_epoch).
CREATE TABLE pawl.outbox_1 (
    txid xid8 NOT NULL,
    at timestamptz NOT NULL,
    n integer NOT NULL,
    relation regclass NOT NULL,
    sort_key integer,
    machine_version integer NOT NULL,
    log_id uuid,
    state_column text NOT NULL,
    machine text NOT NULL,
    key text[] NOT NULL,
    from_state text,
    to_state text,
    event text,
    processor text,
    actor text NOT NULL,
    correlation_id text,
    metadata jsonb
) USING heap WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE pawl.outbox_2 (LIKE pawl.outbox_1) USING heap WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE pawl.outbox_3 (LIKE pawl.outbox_1) USING heap WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX outbox_1_txid ON pawl.outbox_1 (txid, n);
CREATE INDEX outbox_2_txid ON pawl.outbox_2 (txid, n);
CREATE INDEX outbox_3_txid ON pawl.outbox_3 (txid, n);
COMMENT ON TABLE pawl.outbox_1 IS
'transitions waiting for consumers, first of three tables that take turns; read them with pawl.read_events';
COMMENT ON TABLE pawl.outbox_2 IS
'transitions waiting for consumers, second of three tables that take turns; read them with pawl.read_events';
COMMENT ON TABLE pawl.outbox_3 IS
'transitions waiting for consumers, third of three tables that take turns; read them with pawl.read_events';

-- One row a transaction, in the table of the same number; written when it commits.
CREATE TABLE pawl.outbox_commit_1 (
    txid xid8 NOT NULL,
    place pg_lsn NOT NULL,
    at timestamptz NOT NULL,
    events bigint NOT NULL
) USING heap WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE pawl.outbox_commit_2 (LIKE pawl.outbox_commit_1) USING heap WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE pawl.outbox_commit_3 (LIKE pawl.outbox_commit_1) USING heap WITH (autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX outbox_commit_1_txid ON pawl.outbox_commit_1 (txid);
CREATE INDEX outbox_commit_2_txid ON pawl.outbox_commit_2 (txid);
CREATE INDEX outbox_commit_3_txid ON pawl.outbox_commit_3 (txid);
CREATE INDEX outbox_commit_1_place ON pawl.outbox_commit_1 (place, txid);
CREATE INDEX outbox_commit_2_place ON pawl.outbox_commit_2 (place, txid);
CREATE INDEX outbox_commit_3_place ON pawl.outbox_commit_3 (place, txid);
COMMENT ON TABLE pawl.outbox_commit_1 IS
'the transactions of pawl.outbox_1: place is where the write-ahead log ended when they began to commit, events how '
'many they have';
COMMENT ON TABLE pawl.outbox_commit_2 IS 'the transactions of pawl.outbox_2, see pawl.outbox_commit_1';
COMMENT ON TABLE pawl.outbox_commit_3 IS 'the transactions of pawl.outbox_3, see pawl.outbox_commit_1';

CREATE TABLE pawl.outbox_slot (
    current integer NOT NULL CHECK (current BETWEEN 1 AND 3),
    pruned_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
) USING heap;
INSERT INTO pawl.outbox_slot VALUES (1);
COMMENT ON TABLE pawl.outbox_slot IS 'which of the three tables of the outbox is written now';
COMMENT ON COLUMN pawl.outbox_slot.pruned_at IS 'no event written later has ever been removed';

-- The library writes these rows. A row is the server's own if it names this cluster and was written by the transaction
-- that it names, which is never true of a copy. If no row is, the data was restored from elsewhere, and transaction
-- numbers begin a new epoch.
CREATE TABLE pawl.outbox_epoch (epoch integer NOT NULL, cluster text NOT NULL, written_by xid NOT NULL) USING heap;
COMMENT ON TABLE pawl.outbox_epoch IS
'the clusters whose transactions the outbox has seen; epoch n counts them from (n - 1) * 2^56';

CREATE TABLE pawl.consumer (
    consumer text COLLATE "C" PRIMARY KEY CHECK (consumer <> ''),
    owner text NOT NULL,
    relations regclass[],
    seen pg_snapshot NOT NULL,
    reading pg_snapshot,
    range_place pg_lsn NOT NULL DEFAULT '0/0',
    place pg_lsn NOT NULL DEFAULT '0/0',
    place_txid xid8 NOT NULL DEFAULT '0',
    place_n integer NOT NULL DEFAULT 0,
    missed bigint NOT NULL DEFAULT 0,
    missed_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.now()
) WITH (fillfactor = 50);
COMMENT ON TABLE pawl.consumer IS
'the consumers of the outbox and their positions; written by pawl.create_consumer, pawl.read_events and '
'pawl.drop_consumer';
COMMENT ON COLUMN pawl.consumer.relations IS
'the enforced tables whose events it gets; null: all that the reader may select from';
COMMENT ON COLUMN pawl.consumer.seen IS 'the transactions visible here have been read';
COMMENT ON COLUMN pawl.consumer.reading IS
'those visible here and not in seen are being read, up to place, place_txid, place_n; null: none';
COMMENT ON COLUMN pawl.consumer.range_place IS
'no transaction from the xmax of seen on, of those being read, has an earlier place';
COMMENT ON COLUMN pawl.consumer.missed IS
'events that pawl.prune_events removed unread, until missed_until; told by the next pawl.read_events';

SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_1', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_2', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_3', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_commit_1', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_commit_2', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_commit_3', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_epoch', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.consumer', '');

CREATE VIEW pawl.outbox_transactions AS
    SELECT 1 AS slot, c.txid, c.place, c.at, c.events FROM pawl.outbox_commit_1 c
    UNION ALL SELECT 2, c.txid, c.place, c.at, c.events FROM pawl.outbox_commit_2 c
    UNION ALL SELECT 3, c.txid, c.place, c.at, c.events FROM pawl.outbox_commit_3 c;
COMMENT ON VIEW pawl.outbox_transactions IS 'internal: the transactions of the outbox';

-- Which consumers lag. It reads only the transactions that they have not read, and at most so many of them.
CREATE VIEW pawl.consumers WITH (security_barrier = true) AS
    SELECT c.consumer, c.owner, c.relations, coalesce(b.events, 0) AS behind, b.transactions >= 100000 AS and_more,
           coalesce(pg_catalog.clock_timestamp() - b.oldest, '0') AS age, c.missed, c.created_at
      FROM pawl.consumer c
      CROSS JOIN LATERAL (
           SELECT pg_catalog.sum(u.events)::bigint AS events, pg_catalog.count(*) AS transactions,
           pg_catalog.min(u.at) AS oldest
             FROM (SELECT CASE WHEN t.txid OPERATOR(pg_catalog.=) c.place_txid THEN greatest(t.events - c.place_n, 0)
                         ELSE t.events END AS events, t.at
                     FROM pawl.outbox_transactions t
                    WHERE (t.txid OPERATOR(pg_catalog.>=) pg_catalog.pg_snapshot_xmax(c.seen)
                           OR t.txid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT pg_catalog.pg_snapshot_xip(c.seen))))
                      AND (c.reading IS NULL OR NOT pg_catalog.pg_visible_in_snapshot(t.txid, c.reading)
                           OR t.place OPERATOR(pg_catalog.>) c.place
                           OR t.place OPERATOR(pg_catalog.=) c.place AND t.txid OPERATOR(pg_catalog.>=) c.place_txid)
                    LIMIT 100000) u) b
     WHERE EXISTS (SELECT FROM pg_catalog.pg_roles r
                    WHERE r.rolname IN (c.owner, 'pawl_operator') AND pg_catalog.pg_has_role(r.oid, 'MEMBER'));
COMMENT ON VIEW pawl.consumers IS
'the consumers of the outbox: your own, and all for pawl_operator. behind: events of any table that it has not read '
'(counted over the first 100,000 transactions; and_more says that there are more); age: since the oldest of these was '
'committed; missed: events lost to retention that it has not been told of yet';
