// May throw (out of memory). Uploads and exports: rows are stored while they arrive and sent while they are read, so
// that memory does not grow with files. Each has a database connection of its own.
#pragma once

#include <httplib.h>

#include <pawl/errors.hpp>

#include "databases.hpp"
#include "limits.hpp"
#include "request.hpp"

namespace pawl::api {

// Reads a multipart form whose last field is the file, which goes into the database of the operation's definition.
// Errors are the outcome's problem.
Outcome take_upload(const Request& request, const httplib::ContentReader& reader, Databases& databases,
                    const Limits& limits);

// Streams the answer. A problem before the first byte is returned. name: of the database in the answer's headers;
// empty: it is the only one.
std::optional<Problem> send_export(const Request& request, const Member& member, const std::string& name);

// Nothing if an export could begin, otherwise the problem.
std::optional<Problem> check_export(const Request& request, const Member& member);

// An error of the client library as a problem.
Problem problem_of(const Error& error);

}  // namespace pawl::api
