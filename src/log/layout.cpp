// May ereport; owns nothing. See layout.hpp.
#include "log/layout.hpp"

#include <initializer_list>

#include "catalog/catalog.hpp"
#include "pg/index_look.hpp"

extern "C" {
#include "common/cryptohash.h"
#include "common/sha2.h"
}

namespace pawl {

namespace {

AttrNumber column_of(Relation log, const char* name) {
    AttrNumber attribute = get_attnum(RelationGetRelid(log), name);
    if (attribute == InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("log table \"%s\" has no column \"%s\"", RelationGetRelationName(log), name),
                        errdetail("The log must have the columns that pawl.enable_log created."),
                        errhint("SELECT * FROM pawl.health();")));
    return attribute;
}

const char* shown(Relation log) {
    return psprintf("log table \"%s\"", RelationGetRelationName(log));
}

}  // namespace

AttrNumber typed_column(Relation log, const char* name, Oid type) {
    const AttrNumber attribute = column_of(log, name);
    const Oid found = attribute < 0 ? InvalidOid : TupleDescAttr(RelationGetDescr(log), attribute - 1)->atttypid;
    if (found != type)
        report_damage(shown(log), psprintf("Its column \"%s\" is of type %s, not %s.", name, format_type_be(found),
                                           format_type_be(type)));
    return attribute;
}

LogColumns find_columns(Relation log, const LogLayout& layout) {
    LogColumns columns;
    columns.id = typed_column(log, "id", UUIDOID);
    columns.sort_key = typed_column(log, "sort_key", INT4OID);
    columns.from_state = typed_column(log, "from_state", TEXTOID);
    columns.to_state = typed_column(log, "to_state", TEXTOID);
    columns.event = typed_column(log, "event", TEXTOID);
    columns.processor = typed_column(log, "processor", TEXTOID);
    columns.actor = typed_column(log, "actor", TEXTOID);
    columns.correlation_id = typed_column(log, "correlation_id", TEXTOID);
    columns.metadata = typed_column(log, "metadata", JSONBOID);
    columns.machine_version = typed_column(log, "machine_version", INT4OID);
    columns.created_at = typed_column(log, "created_at", TIMESTAMPTZOID);
    columns.most_recent = layout.stored ? typed_column(log, "most_recent", BOOLOID) : 0;
    columns.hash = layout.hash_chain ? typed_column(log, "hash", BYTEAOID) : 0;
    columns.salt = layout.hash_chain ? typed_column(log, "salt", BYTEAOID) : 0;
    columns.salts = layout.hash_chain ? typed_column(log, "salts", JSONBOID) : 0;
    // pawl.set_placing adds it to a log, and it stays; columns of other types are the owner's
    columns.placed = get_attnum(RelationGetRelid(log), "placed");
    if (columns.placed > 0 && TupleDescAttr(RelationGetDescr(log), columns.placed - 1)->atttypid != TEXTOID)
        columns.placed = 0;
    return columns;
}

void check_subject_key(Relation log, Relation primary_key, const KeyColumn* keys, int nkeys, int more) {
    if (primary_key->rd_index->indnkeyatts != nkeys + more)
        report_damage(shown(log), psprintf("Its primary key has %d columns, not %d.",
                                           primary_key->rd_index->indnkeyatts, nkeys + more));
    for (int i = 0; i < nkeys; ++i) {
        const FormData_pg_attribute* column =
            TupleDescAttr(RelationGetDescr(log), primary_key->rd_index->indkey.values[i] - 1);
        if (column->atttypid != keys[i].type)
            report_damage(shown(log),
                          psprintf("Its key column \"%s\" is of type %s, and \"%s\" of the table of type %s.",
                                   NameStr(column->attname), format_type_be(column->atttypid), NameStr(keys[i].name),
                                   format_type_be(keys[i].type)));
    }
}

void check_log_key(Relation log, Relation primary_key, const LogColumns& columns, const KeyColumn* keys, int nkeys) {
    check_subject_key(log, primary_key, keys, nkeys, 1);
    if (primary_key->rd_index->indkey.values[nkeys] != columns.sort_key)
        report_damage(shown(log), "Its primary key does not end with sort_key.");
}

void check_log_table(Relation log) {
    const char kind = log->rd_rel->relkind;
    if (kind != RELKIND_PARTITIONED_TABLE && (kind != RELKIND_RELATION || log->rd_tableam != GetHeapamTableAmRoutine()))
        report_damage(shown(log), "It is no table, or not of access method heap.");
    if (RelationGetRelid(log) < FirstNormalObjectId || RelationGetNamespace(log) == get_namespace_oid("pawl", true) ||
        RELATION_IS_OTHER_TEMP(log))
        report_damage(shown(log), "No transitions can be written there.");
}

void check_log(const Binding& binding) {
    if (!OidIsValid(binding.log.table)) return;
    const char* column = NameStr(binding.column);
    Relation log = try_relation_open(binding.log.table, AccessShareLock);
    if (log == nullptr)
        report_binding(binding.root, column, psprintf("Its log, with OID %u, does not exist.", binding.log.table));
    check_log_table(log);
    const LogColumns columns = find_columns(log, binding.log);
    const Oid primary_key = pg::primary_key_index(log);
    if (!OidIsValid(primary_key))
        report_binding(binding.root, column,
                       psprintf("Its log \"%s\" has no primary key.", RelationGetRelationName(log)));
    Relation index = index_open(primary_key, AccessShareLock);
    check_log_key(log, index, columns, binding.keys, binding.nkeys);
    relation_close(index, AccessShareLock);
    relation_close(log, AccessShareLock);
}

namespace {

void visit_pruned(const CatalogRow& row, void* argument) {
    *static_cast<Oid*>(argument) = row.oid("anchors");
}

Datum value_of(Relation anchors, TupleTableSlot* slot, const char* column, Oid type, bool* null) {
    return slot_getattr(slot, typed_column(anchors, column, type), null);
}

NewestEntry read_anchor(Relation anchors, TupleTableSlot* slot) {
    NewestEntry newest = {};
    bool null;
    if (get_attnum(RelationGetRelid(anchors), "whole") == InvalidAttrNumber)
        return newest;  // made by an earlier version
    Datum value = value_of(anchors, slot, "whole", BOOLOID, &null);
    if (null || !DatumGetBool(value)) return newest;
    newest.found = true;
    newest.sort_key = DatumGetInt32(value_of(anchors, slot, "sort_key", INT4OID, &null));
    newest.at = DatumGetTimestampTz(value_of(anchors, slot, "created_at", TIMESTAMPTZOID, &null));
    value = value_of(anchors, slot, "to_state", TEXTOID, &null);
    if (!null) newest.to = DatumGetTextPCopy(value);
    value = value_of(anchors, slot, "hash", BYTEAOID, &null);
    if (!null) newest.hash = DatumGetByteaPCopy(value);
    return newest;
}

}  // namespace

NewestEntry find_anchor(Oid log, const StateChange& change) {
    NewestEntry newest = {};
    Oid table = InvalidOid;
    scan_pruned_log(log, visit_pruned, &table);
    Relation anchors = OidIsValid(table) ? try_relation_open(table, AccessShareLock) : nullptr;
    if (anchors == nullptr) return newest;
    check_log_table(anchors);
    const Oid primary_key = pg::primary_key_index(anchors);
    if (OidIsValid(primary_key)) {
        Relation index = index_open(primary_key, AccessShareLock);
        const int nkeys = change.binding->nkeys;
        check_subject_key(anchors, index, change.binding->keys, nkeys, 0);
        ScanKeyData keys[INDEX_MAX_KEYS];
        pg::prepare_key_scan(index, nkeys, keys);
        for (int i = 0; i < nkeys; ++i) keys[i].sk_argument = change.key[i];
        IndexScanDesc scan = pg::begin_index_scan(anchors, index, SnapshotSelf, nkeys);
        index_rescan(scan, keys, nkeys, nullptr, 0);
        TupleTableSlot* slot = table_slot_create(anchors, nullptr);
        if (index_getnext_slot(scan, ForwardScanDirection, slot)) newest = read_anchor(anchors, slot);
        ExecDropSingleTupleTableSlot(slot);
        index_endscan(scan);
        index_close(index, NoLock);
    }
    table_close(anchors, NoLock);
    return newest;
}

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
    append_string(out, value == nullptr ? nullptr : commitment(field, text_to_cstring(value), salt));
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
        Jsonb* content =
            is_object ? committed_members(value.val.binary.data, pointer, false, salt) : JsonbValueToJsonb(&value);
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
    // The hash covers their text, which must not depend on settings of the session.
    for (int i = 0; i < binding.nkeys; ++i) append_string(out, fixed_text(binding.keys[i].type, change.key[i]));
    append_number(out, sort_key);
    append_text(out, change.from);
    append_text(out, change.to);
    append_text(out, change.event);
    append_committed(out, "processor", change.processor, salt);
    append_text(out, change.actor);
    append_committed(out, "correlation_id", change.correlation_id, salt);
    append_string(out, change.metadata == nullptr ? nullptr : committed_metadata(change.metadata, salt));
    append_number(out, binding.machine->version);
    append_number(out, at + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY);
    if (change.placement != nullptr) append_text(out, change.placement->reason);
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
