-- Every path by which a row can be written, on a table partitioned by list on the state itself.
\ir include/matrix.sql
SELECT no_plan();
\set kind list
\ir include/paths.sql
SELECT finish();
