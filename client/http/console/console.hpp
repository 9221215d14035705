// May throw std::bad_alloc. The files of the web console, compiled into the program, and the routes that serve them.
#pragma once

#include <string_view>

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace pawl {

struct ConsoleFile {
    std::string_view name;  // as in the address, without /console/
    std::string_view type;
    std::string_view tag;  // of the content
    bool gzip;             // content is compressed
    bool immutable;        // the name changes with the content
    std::string_view content;
};

// Null: there is no such file. All are missing where the console was not built.
const ConsoleFile* console_file(std::string_view name) noexcept;

bool has_console() noexcept;

// Answers a GET or HEAD of /console or of what is below it (/ leads there); false: it is somewhere else. No token is
// needed: nothing in the files is secret.
bool serve_console(const httplib::Request& request, httplib::Response& response);

}  // namespace pawl
