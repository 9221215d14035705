// Where a namespace is, when the work of packs is divided among several databases: a cache of pawl.placement, and calls
// that go to the right database.
//
//     pawl::Placements placements({.target = "service=home"});
//     placements.run("dag", "billing", [&](pqxx::connection& connection) {
//         pqxx::work transaction(connection);
//         pawl::start_task(transaction, {.name = "invoice", .name_space = "billing"});
//         transaction.commit();
//     });
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <pawl/connection.hpp>

namespace pawl {

/// One of the databases. A database that is not one of several is the only one, and its name is empty.
struct PlacedDatabase {
    std::string name;
    ConnectionSettings connection;
    bool home = false;  ///< Its placements count.
};

/// Thread-safe, but for the connections that run() lends: these belong to the thread that calls it.
class Placements {
public:
    /// Does not connect. @param member any of the databases; what its settings name (role, pooler and so on) holds for
    /// the others too
    /// @param patience how long run() waits for a namespace that moves
    explicit Placements(ConnectionSettings member, std::chrono::milliseconds patience = std::chrono::minutes(5));

    /// The database that a namespace is in, from the cache; reads it anew when there is none.
    /// @throws error::placed_elsewhere if it is placed in none
    PlacedDatabase find(const std::string& kind, const std::string& name_space);

    /// All databases, by name.
    std::vector<PlacedDatabase> databases();

    /// Reads databases and placements anew, from the home, or from the member if the home does not answer.
    /// @throws ConnectionLost if neither answers
    void refresh();

    /// Notes where a database that rejected work says the namespace is. Does nothing if it knows less.
    void learn(pqxx::connection& rejecting, const std::string& kind, const std::string& name_space);

    /// Notes that a namespace is in a database. Does nothing if there is no database of this name.
    void learn(const std::string& kind, const std::string& name_space, const std::string& database);

    /// Runs `body` with a connection to the namespace's database. If that database rejects it, because the namespace
    /// has moved, `body` runs again with another connection: at the database that the rejection names, after a wait as
    /// long as the move is under way. A body that has committed must not let error::placed_elsewhere escape.
    /// @throws error::placed_elsewhere if the patience is over, and whatever else body throws
    void run(const std::string& kind, const std::string& name_space,
             const std::function<void(pqxx::connection&)>& body);

private:
    PlacedDatabase known(const std::string& kind, const std::string& name_space);
    void read(const ConnectionSettings& from);

    ConnectionSettings member_;
    std::chrono::milliseconds patience_;
    std::mutex mutex_;
    std::atomic<bool> is_read_ = false;
    std::map<std::string, PlacedDatabase> databases_;
    std::map<std::pair<std::string, std::string>, std::string> placements_;  // an empty namespace: all others
};

}  // namespace pawl
