-- pawl.pause, pawl.resume and the table behind them: which roles may use them, what is rejected, and what ends pauses.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql
create role pawl_pause_boss in role pawl_operator;
create role pawl_pause_admin in role pawl_admin;
create role pawl_pause_owner;
create role pawl_pause_worker in role pawl_worker;
create type lane as enum ('slow', 'fast');
select make_jobs('jobs');
alter table jobs owner to pawl_pause_owner;
select enforce_jobs('jobs');
create table numbered (id int primary key, state text not null, owner text, lane lane, n int) partition by range (id);
create table numbered_1 partition of numbered for values from (0) to (100);
select pawl.enforce('numbered', 'state', 'job'),
    pawl.enable_queue('numbered', 'state', owner => 'owner', queue => 'lane'),
    pawl.set_claiming('numbered', 'state', claim => '{start}');
create table plain (id int primary key, state text not null, owner text);
select pawl.enforce('plain', 'state', 'job'), pawl.enable_queue('plain', 'state', owner => 'owner'),
    pawl.set_claiming('plain', 'state', claim => '{start}');
create table unclaimed (id int primary key, state text not null, owner text);
select pawl.enforce('unclaimed', 'state', 'job');
create function pauses() returns setof text language sql as $$
    select concat_ws(' ', relation, state_column, coalesce(queue, '(all)'), until, reason) from pawl.paused
        order by 1 $$;

-- One queue, all queues, until a time, again with another reason.
select lives_ok($$select pawl.pause('jobs')$$, 'a whole table');
select lives_ok($$select pawl.pause('jobs', 'mail', reason => 'server down')$$, 'one of its queues');
select lives_ok($$select pawl.pause('jobs', '', until => '2200-01-01 00:00+00')$$, 'a queue with no name is a queue');
select lives_ok($$select pawl.pause('numbered_1', 'slow')$$, 'a partition stands for its root');
select lives_ok($$select pawl.pause('plain', reason => 'because')$$, 'a table without queues');
set timezone = utc;
select results_eq($$select pauses()$$,
    $$values ('jobs state  2200-01-01 00:00:00+00'), ('jobs state (all)'), ('jobs state mail server down'),
        ('numbered state slow'), ('plain state (all) because')$$,
    'all of it is in the table');
select lives_ok($$select pawl.pause('jobs', 'mail', until => '2200-01-01 00:00+00', reason => 'longer')$$,
    'a paused queue can be paused again with another end');
select results_eq($$select until, reason from pawl.paused where queue = 'mail'$$,
    $$values ('2200-01-01 00:00+00'::timestamptz, 'longer')$$, 'changes until and reason');
select is(pawl.resume('jobs', 'mail'), true, 'a paused queue can be resumed');
select is(pawl.resume('jobs', 'mail'), false, 'it was not paused any more');
select is(pawl.resume('jobs'), true, 'the whole table');
select is((select count(*) from pawl.paused where relation = 'jobs'::regclass), 1::bigint,
    'leaves the pauses of its queues');
select is(pawl.resume('jobs', ''), true, 'down to the last');
insert into pawl.paused (relation, state_column, queue, until) values ('jobs', 'state', 'gone', now() - interval '1 s');
select is((select count(*) from pawl.paused where queue = 'gone'), 0::bigint, 'a request for the past leaves no row');
select pawl.pause('jobs', 'soon', until => clock_timestamp() + interval '50 ms');
do $$ begin
    while (select until > clock_timestamp() from pawl.paused where queue = 'soon') loop
        perform pg_sleep(0.01);
    end loop;
end $$;
select is(pawl.resume('jobs', 'soon'), false, 'a pause whose time has passed was none any more');
select is((select count(*) from pawl.paused where relation = 'jobs'::regclass), 0::bigint, 'but its row goes');

-- What is rejected.
select is(outcome(statement), answer, statement) from (values
    ('select pawl.pause(null)', '22004 relation must not be null'),
    ('select pawl.pause(''pg_class'')',
        '42704 no machine is enforced on table pg_class | select pawl.enforce(''pg_class'', state_column, machine)'),
    ('select pawl.pause(''unclaimed'')', '55000 table public.unclaimed has no claim events | Its binding has no claim '
    'events. | select pawl.set_claiming(''public.unclaimed'', ''state'', claim => array[...])'),
    ('select pawl.resume(''unclaimed'')', '55000 table public.unclaimed has no claim events | Its binding has no '
    'claim events. | select pawl.set_claiming(''public.unclaimed'', ''state'', claim => array[...])'),
    ('select pawl.pause(''plain'', ''mail'')', '22023 table public.plain has no queues | Its binding has no queue '
    'column. | omit the queue to pause the whole table'),
    ('select pawl.pause(''numbered'', ''medium'')', '22P02 invalid input value for enum public.lane: "medium"'),
    ('select pawl.pause(''jobs'', until => ''2001-01-01 00:00+00'')',
        '22023 a pause cannot end in the past | It would end at 2001-01-01 00:00:00+00.'),
    ('select pawl.pause(''jobs'', state_column => ''phase'')', '42704 no machine is enforced on column "phase" of '
    'table public.jobs | state_column => ''state''')) v(statement, answer);

-- Queues have one name, however they are written.
create table counted (id int primary key, state text not null, owner text, n int);
select pawl.enforce('counted', 'state', 'job'), pawl.enable_queue('counted', 'state', owner => 'owner', queue => 'n'),
    pawl.set_claiming('counted', 'state', claim => '{start}');
select pawl.pause('counted', ' 07 ');
select is((select queue from pawl.paused where relation = 'counted'::regclass), '7',
    'a number is written as its type writes it');
select lives_ok($$insert into counted select 1, state, null, 7 from pawl.states('job') where initial limit 1$$,
    'work lies in it');
select is_empty($$select * from pawl.claim(null::counted, processor => 'w', queue => ' +07')$$,
    'and is not claimed by another spelling');
select is(pawl.resume('counted', '+7'), true, 'and found again');
select isnt_empty($$select * from pawl.claim(null::counted, processor => 'w', queue => ' +07')$$, 'then it is');

-- These may pause: the owner of the table, operators, admins; by the functions and by hand.
create function tried_as(role name, statement text) returns text language plpgsql as $$
declare answer text;
begin
    execute format('set local role %I', role);
    answer := split_part(outcome(statement), ' | ', 1);
    reset role;
    return answer;
end $$;
grant usage on schema public to public;
select is(tried_as(role, statement), answer, concat_ws(': ', role, statement)) from (values
    ('pawl_pause_owner', 'select pawl.pause(''jobs'')', 'ok'),
        ('pawl_pause_owner', 'select pawl.resume(''jobs'')', 'ok'),
    ('pawl_pause_owner', 'select pawl.pause(''plain'')',
        '42501 permission denied to pause or resume table public.plain'),
    ('pawl_pause_boss', 'select pawl.pause(''jobs'', ''x'')', 'ok'),
    ('pawl_pause_boss', 'select pawl.pause(''plain'', reason => ''boss'')', 'ok'),
    ('pawl_pause_admin', 'select pawl.resume(''plain'')', 'ok'),
    ('pawl_pause_worker', 'select pawl.pause(''jobs'')',
        '42501 permission denied to pause or resume table public.jobs'),
    ('pawl_pause_worker', 'select pawl.resume(''jobs'', ''x'')',
        '42501 permission denied to pause or resume table public.jobs'),
    ('pawl_pause_worker', 'delete from pawl.paused', '42501 permission denied for table paused'),
    ('pawl_pause_worker', 'update pawl.paused set until = now()', '42501 permission denied for table paused'),
    ('pawl_pause_worker', 'insert into pawl.paused (relation, state_column) values (''plain'', ''state'')',
        '42501 permission denied to pause or resume table public.plain'),
    ('pawl_pause_worker', 'truncate pawl.paused', '42501 permission denied for table paused'),
    ('pawl_pause_worker', 'lock pawl.paused in exclusive mode', '42501 permission denied for table paused'),
    ('pawl_pause_owner', 'lock pawl.paused in exclusive mode', '42501 permission denied for table paused'),
    ('pawl_pause_worker',
        'insert into pawl.paused (relation, state_column, until) values (''plain'', ''state'', ''-infinity'')',
        '42501 permission denied to pause or resume table public.plain'),
    ('pawl_pause_owner', 'update pawl.paused set relation = ''plain'' where relation = ''jobs''::regclass',
        '42501 permission denied for table paused'),
    ('pawl_pause_boss', 'insert into pawl.paused (relation, state_column) values (''pg_class'', ''relname'')',
        '42704 no machine is enforced on column "relname" of table pg_class'),
    ('pawl_pause_boss', 'insert into pawl.paused (relation, state_column, queue, paused_by) values (''jobs'', '
                '''state'', ''y'', ''other'')', 'ok')) v(role, statement, answer);
select is((select string_agg(queue || ' ' || paused_by, ', ' order by queue) from pawl.paused
        where relation = 'jobs'::regclass),
    'x pawl_pause_boss, y pawl_pause_boss', 'paused_by is the role that paused, whatever the statement says');

-- Pauses follow a rename, and go with their binding.
alter table jobs rename column state to phase;
select is((select count(*) from pawl.paused where relation = 'jobs'::regclass and state_column = 'phase'), 2::bigint,
    'a renamed state column is followed');
select pawl.release('jobs');
select is((select count(*) from pawl.paused where relation = 'jobs'::regclass), 0::bigint,
    'release takes pauses along');
drop table numbered;
select is((select count(*) from pawl.paused where relation::oid not in (select oid from pg_class)), 0::bigint,
    'and so does DROP TABLE');
select pawl.pause('plain');
set role pawl_pause_boss;
select is(pawl.resume('plain'), true, 'an operator resumes');
reset role;
select * from finish();
