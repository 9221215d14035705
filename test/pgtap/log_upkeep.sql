-- pawl.keep_log and pawl.tend_logs: what is declared of logs, and that nothing else is pruned.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
select pawl.define('parcel', 'stateDiagram-v2
    [*] --> packed
    packed --> sent : send
    sent --> [*]') \g /dev/null
create role upkeep_owner;
create role upkeep_other;
create schema shop authorization upkeep_owner;
grant pawl_admin to upkeep_owner;
set role upkeep_owner;
create table shop.kept (id int primary key, state text not null default 'packed');
create table shop.other (id int primary key, state text not null default 'packed');
create table shop.months (id uuid primary key default pawl.uuid_v7(), state text not null default 'packed');
select pawl.enforce('shop.kept', 'state', 'parcel'), pawl.enable_log('shop.kept', 'state'),
    pawl.enforce('shop.other', 'state', 'parcel'), pawl.enable_log('shop.other', 'state'),
    pawl.enforce('shop.months', 'state', 'parcel'),
        pawl.enable_log('shop.months', 'state', log_partition => 'range (id)') \g /dev/null
reset role;
revoke pawl_admin from upkeep_owner;
set role upkeep_owner;
insert into shop.kept (id) select generate_series(1, 100);
insert into shop.other (id) select generate_series(1, 100);
update shop.kept set state = 'sent' where id <= 60;
update shop.other set state = 'sent';

-- Off by default
select is((select count(*) from pawl.log_upkeep), 0::bigint, 'nothing is declared');
select is((select t from pawl.tend_logs() t), row(0::bigint, null::timestamptz)::record, 'so nothing is done');
select is((select count(*) from shop.kept_transitions), 160::bigint, 'and everything is there');

-- Declared
select lives_ok($$select pawl.keep_log('shop.kept', '1 hour')$$, 'an owner declares how long its log is kept');
select is((select concat_ws(' ', u.log, u.keep, u.only_terminal, u.period, u.declared_by) from pawl.log_upkeep u),
    'shop.kept_transitions_log 01:00:00 t upkeep_owner', 'it is written down');
select is((select done from pawl.tend_logs()), 0::bigint, 'what is young stays');
select lives_ok($$select pawl.keep_log('shop.kept', '0')$$, 'another declaration takes its place');
select is((select count(*) from pawl.log_upkeep), 1::bigint, 'it is one');
select is((select t from pawl.tend_logs(batch => 10) t)::text ~ '^\(10,"[0-9]', true, 'a batch, and there is more');
select is((select sum(t.done) from generate_series(1, 6) g,
    lateral (select * from pawl.tend_logs('shop.kept', 10 + 0 * g)) t), 50::numeric, 'the rest of them');
select is((select t from pawl.tend_logs('shop.kept') t), row(0::bigint, null::timestamptz)::record,
    'then there is none');
select is((select array_agg(distinct to_state || ' ' || n) from (select to_state, count(*) n from shop.kept_transitions
    group by to_state) x), '{packed 40,sent 60}', 'the newest entries stay, and those of open rows');
select is((select count(*) from shop.other_transitions), 200::bigint,
    'the other, which is not declared, is not pruned');
select throws_ok($$select pawl.keep_log('shop.kept', '-1 s')$$, '22023', 'keep must be from 0 to 1000 years',
    'a negative age');
select throws_ok($$select pawl.keep_log('shop.kept', '1 s', null)$$, '22004', 'only_terminal must not be null',
    'keep_log rejects only_terminal => null');
select throws_ok($$select pawl.keep_log('shop.kept', '1 s', ahead => null)$$, '22004', 'ahead must not be null',
    'keep_log rejects ahead => null');
select throws_ok($$select pawl.keep_log('shop.kept', '1 s', ahead => -1)$$, '22023', 'ahead must be from 0 to 1000',
    'fewer than none');
select throws_ok($$select pawl.keep_log('shop.kept', '1 s', period => 'month')$$, '55000', null,
    'a log that is not partitioned by time');
select throws_ok($$select * from pawl.tend_logs(batch => 0)$$, '22023', 'batch must be from 1 to 1000000',
    'a batch of none');
select lives_ok($$select pawl.keep_log('shop.kept', null)$$, 'it is taken back');
select is((select count(*) from pawl.log_upkeep), 0::bigint, 'the declared retention goes with its log');

-- By hand
select throws_ok($$insert into pawl.log_upkeep (log, keep) values ('shop.kept_transitions_log', '-1 s')$$, '22023',
    'keep must be from 0 to 1000 years', 'a negative age by hand');
select throws_ok($$insert into pawl.log_upkeep (log, period) values ('shop.kept_transitions_log', 'century')$$, '23514',
    null, 'an unknown period by hand');
select throws_ok($$insert into pawl.log_upkeep (log, period, ahead)
    values ('shop.kept_transitions_log', 'month', 1001)$$, '23514', null, 'too many periods by hand');

-- Partitions of time
select lives_ok($$select pawl.keep_log('shop.months', null, period => 'month', ahead => 1)$$,
    'keep_log takes a period of months without an age');
create function shop.leaves() returns bigint
    language sql as $$ select count(*) from pg_inherits where inhparent = 'shop.months_transitions_log'::regclass $$;
select is(shop.leaves(), 3::bigint, 'this one, the next, and the default are there at once');
select lives_ok($$select pawl.keep_log('shop.months', null, period => 'month', ahead => 3)$$, 'more of them');
select is(shop.leaves(), 5::bigint, 'keep_log creates the partitions at once');
select format('drop table %s', inhrelid::regclass) as statement from pg_inherits
    where inhparent = 'shop.months_transitions_log'::regclass order by inhrelid desc limit 1 \gset
:statement;
select is((select done from pawl.tend_logs()), 1::bigint, 'the duty makes what is missing');
select is(shop.leaves(), 5::bigint, 'it is there');
select is((select done from pawl.tend_logs()), 0::bigint, 'tend_logs has nothing to do at once again');

-- One that fails undoes nothing of the others; where all fail it is an error
insert into pawl.log_upkeep (log, keep, period) select history, '0', 'year' from pawl.binding
    where relation::text = 'shop.months';
select lives_ok($$select pawl.keep_log('shop.kept', '0', false)$$,
    'of two logs one cannot be tended: years, where months are');
update shop.kept set state = 'sent' where id > 60;
set client_min_messages = error;
select is((select done from pawl.tend_logs()), 40::bigint, 'the other is');
select is((select count(*) from shop.kept_transitions where to_state = 'packed'), 0::bigint, 'and stays so');
select throws_ok($$select * from pawl.tend_logs('shop.months')$$, '42P17', null, 'by itself it is an error');
set client_min_messages = warning;
select lives_ok($$select pawl.keep_log('shop.kept', null)$$, 'nothing of the one');
select throws_ok($$select * from pawl.tend_logs()$$, '42P17', null, 'an error when there is no other');
select lives_ok($$select pawl.keep_log('shop.months', null, period => 'month', ahead => 3)$$,
    'keep_log can be called again for a period of months');

-- Audits
select throws_ok($$select pawl.keep_audit('shop.kept', '0')$$, '42704', null, 'no audit, nothing to keep');
reset role;
grant pawl_admin to upkeep_owner;
set role upkeep_owner;
select pawl.audit('shop.kept', '{"sent": true}'), pawl.audit('shop.other', '{"sent": true}') \g /dev/null
reset role;
revoke pawl_admin from upkeep_owner;
set role upkeep_owner;
select throws_ok($$select pawl.keep_audit('shop.kept', '-1 s')$$, '22023', 'keep must be from 0 to 1000 years',
    'a negative age');
select lives_ok($$select pawl.keep_audit('shop.kept', '1 hour')$$, 'results are kept for an hour');
select is((select done from pawl.tend_logs()), 0::bigint, 'young ones stay');
select lives_ok($$select pawl.keep_audit('shop.kept', '0')$$, 'for no time at all');
select is((select array_agg(concat_ws(' ', u.log, u.keep)) from pawl.log_upkeep u where u.keep is not null),
    '{"shop.kept_result_audit 00:00:00"}', 'is one declaration, of the audit and not of the log');
select is((select t from pawl.tend_logs('shop.kept', 30) t)::text ~ '^\(30,"[0-9]', true, 'a batch, and there is more');
select is((select done from pawl.tend_logs()), 70::bigint, 'the next call of tend_logs prunes the rest');
select is((select count(*) from shop.kept_result_audit), 0::bigint, 'all of it');
select is((select count(*) from shop.other_result_audit), 100::bigint,
    'the other, which is not declared, is not pruned');
select is((select count(*) from shop.kept_transitions), 100::bigint, 'the log stays as it is');
select lives_ok($$select pawl.keep_log('shop.kept', '0')$$, 'the log as well');
select is((select count(*) from pawl.log_upkeep u where u.keep is not null), 2::bigint,
    'takes no place of the audit''s');
select lives_ok($$select pawl.keep_log('shop.kept', null), pawl.keep_audit('shop.kept', null)$$, 'both are taken back');
select is((select count(*) from pawl.log_upkeep u where u.keep is not null), 0::bigint,
    'no retention is declared any more');

-- Whose they are
reset role;
set role upkeep_other;
select throws_ok($$select pawl.keep_log('shop.kept', '0')$$, '42501', null,
    'another role cannot declare how long a log is kept');
select throws_ok($$select pawl.keep_audit('shop.kept', '0')$$, '42501', null, 'nor how long an audit is');
select throws_ok($$insert into pawl.log_upkeep (log, keep) select history, '0' from pawl.binding
    where history::text = 'shop.kept_transitions_log'$$, '42501', null, 'nor by hand');
select throws_ok($$delete from pawl.log_upkeep$$, '42501', null, 'nor takes back what is declared');
select is((select done from pawl.tend_logs()), 0::bigint, 'and tends none but its own');
reset role;
grant pawl_admin to upkeep_other;
set role upkeep_other;
select lives_ok($$insert into pawl.log_upkeep (log, keep, only_terminal) select history, '0', false from pawl.binding
        where relation::text = 'shop.other'$$, 'pawl_admin can write a retention row by hand');
select is((select done from pawl.tend_logs()), 100::bigint, 'tend_logs prunes by a retention row written by hand');
reset role;

-- With the log, and by another name
alter table shop.other rename to others;
alter schema shop rename to store;
select is((select array_agg(b.relation::text order by 1) from pawl.log_upkeep u
    join pawl.binding b on b.history = u.log), '{store.months,store.others}', 'renames are followed');
begin isolation level repeatable read;
select throws_ok('select * from pawl.tend_logs()', '25001', null, 'not with an old snapshot');
rollback;
select is_empty('select * from pawl.verify()', 'verify finds nothing');
select is((select count(*) from pawl.health() where status in ('warning', 'error')), 0::bigint, 'all is well');
select pawl.release('store.others');
select is((select done from pawl.tend_logs()), 0::bigint, 'a log without a lifecycle is left alone');
drop table store.months cascade;
drop table store.others cascade;
set client_min_messages = error;
drop schema store cascade;
select is((select count(*) from pawl.log_upkeep), 0::bigint, 'what is declared goes with the log');
select * from finish();
drop owned by upkeep_owner, upkeep_other;
drop role upkeep_owner, upkeep_other;
