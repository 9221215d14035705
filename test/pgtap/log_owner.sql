-- A log that belongs to another role than its table is protected from the table's owner, is still written, and is
-- verified where that role lets the table's owner read it and nothing of that role would run.
set client_min_messages to warning;
select no_plan();

select pawl.define('parcel', 'stateDiagram-v2
    [*] --> packed
    packed --> sent : send
    sent --> [*]') \g /dev/null
create role pawl_test_shop in role pawl_admin;
create role pawl_test_auditor in role pawl_reader;
create schema shop;
grant all on schema shop to pawl_test_shop, pawl_test_auditor;

set role pawl_test_shop;
create table shop.parcels (id integer primary key, state text not null default 'packed');
select pawl.enforce('shop.parcels', 'state', 'parcel'), pawl.enable_log('shop.parcels') \g /dev/null
insert into shop.parcels values (1), (2);
reset role;
alter table shop.parcels_transitions_log owner to pawl_test_auditor;
alter view shop.parcels_transitions owner to pawl_test_auditor;

set role pawl_test_shop;
select is(pawl.fire('shop.parcels', 1, 'send'), 'sent', 'the log is written');
select throws_ok('update shop.parcels_transitions_log set actor = ''nobody''', '42501', null,
    'the owner of the table cannot change it');
select throws_ok('alter table shop.parcels_transitions_log disable trigger all', '42501',
    'must be owner of table parcels_transitions_log', 'nor disable its triggers');
select throws_ok('create or replace view shop.parcels_transitions as select 1 as one', '42501',
    'must be owner of view parcels_transitions', 'nor put another view in front of it');
reset role;

create function pg_temp.answer(statement text) returns text language plpgsql as $$
declare
    said text;
    given text;
begin
    execute statement;
    return 'ok';
exception when others then
    get stacked diagnostics said = message_text, given = pg_exception_hint;
    return sqlstate || ' ' || said || ' | ' || given;
end$$;
select is(pg_temp.answer('select pawl.verify(''shop.parcels'')'),
    '42501 tables shop.parcels and shop.parcels_transitions_log have different owners | '
    'grant select on shop.parcels_transitions_log to pawl_test_shop', 'verify needs a right of the table''s owner');
select is((select problem || ': ' || detail from pawl.verify()), 'not_checked: shop.parcels_transitions_log belongs to '
    'another role than the table, which cannot read it', 'and without a table says so');
grant select on shop.parcels_transitions_log to pawl_test_shop;
select is_empty('select * from pawl.verify(''shop.parcels'')', 'with it, verify finds nothing wrong');
select is_empty('select * from pawl.verify()', 'also among all tables');

set session_replication_role = replica;
update shop.parcels set state = 'sent' where id = 2;
reset session_replication_role;
select is((select key || ' ' || problem from pawl.verify('shop.parcels')), '2 log_differs', 'or finds what is');
delete from shop.parcels where id = 2;

-- What would run as the owner of the table.
set role pawl_test_auditor;
create function shop.note(anyelement) returns anyelement language plpgsql immutable as $$begin
    if current_user <> 'pawl_test_auditor' then
        raise exception 'ran as %', current_user;
    end if;
    return $1;
end$$;
grant execute on function shop.note to public;
reset role;
create function pg_temp.with_attached(attached text, detached text) returns text language plpgsql as $$
declare
    answer text;
begin
    set local role pawl_test_auditor;
    execute attached;
    reset role;
    answer := pg_temp.answer('select pawl.verify(''shop.parcels'')');
    set local role pawl_test_auditor;
    execute detached;
    reset role;
    return answer;
end$$;
select alike(pg_temp.with_attached(attached, detached), '42501 tables % have different owners | drop policies%',
    attached)
  from (values
    ('create index extra on shop.parcels_transitions_log (shop.note(sort_key))', 'drop index shop.extra'),
    ('create index extra on shop.parcels_transitions_log (sort_key) where shop.note(1) = 1', 'drop index shop.extra'),
    ('create statistics shop.extra on shop.note(sort_key), actor from shop.parcels_transitions_log',
     'drop statistics shop.extra'),
    ('alter table shop.parcels_transitions_log add constraint extra check (shop.note(1) = 1)',
     'alter table shop.parcels_transitions_log drop constraint extra'),
    ('alter table shop.parcels_transitions_log enable row level security',
     'alter table shop.parcels_transitions_log disable row level security')) t(attached, detached);
select is(pg_temp.answer('select pawl.verify(''shop.parcels'')'), 'ok', 'without any, it is verified again');

select * from finish();
