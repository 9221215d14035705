// May throw. What a database has of the lifecycles of a folder, read without a lock on any table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pqxx/pqxx>

#include "lifecycle/lifecycle.hpp"

namespace pawl::cli {

struct PresentMachine {
    int version = 0;  // the newest
    std::string diagram;
    Json calls;        // of each transition: guards, effects, notes
    bool mine = true;  // the role owns the machine
    std::string owner;
};

struct PresentTable {
    std::string oid;
    std::string name;  // with its schema
    std::string kind;  // as pg_class.relkind
    std::string owner;
    bool mine = false;  // the role has the owner's rights
    bool readable = false;
    std::string column_type;  // empty: there is no such column
    Json default_key;
    std::string shape;  // columns with their types, and row security, for the fingerprint
    std::int64_t estimated_rows = 0;
};

struct PresentBinding {
    std::string oid;    // of the table
    std::string table;  // with its schema
    std::string column;
    std::string machine;
    int version = 0;
    std::string diagram;  // of that version
    bool of_extension = false;
    bool mine = false;
    Json default_key;
    Settings settings;
};

using TableKey = std::pair<std::string, std::string>;  // of the file: relation, column

struct Present {
    std::string database;
    std::string role;
    bool admin = false;  // the role can call what changes lifecycles
    std::map<std::string, PresentMachine> machines;
    std::map<TableKey, PresentTable> tables;
    std::vector<PresentBinding> bindings;          // of these machines, or on these tables; then any other of users
    std::map<std::string, std::string> functions;  // names of guards and effects, with their schemas
    std::string function_facts;                    // of these: owner, rights, body; for the fingerprint
    std::map<std::string, std::vector<std::string>> unfit;  // file: guards and effects that a table cannot call

    const PresentBinding* find(const std::string& oid, const std::string& column) const;

    // SHA-256 of everything above that a plan depends on: not of estimates.
    std::string fingerprint() const;
};

// Reads what `lifecycles` need. Intervals in their settings become what the server prints of them; an invalid one is a
// FileError.
Present read_database(pqxx::transaction_base& transaction, std::vector<Lifecycle>& lifecycles);

struct StateCount {
    std::optional<std::string> state;  // nothing: null
    std::int64_t rows;
};

// The rows of a table in states other than `known`. Reads the table.
std::vector<StateCount> count_other_states(pqxx::transaction_base& transaction, const std::string& table,
                                           const std::string& column, const std::vector<std::string>& known);

}  // namespace pawl::cli
