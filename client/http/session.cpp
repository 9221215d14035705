// May throw.
#include "pool.hpp"

#include <array>

#include <poll.h>

#include <pawl/errors.hpp>

#include "libpq.hpp"

namespace pawl::api {
namespace {

std::string field(const PGresult* result, int code) {
    const char* text = PQresultErrorField(result, code);
    return text ? text : "";
}

}  // namespace

Problem problem_of(const PGresult* result) {
    if (!result) return {.status = 503, .detail = "the database cannot be reached", .sqlstate = "08006"};
    Problem problem{.detail = field(result, PG_DIAG_MESSAGE_PRIMARY),
                    .sqlstate = field(result, PG_DIAG_SQLSTATE),
                    .facts = field(result, PG_DIAG_MESSAGE_DETAIL),
                    .hint = field(result, PG_DIAG_MESSAGE_HINT)};
    if (problem.sqlstate.empty())
        return {.status = 503, .detail = "the connection to the database was lost", .sqlstate = "08006"};
    problem.status = status_of(problem.sqlstate);
    return problem;
}

Session::Session(const ConnectionSettings& settings, std::chrono::milliseconds timeout)
    : connection_(PQconnectdb(libpq_string(settings).c_str()), PQfinish),
      longest_silence_(longest_silence(timeout)),
      patience_(longest_silence_) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) throw ConnectionLost("08006", PQerrorMessage(connection_.get()));
    PQsetNoticeProcessor(
        connection_.get(), [](void*, const char*) {}, nullptr);
    PQsetnonblocking(connection_.get(), 1);
    const auto pid = [this] {
        const Result answer = run(backend_pid_statement);
        if (PQresultStatus(answer.get()) != PGRES_TUPLES_OK)
            throw ConnectionLost("08006", PQerrorMessage(connection_.get()));
        return std::stoi(value_of(answer.get(), 0, 0));
    };
    require_session(keeps_session(settings, PQbackendPID(connection_.get()), pid), settings, needs_session,
                    session_hint);
    const std::string begin =
        "SET client_encoding = 'UTF8'; SET statement_timeout = " + std::to_string(timeout.count()) +
        "; SET idle_in_transaction_session_timeout = '5min'; SET timezone = 'UTC'; SET datestyle = 'ISO'; SET "
        "intervalstyle = 'iso_8601'";
    const Result set = PQsendQuery(connection_.get(), begin.c_str()) == 1 ? last() : Result(nullptr, PQclear);
    if (PQresultStatus(set.get()) != PGRES_COMMAND_OK) throw ConnectionLost("08006", PQerrorMessage(connection_.get()));
}

bool Session::is_alive() {
    pollfd what{PQsocket(connection_.get()), POLLIN, 0};
    if (::poll(&what, 1, 0) == 0) return true;
    PQconsumeInput(connection_.get());
    return PQstatus(connection_.get()) == CONNECTION_OK;
}

// The statement travels with its first use.
bool Session::prepare(const std::string& name, const std::string& statement, int parameters) {
    if (prepared_.contains(name)) return true;
    const std::array<Oid, 4> unknown{};
    return PQsendPrepare(connection_.get(), name.c_str(), statement.c_str(), parameters, unknown.data()) == 1;
}

// Waits until a result can be read. False: the server was silent for too long, and the connection cannot be used any
// more.
bool Session::wait() {
    PGconn* const link = connection_.get();
    for (auto end = Clock::now() + patience_;;) {
        const int unsent = PQflush(link);
        if (unsent < 0 || !PQisBusy(link)) return true;  // an error is a result, too
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        pollfd what{PQsocket(link), static_cast<short>(POLLIN | (unsent ? POLLOUT : 0)), 0};
        const int ready = left.count() > 0 ? ::poll(&what, 1, static_cast<int>(left.count())) : 0;
        if (ready == 0) {
            silent_ = true;
            return false;
        }
        if (ready < 0) continue;  // a signal
        if ((what.revents & ~POLLOUT) && PQconsumeInput(link) == 0) return true;
        end = Clock::now() + patience_;
    }
}

// The last result of a command outside of a pipeline, as PQexec gives it; null: the server was silent.
Result Session::last() {
    Result result(nullptr, PQclear);
    while (wait()) {
        Result more(PQgetResult(connection_.get()), PQclear);
        if (!more) return result;
        result = std::move(more);
        const ExecStatusType status = PQresultStatus(result.get());
        if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || PQstatus(connection_.get()) != CONNECTION_OK)
            return result;
    }
    return {nullptr, PQclear};
}

// The result of the next command of the pipeline; what follows it is a null.
Result Session::next(bool& broken) {
    const auto get = [this] { return Result(wait() ? PQgetResult(connection_.get()) : nullptr, PQclear); };
    Result result = get();
    if (result && PQresultStatus(result.get()) != PGRES_PIPELINE_SYNC)
        while (get()) {
        }
    broken = broken || silent_;
    broken = broken || !result || PQstatus(connection_.get()) != CONNECTION_OK;
    return result;
}

// Sends the two commands of a request, and what prepares them, without waiting. False: the connection is broken.
bool Session::send(const Caller& caller, const Call& call, const std::string& name) {
    PGconn* const link = connection_.get();
    const std::string statement = call.once   ? "SELECT pawl_api.once($1, $2, $3, $4)"
                                  : call.body ? "SELECT pawl_api." + call.route + "($1, $2)"
                                              : "SELECT pawl_api." + call.route + "($1)";
    const char* identity[] = {caller.kind.c_str(), caller.digest.data(), caller.scope.c_str(),
                              caller.trace.empty() ? nullptr : caller.trace.c_str()};
    const int lengths[] = {0, static_cast<int>(caller.digest.size()), 0, 0}, formats[] = {0, 1, 0, 0};
    const char* const body = call.body ? call.body->c_str() : nullptr;
    const char* what[] = {call.arguments.c_str(), body};
    const char* once[] = {call.once ? call.once->c_str() : nullptr, call.route.c_str(), call.arguments.c_str(), body};
    return prepare(begin_, "SELECT pawl_api.begin_request($1, $2, $3, $4)", 4) &&
           PQsendQueryPrepared(link, begin_, 4, identity, lengths, formats, 0) == 1 && prepare(name, statement, 0) &&
           PQsendQueryPrepared(link, name.c_str(),
                               call.once   ? 4
                               : call.body ? 2
                                           : 1,
                               call.once ? once : what, nullptr, nullptr, 0) == 1 &&
           PQpipelineSync(link) == 1;
}

// Reads what the commands of a request answer, and keeps the first error. The last one answers the JSON of the route.
// `learned` are the statements that are prepared with this request, in their order.
void Session::read_answers(const std::vector<std::string>& learned, Outcome& outcome, bool& broken) {
    const int commands = 2 + static_cast<int>(learned.size());
    for (int i = 0, l = 0; i < commands && !broken; ++i) {
        const bool learns = l < static_cast<int>(learned.size()) && (i == (learned[l] == begin_ ? 0 : commands - 2));
        const Result result = next(broken);
        const ExecStatusType status = PQresultStatus(result.get());
        if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
            if (learns) prepared_.insert(learned[l]);
            if (i == commands - 1 && PQntuples(result.get()) == 1 && !PQgetisnull(result.get(), 0, 0))
                outcome.json = value_of(result.get(), 0, 0);
        } else if (status != PGRES_PIPELINE_ABORTED && outcome.good) {
            outcome.good = false;
            outcome.problem = problem_of(result.get());
        }
        if (learns) ++l;
    }
}

// The commit comes with the end of the pipeline: a deferred error, too.
void Session::read_end(Outcome& outcome, bool& broken) {
    while (!broken) {
        const Result end = next(broken);
        const ExecStatusType status = PQresultStatus(end.get());
        if (status == PGRES_PIPELINE_SYNC) return;
        if (outcome.good && (status == PGRES_FATAL_ERROR || status == PGRES_NONFATAL_ERROR)) {
            outcome.good = false;
            outcome.problem = problem_of(end.get());
        }
    }
}

Outcome Session::call(const Caller& caller, const Call& call) {
    const std::string name = call.once ? "once" : call.route;
    std::vector<std::string> learned;
    for (const std::string& statement : {std::string(begin_), name})
        if (!prepared_.contains(statement)) learned.push_back(statement);

    limit_silence(call.patience);
    PQenterPipelineMode(connection_.get());
    Outcome outcome;
    outcome.good = true;
    bool broken = !send(caller, call, name);
    read_answers(learned, outcome, broken);
    read_end(outcome, broken);
    limit_silence({});
    if (!broken && PQexitPipelineMode(connection_.get()) == 1) return outcome;
    outcome.good = false;
    outcome.lost = true;
    outcome.silent = silent_;
    if (silent_)
        outcome.problem = {.status = 504, .detail = "the database did not answer in time", .sqlstate = "08006"};
    else if (outcome.problem.sqlstate.empty())
        outcome.problem = problem_of(nullptr);
    return outcome;
}

Result Session::run(const char* statement, const std::vector<std::optional<std::string>>& parameters) {
    std::vector<const char*> values;
    for (const auto& parameter : parameters) values.push_back(parameter ? parameter->c_str() : nullptr);
    return ask(statement, static_cast<int>(values.size()), values.data(), nullptr, nullptr);
}

Result Session::ask(const char* statement, int count, const char* const* values, const int* lengths,
                    const int* formats) {
    if (PQsendQueryParams(connection_.get(), statement, count, nullptr, values, lengths, formats, 0) != 1)
        return {nullptr, PQclear};
    return last();
}

std::optional<Problem> Session::begin(const Caller& caller) {
    if (const Result begun = run("BEGIN"); PQresultStatus(begun.get()) != PGRES_COMMAND_OK)
        return problem_of(begun.get());
    const char* identity[] = {caller.kind.c_str(), caller.digest.data(), caller.scope.c_str(),
                              caller.trace.empty() ? nullptr : caller.trace.c_str()};
    const int lengths[] = {0, static_cast<int>(caller.digest.size()), 0, 0}, formats[] = {0, 1, 0, 0};
    const Result result = ask("SELECT pawl_api.begin_request($1, $2, $3, $4)", 4, identity, lengths, formats);
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) return problem_of(result.get());
    return std::nullopt;
}

}  // namespace pawl::api
