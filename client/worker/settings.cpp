// May throw SettingsError. The tables of settings of workers and conductors. A default is the member's own.
#include <pawl/settings.hpp>

#include <cstdlib>

#include "settings_table.hpp"

namespace pawl {
namespace {

using C = ConnectionSettings;
using M = MessageSettings;

// The rows that several tables share. `S` has the members of that name.
template <typename S>
std::vector<SettingRow<S>> connection_rows() {
    return {
        {"database", member<&S::connection, &C::target>, any(), "",
         "libpq connection string or URI; what it leaves out comes from PGHOST, PGDATABASE and so on"},
        {"role", member<&S::connection, &C::role>, any(), "",
         "Role to act as after connecting; empty: that of the login"},
        {"pooler", member<&S::connection, &C::pooler>, one_of({"none", "session", "transaction"}), "",
         "Mode of the connection pooler between the program and the server; with transaction it polls"},
        {"connect_timeout_s", member<&S::connection, &C::connect_timeout>, between(0, 3'600), "s",
         "Longest attempt to connect; 0: libpq's own limit"},
    };
}

template <typename S>
std::vector<SettingRow<S>> poll_rows() {
    return {
        {"lease_ms", member<&S::lease>, between(30, 86'400'000), "ms",
         "Lease time of claimed work; extended every third of it"},
        {"shortest_poll_ms", member<&S::shortest_poll>, between(1, 60'000), "ms",
         "First wait between two polls; doubled by every poll without work"},
        {"longest_poll_ms", member<&S::longest_poll>, between(1, 3'600'000), "ms", "Longest wait between two polls"},
        {"wake", member<&S::wake>, any(), "", "Wait for notifications; false: poll only"},
    };
}

template <typename S>
SettingRow<S> grace_row() {
    return {"grace_ms", member<&S::grace>, between(0, 86'400'000), "ms",
            "After SIGTERM: how long handlers may run before they are asked to stop"};
}

template <typename S>
std::vector<SettingRow<S>> handler_rows() {
    return {
        {"queue", member<&S::queue>, any(), "", "Queue to claim from"},
        {"threads", member<&S::threads>, between(1, 1'000), "threads", "Threads that run handlers"},
        {"batch", member<&S::batch>, between(0, 10'000), "rows", "In-flight rows at once; 0: twice the threads"},
        grace_row<S>(),
    };
}

template <typename S>
std::vector<SettingRow<S>> message_rows() {
    return {
        {"provider", member<&S::messages, &M::provider>, one_of({"database", "pgmq", "rabbitmq"}), "",
         "Queue provider that announces work"},
        {"broker", member<&S::messages, &M::broker>, any(), "",
         "Broker of rabbitmq, like amqp://user:password@host:5672/vhost, or amqps://"},
        {"broker_ca", member<&S::messages, &M::broker_ca>, any(), "",
         "PEM file of the authorities of an amqps broker's certificate; empty: the system's"},
        {"fallback_poll_ms", member<&S::messages, &M::fallback_poll>, between(1, 3'600'000), "ms",
         "Time between two polls while messages come"},
        {"visibility_timeout_s", member<&S::messages, &M::visibility_timeout>, between(1, 86'400), "s",
         "For how long a message of pgmq that was read is hidden from other workers"},
    };
}

template <typename S>
std::vector<SettingRow<S>> all(std::initializer_list<std::vector<SettingRow<S>>> groups) {
    std::vector<SettingRow<S>> rows;
    for (const auto& group : groups) rows.insert(rows.end(), group.begin(), group.end());
    return rows;
}

const auto& table_of(const WorkerSettings&) {
    using S = WorkerSettings;
    static const SettingsTable<S> table(
        "PAWL",
        all<S>({connection_rows<S>(),
                handler_rows<S>(),
                poll_rows<S>(),
                {{"placed", member<&S::placed>, any(), "", "Connect to the database that the queue is in, of several"}},
                {{"orchestrate", member<&S::orchestrate>, any(), "",
                  "Move tasks on after reports, without waiting for pawld"}},
                message_rows<S>()}));
    return table;
}

const auto& table_of(const SagaWorkerSettings&) {
    using S = SagaWorkerSettings;
    static const SettingsTable<S> table(
        "PAWL", all<S>({connection_rows<S>(),
                        handler_rows<S>(),
                        poll_rows<S>(),
                        {{"progress_interval_ms", member<&S::progress_interval>, between(1, 3'600'000), "ms",
                          "Shortest time between two reports of progress"}},
                        message_rows<S>()}));
    return table;
}

const auto& table_of(const RowWorkerSettings&) {
    using S = RowWorkerSettings;
    static const SettingsTable<S> table(
        "PAWL", all<S>({connection_rows<S>(),
                        {{"queue", member<&S::queue>, any(), "", "Queue to claim from; empty: every queue"},
                         {"threads", member<&S::threads>, between(1, 1'000), "threads",
                          "Threads that claim and handle rows, each with a connection of its own"},
                         {"batch", member<&S::batch>, between(1, 10'000), "rows", "Rows that a thread claims at once"},
                         grace_row<S>()},
                        poll_rows<S>()}));
    return table;
}

const auto& table_of(const ConductorSettings&) {
    using S = ConductorSettings;
    static const SettingsTable<S> table(
        "PAWL", all<S>({connection_rows<S>(),
                        {{"board", member<&S::board>, any(), "", "Job board to claim from"},
                         {"jobs", member<&S::jobs>, between(1, 100'000), "jobs", "In-flight jobs at once"},
                         {"tied", member<&S::tied>, any(), "",
                          "Own jobs by the session instead of a lease; not behind a pooler in transaction mode"}},
                        poll_rows<S>()}));
    return table;
}

const char* variable(const char* name) {
    return std::getenv(name);
}

}  // namespace

void read_environment(WorkerSettings& settings) {
    table_of(settings).read_environment(settings, variable);
}
void read_environment(RowWorkerSettings& settings) {
    table_of(settings).read_environment(settings, variable);
}
void read_environment(SagaWorkerSettings& settings) {
    table_of(settings).read_environment(settings, variable);
}
void read_environment(ConductorSettings& settings) {
    table_of(settings).read_environment(settings, variable);
}

void set(WorkerSettings& settings, const std::string& name, const std::string& value) {
    table_of(settings).set(settings, name, value);
}
void set(RowWorkerSettings& settings, const std::string& name, const std::string& value) {
    table_of(settings).set(settings, name, value);
}
void set(SagaWorkerSettings& settings, const std::string& name, const std::string& value) {
    table_of(settings).set(settings, name, value);
}
void set(ConductorSettings& settings, const std::string& name, const std::string& value) {
    table_of(settings).set(settings, name, value);
}

std::vector<Setting> list_settings(const WorkerSettings& defaults) {
    return table_of(defaults).list(defaults);
}
std::vector<Setting> list_settings(const RowWorkerSettings& defaults) {
    return table_of(defaults).list(defaults);
}
std::vector<Setting> list_settings(const SagaWorkerSettings& defaults) {
    return table_of(defaults).list(defaults);
}
std::vector<Setting> list_settings(const ConductorSettings& defaults) {
    return table_of(defaults).list(defaults);
}

}  // namespace pawl
