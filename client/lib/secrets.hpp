// May throw. What keeps passwords out of messages: connection strings are looked at before libpq complains of them, which quotes them.
#pragma once

#include <string>

namespace pawl {

// Throws Error where it is neither words nor a URI that libpq reads as it is meant; the message does not quote it.
void check_target(const std::string& target);

// Of a connection string, or of the URL of a broker.
bool has_password(const std::string& target);

// What stands on a command line and means nothing there, as it may be repeated: options without values, words that cannot be connection strings.
std::string shown(const std::string& argument);

// The text without what follows password= and without the passwords of URLs.
std::string without_passwords(const std::string& text);

}  // namespace pawl
