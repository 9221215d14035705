-- Counters of state changes and rejections, in the server's memory.

CREATE FUNCTION pawl.counters()
RETURNS TABLE (kind text, machine text, machine_version integer, from_state text, to_state text, event text,
    sqlstate text, roles text[], count bigint, timed bigint, seconds double precision, buckets bigint[])
LANGUAGE c VOLATILE PARALLEL RESTRICTED STRICT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_counters';
COMMENT ON FUNCTION pawl.counters() IS
'Returns what was counted in this database since pawl.counted_since(). No rows without pawl in
shared_preload_libraries.
Returns kind (transition: committed state changes; rejection: errors of class PW, also of transactions that
continued), machine, machine_version, from_state, to_state, event, sqlstate (of rejections), roles (claim,
completion, expiry, operator, retry, timer), count; and of state changes that follow another log entry timed (how
many), seconds (the sum of the time in from_state) and buckets (their histogram by pawl.counter_bounds(), not
cumulative). A row without machine and sqlstate counts what exceeded pawl.counter_slots, in all databases.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT machine, event, sum(count) FROM pawl.counters() WHERE kind = ''transition'' GROUP BY 1, 2';

CREATE FUNCTION pawl.counter_bounds() RETURNS double precision[]
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_counter_bounds';
COMMENT ON FUNCTION pawl.counter_bounds() IS
'Returns the upper bounds, in seconds, of the buckets of pawl.counters(); the last bucket has none.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT pawl.counter_bounds()';

CREATE FUNCTION pawl.counted_since() RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_counted_since';
COMMENT ON FUNCTION pawl.counted_since() IS
'Returns when the counters of this database were last zero: at the start of the server or at pawl.reset_counters().
Null without pawl in shared_preload_libraries.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT pawl.counted_since()';

CREATE FUNCTION pawl.reset_counters() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_reset_counters';
COMMENT ON FUNCTION pawl.reset_counters() IS
'Sets the counters of this database to zero.
Errors: 55000 pawl is not in shared_preload_libraries. Privileges: pawl_admin, pawl_operator. Example: SELECT
pawl.reset_counters()';
