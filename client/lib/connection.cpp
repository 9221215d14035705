// May throw.
#include <pawl/connection.hpp>

#include <cctype>

#include "libpq.hpp"
#include "pooler.hpp"
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

// The user's own words come last, so they win. A URI takes them as parameters.
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

bool keeps_session(pqxx::connection& connection, const ConnectionSettings& settings) {
    return keeps_session(settings, connection.backendpid(), [&connection] {
        return sql::run_alone(connection, session_statement)[0][0].as<std::string>();
    });
}

std::unique_ptr<pqxx::connection> connect(const ConnectionSettings& settings) {
    return sql::translated([&] {
        auto connection = std::make_unique<pqxx::connection>(libpq_string(settings));
        sql::never_reconnect(*connection);
        if (settings.role.empty()) return connection;
        // the role would stay with a session that other clients use
        if (!keeps_session(*connection, settings)) throw PoolerBetween(role_setting, role_hint);
        sql::run_alone(*connection, "SELECT set_config('role', $1, false)", settings.role);
        return connection;
    });
}

}  // namespace pawl
