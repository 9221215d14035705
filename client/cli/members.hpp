// May throw. What concerns several databases at once: their default place, and their copies of the placements.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <pawl/connection.hpp>

#include "member_session.hpp"

namespace pawl::cli {

class Members {
public:
    // Connects to the database whose placements count, by way of `member`.
    Members(const ConnectionSettings& member, Say say);

    // Sets the database of the namespaces of a kind (empty: of every kind) that have no place of their own. All
    // databases must answer. An interrupted change is continued by the same call.
    void place_others(const std::string& kind, const std::string& database);

    // Removes a database that no namespace is placed in, and tells the others.
    void remove(const std::string& database);

    // Compares the placements of each database with those of the home: an object with database, status (ok, outdated,
    // conflict, unreachable) and details. update: outdated copies are brought up to date.
    nlohmann::ordered_json check(bool update);

private:
    struct Member {
        std::string name, connection;
    };
    std::vector<Member> others();
    LibpqSession session_of(const Member& member);
    nlohmann::json close(LibpqSession& session, const std::vector<std::string>& kinds, const std::string& database);
    void copy_to(LibpqSession& session);
    nlohmann::ordered_json compare(const Member& member, bool update);

    ConnectionSettings member_;
    Say say_;
    LibpqSession home_;
};

}  // namespace pawl::cli
