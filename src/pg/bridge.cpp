// Seam: errors. See bridge.hpp.
#include "pg/bridge.hpp"

#include <cstring>

#include "../core/error.hpp"
#include "pg/error_context.hpp"
#include "pg/sqlstate.hpp"

namespace pawl::pg {

void (*on_failure)(int sqlstate) noexcept = nullptr;

namespace {

// What is known of an exception once it has been caught, in plain memory: nothing may allocate inside a handler (an
// exception thrown there ends the server), and nothing with a destructor may be alive when the error is reported.
struct Image {
    static constexpr std::size_t capacity = 2048;

    ErrorData* raised;  // set: a PostgreSQL error to pass on as it was
    int sqlstate;
    char message[capacity];
    char detail[capacity];
    char hint[capacity];
    Place place;
};
static_assert(std::is_trivially_destructible_v<Image>);

// Cuts at a character boundary, whatever the database's encoding.
void keep(char (&to)[Image::capacity], std::string_view from) noexcept {
    std::size_t length = from.size();
    if (length >= Image::capacity) {
        length = Image::capacity - 1;
        while (length > 0 && (static_cast<unsigned char>(from[length]) & 0xC0) == 0x80) --length;
    }
    std::memcpy(to, from.data(), length);
    to[length] = '\0';
}

void keep(Image& image, int sqlstate, std::string_view message, std::string_view detail,
          std::string_view hint) noexcept {
    image.raised = nullptr;
    image.sqlstate = sqlstate;
    keep(image.message, message);
    keep(image.detail, detail);
    keep(image.hint, hint);
    image.place = {};
}

void keep_definition_error(Image& image, const core::Error& error) noexcept {
    keep(image, sqlstate::definition_error, error.what(), error.detail, error.hint);
    if (error.where.line > 0) {
        const std::size_t used = std::strlen(image.detail);
        pg_snprintf(image.detail + used, Image::capacity - used, "%sLine %d, column %d.", used > 0 ? " " : "",
                    error.where.line, error.where.column);
    }
}

// Whether the code is of class PW.
bool is_ours(int sqlstate) {
    return ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TO_CATEGORY(sqlstate::no_such_transition);
}

// Runs the body. Returns false if it threw, and then the image holds the error.
bool run(Implementation implementation, FunctionCallInfo fcinfo, Datum& result, Image& image) noexcept {
    try {
        result = implementation(fcinfo);
        return true;
    } catch (const Raised& raised) {
        image.raised = raised.data;
    } catch (const Failure& failure) {
        keep(image, failure.sqlstate, failure.message, failure.detail, failure.hint);
        image.place = failure.place;
    } catch (const core::Error& error) {
        keep_definition_error(image, error);
    } catch (const std::bad_alloc&) {
        keep(image, ERRCODE_OUT_OF_MEMORY, "out of memory", "A C++ allocation failed.", "");
    } catch (const std::length_error&) {
        keep(image, ERRCODE_PROGRAM_LIMIT_EXCEEDED, "value too large", "", "");
    } catch (const std::exception& error) {
        keep(image, ERRCODE_INTERNAL_ERROR, error.what(), "", "");
    } catch (...) {
        keep(image, ERRCODE_INTERNAL_ERROR, "unknown C++ exception", "", "");
    }
    return false;
}

}  // namespace

ErrorData* detail::run_caught(Body body, void* argument) noexcept {
    MemoryContext caller = CurrentMemoryContext;
    ErrorData* volatile error = nullptr;
    PG_TRY();
    { body(argument); }
    PG_CATCH();
    {
        MemoryContextSwitchTo(caller);
        error = CopyErrorData();
        FlushErrorState();
    }
    PG_END_TRY();
    return error;
}

Datum guarded(Implementation implementation, FunctionCallInfo fcinfo) {
    Datum result = static_cast<Datum>(0);
    Image image;
    auto* exception_stack = PG_exception_stack;
    auto* context_stack = error_context_stack;
    MemoryContext memory = CurrentMemoryContext;

    if (run(implementation, fcinfo, result, image)) return result;

    PG_exception_stack = exception_stack;
    error_context_stack = context_stack;
    MemoryContextSwitchTo(memory);
    if (image.raised != nullptr) {
        remove_own_context(image.raised);
        ReThrowError(image.raised);
    }
    if (on_failure != nullptr && is_ours(image.sqlstate)) on_failure(image.sqlstate);
    error_context_stack = without_own_frames(context_stack);
    ereport(ERROR,
            (errcode(image.sqlstate), errmsg("%s", image.message), image.detail[0] ? errdetail("%s", image.detail) : 0,
             image.hint[0] ? errhint("%s", image.hint) : 0, report_place(image.place)));
}

int report_place(const Place& place) {
    if (!OidIsValid(place.relation)) return 0;
    const char* schema = get_namespace_name(get_rel_namespace(place.relation));
    const char* table = get_rel_name(place.relation);
    if (schema != nullptr) err_generic_string(PG_DIAG_SCHEMA_NAME, schema);
    if (table != nullptr) err_generic_string(PG_DIAG_TABLE_NAME, table);
    if (place.column != nullptr) err_generic_string(PG_DIAG_COLUMN_NAME, place.column);
    if (place.constraint != nullptr) err_generic_string(PG_DIAG_CONSTRAINT_NAME, place.constraint);
    return 0;
}

}  // namespace pawl::pg
