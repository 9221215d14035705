// May throw and may ereport: pawl.place, which puts one row into a state without a transition.
#include "fire/destination.hpp"
#include "pg/sqlstate.hpp"
#include "session/rights.hpp"
#include "work/duty.hpp"

#include <algorithm>

extern "C" {
#include "miscadmin.h"
}

namespace pawl {

namespace {

void require_owner(const Target& target, Oid role) {
    const Oid root = target.binding->root;
    if (pg::owns_relation(root, role)) return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("must be owner of table %s", target.table),
                    errdetail("Role \"%s\" is not a member of role \"%s\".", GetUserNameFromId(role, false),
                              GetUserNameFromId(owner_of(root), false)),
                    errhint("grant %s to %s", quote_identifier(GetUserNameFromId(owner_of(root), false)),
                            quote_identifier(GetUserNameFromId(role, false)))));
}

void require_admin(Oid role) {
    if (has_privs_of_role(role, get_role_oid("pawl_admin", false))) return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("must be member of role \"pawl_admin\""),
                    errdetail("Role \"%s\" is not.", GetUserNameFromId(role, false)),
                    errhint("grant pawl_admin to %s", quote_identifier(GetUserNameFromId(role, false)))));
}

// Also of the role around all SECURITY DEFINER functions: one that calls pawl.place does not lend the right to it.
void require_rights(const Target& target) {
    pg::call([&] {
        for (Oid role : {GetUserId(), GetOuterUserId()}) {
            require_owner(target, role);
            require_admin(role);
        }
    });
}

void require_placing(const Target& target) {
    const Binding& binding = *target.binding;
    const std::string column = NameStr(binding.column);
    const std::string table = target.table;
    const std::string arguments = pg::call([&] {
        return psprintf("%s, state_column => %s", quote_literal_cstr(target.table),
                        quote_literal_cstr(NameStr(binding.column)));
    });
    if (!binding.placing)
        throw pg::Failure(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "rows of table " + table + " cannot be placed",
                          "The binding of column \"" + column + "\" does not allow it.",
                          "select pawl.set_placing(" + arguments + ")", place_of(binding));
    if (!OidIsValid(binding.log.table))
        throw pg::Failure(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "table " + table + " has no log of column \"" + column + "\"",
            "A placed row is marked in the log.", "select pawl.enable_log(" + arguments + ")", place_of(binding));
}

core::StateId state_argument(const Target& target, const text* state) {
    const BoundMachine& machine = *target.binding->machine;
    const core::StateId found = machine.machine->find(view(state));
    if (found != core::no_state && machine.machine->states()[found].kind == core::StateKind::state &&
        !machine.machine->states()[found].composite)
        return found;
    throw pg::Failure(sqlstate::unknown_object,
                      "machine \"" + std::string(machine.name) + "\" has no state \"" + std::string(view(state)) + "\"",
                      {}, "SELECT state FROM pawl.states('" + std::string(machine.name) + "') WHERE kind = 'state';",
                      place_of(*target.binding));
}

bool is_blank(const text* given) {
    return view(given).find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

// An owned state needs an owner and, if the table has a column for it, a lease; another state has neither.
void check_ownership(const Target& target, core::StateId to, const text* owner, const Interval* lease) {
    const Binding& binding = *target.binding;
    const core::State& state = binding.machine->machine->states()[to];
    const std::string name(state.name);
    if (std::find(state.tags.begin(), state.tags.end(), "owned") == state.tags.end()) {
        if (owner != nullptr || lease != nullptr)
            throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "state \"" + name + "\" is not owned",
                              "owner and lease are for states with the tag owned.", "Leave owner and lease out.",
                              place_of(binding));
        return;
    }
    if (binding.managed == nullptr || !binding.managed->owner.kept())
        throw pg::Failure(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "table " + std::string(target.table) + " has no owner column",
            "State \"" + name + "\" is owned.", "Name the columns of the owner: pawl.enable_queue.", place_of(binding));
    if (owner == nullptr || is_blank(owner))
        throw pg::Failure(ERRCODE_NULL_VALUE_NOT_ALLOWED, "owned state \"" + name + "\" needs an owner", {},
                          "owner => 'name of the worker', lease => '60 s'", place_of(binding));
    if (binding.managed->lease.kept() && lease == nullptr)
        throw pg::Failure(ERRCODE_NULL_VALUE_NOT_ALLOWED, "owned state \"" + name + "\" needs a lease", {},
                          "owner => 'name of the worker', lease => '60 s'", place_of(binding));
    if (!binding.managed->lease.kept() && lease != nullptr)
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE,
                          "table " + std::string(target.table) + " has no lease column", {}, "Leave lease out.",
                          place_of(binding));
}

}  // namespace

PAWL_FUNCTION(pawl_place) {
    pg::require(fcinfo, 0, "relation");
    pg::require(fcinfo, 1, "key");
    pg::require(fcinfo, 2, "state");
    pg::require(fcinfo, 3, "reason");
    const Target target = open_target(PG_GETARG_OID(0), pg::name_argument(fcinfo, 6));
    require_one_node(target, "pawl.place");
    const Binding& binding = *target.binding;
    require_rights(target);
    require_placing(target);
    text* reason = pg::text_argument(fcinfo, 3);
    if (is_blank(reason))
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "reason must not be empty",
                          "The log says why a row was placed.", "reason => 'fixture of test 17'", place_of(binding));
    const core::StateId to = state_argument(target, pg::text_argument(fcinfo, 2));
    text* owner = PG_ARGISNULL(4) ? nullptr : pg::text_argument(fcinfo, 4);
    const Interval* lease = lease_argument(fcinfo, 5);
    check_ownership(target, to, owner, lease);
    const Datum* key = read_key(binding, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1));

    text* state = binding.machine->state_text[to];
    Placement placement = {reason, state, 0};
    Intent intent = {};
    intent.root = binding.root;
    intent.column = NameStr(binding.column);
    intent.remap = true;
    intent.placement = &placement;
    intent.processor = owner;
    intent.lease = lease;
    pg::call([&] {
        SPI_connect();
        if (find_row(target, key, true).tuple == nullptr) no_such_row(target, key);
    });

    IntentScope scope(intent);
    return pg::call([&] {
        if (move_row(target, key, state) == 0)
            ereport(ERROR,
                    (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION), errmsg("the row of %s was not placed", target.table),
                     errdetail("A trigger, a rule or a row security policy of the table suppressed the update.")));
        if (placement.entries == 0)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("the log of table %s got no entry of the placed row", target.table),
                            errdetail("The triggers of the binding did not fire, or the statement that calls the "
                                      "function has changed the row."),
                            errhint("SELECT * FROM pawl.health();")));
        SPI_finish();
        close_target(target);
        return PointerGetDatum(DatumGetTextPCopy(PointerGetDatum(state)));
    });
}

}  // namespace pawl
