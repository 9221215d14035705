-- pawl.queue_depth, pawl.owners and pawl.timers: what they count, up to where, by which indexes, and for which roles.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql
create role pawl_views_clerk;
create role pawl_views_stranger;

-- Rows are put where they are without pawl's help: what the views see is all that matters here.
create function fill(relation text) returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    execute format($q$insert into %s (id, state, queue, priority, created_at, owner, lease, due) values
        (1, 'ready', 'mail', 1, now() - interval '1 hour', null, null, null),
        (2, 'ready', 'mail', 9, now() - interval '1 minute', null, null, null),
        (3, 'waiting', 'mail', 1, now(), null, null, now() + interval '1 hour'),
        (4, 'waiting', 'print', 1, now(), null, null, now() - interval '5 minutes'),
        (5, 'running', 'mail', 1, now(), 'w1', now() + interval '1 minute', null),
        (6, 'running', 'mail', 1, now(), 'w1', now() - interval '1 minute', null),
        (7, 'running', 'print', 1, now(), 'w2', now() + interval '2 minutes', now() + interval '2 hours'),
        (8, 'running', null, 1, now(), 'w2', null, null),
        (9, 'done', 'mail', 1, now(), null, null, null),
        (10, 'ready', null, 1, now() - interval '1 second', null, null, null)$q$, relation);
    set local session_replication_role = origin;
end $$;
create function depth() returns setof text language sql as $$
    select concat_ws(' ', relation, coalesce(queue, '(null)'), claimable, due_later, owned, at_least,
        date_trunc('minute', oldest), is_paused) from pawl.queue_depth $$;
create function owners() returns setof text language sql as $$
    select concat_ws(' ', relation, processor, owned, at_least, extract(epoch from next_lease_end - now())::int,
        extract(epoch from last_lease_end - now())::int, expired) from pawl.owners order by 1 $$;
create function timers() returns setof text language sql as $$
    select concat_ws(' ', relation, due, at_least, extract(epoch from next_due - now())::int,
        extract(epoch from lag)::int) from pawl.timers order by 1 $$;

select is_empty($$select depth() union all select owners() union all select timers()$$,
    'nothing is enforced, nothing is seen');
begin;
select make_jobs('jobs');
select enforce_jobs('jobs');
select fill('jobs');
select results_eq($$select regexp_replace(d, ' 00:..:.. ', ' ~ ') from depth() d$$,
    $$values ('jobs mail 2 1 2 f 01:00:00 f'), ('jobs print 0 1 1 f f'), ('jobs (null) 1 0 1 f ~ f')$$,
    'queue by queue');
select results_eq($$select owners()$$, $$values ('jobs w1 2 f -60 60 1'), ('jobs w2 2 f 120 120 0')$$,
    'owner by owner');
select results_eq($$select regexp_replace(timers(), '30\d$', '30.')$$, $$values ('jobs 1 f 3600 30.')$$,
    'the view timers shows when the next timer is due');
select pawl.pause('jobs', 'print');
select pawl.pause('jobs', 'fax');
select pawl.pause('jobs', 'mail');
update pawl.paused set until = now() - interval '1 s' where queue = 'mail';
select results_eq($$select queue, is_paused from pawl.queue_depth$$, $$values ('fax', true), ('mail', false),
    ('print', true), (null, false)$$, 'queues that are paused, as long as they are');
select pawl.pause('jobs');
select results_eq($$select bool_and(is_paused) from pawl.queue_depth$$, $$values (true)$$, 'all of them');
rollback;

-- Partitioned and inherited tables, queues of every type, owners that are no text, an order without a time.
begin;
create table parts (id int, region text not null default 'a', state text not null default 'ready', owner text,
    lease timestamptz, token bigint not null default 0, due timestamptz, attempts int not null default 0,
    max_attempts int, queue text, priority int not null default 0, created_at timestamptz not null default now(),
    primary key (id, region)) partition by hash (id);
create table parts_0 partition of parts for values with (modulus 2, remainder 0);
create table parts_1 partition of parts for values with (modulus 2, remainder 1);
select enforce_jobs('parts');
select fill('parts');
select make_jobs('base');
create table child () inherits (base);
select enforce_jobs('base');
select fill('child');
select results_eq($$select regexp_replace(d, ' 00:..:.. ', ' ~ ') from depth() d$$,
    $$values ('base mail 2 1 2 f 01:00:00 f'), ('base print 0 1 1 f f'), ('base (null) 1 0 1 f ~ f'),
    ('parts mail 2 1 2 f 01:00:00 f'), ('parts print 0 1 1 f f'), ('parts (null) 1 0 1 f ~ f')$$,
    'members are counted with their root');
select results_eq($$select owners()$$, $$values ('base w1 2 f -60 60 1'), ('base w2 2 f 120 120 0'),
    ('parts w1 2 f -60 60 1'), ('parts w2 2 f 120 120 0')$$, 'owners of members');
select results_eq($$select regexp_replace(timers(), '30\d$', '30.')$$,
    $$values ('base 1 f 3600 30.'), ('parts 1 f 3600 30.')$$, 'timers of members');
rollback;
begin;
create type lane as enum ('slow', 'fast');
create table typed (id int primary key, state text not null, owner uuid, lane lane);
select pawl.enforce('typed', 'state', 'job'), pawl.enable_log('typed', 'state'),
    pawl.enable_queue('typed', 'state', owner => 'owner', queue => 'lane'),
    pawl.set_claiming('typed', 'state', claim => '{start}');
insert into typed values (1, 'ready', null, 'fast'), (2, 'ready', null, 'slow'), (3, 'ready', null, 'slow');
set local session_replication_role = replica;
update typed_transitions set created_at = created_at - subject_id * interval '1 day';
insert into typed values (4, 'running', '00000000-0000-0000-0000-000000000001', 'slow');
set local session_replication_role = origin;
select results_eq($$select queue, claimable, due_later, owned, extract(day from oldest)::int from pawl.queue_depth$$,
    $$values ('fast', 1::bigint, 0::bigint, 0::bigint, 1), ('slow', 2, 0, 1, 2)$$,
    'without a time in the claim order the log says since when the next row waits');
select results_eq($$select owners()$$, $$values ('typed 00000000-0000-0000-0000-000000000001 1 f 0')$$,
    'an owner without a lease');
rollback;
begin;
create table bare (id int primary key, state text not null, owner text, due timestamptz);
select pawl.enforce('bare', 'state', 'job'), pawl.enable_queue('bare', 'state', owner => 'owner'),
    pawl.set_claiming('bare', 'state', claim => '{start}');
select results_eq($$select queue, claimable, oldest, is_paused from pawl.queue_depth$$,
    $$values (null::text, 0::bigint, null::interval, false)$$, 'an empty table without queues has one row');
insert into bare values (1, 'ready');
select results_eq($$select queue, claimable, oldest, is_paused from pawl.queue_depth$$,
    $$values (null::text, 1::bigint, null::interval, false)$$, 'and where nothing tells, age is unknown');
rollback;

-- Nothing is counted beyond 10,000 rows, and no table is read but by its indexes.
select make_jobs('many');
select enforce_jobs('many');
set session_replication_role = replica;
insert into many (id, state, queue, owner, lease, due)
select g,
case when g <= 10001 then 'ready' when g <= 20002 then 'running' when g <= 30003 then 'waiting' else 'done' end, 'q',
       case when g between 10002 and 20002 then 'w' end, case when g between 10002 and 20002 then now() end,
       case when g between 20003 and 30003 then now() end from generate_series(1, 60000) g;
set session_replication_role = origin;
select results_eq($$select queue, claimable, due_later, owned, at_least from pawl.queue_depth$$,
    $$values ('q', 10000::bigint, 10000::bigint, 10000::bigint, true)$$,
    'queue_depth counts no further than 10000 rows');
select results_eq($$select processor, owned, at_least, expired from pawl.owners$$,
    $$values ('w', 10000::bigint, true, 10000::bigint)$$, 'owners counts no further than 10000 rows');
select results_eq($$select due, at_least from pawl.timers$$, $$values (10000::bigint, true)$$,
    'timers counts no further than 10000 rows');
select pg_stat_force_next_flush();
select seq_scan as seq_scans, idx_tup_fetch as fetched from pg_stat_user_tables where relname = 'many' \gset
select count(*) from pawl.queue_depth, pawl.owners, pawl.timers \g /dev/null
select pg_stat_force_next_flush();
select is((select seq_scan from pg_stat_user_tables where relname = 'many'), :seq_scans::bigint,
    'the table is never read from end to end');
drop table many;

-- Every role sees the tables that it may read, with its own rights.
select make_jobs('jobs');
select enforce_jobs('jobs');
select fill('jobs');
select make_jobs('secret');
select enforce_jobs('secret');
select fill('secret');
grant select on jobs to pawl_views_clerk;
set role pawl_views_clerk;
select results_eq($$select distinct relation::text from pawl.queue_depth union all select distinct relation::text
        from pawl.owners union all select relation::text from pawl.timers$$,
    $$values ('jobs'), ('jobs'), ('jobs')$$, 'a table that may not be read is left out');
reset role;
set role pawl_views_stranger;
select is_empty($$select relation from pawl.queue_depth union all select relation from pawl.owners
    union all select relation from pawl.timers$$, 'a role that may read none sees none');
reset role;
grant select (id, state, owner, lease, token, due, attempts, max_attempts, queue, priority, created_at)
    on secret to pawl_views_stranger;
set role pawl_views_stranger;
select results_eq($$select distinct relation::text from pawl.owners$$, $$values ('secret')$$,
    'the columns that count are enough');
reset role;
alter table secret enable row level security;
create policy mine on secret using (queue = 'mail');
set role pawl_views_stranger;
select results_eq($$select queue, claimable, owned from pawl.queue_depth$$, $$values ('mail', 2::bigint, 2::bigint)$$,
    'row-level security hides what it hides');
reset role;

-- A row without a finite time hides none of the others.
set session_replication_role = replica;
update jobs set created_at = '-infinity' where id = 1;
update jobs set due = '-infinity' where id = 4;
reset session_replication_role;
select is((select count(*) from pawl.queue_depth where relation = 'jobs'::regclass and oldest is null) > 0, true,
    'of a row that waits since -infinity no time is shown');
select is((select lag from pawl.timers where relation = 'jobs'::regclass), null, 'nor of a timer due since -infinity');

-- A table that is broken is left to pawl.health().
alter event trigger pawl_gone disable;
alter event trigger pawl_follow disable;
alter table jobs drop column lease;
alter event trigger pawl_gone enable;
alter event trigger pawl_follow enable;
select results_eq($$select distinct relation::text from pawl.owners$$, $$values ('secret')$$,
    'a lifecycle that lost a column does not keep the others from being seen');
select * from finish();
