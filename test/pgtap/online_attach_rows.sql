-- Online attach: the histories of rows that change partition, in nested triggers, subtransactions and functions, with
-- two machines, and in prepared transactions.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    [*] --> draft : write
    new --> paid : pay
    draft --> new : submit
    paid --> sent : send
    sent --> [*]$$) as version \gset

create function validate_fully(target regclass, batch int default 7) returns bigint language plpgsql as $$
declare
    got record;
    calls bigint := 0;
begin
    loop
        select * into got from pawl.validate(target, batch => batch);
        calls := calls + 1;
        exit when got.validated;
    end loop;
    return calls;
end $$;

-- Rows that change partition, nested triggers, subtransactions, functions, two machines, prepared transactions.
create table moved_by_state (id int, state text not null, primary key (id, state)) partition by list (state);
create table mbs_new partition of moved_by_state for values in ('new', 'draft');
create table mbs_paid partition of moved_by_state for values in ('paid');
create table mbs_rest partition of moved_by_state default;
insert into moved_by_state values (1, 'new'), (2, 'legacy'), (3, 'paid'), (4, 'new'), (5, 'legacy');
select pawl.enforce('moved_by_state', 'state', 'order', validate => false), pawl.enable_log('moved_by_state',
    hash_chain => true);
update moved_by_state set state = 'paid' where id = 1;
update moved_by_state set state = 'new' where id = 2;
select alike(outcome('update moved_by_state set state = ''paid'' where id = 5'), 'PW002%',
    'a row that would change partition too');
update moved_by_state set state = 'sent' where id in (1, 3);
delete from moved_by_state where id = 5;
select is(validate_fully('moved_by_state', 2), 6::bigint, 'partitions by state are read one by one');
select results_eq($$select subject_id, string_agg(format('%s>%s', coalesce(event, ''), to_state), ' ' order by sort_key)
    from moved_by_state_transitions group by 1 order by 1$$, $$values (1, 'pawl.attach>new pay>paid send>sent'),
    (2, '>new'), (3, 'pawl.attach>paid send>sent'), (4, 'pawl.attach>new')$$, 'rows that change partition begin once');
select is_empty('select * from pawl.verify(''moved_by_state'')', 'and the chain holds');

create table nested (id int primary key, state text not null, phase text not null, note text);
insert into nested select n, 'new', 'draft' from generate_series(1, 12) n;
select pawl.enforce('nested', 'state', 'order', validate => false), pawl.enable_log('nested', 'state'),
    pawl.enforce('nested', 'phase', 'order', validate => false), pawl.enable_log('nested', 'phase',
    most_recent => 'stored');
create function go_on() returns trigger language plpgsql as $$
begin
    if new.id < 3 and new.state = 'paid' then update nested set state = 'sent' where id = new.id; end if;
    return null;
end $$;
create trigger a_go_on after update on nested for each row execute function go_on();
update nested set state = 'paid' where id <= 4;
create function at_once() returns void language plpgsql as $$
begin
    update nested set note = 'x' where id = 5;
    update nested set state = 'paid' where id = 5;
    update nested set state = 'sent', phase = 'new' where id = 5;
    begin
        update nested set state = 'paid' where id = 6;
        raise exception 'undone';
    exception when others then null;
    end;
    update nested set phase = 'new' where id = 6;
    begin
        update nested set note = 'y' where id = 7;
        update nested set state = 'paid' where id = 7;
    exception when others then null;
    end;
end $$;
select at_once();
begin;
savepoint a; update nested set state = 'paid' where id = 8; rollback to a; update nested set note = 'z' where id = 8;
savepoint b; update nested set state = 'paid' where id = 8; release b;
update nested set state = 'sent' where id = 8;
commit;
begin;
update nested set state = 'paid' where id = 9;
delete from nested where id = 10;
insert into nested values (10, 'draft', 'new');
update nested set state = 'new' where id = 10;
prepare transaction 'p';
commit prepared 'p';
begin;
update nested set note = 'validated in the same transaction' where id = 11;
select pawl.validate('nested', 'state') \g /dev/null
update nested set state = 'paid' where id = 11;
commit;
select (select string_agg(c.n::text, '') from (select 1 n from pawl.validate('nested', s,
    3)) c) from unnest('{state,phase}'::name[]) s,
    generate_series(1, 6) g order by s, g \g /dev/null
select is((select count(*) from pawl.binding where relation = 'nested'::regclass and validated), 2::bigint,
    'two machines of a table are validated one by one');
select is_empty('select * from pawl.verify(''nested'')', 'whatever order the entries came in');
select results_eq($$select subject_id, string_agg(format('%s>%s', coalesce(event, ''), to_state), ' ' order by sort_key)
    from nested_transitions group by 1 order by 1$$, $$values (1, 'pawl.attach>new pay>paid send>sent'), (2,
    'pawl.attach>new pay>paid send>sent'),
    (3, 'pawl.attach>new pay>paid'), (4, 'pawl.attach>new pay>paid'), (5, 'pawl.attach>new pay>paid send>sent'), (6,
    'pawl.attach>new'),
    (7, 'pawl.attach>new pay>paid'), (8, 'pawl.attach>new pay>paid send>sent'), (9, 'pawl.attach>new pay>paid'),
    (10, 'pawl.attach>new pawl.delete> write>draft submit>new'), (11, 'pawl.attach>new pay>paid'), (12,
    'pawl.attach>new')$$,
    'each history begins where the row was');

-- A trigger that validates while the state changes of its own statement wait to be logged.
create table asking (id int primary key, state text not null);
insert into asking select g, 'new' from generate_series(1, 4) g;
select pawl.enforce('asking', 'state', 'order', validate => false), pawl.enable_log('asking');
create function ask() returns trigger language plpgsql as $$
begin
    perform pawl.validate('asking');
    return null;
end $$;
create trigger ask after update on asking for each row execute function ask();
select alike(outcome('update asking set state = ''paid'' where id = 1'),
    '55000 the statement has changed states that are not logged yet%', 'histories do not begin before they are logged');
drop trigger ask on asking;
select lives_ok('update asking set state = ''paid'' where id = 1', 'without the trigger the row is paid');
select lives_ok('select validate_fully(''asking'')', 'and the table is validated in a statement of its own');
select is_empty('select * from pawl.verify(''asking'')', 'with nothing wrong');

select * from finish();
