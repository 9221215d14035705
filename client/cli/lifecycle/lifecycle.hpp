// May throw FileError. A lifecycle as a file: a Mermaid state diagram whose front matter says where it is enforced.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/machine.hpp"
#include "lifecycle/policies.hpp"

namespace pawl::cli {

// What is wrong with files: a line each, `file:line:column: message`, and hints below them.
class FileError : public std::runtime_error {
public:
    explicit FileError(const std::string& text) : std::runtime_error(text) {}
    FileError(const std::string& file, core::Place where, const std::string& message, const std::string& hint = {});
};

// A table and a column that a machine is enforced on.
struct TableEntry {
    std::string relation;  // as relation_name() writes it
    std::string column;
    Settings settings;  // every policy; those that the file does not name have their initial value
    std::map<std::string, core::Place> places;  // of the policies that the file names
    core::Place where;
};

struct Remap {
    std::string from, to;
    core::Place where;
};

struct Lifecycle {
    std::string file;
    std::string text;  // without byte order mark, lines end in \n
    std::string machine;
    core::Place machine_where;
    std::string unbound = "reject";
    std::vector<Remap> remap;
    std::vector<TableEntry> tables;
    core::Diagram diagram;
    core::Machine compiled;
};

// The names of the states that a row can have.
std::vector<std::string> atomic_states(const core::Machine& machine);

// "file:line:column: ", the beginning of a message; without a place, "file: ".
std::string located(const std::string& file, core::Place where);

// Reads one file. The machine is called as the file is, if the front matter does not name it.
Lifecycle read_lifecycle(const std::string& file, std::string text);

// The text of a file of at most 4 MB. Throws FileError.
std::string text_of_file(const std::string& file);

// The *.mmd files of a folder, in the order of their names, with all that is wrong with them in one FileError. Hidden
// files and folders in it are left out; symbolic links are followed.
std::vector<Lifecycle> read_folder(const std::string& folder);

// Throws FileError if two files have the same machine, or two entries the same column of a table.
void check_together(const std::vector<Lifecycle>& lifecycles);

}  // namespace pawl::cli
