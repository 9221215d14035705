// May throw (out of memory).
#include "request.hpp"

#include <nlohmann/json.hpp>

#include "connection.hpp"
#include "headers.hpp"
#include "utf8.hpp"

namespace pawl::api {

std::string Request::json() const {
    return nlohmann::json(arguments).dump();
}

std::string Request::argument(const std::string& name) const {
    const auto found = arguments.find(name);
    return found == arguments.end() ? "" : found->second;
}

std::optional<Problem> read_call(const httplib::Request& http, const httplib::ContentReader& reader, std::size_t most,
                                 Call& call) {
    std::string& body = call.body.emplace();
    bool too_large = false;
    const bool whole = reader([&](const char* bytes, std::size_t length) {
        too_large = body.size() + length > most;
        if (!too_large) body.append(bytes, length);
        return !too_large;
    });
    if (!whole) {
        current_connection->close_after_this();
        if (too_large)
            return Problem{.status = 413, .detail = "the body is longer than " + std::to_string(most) + " bytes"};
        return Problem{.status = 400, .detail = "the body is incomplete"};
    }
    if (!body.empty() && !is_media_type(http, "application/json"))
        return Problem{.status = 415, .detail = "the body must be application/json"};
    if (!is_utf8(body)) return Problem{.status = 400, .detail = "the body is not UTF-8"};
    if (body.empty()) body = "{}";
    if (!http.has_header("Idempotency-Key")) return std::nullopt;
    call.once = http.get_header_value("Idempotency-Key");
    if (call.once->empty() || !is_utf8(*call.once))
        return Problem{.status = 400, .detail = "the idempotency key must be UTF-8"};
    return std::nullopt;
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
