-- Entries of a row follow each other also where the AFTER triggers of the statement around a change have not fired yet.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back
    b --> c : on
    a --> a : touch$$) \g /dev/null
create table t (id int primary key, state text not null default 'a', note text);
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', hash_chain => true), pawl.enable_events('t') \g /dev/null
create table p (id int not null, part int not null default 1, state text not null default 'a') partition by list (part);
create table p1 partition of p for values in (1);
create table p2 partition of p for values in (2);
select pawl.enforce('p', 'state', 'm', key => '{id}'), pawl.enable_log('p', most_recent => 'stored') \g /dev/null

create function entries(relation regclass, key int) returns text language sql as
    $$ select string_agg(format('%s>%s', from_state, to_state), ' ' order by sort_key)
       from pawl.history(relation, key) $$;
create function request(relation text, key int, event text) returns int language plpgsql as $$ begin
    execute format('insert into %s_transitions (subject_id, event) values ($1, $2)', relation) using key, event;
    return key; end $$;
create function guarded_request(relation text, key int, event text) returns int language plpgsql as $$ begin
    return request(relation, key, event);
exception when unique_violation then return null; end $$;
select pawl.create_consumer('reader') \g /dev/null

-- A row is inserted, and an entry requested, by one statement.
select throws_ok($$with n as (insert into t values (1) returning id)
    insert into t_transitions (subject_id, event) select id, 'go' from n$$, '55000',
    'an earlier state change of the row is not logged yet',
    'a request for a row that the same statement inserts is rejected');
select throws_ok($$insert into t values (1) returning request('t', id, 'go')$$, '55000', null,
    'the same in RETURNING');
select lives_ok($$insert into t values (1) returning pawl.fire('t', id, 'go')$$, 'pawl.fire there is not rejected');
select is(entries('t', 1), '>a a>b', 'and comes behind the insertion');
select throws_ok($$update t set state = 'a' where id = 1 returning guarded_request('t', id, 'touch')$$, '55000', null,
    'a request in a subtransaction below the change is rejected');
select is(entries('t', 1), '>a a>b', 'and leaves nothing');
insert into t values (6);
set pawl.event = 'touch';
begin;
update t set note = 'its version is of this transaction' where id = 6;
select throws_ok($$update t set note = 'touched' where id = 6 returning guarded_request('t', id, 'go')$$, '55000', null,
    'also if the change leads back to the state of the newest entry');
rollback;
reset pawl.event;
select lives_ok($$update t set state = 'a' where id = 1 returning request('t', id, 'go')$$,
    'without a subtransaction the change is logged by then');
select is(entries('t', 1), '>a a>b b>a a>b', 'and the request follows it');

-- A row moves to another partition.
insert into p (id) values (1), (2);
select throws_ok($$with moved as (update p set part = 2, state = 'b' where id = 1 returning id)
    insert into p_transitions (subject_id, event) select id, 'on' from moved$$, '55000',
    'an earlier state change of the row is not logged yet',
    'a request for a row that the same statement moves to another partition is rejected');
select lives_ok($$with moved as (update p set part = 2, state = 'b' where id = 1 returning id)
    select pawl.fire('p', id, 'on') from moved$$, 'pawl.fire there is not rejected');
select is(entries('p', 1), '>a a>b b>c', 'and comes behind the change that moved the row');

-- A row is deleted, inserted again and changed by one statement: the old row's entry has the right state by chance.
insert into t values (2), (3);
with gone as (delete from t where id = 2 returning id)
    insert into t select id from gone returning pawl.fire('t', id, 'go') \g /dev/null
select is(entries('t', 2), '>a a> >a a>b', 'a change below waits for the deletion and the insertion');
insert into t values (4);
select throws_ok($$with gone as (delete from t where id = 4 returning id)
    insert into t select id from gone returning request('t', id, 'go')$$, '55000', null,
    'a request below does not take the entry of the old row for that of the new one');
insert into t values (5);
create function note_and_fire(key int) returns text language plpgsql as $$ begin
    update t set note = 'seen' where id = key;
    return pawl.fire('t', key, 'go'); end $$;
with gone as (delete from t where id = 5 returning id)
    insert into t select id from gone returning note_and_fire(id) \g /dev/null
select is(entries('t', 5), '>a a> >a a>b', 'a change below waits also behind a write that changes no state');
create function delete_row(key int) returns int language plpgsql as $$ begin
    delete from t where id = key; return key; end $$;
with gone as (delete from t where id = 3 returning id)
    insert into t select id from gone returning delete_row(id) \g /dev/null
select is(entries('t', 3), '>a a> >a a>', 'a deletion below does as well');
select is((select string_agg(format('%s>%s', from_state, to_state), ' ' order by n)
    from (select e.*, row_number() over () as n from pawl.read_events('reader', 1000) e) x
    where key = '{3}'), '>a a> >a a>', 'events come in the same order');

-- The same with events and no log.
create table u (id int primary key, state text not null default 'a');
select pawl.enforce('u', 'state', 'm'), pawl.enable_events('u') \g /dev/null
insert into u values (1);
select pawl.create_consumer('second') \g /dev/null
with gone as (delete from u where id = 1 returning id)
    insert into u select id from gone returning pawl.fire('u', id, 'go') \g /dev/null
select is((select string_agg(format('%s>%s', from_state, to_state), ' ' order by n)
    from (select e.*, row_number() over () as n from pawl.read_events('second', 1000) e) x
    where relation = 'u'::regclass), 'a> >a a>b', 'without a log, events wait alike');

-- A request whose effects change the row again.
create table e (id int primary key, state text not null default 'a');
create function more(old e, new e) returns void language plpgsql as $$ begin
    if new.id = 1 then perform request('e', new.id, 'on'); else update e set state = 'c' where id = new.id; end if;
end $$;
select pawl.define('n', $$stateDiagram-v2
    [*] --> a
    a --> b : go / more
    b --> c : on$$) \g /dev/null
select pawl.enforce('e', 'state', 'n'), pawl.enable_log('e') \g /dev/null
insert into e values (1), (2), (3);
select throws_ok($$select request('e', 1, 'go')$$, '55000', null,
    'a request of an effect is rejected, if a request is what it is called for');
select lives_ok($$select request('e', 2, 'go')$$, 'an update of an effect is not');
select is(entries('e', 2), '>a a>b b>c', 'and comes behind the request');
-- The same where the request leads back to the state of the newest entry.
create table back (id int primary key, state text not null default 'a');
create function further(old back, new back) returns void language plpgsql as $$ begin
    if new.id = 1 then perform request('back', new.id, 'go');
    else update back set state = 'b' where id = new.id; end if;
end $$;
select pawl.define('l', $$stateDiagram-v2
    [*] --> a
    a --> a : touch / further
    a --> b : go
    b --> a : back$$) \g /dev/null
select pawl.enforce('back', 'state', 'l'), pawl.enable_log('back') \g /dev/null
insert into back values (1), (2);
select throws_ok($$select request('back', 1, 'touch')$$, '55000', null,
    'a request of an effect does not pass the request that it is called for');
select request('back', 2, 'touch') \g /dev/null
select is(entries('back', 2), '>a a>a a>b', 'nor does an update of an effect');
begin;
savepoint s;
select throws_ok($$select request('back', 1, 'touch')$$, '55000', null, 'a request that fails');
rollback to s;
update back set state = 'b' where id = 1;
update back set state = 'a' where id = 1;
select is(entries('back', 1), '>a a>b b>a', 'is forgotten with its subtransaction');
commit;

-- Triggers of the table go on with a row whose own state change is known by then, in each of the ways.
create table d (id int primary key, state text not null default 'a', n int not null default 0, part int default 1,
    seen text);
select pawl.define('k', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> c : on$$) \g /dev/null
select pawl.enforce('d', 'state', 'k'), pawl.enable_log('d') \g /dev/null
create function go_on() returns trigger language plpgsql as $$ begin
    if new.n = 0 then
        perform request('d', new.id, case new.state when 'a' then 'go' else 'on' end);
    elsif new.n = 1 then
        update d set seen = 'written' where id = new.id;
        perform pawl.fire('d', new.id, 'go');
        update d set seen = entries('d', new.id) where id = new.id;
    end if;
    return null; end $$;
create trigger goes_on after insert on d for each row execute function go_on();
select lives_ok($$insert into d values (1)$$, 'a trigger of an insertion asks the log for more');
select lives_ok($$insert into d values (2) on conflict (id) do update set n = 5$$, 'also in an upsert');
select is(entries('d', 1) || ' | ' || entries('d', 2), '>a a>b | >a a>b', 'and gets it');
insert into d (id, n) values (3, 1);
select is((select seen from d where id = 3), '>a a>b',
    'what it has changed by then is logged, also behind another write');
create function all_go_on() returns trigger language plpgsql as $$ begin
    insert into d_transitions (subject_id, event) select id, 'go' from new_rows where n = 2;
    return null; end $$;
create trigger all_go_on after insert on d referencing new table as new_rows
    for each statement execute function all_go_on();
select lives_ok($$insert into d (id, n) select g, 2 from generate_series(11, 20) g$$,
    'a trigger of the statement does');
select is((select count(*) from d_transitions where to_state = 'b' and subject_id between 11 and 20), 10::bigint,
    'for all of its rows');
create trigger goes_on_again after update on d for each row when (new.n = 0 and new.state = 'b' and old.state = 'a')
    execute function go_on();
begin;
insert into d (id, n) values (4, 3);
update d set n = 0 where id = 4;
select lives_ok($$update d set state = 'b' where id = 4$$, 'a trigger of an update does, of a row of this transaction');
commit;
select is(entries('d', 4), '>a a>b b>c', 'and comes behind it');

-- A row that is moved within its partition takes no transition, and what its trigger asks for follows.
create table wide (id int not null, part int not null default 1, state text not null default 'a')
    partition by list (part);
create table wide1 partition of wide for values in (1, 3);
select pawl.enforce('wide', 'state', 'k', key => '{id}'), pawl.enable_log('wide') \g /dev/null
create function goes_wide() returns trigger language plpgsql as $$ begin
    perform request('wide', new.id, 'go'); return null; end $$;
create trigger goes_wide after update of part on wide for each row execute function goes_wide();
insert into wide values (1);
begin;
update wide set state = state where id = 1;
select lives_ok($$update wide set part = 3 where id = 1$$, 'a request below a write that changes no state');
commit;
select is(entries('wide', 1), '>a a>b', 'has its entry');

-- What waits for one statement is not looked up in the log at the end of each statement within it.
create table many (id int primary key, state text not null default 'a');
select pawl.enforce('many', 'state', 'm'), pawl.enable_log('many') \g /dev/null
\ir include/touched.psql
select cmp_ok(touched($$insert into many select generate_series(1, 500) returning pawl.fire('many', id, 'go')$$), '<',
    50000::bigint, 'five hundred rows are inserted and changed');
select is((select count(*) from many_transitions), 1000::bigint, 'and have their entries');
select cmp_ok(touched($$insert into many select generate_series(501, 1000)
        returning pawl.fire('many', id, 'go'), pawl.fire('many', id, 'back')$$), '<', 50000::bigint,
    'also where they change twice');
select is((select string_agg(distinct entries('many', id), ', ') from generate_series(501, 1000) id), '>a a>b b>a',
    'in their order');

-- A trigger of the log cannot leave an entry out.
create function suppress() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger suppresses before insert on e_transitions_log for each row execute function suppress();
insert into u values (2);
select throws_ok($$insert into e values (4)$$, '09000', 'a trigger of log "e_transitions_log" suppressed an entry',
    'a trigger that suppresses an entry rejects the state change');
drop trigger suppresses on e_transitions_log;

select is_empty($$select * from pawl.verify('t') union all select * from pawl.verify('p')
    union all select * from pawl.verify('u') union all select * from pawl.verify('e')
    union all select * from pawl.verify('back') union all select * from pawl.verify('d')
    union all select * from pawl.verify('wide')
    union all select * from pawl.verify('many')$$, 'nothing is wrong in any log');
select * from finish();
