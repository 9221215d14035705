// May throw (out of memory). One listener of the event stream.
#pragma once

#include "databases.hpp"
#include "request.hpp"

namespace pawl::api {

// Streams events of the database that the request names, or of all, until the client hangs up or is too slow, its token
// ends, or the feeds end. A problem before the first byte is returned.
std::optional<Problem> listen(const Request& request, Members& members);

}  // namespace pawl::api
