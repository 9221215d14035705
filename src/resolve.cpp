// May throw and may ereport. See resolve.hpp.
#include "resolve.hpp"

#include <algorithm>
#include <cctype>

#include "machine_cache.hpp"
#include "pg/arguments.hpp"

namespace pawl {

namespace {

// name or schema.name; anything else in a label is a remark.
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

const char* qualify(const char* name) {
    FuncCandidateList candidates = FuncnameGetCandidates(parse_name(name), 2, NIL, false, false, false, true);
    if (candidates == nullptr) return nullptr;
    Oid function = candidates->oid;
    return quote_qualified_identifier(get_namespace_name(get_func_namespace(function)), get_func_name(function));
}

}  // namespace

const char* resolve_function_name(const std::string& name) {
    if (!looks_like_a_name(name)) return nullptr;
    return pg::call([&] { return qualify(name.c_str()); });
}

Oid find_row_function(const char* qualified_name, Oid row_type, bool guard) {
    List* name = parse_name(qualified_name);
    const Oid alternatives[] = {row_type, ANYELEMENTOID, RECORDOID};
    for (Oid type : alternatives) {
        Oid arguments[2] = {type, type};
        Oid function = LookupFuncName(name, 2, arguments, true);
        if (!OidIsValid(function)) continue;
        // Aggregates, window functions and functions that return sets have no answer for one row.
        if (get_func_prokind(function) != PROKIND_FUNCTION || get_func_retset(function)) return InvalidOid;
        return guard && get_func_rettype(function) != BOOLOID ? InvalidOid : function;
    }
    return InvalidOid;
}

// Guards and effects of a machine that no function of this table's row type serves, as `guard name` and `effect name`.
PAWL_FUNCTION(pawl_guard_functions) {
    pg::require(fcinfo, 0, "relation");
    pg::require(fcinfo, 1, "machine");
    pg::require(fcinfo, 2, "version");
    const std::string name(pg::view(pg::text_argument(fcinfo, 1)));
    const core::Machine& machine = *find_machine(name.c_str(), PG_GETARG_INT32(2))->machine;
    const Oid row_type = get_rel_type_id(PG_GETARG_OID(0));
    std::vector<std::string> missing;
    auto look_up = [&](const std::vector<std::string>& names, bool guard) {
        for (const std::string& function : names) {
            if (OidIsValid(pg::call([&] { return find_row_function(function.c_str(), row_type, guard); }))) continue;
            const std::string line = (guard ? "guard " : "effect ") + function;
            if (std::find(missing.begin(), missing.end(), line) == missing.end()) missing.push_back(line);
        }
    };
    for (const core::Arrow& arrow : machine.arrows()) {
        look_up(arrow.guards, true);
        look_up(arrow.effects, false);
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
