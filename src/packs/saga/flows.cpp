// May ereport; owns nothing. See flows.hpp.
#include "packs/saga/flows.hpp"

#include "pg/find_by_id.hpp"
#include "pg/spi.hpp"

namespace pawl::saga {

namespace {

#define FLOWS(which)                                                                                    \
    "SELECT f.flow_uuid, f.definition_uuid, f.state IN ('RUNNING', 'SUSPENDING'), f.state = 'RUNNING' " \
    "AND NOT f.broken FROM pawl_saga.flows f WHERE f.flow_uuid = " which
#define MANY FLOWS("ANY ($1) ORDER BY f.flow_uuid")
#define ONE FLOWS("($1)[1]")
constexpr RowsStatement flows_read = {MANY, ONE};
constexpr RowsStatement flows_locked = {MANY " FOR NO KEY UPDATE", ONE " FOR NO KEY UPDATE"};
#undef ONE
#undef MANY
#undef FLOWS

}  // namespace

Flow* Flows::find(const pg_uuid_t& id) const {
    return find_by_id(items, n, id);
}

Flows read_flows(Datum keys, Rows rows, Binding& plans) {
    Parameters parameters = {};
    parameters.add(UUIDARRAYOID, keys);
    const int asked = ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(keys)), ARR_DIMS(DatumGetArrayTypeP(keys)));
    const RowsStatement& statement = rows == Rows::locked ? flows_locked : flows_read;
    const int n = static_cast<int>(run_planned(plans, statement, asked, parameters));
    SPITupleTable* found = SPI_tuptable;
    Flows flows = {static_cast<Flow*>(palloc(sizeof(Flow) * Max(n, 1))), n};
    for (int i = 0; i < n; ++i)
        flows.items[i] = {*DatumGetUUIDP(pg::value_of(found, i, 1)), *DatumGetUUIDP(pg::value_of(found, i, 2)),
                          DatumGetBool(pg::value_of(found, i, 3)), DatumGetBool(pg::value_of(found, i, 4)), false};
    return flows;
}

}  // namespace pawl::saga
