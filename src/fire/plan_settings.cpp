// May ereport; owns nothing. See plan_settings.hpp.
#include "fire/plan_settings.hpp"

extern "C" {
#include "jit/jit.h"
#include "optimizer/cost.h"
}

namespace pawl {

namespace {

struct PlanSetting {
    const char* name;
    const bool* is_on;
    bool wanted;
};

constexpr PlanSetting plan_settings[] = {
    {"enable_seqscan", &enable_seqscan, false},
    {"enable_bitmapscan", &enable_bitmapscan, false},
    {"enable_incremental_sort", &enable_incremental_sort, false},
    {"enable_hashjoin", &enable_hashjoin, false},
    {"enable_mergejoin", &enable_mergejoin, false},
    {"enable_material", &enable_material, false},
    {"enable_memoize", &enable_memoize, false},
    {"jit", &jit_enabled, false},
    {"enable_indexscan", &enable_indexscan, true},
    {"enable_nestloop", &enable_nestloop, true},
    {"enable_sort", &enable_sort, true},
};
constexpr int nsettings = lengthof(plan_settings);
constexpr int sort_setting = nsettings - 1;

void turn_over(const PlanSetting& setting) {
    set_config_option(setting.name, *setting.is_on ? "off" : "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                      false);
}

bool is_set_above(const PlanSetting& setting, int level) {
    const GucStack* stack = pg::find_setting(setting.name)->stack;
    return stack != nullptr && stack->nest_level > level;
}

}  // namespace

PlanSettings apply_plan_settings(int level, bool sorts) {
    PlanSettings applied = {level, 0};
    for (int i = 0; i < nsettings; ++i) {
        const bool wanted = i == sort_setting ? sorts : plan_settings[i].wanted;
        if (*plan_settings[i].is_on == wanted) continue;
        turn_over(plan_settings[i]);
        applied.changed |= 1U << i;
    }
    return applied;
}

void undo_plan_settings(const PlanSettings& applied) {
    for (int i = 0; i < nsettings; ++i)
        if ((applied.changed & 1U << i) != 0 && !is_set_above(plan_settings[i], applied.level))
            turn_over(plan_settings[i]);
}

}  // namespace pawl
