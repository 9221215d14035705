// May throw.
#include <pawl/connection.hpp>

#include <cctype>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "libpq.hpp"
#include "secrets.hpp"
#include "sql.hpp"

namespace pawl {

namespace {

// A value of a keyword/value connection string.
std::string quoted_value(const std::string& value) {
    std::string quoted = "'";
    for (const char each : value) {
        if (each == '\'' || each == '\\') quoted += '\\';
        quoted += each;
    }
    return quoted + "'";
}

// A value of a connection URI.
std::string percent_encoded(const std::string& value) {
    static constexpr char digits[] = "0123456789ABCDEF";
    std::string encoded;
    for (const char each : value) {
        const auto byte = static_cast<unsigned char>(each);
        if (std::isalnum(byte) != 0 || each == '-' || each == '_' || each == '.' || each == '~') {
            encoded += each;
        } else {
            encoded += '%';
            encoded += digits[byte >> 4];
            encoded += digits[byte & 15];
        }
    }
    return encoded;
}

}  // namespace

// The user's own options come last, so that they win. A URI takes them as parameters.
std::string libpq_string(const ConnectionSettings& settings) {
    check_target(settings.target);
    const std::string timeout = settings.connect_timeout > 0 ? std::to_string(settings.connect_timeout) : "";
    if (settings.target.rfind("postgresql://", 0) == 0 || settings.target.rfind("postgres://", 0) == 0) {
        std::string uri = settings.target + (settings.target.find('?') == std::string::npos ? "?" : "&");
        uri += "fallback_application_name=" + percent_encoded(settings.application_name);
        if (!timeout.empty()) uri += "&connect_timeout=" + timeout;
        return uri;
    }
    std::string words = "fallback_application_name=" + quoted_value(settings.application_name);
    if (!timeout.empty()) words += " connect_timeout=" + timeout;
    return words + " " + settings.target;
}

std::string with_login_of(const std::string& login, const std::string& target) {
    static const std::set<std::string> of_login{"user", "password", "passfile", "sslcert", "sslkey", "sslpassword"};
    std::map<std::string, std::string> values;
    const auto read = [&](const std::string& from, bool whole) {
        const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> options(
            PQconninfoParse(from.c_str(), nullptr), PQconninfoFree);
        for (const PQconninfoOption* one = options.get(); one && one->keyword; ++one)
            if (one->val && (whole || of_login.contains(one->keyword))) values[one->keyword] = one->val;
    };
    read(target, true);
    read(login, false);
    std::string words;
    for (const auto& [name, value] : values) words += (words.empty() ? "" : " ") + name + "=" + quoted_value(value);
    return words;
}

SessionRequired::SessionRequired(const std::string& what, bool in_transaction_mode, const std::string& hint)
    : Error("0A000", in_transaction_mode
                         ? what +
                               " cannot be used through a pooler in transaction mode\n"
                               "DETAIL:  Transactions of one connection run in different sessions of the server.\n"
                               "HINT:  " +
                               hint
                         : what +
                               " cannot be used through a pooler that the settings do not name\n"
                               "DETAIL:  The session that answers is not the one of the login, and the setting pooler "
                               "is \"none\".\n"
                               "HINT:  Set pooler to \"session\" if the pooler is in session mode. Otherwise: " +
                               hint) {}

bool keeps_session(const ConnectionSettings& settings, int login_pid, const std::function<int()>& answering_pid) {
    return settings.pooler == Pooler::session || (settings.pooler == Pooler::none && answering_pid() == login_pid);
}

void require_session(bool kept, const ConnectionSettings& settings, const std::string& what, const std::string& hint) {
    if (!kept) throw SessionRequired(what, settings.pooler == Pooler::transaction, hint);
}

void require_session_for_role(bool kept, const ConnectionSettings& settings) {
    require_session(
        kept, settings, "the setting role",
        "Log in as a role that becomes it by itself (ALTER ROLE ... SET role = ...), or connect to the server itself.");
}

bool keeps_session(pqxx::connection& connection, const ConnectionSettings& settings) {
    return keeps_session(settings, connection.backendpid(),
                         [&connection] { return sql::run_alone(connection, backend_pid_statement)[0][0].as<int>(); });
}

void log_to_standard_error(const std::string& line) {
    std::cerr << line + "\n" << std::flush;
}

std::unique_ptr<pqxx::connection> connect(const ConnectionSettings& settings) {
    return sql::translated([&] {
        auto connection = std::make_unique<pqxx::connection>(libpq_string(settings));
        sql::never_reconnect(*connection);
        if (settings.role.empty()) return connection;
        // in transaction mode the role would stay with a session that other clients use
        require_session_for_role(keeps_session(*connection, settings), settings);
        sql::run_alone(*connection, "SELECT set_config('role', $1, false)", settings.role);
        return connection;
    });
}

}  // namespace pawl
