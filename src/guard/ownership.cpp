// May ereport; owns nothing. See ownership.hpp.
#include "guard/ownership.hpp"

#include "session/observer.hpp"
#include "pg/sqlstate.hpp"
#include "guard/refusal.hpp"

namespace pawl {

namespace {

bool is_text(Oid type) { return type == TEXTOID || type == VARCHAROID; }

Datum column_of(TupleTableSlot* row, const ManagedColumn& column, bool* null) {
    *null = true;
    return column.kept() ? slot_getattr(row, column.attribute, null) : static_cast<Datum>(0);
}

int64 number_in(TupleTableSlot* row, const ManagedColumn& column, int64 otherwise) {
    bool null;
    Datum value = column_of(row, column, &null);
    return null ? otherwise : managed_number(column, value);
}

// An operator's rights: of the role pawl_operator, or of the table's owner.
bool is_operator(const Attachment& attachment) {
    const Oid role = get_role_oid("pawl_operator", true);
    return (OidIsValid(role) && is_member_of_role(GetUserId(), role)) || pg::owns_relation(attachment.root, GetUserId());
}

Bar owner_bar(const Standing& standing) {
    if (!standing.has_owner) return Bar::none;
    if (standing.actor.name == nullptr) return Bar::nobody;
    if (!is_named(*standing.managed, standing.owner, standing.actor.name)) return Bar::stranger;
    return standing.has_lease && standing.lease < standing.now ? Bar::lapsed : Bar::none;
}

bool lapses(const Standing& standing, int arrow) {
    return (standing.managed->roles[arrow] & arrow_lapses) != 0 && standing.has_lease && standing.lease < standing.now;
}

bool times(const Standing& standing, int arrow) { return (standing.managed->roles[arrow] & arrow_times) != 0 && standing.is_due; }

bool operates(const Attachment& attachment, const Standing& standing, int arrow) {
    return (standing.managed->roles[arrow] & arrow_operates) != 0 && is_operator(attachment);
}

// Whether an arrow may be taken by anybody, whoever owns the row.
bool needs_no_owner(const Attachment& attachment, const Standing& standing, int arrow) {
    return lapses(standing, arrow) || times(standing, arrow) || operates(attachment, standing, arrow);
}

// A row that nobody owns in a state that is owned must be taken before its work can be said to be done: whoever moves it without may
// be one who has lost it.
bool leaves_unowned(const Attachment& attachment, const Standing& standing, int arrow) {
    const Managed& managed = *standing.managed;
    const core::Arrow& drawn = attachment.machine->machine->arrows()[arrow];
    return managed.owner.kept() && !standing.has_owner && !standing.actor.takes && managed.owned[drawn.from] && !managed.owned[drawn.to] &&
           (managed.roles[arrow] & arrow_lapses) == 0 && !needs_no_owner(attachment, standing, arrow);
}

// The digits of a UUID, in whatever way it is written; nothing else has 32 of them.
bool same_uuid(std::string_view canonical, std::string_view name) {
    std::size_t at = 0;
    for (char each : name) {
        if (each == '-' || each == '{' || each == '}') continue;
        while (at < canonical.size() && canonical[at] == '-') ++at;
        if (at == canonical.size() || pg_tolower(static_cast<unsigned char>(each)) != static_cast<unsigned char>(canonical[at++])) return false;
    }
    return at == canonical.size();
}

}  // namespace

int64 managed_number(const ManagedColumn& column, Datum value) {
    switch (column.base) {
        case INT2OID: return DatumGetInt16(value);
        case INT4OID: return DatumGetInt32(value);
        default: return DatumGetInt64(value);
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

Standing standing_of(const Attachment& attachment, TupleTableSlot* row, const Actor& actor) {
    const Managed& managed = *attachment.managed;
    Standing standing = {};
    standing.managed = &managed;
    standing.actor = actor;
    standing.moved = GetCurrentTimestamp();
    standing.now = actor.at != 0 ? actor.at : standing.moved;
    bool null;
    standing.owner = column_of(row, managed.owner, &null);
    standing.has_owner = !null;
    standing.lease = DatumGetTimestampTz(column_of(row, managed.lease, &null));
    standing.has_lease = !null;
    const TimestampTz due = DatumGetTimestampTz(column_of(row, managed.due, &null));
    standing.is_due = !null && due <= standing.now;
    standing.token = number_in(row, managed.token, 0);
    standing.attempts = static_cast<int>(number_in(row, managed.attempts, 0));
    standing.max_attempts = static_cast<int>(number_in(row, managed.max_attempts, managed.backoff.max_attempts));
    standing.claim = owner_bar(standing);
    if (actor.has_token && managed.token.kept() && actor.token != standing.token) standing.claim = Bar::old_token;
    standing.is_owner = standing.has_owner && standing.claim == Bar::none;
    return standing;
}

Bar bar_of(const Attachment& attachment, const Standing& standing, int arrow) {
    const std::uint8_t role = standing.managed->roles[arrow];
    // A stale token is rejected even where no owner is needed: its claim is over, and what the statement writes is of that claim.
    if (standing.claim == Bar::old_token) return standing.claim;
    if (standing.claim != Bar::none && !(standing.has_owner && needs_no_owner(attachment, standing, arrow))) return standing.claim;
    if (leaves_unowned(attachment, standing, arrow)) return Bar::unowned;
    if ((role & arrow_retries) != 0 && standing.max_attempts > 0 && standing.attempts >= standing.max_attempts) return Bar::no_attempts;
    return Bar::none;
}

bool takes_away(const Attachment& attachment, const Standing& standing, int arrow) {
    if (!standing.has_owner || standing.is_owner) return false;
    if (lapses(standing, arrow) || operates(attachment, standing, arrow)) return true;
    return times(standing, arrow) && !standing.managed->owned[attachment.machine->machine->arrows()[arrow].to];
}

const char* describe_move(const text* from, const text* to) {
    return psprintf("the transition from %s to %s", quoted_state(from), quoted_state(to));
}

Rejection rejected_by(const Attachment& attachment, TupleTableSlot* row, const Standing& standing, Bar bar, const char* what) {
    const char* machine = attachment.machine->name;
    const char* subject = describe_subject(attachment, row);
    const char* owner = standing.has_owner ? text_to_cstring(owner_text(*standing.managed, standing.owner)) : nullptr;
    const char* processor = standing.actor.name == nullptr ? nullptr : text_to_cstring(standing.actor.name);
    switch (bar) {
        case Bar::nobody:
            return {rejected(sqlstate::not_the_owner, machine), psprintf("%s needs %s", what, owner != nullptr ? "the owner of the row" : "an owner"),
                    owner != nullptr ? psprintf("%s is owned by \"%s\"; no processor is named.", subject, owner)
                                     : psprintf("%s has no owner, and no processor is named to become it.", subject),
                    "SET pawl.processor = 'name of the worker';"};
        case Bar::unowned:
            return {rejected(sqlstate::not_the_owner, machine), psprintf("%s needs an owner", what), psprintf("%s has no owner.", subject),
                    psprintf("Take the row first: UPDATE ... SET %s = 'name of the worker' WHERE ...;", quote_identifier(NameStr(standing.managed->owner.name)))};
        case Bar::stranger:
            return {rejected(sqlstate::not_the_owner, machine), psprintf("processor \"%s\" is not the owner of the row", processor),
                    psprintf("%s is owned by \"%s\"; refused is %s.", subject, owner, what), "Leave the row to its owner; take others with pawl.claim."};
        case Bar::lapsed:
            return {rejected(sqlstate::lease_lost, machine), psprintf("the lease of processor \"%s\" has run out", processor),
                    psprintf("%s: the lease ended at %s; refused is %s.", subject, timestamptz_to_str(standing.lease), what),
                    "Give the work up. Extend leases in time with pawl.heartbeat, or take longer ones."};
        case Bar::old_token:
            return {rejected(sqlstate::lease_lost, machine), psprintf("fencing token " INT64_FORMAT " is not that of the row", standing.actor.token),
                    psprintf("%s has token " INT64_FORMAT "%s; refused is %s.", subject, standing.token,
                             owner == nullptr ? " and no owner" : psprintf(" and is owned by \"%s\"", owner), what),
                    "Give the work up: the row was taken over."};
        case Bar::no_attempts:
            return {rejected(sqlstate::guard_refused, machine), psprintf("no attempt is left for %s", what),
                    psprintf("%s has made %d of %d attempts.", subject, standing.attempts, standing.max_attempts),
                    "Move it to a state that gives up, or raise its number of attempts."};
        case Bar::none: break;
    }
    elog(ERROR, "nothing bars %s", what);
}

void refuse_bar(const Attachment& attachment, TupleTableSlot* row, const Standing& standing, Bar bar, const char* what) {
    raise(rejected_by(attachment, row, standing, bar, what));
}

}  // namespace pawl
