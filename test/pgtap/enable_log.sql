-- pawl.enforce again, and pawl.enable_log: what can be changed of a binding and its log, and what cannot.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    sent --> [*]$$) as version \gset
create table orders (id int primary key, code text not null unique, state text not null default 'new');
insert into orders values (1, 'a', 'new'), (2, 'b', 'paid');

-- The log comes later than the binding; rows that are there begin it.
select pawl.enforce('orders', 'state', 'order');
update orders set state = 'paid' where id = 1;
select is((select history from pawl.binding), null, 'no log was asked for');
select pawl.enable_log('orders');
select results_eq('select subject_id, sort_key, event, to_state, most_recent from orders_transitions order by 1',
    $$values (1, 1, 'pawl.attach', 'paid', true), (2, 1, 'pawl.attach', 'paid', true)$$,
    'rows begin the log as they are');
select results_eq('select most_recent, history::text, history_view::text from pawl.binding',
    $$values ('derived', 'orders_transitions_log', 'orders_transitions')$$,
    'the newest entry is derived unless said otherwise');
update orders set state = 'sent' where id = 1;
select results_eq('select sort_key, to_state from orders_transitions where subject_id = 1 order by 1',
    $$values (1, 'paid'), (2, 'sent')$$, 'and goes on with the next state change');
select is_empty('select * from pawl.verify()', 'verify finds no difference between table and log');

-- The same again changes nothing, and mends triggers.
alter table orders_transitions_log disable trigger "!pawl_protect";
select pawl.enable_log('orders', most_recent => 'derived', hash_chain => false, log_name => 'orders_transitions');
select is_empty($$select from pg_trigger where tgrelid = 'orders_transitions_log'::regclass and tgenabled = 'D'$$,
    'the triggers of the log are enabled again');
select is((select count(*) from orders_transitions_log), 3::bigint, 'nothing was written');
select is(outcome(format($$select pawl.enable_log('orders', %s)$$, how)), answer, how) from (values
    ('most_recent => ''stored''', '55000 the log public.orders_transitions_log cannot be changed | Its most_recent is '
        'derived. | begin another log: select pawl.enable_log(''public.orders'', ''state'', ..., log_name => ...)'),
    ('hash_chain => true', '55000 the log public.orders_transitions_log cannot be changed | It has no hash chain. | '
    'begin another log: select pawl.enable_log(''public.orders'', ''state'', ..., log_name => ...)'),
    ('log_partition => ''list (id)''', '55000 the log public.orders_transitions_log cannot be changed | It is not '
    'partitioned. | begin another log: select pawl.enable_log(''public.orders'', ''state'', ..., log_name => ...)'),
    ('most_recent => ''x''', '22023 unknown value "x" for most_recent | stored or derived')) v(how, answer);

-- Another log: the old one stays as it is, and closed.
select pawl.enable_log('orders', most_recent => 'stored', hash_chain => true, log_name => 'orders_book',
    log_partition => 'hash (id) partitions 2');
select results_eq('select most_recent, hash_chain, history::text, history_view::text from pawl.binding',
    $$values ('stored', true, 'orders_book', null)$$, 'another log is begun under another name');
select alike(outcome($$insert into orders_transitions_log (subject_id, to_state) values (2, 'sent')$$), '%released%',
    'the old one takes nothing more');
update orders set state = 'sent' where id = 2;
select results_eq('select subject_id, sort_key, event, to_state, most_recent from orders_book order by 1, 2',
    $$values (1, 1, 'pawl.attach', 'sent', true), (2, 1, 'pawl.attach', 'paid', false), (2, 2, 'send', 'sent', true)$$,
    'state changes go to the new one');
select is_empty('select * from pawl.verify()', 'which agrees with the rows');
select is((select count(*) from orders_transitions_log), 3::bigint, 'the old one has what it had');
select is(outcome($$select pawl.enable_log('orders', log_partition => 'hash (id) partitions 3')$$), 'ok',
    'the number of buckets is not compared');
select is(split_part(outcome($$select pawl.enable_log('orders', log_partition => 'range (id)')$$), ' |', 2),
    ' It is partitioned by hash (id) partitions 2.', 'the way is');

-- State changes of the same transaction go to the log that there was.
begin;
insert into orders values (3, 'c');
update orders set state = 'paid' where id = 3;
select pawl.enable_log('orders', hash_chain => false, log_name => 'orders_third');
update orders set state = 'sent' where id = 3;
commit;
select is((select string_agg(to_state, ' ' order by sort_key) from orders_book where subject_id = 3), 'new paid',
    'those before the change');
select is((select string_agg(to_state, ' ' order by sort_key) from orders_third where subject_id = 3), 'paid sent',
    'those after it');
select is_empty('select * from pawl.verify()', 'nothing is lost');

-- An audited log stays.
select pawl.audit('orders', '{"sent": true}') is not null as audited \gset
select is(outcome($$select pawl.enable_log('orders', log_name => '')$$),
    '55000 the log public.orders_third is audited | select pawl.unaudit(''public.orders'', ''state'')',
    'a log that is audited stays');
select pawl.unaudit('orders');
select pawl.enable_log('orders', log_name => '');
select results_eq('select history::oid, history_view::oid, most_recent, hash_chain from pawl.binding',
    $$values (null::oid, null::oid, 'derived', false)$$,
    'the empty name takes the log away');
insert into orders values (4, 'd');
select is((select count(*) from orders_third where subject_id = 4), 0::bigint, 'no entry is written any more');
select is(outcome($$select pawl.history('orders', 1)$$),
    '55000 table public.orders has no log of column "state" | select pawl.enable_log(''public.orders'', ''state'')',
    'the hint says how to have one');
select pawl.enable_log('orders', most_recent => 'stored', log_name => 'orders_third');
select is((select string_agg(event, ' ') from orders_third where subject_id = 4), 'pawl.attach',
    'a log that was left is taken up again');
select is_empty('select * from pawl.verify()', 'verify finds no difference after the change');

-- pawl.enforce again: what is said changes, what is not said stays.
select pawl.enforce('orders', 'state', 'order', on_delete => 'terminal', always => true);
select results_eq('select on_delete, always, version, history::text from pawl.binding',
    $$values ('terminal', true, 1, 'orders_third')$$, 'on_delete and always');
select set_eq($$select tgenabled::text from pg_trigger where tgrelid = 'orders'::regclass and not tgisinternal$$,
    '{A}'::text[], 'the triggers fire always');
select pawl.enforce('orders', 'state', 'order');
select results_eq('select on_delete, always from pawl.binding', $$values ('terminal', true)$$, 'what is omitted stays');
select pawl.enforce('orders', 'state', 'order', always => false);
select set_eq($$select tgenabled::text from pg_trigger where tgrelid = 'orders'::regclass and not tgisinternal$$,
    '{O}'::text[], 'and can be taken back');
select is(split_part(outcome('delete from orders where id = 4'), ' ', 1), 'PW001',
    'deletes are validated by what on_delete says');
select is(outcome($$select pawl.enforce('orders', 'state', 'order', key => '{code}')$$),
    '55000 the key (id) of table public.orders cannot be changed | The log public.orders_third uses it. | select '
    'pawl.release(''public.orders'', ''state'')', 'a log keeps its key');
select pawl.enable_log('orders', log_name => '');
select pawl.enforce('orders', 'state', 'order', key => '{code}');
select is((select key_columns from pawl.binding), '{code}', 'without a log the key can change');
select pawl.enforce('orders', 'state', 'order', key => '{}');
select is((select key_columns from pawl.binding), '{id}', 'the empty list is the primary key again');

-- Another machine or version is no change but another binding.
select pawl.define('other', $$stateDiagram-v2
    [*] --> new
    new --> paid
    paid --> sent
    sent --> [*]$$) as version \gset
select is(outcome($$select pawl.enforce('orders', 'state', 'other')$$),
    '42710 column "state" of table public.orders already has a binding | It is enforced with machine "order", version '
    '1. | select pawl.release(''public.orders'', ''state'')', 'enforce rejects another machine for a bound column');
select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    new --> sent : hurry
    sent --> [*]$$) as version \gset
select is(outcome($$select pawl.enforce('orders', 'state', 'order')$$), 'ok', 'an omitted version is the one there is');
select is((select version from pawl.binding), 1, 'also when there is a newer one');
select is(outcome($$select pawl.enforce('orders', 'state', 'order', version => 2)$$),
    '42710 column "state" of table public.orders already has a binding | It is enforced with machine "order", version '
    '1. | select pawl.upgrade(''public.orders'', ''state'')', 'enforce rejects another version for a bound column');

-- Rights, and what there must be.
create role log_stranger login;
grant pawl_admin to log_stranger;
grant usage on schema public to log_stranger;
set role log_stranger;
select alike(outcome($$select pawl.enable_log('orders')$$),
    '42501 must be owner of table public.orders | call it as role "%"',
    'for the owner of the table');
reset role;
set role pawl_worker;
select alike(outcome($$select pawl.enable_log('orders')$$), '42501 permission denied for function enable_log%',
    'for members of pawl_admin');
reset role;
create table keyless (state text not null);
select pawl.enforce('keyless', 'state', 'order', version => 1);
select is(outcome($$select pawl.enable_log('keyless')$$),
    '55000 table public.keyless has no key for its log | It has no primary key. | add one, or name columns that '
    'identify a row: select pawl.enforce(''public.keyless'', ''state'', ''order'', key => array[...])',
    'a log needs a key');
select alike(outcome($$select pawl.enable_log('pg_class')$$), '42704 no machine is enforced on table pg_class%',
    'a table that has no binding');
begin isolation level repeatable read;
select alike(outcome($$select pawl.enable_log('orders')$$),
    '25001 pawl.enable_log cannot run in isolation level repeatable read%', 'with an old snapshot');
commit;
select * from finish();
