// May throw std::bad_alloc, std::runtime_error. The routes of the console's files.
#include <array>
#include <stdexcept>
#include <string>

#include <httplib.h>
#include <zlib.h>

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

// The content of a file in gzip's format.
std::string expanded(std::string_view compressed) {
    struct Stream : z_stream {
        Stream() : z_stream() {
            if (inflateInit2(this, MAX_WBITS + 16) != Z_OK) throw std::bad_alloc();
        }
        ~Stream() { inflateEnd(this); }
    } stream;
    std::array<char, 65536> piece;
    std::string text;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
    stream.avail_in = static_cast<uInt>(compressed.size());
    for (int result = Z_OK; result != Z_STREAM_END;) {
        stream.next_out = reinterpret_cast<Bytef*>(piece.data());
        stream.avail_out = static_cast<uInt>(piece.size());
        result = inflate(&stream, Z_NO_FLUSH);
        if (result != Z_OK && result != Z_STREAM_END) throw std::runtime_error("a file of the console is damaged");
        text.append(piece.data(), piece.size() - stream.avail_out);
    }
    return text;
}

void send(const httplib::Request& request, httplib::Response& response, const ConsoleFile& file) {
    const bool expand = file.gzip && !takes_gzip(request);
    const std::string tag = "\"" + std::string(file.tag) + (expand ? "-expanded\"" : "\"");
    response.set_header("ETag", tag);
    response.set_header("Vary", "Accept-Encoding");
    response.set_header("Cache-Control", file.immutable ? "public, max-age=31536000, immutable" : "no-cache");
    if (request.get_header_value("If-None-Match").find(tag) != std::string::npos) {
        response.status = 304;
        return;
    }
    if (expand) {
        response.set_content(expanded(file.content), std::string(file.type).c_str());
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
