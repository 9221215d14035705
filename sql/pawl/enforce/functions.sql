-- The functions written in C++.

-- A trigger function in PL/pgSQL calls this first, in its DECLARE, before it reads anything of a row: EXECUTE is enough to hang it on any
-- table, whose types and casts are then its owner's.
CREATE FUNCTION pawl.fired_by(moments text, relation oid, at text, operation text, level text, VARIADIC tables regclass[]) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_fired_by';
COMMENT ON FUNCTION pawl.fired_by(text, oid, text, text, text, regclass[]) IS
'Checks that a trigger function was fired by a table and at a moment that it is made for, and returns true: the first
statement of a trigger function that EXECUTE is granted on. moments: comma-separated, such as AFTER INSERT OR UPDATE
STATEMENT; relation, at, operation, level: TG_RELID, TG_WHEN, TG_OP, TG_LEVEL; tables: those it is made for, with
their partitions. Errors: 39P01 fired otherwise. Privileges: all roles. Example: fired constant boolean :=
pawl.fired_by(''AFTER INSERT STATEMENT'', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, ''public.orders'')';

CREATE FUNCTION pawl.restoring() RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_restoring';
COMMENT ON FUNCTION pawl.restoring() IS
'Whether a dump is being loaded: the setting pawl.restoring, as a superuser or a role with SET on it has set it. For
conditions of triggers that a dump must not fire; calling it loads the library, which discards what other roles have
set. Errors: none. Privileges: all roles. Example: CREATE TRIGGER t AFTER INSERT ON orders FOR EACH ROW WHEN (NOT
pawl.restoring()) EXECUTE FUNCTION f()';

CREATE FUNCTION pawl.define(machine text, diagram text, unbound text DEFAULT 'refuse') RETURNS integer
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_define';
COMMENT ON FUNCTION pawl.define(text, text, text) IS
'defines a machine by a Mermaid state diagram and returns its version; the same machine again gives the same version. unbound: refuse or note guards and effects that name no function. PW007: the diagram is wrong, at a line and column';

CREATE FUNCTION pawl.check(diagram text) RETURNS TABLE (severity text, code text, line integer, col integer, message text)
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 10 AS 'MODULE_PATHNAME', 'pawl_check';
COMMENT ON FUNCTION pawl.check(text) IS
'remarks on a Mermaid state diagram: errors that pawl.define would raise, and what a careful reader would ask about; nothing is stored';

CREATE FUNCTION pawl._render(diagram text, format text, name text) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_render';
COMMENT ON FUNCTION pawl._render(text, text, text) IS 'internal: a canonical diagram as mermaid or dot';

CREATE FUNCTION pawl.validate() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_validate';
COMMENT ON FUNCTION pawl.validate() IS 'trigger of an enforced table: may this row move?';
CREATE FUNCTION pawl.validate_insert() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_validate_insert';
COMMENT ON FUNCTION pawl.validate_insert() IS 'trigger of an enforced table with managed columns: sets the timer of a first state';
CREATE FUNCTION pawl.record() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_record';
COMMENT ON FUNCTION pawl.record() IS 'trigger of an enforced table: first states, deletions, moves between partitions, effects';
CREATE FUNCTION pawl.record_truncate() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_record_truncate';
COMMENT ON FUNCTION pawl.record_truncate() IS 'trigger of an enforced table: may it be emptied?';
CREATE FUNCTION pawl.log_insert() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_log_insert';
COMMENT ON FUNCTION pawl.log_insert() IS 'trigger of a log: an insert is a request to move the row';
CREATE FUNCTION pawl.protect_log() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_protect_log';
COMMENT ON FUNCTION pawl.protect_log() IS 'trigger of a log: it cannot be changed (PW006)';
CREATE FUNCTION pawl.invalidate() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_invalidate';
COMMENT ON FUNCTION pawl.invalidate() IS 'trigger of pawl.machine and pawl.binding: every session forgets what it compiled';

CREATE FUNCTION pawl.deferred() RETURNS boolean
LANGUAGE c VOLATILE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_deferred';
COMMENT ON FUNCTION pawl.deferred() IS 'whether this transaction has rows to be judged, or effects to be run, after their statement';

CREATE FUNCTION pawl.fire(relation regclass, key "any", event text DEFAULT NULL, metadata jsonb DEFAULT NULL,
    state_column name DEFAULT NULL, processor text DEFAULT NULL, token bigint DEFAULT NULL, events text[] DEFAULT NULL)
RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_fire';
COMMENT ON FUNCTION pawl.fire(regclass, "any", text, jsonb, name, text, bigint, text[]) IS
'Fires an event for one row, or several in one write, and returns the new state. relation: an enforced table; key: a
value, row(a, b), or a text array; event: the event; metadata: stored in the log; state_column: needed if the table has
several machines; processor: the identity that acts (default: the setting pawl.processor); token: the fencing token that
the row must have; events: 1 to 16 events instead of one, decided in order, all or nothing. Errors: PW001 no such
transition; PW003 a guard returned false, or no attempt is left; PW004 not the owner; PW005 the lease has expired, or
the token is stale; PW008 unknown event; P0002 no such row; 22004 no event; 22023 event and events, or an empty list;
54000 over 16 events. Privileges: all roles; UPDATE on the table. Example: SELECT pawl.fire(''orders'', 7, ''ship'')';

CREATE FUNCTION pawl.fire_many(relation regclass, keys "any", event text DEFAULT NULL, metadata jsonb DEFAULT NULL,
    state_column name DEFAULT NULL, processor text DEFAULT NULL, tokens bigint[] DEFAULT NULL,
    events text[] DEFAULT NULL)
RETURNS TABLE (key text, ok boolean, from_state text, to_state text, sqlstate text, message text)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_fire_many';
COMMENT ON FUNCTION pawl.fire_many(regclass, "any", text, jsonb, name, text, bigint[], text[]) IS
'Fires an event, or several in one write, for many rows, and returns one row for each key: whether it changed, its states
before and after, or why it was rejected; a rejected row does not affect the others. relation: an enforced table; keys:
an array of keys; event, metadata, state_column, processor, events: as in pawl.fire; tokens: the fencing token of each
key, in the order of the keys, null for none. Errors: 2202E the numbers of keys and tokens differ; 22004, 22023, 54000,
PW008 as in pawl.fire. Privileges: all roles; UPDATE on the table. Example: SELECT * FROM pawl.fire_many(''orders'',
array[7, 8], ''ship'')';

CREATE FUNCTION pawl.available(relation regclass, key "any", state_column name DEFAULT NULL)
RETURNS TABLE (event text, to_state text, allowed boolean, blocked_by text[], params text[], guards text[], notes text[])
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10 AS 'MODULE_PATHNAME', 'pawl_available';
COMMENT ON FUNCTION pawl.available(regclass, "any", name) IS
'the moves that leave a row''s state, each allowed or blocked by the guards named, or for the acting processor by pawl.owner, pawl.lease, pawl.token, pawl.attempts';

CREATE FUNCTION pawl.uuid_v7(at timestamptz DEFAULT pg_catalog.clock_timestamp()) RETURNS uuid
LANGUAGE c VOLATILE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_uuid_v7';
COMMENT ON FUNCTION pawl.uuid_v7(timestamptz) IS 'a version 7 UUID: ordered by the time given, random below a millisecond';

CREATE FUNCTION pawl.backoff(attempts integer, policy jsonb, asked interval DEFAULT NULL) RETURNS interval
LANGUAGE c VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_backoff';
COMMENT ON FUNCTION pawl.backoff(integer, jsonb, interval) IS
'how long to wait after so many attempts (from 1 on) before the next. policy: {"strategy": "none|linear|exponential|fibonacci", "base": "1 s", "cap": "60 s", "multiplier": 2, "jitter": 0.1 (a fraction, "none", "full" or "equal"), "max_attempts": 3}, every key optional, base and cap interval texts; the defaults are exponential and the values shown. asked replaces the computed delay, under the same cap. 22023: the policy says something that cannot be; 22007: an interval that is none';

CREATE FUNCTION pawl.is_transient(sqlstate text) RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_is_transient';
COMMENT ON FUNCTION pawl.is_transient(text) IS
'whether what failed with this SQLSTATE may succeed when it is done again, with nothing mended: classes 08 (no connection), 40 but 40002 (lost to another transaction), 53 (memory, disk space or connections are short), 57P but 57P04 (the server or the session ends), 55P03 (a lock is held), 57014 (cancelled, or over its time). Example: SELECT pawl.is_transient(''53200'')';

CREATE FUNCTION pawl._key_text(relation regclass, key "any", state_column name) RETURNS text[]
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_key_text';
COMMENT ON FUNCTION pawl._key_text(regclass, "any", name) IS 'internal: the values of a key as text, in the order of binding.key_columns';

CREATE FUNCTION pawl._equality(type oid) RETURNS text
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_equality';
COMMENT ON FUNCTION pawl._equality(oid) IS 'internal: the equality of a type as OPERATOR(schema.=)';

CREATE FUNCTION pawl._remap(relation regclass, state_column name, remap jsonb) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_remap';
COMMENT ON FUNCTION pawl._remap(regclass, name, jsonb) IS 'internal: moves rows to new states as part of pawl.upgrade; owner only';

CREATE FUNCTION pawl._resolve_calls(relation regclass, machine text, version integer, settled text[]) RETURNS text[]
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_resolve_calls';
COMMENT ON FUNCTION pawl._resolve_calls(regclass, text, integer, text[]) IS
'internal: the functions that the guards and effects of a machine mean for a table at this moment, for pawl.binding.calls; what is settled and still there stays';

CREATE FUNCTION pawl._guard_functions(relation regclass, machine text, version integer, calls text[] DEFAULT NULL) RETURNS SETOF text
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 1 AS 'MODULE_PATHNAME', 'pawl_guard_functions';
COMMENT ON FUNCTION pawl._guard_functions(regclass, text, integer, text[]) IS
'internal: the guards and effects of a machine that cannot be called as f(old row, new row) of this table, or by the functions that a binding has settled on';

CREATE FUNCTION pawl._tree_change(command pg_ddl_command) RETURNS text
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_tree_change';
COMMENT ON FUNCTION pawl._tree_change(pg_ddl_command) IS
'internal: what a command did to a tree of tables: join (ATTACH PARTITION, INHERIT, PARTITION OF, INHERITS), leave (DETACH PARTITION, NO INHERIT), null';

CREATE FUNCTION pawl._rewritten_columns(command pg_ddl_command) RETURNS text[]
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_rewritten_columns';
COMMENT ON FUNCTION pawl._rewritten_columns(pg_ddl_command) IS
'internal: the columns that a command computed anew (ALTER COLUMN ... TYPE ... USING, or by a cast that somebody made)';

-- Compiled machines live in every session; these tell them to look again. ALWAYS: also when a restore runs as a replica.
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON pawl.machine
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate_truncate AFTER TRUNCATE ON pawl.machine
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON pawl.binding
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate_truncate AFTER TRUNCATE ON pawl.binding
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
ALTER TABLE pawl.machine ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE pawl.machine ENABLE ALWAYS TRIGGER invalidate_truncate;
ALTER TABLE pawl.binding ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE pawl.binding ENABLE ALWAYS TRIGGER invalidate_truncate;
