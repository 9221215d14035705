// May throw (out of memory). Errors as the API tells them (problem+json, RFC 9457), and which status a SQLSTATE has.
#pragma once

#include <string>
#include <string_view>

namespace pawl::api {

struct Problem {
    int status = 500;
    std::string detail;  // what happened, in a sentence
    std::string sqlstate = {};
    std::string facts = {};  // PostgreSQL's DETAIL
    std::string hint = {};

    std::string json() const;
};

// What HTTP calls the status.
std::string title_of(int status);

// The one table of what a SQLSTATE means to a client of HTTP.
int status_of(std::string_view sqlstate);

// The transaction lost to another one, and may win when it is sent again.
bool is_worth_repeating(std::string_view sqlstate);

}  // namespace pawl::api
