// May throw (out of memory).
#include "problem.hpp"

#include <array>

#include <nlohmann/json.hpp>
#include <pawl/transient.hpp>

namespace pawl::api {
namespace {

struct Meaning {
    std::string_view beginning;  // of the SQLSTATE
    int status;
};

// The first line that matches counts.
constexpr std::array meanings{
    Meaning{"PW001", 409},                         // no such transition from the state it is in
    Meaning{"PW002", 422},                         // not an initial state
    Meaning{"PW003", 409},                         // a guard said no
    Meaning{"PW004", 409},                         // another owner's
    Meaning{"PW005", 409},                         // the lease was lost
    Meaning{"PW006", 409},                         // the log is immutable
    Meaning{"PW007", 422},                         // a diagram that cannot be read
    Meaning{"PW008", 404},                         // no such machine, state or event
    Meaning{"PW009", 409},                         // the namespace is in another database
    Meaning{"P0002", 404},                         // no such row
    Meaning{"42704", 404},                         // no such object
    Meaning{"42710", 409},                         // it is there already
    Meaning{"42501", 403},                         // the role may not
    Meaning{"42P01", 404}, Meaning{"3F000", 404},  // no such relation
    Meaning{"42601", 400}, Meaning{"42602", 400}, Meaning{"42622", 400},
    Meaning{"42809", 400}, Meaning{"42703", 400},                      // names that are none, or of something else
    Meaning{"28", 401},                                                // an unknown token
    Meaning{"0A000", 404},                                             // the pack is not installed
    Meaning{"25006", 403},                                             // it would write, and the scope is read
    Meaning{"23502", 422}, Meaning{"23514", 422},                      // a row, or a key, that cannot be
    Meaning{"23", 409},                                                // it collides with another row
    Meaning{"22", 400},                                                // malformed values
    Meaning{"54000", 413},                                             // more than is allowed
    Meaning{"54", 400},                                                // too complex
    Meaning{"55P03", 503},                                             // a lock that was not to be had
    Meaning{"55", 409},                                                // not in this state
    Meaning{"40", 503},                                                // lost to another transaction, again and again
    Meaning{"57014", 504},                                             // took too long
    Meaning{"57", 503},    Meaning{"53", 503},    Meaning{"08", 503},  // the server ends, is full, or is gone
};

}  // namespace

std::string title_of(int status) {
    switch (status) {
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 408:
            return "Request Timeout";
        case 409:
            return "Conflict";
        case 413:
            return "Content Too Large";
        case 421:
            return "Misdirected Request";
        case 415:
            return "Unsupported Media Type";
        case 422:
            return "Unprocessable Content";
        case 429:
            return "Too Many Requests";
        case 431:
            return "Request Header Fields Too Large";
        case 503:
            return "Service Unavailable";
        case 504:
            return "Gateway Timeout";
        default:
            return "Internal Server Error";
    }
}

int status_of(std::string_view sqlstate) {
    for (const Meaning& meaning : meanings)
        if (sqlstate.substr(0, meaning.beginning.size()) == meaning.beginning) return meaning.status;
    return 500;
}

bool is_worth_repeating(std::string_view sqlstate) {
    return core::repeat_of(sqlstate) == core::Repeat::at_once;
}

nlohmann::ordered_json Problem::object() const {
    nlohmann::ordered_json body{{"type", sqlstate.empty() ? "about:blank" : "urn:pawl:sqlstate:" + sqlstate},
                                {"title", title_of(status)},
                                {"status", status},
                                {"detail", detail}};
    if (!sqlstate.empty()) body["sqlstate"] = sqlstate;
    if (!facts.empty()) body["facts"] = facts;
    if (!hint.empty()) body["hint"] = hint;
    return body;
}

std::string Problem::json() const {
    return object().dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace pawl::api
