#include "settings.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace {

using namespace pawl::daemon;
using pawl::SettingsError;

std::string problem_of(const std::string& toml) {
    Settings settings;
    try {
        read_toml(settings, toml, "pawld.toml");
    } catch (const SettingsError& problem) {
        return problem.what();
    }
    return "";
}

TEST(Settings, AFileIsRead) {
    Settings settings;
    read_toml(settings, R"toml(
database = "dbname=shop"
pooler = "transaction"
batch = 100
wake = false
http = "127.0.0.1:9187"
skip = ["prune_events", "reap"]
boards = ["trips", "default"]
[[duty]]
name = "nightly"
sql = "select shop.nightly()"
every_ms = 60000
)toml",
              "pawld.toml");
    EXPECT_EQ(settings.database, "dbname=shop");
    EXPECT_EQ(settings.pooler, pawl::Pooler::transaction);
    EXPECT_EQ(settings.batch, 100);
    EXPECT_FALSE(settings.wake);
    EXPECT_EQ(settings.http, "127.0.0.1:9187");
    EXPECT_EQ(settings.skip, (std::set<std::string>{"prune_events", "reap"}));
    EXPECT_EQ(settings.boards, (std::set<std::string>{"default", "trips"}));
    ASSERT_EQ(settings.duties.size(), 1u);
    EXPECT_EQ(settings.duties[0].name, "nightly");
    EXPECT_EQ(settings.duties[0].every, std::chrono::minutes(1));
}

TEST(Settings, ProblemsNameTheLine) {
    EXPECT_EQ(problem_of("batch = 1\nwake = 3\n"), "pawld.toml, line 2: wake must be true or false");
    EXPECT_EQ(problem_of("\n\nbatch = 0"),
              "pawld.toml, line 3: batch must be a whole number from 1 to 10000, not \"0\"");
    EXPECT_EQ(problem_of("http = \"9187\""), "pawld.toml, line 1: http must be host:port, not \"9187\"");
    EXPECT_EQ(problem_of("http = \"h:99999\"").find("pawld.toml, line 1: http, its port, must be a whole number"), 0u);
    EXPECT_EQ(problem_of("pooler = \"transactions\""),
              "pawld.toml, line 1: pooler must be one of none, session, transaction, not \"transactions\"");
    EXPECT_NE(problem_of("batsch = 1").find("no setting \"batsch\"; there are all_databases, api, api_certificate"),
              std::string::npos);
    EXPECT_NE(problem_of("batch = 1.5").find("line 1: batch must be a whole number"), std::string::npos);
    EXPECT_NE(problem_of("[[duty]]\nname = \"n\"").find("a duty needs a name and its sql"), std::string::npos);
    EXPECT_NE(problem_of("[[duty]]\nevery_ms = 0").find("every_ms must be a whole number from 1"), std::string::npos);
    EXPECT_NE(problem_of("[[duty]]\nwhen = 0").find("a duty has no setting \"when\""), std::string::npos);
    EXPECT_NE(problem_of("duty = 1").find("duties are written as [[duty]]"), std::string::npos);
    EXPECT_NE(problem_of("database = 1").find("database must be text"), std::string::npos);
    EXPECT_NE(problem_of("boards = \"x\"").find("boards must be a list of names"), std::string::npos);
    EXPECT_NE(problem_of("skip = [[[\"x\"]]]").find("skip must be a list of names"), std::string::npos);
    EXPECT_NE(problem_of("skip = [1]").find("skip must be a list of names"), std::string::npos);
    EXPECT_EQ(problem_of("batch = ").find("pawld.toml, line 1: "), 0u);
}

TEST(Settings, TheEnvironmentWinsOverTheFile) {
    Settings settings;
    read_toml(settings, "batch = 7\nrole = \"a\"", "f");
    settings_table().read_environment(
        settings, [](const char* name) { return std::string(name) == "PAWLD_BATCH" ? "8" : nullptr; });
    EXPECT_EQ(settings.batch, 8);
    EXPECT_EQ(settings.role, "a");
    EXPECT_THROW(settings_table().read_environment(settings, [](const char*) { return "x"; }), SettingsError);
}

// A value of another type than the setting's is rejected, whichever setting it is.
TEST(Settings, EveryNameHasAType) {
    const std::pair<const char*, const char*> values[] = {
        {"text", "\"?\""}, {"number", "123456789012"}, {"flag", "true"}, {"list", "[\"a\"]"}};
    for (const pawl::Setting& setting : settings_table().list({}))
        for (const auto& [type, value] : values)
            if (type != setting.type) {
                EXPECT_NE(problem_of(setting.name + " = " + value), "") << setting.name << " = " << value;
            }
}

// What the example file says are the defaults: reading it changes nothing.
TEST(Settings, TheExampleFileHasTheDefaults) {
    Settings settings;
    for (const pawl::Setting& one : settings_table().list({}))
        if (one.type == "number") {
            std::string least = one.range.substr(0, one.range.find(" to "));
            std::erase(least, ',');
            settings_table().set(settings, one.name,
                                 least == one.initial ? std::to_string(std::stoi(least) + 1) : least);
        }
    settings.wake = false;
    settings.pooler = pawl::Pooler::session;
    settings.publish.clear();
    read_toml(settings, example_file(), "pawld.toml");
    const auto defaults = settings_table().list({}), found = settings_table().list(settings);
    for (std::size_t i = 0; i < defaults.size(); ++i)
        EXPECT_EQ(found[i].initial, defaults[i].initial) << defaults[i].name;
    EXPECT_TRUE(settings.duties.empty());
}

// The commented duty is one that can be read.
TEST(Settings, TheExampleDutyIsOne) {
    std::string file = example_file();
    file = file.substr(file.find("# [[duty]]"));
    file.erase(0, 2);
    for (std::size_t at = 0; (at = file.find("\n# ", at)) != std::string::npos;) file.erase(at + 1, 2);
    Settings settings;
    read_toml(settings, file, "pawld.toml");
    ASSERT_EQ(settings.duties.size(), 1u);
    EXPECT_EQ(settings.duties[0].every, std::chrono::seconds(1));
}

// A bound that is said is one that is held.
template <typename Some>
void rejects_what_is_out_of_range(const std::vector<pawl::Setting>& all, Some&& set) {
    for (const pawl::Setting& one : all) {
        EXPECT_FALSE(one.description.empty()) << one.name;
        EXPECT_NE(one.description.back(), '.') << one.name;
        EXPECT_EQ(one.type == "number", !one.unit.empty()) << one.name;
        if (one.type == "number") {
            const auto split = one.range.find(" to ");
            ASSERT_NE(split, std::string::npos) << one.name;
            std::string most = one.range.substr(split + 4);
            std::erase(most, ',');
            EXPECT_NO_THROW(set(one.name, most)) << one.name;
            EXPECT_THROW(set(one.name, std::to_string(std::stoi(most) + 1)), SettingsError) << one.name;
            EXPECT_THROW(set(one.name, "-1"), SettingsError) << one.name;
            EXPECT_THROW(set(one.name, ""), SettingsError) << one.name;
        } else if (one.type == "flag") {
            EXPECT_THROW(set(one.name, "maybe"), SettingsError) << one.name;
        } else if (!one.range.empty()) {
            EXPECT_THROW(set(one.name, "?"), SettingsError) << one.name;
        }
    }
}

template <typename Some>
void table_holds() {
    Some settings;
    rejects_what_is_out_of_range(pawl::list_settings(settings), [&](const std::string& name, const std::string& value) {
        pawl::set(settings, name, value);
    });
    EXPECT_THROW(pawl::set(settings, "batsch", "1"), SettingsError);
}

TEST(Settings, RangesAreHeld) {
    Settings settings;
    rejects_what_is_out_of_range(settings_table().list({}), [&](const std::string& name, const std::string& value) {
        settings_table().set(settings, name, value);
    });
    table_holds<pawl::WorkerSettings>();
    table_holds<pawl::RowWorkerSettings>();
    table_holds<pawl::SagaWorkerSettings>();
    table_holds<pawl::ConductorSettings>();
}

TEST(Settings, AWorkerIsConfiguredByItsEnvironment) {
    ::setenv("PAWL_QUEUE", "billing", 1);
    ::setenv("PAWL_LEASE_MS", "90000", 1);
    ::setenv("PAWL_POOLER", "session", 1);
    pawl::WorkerSettings settings{.threads = 7};
    pawl::read_environment(settings);
    EXPECT_EQ(settings.queue, "billing");
    EXPECT_EQ(settings.lease, std::chrono::seconds(90));
    EXPECT_EQ(settings.connection.pooler, pawl::Pooler::session);
    EXPECT_EQ(settings.threads, 7);
    ::setenv("PAWL_LEASE_MS", "soon", 1);
    try {
        pawl::read_environment(settings);
        ADD_FAILURE() << "a word is no time";
    } catch (const SettingsError& problem) {
        EXPECT_EQ(std::string(problem.what()).find("PAWL_LEASE_MS: lease_ms must be a whole number"), 0u)
            << problem.what();
    }
    for (const char* name : {"PAWL_QUEUE", "PAWL_LEASE_MS", "PAWL_POOLER"}) ::unsetenv(name);
}

}  // namespace
