-- Every path by which a row can be written, on a table with several machines.
\ir include/matrix.sql
SELECT no_plan();
\set kind several
\ir include/paths.sql
SELECT finish();
