// May ereport; owns nothing. See plans.hpp.
#include "fire/plans.hpp"

#include "pg/spi.hpp"

extern "C" {
#include "executor/instrument.h"
#include "utils/guc.h"
#include "utils/plancache.h"
#include "utils/resowner.h"
#include "utils/rls.h"
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

// The settings apply to the planning only, not to what triggers plan while the statement runs.
void plan_by_index(KeptPlan* kept, const Binding& binding) {
    const int level = NewGUCNestLevel();
    const KeptStatement outer = begin_planning(binding, kept->order, kept->key_index, level);
    PG_TRY();
    {
        CachedPlan* made = SPI_plan_get_cached_plan(kept->plan);
        if (made != nullptr) ReleaseCachedPlan(made, CurrentResourceOwner);
    }
    PG_FINALLY();
    { end_planning(outer); }
    PG_END_TRY();
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

void free_plans(Binding& binding) noexcept {
    for (KeptPlan* kept = binding.kept_plans; kept != nullptr; kept = kept->next) SPI_freeplan(kept->plan);
    binding.kept_plans = nullptr;
}

}  // namespace pawl
