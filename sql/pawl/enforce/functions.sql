-- The functions written in C++.

-- Each trigger function in PL/pgSQL calls this first, in its DECLARE, before it reads a value of the row. EXECUTE is
-- enough to create a trigger with the function on any table, and types and casts of that table then belong to its
-- owner.
CREATE FUNCTION pawl.fired_by(moments text, relation oid, at text, operation text, level text,
        VARIADIC tables regclass[]) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_fired_by';
COMMENT ON FUNCTION pawl.fired_by(text, oid, text, text, text, regclass[]) IS
'Checks that a trigger function was fired by a table and at a moment that it is made for, and returns true: the first
statement of a trigger function that EXECUTE is granted on. moments: comma-separated, such as AFTER INSERT OR UPDATE
STATEMENT; relation, at, operation, level: TG_RELID, TG_WHEN, TG_OP, TG_LEVEL; tables: those it is made for, with
their partitions. Errors: 39P01 fired otherwise. Privileges: all roles. Example: fired constant boolean :=
pawl.fired_by(''AFTER INSERT STATEMENT'', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, ''public.orders'')';

CREATE FUNCTION pawl.takes_list(relation regclass) RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_takes_list';
COMMENT ON FUNCTION pawl.takes_list(regclass) IS
'Whether the current statement lists several events for rows of a table: by pawl.events, or by pawl.fire. For conditions
of BEFORE UPDATE triggers that look at one transition at a time. relation: the table of the trigger.
Errors: 42704 the table is not enforced. Privileges: all roles. Example: CREATE TRIGGER t BEFORE UPDATE ON orders FOR
EACH ROW WHEN (pawl.takes_list(''orders'')) EXECUTE FUNCTION pawl.one_transition()';

CREATE FUNCTION pawl.one_transition() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_one_transition';
COMMENT ON FUNCTION pawl.one_transition() IS
'trigger BEFORE UPDATE on condition of pawl.takes_list: rejects lists of events; 0A000';

CREATE FUNCTION pawl.restoring() RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_restoring';
COMMENT ON FUNCTION pawl.restoring() IS
'Whether a dump is being loaded: the setting pawl.restoring, as a superuser or a role with SET on it has set it. For
conditions of triggers that a dump must not fire; calling it loads the library, which discards what other roles have
set. Errors: none. Privileges: all roles. Example: CREATE TRIGGER t AFTER INSERT ON orders FOR EACH ROW WHEN (NOT
pawl.restoring()) EXECUTE FUNCTION f()';

CREATE FUNCTION pawl.define(machine text, diagram text, unbound text DEFAULT 'reject') RETURNS integer
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_define';
COMMENT ON FUNCTION pawl.define(text, text, text) IS
'Defines a machine by a Mermaid state diagram and returns its version, counted from 1. An equal diagram returns the
version that exists.
machine: 1 to 63 bytes. diagram: the text of a stateDiagram-v2, also in a Markdown code block. unbound: reject
(default) raises an error for guards and effects that name no function; note keeps them as notes.
Warns of what pawl.check warns of, except dead_end and unreachable_state.
Errors: PW007 the diagram is invalid, with its line and column in DETAIL; 42602 invalid name; 22023 unknown value of
unbound; 22004 null; 42501 another role owns the machine; 54000 the diagram is too large.
Privileges: pawl_admin.
Example: SELECT pawl.define(''order'', ''stateDiagram-v2
[*] --> new
new --> paid : pay
paid --> [*]'')';

CREATE FUNCTION pawl.check(diagram text)
    RETURNS TABLE (severity text, code text, line integer, col integer, message text)
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 10 AS 'MODULE_PATHNAME', 'pawl_check';
COMMENT ON FUNCTION pawl.check(text) IS
'Checks a Mermaid state diagram without defining a machine: errors that pawl.define would raise, and suspicious
constructs.
diagram: its text. Returns one row per finding: severity (error, warning or info), code (a stable name), line and
col (from 1), message. No rows: nothing was found.
Errors: 22004 null; 54000 the diagram is too large. Privileges: all roles.
Example: SELECT severity, line, message FROM pawl.check(''stateDiagram-v2
[*] --> a'')';

CREATE FUNCTION pawl._render(diagram text, format text, name text) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_render';
COMMENT ON FUNCTION pawl._render(text, text, text) IS 'internal: a canonical diagram as mermaid or dot';

CREATE FUNCTION pawl.validate() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_validate';
COMMENT ON FUNCTION pawl.validate() IS 'trigger of an enforced table: may this row move?';
CREATE FUNCTION pawl.validate_insert() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_validate_insert';
COMMENT ON FUNCTION pawl.validate_insert() IS
'trigger of an enforced table with managed columns: sets the timer of a first state';
CREATE FUNCTION pawl.record() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_record';
COMMENT ON FUNCTION pawl.record() IS
'trigger of an enforced table: first states, deletions, moves between partitions, effects';
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
COMMENT ON FUNCTION pawl.invalidate() IS
'trigger of pawl.machine and pawl.binding: every session forgets what it compiled';

CREATE FUNCTION pawl.deferred() RETURNS boolean
LANGUAGE c VOLATILE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_deferred';
COMMENT ON FUNCTION pawl.deferred() IS
'Returns whether the current statement has rows to validate, or effects to run, in its AFTER triggers. It is the
condition of the trigger "!pawl_record_update" and rarely called otherwise.
Errors: none. Privileges: all roles. Example: SELECT pawl.deferred()';

CREATE FUNCTION pawl.fire(relation regclass, key anycompatible, event text DEFAULT NULL, metadata jsonb DEFAULT NULL,
    state_column name DEFAULT NULL, processor text DEFAULT NULL, token bigint DEFAULT NULL, events text[] DEFAULT NULL)
RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_fire';
COMMENT ON FUNCTION pawl.fire(regclass, anycompatible, text, jsonb, name, text, bigint, text[]) IS
'Changes the state of one row by an event and returns the new state.
relation: the enforced table. key: a value, row(a, b) or an array of texts. event: its name. metadata: a JSON value
for the log entry; default pawl.metadata. state_column: null: the only bound column. processor: the acting
processor; default pawl.processor. token: the fencing token that the row must have; default pawl.token. events:
instead of event, 1 to 16 events that the row takes in one write, all or none.
Errors: PW001 the event is not possible in this state; PW003 a guard rejected it, or no attempt is left; PW004 the
processor is not the owner; PW005 the lease has expired or the token is stale; PW008 unknown event; P0002 no such
row; 42704 no binding; 22004 null; 22023 event and events, or no events; 54000 more than 16 events.
Privileges: all roles; needs SELECT and UPDATE on the state column of the table.
Example: SELECT pawl.fire(''orders'', 1, ''pay'', ''{"amount": 10}'')';

CREATE FUNCTION pawl.fire_many(relation regclass, keys anycompatible, event text DEFAULT NULL,
    metadata jsonb DEFAULT NULL,
    state_column name DEFAULT NULL, processor text DEFAULT NULL, tokens bigint[] DEFAULT NULL,
    events text[] DEFAULT NULL)
RETURNS TABLE (key text, ok boolean, from_state text, to_state text, sqlstate text, message text)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_fire_many';
COMMENT ON FUNCTION pawl.fire_many(regclass, anycompatible, text, jsonb, name, text, bigint[], text[]) IS
'Changes the states of many rows by an event, and returns one row per key, in the order of the keys. A row that is
rejected does not prevent the others.
relation: the enforced table. keys: an array, or array[row(a, b), ...]. event: its name. metadata: a JSON value for
the log entries; default pawl.metadata. state_column: null: the only bound column. processor: default
pawl.processor. tokens: the fencing token of each key in the order of the keys; null: none. events: as in pawl.fire.
Returns key (as text), ok, from_state, to_state, and, if not ok, sqlstate and message.
Errors: PW008 unknown event; 42804 keys is not an array; 2202E keys and tokens differ in number; 42704 no binding;
22004 null; 22023 event and events, or no events; 54000 more than 16 events. Errors of single rows are returned, not
raised.
Privileges: all roles; needs SELECT and UPDATE on the state column of the table.
Example: SELECT * FROM pawl.fire_many(''orders'', array[1, 2, 3], ''pay'')';

CREATE FUNCTION pawl.available(relation regclass, key anycompatible, state_column name DEFAULT NULL)
RETURNS TABLE (event text, to_state text, allowed boolean, blocked_by text[], params text[], guards text[],
    notes text[])
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10 AS 'MODULE_PATHNAME', 'pawl_available';
COMMENT ON FUNCTION pawl.available(regclass, anycompatible, name) IS
'Returns the transitions that leave the state of a row, and whether each is allowed to the acting processor
(pawl.processor).
relation: the enforced table. key: a value, row(a, b) or an array of texts. state_column: null: the only bound
column.
Returns event, to_state, allowed, blocked_by (the guards that reject it; pawl.owner, pawl.lease, pawl.token or
pawl.attempts for the checks of ownership), params, guards and notes of its label.
Errors: P0002 no such row; 42704 no binding; 22004 null; what a guard raises. Privileges: all roles; needs SELECT
and UPDATE on the state column of the table.
Example: SELECT event, allowed, blocked_by FROM pawl.available(''orders'', 1)';

CREATE FUNCTION pawl.uuid_v7(at timestamptz DEFAULT pg_catalog.clock_timestamp()) RETURNS uuid
LANGUAGE c VOLATILE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_uuid_v7';
COMMENT ON FUNCTION pawl.uuid_v7(timestamptz) IS
'Returns a UUID of version 7: ordered by time in milliseconds, random below. at: the time, from 1970 to 10889;
default: now.
Errors: 22008 the time is out of range. Privileges: all roles. Example: SELECT pawl.uuid_v7()';

CREATE FUNCTION pawl.backoff(attempts integer, policy jsonb, asked interval DEFAULT NULL) RETURNS interval
LANGUAGE c VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_backoff';
COMMENT ON FUNCTION pawl.backoff(integer, jsonb, interval) IS
'Returns the delay before the next attempt.
attempts: how many were made, 1 or more. policy: {"strategy": "none|linear|exponential|fibonacci", "base": "1 s",
"cap": "60 s", "multiplier": 2, "jitter": 0.1 (a fraction, "none", "full" or "equal"), "max_attempts": 3}; every key
is optional; base and cap are interval texts; the defaults are exponential and the values shown. asked: replaces the
computed delay, limited by the same cap; default null.
Errors: 22023 an invalid policy or attempts; 22007 an invalid interval; 22015 an interval that is too long; 22004
null. Privileges: all roles.
Example: SELECT pawl.backoff(3, ''{"base": "2 s", "jitter": "none"}'')';

CREATE FUNCTION pawl.is_transient(sqlstate text) RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_is_transient';
COMMENT ON FUNCTION pawl.is_transient(text) IS
'Returns whether a statement that failed with this SQLSTATE can succeed when it is repeated unchanged: classes 08
(connection), 40 but 40002 (conflict with another transaction), 53 (memory, disk space or connections), 57P but
57P04 (shutdown), 55P03 (lock not available), 57014 (cancelled or timed out). sqlstate: its five characters.
Errors: none. Privileges: all roles. Example: SELECT pawl.is_transient(''53200'')';

CREATE FUNCTION pawl._key_text(relation regclass, key "any", state_column name) RETURNS text[]
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_key_text';
COMMENT ON FUNCTION pawl._key_text(regclass, "any", name) IS
'internal: the values of a key as text, in the order of binding.key_columns';

CREATE FUNCTION pawl._equality(type oid) RETURNS text
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_equality';
COMMENT ON FUNCTION pawl._equality(oid) IS 'internal: the equality of a type as OPERATOR(schema.=)';

CREATE FUNCTION pawl._remap(relation regclass, state_column name, remap jsonb) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_remap';
COMMENT ON FUNCTION pawl._remap(regclass, name, jsonb) IS
'internal: changes the states of rows as part of pawl.upgrade; owner only';

CREATE FUNCTION pawl._resolve_calls(relation regclass, machine text, version integer, resolved text[]) RETURNS text[]
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_resolve_calls';
COMMENT ON FUNCTION pawl._resolve_calls(regclass, text, integer, text[]) IS
'internal: the functions of guards and effects for a table, for pawl.binding.calls; resolved ones that still exist
stay';

CREATE FUNCTION pawl._guard_functions(relation regclass, machine text, version integer, calls text[] DEFAULT NULL)
    RETURNS SETOF text
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 1 AS 'MODULE_PATHNAME', 'pawl_guard_functions';
COMMENT ON FUNCTION pawl._guard_functions(regclass, text, integer, text[]) IS
'internal: guards and effects without a function f(old row, new row) of this table, or that a binding has lost';

CREATE FUNCTION pawl._tree_change(command pg_ddl_command) RETURNS text
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_tree_change';
COMMENT ON FUNCTION pawl._tree_change(pg_ddl_command) IS
'internal: what a command did: join (ATTACH, INHERIT), leave (DETACH, NO INHERIT), type (of a column), or null';

CREATE FUNCTION pawl._rewritten_columns(command pg_ddl_command, cut boolean) RETURNS text[]
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_rewritten_columns';
COMMENT ON FUNCTION pawl._rewritten_columns(pg_ddl_command, boolean) IS
'internal: the columns that a command computed anew (ALTER COLUMN ... TYPE ... USING, or by a user-defined cast)';

-- Each session keeps compiled machines; these triggers invalidate them. ALWAYS, so that they also fire in a restore
-- that runs as a replica.
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
