// May throw; owns nothing. Which follow-up of a flow's state changes is the outermost: it completes the flow.
#pragma once

#include "packs/saga/uncounted.hpp"

namespace pawl {

// What the backend knows of the follow-ups under way.
struct Following {
    // The subtransaction in which the outermost follow-up began; invalid: none runs.
    SubTransactionId outermost = InvalidSubTransactionId;
    // It leaves questions to users' functions for later.
    bool leaves_questions = false;
    // The subtransaction in which pawl_saga._leave_questions(true) was called; invalid: it was not.
    SubTransactionId left_in = InvalidSubTransactionId;
    // Flows that may have come to their end, about which the outermost follow-up decides.
    saga::FlowIds ends = {};
};

// Begins a follow-up in this subtransaction: true if no other one runs. Then the caller ends it. `leave_questions`:
// from now on questions to users' functions are left for later.
bool begin_following(bool leave_questions);
void end_following() noexcept;

// A follow-up that is not the outermost, or that meets a flow with uncounted state changes, leaves the end of this flow
// to the outermost one that comes later. Ereports.
void leave_end(const pg_uuid_t& flow);
// Whether the end of the flow was left; now the caller decides about it.
bool take_end(const pg_uuid_t& flow) noexcept;
bool has_left_ends() noexcept;
// The same, and no follow-up runs that decides about them.
bool has_ends_to_decide() noexcept;

// While a user's function runs, its state changes have an outermost follow-up of their own.
Following suspend_following() noexcept;
void resume_following(Following suspended) noexcept;

}  // namespace pawl
