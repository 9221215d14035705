// May ereport; owns nothing (the trigger function throws). See write_access.hpp.
#include "log/write_access.hpp"

#include "pg/bridge.hpp"
#include "pg/sqlstate.hpp"
#include "session/context.hpp"

extern "C" {
#include "utils/acl.h"
}

namespace pawl {

namespace {

struct Open {
    Oid first;
    Oid second;
};

Open open = {InvalidOid, InvalidOid};

bool is_open(Oid relation) {
    return OidIsValid(relation) && (relation == open.first || relation == open.second);
}

}  // namespace

bool redacting = false;

bool is_writable_now(Oid relation) {
    if (is_open(relation)) return true;
    if ((!OidIsValid(open.first) && !OidIsValid(open.second)) || !get_rel_relispartition(relation)) return false;
    ListCell* cell;
    foreach (cell, get_partition_ancestors(relation))
        if (is_open(lfirst_oid(cell))) return true;
    return false;
}

void with_write_access(Oid role, Oid first, Oid second, Work work, void* argument, Reach reach) {
    const Open before = open;
    open = {first, second};
    PG_TRY();
    { with_rights_of(role, work, argument, reach); }
    PG_FINALLY();
    { open = before; }
    PG_END_TRY();
}

void check_may_remove(Oid relation) {
    if (!OidIsValid(relation) || get_rel_relkind(relation) == '\0')
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relation)));
    if (pg::owns_relation(relation, GetUserId()) || has_privs_of_role(GetUserId(), get_role_oid("pawl_admin", false)))
        return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("must be owner of table %s, or a member of pawl_admin", get_rel_name(relation)),
                    errdetail("Removed entries cannot be restored."),
                    errhint("GRANT pawl_admin TO %s;", quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

// The guard trigger of audits and anchors.
PAWL_FUNCTION(pawl_protect_record) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, "pawl.protect_record() is a trigger function");
    auto* trigger = reinterpret_cast<TriggerData*>(fcinfo->context);
    if (!TRIGGER_FIRED_BEFORE(trigger->tg_event))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "pawl.protect_record() must be fired BEFORE a statement or row", {},
                          "Triggers with it are made by pawl.audit.");
    HeapTuple row = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple;
    // a dump restores data of an extension after its guard triggers exist
    const bool loaded = is_restoring() && TRIGGER_FIRED_BY_INSERT(trigger->tg_event);
    if (loaded || is_writable_now(RelationGetRelid(trigger->tg_relation)))
        return PointerGetDatum(TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ? row : nullptr);
    const char* operation = TRIGGER_FIRED_BY_INSERT(trigger->tg_event)   ? "INSERT"
                            : TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? "UPDATE"
                            : TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ? "DELETE"
                                                                         : "TRUNCATE";
    throw pg::Failure(sqlstate::log_is_immutable,
                      "table \"" + std::string(RelationGetRelationName(trigger->tg_relation)) + "\" is immutable",
                      std::string(operation) + " by a client is not allowed.", {},
                      {RelationGetRelid(trigger->tg_relation), nullptr, nullptr});
}

}  // namespace pawl
