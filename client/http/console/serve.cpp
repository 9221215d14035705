// May throw std::bad_alloc. The routes of the console's files.
#include <string>

#include <httplib.h>

#include "console.hpp"

namespace pawl {
namespace {

// Scripts, pictures and requests go nowhere but to this daemon. Mermaid writes style elements into its diagrams, so
// styles alone may be inline.
constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src "
    "'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

constexpr const char* missing =
    "This pawld was built without its console: there was no Node.js (node and npm) when it was compiled.\n"
    "Install them and build again; everything the console shows is also in the HTTP API and in the command line "
    "pawl.\n";

// The other headers of protection are those of every answer.
void guard(httplib::Response& response) {
    response.headers.erase("Content-Security-Policy");
    response.headers.erase("Cache-Control");
    response.set_header("Content-Security-Policy", policy);
    response.set_header("Cross-Origin-Opener-Policy", "same-origin");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
}

// The connection has renamed the header, so that the server does not compress by itself.
bool takes_gzip(const httplib::Request& request) {
    return request.get_header_value("x-pawl-encoding").find("gzip") != std::string::npos;
}

void send(const httplib::Request& request, httplib::Response& response, const ConsoleFile& file) {
    const std::string tag = "\"" + std::string(file.tag) + "\"";
    response.set_header("ETag", tag);
    response.set_header("Vary", "Accept-Encoding");
    response.set_header("Cache-Control", file.immutable ? "public, max-age=31536000, immutable" : "no-cache");
    if (request.get_header_value("If-None-Match").find(tag) != std::string::npos) {
        response.status = 304;
        return;
    }
    if (file.gzip && !takes_gzip(request)) {
        response.status = 406;
        response.set_content("the console is sent as gzip\n", "text/plain");
        return;
    }
    if (file.gzip) response.set_header("Content-Encoding", "gzip");
    // a provider and not set_content, which would compress the content again
    response.set_content_provider(file.content.size(), std::string(file.type).c_str(),
                                  [&file](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
                                      return sink.write(file.content.data() + offset, length);
                                  });
}

void answer(const httplib::Request& request, httplib::Response& response, std::string_view name) {
    guard(response);
    if (const ConsoleFile* file = console_file(name)) {
        send(request, response, *file);
        return;
    }
    response.status = 404;
    response.set_content(has_console() ? "there is no such file\n" : missing, "text/plain; charset=utf-8");
}

}  // namespace

bool serve_console(const httplib::Request& request, httplib::Response& response) {
    constexpr std::string_view root = "/console/";
    const std::string_view path = request.path;
    if (path == "/" || (path == "/console" && has_console())) {
        guard(response);
        response.set_redirect("/console/");
        return true;
    }
    if (path != "/console" && path.substr(0, root.size()) != root) return false;
    const std::string_view name = path.size() <= root.size() ? "" : path.substr(root.size());
    answer(request, response, name.empty() ? "index.html" : name);
    return true;
}

}  // namespace pawl
