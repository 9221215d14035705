// May throw and may ereport: pawl._diff, the rows of pawl.diff.
#include "core/diff.hpp"
#include "catalog/machine_cache.hpp"
#include "pg/arguments.hpp"

namespace pawl {

namespace {

void return_change(ReturnSetInfo* result, const core::Change& change) {
    const std::string_view kind = name_of(change.kind);
    const std::string* texts[] = {&change.state, &change.from, &change.event, &change.to, &change.detail};
    Datum values[7] = {PointerGetDatum(make_text(kind)),
                       CStringGetTextDatum(change.is_state() ? "state" : "transition")};
    bool nulls[7] = {};
    for (int i = 0; i < 5; ++i) {
        nulls[i + 2] = texts[i]->empty();
        if (!nulls[i + 2]) values[i + 2] = PointerGetDatum(make_text(*texts[i]));
    }
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

// Version 0 has nothing in it.
const core::Machine& version_of(const std::string& name, int version, core::Machine& empty) {
    if (version > 0) return *find_machine(name.c_str(), version)->machine;
    empty.index();
    return empty;
}

}  // namespace

PAWL_FUNCTION(pawl_diff) {
    pg::require(fcinfo, 0, "machine");
    pg::require(fcinfo, 1, "from_version");
    pg::require(fcinfo, 2, "to_version");
    const std::string name(pg::view(pg::text_argument(fcinfo, 0)));
    core::Machine empty;
    const core::Machine& before = version_of(name, PG_GETARG_INT32(1), empty);
    const core::Machine& after = version_of(name, PG_GETARG_INT32(2), empty);
    const std::vector<core::Change> changes = core::diff(before, after);
    ReturnSetInfo* result = pg::call([&] { return pg::materialize(fcinfo); });
    for (const core::Change& change : changes) pg::call([&] { return_change(result, change); });
    return static_cast<Datum>(0);
}

}  // namespace pawl
