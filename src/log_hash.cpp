// May ereport; owns nothing. See log_hash.hpp.
#include "log_hash.hpp"

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

void append_content(StringInfo out, const Hop& hop, int sort_key, TimestampTz at) {
    const Attachment& attachment = *hop.attachment;
    appendStringInfoChar(out, '[');
    // Their text goes into the hash, so it must not hang on who writes.
    for (int i = 0; i < attachment.nkeys; ++i) append_string(out, fixed_text(attachment.keys[i].type, hop.key[i]));
    append_number(out, sort_key);
    append_text(out, hop.from);
    append_text(out, hop.to);
    append_text(out, hop.event);
    append_text(out, hop.processor);
    append_text(out, hop.actor);
    append_text(out, hop.correlation_id);
    append_string(out, hop.metadata == nullptr ? nullptr : JsonbToCString(nullptr, &hop.metadata->root, VARSIZE(hop.metadata)));
    append_number(out, attachment.machine->version);
    append_number(out, at + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY);
    appendStringInfoChar(out, ']');
}

}  // namespace

bytea* log_hash(const Hop& hop, int sort_key, TimestampTz at, const bytea* previous) {
    StringInfoData content;
    initStringInfo(&content);
    append_content(&content, hop, sort_key, at);
    char* utf8 = pg_server_to_any(content.data, content.len, PG_UTF8);

    auto* hash = static_cast<bytea*>(palloc(VARHDRSZ + PG_SHA256_DIGEST_LENGTH));
    SET_VARSIZE(hash, VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
    pg_cryptohash_ctx* sha256 = pg_cryptohash_create(PG_SHA256);
    if (pg_cryptohash_init(sha256) < 0 ||
        (previous != nullptr && pg_cryptohash_update(sha256, reinterpret_cast<const uint8*>(VARDATA_ANY(previous)), VARSIZE_ANY_EXHDR(previous)) < 0) ||
        pg_cryptohash_update(sha256, reinterpret_cast<const uint8*>(utf8), strlen(utf8)) < 0 ||
        pg_cryptohash_final(sha256, reinterpret_cast<uint8*>(VARDATA(hash)), PG_SHA256_DIGEST_LENGTH) < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not compute SHA-256: %s", pg_cryptohash_error(sha256))));
    pg_cryptohash_free(sha256);
    return hash;
}

}  // namespace pawl
