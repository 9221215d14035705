// May throw (out of memory). Files that come and go: rows are stored while they arrive and sent while they are read, so
// that memory does not grow with them. Each has a connection to the database of its own.
#pragma once

#include <httplib.h>

#include <pawl/errors.hpp>

#include "libpq.hpp"
#include "limits.hpp"
#include "request.hpp"

namespace pawl::api {

// A multipart form whose last field is the file. What goes wrong is the outcome's problem.
Outcome take_upload(const Request& request, const httplib::ContentReader& reader, const ConnectionSettings& database,
                    const Limits& limits);

// Answers itself, unless something is wrong before the first byte: that is returned.
std::optional<Problem> send_export(const Request& request, const ConnectionSettings& database);

// Whether an export could begin; what is wrong is returned.
std::optional<Problem> check_export(const Request& request, const ConnectionSettings& database);

// The request begins in this session as it does in the pool. Throws Error.
void begin_request(LibpqSession& session, const Caller& caller);

// An error of the client library as the API tells it.
Problem problem_of(const Error& error);

}  // namespace pawl::api
