// May throw. The only place that knows how libpqxx 6.4 and 7 differ; everything else runs its SQL through here.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pqxx/pqxx>

#include <pawl/errors.hpp>

#include "array_text.hpp"
#include "rows.hpp"

namespace pawl::sql {

// Throws the pawl::Error for the exception of libpqxx that is being handled.
[[noreturn]] void rethrow();

template <typename Call>
auto translated(Call&& call) {
    try {
        return call();
    } catch (const Error&) {
        throw;
    } catch (const std::exception&) {
        rethrow();
    }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wdeprecated-declarations"  // each is deprecated in one version and the only way in another
// One statement with parameters $1, $2, ...; a null is a null `const char*`.
template <typename... Arguments>
Rows run(pqxx::transaction_base& transaction, const std::string& statement, const Arguments&... arguments) {
    return translated([&]() -> Rows { return transaction.exec_params(statement, arguments...); });
}

// libpqxx 6 reconnects by itself, and the new session lacks the settings of the old one.
inline void never_reconnect([[maybe_unused]] pqxx::connection& connection) {
#if !defined(PQXX_VERSION_MAJOR) || PQXX_VERSION_MAJOR < 7
    connection.inhibit_reactivation(true);
#endif
}
#pragma GCC diagnostic pop

// One statement in a transaction of its own.
template <typename... Arguments>
Rows run_alone(pqxx::connection& connection, const std::string& statement, const Arguments&... arguments) {
    return translated([&] {
        pqxx::nontransaction transaction(connection);
        return run(transaction, statement, arguments...);
    });
}

void commit(pqxx::dbtransaction& transaction);

// A parameter that may be null. The text must outlive the call.
inline const char* or_null(const std::optional<std::string>& text) {
    return text ? text->c_str() : nullptr;
}

// Reads notifications and returns their number. Throws ConnectionLost.
int take_notifications(pqxx::connection& connection);

}  // namespace pawl::sql
