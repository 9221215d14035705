-- Every path by which a row can be written, on a plain table.
\ir include/matrix.sql
SELECT no_plan();
\set kind plain
\ir include/paths.sql
SELECT finish();
