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

-- The rights of a listener are those of a request.
create function pg_temp.said(command text) returns text language plpgsql as $$
begin
    execute command;
    return 'ok';
exception when others then
    return sqlstate;
end $$;
grant pawl_feed_reader to pawl_authenticator;
select sha256(convert_to(pawl_api.create_token('pawl_feed_reader', 'ada', '{read}'), 'SQL_ASCII')) as digest \gset
set session authorization pawl_authenticator;
select is(pg_temp.said(format($$select pawl_api._listen('bearer', %L, null)$$, :'digest')), 'ok',
    'a listener gets events as its role');
reset session authorization;
revoke pawl_feed_reader from pawl_authenticator;
set session authorization pawl_authenticator;
select is(pg_temp.said(format($$select pawl_api.begin_request('bearer', %L, 'read')$$, :'digest')), '42501',
    'if pawld may not become the role any more, it rejects a request');
select is(pg_temp.said(format($$select pawl_api._listen('bearer', %L, null)$$, :'digest')), '42501',
    'and a listener, too');
reset session authorization;

-- Positions.
select pg_current_snapshot() as current \gset
select is((select gap from pawl_api._read_since('999999999999999-' || :'current', 10) where gap is not null), false,
    'a position of this server is continued');
select pg_snapshot_xmax(:'current')::text::bigint + 1000000 as ahead \gset
select is((select gap || seen from pawl_api._read_since(format('1-%s:%1$s:', :'ahead'), 10)), 'true1:1:',
    'a position that is ahead of the server is a gap, and nothing is taken for seen');
select alike((select event from pawl_api._read_since(format('1-%s:%1$s:', :'ahead'), 10)), '_%-%:' ||
    left(pg_snapshot_xmax(pg_current_snapshot())::text, 1) || '%:%', 'after which the listener begins now');

drop owned by pawl_feed_reader;
drop role pawl_feed_reader;
select * from finish();
