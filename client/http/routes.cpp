// May throw (the constructor).
#include "routes.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "utf8.hpp"

// The document lies in the program as it lies in the source.
asm(".section .rodata\n"
    "pawl_openapi_begin: .incbin \"" PAWL_OPENAPI
    "\"\n"
    "pawl_openapi_end: .byte 0\n"
    ".previous\n");
extern "C" const char pawl_openapi_begin[], pawl_openapi_end[];

namespace pawl::api {
namespace {

std::vector<std::string> split(std::string_view path) {
    std::vector<std::string> segments;
    while (!path.empty()) {
        path.remove_prefix(1);  // a slash
        const std::size_t end = std::min(path.find('/'), path.size());
        segments.emplace_back(path.substr(0, end));
        path.remove_prefix(end);
    }
    return segments;
}

bool is_variable(const std::string& segment) {
    return segment.size() > 2 && segment.front() == '{';
}

bool fits(const Route& route, const std::vector<std::string>& segments) {
    if (route.path.size() != segments.size()) return false;
    for (std::size_t i = 0; i < segments.size(); ++i)
        if (is_variable(route.path[i]) ? segments[i].empty() : route.path[i] != segments[i]) return false;
    return true;
}

int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = static_cast<char>(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Reads x-databases.
void read_reach(const nlohmann::json& said, Route& route) {
    const auto is = [&](const char* word, Reach reach) {
        if (!said.contains(word)) return false;
        route.reach = reach;
        if (said.at(word).is_string()) route.kind = said.at(word);
        return true;
    };
    if (!is("any", Reach::any) && !is("find", Reach::found) && !is("place", Reach::placed) &&
        !is("each", Reach::each) && !is("merge", Reach::merged))
        return;
    route.by = said.value("by", "");
    route.otherwise = said.value("otherwise", "");
    for (std::string field : said.value("merge", std::vector<std::string>())) {
        route.order.descending = field.front() == '-';
        route.order.fields.push_back(route.order.descending ? field.substr(1) : std::move(field));
    }
}

}  // namespace

std::string_view openapi_document() {
    return {pawl_openapi_begin, static_cast<std::size_t>(pawl_openapi_end - pawl_openapi_begin)};
}

Routes::Routes(std::string_view openapi) {
    const auto document = nlohmann::json::parse(openapi);
    for (const auto& [path, operations] : document.at("paths").items()) {
        for (const auto& [method, operation] : operations.items()) {
            Route route{.operation = operation.at("operationId"),
                        .method = method,
                        .path = split(path),
                        .query = {},
                        .scope = operation.at("x-scope"),
                        .type = {}};
            std::transform(route.method.begin(), route.method.end(), route.method.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
            for (const auto& parameter : operation.value("parameters", nlohmann::json::array())) {
                const std::string reference = parameter.value("$ref", "");
                const auto& one =
                    reference.empty() ? parameter : document.at(nlohmann::json::json_pointer(reference.substr(1)));
                if (one.at("in") == "query") route.query.insert(one.at("name").get<std::string>());
            }
            const auto good = operation.at("responses").begin();  // by number, so before the default
            route.status = std::stoi(good.key());
            route.type = good->at("content").begin().key();
            route.tagged = operation.value("x-etag", false);
            route.native = operation.value("x-native", false);
            read_reach(operation.value("x-databases", nlohmann::json::object()), route);
            routes_.push_back(std::move(route));
        }
    }
    // a fixed segment wins over a variable one
    std::stable_sort(routes_.begin(), routes_.end(), [](const Route& a, const Route& b) {
        return std::count_if(a.path.begin(), a.path.end(), is_variable) <
               std::count_if(b.path.begin(), b.path.end(), is_variable);
    });
}

Match Routes::find(const std::string& method, const std::vector<std::string>& segments) const {
    Match match;
    const std::string wanted = method == "HEAD" ? "GET" : method;
    for (const Route& route : routes_) {
        if (!fits(route, segments)) continue;
        match.allowed += (match.allowed.empty() ? "" : ", ") + route.method;
        if (route.method != wanted || match.route) continue;
        match.route = &route;
        for (std::size_t i = 0; i < segments.size(); ++i)
            if (is_variable(route.path[i]))
                match.arguments[route.path[i].substr(1, route.path[i].size() - 2)] = segments[i];
    }
    return match;
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            if (i + 2 >= text.size() || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) return std::nullopt;
            c = static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0') return std::nullopt;
        plain += c;
    }
    if (!is_utf8(plain)) return std::nullopt;
    return plain;
}

std::optional<Target> split_target(std::string_view target) {
    Target parts;
    target = target.substr(0, target.find('#'));
    const std::size_t mark = std::min(target.find('?'), target.size());
    if (target.empty() || target.front() != '/') return std::nullopt;
    for (std::string segment : split(target.substr(0, mark))) {
        // Clients remove . and .. from a path, encoded or not. As names they are written .; and ..; (an empty parameter
        // of RFC 3986).
        if (segment == ".;" || segment == "..;") segment.pop_back();
        auto plain = percent_decoded(segment, false);
        if (!plain) return std::nullopt;
        parts.segments.push_back(std::move(*plain));
    }
    std::string_view query = target.substr(std::min(mark + 1, target.size()));
    while (!query.empty()) {
        const std::string_view pair = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(pair.size() + 1, query.size()));
        if (pair.empty()) continue;
        const std::size_t equals = std::min(pair.find('='), pair.size());
        auto name = percent_decoded(pair.substr(0, equals), true);
        auto value = percent_decoded(pair.substr(std::min(equals + 1, pair.size())), true);
        if (!name || !value) return std::nullopt;
        parts.query.emplace_back(std::move(*name), std::move(*value));
    }
    return parts;
}

}  // namespace pawl::api
