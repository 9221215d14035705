// May throw (out of memory). An answer of unknown length, written in chunks to the connection.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "connection.hpp"

namespace pawl::api {

class StreamedAnswer {
public:
    using Headers = std::vector<std::pair<std::string, std::string>>;

    // Begins the answer. That of cpp-httplib is not sent any more, and the connection is closed after this one.
    StreamedAnswer(Connection& connection, const Headers& headers, bool with_body);

    // False if the client has hung up.
    bool write(std::string_view bytes);

    // Ends the answer. If it is missing, the client knows that the answer is incomplete.
    void finish();

private:
    Connection& connection_;
    bool with_body_;
    bool good_ = true;
};

}  // namespace pawl::api
