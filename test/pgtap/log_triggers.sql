-- AFTER triggers that the owner puts on a log fire for every row that pawl writes many at once, and see them all.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back$$) \g /dev/null
create table t (id int primary key, state text not null);
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state', most_recent => 'stored') \g /dev/null
create table derived (id int primary key, state text not null);
select pawl.enforce('derived', 'state', 'm'), pawl.enable_log('derived', 'state') \g /dev/null

create table seen (trigger text, log name, subject_id int, sort_key int, to_state text);
create function see_row() returns trigger language plpgsql as $$ begin
    insert into seen values (tg_name, tg_table_name, new.subject_id, new.sort_key, new.to_state); return null; end $$;
create function see_rows() returns trigger language plpgsql as $$ begin
    insert into seen select tg_name, tg_table_name, n.subject_id, n.sort_key, n.to_state
        from new_rows n; return null; end $$;
create function see_statement() returns trigger
    language plpgsql as $$ begin insert into seen values (tg_name, tg_table_name); return null; end $$;
create trigger each_row after insert on t_transitions for each row execute function see_row();
create trigger all_rows after insert on t_transitions referencing new table as new_rows
    for each statement execute function see_rows();
create trigger before_statement before insert on t_transitions for each statement execute function see_statement();
create trigger all_rows after insert on derived_transitions_log referencing new table as new_rows
    for each statement execute function see_rows();

-- More rows than a batch, and than the entry buffer holds.
insert into t select n, 'a' from generate_series(1, 10000) n;
insert into derived select n, 'a' from generate_series(1, 10000) n;
select is((select count(distinct subject_id) from seen where trigger = 'each_row'), 10000::bigint,
    'a row trigger fires for each of 10,000 rows');
select is((select count(*) from seen where trigger = 'each_row'), 10000::bigint,
    'a row trigger on the log fires once for each entry');
select is((select string_agg(format('%s: %s rows, %s subjects', log, n, subjects), '; ' order by log)
             from (select log, count(*) n, count(distinct subject_id) subjects from seen where trigger = 'all_rows'
                 group by 1) x),
    'derived_transitions_log: 10000 rows, 10000 subjects; t_transitions: 10000 rows, 10000 subjects',
    'a transition table has them all');
select ok((select count(*) from seen where trigger = 'before_statement') between 1 and 3,
    'statement triggers fire once each time the entry buffer is written');
truncate seen;
update t set state = 'b';
select is((select count(*) from seen s join t_transitions l using (subject_id, sort_key, to_state)
        where trigger = 'all_rows' and l.most_recent), 10000::bigint,
    'what triggers see is what is stored');
truncate seen;
begin;
update t set state = 'a' where id <= 3;
savepoint s;
update t set state = 'b' where id <= 3;
rollback to s;
update t set state = 'b' where id = 1;
commit;
select results_eq($$select subject_id, sort_key, to_state from seen where trigger = 'all_rows' order by 1, 2$$,
    $$values (1, 3, 'a'), (1, 4, 'b'), (2, 3, 'a'), (3, 3, 'a')$$, 'what is rolled back was not seen');
truncate seen;
insert into t_transitions (subject_id, event) values (4, 'back');
select results_eq($$select trigger, sort_key from seen where subject_id = 4 order by 1$$,
    $$values ('all_rows', 3), ('each_row', 3)$$, 'an INSERT into the log fires them as well');

-- A trigger that raises undoes the state change.
create function reject() returns trigger language plpgsql as $$ begin
    if exists (select from new_rows where subject_id = 7) then raise 'not 7'; end if; return null; end $$;
create trigger rejects after insert on t_transitions referencing new table as new_rows
    for each statement execute function reject();
select throws_ok('update t set state = ''a'' where id between 6 and 8', 'P0001',
    'not 7',
    'an error in a trigger on the log undoes the whole statement');
select is((select array_agg(state order by id) from t where id between 6 and 8), '{b,b,b}',
    'and every row of its statement');
drop trigger rejects on t_transitions;

-- A trigger that changes the state of rows itself.
create function follow() returns trigger language plpgsql as $$ begin
    update derived set state = 'b' where state = 'a' and id in (select subject_id from new_rows where to_state = 'b');
    return null; end $$;
create trigger follows after insert on t_transitions referencing new table as new_rows
    for each statement execute function follow();
update t set state = 'a' where id between 20 and 29;
update t set state = 'b' where id between 20 and 29;
select is((select count(*) from derived_transitions where to_state = 'b' and most_recent), 10::bigint,
    'a trigger moves rows, which are logged');
drop trigger follows on t_transitions;

-- What a trigger inserts into a log is a request like any other, also while pawl writes.
create function forge() returns trigger language plpgsql as $$ begin
    if new.subject_id between 40 and 49 and pg_trigger_depth() < 2 then
        execute format('insert into %I (id, subject_id, sort_key, from_state, to_state, actor, machine_version, '
            'created_at%s) values (gen_random_uuid(), $1, 99, null, ''forged'', ''another'', 1, now()%s)',
            tg_argv[0], case when tg_argv[0] = 't_transitions' then ', most_recent' end,
            case when tg_argv[0] = 't_transitions' then ', false' end) using new.subject_id;
    end if;
    return new; end $$;
create table fresh (id int primary key, state text not null);
select pawl.enforce('fresh', 'state', 'm'), pawl.enable_log('fresh', 'state', most_recent => 'stored') \g /dev/null
create trigger forges after insert on fresh_transitions for each row execute function forge('t_transitions');
select throws_ok($$insert into fresh values (40, 'a')$$, 'PW001', null,
    'a forged entry of another log, by an AFTER trigger');
drop trigger forges on fresh_transitions;
create trigger forges before insert on fresh_transitions for each row execute function forge('derived_transitions_log');
select throws_ok($$insert into fresh values (40, 'a')$$, 'PW001', null, 'by a BEFORE trigger');
drop trigger forges on fresh_transitions;
create trigger forges before insert on t_transitions for each row execute function forge('t_transitions');
select throws_ok($$update t set state = 'a' where id = 40$$, 'PW001', null, 'of the same log, by a BEFORE trigger');
drop trigger forges on t_transitions;
create trigger forges after insert on t_transitions for each row execute function forge('t_transitions');
select throws_ok($$update t set state = 'a' where id = 40$$, 'PW001', null, 'by an AFTER trigger');
drop trigger forges on t_transitions;
create function go_on() returns trigger language plpgsql as $$ begin
    if new.event = 'back' and new.subject_id = 41 then insert into t_transitions (subject_id, event)
        values (41, 'go'); end if; return null; end $$;
create trigger goes_on after insert on t_transitions for each row execute function go_on();
update t set state = 'a' where id = 41;
select results_eq($$select sort_key, from_state, to_state, event from t_transitions
    where subject_id = 41 and sort_key > 2 order by 1$$,
    $$values (3, 'b', 'a', 'back'), (4, 'a', 'b', 'go')$$, 'a valid request changes the state of the row');
select is((select state from t where id = 41), 'b', 'in the table, too');
drop trigger goes_on on t_transitions;

-- What the owner demands of every entry.
create table strict (id int primary key, state text not null);
select pawl.enforce('strict', 'state', 'm'), pawl.enable_log('strict', 'state', most_recent => 'stored') \g /dev/null
alter table strict_transitions alter processor set not null;
select throws_ok($$insert into strict values (1, 'a')$$, '23502', null,
    'an entry without what the log requires is rejected');
set pawl.processor = 'p';
insert into strict values (1, 'a'), (2, 'a');
alter table strict_transitions add check (event is distinct from 'go' or subject_id = 1);
select lives_ok($$update strict set state = 'b' where id = 1$$, 'what a CHECK of the log allows');
select throws_ok($$update strict set state = 'b' where id = 2$$, '23514', null, 'what it does not');
reset pawl.processor;
select throws_ok($$update strict set state = 'a' where id = 1$$, '23502', null, 'both at once');

-- Constraints that are triggers.
alter table t_transitions add constraint once unique (subject_id, sort_key, to_state) deferrable initially deferred;
create table known (state text primary key);
insert into known values ('a');
alter table t_transitions add constraint known_state foreign key (to_state) references known not valid;
update t set state = 'a' where id = 30;
select throws_ok('update t set state = ''b'' where id = 30', '23503', null, 'a foreign key of the log holds');
alter table t_transitions drop constraint known_state;
alter table t_transitions drop constraint once;
create table few (id int primary key, state text not null);
select pawl.enforce('few', 'state', 'm'), pawl.enable_log('few', 'state', most_recent => 'stored') \g /dev/null
alter table few_transitions add constraint one_of_a_kind unique (event, subject_id) deferrable initially deferred;
insert into few values (1, 'a');
update few set state = 'b';
update few set state = 'a';
begin;
update few set state = 'b';
select throws_ok('set constraints all immediate', '23505', null,
    'a deferred constraint of the log is looked at when its time comes');
rollback;

select is_empty('select * from pawl.verify()', 'nothing is wrong');
select is_empty($$select * from pawl.health() where status in ('warning', 'error')$$, 'all is in place');
select * from finish();
