// May throw and may ereport: values in the reports of workers, which must not raise an error if they are invalid.
#include "pg/arguments.hpp"
#include "pg/json.hpp"

namespace pawl {

PAWL_FUNCTION(pawl_dag_as_uuid) {
    const text* value = pg::text_argument(fcinfo, 0);
    auto* uuid = pg::call([] { return static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t))); });
    if (pg::read_uuid(pg::view(value), uuid)) return UUIDPGetDatum(uuid);
    fcinfo->isnull = true;
    return static_cast<Datum>(0);
}

}  // namespace pawl
