// May ereport; owns nothing. See hash.hpp.
#include "log/hash.hpp"

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

void append_text(StringInfo out, const text* value) {
    append_string(out, value == nullptr ? nullptr : text_to_cstring(value));
}

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
    for (const Piece& piece : pieces)
        well = well && pg_cryptohash_update(context, static_cast<const uint8*>(piece.data), piece.length) >= 0;
    if (!well || pg_cryptohash_final(context, digest, PG_SHA256_DIGEST_LENGTH) < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not compute SHA-256: %s", pg_cryptohash_error(context))));
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

char* json_text(Jsonb* json) {
    return JsonbToCString(nullptr, &json->root, VARSIZE(json));
}

JsonbValue json_string(const char* value) {
    JsonbValue string;
    string.type = jbvString;
    string.val.string.val = const_cast<char*>(value);
    string.val.string.len = static_cast<int>(strlen(value));
    return string;
}

// What pawl._pointer gives.
char* pointer_to(const char* parent, const JsonbValue& key) {
    StringInfoData pointer;
    initStringInfo(&pointer);
    appendStringInfo(&pointer, "%s/", parent);
    for (int i = 0; i < key.val.string.len; ++i) {
        const char letter = key.val.string.val[i];
        if (letter == '~' || letter == '/')
            appendStringInfoString(&pointer, letter == '~' ? "~0" : "~1");
        else
            appendStringInfoChar(&pointer, letter);
    }
    return pointer.data;
}

// An object with the commitment of each member in its place. parent: its JSON Pointer. Below the top level a member
// that is an object is committed to by the text of its own members' commitments.
Jsonb* committed_members(JsonbContainer* object, const char* parent, bool is_top, const bytea* salt) {
    check_stack_depth();
    JsonbParseState* state = nullptr;
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
    JsonbIterator* iterator = JsonbIteratorInit(object);
    JsonbValue key;
    JsonbValue value;
    JsonbIteratorNext(&iterator, &key, false);
    while (JsonbIteratorNext(&iterator, &key, true) == WJB_KEY) {
        JsonbIteratorNext(&iterator, &value, true);
        const bool is_object = value.type == jbvBinary && JsonContainerIsObject(value.val.binary.data);
        const char* pointer = is_top && !is_object ? nullptr : pointer_to(parent, key);
        const char* field =
            is_top ? psprintf("metadata.%s", pnstrdup(key.val.string.val, key.val.string.len)) : pointer;
        Jsonb* content = is_object ? committed_members(value.val.binary.data, pointer, false, salt)
                                   : JsonbValueToJsonb(&value);
        JsonbValue committed = json_string(commitment(field, json_text(content), salt));
        pushJsonbValue(&state, WJB_KEY, &key);
        pushJsonbValue(&state, WJB_VALUE, &committed);
    }
    return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr));
}

// Metadata that is no object has one commitment.
char* committed_metadata(Jsonb* metadata, const bytea* salt) {
    if (JB_ROOT_IS_OBJECT(metadata)) return json_text(committed_members(&metadata->root, "metadata", true, salt));
    JsonbValue whole = json_string(commitment("metadata", json_text(metadata), salt));
    return json_text(JsonbValueToJsonb(&whole));
}

void append_content(StringInfo out, const StateChange& change, int sort_key, TimestampTz at, const bytea* salt) {
    const Binding& binding = *change.binding;
    appendStringInfoChar(out, '[');
    // Their text goes into the hash, so it must not hang on who writes.
    for (int i = 0; i < binding.nkeys; ++i) append_string(out, fixed_text(binding.keys[i].type, change.key[i]));
    append_number(out, sort_key);
    append_text(out, change.from);
    append_text(out, change.to);
    append_text(out, change.event);
    append_committed(out, "processor", change.processor, salt);
    append_text(out, change.actor);
    append_committed(out, "correlation_id", change.correlation_id, salt);
    append_string(out, change.metadata == nullptr ? nullptr
                       : salt == nullptr          ? json_text(change.metadata)
                                                  : committed_metadata(change.metadata, salt));
    append_number(out, binding.machine->version);
    append_number(out, at + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY);
    appendStringInfoChar(out, ']');
}

}  // namespace

bytea* make_salt() {
    constexpr int length = 16;
    auto* salt = static_cast<bytea*>(palloc(VARHDRSZ + length));
    SET_VARSIZE(salt, VARHDRSZ + length);
    if (!pg_strong_random(VARDATA(salt), length))
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
    return salt;
}

bytea* log_hash(const StateChange& change, int sort_key, TimestampTz at, const bytea* previous, const bytea* salt) {
    StringInfoData content;
    initStringInfo(&content);
    append_content(&content, change, sort_key, at, salt);
    auto* hash = static_cast<bytea*>(palloc(VARHDRSZ + PG_SHA256_DIGEST_LENGTH));
    SET_VARSIZE(hash, VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
    const Piece before = previous == nullptr
                             ? Piece{"", 0}
                             : Piece{VARDATA_ANY(previous), static_cast<std::size_t>(VARSIZE_ANY_EXHDR(previous))};
    sha256({before, utf8(content.data)}, reinterpret_cast<uint8*>(VARDATA(hash)));
    return hash;
}

}  // namespace pawl
