// May throw and may ereport: pawl.define, pawl.check and the renderer behind pawl.diagram.
#include "catalog/catalog.hpp"
#include "catalog/catalog_writer.hpp"
#include "catalog/machine_cache.hpp"
#include "catalog/resolve.hpp"
#include "pg/arguments.hpp"
#include "pg/input.hpp"
#include "pg/spi.hpp"
#include "pg/sqlstate.hpp"
#include "session/rights.hpp"

namespace pawl {

namespace {

constexpr int max_diagram_bytes = 4 * 1024 * 1024;

std::string_view diagram_argument(FunctionCallInfo fcinfo, int n) {
    pg::require(fcinfo, n, "diagram");
    std::string_view diagram = pg::view(pg::text_argument(fcinfo, n));
    if (diagram.size() > max_diagram_bytes)
        throw pg::Failure(ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                          "diagram of " + std::to_string(diagram.size()) + " bytes is too large",
                          "A diagram has at most " + std::to_string(max_diagram_bytes) + " bytes.");
    return diagram;
}

std::string name_of_machine(FunctionCallInfo fcinfo, int n) {
    pg::require(fcinfo, n, "machine");
    std::string name(pg::view(pg::text_argument(fcinfo, n)));
    if (name.empty() || name.size() >= NAMEDATALEN)
        throw pg::Failure(ERRCODE_INVALID_NAME,
                          "the name of a machine must have 1 to " + std::to_string(NAMEDATALEN - 1) + " bytes");
    return name;
}

// Qualifies the names of guards and effects. Those that name no function become notes, or the definition is rejected.
void resolve_functions(bool notes_allowed, std::vector<core::Transition>& transitions) {
    std::string unknown;
    int n = 0;
    for (core::Transition& transition : transitions) {
        auto resolve = [&](std::vector<std::string>& names, const char* before, const char* after) {
            std::vector<std::string> found;
            for (const std::string& name : names) {
                const char* qualified = resolve_function_name(name);
                if (qualified != nullptr) {
                    found.emplace_back(qualified);
                } else if (notes_allowed) {
                    transition.notes.push_back(before + name + after);
                } else if (n++ < 20) {
                    unknown += (unknown.empty() ? "\"" : ", \"") + name + "\" (line " +
                               std::to_string(transition.where.line) + ")";
                }
            }
            names = std::move(found);
        };
        resolve(transition.guards, "[", "]");
        resolve(transition.effects, "/ ", "");
    }
    if (n > 0)
        throw pg::Failure(
            sqlstate::definition_error,
            n == 1 ? "1 guard or effect names no function" : std::to_string(n) + " guards or effects name no function",
            "No function of two arguments has these names: " + unknown + (n > 20 ? ", ..." : "") + ".",
            "Create them as f(old <table>, new <table>), or keep them as notes: "
            "SELECT pawl.define(machine, diagram, unbound => 'note');");
}

void check_intervals(const std::vector<core::Transition>& transitions) {
    for (const core::Transition& transition : transitions) {
        if (transition.after.empty()) continue;
        const char* interval = transition.after.c_str();
        if (!pg::call([&] { return pg::is_interval(interval); }))
            throw core::Error("\"" + transition.after + "\" is not an interval", transition.where, {},
                              "For example: after 30 minutes");
    }
}

core::Machine with_transitions(const core::Machine& machine, std::vector<core::Transition> transitions) {
    core::Machine made;
    for (const core::State& state : machine.states()) made.add(state);
    for (core::Transition& transition : transitions) made.add(std::move(transition));
    made.index();
    return made;
}

// The newest version with its canonical text; version 0 when there is none.
struct Newest {
    const char* machine;
    int version;
    char* diagram;
    char* owner;
};

void visit_version(const CatalogRow& row, void* argument) {
    auto* newest = static_cast<Newest*>(argument);
    const int version = row.integer("version");
    if (version <= newest->version) return;
    newest->version = version;
    newest->diagram = row.string("diagram");
    if (row.has("owner")) newest->owner = row.string("owner");  // not in the SQL objects of an earlier version
}

bool same_functions(const core::Machine& a, const core::Machine& b) {
    if (a.transitions().size() != b.transitions().size()) return false;
    for (std::size_t i = 0; i < a.transitions().size(); ++i) {
        const core::Transition& left = a.transitions()[i];
        const core::Transition& right = b.transitions()[i];
        if (left.guards != right.guards || left.effects != right.effects || left.notes != right.notes) return false;
    }
    return true;
}

// Copies to plain memory, for code that may ereport.
Datum text_datum(const std::string& value) {
    return PointerGetDatum(make_text(value));
}

void insert(SPIPlanPtr plan, Datum* values, const char* nulls) {
    if (SPI_execute_plan(plan, values, nulls, false, 0) != SPI_OK_INSERT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not store a machine")));
}

// A version to be stored.
struct NewVersion {
    const char* name;
    int version;
    text* source;
    text* diagram;
    const char* unbound;
    const char* owner;  // null: the SQL objects are of an earlier version
    const core::Machine* machine;
};

void insert_version(const NewVersion& made) {
    static constexpr Oid types[] = {TEXTOID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID};
    SPIPlanPtr plan =
        made.owner == nullptr
            ? pg::prepare(
                  "INSERT INTO pawl.machine (machine, version, source, diagram, unbound, defined_at, defined_by) "
                  "VALUES ($1, $2, $3, $4, $5, pg_catalog.clock_timestamp(), $6)",
                  6, types)
            : pg::prepare(
                  "INSERT INTO pawl.machine (machine, version, source, diagram, unbound, defined_at, defined_by, "
                  "owner) "
                  "VALUES ($1, $2, $3, $4, $5, pg_catalog.clock_timestamp(), $6, $7)",
                  7, types);
    Datum values[] = {CStringGetTextDatum(made.name),
                      Int32GetDatum(made.version),
                      PointerGetDatum(made.source),
                      PointerGetDatum(made.diagram),
                      CStringGetTextDatum(made.unbound),
                      CStringGetTextDatum(GetUserNameFromId(GetOuterUserId(), false)),
                      made.owner == nullptr ? static_cast<Datum>(0) : CStringGetTextDatum(made.owner)};
    insert(plan, values, nullptr);
}

void insert_states(const char* name, int version, const core::Machine& machine) {
    static constexpr Oid types[] = {TEXTOID, INT4OID, INT4OID, TEXTOID,      TEXTOID,
                                    TEXTOID, BOOLOID, BOOLOID, TEXTARRAYOID, TEXTOID};
    SPIPlanPtr plan = pg::prepare(
        "INSERT INTO pawl.machine_state (machine, version, ordinal, state, kind, parent, initial, terminal, tags, "
        "description) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        10, types);
    int ordinal = 0;
    for (const core::State& state : machine.states()) {
        const char* kind = state.composite ? "composite" : state.kind == core::StateKind::choice ? "choice" : "state";
        const bool top = state.parent == core::no_state;
        Datum values[] = {CStringGetTextDatum(name),
                          Int32GetDatum(version),
                          Int32GetDatum(++ordinal),
                          text_datum(state.name),
                          CStringGetTextDatum(kind),
                          top ? static_cast<Datum>(0) : text_datum(machine.states()[state.parent].name),
                          BoolGetDatum(state.initial),
                          BoolGetDatum(state.terminal),
                          pg::make_text_array(state.tags),
                          text_datum(state.description)};
        const char nulls[] = {
            ' ', ' ', ' ', ' ', ' ', top ? 'n' : ' ', ' ', ' ', ' ', state.description.empty() ? 'n' : ' ', '\0'};
        insert(plan, values, nulls);
    }
}

void insert_transitions(const char* name, int version, const core::Machine& machine) {
    static constexpr Oid types[] = {TEXTOID,      INT4OID,      INT4OID,      TEXTOID, TEXTOID,      TEXTOID,
                                    TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTOID, TEXTARRAYOID, TEXTOID};
    SPIPlanPtr plan = pg::prepare(
        "INSERT INTO pawl.machine_transition (machine, version, ordinal, from_state, to_state, event, params, guards, "
        "effects, after, "
        "notes, drawn_from) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::pg_catalog.interval, $11, $12)",
        12, types);
    int ordinal = 0;
    for (const core::Transition& transition : machine.transitions()) {
        const bool first = transition.from == core::no_state;
        Datum values[] = {CStringGetTextDatum(name),
                          Int32GetDatum(version),
                          Int32GetDatum(++ordinal),
                          first ? static_cast<Datum>(0) : text_datum(machine.states()[transition.from].name),
                          text_datum(machine.states()[transition.to].name),
                          text_datum(transition.event),
                          pg::make_text_array(transition.params),
                          pg::make_text_array(transition.guards),
                          pg::make_text_array(transition.effects),
                          text_datum(transition.after),
                          pg::make_text_array(transition.notes),
                          text_datum(transition.drawn_from)};
        const char nulls[] = {' ', ' ',
                              ' ', first ? 'n' : ' ',
                              ' ', transition.event.empty() ? 'n' : ' ',
                              ' ', ' ',
                              ' ', transition.after.empty() ? 'n' : ' ',
                              ' ', transition.drawn_from.empty() ? 'n' : ' ',
                              '\0'};
        insert(plan, values, nulls);
    }
}

void insert_all(void* argument) {
    const auto& made = *static_cast<const NewVersion*>(argument);
    SPI_connect();
    insert_version(made);
    insert_states(made.name, made.version, *made.machine);
    insert_transitions(made.name, made.version, *made.machine);
    SPI_finish();
}

// A first version requires EXECUTE on pawl.define, and makes the caller its owner; later versions require the owner's
// rights. The catalog is written with the rights of its own owner.
void store(NewVersion made, const Newest& newest) {
    if (get_attnum(catalog_table("machine"), "owner") != InvalidAttrNumber) {
        if (newest.version > 0) require_machine_owner(made.name, newest.owner);
        made.owner = newest.owner != nullptr && OidIsValid(get_role_oid(newest.owner, true))
                         ? newest.owner
                         : GetUserNameFromId(GetUserId(), false);
    }
    with_rights_of(owner_of(catalog_table("machine")), insert_all, &made);
}

Newest lock_and_find(const char* name) {
    Oid table = catalog_table("machine");
    if (!OidIsValid(table))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("extension pawl is not installed"),
                        errhint("CREATE EXTENSION pawl;")));
    LockRelationOid(table, ShareRowExclusiveLock);  // serializes definitions of one name
    Newest newest = {name, 0, nullptr, nullptr};
    scan_versions(name, visit_version, &newest);
    return newest;
}

const char* severity_name(core::Severity severity) {
    return severity == core::Severity::error ? "error" : severity == core::Severity::warning ? "warning" : "info";
}

void return_finding(ReturnSetInfo* result, const core::Finding& finding) {
    const bool placed = finding.where.line > 0;
    Datum values[] = {CStringGetTextDatum(severity_name(finding.severity)), text_datum(finding.code),
                      Int32GetDatum(finding.where.line), Int32GetDatum(finding.where.column),
                      text_datum(finding.message)};
    bool nulls[] = {false, false, !placed, !placed, false};
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

// What a diagram names in vain, or in two ways. A machine without an end, or with a state that nothing enters, may not
// be complete yet, and only pawl.check says so.
bool is_worth_a_warning(const core::Finding& finding) {
    return finding.severity == core::Severity::warning && finding.code != "dead_end" &&
           finding.code != "unreachable_state";
}

void warn(const char* machine, const core::Finding& finding) {
    ereport(WARNING, (errcode(ERRCODE_WARNING), errmsg_internal("%s", finding.message.c_str()),
                      errdetail("Line %d, column %d of the diagram of machine \"%s\".", finding.where.line,
                                finding.where.column, machine)));
}

}  // namespace

PAWL_FUNCTION(pawl_define) {
    const std::string name = name_of_machine(fcinfo, 0);
    const std::string_view source = diagram_argument(fcinfo, 1);
    pg::require(fcinfo, 2, "unbound");
    const std::string unbound(pg::view(pg::text_argument(fcinfo, 2)));
    if (unbound != "reject" && unbound != "note")
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE,
                          "unbound must be \"reject\" or \"note\", not \"" + unbound + "\"");

    const core::Diagram diagram = core::read_mermaid(source);
    const core::Machine compiled = core::compile(diagram);
    std::vector<core::Transition> transitions = compiled.transitions();
    check_intervals(transitions);
    resolve_functions(unbound == "note", transitions);
    const core::Machine machine = with_transitions(compiled, std::move(transitions));
    const std::string canonical = core::write_mermaid(diagram);

    const Newest newest = pg::call([&] { return lock_and_find(name.c_str()); });
    if (newest.version > 0 && canonical == newest.diagram &&
        same_functions(machine, *find_machine(name.c_str(), newest.version)->machine))
        return Int32GetDatum(newest.version);
    const int version = newest.version + 1;
    pg::call([&] {
        store({name.c_str(), version, make_text(source), make_text(canonical), unbound.c_str(), nullptr, &machine},
              newest);
    });
    for (const core::Finding& finding : core::lint(source))
        if (is_worth_a_warning(finding)) pg::call([&] { warn(name.c_str(), finding); });
    return Int32GetDatum(version);
}

PAWL_FUNCTION(pawl_check) {
    const std::vector<core::Finding> findings = core::lint(diagram_argument(fcinfo, 0));
    ReturnSetInfo* result = pg::call([&] { return pg::materialize(fcinfo); });
    for (const core::Finding& finding : findings) pg::call([&] { return_finding(result, finding); });
    return static_cast<Datum>(0);
}

// Renders a stored diagram: 'mermaid' or 'dot'.
PAWL_FUNCTION(pawl_render) {
    const core::Diagram diagram = core::read_mermaid(diagram_argument(fcinfo, 0));
    pg::require(fcinfo, 1, "format");
    const std::string format(pg::view(pg::text_argument(fcinfo, 1)));
    std::string rendered;
    if (format == "mermaid")
        rendered = core::write_mermaid(diagram);
    else if (format == "dot")
        rendered = core::write_dot(diagram, name_of_machine(fcinfo, 2));
    else
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "unknown format \"" + format + "\"", {},
                          "Formats: 'mermaid', 'dot'.");
    return pg::call([&] { return text_datum(rendered); });
}

PAWL_FUNCTION(pawl_creating_extension) {
    return pg::call([&] {
        const char* name = creating_extension ? get_extension_name(CurrentExtensionObject) : nullptr;
        if (name == nullptr) {
            fcinfo->isnull = true;
            return static_cast<Datum>(0);
        }
        auto* result = static_cast<Name>(palloc0(NAMEDATALEN));
        namestrcpy(result, name);
        return NameGetDatum(result);
    });
}

}  // namespace pawl
