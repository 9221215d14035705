-- Under an old snapshot: what claims, timers and reap remember, so that they do not read over the same dead rows again;
-- and the index that their statements use, whatever settings and statistics say. Pages are counted, not time.
-- Alone on the server: DDL elsewhere empties the caches of a session, which are looked at.
\set QUIET 1
set client_min_messages to warning;
select no_plan();
create extension dblink;

select pawl.define('alarm', $$stateDiagram-v2
    [*] --> set
    set --> rung : ring after 1 day
    rung --> [*]$$) \g /dev/null
select pawl.define('work', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : expire
    done --> [*]
    class running owned$$) \g /dev/null
create table job (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz,
    queue text not null default 'a', place int not null) with (autovacuum_enabled = off);
select pawl.enforce('job', 'state', 'work'),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', token => 'token', queue => 'queue'),
    pawl.enable_timers('job', 'state', due => 'due'),
    pawl.set_claiming('job', 'state', claim => '{start}', claim_order => 'place', on_expiry => 'expire') \g /dev/null
create table alarm (id int primary key, state text not null default 'set', due timestamptz)
    with (autovacuum_enabled = off);
select pawl.enforce('alarm', 'state', 'alarm'), pawl.enable_timers('alarm', 'state', due => 'due') \g /dev/null

-- Pages; what is measured is run twice before, so that catalogs and plans are there.
\ir include/touched.psql
-- A session that keeps its snapshot of the database as it is now until it is told to stop.
select dblink_connect('old', format('host=%L port=%s dbname=%L user=%L', current_setting('unix_socket_directories'),
        current_setting('port'), current_database(), current_user)) \g /dev/null
create procedure look_back() language plpgsql as $$ begin
    perform dblink_exec('old', 'begin isolation level repeatable read');
    perform from dblink('old', 'select count(*) from pg_class') d(n bigint);
end $$;

-- Which index is used -------------------------------------------------------------------------------------------------
-- A table of few pages with another index that looks as good, and statistics that say
-- that a scan of it all costs nothing.
insert into job (id, place) select g, g from generate_series(1, 200) g;
create index other on job (queue, place, id, state);
analyze job;
create function scans() returns table (name text, n bigint) language plpgsql as $$
begin
    return query select s.indexrelname::text, s.idx_scan from pg_stat_user_indexes s where s.relname = 'job'
        union all select 'sequential', s.seq_scan from pg_stat_user_tables s where s.relname = 'job';
end $$;
create temp table before (name text, n bigint);
create function since() returns text language sql as $$
    select string_agg(s.name, ' ' order by s.name) from scans() s join before b using (name)
        where s.n > b.n and s.name <> 'job_pkey' $$;
select count(*) from pawl.claim(null::job, processor => 'w', queue => 'a') \g /dev/null
select pg_stat_force_next_flush() \g /dev/null
truncate before;
insert into before select * from scans();
select count(*) from pawl.claim(null::job, processor => 'w', queue => 'a') \g /dev/null
select pg_stat_force_next_flush() \g /dev/null
select is(since(), 'job_pawl_claim', 'a claim walks the index that was made for it');
select pg_stat_force_next_flush() \g /dev/null
truncate before;
insert into before select * from scans();
select * from pawl.reap('job') \g /dev/null
select pg_stat_force_next_flush() \g /dev/null
select is(since(), 'job_pawl_owned', 'so does reap');
select pg_stat_force_next_flush() \g /dev/null
truncate before;
insert into before select * from scans();
select * from pawl.fire_due('job') \g /dev/null
select pg_stat_force_next_flush() \g /dev/null
select is(since(), 'job_pawl_due', 'so do timers');
set plan_cache_mode = force_custom_plan;
select pg_stat_force_next_flush() \g /dev/null
truncate before;
insert into before select * from scans();
select count(*) from pawl.claim(null::job, processor => 'w', queue => 'a') \g /dev/null
select pg_stat_force_next_flush() \g /dev/null
select is(since(), 'job_pawl_claim', 'also with plan_cache_mode = force_custom_plan: a claim');
select pg_stat_force_next_flush() \g /dev/null
truncate before;
insert into before select * from scans();
select * from pawl.reap('job') \g /dev/null
select pg_stat_force_next_flush() \g /dev/null
select is(since(), 'job_pawl_owned', 'reap scans by the index on owned rows');
select pg_stat_force_next_flush() \g /dev/null
truncate before;
insert into before select * from scans();
select * from pawl.fire_due('job') \g /dev/null
select pg_stat_force_next_flush() \g /dev/null
select is(since(), 'job_pawl_due', 'fire_due scans by the index on due rows');
select is(current_setting('plan_cache_mode'), 'force_custom_plan', 'the setting stays');
select throws_ok($$select pawl.claim(null::job, processor => null, queue => 'a')$$, '22004', null,
    'also after an error');
select is(current_setting('plan_cache_mode'), 'force_custom_plan', 'plan_cache_mode stays as the session has set it');
reset plan_cache_mode;
drop index other;

-- Timers --------------------------------------------------------------------------------------------------------------
insert into alarm (id, due) select g, clock_timestamp() - interval '1 day' + g * interval '1 s'
    from generate_series(1, 30002) g;
select count(*) from pawl.fire_due('alarm', 1) \g /dev/null
select count(*) from pawl.fire_due('alarm', 1) \g /dev/null
call look_back();
select is((select sum(f.done) from generate_series(1, 3) g, pawl.fire_due('alarm', 10000 + g * 0) f), 30000::numeric,
    'all that is due is fired; an old snapshot keeps the dead rows');
insert into alarm (id, due) select 50000 + g, clock_timestamp() - interval '1 hour' + g * interval '1 s'
    from generate_series(1, 50) g;
select touched($$select * from pawl.fire_due('alarm', 1)$$) as head \gset
select touched($$select * from pawl.fire_due('alarm', 1)$$) as second \gset
select touched($$select * from pawl.fire_due('alarm', 1)$$) as third \gset
\echo # pages: head :head, then :second, :third
select ok(:head > 256, 'the head of the index is full of dead rows');
select ok(least(:second, :third) < :head / 5, 'which are not read over again');
select is((select count(*) from alarm where id > 50000 and state = 'rung'), 3::bigint, 'each call fired one');
select is((select array_agg(id order by id) from alarm where id > 50000 and state = 'rung'), '{50001,50002,50003}',
    'in the order of their times');
-- what becomes due before the scan position is found when nothing is left after it
insert into alarm (id, due) values (60000, clock_timestamp() - interval '2 days');
select is((select done from pawl.fire_due('alarm', 1000)), 47::bigint, 'the rest after the scan position');
do $$ declare done bigint := 0; begin while done = 0 and clock_timestamp() < now() + interval '1 min' loop select f.done
    into done from pawl.fire_due('alarm', 1000) f; end loop; end $$;
select is((select state from alarm where id = 60000), 'rung', 'then the head is looked at again');
-- what a rollback gives back lies before the scan position
insert into alarm (id, due) select 70000 + g, clock_timestamp() - interval '1 min' + g * interval '1 s'
    from generate_series(1, 20) g;
select count(*) from pawl.fire_due('alarm', 1) \g /dev/null
begin;
select is((select done from pawl.fire_due('alarm', 5)), 5::bigint, 'fire_due fires a batch of five timers');
rollback;
select is((select done from pawl.fire_due('alarm', 1)), 1::bigint, 'and taken back');
select is((select array_agg(id order by id) from alarm where id > 70000 and state = 'rung'), '{70001,70002}',
    'comes first again');
select is((select done from pawl.fire_due('alarm', 100)), 18::bigint, 'none is left out');
select dblink_exec('old', 'commit') \g /dev/null

-- Owners --------------------------------------------------------------------------------------------------------------
insert into job (id, place, queue) select g, g, 'b' from generate_series(1001, 51000) g;
select count(*) from generate_series(1, 5) g,
    pawl.claim(null::job, processor => 'v', queue => 'b', batch => 10000 - g / 5, lease => '1 ms') \g /dev/null
call look_back();
set session_replication_role = replica;
update job set state = 'done', owner = null, lease = null where owner = 'v';
reset session_replication_role;
select count(*) from pawl.reap('job') \g /dev/null
select count(*) from pawl.claim(null::job, processor => 'v', queue => 'b', batch => 1, lease => '1 hour') \g /dev/null
select touched($$select * from pawl.reap('job')$$) as head \gset
select touched($$select * from pawl.reap('job')$$) as second \gset
select touched($$select * from pawl.reap('job')$$) as third \gset
\echo # pages: head :head, then :second, :third
select ok(:head > 256, 'the leases of an owner are full of dead ones');
select ok(least(:second, :third) < :head / 5, 'which are not read over again');
set session_replication_role = replica;
update job set lease = clock_timestamp() - interval '1 s' where owner = 'v';
reset session_replication_role;
do $$ declare done bigint := 0; begin while done = 0 and clock_timestamp() < now() + interval '1 min' loop select r.done
    into done from pawl.reap('job') r; end loop; end $$;
select is((select count(*) from job where owner = 'v'), 0::bigint,
    'a lease that was set back is found when the head is looked at again');

-- leases that would still run: what is dead lies between now and the one that lives
insert into job (id, place, queue) select g, g, 'e' from generate_series(60001, 99000) g;
select count(*) from generate_series(1, 4) g,
    pawl.claim(null::job, processor => 'h', queue => 'e', batch => 10000 - g, lease => '1 hour') \g /dev/null
select count(*) from pawl.claim(null::job, processor => 'h', queue => 'b', lease => '2 hours') \g /dev/null
set session_replication_role = replica;
update job set state = 'done', owner = null, lease = null where owner = 'h' and queue = 'e';
reset session_replication_role;
select touched($$select * from pawl.reap('job')$$) as head \gset
select touched($$select * from pawl.reap('job')$$) as second \gset
select touched($$select * from pawl.reap('job')$$) as third \gset
\echo # pages: head :head, then :second, :third
select ok(:head > 256, 'dead entries of ended leases lie before the next one');
select ok(least(:second, :third) < :head / 5, 'they are not read over again');
-- the view has no memory; it reads what is dead once
select touched($$select * from pawl.timers$$) as catalogs \gset
select touched($$select pawl.abandon('job', 'v')$$) as dead_of_v \gset
select touched($$select pawl.heartbeat('job', 'h')$$) as dead_of_h \gset
select touched($$select * from pawl.owners$$) as owners \gset
\echo # pages: owners :owners, catalogs :catalogs, dead :dead_of_v and :dead_of_h
select ok(:owners < :catalogs + 0.8 * (:dead_of_v + :dead_of_h), 'pawl.owners reads over dead leases once');

-- Claims --------------------------------------------------------------------------------------------------------------
insert into job (id, place, queue) select g, g, 'c' from generate_series(100001, 150100) g;
select count(*) from generate_series(1, 5) g,
    pawl.claim(null::job, processor => 'u', queue => 'c', batch => 10000 + g * 0) \g /dev/null
create temp table pages (n int, pages bigint);
do $$ begin for n in 1..20 loop
    insert into pages
        values (n, touched('select count(*) from pawl.claim(null::job, processor => ''u'', queue => ''c'')'));
end loop; end $$;
select ok((select max(pages) > 256 and percentile_disc(0.5) within group (order by pages) < max(pages) / 5 from pages),
    'most claims do not read over the dead rows at the head');
select is((select array_agg(id order by id) from job where queue = 'c' and id > 150000 and state = 'running'),
    (select array_agg(g) from generate_series(150001, 150020) g), 'and claim the rows in order');

-- Many queues ---------------------------------------------------------------------------------------------------------
create function memory() returns bigint
    language sql as $$ select sum(total_bytes)::bigint from pg_backend_memory_contexts where name <> 'Combo CIDs' $$;
create procedure claim_from_many(first int, last int) language plpgsql as $$
begin
    for n in first..last loop
        perform pawl.claim(null::job, processor => 'w', queue => 'a queue with a long name ' || n);
        if n % 100 = 0 then commit; end if;
    end loop;
end $$;
call claim_from_many(1, 1000);
select memory() as before \gset
call claim_from_many(1001, 6000);
select memory() as after \gset
\echo # :before bytes before, :after after
select ok(:after - :before < 65536, 'a session that looked into 6,000 queues remembers few of them');
select is((select count(*) from pawl.claim(null::job, processor => 'w', queue => 'c', batch => 10)), 10::bigint,
    'a queue whose scan position was dropped is still claimed');
select dblink_exec('old', 'commit') \g /dev/null
select is_empty('select * from pawl.verify()', 'the tables are right');
select * from finish();
