// May throw std::bad_alloc. The files of the web console, compiled into the program, and the routes that serve them.
#pragma once

#include <string_view>

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace pawl {

struct ConsoleFile {
    std::string_view name;  // path below /console/
    std::string_view type;
    std::string_view tag;  // ETag of the content
    bool gzip;             // the content is compressed
    bool immutable;        // the name changes with the content
    std::string_view content;
};

// Null if there is no such file, or the console was not built.
const ConsoleFile* console_file(std::string_view name) noexcept;

bool has_console() noexcept;

// Answers a GET or HEAD of /, /console or a path below it; false for other paths. No token is needed: nothing in the
// files is secret.
bool serve_console(const httplib::Request& request, httplib::Response& response);

}  // namespace pawl
