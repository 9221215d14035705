// Seam. Arguments and results of SQL-callable functions.
#pragma once

#include "pg/bridge.hpp"
#include "pg/texts.hpp"

namespace pawl::pg {

// Throws 22004 when argument n is null.
inline void require(FunctionCallInfo fcinfo, int n, const char* name) {
    if (PG_ARGISNULL(n)) throw Failure(ERRCODE_NULL_VALUE_NOT_ALLOWED, std::string(name) + " must not be null");
}

// An argument of type name; null for NULL.
inline const char* name_argument(FunctionCallInfo fcinfo, int n) {
    return PG_ARGISNULL(n) ? nullptr : NameStr(*PG_GETARG_NAME(n));
}

// Argument n, of type text and not null; lives as long as the call.
inline text* text_argument(FunctionCallInfo fcinfo, int n) {
    return call([&] { return PG_GETARG_TEXT_PP(n); });
}

// Begins a result of many rows (of many values, with MAT_SRF_USE_EXPECTED_DESC). May ereport: call it inside pg::call.
inline ReturnSetInfo* materialize(FunctionCallInfo fcinfo, bits32 flags = 0) {
    InitMaterializedSRF(fcinfo, flags);
    return reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
}

}  // namespace pawl::pg
