-- pawl.place is for a role that is both owner of the table and member of pawl_admin. Others try it directly, through
-- functions, views, settings, the log and the catalog.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir ../pgtap/include/jobs.psql
grant execute on function outcome(text) to public;

create role place_owner login;
create role place_admin login;
create role place_both login;
create role place_worker login;
grant pawl_admin to place_admin, place_both;
grant pawl_worker to place_worker;
grant create, usage on schema public to public;
set role place_both;
select pawl.define('parcel', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    sent --> [*]$$) \g /dev/null
create table parcels (id int primary key, tenant text not null default 'a', state text not null default 'new');
select pawl.enforce('parcels', 'state', 'parcel'), pawl.enable_log('parcels', hash_chain => true);
select pawl.set_placing('parcels');
insert into parcels select generate_series(1, 9);
grant select, insert, update, delete on parcels to place_worker, place_admin, place_owner;
grant select, insert on parcels_transitions, parcels_transitions_log to place_worker;
create table mine (id int primary key, state text not null);
select pawl.enforce('mine', 'state', 'parcel'), pawl.enable_log('mine');
select pawl.set_placing('mine');
insert into mine values (1, 'new');
create table mine_too (id int primary key, state text not null);
select pawl.enforce('mine_too', 'state', 'parcel'), pawl.enable_log('mine_too');
select pawl.set_placing('mine_too');
insert into mine_too values (1, 'new');
reset role;
alter table mine owner to place_owner;

-- One of the two rights is not enough.
set role place_worker;
select throws_ok($$select pawl.place('parcels', 1, 'sent', 'r')$$, '42501', 'permission denied for function place',
    'a worker places nothing');
select throws_ok($$select pawl.set_placing('parcels')$$, '42501', null, 'nor allows it');
select throws_ok($$select pawl._show_placed(b) from pawl.binding b$$, '42501', null, 'nor calls what is internal');
select throws_ok($$update pawl.binding set may_place = true$$, '42501', null, 'nor writes the catalog');
set role place_admin;
select throws_ok($$select pawl.place('parcels', 1, 'sent', 'r')$$, '42501', 'must be owner of table public.parcels',
    'an admin places nothing in the table of another role');
select throws_ok($$select pawl.set_placing('parcels', false)$$, '42501', 'must be owner of table public.parcels',
    'nor forbids it');
set role place_owner;
select throws_ok($$select pawl.place('mine', 1, 'sent', 'r')$$, '42501', 'permission denied for function place',
    'an owner that is no admin places nothing');

-- Functions, views and triggers of the role that can.
set role place_both;
create function wrapper(id int) returns text language sql security definer set search_path = public, pg_temp as
    $$select pawl.place('parcels', id, 'sent', 'wrapped')$$;
create view wrapped as select pawl.place('parcels', 2, 'sent', 'viewed') as state;
grant select on wrapped to place_worker, place_admin;
set role place_worker;
select is(outcome('select wrapper(1)'), '42501 must be owner of table public.parcels | Role "place_worker" is not a '
    'member of role "place_both". | grant place_both to place_worker', 'a SECURITY DEFINER function does not lend it');
select throws_ok('select * from wrapped', '42501', null, 'nor does a view');
set role place_both;
create table bait (id int);
create rule places as on insert to bait do also select pawl.place('parcels', 2, 'sent', 'by a rule');
create function bait() returns trigger language plpgsql security definer set search_path = public, pg_temp as
    $$ begin perform pawl.place('parcels', 2, 'sent', 'by a trigger'); return null; end $$;
create table trap (id int);
create trigger bait after insert on trap for each row execute function bait();
grant insert on bait, trap to place_worker, place_admin;
set role place_worker;
select throws_ok('insert into bait values (1)', '42501', null, 'nor does a rule');
select throws_ok('insert into trap values (1)', '42501', null, 'nor a trigger that is SECURITY DEFINER');
set role place_admin;
select throws_ok('insert into bait values (1)', '42501', null, 'also for an admin');
set role place_both;
create rule nothing as on update to mine_too do instead nothing;
select is(outcome($$select pawl.place('mine_too', 1, 'sent', 'r')$$), '09000 the row of public.mine_too was not placed '
    '| A trigger, a rule or a row security policy of the table suppressed the update.', 'a rule instead of the update');
select is(outcome($$select pawl.fire('mine_too', 1, 'pay')$$), '09000 event "pay" changed no row of public.mine_too '
    '| A trigger, a rule or a row security policy of the table suppressed the update.', 'nor can an event be fired');
set role place_owner;
select throws_ok('select wrapper(1)', '42501', null, 'also not to an owner of another table');
set role place_both;
select lives_ok('select wrapper(1)', 'for the role itself it is a function like others');
reset role;
create function owners() returns text language sql security definer set search_path = public, pg_temp as
    $$select pawl.place('parcels', 3, 'sent', 'r')$$;
alter function owners() owner to place_owner;
grant place_both to place_admin;
set role place_admin;
select throws_ok('select owners()', '42501', 'permission denied for function place',
    'rights are those of the function, too');
reset role;
revoke place_both from place_admin;

-- Settings and entries by hand.
set role place_worker;
set pawl.event = 'pawl.place';
select throws_ok($$update parcels set state = 'sent' where id = 4$$, 'PW001', null, 'the event alone places nothing');
select throws_ok($$select pawl.fire('parcels', 4, 'pawl.place')$$, 'PW008', null, 'and cannot be fired');
reset pawl.event;
select throws_ok($$insert into parcels_transitions_log (subject_id, to_state, event, placed)
    values (4, 'sent', 'pawl.place', 'forged')$$, 'PW001', null, 'nor does an entry by hand');
select throws_ok($$insert into parcels_transitions (subject_id, to_state, event, placed)
    values (4, 'sent', 'pawl.place', 'forged')$$, 'PW001', null, 'nor one through the view');
select lives_ok($$insert into parcels_transitions_log (subject_id, to_state, placed) values (4, 'paid', 'forged')$$,
    'a transition by hand is accepted');
select results_eq($$select event, placed from parcels_transitions_log where subject_id = 4 order by sort_key$$,
    $$values (null, null::text), ('pay', null)$$, 'but not marked as placed');
set pawl.metadata = '{"placed": "x"}';
select throws_ok($$update parcels set state = 'sent' where id = 5$$, 'PW001', null, 'metadata are no mark either');
reset pawl.metadata;
select throws_ok($$update parcels_transitions_log set placed = 'x'$$, '42501', null, 'a worker writes no mark');
set role place_both;
select throws_ok($$update parcels_transitions_log set placed = 'x'$$, 'PW006', null, 'nor does the owner');

-- What place does to other rows: nothing. The intent is of the statement, not of what triggers do in it.
create function spreads() returns trigger language plpgsql as $$
begin
    if pg_trigger_depth() = 1 and new.state = 'sent' then
        update parcels set state = 'sent' where id = new.id + 1;
    end if;
    return null;
end $$;
create trigger spreads after update on parcels for each row execute function spreads();
select throws_ok($$select pawl.place('parcels', 6, 'sent', 'r')$$, 'PW001', null,
    'an UPDATE by a trigger is not placed with the row');
drop trigger spreads on parcels;
select throws_ok($$with both_rows as (update parcels set state = 'sent' where id = 7 returning id)
    select pawl.place('parcels', 6, 'sent', 'r') from both_rows$$, 'PW001', null, 'nor is the statement around it');

-- A trigger that places the row which its statement changes.
create function places() returns trigger language plpgsql as $$
begin
    perform pawl.place('parcels', old.id, 'sent', 'by a trigger');
    return new;
end $$;
create trigger places before update on parcels for each row when (pg_trigger_depth() = 0) execute function places();
select throws_ok($$update parcels set tenant = 'b' where id = 7$$, '27000', null, 'the row is not changed twice');
drop trigger places on parcels;
create trigger places after update on parcels for each row when (pg_trigger_depth() = 0) execute function places();
select lives_ok($$update parcels set tenant = 'b' where id = 7$$, 'after the statement it is placed');
select results_eq($$select from_state, to_state, placed from pawl.history('parcels', 7) where most_recent$$,
    $$values ('new', 'sent', 'by a trigger')$$, 'and marked');
select lives_ok($$update parcels set state = 'paid' where id = 8$$, 'also after a transition of the statement');
select results_eq($$select from_state, to_state, event from pawl.history('parcels', 8)$$,
    $$values (null, 'new', null), ('new', 'paid', 'pay'), ('paid', 'sent', 'pawl.place')$$, 'in the order of the log');
drop trigger places on parcels;

-- Row-level security, frozen rows, rows of this transaction.
alter table parcels enable row level security;
alter table parcels force row level security;
create policy own on parcels using (tenant = 'z');
select throws_ok($$select pawl.place('parcels', 9, 'sent', 'r')$$, 'P0002', null, 'a row that a policy hides');
drop policy own on parcels;
create policy seen on parcels for select using (true);
create policy kept on parcels for update using (true) with check (state <> 'sent');
select throws_ok($$select pawl.place('parcels', 9, 'sent', 'r')$$, '42501', null, 'a state that a policy forbids');
alter table parcels no force row level security;
vacuum (freeze) parcels;
select lives_ok($$select pawl.place('parcels', 9, 'sent', 'r')$$, 'a frozen row is a row like others');
begin;
delete from parcels where id = 9;
insert into parcels values (9, 'a', 'new');
select lives_ok($$select pawl.place('parcels', 9, 'sent', 'r')$$, 'so is one that was deleted and made again');
savepoint before;
select pawl.place('parcels', 9, 'paid', 'undone') \g /dev/null
rollback to before;
commit;
select results_eq($$select from_state, to_state, event from pawl.history('parcels', 9) where sort_key > 1$$,
    $$values ('new', 'sent', 'pawl.place'), ('sent', null, 'pawl.delete'), (null, 'new', null),
    ('new', 'sent', 'pawl.place')$$, 'and what is rolled back is not in the log');
reset role;
select is_empty($$select * from pawl.verify('parcels') where problem <> 'placed'$$, 'no other problem is found');
select * from finish();
drop owned by place_owner, place_admin, place_both, place_worker;
drop role place_owner, place_admin, place_both, place_worker;
