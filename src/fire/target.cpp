// May throw and may ereport. See target.hpp.
#include "fire/target.hpp"

namespace pawl {

namespace {

char* as_text(Oid type, Datum value) {
    return type == UNKNOWNOID ? DatumGetCString(value) : fixed_text(type, value);
}

// Whether a driver's text arrives as this type: of a parameter without a type PostgreSQL makes text, others say
// varchar.
bool is_string(Oid type) {
    return type == UNKNOWNOID || TypeCategory(type) == TYPCATEGORY_STRING;
}

// What the caller is told if an input function rejects a text.
struct Advice {
    const char* hint;
    const KeyColumn* column;  // null: the text has no column of its own
};

void give_advice(void* argument) {
    if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_DATA_EXCEPTION) return;
    const auto* advice = static_cast<const Advice*>(argument);
    if (const KeyColumn* column = advice->column)
        errdetail("Key column \"%s\" is of type %s.", NameStr(column->name), format_type_be(getBaseType(column->type)));
    errhint("%s", advice->hint);
}

Datum read_text(Oid input, char* text, Oid parameter, int32 modifier, Advice advice) {
    ErrorContextCallback frame;
    frame.callback = give_advice;
    frame.arg = &advice;
    frame.previous = error_context_stack;
    error_context_stack = &frame;
    const Datum value = OidInputFunctionCall(input, text, parameter, modifier);
    error_context_stack = frame.previous;
    return value;
}

// A value of the key column's type from a value of the type that the caller gave.
Datum coerce(const Binding& binding, int key, Oid type, Datum value) {
    // A domain's CHECK is code of the table's owner. To look for a value its base type is enough.
    const Oid wanted = getBaseType(binding.keys[key].type);
    if (getBaseType(type) == wanted) return value;
    Oid input, parameter;
    getTypeInputInfo(wanted, &input, &parameter);
    return read_text(input, as_text(type, value), parameter, -1,
                     {"Give the key as a value of that type; a composite key as row(a, b) or as an array of texts.",
                      &binding.keys[key]});
}

constexpr Advice composite_advice = {"Give a composite key as row(a, b) or as an array of texts.", nullptr};
constexpr Advice list_advice = {"Give keys as array[1, 2, 3], or as the text of such an array: '{1,2,3}'.", nullptr};

// Whether the first character that is no white space is one of these.
bool begins_with(const char* text, const char* characters) {
    const char first = text[strspn(text, " \t\n\r\v\f")];
    return first != '\0' && strchr(characters, first) != nullptr;
}

[[noreturn]] void wrong_key(const Binding& binding, int given, int sqlstate = ERRCODE_INVALID_PARAMETER_VALUE) {
    ereport(ERROR,
            (errcode(sqlstate), errmsg("wrong number of key values for table \"%s\"", get_rel_name(binding.root)),
             errdetail("Expected %d, but got %d.", binding.nkeys, given),
             errhint("Give a composite key as row(a, b) or as an array of texts.")));
}

[[noreturn]] void null_key(const Binding& binding) {
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                    errmsg("key of table \"%s\" must not be null", get_rel_name(binding.root))));
}

void key_from_record(const Binding& binding, HeapTupleHeader record, Datum* key) {
    TupleDesc descriptor = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(record), HeapTupleHeaderGetTypMod(record));
    if (descriptor->natts != binding.nkeys) {
        const int given = descriptor->natts;
        ReleaseTupleDesc(descriptor);
        wrong_key(binding, given);
    }
    HeapTupleData tuple;
    tuple.t_len = HeapTupleHeaderGetDatumLength(record);
    ItemPointerSetInvalid(&tuple.t_self);
    tuple.t_tableOid = InvalidOid;
    tuple.t_data = record;
    for (int i = 0; i < binding.nkeys; ++i) {
        bool null;
        Datum value = heap_getattr(&tuple, i + 1, descriptor, &null);
        if (null) null_key(binding);
        key[i] = coerce(binding, i, TupleDescAttr(descriptor, i)->atttypid, value);
    }
    ReleaseTupleDesc(descriptor);
}

void deconstruct(ArrayType* array, Datum** elements, bool** nulls, int* n) {
    int16 length;
    bool by_value;
    char alignment;
    get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &alignment);
    deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, alignment, elements, nulls, n);
}

// One element for each key column.
void coerce_all(const Binding& binding, Oid type, const Datum* elements, const bool* nulls, Datum* key) {
    for (int i = 0; i < binding.nkeys; ++i) {
        if (nulls[i]) null_key(binding);
        key[i] = coerce(binding, i, type, elements[i]);
    }
}

void key_from_array(const Binding& binding, ArrayType* array, Datum* key) {
    Datum* elements;
    bool* nulls;
    int n;
    deconstruct(array, &elements, &nulls, &n);
    if (n != binding.nkeys) wrong_key(binding, n);
    coerce_all(binding, ARR_ELEMTYPE(array), elements, nulls, key);
}

// (a,b), as a driver writes a tuple without a type.
void key_from_record_text(const Binding& binding, char* record, Datum* key) {
    TupleDesc descriptor = CreateTemplateTupleDesc(binding.nkeys);
    for (int i = 0; i < binding.nkeys; ++i)
        TupleDescInitEntry(descriptor, static_cast<AttrNumber>(i + 1), nullptr, TEXTOID, -1, 0);
    BlessTupleDesc(descriptor);
    key_from_record(binding,
                    DatumGetHeapTupleHeader(
                        read_text(F_RECORD_IN, record, descriptor->tdtypeid, descriptor->tdtypmod, composite_advice)),
                    key);
}

// {a,b} or (a,b)
void key_from_text(const Binding& binding, char* text, Datum* key) {
    if (begins_with(text, "(")) return key_from_record_text(binding, text, key);
    if (!begins_with(text, "{[")) wrong_key(binding, 1, ERRCODE_INVALID_TEXT_REPRESENTATION);
    key_from_array(binding, DatumGetArrayTypeP(read_text(F_ARRAY_IN, text, TEXTOID, -1, composite_advice)), key);
}

Datum* key_from_value(const Binding& binding, Oid type, Datum value) {
    auto* key = static_cast<Datum*>(palloc(sizeof(Datum) * binding.nkeys));
    const Oid base = getBaseType(type);
    if (type_is_rowtype(base) && !(binding.nkeys == 1 && binding.keys[0].type == type))
        key_from_record(binding, DatumGetHeapTupleHeader(value), key);
    else if (binding.nkeys > 1 && type_is_array(base))
        key_from_array(binding, DatumGetArrayTypeP(value), key);
    else if (binding.nkeys > 1 && is_string(base))
        key_from_text(binding, as_text(type, value), key);
    else if (binding.nkeys == 1)
        key[0] = coerce(binding, 0, type, value);
    else
        wrong_key(binding, 1);
    return key;
}

// A key in a list: one element, or one for each key column.
Datum* key_from_elements(const Binding& binding, Oid type, const Datum* elements, const bool* nulls, int width) {
    if (width == 1) {
        if (nulls[0]) null_key(binding);
        return key_from_value(binding, type, elements[0]);
    }
    auto* key = static_cast<Datum*>(palloc(sizeof(Datum) * binding.nkeys));
    coerce_all(binding, type, elements, nulls, key);
    return key;
}

void require_listed_keys(const Binding& binding) {
    for (int i = 0; i < binding.nkeys; ++i) {
        const KeyColumn& key = binding.keys[i];
        if (OidIsValid(get_array_type(key.type)) && !type_is_rowtype(key.type)) continue;
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("rows of table \"%s\" cannot be found by a list of keys", get_rel_name(binding.root)),
                        errdetail("Key column \"%s\" is of type %s.", NameStr(key.name), format_type_be(key.type)),
                        errhint("Call pawl.fire for each row.")));
    }
}

// A list of keys: an array, or the text of one, '{1,2,3}'.
ArrayType* list_of_keys(Oid type, Datum value) {
    char* text = is_string(type) ? as_text(type, value) : nullptr;
    if (text != nullptr && begins_with(text, "{["))
        return DatumGetArrayTypeP(read_text(F_ARRAY_IN, text, TEXTOID, -1, list_advice));
    if (!type_is_array_domain(type))
        ereport(ERROR,
                (errcode(text != nullptr ? ERRCODE_INVALID_TEXT_REPRESENTATION : ERRCODE_DATATYPE_MISMATCH),
                 errmsg("keys must be an array, not %s", format_type_be(type)),
                 errhint("For one row: pawl.fire; for several: array[1, 2, 3], or array[row(1, 'a'), row(2, 'b')].")));
    return DatumGetArrayTypeP(value);
}

Datum* columns_of_keys(const Binding& binding, Oid type, Datum value, int* n) {
    require_listed_keys(binding);
    ArrayType* array = list_of_keys(type, value);
    Datum* elements;
    bool* nulls;
    deconstruct(array, &elements, &nulls, n);
    // {{1,a},{2,b}}: each row is a composite key
    const int width = binding.nkeys > 1 && ARR_NDIM(array) == 2 ? ARR_DIMS(array)[1] : 1;
    if (width > 1 && width != binding.nkeys) wrong_key(binding, width);
    *n /= width;
    auto** columns = static_cast<Datum**>(palloc(sizeof(Datum*) * binding.nkeys));
    for (int i = 0; i < binding.nkeys; ++i) columns[i] = static_cast<Datum*>(palloc(sizeof(Datum) * Max(*n, 1)));
    for (int row = 0; row < *n; ++row) {
        Datum* key =
            key_from_elements(binding, ARR_ELEMTYPE(array), elements + row * width, nulls + row * width, width);
        for (int i = 0; i < binding.nkeys; ++i) columns[i][row] = key[i];
    }
    auto* arrays = static_cast<Datum*>(palloc(sizeof(Datum) * binding.nkeys));
    for (int i = 0; i < binding.nkeys; ++i) {
        int16 length;
        bool by_value;
        char alignment;
        get_typlenbyvalalign(binding.keys[i].type, &length, &by_value, &alignment);
        arrays[i] = PointerGetDatum(construct_array(columns[i], *n, binding.keys[i].type, length, by_value, alignment));
    }
    return arrays;
}

Relation open_table(Oid relid) {
    Relation relation = try_relation_open(relid, AccessShareLock);
    if (relation == nullptr)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relid)));
    if (relation->rd_rel->relkind != RELKIND_RELATION && relation->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        ereport(ERROR,
                (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not a table", RelationGetRelationName(relation)),
                 errhint("SELECT relation, state_column FROM pawl.binding;")));
    return relation;
}

}  // namespace

Target open_table_target(Oid relid, const char* column) {
    Target target = {};
    target.relation = pg::call([&] { return open_table(relid); });
    target.binding = find_binding(find_member(target.relation), column);
    const Oid table = target.binding->table;
    if (table != relid) {
        pg::call([&] {
            table_close(target.relation, AccessShareLock);
            target.relation = open_table(table);
        });
        target.binding = find_binding(find_member(target.relation), column);
    }
    pg::call([&] {
        target.table = quote_qualified_identifier(get_namespace_name(get_rel_namespace(table)), get_rel_name(table));
    });
    return target;
}

Target open_target(Oid relid, const char* column) {
    const Target target = open_table_target(relid, column);
    if (target.binding->nkeys == 0)
        throw pg::Failure(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "table \"" + std::string(RelationGetRelationName(target.relation)) +
                "\" has no key that identifies its rows",
            {}, "Add a primary key, then release the table and enforce the machine again; or specify key => '{...}'.");
    return target;
}

void close_target(const Target& target) {
    table_close(target.relation, NoLock);
}

List* tables_here(const Target& target) {
    const Oid table = target.binding->table;
    return target.binding->distributed ? shards_here(table) : list_make1_oid(table);
}

void require_one_node(const Target& target, const char* function) {
    if (!target.binding->distributed) return;
    throw pg::Failure(ERRCODE_FEATURE_NOT_SUPPORTED,
                      std::string(function) + " cannot be used on distributed table " + target.table,
                      "Its rows are in shards on several nodes.",
                      "Call it on each node for the shards that it has: SELECT * FROM citus_shards;");
}

Datum* read_key(const Binding& binding, Oid type, Datum value) {
    return pg::call([&] { return key_from_value(binding, type, value); });
}

Datum* read_keys(const Binding& binding, Oid type, Datum value, int* n) {
    return pg::call([&] { return columns_of_keys(binding, type, value, n); });
}

char* key_condition(const Binding& binding, const char* alias, int first_parameter) {
    StringInfoData condition;
    initStringInfo(&condition);
    for (int i = 0; i < binding.nkeys; ++i)
        appendStringInfo(
            &condition, "%s%s", i > 0 ? " AND " : "",
            same_values(binding.keys[i].type, psprintf("%s.%s", alias, quote_identifier(NameStr(binding.keys[i].name))),
                        psprintf("$%d", first_parameter + i)));
    return condition.data;
}

char* state_type_name(const Target& target) {
    const FormData_pg_attribute* column = TupleDescAttr(RelationGetDescr(target.relation), target.binding->state - 1);
    return format_type_be_qualified(column->atttypid);
}

char* state_value(const Target& target, const char* expression) {
    const Binding& binding = *target.binding;
    if (binding.is_enum) return pstrdup(expression);
    return psprintf("(%s)::%s", expression, state_type_name(target));
}

Oid state_parameter_type(const Binding& binding) {
    return binding.is_enum ? binding.state_type : TEXTOID;
}

Datum state_parameter(const Binding& binding, text* state) {
    if (!binding.is_enum) return PointerGetDatum(state);
    Oid input, parameter;
    getTypeInputInfo(binding.state_type, &input, &parameter);
    return OidInputFunctionCall(input, text_to_cstring(state), parameter, -1);
}

}  // namespace pawl
