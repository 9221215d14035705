// May throw.
#include "secrets.hpp"

#include <cstring>
#include <memory>
#include <regex>
#include <string_view>

#include <libpq-fe.h>

#include <pawl/errors.hpp>

namespace pawl {
namespace {

bool is_uri(const std::string& target) {
    return target.rfind("postgresql://", 0) == 0 || target.rfind("postgres://", 0) == 0;
}

using Options = std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)>;

Options options_of(const std::string& target) {
    char* problem = nullptr;
    Options options(PQconninfoParse(target.c_str(), &problem), PQconninfoFree);
    PQfreemem(problem);
    return options;
}

std::string_view option(const Options& options, const char* name) {
    for (const PQconninfoOption* one = options.get(); one && one->keyword; ++one)
        if (std::strcmp(one->keyword, name) == 0) return one->val ? one->val : "";
    return {};
}

}  // namespace

// A password whose special characters are not encoded ends up in host, port or database, and libpq says these.
void check_target(const std::string& target) {
    const Options options = options_of(target);
    const bool split =
        is_uri(target) && (option(options, "host").find('@') != std::string_view::npos ||
                           option(options, "dbname").find('@') != std::string_view::npos ||
                           option(options, "port").find_first_not_of("0123456789,") != std::string_view::npos);
    if (!options || split)
        throw Error("",
                    "the connection string of the database cannot be read: it is words like dbname=shop, or a URI "
                    "whose special characters are percent-encoded"
                    " (it is not shown, for it may hold a password)");
}

bool has_password(const std::string& target) {
    if (const Options options = options_of(target); options)
        return !option(options, "password").empty() || !option(options, "sslpassword").empty();
    return without_passwords(target) != target;
}

std::string shown(const std::string& argument) {
    if (!argument.empty() && argument.front() == '-') return argument.substr(0, argument.find('='));
    return argument.find_first_of("=@:' ") == std::string::npos ? argument : "...";
}

std::string without_passwords(const std::string& text) {
    if (text.find("password") == std::string::npos && text.find("://") == std::string::npos) return text;
    static const std::regex word("(password[\\s]*=[\\s]*)('(?:[^'\\\\]|\\\\.)*'|[^\\s\"']+)"),
        url("([A-Za-z][A-Za-z0-9+.-]*://[^\\s:/@]*):[^\\s]*@");
    return std::regex_replace(std::regex_replace(text, word, "$1***"), url, "$1:***@");
}

}  // namespace pawl
