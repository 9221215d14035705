-- What the owner of a log may do to it by DDL that is not meant to change the state changes it records.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
select no_plan();
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> [*]$$) \g /dev/null
create table t (id int primary key, state text not null);
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state', most_recent => 'stored') \g /dev/null
select pawl.audit('t', '{"b": true}') \g /dev/null
insert into t values (1, 'a');
update t set state = 'b';

select throws_ok($$alter table t_transitions alter to_state type text using 'b'$$, '55000', null,
    'logged states cannot be rewritten');
select throws_ok($$alter table t_transitions alter metadata type jsonb using '{"forged": true}'$$, '55000', null,
    'the type of metadata in a log cannot be altered');
select throws_ok($$alter table t_transitions alter actor type text using 'another'$$, '55000', null, 'nor the actor');
select throws_ok($$alter table t_transitions alter subject_id type int using 7$$, '55000', null, 'nor of which row');
select throws_ok($$alter table t_result_audit alter success type boolean using false$$, '55000', null, 'nor an audit');
alter table t_transitions add column note text default 'x';
select lives_ok($$alter table t_transitions alter note type varchar using note || 'y'$$,
    'the owner may alter a column of its own');

select throws_ok($$alter table t_transitions set unlogged$$, '55000', null,
    'a log does not die in a crash that the rows survive');
select throws_ok($$alter table t_result_audit set unlogged$$, '55000', null, 'nor does an audit');
alter table t set unlogged;
select lives_ok($$alter table t_transitions set unlogged$$, 'it may where the rows do');
select throws_ok($$alter table t set logged$$, '55000', null, 'and is logged first when they no longer do');
alter table t_transitions set logged;
select lives_ok($$alter table t set logged$$, 'then they may be');

-- health looks where event triggers did not
set session_replication_role = replica;
alter table t_transitions set unlogged;
reset session_replication_role;
select is((select status from pawl.health() where check_name = 'log' and relation = 't'::regclass), 'error',
    'health finds a log that a crash would empty');
alter table t_transitions set logged;

-- a key that is checked at commit lets two rows live under one key until then
create table late (id int primary key deferrable initially deferred, state text not null, n int);
select pawl.enforce('late', 'state', 'm'), pawl.enable_log('late', 'state', most_recent => 'stored') \g /dev/null
insert into late values (1, 'a', 1);
do $$ begin
    insert into late values (1, 'a', 2);
    raise 'a second row was taken';
exception when unique_violation then
    perform set_config('attack.rejected', 'on', false);
end $$;
select is(current_setting('attack.rejected', true), 'on',
    'a second row of a key is rejected before it breaks the chain');
begin;
delete from late;
insert into late values (1, 'a', 2);
commit;
select is((select count(*) from pawl.history('late', 1)), 3::bigint, 'a row may come back');
select is_empty($$select * from pawl.verify()$$, 'verify finds nothing');

-- a log whose first entry is in a state where no row begins
create table begun (id int primary key, state text not null);
select pawl.enforce('begun', 'state', 'm'), pawl.enable_log('begun', 'state', most_recent => 'stored') \g /dev/null
insert into begun values (1, 'a');
set session_replication_role = replica;
alter table begun disable trigger all;
alter table begun_transitions disable trigger all;
update begun set state = 'b';
update begun_transitions set to_state = 'b';
reset session_replication_role;
select is((select count(*) from pawl.verify('begun')), 1::bigint, 'verify finds a row that began where none may');
select * from finish();
