-- Lines of CSV, in C++, and the numbers of rows that are copied in.

CREATE FUNCTION pawl_bulk.csv_row(record text, columns text[], delimiter text DEFAULT ',', quote text DEFAULT '"')
    RETURNS jsonb
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_csv_row';
COMMENT ON FUNCTION pawl_bulk.csv_row(text, text[], text, text) IS
'Returns a record of CSV as a JSON object of its columns; null if it is malformed.
record: its text. columns: their names. delimiter: one character; default a comma. quote: one character, doubled
inside fields; a second character is an escape; empty: no quotes; default a double quote.
Errors: 22023 an invalid delimiter or quote; 22004 a column is null. Privileges: pawl_admin, pawl_operator,
pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.csv_row(''1,two'', ''{id,name}'')';

CREATE FUNCTION pawl_bulk.csv_problem(record text, columns text[], delimiter text DEFAULT ',', quote text DEFAULT '"')
    RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_csv_problem';
COMMENT ON FUNCTION pawl_bulk.csv_problem(text, text[], text, text) IS
'Returns why a record of CSV is malformed; null if it is not. record, columns, delimiter, quote: as in
pawl_bulk.csv_row.
Errors: 22023 an invalid delimiter or quote; 22004 a column is null. Privileges: pawl_admin, pawl_operator,
pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.csv_problem(''1,two,3'', ''{id,name}'')';

CREATE FUNCTION pawl_bulk.csv_fields(record text, delimiter text DEFAULT ',', quote text DEFAULT '"') RETURNS text[]
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_csv_fields';
COMMENT ON FUNCTION pawl_bulk.csv_fields(text, text, text) IS
'Returns the fields of a record of CSV. record, delimiter, quote: as in pawl_bulk.csv_row.
Errors: 22P04 it is malformed; 22023 an invalid delimiter or quote. Privileges: pawl_admin, pawl_operator,
pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.csv_fields(''1,"two, three"'')';

CREATE FUNCTION pawl_bulk._csv_open(line text, inside boolean, delimiter text, quote text) RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_csv_open';
COMMENT ON FUNCTION pawl_bulk._csv_open(text, boolean, text, text) IS
'internal: whether a record of CSV continues after this line, in a quoted field; inside: the line began in one';

-- Called once a row wherever it stands in a default. A default that is VOLATILE would make COPY write row by row.
CREATE FUNCTION pawl_bulk.next_row() RETURNS bigint
LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_bulk_next_row';
COMMENT ON FUNCTION pawl_bulk.next_row() IS
'Returns the number of the next row that this transaction copies into its operation (setting pawl_bulk.operation); a
header has 0. The default of pawl_bulk.input.row_number.
Errors: 55000 no operation accepts rows in this transaction; P0002 no such operation. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.next_row()';

CREATE FUNCTION pawl_bulk.takes_rows(operation uuid) RETURNS boolean
LANGUAGE c STABLE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_takes_rows';
COMMENT ON FUNCTION pawl_bulk.takes_rows(uuid) IS
'Returns whether the input of an operation is open; looked up once in a statement. operation: its id.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_bulk.takes_rows(o.operation) FROM pawl_bulk.operations o';
