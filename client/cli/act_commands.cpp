// May throw. pawl act: one action on many tasks, dead letters, bulk operations or rows of one: the routes of the HTTP
// API, called in the database. Each request does a bounded part and is a transaction of its own.
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

using nlohmann::ordered_json;

struct List {
    std::string name, function, meaning, items;  // items: the field with what is named one by one
    std::vector<std::string> actions;
    std::vector<std::pair<std::string, std::string>> filters;  // field and option
};

const std::vector<List>& lists() {
    static const std::vector<List> all{
        {"tasks",
         "act_on_tasks",
         "tasks of workflows",
         "ids",
         {"cancel", "retry", "resolve", "give_up", "reset"},
         {{"state", "--state"},
          {"name", "--name"},
          {"namespace", "--namespace"},
          {"identity_key", "--key"},
          {"created_after", "--after"},
          {"created_before", "--before"},
          {"search", "--text"}}},
        {"dlq",
         "act_on_dlq",
         "tasks of pending dead letters",
         "ids",
         {"retry", "give_up", "resolve", "cancel"},
         {{"reason", "--why"}, {"entered_before", "--before"}, {"search", "--text"}}},
        {"bulks",
         "act_on_bulks",
         "bulk operations",
         "ids",
         {"cancel", "pause", "resume", "retry"},
         {{"status", "--status"},
          {"operationName", "--definition"},
          {"createdBy", "--by"},
          {"fromDate", "--after"},
          {"toDate", "--before"}}},
        {"rows",
         "act_on_bulk_rows",
         "rows of a bulk operation: retry those that failed, complete or fail those that wait for a signal",
         "rows",
         {"retry", "complete", "fail"},
         {{"state", "--state"}, {"stepName", "--step"}, {"rowId", "--row-id"}, {"search", "--text"}}}};
    return all;
}

struct Given {
    std::string action, operation, reason;
    std::vector<std::string> items;
    std::vector<std::optional<std::string>> filters;
    bool all = false, dry_run = false;
};

ordered_json number_of_row(const std::string& text) {
    if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
        usage_error("\"" + text + "\" is not the number of a row");
    return std::stoll(text);
}

// What the action is applied to. All is never meant by leaving something out.
void add_target(ordered_json& body, const List& list, const Given& given) {
    ordered_json filter = ordered_json::object();
    for (std::size_t i = 0; i < list.filters.size(); ++i)
        if (given.filters[i]) filter[list.filters[i].first] = *given.filters[i];
    if (given.items.empty() && filter.empty() && !given.all) usage_error("name " + list.name + ", a filter, or --all");
    if (!given.items.empty() && (!filter.empty() || given.all))
        usage_error(list.name + " are named one by one or by a filter, not by both");
    if (given.items.empty()) {
        body["filter"] = filter;
        return;
    }
    for (const std::string& one : given.items)
        body[list.items].push_back(list.items == "rows" ? number_of_row(one) : ordered_json(one));
}

struct Outcome {
    long changed = 0, unchanged = 0, rejected = 0;
    ordered_json groups = ordered_json::array(), failed = ordered_json::array();

    void add(const ordered_json& answer) {
        changed += answer.at("changed").get<long>();
        unchanged += answer.at("unchanged").get<long>();
        rejected += answer.at("rejected").get<long>();
        for (const auto& group : answer.at("groups")) add_group(group);
        for (const auto& item : answer.at("items"))
            if (item.at("outcome") == "rejected") failed.push_back(item);
    }

private:
    void add_group(const ordered_json& group) {
        for (auto& known : groups) {
            if (known.at("outcome") != group.at("outcome") || known.at("state") != group.at("state") ||
                known.at("sqlstate") != group.at("sqlstate") || known.at("reason") != group.at("reason"))
                continue;
            known["count"] = known.at("count").get<long>() + group.at("count").get<long>();
            return;
        }
        groups.push_back(group);
    }
};

std::string text_of(const ordered_json& value) {
    return value.is_string() ? value.get<std::string>() : "";
}

std::string summary(const Outcome& outcome, bool dry_run) {
    std::string text = std::to_string(outcome.changed) + (dry_run ? " would change, " : " changed, ") +
                       std::to_string(outcome.unchanged) + (dry_run ? " would stay as they are, " : " unchanged, ") +
                       std::to_string(outcome.rejected) + (dry_run ? " would be rejected" : " rejected");
    for (const auto& group : outcome.groups) {
        text +=
            "\n  " + group.at("count").dump() + " " + text_of(group.at("state")) + ": " + text_of(group.at("outcome"));
        if (const std::string reason = text_of(group.at("reason")); !reason.empty()) text += ", " + reason;
        if (const std::string code = text_of(group.at("sqlstate")); !code.empty()) text += " [" + code + "]";
    }
    for (const auto& item : outcome.failed)
        text += "\n" + text_of(item.at("id")) + "  " + text_of(item.at("reason")) + " [" +
                text_of(item.at("sqlstate")) + "]";
    return text;
}

int act(const Program& program, pqxx::connection& connection, const List& list, const Given& given) {
    ordered_json body{{"action", given.action}, {"dry_run", given.dry_run}};
    if (!given.reason.empty()) body["reason"] = given.reason;
    add_target(body, list, given);
    const ordered_json route = list.items == "rows" ? ordered_json{{"id", given.operation}} : ordered_json::object();
    Outcome outcome;
    for (bool more = true; more;) {
        const auto said =
            sql::run_alone(connection, "SELECT pawl_api." + list.function + "($1::jsonb, $2::jsonb) AS answer",
                           route.dump(), body.dump());
        const ordered_json answer = as_json(said)[0].at("answer");
        outcome.add(answer);
        more = !answer.at("next").is_null();
        if (!more) break;
        body["cursor"] = answer.at("next");
        if (!program.output.json)
            std::cerr << outcome.changed + outcome.unchanged + outcome.rejected << " so far" << std::endl;
    }
    print(program.output,
          {{"action", given.action},
           {"dry_run", given.dry_run},
           {"changed", outcome.changed},
           {"unchanged", outcome.unchanged},
           {"rejected", outcome.rejected},
           {"groups", outcome.groups},
           {"failed", outcome.failed}},
          summary(outcome, given.dry_run));
    return outcome.changed > 0 && outcome.rejected == 0 ? fine : findings;
}

void add_list(Program& program, Command& group, const List& list) {
    auto given = std::make_shared<Given>();
    given->filters.resize(list.filters.size());
    auto* command = group.add_subcommand(list.name, list.meaning);
    command->add_option("action", given->action, "what to do with each of them")
        ->required()
        ->check(IsMember{list.actions});
    if (list.items == "rows") command->add_option("operation", given->operation, "its id")->required();
    command->add_option(list.items, given->items, "which ones; at most 500");
    for (std::size_t i = 0; i < list.filters.size(); ++i)
        command->add_option(list.filters[i].second, given->filters[i],
                            "only those with this " + list.filters[i].first + ", as the HTTP API takes it");
    command->add_flag("--all", given->all, "all that there are");
    command->add_flag("--dry-run", given->dry_run, "say what would change, and change nothing");
    command->add_option("--reason", given->reason,
                        list.items == "rows" ? "the message of the signal" : "goes into the log");
    program.run(command, [&program, &list, given](pqxx::connection& connection) {
        return act(program, connection, list, *given);
    });
}

}  // namespace

void add_act_commands(Program& program) {
    auto* group = program.app.add_subcommand(
        "act", "one action on many tasks, dead letters, bulk operations or rows; ends with 1 if any was rejected");
    group->require_subcommand(1);
    for (const List& list : lists()) add_list(program, *group, list);
}

}  // namespace pawl::cli
