// Neither throws nor ereports; owns nothing. What is told of state changes and rejections while they happen: the
// counters, where the library is loaded with the server. The hooks set it once; a null pointer: it is not told.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

struct Binding;
struct StateChange;
struct Outcome;

struct Observer {
    void (*rejected)(int sqlstate, const char* machine) noexcept;
    void (*changed)(const Binding& binding, const Outcome& outcome);
    void (*left)(const StateChange& change,
                 std::int64_t microseconds);  // how long the row was in the state that it left
};

inline Observer observer = {};

// A rejection is told at once, whatever becomes of its transaction. Gives the code back, for errcode().
inline int rejected(int sqlstate, const char* machine) noexcept {
    if (observer.rejected != nullptr) observer.rejected(sqlstate, machine);
    return sqlstate;
}

}  // namespace pawl
