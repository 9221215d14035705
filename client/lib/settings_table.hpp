// May throw SettingsError. A table of settings: one row a setting with its name, its place, its range and its
// description. Parsing, --help, the example file and the documentation are made from it.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <pawl/settings.hpp>

namespace pawl {

enum class SettingType { text, number, flag, list };
const char* name_of(SettingType type) noexcept;

// The member that holds a setting. Durations are numbers in the unit of the member.
using SettingMember = std::variant<std::string*, int*, bool*, std::chrono::milliseconds*, std::chrono::seconds*,
                                   std::set<std::string>*, Pooler*>;

// member<&Settings::messages, &MessageSettings::broker> is the broker of some settings.
template <auto... members, typename Settings>
SettingMember member(Settings& settings) {
    return &(settings.*....*members);
}

// Which values are allowed.
struct SettingRule {
    int least = 0, most = 0;              // of a number; both 0: no number
    std::vector<std::string> names = {};  // one of these
    bool address = false;                 // host:port
};
inline SettingRule any() {
    return {};
}
inline SettingRule between(int least, int most) {
    return {.least = least, .most = most};
}
inline SettingRule one_of(std::vector<std::string> names) {
    return {.names = std::move(names)};
}
inline SettingRule host_port() {
    return {.address = true};
}

template <typename Settings>
struct SettingRow {
    const char* name;
    SettingMember (*member)(Settings&);
    SettingRule rule;
    const char* unit;
    const char* description;
};

SettingType type_of(const SettingMember& member);

// Stores a value. Throws SettingsError, which begins with the name.
void store(const SettingMember& member, const SettingRule& rule, const std::string& name, const std::string& value);

Setting describe(const SettingMember& member, const SettingRule& rule, const std::string& prefix,
                 const std::string& name, const char* unit, const char* description);

// PREFIX_NAME
std::string variable_of(const std::string& prefix, const std::string& name);

template <typename Settings>
class SettingsTable {
public:
    // prefix: of environment variables.
    SettingsTable(std::string prefix, std::vector<SettingRow<Settings>> rows)
        : prefix_(std::move(prefix)), rows_(std::move(rows)) {}

    // Throws SettingsError, also if there is no such setting.
    void set(Settings& settings, const std::string& name, const std::string& value) const {
        const SettingRow<Settings>& row = find(name);
        store(row.member(settings), row.rule, name, value);
    }

    SettingType type(const std::string& name) const {
        Settings settings;
        return type_of(find(name).member(settings));
    }

    // `get` returns the value of a variable, or null.
    void read_environment(Settings& settings, const std::function<const char*(const char*)>& get) const {
        for (const auto& row : rows_) {
            const std::string variable = variable_of(prefix_, row.name);
            const char* value = get(variable.c_str());
            if (value == nullptr) continue;
            try {
                store(row.member(settings), row.rule, row.name, value);
            } catch (const SettingsError& problem) {
                throw SettingsError(variable + ": " + problem.what());
            }
        }
    }

    // With the values of `defaults`. (The copy is for the rows, which give access for writing.)
    std::vector<Setting> list(Settings defaults) const {
        std::vector<Setting> list;
        for (const auto& row : rows_)
            list.push_back(describe(row.member(defaults), row.rule, prefix_, row.name, row.unit, row.description));
        return list;
    }

    // Throws SettingsError if there is no such setting.
    const SettingRow<Settings>& find(const std::string& name) const {
        std::set<std::string> known;
        for (const auto& row : rows_) {
            if (row.name == name) return row;
            known.insert(row.name);
        }
        std::string names;
        for (const std::string& one : known) names += (names.empty() ? "" : ", ") + one;
        throw SettingsError("no setting \"" + name + "\"; there are " + names);
    }

private:
    std::string prefix_;
    std::vector<SettingRow<Settings>> rows_;
};

}  // namespace pawl
