// May throw (the constructor, when the document is wrong). The routes of the API, read from its OpenAPI document: what
// is described is what is served, and nothing else.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pawl::api {

struct Route {
    std::string operation;  // operationId: the function of pawl_api, or what the server does itself
    std::string method;
    std::vector<std::string> path;          // segments; {name} takes any
    std::set<std::string> query;            // parameters it knows
    std::string scope;                      // read or operate; empty: no credentials are needed
    std::string type = "application/json";  // of a good answer
    int status = 200;                       // of a good answer
    bool tagged = false;                    // its answers have an ETag
    bool native = false;                    // the server does it itself
};

struct Match {
    const Route* route = nullptr;  // none: nothing is there
    std::map<std::string, std::string> arguments;
    std::string allowed;  // what else the path allows, where the method is wrong
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

// The document as it is served.
std::string_view openapi_document();

// A path or a query as text; none where it is not well-formed UTF-8, or has a zero byte.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank);

struct Target {
    std::vector<std::string> segments;
    std::vector<std::pair<std::string, std::string>> query;
};
std::optional<Target> split_target(std::string_view target);

}  // namespace pawl::api
