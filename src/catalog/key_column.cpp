// May ereport; owns nothing. See key_column.hpp.
#include "catalog/key_column.hpp"

extern "C" {
#include "access/nbtree.h"
}

namespace pawl {

namespace {

TypeCacheEntry* equality_of(Oid type) {
    TypeCacheEntry* entry = lookup_type_cache(type, TYPECACHE_EQ_OPR_FINFO | TYPECACHE_HASH_PROC_FINFO);
    if (!OidIsValid(entry->eq_opr))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        errmsg("could not identify an equality operator for type %s", format_type_be(type))));
    return entry;
}

// The btree operator class tells whether equal values have equal bytes. For the usual types of keys, whose classes come
// with the server, its catalogs need not be asked, which a session that changes its first row would pay for.
bool is_equal_by_image(Oid type, Oid collation) {
    switch (type) {
        case INT2OID:
        case INT4OID:
        case INT8OID:
        case UUIDOID:
            return true;
        case TEXTOID:
            return get_collation_isdeterministic(collation);
        default:
            break;
    }
    TypeCacheEntry* entry = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY);
    if (!OidIsValid(entry->btree_opf)) return false;
    Oid function = get_opfamily_proc(entry->btree_opf, entry->btree_opintype, entry->btree_opintype, BTEQUALIMAGE_PROC);
    return OidIsValid(function) &&
           DatumGetBool(OidFunctionCall1Coll(function, collation, ObjectIdGetDatum(entry->btree_opintype)));
}

char* operator_text(Oid found) {
    HeapTuple tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(found));
    if (!HeapTupleIsValid(tuple)) elog(ERROR, "cache lookup failed for operator %u", found);
    auto* form = reinterpret_cast<Form_pg_operator>(GETSTRUCT(tuple));
    char* name =
        psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)), NameStr(form->oprname));
    ReleaseSysCache(tuple);
    return name;
}

char* order_text(Oid type, Oid found) {
    if (!OidIsValid(found))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        errmsg("could not identify an ordering operator for type %s", format_type_be(type))));
    return operator_text(found);
}

}  // namespace

KeyColumn describe_key_column(Relation relation, AttrNumber attribute, const char* name) {
    const FormData_pg_attribute* column = TupleDescAttr(RelationGetDescr(relation), attribute - 1);
    KeyColumn key = {};
    namestrcpy(&key.name, name);
    key.attribute = attribute;
    key.type = column->atttypid;
    key.collation = column->attcollation;
    get_typlenbyval(key.type, &key.length, &key.by_value);
    key.by_image = is_equal_by_image(key.type, key.collation);
    return key;
}

bool same_key_value(const KeyColumn& key, Datum a, Datum b) {
    if (key.by_value && a == b) return true;
    if (datum_image_eq(a, b, key.by_value, key.length)) return true;
    return !key.by_image && DatumGetBool(FunctionCall2Coll(&equality_of(key.type)->eq_opr_finfo, key.collation, a, b));
}

uint32 hash_key_value(const KeyColumn& key, Datum value) {
    if (key.by_image) return static_cast<uint32>(datum_image_hash(value, key.by_value, key.length));
    TypeCacheEntry* type = equality_of(key.type);
    if (!OidIsValid(type->hash_proc_finfo.fn_oid)) return 0;  // then any two values may be equal
    return DatumGetUInt32(FunctionCall1Coll(&type->hash_proc_finfo, key.collation, value));
}

char* equality(Oid type) {
    return operator_text(equality_of(type)->eq_opr);
}

char* same_values(Oid type, const char* one, const char* other) {
    if (getBaseType(type) >= FirstNormalObjectId) return psprintf("pawl.same_value(%s, %s)", one, other);
    return psprintf("%s %s %s", one, equality(type), other);
}

char* greater_value(Oid type, const char* one, const char* other) {
    if (getBaseType(type) >= FirstNormalObjectId) return psprintf("pawl._above(%s, %s)", one, other);
    return psprintf("%s %s %s", one, greater_than(type), other);
}

char* greater_than(Oid type) {
    return order_text(type, lookup_type_cache(type, TYPECACHE_GT_OPR)->gt_opr);
}

bool has_one_text(Oid type) {
    switch (getBaseType(type)) {
        case BOOLOID:
        case CHAROID:
        case NAMEOID:
        case INT2OID:
        case INT4OID:
        case INT8OID:
        case OIDOID:
        case NUMERICOID:
        case TEXTOID:
        case VARCHAROID:
        case BPCHAROID:
        case UUIDOID:
            return true;
        default:
            return type_is_enum(type);
    }
}

int begin_fixed_text() {
    constexpr const char* settings[][2] = {{"datestyle", "ISO, YMD"},
                                           {"intervalstyle", "postgres"},
                                           {"timezone", "UTC"},
                                           {"extra_float_digits", "1"},
                                           {"bytea_output", "hex"}};
    const int level = NewGUCNestLevel();
    for (const auto& [name, value] : settings)
        set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    return level;
}

char* fixed_text(Oid type, Datum value) {
    Oid output;
    bool varlena;
    getTypeOutputInfo(type, &output, &varlena);
    if (has_one_text(type)) return OidOutputFunctionCall(output, value);
    const int level = begin_fixed_text();
    char* text = OidOutputFunctionCall(output, value);
    AtEOXact_GUC(true, level);
    return text;
}

}  // namespace pawl
