-- Functions that switch plans off: a plan that is left although it is switched off has a cost of ten billion, for which
-- the server would compile it in each call.
\set ON_ERROR_STOP 1
\set QUIET 1
set client_min_messages = warning;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
select plan(2);

create temp view planner as select p.oid::regprocedure as function, bool_or(c ~ '^enable_\w+=off$') as switches_off,
        bool_or(c = 'jit=off') as compiles_nothing
    from pg_proc p cross join unnest(p.proconfig) c
    where p.pronamespace::regnamespace::text ~ '^pawl' group by p.oid;
select cmp_ok((select count(*) from planner where switches_off), '>=', 90::bigint, 'there are such functions');
select is_empty('select function from planner where switches_off and not compiles_nothing',
    'each of them switches compiled plans off too');
select * from finish();
