// Pure; throws nothing and does not ereport. See next_event.hpp.
#include "packs/dag/next_event.hpp"

namespace pawl::dag {

namespace {

constexpr Move start = {"Start", "initializing"};
constexpr Move ready_steps_found = {"ReadyStepsFound", "enqueuing_steps"};
constexpr Move retry_ready = {"RetryReady", "enqueuing_steps"};
constexpr Move step_completed = {"StepCompleted", "evaluating_results"};
constexpr Move all_steps_completed = {"AllStepsCompleted", "evaluating_results"};
constexpr Move dependencies_ready = {"DependenciesReady", "evaluating_results"};
constexpr Move step_failed = {"StepFailed", "waiting_for_retry"};
constexpr Move no_dependencies_ready = {"NoDependenciesReady", "waiting_for_dependencies"};
constexpr Move permanent_failure = {"PermanentFailure", "blocked_by_failures"};
constexpr Move all_steps_successful = {"AllStepsSuccessful", "complete"};
constexpr Move no_steps_found = {"NoStepsFound", "complete"};
// Of a task that begins where nothing can be enqueued: from there it ends, or waits for its retries.
constexpr Move none_to_enqueue = {"NoDependenciesReady", "waiting_for_dependencies"};

const Move* after_steps(const Counts& counts) {
    const bool news = counts.ready > 0 || counts.failed > 0;
    if (counts.in_flight > 0) return news ? &step_completed : nullptr;
    return counts.waiting > 0 && !news ? &step_failed : &all_steps_completed;
}

const Move* after_evaluation(const Counts& counts, bool blocks) {
    const int open = counts.ready + counts.in_flight + counts.waiting;
    if (counts.failed > 0 && (blocks || open == 0)) return &permanent_failure;
    if (counts.ready > 0) return &ready_steps_found;
    if (counts.ended == counts.total) return &all_steps_successful;
    return counts.in_flight == 0 && counts.waiting > 0 ? &step_failed : &no_dependencies_ready;
}

// Steps can have ended before their task begins, and a task that was reset begins again: it is evaluated like any other
// task, by the states that lead there.
const Move* after_beginning(const Counts& counts, bool blocks) {
    if (counts.total == 0) return &no_steps_found;
    const Move* evaluated = after_evaluation(counts, blocks);
    return evaluated == &ready_steps_found || evaluated == &no_dependencies_ready ? evaluated : &none_to_enqueue;
}

}  // namespace

const Move steps_enqueued = {"StepsEnqueued", "steps_in_process"};

const Move* next_move(std::string_view state, const Counts& counts, bool blocks) {
    if (state == "pending") return &start;
    if (state == "initializing") return after_beginning(counts, blocks);
    if (state == "enqueuing_steps") return &steps_enqueued;
    if (state == "steps_in_process") return after_steps(counts);
    if (state == "waiting_for_dependencies")
        return counts.ready > 0 || counts.failed > 0 || counts.in_flight == 0 ? &dependencies_ready : nullptr;
    if (state == "waiting_for_retry") {
        if (counts.ready > 0 && counts.failed == 0) return &retry_ready;
        return counts.waiting == 0 || counts.failed > 0 ? &step_completed : nullptr;
    }
    return state == "evaluating_results" ? after_evaluation(counts, blocks) : nullptr;
}

bool goes_on(const Move* move, const Counts& counts, bool blocks) {
    if (move == &steps_enqueued) return blocks && counts.failed > 0;
    return move == &start || move == &ready_steps_found || move == &retry_ready || move == &none_to_enqueue ||
           move == &step_completed || move == &all_steps_completed || move == &dependencies_ready;
}

}  // namespace pawl::dag
