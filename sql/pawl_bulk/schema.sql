CREATE SCHEMA pawl_bulk;
COMMENT ON SCHEMA pawl_bulk IS
'bulk operations: their definitions, the rows that come in, their records step by step, and the duties that '
'advance them';
