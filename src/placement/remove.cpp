// May throw and may ereport. Moves rows out of the tables of a pack, logs and audits included, for pawl.depart.
#include "log/write_access.hpp"
#include "pg/arguments.hpp"
#include "pg/bridge.hpp"
#include "pg/spi.hpp"

namespace pawl {

namespace {

struct Removal {
    const char* statement;
    pg_uuid_t* move;
    text* space;
    int64 removed;
};

void remove_rows(void* argument) {
    auto* removal = static_cast<Removal*>(argument);
    Oid types[] = {UUIDOID, TEXTOID};
    Datum values[] = {UUIDPGetDatum(removal->move), PointerGetDatum(removal->space)};
    SPI_connect();
    const int code = SPI_execute_with_args(removal->statement, 2, types, values, nullptr, false, 0);
    if (code != SPI_OK_INSERT)
        ereport(ERROR,
                (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not move rows: %s", SPI_result_code_string(code)),
                 errdetail("%s", removal->statement)));
    removal->removed = static_cast<int64>(SPI_processed);
    SPI_finish();
}

}  // namespace

// pawl._remove_moved(relation, statement, move, namespace): how many rows the statement has moved.
PAWL_FUNCTION(pawl_remove_moved) {
    const Oid relation = PG_GETARG_OID(0);
    return pg::call([&] {
        Removal removal = {text_to_cstring(PG_GETARG_TEXT_PP(1)), PG_GETARG_UUID_P(2), PG_GETARG_TEXT_PP(3), 0};
        with_write_access(owner_of(relation), relation, InvalidOid, remove_rows, &removal);
        return Int64GetDatum(removal.removed);
    });
}

}  // namespace pawl
