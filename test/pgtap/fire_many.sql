-- pawl.fire_many: one result row a key; a row that cannot change state says why, and stops no other row.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create table t (id bigint primary key, state text not null, ok bool default true, n int default 0);
create function is_ok(o t, n t) returns bool language sql stable as $$ select n.ok $$;
create function is_even(o t, n t) returns bool language sql stable as $$ select n.id % 2 = 0 $$;
create function angry(o t, n t) returns bool language plpgsql as $$
begin
    if n.n = 13 then raise exception 'unlucky' using errcode = 'PW003'; end if;
    return n.ok;
end $$;
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    a --> ok : check [is_ok]
    a --> even : split [is_even]
    a --> odd : split
    a --> calm : ask [angry]
    a --> calmer : ask [is_even]
    a --> a : touch
    b --> a : back
    b --> [*]$$) \g /dev/null
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state') \g /dev/null
select pawl.define('plain', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back$$) \g /dev/null
insert into t (id, state) select g, 'a' from generate_series(1, 40) g;
create function answer(keys bigint[], e text) returns setof text language sql as $$
    select concat_ws('|', key, ok, from_state, to_state, sqlstate, message) from pawl.fire_many('t', keys, e) $$;

select results_eq('select answer(array[1, 2, 99], ''go'')',
    array['1|t|a|b', '2|t|a|b', '99|f|P0002|public.t has no row with key 99'], 'moved, moved, missing');
select results_eq('select answer(array[3, 1, 4], ''go'')',
                  array['3|t|a|b', '1|f|b|PW001|event "go" is not possible in state "b" of machine "m"', '4|t|a|b'],
                  'results come in the order of the keys');
select results_eq('select answer(array[5, 5, 6, 5], ''go'')', array['5|t|a|b', '5|t|a|b', '6|t|a|b', '5|t|a|b'],
    'a key given twice moves once and is answered twice');
select is((select count(*) from t_transitions where subject_id = 5), 2::bigint, 'one log row of it');
select results_eq('select answer(array[5, 5], ''touch'')',
    array['5|f|b|PW001|event "touch" is not possible in state "b" of machine "m"',
                  '5|f|b|PW001|event "touch" is not possible in state "b" of machine "m"'], 'a rejection too');
select is_empty('select answer(array[]::bigint[], ''go'')', 'no keys, no results');
select is_empty('select * from pawl.fire_many(''t'', ''{}'', ''go'')', 'no keys as a literal');

update t set ok = false where id in (8, 9);
select results_eq('select answer(array[7, 8, 9, 10], ''check'')',
                  array['7|t|a|ok',
                      '8|f|a|PW003|guard public.is_ok rejects the transition from "a" to "ok" in machine "m"',
                        '9|f|a|PW003|guard public.is_ok rejects the transition from "a" to "ok" in machine "m"',
                        '10|t|a|ok'],
                  'a guard that rejects stops only its own row, also where the event has one transition');
select results_eq('select answer(array[11, 12, 13], ''split'')', array['11|t|a|odd', '12|t|a|even', '13|t|a|odd'],
    'guards choose where each goes');
update t set n = 13 where id = 14;
select throws_ok('select answer(array[15, 14, 16], ''ask'')', 'PW003', 'unlucky',
    'an error inside a guard is the error of the call, whatever its code');
select is((select count(*) from t where state in ('calm', 'calmer')), 0::bigint, 'and undoes everything');
select lives_ok('select answer(array[15, 16], ''ask'')', 'afterwards all is well');

-- What stops one row stops no other.
create function stop_17() returns trigger
    language plpgsql as $$ begin return case when new.id = 17 then null else new end; end $$;
create trigger stopper before update on t for each row execute function stop_17();
select results_eq('select answer(array[17, 18, 17], ''go'')',
                  array['17|f|a|09000|event "go" changed no row of public.t', '18|t|a|b',
                      '17|f|a|09000|event "go" changed no row of public.t'],
                  'a row that a trigger holds back has not moved, and says so');
drop trigger stopper on t;
alter table t add constraint c check (id <> 19 or state <> 'b');
select throws_ok('select answer(array[18, 19, 20], ''go'')', '23514', null, 'other errors are the statement''s');
select is((select state from t where id = 20), 'a', 'and nothing has moved');

select results_eq('select answer(array[21, 21], ''touch'')', array['21|t|a|a', '21|t|a|a'], 'an event that stays');
select is((select string_agg(coalesce(event, 'birth'), ',' order by sort_key) from t_transitions where subject_id = 21),
    'birth,touch', 'is logged once');

-- Metadata and context.
begin;
select pawl.set_context(processor => 'worker 1', correlation_id => 'request 7', metadata => '{"from": "context"}')
    \g /dev/null
select count(*) from pawl.fire_many('t', array[22, 23], 'go', '{"by": "call"}') \g /dev/null
select count(*) from pawl.fire_many('t', array[24], 'go') \g /dev/null
commit;
select results_eq($$select subject_id, processor, correlation_id, metadata::text from t_transitions
    where subject_id in (22, 23, 24) and event = 'go' order by 1$$,
                  $$values (22::bigint, 'worker 1', 'request 7', '{"by": "call"}'),
                      (23, 'worker 1', 'request 7', '{"by": "call"}'),
                           (24, 'worker 1', 'request 7', '{"from": "context"}')$$,
    'each entry has processor, correlation and metadata; the call''s metadata come first');

-- Forms of keys.
select results_eq($$select key, ok from pawl.fire_many('t', array[25, 26], 'go')$$,
    $$values ('25', true), ('26', true)$$, 'integers for bigint');
select results_eq($$select key, ok from pawl.fire_many('t', '{27,28}', 'go')$$, $$values ('27', true), ('28', true)$$,
    'an unknown literal');
select results_eq($$select key, ok from pawl.fire_many('t', '{29}'::text, 'go')$$, $$values ('29', true)$$,
    'fire_many takes an array literal as a text');
select results_eq($$select key, ok from pawl.fire_many('t', array['30'], 'go')$$, $$values ('30', true)$$,
    'fire_many takes keys as texts');
select results_eq($$select key, ok from pawl.fire_many('t', array[row(31), row(32)], 'go')$$,
    $$values ('31', true), ('32', true)$$, 'rows of one column');
select throws_ok($$select * from pawl.fire_many('t', 33, 'go')$$, '42804', 'keys must be an array, not integer',
    'one value is no list');
select throws_ok($$select * from pawl.fire_many('t', array[33, null], 'go')$$, '22004',
    'key of table "t" must not be null', 'a null among the keys');
select throws_ok($$select * from pawl.fire_many('t', array['x'], 'go')$$, '22P02', null, 'a text that is no key');
select throws_ok($$select * from pawl.fire_many('t', null, 'go')$$, '22004', 'key must not be null', 'no list at all');
select throws_ok($$select * from pawl.fire_many('t', array[33], 'nonsense')$$, 'PW008',
    'machine "m" has no event "nonsense"', 'an unknown event');

-- Composite keys, one part of them equal without being identical.
create table c (a int, b numeric, state text not null, primary key (a, b));
select pawl.enforce('c', 'state', 'plain'), pawl.enable_log('c', 'state', hash_chain => true) \g /dev/null
insert into c select g, 1.0, 'a' from generate_series(1, 10) g;
select results_eq($$select key, ok from pawl.fire_many('c', array[row(1, 1.00), row(2, 1), row(11, 1)], 'go')$$,
                  $$values ('(1, 1.00)', true), ('(2, 1)', true), ('(11, 1)', false)$$,
                  'fire_many takes keys of two columns as rows');
select results_eq($$select key, ok from pawl.fire_many('c', array['{3,1.0}', '{4,1}'], 'go')$$,
    $$values ('(3, 1.0)', true), ('(4, 1)', true)$$, 'texts of text arrays');
select results_eq($$select key, ok from pawl.fire_many('c', '{"{5,1}","{6,1.0}"}', 'go')$$,
    $$values ('(5, 1)', true), ('(6, 1.0)', true)$$, 'a literal of them');
select results_eq($$select key, ok from pawl.fire_many('c', array[row(7, 1), row(7, 1.00)], 'go')$$,
    $$values ('(7, 1)', true), ('(7, 1.00)', true)$$, 'one row by two names');
select is((select count(*) from c_transitions where a = 7), 2::bigint, 'a key that is given twice changes state once');
select throws_ok($$select * from pawl.fire_many('c', array[1, 2], 'go')$$, '22023',
    'wrong number of key values for table "c"', 'half a key');
select throws_ok($$select * from pawl.fire_many('c', array[row(1, 2, 3)], 'go')$$, '22023',
    'wrong number of key values for table "c"', 'too much of one');
select throws_ok($$select * from pawl.fire_many('c', array[row(1, null)], 'go')$$, '22004',
    'key of table "c" must not be null', 'a null within');
select is_empty($$select * from pawl.verify('c')$$, 'nothing is wrong');

-- Ten thousand, a third of them moved already.
create table big (id text primary key, state text not null);
select pawl.enforce('big', 'state', 'plain'), pawl.enable_log('big', 'state') \g /dev/null
insert into big select 'key ' || g, 'a' from generate_series(1, 10000) g;
update big set state = 'b' where right(id, 1) in ('0', '3', '6');
create temp table answers as select *
    from pawl.fire_many('big', (select array_agg('key ' || g order by g) from generate_series(1, 10000) g), 'go')
        with ordinality;
select is((select count(*) from answers where ok), 7000::bigint, 'of 10,000 keys 7,000 move');
select is((select count(*) from answers where sqlstate = 'PW001'), 3000::bigint, '3,000 do not');
select ok((select bool_and(key = 'key ' || ordinality) from answers), 'answered in their order');
select is((select count(*) from big_transitions where event = 'go'), 10000::bigint,
    'all 10000 state changes are logged');
select is_empty($$select * from pawl.verify('big')$$, 'nothing is wrong');

-- Partitioned by the state.
create table p (id int, state text not null, primary key (id, state)) partition by list (state);
create table p_a partition of p for values in ('a');
create table p_rest partition of p default;
select pawl.enforce('p', 'state', 'plain'), pawl.enable_log('p', 'state') \g /dev/null
insert into p select g, 'a' from generate_series(1, 5) g;
select results_eq($$select key, ok, to_state from pawl.fire_many('p', array[2, 4, 2], 'go')$$,
    $$values ('2', true, 'b'), ('4', true, 'b'), ('2', true, 'b')$$, 'rows change partition');
select is((select count(*) from p_transitions where event = 'go'), 2::bigint,
    'each row of a partitioned table changes state once');
select results_eq($$select key, ok, to_state from pawl.fire_many('p_a', array[1], 'go')$$, $$values ('1', true, 'b')$$,
    'a partition stands for its table');
select is_empty($$select * from pawl.verify('p')$$, 'nothing is wrong');
select * from finish();
