// May ereport; owns nothing. See shard.hpp.
#include "catalog/shard.hpp"

#include "pg/bridge.hpp"
#include "pg/spi.hpp"
#include "session/context.hpp"

namespace pawl {

namespace {

// The number at the end of a shard's name; -1: there is none.
int64 trailing_number(const char* name) {
    const char* digits = strrchr(name, '_');
    if (digits == nullptr || digits[1] < '1' || digits[1] > '9' || strlen(digits + 1) > 18) return -1;
    int64 number = 0;
    for (const char* c = digits + 1; *c != '\0'; ++c) {
        if (*c < '0' || *c > '9') return -1;
        number = number * 10 + (*c - '0');
    }
    return number;
}

// Runs a query that returns at most one row, of a table and the name of its shard. Citus composes that name.
bool find_one(const char* query, int n, Oid* types, Datum* values, Oid* logical, NameData* shard) {
    SPI_connect();
    if (SPI_execute_with_args(query, n, types, values, nullptr, true, 2) != SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not read the catalog of Citus")));
    const bool found = SPI_processed == 1;
    if (found) {
        *logical = DatumGetObjectId(pg::value_of(SPI_tuptable, 0, 1));
        *shard = *DatumGetName(pg::value_of(SPI_tuptable, 0, 2));
    }
    SPI_finish();
    return found;
}

// The last part of the name that Citus gives a shard of table s.
#define SHARD_NAME                                                                                           \
    "(pg_catalog.parse_ident(pg_catalog.shard_name(s.logicalrelid, s.shardid)))"                             \
    "[pg_catalog.array_length(pg_catalog.parse_ident(pg_catalog.shard_name(s.logicalrelid, s.shardid)), 1)]" \
    "::pg_catalog.name"

// Whether this node has the shard; a table that was left behind when its shard went to another node is none.
#define IS_HERE                                                                                              \
    "EXISTS (SELECT FROM pg_catalog.pg_dist_placement h JOIN pg_catalog.pg_dist_local_group g ON g.groupid " \
    "OPERATOR(pg_catalog.=) h.groupid WHERE h.shardid OPERATOR(pg_catalog.=) s.shardid AND h.shardstate "    \
    "OPERATOR(pg_catalog.=) 1)"

}  // namespace

Distribution distribution = {no_level, false};

void note_relation_change() noexcept {
    if (executor_level == 0) return;  // Citus distributes tables in functions
    distribution.pending = true;
    distribution.level = Min(distribution.level, executor_level);
}

void forget_relation_changes() noexcept {
    distribution = {no_level, false};
}

// The catalog caches keep the answer, also if it is no.
bool has_citus() {
    return OidIsValid(get_relname_relid("pg_dist_shard", PG_CATALOG_NAMESPACE));
}

bool find_shard(Relation relation, Shard* shard, bool left_behind) {
    if (!has_citus()) return false;
    const int64 id = trailing_number(RelationGetRelationName(relation));
    if (id < 0) return false;
    Oid types[] = {INT8OID, BOOLOID};
    Datum values[] = {Int64GetDatum(id), BoolGetDatum(left_behind)};
    Oid logical = InvalidOid;
    NameData name;
    if (!find_one("SELECT s.logicalrelid::pg_catalog.oid, " SHARD_NAME
                  " FROM pg_catalog.pg_dist_shard s WHERE s.shardid OPERATOR(pg_catalog.=) $1 AND ($2 OR " IS_HERE ")",
                  2, types, values, &logical, &name))
        return false;
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(logical));
    if (!HeapTupleIsValid(tuple)) return false;
    const auto* table = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
    const bool same = strcmp(NameStr(name), RelationGetRelationName(relation)) == 0 &&
                      table->relnamespace == RelationGetNamespace(relation) &&
                      table->relowner == relation->rd_rel->relowner;
    ReleaseSysCache(tuple);
    if (!same) return false;
    Oid root = RelationGetRelid(relation);
    if (relation->rd_rel->relispartition) root = llast_oid(get_partition_ancestors(root));
    *shard = {id, logical, root};
    return true;
}

Oid shard_beside(const Shard& shard, Oid logical) {
    Oid types[] = {INT8OID, OIDOID};
    Datum values[] = {Int64GetDatum(shard.id), ObjectIdGetDatum(logical)};
    Oid found = InvalidOid;
    NameData name;
    if (!find_one("SELECT s.logicalrelid::pg_catalog.oid, " SHARD_NAME
                  " FROM pg_catalog.pg_dist_shard o JOIN pg_catalog.pg_dist_partition op ON op.logicalrelid "
                  "OPERATOR(pg_catalog.=) o.logicalrelid, pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_partition "
                  "sp ON sp.logicalrelid OPERATOR(pg_catalog.=) s.logicalrelid WHERE o.shardid OPERATOR(pg_catalog.=) "
                  "$1 AND s.logicalrelid OPERATOR(pg_catalog.=) $2::pg_catalog.regclass AND op.colocationid "
                  "OPERATOR(pg_catalog.=) sp.colocationid AND op.partmethod OPERATOR(pg_catalog.=) sp.partmethod AND "
                  "o.shardminvalue IS NOT DISTINCT FROM s.shardminvalue AND o.shardmaxvalue IS NOT DISTINCT FROM "
                  "s.shardmaxvalue",
                  2, types, values, &found, &name))
        return InvalidOid;
    return get_relname_relid(NameStr(name), get_rel_namespace(found));
}

List* shards_here(Oid logical) {
    const Oid schema = get_rel_namespace(logical);
    Oid types[] = {OIDOID};
    Datum values[] = {ObjectIdGetDatum(logical)};
    MemoryContext caller = CurrentMemoryContext;
    List* found = NIL;
    SPI_connect();
    if (SPI_execute_with_args("SELECT " SHARD_NAME " FROM pg_catalog.pg_dist_shard s WHERE s.logicalrelid "
                              "OPERATOR(pg_catalog.=) $1::pg_catalog.regclass AND " IS_HERE " ORDER BY s.shardid",
                              1, types, values, nullptr, true, 0) != SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not read the catalog of Citus")));
    for (uint64 i = 0; i < SPI_processed; ++i) {
        const Oid shard =
            get_relname_relid(NameStr(*DatumGetName(pg::value_of(SPI_tuptable, static_cast<int>(i), 1))), schema);
        MemoryContext spi = MemoryContextSwitchTo(caller);
        if (OidIsValid(shard)) found = lappend_oid(found, shard);
        MemoryContextSwitchTo(spi);
    }
    SPI_finish();
    return found;
}

bool is_distributed(Oid relation) {
    if (!has_citus()) return false;
    Oid types[] = {OIDOID};
    Datum values[] = {ObjectIdGetDatum(relation)};
    SPI_connect();
    if (SPI_execute_with_args("SELECT FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid "
                              "OPERATOR(pg_catalog.=) $1::pg_catalog.regclass",
                              1, types, values, nullptr, true, 1) != SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not read the catalog of Citus")));
    const bool found = SPI_processed > 0;
    SPI_finish();
    return found;
}

namespace {

// A relation that may be gone: null.
Relation opened(Oid relid) {
    return get_rel_relkind(relid) == '\0' ? nullptr : try_relation_open(relid, AccessShareLock);
}

bool find_shard(Oid relid, Shard* shard, bool left_behind = false) {
    Relation relation = opened(relid);
    if (relation == nullptr) return false;
    const bool found = find_shard(relation, shard, left_behind);
    relation_close(relation, AccessShareLock);
    return found;
}

}  // namespace

// pawl._shards_here(relation)
PAWL_FUNCTION(pawl_shards_here) {
    return pg::call([&] {
        const List* shards = has_citus() ? shards_here(PG_GETARG_OID(0)) : NIL;
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(list_length(shards), 1)));
        for (int i = 0; i < list_length(shards); ++i) values[i] = ObjectIdGetDatum(list_nth_oid(shards, i));
        return pg::array_of(values, list_length(shards), REGCLASSOID);
    });
}

// pawl._shard_beside(shard, log)
PAWL_FUNCTION(pawl_shard_beside) {
    const Oid found = pg::call([&] {
        Shard shard;
        return find_shard(PG_GETARG_OID(0), &shard) ? shard_beside(shard, PG_GETARG_OID(1)) : InvalidOid;
    });
    fcinfo->isnull = !OidIsValid(found);
    return ObjectIdGetDatum(found);
}

// pawl._logical(shard, left_behind)
PAWL_FUNCTION(pawl_logical) {
    const Oid found = pg::call([&] {
        Shard shard;
        return find_shard(PG_GETARG_OID(0), &shard, PG_GETARG_BOOL(1)) ? shard.logical : InvalidOid;
    });
    fcinfo->isnull = !OidIsValid(found);
    return ObjectIdGetDatum(found);
}

}  // namespace pawl
