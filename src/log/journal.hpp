// May ereport; owns nothing. The journal: hops on their way into the logs.
#pragma once

#include "catalog/state_change.hpp"
#include "session/context.hpp"

namespace pawl {

// Whether state changes of the attachment are written anywhere by this session: to a log, or to the outbox.
bool keeps_record(const Attachment& attachment);

// Puts a hop in the journal; the key is read from the slot. `said`: what the caller of a function says over the settings; may be null.
void record_hop(const Attachment& attachment, TupleTableSlot* row, const Verdict& verdict, const Said* said);

// The same hop, made in a memory context and not put in the journal.
Hop* make_hop_in(MemoryContext context, const Attachment& attachment, TupleTableSlot* row, const Verdict& verdict, const Said* said);

// Writes what is waiting. `all`: hops that still wait for a predecessor too (before the transaction ends).
void write_journal(bool all);
bool journal_is_empty() noexcept;
bool journal_is_writing() noexcept;

void forget_journal() noexcept;                                           // end of transaction
void drop_hops_of(SubTransactionId subtransaction) noexcept;              // rolled back
void reassign_hops(SubTransactionId from, SubTransactionId to) noexcept;  // committed into its parent

}  // namespace pawl
