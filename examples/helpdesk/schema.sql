-- The whole set-up. What pawl adds to an ordinary schema is the two calls at the end.
create extension pawl;

create table ticket (
    id       integer primary key,
    state    text not null,
    agent    text not null,
    updated  timestamptz not null
);

-- The role of the help desk's staff: can read and write tickets, and needs to know nothing of pawl.
create role clerk login;
grant select, insert, update on ticket to clerk;

select pawl.define('ticket', :'lifecycle') as version \gset
select pawl.enforce('ticket', 'state', 'ticket');
select pawl.enable_log('ticket');

-- The clerk's notebook: what is to be replayed, and what came of it.
create schema replay authorization clerk;
set role clerk;
create table replay.activity (name text primary key, state text not null);
insert into replay.activity values
    ('Insert ticket', 'inserted'), ('Assign seriousness', 'assigned'), ('Take in charge ticket', 'in_charge'),
    ('Wait', 'waiting'),
    ('Require upgrade', 'upgrade_required'), ('Create SW anomaly', 'anomaly_opened'),
    ('Resolve SW anomaly', 'anomaly_resolved'),
    ('Schedule intervention', 'scheduled'), ('Resolve ticket', 'resolved'), ('RESOLVED', 'resolved'),
    ('Closed', 'closed'), ('VERIFIED', 'verified'), ('INVALID', 'invalid'), ('DUPLICATE', 'duplicate');
create table replay.event (
    line         integer generated always as identity primary key,
    ticket       integer not null,
    activity     text not null references replay.activity,
    occurred_at  timestamptz not null,
    agent        text not null
);
create table replay.outcome (line integer primary key, outcome text not null);
create table replay.rejection (line integer primary key, was text, wanted text, code text, message text, detail text,
    hint text);
create table replay.stopwatch (started timestamptz, finished timestamptz);
reset role;
