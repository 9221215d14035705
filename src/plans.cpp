// May ereport; owns nothing. See plans.hpp.
#include "plans.hpp"

extern "C" {
#include "utils/plancache.h"
#include "utils/resowner.h"
}

namespace pawl {

struct KeptPlan {
    KeptPlan* next;
    SPIPlanPtr plan;
    bool planned;
    char query[FLEXIBLE_ARRAY_MEMBER];
};

namespace {

KeptPlan* find_plan(const Attachment& attachment, const char* query) {
    for (KeptPlan* kept = attachment.kept_plans; kept != nullptr; kept = kept->next)
        if (strcmp(kept->query, query) == 0) return kept;
    return nullptr;
}

KeptPlan* prepare(Attachment& attachment, const char* query, const Parameters& parameters) {
    SPIPlanPtr plan = SPI_prepare_cursor(query, parameters.n, const_cast<Oid*>(parameters.types), CURSOR_OPT_GENERIC_PLAN);
    if (plan == nullptr)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not prepare: %s", SPI_result_code_string(SPI_result)), errdetail("%s", query)));
    auto* kept = static_cast<KeptPlan*>(MemoryContextAlloc(GetMemoryChunkContext(attachment.keys), offsetof(KeptPlan, query) + strlen(query) + 1));
    strcpy(kept->query, query);
    kept->planned = false;
    SPI_keepplan(plan);
    kept->plan = plan;
    kept->next = attachment.kept_plans;
    attachment.kept_plans = kept;
    return kept;
}

// Only the planning is bent, not what triggers plan for themselves while the statement runs.
void plan_by_index(KeptPlan* kept) {
    static constexpr const char* off[] = {"enable_seqscan", "enable_bitmapscan", "enable_sort",      "enable_incremental_sort",
                                          "enable_hashjoin", "enable_mergejoin", "enable_material", "enable_memoize", "jit"};
    const int level = NewGUCNestLevel();
    for (const char* name : off) set_config_option(name, "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    CachedPlan* plan = SPI_plan_get_cached_plan(kept->plan);
    if (plan != nullptr) ReleaseCachedPlan(plan, CurrentResourceOwner);
    AtEOXact_GUC(true, level);
    kept->planned = true;
}

}  // namespace

uint64 run_planned(Attachment& attachment, const char* query, const Parameters& parameters) {
    KeptPlan* kept = find_plan(attachment, query);
    if (kept == nullptr) kept = prepare(attachment, query, parameters);
    if (!kept->planned || !SPI_plan_is_valid(kept->plan)) plan_by_index(kept);
    const int result = SPI_execute_plan(kept->plan, const_cast<Datum*>(parameters.values), parameters.nulls, false, 0);
    if (result < 0) ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("statement of pawl failed: %s", SPI_result_code_string(result))));
    return SPI_processed;
}

void free_plans(Attachment& attachment) noexcept {
    for (KeptPlan* kept = attachment.kept_plans; kept != nullptr; kept = kept->next) SPI_freeplan(kept->plan);
    attachment.kept_plans = nullptr;
}

}  // namespace pawl
