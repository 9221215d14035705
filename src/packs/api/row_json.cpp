// May ereport; owns nothing. Rows as JSON: what row_to_json answers, but what the columns of a row need is looked up
// once in a session and not for each row.
#include "pg/bridge.hpp"
#include "pg/texts.hpp"

#include <algorithm>

extern "C" {
#include "utils/datetime.h"
}

namespace pawl {

namespace {

enum class Kind : char { other, boolean, integer2, integer4, integer8, string, uuid, time, json, jsonb };

// How the values of a type are written.
struct Form {
    Oid type;  // without its domains; of the elements, if it is an array
    Kind kind;
    bool is_array;
    int16 length;  // of an element, as the two below
    bool by_value;
    char align;
};

struct Column {
    Form form;
    const char* key;  // with its quotes and colon, and the comma before it
    int key_length;
};

struct RowForm {
    int32 typmod;
    bool is_known;  // all columns have types that are written here
    TupleDesc descriptor;
    Column* columns;
};

Kind kind_of(Oid type) {
    switch (type) {
        case BOOLOID:
            return Kind::boolean;
        case INT2OID:
            return Kind::integer2;
        case INT4OID:
            return Kind::integer4;
        case INT8OID:
            return Kind::integer8;
        case TEXTOID:
        case VARCHAROID:
            return Kind::string;
        case UUIDOID:
            return Kind::uuid;
        case DATEOID:
        case TIMESTAMPOID:
        case TIMESTAMPTZOID:
            return Kind::time;
        case JSONOID:
            return Kind::json;
        case JSONBOID:
            return Kind::jsonb;
        default:
            return Kind::other;
    }
}

Form form_of(Oid type) {
    type = getBaseType(type);
    const Oid element = get_element_type(type);
    const bool is_array = OidIsValid(element);
    if (is_array) type = getBaseType(element);
    Form form = {type, kind_of(type), is_array, 0, false, 0};
    get_typlenbyvalalign(type, &form.length, &form.by_value, &form.align);
    return form;
}

RowForm* find_form(int32 typmod) {
    static HTAB* forms = nullptr;
    if (forms == nullptr) {
        HASHCTL control = {};
        control.keysize = sizeof(int32);
        control.entrysize = sizeof(RowForm);
        forms = hash_create("pawl rows as JSON", 16, &control, HASH_ELEM | HASH_BLOBS);
    }
    bool found;
    auto* form = static_cast<RowForm*>(hash_search(forms, &typmod, HASH_ENTER, &found));
    if (!found) form->descriptor = nullptr;
    return form;
}

// Of an anonymous row type, whose number means the same as long as the session lasts.
const RowForm& form_of_row(int32 typmod) {
    RowForm* form = find_form(typmod);
    if (form->descriptor != nullptr) return *form;
    MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
    TupleDesc descriptor = lookup_rowtype_tupdesc_copy(RECORDOID, typmod);
    form->columns = static_cast<Column*>(palloc0(sizeof(Column) * Max(descriptor->natts, 1)));
    form->is_known = true;
    for (int i = 0; i < descriptor->natts; ++i) {
        StringInfoData key;
        initStringInfo(&key);
        appendStringInfoChar(&key, i == 0 ? '{' : ',');
        escape_json(&key, NameStr(TupleDescAttr(descriptor, i)->attname));
        appendStringInfoChar(&key, ':');
        form->columns[i] = {form_of(TupleDescAttr(descriptor, i)->atttypid), key.data, key.len};
        form->is_known &= form->columns[i].form.kind != Kind::other;
    }
    form->descriptor = descriptor;
    MemoryContextSwitchTo(caller);
    return *form;
}

void write_integer(StringInfo out, int64 value) {
    char digits[MAXINT8LEN + 1];
    appendBinaryStringInfo(out, digits, pg_lltoa(value, digits));
}

void write_string(StringInfo out, std::string_view value) {
    const bool is_plain = std::all_of(value.begin(), value.end(), [](char c) {
        return static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\';
    });
    if (!is_plain) return escape_json(out, pnstrdup(value.data(), value.size()));
    appendStringInfoChar(out, '"');
    appendBinaryStringInfo(out, value.data(), static_cast<int>(value.size()));
    appendStringInfoChar(out, '"');
}

void write_uuid(StringInfo out, const pg_uuid_t& value) {
    static constexpr char digits[] = "0123456789abcdef";
    char text[2 * UUID_LEN + 6];
    char* at = text;
    *at++ = '"';
    for (int i = 0; i < UUID_LEN; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
        *at++ = digits[value.data[i] >> 4];
        *at++ = digits[value.data[i] & 15];
    }
    *at++ = '"';
    appendBinaryStringInfo(out, text, static_cast<int>(at - text));
}

void write_scalar(StringInfo out, const Form& form, Datum value) {
    switch (form.kind) {
        case Kind::boolean:
            return appendStringInfoString(out, DatumGetBool(value) ? "true" : "false");
        case Kind::integer2:
            return write_integer(out, DatumGetInt16(value));
        case Kind::integer4:
            return write_integer(out, DatumGetInt32(value));
        case Kind::integer8:
            return write_integer(out, DatumGetInt64(value));
        case Kind::string:
            return write_string(out, pg::view(DatumGetTextPP(value)));
        case Kind::uuid:
            return write_uuid(out, *DatumGetUUIDP(value));
        case Kind::time: {
            char text[MAXDATELEN + 1];
            return write_string(out, JsonEncodeDateTime(text, value, form.type, nullptr));
        }
        case Kind::json: {
            const std::string_view written = pg::view(DatumGetTextPP(value));
            return appendBinaryStringInfo(out, written.data(), static_cast<int>(written.size()));
        }
        case Kind::jsonb: {
            Jsonb* json = DatumGetJsonbP(value);
            JsonbToCString(out, &json->root, VARSIZE(json));
            return;
        }
        case Kind::other:
            break;
    }
    pg_unreachable();
}

struct Elements {
    const Form* form;
    const int* lengths;  // of the dimensions
    int dimensions;
    const Datum* values;
    const bool* nulls;
};

// One dimension, and what is in it. Returns how many elements it has written.
int write_elements(StringInfo out, const Elements& elements, int dimension, int at) {
    const int first = at;
    appendStringInfoChar(out, '[');
    for (int i = 0; i < elements.lengths[dimension]; ++i) {
        if (i > 0) appendStringInfoChar(out, ',');
        if (dimension + 1 < elements.dimensions) {
            at += write_elements(out, elements, dimension + 1, at);
            continue;
        }
        if (elements.nulls[at])
            appendStringInfoString(out, "null");
        else
            write_scalar(out, *elements.form, elements.values[at]);
        ++at;
    }
    appendStringInfoChar(out, ']');
    return at - first;
}

void write_array(StringInfo out, const Form& form, ArrayType* array) {
    if (ARR_NDIM(array) == 0) return appendStringInfoString(out, "[]");
    Datum* values;
    bool* nulls;
    int n;
    deconstruct_array(array, ARR_ELEMTYPE(array), form.length, form.by_value, form.align, &values, &nulls, &n);
    write_elements(out, {&form, ARR_DIMS(array), ARR_NDIM(array), values, nulls}, 0, 0);
}

Datum row_as_json(HeapTupleHeader record) {
    const bool is_anonymous = HeapTupleHeaderGetTypeId(record) == RECORDOID;
    const RowForm* form = is_anonymous ? &form_of_row(HeapTupleHeaderGetTypMod(record)) : nullptr;
    if (form == nullptr || !form->is_known) return DirectFunctionCall1(row_to_json, PointerGetDatum(record));
    const int n = form->descriptor->natts;
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(n, 1)));
    auto* nulls = static_cast<bool*>(palloc(Max(n, 1)));
    HeapTupleData tuple = {};
    tuple.t_len = HeapTupleHeaderGetDatumLength(record);
    tuple.t_data = record;
    heap_deform_tuple(&tuple, form->descriptor, values, nulls);

    StringInfoData out;
    initStringInfo(&out);
    out.len = VARHDRSZ;
    if (n == 0) appendStringInfoChar(&out, '{');
    for (int i = 0; i < n; ++i) {
        const Column& column = form->columns[i];
        appendBinaryStringInfo(&out, column.key, column.key_length);
        if (nulls[i])
            appendStringInfoString(&out, "null");
        else if (column.form.is_array)
            write_array(&out, column.form, DatumGetArrayTypeP(values[i]));
        else
            write_scalar(&out, column.form, values[i]);
    }
    appendStringInfoChar(&out, '}');
    SET_VARSIZE(out.data, out.len);
    return PointerGetDatum(out.data);
}

}  // namespace

// pawl_api._row_json(row)
PAWL_FUNCTION(pawl_api_row_json) {
    return pg::call([&] { return row_as_json(PG_GETARG_HEAPTUPLEHEADER(0)); });
}

}  // namespace pawl
