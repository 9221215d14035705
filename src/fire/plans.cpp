// May ereport; owns nothing. See plans.hpp.
#include "fire/plans.hpp"

#include "fire/index_choice.hpp"

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
    bool planned;
    char query[FLEXIBLE_ARRAY_MEMBER];
};

namespace {

KeptPlan* find_plan(const Binding& binding, const char* query) {
    for (KeptPlan* kept = binding.kept_plans; kept != nullptr; kept = kept->next)
        if (strcmp(kept->query, query) == 0) return kept;
    return nullptr;
}

KeptPlan* prepare(Binding& binding, const char* query, const Parameters& parameters) {
    SPIPlanPtr plan =
        SPI_prepare_cursor(query, parameters.n, const_cast<Oid*>(parameters.types), CURSOR_OPT_GENERIC_PLAN);
    if (plan == nullptr)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not prepare: %s", SPI_result_code_string(SPI_result)), errdetail("%s", query)));
    auto* kept = static_cast<KeptPlan*>(
        MemoryContextAlloc(GetMemoryChunkContext(binding.keys), offsetof(KeptPlan, query) + strlen(query) + 1));
    strcpy(kept->query, query);
    kept->planned = false;
    SPI_keepplan(plan);
    kept->plan = plan;
    kept->next = binding.kept_plans;
    binding.kept_plans = kept;
    return kept;
}

// Whether the plan made by index would be run as it is. A change of tables, of the search_path or of the role makes
// PostgreSQL plan anew, and it would do so when the statement is already running.
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

void plan(KeptPlan* kept, const Binding& binding, Order order) {
    choose_index(&binding, order);
    PG_TRY();
    {
        CachedPlan* made = SPI_plan_get_cached_plan(kept->plan);
        if (made != nullptr) ReleaseCachedPlan(made, CurrentResourceOwner);
    }
    PG_FINALLY();
    { choose_index(nullptr, Order::of_index); }
    PG_END_TRY();
}

// Only the planning is bent, not what triggers plan for themselves while the statement runs.
void plan_by_index(KeptPlan* kept, const Binding& binding, Order order) {
    static constexpr const char* off[] = {
        "enable_seqscan",   "enable_bitmapscan", "enable_incremental_sort", "enable_hashjoin",
        "enable_mergejoin", "enable_material",   "enable_memoize",          "jit"};
    const int level = NewGUCNestLevel();
    for (const char* name : off)
        set_config_option(name, "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    if (order != Order::sorted)
        set_config_option("enable_sort", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    plan(kept, binding, order);
    AtEOXact_GUC(true, level);
    kept->planned = true;
}

// plan_cache_mode comes before what the caller of SPI asks for; with force_custom_plan the plan that was made by index
// would not be run.
int run_as_planned(const KeptPlan* kept, const Parameters& parameters) {
    const bool bent = plan_cache_mode == PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN;
    const int level = bent ? NewGUCNestLevel() : 0;
    if (bent) set_config_option("plan_cache_mode", "auto", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    const int result = SPI_execute_plan(kept->plan, const_cast<Datum*>(parameters.values), parameters.nulls, false, 0);
    if (bent) AtEOXact_GUC(true, level);
    return result;
}

}  // namespace

uint64 run_planned(Binding& binding, const char* query, const Parameters& parameters, Order order) {
    KeptPlan* kept = find_plan(binding, query);
    if (kept == nullptr) kept = prepare(binding, query, parameters);
    const bool first = !stays_planned(kept);
    if (first) plan_by_index(kept, binding, order);
    const int64 before = pages_touched();
    const int result = run_as_planned(kept, parameters);
    if (result < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("statement of pawl failed: %s", SPI_result_code_string(result))));
    if (!first) pages += pages_touched() - before;
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
