-- Consumers: created, dropped, rejected; what each may see; retention, and how it is reported.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create role pawl_consumer_one in role pawl_worker;
create role pawl_consumer_two in role pawl_worker;
create role pawl_consumer_member in role pawl_worker, pawl_consumer_one;
create role pawl_consumer_operator in role pawl_operator;
create role pawl_consumer_stranger;
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back
    b --> [*]$$) \g /dev/null
create table seen (id int primary key, state text not null default 'a');
create table hidden (id int primary key, state text not null default 'a');
create table secured (id int primary key, state text not null default 'a');
create table parted (id int primary key, state text not null default 'a') partition by range (id);
create table parted_1 partition of parted for values from (0) to (100);
create table silent (id int primary key, state text not null default 'a');
create table loose (id int primary key, state text not null default 'a');
alter table secured enable row level security;
grant select on seen, secured, parted to pawl_consumer_one;
select pawl.enforce(t, 'state', 'm'), pawl.enable_log(t, 'state'), pawl.enable_events(t, 'state')
    from unnest(array['seen', 'hidden', 'secured', 'parted']::regclass[]) t \g /dev/null
select pawl.enforce('silent', 'state', 'm') \g /dev/null
insert into seen values (0);

-- what is rejected
select throws_ok($$select pawl.create_consumer(null)$$, '22004', 'consumer must not be null', 'a consumer has a name');
select throws_ok($$select pawl.create_consumer('x', null)$$, '22004', 'start must not be null', 'it starts somewhere');
select throws_ok($$select pawl.create_consumer('')$$, '22023', 'consumer must not be empty', 'not an empty one');
select throws_ok($$select pawl.create_consumer('x', 'end')$$, '22023', 'unknown value "end" for start',
    'it starts now or at the beginning');
select throws_ok($$select pawl.create_consumer('x', relations => '{}')$$, '22023', 'relations must be a list of tables',
    'a consumer of an empty list of tables is rejected');
select throws_ok($$select pawl.create_consumer('x', relations => array[null]::regclass[])$$, '22023',
    'relations must be a list of tables', 'a table that is null');
select throws_ok($$select pawl.create_consumer('x', relations => array['silent']::regclass[])$$, '55000',
    'table public.silent has no events', 'a table without events');
select throws_ok($$select pawl.create_consumer('x', relations => array['loose']::regclass[])$$, '42704',
    'no machine is enforced on table public.loose', 'a table without lifecycle');
select throws_ok($$select * from pawl.read_events('x')$$, 'PW008', 'unknown consumer "x"',
    'an unknown consumer is an error');
select throws_ok($$select * from pawl.read_events(null)$$, '22004', 'consumer must not be null',
    'read_events rejects a null consumer');
select throws_ok($$select * from pawl.read_events('x', null)$$, '22004', 'batch must not be null',
    'a batch is a number');
select throws_ok($$select * from pawl.read_events('x', 0)$$, '22023', 'batch must be from 1 to 100000',
    'read_events rejects a batch of 0');
select throws_ok($$select * from pawl.read_events('x', 100001)$$, '22023', 'batch must be from 1 to 100000',
    'read_events rejects a batch of more than 100000');
select throws_ok($$select pawl.drop_consumer('x')$$, 'PW008', 'unknown consumer "x"', 'nothing to drop');
select throws_ok($$select pawl.drop_consumer(null)$$, '22004', 'consumer must not be null', 'no name to drop');
select throws_ok($$select pawl.prune_events('-1 s')$$, '22023', 'older_than must be from 0 to 1000 years',
    'the future is not pruned');
begin isolation level repeatable read;
select throws_ok($$select pawl.prune_events()$$, '25001', null, 'pruning looks at what is committed');
rollback;
create function hint_of(statement text) returns text language plpgsql as $$
declare hint text;
begin
    execute statement;
    return null;
exception when others then
    get stacked diagnostics hint = pg_exception_hint;
    return hint;
end $$;
select is(hint_of($$select pawl.read_events('it''s')$$), $$select pawl.create_consumer('it''s')$$,
    'the hint can be pasted');

-- whose they are
set role pawl_consumer_stranger;
select throws_ok($$select pawl.create_consumer('x')$$, '42501', null, 'a role that is no worker reads no events');
select throws_ok($$select * from pawl.consumers$$, '42501', null, 'nor the list of consumers');
select throws_ok($$select * from pawl.outbox_1$$, '42501', null, 'nor the tables');
reset role;
set role pawl_consumer_one;
select lives_ok($$select pawl.create_consumer('one', 'beginning')$$, 'a worker makes a consumer');
select throws_ok($$select pawl.create_consumer('one')$$, '42710', 'consumer "one" already exists',
    'the name of a consumer can be given once');
select throws_ok($$select pawl.create_consumer('x', relations => array['hidden']::regclass[])$$, '42501',
    'permission denied for the events of table public.hidden', 'not of a table that it may not read');
select throws_ok($$select pawl.create_consumer('x', relations => array['seen', 'secured']::regclass[])$$, '42501',
    'permission denied for the events of table public.secured', 'nor where policies hide rows');
select lives_ok($$select pawl.create_consumer('parts', relations => array['parted_1']::regclass[])$$,
    'a partition stands for its root');
select throws_ok($$delete from pawl.consumer$$, '42501', null, 'no role writes the table');
select throws_ok($$select pawl._create_consumer('x', 'now', null, 10)$$, '42501', null,
    'nor calls the internal function');
select throws_ok($$select pawl._truncate_slot(1, null)$$, '42501', null, 'no role can truncate a slot of the outbox');
reset role;
insert into seen values (1);
insert into hidden values (1);
insert into secured values (1);
insert into parted values (1);
set role pawl_consumer_two;
select throws_ok($$select * from pawl.read_events('one')$$, '42501', 'consumer "one" belongs to another role',
    'the consumer of another role is not read');
select throws_ok($$select pawl.drop_consumer('one')$$, '42501', 'consumer "one" belongs to another role',
    'a consumer of another role cannot be dropped');
select is_empty('select * from pawl.consumers', 'a consumer of another role is not shown');
reset role;
set role pawl_consumer_member;
select set_eq('select consumer from pawl.consumers', array['one', 'parts'], 'a member of its owner sees it');
reset role;
set role pawl_consumer_one;
select results_eq($$select relation::text collate "C", key from pawl.read_events('one')$$,
    $$values ('seen' collate "C", array['0']), ('seen', array['1']), ('parted', array['1'])$$,
    'from the beginning, of the tables that it may read');
select results_eq($$select relation::text collate "C" from pawl.read_events('parts')$$, array['parted' collate "C"],
    'of the tables that it names');
reset role;
revoke select on parted from pawl_consumer_one;
insert into parted values (2);
set role pawl_consumer_one;
select throws_ok($$select * from pawl.read_events('parts')$$, '42501',
    'permission denied for the events of table public.parted', 'a right that was lost is an error, no gap');
reset role;
grant select on parted to pawl_consumer_one;
set role pawl_consumer_one;
select results_eq($$select key from pawl.read_events('parts')$$, $$values (array['2'])$$, 'with it the events come');
reset role;
create function as_definer() returns bigint
    language sql security definer as $$ select count(*) from pawl.read_events('one') $$;
alter function as_definer() owner to pawl_consumer_one;
set role pawl_consumer_two;
select is(as_definer(), 1::bigint, 'a SECURITY DEFINER function reads with the rights of its owner');
reset role;
set role pawl_consumer_operator;
select set_eq('select consumer from pawl.consumers', array['one', 'parts'], 'an operator sees all');
select throws_ok($$select * from pawl.read_events('one')$$, '42501', null,
    'pawl_operator cannot read the events of a consumer');
select lives_ok($$select pawl.drop_consumer('parts')$$, 'and may drop them');
select lives_ok($$select pawl.prune_events()$$, 'pawl_operator can prune events');
reset role;
select is((select current_user::text), session_user::text, 'the current user is the caller again');

-- a table that is dropped keeps its events for a consumer that named it
select pawl.create_consumer('named', relations => array['hidden', 'seen']::regclass[]) \g /dev/null
select pawl.create_consumer('all') \g /dev/null
update hidden set state = 'b';
update seen set state = 'b' where id = 0;
drop table hidden, hidden_transitions_log cascade;
select is((select count(*) from pawl.read_events('named')), 2::bigint, 'events of a dropped table');
select is((select count(*) from pawl.read_events('all')), 2::bigint, 'a consumer of everything gets them too');
set role pawl_consumer_one;
select is((select count(*) from pawl.read_events('one')), 1::bigint, 'others do not');
reset role;

-- lag
select pawl.prune_events() \g /dev/null
select is((select count(*) from pawl.outbox_transactions), 0::bigint, 'what all have read is pruned');
update seen set state = 'a' where id = 0;
insert into seen select g from generate_series(10, 19) g;
select results_eq($$select consumer collate "default", behind, and_more, age > '0' from pawl.consumers order by 1$$,
    $$values ('all', 11::bigint, false, true), ('named', 11, false, true), ('one', 11, false, true)$$,
    'the view consumers counts the events that each consumer has not read');
select is((select count(*) from pawl.read_events('all', 4)), 4::bigint, 'four are read');
select results_eq($$select behind from pawl.consumers where consumer = 'all'$$, array[7::bigint], 'seven are left');

-- retention by age: told once, exactly
select is(pawl.prune_events('1 hour'), 0::bigint, 'nothing is that old');
select is((select count(*) from pawl.read_events('named', 1)), 1::bigint, 'one is read');
select is(pawl.prune_events('0'), 11::bigint, 'everything is older than now');
select results_eq($$select event, metadata::text, relation, at is not null from pawl.read_events('all')$$,
    $$values ('pawl.gap', '{"missed": 7}', null::regclass, true)$$, 'a consumer that had read four misses seven');
select is_empty($$select * from pawl.read_events('all')$$, 'the gap is reported once');
begin;
select results_eq($$select event, metadata::text from pawl.read_events('named')$$,
    $$values ('pawl.gap', '{"missed": 10}')$$, 'a consumer that had read one misses ten');
rollback;
insert into seen values (20);
select results_eq($$select event, metadata::text, key from pawl.read_events('named')$$,
    $$values ('pawl.gap', '{"missed": 10}', null), (null, null, array['20'])$$,
    'after a rollback it is reported again, followed by later events');
select results_eq($$select missed, behind from pawl.consumers where consumer = 'one'$$,
    $$values (11::bigint, 1::bigint)$$, 'the view tells too');
select is(pawl.prune_events('1 hour'), 0::bigint, 'what one consumer has not read stays');
select pawl.drop_consumer('one') \g /dev/null
select is((select count(*) from pawl.read_events('all')), 1::bigint, 'read by the last one');
select is(pawl.prune_events(), 1::bigint, 'a slot that every consumer has read is pruned');

-- large: the tables take turns, nothing is deleted row by row
insert into seen select g from generate_series(1000, 20999) g;
select is((select current from pawl.outbox_slot), 1, 'the first table');
select is(pawl.prune_events(), 0::bigint, 'prune_events keeps events that a consumer has not read');
select is((select current from pawl.outbox_slot), 2, 'the second is written now');
insert into seen select g from generate_series(30000, 49999) g;
select is(pawl.prune_events(), 0::bigint, 'a slot that one consumer has not read is kept');
select is((select current from pawl.outbox_slot), 3, 'then the third');
insert into seen select g from generate_series(50000, 69999) g;
select is(pawl.prune_events(), 0::bigint, 'there is no fourth');
select is((select current from pawl.outbox_slot), 3, 'it is written on');
select results_eq($$select count(*), min(key[1]::int), max(key[1]::int) from pawl.read_events('all', 30000)$$,
    'values (30000::bigint, 1000, 39999)', 'read in order over all of them');
select is(pawl.prune_events(), 0::bigint, 'named has read nothing');
select is((select count(*) from pawl.read_events('named', 50000)), 50000::bigint,
    'a consumer can read 50000 events at once');
select is((select count(*) from pawl.read_events('named', 50000)), 10000::bigint, 'to the end');
select is(pawl.prune_events(), 0::bigint, 'all is in the middle of an interval');
select is((select count(*) from pawl.read_events('all', 30001)), 30000::bigint, 'and ends it');
select is(pawl.prune_events(), 40000::bigint, 'two tables are truncated');
select results_eq('select pg_relation_size(''pawl.outbox_1''), pg_relation_size(''pawl.outbox_2''), current from '
    'pawl.outbox_slot', 'values (0::bigint, 0::bigint, 1)', 'and the first is written again');
select is(pawl.prune_events(), 20000::bigint, 'the third follows');

-- by age, whole tables
insert into seen select g from generate_series(100000, 119999) g;
select is(pawl.prune_events('0'), 0::bigint, 'what is written now is not truncated');
select is((select count(*) from pawl.read_events('all', 1500)), 1500::bigint, 'some are read');
select is(pawl.prune_events('0'), 20000::bigint, 'but when another is');
select results_eq($$select event, metadata::text from pawl.read_events('all')$$,
    $$values ('pawl.gap', '{"missed": 18500}')$$, 'reported with the exact number');
select results_eq($$select event, metadata::text from pawl.read_events('named')$$,
    $$values ('pawl.gap', '{"missed": 20000}')$$, 'to every consumer');
select is_empty('select * from pawl.verify()', 'the logs have all of it');
drop owned by pawl_consumer_one, pawl_consumer_two, pawl_consumer_member, pawl_consumer_operator,
    pawl_consumer_stranger;
drop function if exists as_definer();
drop role pawl_consumer_one, pawl_consumer_two, pawl_consumer_member, pawl_consumer_operator, pawl_consumer_stranger;
select * from finish();
