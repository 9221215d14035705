// May throw. See pull.hpp.
#include "lifecycle/pull.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "core/scanner.hpp"
#include "lifecycle/present_settings.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

// A value as YAML in one line: JSON is YAML, and plain words need no quotes.
std::string yaml_value(const Json& value);

std::string yaml_word(const std::string& text) {
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    };
    // what YAML 1.1, YAML 1.2 or a number's reader takes for another value, in any case
    static const std::set<std::string> reserved{"true", "false", "null", "yes", "no",  "on",
                                                "off",  "y",     "n",    "nan", "inf", "infinity"};
    const bool word = !text.empty() && (text[0] < '0' || text[0] > '9') && text[0] != '.' &&
                      std::all_of(text.begin(), text.end(), plain) && !reserved.contains(core::lower(text));
    return word ? text : Json(text).dump();
}

std::string yaml_value(const Json& value) {
    if (value.is_string()) return yaml_word(value.get<std::string>());
    if (value.is_array()) {
        std::string items;
        for (const Json& item : value) items += (items.empty() ? "" : ", ") + yaml_value(item);
        return "[" + items + "]";
    }
    if (!value.is_object()) return value.dump();
    std::string members;
    for (const auto& [key, member] : value.items())
        members += (members.empty() ? "" : ", ") + yaml_word(key) + ": " + yaml_value(member);
    return "{" + members + "}";
}

// The keys of a section that say something, as one map; nothing if the section is not there.
std::string section_of(const Settings& settings, const std::string& section) {
    Json members = Json::object();
    for (const Policy& policy : policies()) {
        const Json& value = settings.at(policy.id());
        if (policy.section != section || policy.id() == "events.events" || is_none(policy, value)) continue;
        members[std::string(policy.key)] = value;
    }
    const auto flag = settings.find(section == "events" ? "events.events" : section);
    const bool on = flag != settings.end() && flag->second == true;
    if (section == "events" && !on && !members.empty()) members["events"] = false;
    if (members.empty()) return on ? "true" : "";
    return yaml_value(members);
}

std::string table_text(const PresentBinding& binding) {
    Settings settings = binding.settings;
    if (settings.at("key") == binding.default_key) settings["key"] = nullptr;
    std::string text =
        "    - table: " + yaml_value(binding.table) + "\n      column: " + yaml_value(binding.column) + "\n";
    for (const Policy& policy : policies()) {
        if (policy.section.empty()) {
            const Json& value = settings.at(policy.id());
            if (!is_none(policy, value)) text += "      " + policy.id() + ": " + yaml_value(value) + "\n";
            continue;
        }
        const std::string key = "\n      " + std::string(policy.section) + ": ";
        if (text.find(key) != std::string::npos) continue;
        const std::string section = section_of(settings, std::string(policy.section));
        if (!section.empty()) text += key.substr(1) + section + "\n";
    }
    return text;
}

// A file's name: that of the machine where it can be one.
std::string file_name(const std::string& machine) {
    std::string name;
    for (const char c : machine)
        name += c == '/' || static_cast<unsigned char>(c) < 0x20 || (c == '.' && name.empty()) ? '_' : c;
    return name + ".mmd";
}

constexpr const char* newest_machines =
    "SELECT DISTINCT ON (m.machine) m.machine, m.unbound, m.diagram FROM pawl.machine m"
    " WHERE m.extension IS NULL ORDER BY m.machine, m.version DESC";

std::map<std::string, std::string> texts_of(pqxx::connection& connection, const std::string& folder) {
    std::map<std::string, std::string> texts;
    sql::translated([&] {
        pqxx::work transaction(connection);
        sql::run(transaction, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY");
        sql::run(transaction, "SET LOCAL intervalstyle = postgres");
        Present present;
        read_bindings(transaction, present);
        for (const auto& row : sql::run(transaction, newest_machines)) {
            const std::string machine = row["machine"].as<std::string>();
            std::vector<PresentBinding> bindings;
            for (const PresentBinding& binding : present.bindings)
                if (binding.machine == machine && !binding.of_extension) bindings.push_back(binding);
            const std::string file = (std::filesystem::path(folder) / file_name(machine)).string();
            if (!texts
                     .emplace(file, lifecycle_text(machine, row["unbound"].as<std::string>(),
                                                   row["diagram"].as<std::string>(), bindings))
                     .second)
                throw FileError(file, {}, "would be the file of two machines");
        }
    });
    return texts;
}

}  // namespace

std::string lifecycle_text(const std::string& machine, const std::string& unbound, const std::string& diagram,
                           const std::vector<PresentBinding>& bindings) {
    std::string front, body = diagram;
    if (body.starts_with("---\n")) {  // the title
        const std::size_t end = body.find("\n---\n", 3);
        front = body.substr(4, end + 1 - 4);
        body = body.substr(end + 5);
    }
    front += "pawl:\n  machine: " + yaml_value(machine) + "\n";
    if (unbound == "note") front += "  unbound: note\n";
    if (!bindings.empty()) front += "  tables:\n";
    for (const PresentBinding& binding : bindings) front += table_text(binding);
    return "---\n" + front + "---\n" + body;
}

std::vector<std::string> pull(pqxx::connection& connection, const std::string& folder) {
    const auto texts = texts_of(connection, folder);
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (problem) throw FileError(folder, {}, problem.message());
    std::vector<std::string> files;
    for (const auto& [file, text] : texts) {
        if (std::filesystem::exists(file) && text_of_file(file) != text)
            throw FileError(file, {}, "exists with another text", "pull into another folder, and compare");
        files.push_back(file);
    }
    for (const auto& [file, text] : texts) {
        std::ofstream out(file, std::ios::binary);
        out << text;
        out.close();
        if (!out) throw FileError(file, {}, "cannot be written");
    }
    return files;
}

}  // namespace pawl::cli
