-- Work that is owned, beside enforced.sql: every managed column, on a plain, a partitioned and an inherited table,
-- under names that changed after enforcing.
select pawl.define('job', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : fail
    running --> ready : expire
    ready --> gone : cancel
    done --> [*]
    gone --> [*]
    class running owned$$);
create type app.lane as enum ('slow', 'fast');
create table app.jobs (id int primary key, state text not null default 'ready', worker text, lease timestamptz,
    token bigint not null default 0,
    due timestamptz, attempts int not null default 0, max_attempts int, lane app.lane, priority int not null default 0);
select pawl.enforce('app.jobs', 'state', 'job'), pawl.enable_log('app.jobs', 'state'),
    pawl.enable_queue('app.jobs', 'state', owner => 'worker', lease => 'lease', token => 'token',
        attempts => 'attempts', max_attempts => 'max_attempts', queue => 'lane'),
    pawl.enable_timers('app.jobs', 'state', due => 'due'),
    pawl.set_claiming('app.jobs', 'state', claim => '{start}', claim_order => 'priority desc', lease_time => '2 min',
        on_expiry => 'expire', retry => '{fail}', backoff => '{"strategy": "exponential", "base": "1 s", "cap": "1 h"}',
        operator_events => '{cancel}'),
    pawl.enable_events('app.jobs', 'state', wake => true);
alter table app.jobs rename column worker to owner;
alter table app.jobs rename column priority to rank;

create table app.pieces (region text, no int, state text not null default 'ready', owner text,
    primary key (region, no)) partition by list (region);
create table app.pieces_a partition of app.pieces for values in ('a');
create table app.pieces_b partition of app.pieces for values in ('b');
select pawl.enforce('app.pieces', 'state', 'job'), pawl.enable_queue('app.pieces', 'state', owner => 'owner'),
    pawl.set_claiming('app.pieces', 'state', claim => '{start}');

create table app.chores (id int primary key, state text not null default 'ready', due timestamptz);
create table app.errands (distance int) inherits (app.chores);
select pawl.enforce('app.chores', 'state', 'job'), pawl.enable_timers('app.chores', 'state', due => 'due');

insert into app.jobs (id, lane, rank) select g, case when g % 2 = 0 then 'slow' else 'fast' end::app.lane, g % 5
    from generate_series(1, 20) g;
insert into app.pieces (region, no) select case when g % 2 = 0 then 'a' else 'b' end, g from generate_series(1, 20) g;
insert into app.chores (id) select generate_series(1, 10);
insert into app.errands (id) select generate_series(11, 20);
select pawl.pause('app.jobs', 'slow', reason => 'inventory');
select pawl.pause('app.pieces');
