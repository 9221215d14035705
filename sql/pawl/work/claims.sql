-- Taking work, keeping it, giving it up: the functions that claims, leases and timers are driven by.

CREATE FUNCTION pawl.claim(target anyelement, event text DEFAULT NULL, processor text DEFAULT NULL, lease interval DEFAULT NULL,
    batch integer DEFAULT 1, queue text DEFAULT NULL, state_column name DEFAULT NULL) RETURNS SETOF anyelement
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_claim';
COMMENT ON FUNCTION pawl.claim(anyelement, text, text, interval, integer, text, name) IS
'takes the next rows of a table for a processor and returns them as they then are, in claim order: select * from pawl.claim(null::jobs, batch => 100). Rows that others are taking are passed over. event: one of the binding''s claim events; processor: default pawl.processor; lease: default the binding''s lease_time; batch: 1 to 10,000; queue: needed where the table has queues. None are returned while the queue is paused. 22004: no processor or queue named; 22023: not a claim event; 55000: the lifecycle has no claims';

CREATE FUNCTION pawl.claim_keys(target anyelement, keys "any", event text DEFAULT NULL, processor text DEFAULT NULL, lease interval DEFAULT NULL,
    queue text DEFAULT NULL, state_column name DEFAULT NULL) RETURNS SETOF anyelement
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_claim_keys';
COMMENT ON FUNCTION pawl.claim_keys(anyelement, "any", text, text, interval, text, name) IS
'takes rows that are named, as pawl.claim takes the next ones: select * from pawl.claim_keys(null::jobs, array[1, 2, 3]); for somebody who was told of them by a message. Returned are those that could be taken, in the order of their keys; a row that is taken already, is not claimable, lies in another queue, waits, is paused or locked by others, or is not there, is passed over, so who is told twice takes once. keys: as in pawl.fire_many; the other arguments are those of pawl.claim. 22004: keys is null; 22023: more than 10,000 keys; 42804: they are no array; and the errors of pawl.claim';

CREATE FUNCTION pawl.heartbeat(relation regclass, processor text DEFAULT NULL, lease interval DEFAULT NULL, state_column name DEFAULT NULL)
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_heartbeat';
COMMENT ON FUNCTION pawl.heartbeat(regclass, text, interval, name) IS
'extends the leases of all rows that a processor holds, to now + lease (default: the binding''s lease_time), and returns how many it holds. No lease becomes shorter. One that has run out is lost and stays so; a row that is being moved at this moment is left out';

CREATE FUNCTION pawl.abandon(relation regclass, processor text DEFAULT NULL, event text DEFAULT NULL, metadata jsonb DEFAULT NULL,
    state_column name DEFAULT NULL) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_abandon';
COMMENT ON FUNCTION pawl.abandon(regclass, text, text, jsonb, name) IS
'gives up all rows that a processor holds, by an event (default: the one that lost leases fire), and returns how many moved. For a worker that ends in good order';

CREATE FUNCTION pawl.reap(relation regclass DEFAULT NULL, batch integer DEFAULT 1000, state_column name DEFAULT NULL,
    OUT done bigint, OUT next_at timestamptz)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_reap';
COMMENT ON FUNCTION pawl.reap(regclass, integer, name) IS
'takes rows whose lease has run out from their owners, by the event that the lifecycle names for it, at most batch rows a lifecycle; of all lifecycles that the caller may write when no table is given. Returns how many rows moved, and when the next lease ends (null: there is none; a time that is past: rows are left, more than the batch, locked by others, or kept by guards). The log says who lost the row. 55000: the lifecycle has no leases, or no event for lost ones';

CREATE FUNCTION pawl.fire_due(relation regclass DEFAULT NULL, batch integer DEFAULT 1000, state_column name DEFAULT NULL,
    OUT done bigint, OUT next_at timestamptz)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_fire_due';
COMMENT ON FUNCTION pawl.fire_due(regclass, integer, name) IS
'fires the timers that have run down, the earliest first, at most batch rows a lifecycle: a row takes the arrow with the shortest "after" of its state; where the state has no timer, the row becomes claimable; where the guards say no, the timer is set anew. Returns how many rows it saw to, and when the next timer runs down (null: there is none; a time that is past: rows are left). 55000: the lifecycle has no timers';
