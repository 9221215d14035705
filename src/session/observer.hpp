// Neither throws nor ereports; owns nothing. Callbacks for state changes and rejections as they happen: the counters,
// if the library is preloaded. The hooks set them once; each may be null.
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
                 std::int64_t microseconds);  // time spent in the state that was left
};

inline Observer observer = {};

// Counts a rejection at once, even if its transaction continues. Returns the code, for errcode().
inline int rejected(int sqlstate, const char* machine) noexcept {
    if (observer.rejected != nullptr) observer.rejected(sqlstate, machine);
    return sqlstate;
}

}  // namespace pawl
