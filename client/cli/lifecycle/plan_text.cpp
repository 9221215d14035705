// May throw. See plan.hpp: a plan for people, and as JSON.
#include <algorithm>

#include "lifecycle/change_text.hpp"
#include "lifecycle/plan.hpp"
#include "terminal_text.hpp"

namespace pawl::cli {
namespace {

std::string times(std::size_t n, const std::string& noun) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

class PlanText {
public:
    PlanText(const Plan& plan, bool colours) : plan_(plan), paint_{colours} {}

    std::string write();

private:
    void line(const std::string& text) { out_ += text + '\n'; }
    void write_machine(const MachineChange& change);
    void write_step(std::size_t number, const Step& step);
    void write_list(const std::string& title, const std::vector<std::string>& items, Colour colour);
    void write_end();

    const Plan& plan_;
    Paint paint_;
    std::string out_;
};

void PlanText::write_machine(const MachineChange& change) {
    const std::string versions = change.from_version == 0 ? "new"
                                                          : "version " + std::to_string(change.from_version) + " -> " +
                                                                std::to_string(change.from_version + 1);
    line(paint_("machine " + one_line(change.machine), Colour::bold) + "  " + versions + "  " +
         paint_(one_line(change.file), Colour::faint));
    out_ += changes_text(change.changes, paint_, "  ");
    line("");
}

void PlanText::write_step(std::size_t number, const Step& step) {
    line(paint_(std::to_string(number) + ". " + (step.removes ? "- " : "") + one_line(step.title),
                step.removes ? Colour::red : Colour::bold));
    for (const std::string& detail : step.details) line("     " + one_line(detail));
    std::string locks;
    for (const Lock& lock : step.locks) locks += (locks.empty() ? "locks " : ", ") + lock.table + " " + lock.mode;
    if (step.reads_table) locks += (locks.empty() ? "" : "; ") + std::string("reads the table");
    if (!locks.empty()) line("     " + paint_(one_line(locks), Colour::faint));
}

void PlanText::write_list(const std::string& title, const std::vector<std::string>& items, Colour colour) {
    if (items.empty()) return;
    line("");
    line(paint_(title, colour));
    for (const std::string& item : items) line("  - " + without_controls(item));
}

void PlanText::write_end() {
    line("");
    if (!plan_.problems.empty())
        line(paint_(times(plan_.problems.size(), "problem") + ": nothing can be applied.", Colour::red));
    else if (plan_.steps.empty())
        line(paint_("Nothing to do.", Colour::green) + " " + times(plan_.in_place.size(), "binding") +
             (plan_.in_place.size() == 1 ? " is" : " are") + " as in the files.");
    else
        line(times(plan_.steps.size(), "step") + " in one transaction" +
             (plan_.removes() ? ", where - takes something away: pawl apply asks, or give --yes." : "."));
}

std::string PlanText::write() {
    line(paint_("Plan for database " + one_line(plan_.database), Colour::bold));
    line("");
    for (const MachineChange& change : plan_.machines) write_machine(change);
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) write_step(i + 1, plan_.steps[i]);
    write_list("Notes", plan_.notes, Colour::bold);
    write_list("Problems", plan_.problems, Colour::red);
    write_end();
    return out_;
}

Json json_of_step(const Step& step) {
    Json locks = Json::array();
    for (const Lock& lock : step.locks) locks.push_back({{"table", lock.table}, {"mode", lock.mode}});
    return {{"what", step.what},
            {"title", step.title},
            {"details", step.details},
            {"locks", locks},
            {"reads_table", step.reads_table},
            {"removes", step.removes},
            {"sql", step.sql}};
}

}  // namespace

std::string plan_text(const Plan& plan, bool colours) {
    return PlanText(plan, colours).write();
}

Json plan_json(const Plan& plan) {
    Json machines = Json::array(), steps = Json::array();
    for (const MachineChange& change : plan.machines) {
        Json one = {{"machine", change.machine}, {"file", change.file}};
        one["from_version"] = change.from_version == 0 ? Json() : Json(change.from_version);
        one["changes"] = changes_json(change.changes);
        machines.push_back(std::move(one));
    }
    for (const Step& step : plan.steps) steps.push_back(json_of_step(step));
    return {{"database", plan.database}, {"fingerprint", plan.fingerprint},
            {"machines", machines},      {"steps", steps},
            {"problems", plan.problems}, {"notes", plan.notes},
            {"in_place", plan.in_place}};
}

}  // namespace pawl::cli
