// May throw (the constructor, if the document is wrong). The routes of the API, read from its OpenAPI document: the API
// serves what the document describes, and nothing else.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pawl::api {

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
