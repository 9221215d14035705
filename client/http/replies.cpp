// May throw (out of memory).
#include "replies.hpp"

#include <algorithm>

namespace pawl::api {

nlohmann::json json_of(const std::vector<Unavailable>& unavailable) {
    auto list = nlohmann::json::array();
    for (const auto& [database, problem] : unavailable)
        list.push_back({{"database", database}, {"problem", nlohmann::json(problem.object())}});
    return list;
}

// An unknown token is told as such: only so does it count as a failed login. If nothing has accepted the token, the
// client does not learn which databases there are.
Problem none_problem(const std::vector<Unavailable>& unavailable) {
    const auto status_is = [](int status) {
        return [status](const Unavailable& one) { return one.problem.status == status; };
    };
    if (const auto unknown = std::find_if(unavailable.begin(), unavailable.end(), status_is(401));
        unknown != unavailable.end())
        return unknown->problem;
    if (!unavailable.empty() && std::all_of(unavailable.begin(), unavailable.end(), status_is(403)))
        return unavailable.front().problem;
    return {.status = 503, .detail = "no database answers", .sqlstate = "08006"};
}

Problem missing_problem(const std::string& what, const std::vector<Unavailable>& unavailable) {
    std::string names, facts;
    for (const auto& [database, problem] : unavailable) {
        names += (names.empty() ? "\"" : ", \"") + database + "\"";
        facts += (facts.empty() ? "" : "; ") + database + ": " + problem.detail;
    }
    return {.status = 503,
            .detail = what + " may be in a database that does not answer: " + names,
            .sqlstate = "08006",
            .facts = facts + "."};
}

}  // namespace pawl::api
