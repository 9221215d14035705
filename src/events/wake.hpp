// May ereport; owns nothing. Wake-ups: a session without work may wait until a transaction commits that brings work.
//
// The state is kept in the server's lock table, so that no shared memory is needed. Each channel has three locks:
// asleep: every waiter holds it in share mode, for its session. A transaction that brings work asks for it in
// row-exclusive mode when it commits. If the lock is granted, no session waits, and a session that begins to wait must
// wait for the end of this transaction before it looks for work.
// in_flight: transactions that commit while a session waits hold it. A session that begins to wait also waits for them.
// notifier: one of these transactions holds it and notifies; the others leave the notification to it. Thus commits do
// not queue up behind each other.
#pragma once

#include "catalog/member_cache.hpp"
#include "pg/postgres.hpp"

namespace pawl {

// The channel of the outbox. The channel of a table is the OID of its root.
inline constexpr Oid events_channel = InvalidOid;

// There is new work: the waiters of this channel are woken when the transaction commits.
void note_wake(Oid channel);

// The same, if a row that enters this state may be claimed there.
void note_claimable(const Binding& binding, const text* state);

// A prepared transaction commits. What work it brought is not known, so all waiters of this database are woken.
void note_prepared_work();

// Must be called before the commit: notifies where sessions wait, at most once a channel.
void wake_waiters();

void forget_wakes() noexcept;                                              // end of transaction
void drop_wakes_of(SubTransactionId subtransaction) noexcept;              // rolled back
void reassign_wakes(SubTransactionId from, SubTransactionId to) noexcept;  // committed into its parent

}  // namespace pawl
