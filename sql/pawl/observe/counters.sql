-- Counters of moves and refusals, in the server's memory.

CREATE FUNCTION pawl.counters()
RETURNS TABLE (kind text, machine text, machine_version integer, from_state text, to_state text, event text, sqlstate text, roles text[],
    count bigint, timed bigint, seconds double precision, buckets bigint[])
LANGUAGE c VOLATILE PARALLEL RESTRICTED STRICT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_counters';
COMMENT ON FUNCTION pawl.counters() IS
'what was counted in this database since pawl.counted_since(): committed moves by machine and arrow (kind move), refusals by machine and SQLSTATE of class PW (kind refusal), which count also where the transaction went on. roles: claim, completion (left the owned states), lapse (lost its lease), operator, retry, timer. timed, seconds, buckets: of moves that have an entry before them in a log, how long their rows were in the state they left; buckets by pawl.counter_bounds(), not cumulative. A row with neither a machine nor a SQLSTATE counts what had no room, in all databases. No rows where pawl is not loaded with the server';

CREATE FUNCTION pawl.counter_bounds() RETURNS double precision[]
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_counter_bounds';
COMMENT ON FUNCTION pawl.counter_bounds() IS 'the upper bounds, in seconds, of the buckets of pawl.counters(); the last bucket has none';

CREATE FUNCTION pawl.counted_since() RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_counted_since';
COMMENT ON FUNCTION pawl.counted_since() IS
'when pawl.counters() of this database began at zero: the start of the server or pawl.reset_counters(); null where pawl is not in shared_preload_libraries, so that nothing is counted';

CREATE FUNCTION pawl.reset_counters() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_reset_counters';
COMMENT ON FUNCTION pawl.reset_counters() IS 'sets the counters of this database to zero. 55000: nothing is counted';

CREATE FUNCTION pawl._count_refusal(code text) RETURNS void
LANGUAGE c VOLATILE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_count_refusal';
COMMENT ON FUNCTION pawl._count_refusal(text) IS 'internal: counts a refusal that SQL raises';
