-- Claims, leases and timers.

CREATE FUNCTION pawl.claim(target anyelement, event text DEFAULT NULL, processor text DEFAULT NULL,
    lease interval DEFAULT NULL,
    batch integer DEFAULT 1, queue text DEFAULT NULL, state_column name DEFAULT NULL) RETURNS SETOF anyelement
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_claim';
COMMENT ON FUNCTION pawl.claim(anyelement, text, text, interval, integer, text, name) IS
'Claims the next rows of a table for a processor and returns them, in claim order. Rows that other sessions are
claiming are skipped. No rows while the queue is paused.
target: a null of the table''s row type. event: one of the binding''s claim events; default: the only one.
processor: default pawl.processor. lease: its length; default the binding''s lease_time. batch: 1 to 10000; default
1. queue: required if the binding has a queue column. state_column: null: the only bound column.
Errors: 22004 no processor, queue or event given; 22023 not a claim event, a lease that is not positive, or batch
out of range; 55000 no claim events or no queues; PW008 unknown event; 42809 not an enforced table; 42704 no
binding.
Privileges: all roles; needs SELECT and UPDATE on the table.
Example: SELECT * FROM pawl.claim(null::jobs, processor => ''worker 1'', batch => 100)';

CREATE FUNCTION pawl.claim_keys(target anyelement, keys anycompatible, event text DEFAULT NULL,
    processor text DEFAULT NULL,
    lease interval DEFAULT NULL, queue text DEFAULT NULL, state_column name DEFAULT NULL) RETURNS SETOF anyelement
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_claim_keys';
COMMENT ON FUNCTION pawl.claim_keys(anyelement, anycompatible, text, text, interval, text, name) IS
'Claims the rows with the given keys, as pawl.claim claims the next ones, and returns those that it claimed, in the
order of their keys. A row that is not claimable, in another queue, paused, locked or missing is skipped; a row is
claimed once however often its key is given.
target: a null of the table''s row type. keys: as in pawl.fire_many, at most 10000. event, processor, lease, queue,
state_column: as in pawl.claim.
Errors: those of pawl.claim; 22004 keys is null; 22023 more than 10000 keys; 42804 keys is not an array. Privileges:
all roles; needs SELECT and UPDATE on the table.
Example: SELECT * FROM pawl.claim_keys(null::jobs, array[1, 2, 3], processor => ''worker 1'')';

CREATE FUNCTION pawl.heartbeat(relation regclass, processor text DEFAULT NULL, lease interval DEFAULT NULL,
    state_column name DEFAULT NULL)
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_heartbeat';
COMMENT ON FUNCTION pawl.heartbeat(regclass, text, interval, name) IS
'Extends the leases of all rows that a processor owns to now + lease, and returns how many it owns. A lease never
becomes shorter, an expired lease is not extended, and a row that another session is changing is left out.
relation: the enforced table. processor: default pawl.processor. lease: default the binding''s lease_time.
state_column: null: the only bound column.
Errors: 22004 no processor given; 22023 a lease that is not positive; 55000 no leases; 42704 no binding. Privileges:
all roles; needs SELECT and UPDATE on the table.
Example: SELECT pawl.heartbeat(''jobs'', ''worker 1'', ''2 min'')';

CREATE FUNCTION pawl.abandon(relation regclass, processor text DEFAULT NULL, event text DEFAULT NULL,
    metadata jsonb DEFAULT NULL, state_column name DEFAULT NULL) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_abandon';
COMMENT ON FUNCTION pawl.abandon(regclass, text, text, jsonb, name) IS
'Gives up all rows that a processor owns, and returns how many changed their state. For a worker that shuts down.
relation: the enforced table. processor: default pawl.processor. event: default the binding''s on_expiry. metadata:
a JSON value for the log entries. state_column: null: the only bound column.
Errors: 22004 no processor given; 55000 no owner column, or no event given and no on_expiry; PW008 unknown event;
42704 no binding. Privileges: all roles; needs SELECT and UPDATE on the table.
Example: SELECT pawl.abandon(''jobs'', ''worker 1'')';

CREATE FUNCTION pawl.reap(relation regclass DEFAULT NULL, batch integer DEFAULT 1000, state_column name DEFAULT NULL,
    OUT done bigint, OUT next_at timestamptz)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_reap';
COMMENT ON FUNCTION pawl.reap(regclass, integer, name) IS
'Fires the expiry event for rows whose lease has expired, at most one batch for each binding. The log entries name
the lost owner. A duty: call it periodically.
relation: the table; null (default): all that the caller can change. batch: 1 to 10000; default 1000. state_column:
null: the only bound column.
Returns done (rows that changed their state) and next_at (when the next lease expires; null: no leases; a past time:
rows are left, because of the batch, locks or guards).
Errors: 55000 no leases or no on_expiry event; 22023 batch out of range; 42704 no binding. Privileges: all roles;
needs SELECT and UPDATE on the table.
Example: SELECT * FROM pawl.reap(''jobs'')';

CREATE FUNCTION pawl.fire_due(relation regclass DEFAULT NULL, batch integer DEFAULT 1000,
    state_column name DEFAULT NULL, OUT done bigint, OUT next_at timestamptz)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_fire_due';
COMMENT ON FUNCTION pawl.fire_due(regclass, integer, name) IS
'Fires the timers that are due, earliest first, at most one batch for each binding: a row takes the transition with
the shortest "after" of its state. If the state has no timer, the row becomes claimable; if guards reject the
transition, the timer is set again. A duty: call it periodically.
relation: the table; null (default): all that the caller can change. batch: 1 to 10000; default 1000. state_column:
null: the only bound column.
Returns done (rows that it handled) and next_at (when the next timer is due; null: no timers; a past time: rows are
left).
Errors: 55000 no due column; 22023 batch out of range; 42704 no binding. Privileges: all roles; needs SELECT and
UPDATE on the table.
Example: SELECT * FROM pawl.fire_due(''jobs'')';
