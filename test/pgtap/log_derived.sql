-- The append-only log, its most_recent derived by a view. The same test as log_stored.sql.
\set mode derived
\set log t_transitions_log
\ir shared/log.psql
