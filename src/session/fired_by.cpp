// May throw and may ereport. Whether a trigger function was fired by a table and at a moment that it is made for, and
// whether a dump is being loaded. Neither depends on a setting that the caller can change.
#include "pg/arguments.hpp"
#include "pg/bridge.hpp"
#include "pg/texts.hpp"
#include "session/context.hpp"

extern "C" {
#include "catalog/partition.h"
}

namespace pawl {

namespace {

std::string_view next_word(std::string_view& text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    return word;
}

// One moment is written as CREATE TRIGGER writes it, without FOR EACH: AFTER INSERT OR UPDATE STATEMENT.
bool is_moment(std::string_view moment, std::string_view when, std::string_view operation, std::string_view level) {
    if (next_word(moment) != when) return false;
    bool operation_is_named = false;
    std::string_view last;
    for (std::string_view word = next_word(moment); !word.empty(); word = next_word(moment)) {
        operation_is_named |= word == operation;
        last = word;
    }
    return operation_is_named && last == level;
}

bool is_one_of(std::string_view moments, std::string_view when, std::string_view operation, std::string_view level) {
    while (!moments.empty()) {
        const std::size_t comma = moments.find(',');
        if (is_moment(moments.substr(0, comma), when, operation, level)) return true;
        moments = comma == std::string_view::npos ? std::string_view() : moments.substr(comma + 1);
    }
    return false;
}

bool is_or_belongs_to(Oid relation, const Oid* tables, int n) {
    for (int i = 0; i < n; ++i)
        if (tables[i] == relation) return true;
    if (!get_rel_relispartition(relation)) return false;
    const List* ancestors = get_partition_ancestors(relation);
    for (int i = 0; i < n; ++i)
        if (list_member_oid(ancestors, tables[i])) return true;
    return false;
}

}  // namespace

// pawl.fired_by(moments, TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, VARIADIC tables): true, or 39P01.
PAWL_FUNCTION(pawl_fired_by) {
    for (int i = 0; i < 6; ++i)
        if (PG_ARGISNULL(i))
            throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                              "this function is called by trigger functions");
    const Oid relation = PG_GETARG_OID(1);
    struct Found {
        bool table;
        const char* name;
        const char* tables;
    };
    const Found found = pg::call([&] {
        ArrayType* array = PG_GETARG_ARRAYTYPE_P(5);
        const bool plain = ARR_NDIM(array) == 1 && !ARR_HASNULL(array);
        const auto* tables = reinterpret_cast<const Oid*>(ARR_DATA_PTR(array));
        const int n = plain ? ARR_DIMS(array)[0] : 0;
        Found answer = {is_or_belongs_to(relation, tables, n), nullptr, nullptr};
        if (!answer.table) {
            answer.name = get_rel_name(relation);
            StringInfoData list;
            initStringInfo(&list);
            for (int i = 0; i < n; ++i) {
                const char* name = get_rel_name(tables[i]);
                if (name == nullptr) continue;
                appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "",
                                 quote_qualified_identifier(get_namespace_name(get_rel_namespace(tables[i])), name));
            }
            answer.tables = list.data;
        }
        return answer;
    });
    if (!found.table)
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "this trigger function cannot be used on table \"" +
                              std::string(found.name == nullptr ? "" : found.name) + "\"",
                          "It is fired by " + std::string(found.tables) + " only.", "Drop the trigger.");
    const std::string_view moments = pg::view(pg::text_argument(fcinfo, 0));
    if (!is_one_of(moments, pg::view(pg::text_argument(fcinfo, 2)), pg::view(pg::text_argument(fcinfo, 3)),
                   pg::view(pg::text_argument(fcinfo, 4))))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "this trigger function must be fired " + std::string(moments), {}, "Drop the trigger.");
    return BoolGetDatum(true);
}

// Whether a dump is being loaded. The library defines the setting, so that only a superuser or a role with SET on it
// can have set it.
PAWL_FUNCTION(pawl_restoring) {
    return BoolGetDatum(is_restoring());
}

}  // namespace pawl
