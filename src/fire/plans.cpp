// May ereport; owns nothing. See plans.hpp.
#include "fire/plans.hpp"

#include "pg/spi.hpp"

extern "C" {
#include "access/genam.h"
#include "catalog/pg_am_d.h"
#include "commands/defrem.h"
#include "executor/instrument.h"
#include "nodes/pathnodes.h"
#include "optimizer/plancat.h"
#include "utils/guc.h"
#include "utils/plancache.h"
#include "utils/resowner.h"
#include "utils/rls.h"
#include "utils/selfuncs.h"
}

namespace pawl {

struct KeptPlan {
    KeptPlan* next;
    SPIPlanPtr plan;
    Order order;
    Oid key_index;  // by which rows are found; else invalid
    bool planned;
    char query[FLEXIBLE_ARRAY_MEMBER];
};

namespace {

// The planner would at times rather walk the primary key, because what equals a constant needs no order, and read all
// of the table that lies behind a row. While a binding is chosen, plans read its table only by the index that pawl made
// for the order, or by the unique one of the key. Null: the planner chooses.
const Binding* chosen = nullptr;
Oid chosen_index = InvalidOid;  // of the key
Order chosen_order = Order::of_index;

// Plans are kept while tables grow, and a plan that was made for a small one would walk all of it for a few rows. So
// they are made as for large tables of which nothing else is known. Set while one is made.
bool statistics_are_ignored = false;

get_relation_info_hook_type next_relation_info = nullptr;
get_relation_stats_hook_type next_relation_statistics = nullptr;
get_index_stats_hook_type next_index_statistics = nullptr;

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
    const Managed* managed = chosen->managed;  // only a binding without managed columns has none
    Columns columns = {};
    if (chosen_order == Order::of_leases) {
        columns.add(relation, NameStr(managed->owner.name));
        if (managed->lease.kept()) columns.add(relation, NameStr(managed->lease.name));
        return columns;
    }
    if (chosen_order == Order::of_timers) columns.add(relation, NameStr(managed->due.name));
    if (chosen_order == Order::of_claims && managed->queue.kept()) columns.add(relation, NameStr(managed->queue.name));
    for (int i = 0; chosen_order == Order::of_claims && i < managed->claim_columns.n; ++i)
        columns.add(relation, managed->claim_columns.items[i]);
    for (int i = 0; i < chosen->nkeys; ++i) columns.add(relation, NameStr(chosen->keys[i].name));
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

// The unique index of the key; InvalidOid if there is none by which all rows are found: then PostgreSQL plans better.
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

// A partial index counts as one of few rows.
void enlarge(RelOptInfo* info) {
    constexpr double rows = 1e7;
    constexpr BlockNumber pages = 200000;
    info->tuples = Max(info->tuples, rows);
    info->pages = Max(info->pages, pages);
    ListCell* cell;
    foreach (cell, info->indexlist) {
        auto* index = lfirst_node(IndexOptInfo, cell);
        const int part = index->indpred == NIL ? 1 : 20;
        index->tuples = Max(index->tuples, rows / part);
        index->pages = Max(index->pages, pages / 4 / part);
    }
}

bool relation_statistics(PlannerInfo* root, RangeTblEntry* entry, AttrNumber column, VariableStatData* found) {
    if (statistics_are_ignored) return true;
    return next_relation_statistics != nullptr && next_relation_statistics(root, entry, column, found);
}

bool index_statistics(PlannerInfo* root, Oid index, AttrNumber column, VariableStatData* found) {
    if (statistics_are_ignored) return true;
    return next_index_statistics != nullptr && next_index_statistics(root, index, column, found);
}

void relation_info(PlannerInfo* root, Oid relation, bool is_parent, RelOptInfo* info) {
    if (next_relation_info != nullptr) next_relation_info(root, relation, is_parent, info);
    if (statistics_are_ignored) enlarge(info);
    if (chosen == nullptr || info->indexlist == NIL || relation == chosen->locked_after) return;
    const bool of_keys = chosen_order == Order::of_keys;
    const Columns columns = of_keys ? Columns() : columns_in(relation);
    if (columns.missing) return;
    List* ours = NIL;
    ListCell* cell;
    foreach (cell, info->indexlist) {
        auto* index = lfirst_node(IndexOptInfo, cell);
        if (of_keys ? index->indexoid == chosen_index : fits(index, columns)) ours = lappend(ours, index);
    }
    if (ours != NIL) info->indexlist = ours;
}

void choose_index(const Binding* binding, Order order) noexcept {
    chosen = order == Order::of_index || order == Order::sorted ? nullptr : binding;
    chosen_order = order;
}

KeptPlan* find_plan(const Binding& binding, const char* query) {
    for (KeptPlan* kept = binding.kept_plans; kept != nullptr; kept = kept->next)
        if (strcmp(kept->query, query) == 0) return kept;
    return nullptr;
}

}  // namespace

KeptPlan* keep_plan(Binding& binding, const char* query, int n, Oid* types, Order order) {
    const Oid key_index = order == Order::of_keys ? find_key_index(binding) : InvalidOid;
    if (order == Order::of_keys && !OidIsValid(key_index)) order = Order::planned;
    SPIPlanPtr plan = SPI_prepare_cursor(query, n, types, order == Order::planned ? 0 : CURSOR_OPT_GENERIC_PLAN);
    if (plan == nullptr)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not prepare: %s", SPI_result_code_string(SPI_result)), errdetail("%s", query)));
    auto* kept = static_cast<KeptPlan*>(
        MemoryContextAlloc(GetMemoryChunkContext(binding.keys), offsetof(KeptPlan, query) + strlen(query) + 1));
    strcpy(kept->query, query);
    kept->order = order;
    kept->key_index = key_index;
    kept->planned = false;
    SPI_keepplan(plan);
    kept->plan = plan;
    kept->next = binding.kept_plans;
    binding.kept_plans = kept;
    return kept;
}

namespace {

// Whether the plan made by index would be run as it is. After a change of tables, of search_path or of the role
// PostgreSQL would plan anew while the statement is already running.
bool stays_planned(const KeptPlan* kept) {
    if (!kept->planned || !SPI_plan_is_valid(kept->plan)) return false;
    ListCell* cell;
    foreach (cell, SPI_plan_get_plan_sources(kept->plan)) {
        auto* source = static_cast<CachedPlanSource*>(lfirst(cell));
        if (source->gplan == nullptr || !CachedPlanIsSimplyValid(source, source->gplan, nullptr)) return false;
        if (source->gplan->dependsOnRole && source->gplan->planRoleId != GetUserId()) return false;
        if (source->dependsOnRLS &&
            (source->rewriteRoleId != GetUserId() || source->rewriteRowSecurity != row_security))
            return false;
    }
    return true;
}

int64 pages = 0;  // see pages_of_runs

int64 pages_touched() {
    return pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
}

void plan(KeptPlan* kept, const Binding& binding) {
    choose_index(&binding, kept->order);
    chosen_index = kept->key_index;
    statistics_are_ignored = true;
    PG_TRY();
    {
        CachedPlan* made = SPI_plan_get_cached_plan(kept->plan);
        if (made != nullptr) ReleaseCachedPlan(made, CurrentResourceOwner);
    }
    PG_FINALLY();
    {
        choose_index(nullptr, Order::of_index);
        statistics_are_ignored = false;
    }
    PG_END_TRY();
}

void set(const char* name, bool on) {
    set_config_option(name, on ? "on" : "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

// The settings apply to the planning only, not to what triggers plan while the statement runs. Those of the session, or
// of a function that called this, do not count.
void plan_by_index(KeptPlan* kept, const Binding& binding) {
    static constexpr const char* off[] = {
        "enable_seqscan",   "enable_bitmapscan", "enable_incremental_sort", "enable_hashjoin",
        "enable_mergejoin", "enable_material",   "enable_memoize",          "jit"};
    const int level = NewGUCNestLevel();
    for (const char* name : off) set(name, false);
    for (const char* name : {"enable_indexscan", "enable_nestloop"}) set(name, true);
    set("enable_sort", kept->order == Order::sorted || kept->order == Order::of_keys);
    plan(kept, binding);
    AtEOXact_GUC(true, level);
    kept->planned = true;
}

// plan_cache_mode takes precedence over what the caller of SPI asks for. With force_custom_plan the plan that was made
// by index would not be run.
int run_as_planned(const KeptPlan* kept, Datum* values, const char* nulls) {
    const bool bent = plan_cache_mode == PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN;
    const int level = bent ? NewGUCNestLevel() : 0;
    if (bent) set_config_option("plan_cache_mode", "auto", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    const int result = SPI_execute_plan(kept->plan, values, nulls, false, 0);
    if (bent) AtEOXact_GUC(true, level);
    return result;
}

}  // namespace

void Parameters::add_column(Oid type, Datum* column, int rows, bool* nulls_in) {
    if (rows == 1)
        add(type, column[0], nulls_in != nullptr && nulls_in[0]);
    else
        add(get_array_type(type), pg::array_of(column, rows, type, nulls_in));
}

int run_kept(KeptPlan* kept, const Binding& binding, Datum* values, const char* nulls) {
    // what the statement fires is planned as the session wants
    const bool any_plan = kept->order == Order::planned ||
                          (kept->order == Order::of_keys && plan_cache_mode == PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN);
    const bool first = !any_plan && !stays_planned(kept);
    if (first) plan_by_index(kept, binding);
    const int64 before = pages_touched();
    const int result =
        any_plan ? SPI_execute_plan(kept->plan, values, nulls, false, 0) : run_as_planned(kept, values, nulls);
    if (result < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("internal statement failed: %s", SPI_result_code_string(result))));
    if (!first) pages += pages_touched() - before;
    return result;
}

uint64 run_planned(Binding& binding, const char* query, const Parameters& parameters, Order order) {
    KeptPlan* kept = find_plan(binding, query);
    if (kept == nullptr) kept = keep_plan(binding, query, parameters.n, const_cast<Oid*>(parameters.types), order);
    run_kept(kept, binding, const_cast<Datum*>(parameters.values), parameters.nulls);
    return SPI_processed;
}

int64 pages_of_runs() noexcept {
    return pages;
}

void register_index_choice() {
    next_relation_info = get_relation_info_hook;
    get_relation_info_hook = relation_info;
    next_relation_statistics = get_relation_stats_hook;
    get_relation_stats_hook = relation_statistics;
    next_index_statistics = get_index_stats_hook;
    get_index_stats_hook = index_statistics;
}

void free_plans(Binding& binding) noexcept {
    for (KeptPlan* kept = binding.kept_plans; kept != nullptr; kept = kept->next) SPI_freeplan(kept->plan);
    binding.kept_plans = nullptr;
}

}  // namespace pawl
