// May ereport; owns nothing. See rights.hpp.
#include "session/rights.hpp"

namespace pawl {

Oid owner_of(Oid relation) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
    if (!HeapTupleIsValid(tuple))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relation)));
    const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
    ReleaseSysCache(tuple);
    return owner;
}

void with_rights_of(Oid role, Work work, void* argument, Reach reach) {
    Oid user;
    int context;
    GetUserIdAndSecContext(&user, &context);
    const int settings = NewGUCNestLevel();
    const int confined = reach != Reach::whole && role != user ? SECURITY_RESTRICTED_OPERATION : 0;
    const int inherited =
        reach == Reach::confined_by_policies ? context & ~SECURITY_NOFORCE_RLS : context | SECURITY_NOFORCE_RLS;
    SetUserIdAndSecContext(role, inherited | SECURITY_LOCAL_USERID_CHANGE | confined);
    set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                      false);
    // Unknown row counts make plans look expensive, and compiling one would take longer than running it.
    set_config_option("jit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    work(argument);
    // After an error, the end of the (sub)transaction restores rights and settings. false: a plain SET by code of the
    // role is undone too; otherwise a search_path set there could make the caller's next statement run its code.
    AtEOXact_GUC(false, settings);
    SetUserIdAndSecContext(user, context);
}

}  // namespace pawl
