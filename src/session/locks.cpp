// May throw and may ereport. pawl.acquire_lock and its kind: advisory locks that SQL's own functions cannot acquire, so
// that only roles with EXECUTE on these can make others wait for them.
#include "pg/arguments.hpp"

extern "C" {
#include "miscadmin.h"
#include "storage/lock.h"
}

namespace pawl {

namespace {

// Advisory locks differ by their last number; the functions of SQL use 1 and 2, waiters (events/wake) 7101 to 7103.
enum LockClass : uint16 { of_numbers = 7104, of_logs };

LOCKTAG lock_tag(uint64 number, LockClass which) {
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(number >> 32), static_cast<uint32>(number), which);
    return tag;
}

bool acquire(uint64 number, LockClass which, LOCKMODE mode, bool for_session, bool wait) {
    const LOCKTAG tag = lock_tag(number, which);
    return LockAcquire(&tag, mode, for_session, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

uint64 number_argument(FunctionCallInfo fcinfo) {
    pg::require(fcinfo, 0, "number");
    return static_cast<uint64>(PG_GETARG_INT64(0));
}

}  // namespace

// pawl.acquire_lock(number, shared, wait)
PAWL_FUNCTION(pawl_acquire_lock) {
    const uint64 number = number_argument(fcinfo);
    pg::require(fcinfo, 1, "shared");
    pg::require(fcinfo, 2, "wait");
    const LOCKMODE mode = PG_GETARG_BOOL(1) ? ShareLock : ExclusiveLock;
    const bool wait = PG_GETARG_BOOL(2);
    return pg::call([&] { return BoolGetDatum(acquire(number, of_numbers, mode, false, wait)); });
}

// pawl.acquire_session_lock(number)
PAWL_FUNCTION(pawl_acquire_session_lock) {
    const uint64 number = number_argument(fcinfo);
    return pg::call([&] { return BoolGetDatum(acquire(number, of_numbers, ExclusiveLock, true, false)); });
}

// pawl.release_session_lock(number)
PAWL_FUNCTION(pawl_release_session_lock) {
    const LOCKTAG tag = lock_tag(number_argument(fcinfo), of_numbers);
    return pg::call([&] { return BoolGetDatum(LockRelease(&tag, ExclusiveLock, true)); });
}

// pawl._lock_upkeep(log): of the sessions that prune or extend a log, one at a time.
PAWL_FUNCTION(pawl_lock_upkeep) {
    const Oid log = PG_GETARG_OID(0);
    pg::call([&] {
        if (!pg::owns_relation(log, GetUserId())) aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(log));
        acquire(log, of_logs, ExclusiveLock, false, true);
    });
    return static_cast<Datum>(0);
}

}  // namespace pawl
