// May throw (out of memory).
#include "request.hpp"

#include <nlohmann/json.hpp>

namespace pawl::api {

std::string Request::json() const {
    return nlohmann::json(arguments).dump();
}

std::string Request::argument(const std::string& name) const {
    const auto found = arguments.find(name);
    return found == arguments.end() ? "" : found->second;
}

void answer(httplib::Response& response, int status, const std::string& body, const std::string& type) {
    response.status = status;
    response.set_content(body, type);
}

void reject(httplib::Response& response, const Problem& problem, const daemon::Log& log) {
    if (problem.status == 401) response.set_header("WWW-Authenticate", "Bearer realm=\"pawl\"");
    if (problem.status == 503 && !response.has_header("Retry-After")) response.set_header("Retry-After", "1");
    if (problem.status >= 500)
        log.warn("request failed",
                 {{"status", problem.status}, {"sqlstate", problem.sqlstate}, {"message", problem.detail}});
    answer(response, problem.status, problem.json(), "application/problem+json");
}

}  // namespace pawl::api
