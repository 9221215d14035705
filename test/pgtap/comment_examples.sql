-- The examples in the comments of public functions: those of the kernel run on tables that have what they show,
-- those of the packs are parsed.
\set QUIET 1
set client_min_messages to error;
select no_plan();
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;

select pawl.define('order', E'stateDiagram-v2\n[*] --> new\nnew --> paid : pay\npaid --> sent : send\n'
    'new --> void : cancel\nsent --> [*]\nvoid --> [*]');
select pawl.define('job', E'stateDiagram-v2\n[*] --> ready\nready --> running : start\nrunning --> done : finish\n'
    'running --> ready : crashed\nready --> ready : again after 1 hour\ndone --> [*]\nclass running owned');
select pawl.define('parcel', pawl.diagram('order')), pawl.define('draft', E'stateDiagram-v2\n[*] --> a\na --> [*]');
create table orders (id integer primary key, state text not null default 'new', customer text, traceparent text);
create table parcels (like orders including all);
create table letters (id uuid primary key default pawl.uuid_v7(), state text not null default 'new');
create table jobs (id integer primary key, state text not null default 'ready', priority integer not null default 0,
    owner text, lease timestamptz, token bigint, attempts integer not null default 0, due timestamptz,
    result jsonb, error jsonb);
create table offers (like jobs including all);
create table tasks (task integer primary key, name text);
create table steps (task integer references tasks, step integer, state text not null default 'new',
    primary key (task, step));
select pawl.enforce('orders', 'state', 'order'), pawl.enable_log('orders', 'state', hash_chain => true),
    pawl.enable_events('orders'), pawl.enforce('steps', 'state', 'order'), pawl.enforce('offers', 'state', 'job'),
    pawl.enforce('letters', 'state', 'order'), pawl.enable_log('letters', log_partition => 'range (id)'),
    pawl.enforce('jobs', 'state', 'job'),
    pawl.enable_queue('jobs', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.enable_timers('jobs', due => 'due'), pawl.set_claiming('jobs', claim => '{start}', on_expiry => 'crashed'),
    pawl.enable_events('jobs', wake => true);
insert into orders select g from generate_series(1, 9) g;
select pawl.audit('orders', '{"sent": true}');
insert into jobs select g from generate_series(1, 9) g;
select pawl.create_consumer('broker');
select pawl.define('order', E'stateDiagram-v2\n[*] --> new\nnew --> billed : pay\nbilled --> sent : send\n'
    'new --> void : cancel\nsent --> [*]\nvoid --> [*]');

create table examples as
    select p.oid::regprocedure::text as function, n.nspname::text as extension, p.prokind, m.example
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      cross join lateral (select btrim((regexp_match(obj_description(p.oid), 'Example:(.*)$'))[1], E' \n') as example) m
     where n.nspname in ('pawl', 'pawl_dag', 'pawl_bulk', 'pawl_saga', 'pawl_api') and p.proname !~ '^_'
       and m.example is not null;
-- What an example needs before it.
create table before(function text, statement text);
insert into before values
    ('pawl.drop_consumer', $$select pawl.create_consumer('mailer')$$),
    ('pawl.depart', $$insert into pawl.database (name, connection, is_here)
        values ('a', '', true), ('b', '', false);
        insert into pawl.placement (kind, namespace, database) values ('dag', null, 'a')$$),
    ('pawl.place_others', $$insert into pawl.database (name, connection, is_here)
        values ('a', '', true), ('b', '', false)$$),
    ('pawl.place', $$select pawl.set_placing('orders')$$),
    ('pawl.read_events', $$select pawl.create_consumer('mailer')$$),
    ('pawl.enable_log', $$select pawl.enforce('parcels', 'state', 'parcel')$$),
    ('pawl.audit', $$select pawl.unaudit('orders'); drop table orders_result_audit$$);

-- Runs an example and undoes it: ok, or the error.
create function ran(name text, example text) returns text language plpgsql as $$
declare statement text;
begin
    for statement in select b.statement from before b where name ^@ (b.function || '(') loop
        execute statement;
    end loop;
    execute example;
    raise sqlstate 'ZZ999';
exception when sqlstate 'ZZ999' then
    return 'ok';
when others then
    return sqlstate || ' ' || sqlerrm || ' :: ' || example;
end $$;
-- Whether an example names functions, arguments and columns that exist.
create function parsed(example text) returns text language plpgsql as $$
begin
    execute 'prepare example as ' || example;
    deallocate example;
    return 'ok';
exception when others then
    return sqlstate || ' ' || sqlerrm || ' :: ' || example;
end $$;

-- What needs other databases or Citus ends with an error here.
-- The examples of fired_by, restoring and takes_list are a declaration and triggers.
select matches(ran(function, example), case when function ^@ 'pawl.raise(' then '^22023 batch must be positive'
        when function ^@ 'pawl.reset_counters(' then '^(ok$|55000)'
        when function ~ '^pawl\.(claim_and_run|validate_all)\(' then '^2D000'
        when function ~ '^pawl\.(forget_departed|return_departed|spread_definitions)\(' then '^55000'
        when function ^@ 'pawl.arrive(' then '^XX001'
        when function ^@ 'pawl.verify_shard(' then '^42883 function run_command_on_shards' else '^ok$' end, function)
  from (select * from examples where extension = 'pawl' and function !~ '^pawl\.(fired_by|restoring|takes_list)\('
         order by function offset 0) e;
select is(parsed(example), 'ok', function)
  from (select * from examples where extension <> 'pawl' and prokind = 'f'
           and example ~* '^(select|with|insert|update|delete)'
         order by function offset 0) e;
select * from finish();
