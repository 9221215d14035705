-- Functions that switch plans off: a plan that is left although it is switched off has a cost of ten billion, for which
-- the server would compile it in each call. And functions that look rows up by key, whose plans are kept while tables
-- grow: each has enable_seqscan = off, by which the planner knows it, or stands below with its reason.
\set ON_ERROR_STOP 1
\set QUIET 1
set client_min_messages = warning;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
select no_plan();

create temp view planner as select p.oid::regprocedure as function, bool_or(c ~ '^enable_\w+=off$') as switches_off,
        bool_or(c = 'jit=off') as compiles_nothing
    from pg_proc p cross join unnest(p.proconfig) c
    where p.pronamespace::regnamespace::text ~ '^pawl' group by p.oid;
select cmp_ok((select count(*) from planner where switches_off), '>=', 90::bigint, 'there are such functions');
select is_empty('select function from planner where switches_off and not compiles_nothing',
    'each of them switches compiled plans off too');

-- Tables that stay small: definitions, and what is tried again.
create temp table small_tables (name text primary key);
insert into small_tables values ('pawl_dag.templates'), ('pawl_dag.template_steps'), ('pawl_dag.template_edges'),
    ('pawl_dag.namespaces'), ('pawl_dag.troubles'), ('pawl_dag.dlq_reasons'), ('pawl_saga.definitions'),
    ('pawl_saga.nodes'), ('pawl_saga.votes'), ('pawl_saga.parameters'), ('pawl_saga.set_aside'),
    ('pawl_bulk.definitions'), ('pawl_bulk.steps'), ('pawl_bulk.troubles'), ('pawl_bulk.upkeep');
create temp table exceptions (function text primary key, reason text not null);
insert into exceptions values
    ('pawl_api._task_has', 'called for each task that a search looks at, by _find_tasks, which has the setting'),
    ('pawl_api._failed_bulks', 'an overview: reads all that failed'),
    ('pawl_api._failed_flows', 'an overview: reads all that failed'),
    ('pawl_api._overview_bulks', 'an overview: counts all'),
    ('pawl_bulk._export_data', 'writes the text of a statement'),
    ('pawl_bulk._export_json', 'writes the text of a statement'),
    ('pawl_dag._step_by_sql', 'the name is in the text of a hint'),
    ('pawl_bulk._immutable', 'for each row that a foreign key removes, which counts as marked'),
    ('pawl_bulk._record_kept', 'for each row that a foreign key removes, which counts as marked'),
    ('pawl_dag._make_steps', 'a join with many new tasks: grown_lookups calls it'),
    ('pawl_dag._make_mapped_steps', 'a join with many new tasks, by hashing: grown_lookups calls it');
-- What a body reads or changes by name: tables, views, and the queries of pawl_api that are merged into others.
create temp view sources as select f.function, f.marked, m[1] as source
    from (select p.oid::regproc::text as function,
                coalesce('enable_seqscan=off' = any (p.proconfig), false) as marked,
                regexp_replace(p.prosrc, '--[^\n]*', '', 'g') as body
            from pg_proc p join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
           where p.pronamespace::regnamespace::text ~ '^pawl_(dag|saga|bulk|api)$') f
   cross join regexp_matches(f.body, '\m(?:from|join|update|using)\s+(?:only\s+)?'
        '(pawl_(?:dag|saga|bulk)\.\w+\M(?!\()|pawl_api\._(?:tasks|steps)\()', 'gi') m
   where m[1] !~ '^pawl_\w+\.' or m[1] ~ '\($' or to_regclass(m[1]) is not null;
create temp view lookups as select function, bool_or(marked) as marked, string_agg(distinct source, ', ') as sources
    from sources where source not in (select name from small_tables) group by function;
select cmp_ok((select count(*) from lookups where marked), '>=', 100::bigint, 'many functions look up by key');
select is_empty('select function, sources from lookups
        where not marked and function not in (select function from exceptions)',
    'each of them has the setting, or a reason not to');
select is_empty('select function from exceptions
        where function not in (select function from lookups where not marked)', 'no exception is needless');
select is_empty('select name from small_tables where to_regclass(name) is null', 'the small tables are there');
select * from finish();
