// Seam. The server's headers, in the order that C++ needs, and the differences between PostgreSQL 15 and 18.
// Not #pragma once: ccache may restore a precompiled header made before a comment here changed, which that does not
// recognize.
#ifndef PAWL_PG_POSTGRES_HPP
#define PAWL_PG_POSTGRES_HPP

// C++ headers come first: the server's macros (such as gettext's) would break them.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" {
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/tupconvert.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_subscription_rel.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_func.h"
#include "port.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/uuid.h"
#if PG_VERSION_NUM >= 160000
#include "utils/regproc.h"
#include "varatt.h"
#else
#include "utils/regproc.h"
#endif
}

// The server's printf macros would change calls inside the C++ library.
#undef printf
#undef fprintf
#undef sprintf
#undef snprintf
#undef vprintf
#undef vfprintf
#undef vsprintf
#undef vsnprintf
#undef strerror
#undef gettext
#undef dgettext
#undef ngettext
#undef dngettext

namespace pawl::pg {

inline bool may_execute(Oid function, Oid role) {
#if PG_VERSION_NUM >= 160000
    return object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE) == ACLCHECK_OK;
#else
    return pg_proc_aclcheck(function, role, ACL_EXECUTE) == ACLCHECK_OK;
#endif
}

inline bool may_update(Oid relation, AttrNumber column, Oid role) {
    return pg_class_aclcheck(relation, role, ACL_UPDATE) == ACLCHECK_OK ||
           pg_attribute_aclcheck(relation, column, role, ACL_UPDATE) == ACLCHECK_OK;
}

inline bool may_select(Oid relation, AttrNumber column, Oid role) {
    return pg_class_aclcheck(relation, role, ACL_SELECT) == ACLCHECK_OK ||
           pg_attribute_aclcheck(relation, column, role, ACL_SELECT) == ACLCHECK_OK;
}

inline bool owns_relation(Oid relation, Oid role) {
#if PG_VERSION_NUM >= 160000
    return object_ownercheck(RelationRelationId, relation, role);
#else
    return pg_class_ownercheck(relation, role);
#endif
}

// Whether a member may SET ROLE to a role; true for superusers.
inline bool can_become(Oid member, Oid role) {
#if PG_VERSION_NUM >= 160000
    return member_can_set_role(member, role);
#else
    return is_member_of_role(member, role);
#endif
}

inline bool holds_lock(const LOCKTAG* tag, LOCKMODE mode) {
#if PG_VERSION_NUM >= 170000
    return LockHeldByMe(tag, mode, false);
#else
    return LockHeldByMe(tag, mode);
#endif
}

inline List* insert_index_entries(ResultRelInfo* target, TupleTableSlot* slot, EState* estate) {
#if PG_VERSION_NUM >= 160000
    return ExecInsertIndexTuples(target, slot, estate, false, false, nullptr, NIL, false);
#else
    return ExecInsertIndexTuples(target, slot, estate, false, false, nullptr, NIL);
#endif
}

inline IndexScanDesc begin_index_scan(Relation table, Relation index, Snapshot snapshot, int nkeys) {
#if PG_VERSION_NUM >= 180000
    return index_beginscan(table, index, snapshot, nullptr, nkeys, 0);
#else
    return index_beginscan(table, index, snapshot, nkeys, 0);
#endif
}

inline Oid primary_key_index(Relation relation) {
#if PG_VERSION_NUM >= 180000
    return RelationGetPrimaryKeyIndex(relation, false);
#else
    return RelationGetPrimaryKeyIndex(relation);
#endif
}

// A setting that exists.
inline const config_generic* find_setting(const char* name) {
#if PG_VERSION_NUM >= 160000
    return find_option(name, false, false, ERROR);
#else
    config_generic** settings = get_guc_variables();
    const int n = GetNumConfigOptions();
    for (int i = 0; i < n; ++i)
        if (pg_strcasecmp(settings[i]->name, name) == 0) return settings[i];
    elog(ERROR, "there is no setting \"%s\"", name);
#endif
}

}  // namespace pawl::pg

#endif
