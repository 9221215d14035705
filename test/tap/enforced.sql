-- One of everything that a dump, a backup or an update must bring back: plain, partitioned and inherited tables, stored
-- and derived logs, a hash chain, guards and effects, two machines on one table, and
-- names that changed after enforcing.
create schema app;
create role app_user;
create type app.phase as enum ('todo', 'doing', 'done');

create table app.tasks (id bigint primary key, state text not null default 'open',
    phase app.phase not null default 'todo', note text);
create table app.effects_seen (id bigint, from_state text, to_state text);
create function app.has_note(old app.tasks, new app.tasks) returns boolean
    language sql immutable as 'select new.note is not null';
create function app.remember(old app.tasks, new app.tasks) returns void language plpgsql as
$$begin insert into app.effects_seen values (coalesce(to_jsonb(new) ->> 'id', to_jsonb(new) ->> 'duty_id')::bigint,
    to_jsonb(old) ->> 'state', to_jsonb(new) ->> 'state'); end$$;
select pawl.define('task', $$stateDiagram-v2
    [*] --> open
    open --> closed : close [app.has_note] / app.remember
    open --> dropped : drop
    closed --> open : reopen
    closed --> [*]
    dropped --> [*]$$);
select pawl.define('phase', $$stateDiagram-v2
    [*] --> todo
    todo --> doing : begin
    doing --> done : finish
    done --> [*]$$);
select pawl.enforce('app.tasks', 'state', 'task'),
    pawl.enable_log('app.tasks', 'state', most_recent => 'stored', hash_chain => true);
select pawl.enforce('app.tasks', 'phase', 'phase'), pawl.enable_log('app.tasks', 'phase');
grant select, update on app.tasks to app_user;

select pawl.define('parcel', $$stateDiagram-v2
    [*] --> packed
    packed --> sent : send
    sent --> delivered : deliver
    sent --> lost : lose
    delivered --> [*]
    lost --> [*]$$);
create table app.parcels (region text, no int, state text not null default 'packed',
    primary key (region, no, state)) partition by list (state);
create table app.parcels_live partition of app.parcels for values in ('packed', 'sent');
create table app.parcels_done partition of app.parcels for values in ('delivered', 'lost');
select pawl.enforce('app.parcels', 'state', 'parcel', on_delete => 'terminal', errors => 'check_violation'),
    pawl.enable_log('app.parcels', 'state', most_recent => 'stored');

create table app.vehicles (id int primary key, state text not null default 'packed');
create table app.lorries (load int) inherits (app.vehicles);
select pawl.enforce('app.vehicles', 'state', 'parcel', always => true),
    pawl.enable_log('app.vehicles', 'state', hash_chain => true);

-- names that are other ones by the time of the dump
create schema old_home;
create table old_home.jobs (key1 int, key2 text, status varchar(20) not null default 'packed',
    primary key (key1, key2));
select pawl.enforce('old_home.jobs', 'status', 'parcel'),
    pawl.enable_log('old_home.jobs', 'status', most_recent => 'stored');
insert into old_home.jobs values (1, 'a'), (1, 'b');
update old_home.jobs set status = 'sent' where key2 = 'a';
alter table old_home.jobs rename column status to state_now;
alter table old_home.jobs rename column key2 to name;
alter table old_home.jobs rename to works;
alter table old_home.jobs_transitions rename to works_moves;
alter schema old_home rename to new_home;
update new_home.works set state_now = 'sent' where name = 'b';

insert into app.tasks select g, 'open', 'todo', 'n' from generate_series(1, 50) g;
update app.tasks set state = 'closed', phase = 'doing' where id <= 20;
update app.tasks set state = 'open' where id <= 5;
select pawl.fire('app.tasks', 30, 'drop', '{"why": "quo\"te"}', 'state');
insert into app.parcels select 'r' || g % 3, g from generate_series(1, 30) g;
update app.parcels set state = 'sent' where no <= 20;
update app.parcels set state = 'delivered' where no <= 10;
insert into app.vehicles select g from generate_series(1, 10) g;
insert into app.lorries select g, 'packed', g from generate_series(11, 20) g;
update app.vehicles set state = 'sent' where id % 2 = 0;
delete from app.parcels where no = 1;
