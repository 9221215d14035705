// Seam. The SQLSTATE codes of class PW as the server's error codes; the list itself is core/sqlstate.def.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::sqlstate {

constexpr int encode(const char (&code)[6]) {
    return MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]);
}

#define PAWL_SQLSTATE(code, name, meaning) inline constexpr int name = encode(code);
#include "../core/sqlstate.def"
#undef PAWL_SQLSTATE

}  // namespace pawl::sqlstate
