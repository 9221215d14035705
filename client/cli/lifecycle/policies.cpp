// May throw. See policies.hpp.
#include "lifecycle/policies.hpp"

#include <algorithm>

#include "array_text.hpp"
#include "lifecycle/sql_text.hpp"

namespace pawl::cli {
namespace {

const Json none = nullptr;
const Json empty = Json::array();

std::vector<Policy> make_policies() {
    return {
        {"", "key", Shape::names, "enforce", "key", none},
        {"", "on_delete", Shape::text, "enforce", "on_delete", "allow", {"allow", "terminal", "deny"}},
        {"", "always", Shape::flag, "enforce", "always", false},
        {"", "errors", Shape::text, "enforce", "errors", "pawl", {"pawl", "check_violation"}},
        {"", "validate", Shape::flag, "enforce", "validate", true},
        {"log", "most_recent", Shape::text, "enable_log", "most_recent", "derived", {"derived", "stored"}},
        {"log", "hash_chain", Shape::flag, "enable_log", "hash_chain", false},
        {"log", "log_name", Shape::name, "enable_log", "log_name", none},
        {"log", "log_partition", Shape::partition, "enable_log", "log_partition", none},
        {"queue", "owner", Shape::name, "enable_queue", "owner", none},
        {"queue", "lease", Shape::name, "enable_queue", "lease", none},
        {"queue", "token", Shape::name, "enable_queue", "token", none},
        {"queue", "attempts", Shape::name, "enable_queue", "attempts", none},
        {"queue", "max_attempts", Shape::name, "enable_queue", "max_attempts", none},
        {"queue", "queue", Shape::name, "enable_queue", "queue", none},
        {"timers", "due", Shape::name, "enable_timers", "due", none},
        {"claiming", "claim", Shape::events, "set_claiming", "claim", empty},
        {"claiming", "claim_order", Shape::order, "set_claiming", "claim_order", none},
        {"claiming", "lease_time", Shape::interval, "set_claiming", "lease_time", "00:01:00"},
        {"claiming", "on_expiry", Shape::text, "set_claiming", "on_expiry", none},
        {"claiming", "on_expiry_else", Shape::text, "set_claiming", "on_expiry_else", none},
        {"claiming", "retry", Shape::events, "set_claiming", "retry", empty},
        {"claiming", "backoff", Shape::object, "set_claiming", "backoff", none},
        {"claiming", "backoff_column", Shape::name, "set_claiming", "backoff_column", none},
        {"claiming", "operator_events", Shape::events, "set_claiming", "operator_events", empty},
        {"events", "events", Shape::flag, "enable_events", "events", false},
        {"events", "wake", Shape::flag, "enable_events", "wake", false},
        {"trace", "traceparent", Shape::name, "set_trace", "traceparent", none},
        {"trace", "tracestate", Shape::name, "set_trace", "tracestate", none},
        {"", "lock_after", Shape::relation, "set_lock_order", "after", none},
        {"", "log_token", Shape::flag, "set_log_token", "token", false},
        {"", "result_columns", Shape::names, "set_result_columns", "columns", empty},
        {"", "placing", Shape::flag, "set_placing", "allowed", false},
        {"audit", "on_states", Shape::results, "audit", "on_states", none},
        {"audit", "into_table", Shape::name, "audit", "into_table", none},
        {"audit", "parent", Shape::names, "audit", "parent", empty},
        {"log", "keep", Shape::interval, "keep_log", "keep", none},
        {"log", "only_terminal", Shape::flag, "keep_log", "only_terminal", true},
        {"log", "period", Shape::text, "keep_log", "period", none, {"hour", "day", "week", "month", "quarter", "year"}},
        {"log", "ahead", Shape::count, "keep_log", "ahead", 3},
        {"audit", "keep", Shape::interval, "keep_audit", "keep", none},
    };
}

std::string array_text(const Json& list) {
    std::vector<std::string> items;
    for (const Json& item : list) items.push_back(item.get<std::string>());
    return sql::text_array(items);
}

}  // namespace

const std::vector<Policy>& policies() {
    static const std::vector<Policy> all = make_policies();
    return all;
}

const std::vector<Call>& calls() {
    static const std::vector<Call> all = {
        {"enforce", false},      {"enable_log", false},        {"enable_queue", false}, {"enable_timers", false},
        {"set_claiming", false}, {"enable_events", false},     {"set_trace", true},     {"set_lock_order", true},
        {"set_log_token", true}, {"set_result_columns", true}, {"set_placing", true},   {"audit", true},
        {"keep_log", true},      {"keep_audit", true}};
    return all;
}

const Policy* find_policy(std::string_view section, std::string_view key) {
    const auto found = std::find_if(policies().begin(), policies().end(), [&](const Policy& policy) {
        return policy.section == section && policy.key == key;
    });
    return found == policies().end() ? nullptr : &*found;
}

bool is_section(std::string_view name) {
    return std::any_of(policies().begin(), policies().end(),
                       [&](const Policy& policy) { return !name.empty() && policy.section == name; });
}

Settings initial_settings() {
    Settings settings{{"log", false}, {"audit", false}};
    for (const Policy& policy : policies()) settings[policy.id()] = policy.initial;
    return settings;
}

bool same_value(const Json& one, const Json& other) {
    return nlohmann::json(one) == nlohmann::json(other);
}

bool is_none(const Policy& policy, const Json& value) {
    return value.is_null() || value == policy.initial;
}

std::string sql_value(const Policy& policy, const Json& value) {
    const bool whole = std::any_of(calls().begin(), calls().end(),
                                   [&](const Call& call) { return call.name == policy.call && call.whole; });
    switch (policy.shape) {
        case Shape::flag:
            return value.get<bool>() ? "true" : "false";
        case Shape::count:
            return value.dump();
        case Shape::names:
        case Shape::events:
            return literal(value.is_null() ? "{}" : array_text(value));
        case Shape::object:
        case Shape::results:
            return literal(value.is_null() ? "{}" : value.dump());
        default:
            return value.is_null() ? (whole ? "NULL" : "''") : literal(value.get<std::string>());
    }
}

std::string shown_value(const Json& value) {
    if (value.is_null()) return "none";
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return value.dump();
    std::string text;
    for (const Json& item : value) text += (text.empty() ? "" : ", ") + item.get<std::string>();
    return text.empty() ? "none" : text;
}

}  // namespace pawl::cli
