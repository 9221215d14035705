// May ereport; owns nothing. See pack_tables.hpp.
#include "fire/pack_tables.hpp"

extern "C" {
#include "catalog/dependency.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "optimizer/cost.h"
}

namespace pawl {

namespace {

bool is_required_by(Oid pawl, Oid extension) {
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(ExtensionRelationId));
    ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(extension));
    Relation dependencies = table_open(DependRelationId, AccessShareLock);
    SysScanDesc scan = systable_beginscan(dependencies, DependDependerIndexId, true, nullptr, 2, keys);
    bool required = false;
    for (HeapTuple tuple = systable_getnext(scan); HeapTupleIsValid(tuple); tuple = systable_getnext(scan)) {
        const auto* dependency = reinterpret_cast<Form_pg_depend>(GETSTRUCT(tuple));
        required |= dependency->refclassid == ExtensionRelationId && dependency->refobjid == pawl;
    }
    systable_endscan(scan);
    table_close(dependencies, AccessShareLock);
    return required;
}

enum class Owner { pack, other_extension, user };

Owner find_owner(Oid relation) {
    const Oid extension = getExtensionOfObject(RelationRelationId, relation);
    if (!OidIsValid(extension)) return Owner::user;
    const Oid pawl = get_extension_oid("pawl", true);
    return OidIsValid(pawl) && is_required_by(pawl, extension) ? Owner::pack : Owner::other_extension;
}

struct Answer {
    Oid relation;
    Owner owner;
};

// The planner asks for each column of each condition. An answer that is out of date is still a plan that works.
Owner owner_of_table(Oid relation) {
    if (relation < FirstNormalObjectId) return Owner::other_extension;
    static HTAB* answers = nullptr;
    if (answers == nullptr) {
        HASHCTL control = {};
        control.keysize = sizeof(Oid);
        control.entrysize = sizeof(Answer);
        answers = hash_create("pawl tables of packs", 128, &control, HASH_ELEM | HASH_BLOBS);
    }
    const auto* known = static_cast<const Answer*>(hash_search(answers, &relation, HASH_FIND, nullptr));
    if (known != nullptr) return known->owner;
    const Owner owner = find_owner(relation);
    static_cast<Answer*>(hash_search(answers, &relation, HASH_ENTER, nullptr))->owner = owner;
    return owner;
}

// At the last ANALYZE or VACUUM, if there was one.
bool was_small(Oid relation) {
    constexpr float4 rows = 10000;
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
    if (!HeapTupleIsValid(tuple)) return false;
    const bool small = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->reltuples < rows;
    ReleaseSysCache(tuple);
    return small;
}

// Functions of packs that look rows up by key say so by the setting; that of a session says nothing. Checks of foreign
// keys have the flag.
bool looks_up_keys() {
    Oid role;
    int context;
    GetUserIdAndSecContext(&role, &context);
    if ((context & SECURITY_NOFORCE_RLS) != 0) return true;
    static const config_generic* setting = nullptr;
    if (setting == nullptr) setting = pg::find_setting("enable_seqscan");
    return !enable_seqscan && setting->stack != nullptr && setting->stack->state == GUC_SAVE;
}

// A user's trigger or policy may run inside a function with the setting, and a user's function may have it.
bool reads_tables_of_users(const PlannerInfo* root) {
    for (; root != nullptr; root = root->parent_root) {
        ListCell* cell;
        foreach (cell, root->parse->rtable) {
            const auto* entry = lfirst_node(RangeTblEntry, cell);
            if (OidIsValid(entry->relid) && owner_of_table(entry->relid) == Owner::user) return true;
        }
    }
    return false;
}

}  // namespace

bool looks_up_keys_of_pack(const PlannerInfo* root, Oid relation) {
    return looks_up_keys() && owner_of_table(relation) == Owner::pack && was_small(relation) &&
           !reads_tables_of_users(root);
}

}  // namespace pawl
