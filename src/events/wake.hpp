// May ereport; owns nothing. Wake-ups: who has nothing to do may sleep until a transaction commits that brings work.
//
// Everything is told by locks in the server's lock table, three for each channel, so that it needs no shared memory of
// its own:
//   asleep     held in share mode, by the session, by whoever sleeps. A transaction that brings work asks for it in
//   row-exclusive mode as it
//              commits: granted, nobody sleeps, and whoever is about to must wait for the end of this transaction
//              before he looks for work.
//   in_flight  held by transactions that commit while somebody sleeps; who goes to sleep waits for them too.
//   notifier   held by the one of these that notifies; the others leave it to him. So commits are not lined up behind
//   each other.
#pragma once

#include "catalog/member_cache.hpp"
#include "pg/postgres.hpp"

namespace pawl {

// The channel of the outbox; that of a table is its root's OID.
inline constexpr Oid events_channel = InvalidOid;

// Something to do has come up: whoever sleeps at this channel is woken when the transaction commits.
void note_wake(Oid channel);

// The same, if a row that enters this state may be claimed there.
void note_claimable(const Binding& binding, const text* state);

// A prepared transaction commits: nothing says here what it brought, so all who sleep in this database are woken.
void note_prepared_work();

// Before the commit: notifies where somebody sleeps, at most once a channel.
void wake_waiters();

void forget_wakes() noexcept;                                              // end of transaction
void drop_wakes_of(SubTransactionId subtransaction) noexcept;              // rolled back
void reassign_wakes(SubTransactionId from, SubTransactionId to) noexcept;  // committed into its parent

}  // namespace pawl
