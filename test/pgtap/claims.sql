-- pawl.claim, heartbeat, abandon and reap: what they take, in which order, by which index, and what they reject.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

create function claimed(call text) returns text language plpgsql as $$
declare answer text;
begin
    execute format('select string_agg(c.id::text, '' '') from %s c', call) into answer;
    return coalesce(answer, '-');
end $$;
create function reset_jobs() returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    update jobs set state = 'ready', owner = null, lease = null, due = null, token = 0, attempts = 0;
    set local session_replication_role = origin;
end $$;

-- The order: mixed directions, nulls as an index has them, ties by the key --------------------------------------------
create table jobs (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz,
    attempts int not null default 0, max_attempts int, queue text, priority int, created_at timestamptz,
    twice int generated always as (id * 2) stored, claimed_by text generated always as (owner || '!') stored);
select enforce_jobs('jobs'), pawl.enable_log('jobs');
insert into jobs (id, queue, priority, created_at) values (1, 'a', 1, '2020-01-02'), (2, 'a', 5, '2020-01-02'),
    (3, 'a', 5, '2020-01-01'), (4, 'a', null, '2020-01-03'),
    (5, 'a', 1, null), (6, 'a', 1, '2020-01-02'), (7, 'b', 9, '2020-01-01'), (8, 'a', 5, '2020-01-01'),
    (9, null, 9, '2020-01-01');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 100)$$), '4 3 8 2 1 6 5',
    'rows come in claim order: priority desc, created_at, key');
select reset_jobs();
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a')$$), '4', 'one, when none is said');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 3)$$), '3 8 2', 'then the next');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'b', batch => 3)$$), '7',
    'a claim returns rows of the queue that it names');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'c', batch => 3)$$), '-', 'a queue without rows');
select reset_jobs();
create temp table returned as select c.*
    from pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 10, lease => '5 min') c;
select results_eq($$select * from returned order by id$$, $$select * from jobs where queue = 'a' order by id$$,
    'what is returned is what the table then holds, generated columns too');
select is((select string_agg(distinct claimed_by || token || attempts
            || round(extract(epoch from lease - clock_timestamp()) / 60), ' ')
    from jobs where queue = 'a'), 'w!115', 'owner, token, attempts, lease');
select is((select count(distinct lease) from jobs where queue = 'a'), 1::bigint,
    'one lease for all that were taken at once');
select results_eq($$select distinct event, processor, from_state, to_state from jobs_transitions
    where event <> 'pawl.attach' and from_state is not null$$,
    $$values ('start', 'w', 'ready', 'running')$$, 'and it is in the log');

-- From several states, and back ---------------------------------------------------------------------------------------
select pawl.fire('jobs', 3, 'fail', processor => 'w', state_column => 'state');
update jobs set due = null where id = 3;
select is(claimed($$pawl.claim(null::jobs, processor => 'w2', queue => 'a', batch => 10)$$), '3',
    'from the other state that the event leaves');
select is((select format('%s %s %s', owner, token, attempts) from jobs where id = 3), 'w2 2 2',
    'with the next token, the next attempt');

-- A row with a due time is not claimable, whether it has passed or not
select reset_jobs();
update jobs set due = clock_timestamp() + '1 hour' where id in (4, 3);
set session_replication_role = replica;
update jobs set due = clock_timestamp() - interval '1 hour' where id = 8;
reset session_replication_role;
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 2)$$), '2 1',
    'rows that wait are passed over');
select is((select done from pawl.fire_due('jobs')), 1::bigint, 'until their time has passed and is seen to');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 1)$$), '8',
    'then it is their turn');

-- What is rejected ----------------------------------------------------------------------------------------------------
select is(split_part(outcome(call), ' |', 1), answer, call) from (values
    ($$select pawl.claim(null::jobs, queue => 'a')$$, '22004 no processor given'),
    ($$select pawl.claim(null::jobs, processor => '', queue => 'a')$$, '22004 no processor given'),
    ($$select pawl.claim(null::jobs, processor => 'w')$$, '22004 queue must be specified'),
    ($$select pawl.claim(null::jobs, 'finish', 'w', queue => 'a')$$,
        '22023 rows of public.jobs are not claimed by event "finish"'),
    ($$select pawl.claim(null::jobs, 'sing', 'w', queue => 'a')$$,
        'PW008 rows of public.jobs are not claimed by event "sing"'),
    ($$select pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 0)$$,
        '22023 batch must be from 1 to 10000'),
    ($$select pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 10001)$$,
        '22023 batch must be from 1 to 10000'),
    ($$select pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => null)$$, '22004 batch must not be null'),
    ($$select pawl.claim(null::jobs, processor => 'w', queue => 'a', lease => '0')$$, '22023 lease must be positive'),
    ($$select pawl.claim(null::jobs, processor => 'w', queue => 'a', lease => '-1 s')$$,
        '22023 lease must be positive'),
    ($$select pawl.claim(null::jobs, processor => 'w', queue => 'a', state_column => 'queue')$$,
        '42704 no machine is enforced on column "queue"'),
    ($$select pawl.claim(1, processor => 'w')$$, '42809 the first argument must be of a table''s row type'),
    ($$select pawl.claim(null::pg_class, processor => 'w')$$,
        '42704 no machine is enforced on table pg_catalog.pg_class'),
    ($$select pawl.heartbeat('jobs')$$, '22004 no processor given'),
    ($$select pawl.heartbeat(null, 'w')$$, '22004 relation must not be null'),
    ($$select pawl.heartbeat('jobs', 'w', '0 s')$$, '22023 lease must be positive'),
    ($$select pawl.heartbeat('jobs', 'w', '101 years')$$, '22023 lease must be at most 100 years'),
    ($$select pawl.claim(null::jobs, processor => 'w', queue => 'a', lease => '101 years')$$,
        '22023 lease must be at most 100 years'), ($$select pawl.abandon('jobs')$$, '22004 no processor given'),
    ($$select pawl.abandon('jobs', 'w', 'sing')$$, 'PW008 machine "job" has no event "sing"'),
    ($$select pawl.reap('jobs', 0)$$, '22023 batch must be from 1 to 10000'),
    ($$select pawl.fire_due('jobs', 20000)$$, '22023 batch must be from 1 to 10000')) v(call, answer);

-- Heartbeats ----------------------------------------------------------------------------------------------------------
select reset_jobs();
create function minutes(processor text) returns text language sql as $$
    select string_agg(id || ':' || round(extract(epoch from lease - clock_timestamp()) / 60), ' ' order by id) from jobs
        where owner = processor $$;
select claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 2, lease => '10 min')$$),
    claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'b', lease => '2 min')$$),
       claimed($$pawl.claim(null::jobs, processor => 'other', queue => 'a', lease => '2 min')$$);
select is(pawl.heartbeat('jobs', 'w', '5 min'), 3::bigint, 'all leases of a processor at once');
select is(minutes('w'), '3:10 4:10 7:5', 'are extended; longer ones are not made shorter');
select is(minutes('other'), '8:2', 'leases of others are not touched');
set pawl.token = 4711;
select is(pawl.heartbeat('jobs', 'w', '20 min'), 3::bigint, 'whatever token the session shows for its own work');
select is(minutes('w'), '3:20 4:20 7:20', 'they are extended');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a')$$), '2',
    'nor does that token keep a worker from claiming the next row');
select is((select done from pawl.reap('jobs')), 0::bigint, 'nothing to reap');
select is(pawl.abandon('jobs', 'w'), 4::bigint, 'nor from giving up what it has');
reset pawl.token;
select is(pawl.heartbeat('jobs', 'w'), 0::bigint, 'a processor without leases extends none');
select is(pawl.abandon('jobs', 'w'), 0::bigint, 'nor gives it up');
select is((select string_agg(format('%s %s %s', state, owner, token), ', ' order by id) from jobs where id in (3, 7)),
    'ready  1, ready  1', 'an abandoned row is free, and its token stays');
select is(pawl.abandon('jobs', 'other', 'fail', '{"why": "shutdown"}'), 1::bigint, 'given up by another event');
select results_eq($$select event, processor, metadata from jobs_transitions where subject_id = 8 order by sort_key desc
    limit 1$$, $$values ('fail', 'other', '{"why": "shutdown"}'::jsonb)$$, 'which the log shows');

-- Reaping -------------------------------------------------------------------------------------------------------------
select reset_jobs();
select claimed(format($$pawl.claim(null::jobs, processor => 'w%s', queue => 'a', batch => 2)$$, g))
    from generate_series(1, 3) g;
create function expire(ids int[]) returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    update jobs set lease = clock_timestamp() - interval '1 s' where id = any (ids);
    set local session_replication_role = origin;
end $$;
create function reaped(batch int default 1000) returns text language plpgsql as $$
declare done bigint; next_at timestamptz; first_end timestamptz;
begin
    select r.done, r.next_at into done, next_at from pawl.reap('jobs', batch) r;
    -- a statement of its own, which sees what was done
    select min(lease) into first_end from jobs where owner is not null;
    return done || case when next_at is null and first_end is null then ' none'
        when next_at = first_end then case when next_at < clock_timestamp() then ' at once' else ' later' end
                        else format(' %s, not %s', next_at, first_end) end;
end $$;
select is(reaped(), '0 later', 'nothing has run out: come back when the first one does');
select expire(array(select id from jobs where owner = 'w1' limit 1));
select is(reaped(), '1 later', 'one has: come back for the next');
select pawl.abandon('jobs', 'w2'), pawl.abandon('jobs', 'w3');
select expire(array(select id from jobs where owner = 'w1' union select null));
select is(reaped(), '1 none', 'the last one: there is none');
select reset_jobs();
select claimed(format($$pawl.claim(null::jobs, processor => 'w%s', queue => 'a', batch => 2)$$, g))
    from generate_series(1, 3) g;
select expire(array(select min(id) from jobs where owner = 'w2'));
select is(reaped(), '1 later', 'an owner that has lost one row may lose the next');
select expire(array(select id from jobs where owner is not null));
select is(reaped(2), '2 at once', 'a batch of two; more is waiting');
select is(reaped(2), '2 at once', 'the next two');
select is(reaped(2), '1 none', 'reap returns the last expired row');
select is(reaped(2), '0 none', 'nothing is left');
select is((select string_agg(distinct metadata ->> 'lost_owner', ' ') from jobs_transitions
    where event = 'expire' and metadata ? 'lost_owner'), 'w1 w2 w3', 'the log names the owners that lost the rows');
select reset_jobs();
select claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 2)$$);
select expire(array(select id from jobs));
set pawl.processor = 'reaper'; set pawl.token = 99;
select is((select done from pawl.reap()), 2::bigint, 'of all lifecycles, whatever the session says of itself');
reset pawl.processor; reset pawl.token;
select is((select string_agg(distinct processor, ' ') from jobs_transitions
    where event = 'expire' and processor = 'reaper'), 'reaper', 'the log names the processor that reaped');

-- Pausing: nothing is given out; work that is out goes on -------------------------------------------------------------
select reset_jobs();
select pawl.pause('jobs', 'a', reason => 'night');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a')$$), '-', 'a paused queue gives nothing');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'b')$$), '7', 'the others do');
select pawl.resume('jobs', 'a');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a')$$), '4', 'until it goes on');
select pawl.pause('jobs');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a')$$), '-', 'all queues are paused');
select is(pawl.heartbeat('jobs', 'w'), 2::bigint, 'what was taken may be finished');
select pawl.resume('jobs');
select pawl.pause('jobs', 'a', until => clock_timestamp() + interval '1 hour');
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a')$$), '-', 'paused until a time');
update pawl.paused set until = clock_timestamp();
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a')$$), '3', 'a pause ends by itself');
select pawl.resume('jobs', 'a');

-- Triggers of the owner's: a row that is not written is not returned; one that is rewritten is returned so ------------
select reset_jobs();
create function fuss() returns trigger language plpgsql as $$
begin
    if new.id = 3 then return null; end if;
    new.max_attempts := new.id * 10;
    return new;
end $$;
create trigger fuss before update on jobs for each row execute function fuss();
select results_eq($$select id, max_attempts from pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 3)$$,
    $$values (4, 40), (8, 80)$$, 'a trigger swallows one and changes the others');
drop trigger fuss on jobs;

-- Guards that say no to the first rows do not hide those behind them.
create table picky (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token int not null default 0, wish boolean not null);
create function willing(old picky, new picky) returns boolean language sql as $$ select (new).wish $$;
select pawl.define('picky', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start [willing]
    running --> ready : expire [willing]
    running --> done : finish
    done --> [*]
    class running owned$$);
select pawl.enforce('picky', 'state', 'picky'),
    pawl.enable_queue('picky', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.set_claiming('picky', 'state', claim => '{start}', on_expiry => 'expire');
insert into picky (id, wish) select g, g > 300 from generate_series(1, 320) g;
select is(claimed($$pawl.claim(null::picky, processor => 'w')$$), '301', 'one row behind 300 that may not be taken');
select is(claimed($$pawl.claim(null::picky, processor => 'w', batch => 5)$$), '302 303 304 305 306',
    'a claim returns the next five rows behind those that a guard rejects');
select is((select count(*) from pawl.claim(null::picky, processor => 'w', batch => 100)), 14::bigint,
    'a claim returns all rows that the guard allows');
select is(claimed($$pawl.claim(null::picky, processor => 'w', batch => 100)$$), '-', 'until none is left');
set session_replication_role = replica;
update picky set lease = clock_timestamp() - interval '1 min' * (400 - id), wish = id > 310 where state = 'running';
reset session_replication_role;
select is((select done from pawl.reap('picky', 2)), 2::bigint,
    'rows that may not take the expiry event do not keep others from it');
select is((select done from pawl.reap('picky', 100)), 8::bigint, 'all of them');
select is((select done || ' ' || (next_at < now()) from pawl.reap('picky', 100)), '0 true',
    'what is left is said to wait');

-- Several claim events, one of which must be named --------------------------------------------------------------------
create table desk (id int primary key, state text not null default 'new', owner varchar(5), rank numeric);
select pawl.define('desk', $$stateDiagram-v2
    [*] --> new
    new --> open : take
    parked --> open : resume
    open --> parked : park
    open --> [*]
    class open owned$$);
select pawl.enforce('desk', 'state', 'desk'), pawl.enable_queue('desk', 'state', owner => 'owner'),
    pawl.set_claiming('desk', 'state', claim => '{take,resume}', claim_order => 'rank desc');
insert into desk values (1, 'new', null, 1), (2, 'new', null, 2), (3, 'new', null, null);
select is(split_part(outcome($$select pawl.claim(null::desk, processor => 'me')$$), ' |', 1),
    '22004 several events claim rows of public.desk', 'which event is not clear');
select is(claimed($$pawl.claim(null::desk, 'take', 'me', batch => 2)$$), '3 2',
    'a claim returns the rows that its event leaves, in claim order');
select pawl.fire('desk', 3, 'park', processor => 'me');
select is(claimed($$pawl.claim(null::desk, 'resume', 'you', batch => 5)$$), '3',
    'resume takes only what it leads from');
select is(outcome($$select pawl.claim(null::desk, 'take', 'a name that is long')$$),
    '22001 value too long for type character varying(5)', 'an owner must fit into the column');
select is(claimed($$pawl.claim(null::desk, 'take', 'me')$$), '1', 'and the failed call claimed nothing');
select is(split_part(outcome($$select pawl.heartbeat('desk', 'me')$$), ' |', 1),
    '55000 table public.desk has no leases', 'without leases there are no heartbeats');
select is(split_part(outcome($$select pawl.reap('desk')$$), ' |', 1), '55000 table public.desk has no leases',
    'reap rejects a table without leases');
select is(split_part(outcome($$select pawl.abandon('desk', 'me')$$), ' |', 1),
    '55000 table public.desk has no event for expired leases', 'nor an event to give up by');
select is(pawl.abandon('desk', 'me', 'park'), 2::bigint, 'but one may be named');
select is(outcome($$select pawl.claim(null::desk, 'take', 'me', queue => 'x')$$), '55000 table public.desk has no '
    'queues | select pawl.enable_queue(''public.desk'', ''state'', queue => ...)', 'nor are there queues');
select is(outcome($$select pawl.fire_due('desk')$$), '55000 table public.desk has no timers | select '
    'pawl.enable_timers(''public.desk'', ''state'', due => ...)', 'fire_due rejects a table without timers');

-- With the rights on the table alone ----------------------------------------------------------------------------------
select reset_jobs();
create role plain_user; grant select, update on jobs to plain_user;
set role plain_user;
select is(claimed($$pawl.claim(null::jobs, processor => 'h', queue => 'a', batch => 2)$$), '4 3',
    'claims need SELECT and UPDATE on the table and nothing else');
select is(pawl.heartbeat('jobs', 'h'), 2::bigint, 'so do heartbeats');
select is(pawl.abandon('jobs', 'h'), 2::bigint, 'abandon needs SELECT and UPDATE on the table and nothing else');
select is((select done from pawl.reap('jobs')), 0::bigint,
    'reap needs SELECT and UPDATE on the table and nothing else');
select is((select done from pawl.fire_due('jobs')), 0::bigint,
    'fire_due needs SELECT and UPDATE on the table and nothing else');
select is((select done from pawl.reap()), 0::bigint, 'tables that one may not write are left out');
reset role;
alter table jobs set (fillfactor = 80);
set role plain_user;
select is((select done from pawl.reap()), 0::bigint,
    'a table that has changed is checked anew, with these rights alone');
reset role;
revoke update on jobs from plain_user;
set role plain_user;
select is(split_part(outcome($$select pawl.claim(null::jobs, processor => 'h', queue => 'a')$$), ' |', 1),
    '42501 permission denied for table jobs', 'without UPDATE nothing is taken');
reset role;
grant update on jobs to plain_user;

-- Row security: rows that are hidden are not taken, and do not hold up others
alter table jobs enable row level security;
create policy odd on jobs to plain_user using (id % 2 = 1);
set role plain_user;
select is(claimed($$pawl.claim(null::jobs, processor => 'h', queue => 'a', batch => 10)$$), '3 1 5',
    'only what its policy shows');
select is(pawl.heartbeat('jobs', 'h'), 3::bigint, 'of which it has the leases');
reset role;
select is(claimed($$pawl.claim(null::jobs, processor => 'w', queue => 'a', batch => 10)$$), '4 8 2 6',
    'the rest is there');

-- Claimed by a trigger, in a CTE, through a cursor.
alter table jobs disable row level security;
select reset_jobs();
create table bell (queue text);
create function on_bell() returns trigger language plpgsql as $$ begin
    perform pawl.claim(null::jobs, processor => 'bell', queue => new.queue);
    return null;
end $$;
create trigger on_bell after insert on bell for each row execute function on_bell();
insert into bell values ('a'), ('b');
select is((select string_agg(id || state, ' ' order by id) from jobs where owner = 'bell'), '4running 7running',
    'by a trigger');
select is((with c as (select * from pawl.claim(null::jobs, processor => 'cte', queue => 'a', batch => 2))
    select string_agg(id || owner, ' ') from c), '3cte 8cte', 'in a CTE');
begin;
declare these cursor for select id from pawl.claim(null::jobs, processor => 'cursor', queue => 'a', batch => 2);
fetch 1 from these \gset
commit;
select is((select string_agg(id::text, ' ' order by id) from jobs where owner = 'cursor'), '1 2',
    'through a cursor, all at once');
select * from finish();
