// May throw and may ereport. Whether rows of a bulk operation are validated in this session. Validators run with the
// caller's rights, and so do the statements that write what they say; the trigger that rejects validation records
// written by hand skips these statements.
#include "pg/noted_depth.hpp"

namespace pawl {

namespace {

int validating_depth = -1;

}  // namespace

PAWL_FUNCTION(pawl_bulk_validating) {
    return BoolGetDatum(validating_depth == pg::trigger_depth());
}

PAWL_FUNCTION(pawl_bulk_validate_block) {
    const pg::NotedDepth at_work(validating_depth);
    return pg::call([&] { return pg::call_inner(fcinfo, "pawl_bulk", "_validate_next_block"); });
}

PAWL_FUNCTION(pawl_bulk_fail_row) {
    const pg::NotedDepth at_work(validating_depth);
    return pg::call([&] { return pg::call_inner(fcinfo, "pawl_bulk", "_fail_next_row"); });
}

}  // namespace pawl
