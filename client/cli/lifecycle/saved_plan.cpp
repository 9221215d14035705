// May throw. See saved_plan.hpp.
#include "lifecycle/saved_plan.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include <pawl/errors.hpp>

#include "json_text.hpp"

namespace pawl::cli {
namespace {

constexpr int format = 1;

}  // namespace

void save_plan(const std::string& file, const Plan& plan, const std::vector<Lifecycle>& lifecycles) {
    Json saved = {{"pawl_plan", format}};
    saved.update(plan_json(plan));
    saved["files"] = Json::array();
    for (const Lifecycle& lifecycle : lifecycles)
        saved["files"].push_back(Json{{"name", lifecycle.file}, {"text", lifecycle.text}});
    const std::string beside = file + ".new";
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out << saved.dump(2) << '\n';
    out.close();
    if (!out || std::rename(beside.c_str(), file.c_str()) != 0) {
        const std::string problem = std::strerror(errno);
        std::remove(beside.c_str());
        throw FileError(file, {}, "cannot be written: " + problem);
    }
}

SavedPlan load_plan(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) throw FileError(file, {}, "cannot be read");
    SavedPlan plan;
    try {
        const nlohmann::json saved = parse_json(text);
        if (saved.at("pawl_plan") != format) throw FileError(file, {}, "is a plan of another version of pawl");
        plan.fingerprint = saved.at("fingerprint").get<std::string>();
        for (const auto& step : saved.at("steps")) plan.statements.push_back(step.at("sql").get<std::string>());
        for (const auto& each : saved.at("files"))
            plan.lifecycles.push_back(
                read_lifecycle(each.at("name").get<std::string>(), each.at("text").get<std::string>()));
    } catch (const nlohmann::json::exception&) {
        throw FileError(file, {}, "is no plan that pawl plan --out saved");
    } catch (const Error&) {
        throw FileError(file, {}, "is no plan that pawl plan --out saved");
    }
    check_together(plan.lifecycles);
    return plan;
}

}  // namespace pawl::cli
