// May ereport; owns nothing. See ownership.hpp.
#include "guard/ownership.hpp"

#include "guard/rejection.hpp"
#include "pg/sqlstate.hpp"
#include "session/observer.hpp"

namespace pawl {

namespace {

bool is_text(Oid type) {
    return type == TEXTOID || type == VARCHAROID;
}

Datum column_of(TupleTableSlot* row, const ManagedColumn& column, bool* null) {
    *null = true;
    return column.kept() ? slot_getattr(row, column.attribute, null) : static_cast<Datum>(0);
}

int64 number_in(TupleTableSlot* row, const ManagedColumn& column, int64 otherwise) {
    bool null;
    Datum value = column_of(row, column, &null);
    return null ? otherwise : managed_number(column, value);
}

// Whether the current user is a member of pawl_operator or has the rights of the table's owner.
bool is_operator(const Binding& binding) {
    const Oid role = get_role_oid("pawl_operator", true);
    return (OidIsValid(role) && is_member_of_role(GetUserId(), role)) || pg::owns_relation(binding.root, GetUserId());
}

OwnershipFault owner_fault(const Ownership& ownership) {
    if (!ownership.has_owner) return OwnershipFault::none;
    if (ownership.actor.name == nullptr) return OwnershipFault::no_processor;
    if (!is_named(*ownership.managed, ownership.owner, ownership.actor.name)) return OwnershipFault::not_owner;
    return ownership.has_lease && ownership.lease < ownership.now ? OwnershipFault::expired : OwnershipFault::none;
}

bool expires(const Ownership& ownership, int transition) {
    return (ownership.managed->roles[transition] & role_expires) != 0 && ownership.has_lease &&
           ownership.lease < ownership.now;
}

bool times(const Ownership& ownership, int transition) {
    return (ownership.managed->roles[transition] & role_times) != 0 && ownership.is_due;
}

bool operates(const Binding& binding, const Ownership& ownership, int transition) {
    return (ownership.managed->roles[transition] & role_operates) != 0 && is_operator(binding);
}

// Whether a transition needs no ownership of the row.
bool needs_no_owner(const Binding& binding, const Ownership& ownership, int transition) {
    return expires(ownership, transition) || times(ownership, transition) || operates(binding, ownership, transition);
}

// Whether a transition would leave an owned state while the row has no owner. That is rejected: the actor may be the
// former owner, which has lost the row.
bool leaves_unowned(const Binding& binding, const Ownership& ownership, int transition) {
    const Managed& managed = *ownership.managed;
    const core::Transition& drawn = binding.machine->machine->transitions()[transition];
    return managed.owner.kept() && !ownership.has_owner && !ownership.actor.takes && managed.owned[drawn.from] &&
           !managed.owned[drawn.to] && (managed.roles[transition] & role_expires) == 0 &&
           !needs_no_owner(binding, ownership, transition);
}

// Whether a name is the same UUID, in any of its notations.
bool same_uuid(std::string_view canonical, std::string_view name) {
    std::size_t at = 0;
    for (char each : name) {
        if (each == '-' || each == '{' || each == '}') continue;
        while (at < canonical.size() && canonical[at] == '-') ++at;
        if (at == canonical.size() ||
            pg_tolower(static_cast<unsigned char>(each)) != static_cast<unsigned char>(canonical[at++]))
            return false;
    }
    return at == canonical.size();
}

// What an index of owners can hold.
void require_short(const text* name) {
    constexpr std::size_t most = 1000;
    if (VARSIZE_ANY_EXHDR(name) > most)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("processor must have at most %zu bytes", most),
                        errdetail("It has %zu.", static_cast<std::size_t>(VARSIZE_ANY_EXHDR(name))),
                        errhint("processor => 'name of the worker', or SET pawl.processor = 'name of the worker';")));
}

const text* state_in(const Binding& binding, TupleTableSlot* row) {
    bool null;
    const Datum value = slot_getattr(row, binding.state, &null);
    return state_as_text(binding, value, null);
}

}  // namespace

int64 managed_number(const ManagedColumn& column, Datum value) {
    switch (column.base) {
        case INT2OID:
            return DatumGetInt16(value);
        case INT4OID:
            return DatumGetInt32(value);
        default:
            return DatumGetInt64(value);
    }
}

text* owner_text(const Managed& managed, Datum owner) {
    if (is_text(managed.owner.base)) return DatumGetTextPP(owner);
    Oid output;
    bool varlena;
    getTypeOutputInfo(managed.owner.type, &output, &varlena);
    return cstring_to_text(OidOutputFunctionCall(output, owner));
}

Datum owner_value(const Managed& managed, const text* name) {
    require_short(name);
    if (is_text(managed.owner.type) && managed.owner.modifier < 0) return PointerGetDatum(name);
    Oid input, parameter;
    getTypeInputInfo(managed.owner.type, &input, &parameter);
    return OidInputFunctionCall(input, text_to_cstring(name), parameter, managed.owner.modifier);
}

bool is_named(const Managed& managed, Datum owner, const text* name) {
    const std::string_view owned_by = view(owner_text(managed, owner));
    return managed.owner.base == UUIDOID ? same_uuid(owned_by, view(name)) : owned_by == view(name);
}

Actor acting(const Intent* intent, const Actor& said) {
    Actor actor = said;
    if (intent != nullptr && intent->processor != nullptr) actor.name = intent->processor;
    if (intent != nullptr && intent->has_token) actor = {actor.name, true, intent->token, 0, actor.takes};
    if (intent != nullptr) actor.at = intent->at;
    if (actor.name == nullptr) actor.name = processor_setting();
    if (!actor.has_token && (intent == nullptr || !intent->any_token)) actor.has_token = token_setting(&actor.token);
    return actor;
}

Ownership ownership_of(const Binding& binding, TupleTableSlot* row, const Actor& actor) {
    const Managed& managed = *binding.managed;
    Ownership ownership = {};
    ownership.managed = &managed;
    ownership.actor = actor;
    ownership.moved = GetCurrentTimestamp();
    ownership.now = actor.at != 0 ? actor.at : ownership.moved;
    bool null;
    ownership.owner = column_of(row, managed.owner, &null);
    ownership.has_owner = !null;
    ownership.lease = DatumGetTimestampTz(column_of(row, managed.lease, &null));
    ownership.has_lease = !null;
    const TimestampTz due = DatumGetTimestampTz(column_of(row, managed.due, &null));
    ownership.is_due = !null && due <= ownership.now;
    ownership.token = number_in(row, managed.token, 0);
    ownership.attempts = static_cast<int>(number_in(row, managed.attempts, 0));
    ownership.max_attempts = static_cast<int>(number_in(row, managed.max_attempts, managed.backoff.max_attempts));
    ownership.claim = owner_fault(ownership);
    if (actor.has_token && managed.token.kept() && actor.token != ownership.token)
        ownership.claim = OwnershipFault::stale_token;
    ownership.is_owner = ownership.has_owner && ownership.claim == OwnershipFault::none;
    return ownership;
}

OwnershipFault ownership_fault(const Binding& binding, const Ownership& ownership, int transition) {
    const std::uint8_t role = ownership.managed->roles[transition];
    // A stale token is rejected even if no owner is needed: the statement belongs to a claim that is over.
    if (ownership.claim == OwnershipFault::stale_token) return ownership.claim;
    if (ownership.claim != OwnershipFault::none &&
        !(ownership.has_owner && needs_no_owner(binding, ownership, transition)))
        return ownership.claim;
    if (leaves_unowned(binding, ownership, transition)) return OwnershipFault::unowned;
    if ((role & role_retries) != 0 && ownership.max_attempts > 0 && ownership.attempts >= ownership.max_attempts)
        return OwnershipFault::no_attempts;
    return OwnershipFault::none;
}

bool takes_away(const Binding& binding, const Ownership& ownership, int transition) {
    if (!ownership.has_owner || ownership.is_owner) return false;
    if (expires(ownership, transition) || operates(binding, ownership, transition)) return true;
    return times(ownership, transition) &&
           !ownership.managed->owned[binding.machine->machine->transitions()[transition].to];
}

const char* describe_move(const text* from, const text* to) {
    return psprintf("the transition from %s to %s", quoted_state(from), quoted_state(to));
}

Rejection ownership_rejection(const Binding& binding, TupleTableSlot* row, const Ownership& ownership,
                              OwnershipFault fault, const char* what) {
    const char* machine = binding.machine->name;
    const char* subject = describe_row(binding, row);
    const char* owner =
        ownership.has_owner ? text_to_cstring(owner_text(*ownership.managed, ownership.owner)) : nullptr;
    const char* processor = ownership.actor.name == nullptr ? nullptr : text_to_cstring(ownership.actor.name);
    switch (fault) {
        case OwnershipFault::no_processor:
            return {rejected(sqlstate::not_the_owner, machine),
                    psprintf("%s needs %s", what, owner != nullptr ? "the owner of the row" : "an owner"),
                    owner != nullptr ? psprintf("%s is owned by \"%s\"; no processor is set.", subject, owner)
                                     : psprintf("%s has no owner, and no processor is set.", subject),
                    "SET pawl.processor = 'name of the worker';"};
        case OwnershipFault::unowned:
            return {rejected(sqlstate::not_the_owner, machine), psprintf("%s needs an owner", what),
                    psprintf("%s has no owner.", subject),
                    psprintf("Claim the row first: UPDATE ... SET %s = 'name of the worker' WHERE ...;",
                             quote_identifier(NameStr(ownership.managed->owner.name)))};
        case OwnershipFault::not_owner:
            return {rejected(sqlstate::not_the_owner, machine),
                    psprintf("processor \"%s\" is not the owner of the row", processor),
                    psprintf("%s is owned by \"%s\"; rejected: %s.", subject, owner, what),
                    "Claim other rows with pawl.claim."};
        case OwnershipFault::expired:
            return {rejected(sqlstate::lease_lost, machine),
                    psprintf("the lease of processor \"%s\" has expired", processor),
                    psprintf("%s: the lease expired at %s; rejected: %s.", subject, timestamptz_to_str(ownership.lease),
                             what),
                    "Stop this work. Extend leases in time with pawl.heartbeat, or claim with a longer lease."};
        case OwnershipFault::stale_token:
            return {rejected(sqlstate::lease_lost, machine),
                    psprintf("fencing token " INT64_FORMAT " does not match the row", ownership.actor.token),
                    psprintf("%s has token " INT64_FORMAT "%s; rejected: %s.", subject, ownership.token,
                             owner == nullptr ? " and no owner" : psprintf(" and is owned by \"%s\"", owner), what),
                    "Stop this work: the row was claimed again or released."};
        case OwnershipFault::no_attempts:
            return {rejected(sqlstate::guard_rejected, machine), psprintf("no attempt is left for %s", what),
                    psprintf("%s has made %d of %d attempts.", subject, ownership.attempts, ownership.max_attempts),
                    hint_without_attempt(binding, state_in(binding, row))};
        case OwnershipFault::none:
            break;
    }
    elog(ERROR, "nothing bars %s", what);
}

void reject_ownership(const Binding& binding, TupleTableSlot* row, const Ownership& ownership, OwnershipFault fault,
                      const char* what) {
    raise(binding, ownership_rejection(binding, row, ownership, fault, what));
}

}  // namespace pawl
