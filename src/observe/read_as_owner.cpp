// May ereport; owns nothing. Reads users' tables for verify, health and counts, and adds partitions to their logs. Code
// that a table's owner has attached to it (index expressions, policies, CHECKs) runs as that owner, in a
// security-restricted operation, and never as the caller.
#include "catalog/catalog_writer.hpp"
#include "pg/arguments.hpp"
#include "pg/spi.hpp"
#include "session/rights.hpp"

extern "C" {
#include "executor/tstoreReceiver.h"
#include "tcop/dest.h"
}

namespace pawl {

namespace {

// A row of pawl._owner_statements, in the memory context of the call.
struct Reading {
    Oid role;  // InvalidOid: the caller
    char* statement;
    ParamListInfo parameters;
};

void get_array(Datum array, Oid type, int16 length, bool by_value, char align, Datum** values, bool** nulls, int* n) {
    deconstruct_array(DatumGetArrayTypePCopy(array), type, length, by_value, align, values, nulls, n);
}

ParamListInfo parameters_of(Datum types, Datum texts) {
    Datum *type, *given;
    bool *no_type, *is_null;
    int n, m;
    get_array(types, REGTYPEOID, sizeof(Oid), true, TYPALIGN_INT, &type, &no_type, &n);
    get_array(texts, TEXTOID, -1, false, TYPALIGN_INT, &given, &is_null, &m);
    if (n != m) elog(ERROR, "%d types for %d parameters", n, m);
    ParamListInfo list = makeParamList(n);
    for (int i = 0; i < n; ++i) {
        ParamExternData& parameter = list->params[i];
        parameter.ptype = DatumGetObjectId(type[i]);
        parameter.pflags = PARAM_FLAG_CONST;
        parameter.isnull = is_null[i];
        if (is_null[i]) continue;
        Oid input, argument;
        getTypeInputInfo(parameter.ptype, &input, &argument);
        parameter.value = OidInputFunctionCall(input, TextDatumGetCString(given[i]), argument, -1);
    }
    return list;
}

// Runs with the caller's rights, which pawl._owner_statements checks.
Reading* readings_of(FunctionCallInfo fcinfo, MemoryContext context, uint64* n) {
    Oid types[] = {REGCLASSOID, NAMEOID, TEXTOID};
    Datum values[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_DATUM(2)};
    const int result = SPI_execute_with_args(
        "SELECT s.role, s.statement, s.types, s.parameters FROM pawl._owner_statements($1, $2, $3) s", 3, types, values,
        nullptr, true, 0);
    if (result != SPI_OK_SELECT) elog(ERROR, "could not read statements: %s", SPI_result_code_string(result));
    *n = SPI_processed;
    MemoryContext before = MemoryContextSwitchTo(context);
    auto* readings = static_cast<Reading*>(palloc0(sizeof(Reading) * Max(*n, 1)));
    for (uint64 i = 0; i < *n; ++i) {
        HeapTuple tuple = SPI_tuptable->vals[i];
        TupleDesc columns = SPI_tuptable->tupdesc;
        bool null;
        const Datum role = SPI_getbinval(tuple, columns, 1, &null);
        readings[i].role = null ? InvalidOid : DatumGetObjectId(role);
        readings[i].statement = TextDatumGetCString(SPI_getbinval(tuple, columns, 2, &null));
        const Datum parameter_types = SPI_getbinval(tuple, columns, 3, &null);
        readings[i].parameters =
            null ? nullptr : parameters_of(parameter_types, SPI_getbinval(tuple, columns, 4, &null));
    }
    MemoryContextSwitchTo(before);
    return readings;
}

void read_into(const Reading& reading, ReturnSetInfo* result) {
    DestReceiver* receiver = CreateDestReceiver(DestTuplestore);
    SetTuplestoreDestReceiverParams(receiver, result->setResult, result->econtext->ecxt_per_query_memory, false,
                                    result->setDesc, "an internal statement returned unexpected columns");
    SPIExecuteOptions options = {};
    options.params = reading.parameters;
    options.read_only = true;
    options.dest = receiver;
    const int code = SPI_execute_extended(reading.statement, &options);
    if (code < 0) elog(ERROR, "could not read a table: %s", SPI_result_code_string(code));
    receiver->rDestroy(receiver);
}

// After an error, the end of the transaction or subtransaction restores the user and the settings.
void read_as(const Reading& reading, ReturnSetInfo* result) {
    if (!OidIsValid(reading.role)) return read_into(reading, result);
    Oid caller;
    int context;
    GetUserIdAndSecContext(&caller, &context);
    SetUserIdAndSecContext(reading.role, context | SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS);
    const int level = NewGUCNestLevel();
    set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                      false);
    read_into(reading, result);
    AtEOXact_GUC(false, level);
    SetUserIdAndSecContext(caller, context);
}

// The arguments of pawl._add_log_partition, and its result.
struct NewPartition {
    Datum* values;
    bool made;
};

void attach_log_partition(void* argument) {
    auto* partition = static_cast<NewPartition*>(argument);
    Oid types[] = {REGCLASSOID, TEXTOID, TEXTOID, TEXTOID};
    SPI_connect();
    const int result = SPI_execute_with_args("SELECT pawl._attach_log_partition($1, $2, $3, $4)", 4, types,
                                             partition->values, nullptr, false, 0);
    if (result != SPI_OK_SELECT || SPI_processed != 1)
        elog(ERROR, "could not add a partition: %s", SPI_result_code_string(result));
    bool null;
    partition->made = DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null));
    SPI_finish();
}

}  // namespace

// pawl._add_log_partition(log, leaf, lower_bound, upper_bound). False: entries of that time are in the default
// partition.
PAWL_FUNCTION(pawl_add_log_partition) {
    return pg::call([&] {
        require_owner(PG_GETARG_OID(0));
        Datum values[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_DATUM(2), PG_GETARG_DATUM(3)};
        NewPartition partition = {values, false};
        with_rights_of(owner_of(PG_GETARG_OID(0)), attach_log_partition, &partition, Reach::confined);
        return BoolGetDatum(partition.made);
    });
}

// pawl.read_as_owner(relation, state_column, what)
PAWL_FUNCTION(pawl_as_owner) {
    return pg::call([&] {
        ReturnSetInfo* result = pg::materialize(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
        MemoryContext context = CurrentMemoryContext;
        SPI_connect();
        uint64 n;
        const Reading* readings = readings_of(fcinfo, context, &n);
        for (uint64 i = 0; i < n; ++i) read_as(readings[i], result);
        SPI_finish();
        return static_cast<Datum>(0);
    });
}

}  // namespace pawl
