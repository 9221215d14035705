// May ereport; owns nothing. The settings of the planner with which kept statements are planned.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

struct PlanSettings {
    int level;       // of settings, in which they are applied
    uint32 changed;  // a bit for each that had the other value before
};

// Until the level ends, which is the current one, the planner walks indexes and joins by nested loops; sorts: and may
// sort what it finds. Those of the session, or of a function that called this, do not count.
PlanSettings apply_plan_settings(int level, bool sorts);

// Until the current level ends, settings have the values from before they were applied, except those that a function
// has set since.
void undo_plan_settings(const PlanSettings& applied);

}  // namespace pawl
