// May throw.
#include "libpq.hpp"

#include <pawl/errors.hpp>

#include "secrets.hpp"

namespace pawl {

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

LibpqSession::LibpqSession(const ConnectionSettings& settings)
    : connection_(PQconnectdb(libpq_string(settings).c_str()), PQfinish) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) lost();
    PQsetClientEncoding(connection_.get(), "UTF8");
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
    return checked(PQexecParams(connection_.get(), statement.c_str(), static_cast<int>(values.size()), nullptr,
                                values.data(), nullptr, nullptr, 0));
}

std::string LibpqSession::server_encoding() const {
    const char* name = PQparameterStatus(connection_.get(), "server_encoding");
    return name ? name : "UTF8";
}

void LibpqSession::begin_copy(const std::string& statement) {
    run(statement);
}

void LibpqSession::put(std::string_view bytes) {
    if (PQputCopyData(connection_.get(), bytes.data(), static_cast<int>(bytes.size())) != 1) lost();
}

void LibpqSession::end_copy() {
    if (PQputCopyEnd(connection_.get(), nullptr) != 1) lost();
    Result first = checked(PQgetResult(connection_.get()));
    while (PGresult* more = PQgetResult(connection_.get())) checked(more);
}

void LibpqSession::copy_out(const std::string& statement, const std::function<void(std::string_view)>& take) {
    run(statement);
    char* bytes = nullptr;
    for (int length; (length = PQgetCopyData(connection_.get(), &bytes, 0)) > 0;) {
        const std::unique_ptr<char, void (*)(void*)> owner(bytes, PQfreemem);
        take({bytes, static_cast<std::size_t>(length)});
    }
    while (PGresult* more = PQgetResult(connection_.get())) checked(more);
}

}  // namespace pawl
