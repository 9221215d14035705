// Seam. See error_context.hpp. Called when all C++ frames that own something have been left.
#include "pg/error_context.hpp"

#include <dlfcn.h>

#include <cctype>
#include <cstring>

namespace pawl::pg {

namespace {

constexpr const char* own_message = "only its context is wanted";

// What a chain of frames says; null: nothing.
char* text_of(ErrorContextCallback* frames) {
    MemoryContext caller = CurrentMemoryContext;
    ErrorContextCallback* const saved = error_context_stack;
    char* volatile text = nullptr;
    error_context_stack = frames;
    PG_TRY();
    { ereport(ERROR, (errmsg_internal("%s", own_message))); }
    PG_CATCH();
    {
        MemoryContextSwitchTo(caller);
        ErrorData* error = CopyErrorData();
        FlushErrorState();
        if (error->message == nullptr || std::strcmp(error->message, own_message) != 0) ReThrowError(error);
        text = error->context;
    }
    PG_END_TRY();
    error_context_stack = saved;
    return text;
}

char* text_of_one(const ErrorContextCallback& frame) {
    ErrorContextCallback alone = frame;
    alone.previous = nullptr;
    return text_of(&alone);
}

// The callback of PL/pgSQL is not exported; the library that it is in can be asked for.
bool is_plpgsql(const ErrorContextCallback& frame) {
    Dl_info library;
    return dladdr(reinterpret_cast<void*>(frame.callback), &library) != 0 && library.dli_fname != nullptr &&
           std::strstr(library.dli_fname, "plpgsql") != nullptr;
}

// Whether a text names a function of a schema pawl or pawl_..., only internal ones if asked so. The words around it are
// translated.
bool names_own_function(const char* text, bool internal) {
    for (const char* found = text; (found = std::strstr(found, " pawl")) != nullptr; found += 5) {
        const char* end = found + 5;
        if (*end == '_')
            while (*end == '_' || std::islower(static_cast<unsigned char>(*end))) ++end;
        if (*end == '.' && (!internal || end[1] == '_')) return true;
    }
    return false;
}

// Whether C++ wrote the statement that a frame quotes: it calls an internal function, or gives tables such aliases.
bool is_own_statement(const char* text) {
    return std::strstr(text, "\"pawl~") != nullptr || names_own_function(text, true);
}

}  // namespace

ErrorContextCallback* without_own_frames(ErrorContextCallback* stack) {
    ErrorContextCallback* rest = stack;
    for (ErrorContextCallback* frame = stack; frame != nullptr; frame = frame->previous) {
        const char* text = text_of_one(*frame);
        if (text == nullptr) continue;
        // Any other statement belongs to the function around it.
        if (is_plpgsql(*frame) ? names_own_function(text, false) : is_own_statement(text))
            rest = frame->previous;
        else if (is_plpgsql(*frame))
            break;
    }
    return rest;
}

void remove_own_context(ErrorData* error) {
    if (error->context == nullptr) return;
    ErrorContextCallback* const rest = without_own_frames(error_context_stack);
    if (rest == error_context_stack) return;
    const char* around = text_of(error_context_stack);
    if (around == nullptr) return;
    const std::size_t all = std::strlen(error->context);
    const std::size_t end = std::strlen(around);
    if (all < end || std::strcmp(error->context + all - end, around) != 0) return;
    const char* kept = rest == nullptr ? nullptr : text_of(rest);
    const int inside = static_cast<int>(all - end);  // with the line feed after it
    if (kept != nullptr)
        error->context = psprintf("%.*s%s", inside, error->context, kept);
    else
        error->context = inside > 0 ? pnstrdup(error->context, inside - 1) : nullptr;
}

}  // namespace pawl::pg
