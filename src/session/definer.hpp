// May ereport; owns nothing. Functions that a role has named in a definition: with whose rights a session calls
// them, and how their statements are planned.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// The role with whose rights a session of the role calls a function that the definer named. The definer gains none of
// the role's rights that it does not have, and the role none of the definer's:
// - the role, if the definer can become it (a superuser can become any);
// - else the definer, if the role can become it;
// - if both are superusers, the owner of the function, which may replace it, or the role if a superuser owns it too.
// 42501: neither can become the other; 42704: the definer does not exist.
Oid role_for_definer(Oid role, const char* definer, Oid function);

// Whether role_for_definer returns a role. A definer that does not exist: true, because the call says so.
bool may_call_for(Oid role, const char* definer);

// A function is planned as its session began: until the current level of settings ends, planner settings that functions
// on the way to it have for statements of their own are reset. jit stays off, which only saves time.
void reset_planner_settings();

}  // namespace pawl
