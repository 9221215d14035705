-- pawl.verify and pawl.available of rows that are owned.
begin;
set client_min_messages = warning;
create extension if not exists pgtap;
create extension if not exists pawl;
select plan(9);

select pawl.define('job', $$stateDiagram-v2
    [*] --> queued
    queued --> running : start
    queued --> stale : age after 1 hour
    running --> done : finish
    running --> queued : fail
    done --> [*]
    stale --> [*]
    class running owned
$$);
create table job (id int primary key, state text not null default 'queued', owner text, lease timestamptz, token bigint,
    due timestamptz, attempts int not null default 0);
select pawl.enforce('job', 'state', 'job'),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.enable_timers('job', 'state', due => 'due'),
    pawl.set_claiming('job', 'state', retry => array['fail'], backoff => '{"max_attempts": 1}');
insert into job (id) select generate_series(1, 5);
update job set state = 'running', owner = 'w' where id in (1, 2);
select is_empty($$select * from pawl.verify('job')$$, 'nothing is wrong at first');

select results_eq($$select event, allowed, blocked_by from pawl.available('job', 1)$$,
    $$values ('finish', false, array['pawl.owner']), ('fail', false, array['pawl.owner'])$$,
    'without a processor an owned row cannot change state');
set local pawl.processor = 'w';
select results_eq($$select event, allowed, blocked_by from pawl.available('job', 1)$$,
    $$values ('finish', true, '{}'::text[]), ('fail', false, array['pawl.attempts'])$$,
    'its owner may, as far as attempts are left');
set local pawl.token = '7';
select results_eq($$select distinct blocked_by from pawl.available('job', 1)$$, $$values (array['pawl.token'])$$,
    'not with another token');
reset pawl.token;

alter table job disable trigger "~pawl_validate";
update job set owner = null where id = 1;
update job set lease = null where id = 2;
update job set owner = 'thief' where id = 3;
update job set due = null where id = 4;
alter table job enable trigger "~pawl_validate";
select is((select count(*) from pawl.verify('job')), 3::bigint,
    'an owned state without an owner is no fault: any session may claim the row');
select results_eq($$select key, problem from pawl.verify('job') order by key$$,
    $$values ('2', 'lease_missing'), ('3', 'stray_owner'), ('4', 'timer_missing')$$,
    'what slipped in while the trigger was off is found');
select matches((select detail from pawl.verify('job') where key = '3'), 'thief', 'and named');
select lives_ok($$update job set state = 'done', owner = 'me' where id = 1$$,
    'any session may change the state of a row without an owner');
select is((select owner from job where id = 1), null, 'and is free afterwards');
select * from finish();
rollback;
