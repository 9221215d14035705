// May throw.
#include "pooler.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <libpq-fe.h>
#include <poll.h>

#include <pawl/errors.hpp>

#include "libpq.hpp"
#include "secrets.hpp"

namespace pawl {
namespace {

// With a pooler of several processes the connections are spread over them: of four, two meet in one process mostly.
constexpr std::size_t most_others = 3;
constexpr auto slice = std::chrono::milliseconds(50);
constexpr int patience = 20;  // slices

// Another connection to the same place, which has asked for its session.
class Other {
public:
    // Throws ConnectionLost.
    explicit Other(const ConnectionSettings& settings)
        : connection_(PQconnectdb(libpq_string(settings).c_str()), PQfinish) {
        if (PQstatus(connection_.get()) != CONNECTION_OK) lost();
        if (PQsendQuery(connection_.get(), session_statement) != 1) lost();
    }

    // Its session; none: no session has come within the time. Throws ConnectionLost.
    std::optional<std::string> session(std::chrono::milliseconds time) {
        pollfd what{PQsocket(connection_.get()), POLLIN, 0};
        if (PQisBusy(connection_.get())) {
            if (::poll(&what, 1, static_cast<int>(time.count())) <= 0) return std::nullopt;
            if (PQconsumeInput(connection_.get()) != 1) lost();
            if (PQisBusy(connection_.get())) return std::nullopt;
        }
        const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQgetResult(connection_.get()), PQclear);
        if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) lost();
        return value_of(result.get(), 0, 0);
    }

private:
    [[noreturn]] void lost() { throw ConnectionLost("08006", without_passwords(PQerrorMessage(connection_.get()))); }

    std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
};

}  // namespace

// In session mode two open connections never share a session, and a connection never changes it. In transaction mode
// an idle pool gives the second connection the session that the first has just left (most recently used first), and a
// pool that is in use, or goes round, gives the first another one. So a pooler proves itself by what it does.
bool keeps_session(const ConnectionSettings& settings, int login, const std::function<std::string()>& session) {
    if (settings.session_pooler) return true;
    const std::string own = session();
    if (std::string_view(own).substr(0, own.find(' ')) == std::to_string(login)) return true;
    std::vector<Other> others;
    std::set<std::string> sessions{own};
    while (others.size() < most_others) {
        std::optional<std::string> found;
        try {
            others.emplace_back(settings);
            // in transaction mode the session that `own` leaves would go to the connection that waits
            for (int i = 0; i < patience && !(found = others.back().session(slice)); ++i)
                if (session() != own) return false;
        } catch (const ConnectionLost&) {
            if (sessions.size() == 1) throw;
            break;
        }
        if (!found) break;
        if (!sessions.insert(*found).second || session() != own) return false;
    }
    return true;
}

}  // namespace pawl
