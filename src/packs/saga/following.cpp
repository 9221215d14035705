// May throw and may ereport; owns nothing. See following.hpp. What is known of follow-ups is kept in a variable and not
// in a setting, which any session could set.
#include "packs/saga/following.hpp"

#include <utility>

#include "pg/arguments.hpp"
#include "pg/spi.hpp"

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

void leave_end(const pg_uuid_t& flow) {
    watch_transactions();
    if (!following.ends.has(flow)) following.ends.add(flow);
}

bool take_end(const pg_uuid_t& flow) noexcept {
    if (following.ends.n == 0 || !following.ends.has(flow)) return false;
    following.ends.remove(flow);
    return true;
}

bool has_left_ends() noexcept {
    return following.ends.n > 0;
}

bool has_ends_to_decide() noexcept {
    return has_left_ends() && following.outermost == InvalidSubTransactionId;
}

// pawl_saga._leave_end(flow)
PAWL_FUNCTION(pawl_saga_leave_end) {
    pg::require(fcinfo, 0, "flow");
    pg::call([&] { leave_end(*PG_GETARG_UUID_P(0)); });
    return static_cast<Datum>(0);
}

// pawl_saga._take_ends(): not those of flows with uncounted state changes.
PAWL_FUNCTION(pawl_saga_take_ends) {
    return pg::call([&] {
        auto* taken = static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t) * Max(following.ends.n, 1)));
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(following.ends.n, 1)));
        int n = 0;
        for (int i = 0; i < following.ends.n; ++i) {
            if (saga::is_uncounted(following.ends.items[i])) continue;
            taken[n] = following.ends.items[i];
            values[n] = UUIDPGetDatum(&taken[n]);
            ++n;
        }
        for (int i = 0; i < n; ++i) following.ends.remove(taken[i]);
        return pg::array_of(values, n, UUIDOID);
    });
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
