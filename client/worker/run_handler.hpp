// May throw (out of memory). From a job to its outcome.
#pragma once

#include <map>
#include <string>

#include "in_flight.hpp"

namespace pawl {

// Runs the handler of a job ("": the one for jobs without another). Whatever it throws becomes a failure.
Finished run_handler(const std::map<std::string, Handler>& handlers, WorkPtr work);

}  // namespace pawl
