// May ereport; owns nothing (the SQL functions throw). See placements.hpp.
#include "placement/placements.hpp"

#include "catalog/catalog.hpp"
#include "pg/arguments.hpp"
#include "pg/bridge.hpp"
#include "pg/sqlstate.hpp"
#include "session/context.hpp"
#include "session/observer.hpp"

extern "C" {
#include "utils/inval.h"
}

namespace pawl {

namespace {

struct Place {
    const char* kind;
    const char* space;  // empty: every namespace of the kind that has no place of its own
    const char* database;
};

struct QueueTable {
    Oid relation;
    const char* kind;
    char** local;  // queues that every database has
    int nlocal;
};

struct Placements {
    MemoryContext context;
    const char* here;  // null: the database is not one of several, and the rest is not read
    Place* places;     // ordered by compare_places
    int nplaces;
    int room;
    List* queue_tables;
};

Placements* known = nullptr;
Oid watched[3];
bool is_watching = false;
uint64 invalidations = 0;

void relation_changed(Datum, Oid relid) {
    if (OidIsValid(relid) && relid != watched[0] && relid != watched[1] && relid != watched[2]) return;
    ++invalidations;
    Placements* stale = known;
    known = nullptr;
    if (stale != nullptr) MemoryContextDelete(stale->context);
}

void visit_database(const CatalogRow& row, void* argument) {
    if (row.boolean("is_here")) static_cast<Placements*>(argument)->here = row.required("name");
}

void visit_placement(const CatalogRow& row, void* argument) {
    auto* placements = static_cast<Placements*>(argument);
    if (placements->nplaces == placements->room) {
        placements->room = Max(2 * placements->room, 16);
        const Size bytes = sizeof(Place) * placements->room;
        placements->places =
            static_cast<Place*>(placements->places == nullptr ? palloc(bytes) : repalloc(placements->places, bytes));
    }
    const char* space = row.string("namespace");
    placements->places[placements->nplaces++] = {row.required("kind"), space == nullptr ? "" : space,
                                                 row.required("database")};
}

int compare_places(const void* one, const void* other) {
    const auto* a = static_cast<const Place*>(one);
    const auto* b = static_cast<const Place*>(other);
    const int by_kind = strcmp(a->kind, b->kind);
    return by_kind != 0 ? by_kind : strcmp(a->space, b->space);
}

void visit_placed_table(const CatalogRow& row, void* argument) {
    if (!row.boolean("is_queue")) return;
    auto* placements = static_cast<Placements*>(argument);
    auto* table = static_cast<QueueTable*>(palloc(sizeof(QueueTable)));
    table->relation = row.oid("relation");
    table->kind = row.required("kind");
    table->local = row.strings("local_queues", &table->nlocal);
    placements->queue_tables = lappend(placements->queue_tables, table);
}

Placements* read() {
    MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "pawl placements", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    auto* placements = static_cast<Placements*>(palloc0(sizeof(Placements)));
    placements->context = context;
    scan_all("database", visit_database, placements);
    if (placements->here != nullptr) {
        scan_all("placement", visit_placement, placements);
        qsort(placements->places, placements->nplaces, sizeof(Place), compare_places);
        scan_all("placed_table", visit_placed_table, placements);
    }
    MemoryContextSwitchTo(caller);
    return placements;
}

const Placements* current() {
    if (known != nullptr) return known;
    if (!is_watching) {
        CacheRegisterRelcacheCallback(relation_changed, static_cast<Datum>(0));
        is_watching = true;
    }
    uint64 seen;
    Placements* placements = nullptr;
    do {  // an invalidation while the tables are read may leave old and new data
        if (placements != nullptr) MemoryContextDelete(placements->context);
        watched[0] = catalog_table("database");
        watched[1] = catalog_table("placement");
        watched[2] = catalog_table("placed_table");
        seen = ++invalidations;
        placements = read();
    } while (seen != invalidations);
    MemoryContextSetParent(placements->context, TopMemoryContext);
    known = placements;
    return known;
}

const Place* find_place(const Placements* placements, const char* kind, const char* space) {
    if (placements->nplaces == 0) return nullptr;
    const Place wanted = {kind, space, nullptr};
    return static_cast<const Place*>(
        bsearch(&wanted, placements->places, placements->nplaces, sizeof(Place), compare_places));
}

// Null: placed nowhere.
const char* database_of(const Placements* placements, const char* kind, const char* space) {
    const Place* place = find_place(placements, kind, space);
    if (place == nullptr) place = find_place(placements, kind, "");
    return place == nullptr ? nullptr : place->database;
}

void reject(const Placements* placements, const char* kind, const char* space, const char* database) {
    rejected(sqlstate::placed_elsewhere, nullptr);
    const char* here = pstrdup(placements->here);
    const char* there = database == nullptr ? nullptr : pstrdup(database);
    if (there == nullptr)
        ereport(ERROR, (errcode(sqlstate::placed_elsewhere),
                        errmsg("namespace \"%s\" of kind \"%s\" is placed in no database", space, kind),
                        errdetail("This is database \"%s\".", here),
                        errhint("insert into pawl.placement (kind, namespace, database) values (%s, %s, ...)",
                                quote_literal_cstr(kind), quote_literal_cstr(space))));
    ereport(ERROR, (errcode(sqlstate::placed_elsewhere),
                    errmsg("namespace \"%s\" of kind \"%s\" is in database \"%s\"", space, kind, there),
                    errdetail("This is database \"%s\".", here),
                    errhint("Connect there: select connection from pawl.database where name = %s.",
                            quote_literal_cstr(there))));
}

bool is_local(const QueueTable& table, const char* queue) {
    for (int i = 0; i < table.nlocal; ++i)
        if (strcmp(table.local[i], queue) == 0) return true;
    return false;
}

}  // namespace

void require_here(const char* kind, const char* space) {
    const Placements* placements = current();
    if (placements->here == nullptr) return;
    const char* database = database_of(placements, kind, space);
    if (database == nullptr || strcmp(database, placements->here) != 0) reject(placements, kind, space, database);
}

void require_queue_here(Oid relation, const text* queue) {
    const Placements* placements = current();
    if (placements->here == nullptr || queue == nullptr) return;
    ListCell* cell;
    foreach (cell, placements->queue_tables) {
        const auto* table = static_cast<QueueTable*>(lfirst(cell));
        if (table->relation != relation) continue;
        const char* name = text_to_cstring(queue);
        if (!is_local(*table, name)) require_here(table->kind, name);
        return;
    }
}

// pawl.require_here(kind, namespace): see there.
PAWL_FUNCTION(pawl_require_here) {
    pg::call([&] { require_here(text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1))); });
    return static_cast<Datum>(0);
}

// The trigger of tables whose rows have a namespace: pawl.check_placed('kind', 'column').
PAWL_FUNCTION(pawl_check_placed) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, "pawl.check_placed() is a trigger function");
    auto* trigger = reinterpret_cast<TriggerData*>(fcinfo->context);
    const bool updates = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
    if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
        TRIGGER_FIRED_BY_DELETE(trigger->tg_event) || trigger->tg_trigger->tgnargs != 2)
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "pawl.check_placed() must be fired BEFORE INSERT OR UPDATE, FOR EACH ROW", {},
                          "EXECUTE FUNCTION pawl.check_placed('kind', 'column')");
    HeapTuple row = updates ? trigger->tg_newtuple : trigger->tg_trigtuple;
    if (is_restoring()) return PointerGetDatum(row);
    pg::call([&] {
        const TupleDesc columns = RelationGetDescr(trigger->tg_relation);
        const int column = SPI_fnumber(columns, trigger->tg_trigger->tgargs[1]);
        if (column <= 0)
            ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                            errmsg("column \"%s\" does not exist", trigger->tg_trigger->tgargs[1])));
        const char* space = SPI_getvalue(row, columns, column);
        if (space != nullptr) require_here(trigger->tg_trigger->tgargs[0], space);
    });
    return PointerGetDatum(row);
}

}  // namespace pawl
