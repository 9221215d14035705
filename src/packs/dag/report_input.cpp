// May throw and may ereport: values in the reports of workers, which must not raise an error if they are invalid.
#include "pg/arguments.hpp"

namespace pawl {

namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Reads what the type uuid reads: 32 digits, with or without a hyphen after each fourth, with or without braces.
bool read_uuid(std::string_view text, pg_uuid_t* uuid) {
    if (text.size() > 2 && text.front() == '{' && text.back() == '}') text = text.substr(1, text.size() - 2);
    std::size_t at = 0;
    for (int i = 0; i < UUID_LEN; ++i) {
        if (i > 0 && i % 2 == 0 && at < text.size() && text[at] == '-') ++at;
        if (at + 2 > text.size()) return false;
        const int high = hex_digit(text[at]);
        const int low = hex_digit(text[at + 1]);
        if (high < 0 || low < 0) return false;
        uuid->data[i] = static_cast<unsigned char>(high * 16 + low);
        at += 2;
    }
    return at == text.size();
}

}  // namespace

PAWL_FUNCTION(pawl_dag_as_uuid) {
    const text* value = pg::text_argument(fcinfo, 0);
    auto* uuid = pg::call([] { return static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t))); });
    if (read_uuid(pg::view(value), uuid)) return UUIDPGetDatum(uuid);
    fcinfo->isnull = true;
    return static_cast<Datum>(0);
}

}  // namespace pawl
