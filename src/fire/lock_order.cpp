// May ereport; owns nothing. See lock_order.hpp.
#include "fire/lock_order.hpp"

#include "fire/row_query.hpp"

namespace pawl {

namespace {

constexpr const char* first_alias = "\"pawl~first\"";

// The table whose rows are locked first, and its primary key.
struct First {
    const char* table;
    int nkeys;
    const char* keys[INDEX_MAX_KEYS];
};

[[noreturn]] void report_unfit(const Binding& binding, const char* why) {
    const char* table =
        quote_qualified_identifier(get_namespace_name(get_rel_namespace(binding.root)), get_rel_name(binding.root));
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("the lock order of table %s cannot be kept", table), errdetail("%s", why),
                    errhint("SELECT pawl.set_lock_order(%s, NULL);", quote_literal_cstr(table))));
}

bool is_table(char relkind) {
    return relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE;
}

First find_first(const Binding& binding) {
    Relation relation = try_relation_open(binding.locked_after, AccessShareLock);
    if (relation == nullptr) report_unfit(binding, "The table whose rows are locked first does not exist.");
    if (!is_table(relation->rd_rel->relkind))
        report_unfit(binding, "The relation whose rows are locked first is not a table.");
    list_free(RelationGetIndexList(relation));
    if (!OidIsValid(relation->rd_pkindex))
        report_unfit(binding, "The table whose rows are locked first has no primary key.");
    First first = {};
    first.table = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
                                             RelationGetRelationName(relation));
    Relation index = index_open(relation->rd_pkindex, AccessShareLock);
    first.nkeys = IndexRelationGetNumberOfKeyAttributes(index);
    for (int i = 0; i < first.nkeys; ++i) {
        const FormData_pg_attribute* column =
            TupleDescAttr(RelationGetDescr(relation), index->rd_index->indkey.values[i] - 1);
        if (i >= binding.nkeys || getBaseType(column->atttypid) != getBaseType(binding.keys[i].type))
            report_unfit(binding,
                         "The key does not begin with the primary key of the table whose rows are locked first.");
        first.keys[i] = pstrdup(NameStr(column->attname));
    }
    index_close(index, AccessShareLock);
    relation_close(relation, AccessShareLock);
    return first;
}

// Where the key in "SELECT ... FROM the first table WHERE its key is ..." comes from: a row, an unnested list, or
// parameters.
enum class KeyOf { row, list, parameters };

char* select_first(const Binding& binding, const First& first, KeyOf key) {
    StringInfoData query;
    initStringInfo(&query);
    appendStringInfo(&query, "SELECT 1 AS locked FROM %s AS %s WHERE ", first.table, first_alias);
    for (int i = 0; i < first.nkeys; ++i) {
        const KeyColumn& column = binding.keys[i];
        appendStringInfo(&query, "%s%s.%s %s ", i > 0 ? " AND " : "", first_alias, quote_identifier(first.keys[i]),
                         equality(column.type));
        if (key == KeyOf::row)
            appendStringInfo(&query, "%s.%s", row_alias, quote_identifier(NameStr(column.name)));
        else if (key == KeyOf::list)
            appendStringInfo(&query, "f.k%d", i);
        else
            appendStringInfo(&query, "$%d", i + 1);
    }
    appendStringInfoString(&query, " FOR NO KEY UPDATE");
    return query.data;
}

// Locks the first rows of distinct keys, in the order of the keys. `keys` is a query of columns k0, k1, ...
void lock_listed(const Target& target, const First& first, const char* keys, const Parameters& parameters) {
    run_planned(*target.binding,
                psprintf("SELECT 1 FROM (%s) AS f CROSS JOIN LATERAL (%s) AS l", keys,
                         select_first(*target.binding, first, KeyOf::list)),
                parameters, Order::sorted);
}

// Appends k0, k1, ...
void append_names(StringInfo out, int n) {
    for (int i = 0; i < n; ++i) appendStringInfo(out, "%sk%d", i > 0 ? ", " : "", i);
}

}  // namespace

const char* lock_first(const Binding& binding) {
    if (!OidIsValid(binding.locked_after)) return "";
    return psprintf(" CROSS JOIN LATERAL (%s SKIP LOCKED) AS \"pawl~lock\"",
                    select_first(binding, find_first(binding), KeyOf::row));
}

void lock_before_rows(const Target& target, const char* condition, const Parameters& parameters) {
    const Binding& binding = *target.binding;
    if (!OidIsValid(binding.locked_after)) return;
    const First first = find_first(binding);
    StringInfoData keys;
    initStringInfo(&keys);
    appendStringInfoString(&keys, "SELECT DISTINCT ");
    for (int i = 0; i < first.nkeys; ++i)
        appendStringInfo(&keys, "%s%s.%s AS k%d", i > 0 ? ", " : "", row_alias,
                         quote_identifier(NameStr(binding.keys[i].name)), i);
    appendStringInfo(&keys, " FROM %s AS %s WHERE %s ORDER BY ", target.table, row_alias, condition);
    append_names(&keys, first.nkeys);
    lock_listed(target, first, keys.data, parameters);
}

void lock_before_row(const Target& target, const Datum* key) {
    Binding& binding = *target.binding;
    if (!OidIsValid(binding.locked_after)) return;
    const First first = find_first(binding);
    Parameters parameters = {};
    for (int i = 0; i < first.nkeys; ++i) parameters.add(binding.keys[i].type, key[i]);
    run_planned(binding, select_first(binding, first, KeyOf::parameters), parameters);
}

void lock_before_keys(const Target& target, const Datum* key_columns) {
    const Binding& binding = *target.binding;
    if (!OidIsValid(binding.locked_after)) return;
    const First first = find_first(binding);
    Parameters parameters = {};
    for (int i = 0; i < binding.nkeys; ++i) parameters.add(get_array_type(binding.keys[i].type), key_columns[i]);
    StringInfoData keys;
    initStringInfo(&keys);
    appendStringInfoString(&keys, "SELECT DISTINCT ");
    append_names(&keys, first.nkeys);
    appendStringInfo(&keys, " FROM %s ORDER BY ", unnested_keys(binding, 1));
    append_names(&keys, first.nkeys);
    lock_listed(target, first, keys.data, parameters);
}

}  // namespace pawl
