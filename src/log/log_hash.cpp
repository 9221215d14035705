// May ereport; owns nothing. See log_hash.hpp.
#include "log/log_hash.hpp"

#include <initializer_list>

extern "C" {
#include "common/cryptohash.h"
#include "common/sha2.h"
}

namespace pawl {

namespace {

void append_separator(StringInfo out) {
    if (out->len > 1) appendStringInfoString(out, ", ");
}

void append_string(StringInfo out, const char* value) {
    append_separator(out);
    if (value == nullptr)
        appendStringInfoString(out, "null");
    else
        escape_json(out, value);
}

void append_text(StringInfo out, const text* value) { append_string(out, value == nullptr ? nullptr : text_to_cstring(value)); }

void append_number(StringInfo out, int64 value) {
    append_separator(out);
    appendStringInfo(out, INT64_FORMAT, value);
}

struct Piece {
    const void* data;
    std::size_t length;
};

void sha256(std::initializer_list<Piece> pieces, uint8* digest) {
    pg_cryptohash_ctx* context = pg_cryptohash_create(PG_SHA256);
    bool well = pg_cryptohash_init(context) >= 0;
    for (const Piece& piece : pieces) well = well && pg_cryptohash_update(context, static_cast<const uint8*>(piece.data), piece.length) >= 0;
    if (!well || pg_cryptohash_final(context, digest, PG_SHA256_DIGEST_LENGTH) < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not compute SHA-256: %s", pg_cryptohash_error(context))));
    pg_cryptohash_free(context);
}

Piece utf8(const char* text) {
    const char* converted = pg_server_to_any(text, static_cast<int>(strlen(text)), PG_UTF8);
    return {converted, strlen(converted)};
}

// What pawl._commitment gives: sha256(sha256(salt || field) || value), as hexadecimal digits.
char* commitment(const char* field, const char* value, const bytea* salt) {
    uint8 digest[PG_SHA256_DIGEST_LENGTH];
    sha256({{VARDATA_ANY(salt), static_cast<std::size_t>(VARSIZE_ANY_EXHDR(salt))}, utf8(field)}, digest);
    sha256({{digest, sizeof(digest)}, utf8(value)}, digest);
    auto* digits = static_cast<char*>(palloc(2 * sizeof(digest) + 1));
    hex_encode(reinterpret_cast<const char*>(digest), sizeof(digest), digits);
    digits[2 * sizeof(digest)] = '\0';
    return digits;
}

void append_committed(StringInfo out, const char* field, const text* value, const bytea* salt) {
    if (value == nullptr || salt == nullptr)
        append_text(out, value);
    else
        append_string(out, commitment(field, text_to_cstring(value), salt));
}

char* json_text(Jsonb* json) { return JsonbToCString(nullptr, &json->root, VARSIZE(json)); }

JsonbValue json_string(const char* value) {
    JsonbValue string;
    string.type = jbvString;
    string.val.string.val = const_cast<char*>(value);
    string.val.string.len = static_cast<int>(strlen(value));
    return string;
}

// Metadata with the commitment of each member in its place; what is no object has one of its own.
char* committed_metadata(Jsonb* metadata, const bytea* salt) {
    if (!JB_ROOT_IS_OBJECT(metadata)) {
        JsonbValue whole = json_string(commitment("metadata", json_text(metadata), salt));
        return json_text(JsonbValueToJsonb(&whole));
    }
    JsonbParseState* state = nullptr;
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
    JsonbIterator* iterator = JsonbIteratorInit(&metadata->root);
    JsonbValue key;
    JsonbValue value;
    JsonbIteratorNext(&iterator, &key, false);
    while (JsonbIteratorNext(&iterator, &key, true) == WJB_KEY) {
        JsonbIteratorNext(&iterator, &value, true);
        const char* field = psprintf("metadata.%s", pnstrdup(key.val.string.val, key.val.string.len));
        JsonbValue committed = json_string(commitment(field, json_text(JsonbValueToJsonb(&value)), salt));
        pushJsonbValue(&state, WJB_KEY, &key);
        pushJsonbValue(&state, WJB_VALUE, &committed);
    }
    return json_text(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr)));
}

void append_content(StringInfo out, const Hop& hop, int sort_key, TimestampTz at, const bytea* salt) {
    const Attachment& attachment = *hop.attachment;
    appendStringInfoChar(out, '[');
    // Their text goes into the hash, so it must not hang on who writes.
    for (int i = 0; i < attachment.nkeys; ++i) append_string(out, fixed_text(attachment.keys[i].type, hop.key[i]));
    append_number(out, sort_key);
    append_text(out, hop.from);
    append_text(out, hop.to);
    append_text(out, hop.event);
    append_committed(out, "processor", hop.processor, salt);
    append_text(out, hop.actor);
    append_committed(out, "correlation_id", hop.correlation_id, salt);
    append_string(out, hop.metadata == nullptr ? nullptr : salt == nullptr ? json_text(hop.metadata) : committed_metadata(hop.metadata, salt));
    append_number(out, attachment.machine->version);
    append_number(out, at + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY);
    appendStringInfoChar(out, ']');
}

}  // namespace

bytea* make_salt() {
    constexpr int length = 16;
    auto* salt = static_cast<bytea*>(palloc(VARHDRSZ + length));
    SET_VARSIZE(salt, VARHDRSZ + length);
    if (!pg_strong_random(VARDATA(salt), length)) ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
    return salt;
}

bytea* log_hash(const Hop& hop, int sort_key, TimestampTz at, const bytea* previous, const bytea* salt) {
    StringInfoData content;
    initStringInfo(&content);
    append_content(&content, hop, sort_key, at, salt);
    auto* hash = static_cast<bytea*>(palloc(VARHDRSZ + PG_SHA256_DIGEST_LENGTH));
    SET_VARSIZE(hash, VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
    const Piece before = previous == nullptr ? Piece{"", 0} : Piece{VARDATA_ANY(previous), static_cast<std::size_t>(VARSIZE_ANY_EXHDR(previous))};
    sha256({before, utf8(content.data)}, reinterpret_cast<uint8*>(VARDATA(hash)));
    return hash;
}

}  // namespace pawl
