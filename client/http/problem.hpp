// May throw (out of memory). Errors of the API (problem+json, RFC 9457), and the HTTP status of each SQLSTATE.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace pawl::api {

struct Problem {
    int status = 500;
    std::string detail;  // what happened, in a sentence
    std::string sqlstate = {};
    std::string facts = {};  // PostgreSQL's DETAIL
    std::string hint = {};

    nlohmann::ordered_json object() const;
    std::string json() const;
};

// HTTP's name of a status.
std::string title_of(int status);

// The HTTP status for a SQLSTATE: the only table of them.
int status_of(std::string_view sqlstate);

// Whether the transaction failed by a conflict with another one, so that it can be repeated.
bool is_worth_repeating(std::string_view sqlstate);

}  // namespace pawl::api
