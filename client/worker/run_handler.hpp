// May throw (out of memory). From a job to its outcome.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "in_flight.hpp"

namespace pawl {

// Runs the handler of a job ("": the one for jobs without another). Whatever it throws becomes a failure.
Finished run_handler(const std::map<std::string, Handler>& handlers, WorkPtr work);

constexpr std::size_t longest_text = 65'536;  // of a message or type: bytes

// A text of the user as PostgreSQL can store it. Null, empty: says that there is none.
std::string storable_text(const char* text);

// The text of the exception that is being handled, whatever it is, as PostgreSQL can store it.
std::string text_of_exception();

// Calls a callback of the user. What it throws is not the worker's: a log whose pipe is closed costs no lease. Returns
// its text; empty: it has returned.
template <typename Argument>
std::string call_back(const std::function<void(const Argument&)>& callback, const Argument& argument) {
    try {
        if (callback) callback(argument);
        return {};
    } catch (...) {
        return text_of_exception();
    }
}

}  // namespace pawl
