-- Advisory locks of pawl. Those of PostgreSQL belong to no role, so any session could make others wait for them; these
-- are in the same lock table, and only roles that can execute the functions acquire them.

CREATE FUNCTION pawl.acquire_lock(number bigint, shared boolean DEFAULT false, wait boolean DEFAULT true)
    RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_acquire_lock';
COMMENT ON FUNCTION pawl.acquire_lock(bigint, boolean, boolean) IS
'Acquires a lock on a number until the transaction ends, as pg_advisory_xact_lock does, but apart from its locks: only
roles of pawl can acquire it. pg_locks shows it as an advisory lock with objsubid 7104, its number in classid (the
upper half) and objid. Returns whether it was acquired.
number: any, of the current database. shared: with others that share it; default false. wait: false: returns false
if it is not free; default true.
Errors: 22004 null; 40P01 deadlock; 55P03 lock_timeout. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl.acquire_lock(hashtextextended(''my import'', 0))';

CREATE FUNCTION pawl.acquire_session_lock(number bigint) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_acquire_session_lock';
COMMENT ON FUNCTION pawl.acquire_session_lock(bigint) IS
'Acquires the lock of pawl.acquire_lock until the session ends, or pg_advisory_unlock_all or DISCARD ALL is called,
if it is free. Returns whether it was acquired. Not behind a pooler in transaction mode. number: any, of the current
database.
Errors: 22004 null. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl.acquire_session_lock(17)';

CREATE FUNCTION pawl.release_session_lock(number bigint) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_release_session_lock';
COMMENT ON FUNCTION pawl.release_session_lock(bigint) IS
'Releases what pawl.acquire_session_lock has acquired, once. Returns whether this session had it; if not, with a
warning. number: of the lock.
Errors: 22004 null. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl.release_session_lock(17)';

CREATE FUNCTION pawl._lock_upkeep(log regclass) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_lock_upkeep';
COMMENT ON FUNCTION pawl._lock_upkeep(regclass) IS
'internal: sessions that prune or extend a log do so one at a time; 42501: not its owner';

-- Serializes requests about a table, so that the later one finds the earlier one.
CREATE FUNCTION pawl._wait_turn(requests regclass, target regclass) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT pawl.acquire_lock(requests::oid::bigint << 32 | target::oid::bigint)
$function$;
COMMENT ON FUNCTION pawl._wait_turn(regclass, regclass) IS
'internal: requests of a kind about a table are made one at a time';
