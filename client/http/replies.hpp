// Pure C++; may throw (out of memory). What the answers of several databases to one question mean together.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "pool.hpp"

namespace pawl::api {

// A database that is missing in an answer, and why.
struct Unavailable {
    std::string database;
    Problem problem;
};

// The database cannot answer, or not for this token. What is wrong with the request itself is no reason.
inline bool is_unavailable(const Outcome& outcome) {
    const int status = outcome.problem.status;
    return !outcome.good && (status == 401 || status == 403 || status >= 500);
}

// The database lacks the pack, so it has none of its things.
inline bool is_lacking(const Outcome& outcome) {
    return !outcome.good && outcome.problem.sqlstate == "0A000" && outcome.problem.status == 404;
}

// For answers in part.
nlohmann::json json_of(const std::vector<Unavailable>& unavailable);

// The problem if nothing but these are there.
Problem none_problem(const std::vector<Unavailable>& unavailable);

// The problem if `what` is in none of the others.
Problem missing_problem(const std::string& what, const std::vector<Unavailable>& unavailable);

}  // namespace pawl::api
