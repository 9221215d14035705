// May throw (out of memory). An answer whose end is not known when it begins: written in chunks straight to the
// connection.
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

    // Begins the answer; what cpp-httplib would answer is not sent any more, and the connection ends with it.
    StreamedAnswer(Connection& connection, const Headers& headers, bool with_body);

    // False: the client is gone.
    bool write(std::string_view bytes);

    // Without it the client knows that the answer is not whole.
    void finish();

private:
    Connection& connection_;
    bool with_body_;
    bool good_ = true;
};

}  // namespace pawl::api
