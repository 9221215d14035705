-- Wake-ups: at most one a transaction and channel, only when a session waits, none for what is rolled back. One session
-- waits and listens in the background, by dblink; PostgreSQL tells it at the end of its next query.
\set QUIET 1
set client_min_messages to warning;
select no_plan();
create extension dblink;
select pawl.define('job', $$stateDiagram-v2
    [*] --> pending
    pending --> running : start
    running --> pending : abandon
    running --> pending : expire
    running --> done : finish
    done --> [*]
    running:::owned$$) \g /dev/null
create table jobs (id int primary key, state text not null default 'pending', worker text, lease timestamptz,
    token bigint, due timestamptz);
create table others (like jobs including all);
create table deaf (id int primary key, state text not null default 'pending');
create table loose (id int primary key, state text not null default 'pending');
select pawl.enforce(t, 'state', 'job'), pawl.enable_log(t, 'state'),
    pawl.enable_queue(t, 'state', owner => 'worker', lease => 'lease', token => 'token'),
    pawl.enable_timers(t, 'state', due => 'due'),
    pawl.set_claiming(t, 'state', claim => array['start'], on_expiry => 'expire'),
    pawl.enable_events(t, 'state', wake => true)
  from unnest(array['jobs', 'others']::regclass[]) t \g /dev/null
select pawl.define('plain', $$stateDiagram-v2
    [*] --> pending
    pending --> done : finish
    done --> [*]$$) \g /dev/null
select pawl.enforce('deaf', 'state', 'plain'), pawl.enable_log('deaf', 'state') \g /dev/null

select is(pawl.channel('jobs'), 'pawl_' || 'jobs'::regclass::oid, 'the channel of a table');
select is(pawl.channel(), 'pawl_events', 'the channel of the outbox');
select throws_ok($$select pawl.channel('loose')$$, '42704', null, 'no lifecycle, no channel');
select throws_ok($$select pawl.sleep('loose')$$, '42704', null, 'nothing to sleep at');
select throws_ok($$select pawl.sleep('deaf')$$, '55000', 'wake-ups are not enabled for table "deaf"',
    'a lifecycle without wake');
select throws_ok($$select pawl.sleep(0)$$, '42P01', null, 'sleep rejects an OID that is no relation');
select is(pawl.awake('jobs'), false, 'there was no waiter');

select dblink_connect('s', format('host=%L port=%s dbname=%L user=%L', current_setting('unix_socket_directories'),
        current_setting('port'), current_database(), current_user)) \g /dev/null
select dblink_exec('s', 'set client_min_messages to warning') \g /dev/null
create function waiter(what text) returns text
    language sql as $$ select r from dblink('s', 'select ' || what) d(r text) $$;
-- how many notifications have come, on which channels
create function heard() returns text language sql as $$
    select coalesce(string_agg(d.c || ' ' || d.n, ', ' order by d.c), 'none')
      from (select case g.notify_name when pawl.channel('jobs') then 'jobs' when pawl.channel('others') then 'others'
                  else g.notify_name end as c, count(*) as n
              from (select waiter('1')) asked, lateral dblink_get_notify('s') g group by 1) d $$;

insert into jobs select g from generate_series(1, 20) g;
select waiter('pawl.channel(''jobs'')') \g /dev/null
select dblink_exec('s',
        format('listen %I; listen %I; listen pawl_events', pawl.channel('jobs'), pawl.channel('others'))) \g /dev/null
insert into jobs values (21);
select is(heard(), 'none', 'without a waiter there is no notification, whether sessions listen or not');
select is(waiter('pawl.sleep(''jobs'')'), pawl.channel('jobs'), 'sleep returns the channel');
select is(heard(), 'none', 'and sends no notification');
insert into jobs values (22);
select is(heard(), 'jobs 1', 'a new row in a claimable state wakes');
begin;
insert into jobs select g from generate_series(100, 200) g;
insert into jobs values (23);
insert into others values (1);
commit;
select is(heard(), 'jobs 1', 'once a transaction, and only where a session waits');
begin; insert into jobs values (24); rollback;
select is(heard(), 'none', 'a rolled back transaction wakes no waiter');
begin; savepoint s; insert into jobs values (24); rollback to s; commit;
select is(heard(), 'none', 'nor does a rolled back savepoint');
begin; savepoint s; insert into jobs values (24); release s; savepoint s; insert into jobs
    values (25); rollback to s; commit;
select is(heard(), 'jobs 1', 'a released savepoint wakes');
do $$ begin
    begin
        insert into jobs values (25);
        insert into jobs values (25);
    exception when unique_violation then null;
    end;
end $$;
select is(heard(), 'none', 'rows that an exception block undid do not wake');
select count(*) from pawl.claim(null::jobs, processor => 'w', batch => 3) \g /dev/null
select is(heard(), 'none', 'a claim causes no wake-up');
select set_config('pawl.processor', 'w', false) \g /dev/null
update jobs set state = 'done' where id in (select id from jobs where state = 'running' limit 1);
select is(heard(), 'none', 'nor does a completion');
update jobs set state = 'pending' where id in (select id from jobs where state = 'running' limit 1);
select is(heard(), 'jobs 1', 'work that is given back wakes');
update jobs set due = now() + interval '1 hour' where id = 20;
select is(heard(), 'none', 'work that is postponed causes no wake-up');
update jobs set due = null where id = 20;
select is(heard(), 'jobs 1', 'work that is due again wakes');
insert into jobs (id, due) values (26, now() + interval '1 hour');
select is(heard(), 'none', 'a row that begins with a future due time causes no wake-up');
update jobs set state = 'running', worker = 'w' where id = 19;
update jobs set state = 'pending', due = now() + interval '1 hour' where id = 19;
select is(heard(), 'none', 'nor does work that is given back with a future due time');
update jobs set state = 'running', worker = 'w' where id = 18;
update jobs set state = 'pending', due = now() - interval '1 hour' where id = 18;
select is(heard(), 'jobs 1', 'work that is given back with a past due time wakes');
set session_replication_role = replica;
update jobs set due = now() - interval '1 s' where id in (19, 26);
reset session_replication_role;
select is((select done from pawl.fire_due('jobs')), 2::bigint, 'timers that are due fire');
select is(heard(), 'jobs 1', 'a state change wakes the session that waits for the table');
select pawl.wake('jobs') \g /dev/null
select is(heard(), 'jobs 1', 'pawl.wake wakes the waiting session');
begin; select pawl.wake('jobs') \g /dev/null
rollback;
select is(heard(), 'none', 'but not if it is rolled back');
select throws_ok($$select pawl.wake('loose')$$, '42704', null, 'no lifecycle, no waiters');
select throws_ok($$select pawl.wake(0)$$, '42P01', null, 'wake rejects an OID that is no relation');
select pawl.pause('jobs') \g /dev/null
select is(heard(), 'none', 'a pause causes no wake-up');
select pawl.resume('jobs') \g /dev/null
select is(heard(), 'jobs 1', 'its end wakes');
select is(waiter('pawl.sleep(''jobs'')'), pawl.channel('jobs'), 'a session may call sleep twice');
select is(waiter('pawl.awake(''jobs'')'), 't', 'which counts once');
select is(waiter('pawl.awake(''jobs'')'), 'f', 'a second awake has no effect');
insert into jobs values (30);
select is(heard(), 'none', 'a session that no longer waits is not notified');

select waiter('pawl.sleep()') \g /dev/null
insert into jobs values (31);
select is(heard(), 'pawl_events 1', 'the channel of the outbox');
select pawl.wake() \g /dev/null
select is(heard(), 'pawl_events 1', 'pawl.wake without a table wakes those that wait for events');
begin; insert into jobs values (32); insert into others values (2); delete from others where id = 1; commit;
select is(heard(), 'pawl_events 1', 'once a transaction');
insert into deaf values (1);
select is(heard(), 'none', 'not for what has no events');
select waiter('pawl.sleep(''others'')') \g /dev/null
insert into others values (3);
select is(heard(), 'others 1, pawl_events 1', 'one for each channel');

-- a table's name changes, its channel does not
alter table others rename to elsewhere;
insert into elsewhere values (4);
select is((select count(*) from (select waiter('1')) a, lateral dblink_get_notify('s') g), 2::bigint,
    'a renamed table');
alter table elsewhere rename to others;

-- prepared transactions send nothing before they commit, and can be prepared
begin; insert into others values (5); prepare transaction 'wake';
select is(heard(), 'none', 'not when prepared');
select is(waiter('pawl.sleep(''others'')'), pawl.channel('others'), 'a new waiter does not wait for it');
commit prepared 'wake';
select is(heard(), 'others 1, pawl_events 1', 'all waiters are notified when it is committed');
begin; insert into others values (6); prepare transaction 'wake';
rollback prepared 'wake';
select is(heard(), 'none', 'a rolled back transaction wakes no waiter');
-- a worker that only polls, in a session of its own, needs none of that
select dblink_exec('s', 'deallocate all') \g /dev/null
begin; insert into jobs values (51); prepare transaction 'polled';
update jobs set due = now() + interval '1 hour' where state = 'pending' and id <> 51;
select is((select waiter('count(*) from pawl.claim(null::jobs, processor => ''poller'', batch => 100)')), '0',
    'what is prepared is no work yet');
commit prepared 'polled';
select is((select waiter('string_agg(c.id::text, '','') from pawl.claim(null::jobs, processor => ''poller'', '
    'batch => 100) c')), '51', 'committed, the next poll finds it');
update jobs set due = null where due is not null;
select heard() \g /dev/null

-- a session that ends is awake; the locks go too
select dblink_disconnect('s') \g /dev/null
create function locks() returns bigint language sql as $$ select count(*) from pg_locks
    where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database()) $$;
do $$ begin while locks() > 0 loop perform pg_sleep(0.01); end loop; end $$;
begin;
insert into jobs values (40);
select is(locks(), 0::bigint, 'writers take no lock before they commit');
commit;
select is(locks(), 0::bigint, 'and keep none');
-- a session's own wait causes no notification to itself
select pawl.sleep('jobs') \g /dev/null
insert into jobs values (41);
select is(pawl.awake('jobs'), true, 'a session may sleep and write');
select pg_advisory_lock(7) \g /dev/null
select pawl.sleep('jobs') \g /dev/null
select pg_advisory_unlock_all() \g /dev/null
select is(pawl.awake('jobs'), false, 'pg_advisory_unlock_all, and so DISCARD ALL, wakes up');
select is_empty('select * from pawl.verify()', 'the logs are right');
select * from finish();
