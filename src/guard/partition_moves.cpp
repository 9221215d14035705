// May ereport; owns nothing. See partition_moves.hpp.
#include "guard/partition_moves.hpp"

#include "session/statements.hpp"

namespace pawl {

namespace {

// At most one row is between its two halves, because the two events are adjacent in the trigger queue of their query.
// Triggers that fire between them may move rows of their own, so there is one place for each trigger depth.
struct MovingRow {
    MovingRow* outer;
    int depth;
    SubTransactionId subtransaction;
    Member* member;
    HeapTuple tuple;
    TupleDesc descriptor;
    Leaving how;
};

MovingRow* moving = nullptr;  // in the transaction's memory

// The row whose BEFORE UPDATE trigger fired last with a changed partition key. If PostgreSQL moves the row to another
// partition, it inserts it next, in the same command (which is not the current one, if triggers have run commands of
// their own). Users' triggers may insert other rows in between, so the key is compared.
struct LeavingRow {
    int level;
    CommandId command;
    Oid root;
    Datum* key;  // null: there is none
    MemoryContext memory;
};

LeavingRow leaving = {};

// The key; null if a part of it is null, because such rows cannot be told apart.
Datum* key_of(const Binding& binding, const Row& row) {
    auto* key = static_cast<Datum*>(palloc(sizeof(Datum) * Max(binding.nkeys, 1)));
    for (int i = 0; i < binding.nkeys; ++i) {
        bool null;
        Datum value = slot_getattr(row.slot, binding.keys[i].attribute, &null);
        if (null) return nullptr;
        key[i] = datumCopy(value, binding.keys[i].by_value, binding.keys[i].length);
    }
    return key;
}

int trigger_depth() {
    return DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0)));
}

TupleTableSlot* slot_of(const MovingRow& row) {
    TupleTableSlot* slot = MakeSingleTupleTableSlot(row.descriptor, &TTSOpsHeapTuple);
    ExecStoreHeapTuple(row.tuple, slot, false);
    return slot;
}

void release(MovingRow* row) {
    heap_freetuple(row->tuple);
    FreeTupleDesc(row->descriptor);
    pfree(row);
}

void delete_vanished(MovingRow* row) {
    TupleTableSlot* slot = slot_of(*row);
    apply_delete(row->member, {slot, row->tuple}, Ending::deleted, HeapTupleHeaderGetCmax(row->tuple->t_data),
                 row->subtransaction);
    ExecDropSingleTupleTableSlot(slot);
    release(row);
}

void delete_innermost() {
    MovingRow* vanished = moving;
    moving = vanished->outer;
    delete_vanished(vanished);
}

bool share_a_root(const Member* one, const Member* other) {
    for (int i = 0; i < one->nbindings; ++i)
        for (int j = 0; j < other->nbindings; ++j)
            if (one->bindings[i].root == other->bindings[j].root) return true;
    return false;
}

bool same_subject(const Binding& one_of, const Row& one, const Binding& other_of, const Row& other) {
    const Datum* left = key_of(one_of, one);
    const Datum* right = key_of(other_of, other);
    if (left == nullptr || right == nullptr) return false;
    for (int i = 0; i < one_of.nkeys; ++i)
        if (!same_key_value(one_of.keys[i], left[i], right[i])) return false;
    return true;
}

core::StateId state_of(const Binding& binding, const Row& row) {
    bool null;
    Datum value = slot_getattr(row.slot, binding.state, &null);
    return decode_state(binding, value, null);
}

// What a replicated deletion and insertion mean for one binding. either: the state is the same, and a row may end and
// begin in it.
enum class Pair { no_move, either, move };

Pair pair_of(const Binding& before_of, const Row& before, const Binding& after_of, const Row& after) {
    const core::Machine& machine = *after_of.machine->machine;
    const core::StateId from = state_of(before_of, before), to = state_of(after_of, after);
    if (from == core::no_state || to == core::no_state || !same_subject(before_of, before, after_of, after))
        return Pair::no_move;
    if (from != to) return machine.between(from, to).empty() ? Pair::no_move : Pair::move;
    return machine.between(core::no_state, to).empty() || !may_end(before_of, from) ? Pair::move : Pair::either;
}

// A replicated move between partitions arrives as a deletion and an insertion, by one command or two. If the bindings
// do not tell, a row in the same table as before was deleted and inserted again.
bool is_replicated_move(const Member* left, const Row& before, const Member* member, const Row& after) {
    bool move = left->relid != member->relid;
    for (int i = 0; i < left->nbindings; ++i)
        for (int j = 0; j < member->nbindings; ++j) {
            const Binding &before_of = left->bindings[i], &after_of = member->bindings[j];
            if (before_of.root != after_of.root || strcmp(NameStr(before_of.column), NameStr(after_of.column)) != 0)
                continue;
            const Pair pair = pair_of(before_of, before, after_of, after);
            if (pair == Pair::no_move) return false;
            move |= pair == Pair::move;
        }
    return move;
}

// Both halves are made by one command, within one partition tree. Any other insertion is a new row, and the first row
// has vanished.
bool is_other_half(const MovingRow& left, const Member* member, const Row& row) {
    if (!share_a_root(left.member, member)) return false;
    if (left.how == Leaving::by_update)
        return HeapTupleHeaderGetCmin(row.tuple->t_data) == HeapTupleHeaderGetCmax(left.tuple->t_data);
    if (left.subtransaction != GetCurrentSubTransactionId())
        return false;  // only one of the two is in a subtransaction that may be rolled back
    TupleTableSlot* slot = slot_of(left);
    const bool move = is_replicated_move(left.member, {slot, left.tuple}, member, row);
    ExecDropSingleTupleTableSlot(slot);
    return move;
}

}  // namespace

void row_leaves(Member* member, const Row& row, Leaving how) {
    const int depth = trigger_depth();
    if (moving != nullptr && moving->depth >= depth) delete_innermost();
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    auto* leaving = static_cast<MovingRow*>(palloc(sizeof(MovingRow)));
    *leaving = {moving,
                depth,
                GetCurrentSubTransactionId(),
                member,
                heap_copytuple(row.tuple),
                CreateTupleDescCopy(row.slot->tts_tupleDescriptor),
                how};
    moving = leaving;
    MemoryContextSwitchTo(caller);
}

bool row_arrives(Member* member, const Row& row) {
    if (moving == nullptr || moving->depth != trigger_depth()) return false;
    if (!is_other_half(*moving, member, row)) {
        delete_innermost();
        return false;
    }
    MovingRow* arriving = moving;
    moving = arriving->outer;
    TupleTableSlot* slot = slot_of(*arriving);
    apply_partition_move(arriving->member, {slot, arriving->tuple}, member, row);
    ExecDropSingleTupleTableSlot(slot);
    release(arriving);
    return true;
}

void delete_vanished_rows() {
    while (moving != nullptr && moving->depth > trigger_depth()) delete_innermost();
}

void row_may_move(const Member* member, const Row& row) {
    leaving.level = executor_level;
    leaving.command = running_command();
    leaving.root = member->bindings[0].root;
    if (leaving.memory == nullptr)
        leaving.memory = AllocSetContextCreate(TopMemoryContext, "pawl moving row", ALLOCSET_SMALL_SIZES);
    MemoryContextReset(leaving.memory);
    MemoryContext caller = MemoryContextSwitchTo(leaving.memory);
    leaving.key = key_of(member->bindings[0], row);
    MemoryContextSwitchTo(caller);
}

bool row_is_moving(const Member* member, const Row& row) {
    if (leaving.key == nullptr || leaving.level != executor_level || leaving.command != running_command()) return false;
    const Binding& binding = member->bindings[0];
    const Datum* key = binding.root == leaving.root ? key_of(binding, row) : nullptr;
    if (key == nullptr) return false;
    for (int i = 0; i < binding.nkeys; ++i)
        if (!same_key_value(binding.keys[i], leaving.key[i], key[i])) return false;
    return true;
}

void forget_partition_moves() noexcept {
    moving = nullptr;
    leaving.key = nullptr;
}

void reassign_partition_moves(SubTransactionId mine, SubTransactionId parent) noexcept {
    for (MovingRow* row = moving; row != nullptr; row = row->outer)
        if (row->subtransaction == mine) row->subtransaction = parent;
}

void drop_partition_moves_of(SubTransactionId subtransaction) noexcept {
    while (moving != nullptr && moving->subtransaction >= subtransaction) moving = moving->outer;
}

}  // namespace pawl
