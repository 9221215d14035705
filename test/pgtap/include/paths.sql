-- Every path, on one kind of table, one state type and one way of keeping the log.
SELECT (:'kind' IN ('range', 'two_level'))::text AS moves, (:'kind' IN ('list', 'two_level'))::text AS splits_state, (:'kind' = 'two_level')::text AS two_level,
       (:'kind' IN ('range', 'list', 'two_level'))::text AS partitioned, (:'kind' = 'list')::text AS by_state, (:'kind' = 'inherited')::text AS inherits,
       (:'mode' <> 'off')::text AS logged, (:'kind' <> 'list')::text AS free_state, (:'kind' <> 'several')::text AS terminal_deletable,
       (current_setting('server_version_num')::int >= 170000)::text AS since_17, (current_setting('server_version_num')::int >= 180000)::text AS since_18,
       (:'type' <> 'enum_domain')::text AS referable,  -- PostgreSQL knows no foreign key on a domain over an enum
       mx.type_name(:'type') AS state_type,
       -- where the state is a partition key PostgreSQL itself refuses some values first
       CASE :'kind' WHEN 'list' THEN '23514' WHEN 'two_level' THEN '23502' ELSE 'PW001' END AS null_refused,
       CASE :'kind' WHEN 'list' THEN '23514' ELSE 'PW001' END AS unknown_refused \gset
SELECT mx.build(:'kind', :'type', :'mode');
\ir paths_triggers.sql
\ir paths_moving.sql
\ir paths_statements.sql
\if :since_17
\ir paths_statements_17.sql
\endif
\if :since_18
\ir paths_statements_18.sql
\endif
\if :referable
\ir paths_foreign_keys.sql
\endif
\ir paths_transactions.sql
\ir paths_members.sql
\ir paths_policies.sql
