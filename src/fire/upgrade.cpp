// May throw and may ereport: the part of pawl.upgrade that remaps rows whose state the new machine lacks.
#include "fire/target.hpp"
#include "pg/sqlstate.hpp"

namespace pawl {

namespace {

uint64 remap_rows(const Target& target, Jsonb* remap) {
    const char* column = quote_identifier(NameStr(target.binding->column));
    const char* new_state = psprintf("pg_catalog.jsonb_extract_path_text($1, pawl.value_text(%s))", column);
    char* query = psprintf(
        "UPDATE %s SET %s = %s WHERE pg_catalog.jsonb_exists($1, pawl.value_text(%s))", target.table, column,
        target.binding->is_enum
            ? psprintf("pawl._value(%s, NULL::%s)", new_state, format_type_be_qualified(target.binding->state_type))
            : state_value(target, new_state),
        column);
    Oid type = JSONBOID;
    Datum value = JsonbPGetDatum(remap);
    SPI_connect();
    if (SPI_execute_with_args(query, 1, &type, &value, nullptr, false, 0) != SPI_OK_UPDATE)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not remap rows")));
    const uint64 moved = SPI_processed;
    SPI_finish();
    return moved;
}

}  // namespace

// Moves every row whose state is a key of the object to the state beside it. The log has the event pawl.upgrade.
PAWL_FUNCTION(pawl_remap) {
    pg::require(fcinfo, 0, "relation");
    pg::require(fcinfo, 1, "state_column");
    pg::require(fcinfo, 2, "remap");
    if (!pg::owns_relation(PG_GETARG_OID(0), GetUserId()))
        pg::call([&] { aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(PG_GETARG_OID(0))); });
    const Target target = open_table_target(PG_GETARG_OID(0), pg::name_argument(fcinfo, 1));
    require_one_node(target, "pawl.upgrade");
    Jsonb* remap = pg::call([&] { return PG_GETARG_JSONB_P(2); });
    Intent intent = {};
    intent.root = target.binding->root;
    intent.column = NameStr(target.binding->column);
    intent.remap = true;
    IntentScope scope(intent);
    return pg::call([&] {
        const uint64 moved = remap_rows(target, remap);
        close_target(target);
        return Int64GetDatum(static_cast<int64>(moved));
    });
}

}  // namespace pawl
