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

// Runs a statement that returns one row, which is then in SPI_tuptable. Raises XX000 if it does not.
inline void run_for_row(const char* statement, int nparameters, Oid* types, Datum* values) {
    const int code = SPI_execute_with_args(statement, nparameters, types, values, nullptr, false, 0);
    if (code != SPI_OK_SELECT || SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("statement did not return one row: %s", SPI_result_code_string(code)),
                        errdetail("%s", statement)));
}

// A value of a result; 0 for null.
inline Datum value_of(SPITupleTable* table, int row, int column) {
    bool null;
    return SPI_getbinval(table->vals[row], table->tupdesc, column, &null);
}

// Values as an array, in the current memory context. Without `nulls` none is null.
inline Datum array_of(Datum* values, int n, Oid type, bool* nulls = nullptr) {
    int16 length;
    bool by_value;
    char alignment;
    get_typlenbyvalalign(type, &length, &by_value, &alignment);
    int bounds[] = {1};
    return PointerGetDatum(construct_md_array(values, nulls, 1, &n, bounds, type, length, by_value, alignment));
}

}  // namespace pawl::pg
