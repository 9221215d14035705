-- The log with most_recent as a column. The same test as log_derived.sql.
\set mode stored
\set log t_transitions
\ir shared/log.psql
