// Pure C++; does not throw. Limits of size and time for clients of the HTTP API.
#pragma once

#include <chrono>
#include <cstddef>

namespace pawl::api {

struct Limits {
    std::size_t clients = 1024;            // connections at a time, event streams included; further ones get 503
    std::size_t head_bytes = 16 * 1024;    // request line and headers
    std::size_t target_bytes = 2 * 1024;   // path and query
    std::size_t body_bytes = 1024 * 1024;  // of a JSON body
    std::size_t upload_bytes = std::size_t(4) << 30;  // of a file
    int requests = 10'000;                            // on one connection
    std::chrono::milliseconds idle{30'000};           // between two requests
    std::chrono::milliseconds head{10'000};           // from the first byte of a request to the end of its headers
    std::chrono::milliseconds silence{15'000};        // while a body is read or an answer written
    std::chrono::milliseconds farewell{2'000};        // for bytes after the last answer
    std::size_t discarded_bytes = 1024 * 1024;        // of these
    std::chrono::milliseconds grace{10'000};          // after this time a body or an answer needs
    std::size_t bytes_a_second = 1'024;               // this average speed
};

}  // namespace pawl::api
