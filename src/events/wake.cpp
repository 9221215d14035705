// May throw and may ereport. See wake.hpp.
#include "events/wake.hpp"

#include "pg/arguments.hpp"
#include "pg/spi.hpp"

extern "C" {
#include "commands/async.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
}

namespace pawl {

namespace {

// Advisory locks differ by their last number; the functions of SQL use 1 and 2.
enum LockClass : uint16 { waiting = 7101, in_flight, notifier };

struct Wake {
    Wake* next;
    Oid channel;
    SubTransactionId subtransaction;
};

Wake* wakes = nullptr;  // in the transaction's memory; each channel once

LOCKTAG lock_tag(Oid channel, LockClass which) {
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, channel, 0, which);
    return tag;
}

struct ChannelName {
    char text[NAMEDATALEN];
};

ChannelName channel_name(Oid channel) {
    ChannelName name;
    if (channel == events_channel)
        strlcpy(name.text, "pawl_events", sizeof(name.text));
    else
        pg_snprintf(name.text, sizeof(name.text), "pawl_%u", channel);
    return name;
}

bool lock_if_free(Oid channel, LockClass which, LOCKMODE mode) {
    const LOCKTAG tag = lock_tag(channel, which);
    return LockAcquire(&tag, mode, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

// Whether another transaction that is committing also notifies for this one: a session that it wakes waits for this
// transaction before it waits again. If the other failed at the last moment no session would be woken, so serializable
// transactions, which often fail there, do not stand in for others.
bool another_notifies(Oid channel) {
    if (!lock_if_free(channel, in_flight, RowExclusiveLock))
        return false;  // a session begins to wait, and may not see this transaction's work
    return !IsolationIsSerializable() && !lock_if_free(channel, notifier, ExclusiveLock);
}

bool holds_asleep(Oid channel) {
    const LOCKTAG tag = lock_tag(channel, waiting);
    return pg::holds_lock(&tag, ShareLock);
}

bool listens(Oid channel) {
    static SPIPlanPtr plan = nullptr;
    SPI_connect();
    if (plan == nullptr) {
        const Oid type = TEXTOID;
        SPIPlanPtr made =
            pg::prepare("SELECT FROM pg_catalog.pg_listening_channels() c WHERE c OPERATOR(pg_catalog.=) $1", 1, &type);
        SPI_keepplan(made);
        plan = made;
    }
    Datum name = CStringGetTextDatum(channel_name(channel).text);
    if (SPI_execute_plan(plan, &name, nullptr, true, 1) != SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not look for the channels of this session")));
    const bool found = SPI_processed > 0;
    SPI_finish();
    return found;
}

void fall_asleep(Oid channel) {
    const LOCKTAG tag = lock_tag(channel, waiting);
    if (LockAcquire(&tag, ShareLock, true, false) == LOCKACQUIRE_ALREADY_HELD) LockRelease(&tag, ShareLock, true);
    const LOCKTAG flight = lock_tag(channel, in_flight);
    if (listens(channel)) {
        // Transactions in flight may rely on a notification that has already been delivered. Later transactions are not
        // blocked.
        WaitForLockers(flight, ShareLock, false);
    } else {
        // Until this transaction ends and its LISTEN takes effect, every commit is to notify for itself.
        LockAcquire(&flight, ShareLock, false, false);
        Async_Listen(channel_name(channel).text);
    }
}

// The root of an enforced table, if state changes of its rows wake sessions. Without a relation: the outbox.
Oid find_channel(FunctionCallInfo fcinfo, bool must_wake) {
    if (PG_ARGISNULL(0)) return events_channel;
    Relation relation = pg::call([&] {
        Relation opened = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
        if (opened == nullptr)
            ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                            errmsg("relation with OID %u does not exist", PG_GETARG_OID(0))));
        return opened;
    });
    const Member* member = find_member(relation);
    bool wakes = false;
    for (int i = 0; i < member->nbindings; ++i) wakes |= member->bindings[i].wake;
    const Oid root = member->bindings[0].root;
    const std::string name = RelationGetRelationName(relation);
    pg::call([&] { relation_close(relation, AccessShareLock); });
    if (must_wake && !wakes)
        throw pg::Failure(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                          "wake-ups are not enabled for table \"" + name + "\"", "Its bindings have wake => false.",
                          "Enable them with wake => true, or poll for work.");
    return root;
}

}  // namespace

void note_wake(Oid channel) {
    for (const Wake* wake = wakes; wake != nullptr; wake = wake->next)
        if (wake->channel == channel) return;
    auto* wake = static_cast<Wake*>(MemoryContextAllocZero(TopTransactionContext, sizeof(Wake)));
    wake->channel = channel;
    wake->subtransaction = GetCurrentSubTransactionId();
    wake->next = wakes;
    wakes = wake;
}

void note_claimable(const Binding& binding, const text* state) {
    if (state == nullptr || SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA) return;
    const core::StateId id = binding.machine->machine->find(view(state));
    if (id != core::no_state && binding.claimable[id]) note_wake(binding.root);
}

void note_prepared_work() {
    const LockData* locks = GetLockStatusData();
    for (int i = 0; i < locks->nelements; ++i) {
        const LOCKTAG& tag = locks->locks[i].locktag;
        if (tag.locktag_type == LOCKTAG_ADVISORY && tag.locktag_field1 == MyDatabaseId && tag.locktag_field4 == waiting)
            note_wake(tag.locktag_field2);
    }
}

void wake_waiters() {
    for (const Wake* wake = wakes; wake != nullptr; wake = wake->next)
        if (!lock_if_free(wake->channel, waiting, RowExclusiveLock) && !another_notifies(wake->channel))
            Async_Notify(channel_name(wake->channel).text, "");
}

void forget_wakes() noexcept {
    wakes = nullptr;
}

void drop_wakes_of(SubTransactionId subtransaction) noexcept {
    while (wakes != nullptr && wakes->subtransaction >= subtransaction) wakes = wakes->next;
}

void reassign_wakes(SubTransactionId from, SubTransactionId to) noexcept {
    for (Wake* wake = wakes; wake != nullptr && wake->subtransaction == from; wake = wake->next)
        wake->subtransaction = to;
}

PAWL_FUNCTION(pawl_channel) {
    const Oid channel = find_channel(fcinfo, false);
    return pg::call([&] { return PointerGetDatum(cstring_to_text(channel_name(channel).text)); });
}

PAWL_FUNCTION(pawl_wake) {
    const Oid channel = find_channel(fcinfo, false);
    pg::call([&] { note_wake(channel); });
    PG_RETURN_VOID();
}

PAWL_FUNCTION(pawl_sleep) {
    const Oid channel = find_channel(fcinfo, true);
    return pg::call([&] {
        fall_asleep(channel);
        return PointerGetDatum(cstring_to_text(channel_name(channel).text));
    });
}

PAWL_FUNCTION(pawl_awake) {
    const Oid channel = find_channel(fcinfo, false);
    const bool slept = holds_asleep(channel);
    if (slept)
        pg::call([&] {
            const LOCKTAG tag = lock_tag(channel, waiting);
            LockRelease(&tag, ShareLock, true);
        });
    return BoolGetDatum(slept);
}

}  // namespace pawl
