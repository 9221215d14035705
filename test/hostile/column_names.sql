-- A table may have columns of any name, also those by which pawl's own statements call what they compute: every word of
-- these statements is the name of a column here, and every name of theirs that of a key column.
\set ECHO none
\set QUIET 1
set client_min_messages to error;
select no_plan();

select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> ready : expire
    running --> done : finish
    ready --> late : remind after 1 hour
    class running owned
    done --> [*]
    late --> [*]') \g /dev/null

-- Names that statements written in C++ give, beside all that those in SQL give.
create temp table called(name text primary key);
insert into called
select distinct m[1] from pg_proc p, regexp_matches(p.prosrc, '\mAS\s+"?([a-z_][a-z0-9_~]*)"?', 'g') m
 where p.pronamespace = 'pawl'::regnamespace
union select distinct m[1] from pg_proc p, regexp_matches(p.prosrc, '\m([a-z][a-z0-9]?)\M', 'g') m
 where p.pronamespace = 'pawl'::regnamespace
union select unnest('{pawl~row,pawl~first,pawl~lock,pawl~n,pawl~k0,pawl~salt,k,k0,n,place,to_state,key_1}'::text[]);
create temp table said(word text primary key);
insert into said select distinct m[1] from pg_proc p, regexp_matches(p.prosrc, '\m([a-z_][a-z0-9_]*)\M', 'g') m
 where p.pronamespace = 'pawl'::regnamespace
union select name from called;
create temp table of_the_system as
select attname as name from pg_attribute where attrelid = 'pg_class'::regclass and attnum < 0;
delete from said where word in (select name from of_the_system);
delete from called where name in (select name from of_the_system);
select cmp_ok((select count(*) from called), '>', 100::bigint, 'there are names of computed columns');
select cmp_ok((select count(*) from said), '>', 1000::bigint, 'there are words');

create schema app;
-- Tables with key columns of such names or other columns of any word: plain, partitioned, or with children.
create function app.make(made text, keys text[], others text[], kind text) returns void language plpgsql as $$
declare
    key_list text := (select string_agg(format('%I', k), ', ' order by k) from unnest(keys) k);
begin
    execute format('create table app.%I (%s, the_state text not null default %L, the_owner text, '
        'the_lease timestamptz, the_token bigint, the_due timestamptz %s, primary key (%s)) %s', made,
        (select string_agg(format('%I integer not null', k), ', ' order by k) from unnest(keys) k), 'ready',
        (select string_agg(format(', %I integer default 7', o), '' order by o) from unnest(others) o), key_list,
        case kind when 'partitioned' then format('partition by hash (%I)', keys[1]) else '' end);
    if kind = 'partitioned' then
        execute format('create table app.%I partition of app.%I for values with (modulus 1, remainder 0)',
            made || ' part', made);
    elsif kind = 'with a child' then
        execute format('create table app.%I (primary key (%s)) inherits (app.%I)', made || ' child', key_list, made);
    end if;
    perform pawl.enforce(format('app.%I', made)::regclass, 'the_state', 'job');
    perform pawl.enable_queue(format('app.%I', made)::regclass, owner => 'the_owner', lease => 'the_lease',
        token => 'the_token');
    perform pawl.set_claiming(format('app.%I', made)::regclass, claim => '{start}', on_expiry => 'expire',
        lease_time => '1 min');
    perform pawl.enable_timers(format('app.%I', made)::regclass, due => 'the_due');
    execute format('insert into app.%I (%s) select %s from generate_series(1, 5) g', made, key_list,
        array_to_string(array_fill('g'::text, array[cardinality(keys)]), ', '));
    perform pawl.enable_log(format('app.%I', made)::regclass,
        most_recent => case kind when 'plain' then 'stored' else 'derived' end, hash_chain => kind <> 'plain');
    perform pawl.enable_events(format('app.%I', made)::regclass);
    perform pawl.audit(format('app.%I', made)::regclass, '{"done": true}', parent => others[1:3]::name[]);
end$$;

-- What users and duties do with a table.
create function app.live(made text, n integer) returns void language plpgsql as $$
declare
    t constant regclass := format('app.%I', made)::regclass;
    key constant text[] := array_fill('1'::text, array[n]);
    keys constant text[] := array[array_fill('2'::text, array[n]), array_fill('3'::text, array[n])];
begin
    perform pawl.available(t, key);
    perform pawl.fire(t, key, 'start', processor => 'p');
    perform pawl.fire_many(t, keys, 'remind');
    perform pawl.fire(t, key, 'finish', processor => 'p');
    perform pawl.history(t, key), pawl.audit_of(t, key), pawl.state_at(t, key, now());
    execute format('select pawl.claim(null::%s, processor => ''p'', batch => 2)', t);
    perform pawl.heartbeat(t, 'p'), pawl.redact(t, key, '{processor}', 'a test');
    execute format('update %s set the_lease = ''-infinity'' where the_owner is not null', t);
    perform pawl.reap(t);
    execute format('update %s set the_due = ''-infinity'' where the_due is not null', t);
    perform pawl.fire_due(t), pawl.set_placing(t);
    perform pawl.place(t, key, 'ready', 'a test');
    if (select removed from pawl.prune_log(t, '0', only_terminal => false)) < 5 then
        raise exception 'nothing was pruned';
    end if;
    perform pawl.prune_audit(t, '0');
    perform pawl.definition(t), pawl.state_counts(b) from pawl.binding b where b.relation = t;
    perform from pawl.read_as_owner(t, 'the_state', 'stays') s(state text, n bigint, mean numeric, p95 numeric,
        most numeric);
    perform pawl.paths('job', t);
    perform from pawl.queue_depth q where q.relation = t;
    perform from pawl.owners o where o.relation = t;
    perform from pawl.timers d where d.relation = t;
    perform pawl.place(t, key, 'late', 'a test');
    execute format('delete from %s where the_state = ''late''', t);
end$$;

create temp table tables(made text, kind text, keys text[], others text[]);
insert into tables
select format('%s %s', (array['plain', 'partitioned', 'with a child'])[1 + page % 3], page),
       (array['plain', 'partitioned', 'with a child'])[1 + page % 3], names,
       array(select c.name from called c where c.name <> all (names) order by md5(c.name) limit 6)
  from (select page, array_agg(name order by name) as names
          from (select name, (row_number() over (order by name) - 1) / 30 as page from called) c group by page) p;
insert into tables values ('reserved', 'plain', '{id,subject_id,event,subject_event,subject_subject_event,state,worker,
    whole,subject_whole,pruned_at}', '{parent_state,subject_state,success,parent_success}');
insert into tables
select 'words ' || page, (array['plain', 'partitioned', 'with a child'])[1 + page % 3], '{the_key,the_other_key}', words
  from (select page, array_agg(word order by word) as words
          from (select word, (row_number() over (order by word) - 1) / 750 as page from said) s group by page) p;
select is((select count(distinct kind) from tables), 3::bigint, 'tables of all kinds');
select lives_ok(format('select app.make(%L, %L, %L, %L)', made, keys, others, kind), made || ': it is enforced')
  from tables;
select lives_ok(format('select app.live(%L, %s)', made, cardinality(keys)), made || ': functions and duties find rows')
  from tables;
select is((select string_agg(concat_ws(' ', problem, detail), E'\n') from pawl.verify() where problem <> 'placed'),
    null, 'verify reads all of it, and nothing is wrong');
select is((select string_agg(check_name || ' ' || coalesce(detail, ''), E'\n') from pawl.health()
            where status = 'error'), null, 'nothing is an error for health');

-- What cannot be read hides nothing of the other tables.
create table app.broken (id integer primary key, the_state text not null default 'ready');
create table app.wrong (like app.broken including all);
select pawl.enforce(t, 'the_state', 'job') from unnest('{app.broken,app.wrong}'::regclass[]) t \g /dev/null
create foreign data wrapper broken;
create server broken foreign data wrapper broken;
set session_replication_role = replica;
create foreign table app.broken_child () inherits (app.broken) server broken;
insert into app.wrong values (1, 'nowhere');
reset session_replication_role;
select is((select detail from pawl.verify() where problem = 'not_checked' and relation = 'app.broken'::regclass),
    'foreign-data wrapper "broken" has no handler', 'a table that cannot be read is not checked');
select is((select key from pawl.verify() where problem = 'unknown_state' and relation = 'app.wrong'::regclass), '1',
    'what is wrong with another table is found');
select throws_ok($$select pawl.verify('app.broken')$$, '55000', 'foreign-data wrapper "broken" has no handler',
    'asked for by name, the table raises its error');

select * from finish();
