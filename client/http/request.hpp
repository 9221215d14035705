// May throw (out of memory). What all handlers of routes have in common.
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

    std::string json() const;  // the arguments
    std::string argument(const std::string& name) const;
};

void answer(httplib::Response& response, int status, const std::string& body, const std::string& type);

// With what HTTP wants beside the body: Retry-After, WWW-Authenticate. What is our fault is logged, without what was
// sent.
void reject(httplib::Response& response, const Problem& problem, const daemon::Log& log);

}  // namespace pawl::api
