// May ereport; owns nothing. See flows.hpp.
#include "packs/saga/flows.hpp"

#include "pg/find_by_id.hpp"
#include "pg/spi.hpp"

namespace pawl::saga {

namespace {

#define FLOWS(which)                                                                                                 \
    "SELECT f.flow_uuid, f.definition_uuid, f.state IN ('RUNNING', 'SUSPENDING', 'SUSPENDED'), f.state = 'RUNNING' " \
    "AND NOT f.broken FROM pawl_saga.flows f WHERE f.flow_uuid = " which
#define MANY FLOWS("ANY ($1) ORDER BY f.flow_uuid")
#define ONE FLOWS("$1")
constexpr RowsStatement flows_read = {MANY, ONE};
constexpr RowsStatement flows_locked = {MANY " FOR NO KEY UPDATE", ONE " FOR NO KEY UPDATE"};
#undef ONE
#undef MANY
#undef FLOWS

}  // namespace

Flow* Flows::find(const pg_uuid_t& id) const {
    return find_by_id(items, n, id);
}

Flows read_flows(Datum* keys, int nkeys, Rows rows, Binding& plans) {
    Parameters parameters = {};
    parameters.add_column(UUIDOID, keys, nkeys);
    const RowsStatement& statement = rows == Rows::locked ? flows_locked : flows_read;
    const int n = static_cast<int>(run_planned(plans, statement, nkeys, parameters));
    SPITupleTable* found = SPI_tuptable;
    Flows flows = {static_cast<Flow*>(palloc(sizeof(Flow) * Max(n, 1))), n};
    for (int i = 0; i < n; ++i)
        flows.items[i] = {*DatumGetUUIDP(pg::value_of(found, i, 1)), *DatumGetUUIDP(pg::value_of(found, i, 2)),
                          DatumGetBool(pg::value_of(found, i, 3)), DatumGetBool(pg::value_of(found, i, 4)), false};
    return flows;
}

Flows copied(const Flows& flows) {
    Flows copy = {static_cast<Flow*>(palloc(sizeof(Flow) * Max(flows.n, 1))), flows.n};
    if (flows.n > 0) memcpy(copy.items, flows.items, sizeof(Flow) * flows.n);
    return copy;
}

}  // namespace pawl::saga
