// May throw (out of memory). One listener of the event stream.
#pragma once

#include "feed.hpp"
#include "request.hpp"

namespace pawl::api {

// Streams events until the client hangs up or is too slow, its token ends, or the feed ends. A problem before the first
// byte is returned.
std::optional<Problem> listen(const Request& request, Feed& feed, Pool& pool);

}  // namespace pawl::api
