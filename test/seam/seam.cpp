// Test module: SQL-callable functions that throw, raise and mix both through the seam (src/pg/bridge.cpp), and count
// which of their objects are still alive. Built and loaded by test/tap/003_seam.pl only.
#include "pg/arguments.hpp"
#include "pg/sqlstate.hpp"

#include <memory>
#include <stdexcept>

#include "core/error.hpp"

extern "C" {
PG_MODULE_MAGIC;
}

namespace {

namespace pg = pawl::pg;

int alive = 0;

// An object that owns memory; lost when a jump skips its destructor.
class Witness {
public:
    Witness() : text_(1000, 'w') { ++alive; }
    Witness(const Witness&) : text_(1000, 'w') { ++alive; }
    ~Witness() { --alive; }

private:
    std::string text_;
};

void run(const char* query) {
    SPI_connect();
    if (SPI_execute(query, false, 0) < 0) elog(ERROR, "SPI_execute failed");
    SPI_finish();
}

[[noreturn]] void throw_kind(std::string_view kind) {
    Witness witness;
    if (kind == "failure")
        throw pg::Failure(MAKE_SQLSTATE('P', 'W', '0', '0', '3'), "a message with %s and %d", "a detail with %n",
                          "a hint");
    if (kind == "definition") throw pawl::core::Error("a definition error", {12, 34}, "Why.", "What to do.");
    if (kind == "bad_alloc") throw std::bad_alloc();
    if (kind == "real bad_alloc") {
        std::unique_ptr<char[]> memory(new char[std::size_t{1} << 60]);
        throw std::runtime_error("there is more memory than expected at " +
                                 std::to_string(reinterpret_cast<std::uintptr_t>(memory.get())));
    }
    if (kind == "length_error") throw std::length_error("long");
    if (kind == "exception") throw std::runtime_error("a runtime error");
    if (kind == "long") {
        std::string message(2046, 'x');  // a character of two bytes where the buffer ends
        for (int i = 0; i < 100; ++i) message += "\xC3\xA4";
        throw pg::Failure(ERRCODE_INTERNAL_ERROR, message, message, message);
    }
    throw 42;
}

}  // namespace

PAWL_FUNCTION(seam_throw) {
    throw_kind(pg::view(pg::text_argument(fcinfo, 0)));
}

// Runs a query with objects alive on both sides of the call.
PAWL_FUNCTION(seam_call) {
    Witness before;
    auto owned = std::make_unique<Witness>();
    const std::string query(pg::view(pg::text_argument(fcinfo, 0)));
    pg::call([&] { run(query.c_str()); });
    Witness after;
    return Int32GetDatum(alive);
}

// The same, many frames deep, a witness in each.
static void descend(int depth, const std::string& query) {
    Witness witness;
    if (depth == 0)
        pg::call([&] { run(query.c_str()); });
    else
        descend(depth - 1, query);
}

PAWL_FUNCTION(seam_deep) {
    descend(100, std::string(pg::view(pg::text_argument(fcinfo, 0))));
    return Int32GetDatum(alive);
}

// What a C++ caller sees of an error, before it goes on.
PAWL_FUNCTION(seam_seen) {
    const std::string query(pg::view(pg::text_argument(fcinfo, 0)));
    try {
        pg::call([&] { run(query.c_str()); });
    } catch (const pg::Raised& raised) {
        // Looked at, then sent on: it is never swallowed.
        if (raised.data->sqlerrcode != ERRCODE_DIVISION_BY_ZERO) throw;
        throw pg::Failure(ERRCODE_RAISE_EXCEPTION, std::string("seen: ") + raised.data->message);
    }
    return Int32GetDatum(alive);
}

PAWL_FUNCTION(seam_alive) {
    return Int32GetDatum(alive);
}

// Asks the server for more than a palloc may have, with objects alive.
PAWL_FUNCTION(seam_palloc) {
    Witness witness;
    pg::call([] { palloc(std::size_t{1} << 40); });
    return Int32GetDatum(alive);
}
