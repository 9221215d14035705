-- What every client works on: psql -v client=NAME -f fixture.sql makes a schema NAME with a table for each kind of key.
\set ON_ERROR_STOP on
set client_min_messages to error;
drop schema if exists :"client" cascade;
create schema :"client";
set search_path = :"client";
create table orders (id bigint generated always as identity primary key, state text not null default 'new',
    note text, constraint own_rule check (id <> 9 or state = 'new'));
create table docs (id uuid primary key, state text not null default 'new');
create table lines (a int, b text, state text not null default 'new', primary key (a, b));
select pawl.define(:'client', 'stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    sent --> [*]') \g /dev/null
select pawl.enforce('orders', 'state', :'client', errors => 'check_violation'), pawl.enable_log('orders'),
    pawl.enforce('docs', 'state', :'client'), pawl.enable_log('docs'),
    pawl.enforce('lines', 'state', :'client'), pawl.enable_log('lines') \g /dev/null
insert into orders (note) select 'a note' from generate_series(1, 9);
insert into docs values ('6ecd8c99-4036-403d-bf84-cf8400f67836');
insert into lines values (1, 'x'), (1, 'with, comma');
