-- Every path by which a row can be written, on a parent and an inheritance child.
\ir include/matrix.sql
SELECT no_plan();
\set kind inherited
\ir include/paths.sql
SELECT finish();
