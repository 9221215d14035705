#include "settings.hpp"

#include <gtest/gtest.h>

namespace {

using namespace pawl::daemon;

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
    EXPECT_NE(problem_of("batsch = 1").find("no setting \"batsch\"; there are api, api_certificate"),
              std::string::npos);
    EXPECT_NE(problem_of("batch = 1.5").find("line 1: batch must be a whole number"), std::string::npos);
    EXPECT_NE(problem_of("[[duty]]\nname = \"n\"").find("a duty needs a name and its sql"), std::string::npos);
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
    read_environment(settings, [](const char* name) { return std::string(name) == "PAWLD_BATCH" ? "8" : nullptr; });
    EXPECT_EQ(settings.batch, 8);
    EXPECT_EQ(settings.role, "a");
    EXPECT_THROW(read_environment(settings, [](const char*) { return "x"; }), SettingsError);
}

// A value of another type than the setting's is rejected, whichever setting it is.
TEST(Settings, EveryNameHasAType) {
    const std::pair<SettingType, const char*> values[] = {{SettingType::text, "\"?\""},
                                                          {SettingType::number, "123456789012"},
                                                          {SettingType::flag, "true"},
                                                          {SettingType::list, "[\"a\"]"}};
    for (const auto& [name, meaning] : setting_names())
        for (const auto& [type, value] : values)
            if (type != type_of(name)) {
                EXPECT_NE(problem_of(name + " = " + value), "") << name << " = " << value;
            }
}

TEST(Settings, EveryNameIsKnownToSet) {
    for (const auto& [name, meaning] : setting_names()) {
        Settings settings;
        try {
            set(settings, name, "?");
        } catch (const SettingsError& problem) {
            EXPECT_EQ(std::string(problem.what()).find("no setting"), std::string::npos) << name;
        }
        EXPECT_FALSE(meaning.empty());
    }
}

}  // namespace
