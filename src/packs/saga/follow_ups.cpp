// May ereport; owns nothing. See follow_ups.hpp. That one is under way is known here and nowhere else: a setting could
// be set by any session.
#include "packs/saga/follow_ups.hpp"

#include <utility>

#include "pg/arguments.hpp"

namespace pawl {

namespace {

// The subtransaction in which the outermost follow-up began; invalid: none is under way.
SubTransactionId following = InvalidSubTransactionId;

void end_of_transaction(XactEvent event, void*) {
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
        following = InvalidSubTransactionId;
}

void end_of_subtransaction(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void*) {
    if (following != mine) return;
    if (event == SUBXACT_EVENT_COMMIT_SUB) following = parent;
    if (event == SUBXACT_EVENT_ABORT_SUB) following = InvalidSubTransactionId;
}

// The callbacks stay for the life of the session.
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

SubTransactionId suspend_following() noexcept {
    return std::exchange(following, InvalidSubTransactionId);
}

void resume_following(SubTransactionId suspended) noexcept {
    following = suspended;
}

// pawl_saga._follow(): true where no other follow-up is under way. Only the owner may call it: its follow-ups are
// SECURITY DEFINER.
PAWL_FUNCTION(pawl_saga_follow) {
    watch_transactions();
    const bool outermost = following == InvalidSubTransactionId;
    if (outermost) following = GetCurrentSubTransactionId();
    return BoolGetDatum(outermost);
}

// pawl_saga._followed()
PAWL_FUNCTION(pawl_saga_followed) {
    following = InvalidSubTransactionId;
    return static_cast<Datum>(0);
}

}  // namespace pawl
