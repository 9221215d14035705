// May throw FileError. See front_matter.hpp.
#include "lifecycle/front_matter.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <yaml-cpp/yaml.h>

#include "lifecycle/sql_text.hpp"

namespace pawl::cli {
namespace {

constexpr std::size_t longest_front_matter = 256 * 1024;
constexpr int deepest_value = 50;
constexpr std::size_t most_nodes = 10'000;              // aliases counted where they stand
constexpr std::size_t longest_expansion = 1024 * 1024;  // of the texts in them

core::Place place_of(const YAML::Mark& mark) {
    return {mark.line + 2, mark.column + 1};  // below the line ---
}

class Reader {
public:
    explicit Reader(Lifecycle& lifecycle) : lifecycle_(lifecycle) {}

    void read(const std::string& yaml);

private:
    using Each = std::function<void(const std::string& key, const YAML::Node& name, const YAML::Node& value)>;

    [[noreturn]] void fail(const YAML::Node& node, const std::string& message, const std::string& hint = {}) const;
    [[noreturn]] void unknown(const YAML::Node& name, const std::string& known) const;
    void each(const YAML::Node& map, const std::string& what, const Each& visit) const;
    std::string text(const YAML::Node& node, const std::string& what) const;
    bool flag(const YAML::Node& node, const std::string& what) const;
    Json list(const YAML::Node& node, const std::string& what) const;
    Json json(const YAML::Node& node, int depth) const;
    Json scalar(const YAML::Node& node) const;
    Json results(const YAML::Node& node, const std::string& what) const;
    Json value(const Policy& policy, const YAML::Node& node) const;
    std::string chosen(const Policy& policy, const YAML::Node& node) const;

    void read_pawl(const YAML::Node& node);
    void read_table(const YAML::Node& node);
    void read_section(TableEntry& table, const std::string& section, const YAML::Node& node) const;
    void set(TableEntry& table, const Policy& policy, const YAML::Node& node) const;
    void check_complete(const TableEntry& table, const YAML::Node& node) const;

    void count(const YAML::Node& node) const;

    Lifecycle& lifecycle_;
    mutable std::size_t nodes_ = 0, bytes_ = 0;
};

// Short YAML can name a large value by aliases, again and again.
void Reader::count(const YAML::Node& node) const {
    bytes_ += node.IsScalar() ? node.Scalar().size() : 0;
    if (++nodes_ > most_nodes || bytes_ > longest_expansion)
        fail(node, "the front matter has more than 10000 values, or 1 MB of text, with its aliases");
}

void Reader::fail(const YAML::Node& node, const std::string& message, const std::string& hint) const {
    throw FileError(lifecycle_.file, place_of(node.Mark()), message, hint);
}

void Reader::unknown(const YAML::Node& name, const std::string& known) const {
    fail(name, "unknown key \"" + name.Scalar() + "\"", "known keys: " + known);
}

void Reader::each(const YAML::Node& map, const std::string& what, const Each& visit) const {
    if (!map.IsMap()) fail(map, what + " must be a map of keys and values");
    std::set<std::string> seen;
    for (const auto& pair : map) {
        count(pair.second);
        const std::string key = text(pair.first, "a key");
        if (!seen.insert(key).second) fail(pair.first, "key \"" + key + "\" is there twice");
        visit(key, pair.first, pair.second);
    }
}

std::string Reader::text(const YAML::Node& node, const std::string& what) const {
    if (!node.IsScalar()) fail(node, what + " must be a text");
    if (node.Scalar().find('\0') != std::string::npos) fail(node, what + " must not contain a null character");
    return node.Scalar();
}

bool Reader::flag(const YAML::Node& node, const std::string& what) const {
    const std::string value = text(node, what);
    if (value != "true" && value != "false") fail(node, what + " must be true or false, not \"" + value + "\"");
    return value == "true";
}

Json Reader::list(const YAML::Node& node, const std::string& what) const {
    if (!node.IsSequence()) fail(node, what + " must be a list", what + ": [a, b]");
    Json items = Json::array();
    for (const auto& item : node) {
        count(item);
        items.push_back(text(item, "an item of " + what));
    }
    return items;
}

// As YAML's core schema has it: what is in quotes is a text.
Json Reader::scalar(const YAML::Node& node) const {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!") return text;
    if (text == "true" || text == "false") return text == "true";
    if (text == "null" || text == "~" || text.empty()) return nullptr;
    const char* end = text.data() + text.size();
    std::int64_t whole = 0;
    if (const auto read = std::from_chars(text.data(), end, whole); read.ec == std::errc() && read.ptr == end)
        return whole;
    double number = 0;
    if (const auto read = std::from_chars(text.data(), end, number); read.ec == std::errc() && read.ptr == end)
        return number;
    return text;
}

Json Reader::json(const YAML::Node& node, int depth) const {
    if (depth > deepest_value) fail(node, "the value is nested too deep");
    if (node.IsNull()) return nullptr;
    if (node.IsScalar()) return scalar(node);
    if (node.IsSequence()) {
        Json items = Json::array();
        for (const auto& item : node) {
            count(item);
            items.push_back(json(item, depth + 1));
        }
        return items;
    }
    Json members = Json::object();
    each(node, "the value", [&](const std::string& key, const YAML::Node&, const YAML::Node& value) {
        members[key] = json(value, depth + 1);
    });
    return members;
}

Json Reader::results(const YAML::Node& node, const std::string& what) const {
    Json states = Json::object();
    each(node, what, [&](const std::string& key, const YAML::Node&, const YAML::Node& value) {
        states[key] = flag(value, "the success of state \"" + key + "\"");
    });
    return states;
}

std::string Reader::chosen(const Policy& policy, const YAML::Node& node) const {
    const std::string value = text(node, std::string(policy.key));
    const auto& values = policy.values;
    if (!values.empty() && std::find(values.begin(), values.end(), value) == values.end()) {
        std::string known;
        for (const std::string& each : values) known += (known.empty() ? "" : ", ") + each;
        fail(node, "unknown value \"" + value + "\" of " + std::string(policy.key), known);
    }
    return value;
}

Json Reader::value(const Policy& policy, const YAML::Node& node) const {
    const std::string what(policy.key);
    switch (policy.shape) {
        case Shape::flag:
            return flag(node, what);
        case Shape::names:
        case Shape::events:
            return list(node, what);
        case Shape::results:
            return results(node, what);
        case Shape::object:
            if (!node.IsMap()) fail(node, what + " must be a map of keys and values");
            return json(node, 0);
        case Shape::count: {
            const Json number = scalar(node.IsScalar() ? node : (fail(node, what + " must be a number"), node));
            if (!number.is_number_integer()) fail(node, what + " must be a whole number");
            return number;
        }
        case Shape::relation:
            if (const auto name = relation_name(text(node, what))) return *name;
            fail(node, "\"" + node.Scalar() + "\" is not the name of a table");
        case Shape::order:
            if (const auto order = claim_order(text(node, what))) return *order;
            fail(node, what + " must be a list of columns", what + ": priority desc, created_at");
        case Shape::partition:
            if (const auto partition = log_partition(text(node, what))) return *partition;
            fail(node, what + " is not valid", "range (column), list (column), or hash (column) partitions 8");
        default:
            return chosen(policy, node);
    }
}

void Reader::set(TableEntry& table, const Policy& policy, const YAML::Node& node) const {
    table.settings[policy.id()] = value(policy, node);
    table.places[policy.id()] = place_of(node.Mark());
}

std::string keys_of(std::string_view section) {
    std::string known;
    for (const Policy& policy : policies())
        if (policy.section == section) known += (known.empty() ? "" : ", ") + std::string(policy.key);
    return known;
}

void Reader::read_section(TableEntry& table, const std::string& section, const YAML::Node& node) const {
    const bool scalar_flag = node.IsScalar();
    if (scalar_flag && !flag(node, section)) return;
    if (section == "log" || section == "audit") table.settings[section] = true;
    if (section == "events") table.settings["events.events"] = true;
    table.places[section] = place_of(node.Mark());
    if (scalar_flag || node.IsNull()) return;
    each(node, section, [&](const std::string& key, const YAML::Node& name, const YAML::Node& value) {
        const Policy* policy = find_policy(section, key);
        if (policy == nullptr) unknown(name, keys_of(section));
        set(table, *policy, value);
    });
}

// What a section cannot do without.
void Reader::check_complete(const TableEntry& table, const YAML::Node& node) const {
    if (table.relation.empty()) fail(node, "an entry of tables needs the key \"table\"");
    if (table.column.empty()) fail(node, "an entry of tables needs the key \"column\"");
    for (const auto& [section, key] : {std::pair("queue", "owner"), std::pair("timers", "due"),
                                       std::pair("trace", "traceparent"), std::pair("audit", "on_states")}) {
        const auto place = table.places.find(section);
        if (place != table.places.end() && table.settings.at(std::string(section) + "." + key).is_null())
            throw FileError(lifecycle_.file, place->second, std::string(section) + " needs the key \"" + key + "\"");
    }
    if (table.settings.at("audit").get<bool>() && !table.settings.at("log").get<bool>())
        throw FileError(lifecycle_.file, table.places.at("audit"), "an audit needs a log", "log: true");
}

void Reader::read_table(const YAML::Node& node) {
    TableEntry table;
    table.settings = initial_settings();
    table.where = place_of(node.Mark());
    each(node, "an entry of tables", [&](const std::string& key, const YAML::Node& name, const YAML::Node& value) {
        if (key == "table") {
            const auto relation = relation_name(text(value, key));
            if (!relation)
                fail(value, "\"" + value.Scalar() + "\" is not the name of a table", "table or schema.table");
            table.relation = *relation;
        } else if (key == "column") {
            table.column = text(value, key);
        } else if (is_section(key)) {
            read_section(table, key, value);
        } else if (const Policy* policy = find_policy("", key)) {
            set(table, *policy, value);
        } else {
            unknown(name, "table, column, " + keys_of("") + ", log, queue, timers, claiming, events, trace, audit");
        }
    });
    check_complete(table, node);
    lifecycle_.tables.push_back(std::move(table));
}

void Reader::read_pawl(const YAML::Node& node) {
    each(node, "pawl", [&](const std::string& key, const YAML::Node& name, const YAML::Node& value) {
        if (key == "machine") {
            lifecycle_.machine = text(value, key);
            lifecycle_.machine_where = place_of(value.Mark());
            if (lifecycle_.machine.empty() || lifecycle_.machine.size() > 63)
                fail(value, "the name of a machine must have 1 to 63 bytes");
        } else if (key == "unbound") {
            lifecycle_.unbound = text(value, key);
            if (lifecycle_.unbound != "reject" && lifecycle_.unbound != "note")
                fail(value, "unbound must be reject or note, not \"" + lifecycle_.unbound + "\"");
        } else if (key == "remap") {
            each(value, key, [&](const std::string& from, const YAML::Node& from_node, const YAML::Node& to) {
                lifecycle_.remap.push_back({from, text(to, "the new state"), place_of(from_node.Mark())});
            });
        } else if (key == "tables") {
            if (!value.IsSequence()) fail(value, "tables must be a list", "tables: [{table: orders, column: state}]");
            for (const auto& table : value) {
                count(table);
                read_table(table);
            }
        } else {
            unknown(name, "machine, tables, remap, unbound");
        }
    });
}

void Reader::read(const std::string& yaml) {
    const YAML::Node root = YAML::Load(yaml);
    if (root.IsNull()) return;
    // the other keys are Mermaid's
    each(root, "the front matter", [&](const std::string& key, const YAML::Node&, const YAML::Node& value) {
        if (key == "pawl") read_pawl(value);
    });
}

std::string_view trimmed(std::string_view line) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    return line;
}

}  // namespace

void read_front_matter(Lifecycle& lifecycle) {
    const std::string_view text = lifecycle.text;
    const std::size_t first_end = std::min(text.find('\n'), text.size());
    if (trimmed(text.substr(0, first_end)) != "---") return;
    std::size_t at = first_end + 1, end = at;
    for (; end < text.size(); end = std::min(text.find('\n', end), text.size()) + 1)
        if (trimmed(text.substr(end, std::min(text.find('\n', end), text.size()) - end)) == "---") break;
    if (end >= text.size()) throw FileError(lifecycle.file, {1, 1}, "the front matter is not closed: expected '---'");
    if (end - at > longest_front_matter)
        throw FileError(lifecycle.file, {1, 1}, "the front matter is longer than 256 KB");
    try {
        Reader(lifecycle).read(std::string(text.substr(at, end - at)));
    } catch (const YAML::Exception& problem) {
        throw FileError(lifecycle.file, place_of(problem.mark), "invalid YAML: " + problem.msg);
    }
}

}  // namespace pawl::cli
