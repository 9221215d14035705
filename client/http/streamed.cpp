// May throw (out of memory).
#include "streamed.hpp"

#include <cstdio>

namespace pawl::api {

StreamedAnswer::StreamedAnswer(Connection& connection, const Headers& headers, bool with_body)
    : connection_(connection), with_body_(with_body) {
    connection_.close_after_this();
    std::string head = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    if (with_body) head += "Transfer-Encoding: chunked\r\n";
    for (const auto& [name, value] : headers) head += name + ": " + value + "\r\n";
    good_ = connection_.write_all(head + "\r\n");
    connection_.mute();
}

bool StreamedAnswer::write(std::string_view bytes) {
    if (!good_ || bytes.empty() || !with_body_) return good_ && with_body_;
    char length[20];
    const int digits = std::snprintf(length, sizeof length, "%zx\r\n", bytes.size());
    good_ = connection_.write_all({length, static_cast<std::size_t>(digits)}, true) &&
            connection_.write_all(bytes, true) && connection_.write_all("\r\n");
    return good_;
}

void StreamedAnswer::finish() {
    if (good_ && with_body_) connection_.write_all("0\r\n\r\n");
}

}  // namespace pawl::api
