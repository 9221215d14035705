// Seam: errors. C++ exceptions become PostgreSQL errors where a function returns to the server (PAWL_FUNCTION), and
// PostgreSQL errors become C++ exceptions inside (pg::call), so that neither crosses a frame of the other.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::pg {

// A PostgreSQL error on its way through C++ frames. Not a std::exception, so that a handler for those does not swallow
// it. To continue after an error, use a subtransaction.
class Raised {
public:
    explicit Raised(ErrorData* data) noexcept : data(data) {}
    ErrorData* data;  // lives in the memory context that was current at the call
};

// What an error is about: its fields SCHEMA, TABLE, COLUMN and CONSTRAINT. The texts live in a memory context.
struct Place {
    Oid relation;            // InvalidOid: none of the fields
    const char* column;      // null: none
    const char* constraint;  // null: none
};

// Sets these fields of an error, as one of the arguments of ereport.
int report_place(const Place& place);

// An error of our own, thrown from C++: SQLSTATE, message, DETAIL, HINT, and what it is about.
class Failure {
public:
    Failure(int sqlstate, std::string message, std::string detail = {}, std::string hint = {}, Place place = {})
        : sqlstate(sqlstate),
          message(std::move(message)),
          detail(std::move(detail)),
          hint(std::move(hint)),
          place(place) {}

    int sqlstate;
    std::string message;
    std::string detail;
    std::string hint;
    Place place;
};

namespace detail {

using Body = void (*)(void*);
ErrorData* run_caught(Body body, void* argument) noexcept;

}  // namespace detail

// Runs PostgreSQL code that may ereport from C++ code that owns things; throws Raised instead of jumping over it.
// The body must not create objects with destructors, and must not throw.
template <typename F>
auto call(F&& body) -> std::invoke_result_t<F&> {
    using Result = std::invoke_result_t<F&>;
    if constexpr (std::is_void_v<Result>) {
        detail::Body run = [](void* f) { (*static_cast<std::remove_reference_t<F>*>(f))(); };
        if (ErrorData* error = detail::run_caught(run, &body)) throw Raised(error);
    } else {
        static_assert(std::is_trivially_destructible_v<Result>, "a jump would skip its destructor");
        struct Frame {
            std::remove_reference_t<F>* body;
            Result result;
        } frame{&body, Result{}};
        detail::Body run = [](void* f) {
            auto* frame = static_cast<Frame*>(f);
            frame->result = (*frame->body)();
        };
        if (ErrorData* error = detail::run_caught(run, &frame)) throw Raised(error);
        return frame.result;
    }
}

// Called for every Failure and every definition error that leaves C++ code; may be null.
extern void (*on_failure)(int sqlstate) noexcept;

using Implementation = Datum (*)(FunctionCallInfo);

// Runs the C++ body of a SQL-callable function; whatever it throws is reported as a PostgreSQL error after the last C++
// frame has been left, without CONTEXT of the project's own functions.
Datum guarded(Implementation implementation, FunctionCallInfo fcinfo);

}  // namespace pawl::pg

// Defines a function that SQL can call. The body is C++, may throw anything, and receives `fcinfo`.
#define PAWL_FUNCTION(name)                               \
    static Datum name##_body(FunctionCallInfo fcinfo);    \
    extern "C" {                                          \
    PGDLLEXPORT Datum name(FunctionCallInfo fcinfo);      \
    PG_FUNCTION_INFO_V1(name);                            \
    Datum name(FunctionCallInfo fcinfo) {                 \
        return ::pawl::pg::guarded(&name##_body, fcinfo); \
    }                                                     \
    }                                                     \
    static Datum name##_body([[maybe_unused]] FunctionCallInfo fcinfo)
