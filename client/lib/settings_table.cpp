// May throw SettingsError.
#include "settings_table.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace pawl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <typename... Cases>
struct Overloaded : Cases... {
    using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

constexpr const char* pooler_names[] = {"none", "session", "transaction"};

int whole_number(const std::string& name, const std::string& value, int least, int most) {
    int number = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (problem != std::errc() || end != value.data() + value.size() || number < least || number > most)
        throw SettingsError(name + " must be a whole number from " + std::to_string(least) + " to " +
                            std::to_string(most) + ", not \"" + value + "\"");
    return number;
}

bool flag_of(const std::string& name, const std::string& value) {
    if (value == "true" || value == "on" || value == "yes" || value == "1") return true;
    if (value == "false" || value == "off" || value == "no" || value == "0") return false;
    throw SettingsError(name + " must be true or false, not \"" + value + "\"");
}

std::string joined(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& one : names) list += (list.empty() ? "" : ", ") + one;
    return list;
}

void check_address(const std::string& name, const std::string& value) {
    const auto colon = value.rfind(':');
    if (value.empty()) return;
    if (colon == std::string::npos || colon == 0)
        throw SettingsError(name + " must be host:port, not \"" + value + "\"");
    whole_number(name + ", its port,", value.substr(colon + 1), 0, 65'535);
}

std::set<std::string> list_of(const std::string& value) {
    std::set<std::string> names;
    std::istringstream list(value);
    for (std::string name; std::getline(list, name, ',');)
        if (!name.empty()) names.insert(name);
    return names;
}

// Thousands are grouped, for people.
std::string grouped(int number) {
    std::string digits = std::to_string(number);
    for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
        digits.insert(static_cast<std::size_t>(at), 1, ',');
    return digits;
}

std::string quoted(const std::string& text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') quoted += '\\';
        quoted += c;
    }
    return quoted + "\"";
}

// As a TOML file has it.
std::string value_of(const SettingMember& member) {
    return std::visit(Overloaded{[](const std::string* text) { return quoted(*text); },
                                 [](const int* number) { return std::to_string(*number); },
                                 [](const bool* flag) { return std::string(*flag ? "true" : "false"); },
                                 [](const milliseconds* time) { return std::to_string(time->count()); },
                                 [](const seconds* time) { return std::to_string(time->count()); },
                                 [](const std::set<std::string>* names) {
                                     std::string list;
                                     for (const std::string& one : *names)
                                         list += (list.empty() ? "" : ", ") + quoted(one);
                                     return "[" + list + "]";
                                 },
                                 [](const Pooler* pooler) { return quoted(pooler_names[static_cast<int>(*pooler)]); }},
                      member);
}

}  // namespace

const char* name_of(SettingType type) noexcept {
    switch (type) {
        case SettingType::text:
            return "text";
        case SettingType::number:
            return "number";
        case SettingType::flag:
            return "flag";
        case SettingType::list:
            return "list";
    }
    return "";
}

SettingType type_of(const SettingMember& member) {
    return std::visit(
        Overloaded{[](const std::string*) { return SettingType::text; }, [](const int*) { return SettingType::number; },
                   [](const bool*) { return SettingType::flag; },
                   [](const milliseconds*) { return SettingType::number; },
                   [](const seconds*) { return SettingType::number; },
                   [](const std::set<std::string>*) { return SettingType::list; },
                   [](const Pooler*) { return SettingType::text; }},
        member);
}

void store(const SettingMember& member, const SettingRule& rule, const std::string& name, const std::string& value) {
    if (rule.address) check_address(name, value);
    if (!rule.names.empty() && std::find(rule.names.begin(), rule.names.end(), value) == rule.names.end())
        throw SettingsError(name + " must be one of " + joined(rule.names) + ", not \"" + value + "\"");
    const auto number = [&] { return whole_number(name, value, rule.least, rule.most); };
    std::visit(Overloaded{[&](std::string* text) { *text = value; }, [&](int* into) { *into = number(); },
                          [&](bool* flag) { *flag = flag_of(name, value); },
                          [&](milliseconds* time) { *time = milliseconds(number()); },
                          [&](seconds* time) { *time = seconds(number()); },
                          [&](std::set<std::string>* names) { *names = list_of(value); },
                          [&](Pooler* pooler) {
                              const auto* found = std::find(std::begin(pooler_names), std::end(pooler_names), value);
                              *pooler = static_cast<Pooler>(found - std::begin(pooler_names));
                          }},
               member);
}

std::string variable_of(const std::string& prefix, const std::string& name) {
    std::string variable = prefix + "_" + name;
    for (char& c : variable) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    return variable;
}

Setting describe(const SettingMember& member, const SettingRule& rule, const std::string& prefix,
                 const std::string& name, const char* unit, const char* description) {
    std::string range;
    if (rule.most != 0) range = grouped(rule.least) + " to " + grouped(rule.most);
    if (!rule.names.empty()) range = joined(rule.names);
    if (rule.address) range = "host:port";
    return {.name = name,
            .variable = variable_of(prefix, name),
            .type = name_of(type_of(member)),
            .initial = value_of(member),
            .unit = unit,
            .range = range,
            .description = description};
}

std::string settings_as_markdown(const std::vector<Setting>& settings) {
    std::string table = "| setting | type | default | unit | range | description |\n|---|---|---|---|---|---|\n";
    for (const Setting& one : settings)
        table += "| `" + one.name + "` | " + one.type + " | `" + one.initial + "` | " + one.unit + " | " + one.range +
                 " | " + one.description + " |\n";
    return table;
}

std::string settings_as_toml(const std::vector<Setting>& settings) {
    constexpr std::size_t width = 100;
    std::string file;
    for (const Setting& one : settings) {
        std::string words = one.description;
        if (!one.range.empty()) words += " (" + one.range + (one.unit.empty() ? "" : " " + one.unit) + ")";
        words += '.';
        while (words.size() > width) {
            const std::size_t end = words.rfind(' ', width);
            file += "# " + words.substr(0, end) + "\n";
            words.erase(0, end + 1);
        }
        file += "# " + words + "\n" + one.name + " = " + one.initial + "\n\n";
    }
    return file;
}

}  // namespace pawl
