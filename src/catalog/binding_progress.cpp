// May throw and may ereport: what is stored of a binding beside its row: how far its rows are validated, and what it
// was when it was released. Each function is safe to be called on its own, as those of catalog_writer.cpp are.
#include "catalog/catalog_writer.hpp"
#include "pg/arguments.hpp"

namespace pawl {

namespace {

void keep_definition(Datum relation, Datum column, Datum definition) {
    Oid types[] = {OIDOID, NAMEOID, TEXTOID};
    Datum values[] = {relation, column, definition};
    run_as_catalog_owner(
        "INSERT INTO pawl.released (relation, state_column, definition) VALUES ($1, $2, $3) "
        "ON CONFLICT (relation, state_column) DO UPDATE SET definition = excluded.definition, released_at = "
        "excluded.released_at",
        3, types, values, nullptr);
}

void forget_validation(Oid* types, Datum* values) {
    run_as_catalog_owner("DELETE FROM pawl.validation v WHERE v.relation = $1 AND v.state_column = $2", 2, types,
                         values, nullptr);
}

}  // namespace

// pawl._store_validation(relation, state_column, member, position, ...): how far pawl.validate has come in a member.
PAWL_FUNCTION(pawl_store_validation) {
    pg::call([&] {
        require_owner(PG_GETARG_OID(0));
        require_owner(PG_GETARG_OID(2));
        Oid types[] = {OIDOID, NAMEOID, OIDOID, TEXTARRAYOID, INT8OID, INT8OID, INT8OID, BOOLOID};
        Datum values[lengthof(types)];
        char nulls[lengthof(types) + 1] = {};
        for (int i = 0; i < static_cast<int>(lengthof(types)); ++i) {
            nulls[i] = PG_ARGISNULL(i) ? 'n' : ' ';
            values[i] = PG_GETARG_DATUM(i);
        }
        run_as_catalog_owner(
            "INSERT INTO pawl.validation AS v (relation, state_column, member, position, checked, begun, illegal, "
            "done) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (relation, state_column, member) DO UPDATE SET "
            "position = excluded.position, checked = excluded.checked, begun = excluded.begun, "
            "illegal = excluded.illegal, done = excluded.done",
            lengthof(types), types, values, nulls);
    });
    return static_cast<Datum>(0);
}

// pawl._end_validation(relation, state_column): all rows of a binding are in known states and have a history.
PAWL_FUNCTION(pawl_end_validation) {
    pg::call([&] {
        require_owner(PG_GETARG_OID(0));
        Oid types[] = {OIDOID, NAMEOID};
        Datum values[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)};
        forget_validation(types, values);
        run_as_catalog_owner("UPDATE pawl.binding b SET validated = true WHERE b.relation = $1 AND b.state_column = $2",
                             2, types, values, nullptr);
    });
    return static_cast<Datum>(0);
}

// pawl._drop_binding(relation, state_column, definition): removes a binding, and keeps the calls that made it; returns
// whether there was one.
PAWL_FUNCTION(pawl_drop_binding) {
    return pg::call([&] {
        require_owner(PG_GETARG_OID(0));
        Oid types[] = {OIDOID, NAMEOID};
        Datum values[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)};
        forget_validation(types, values);
        keep_definition(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_DATUM(2));
        return BoolGetDatum(
            run_as_catalog_owner("DELETE FROM pawl.binding b WHERE b.relation = $1 AND b.state_column = $2", 2, types,
                                 values, nullptr) > 0);
    });
}

}  // namespace pawl
