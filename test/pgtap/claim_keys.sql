-- Work that others learn of by messages: pawl.claim_keys claims the rows that are named, pawl.enable_events and
-- pawl.read_claimable say which.
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
select make_jobs('jobs');
select enforce_jobs('jobs'), pawl.enable_log('jobs');
insert into jobs (id, queue, priority) select g, case when g < 8 then 'a' else 'b' end, g from generate_series(1, 9) g;

-- What is named is taken, once ----------------------------------------------------------------------------------------
select
    is(claimed($$pawl.claim_keys(null::jobs, array[3, 1, 3, 99], processor => 'w', queue => 'a', lease => '5 min')$$),
        '1 3', 'rows that are named, each once, in the order of their keys; one that is not there is passed over');
select is((select string_agg(format('%s %s %s %s', state, owner, token, attempts), ', ' order by id) from jobs
    where id in (1, 3)), 'running w 1 1, running w 1 1', 'as by pawl.claim');
select is((select round(extract(epoch from max(lease) - clock_timestamp()) / 60) from jobs), 5::numeric,
    'with the lease that was asked for');
select is(claimed($$pawl.claim_keys(null::jobs, array[1, 2, 3], processor => 'other', queue => 'a')$$), '2',
    'a caller that names a claimed row gets the others');
select is(claimed($$pawl.claim_keys(null::jobs, array[1, 2, 3], processor => 'w', queue => 'a')$$), '-',
    'nor does the owner claim a row twice');
select is((select string_agg(token::text, ' ' order by id) from jobs where id <= 3), '1 1 1',
    'so the token is the one of the first');
select is(claimed($$pawl.claim_keys(null::jobs, '{4,8}', processor => 'w', queue => 'a')$$), '4',
    'a row of another queue is passed over');
select is(claimed($$pawl.claim_keys(null::jobs, '{}', processor => 'w', queue => 'a')$$), '-',
    'nothing named, nothing taken');
update jobs set due = clock_timestamp() + '1 hour' where id = 5;
select is(claimed($$pawl.claim_keys(null::jobs, '{5}', processor => 'w', queue => 'a')$$), '-',
    'a row that waits is not taken');
select pawl.pause('jobs', 'a');
select is(claimed($$pawl.claim_keys(null::jobs, '{6}', processor => 'w', queue => 'a')$$), '-',
    'nor one of a queue that is paused');
select is(claimed($$pawl.claim_keys(null::jobs, '{8}', processor => 'w', queue => 'b')$$), '8', 'other queues go on');
select pawl.resume('jobs', 'a');
select is(claimed($$pawl.claim_keys(null::jobs, '{6}', processor => 'w', queue => 'a')$$), '6', 'until it goes on');
select is(split_part(outcome(call), ' |', 1), answer, call) from (values
    ($$select pawl.claim_keys(null::jobs, '{7}', queue => 'a')$$, '22004 no processor given'),
    ($$select pawl.claim_keys(null::jobs, '{7}', processor => 'w')$$, '22004 queue must be specified'),
    ($$select pawl.claim_keys(null::jobs, null, processor => 'w', queue => 'a')$$, '22004 keys must not be null'),
    ($$select pawl.claim_keys(null::jobs, array[7, null], processor => 'w', queue => 'a')$$,
        '22004 key of table "jobs" must not be null'),
    ($$select pawl.claim_keys(null::jobs, 7, processor => 'w', queue => 'a')$$,
        '42804 keys must be an array, not integer'),
    ($$select pawl.claim_keys(null::jobs, '{7}', 'finish', 'w', queue => 'a')$$,
        '22023 rows of public.jobs are not claimed by event "finish"'),
    ($$select pawl.claim_keys(null::jobs, (select array_agg(g) from generate_series(1, 10001) g), processor => 'w',
        queue => 'a')$$, '22023 more than 10000 keys'),
    ($$select pawl.claim_keys(1, '{7}', processor => 'w')$$,
        '42809 the first argument must be of a table''s row type')) v(call, answer);
select is((select state from jobs where id = 7), 'ready', 'a rejected call claimed nothing');

-- A key of several columns, one of them a word that needs quotes
create table parts (region text, id int, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, primary key (region, id));
select pawl.enforce('parts', 'state', 'job'),
    pawl.enable_queue('parts', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.set_claiming('parts', 'state', claim => '{start}', on_expiry => 'expire'),
    pawl.enable_events('parts', 'state');
select pawl.create_consumer('parts', relations => '{parts}');
insert into parts select r, g from unnest(array['north', 'a "b", c']) r, generate_series(1, 3) g;
select results_eq($$select key::text, queue from pawl.read_claimable('parts')$$,
    $$values ('{north,1}', null::text), ('{north,2}', null), ('{north,3}', null), ('{"a \"b\", c",1}', null),
        ('{"a \"b\", c",2}', null), ('{"a \"b\", c",3}', null)$$, 'keys of several columns, no queue');
select is(claimed($$pawl.claim_keys(null::parts, array[row('north', 2), row('a "b", c', 1)], processor => 'w')$$),
    '1 2', 'records are keys');
select
    is(claimed($$pawl.claim_keys(null::parts, array[(array['a "b", c', '3'])::text, '{north,3}'], processor => 'w')$$),
        '3 3', 'and so are the texts of arrays');

-- Events, switched on later -------------------------------------------------------------------------------------------
select matches(outcome($$select pawl.create_consumer('c', relations => '{jobs}')$$),
    '55000 table public.jobs has no events.*enable_events', 'no events yet');
select is(split_part(outcome(call), ' |', 1), answer, call) from (values
    ($$select pawl.enable_events('pg_class')$$, '42704 no machine is enforced on table pg_class')) v(call, answer);
create table keyless (state text not null default 'ready');
select pawl.enforce('keyless', 'state', 'job');
select alike(outcome($$select pawl.enable_events('keyless')$$), '55000 table public.keyless has no key for its events%',
    'events name rows');
create role pawl_claim_keys_admin in role pawl_admin;
grant select on jobs to pawl_claim_keys_admin;
set role pawl_claim_keys_admin;
select is(split_part(outcome($$select pawl.enable_events('jobs')$$), ' |', 1),
    '42501 must be owner of table public.jobs', 'for the owner of the table');
reset role;
select pawl.enable_events('jobs');
select pawl.create_consumer('c', relations => '{jobs}');
select is_empty('select * from pawl.verify()', 'entries of the log from before have no events, and lack none');
insert into jobs (id, queue) values (11, 'a'), (12, 'b'), (13, null);
select pawl.fire('jobs', 4, 'finish', processor => 'w', state_column => 'state');
select results_eq($$select relation::text, state_column, key::text, queue from pawl.read_claimable('c')$$,
    $$values ('jobs', 'state', '{11}', 'a'), ('jobs', 'state', '{12}', 'b'), ('jobs', 'state', '{13}', null)$$,
    'what became claimable, in its order; not what ended');
select is_empty($$select * from pawl.read_claimable('c')$$, 'claimable rows are read once');
begin;
insert into jobs (id, queue) values (14, 'a');
insert into jobs (id, queue, due) values (15, 'a', clock_timestamp() + '1 hour');
commit;
begin;
select is((select string_agg(key[1], ' ') from pawl.read_claimable('c')), '14',
    'a row that waits for a time is left out');
rollback;
select is((select string_agg(key[1], ' ') from pawl.read_claimable('c')), '14', 'rolled back, it comes again');
insert into jobs (id, queue) select g, 'a' from generate_series(21, 60) g;
select count(*) from pawl.claim_keys(null::jobs, (select array_agg(g) from generate_series(21, 59) g), processor => 'w',
    queue => 'a');
select is((select string_agg(key[1], ' ') from pawl.read_claimable('c', 7)), '60',
    'what has been taken meanwhile is left out, and is no end');
select pawl.abandon('jobs', 'w');
begin;
set local track_functions = 'all';
select is((select count(*) from pawl.read_claimable('c', 10000)),
    (select count(*) from jobs where state = 'ready' and token > 0), 'a row that was given back is announced again');
select cmp_ok(pg_stat_get_xact_function_calls('pawl._claimable_states(text, integer, text[])'::regprocedure), '<',
    10::bigint,
    'the states of a binding are found once a read, not once an event');
commit;
update jobs set state = 'gone' where id = 60;
select is_empty($$select * from pawl.read_claimable('c')$$, 'a reader of rows that cannot be claimed reads to the end');
select is_empty($$select * from pawl.read_events('c')$$, 'which is the end of the events');
select alike(outcome($$select * from pawl.read_claimable('missing')$$), 'PW008 unknown consumer "missing"%',
    'a consumer that is not there');
select is_empty('select * from pawl.verify()', 'log and outbox agree');

select pawl.enable_events('jobs', events => false);
update jobs set state = 'gone' where id = 11;
select is_empty($$select * from pawl.read_events('c')$$, 'switched off, nothing comes');
select pawl.enable_events('jobs');
select pawl.enable_events('jobs');
update jobs set state = 'gone' where id = 12;
select is((select string_agg(key[1], ' ') from pawl.read_events('c')), '12', 'and on again');
select is_empty('select * from pawl.verify()', 'what happened between is not missed');
-- Plans that were made while the table was small, by a session that has other plans switched off ---------------------
\ir include/touched.psql
select make_jobs('grown');
select enforce_jobs('grown') \g /dev/null
insert into grown (id, queue) select g, 'a' from generate_series(1, 2) g;
analyze grown;
set enable_nestloop = off;
set enable_indexscan = off;
set enable_sort = off;
select count(*) from pawl.claim_keys(null::grown, '{1,2}', processor => 'w', queue => 'a') \g /dev/null
select set_config('pawl.processor', 'w', false), count(*) from pawl.fire_many('grown', '{1,2}', 'fail') \g /dev/null
select pawl.fire('grown', 1, 'cancel'), pawl.heartbeat('grown', 'w') \g /dev/null
insert into grown (id, queue) select g, 'a' from generate_series(3, 20000) g;
select cmp_ok(touched($$select * from pawl.claim_keys(null::grown, '{3,4,5}', processor => 'w', queue => 'a')$$), '<',
    100::bigint, 'named rows are found one by one');
select cmp_ok(touched($$select pawl.heartbeat('grown', 'w')$$), '<', 100::bigint, 'the rows of a processor, too');
select cmp_ok(touched($$select * from pawl.fire_many('grown', '{3,4,5}', 'fail')$$), '<', 100::bigint,
    'those whose states are changed');
select cmp_ok(touched($$select pawl.fire('grown', 6, 'cancel')$$), '<', 100::bigint, 'and a single one');
reset pawl.processor;
-- A unique index by which the key cannot be looked up does not hide one that can.
create table collated (id text not null, state text not null);
create unique index on collated (id collate "POSIX");
create index on collated (id);
select pawl.enforce('collated', 'state', 'job', key => '{id}') \g /dev/null
insert into collated select g, 'ready' from generate_series(1, 20000) g;
select pawl.fire('collated', '7'::text, 'cancel') \g /dev/null
select cmp_ok(touched($$select pawl.fire('collated', '8'::text, 'cancel')$$), '<', 100::bigint,
    'a row is found by the index that can be used');
reset enable_nestloop;
reset enable_indexscan;
reset enable_sort;
select * from finish();
drop owned by pawl_claim_keys_admin;
drop role pawl_claim_keys_admin;
