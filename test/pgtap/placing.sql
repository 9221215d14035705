-- pawl.place and pawl.set_placing: rows that are put into a state, what the log, the audit, the outbox and the managed
-- columns have of them, and what is rejected.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

create function placed(name text, arguments text default '1, ''done'', ''a test''') returns text language sql as $$
    select outcome(format('select pawl.place(%L, %s)', name, arguments)) $$;
select make_jobs('jobs');
select enforce_jobs('jobs');
insert into jobs (id) select generate_series(1, 9);

-- Off unless it is allowed, and allowed only with a log.
select is(placed('jobs'), '55000 rows of table public.jobs cannot be placed | The binding of column "state" does not '
    'allow it. | select pawl.set_placing(''public.jobs'', state_column => ''state'')', 'placing is off');
select is(outcome($$select pawl.set_placing('jobs')$$), '55000 table public.jobs has no log of column "state" | '
    'select pawl.enable_log(''public.jobs'', ''state'')', 'it needs a log');
select pawl.enable_log('jobs', hash_chain => true);
select pawl.enable_events('jobs');
select pawl.audit('jobs', '{"done": true}');
update jobs set state = 'gone' where id = 9;
select lives_ok($$select pawl.set_placing('jobs')$$, 'it is switched on');
select lives_ok($$select pawl.set_placing('jobs')$$, 'and on again');
select matches(pawl.definition('jobs'), 'select pawl.set_placing\(''public.jobs'', state_column => ''state''\);',
    'the definition says so');
select is(placed('jobs'), 'ok', 'then a row is placed');
select is((select state from jobs where id = 1), 'done', 'without a transition');
select results_eq($$select sort_key, from_state, to_state, event, placed from pawl.history('jobs', 1)$$,
    $$values (1, null, 'ready', 'pawl.attach', null), (2, 'ready', 'done', 'pawl.place', 'a test')$$,
    'history shows the reason');
select results_eq($$select event, placed, most_recent from jobs_transitions where subject_id in (1, 9)
    order by subject_id, sort_key$$, $$values ('pawl.attach', null, false), ('pawl.place', 'a test', true),
    ('pawl.attach', null, false), ('cancel', null, true)$$, 'so does the view of the log');
select results_eq('select key, problem, detail from pawl.verify()',
    $$values ('1', 'placed',
        format('sort_key 2: "%s" has placed the row in "done": a test', current_user) collate "default")$$,
    'verify says that the row was placed, and no more');
select is_empty('select * from jobs_result_audit', 'the audit has no row of it');
select is((select array_agg(event order by event) from (select event from pawl.outbox_1 union all
    select event from pawl.outbox_2 union all select event from pawl.outbox_3) o), '{cancel,pawl.place}',
    'the outbox has an event');
select is(placed('jobs', '1, ''done'', ''again'''), 'ok', 'a row can be placed in its own state');
select is((select count(*) from pawl.history('jobs', 1)), 3::bigint, 'which is an entry of its own');
select lives_ok($$update jobs set state = 'gone' where id = 3$$, 'transitions go on as before');
select is(placed('jobs', '9, ''ready'', ''back to life'''), 'ok', 'a terminal state can be left');
select is((select string_agg(taken || ' ' || placed, ',') from pawl.paths('job') where kind = 'state'
    and to_state in ('done', 'ready')), '0 1,0 2', 'paths tells placed rows apart');
select lives_ok($$select pawl.fire('jobs', 9, 'cancel')$$, 'and transitions taken from there');

-- Owned states.
select is(placed('jobs', '2, ''running'', ''r'''), '22004 owned state "running" needs an owner | '
    'owner => ''name of the worker'', lease => ''60 s''', 'an owned state needs an owner');
select is(placed('jobs', '2, ''running'', ''r'', owner => ''  '', lease => ''1 h'''),
    '22004 owned state "running" needs an owner | owner => ''name of the worker'', lease => ''60 s''',
    'that is not blank');
select is(placed('jobs', '2, ''running'', ''r'', owner => ''anna'''), '22004 owned state "running" needs a lease | '
    'owner => ''name of the worker'', lease => ''60 s''', 'and a lease');
select is(placed('jobs', '2, ''running'', ''r'', owner => ''anna'', lease => ''-1 s'''),
    '22023 lease must be positive | It is -00:00:01. | lease => ''60 s''', 'that is positive');
select is(placed('jobs', '2, ''running'', ''r'', owner => ''anna'', lease => ''101 years'''),
    '22023 lease must be at most 100 years | It is 101 years. | lease => ''60 s''', 'and has an end');
select is(placed('jobs', '2, ''done'', ''r'', owner => ''anna'''), '22023 state "done" is not owned | '
    'owner and lease are for states with the tag owned. | Leave owner and lease out.', 'others have none');
select is(placed('jobs', '2, ''running'', ''r'', owner => ''anna'', lease => ''1 h'''), 'ok', 'with both it is placed');
select results_eq($$select owner, lease between now() + '50 min' and now() + '70 min', token, due from jobs
    where id = 2$$,
    $$values ('anna', true, 1::bigint, null::timestamptz)$$, 'and owned, with a new token');
select is((select processor from pawl.history('jobs', 2) where most_recent), 'anna', 'the processor is the owner');
select throws_ok($$update jobs set state = 'done' where id = 2$$, 'PW004', null, 'ownership holds from then on');
select is(placed('jobs', '2, ''running'', ''taken away'', owner => ''ben'', lease => ''1 h'''), 'ok',
    'another owner can be placed');
select results_eq('select owner, token from jobs where id = 2', $$values ('ben', 2::bigint)$$,
    'and the token of the former is stale');
select is(placed('jobs', '2, ''waiting'', ''r'''), 'ok', 'a row leaves an owned state');
select results_eq('select owner, lease, token from jobs where id = 2',
    $$values (null::text, null::timestamptz, 3::bigint)$$,
    'and has no owner any more');
select is_empty($$select * from pawl.verify() where problem <> 'placed'$$, 'nothing else is wrong');

-- Bad input.
select is(placed('jobs', arguments), answer, arguments) from (values
    ('1, null, ''r''', '22004 state must not be null'),
    ('1, ''done'', null', '22004 reason must not be null'),
    ('null::int, ''done'', ''r''', '22004 key must not be null'),
    ('1, ''done'', E'' \n''', '22023 reason must not be empty | The log says why a row was placed. | '
        'reason => ''fixture of test 17'''),
    ('1, ''Done'', ''r''', 'PW008 machine "job" has no state "Done" | SELECT state FROM pawl.states(''job'') '
        'WHERE kind = ''state'';'),
    ('77, ''done'', ''r''', 'P0002 public.jobs has no row with key 77 | The row does not exist, or '
        'row-level security hides it.'),
    ('''x'', ''done'', ''r''', '22P02 invalid input syntax for type integer: "x" | Key column "id" is of type '
        'integer. | Give the key as a value of that type; a composite key as row(a, b) or as an array of texts.'),
    ('row(1, 2), ''done'', ''r''', '22023 wrong number of key values for table "jobs" | Expected 1, but got 2. | '
        'Give a composite key as row(a, b) or as an array of texts.'),
    ('1, ''done'', ''r'', state_column => ''other''', '42704 no machine is enforced on column "other" | '
        'SELECT relation, state_column FROM pawl.binding;')) c(arguments, answer);
select is(outcome('select pawl.place(null::regclass, 1, ''done'', ''r'')'), '22004 relation must not be null',
    'a null table');
create table plain (id int primary key, state text);
select is(outcome('select pawl.place(''plain'', 1, ''done'', ''r'')'),
    '42704 no machine is enforced on table public.plain | '
    'SELECT pawl.enforce(''public.plain'', state_column, machine);', 'a table without a binding');
select is(outcome('select pawl.set_placing(''jobs'', null)'), '22004 allowed must not be null', 'neither on nor off');
select is(outcome('select pawl.set_placing(null)'), '22004 relation must not be null', 'a null table');
select is(outcome('select pawl.set_placing(''plain'')'), '42704 no machine is enforced on table public.plain | '
    'select pawl.enforce(''public.plain'', state_column, machine)', 'a table without a binding');
begin;
delete from jobs where id = 4;
select is(placed('jobs', '4, ''done'', ''r'''), 'P0002 public.jobs has no row with key 4 | The row does not exist, or '
    'row-level security hides it.', 'a deleted row');
rollback;
select lives_ok($$select pawl.set_placing('jobs', false)$$, 'it is switched off');
select matches(placed('jobs'), '^55000 rows of table public.jobs cannot be placed', 'and no row is placed');
select is(outcome($$select pawl.set_placing('jobs')$$), 'ok', 'and on once more');

-- A table of a composite key and partitions by state, whose log is stored and partitioned; an enum column.
create type mood as enum ('ready', 'running', 'waiting', 'done', 'gone');
create table parted (a int, "Placed" text, placed text, state mood not null default 'ready',
    primary key (a, placed, state))
    partition by list (state);
create table parted_ready partition of parted for values in ('ready');
create table parted_rest partition of parted default;
select pawl.enforce('parted', 'state', 'job', key => '{a,placed}');
select pawl.enable_log('parted', 'state', most_recent => 'stored', log_partition => 'hash (a) partitions 2',
    hash_chain => true);
select pawl.set_placing('parted');
insert into parted (a, placed) values (1, 'x'), (2, 'y');
select is(placed('parted', 'row(1, ''x''), ''done'', ''moves'''), 'ok', 'a row moves to another partition');
select results_eq($$select from_state, to_state, event, placed from pawl.history('parted', '{1,x}'::text[])$$,
    $$values (null, 'ready', null, null), ('ready', 'done', 'pawl.place', 'moves')$$, 'and is marked in the log');
select is(placed('parted_ready', '''(2,y)'', ''gone'', ''by a partition'''), 'ok', 'named by a partition');
select results_eq($$select key, problem from pawl.verify('parted')$$,
    $$values ('(1, x)', 'placed'), ('(2, y)', 'placed')$$,
    'a key column of the name of the mark is told apart');
select matches(placed('parted', 'row(2, ''y''), ''running'', ''r'', owner => ''o'''),
    '^55000 table public.parted has no owner column \| State "running" is owned', 'an owned state without columns');

-- Timers: the due time of the state.
select pawl.define('timed', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> c : late after 1 hour
    c --> [*]$$) \g /dev/null
create table timed (id int primary key, state text not null, due timestamptz);
select pawl.enforce('timed', 'state', 'timed'), pawl.enable_log('timed'), pawl.enable_timers('timed', due => 'due');
select pawl.set_placing('timed');
insert into timed values (1, 'a');
select placed('timed', '1, ''b'', ''r''') \g /dev/null
select ok((select due > now() + '50 min' from timed), 'a placed row is due');
select placed('timed', '1, ''c'', ''r''') \g /dev/null
select is((select due from timed), null, 'until it is placed elsewhere');
select is_empty($$select * from pawl.verify('timed') where problem <> 'placed'$$, 'as verify wants it');

-- Triggers of the table.
create function suppress() returns trigger language plpgsql as 'begin return null; end';
create trigger suppress before update on timed for each row execute function suppress();
select is(placed('timed', '1, ''a'', ''r'''),
    '09000 the row of public.timed was not placed | A trigger, a rule or '
    'a row security policy of the table suppressed the update.', 'a suppressed update');
create or replace function suppress() returns trigger language plpgsql as 'begin new.state := ''b''; return new; end';
select matches(placed('timed', '1, ''a'', ''r'''), '^PW001 ', 'a trigger that writes another state');
drop trigger suppress on timed;
alter table timed disable trigger user;
select matches(placed('timed', '1, ''a'', ''r'''),
    '^55000 the log of table public.timed got no entry of the placed row',
    'without triggers nothing is placed');
alter table timed enable trigger user;
set session_replication_role = replica;
select matches(placed('timed', '1, ''a'', ''r'''),
    '^55000 the log of table public.timed got no entry of the placed row',
    'nor as a replica');
reset session_replication_role;
select is((select state from timed), 'c', 'the row has stayed');

-- Another log, and another column of that name.
create table moved (id int primary key, state text not null);
select pawl.enforce('moved', 'state', 'timed'), pawl.enable_log('moved', most_recent => 'stored');
insert into moved values (1, 'a');
alter table moved_transitions add column placed int;
select is(outcome('select pawl.set_placing(''moved'')'),
    '55000 log public.moved_transitions has another column "placed" | '
    'The column holds the reasons of placed rows, and is of type text. | '
    'alter table public.moved_transitions rename column placed to ...', 'the column is another one');
select lives_ok($$update moved set state = 'b'$$, 'which does not disturb the log');
alter table moved_transitions drop column placed;
select lives_ok('select pawl.set_placing(''moved'')', 'without it placing is possible');
select is(placed('moved', '1, ''a'', ''r'''), 'ok', 'in a stored log');
select pawl.release('moved');
select pawl.enforce('moved', 'state', 'timed'), pawl.enable_log('moved', most_recent => 'stored');
select matches(placed('moved'), '^55000 rows of table public.moved cannot be placed', 'a new binding begins without');
select results_eq($$select key, problem from pawl.verify('moved')$$, $$values ('1', 'placed')$$,
    'its log is still understood');
select pawl.release('moved');
select pawl.enforce('moved', 'state', 'timed'), pawl.enable_log('moved', log_name => 'moved_again', hash_chain => true);
select pawl.set_placing('moved');
select is(placed('moved', '1, ''b'', ''a "quoted" \ reason'''), 'ok', 'a reason is any text');
select results_eq($$select key, problem from pawl.verify('moved')$$, $$values ('1', 'placed')$$,
    'that the hash covers');
alter table moved_again_log disable trigger all;
update moved_again_log set placed = 'another' where event = 'pawl.place';
select results_eq($$select problem from pawl.verify('moved') order by 1$$, $$values ('hash_mismatch'), ('placed')$$,
    'another reason breaks the chain');
update moved_again_log set placed = null where event = 'pawl.place';
select results_eq($$select problem from pawl.verify('moved') order by 1$$,
    $$values ('hash_mismatch'), ('illegal_transition')$$, 'and so does none');
select * from finish();
