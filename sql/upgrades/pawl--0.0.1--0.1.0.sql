\echo Use "ALTER EXTENSION pawl UPDATE TO '0.1.0'" to load this file. \quit
-- From 0.0.1 to 0.1.0: here is what CREATE OR REPLACE cannot do. Until 0.1.0 is released, make puts the functions, triggers,
-- comments and grants of sql/pawl in the place marked below; the release freezes what that gives. test/tap/008_upgrade.pl compares
-- the outcome with a fresh install.

DROP EVENT TRIGGER pawl_adopt;
DROP EVENT TRIGGER pawl_follow;
DROP EVENT TRIGGER pawl_gone;

-- a parallel pg_restore fills these tables in any order
ALTER TABLE pawl.machine_state DROP CONSTRAINT machine_state_machine_version_fkey;
ALTER TABLE pawl.machine_transition DROP CONSTRAINT machine_transition_machine_version_fkey;
ALTER TABLE pawl.binding DROP CONSTRAINT binding_machine_version_fkey;

-- work that is owned
ALTER TABLE pawl.binding
    ALTER COLUMN most_recent SET DEFAULT 'derived',
    ADD COLUMN owner_column name,
    ADD COLUMN lease_column name,
    ADD COLUMN token_column name,
    ADD COLUMN due_column name,
    ADD COLUMN attempts_column name,
    ADD COLUMN max_attempts_column name,
    ADD COLUMN queue_column name,
    ADD COLUMN claim_events text[] NOT NULL DEFAULT '{}',
    ADD COLUMN claim_columns name[] NOT NULL DEFAULT '{}',
    ADD COLUMN claim_descending boolean[] NOT NULL DEFAULT '{}',
    ADD COLUMN lease_time interval NOT NULL DEFAULT '60 s',
    ADD COLUMN on_expiry text,
    ADD COLUMN on_expiry_else text,
    ADD COLUMN retry_events text[] NOT NULL DEFAULT '{}',
    ADD COLUMN backoff jsonb,
    ADD COLUMN backoff_column name,
    ADD COLUMN operator_events text[] NOT NULL DEFAULT '{}',
    ADD COLUMN events boolean NOT NULL DEFAULT false,
    ADD COLUMN wake boolean NOT NULL DEFAULT false,
    ADD COLUMN managed_attnums smallint[],
    ADD COLUMN extension name,
    ADD COLUMN events_since timestamptz,
    ADD COLUMN trace_columns name[] NOT NULL DEFAULT '{}',
    ADD COLUMN locked_after regclass,
    ADD COLUMN log_fence boolean NOT NULL DEFAULT false,
    ADD COLUMN result_columns name[] NOT NULL DEFAULT '{}',
    ADD COLUMN calls text[],
    ADD CONSTRAINT binding_claim_order CHECK (pg_catalog.cardinality(claim_columns) OPERATOR(pg_catalog.=) pg_catalog.cardinality(claim_descending));

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
SELECT pg_catalog.pg_extension_config_dump('pawl.paused', '');
-- results and retention
CREATE TABLE pawl.audit_binding (
    log regclass NOT NULL PRIMARY KEY,
    audit regclass NOT NULL,
    relation regclass NOT NULL,
    success_states text[] NOT NULL,
    failure_states text[] NOT NULL,
    key_columns name[] NOT NULL,
    parent_columns name[] NOT NULL DEFAULT '{}',
    audit_parent_columns name[] NOT NULL DEFAULT '{}',
    audited_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    audited_by text NOT NULL DEFAULT CURRENT_USER,
    -- What parent_columns meant when they were written, as in pawl.binding.
    relation_oid oid,
    parent_attnums smallint[]
);
SELECT pg_catalog.pg_extension_config_dump('pawl.audit_binding', 'WHERE log NOT IN (SELECT b.history FROM pawl.binding b WHERE b.extension IS NOT NULL AND b.history IS NOT NULL)');
CREATE TABLE pawl.pruned_audit (
    log regclass NOT NULL PRIMARY KEY,
    pruned_before timestamptz NOT NULL
);
SELECT pg_catalog.pg_extension_config_dump('pawl.pruned_audit', '');
CREATE TABLE pawl.pruned_log (
    log regclass NOT NULL PRIMARY KEY,
    anchors regclass NOT NULL,
    horizon timestamptz NOT NULL,
    next_block bigint NOT NULL DEFAULT 0,
    next_leaf oid NOT NULL DEFAULT 0,
    emptied regclass[] NOT NULL DEFAULT '{}',
    pruned_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    pruned_by text NOT NULL DEFAULT CURRENT_USER
);
SELECT pg_catalog.pg_extension_config_dump('pawl.pruned_log', '');
CREATE TABLE pawl.log_upkeep (
    log regclass NOT NULL PRIMARY KEY,
    keep interval CHECK (keep OPERATOR(pg_catalog.>=) '0'),
    only_terminal boolean NOT NULL DEFAULT true,
    period text COLLATE "C" CHECK (period OPERATOR(pg_catalog.=) ANY ('{hour,day,week,month,quarter,year}')),
    ahead integer NOT NULL DEFAULT 3 CHECK (ahead OPERATOR(pg_catalog.>=) 0 AND ahead OPERATOR(pg_catalog.<=) 1000),
    declared_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    declared_by text NOT NULL DEFAULT CURRENT_USER
);
SELECT pg_catalog.pg_extension_config_dump('pawl.log_upkeep', '');

CREATE TABLE pawl.redaction (
    redaction uuid NOT NULL DEFAULT pawl.uuid_v7() PRIMARY KEY,
    relation regclass NOT NULL,
    state_column name NOT NULL,
    key text[] NOT NULL,
    fields text[] NOT NULL,
    reason text NOT NULL,
    entries bigint NOT NULL,
    results bigint NOT NULL,
    events bigint NOT NULL,
    redacted_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    -- a name, not a regrole: a dump must load where that role does not exist
    redacted_by text NOT NULL
);
SELECT pg_catalog.pg_extension_config_dump('pawl.redaction', '');

-- what extensions define and attach comes back with them, not with a dump
CREATE FUNCTION pawl._creating_extension() RETURNS name
LANGUAGE c STABLE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_creating_extension';
ALTER TABLE pawl.machine ADD COLUMN extension name;
ALTER TABLE pawl.machine ALTER COLUMN extension SET DEFAULT pawl._creating_extension();
-- a machine belongs to the role that defined it
ALTER TABLE pawl.machine DISABLE TRIGGER immutable;
ALTER TABLE pawl.machine ADD COLUMN owner text NOT NULL DEFAULT CURRENT_USER;
UPDATE pawl.machine SET owner = defined_by;
ALTER TABLE pawl.machine ENABLE TRIGGER immutable;
-- these tables are written by functions alone
REVOKE INSERT, UPDATE, DELETE ON pawl.machine, pawl.machine_state, pawl.machine_transition, pawl.binding FROM pawl_admin;
SELECT pg_catalog.pg_extension_config_dump('pawl.machine', 'WHERE extension IS NULL');
SELECT pg_catalog.pg_extension_config_dump('pawl.machine_state', 'WHERE pawl._is_users(machine, version)');
SELECT pg_catalog.pg_extension_config_dump('pawl.machine_transition', 'WHERE pawl._is_users(machine, version)');
SELECT pg_catalog.pg_extension_config_dump('pawl.binding', 'WHERE extension IS NULL');
-- the outbox
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
CREATE TABLE pawl.outbox_slot (
    current integer NOT NULL CHECK (current BETWEEN 1 AND 3),
    pruned_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
) USING heap;
CREATE TABLE pawl.outbox_era (era integer NOT NULL, cluster text NOT NULL, written_by xid NOT NULL) USING heap;
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
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_1', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_2', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_3', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_commit_1', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_commit_2', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_commit_3', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.outbox_era', '');
SELECT pg_catalog.pg_extension_config_dump('pawl.consumer', '');

-- functions with another signature now
DROP FUNCTION pawl.available(regclass, "any", name);
DROP FUNCTION pawl.enforce(regclass, name, text, integer, boolean, text, boolean, name[], text, boolean, name);
DROP FUNCTION pawl.fire(regclass, "any", text, jsonb, name);
DROP FUNCTION pawl.fire_many(regclass, "any", text, jsonb, name);
DROP FUNCTION pawl.set_context(text, text, text, jsonb);
DROP FUNCTION pawl._attach_rows(pawl.binding, text);
DROP FUNCTION pawl._follow_columns(pawl.binding);
DROP FUNCTION pawl._log_problem(regclass, regclass, name[], text, boolean);
DROP FUNCTION pawl._make_log(regclass, name[], text, boolean, name, name);
DROP FUNCTION pawl._take_log(pawl.binding, name);
DROP FUNCTION pawl._guard_functions(regclass, text, integer);
DROP FUNCTION pawl._same_key(text, name[], text, name[]);
DROP FUNCTION pawl._verify_ends(pawl.binding);
DROP FUNCTION pawl._verify_log(pawl.binding);

-- @parts

-- The triggers of enforced tables as this version wants them.
DO $triggers$
DECLARE
    relation regclass;
    member regclass;
BEGIN
    FOR relation IN SELECT DISTINCT b.relation FROM pawl.binding b ORDER BY 1 LOOP
        IF NOT pawl._settles_updates(relation) THEN
            FOR member IN
                SELECT t.tgrelid FROM pawl._members(relation) m JOIN pg_catalog.pg_trigger t ON t.tgrelid OPERATOR(pg_catalog.=) m
                 WHERE t.tgname OPERATOR(pg_catalog.=) '!pawl_update' AND t.tgparentid OPERATOR(pg_catalog.=) 0 ORDER BY 1
            LOOP
                EXECUTE pg_catalog.format('DROP TRIGGER "!pawl_update" ON %s', member);
            END LOOP;
        END IF;
        PERFORM pawl._install(relation);
    END LOOP;
END
$triggers$;
