// May throw; what may ereport runs inside pg::call. The rows of bulk operations as they come in: lines of CSV, and
// their numbers.
#include "core/csv.hpp"
#include "pg/arguments.hpp"

extern "C" {
#include "storage/proc.h"
#include "utils/uuid.h"
}

namespace pawl {
namespace {

char one_character(text* value, const char* name) {
    const std::string_view view = pg::view(value);
    if (view.size() != 1)
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, std::string(name) + " must be one ASCII character");
    return view[0];
}

// The argument is the quote, perhaps followed by the escape; empty: no quote.
core::CsvDialect dialect_of(FunctionCallInfo fcinfo, int n) {
    core::CsvDialect dialect{one_character(pg::text_argument(fcinfo, n), "the delimiter")};
    const std::string_view quote = pg::view(pg::text_argument(fcinfo, n + 1));
    if (quote.size() > 2)
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE,
                          "the quote must be one ASCII character, or two: the second is the escape");
    dialect.quote = quote.empty() ? '\0' : quote[0];
    if (quote.size() == 2) dialect.escape = quote[1];
    if (std::string_view("\n\r").find(dialect.delimiter) != std::string_view::npos ||
        dialect.delimiter == dialect.quote || dialect.delimiter == dialect.escape)
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE,
                          "the delimiter must be neither the quote, nor the escape, nor the end of a line");
    return dialect;
}

struct Columns {
    Datum* names;
    int count;
};

Columns columns_of(FunctionCallInfo fcinfo, int n) {
    return pg::call([&] {
        Columns columns{};
        bool* nulls = nullptr;
        deconstruct_array(PG_GETARG_ARRAYTYPE_P(n), TEXTOID, -1, false, TYPALIGN_INT, &columns.names, &nulls,
                          &columns.count);
        for (int i = 0; i < columns.count; ++i)
            if (nulls[i]) ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("a column has no name")));
        return columns;
    });
}

// What is wrong with a record; empty: nothing.
std::string problem_of(std::string_view record, const core::CsvDialect& dialect, int columns,
                       std::vector<std::string>& fields) {
    const std::string_view problem = core::split_csv(record, dialect, fields);
    if (!problem.empty()) return std::string(problem);
    if (fields.size() != static_cast<std::size_t>(columns))
        return std::to_string(fields.size()) + " fields where there are " + std::to_string(columns) + " columns";
    return {};
}

// The JSON object of the columns' names and the fields. Ereports.
Datum make_object(const Columns& columns, const std::vector<std::string>& fields) {
    JsonbParseState* state = nullptr;
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
    for (int i = 0; i < columns.count; ++i) {
        text* name = DatumGetTextPP(columns.names[i]);
        JsonbValue value;
        value.type = jbvString;
        value.val.string.val = VARDATA_ANY(name);
        value.val.string.len = static_cast<int>(VARSIZE_ANY_EXHDR(name));
        pushJsonbValue(&state, WJB_KEY, &value);
        value.val.string.val = const_cast<char*>(fields[static_cast<std::size_t>(i)].data());
        value.val.string.len = static_cast<int>(fields[static_cast<std::size_t>(i)].size());
        pushJsonbValue(&state, WJB_VALUE, &value);
    }
    return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr)));
}

// The last number given to a row of this session: for one operation, in one transaction and subtransaction.
struct Numbering {
    char operation[40];
    LocalTransactionId transaction;
    SubTransactionId subtransaction;
    int64 next;
};
Numbering numbering;

LocalTransactionId this_transaction() {
#if PG_VERSION_NUM >= 170000
    return MyProc->vxid.lxid;
#else
    return MyProc->lxid;
#endif
}

// Reads the table. Ereports.
int64 first_number(const char* operation) {
    Oid types[] = {TEXTOID};
    Datum values[] = {CStringGetTextDatum(operation)};
    bool missing = true;
    SPI_connect();
    SPI_execute_with_args("SELECT pawl_bulk._first_number($1::pg_catalog.uuid)", 1, types, values, nullptr, true, 1);
    const int64 number = SPI_processed == 1
                             ? DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &missing))
                             : 0;
    SPI_finish();
    if (missing) ereport(ERROR, (errcode(ERRCODE_NO_DATA_FOUND), errmsg("there is no operation %s", operation)));
    return number;
}

// What is known about an operation, for the rows of one statement.
struct Taking {
    pg_uuid_t operation;
    LocalTransactionId transaction;
    CommandId command;
    bool takes;
};
Taking taking;

// Reads the table. Ereports.
bool takes_rows(const pg_uuid_t& operation) {
    Oid types[] = {UUIDOID};
    Datum values[] = {UUIDPGetDatum(&operation)};
    bool missing = true;
    SPI_connect();
    SPI_execute_with_args("SELECT pawl_bulk._takes_rows($1)", 1, types, values, nullptr, true, 1);
    const bool takes =
        SPI_processed == 1 && DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &missing));
    SPI_finish();
    return takes && !missing;
}

}  // namespace

PAWL_FUNCTION(pawl_bulk_csv_row) {
    const Columns columns = columns_of(fcinfo, 1);
    std::vector<std::string> fields;
    fields.reserve(static_cast<std::size_t>(columns.count));
    if (!problem_of(pg::view(pg::text_argument(fcinfo, 0)), dialect_of(fcinfo, 2), columns.count, fields).empty())
        PG_RETURN_NULL();
    return pg::call([&] { return make_object(columns, fields); });
}

PAWL_FUNCTION(pawl_bulk_csv_problem) {
    std::vector<std::string> fields;
    const std::string problem =
        problem_of(pg::view(pg::text_argument(fcinfo, 0)), dialect_of(fcinfo, 2), columns_of(fcinfo, 1).count, fields);
    if (problem.empty()) PG_RETURN_NULL();
    return pg::call([&] { return PointerGetDatum(pg::make_text(problem)); });
}

PAWL_FUNCTION(pawl_bulk_csv_fields) {
    std::vector<std::string> fields;
    const std::string_view problem =
        core::split_csv(pg::view(pg::text_argument(fcinfo, 0)), dialect_of(fcinfo, 1), fields);
    if (!problem.empty()) throw pg::Failure(ERRCODE_BAD_COPY_FILE_FORMAT, std::string(problem));
    return pg::call([&] { return pg::make_text_array(fields); });
}

PAWL_FUNCTION(pawl_bulk_csv_open) {
    const bool open =
        core::ends_quoted(pg::view(pg::text_argument(fcinfo, 0)), dialect_of(fcinfo, 2), PG_GETARG_BOOL(1));
    return BoolGetDatum(open);
}

PAWL_FUNCTION(pawl_bulk_takes_rows) {
    return pg::call([&] {
        const pg_uuid_t operation = *DatumGetUUIDP(PG_GETARG_DATUM(0));
        const CommandId command = GetCurrentCommandId(false);
        if (taking.transaction != this_transaction() || taking.command != command ||
            memcmp(&taking.operation, &operation, sizeof operation) != 0 || !taking.takes)
            taking = {operation, this_transaction(), command, takes_rows(operation)};
        return BoolGetDatum(taking.takes);
    });
}

PAWL_FUNCTION(pawl_bulk_next_row) {
    return pg::call([] {
        const char* operation = GetConfigOption("pawl_bulk.operation", true, false);
        if (operation == nullptr || operation[0] == '\0' || strlen(operation) >= sizeof numbering.operation)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("no operation accepts rows in this transaction"),
                            errhint("select * from pawl_bulk.submit('...')")));
        if (numbering.transaction != this_transaction() || numbering.subtransaction != GetCurrentSubTransactionId() ||
            strcmp(numbering.operation, operation) != 0) {
            numbering.next = first_number(operation);
            strlcpy(numbering.operation, operation, sizeof numbering.operation);
            numbering.transaction = this_transaction();
            numbering.subtransaction = GetCurrentSubTransactionId();
        }
        return Int64GetDatum(numbering.next++);
    });
}

}  // namespace pawl
