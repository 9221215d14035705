-- Every path by which a row can be written, on a table partitioned by range.
\ir include/matrix.sql
SELECT no_plan();
\set kind range
\ir include/paths.sql
SELECT finish();
