-- Tables that Citus distributes in ways that cannot be enforced are rejected. test/tap/121_citus.pl has the others.
-- Citus is not here: a table stands in for its catalog.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
select no_plan();
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go$$) \g /dev/null
create table plain (id int primary key, state text not null default 'a');
create table spread (id int primary key, state text not null default 'a');
create table later (id int primary key, state text not null default 'a');
create table parts (id int primary key, state text not null default 'a') partition by range (id);
create table parts_1 partition of parts for values from (0) to (100);
select lives_ok($$select pawl.enforce('later', 'state', 'm'), pawl.enable_log('later', 'state')$$,
    'without Citus every table is taken');
set allow_system_table_mods = on;
create table pg_catalog.pg_dist_partition (logicalrelid regclass not null, partmethod "char" not null);
insert into pg_catalog.pg_dist_partition values ('spread', 'r'), ('parts_1', 'h');
grant select on pg_catalog.pg_dist_partition to public;
reset allow_system_table_mods;
select lives_ok($$select pawl.enforce('plain', 'state', 'm')$$, 'a local table is taken where Citus is');

create function rejection(relation regclass) returns text language plpgsql as $$
declare detail text; hint text;
begin
    perform pawl.enforce(relation, 'state', 'm'), pawl.enable_log(relation, 'state');
    return 'ok';
exception when others then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return concat_ws('|', sqlstate, sqlerrm, detail, hint);
end $$;
select is(rejection('spread'),
    $$0A000|public.spread is a table that is distributed by range|Shards of such a table come and go one by one, without the triggers of the table.|select undistribute_table('public.spread'), then create_distributed_table$$,
          'a table that is distributed by range is rejected');
select is(rejection('parts'),
    $$0A000|public.parts_1 is a distributed table with partitions|Machines are enforced on distributed tables without partitions only.|select undistribute_table('public.parts_1')$$,
          'and a table with a distributed partition');
select is_empty($$select * from pawl.health() where status <> 'ok'$$, 'health has nothing to say of local tables');
insert into pg_catalog.pg_dist_partition values ('later', 'h');
select results_eq($$select relation::text, check_name, status, hint from pawl.health() where status <> 'ok'$$,
                  $$values ('later', 'distributed', 'error', 'select pawl.release(''public.later'', ''state''), then enforce the machine again')$$,
                  'but of one that became distributed without its log');
update pg_catalog.pg_dist_partition set logicalrelid = 'later_transitions_log' where logicalrelid = 'later'::regclass;
select is((select count(*) from pawl.health() where check_name = 'distributed'), 1::bigint, 'or whose log did');
create role pawl_distributed_reader in role pawl_reader;
set role pawl_distributed_reader;
select is((select count(*) from pawl.health() where check_name = 'distributed'), 1::bigint, 'to a reader, too');
reset role;

-- a trigger function of pawl's catalog on a user's own table
create role pawl_distributed_user;
set role pawl_distributed_user;
create temp table mine (a int);
create trigger t after insert on mine for each statement execute function pawl.invalidate();
select throws_ok('insert into mine values (1)', '39P01', null, 'pawl.invalidate() is for the tables of pawl alone');
reset role;
select finish();
