-- The processor of a state change and its metadata: the four settings, pawl.set_context, and what functions add.
\set QUIET 1
set client_min_messages to warning;

create table t (id int primary key, state text not null, note text);
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    [*] --> a : arrive
    a --> b : pay
    a --> b : settle
    a --> c : skip
    b --> c : ship
    a --> a : touch
    c --> [*]$$) \g /dev/null
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state') \g /dev/null
insert into t select g, 'a' from generate_series(1, 60) g;
\connect -
-- In a session that has not loaded the library yet, settings are words only.
set client_min_messages to error;
set pawl.metadata = '{bad';
set pawl.processor = 'early';
update t set state = 'b' where id = 9;
set client_min_messages to warning;
select no_plan();
create function said(k int) returns text language sql as $$
    select format('%s|%s|%s|%s|%s', event, processor, correlation_id, metadata, actor) from t_transitions
            where subject_id = k order by sort_key desc limit 1 $$;

-- Settings.
set pawl.processor = 'worker 1';
set pawl.correlation_id = 'req 7';
set pawl.metadata = '{"a": [1, null]}';
update t set state = 'b' where id = 1;
select is(said(1), 'pay|worker 1|req 7|{"a": [1, null]}|postgres', 'what the settings say is recorded');
set pawl.processor = '';
set pawl.metadata = '';
update t set state = 'b' where id = 2;
select is(said(2), 'pay||req 7||postgres', 'an empty setting says nothing');
reset pawl.correlation_id;
begin;
set local pawl.processor = 'local';
update t set state = 'b' where id = 3;
commit;
update t set state = 'b' where id = 4;
select is(said(3), 'pay|local|||postgres', 'SET LOCAL for a transaction');
select is(said(4), 'pay||||postgres', 'and not beyond');
begin;
set local pawl.processor = 'one';
update t set state = 'b' where id = 5;
savepoint s;
set local pawl.processor = 'two';
update t set state = 'b' where id = 6;
rollback to s;
update t set state = 'b' where id = 6;
set local pawl.processor = 'three';
update t set state = 'b' where id = 7;
commit;
select results_eq('select said(g) from generate_series(5, 7) g',
    array['pay|one|||postgres', 'pay|one|||postgres', 'pay|three|||postgres'],
                  'each statement by what was said when it ran, rolled back with its savepoint');
create function by_function() returns void language sql
    set pawl.processor = 'function' as $$ update t set state = 'b' where id = 8 $$;
select by_function() \g /dev/null
select is(said(8), 'pay|function|||postgres', 'a setting of a function');
select is(current_setting('pawl.processor'), '', 'which is over with it');

-- Wrong settings.
select throws_ok(format('set pawl.metadata = %L', bad), '22P02', 'pawl.metadata is not valid JSON',
    format('bad JSON %s', bad))
  from unnest(array['{', 'nonsense', '{"a": }', '[1,', repeat('[', 100)]) bad;
select throws_ok($$set pawl.processr = 'x'$$, '42602', null, 'a setting that pawl does not have');
select lives_ok(format('set pawl.metadata = %L', good), format('good JSON %s', good))
    from unnest(array['1', '"text"', 'null', '[]', '{"ü": "日本"}']) good;
reset pawl.metadata;
select is(said(9), 'pay|early|||postgres', 'bad JSON said before the library is there is dropped');
select is(current_setting('pawl.metadata'), '', 'metadata set for a transaction is gone after it');

-- pawl.event at the top: a restriction.
set pawl.event = 'settle';
update t set state = 'b' where id = 10;
select is(said(10), 'settle||||postgres', 'the event named is taken where several lead there');
select throws_ok($$update t set state = 'c' where id = 11$$, 'PW001',
    'event "settle" does not lead from "a" to "c" in machine "m"', 'and another state change is rejected');
select throws_ok($$insert into t values (100, 'a')$$, 'PW002', 'event "settle" does not begin in "a" in machine "m"',
    'and another birth');
set pawl.event = 'arrive';
insert into t values (100, 'a');
select is(said(100), 'arrive||||postgres', 'a birth by its event');
set pawl.event = 'unknown to m';
update t set state = 'b' where id = 12;
select is(said(12), 'pay||||postgres', 'an event that the machine does not know is not meant for it');
set pawl.event = 'touch';
update t set note = 'x' where id = 13;
select is(said(13), 'touch||||postgres', 'an event that stays makes an UPDATE a transition');
reset pawl.event;
update t set note = 'y', state = 'a' where id = 14;
select is(said(14), '||||postgres', 'without an event, writing the same value is no state change');
select is((select count(*) from t_transitions where subject_id = 14), 1::bigint, 'and leaves no log row');
select is(pawl.fire('t', 14, 'touch'), 'a', 'fire of an event that stays');
select is(said(14), 'touch||||postgres', 'an event that leads back to the same state is logged');

-- pawl.event further down: a preference.
create table child (id int primary key, parent int, state text not null);
select pawl.enforce('child', 'state', 'm'), pawl.enable_log('child', 'state') \g /dev/null
insert into child select g, g, 'a' from generate_series(1, 60) g;
create function follow() returns trigger language plpgsql as $$
begin
    update child set state = new.note where parent = new.id and new.note in ('b', 'c');
    return null;
end $$;
create trigger follow after update on t for each row execute function follow();
set pawl.event = 'settle';
update t set state = 'b', note = 'b' where id = 15;
select is((select event from child_transitions where subject_id = 15 order by sort_key desc limit 1), 'settle',
    'in a trigger it is preferred where it fits');
select lives_ok($$update t set state = 'b', note = 'c' where id = 16$$, 'and no hindrance where it does not');
select is((select event from child_transitions where subject_id = 16 order by sort_key desc limit 1), 'skip',
    'the state change has its own event');
reset pawl.event;
select is(pawl.fire('t', 17, 'settle'), 'b', 'what fire names');
update t set note = 'b' where id = 17;
select is((select event from child_transitions where subject_id = 17 order by sort_key desc limit 1), 'pay',
    'is not recorded for other rows');
create function follow_now() returns trigger
    language plpgsql as $$ begin perform pawl.fire('child', new.id, 'skip'); return null; end $$;
create trigger follow_now after update on t for each row when (new.note = 'fire') execute function follow_now();
update t set note = 'fire' where id = 18;
select is((select event from child_transitions where subject_id = 18 order by sort_key desc limit 1), 'skip',
    'fire in a trigger');
update t set note = 'fire' where id = 19;
drop trigger follow_now on t;
drop trigger follow on t;

-- set_context.
begin;
select pawl.set_context('p', 'settle', 'c', '{"m": 1}') \g /dev/null
update t set state = 'b' where id = 20;
select pawl.set_context(processor => 'q') \g /dev/null
update t set state = 'b' where id = 21;
select pawl.set_context(event => '', correlation_id => '', metadata => 'null') \g /dev/null
update t set state = 'b' where id = 22;
commit;
update t set state = 'b' where id = 23;
select results_eq('select said(g) from generate_series(20, 23) g',
    array['settle|p|c|{"m": 1}|postgres', 'settle|q|c|{"m": 1}|postgres', 'pay|q|||postgres', 'pay||||postgres'],
                  'set_context for a transaction: said, kept, taken back, over');
select lives_ok('select pawl.set_context()', 'set_context can be called without arguments');
begin;
select pawl.set_context(metadata => '{"by": "context"}', processor => 'p', correlation_id => 'c') \g /dev/null
select pawl.fire('t', 24, 'pay', '{"by": "call"}') \g /dev/null
select pawl.fire('t', 25, 'pay', 'null') \g /dev/null
select pawl.fire('t', 26, 'pay') \g /dev/null
commit;
select results_eq('select said(g) from generate_series(24, 26) g',
    array['pay|p|c|{"by": "call"}|postgres', 'pay|p|c|null|postgres', 'pay|p|c|{"by": "context"}|postgres'],
                  'metadata of a call take the place of the context''s');

-- The actor: the role that acts, also inside SECURITY DEFINER functions.
create role pawl_test_actor;
grant select, update on t to pawl_test_actor;
create function as_owner(k int) returns void
    language sql security definer as $$ update t set state = 'b' where id = k $$;
set role pawl_test_actor;
update t set state = 'b' where id = 30;
select as_owner(31) \g /dev/null
set pawl.processor = 'me';
update t set state = 'b' where id = 32;
reset role;
update t set state = 'b' where id = 33;
select results_eq('select said(g) from generate_series(30, 33) g',
    array['pay||||pawl_test_actor', 'pay||||pawl_test_actor', 'pay|me|||pawl_test_actor', 'pay|me|||postgres'],
                  'the actor is the role that the session acts as');
reset pawl.processor;

-- Two machines on one table: an event restricts the one that knows it.
create table two (id int primary key, state text not null, payment text not null);
select pawl.define('pm', $$stateDiagram-v2
    [*] --> open
    open --> paid : pay_up
    open --> paid : waive$$) \g /dev/null
select pawl.enforce('two', 'state', 'm'), pawl.enable_log('two', 'state') \g /dev/null
select pawl.enforce('two', 'payment', 'pm'), pawl.enable_log('two', 'payment') \g /dev/null
insert into two values (1, 'a', 'open'), (2, 'a', 'open');
set pawl.event = 'waive';
update two set state = 'b', payment = 'paid' where id = 1;
reset pawl.event;
select is((select event from two_transitions where subject_id = 1 and to_state = 'b'), 'pay',
    'an event of the other machine does not count');
select is((select event from two_payment_transitions where subject_id = 1 and to_state = 'paid'), 'waive',
    'of its own it does');
select is(pawl.fire('two', 2, 'waive', state_column => 'payment'), 'paid', 'fire names the column');
select throws_ok($$select pawl.fire('two', 2, 'pay')$$, '22023', 'the table has several bindings',
    'fire must name the column of a table with several bindings');
select throws_ok($$select pawl.fire('two', 2, 'waive', state_column => 'state')$$, 'PW008',
    'machine "m" has no event "waive"', 'the right one');
select throws_ok($$select pawl.fire('two', 2, 'waive', state_column => 'nonsense')$$, '42704',
    'no machine is enforced on column "nonsense"', 'that there is');
select is_empty('select * from pawl.verify()', 'nothing is wrong');
select * from finish();
