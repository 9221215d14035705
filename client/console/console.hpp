// May throw std::bad_alloc. The files of the web console, compiled into the program, and the routes that serve them.
#pragma once

#include <string_view>

namespace httplib {
class Server;
}

namespace pawl {

struct ConsoleFile {
    std::string_view name;  // as in the address, without /console/
    std::string_view type;
    std::string_view tag;   // of the content
    bool gzip;              // content is compressed
    bool immutable;         // the name changes with the content
    std::string_view content;
};

// Null: there is no such file. All are missing where the console was not built.
const ConsoleFile* console_file(std::string_view name) noexcept;

bool has_console() noexcept;

// GET and HEAD of /console and what is below it. They need no token: nothing in them is secret.
void serve_console(httplib::Server& server);

}  // namespace pawl
