// May throw and may ereport. See machine_cache.hpp.
#include "catalog/machine_cache.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include "catalog/catalog.hpp"
#include "pg/bridge.hpp"
#include "pg/sqlstate.hpp"

namespace pawl {

namespace {

BoundMachine* machines = nullptr;

// The rows of a machine in plain memory: collected by code that may ereport, consumed by code that may throw.
struct StateRow {
    int ordinal;
    char* state;
    char* kind;
    char* parent;
    bool initial;
    bool terminal;
    char** tags;
    int ntags;
    char* description;
};

struct TransitionRow {
    int ordinal;
    char* from;
    char* to;
    char* event;
    char* after;
    char* drawn_from;
    char** params;
    int nparams;
    char** guards;
    int nguards;
    char** effects;
    int neffects;
    char** notes;
    int nnotes;
};

template <typename Row>
struct Rows {
    Row* items = nullptr;
    int n = 0;
    int room = 0;

    Row& append() {
        if (n == room) {
            room = room == 0 ? 64 : room * 2;
            items = static_cast<Row*>(items == nullptr ? palloc(sizeof(Row) * room)
                                                       : repalloc_huge(items, sizeof(Row) * room));
        }
        return items[n++];
    }
};

void visit_state(const CatalogRow& row, void* argument) {
    StateRow& state = static_cast<Rows<StateRow>*>(argument)->append();
    state.ordinal = row.integer("ordinal");
    state.state = row.required("state");
    state.kind = row.required("kind");
    state.parent = row.string("parent");
    state.initial = row.boolean("initial");
    state.terminal = row.boolean("terminal");
    state.tags = row.strings("tags", &state.ntags);
    state.description = row.string("description");
}

void visit_transition(const CatalogRow& row, void* argument) {
    TransitionRow& transition = static_cast<Rows<TransitionRow>*>(argument)->append();
    transition.ordinal = row.integer("ordinal");
    transition.from = row.string("from_state");
    transition.to = row.required("to_state");
    transition.event = row.string("event");
    transition.after = row.interval("after");
    transition.drawn_from = row.string("drawn_from");
    transition.params = row.strings("params", &transition.nparams);
    transition.guards = row.strings("guards", &transition.nguards);
    transition.effects = row.strings("effects", &transition.neffects);
    transition.notes = row.strings("notes", &transition.nnotes);
}

std::string string_of(const char* value) {
    return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::string> strings_of(char** values, int n) {
    return std::vector<std::string>(values, values + n);
}

// The number of a state in diagram order; it may be lower than that of its composite, if the diagram names it first.
core::StateId id_of(const Rows<StateRow>& states, const char* name) {
    for (int i = 0; name != nullptr && i < states.n; ++i)
        if (std::string_view(states.items[i].state) == name) return static_cast<core::StateId>(i);
    return core::no_state;
}

// How many composites contain a state; more than there are states: it is inside itself.
int depth_of(const Rows<StateRow>& states, const char* parent) {
    int depth = 0;
    for (core::StateId at = id_of(states, parent); at != core::no_state && depth <= states.n; ++depth)
        at = id_of(states, states.items[at].parent);
    return depth;
}

// Describes what is wrong with a row of pawl.machine_state; empty if nothing is.
std::string problem_of(const Rows<StateRow>& states, const StateRow& row) {
    const std::string_view kind = row.kind;
    const std::string state = "State \"" + string_of(row.state) + "\"";
    const core::StateId parent = id_of(states, row.parent);
    if (kind != "state" && kind != "composite" && kind != "choice")
        return state + " is of an unknown kind, \"" + row.kind + "\".";
    if (row.parent != nullptr &&
        (parent == core::no_state || std::string_view(states.items[parent].kind) != "composite"))
        return state + " is inside \"" + row.parent + "\", which is not a composite state.";
    if (depth_of(states, row.parent) > states.n) return state + " is inside itself.";
    if ((row.initial || row.terminal) && kind != "state")
        return state + " is initial or terminal, and no row can be in it.";
    return {};
}

core::State read_state(const Rows<StateRow>& states, const StateRow& row) {
    core::State state;
    state.name = string_of(row.state);
    const std::string_view kind = row.kind;
    state.kind = kind == "choice" ? core::StateKind::choice : core::StateKind::state;
    state.composite = kind == "composite";
    state.parent = id_of(states, row.parent);
    state.initial = row.initial;
    state.terminal = row.terminal;
    state.tags = strings_of(row.tags, row.ntags);
    state.description = string_of(row.description);
    return state;
}

// Describes what is wrong with a row of pawl.machine_transition; empty if nothing is.
std::string problem_of(const core::Machine& machine, const TransitionRow& row) {
    for (const char* end : {row.from, row.to})
        if (end != nullptr && machine.find(end) == core::no_state)
            return "Transition " + std::to_string(row.ordinal) + " names \"" + end +
                   "\", which is not a state that a row can be in.";
    return {};
}

core::Transition read_transition(const core::Machine& machine, const TransitionRow& row) {
    core::Transition transition;
    transition.from = row.from == nullptr ? core::no_state : machine.find(row.from);
    transition.to = machine.find(row.to);
    transition.event = string_of(row.event);
    transition.params = strings_of(row.params, row.nparams);
    transition.guards = strings_of(row.guards, row.nguards);
    transition.effects = strings_of(row.effects, row.neffects);
    transition.notes = strings_of(row.notes, row.nnotes);
    transition.after = string_of(row.after);
    transition.drawn_from = string_of(row.drawn_from);
    return transition;
}

std::unique_ptr<core::Machine> build(const char* name, int version, Rows<StateRow>& states,
                                     Rows<TransitionRow>& transitions) {
    auto check = [&](const std::string& problem) {
        if (problem.empty()) return;
        throw pg::Failure(
            ERRCODE_DATA_CORRUPTED, "version " + std::to_string(version) + " of machine \"" + name + "\" is damaged",
            problem,
            "SELECT * FROM pawl.health(); restore its rows of pawl.machine_state and pawl.machine_transition, or "
            "SELECT pawl.define(...) the next version and pawl.upgrade.");
    };
    auto machine = std::make_unique<core::Machine>();
    auto by_ordinal = [](const auto& a, const auto& b) { return a.ordinal < b.ordinal; };
    std::sort(states.items, states.items + states.n, by_ordinal);
    std::sort(transitions.items, transitions.items + transitions.n, by_ordinal);
    std::set<std::string_view> names;
    for (int i = 0; i < states.n; ++i) {
        const StateRow& row = states.items[i];
        if (!names.insert(row.state).second) check("State \"" + string_of(row.state) + "\" is stored twice.");
        check(problem_of(states, row));
        machine->add(read_state(states, row));
    }
    machine->index();
    for (int i = 0; i < transitions.n; ++i) {
        check(problem_of(*machine, transitions.items[i]));
        machine->add(read_transition(*machine, transitions.items[i]));
    }
    machine->index();
    return machine;
}

void delete_machine(void* machine) {
    delete static_cast<core::Machine*>(machine);
}

// Attaches the C++ object to a new memory context, which deletes it, and adds the names as texts.
BoundMachine* keep_in_memory(const char* name, int version, core::Machine* machine) {
    // A child of the caller's context until it is complete, so that an error frees it.
    MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "pawl machine", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    auto* bound = static_cast<BoundMachine*>(palloc0(sizeof(BoundMachine)));
    auto* callback = static_cast<MemoryContextCallback*>(palloc0(sizeof(MemoryContextCallback)));
    bound->context = context;
    bound->name = pstrdup(name);
    bound->version = version;
    bound->state_text = static_cast<text**>(palloc0(sizeof(text*) * Max(machine->states().size(), 1)));
    bound->event_text = static_cast<text**>(palloc0(sizeof(text*) * Max(machine->transitions().size(), 1)));
    for (std::size_t i = 0; i < machine->states().size(); ++i)
        bound->state_text[i] = make_text(machine->states()[i].name);
    for (std::size_t i = 0; i < machine->transitions().size(); ++i)
        if (!machine->transitions()[i].event.empty()) bound->event_text[i] = make_text(machine->transitions()[i].event);
    callback->func = delete_machine;
    callback->arg = machine;
    MemoryContextRegisterResetCallback(context, callback);
    bound->machine = machine;
    MemoryContextSwitchTo(caller);
    MemoryContextSetParent(context, TopMemoryContext);
    return bound;
}

}  // namespace

BoundMachine* find_machine(const char* name, int version) {
    for (BoundMachine* bound = machines; bound != nullptr; bound = bound->next)
        if (!bound->stale && bound->version == version && strcmp(bound->name, name) == 0) return bound;

    Rows<StateRow> states;
    Rows<TransitionRow> transitions;
    pg::call([&] {
        scan_machine("machine_state", name, version, visit_state, &states);
        scan_machine("machine_transition", name, version, visit_transition, &transitions);
    });
    if (states.n == 0 || transitions.n > static_cast<int>(core::max_transitions))
        throw pg::Failure(sqlstate::unknown_object,
                          "machine \"" + std::string(name) + "\" has no version " + std::to_string(version), {},
                          "SELECT machine, version FROM pawl.machine;");

    std::unique_ptr<core::Machine> machine = build(name, version, states, transitions);
    BoundMachine* bound = pg::call([&] { return keep_in_memory(name, version, machine.get()); });
    machine.release();  // the memory context deletes it from now on
    bound->next = machines;
    machines = bound;
    return bound;
}

void forget_machines() noexcept {
    for (BoundMachine* bound = machines; bound != nullptr; bound = bound->next) bound->stale = true;
}

void free_stale_machines() noexcept {
    for (BoundMachine** link = &machines; *link != nullptr;) {
        BoundMachine* bound = *link;
        if (bound->stale) {
            *link = bound->next;
            MemoryContextDelete(bound->context);
        } else {
            link = &bound->next;
        }
    }
}

}  // namespace pawl
