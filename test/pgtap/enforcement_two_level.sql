-- Every path by which a row can be written, on a table partitioned on two levels.
\ir include/matrix.sql
SELECT no_plan();
\set kind two_level
\ir include/paths.sql
SELECT finish();
