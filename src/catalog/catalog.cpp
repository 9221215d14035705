// May ereport; owns nothing. See catalog.hpp.
#include "catalog/catalog.hpp"

#include <algorithm>
#include <array>

extern "C" {
#include "storage/bufmgr.h"
}

namespace pawl {

Oid catalog_table(const char* name) {
    Oid schema = get_namespace_oid("pawl", true);
    return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}

// Not by LookupFuncName, which requires USAGE on the schema: a user who updates a row need not have it.
Oid own_trigger_function(const char* name) {
    Oid schema = get_namespace_oid("pawl", true);
    if (!OidIsValid(schema)) return InvalidOid;
    return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
                           PointerGetDatum(buildoidvector(nullptr, 0)), ObjectIdGetDatum(schema));
}

void report_damage(const char* row, const char* problem) {
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("%s is damaged", row), errdetail("%s", problem),
                    errhint("SELECT * FROM pawl.health(); what it reports is mended by a restore, or by pawl.release "
                            "and pawl.enforce.")));
}

void require_type(const char* table, const FormData_pg_attribute& column, Oid type, Oid or_type) {
    if (column.atttypid == type || column.atttypid == or_type) return;
    report_damage(psprintf("catalog table pawl.%s", table),
                  psprintf("Its column \"%s\" is of type %s, not %s.", NameStr(column.attname),
                           format_type_be(column.atttypid), format_type_be(type)));
}

namespace {

// The catalog caches would read pg_attribute once for each column of a session's first binding.
AttrNumber number_of(Relation relation, const char* column) {
    const TupleDesc descriptor = RelationGetDescr(relation);
    for (int i = 0; i < descriptor->natts; ++i) {
        const FormData_pg_attribute* attribute = TupleDescAttr(descriptor, i);
        if (!attribute->attisdropped && strcmp(NameStr(attribute->attname), column) == 0) return attribute->attnum;
    }
    return InvalidAttrNumber;
}

}  // namespace

Datum CatalogRow::value(const char* column, bool* null, Oid type, Oid or_type) const {
    AttrNumber attribute = number_of(relation_, column);
    if (attribute == InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("column \"%s\" of pawl.%s is missing", column, RelationGetRelationName(relation_)),
                        errdetail("The installed SQL objects and the shared library are of different versions."),
                        errhint("ALTER EXTENSION pawl UPDATE;")));
    require_type(RelationGetRelationName(relation_), *TupleDescAttr(RelationGetDescr(relation_), attribute - 1), type,
                 or_type);
    return heap_getattr(tuple_, attribute, RelationGetDescr(relation_), null);
}

bool CatalogRow::has(const char* column) const {
    return number_of(relation_, column) != InvalidAttrNumber;
}

Oid CatalogRow::oid(const char* column) const {
    bool null;
    Datum datum = value(column, &null, REGCLASSOID, OIDOID);
    return null ? InvalidOid : DatumGetObjectId(datum);
}

int CatalogRow::integer(const char* column) const {
    bool null;
    Datum datum = value(column, &null, INT4OID);
    return null ? 0 : DatumGetInt32(datum);
}

bool CatalogRow::boolean(const char* column) const {
    bool null;
    Datum datum = value(column, &null, BOOLOID);
    return !null && DatumGetBool(datum);
}

char* CatalogRow::string(const char* column) const {
    bool null;
    Datum datum = value(column, &null, TEXTOID, NAMEOID);
    if (null) return nullptr;
    if (TupleDescAttr(RelationGetDescr(relation_), number_of(relation_, column) - 1)->atttypid == NAMEOID)
        return pstrdup(NameStr(*DatumGetName(datum)));
    return TextDatumGetCString(datum);
}

char* CatalogRow::required(const char* column) const {
    char* found = string(column);
    if (found == nullptr)
        report_damage(psprintf("a row of pawl.%s", RelationGetRelationName(relation_)),
                      psprintf("Its column \"%s\" is null.", column));
    return found;
}

char** CatalogRow::strings(const char* column, int* n) const {
    bool null;
    Datum datum = value(column, &null, TEXTARRAYOID, NAMEARRAYOID);
    *n = 0;
    if (null) return nullptr;
    ArrayType* array = DatumGetArrayTypeP(datum);
    const bool of_names = ARR_ELEMTYPE(array) == NAMEOID;
    Datum* elements;
    bool* nulls;
    if (of_names)
        deconstruct_array(array, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &elements, &nulls, n);
    else
        deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, n);
    char** strings = static_cast<char**>(palloc(sizeof(char*) * Max(*n, 1)));
    for (int i = 0; i < *n; ++i) {
        if (nulls[i])
            strings[i] = pstrdup("");
        else
            strings[i] = of_names ? pstrdup(NameStr(*DatumGetName(elements[i]))) : TextDatumGetCString(elements[i]);
    }
    return strings;
}

bool* CatalogRow::booleans(const char* column, int* n) const {
    bool null;
    Datum datum = value(column, &null, BOOLARRAYOID);
    *n = 0;
    if (null) return nullptr;
    Datum* elements;
    bool* nulls;
    deconstruct_array(DatumGetArrayTypeP(datum), BOOLOID, 1, true, TYPALIGN_CHAR, &elements, &nulls, n);
    auto* booleans = static_cast<bool*>(palloc(sizeof(bool) * Max(*n, 1)));
    for (int i = 0; i < *n; ++i) booleans[i] = !nulls[i] && DatumGetBool(elements[i]);
    return booleans;
}

Interval* CatalogRow::interval_value(const char* column) const {
    bool null;
    Datum datum = value(column, &null, INTERVALOID);
    return null ? nullptr
                : static_cast<Interval*>(memcpy(palloc(sizeof(Interval)), DatumGetIntervalP(datum), sizeof(Interval)));
}

Jsonb* CatalogRow::json(const char* column) const {
    bool null;
    Datum datum = value(column, &null, JSONBOID);
    return null ? nullptr : DatumGetJsonbPCopy(datum);
}

char* CatalogRow::interval(const char* column) const {
    bool null;
    Datum datum = value(column, &null, INTERVALOID);
    return null ? nullptr : DatumGetCString(DirectFunctionCall1(interval_out, datum));
}

namespace {

// A column that a scan compares, and with what. The comparison function requires its type.
struct Key {
    const char* column;
    Oid type;
    Oid or_type;
    RegProcedure equal;
    Datum value;
};

AttrNumber scanned(Relation table, const Key& key) {
    const AttrNumber attribute = number_of(table, key.column);
    const Oid found =
        attribute == InvalidAttrNumber ? InvalidOid : TupleDescAttr(RelationGetDescr(table), attribute - 1)->atttypid;
    if (!OidIsValid(found) || (found != key.type && found != key.or_type))
        report_damage(psprintf("catalog table pawl.%s", RelationGetRelationName(table)),
                      psprintf("It has no column \"%s\" of type %s.", key.column, format_type_be(key.type)));
    return attribute;
}

// Sees what is committed now and what this transaction has done. GetLatestSnapshot does not work in parallel mode,
// where functions read the catalog too; for a table that is no system catalog, GetCatalogSnapshot is as new.
Snapshot newest_snapshot(Oid table) {
    return IsInParallelMode() ? GetCatalogSnapshot(table) : GetLatestSnapshot();
}

// A session reads so few pages faster than it opens an index for the first time.
constexpr BlockNumber few_pages = 4;

// The keys of a scan are always a prefix of the primary key.
template <std::size_t nkeys>
void scan(const char* table, const std::array<Key, nkeys>& keys, RowVisitor visit, void* argument) {
    Oid relid = catalog_table(table);
    if (!OidIsValid(relid)) return;
    Relation relation = table_open(relid, AccessShareLock);
    std::array<ScanKeyData, std::max<std::size_t>(nkeys, 1)> compared = {};
    for (std::size_t i = 0; i < nkeys; ++i)
        ScanKeyInit(&compared[i], scanned(relation, keys[i]), BTEqualStrategyNumber, keys[i].equal, keys[i].value);
    const bool is_long = nkeys > 0 && RelationGetNumberOfBlocks(relation) > few_pages;
    Oid index = is_long ? pg::primary_key_index(relation) : InvalidOid;
    Snapshot snapshot = RegisterSnapshot(newest_snapshot(relid));
    SysScanDesc scan =
        systable_beginscan(relation, index, OidIsValid(index), snapshot, static_cast<int>(nkeys), compared.data());
    HeapTuple tuple;
    while (HeapTupleIsValid(tuple = systable_getnext(scan))) visit(CatalogRow(relation, tuple), argument);
    systable_endscan(scan);
    UnregisterSnapshot(snapshot);
    table_close(relation, AccessShareLock);
}

Key of_relation(const char* column, Oid relation) {
    return {column, REGCLASSOID, OIDOID, F_OIDEQ, ObjectIdGetDatum(relation)};
}

Key of_machine(const char* machine) {
    return {"machine", TEXTOID, InvalidOid, F_TEXTEQ, CStringGetTextDatum(machine)};
}

}  // namespace

void scan_bindings_of(Oid relation, RowVisitor visit, void* argument) {
    scan("binding", std::array{of_relation("relation", relation)}, visit, argument);
}

void scan_pruned_log(Oid log, RowVisitor visit, void* argument) {
    scan("pruned_log", std::array{of_relation("log", log)}, visit, argument);
}

void scan_audit_of(Oid log, RowVisitor visit, void* argument) {
    scan("audit_binding", std::array{of_relation("log", log)}, visit, argument);
}

void scan_bindings(RowVisitor visit, void* argument) {
    scan_all("binding", visit, argument);
}

void scan_all(const char* table, RowVisitor visit, void* argument) {
    scan(table, std::array<Key, 0>{}, visit, argument);
}

void scan_versions(const char* machine, RowVisitor visit, void* argument) {
    scan("machine", std::array{of_machine(machine)}, visit, argument);
}

void scan_machine(const char* table, const char* machine, int version, RowVisitor visit, void* argument) {
    const Key of_version = {"version", INT4OID, InvalidOid, F_INT4EQ, Int32GetDatum(version)};
    scan(table, std::array{of_machine(machine), of_version}, visit, argument);
}

}  // namespace pawl
