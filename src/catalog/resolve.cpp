// May throw and may ereport. See resolve.hpp.
#include "catalog/resolve.hpp"

#include <algorithm>
#include <cctype>

#include "catalog/machine_cache.hpp"
#include "pg/arguments.hpp"

namespace pawl {

namespace {

// name or schema.name; any other text in a label is a note.
bool looks_like_a_name(const std::string& name) {
    bool start = true;
    int dots = 0;
    for (unsigned char c : name) {
        if (c == '.') {
            if (start || ++dots > 1) return false;
            start = true;
        } else if (start) {
            if (!(std::isalpha(c) || c == '_' || c >= 0x80)) return false;
            start = false;
        } else if (!(std::isalnum(c) || c == '_' || c == '$' || c >= 0x80)) {
            return false;
        }
    }
    return !start;
}

List* parse_name(const char* name) {
#if PG_VERSION_NUM >= 160000
    return stringToQualifiedNameList(name, nullptr);
#else
    return stringToQualifiedNameList(name);
#endif
}

// Argument types of guards and effects: the row type of the table (written "row"), or a type that accepts any row.
constexpr const char* argument_names[] = {"row", "anyelement", "record"};

Oid argument_type(const char* name, Oid row_type) {
    return name == argument_names[0] ? row_type : name == argument_names[1] ? ANYELEMENTOID : RECORDOID;
}

Oid look_up(List* name, Oid type) {
    Oid arguments[2] = {type, type};
    return LookupFuncName(name, 2, arguments, true);
}

bool contains(const Signatures& signatures, const char* signature) {
    for (int i = 0; i < signatures.n; ++i)
        if (strcmp(signatures.items[i], signature) == 0) return true;
    return false;
}

const char* qualify(const char* name) {
    FuncCandidateList candidates = FuncnameGetCandidates(parse_name(name), 2, NIL, false, false, false, true);
    if (candidates == nullptr) return nullptr;
    Oid function = candidates->oid;
    return quote_qualified_identifier(get_namespace_name(get_func_namespace(function)), get_func_name(function));
}

Signatures signatures_argument(FunctionCallInfo fcinfo, int n) {
    Signatures signatures = {};
    if (PG_NARGS() <= n || PG_ARGISNULL(n)) return signatures;
    Datum* elements;
    bool* nulls;
    deconstruct_array(PG_GETARG_ARRAYTYPE_P(n), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &signatures.n);
    signatures.known = true;
    signatures.items = static_cast<char**>(palloc(sizeof(char*) * Max(signatures.n, 1)));
    for (int i = 0; i < signatures.n; ++i)
        signatures.items[i] = nulls[i] ? pstrdup("") : TextDatumGetCString(elements[i]);
    return signatures;
}

}  // namespace

const char* resolve_function_name(const std::string& name) {
    if (!looks_like_a_name(name)) return nullptr;
    return pg::call([&] { return qualify(name.c_str()); });
}

const char* row_function_signature(const char* qualified_name, Oid row_type, const Signatures& stored) {
    List* name = parse_name(qualified_name);
    const char* found = nullptr;
    for (const char* type : argument_names) {
        if (!OidIsValid(look_up(name, argument_type(type, row_type)))) continue;
        const char* signature = psprintf("%s(%s, %s)", qualified_name, type, type);
        if (contains(stored, signature)) return signature;
        if (found == nullptr) found = signature;
    }
    return found;
}

Oid find_row_function(const char* qualified_name, Oid row_type, bool guard, const Signatures& signatures) {
    List* name = parse_name(qualified_name);
    for (const char* type : argument_names) {
        if (signatures.known && !contains(signatures, psprintf("%s(%s, %s)", qualified_name, type, type))) continue;
        const Oid function = look_up(name, argument_type(type, row_type));
        if (!OidIsValid(function)) continue;
        // Aggregates, window functions and set-returning functions cannot be called for one row.
        if (get_func_prokind(function) != PROKIND_FUNCTION || get_func_retset(function)) return InvalidOid;
        return guard && get_func_rettype(function) != BOOLOID ? InvalidOid : function;
    }
    return InvalidOid;
}

// Signatures of the functions of a machine's guards and effects for this table. A signature that is stored and still
// exists is kept.
PAWL_FUNCTION(pawl_resolve_calls) {
    pg::require(fcinfo, 0, "relation");
    pg::require(fcinfo, 1, "machine");
    pg::require(fcinfo, 2, "version");
    const Signatures stored = pg::call([&] { return signatures_argument(fcinfo, 3); });
    const std::string name(pg::view(pg::text_argument(fcinfo, 1)));
    const core::Machine& machine = *find_machine(name.c_str(), PG_GETARG_INT32(2))->machine;
    const Oid row_type = get_rel_type_id(PG_GETARG_OID(0));
    std::vector<std::string> found;
    auto look_up = [&](const std::vector<std::string>& names) {
        for (const std::string& function : names) {
            const char* signature =
                pg::call([&] { return row_function_signature(function.c_str(), row_type, stored); });
            if (signature != nullptr && std::find(found.begin(), found.end(), signature) == found.end())
                found.emplace_back(signature);
        }
    };
    for (const core::Transition& transition : machine.transitions()) {
        look_up(transition.guards);
        look_up(transition.effects);
    }
    return pg::call([&] { return pg::make_text_array(found); });
}

// Guards and effects of a machine without a function for this table's row type, as `guard name` and `effect name`.
PAWL_FUNCTION(pawl_guard_functions) {
    pg::require(fcinfo, 0, "relation");
    pg::require(fcinfo, 1, "machine");
    pg::require(fcinfo, 2, "version");
    const std::string name(pg::view(pg::text_argument(fcinfo, 1)));
    const core::Machine& machine = *find_machine(name.c_str(), PG_GETARG_INT32(2))->machine;
    const Oid row_type = get_rel_type_id(PG_GETARG_OID(0));
    const Signatures signatures = pg::call([&] { return signatures_argument(fcinfo, 3); });
    std::vector<std::string> missing;
    auto look_up = [&](const std::vector<std::string>& names, bool guard) {
        for (const std::string& function : names) {
            if (OidIsValid(pg::call([&] { return find_row_function(function.c_str(), row_type, guard, signatures); })))
                continue;
            const std::string line = (guard ? "guard " : "effect ") + function;
            if (std::find(missing.begin(), missing.end(), line) == missing.end()) missing.push_back(line);
        }
    };
    for (const core::Transition& transition : machine.transitions()) {
        look_up(transition.guards, true);
        look_up(transition.effects, false);
    }
    ReturnSetInfo* result = pg::call([&] { return pg::materialize(fcinfo, MAT_SRF_USE_EXPECTED_DESC); });
    for (const std::string& line : missing)
        pg::call([&] {
            Datum value = PointerGetDatum(make_text(line));
            bool null = false;
            tuplestore_putvalues(result->setResult, result->setDesc, &value, &null);
        });
    return static_cast<Datum>(0);
}

}  // namespace pawl
