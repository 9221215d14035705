// May ereport; owns nothing. See catalog.hpp.
#include "catalog/catalog.hpp"

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

Datum CatalogRow::value(const char* column, bool* null, Oid type, Oid or_type) const {
    AttrNumber attribute = get_attnum(RelationGetRelid(relation_), column);
    if (attribute == InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("column \"%s\" of pawl.%s is missing", column, RelationGetRelationName(relation_)),
                        errdetail("The installed SQL objects and the shared library are of different versions."),
                        errhint("ALTER EXTENSION pawl UPDATE;")));
    const Oid found = attribute > 0 ? TupleDescAttr(RelationGetDescr(relation_), attribute - 1)->atttypid : InvalidOid;
    if (found != type && (found != or_type || !OidIsValid(found)))
        report_damage(
            psprintf("catalog table pawl.%s", RelationGetRelationName(relation_)),
            psprintf("Its column \"%s\" is of type %s, not %s.", column, format_type_be(found), format_type_be(type)));
    return heap_getattr(tuple_, attribute, RelationGetDescr(relation_), null);
}

bool CatalogRow::has(const char* column) const {
    return get_attnum(RelationGetRelid(relation_), column) != InvalidAttrNumber;
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
    AttrNumber attribute = get_attnum(RelationGetRelid(relation_), column);
    if (TupleDescAttr(RelationGetDescr(relation_), attribute - 1)->atttypid == NAMEOID)
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

// The scan's comparison function requires this type.
AttrNumber scanned(Oid table, const char* column, Oid type, Oid or_type = InvalidOid) {
    const AttrNumber attribute = get_attnum(table, column);
    const Oid found = attribute == InvalidAttrNumber ? InvalidOid : get_atttype(table, attribute);
    if (attribute == InvalidAttrNumber || (found != type && found != or_type))
        report_damage(psprintf("catalog table pawl.%s", get_rel_name(table)),
                      psprintf("It has no column \"%s\" of type %s.", column, format_type_be(type)));
    return attribute;
}

// Sees what is committed now and what this transaction has done. GetLatestSnapshot does not work in parallel mode,
// where functions read the catalog too; for a table that is no system catalog, GetCatalogSnapshot is as new.
Snapshot newest_snapshot(Oid table) {
    return IsInParallelMode() ? GetCatalogSnapshot(table) : GetLatestSnapshot();
}

void scan(const char* table, int nkeys, ScanKey keys, RowVisitor visit, void* argument) {
    Oid relid = catalog_table(table);
    if (!OidIsValid(relid)) return;
    Relation relation = table_open(relid, AccessShareLock);
    // The keys of a scan are always a prefix of the primary key.
    Oid index = nkeys > 0 ? pg::primary_key_index(relation) : InvalidOid;
    Snapshot snapshot = RegisterSnapshot(newest_snapshot(relid));
    SysScanDesc scan = systable_beginscan(relation, index, OidIsValid(index), snapshot, nkeys, keys);
    HeapTuple tuple;
    while (HeapTupleIsValid(tuple = systable_getnext(scan))) visit(CatalogRow(relation, tuple), argument);
    systable_endscan(scan);
    UnregisterSnapshot(snapshot);
    table_close(relation, AccessShareLock);
}

}  // namespace

void scan_bindings_of(Oid relation, RowVisitor visit, void* argument) {
    Oid table = catalog_table("binding");
    if (!OidIsValid(table)) return;
    ScanKeyData key;
    ScanKeyInit(&key, scanned(table, "relation", REGCLASSOID, OIDOID), BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(relation));
    scan("binding", 1, &key, visit, argument);
}

void scan_pruned_log(Oid log, RowVisitor visit, void* argument) {
    Oid table = catalog_table("pruned_log");
    if (!OidIsValid(table)) return;
    ScanKeyData key;
    ScanKeyInit(&key, scanned(table, "log", REGCLASSOID, OIDOID), BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(log));
    scan("pruned_log", 1, &key, visit, argument);
}

void scan_bindings(RowVisitor visit, void* argument) {
    scan("binding", 0, nullptr, visit, argument);
}

void scan_versions(const char* machine, RowVisitor visit, void* argument) {
    ScanKeyData key;
    ScanKeyInit(&key, scanned(catalog_table("machine"), "machine", TEXTOID), BTEqualStrategyNumber, F_TEXTEQ,
                CStringGetTextDatum(machine));
    scan("machine", 1, &key, visit, argument);
}

void scan_machine(const char* table, const char* machine, int version, RowVisitor visit, void* argument) {
    Oid relid = catalog_table(table);
    if (!OidIsValid(relid)) return;
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], scanned(relid, "machine", TEXTOID), BTEqualStrategyNumber, F_TEXTEQ,
                CStringGetTextDatum(machine));
    ScanKeyInit(&keys[1], scanned(relid, "version", INT4OID), BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(version));
    scan(table, 2, keys, visit, argument);
}

}  // namespace pawl
