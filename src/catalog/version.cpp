// May throw. The library and the SQL objects belong together: the install and update scripts ask here whether they fit.
#include "pg/arguments.hpp"

namespace pawl {

namespace {

// major.minor.patch as a number that compares like a version; parts that are missing are 0.
std::int64_t number_of(std::string_view version) {
    std::int64_t number = 0;
    for (int part = 0; part < 3; ++part) {
        std::int64_t value = 0;
        while (!version.empty() && version.front() >= '0' && version.front() <= '9') {
            value = value * 10 + (version.front() - '0');
            version.remove_prefix(1);
        }
        if (!version.empty()) version.remove_prefix(1);
        number = number * 1'000'000 + value;
    }
    return number;
}

}  // namespace

// pawl._check_library(version): 55000 if the library is older than the SQL objects of this version. A newer library
// serves older SQL objects until ALTER EXTENSION pawl UPDATE. A server that was not restarted still has the old library
// in memory.
PAWL_FUNCTION(pawl_check_library) {
    pg::require(fcinfo, 0, "version");
    const std::string_view wanted = pg::view(pg::text_argument(fcinfo, 0));
    if (number_of(wanted) > number_of(PAWL_VERSION))
        throw pg::Failure(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the installed library has version " PAWL_VERSION,
                          "The SQL objects to install have version " + std::string(wanted) + ".",
                          "Install the library of that version, then start a new session, or restart the server if "
                          "shared_preload_libraries names pawl.");
    return static_cast<Datum>(0);
}

}  // namespace pawl
