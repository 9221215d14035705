// May ereport; owns nothing. See index_choice.hpp.
#include "fire/index_choice.hpp"

extern "C" {
#include "nodes/pathnodes.h"
#include "optimizer/plancat.h"
}

namespace pawl {

namespace {

const Binding* chosen = nullptr;
Order chosen_order = Order::of_index;
get_relation_info_hook_type next_relation_info = nullptr;

struct Columns {
    AttrNumber numbers[INDEX_MAX_KEYS];
    int n;
    bool missing;

    // A column counts where it comes first.
    void add(Oid relation, const char* name) {
        const AttrNumber number = get_attnum(relation, name);
        missing |= number == InvalidAttrNumber || n == INDEX_MAX_KEYS;
        for (int i = 0; i < n; ++i)
            if (numbers[i] == number) return;
        if (!missing) numbers[n++] = number;
    }
};

// What the index of the order consists of, in a table of the tree.
Columns columns_in(Oid relation) {
    const Managed& managed = *chosen->managed;
    Columns columns = {};
    if (chosen_order == Order::of_leases) {
        columns.add(relation, NameStr(managed.owner.name));
        if (managed.lease.kept()) columns.add(relation, NameStr(managed.lease.name));
        return columns;
    }
    if (chosen_order == Order::of_timers) columns.add(relation, NameStr(managed.due.name));
    if (chosen_order == Order::of_claims && managed.queue.kept()) columns.add(relation, NameStr(managed.queue.name));
    for (int i = 0; chosen_order == Order::of_claims && i < managed.claim_columns.n; ++i)
        columns.add(relation, managed.claim_columns.items[i]);
    for (int i = 0; i < chosen->nkeys; ++i) columns.add(relation, NameStr(chosen->keys[i].name));
    return columns;
}

bool fits(const IndexOptInfo* index, const Columns& columns) {
    if (index->indpred == NIL || index->nkeycolumns != columns.n) return false;
    for (int i = 0; i < columns.n; ++i)
        if (index->indexkeys[i] != columns.numbers[i]) return false;
    return true;
}

void relation_info(PlannerInfo* root, Oid relation, bool is_parent, RelOptInfo* info) {
    if (next_relation_info != nullptr) next_relation_info(root, relation, is_parent, info);
    if (chosen == nullptr || info->indexlist == NIL || relation == chosen->locked_after) return;
    const Columns columns = columns_in(relation);
    if (columns.missing) return;
    List* ours = NIL;
    ListCell* cell;
    foreach (cell, info->indexlist)
        if (fits(lfirst_node(IndexOptInfo, cell), columns)) ours = lappend(ours, lfirst(cell));
    if (ours != NIL) info->indexlist = ours;
}

}  // namespace

void choose_index(const Binding* binding, Order order) noexcept {
    chosen = order == Order::of_index || order == Order::sorted ? nullptr : binding;
    chosen_order = order;
}

void register_index_choice() {
    next_relation_info = get_relation_info_hook;
    get_relation_info_hook = relation_info;
}

}  // namespace pawl
