// May throw. See plan.hpp.
#include "lifecycle/plan.hpp"

#include <algorithm>

#include "core/diagram.hpp"
#include "lifecycle/binding_plan.hpp"
#include "lifecycle/functions.hpp"
#include "lifecycle/sql_text.hpp"

namespace pawl::cli {
namespace {

void check_functions(const Lifecycle& lifecycle, const Present& present, Plan& plan) {
    if (lifecycle.unbound == "reject")
        for (const auto& [name, where] : missing_functions(lifecycle, present))
            plan.problems.push_back(located(lifecycle.file, where) + "no function \"" + name +
                                    "\" of two arguments: create it as f(old <table>, new <table>), or keep such names "
                                    "as notes by unbound: note");
    if (const auto unfit = present.unfit.find(lifecycle.file); unfit != present.unfit.end())
        for (const std::string& each : unfit->second) plan.problems.push_back(lifecycle.file + ": " + each);
}

std::string count_of(const std::vector<core::Change>& changes, core::ChangeKind kind, bool states) {
    const auto n = std::count_if(changes.begin(), changes.end(), [&](const core::Change& change) {
        return change.kind == kind && change.is_state() == states;
    });
    const std::string noun = states ? "state" : "transition";
    return n == 0 ? "" : std::to_string(n) + " " + noun + (n == 1 ? "" : "s") + " " + std::string(name_of(kind));
}

std::string summary_of(const std::vector<core::Change>& changes) {
    std::string text;
    for (const bool states : {true, false})
        for (const auto kind : {core::ChangeKind::added, core::ChangeKind::changed, core::ChangeKind::removed})
            if (const std::string part = count_of(changes, kind, states); !part.empty())
                text += (text.empty() ? "" : ", ") + part;
    return text.empty() ? "other functions, or another order of the diagram" : text;
}

// Whether pawl.define would make a new version.
bool is_defined(const Lifecycle& lifecycle, const Present& present) {
    const auto machine = present.machines.find(lifecycle.machine);
    return machine != present.machines.end() && machine->second.diagram == core::write_mermaid(lifecycle.diagram) &&
           calls_of(lifecycle, present) == machine->second.calls;
}

void plan_machine(const Lifecycle& lifecycle, const Present& present, Plan& plan) {
    const auto machine = present.machines.find(lifecycle.machine);
    const bool exists = machine != present.machines.end();
    if (exists && !machine->second.mine)
        plan.problems.push_back(lifecycle.file + ": machine \"" + lifecycle.machine + "\" belongs to role \"" +
                                machine->second.owner + "\"");
    MachineChange change{lifecycle.machine, lifecycle.file, exists ? machine->second.version : 0, {}};
    Step step{.what = "define", .title = {}, .details = {}, .sql = {}};
    if (exists) {
        change.changes = core::diff(core::compile(core::read_mermaid(machine->second.diagram)), lifecycle.compiled);
        step.title = "define version " + std::to_string(change.from_version + 1) + " of machine " + lifecycle.machine;
        step.details.push_back(summary_of(change.changes));
    } else {
        step.title = "define machine " + lifecycle.machine;
        step.details.push_back(std::to_string(atomic_states(lifecycle.compiled).size()) + " states, " +
                               std::to_string(lifecycle.compiled.transitions().size()) + " transitions");
    }
    step.sql = "select pawl.define(" + literal(lifecycle.machine) + ", " + dollar_quoted(lifecycle.text) +
               (lifecycle.unbound == "note" ? ", unbound => 'note')" : ")");
    step.locks.push_back({"pawl.machine", "SHARE ROW EXCLUSIVE"});
    plan.machines.push_back(std::move(change));
    plan.steps.push_back(std::move(step));
}

// What other bindings there are: those of these machines that the files no longer name, and those of other machines.
void plan_others(const std::vector<Lifecycle>& lifecycles, const Present& present, Plan& plan) {
    const auto named = [&](const PresentBinding& binding) {
        return std::any_of(present.tables.begin(), present.tables.end(), [&](const auto& table) {
            return table.second.oid == binding.oid && table.first.second == binding.column;
        });
    };
    for (const PresentBinding& binding : present.bindings) {
        if (binding.of_extension || named(binding)) continue;
        const bool ours = std::any_of(lifecycles.begin(), lifecycles.end(),
                                      [&](const Lifecycle& lifecycle) { return lifecycle.machine == binding.machine; });
        if (ours)
            plan_release(binding, "its file does not name the table any more", plan);
        else
            plan.notes.push_back("no file has machine " + binding.machine + ", which is enforced on " + binding.table +
                                 "." + binding.column + ": left as it is");
    }
}

}  // namespace

bool Plan::removes() const {
    return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.removes; });
}

Plan make_plan(pqxx::transaction_base& transaction, std::vector<Lifecycle>& lifecycles) {
    const Present present = read_database(transaction, lifecycles);
    Plan plan;
    plan.database = present.database;
    plan.fingerprint = present.fingerprint();
    std::vector<bool> defined;
    for (const Lifecycle& lifecycle : lifecycles) {
        check_functions(lifecycle, present, plan);
        defined.push_back(is_defined(lifecycle, present));
        if (!defined.back()) plan_machine(lifecycle, present, plan);
    }
    plan_others(lifecycles, present, plan);
    for (std::size_t i = 0; i < lifecycles.size(); ++i) {
        PlanContext context{transaction, lifecycles[i], present, !defined[i], plan};
        for (const TableEntry& entry : lifecycles[i].tables) plan_table(context, entry);
    }
    if (!present.admin && !plan.steps.empty())
        plan.problems.push_back("role \"" + present.role + "\" cannot change lifecycles: grant pawl_admin to " +
                                identifier(present.role));
    return plan;
}

}  // namespace pawl::cli
