// The shipped lifecycles: exactly these states and transitions, with these tags, and as the seed documents draw them.
#include <gtest/gtest.h>

#include <iterator>

#include "support.hpp"

namespace pawl::test {
namespace {

using core::Machine;
using Lines = std::vector<std::string>;
using Names = std::set<std::string>;

Machine shipped(const std::string& path) {
    return core::compile(core::read_mermaid(file(root() / "sql" / (path + ".mmd"))));
}

Machine seed(const std::string& name) {
    return core::compile(core::read_mermaid(file(root() / "test" / "diagrams" / "seed" / (name + ".mmd"))));
}

// "from event to" in words, without guards, params and effects, sorted.
Lines moves(const Machine& machine) {
    Lines result;
    for (const core::Transition& transition : machine.transitions()) {
        result.push_back(name_of(machine, transition.from) + " | " + transition.event + " | " +
                         name_of(machine, transition.to));
    }
    std::sort(result.begin(), result.end());
    return result;
}

Lines sorted(Lines lines) {
    std::sort(lines.begin(), lines.end());
    return lines;
}

Names tagged(const Machine& machine, const std::string& tag) {
    Names result;
    for (const core::State& state : machine.states()) {
        if (std::find(state.tags.begin(), state.tags.end(), tag) != state.tags.end()) result.insert(state.name);
    }
    return result;
}

// Adds "from | event | to" for each of the states.
Lines with(Lines lines, const std::vector<std::string>& from, const std::string& event, const std::string& to) {
    for (const std::string& each : from) lines.push_back(each + " | " + event + " | " + to);
    return lines;
}

TEST(Lifecycles, BulkOperation) {
    const Machine m = shipped("pawl_bulk/operation");
    EXPECT_EQ(moves(m), sorted({
                            "[*] | CreateBulkOperationAsync | Pending",
                            "Pending | Scheduler picks up | Validating",
                            "Validating | All rows validated | Running",
                            "Validating | Metadata validation fails | Failed",
                            "Running | All rows succeeded | Completed",
                            "Running | Some rows failed | CompletedWithErrors",
                            "Running | Unrecoverable error | Failed",
                            "Running | CancelBulkOperationAsync | Cancelled",
                            "CompletedWithErrors | RetryFailedRowsAsync | Retrying",
                            "Retrying | Processor resumes | Running",
                            // added to what the seed draws
                            "Pending | CancelBulkOperationAsync | Cancelled",
                            "Validating | CancelBulkOperationAsync | Cancelled",
                            "Retrying | CancelBulkOperationAsync | Cancelled",
                            "Pending | Definition missing | Failed",
                            "Retrying | Definition missing | Failed",
                        }));
    EXPECT_EQ(m.transitions().size(), seed("bulk_operation").transitions().size() + 5);
    EXPECT_EQ(m.states().size(), 8u);
    EXPECT_EQ(initials(m), Names{"Pending"});
    EXPECT_EQ(terminals(m), (Names{"Completed", "Failed", "Cancelled"}));
    EXPECT_EQ(tagged(m, "error"), Names{"Failed"});
}

TEST(Lifecycles, BulkRow) {
    const Machine m = shipped("pawl_bulk/row");
    EXPECT_EQ(moves(m), sorted({
                            "[*] | Record created | Pending",
                            "Pending | Step begins execution | Running",
                            "Running | Step succeeded | Completed",
                            "Running | Step exhausted MaxRetries | Failed",
                            "Running | Async step timeout | TimedOut",
                            "Running | Async step | WaitingForCompletion",
                            "WaitingForCompletion | Signal received | Completed",
                            "WaitingForCompletion | Signal failure | Failed",
                            "WaitingForCompletion | Timeout exceeded | TimedOut",
                            "Failed | ResetForRetry | Pending",
                            // added to what the seed draws
                            "TimedOut | ResetForRetry | Pending",
                            "Pending | Operation ended | Cancelled",
                            "Running | Operation ended | Cancelled",
                            "WaitingForCompletion | Operation ended | Cancelled",
                        }));
    EXPECT_EQ(m.transitions().size(), seed("bulk_row").transitions().size() + 4);
    EXPECT_EQ(m.states().size(), 7u);
    EXPECT_EQ(terminals(m), (Names{"Completed", "TimedOut", "Cancelled"}));
    EXPECT_EQ(tagged(m, "waiting"), Names{"WaitingForCompletion"});
    EXPECT_EQ(tagged(m, "error"), (Names{"Failed", "TimedOut"}));
    EXPECT_EQ(text(m, m.transitions()[6]), "WaitingForCompletion -Signal received/poll succeeded-> Completed");
    EXPECT_EQ(text(m, m.transitions()[5]), "Running -Async step(signal/polling)-> WaitingForCompletion");
}

// Names as the documents draw them (WaitingForRetry), and as the database has them (waiting_for_retry).
std::string snake(const std::string& name) {
    std::string result;
    for (const char c : name) {
        if (c >= 'A' && c <= 'Z') {
            if (!result.empty()) result += '_';
            result += static_cast<char>(c - 'A' + 'a');
        } else {
            result += c;
        }
    }
    return result;
}

// The seed's transitions in the database's names.
Lines seed_moves(const std::string& name) {
    const Machine machine = seed(name);
    Lines result;
    for (const core::Transition& transition : machine.transitions()) {
        const std::string from = transition.from == core::no_state ? "[*]" : snake(name_of(machine, transition.from));
        result.push_back(from + " | " + transition.event + " | " + snake(name_of(machine, transition.to)));
    }
    return sorted(std::move(result));
}

// What is in the first list and not in the second.
Lines without(const Lines& lines, const Lines& others) {
    Lines result;
    std::set_difference(lines.begin(), lines.end(), others.begin(), others.end(), std::back_inserter(result));
    return result;
}

TEST(Lifecycles, Task) {
    const Machine m = shipped("pawl_dag/task");
    const std::vector<std::string> owned{"initializing", "enqueuing_steps", "steps_in_process", "evaluating_results"};
    std::vector<std::string> open = owned;
    open.insert(open.end(), {"pending", "waiting_for_dependencies", "waiting_for_retry", "blocked_by_failures"});
    std::vector<std::string> timed = owned;
    timed.insert(timed.end(), {"waiting_for_dependencies", "waiting_for_retry"});
    Lines added = with({"blocked_by_failures | FailuresCleared | evaluating_results",
                        "evaluating_results | StepFailed | waiting_for_retry",
                        "waiting_for_retry | StepCompleted | evaluating_results"},
                       open, "ResolveManually", "resolved_manually");
    added = with(std::move(added), timed, "Timeout", "blocked_by_failures");
    for (const std::string& each : owned) added.push_back(each + " | ProcessorCrashed | " + each);
    EXPECT_EQ(without(seed_moves("tasker_task"), moves(m)), Lines{});
    EXPECT_EQ(without(moves(m), seed_moves("tasker_task")), sorted(added));
    EXPECT_EQ(m.transitions().size(), 48u);
    EXPECT_EQ(m.states().size(), 12u);
    EXPECT_EQ(initials(m), Names{"pending"});
    EXPECT_EQ(terminals(m), (Names{"complete", "error", "cancelled", "resolved_manually"}));
    EXPECT_EQ(tagged(m, "owned"), Names(owned.begin(), owned.end()));
    EXPECT_EQ(tagged(m, "waiting"), (Names{"waiting_for_dependencies", "waiting_for_retry", "blocked_by_failures"}));
    EXPECT_EQ(tagged(m, "error"), Names{"error"});
}

TEST(Lifecycles, Step) {
    const Machine m = shipped("pawl_dag/step");
    const std::vector<std::string> open{"pending",
                                        "enqueued",
                                        "in_progress",
                                        "enqueued_for_orchestration",
                                        "enqueued_as_error_for_orchestration",
                                        "waiting_for_retry",
                                        "error"};
    // Left out as deprecated; and one event with two targets became two events.
    const Lines gone = sorted({"in_progress | Complete | complete", "pending | Start | in_progress",
                               "in_progress | EnqueueForOrchestration | enqueued_as_error_for_orchestration"});
    const Lines added =
        with({"in_progress | EnqueueAsErrorForOrchestration | enqueued_as_error_for_orchestration",
              "error | Retry | pending", "error | ResetForRetry | pending", "enqueued_for_orchestration | Fail | error",
              "in_progress | WaitForRetry | waiting_for_retry"},
             open, "CompleteManually", "complete");
    EXPECT_EQ(without(seed_moves("tasker_step"), moves(m)), gone);
    EXPECT_EQ(without(moves(m), seed_moves("tasker_step")), sorted(added));
    EXPECT_EQ(m.transitions().size(), 37u);
    EXPECT_EQ(m.states().size(), 10u);
    // An error is an end state, but operators lead out of it.
    EXPECT_EQ(terminals(m), (Names{"complete", "cancelled", "resolved_manually"}));
    EXPECT_EQ(tagged(m, "owned"), Names{"in_progress"});
    EXPECT_EQ(tagged(m, "waiting"), Names{"waiting_for_retry"});
    EXPECT_EQ(tagged(m, "error"), Names{"error"});
}

// Pairs of states that the tables allow, from -> to, without the first state.
std::set<std::pair<std::string, std::string>> pairs(const Machine& machine) {
    std::set<std::pair<std::string, std::string>> result;
    for (const core::Transition& transition : machine.transitions()) {
        if (transition.from != core::no_state)
            result.emplace(name_of(machine, transition.from), name_of(machine, transition.to));
    }
    return result;
}

using Table = std::set<std::pair<std::string, std::string>>;

TEST(Lifecycles, Flow) {
    const Machine m = shipped("pawl_saga/flow");
    EXPECT_EQ(pairs(m), (Table{{"PENDING", "RUNNING"},
                               {"RUNNING", "SUCCESS"},
                               {"RUNNING", "FAILURE"},
                               {"RUNNING", "REVERTED"},
                               {"RUNNING", "SUSPENDING"},
                               {"RUNNING", "RESUMING"},
                               {"SUCCESS", "RUNNING"},
                               {"SUCCESS", "PENDING"},
                               {"FAILURE", "RUNNING"},
                               {"REVERTED", "PENDING"},
                               {"SUSPENDED", "RUNNING"},
                               {"RESUMING", "SUSPENDED"},
                               {"SUSPENDING", "SUSPENDED"},
                               {"SUSPENDING", "SUCCESS"},
                               {"SUSPENDING", "FAILURE"},
                               {"SUSPENDING", "REVERTED"},
                               {"SUSPENDING", "RESUMING"}}));
    EXPECT_EQ(m.transitions().size(), 18u);
    EXPECT_EQ(m.states().size(), 8u);
    EXPECT_EQ(initials(m), Names{"PENDING"});
    EXPECT_EQ(terminals(m), (Names{"SUCCESS", "FAILURE", "REVERTED"}));
}

const Table task_table{{"PENDING", "RUNNING"},         {"PENDING", "IGNORE"},    {"RUNNING", "SUCCESS"},
                       {"RUNNING", "FAILURE"},         {"SUCCESS", "REVERTING"}, {"FAILURE", "REVERTING"},
                       {"REVERTED", "PENDING"},        {"IGNORE", "PENDING"},    {"REVERTING", "REVERTED"},
                       {"REVERTING", "REVERT_FAILURE"}};

// What the packs add to the tables: a reset of the whole flow, workers that are lost, and what operators do.
const Table task_added{{"SUCCESS", "PENDING"},
                       {"RUNNING", "RUNNING"},
                       {"REVERTING", "REVERTING"},
                       {"REVERT_FAILURE", "REVERTED"},
                       {"REVERT_FAILURE", "REVERTING"}};

Table both(Table one, const Table& other) {
    one.insert(other.begin(), other.end());
    return one;
}

TEST(Lifecycles, SagaTask) {
    const Machine m = shipped("pawl_saga/task");
    EXPECT_EQ(pairs(m), both(task_table, task_added));
    EXPECT_EQ(m.transitions().size(), 20u);
    EXPECT_EQ(m.states().size(), 8u);
    EXPECT_EQ(terminals(m), Names{"REVERT_FAILURE"});
    EXPECT_EQ(tagged(m, "owned"), (Names{"RUNNING", "REVERTING"}));
}

TEST(Lifecycles, Retry) {
    const Machine m = shipped("pawl_saga/retry");
    EXPECT_EQ(pairs(m), both(task_table, {{"SUCCESS", "RETRYING"}, {"RETRYING", "RUNNING"}, {"SUCCESS", "PENDING"}}));
    EXPECT_EQ(m.transitions().size(), 14u);
    EXPECT_EQ(m.states().size(), 9u);
    EXPECT_EQ(initials(m), Names{"PENDING"});
}

TEST(Lifecycles, Job) {
    const Machine m = shipped("pawl_saga/job");
    EXPECT_EQ(moves(m),
              sorted({"[*] |  | UNCLAIMED", "UNCLAIMED | claim | CLAIMED", "CLAIMED | abandon | UNCLAIMED",
                      "CLAIMED | complete | COMPLETE", "CLAIMED | lost | UNCLAIMED", "CLAIMED | gone | UNCLAIMED"}));
    EXPECT_EQ(terminals(m), Names{"COMPLETE"});
    EXPECT_EQ(tagged(m, "owned"), Names{"CLAIMED"});
}

TEST(Lifecycles, Engine) {
    const Machine m = shipped("pawl_saga/engine");
    EXPECT_EQ(moves(m), sorted({"[*] |  | UNDEFINED", "UNDEFINED | start | RESUMING",
                                "RESUMING | schedule_next | SCHEDULING", "SCHEDULING | wait_finished | WAITING",
                                "WAITING | examine_finished | ANALYZING", "ANALYZING | schedule_next | SCHEDULING",
                                "ANALYZING | wait_finished | WAITING", "ANALYZING | completed | GAME_OVER",
                                "GAME_OVER | success | SUCCESS", "GAME_OVER | reverted | REVERTED",
                                "GAME_OVER | suspended | SUSPENDED", "GAME_OVER | failed | FAILURE"}));
    EXPECT_EQ(initials(m), Names{"UNDEFINED"});
    EXPECT_EQ(terminals(m), (Names{"SUCCESS", "REVERTED", "SUSPENDED", "FAILURE"}));
}

TEST(Lifecycles, TheLinterHasNothingToSay) {
    for (const auto& path : diagram_files(root() / "sql")) {
        for (const core::Finding& finding : core::lint(file(path)))
            ADD_FAILURE() << path << ": " << finding.code << ", " << finding.message;
    }
}

}  // namespace
}  // namespace pawl::test
