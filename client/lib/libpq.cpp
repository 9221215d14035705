// May throw.
#include "libpq.hpp"

#include <cerrno>

#include <poll.h>

#include <pawl/errors.hpp>

#include "secrets.hpp"

namespace pawl {
namespace {

constexpr std::size_t most_unsent = 64 * 1024;

void wait_for_ever(int socket, short events) {
    pollfd what{socket, events, 0};
    while (::poll(&what, 1, -1) < 0 && errno == EINTR) {
    }
}

}  // namespace

const char* value_of(const PGresult* result, int row, int column) {
    if (row < 0 || row >= PQntuples(result))
        throw UnexpectedAnswer("", "the server's answer has no row " + std::to_string(row + 1));
    if (column >= PQnfields(result))
        throw UnexpectedAnswer("",
                               "the server's answer has " + std::to_string(PQnfields(result)) + " columns, too few");
    if (PQgetisnull(result, row, column))
        throw UnexpectedAnswer(
            "", "the server's answer has a null in column \"" + std::string(PQfname(result, column)) + "\"");
    return PQgetvalue(result, row, column);
}

LibpqSession::LibpqSession(const ConnectionSettings& settings, Wait wait)
    : connection_(PQconnectdb(libpq_string(settings).c_str()), PQfinish),
      wait_(wait ? std::move(wait) : Wait(wait_for_ever)) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) lost();
    PQsetnonblocking(connection_.get(), 1);
    run("SET client_encoding = 'UTF8'");
    if (settings.role.empty()) return;
    const auto pid = [this] { return std::stoi(value_of(run(backend_pid_statement).get(), 0, 0)); };
    require_session_for_role(keeps_session(settings, PQbackendPID(connection_.get()), pid), settings);
    run("SELECT set_config('role', $1, false)", {settings.role});
}

void LibpqSession::lost() {
    throw ConnectionLost("08006", without_passwords(PQerrorMessage(connection_.get())));
}

LibpqSession::Result LibpqSession::checked(PGresult* given) {
    Result result(given, PQclear);
    const ExecStatusType status = PQresultStatus(given);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_COPY_IN || status == PGRES_COPY_OUT)
        return result;
    const char* sqlstate = given ? PQresultErrorField(given, PG_DIAG_SQLSTATE) : nullptr;
    if (!sqlstate) lost();
    throw_error(sqlstate, PQresultErrorMessage(given));
}

LibpqSession::Result LibpqSession::run(const std::string& statement, const std::vector<Parameter>& parameters) {
    std::vector<const char*> values;
    for (const Parameter& parameter : parameters) values.push_back(parameter ? parameter->c_str() : nullptr);
    return last(PQsendQueryParams(connection_.get(), statement.c_str(), static_cast<int>(values.size()), nullptr,
                                  values.data(), nullptr, nullptr, 0) == 1);
}

// What the server sends is read while it takes what is sent: both sides could wait for each other.
void LibpqSession::wait(short events) {
    wait_(PQsocket(connection_.get()), static_cast<short>(events | POLLIN));
    if (PQconsumeInput(connection_.get()) != 1) lost();
}

void LibpqSession::flush() {
    unsent_ = 0;
    for (int left; (left = PQflush(connection_.get())) != 0; wait(POLLOUT))
        if (left < 0) lost();
}

PGresult* LibpqSession::next() {
    flush();
    while (PQisBusy(connection_.get())) wait(0);
    return PQgetResult(connection_.get());
}

// The last result of a statement, or the first error; of COPY its beginning.
LibpqSession::Result LibpqSession::last(bool sent) {
    if (!sent) lost();
    Result result(nullptr, PQclear);
    while (PGresult* const more = next()) {
        if (!result || PQresultStatus(result.get()) != PGRES_FATAL_ERROR)
            result.reset(more);
        else
            PQclear(more);
        const ExecStatusType status = PQresultStatus(result.get());
        if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || PQstatus(connection_.get()) != CONNECTION_OK) break;
    }
    return checked(result.release());
}

std::string LibpqSession::server_encoding() const {
    const char* name = PQparameterStatus(connection_.get(), "server_encoding");
    return name ? name : "UTF8";
}

int LibpqSession::backend_pid() const noexcept {
    return PQbackendPID(connection_.get());
}

void LibpqSession::begin_copy(const std::string& statement) {
    run(statement);
}

void LibpqSession::put(std::string_view bytes) {
    if (PQputCopyData(connection_.get(), bytes.data(), static_cast<int>(bytes.size())) != 1) lost();
    unsent_ += bytes.size();
    if (unsent_ >= most_unsent) flush();
}

void LibpqSession::end_copy() {
    if (PQputCopyEnd(connection_.get(), nullptr) != 1) lost();
    last(true);
}

void LibpqSession::copy_out(const std::string& statement, const std::function<void(std::string_view)>& take) {
    run(statement);
    char* bytes = nullptr;
    for (int length; (length = PQgetCopyData(connection_.get(), &bytes, 1)) >= 0;) {
        if (length == 0) {
            wait(0);
            continue;
        }
        const std::unique_ptr<char, void (*)(void*)> owner(bytes, PQfreemem);
        take({bytes, static_cast<std::size_t>(length)});
    }
    last(true);
}

}  // namespace pawl
