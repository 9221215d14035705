// May ereport; owns nothing. See columns.hpp.
#include "log/columns.hpp"

#include "catalog/catalog.hpp"

namespace pawl {

namespace {

AttrNumber column_of(Relation log, const char* name) {
    AttrNumber attribute = get_attnum(RelationGetRelid(log), name);
    if (attribute == InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("log table \"%s\" has no column \"%s\"", RelationGetRelationName(log), name),
                        errdetail("Its columns are those that pawl.enable_log made; rename it back."),
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
    // a chain of version 0.0.1 has no salts
    const bool salted = layout.hash_chain && get_attnum(RelationGetRelid(log), "salt") != InvalidAttrNumber;
    columns.salt = salted ? typed_column(log, "salt", BYTEAOID) : 0;
    columns.salts = salted ? typed_column(log, "salts", JSONBOID) : 0;
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

}  // namespace pawl
