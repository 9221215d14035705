// May throw.
#include <pawl/placements.hpp>

#include <algorithm>
#include <thread>

#include "sql.hpp"

namespace pawl {

namespace {

constexpr std::chrono::milliseconds first_wait{20}, longest_wait{1'000};

const char* const databases_statement = "SELECT d.name, d.connection, d.is_home FROM pawl.database d ORDER BY d.name";
const char* const placements_statement = "SELECT p.kind, coalesce(p.namespace, ''), p.database FROM pawl.placement p";

}  // namespace

Placements::Placements(ConnectionSettings member, std::chrono::milliseconds patience)
    : member_(std::move(member)), patience_(patience) {}

void Placements::read(const ConnectionSettings& from) {
    const auto connection = connect(from);
    const sql::Rows databases = sql::run_alone(*connection, databases_statement);
    const sql::Rows placements = sql::run_alone(*connection, placements_statement);
    const std::lock_guard lock(mutex_);
    databases_.clear();
    placements_.clear();
    for (const auto& row : databases) {
        PlacedDatabase database{row[0].as<std::string>(), member_, row[2].as<bool>()};
        database.connection.target = row[1].as<std::string>();
        databases_.insert_or_assign(database.name, database);
    }
    for (const auto& row : placements)
        placements_[{row[0].as<std::string>(), row[1].as<std::string>()}] = row[2].as<std::string>();
    if (databases_.empty()) databases_.insert_or_assign("", PlacedDatabase{"", member_, true});
    is_read_ = true;
}

void Placements::refresh() {
    if (!is_read_) read(member_);
    ConnectionSettings home = member_;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [name, database] : databases_)
            if (database.home) home = database.connection;
    }
    try {
        read(home);
    } catch (const ConnectionLost&) {
        read(member_);
    }
}

PlacedDatabase Placements::known(const std::string& kind, const std::string& name_space) {
    const std::lock_guard lock(mutex_);
    if (databases_.size() == 1 && databases_.begin()->first.empty()) return databases_.begin()->second;
    auto found = placements_.find({kind, name_space});
    if (found == placements_.end()) found = placements_.find({kind, ""});
    const auto database = found == placements_.end() ? databases_.end() : databases_.find(found->second);
    if (database == databases_.end())
        throw error::placed_elsewhere("PW009",
                                      "namespace \"" + name_space + "\" of kind \"" + kind + "\" is in no database");
    return database->second;
}

PlacedDatabase Placements::find(const std::string& kind, const std::string& name_space) {
    if (!is_read_) refresh();
    return known(kind, name_space);
}

std::vector<PlacedDatabase> Placements::databases() {
    if (!is_read_) refresh();
    const std::lock_guard lock(mutex_);
    std::vector<PlacedDatabase> all;
    for (const auto& [name, database] : databases_) all.push_back(database);
    return all;
}

void Placements::learn(pqxx::connection& rejecting, const std::string& kind, const std::string& name_space) {
    const sql::Rows found = sql::run_alone(
        rejecting, "SELECT w.database, w.connection FROM pawl.where_is($1, $2) w WHERE NOT w.here", kind, name_space);
    if (found.empty()) return;
    const std::string name = found[0][0].as<std::string>();
    PlacedDatabase database{name, member_, false};
    database.connection.target = found[0][1].as<std::string>();
    const std::lock_guard lock(mutex_);
    databases_.try_emplace(name, database);
    placements_[{kind, name_space}] = name;
}

void Placements::learn(const std::string& kind, const std::string& name_space, const std::string& database) {
    const std::lock_guard lock(mutex_);
    if (databases_.count(database) > 0) placements_[{kind, name_space}] = database;
}

void Placements::run(const std::string& kind, const std::string& name_space,
                     const std::function<void(pqxx::connection&)>& body) {
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    std::chrono::milliseconds wait = first_wait;
    for (int tries = 0;; ++tries) {
        const PlacedDatabase database = find(kind, name_space);
        const auto connection = connect(database.connection);
        try {
            return body(*connection);
        } catch (const error::placed_elsewhere&) {
            if (std::chrono::steady_clock::now() >= deadline) throw;
            learn(*connection, kind, name_space);
        }
        // where both say that it is in the other one, it is on its way
        if (tries == 0) continue;
        std::this_thread::sleep_for(wait);
        wait = std::min(2 * wait, longest_wait);
        if (tries % 8 == 0) refresh();
    }
}

}  // namespace pawl
