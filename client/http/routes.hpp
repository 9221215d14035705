// May throw (the constructor, if the document is wrong). The routes of the API, read from its OpenAPI document: the API
// serves what the document describes, and nothing else.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "merge.hpp"

namespace pawl::api {

// Which of several databases a request is for, if it names none (x-databases).
enum class Reach {
    given,   // the one that pawld was given
    any,     // that one, or another if it does not answer
    found,   // the one that has the thing of this id
    placed,  // the one that has the namespace
    merged,  // all of them, as one list
    each     // all of them, or those that have the things of these ids
};

struct Route {
    std::string operation;  // operationId: the function of pawl_api, or of the server if native
    std::string method;
    std::vector<std::string> path;          // segments; {name} matches any
    std::set<std::string> query;            // known parameters
    std::string scope;                      // read or operate; empty: no credentials are needed
    std::string type = "application/json";  // of a successful answer
    int status = 200;                       // of a successful answer
    bool tagged = false;                    // answers have an ETag
    bool native = false;                    // done by the server without a function of pawl_api
    Reach reach = Reach::given;
    std::string kind = {};       // found, each: task, operation, flow or job; placed: dag, bulk or saga
    std::string by = {};         // found, placed: the parameter or field with the id or the namespace
    std::string otherwise = {};  // placed: the namespace if the field is missing
    Order order = {};            // merged
};

struct Match {
    const Route* route = nullptr;  // null: no route
    std::map<std::string, std::string> arguments;
    std::string allowed;  // the methods of the path, if the method is wrong
};

class Routes {
public:
    explicit Routes(std::string_view openapi);

    // segments: decoded.
    Match find(const std::string& method, const std::vector<std::string>& segments) const;

    const std::vector<Route>& all() const noexcept { return routes_; }

private:
    std::vector<Route> routes_;
};

// The document, as text.
std::string_view openapi_document();

// Splits a request target and decodes it; nothing if it is not well-formed UTF-8, or contains NUL.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank);

struct Target {
    std::vector<std::string> segments;
    std::vector<std::pair<std::string, std::string>> query;
};
std::optional<Target> split_target(std::string_view target);

}  // namespace pawl::api
