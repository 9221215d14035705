// Settings of workers and conductors as text: from the environment, or from a program's own flags. One table of each
// kind of settings says what there is; docs/client.md shows it.
//
//     pawl::WorkerSettings settings{.queue = "billing"};   // the program's own defaults
//     pawl::read_environment(settings);                    // PAWL_DATABASE, PAWL_QUEUE, PAWL_THREADS, ...
//     pawl::set(settings, "lease_ms", "90000");            // a flag
#pragma once

#include <string>
#include <vector>

#include <pawl/conductor.hpp>
#include <pawl/errors.hpp>
#include <pawl/row_worker.hpp>
#include <pawl/saga_worker.hpp>
#include <pawl/worker.hpp>

namespace pawl {

/// A setting that does not exist, or a value out of its range. SQLSTATE 22023.
class SettingsError : public Error {
public:
    explicit SettingsError(const std::string& message) : Error("22023", message) {}
};

/// What there is to know of a setting.
struct Setting {
    std::string name;         ///< The key in a file. The flag is --name with dashes.
    std::string variable;     ///< The environment variable.
    std::string type;         ///< text, number, flag or list. Lists are comma separated, in files arrays.
    std::string initial;      ///< The default, as a file has it.
    std::string unit;         ///< ms, rows, ...; empty: none.
    std::string range;        ///< Allowed values, for people; empty: any.
    std::string description;  ///< A sentence without its full stop.
};

/// Reads the variables PAWL_<NAME> that are set; other settings keep their values.
/// @throws SettingsError that names the variable
void read_environment(WorkerSettings& settings);
void read_environment(RowWorkerSettings& settings);
void read_environment(SagaWorkerSettings& settings);
void read_environment(ConductorSettings& settings);

/// Sets one setting by its name.
/// @throws SettingsError
void set(WorkerSettings& settings, const std::string& name, const std::string& value);
void set(RowWorkerSettings& settings, const std::string& name, const std::string& value);
void set(SagaWorkerSettings& settings, const std::string& name, const std::string& value);
void set(ConductorSettings& settings, const std::string& name, const std::string& value);

/// The tables, with the values of `defaults` as defaults.
std::vector<Setting> list_settings(const WorkerSettings& defaults);
std::vector<Setting> list_settings(const RowWorkerSettings& defaults);
std::vector<Setting> list_settings(const SagaWorkerSettings& defaults);
std::vector<Setting> list_settings(const ConductorSettings& defaults);

/// The table in Markdown: a row a setting.
std::string settings_as_markdown(const std::vector<Setting>& settings);

/// The table as a TOML file with all defaults, each with its description as a comment.
std::string settings_as_toml(const std::vector<Setting>& settings);

}  // namespace pawl
