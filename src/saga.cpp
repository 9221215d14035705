// May throw and may ereport: pawl_saga._compile, which compiles the structure of a flow.
#include "core/saga.hpp"

#include "pg/arguments.hpp"

namespace pawl {

PAWL_FUNCTION(pawl_saga_compile) {
    pg::require(fcinfo, 0, "structure");
    const std::string structure(pg::view(pg::text_argument(fcinfo, 0)));
    const core::Json json = core::read_json(structure);
    const core::saga::Item item = core::saga::read_structure(json);
    const std::string graph = core::saga::write(core::saga::compile(item));
    return pg::call([&] { return PointerGetDatum(pg::make_text(graph)); });
}

}  // namespace pawl
