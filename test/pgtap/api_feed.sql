-- The consumer of a daemon's event stream: another role cannot have it made beforehand, with fewer tables.
\set QUIET 1
set client_min_messages to warning;
create extension pawl_api cascade;
select no_plan();
create role pawl_feed_reader in role pawl_reader;
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go$$) \g /dev/null
create table seen (id int primary key, state text not null default 'a');
create table decoy (id int primary key, state text not null default 'a');
select pawl.enforce('seen', 'state', 'm'), pawl.enable_events('seen'),
    pawl.enforce('decoy', 'state', 'm'), pawl.enable_events('decoy') \g /dev/null
grant select on decoy to pawl_feed_reader;
set role pawl_feed_reader;
select pawl.create_consumer('pawl_api:1', relations => '{decoy}') \g /dev/null
reset role;
set role pawl_authenticator;
select is((select consumer from pawl_api._open_feed()), 'pawl_api:1', 'a daemon gets the first name');
reset role;
select is((select relations from pawl.consumer where consumer = 'pawl_api:1'), null, 'and a consumer of all tables');
select isnt((select owner from pawl.consumer where consumer = 'pawl_api:1'), 'pawl_feed_reader',
    'which does not belong to the role that took the name');
insert into seen values (1);
set role pawl_authenticator;
select is((select count(*) from pawl_api._read_feed('pawl_api:1', 10) where event is not null), 1::bigint,
    'so it gets the events of every table');
reset role;
set role pawl_feed_reader;
select throws_ok($$select * from pawl.read_events('pawl_api:1')$$, '42501', null, 'and no other role reads them there');
reset role;
drop owned by pawl_feed_reader;
drop role pawl_feed_reader;
select * from finish();
