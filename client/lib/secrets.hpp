// May throw. Keeps passwords out of messages. libpq quotes connection strings in its errors, so they are checked
// before.
#pragma once

#include <string>

namespace pawl {

// Throws Error unless libpq reads the connection string as it is meant. The message does not quote it.
void check_target(const std::string& target);

// Whether a connection string, or a broker's URL, contains a password.
bool has_password(const std::string& target);

// An unexpected command line argument as it can be printed: options without their values, and "..." for possible
// connection strings.
std::string shown(const std::string& argument);

// The text with *** for values of password= and for passwords in URLs.
std::string without_passwords(const std::string& text);

}  // namespace pawl
