-- A backoff counts from the state change of its own row, however long the others of the same call take; and what is
-- locked by others is left out.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir ../pgtap/shared/dag.psql
\set me 'c0000000-0000-7000-8000-00000000000c'
select pawl_dag.define_template($${"name": "one", "identity_strategy": "always_unique", "steps": [
    {"name": "s", "retry": {"max_attempts": 9, "backoff": "linear", "backoff_base_ms": 200, "jitter": 0}}]}$$)
    \g /dev/null
create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.003); return new; end $$;
create trigger a_slow before update on pawl_dag.steps
    for each row when (old.state is distinct from new.state) execute function slow();
-- Of each step that waits: by how many microseconds its backoff is off.
create view off as
    select s.task_uuid, round(extract(epoch from s.next_retry_at - l.created_at) * 1000000 - 200000 * s.attempts) as us
    from pawl_dag.steps s
    join lateral (select x.* from pawl_dag.step_transitions_log x where x.task_uuid = s.task_uuid
        and x.step_uuid = s.step_uuid order by x.sort_key desc limit 1) l on l.to_state = 'waiting_for_retry'
   where s.state = 'waiting_for_retry';
select from pawl_dag.start_tasks('one', array_fill('{}'::jsonb, array[20]));
select from pawl_dag.orchestrate();
select count(*) from pawl_dag.claim(:'me', batch => 20, lease => '1 hour') \g /dev/null
begin;
select pg_stat_get_xact_numscans('pawl_dag.steps'::regclass) as scans,
    pg_stat_get_xact_numscans('pawl_dag.steps_pawl_owned'::regclass) as looks \gset
select is(pawl.abandon('pawl_dag.steps', :'me'), 20::bigint, 'a worker gives up what it has');
select is(pg_stat_get_xact_numscans('pawl_dag.steps'::regclass) - :scans, 0::bigint,
    'which is not looked for in the whole table');
select cmp_ok(pg_stat_get_xact_numscans('pawl_dag.steps_pawl_owned'::regclass) - :looks, '>', 0::bigint,
    'but by the index of leases');
commit;
select is_rows('select us, count(*) from off group by us', 'values (0::numeric, 20::bigint)',
    'an abandoned step waits from its own state change on');
set session_replication_role = replica;
update pawl_dag.steps set next_retry_at = clock_timestamp() - interval '1 s' where state = 'waiting_for_retry';
reset session_replication_role;
select is((select done from pawl.fire_due('pawl_dag.steps')), 20::bigint, 'the backoffs are over');
select from pawl_dag.orchestrate();
select count(*) from pawl_dag.claim(:'me', batch => 20) \g /dev/null
set session_replication_role = replica;
update pawl_dag.steps set lease_until = clock_timestamp() - interval '1 s' where state = 'in_progress';
reset session_replication_role;

-- a task that another session has locked
create extension dblink;
select dblink_connect('s', format('host=%L port=%s dbname=%L user=%L', current_setting('unix_socket_directories'),
        current_setting('port'), current_database(), current_user)) \g /dev/null
select dblink_exec('s', 'begin') \g /dev/null
select from dblink('s', 'select 1 from (select task_uuid from pawl_dag.tasks order by task_uuid limit 3) l join '
        'pawl_dag.tasks t using (task_uuid) for no key update of t') d(r int);
select is((select done from pawl.reap('pawl_dag.steps')), 17::bigint,
    'expired leases whose task another session has locked are left for later');
select dblink_exec('s', 'commit') \g /dev/null
select is((select done from pawl.reap('pawl_dag.steps')), 3::bigint, 'and found then');
select is_rows('select us, count(*) from off group by us', 'values (0::numeric, 20::bigint)',
    'a step that was taken back waits from its own state change on');
set session_replication_role = replica;
update pawl_dag.steps set next_retry_at = clock_timestamp() - interval '1 s' where state = 'waiting_for_retry';
reset session_replication_role;
select dblink_exec('s', 'begin') \g /dev/null
select from dblink('s', 'select 1 from (select task_uuid from pawl_dag.tasks order by task_uuid limit 3) l join '
        'pawl_dag.tasks t using (task_uuid) for no key update of t') d(r int);
select is((select done from pawl.fire_due('pawl_dag.steps')), 17::bigint, 'so are timers');
select dblink_exec('s', 'commit') \g /dev/null
select is((select done from pawl.fire_due('pawl_dag.steps')), 3::bigint, 'and found then');

-- the log has the fencing token and the transaction
begin;
select pg_current_xact_id() as xid \gset
set local pawl.metadata = '{"token": 77, "transaction_id": 1, "mine": true}';
select from pawl_dag.orchestrate();
select count(*) from pawl_dag.claim(:'me', batch => 20, lease => '1 hour') \g /dev/null
commit;
select is_rows($$select distinct l.event, l.metadata from pawl_dag.step_transitions l
    join pawl_dag.steps s using (task_uuid, step_uuid) where l.metadata ? 'mine'$$,
    format($$values ('Enqueue', '{"token": 3, "mine": true, "transaction_id": %1$s}'::jsonb),
            ('Start', '{"token": 4, "mine": true, "transaction_id": %1$s}')$$, :xid),
    'the token that the step then has, and the transaction, whatever the caller says');
select is_empty($$select * from pawl_dag.step_transitions_log
    where metadata ->> 'token' is null or metadata ->> 'transaction_id' is null$$, 'in every entry of a step');
select is_empty($$select * from pawl_dag.task_transitions_log
        where metadata ->> 'token' is null or metadata ->> 'transaction_id' is null$$, 'and of a task');

-- which sessions may set the order in which rows are locked
create table lines (a uuid, b int, state text not null default 'pending', owner text, primary key (a, b));
create table other (a int primary key);
create table keyless (a uuid);
select pawl.define('lines', $$stateDiagram-v2
    [*] --> pending
    pending --> done : finish$$) \g /dev/null
select pawl.enforce('lines', 'state', 'lines') \g /dev/null
select throws_ok($$select pawl.set_lock_order('lines', 'other')$$, '22023', null, 'keys of other types');
select throws_ok($$select pawl.set_lock_order('lines', 'keyless')$$, '22023', null, 'no key');
select throws_ok($$select pawl.set_lock_order('lines', 'off')$$, '22023', null, 'a view');
select throws_ok($$select pawl.set_lock_order('lines', 'lines')$$, '22023', null, 'itself');
select throws_ok($$select pawl.set_lock_order('other', 'lines')$$, '42704', null, 'no lifecycle');
select throws_ok($$select pawl.set_log_token('lines', null)$$, '22004', null, 'neither yes nor no');
drop table other;
create table other (a uuid primary key);
select lives_ok($$select pawl.set_lock_order('lines', 'other')$$, 'a table whose key theirs begins with');
insert into lines values (gen_random_uuid(), 1);
select lives_ok($$select pawl.fire('lines', row(a, b), 'finish') from lines$$, 'also where there is no such row');
drop table other;
insert into lines values (gen_random_uuid(), 1);
select throws_ok($$select pawl.fire('lines', row(a, b), 'finish') from lines where state = 'pending'$$, '55000',
    'the lock order of table public.lines cannot be kept', 'a table that is gone is reported');
select lives_ok($$select pawl.set_lock_order('lines', null)$$, 'no order');
select lives_ok($$select pawl.fire('lines', row(a, b), 'finish') from lines where state = 'pending'$$,
    'and it goes on');
select is_empty('select wrong()', 'everything is as it must be');
select dblink_disconnect('s') \g /dev/null
select * from finish();
