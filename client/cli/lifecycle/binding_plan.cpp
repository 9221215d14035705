// May throw. See binding_plan.hpp: tables, and which machine each has.
#include "lifecycle/binding_plan.hpp"

#include <algorithm>

#include "core/diagram.hpp"
#include "lifecycle/sql_text.hpp"

namespace pawl::cli {
namespace {

std::string rows_text(std::int64_t n) {
    return std::to_string(n) + (n == 1 ? " row" : " rows");
}

std::string counted(const std::vector<StateCount>& counts) {
    std::string text;
    for (const StateCount& each : counts)
        text += (text.empty() ? "" : ", ") + (each.state ? "\"" + *each.state + "\" " : std::string("null ")) +
                std::to_string(each.rows);
    return text;
}

// False if nothing can be planned for the table.
bool check_table(PlanContext& context, const TableEntry& entry) {
    const auto place = located(context.lifecycle.file, entry.where);
    const auto table = context.present.tables.find({entry.relation, entry.column});
    const auto fail = [&](const std::string& problem) {
        context.plan.problems.push_back(place + problem);
        return false;
    };
    if (table == context.present.tables.end()) return fail("table " + entry.relation + " does not exist");
    const PresentTable& found = table->second;
    if (found.kind != "r" && found.kind != "p") return fail(found.name + " is not a table");
    if (found.column_type.empty()) return fail("table " + found.name + " has no column \"" + entry.column + "\"");
    if (!found.mine) fail("table " + found.name + " belongs to role \"" + found.owner + "\"");
    return true;
}

// The wanted policies, where those that the file does not name and that are kept as they are have their present value.
Settings wanted_settings(const TableEntry& entry, const PresentTable& table, const Settings& now) {
    Settings wanted = entry.settings;
    if (wanted["key"].is_null()) wanted["key"] = table.default_key;
    if (wanted["log"] == true && now.at("log") == true)
        for (const char* key : {"log.log_name", "log.log_partition"})
            if (wanted[key].is_null()) wanted[key] = now.at(key);
    if (wanted["audit"] == true && now.at("audit") == true && wanted["audit.into_table"].is_null())
        wanted["audit.into_table"] = now.at("audit.into_table");
    return wanted;
}

void note_not_validated(PlanContext& context, const std::string& table, const std::string& column,
                        const std::string& when) {
    context.plan.notes.push_back("the rows that " + table + " had before " + when +
                                 " validated: call pawl.validate_all(" + literal(table) + ", " + literal(column) + ")");
}

void plan_new(PlanContext& context, const TableEntry& entry, const PresentTable& table) {
    Settings now = initial_settings();
    now["key"] = table.default_key;
    const Settings wanted = wanted_settings(entry, table, now);
    const std::vector<std::string> states = atomic_states(context.lifecycle.compiled);
    const bool validates = wanted.at("validate") == true;
    if (!validates) {
        note_not_validated(context, table.name, entry.column, "will not be");
    } else if (table.readable) {
        const auto strange = count_other_states(context.transaction, table.name, entry.column, states);
        if (!strange.empty())
            context.plan.problems.push_back(located(context.lifecycle.file, entry.where) + "table " + table.name +
                                            " has rows in no state of machine " + context.lifecycle.machine + ": " +
                                            counted(strange) + "; update them first");
    } else {
        context.plan.notes.push_back("rows of " + table.name + " cannot be counted: no SELECT");
    }
    Step step{.what = "enforce",
              .title = "enforce " + context.lifecycle.machine + " on " + table.name + "." + entry.column,
              .details = {},
              .sql = "select pawl.enforce(" + literal(table.name) + ", " + literal(entry.column) + ", " +
                     literal(context.lifecycle.machine)};
    for (const Policy& policy : policies()) {
        if (policy.call != "enforce" || same_value(wanted.at(policy.id()), now.at(policy.id()))) continue;
        step.sql += ", " + std::string(policy.argument) + " => " + sql_value(policy, wanted.at(policy.id()));
        step.details.push_back(policy.id() + ": " + shown_value(wanted.at(policy.id())));
        now[policy.id()] = wanted.at(policy.id());
    }
    step.sql += ")";
    step.locks.push_back({table.name, "SHARE ROW EXCLUSIVE"});
    step.reads_table = validates;
    if (validates && table.estimated_rows > 0)
        step.details.push_back("checks about " + rows_text(table.estimated_rows));
    context.plan.steps.push_back(std::move(step));
    plan_setting(context, entry, table.name, wanted, now);
}

// The pairs of remap that say something of this binding.
Json remap_of(const Lifecycle& lifecycle, const core::Machine& before) {
    Json pairs = Json::object();
    for (const Remap& each : lifecycle.remap)
        if (before.find(each.from) != core::no_state) pairs[each.from] = each.to;
    return pairs;
}

// Rows in states that go, and in none: what becomes of them, or what is needed.
void check_rows(PlanContext& context, const PresentTable& table, const PresentBinding& binding,
                const core::Machine& before, const Json& remap, Step& step) {
    const auto strange =
        count_other_states(context.transaction, table.name, binding.column, atomic_states(context.lifecycle.compiled));
    std::string missing, pairs;
    const auto guesses = core::likely_renames(before, context.lifecycle.compiled);
    for (const StateCount& each : strange) {
        if (each.state && remap.contains(*each.state)) {
            step.details.push_back(rows_text(each.rows) + " in " + *each.state + " become " +
                                   remap.at(*each.state).get<std::string>());
            continue;
        }
        missing += (missing.empty() ? "" : ", ") + counted({each});
        if (!each.state || before.find(*each.state) == core::no_state) continue;
        const auto guess =
            std::find_if(guesses.begin(), guesses.end(), [&](const auto& pair) { return pair.first == *each.state; });
        pairs += (pairs.empty() ? "" : ", ") + *each.state + ": " + (guess == guesses.end() ? "..." : guess->second);
    }
    if (missing.empty()) return;
    context.plan.problems.push_back(context.lifecycle.file + ": table " + table.name +
                                    " has rows in states that go: " + missing +
                                    (pairs.empty() ? "; update them first"
                                                   : "; add to the front matter, under pawl:\n"
                                                     "      remap: {" +
                                                         pairs + "}"));
}

std::string upgrade_sql(const PresentBinding& binding, const Json& remap, int to_version) {
    const std::string target = literal(binding.table) + ", " + literal(binding.column);
    if (remap.empty()) return "select pawl.upgrade(" + target + ")";
    // with a remap pawl.upgrade rejects a binding that has the newest version already
    return "do " + dollar_quoted(" begin\n    if (select b.version from pawl.binding b where b.relation = " +
                                     literal(binding.table) +
                                     "::regclass\n            and b.state_column = " + literal(binding.column) +
                                     ") < " + std::to_string(to_version) + " then\n        perform pawl.upgrade(" +
                                     target + ", remap => " + literal(remap.dump()) + ");\n    end if;\nend ",
                                 "upgrade");
}

void plan_upgrade(PlanContext& context, const PresentTable& table, const PresentBinding& binding, int to_version) {
    const core::Machine before = core::compile(core::read_mermaid(binding.diagram));
    const Json remap = remap_of(context.lifecycle, before);
    Step step{.what = "upgrade",
              .title = "upgrade " + table.name + "." + binding.column + " from version " +
                       std::to_string(binding.version) + " to " + std::to_string(to_version),
              .details = {},
              .sql = upgrade_sql(binding, remap, to_version)};
    const auto after_states = atomic_states(context.lifecycle.compiled);
    const auto old_states = atomic_states(before);
    const bool states_go = std::any_of(old_states.begin(), old_states.end(), [&](const std::string& state) {
        return std::find(after_states.begin(), after_states.end(), state) == after_states.end();
    });
    // before it is validated, a table can have rows in states of no version
    const bool checks = states_go || binding.settings.at("validate") == false;
    if (checks && table.readable)
        check_rows(context, table, binding, before, remap, step);
    else if (checks)
        context.plan.notes.push_back("rows of " + table.name + " cannot be counted: no SELECT");
    step.locks.push_back({table.name, "SHARE ROW EXCLUSIVE"});
    step.reads_table = true;
    step.removes = states_go;
    context.plan.steps.push_back(std::move(step));
}

void plan_present(PlanContext& context, const TableEntry& entry, const PresentTable& table,
                  const PresentBinding& binding) {
    const auto newest = context.present.machines.find(binding.machine);
    const int to_version = newest->second.version + (context.new_version ? 1 : 0);
    const bool upgrading = binding.version != to_version;
    const std::size_t steps = context.plan.steps.size();
    Settings now = binding.settings;
    Settings wanted = wanted_settings(entry, table, now);
    wanted["validate"] = now.at("validate");  // how a binding begins; pawl.validate ends it
    if (now.at("validate") == false) note_not_validated(context, table.name, entry.column, "are not yet");
    plan_weakening(context, entry, table.name, upgrading, wanted, now);
    if (upgrading) plan_upgrade(context, table, binding, to_version);
    plan_setting(context, entry, table.name, wanted, now);
    if (context.plan.steps.size() == steps) context.plan.in_place.push_back(table.name + "." + entry.column);
}

}  // namespace

std::string call_of(const std::string& function, const std::string& table, const std::string& column) {
    return "select pawl." + function + "(" + literal(table) + ", state_column => " + literal(column);
}

void plan_release(const PresentBinding& binding, const std::string& reason, Plan& plan) {
    const std::string target = literal(binding.table) + ", " + literal(binding.column);
    Step step{
        .what = "release",
        .title = "release " + binding.table + "." + binding.column + " from " + binding.machine,
        .details = {reason, "its log stays and is closed"},
        .sql = "do " + dollar_quoted(" begin\n    if exists (select from pawl.binding b where b.relation = " +
                                         literal(binding.table) + "::regclass\n            and b.state_column = " +
                                         literal(binding.column) + " and b.machine = " + literal(binding.machine) +
                                         ") then\n        perform pawl.release(" + target + ");\n    end if;\nend ",
                                     "release")};
    step.locks.push_back({binding.table, "ACCESS EXCLUSIVE"});
    step.removes = true;
    if (!binding.mine) plan.problems.push_back("table " + binding.table + " belongs to another role");
    plan.steps.push_back(std::move(step));
}

void plan_table(PlanContext& context, const TableEntry& entry) {
    if (!check_table(context, entry)) return;
    const PresentTable& table = context.present.tables.at({entry.relation, entry.column});
    const PresentBinding* binding = context.present.find(table.oid, entry.column);
    if (binding != nullptr && binding->of_extension) {
        context.plan.problems.push_back(located(context.lifecycle.file, entry.where) + "table " + table.name +
                                        " belongs to an extension");
        return;
    }
    if (binding == nullptr) return plan_new(context, entry, table);
    if (binding->machine == context.lifecycle.machine) return plan_present(context, entry, table, *binding);
    plan_release(*binding, "it gets machine " + context.lifecycle.machine, context.plan);
    plan_new(context, entry, table);
}

}  // namespace pawl::cli
