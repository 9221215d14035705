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

// Whether values of this type look the same in every session.
bool has_one_text(Oid type) {
    switch (getBaseType(type)) {
        case BOOLOID: case CHAROID: case NAMEOID: case INT2OID: case INT4OID: case INT8OID: case OIDOID: case NUMERICOID:
        case TEXTOID: case VARCHAROID: case BPCHAROID: case UUIDOID: return true;
        default: return type_is_enum(type);
    }
}

// The text of a key goes into the hash, so it must not hang on who writes: times, floats and bytea are printed as pawl.verify
// prints them. Returns what end_fixed_text needs; an error in between is undone with its transaction.
int begin_fixed_text(const Attachment& attachment) {
    bool fixed = true;
    for (int i = 0; i < attachment.nkeys; ++i) fixed &= has_one_text(attachment.keys[i].type);
    if (fixed) return 0;
    constexpr const char* settings[][2] = {{"datestyle", "ISO, YMD"}, {"intervalstyle", "postgres"}, {"timezone", "UTC"},
                                           {"extra_float_digits", "1"}, {"bytea_output", "hex"}};
    const int level = NewGUCNestLevel();
    for (const auto& [name, value] : settings)
        set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    return level;
}

void end_fixed_text(int level) {
    if (level != 0) AtEOXact_GUC(true, level);
}

void append_content(StringInfo out, const Hop& hop, int sort_key, TimestampTz at) {
    const Attachment& attachment = *hop.attachment;
    appendStringInfoChar(out, '[');
    const int settings = begin_fixed_text(attachment);
    for (int i = 0; i < attachment.nkeys; ++i) {
        Oid output;
        bool varlena;
        getTypeOutputInfo(attachment.keys[i].type, &output, &varlena);
        append_string(out, OidOutputFunctionCall(output, hop.key[i]));
    }
    end_fixed_text(settings);
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
