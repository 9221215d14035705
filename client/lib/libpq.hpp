// May throw. A session by libpq itself: COPY as libpqxx has it changes from version to version and quotes what is quoted already.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include <pawl/connection.hpp>

namespace pawl {

// The settings as a libpq string.
std::string libpq_string(const ConnectionSettings& settings);

// A value of a result. Throws UnexpectedAnswer where there is no such row or column, or a null.
const char* value_of(const PGresult* result, int row, int column);

class LibpqSession {
public:
    using Result = std::unique_ptr<PGresult, void (*)(PGresult*)>;
    using Parameter = std::optional<std::string>;

    explicit LibpqSession(const ConnectionSettings& settings);

    // Throws the type that belongs to the SQLSTATE.
    Result run(const std::string& statement, const std::vector<Parameter>& parameters = {});

    std::string server_encoding() const;

    void begin_copy(const std::string& statement);
    void put(std::string_view bytes);
    void end_copy();
    void copy_out(const std::string& statement, const std::function<void(std::string_view)>& take);

private:
    Result checked(PGresult* result);
    [[noreturn]] void lost();

    std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
};

}  // namespace pawl
