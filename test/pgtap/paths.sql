-- pawl.paths: which transitions and states the log has, and how often.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

select pawl.define('covered', $$stateDiagram-v2
    [*] --> a
    [*] --> b
    state Inside {
        a
        b
    }
    a --> b
    a --> b : go
    b --> b : again
    Inside --> c : stop
    c --> [*]$$) as version \gset
create table first (id int primary key, state text not null);
create table second (id int primary key, state text not null);
insert into first values (9, 'a');
select is(outcome('select * from pawl.paths(''covered'')'), '55000 no table with a log enforces machine "covered" | '
    'select pawl.enforce(''table'', ''state'', ''covered''); select pawl.enable_log(''table'', ''state'')',
    'without a log nothing is known');
select pawl.enforce('first', 'state', 'covered'), pawl.enforce('second', 'state', 'covered');
select is(outcome('select * from pawl.paths(''covered'', ''first'')'), '55000 table public.first has no log of column '
    '"state" | select pawl.enable_log(''public.first'', ''state'')', 'nor of a table without');
select pawl.enable_log('first'), pawl.enable_log('second', most_recent => 'stored');
create view transitions as select from_state, event, to_state, taken, placed from pawl.paths('covered')
    where kind = 'transition';
select results_eq('select * from transitions',
    $$values (null, null, 'a', 0::bigint, 0::bigint), (null, null, 'b', 0, 0),
    ('a', null, 'b', 0, 0), ('a', 'go', 'b', 0, 0), ('b', 'again', 'b', 0, 0), ('a', 'stop', 'c', 0, 0),
    ('b', 'stop', 'c', 0, 0)$$, 'nothing was taken, also not by rows that were there');
insert into first values (1, 'a'), (2, 'a'), (3, 'b');
insert into second values (1, 'a');
update first set state = 'b' where id = 1;
select pawl.fire('first', 2, 'go'), pawl.fire('first', 2, 'again'), pawl.fire('first', 2, 'again') \g /dev/null
select pawl.fire('second', 1, 'stop') \g /dev/null
select results_eq('select from_state, event, to_state, taken from transitions',
    $$values (null, null, 'a', 3::bigint), (null, null, 'b', 1), ('a', null, 'b', 1), ('a', 'go', 'b', 1),
    ('b', 'again', 'b', 2), ('a', 'stop', 'c', 1), ('b', 'stop', 'c', 0)$$, 'transitions are counted over all tables');
select results_eq($$select to_state, taken from pawl.paths('covered') where kind = 'state'$$,
    $$values ('a', 3::bigint), ('b', 5), ('c', 1)$$, 'and states, without composites');
select results_eq($$select taken from pawl.paths('covered', 'second') where kind = 'state'$$,
    $$values (1::bigint), (0), (1)$$, 'of one table alone');
select is((select sum(taken) from pawl.paths('covered', since => clock_timestamp())), 0::numeric, 'since now: nothing');
select is((select sum(taken) from pawl.paths('covered', since => clock_timestamp() - interval '1 hour')),
    18::numeric, 'since an hour ago: all');
begin;
select pawl.fire('first', 3, 'stop') \g /dev/null
select is((select taken from transitions where from_state = 'b' and event = 'stop'), 1::bigint,
    'also what is not committed');
rollback;
delete from first where id = 1;
select is((select sum(taken) from pawl.paths('covered')), 18::numeric, 'a deletion is no transition, and loses none');
select pawl.define('covered', pawl.diagram('covered') || E'\n    c --> d : more\n    d --> [*]') \g /dev/null
select is((select string_agg(coalesce(from_state, 'new') || to_state || taken, ' ') from pawl.paths('covered')
    where kind = 'transition' and (taken > 2 or to_state = 'd')), 'newa3 cd0',
    'the newest version counts entries of others');
select is((select count(*) from pawl.paths('covered', version => 1)), 10::bigint, 'or the version that is named');

-- Several machines, and one machine on several columns of a table.
create table several (id int primary key, one text not null, two text not null, other text not null default 'ready');
select pawl.enforce('several', c, 'covered'), pawl.enable_log('several', c)
    from unnest('{one,two}'::name[]) c \g /dev/null
select pawl.enforce('several', 'other', 'job'), pawl.enable_log('several', 'other') \g /dev/null
insert into several values (1, 'a', 'b');
update several set one = 'c', two = 'c', other = 'gone';
select results_eq($$select from_state, event, to_state, taken from pawl.paths('covered', 'several')
    where kind = 'transition' and taken > 0$$, $$values (null, null, 'a', 1::bigint), (null, null, 'b', 1),
    ('a', 'stop', 'c', 1), ('b', 'stop', 'c', 1)$$, 'the columns of one machine are counted together');
select results_eq($$select from_state, event, to_state, taken from pawl.paths('job', 'several')
    where kind = 'transition' and taken > 0$$, $$values (null, null, 'ready', 1::bigint),
    ('ready', 'cancel', 'gone', 1)$$, 'and those of another machine apart');
drop table several cascade;

select is(outcome(statement), answer, statement) from (values
    ('select * from pawl.paths(null)', '22004 machine must not be null'),
    ('select * from pawl.paths(''no'')', 'PW008 unknown machine "no" | defined: ''covered'', ''job'''),
    ('select * from pawl.paths(''covered'', version => 7)',
        'PW008 machine "covered" has no version 7 | the newest is 2'),
    ('select * from pawl.paths(''job'', ''first'')', '42704 machine "job" is not enforced on table public.first | '
        'Machine "covered" is.'),
    ('select * from pawl.paths(''covered'', ''nowhere'')', '42P01 relation "nowhere" does not exist'),
    ('select * from pawl.paths(''covered'', 0::regclass)', '42P01 relation with OID 0 does not exist'),
    ('select * from pawl.paths(''covered'', since => ''soon'')',
        '22007 invalid input syntax for type timestamp with time zone: "soon"')) c(statement, answer);
create role reads_no_log login;
set role reads_no_log;
select throws_ok('select * from pawl.paths(''covered'')', '42501', null, 'a log that cannot be read');
reset role;
grant select on second_transitions to reads_no_log;
grant execute on all functions in schema public to reads_no_log;
set role reads_no_log;
select lives_ok('select * from pawl.paths(''covered'', ''second'')', 'a log that can');
reset role;
drop owned by reads_no_log;
drop role reads_no_log;
select * from finish();
