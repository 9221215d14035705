// May throw. pawl saga: the job board.
#include <memory>

#include <pawl/flows.hpp>

#include "saga_commands.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Arguments {
    JobRequest request;
    std::string inputs = "{}", details = "{}", job, board, state, reason;
    int limit = 20;
};

void add_post(Program& program, Command& saga) {
    auto given = std::make_shared<Arguments>();
    auto* command = saga.add_subcommand("post", "post a job and print its id");
    command->add_option("name", given->request.name, "what people call it")->required();
    command->add_option("--flow", given->request.flow, "the flow that a conductor begins");
    command->add_option("--inputs", given->inputs, "of the flow: a JSON object");
    command->add_option("--details", given->details, "a JSON object for the conductor that claims it");
    command->add_option("--priority", given->request.priority, "VERY_HIGH, HIGH, NORMAL (default), LOW, VERY_LOW")
        ->check(IsMember{{"VERY_HIGH", "HIGH", "NORMAL", "LOW", "VERY_LOW"}});
    command->add_option("--board", given->request.board, "default: default");
    program.run(command, [&program, given](pqxx::connection& connection) {
        given->request.inputs = json_of("--inputs", given->inputs);
        given->request.details = json_of("--details", given->details);
        pqxx::work transaction(connection);
        const std::string job = post_job(transaction, given->request);
        sql::commit(transaction);
        print(program.output, {{"job", job}}, job);
        return fine;
    });
}

void add_jobs(Program& program, Command& saga) {
    auto given = std::make_shared<Arguments>();
    auto* command = saga.add_subcommand("jobs", "jobs in the order in which they are taken; those that are done last");
    command->add_option("--board", given->board, "only those of this board");
    command->add_option("--state", given->state, "only those in this state: UNCLAIMED, CLAIMED, COMPLETE, or trashed")
        ->check(IsMember{{"UNCLAIMED", "CLAIMED", "COMPLETE", "trashed"}});
    command->add_option("--limit", given->limit, "at most so many, default 20")->check(Range{1, 100'000});
    program.run(command, [&program, given](pqxx::connection& connection) {
        print(program.output,
              sql::run_alone(connection,
                             "SELECT j.job_uuid AS job, j.board, j.name, CASE WHEN j.trashed_at IS NOT NULL THEN "
                             "'trashed' ELSE j.state END AS state, j.priority,"
                             " j.flow, j.flow_uuid, f.state AS flow_state, j.owner, j.attempts, "
                             "coalesce(split_part(j.trashed_for, E'\\n', 1)) AS why, j.created_at"
                             " FROM pawl_saga.jobs j LEFT JOIN pawl_saga.flows f ON f.flow_uuid = j.flow_uuid"
                             " WHERE ($1 = '' OR j.board = $1) AND ($2 = '' OR CASE WHEN j.trashed_at IS NOT NULL THEN "
                             "'trashed' ELSE j.state END = $2)"
                             " ORDER BY j.state = 'COMPLETE', j.trashed_at IS NOT NULL, j.priority DESC, j.created_at, "
                             "j.job_uuid LIMIT $3::integer",
                             given->board, given->state, given->limit));
        return fine;
    });
}

// Taken and put aside in one transaction, so that no conductor comes in between.
void add_cancel(Program& program, Command& saga) {
    auto given = std::make_shared<Arguments>();
    auto* command =
        saga.add_subcommand("cancel", "remove an unclaimed job from the board; for a claimed one, revert its flow");
    command->add_option("job", given->job, "its id")->required();
    command->add_option("--reason", given->reason, "kept with the job");
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto found = sql::run_alone(connection,
                                          "SELECT j.state, j.flow_uuid, j.trashed_at IS NOT NULL, j.name FROM "
                                          "pawl_saga.jobs j WHERE j.job_uuid = $1::uuid",
                                          given->job);
        if (found.empty()) throw Error("P0002", "there is no job " + given->job);
        const std::string state = found[0][0].as<std::string>(), name = found[0][3].as<std::string>();
        if (state == "COMPLETE" || found[0][2].as<bool>()) {
            print(program.output, {{"job", given->job}, {"cancelled", false}},
                  "nothing to do: job " + name + " is " + (state == "COMPLETE" ? "done" : "cancelled") + " already");
            return findings;
        }
        if (state == "CLAIMED" && !found[0][1].is_null())
            throw Error("55000", "job " + name + " is at work; what it has done is undone by: pawl saga revert " +
                                     found[0][1].as<std::string>() + " --reason ...");
        const std::string me = "pawl saga cancel";
        pqxx::work transaction(connection);
        sql::run(transaction, "SELECT pawl_saga.claim_job($1::uuid, $2, '1 min')", given->job, me);
        sql::run(transaction, "SELECT pawl_saga.trash_job($1::uuid, $2, $3)", given->job, me,
                 given->reason.empty() ? "cancelled" : given->reason);
        sql::commit(transaction);
        print(program.output, {{"job", given->job}, {"cancelled", true}}, "job " + name + " is off the board");
        return fine;
    });
}

}  // namespace

void add_saga_jobs(Program& program, Command& saga) {
    add_post(program, saga);
    add_jobs(program, saga);
    add_cancel(program, saga);
}

}  // namespace pawl::cli
