// May throw; owns nothing. Which follow-up of a flow's state changes is the outermost: it completes the flow.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// What the backend knows of the follow-ups under way.
struct Following {
    // The subtransaction in which the outermost follow-up began; invalid: none runs.
    SubTransactionId outermost = InvalidSubTransactionId;
    // It leaves questions to users' functions for later.
    bool leaves_questions = false;
    // The subtransaction in which pawl_saga._leave_questions(true) was called; invalid: it was not.
    SubTransactionId left_in = InvalidSubTransactionId;
};

// Begins a follow-up in this subtransaction: true if no other one runs. Then the caller ends it. `leave_questions`:
// from now on questions to users' functions are left for later.
bool begin_following(bool leave_questions);
void end_following() noexcept;

// While a user's function runs, its state changes have an outermost follow-up of their own.
Following suspend_following() noexcept;
void resume_following(Following suspended) noexcept;

}  // namespace pawl
