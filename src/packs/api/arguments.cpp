// May throw and may ereport; owns nothing. What nearly every route looks at first.
#include "pg/bridge.hpp"
#include "pg/json.hpp"

namespace pawl {

// pawl_api._need(pack)
PAWL_FUNCTION(pawl_api_need) {
    const char* pack = pg::call([&] { return text_to_cstring(PG_GETARG_TEXT_PP(0)); });
    if (!OidIsValid(pg::call([&] { return get_namespace_oid(pack, true); })))
        throw pg::Failure(ERRCODE_FEATURE_NOT_SUPPORTED, std::string(pack) + " is not installed in this database", {},
                          std::string("create extension ") + pack);
    return static_cast<Datum>(0);
}

// pawl_api._uuid(q, name)
PAWL_FUNCTION(pawl_api_uuid) {
    struct Given {
        bool missing;
        pg_uuid_t* uuid;
    };
    const std::string_view name = pg::call([&] { return pg::view(PG_GETARG_TEXT_PP(1)); });
    const Given given = pg::call([&]() -> Given {
        JsonbContainer* parameters = &PG_GETARG_JSONB_P(0)->root;
        JsonbValue value;
        if (!JsonContainerIsObject(parameters) || !pg::find_member(parameters, name, &value) || value.type == jbvNull)
            return {true, nullptr};
        auto* uuid = static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t)));
        return {false, pg::read_uuid(pg::scalar_text(value), uuid) ? uuid : nullptr};
    });
    if (given.missing) return fcinfo->isnull = true, static_cast<Datum>(0);
    if (given.uuid == nullptr)
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, std::string(name) + " must be a uuid");
    return UUIDPGetDatum(given.uuid);
}

}  // namespace pawl
