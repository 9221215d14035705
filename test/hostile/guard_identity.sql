-- Guards and effects are functions that are resolved when the machine is bound: another
-- one of the same name does not take their place.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
select no_plan();
create role pawl_guard_owner in role pawl_admin; create role pawl_guard_intruder;
create schema app authorization pawl_guard_owner;
grant usage, create on schema app to pawl_guard_intruder;
create schema elsewhere authorization pawl_guard_intruder;
grant usage on schema elsewhere to public;
set role pawl_guard_owner;
create table app.t (id int primary key, state text not null default 'a', flag boolean not null default false);
create table app.effects (what text);
grant insert on app.effects to public;
create function app.gok(old anyelement, new anyelement) returns boolean
    language plpgsql as $$ begin return new.flag; end $$;
create function app.note(old record, new record) returns void
    language plpgsql as $$ begin insert into app.effects values ('owner'); end $$;
select pawl.define('guarded', $$stateDiagram-v2
    [*] --> a
    a --> b : go [app.gok] / app.note
    b --> a : back$$) \g /dev/null
select pawl.enforce('app.t', 'state', 'guarded') \g /dev/null
insert into app.t values (1, 'a', false), (2, 'a', true);
select throws_ok($$update app.t set state = 'b' where id = 1$$, 'PW003', null, 'the guard says no');
select is((select calls from pawl.binding where relation = 'app.t'::regclass),
    '{"app.gok(anyelement, anyelement)","app.note(record, record)"}', 'the binding says which functions they are');

-- an intruder that may create functions there makes ones that fit better
set role pawl_guard_intruder;
create function app.gok(old app.t, new app.t) returns boolean language sql as $$ select true $$;
create function app.note(old app.t, new app.t) returns void
    language sql as $$ insert into app.effects values ('intruder') $$;
create function app.note(old anyelement, new anyelement) returns void
    language sql as $$ insert into app.effects values ('intruder') $$;
create function elsewhere.gok(old app.t, new app.t) returns boolean language sql as $$ select true $$;
set search_path = elsewhere, app, public;
set role pawl_guard_owner;
select throws_ok($$update app.t set state = 'b' where id = 1$$, 'PW003', null,
    'a guard that fits better changes nothing');
update app.t set state = 'b' where id = 2;
select results_eq('select what from app.effects', $$values ('owner')$$, 'nor an effect');
update app.t set state = 'a' where id = 2;
select is_empty($$select * from pawl.health() where status = 'error'$$, 'health has nothing to say');
alter table app.t rename to tt;
select throws_ok($$update app.tt set state = 'b' where id = 1$$, 'PW003', null, 'nor when the table has another name');
alter table app.tt rename to t;

-- the next version keeps what is resolved
select pawl.define('guarded', $$stateDiagram-v2
    [*] --> a
    a --> b : go [app.gok] / app.note
    b --> a : back
    b --> c : on$$) \g /dev/null
select is(pawl.upgrade('app.t'), 2, 'upgraded');
select throws_ok($$update app.t set state = 'b' where id = 1$$, 'PW003', null,
    'an upgrade keeps the guard that is resolved');

-- its owner may replace it
create or replace function app.gok(old anyelement, new anyelement) returns boolean
    language plpgsql as $$ begin return not new.flag; end $$;
select lives_ok($$update app.t set state = 'b' where id = 1$$, 'a guard that its owner replaced is the guard');
reset role;
set role pawl_guard_intruder;
select throws_ok($$create or replace function app.gok(old anyelement, new anyelement) returns boolean
    language sql as 'select true'$$, '42501', null, 'no other role can');

-- dropped, nothing takes its place
set role pawl_guard_owner;
update app.t set state = 'a' where id = 1;
drop function app.gok(anyelement, anyelement);
select throws_ok($$update app.t set state = 'b' where id = 1$$, '42883', 'function app.gok(t, t) does not exist',
    'a guard that is gone is missed');
select results_eq($$select check_name, detail from pawl.health() where status = 'error'$$,
    $$values ('functions', 'guards or effects that cannot be called: guard app.gok')$$, 'health says so');
create function app.gok(old anyelement, new anyelement) returns boolean
    language plpgsql as $$ begin return new.flag; end $$;
select throws_ok($$update app.t set state = 'b' where id = 1$$, 'PW003', null, 'made again it is the guard again');

-- what an earlier version bound is looked up by name, and resolved by the next upgrade
reset role;
set session_replication_role = replica;
update pawl.binding set calls = null;
reset session_replication_role;
select lives_ok($$update app.t set state = 'b' where id = 1$$, 'a binding of an earlier version goes on');
select finish();
