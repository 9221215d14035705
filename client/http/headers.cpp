// May throw (out of memory). See headers.hpp.
#include "headers.hpp"

#include <algorithm>
#include <type_traits>

#include "core/trace.hpp"
#include "utf8.hpp"

namespace pawl::api {
namespace {

std::string lowered(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
}

// With its port, or without: then the name counts alone.
bool is_same_host(const std::string& given, const std::string& name) {
    const std::size_t colon = given.rfind(':');
    const bool has_port = colon != std::string::npos && given.find(']', colon) == std::string::npos;
    return lowered(given) == lowered(name) || (has_port && lowered(given.substr(0, colon)) == lowered(name));
}

template <typename Container, typename = void>
constexpr bool is_hashed = false;
template <typename Container>
constexpr bool is_hashed<Container, std::void_t<typename Container::hasher>> = true;

}  // namespace

void protect(httplib::Response& response, bool tls) {
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("X-Frame-Options", "DENY");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    response.set_header("Cache-Control", "no-store");
    if (tls) response.set_header("Strict-Transport-Security", "max-age=31536000");
}

std::string trace_of(const httplib::Request& request) {
    const std::string parent = request.get_header_value("traceparent");
    // a header that is there twice is none
    if (core::is_traceparent(parent) && request.get_header_value_count("traceparent") == 1) {
        const std::string states = joined_header(request, "tracestate");
        return parent + (core::is_tracestate(states) ? " " + states : "");
    }
    const std::string id = request.get_header_value("X-Request-Id");
    return is_utf8(id) ? id.substr(0, 100) : "";
}

// Read from the container, because the arguments of get_header_value differ between versions of cpp-httplib. Where the
// container is a hash table, GCC's library puts the latest value of a name first.
std::string joined_header(const httplib::Request& request, const std::string& name) {
    std::string joined;
    const auto [first, last] = request.headers.equal_range(name);
    for (auto header = first; header != last; ++header) {
        if (header == first)
            joined = header->second;
        else
            joined = is_hashed<httplib::Headers> ? header->second + "," + joined : joined + "," + header->second;
    }
    return joined;
}

bool has_body(const httplib::Request& request) {
    return request.method == "POST" || request.method == "PUT" || request.method == "PATCH" ||
           request.method == "DELETE";
}

bool is_media_type(const httplib::Request& request, const std::string& type) {
    const std::string given = lowered(request.get_header_value("Content-Type"));
    return given.rfind(type, 0) == 0 &&
           (given.size() == type.size() || given[type.size()] == ';' || given[type.size()] == ' ');
}

std::optional<Problem> unreadable_body(const httplib::Request& request, bool takes_form) {
    if (request.method != "POST") return std::nullopt;
    const std::string coding = joined_header(request, "Content-Encoding");
    if (!coding.empty() && coding != "identity")
        return Problem{.status = 415, .detail = "the body must be sent without a Content-Encoding"};
    if (!takes_form && request.is_multipart_form_data())
        return Problem{.status = 415, .detail = "the body must be application/json"};
    return std::nullopt;
}

std::optional<Problem> rejected_origin(const httplib::Request& http, const std::set<std::string>& hosts) {
    const auto is_ours = [&](const std::string& host) {
        return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& one) { return is_same_host(host, one); });
    };
    const std::string host = http.get_header_value("Host");
    const bool watched = http.path == "/healthz" || http.path == "/readyz";
    if (!hosts.empty() && !watched && !is_ours(host))
        return Problem{.status = 421, .detail = "this API is not served for this host"};
    if (http.method != "POST") return std::nullopt;
    const std::string site = http.get_header_value("Sec-Fetch-Site"), origin = http.get_header_value("Origin");
    if (!site.empty() && site != "same-origin" && site != "none")
        return Problem{.status = 403, .detail = "requests of other sites are rejected"};
    if (!site.empty() || origin.empty()) return std::nullopt;
    const std::size_t begin = origin.find("://");
    const std::string from = begin == std::string::npos ? "" : origin.substr(begin + 3);
    if (lowered(from) != lowered(host) && !is_ours(from))
        return Problem{.status = 403, .detail = "requests of other sites are rejected"};
    return std::nullopt;
}

}  // namespace pawl::api
