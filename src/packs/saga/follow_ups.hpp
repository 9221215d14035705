// Does not throw and does not ereport; owns nothing. Which follow-up of a flow's state changes is the outermost: it
// sees to the end of the flow.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// While a user's function runs, its state changes have an outermost follow-up of their own.
SubTransactionId suspend_following() noexcept;
void resume_following(SubTransactionId suspended) noexcept;

}  // namespace pawl
