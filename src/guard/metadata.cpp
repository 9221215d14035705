// May ereport; owns nothing. See metadata.hpp.
#include "guard/metadata.hpp"

namespace pawl {

namespace {

const JsonbValue* member_of(JsonbContainer* object, const char* key, JsonbValue* found) {
    return JsonContainerIsObject(object)
               ? getKeyJsonValueFromContainer(object, key, static_cast<int>(strlen(key)), found)
               : nullptr;
}

void push_fact(JsonbParseState** state, const char* key, const JsonbValue* fact) {
    if (fact == nullptr) return;
    JsonbValue name = {};
    name.type = jbvString;
    name.val.string.val = const_cast<char*>(key);
    name.val.string.len = static_cast<int>(strlen(key));
    pushJsonbValue(state, WJB_KEY, &name);
    pushJsonbValue(state, WJB_VALUE, const_cast<JsonbValue*>(fact));
}

// "success" and "execution_time_ms" of a result; null if it has neither.
Jsonb* facts_of(Jsonb* result) {
    JsonbValue success, time, nested;
    const JsonbValue* told = member_of(&result->root, "success", &success);
    const JsonbValue* took = nullptr;
    if (member_of(&result->root, "metadata", &nested) != nullptr && nested.type == jbvBinary)
        took = member_of(nested.val.binary.data, "execution_time_ms", &time);
    if (took == nullptr || took->type == jbvNull) took = member_of(&result->root, "execution_time_ms", &time);
    if (told == nullptr && took == nullptr) return nullptr;
    JsonbParseState* state = nullptr;
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
    push_fact(&state, "success", told);
    push_fact(&state, "execution_time_ms", took);
    return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr));
}

}  // namespace

Jsonb* lost_ownership(const Ownership& ownership) {
    StringInfoData json;
    initStringInfo(&json);
    appendStringInfoString(&json, "{\"lost_owner\": ");
    escape_json(&json, text_to_cstring(owner_text(*ownership.managed, ownership.owner)));
    if (ownership.has_lease) appendStringInfo(&json, ", \"lease\": \"%s\"", timestamptz_to_str(ownership.lease));
    if (ownership.managed->token.kept()) appendStringInfo(&json, ", \"token\": " INT64_FORMAT, ownership.token);
    appendStringInfoChar(&json, '}');
    return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
}

Jsonb* facts_of_result(const Binding& binding, const Statement& statement) {
    for (int i = 0; i < binding.nresults; ++i) {
        const AttrNumber column = binding.results[i];
        bool null = true;
        Datum value = 0;
        if (bms_is_member(column - FirstLowInvalidHeapAttributeNumber, statement.updated))
            value = slot_getattr(statement.after, column, &null);
        if (null) continue;
        if (Jsonb* facts = facts_of(DatumGetJsonbP(value))) return facts;
    }
    return nullptr;
}

}  // namespace pawl
