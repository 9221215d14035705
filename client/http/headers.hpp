// May throw (out of memory). What the headers of a request say, and those that every answer has.
#pragma once

#include <optional>
#include <set>
#include <string>

#include <httplib.h>

#include "problem.hpp"

namespace pawl::api {

// Sets the headers that protect browsers.
void protect(httplib::Response& response, bool tls);

// The trace that a request belongs to: its W3C trace context (both headers, with a blank between), else its
// X-Request-Id, which becomes the correlation id of its state changes. Empty: none.
std::string trace_of(const httplib::Request& request);

// All values of a header, in their order, with commas between them; empty: there is none.
std::string joined_header(const httplib::Request& request, const std::string& name);

// Whether a request with this method can have a body.
bool has_body(const httplib::Request& request);

// Whether the Content-Type is this one; parameters after it are ignored.
bool is_media_type(const httplib::Request& request, const std::string& type);

// Rejects bodies that are compressed, and forms unless the route takes one, before they are read.
std::optional<Problem> unreadable_body(const httplib::Request& request, bool takes_form);

// Rejects requests for hosts that are not among `hosts` (empty: any), and POST requests that another site makes a
// browser send: browsers say so in Sec-Fetch-Site, older ones in Origin.
std::optional<Problem> rejected_origin(const httplib::Request& http, const std::set<std::string>& hosts);

}  // namespace pawl::api
