#include "wfformat.hpp"

#include <fstream>

#include <gtest/gtest.h>

namespace {

using namespace pawl::cli;
using nlohmann::json;

json workflow(json tasks, json runs = json::array()) {
    return {
        {"name", "w"},
        {"workflow", {{"specification", {{"tasks", std::move(tasks)}}}, {"execution", {{"tasks", std::move(runs)}}}}}};
}

TEST(WfFormat, ADependencyCountsOnceWhicheverEndNamesIt) {
    const json made = import_wfformat(
        workflow(
            {{{"id", "a"}, {"children", {"b"}}}, {{"id", "b"}, {"parents", {"a"}}}, {{"id", "c"}, {"parents", {"b"}}}},
            {{{"id", "a"}, {"runtimeInSeconds", 2.5}}, {{"id", "c"}, {"runtimeInSeconds", 1}}}),
        {});
    ASSERT_EQ(made["steps"].size(), 3u);
    EXPECT_EQ(made["steps"][0]["dependencies"], json::array());
    EXPECT_EQ(made["steps"][1]["dependencies"], json::array({"a"}));
    EXPECT_EQ(made["steps"][2]["dependencies"], json::array({"b"}));
    EXPECT_EQ(made["steps"][0]["handler_options"]["seconds"], 2.5);
    EXPECT_DOUBLE_EQ(critical_path(made), 3.5);
    EXPECT_DOUBLE_EQ(made["metadata"]["work_seconds"], 3.5);
    EXPECT_DOUBLE_EQ(made["metadata"]["critical_path_seconds"], 3.5);
    EXPECT_FALSE(made["metadata"].contains("makespan_seconds"));
}

TEST(WfFormat, Montage) {
    std::ifstream in(PAWL_ROOT "/examples/workflows/montage.json");
    const json file = json::parse(in);
    const json made = import_wfformat(file, {.name = "sky"});
    EXPECT_EQ(made["name"], "sky");
    EXPECT_EQ(made["steps"].size(), 103u);
    std::size_t dependencies = 0, written = 0;
    for (const json& step : made["steps"]) dependencies += step["dependencies"].size();
    for (const json& task : file["workflow"]["specification"]["tasks"]) written += task["parents"].size();
    EXPECT_EQ(dependencies, written);
    EXPECT_GT(critical_path(made), 0);
    EXPECT_EQ(made["metadata"]["makespan_seconds"], 1362.0);
    EXPECT_LE(critical_path(made), file["workflow"]["execution"]["makespanInSeconds"].get<double>());
}

TEST(WfFormat, InvalidFilesAreRejected) {
    const auto reject = [](const json& file) { EXPECT_THROW(import_wfformat(file, {}), WfFormatError) << file; };
    for (const char* text :
         {"{}", "[]", "1", "null", R"({"workflow":1})", R"({"workflow":{"specification":{"tasks":[1]}}})"})
        reject(json::parse(text));
    reject(workflow({{{"id", "a"}, {"parents", {"missing"}}}}));
    reject(workflow({{{"id", "a"}}, {{"id", "a"}}}));
    reject(workflow({{{"id", 1}}}));
}

}  // namespace
