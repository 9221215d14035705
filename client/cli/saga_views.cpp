// May throw. pawl saga: looking at flows.
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include <pawl/flows.hpp>

#include "saga_commands.hpp"
#include "sql.hpp"
#include "tree.hpp"

namespace pawl::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* flow_statement =
    "SELECT f.flow_uuid AS flow, f.name, d.version, f.state, f.run, f.inputs, f.problem, pawl_saga.errors(f.flow_uuid) "
    "AS errors, f.created_at, f.entered_at, d.structure"
    "  FROM pawl_saga.flows f JOIN pawl_saga.definitions d USING (definition_uuid) WHERE f.flow_uuid = $1::uuid";

constexpr const char* atoms_statement =
    "SELECT a.node, a.kind, a.name, a.state, a.intention, a.worker, a.progress, a.result, a.failure, a.revert_failure,"
    "       x.attempt, r.controller ->> 'attempts' AS attempts,"
    "       CASE WHEN a.kind = 'retry' AND a.due_at > clock_timestamp() THEN round(extract(epoch FROM a.due_at - "
    "clock_timestamp()), 1) END AS again_in_seconds"
    "  FROM pawl_saga.atoms a LEFT JOIN pawl_saga.retries r ON a.kind = 'retry' AND r.flow_uuid = a.flow_uuid AND "
    "r.node = a.node"
    "  LEFT JOIN LATERAL (SELECT nullif(count(*), 0) AS attempt FROM pawl_saga.attempts t WHERE t.flow_uuid = "
    "r.flow_uuid AND t.node = r.node AND t.closed_at IS NULL) x ON true"
    " WHERE a.flow_uuid = $1::uuid ORDER BY a.node";

// In the order of their times; an entry may come to be seen after later ones.
constexpr const char* timeline_statement =
    "SELECT t.id, t.created_at AS at, to_char(t.created_at, 'HH24:MI:SS.MS') AS time, CASE WHEN t.subject = '$flow' "
    "THEN "
    "f.name ELSE t.subject END AS subject, t.subject = '$flow' AS of_flow,"
    "       t.from_state, t.to_state, t.event, t.processor, t.metadata ->> 'reason' AS reason"
    "  FROM pawl_saga.timeline t JOIN pawl_saga.flows f USING (flow_uuid)"
    " WHERE t.flow_uuid = $1::uuid AND t.from_state IS NOT NULL AND ($2 = '' OR t.subject = $2) ORDER BY t.created_at, "
    "t.id";

std::string message_of(const ordered_json& failure) {
    if (!failure.is_object() || !failure.contains("message")) return {};
    const std::string message =
        failure.at("message").is_string() ? failure.at("message").get<std::string>() : failure.at("message").dump();
    return message.substr(0, message.find('\n'));
}

std::string note_of(const ordered_json& atom) {
    std::string note;
    const auto add = [&](const std::string& part) {
        if (!part.empty()) note += (note.empty() ? "" : ", ") + part;
    };
    if (!atom.at("attempt").is_null())
        add("attempt " + atom.at("attempt").dump() +
            (atom.at("attempts").is_null() ? "" : " of " + atom.at("attempts").get<std::string>()));
    if (!atom.at("again_in_seconds").is_null()) add("again in " + atom.at("again_in_seconds").dump() + " s");
    if (atom.at("state") == "RUNNING" && !atom.at("progress").is_null())
        add(std::to_string(static_cast<int>(atom.at("progress").get<double>() * 100)) + " %");
    if (atom.at("intention") == "REVERT" && (atom.at("state") == "SUCCESS" || atom.at("state") == "RUNNING"))
        add("to be reverted");
    add(message_of(atom.at("failure")));
    if (const std::string why = message_of(atom.at("revert_failure")); !why.empty()) add("not undone: " + why);
    return note;
}

using Atoms = std::map<std::string, ordered_json>;

std::string line_of(const ordered_json& atom, bool colours) {
    const std::string state = atom.at("state").get<std::string>(), note = note_of(atom);
    return coloured(state, std::string(sign_of(state)) + " " + atom.at("name").get<std::string>(), colours) + "  " +
           state + (note.empty() ? "" : "  " + note);
}

void draw_item(std::string& text, const ordered_json& item, const Atoms& atoms, const std::string& indent,
               bool colours) {
    std::vector<std::pair<std::string, const ordered_json*>> lines;
    if (item.contains("retry") && item.at("retry").is_object())
        if (const auto retry = atoms.find(item.at("retry").at("name").get<std::string>()); retry != atoms.end())
            lines.emplace_back(line_of(retry->second, colours), nullptr);
    if (item.contains("children"))
        for (const auto& child : item.at("children")) {
            if (child.contains("flow"))
                lines.emplace_back(
                    child.at("name").get<std::string>() + "  (" + child.at("flow").get<std::string>() + ")", &child);
            else if (const auto task = atoms.find(child.at("task").get<std::string>()); task != atoms.end())
                lines.emplace_back(line_of(task->second, colours), nullptr);
        }
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const bool last = i + 1 == lines.size();
        text += indent + (last ? "└─ " : "├─ ") + lines[i].first + "\n";
        if (lines[i].second) draw_item(text, *lines[i].second, atoms, indent + (last ? "   " : "│  "), colours);
    }
}

int show_flow(const Program& program, pqxx::connection& connection, const std::string& flow) {
    ordered_json shown = flow_as_json(connection, flow);
    std::string text = draw_flow(shown, program.output.colours);
    if (text.back() == '\n') text.pop_back();
    shown.erase("structure");
    print(program.output, shown, text);
    return fine;
}

int export_flow(const Program& program, pqxx::connection& connection, const std::string& flow) {
    const auto found = sql::run_alone(connection, "SELECT pawl_saga.diagram($1::uuid)", flow);
    if (found[0][0].is_null()) throw Error("P0002", "flow " + flow + " does not exist");
    std::string text = found[0][0].as<std::string>();
    if (!text.empty() && text.back() == '\n') text.pop_back();
    print(program.output, {{"flow", flow}, {"mermaid", text}}, text);
    return fine;
}

FlowStatus status_of(pqxx::connection& connection, const std::string& flow) {
    pqxx::nontransaction transaction(connection);
    const auto found = flow_status(transaction, flow);
    if (!found) throw Error("P0002", "flow " + flow + " does not exist");
    return *found;
}

std::string line_of_move(const ordered_json& move, bool colours) {
    const std::string to = move.at("to_state").get<std::string>(), subject = move.at("subject").get<std::string>();
    return move.at("time").get<std::string>() + "  " + coloured(to, std::string(sign_of(to)) + " " + subject, colours) +
           "  " + move.at("from_state").get<std::string>() + " → " + to +
           (move.at("reason").is_null() ? "" : "  (" + move.at("reason").get<std::string>() + ")");
}

void add_of_flow(Program& program, Command& saga, const char* name, const char* meaning,
                 int (*body)(const Program&, pqxx::connection&, const std::string&)) {
    auto flow = std::make_shared<std::string>();
    auto* command = saga.add_subcommand(name, meaning);
    command->add_option("flow", *flow, "its id")->required();
    program.run(command,
                [&program, flow, body](pqxx::connection& connection) { return body(program, connection, *flow); });
}

void add_list(Program& program, Command& saga) {
    auto state = std::make_shared<std::string>();
    auto name = std::make_shared<std::string>();
    auto limit = std::make_shared<int>(20);
    auto* command = saga.add_subcommand("list", "flows, the newest first");
    command->add_option("--state", *state, "only those in this state");
    command->add_option("--name", *name, "only those of this definition");
    command->add_option("--limit", *limit, "at most so many, default 20")->check(Range{1, 100'000});
    program.run(command, [&program, state, name, limit](pqxx::connection& connection) {
        print(program.output,
              sql::run_alone(connection,
                             "SELECT f.flow_uuid AS flow, f.name, f.state, f.run, f.inputs, coalesce(f.problem ->> "
                             "'message', '') AS problem, f.created_at, f.entered_at"
                             " FROM pawl_saga.flows f WHERE ($1 = '' OR f.state = $1) AND ($2 = '' OR f.name = $2) "
                             "ORDER BY f.flow_uuid DESC LIMIT $3::integer",
                             *state, *name, *limit));
        return fine;
    });
}

void add_history(Program& program, Command& saga) {
    auto flow = std::make_shared<std::string>();
    auto atom = std::make_shared<std::string>();
    auto attempts = std::make_shared<bool>(false);
    auto* command = saga.add_subcommand("history", "every transition of a flow and its atoms, or of one of them");
    command->add_option("flow", *flow, "its id")->required();
    command->add_option("atom", *atom, "a task or a retry, by its name");
    command->add_flag("--attempts", *attempts, "what retry controllers tried instead: values and failures");
    program.run(command, [&program, flow, atom, attempts](pqxx::connection& connection) {
        status_of(connection, *flow);
        if (!atom->empty() &&
            sql::run_alone(connection, "SELECT FROM pawl_saga.atoms a WHERE a.flow_uuid = $1::uuid AND a.name = $2",
                           *flow, *atom)
                .empty())
            throw Error("P0002", "flow " + *flow + " has no task or retry \"" + *atom + "\"");
        if (*attempts)
            print(program.output,
                  sql::run_alone(
                      connection,
                      "SELECT r.name, a.attempt, a.value, a.failures, a.began_at, a.closed_at FROM pawl_saga.attempts a"
                      " JOIN pawl_saga.retries r USING (flow_uuid, node) WHERE a.flow_uuid = $1::uuid AND ($2 = '' OR "
                      "r.name = $2)"
                      " ORDER BY a.node, a.attempt",
                      *flow, *atom));
        else
            print(program.output,
                  sql::run_alone(connection,
                                 "SELECT time, subject, from_state, to_state, event, processor, reason FROM (" +
                                     std::string(timeline_statement) + ") t",
                                 *flow, *atom));
        return fine;
    });
}

}  // namespace

ordered_json flow_as_json(pqxx::connection& connection, const std::string& flow) {
    const auto found = sql::run_alone(connection, flow_statement, flow);
    if (found.empty()) throw Error("P0002", "flow " + flow + " does not exist");
    ordered_json made = as_json(found)[0];
    made["atoms"] = as_json(sql::run_alone(connection, atoms_statement, flow));
    return made;
}

std::string draw_flow(const ordered_json& flow, bool colours) {
    Atoms atoms;
    int tasks = 0;
    std::map<std::string, int> states;
    for (const auto& atom : flow.at("atoms")) {
        atoms.emplace(atom.at("name").get<std::string>(), atom);
        if (atom.at("kind") != "task") continue;
        ++tasks;
        ++states[atom.at("state").get<std::string>()];
    }
    const std::string state = flow.at("state").get<std::string>();
    std::string text = flow.at("name").get<std::string>() + "  " + coloured(state, state, colours) + "  " +
                       std::to_string(tasks) + (tasks == 1 ? " task" : " tasks");
    for (const auto& [of, count] : states) text += ", " + std::to_string(count) + " " + of;
    text += "\n";
    const auto& structure = flow.at("structure");
    if (structure.contains("flow"))
        draw_item(text, structure, atoms, "", colours);
    else
        text += "└─ " + line_of(flow.at("atoms").at(0), colours) + "\n";
    if (const std::string why = message_of(flow.at("problem")); !why.empty())
        text += why +
                (flow.at("problem").contains("reason") && flow.at("problem").at("reason").is_string()
                     ? ": " + flow.at("problem").at("reason").get<std::string>()
                     : "") +
                "\n";
    return text;
}

int follow_flow(const Program& program, pqxx::connection& connection, const std::string& flow) {
    std::set<std::string> seen;
    FlowStatus status;
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(200))) {
        // the state first: when it says that the flow has ended, the state changes read after it are complete
        status = status_of(connection, flow);
        const bool rests = status.ended() || status.state == "SUSPENDED";
        std::string lines;
        if (!program.output.json)
            for (const auto& move : as_json(sql::run_alone(connection, timeline_statement, flow, "")))
                if (seen.insert(move.at("id").get<std::string>()).second)
                    lines += coloured_only(line_of_move(move, program.output.colours)) + "\n";
        if (!program.output.json && program.output.colours)
            std::cout << "\r\033[K" << lines << progress_bar(status.finished, status.tasks, 40) << "  " << status.state
                      << (rests ? "\n" : "") << std::flush;
        else if (!program.output.json)
            std::cout << lines << std::flush;
        if (rests) break;
    }
    if (program.output.json)
        print(program.output,
              {{"flow", status.flow},
               {"state", status.state},
               {"tasks", status.tasks},
               {"finished", status.finished},
               {"errors", status.errors}},
              "");
    return status.state == "SUCCESS" ? fine : findings;
}

void add_saga_views(Program& program, Command& saga) {
    add_list(program, saga);
    add_of_flow(program, saga, "show", "a flow as the tree of its structure, each task with its state", show_flow);
    add_of_flow(program, saga, "follow", "watch a flow until it rests; ends with 1 unless it is a success",
                follow_flow);
    add_of_flow(program, saga, "export", "a flow as a Mermaid flowchart with the states of its tasks", export_flow);
    add_history(program, saga);
}

}  // namespace pawl::cli
