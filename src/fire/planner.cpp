// May ereport; owns nothing. See planner.hpp.
#include "fire/planner.hpp"

#include "fire/pack_tables.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "utils/array.h"
#include "utils/inval.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
}

namespace pawl {

namespace {

// The planner would at times rather walk the primary key, because what equals a constant needs no order, and read all
// of the table that lies behind a row.
KeptStatement chosen = {};

get_relation_info_hook_type next_relation_info = nullptr;
get_relation_stats_hook_type next_relation_statistics = nullptr;
get_index_stats_hook_type next_index_statistics = nullptr;
planner_hook_type next_planner = nullptr;

struct Columns {
    AttrNumber numbers[INDEX_MAX_KEYS];
    int n;
    bool missing;

    void add(Oid relation, const char* name) {
        const AttrNumber number = get_attnum(relation, name);
        missing |= number == InvalidAttrNumber || n == INDEX_MAX_KEYS;
        for (int i = 0; i < n; ++i)
            if (numbers[i] == number) return;
        if (!missing) numbers[n++] = number;
    }
};

// The columns of the index for the order, in a table of the tree. A column that comes twice counts at its first place.
Columns columns_in(Oid relation) {
    const Managed* managed = chosen.binding->managed;  // only a binding without managed columns has none
    Columns columns = {};
    if (chosen.order == Order::of_leases) {
        columns.add(relation, NameStr(managed->owner.name));
        if (managed->lease.kept()) columns.add(relation, NameStr(managed->lease.name));
        return columns;
    }
    if (chosen.order == Order::of_timers) columns.add(relation, NameStr(managed->due.name));
    if (chosen.order == Order::of_claims && managed->queue.kept()) columns.add(relation, NameStr(managed->queue.name));
    for (int i = 0; chosen.order == Order::of_claims && i < managed->claim_columns.n; ++i)
        columns.add(relation, managed->claim_columns.items[i]);
    for (int i = 0; i < chosen.binding->nkeys; ++i) columns.add(relation, NameStr(chosen.binding->keys[i].name));
    return columns;
}

bool fits(const IndexOptInfo* index, const Columns& columns) {
    if (index->indpred == NIL || index->nkeycolumns != columns.n) return false;
    for (int i = 0; i < columns.n; ++i)
        if (index->indexkeys[i] != columns.numbers[i]) return false;
    return true;
}

// Whether equality of the key, by the operators and collations of its columns, is what the index is unique by.
bool is_of_key(Relation index, Relation table, const Binding& binding) {
    const FormData_pg_index* form = index->rd_index;
    if (!form->indisvalid || !form->indisunique || form->indnkeyatts != binding.nkeys ||
        index->rd_rel->relam != BTREE_AM_OID || RelationGetIndexPredicate(index) != NIL)
        return false;
    for (int i = 0; i < binding.nkeys; ++i) {
        const AttrNumber column = form->indkey.values[i];
        bool of_key = false;
        for (int j = 0; j < binding.nkeys; ++j)
            of_key |= column == get_attnum(RelationGetRelid(table), NameStr(binding.keys[j].name));
        if (!of_key || column <= 0) return false;
        const FormData_pg_attribute* attribute = TupleDescAttr(RelationGetDescr(table), column - 1);
        const Oid operators = GetDefaultOpClass(getBaseType(attribute->atttypid), BTREE_AM_OID);
        if (index->rd_indcollation[i] != attribute->attcollation || !OidIsValid(operators) ||
            index->rd_opfamily[i] != get_opclass_family(operators))
            return false;
    }
    return true;
}

// Plans are kept while tables grow, and a plan that was made for a small one would walk all of it for a few rows.
bool is_planned_as_large(const PlannerInfo* root, Oid relation) {
    return chosen.binding != nullptr || looks_up_keys_of_pack(root, relation);
}

// A partial index counts as one of few rows. Parallel workers cost milliseconds, and tables of packs may be small.
void enlarge(RelOptInfo* info) {
    const double rows = chosen.binding != nullptr ? 1e7 : 1e5;
    const BlockNumber pages = chosen.binding != nullptr ? 200000 : 1000;
    info->tuples = Max(info->tuples, rows);
    info->pages = Max(info->pages, pages);
    if (chosen.binding == nullptr) info->rel_parallel_workers = 0;
    ListCell* cell;
    foreach (cell, info->indexlist) {
        auto* index = lfirst_node(IndexOptInfo, cell);
        const int part = index->indpred == NIL ? 1 : 20;
        index->tuples = Max(index->tuples, rows / part);
        index->pages = Max(index->pages, pages / 4 / part);
    }
}

void relation_info(PlannerInfo* root, Oid relation, bool is_parent, RelOptInfo* info) {
    if (next_relation_info != nullptr) next_relation_info(root, relation, is_parent, info);
    if (is_planned_as_large(root, relation)) enlarge(info);
    if (chosen.binding == nullptr || chosen.order == Order::of_index || chosen.order == Order::sorted ||
        info->indexlist == NIL || relation == chosen.binding->locked_after)
        return;
    const bool of_keys = chosen.order == Order::of_keys;
    const Columns columns = of_keys ? Columns() : columns_in(relation);
    if (columns.missing) return;
    List* ours = NIL;
    ListCell* cell;
    foreach (cell, info->indexlist) {
        auto* index = lfirst_node(IndexOptInfo, cell);
        if (of_keys ? index->indexoid == chosen.key_index : fits(index, columns)) ours = lappend(ours, index);
    }
    if (ours != NIL) info->indexlist = ours;
}

// Whether a unique index of several columns begins with it, such as the task of a step.
bool leads_key(const RelOptInfo* info, AttrNumber column) {
    ListCell* cell;
    foreach (cell, info->indexlist) {
        const auto* index = lfirst_node(IndexOptInfo, cell);
        if (index->unique && index->indpred == NIL && index->nkeycolumns > 1 && index->indexkeys[0] == column)
            return true;
    }
    return false;
}

const RelOptInfo* find_info(const PlannerInfo* root, const RangeTblEntry* entry) {
    for (int i = 1; i < root->simple_rel_array_size; ++i)
        if (root->simple_rte_array[i] == entry) return root->simple_rel_array[i];
    return nullptr;
}

// What the planner reads of a column. Only the nulls are known: half of a column that may have some.
struct Known {
    Datum values[Natts_pg_statistic] = {};
    bool nulls[Natts_pg_statistic] = {};

    explicit Known(bool may_be_null) {
        for (int i = Anum_pg_statistic_stanumbers1 - 1; i < Natts_pg_statistic; ++i) nulls[i] = true;
        values[Anum_pg_statistic_stanullfrac - 1] = Float4GetDatum(may_be_null ? 0.5F : 0);
    }

    // A tenth as many values as rows, which were inserted in the order of the values.
    void lead_key(Oid type) {
        values[Anum_pg_statistic_stadistinct - 1] = Float4GetDatum(-0.1F);
        const Oid less = lookup_type_cache(type, TYPECACHE_LT_OPR)->lt_opr;
        if (!OidIsValid(less)) return;
        Datum correlation = Float4GetDatum(1);
        values[Anum_pg_statistic_stakind1 - 1] = Int16GetDatum(STATISTIC_KIND_CORRELATION);
        values[Anum_pg_statistic_staop1 - 1] = ObjectIdGetDatum(less);
        values[Anum_pg_statistic_stanumbers1 - 1] =
            PointerGetDatum(construct_array(&correlation, 1, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT));
        nulls[Anum_pg_statistic_stanumbers1 - 1] = false;
    }

    HeapTuple form() {
        Relation statistics = table_open(StatisticRelationId, AccessShareLock);
        HeapTuple formed = heap_form_tuple(RelationGetDescr(statistics), values, nulls);
        table_close(statistics, AccessShareLock);
        return formed;
    }
};

bool relation_statistics(PlannerInfo* root, RangeTblEntry* entry, AttrNumber column, VariableStatData* found) {
    if (entry->rtekind != RTE_RELATION || !is_planned_as_large(root, entry->relid))
        return next_relation_statistics != nullptr && next_relation_statistics(root, entry, column, found);
    if (chosen.binding != nullptr || column <= 0) return true;
    HeapTuple tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(entry->relid), Int16GetDatum(column));
    if (!HeapTupleIsValid(tuple)) return true;
    const FormData_pg_attribute attribute = *reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple));
    ReleaseSysCache(tuple);
    Known known(!attribute.attnotnull);
    const RelOptInfo* info = find_info(root, entry);
    if (info != nullptr && leads_key(info, column)) known.lead_key(getBaseType(attribute.atttypid));
    found->statsTuple = known.form();
    found->freefunc = heap_freetuple;
    found->acl_ok = true;
    return true;
}

bool index_statistics(PlannerInfo* root, Oid index, AttrNumber column, VariableStatData* found) {
    if (chosen.binding != nullptr) return true;
    return next_index_statistics != nullptr && next_index_statistics(root, index, column, found);
}

PlannedStmt* plan_further(Query* query, const char* text, int options, ParamListInfo parameters) {
    return next_planner != nullptr ? next_planner(query, text, options, parameters)
                                   : standard_planner(query, text, options, parameters);
}

// To estimate, the planner calls stable functions, such as those of policies. Their statements are planned as usual,
// because their plans are kept too.
PlannedStmt* plan_for_estimate(Query* query, const char* text, int options, ParamListInfo parameters) {
    const KeptStatement outer = chosen;
    const int level = NewGUCNestLevel();
    undo_plan_settings(outer.settings);
    PlannedStmt* volatile made = nullptr;
    chosen = {};
    PG_TRY();
    { made = plan_further(query, text, options, parameters); }
    PG_FINALLY();
    { chosen = outer; }
    PG_END_TRY();
    AtEOXact_GUC(true, level);
    return made;
}

PlannedStmt* plan_query(Query* query, const char* text, int options, ParamListInfo parameters) {
    if (chosen.binding == nullptr) return plan_further(query, text, options, parameters);
    if (chosen.in_planner) return plan_for_estimate(query, text, options, parameters);
    chosen.in_planner = true;
    PlannedStmt* made = plan_further(query, text, options, parameters);
    chosen.in_planner = false;
    return made;
}

}  // namespace

// Policies may have queries of their own, which the settings for ours do not suit.
Oid find_key_index(const Binding& binding) {
    Relation table = try_relation_open(binding.table, NoLock);
    if (table == nullptr) return InvalidOid;
    Oid found = InvalidOid;
    if (table->rd_rel->relkind == RELKIND_RELATION && !table->rd_rel->relhassubclass &&
        !table->rd_rel->relrowsecurity && !binding.distributed) {
        ListCell* cell;
        foreach (cell, RelationGetIndexList(table)) {
            Relation index = index_open(lfirst_oid(cell), AccessShareLock);
            if (!OidIsValid(found) && is_of_key(index, table, binding)) found = RelationGetRelid(index);
            index_close(index, NoLock);
        }
    }
    relation_close(table, NoLock);
    return found;
}

KeptStatement begin_planning(const Binding& binding, Order order, Oid key_index, int level) {
    const KeptStatement outer = chosen;
    undo_plan_settings(outer.settings);
    const PlanSettings settings = apply_plan_settings(level, order == Order::sorted || order == Order::of_keys);
    chosen = {&binding, order, key_index, settings, false};
    return outer;
}

void end_planning(const KeptStatement& outer) noexcept {
    chosen = outer;
}

void register_planner_hooks() {
    next_relation_info = get_relation_info_hook;
    get_relation_info_hook = relation_info;
    next_relation_statistics = get_relation_stats_hook;
    get_relation_stats_hook = relation_statistics;
    next_index_statistics = get_index_stats_hook;
    get_index_stats_hook = index_statistics;
    next_planner = planner_hook;
    planner_hook = plan_query;
}

}  // namespace pawl
