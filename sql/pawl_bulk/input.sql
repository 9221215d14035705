-- Lines of CSV, in C++, and the numbers of rows that are copied in.

CREATE FUNCTION pawl_bulk.csv_row(record text, columns text[], delimiter text DEFAULT ',', quote text DEFAULT '"') RETURNS jsonb
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_csv_row';
COMMENT ON FUNCTION pawl_bulk.csv_row(text, text[], text, text) IS 'a record of CSV as a JSON object of its columns; null where it is malformed. quote: what is around fields, twice for one inside; a second character is an escape before a quote inside; empty: no quotes';

CREATE FUNCTION pawl_bulk.csv_problem(record text, columns text[], delimiter text DEFAULT ',', quote text DEFAULT '"') RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_csv_problem';
COMMENT ON FUNCTION pawl_bulk.csv_problem(text, text[], text, text) IS 'why a record of CSV is malformed; null where it is not';

CREATE FUNCTION pawl_bulk.csv_fields(record text, delimiter text DEFAULT ',', quote text DEFAULT '"') RETURNS text[]
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_csv_fields';
COMMENT ON FUNCTION pawl_bulk.csv_fields(text, text, text) IS 'the fields of a record of CSV; 22P04: it is malformed';

CREATE FUNCTION pawl_bulk._csv_open(line text, inside boolean, delimiter text, quote text) RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_csv_open';
COMMENT ON FUNCTION pawl_bulk._csv_open(text, boolean, text, text) IS 'internal: whether a record of CSV goes on behind this line, in a quoted field; inside: it was in one when the line began';

-- Called once a row wherever it stands in a default. A default that is VOLATILE would make COPY write row by row.
CREATE FUNCTION pawl_bulk.next_row() RETURNS bigint
LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_bulk_next_row';
COMMENT ON FUNCTION pawl_bulk.next_row() IS 'the number of the next row that is copied into the operation of this transaction (setting pawl_bulk.operation); a header has 0';

CREATE FUNCTION pawl_bulk.takes_rows(operation uuid) RETURNS boolean
LANGUAGE c STABLE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_bulk_takes_rows';
COMMENT ON FUNCTION pawl_bulk.takes_rows(uuid) IS 'whether the input of an operation is open; it is looked up once a statement';
