// May throw (out of memory). A request, and answers that all handlers of routes share.
#pragma once

#include <map>
#include <string>

#include <httplib.h>

#include "log.hpp"
#include "pool.hpp"
#include "routes.hpp"

namespace pawl::api {

// A request with its route and its authenticated client.
struct Request {
    const httplib::Request& http;
    const Route& route;
    Caller caller;
    std::map<std::string, std::string> arguments;  // of path and query
    std::string database = {};                     // the one of several that the request names; empty: none

    std::string json() const;  // the arguments
    std::string argument(const std::string& name) const;
};

// Reads the body and the idempotency key of a POST of JSON.
std::optional<Problem> read_call(const httplib::Request& http, const httplib::ContentReader& reader, std::size_t most,
                                 Call& call);

void answer(httplib::Response& response, int status, const std::string& body, const std::string& type);

// Answers with a problem and its headers (Retry-After, WWW-Authenticate). Statuses of 500 and above are logged, without
// the content of the request.
void reject(httplib::Response& response, const Problem& problem, const daemon::Log& log);

}  // namespace pawl::api
