-- Every path of DESIGN 3.2 on a table partitioned by list on the state itself: all state types, all ways of keeping the log.
\ir include/matrix.sql
SELECT no_plan();
\set kind list

\set type text
\set mode stored
\ir include/paths.sql

\set type varchar
\set mode stored
\ir include/paths.sql

\set type enum
\set mode stored
\ir include/paths.sql

\set type text_domain
\set mode stored
\ir include/paths.sql

\set type enum_domain
\set mode stored
\ir include/paths.sql

\set type text
\set mode derived
\ir include/paths.sql

\set type enum_domain
\set mode derived
\ir include/paths.sql

\set type varchar
\set mode off
\ir include/paths.sql

\set type enum
\set mode off
\ir include/paths.sql

SELECT finish();
