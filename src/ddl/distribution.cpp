// May ereport; owns nothing. See distribution.hpp.
#include "ddl/distribution.hpp"

#include "catalog/catalog.hpp"
#include "catalog/catalog_writer.hpp"
#include "pg/arguments.hpp"
#include "pg/bridge.hpp"
#include "pg/spi.hpp"
#include "session/context.hpp"
#include "session/rights.hpp"

extern "C" {
#include "access/parallel.h"
}

namespace pawl {

namespace {

List* unchecked = NIL;  // of OIDs, in the transaction's memory

void note_unchecked(Oid relation) {
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    unchecked = list_append_unique_oid(unchecked, relation);
    MemoryContextSwitchTo(caller);
}

// Statements that pawl composed, each with the role that runs it.
struct Steps {
    const char* query;  // returns role and statement
    Oid relation;
    int n;
    Oid* roles;
    char** statements;
    MemoryContext context;
};

void read_steps(void* argument) {
    auto* steps = static_cast<Steps*>(argument);
    Oid types[] = {REGCLASSOID};
    Datum values[] = {ObjectIdGetDatum(steps->relation)};
    SPI_connect();
    if (SPI_execute_with_args(steps->query, 1, types, values, nullptr, false, 0) != SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not read statements of a distribution")));
    MemoryContext spi = MemoryContextSwitchTo(steps->context);
    steps->n = static_cast<int>(SPI_processed);
    steps->roles = static_cast<Oid*>(palloc(sizeof(Oid) * Max(steps->n, 1)));
    steps->statements = static_cast<char**>(palloc(sizeof(char*) * Max(steps->n, 1)));
    for (int i = 0; i < steps->n; ++i) {
        steps->roles[i] = DatumGetObjectId(pg::value_of(SPI_tuptable, i, 1));
        steps->statements[i] = TextDatumGetCString(pg::value_of(SPI_tuptable, i, 2));
    }
    MemoryContextSwitchTo(spi);
    SPI_finish();
}

// A statement that returns a column "problem" looks for one.
void run_step(void* argument) {
    const char* statement = static_cast<const char*>(argument);
    SPI_connect();
    const int code = SPI_execute(statement, false, 0);
    if (code < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not follow a distribution: %s", SPI_result_code_string(code))));
    if (code == SPI_OK_SELECT && SPI_processed == 1 && strcmp(SPI_fname(SPI_tuptable->tupdesc, 1), "problem") == 0) {
        const char* problem = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
        if (problem != nullptr)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("%s", problem),
                            errhint("Write its rows in a transaction of their own.")));
    }
    SPI_finish();
}

// The statements are composed with the rights of the catalog's owner, and run with those of the tables' owners.
void run_steps(const char* query, Oid relation) {
    Steps steps = {query, relation, 0, nullptr, nullptr, CurrentMemoryContext};
    with_rights_of(owner_of(catalog_table("binding")), read_steps, &steps);
    for (int i = 0; i < steps.n; ++i) with_rights_of(steps.roles[i], run_step, steps.statements[i]);
}

bool following = false;

}  // namespace

void follow_distribution() {
    forget_relation_changes();
    // a backend that runs a part of another statement: that statement's end follows
    if (strncmp(application_name, "citus_internal", 14) == 0) return;
    if (following || IsParallelWorker() || XactReadOnly || !has_citus() || !OidIsValid(catalog_table("binding")))
        return;
    const bool snapshot = !ActiveSnapshotSet();
    if (snapshot) PushActiveSnapshot(GetTransactionSnapshot());
    following = true;
    PG_TRY();
    {
        Steps found = {"SELECT d.relation::pg_catalog.oid, '' FROM pawl._newly_distributed($1) d",
                       InvalidOid,
                       0,
                       nullptr,
                       nullptr,
                       CurrentMemoryContext};
        with_rights_of(owner_of(catalog_table("binding")), read_steps, &found);
        for (int i = 0; i < found.n; ++i) {
            note_unchecked(found.roles[i]);
            run_steps("SELECT s.role, s.statement FROM pawl._distribution_steps($1) s", found.roles[i]);
        }
    }
    PG_FINALLY();
    { following = false; }
    PG_END_TRY();
    if (snapshot) PopActiveSnapshot();
    forget_relation_changes();
}

void check_distributed() {
    if (unchecked == NIL) return;
    List* relations = unchecked;
    unchecked = NIL;
    PushActiveSnapshot(GetTransactionSnapshot());
    ListCell* cell;
    foreach (cell, relations)
        run_steps("SELECT s.role, s.statement FROM pawl._distribution_checks($1) s", lfirst_oid(cell));
    PopActiveSnapshot();
}

void forget_distribution() noexcept {
    unchecked = NIL;
    following = false;
    forget_relation_changes();
}

// pawl._prepare_definitions(): makes the table of definitions, with the rights of its owner.
PAWL_FUNCTION(pawl_prepare_definitions) {
    pg::call([] { run_as_catalog_owner("SELECT pawl._prepare_spread()", 0, nullptr, nullptr, nullptr); });
    PG_RETURN_VOID();
}

// pawl._check_at_commit(relation)
PAWL_FUNCTION(pawl_check_at_commit) {
    pg::call([&] {
        require_owner(PG_GETARG_OID(0));
        note_unchecked(PG_GETARG_OID(0));
    });
    PG_RETURN_VOID();
}

}  // namespace pawl
