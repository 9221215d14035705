// Seam. SPI; may ereport, owns nothing.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::pg {

inline SPIPlanPtr prepare(const char* query, int nparameters, const Oid* types) {
    SPIPlanPtr plan = SPI_prepare(query, nparameters, const_cast<Oid*>(types));
    if (plan == nullptr)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not prepare: %s", SPI_result_code_string(SPI_result)), errdetail("%s", query)));
    return plan;
}

}  // namespace pawl::pg
