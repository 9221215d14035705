// May throw (out of memory). One listener of the event stream.
#pragma once

#include "feed.hpp"
#include "request.hpp"

namespace pawl::api {

// Answers until the client or the feed ends, the token does, or the client is too slow. What goes wrong before is
// returned.
std::optional<Problem> listen(const Request& request, Feed& feed, Pool& pool);

}  // namespace pawl::api
