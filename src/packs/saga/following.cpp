// May throw and may ereport; owns nothing. See following.hpp. What is known of follow-ups is kept in a variable and not
// in a setting, which any session could set.
#include "packs/saga/following.hpp"

#include <utility>

#include "pg/arguments.hpp"

namespace pawl {

namespace {

Following following;

void end_of_transaction(XactEvent event, void*) {
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE) following = {};
}

// What began in a subtransaction goes on in its parent, or ends with it.
void end_in(SubTransactionId& began, SubXactEvent event, SubTransactionId mine, SubTransactionId parent) {
    if (began != mine) return;
    if (event == SUBXACT_EVENT_COMMIT_SUB) began = parent;
    if (event == SUBXACT_EVENT_ABORT_SUB) began = InvalidSubTransactionId;
}

void end_of_subtransaction(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void*) {
    end_in(following.outermost, event, mine, parent);
    end_in(following.left_in, event, mine, parent);
}

// The callbacks stay registered until the session ends.
void watch_transactions() {
    static bool watching = false;
    if (watching) return;
    pg::call([] {
        RegisterXactCallback(end_of_transaction, nullptr);
        RegisterSubXactCallback(end_of_subtransaction, nullptr);
    });
    watching = true;
}

}  // namespace

Following suspend_following() noexcept {
    return std::exchange(following, Following{});
}

void resume_following(Following suspended) noexcept {
    following = suspended;
}

bool begin_following(bool leave_questions) {
    watch_transactions();
    const bool outermost = following.outermost == InvalidSubTransactionId;
    if (outermost) {
        following.outermost = GetCurrentSubTransactionId();
        following.leaves_questions = false;
    }
    following.leaves_questions |= leave_questions;
    return outermost;
}

void end_following() noexcept {
    following.outermost = InvalidSubTransactionId;
    following.leaves_questions = false;
}

// pawl_saga._follow(leave_questions). Only the owner may call it: its follow-ups are SECURITY DEFINER.
PAWL_FUNCTION(pawl_saga_follow) {
    pg::require(fcinfo, 0, "leave_questions");
    return BoolGetDatum(begin_following(PG_GETARG_BOOL(0)));
}

// pawl_saga._followed()
PAWL_FUNCTION(pawl_saga_followed) {
    end_following();
    return static_cast<Datum>(0);
}

// pawl_saga._leave_questions(leave): until it is called with false, or the subtransaction is rolled back, or the
// transaction ends.
PAWL_FUNCTION(pawl_saga_leave_questions) {
    pg::require(fcinfo, 0, "leave");
    watch_transactions();
    following.left_in = PG_GETARG_BOOL(0) ? GetCurrentSubTransactionId() : InvalidSubTransactionId;
    return static_cast<Datum>(0);
}

// pawl_saga._leaves_questions()
PAWL_FUNCTION(pawl_saga_leaves_questions) {
    return BoolGetDatum(following.leaves_questions || following.left_in != InvalidSubTransactionId);
}

}  // namespace pawl
