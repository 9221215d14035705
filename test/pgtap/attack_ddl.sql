-- DDL that reaches an enforced table by another name than its own: in a CREATE SCHEMA, under the name of another kind
-- of relation, through a parent or a composite type, and by the attacker's own casts.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
select no_plan();
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back$$) \g /dev/null

-- CREATE SCHEMA makes tables of its own, and only it is heard of
create table tree (id int primary key, state text not null default 'a');
select pawl.enforce('tree', 'state', 'm'), pawl.enable_log('tree', 'state') \g /dev/null
create schema elsewhere create table child () inherits (public.tree);
select throws_ok($$insert into elsewhere.child values (1, 'nowhere')$$, 'PW002', null,
    'rows of a child that a CREATE SCHEMA made are validated');
insert into elsewhere.child values (1, 'a');
select throws_ok($$update elsewhere.child set state = 'nowhere'$$, 'PW001', null, 'so are its state changes');
select is((select count(*) from pawl.history('tree', 1)), 1::bigint, 'a row of an inherited tree has its log entry');
create table parts (id int primary key, state text not null default 'a') partition by range (id);
select pawl.enforce('parts', 'state', 'm', on_delete => 'deny'), pawl.enable_log('parts', 'state') \g /dev/null
create schema further
    create table part partition of public.parts for values from (0) to (100)
    create table plain (id int);
insert into parts values (1);
select throws_ok($$truncate further.part$$, 'PW001', null, 'a partition that a CREATE SCHEMA made keeps its rows');
select is_empty($$select * from pawl.health() where status = 'error'$$, 'health has nothing to say');

-- ALTER VIEW ... RENAME COLUMN renames those of tables, too
alter view parts rename column state to status;
select lives_ok($$update parts set status = 'b'$$, 'a column that was renamed as if of a view is followed');
alter materialized view parts rename column status to stand;
select lives_ok($$update parts set stand = 'a'$$, 'or of a materialized view');
alter foreign table parts rename column stand to state;
select lives_ok($$update parts set state = 'b'$$, 'or of a foreign table');
select throws_ok($$alter view parts_transitions_log rename column event to reason$$, '55000', null,
    'a log keeps its columns');

-- a composite type alters the tables of it
create type form as (id int, state text);
create table typed of form (primary key (id), state not null default 'a');
select pawl.enforce('typed', 'state', 'm'), pawl.enable_log('typed', 'state') \g /dev/null
insert into typed values (1);
alter type form rename attribute state to status cascade;
select lives_ok($$update typed set status = 'b'$$, 'a column that was renamed with its type is followed');
select is((select state_column::text from pawl.binding where relation = 'typed'::regclass), 'status',
    'by the lifecycle');
select throws_ok($$alter type form drop attribute status cascade$$, '2BP01', null, 'and cannot be dropped with it');

-- a parent without a binding alters its children
create table parent (id int, state text not null default 'a');
create table heir (primary key (id)) inherits (parent);
select pawl.enforce('heir', 'state', 'm'), pawl.enable_log('heir', 'state') \g /dev/null
insert into heir values (1);
select throws_ok($$alter table parent alter state type text using 'nowhere'$$, '2BP01', null,
    'states cannot be rewritten through a parent');
alter table parent rename column state to status;
select lives_ok($$update heir set status = 'b'$$, 'a column that was renamed through a parent is followed');
alter table parent rename column id to number;
select lives_ok($$update heir set status = 'a'$$, 'and so is a key');
select is((select state from pawl.history('heir', 1) h(n, f, state) order by n desc limit 1), 'a',
    'in the log as well');

-- a user-defined cast needs no USING
create type first as enum ('a', 'b');
create type second as enum ('a', 'b', 'elsewhere');
create function astray(first) returns second language sql immutable as $$select 'elsewhere'::second$$;
create cast (first as second) with function astray(first) as assignment;
create table casts (id int primary key, state first not null);
select pawl.enforce('casts', 'state', 'm') \g /dev/null
insert into casts values (1, 'a');
select throws_ok($$alter table casts alter state type second$$, '2BP01', null,
    'a cast of one''s own does not move rows');
select lives_ok($$alter table casts alter state type text$$, 'the server''s own may be used');

-- a key that is computed anew parts rows from their logs
create table keyed (id int primary key, state text not null);
select pawl.enforce('keyed', 'state', 'm'), pawl.enable_log('keyed', 'state') \g /dev/null
insert into keyed values (1, 'a');
select throws_ok($$alter table keyed alter id type int using id + 1$$, '2BP01', null,
    'keys cannot be rewritten while there is a log');
select is_empty($$select * from pawl.verify()$$, 'after all that, verify finds nothing');

-- a guard that is gone
create table guarded (id int primary key, state text not null);
create function sure(old guarded, new guarded) returns boolean language sql as 'select true';
select pawl.define('guarded', $$stateDiagram-v2
    [*] --> a
    a --> b : go [sure]
    b --> a : back$$) \g /dev/null
select pawl.enforce('guarded', 'state', 'guarded') \g /dev/null
drop function sure;
select is((select hint from pawl.health() where check_name = 'functions' and status = 'error'),
          'create function public.sure(old public.guarded, new public.guarded) ...',
          'health says how to make a guard that is gone');
select pawl.release('guarded') \g /dev/null

-- triggers of pawl on tables of other owners do not keep an owner from its own table
create role pawl_test_mallory;
grant create on schema public to pawl_test_mallory;
set role pawl_test_mallory;
create table hers (id int);
create trigger snare before truncate on hers for each statement execute function pawl.record_truncate();
reset role;
select lives_ok($$alter table parts detach partition further.part$$,
    'a partition may leave, whatever triggers others have made');
select is((select count(*) from pg_trigger where tgrelid = 'further.part'::regclass), 0::bigint,
    'and keeps none of ours');
drop owned by pawl_test_mallory;
drop role pawl_test_mallory;
select * from finish();
