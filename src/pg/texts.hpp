// Seam. Conversions between C++ strings and PostgreSQL texts. Functions that allocate a text may ereport.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::pg {

inline std::string_view view(const text* value) {
    return {VARDATA_ANY(value), static_cast<std::size_t>(VARSIZE_ANY_EXHDR(value))};
}

inline text* make_text(std::string_view value) {
    return cstring_to_text_with_len(value.data(), static_cast<int>(value.size()));
}

// The strings as text[].
inline Datum make_text_array(const std::vector<std::string>& values) {
    auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * Max(values.size(), 1)));
    for (std::size_t i = 0; i < values.size(); ++i) elements[i] = PointerGetDatum(make_text(values[i]));
    return PointerGetDatum(
        construct_array(elements, static_cast<int>(values.size()), TEXTOID, -1, false, TYPALIGN_INT));
}

}  // namespace pawl::pg
