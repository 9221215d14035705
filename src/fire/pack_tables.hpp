// May ereport; owns nothing. Which tables of a statement belong to packs: extensions that require pawl.
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "nodes/pathnodes.h"
}

namespace pawl {

// Whether a statement that is being planned looks up rows of a table of a pack by key, for a function of the pack or a
// foreign key, and the table was small at its last ANALYZE, or had none.
bool looks_up_keys_of_pack(const PlannerInfo* root, Oid relation);

}  // namespace pawl
