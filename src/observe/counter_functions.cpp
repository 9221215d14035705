// May throw and may ereport. The SQL functions that read and reset the counters. See counters.hpp.
#include "observe/counters.hpp"
#include "observe/transaction_counts.hpp"
#include "pg/arguments.hpp"
#include "pg/sqlstate.hpp"

namespace pawl {

namespace {

constexpr int columns = 12;

Datum text_of(std::string_view name) {
    return PointerGetDatum(cstring_to_text_with_len(name.data(), static_cast<int>(name.size())));
}

Datum roles_of(std::uint8_t roles) {
    static constexpr struct {
        std::uint8_t role;
        const char* name;
    } names[] = {{role_claims, "claim"},      {role_gives_up, "completion"}, {role_expires, "expiry"},
                 {role_operates, "operator"}, {role_retries, "retry"},       {role_times, "timer"}};
    Datum values[lengthof(names)];
    int n = 0;
    for (const auto& [role, name] : names)
        if ((roles & role) != 0) values[n++] = CStringGetTextDatum(name);
    return PointerGetDatum(construct_array(values, n, TEXTOID, -1, false, TYPALIGN_INT));
}

Datum buckets_of(const CounterReading& reading) {
    Datum values[Count::nbounds + 1];
    for (int i = 0; i <= Count::nbounds; ++i) values[i] = Int64GetDatum(static_cast<int64>(reading.buckets[i]));
    return PointerGetDatum(construct_array(values, Count::nbounds + 1, INT8OID, 8, true, TYPALIGN_DOUBLE));
}

void return_reading(const CounterReading& reading, void* argument) {
    auto* result = static_cast<ReturnSetInfo*>(argument);
    const bool rejection = reading.key.kind == Counted::rejection;
    Datum values[columns] = {};
    bool nulls[columns] = {};
    auto set_name = [&](int column, std::string_view name, bool known) {
        nulls[column] = !known || name.empty();
        if (!nulls[column]) values[column] = text_of(name);
    };
    values[0] = CStringGetTextDatum(rejection ? "rejection" : "transition");
    set_name(1, reading.key.machine, true);
    nulls[2] = rejection || reading.other;
    values[2] = Int32GetDatum(reading.key.version);
    set_name(3, reading.key.from, true);
    set_name(4, reading.key.to, true);
    set_name(5, reading.key.event, !rejection);
    set_name(6, reading.key.event, rejection);
    values[7] = roles_of(reading.key.roles);
    values[8] = Int64GetDatum(static_cast<int64>(reading.count.n));
    values[9] = Int64GetDatum(static_cast<int64>(reading.count.timed));
    values[10] = Float8GetDatum(static_cast<double>(reading.count.microseconds) / 1e6);
    values[11] = buckets_of(reading);
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

}  // namespace

PAWL_FUNCTION(pawl_counters) {
    pg::call([&] {
        pg::materialize(fcinfo);
        if (counters_are_kept()) read_counters(return_reading, fcinfo->resultinfo);
    });
    return static_cast<Datum>(0);
}

PAWL_FUNCTION(pawl_counter_bounds) {
    return pg::call([&] {
        Datum values[Count::nbounds];
        for (int i = 0; i < Count::nbounds; ++i)
            values[i] = Float8GetDatum(static_cast<double>(Count::bounds[i]) / 1e6);
        return PointerGetDatum(construct_array(values, Count::nbounds, FLOAT8OID, 8, true, TYPALIGN_DOUBLE));
    });
}

PAWL_FUNCTION(pawl_counted_since) {
    if (!counters_are_kept()) {
        fcinfo->isnull = true;
        return static_cast<Datum>(0);
    }
    return TimestampTzGetDatum(counted_since());
}

PAWL_FUNCTION(pawl_reset_counters) {
    if (!counters_are_kept())
        throw pg::Failure(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "counters are not available",
                          "shared_preload_libraries does not contain pawl.",
                          "ALTER SYSTEM SET shared_preload_libraries = 'pawl'; then restart the server");
    reset_counters();
    PG_RETURN_VOID();
}

}  // namespace pawl
