-- pawl.audit: a row for every result, by whichever statement it enters the log; what the row says, which roles may read
-- it, and that no role can change it.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('step', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> running : touch
    running --> done : complete
    running --> failed : fail
    failed --> ready : retry
    ready --> done : skip
    done --> [*]
    class running owned$$) \g /dev/null
create table steps (id int primary key, task uuid, worker text, state text not null default 'ready');
select pawl.enforce('steps', 'state', 'step'), pawl.enable_log('steps', 'state') \g /dev/null

-- Errors of the call.
select throws_ok($$select pawl.audit('steps', null)$$, '22004', 'on_states must not be null');
select throws_ok(format('select pawl.audit(''steps'', %L)', j), '22023', 'on_states must be a JSON object of states', j)
    from unnest(array['{}', '[]', '"done"']) j;
select throws_ok($$select pawl.audit('steps', '{"finished": true}')$$, 'PW008',
    'unknown state "finished" in on_states');
select throws_ok($$select pawl.audit('steps', '{"done": "yes"}')$$, '22023',
    'on_states must have true or false for state "done"');
select throws_ok($$select pawl.audit('steps', '{"done": true}', parent => '{job}')$$, '42703',
    'parent column "job" of table public.steps does not exist');
select throws_ok($$select pawl.audit('steps', '{"done": true}', parent => '{task,task}')$$, '42701',
    'a parent column is specified twice');
select throws_ok($$select pawl.audit('steps', '{"done": true}', parent => '{task,null}')$$, '22023',
    'parent must be a list of column names');
select throws_ok($$select pawl.audit('steps', '{"done": true}', into_table => 'steps')$$, '42P07',
    'relation "steps" exists and cannot be the audit of table public.steps');
select throws_ok($$select pawl.unaudit('steps')$$, '42704', 'the results of table public.steps are not audited');
select throws_ok($$select * from pawl.audit_of('steps', 1)$$, '42704',
    'the results of table public.steps are not audited');
create table bare (id int primary key, state text not null);
select pawl.enforce('bare', 'state', 'step') \g /dev/null
select throws_ok($$select pawl.audit('bare', '{"done": true}')$$, '55000',
    'table public.bare has no log of column "state"');
begin isolation level repeatable read;
select throws_ok($$select pawl.audit('steps', '{"done": true}')$$, '25001',
    'pawl.audit cannot run in isolation level repeatable read');
rollback;

-- Results from before are written too; what was never checked is accepted as it is.
insert into steps select n, format('00000000-0000-0000-0000-00000000000%s', n % 3)::uuid from generate_series(1, 40) n;
begin;
select pawl.set_context(processor => 'old hand', metadata => '{"execution_time_ms": "long", "success": false}')
    \g /dev/null
update steps set state = 'running' where id <= 2;
update steps set state = 'done' where id <= 2;
commit;
select is(pawl.audit('steps', '{"done": true, "failed": false}', parent => '{task,worker}')::text, 'steps_result_audit',
    'its name is that of the table');
select columns_are('public', 'steps_result_audit',
    array['audit_id', 'subject_id', 'task', 'parent_worker', 'transition_id', 'recorded_at', 'worker', 'correlation_id',
    'success', 'execution_time_ms', 'state'],
    'columns are called as in log and table, unless the audit has such a column');
select is((select count(*) from steps_result_audit
    where worker = 'old hand' and success and execution_time_ms >= 0
        and task = format('00000000-0000-0000-0000-00000000000%s', subject_id)::uuid),
    2::bigint, 'what the log held is there');
select is(pawl.audit('steps', '{"done": true, "failed": false}', parent => '{task,worker}')::text, 'steps_result_audit',
    'once more the same changes nothing');
select is((select count(*) from steps_result_audit), 2::bigint, 'nothing is there twice');
select throws_ok($$select pawl.audit('steps', '{"done": true}', parent => '{task,worker}')$$, '42710',
    'the results of table public.steps are already audited');
select throws_ok($$select pawl.audit('steps', '{"done": true, "failed": false}')$$, '42710',
    'the results of table public.steps are already audited',
    'an audited table cannot be audited again with other parent columns');
select throws_ok($$select pawl.audit('steps', '{"done": true, "failed": false}', 'elsewhere', '{task,worker}')$$,
    '42710', 'the results of table public.steps are already audited',
    'an audited table cannot be audited a second time into another table');

-- Every way to enter a result.
create function audited(k int) returns text language sql as $$
    select string_agg(format('%s %s by %s for %s', state, success, coalesce(worker, 'none'),
        coalesce(correlation_id, '-')), ', ' order by recorded_at, transition_id)
      from steps_result_audit where subject_id = k $$;
begin;
select pawl.set_context(processor => 'w1', correlation_id => 'c1') \g /dev/null
update steps set state = 'running' where id between 3 and 20;
select is_empty('select from steps_result_audit where subject_id > 2', 'other states write nothing');
update steps set state = 'done' where id = 3;
select pawl.fire('steps', 4, 'fail') \g /dev/null
select from pawl.fire_many('steps', array[5, 6], 'complete') \g /dev/null
insert into steps_transitions (subject_id, event) values (7, 'complete'), (8, 'fail');
insert into steps_transitions (subject_id, to_state, processor, correlation_id) values (9, 'done', 'requester', 'c9');
merge into steps s using (values (10)) v(id) on s.id = v.id when matched then update set state = 'failed';
with moved as (update steps set state = 'done' where id = 11 returning id) select from moved \g /dev/null
savepoint s;
update steps set state = 'done' where id = 12;
rollback to s;
update steps set state = 'failed' where id = 12;
update steps set state = 'ready' where id = 12;
update steps set state = 'done' where id = 12;
commit;
select results_eq('select k, audited(k) from generate_series(3, 13) k',
    $$values (3, 'done t by w1 for c1'), (4, 'failed f by w1 for c1'), (5, 'done t by w1 for c1'),
    (6, 'done t by w1 for c1'), (7, 'done t by w1 for c1'), (8, 'failed f by w1 for c1'),
    (9, 'done t by requester for c9'), (10, 'failed f by w1 for c1'),
    (11, 'done t by w1 for c1'), (12, 'failed f by w1 for c1, done t by w1 for c1'), (13, null)$$,
    'by every statement, once, and not what was rolled back');
update steps set state = 'done' where id = 30;
select is(audited(30), 'done t by none for -', 'a result without a processor is audited for none');
insert into steps (id, state) values (41, 'ready');
delete from steps where id = 3;
select is(audited(3), 'done t by w1 for c1', 'it outlives the row');

-- Execution time: given, wrapped, or since the row was taken.
create function took(k int, metadata jsonb) returns bigint language plpgsql as $$ begin
    perform set_config('pawl.metadata', coalesce(metadata::text, ''), true);
    update steps set state = 'done' where id = k;
    return (select execution_time_ms from steps_result_audit where subject_id = k order by recorded_at desc limit 1);
end $$;
select is(took(13, '{"execution_time_ms": 1234.4}'), 1234::bigint, 'in the metadata');
select is(took(14, '{"metadata": {"execution_time_ms": 7}, "success": true}'), 7::bigint, 'in the result''s metadata');
select is(took(15, '{"result": {"success": true, "execution_time_ms": 8}}'), 8::bigint,
    'the execution time is found inside the key "result"');
select is(took(16, '{"result": {"metadata": {"execution_time_ms": 0}}, "execution_time_ms": null}'), 0::bigint,
    'the execution time is found inside result.metadata');
begin;
alter table steps_transitions_log disable trigger user;
update steps_transitions set created_at = created_at - interval '1 hour'
    where subject_id in (17, 18) and to_state in ('running', 'ready');
alter table steps_transitions_log enable trigger user;
alter table steps_transitions_log enable always trigger "!pawl_audit";
commit;
select pawl.fire('steps', 18, 'touch') \g /dev/null
select ok(took(17, null) between 3600000 and 3660000, 'else the time since it was taken');
select ok(took(18, '{"note": "touched"}') between 3600000 and 3660000,
    'which is not the time since its last state change');
select throws_ok(format('select took(19, %L)', j), '22023',
        'execution_time_ms of a result must be a non-negative number', j) from unnest(array[
    '{"execution_time_ms": -1}', '{"execution_time_ms": "12"}', '{"execution_time_ms": true}',
    '{"result": {"execution_time_ms": {}}}', '{"execution_time_ms": 1e30}',
    '{"result": {"metadata": {"execution_time_ms": -0.5}}}']) j;
select throws_ok(format('select took(19, %L)', j), '22023', 'metadata contradicts state "done", which is a success', j)
    from unnest(array[
    '{"success": false}', '{"result": {"success": false}}']) j;
select is((select state from steps where id = 19), 'running', 'a rejected change did not happen');
select is((select count(*) from steps_transitions where subject_id = 19), 2::bigint, 'nor is it in the log');
select ok(took(19, '["a list"]') >= 0, 'other metadata is not checked');
create function begun(k int, metadata text) returns boolean language plpgsql as $$ begin
    perform set_config('pawl.metadata', metadata, true);
    update steps set state = 'running' where id = k;
    return found;
end $$;
select ok(begun((30 + n)::int, j), 'metadata of a state that is no result is not checked: ' || j)
    from unnest(array['{"execution_time_ms": -1}', '{"execution_time_ms": "12"}', '{"success": true}'])
        with ordinality u(j, n);

-- Many rows: more than the entry buffer holds.
insert into steps select n, '10000000-0000-0000-0000-000000000000' from generate_series(1001, 11000) n;
update steps set state = 'done' where id > 1000;
select is((select count(*) from steps_result_audit where task = '10000000-0000-0000-0000-000000000000'
    and state = 'done'), 10000::bigint, 'ten thousand in one statement');
select is_empty('select transition_id from steps_result_audit group by 1 having count(*) > 1', 'none of them twice');
select is_empty('select * from pawl.verify()', 'audit and log agree');
select is_empty($$select * from pawl.health() where status not in ('ok', 'info')$$, 'all is in place');

-- Immutable.
select throws_ok(s, 'PW006', 'table "steps_result_audit" is immutable', s)
    from unnest(array['insert into steps_result_audit select * from steps_result_audit',
    'insert into steps_result_audit select * from steps_result_audit where false',
    'update steps_result_audit set success = true', 'delete from steps_result_audit where false',
    'truncate steps_result_audit',
    'merge into steps_result_audit a using (values (1)) v(x) on false when matched then delete']) s;
select throws_ok('drop table steps_result_audit', '2BP01',
    'the audit of table public.steps cannot be dropped while the binding exists');
select throws_ok('alter table steps_result_audit drop column worker', '2BP01',
    'column "worker" cannot be dropped: the audit public.steps_result_audit depends on it');
select throws_ok('alter table steps drop column task', '2BP01',
    'column "task" cannot be dropped: the audit public.steps_result_audit depends on it');
select throws_ok('alter table steps_result_audit rename column worker to handler', '55000',
    'columns of table public.steps and its audit public.steps_result_audit would no longer match');
select throws_ok('alter table steps alter column worker type varchar(9)', '55000',
    'columns of table public.steps and its audit public.steps_result_audit would no longer match');
create function misuse() returns void language plpgsql as $$ begin
    create trigger x after insert on bare referencing new table as n
        for each statement execute function pawl.audit_results();
end $$;
select misuse() \g /dev/null
select throws_ok('insert into bare values (1, ''ready'')', '55000', 'log "bare" has an audit trigger, but no audit',
    'the trigger function on another table');
drop trigger x on bare;
create trigger x after insert on bare for each row execute function pawl.audit_results();
select throws_ok('insert into bare values (1, ''ready'')', '39P01',
    'pawl.audit_results() must be fired AFTER INSERT FOR EACH STATEMENT with a transition table');
drop trigger x on bare;

-- The questions of auditors.
select results_eq($$select success, event, actor from pawl.audit_of('steps', 12)$$,
    format($$values (true, 'skip', %1$L), (false, 'fail', %1$L)$$, current_user), 'audit_of, newest first');
select is_empty($$select * from pawl.audit_of('steps', 9999999)$$, 'of a row that never was');
select set_eq($$select concat_ws(' ', a.attname, pg_get_expr(i.indpred, i.indrelid)) from pg_index i
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
    where i.indrelid = 'steps_result_audit'::regclass$$,
    array['subject_id', 'task', 'recorded_at', 'worker (worker IS NOT NULL)',
        'correlation_id (correlation_id IS NOT NULL)', 'recorded_at (NOT success)'], 'an index for each');

-- Which roles may read the audit.
create role audit_reader; create role audit_mover; create role audit_stranger;
grant select on steps_transitions, steps_transitions_log to audit_reader;
grant select, update on steps to audit_mover;
select pawl.unaudit('steps') \g /dev/null
select throws_ok('delete from steps_result_audit', 'PW006', null,
    'an audit that is kept no more is closed all the same');
update steps set state = 'done' where id = 31;
select is(audited(31), null, 'nothing is written to it');
alter table steps_result_audit rename to steps_old_audit;
select pawl.audit('steps', '{"done": true, "failed": false}', parent => '{task}') \g /dev/null
select is((select count(*) from steps_result_audit), (select count(*) + 1 from steps_old_audit),
    'a new one begins with what the log holds');
select is(audited(31), 'done t by none for -', 'also what came in between');
set role audit_reader;
select ok((select count(*) > 1 from steps_result_audit), 'a role that may read the log may read the audit');
set role audit_stranger;
select throws_ok('select from steps_result_audit', '42501', null, 'others may not');
select throws_ok($$select pawl.unaudit('steps')$$, '42501', null, 'nor take it off');
set role audit_mover;
update steps set state = 'done' where id = 32;
select throws_ok('select from steps_result_audit', '42501', null, 'a role that updates rows need not read it');
reset role;
select is(audited(32), 'done t by none for -', 'its results are audited');
revoke usage on schema pawl from public;
set role audit_mover;
update steps set state = 'done' where id = 33;
reset role;
grant usage on schema pawl to public;
select is(audited(33), 'done t by none for -', 'without rights on the schema too');
select throws_ok($$select pawl.audit('steps', '{"done": true, "failed": false}', 'steps_old_audit', '{task}')$$,
    '42710', null, 'not into another');
select pawl.unaudit('steps') \g /dev/null
select throws_ok($$select pawl.audit('steps', '{"done": true}', 'steps_old_audit')$$, '42P07',
    'relation "steps_old_audit" exists and cannot be the audit of table public.steps', 'an audit with other columns');
select is(pawl.audit('steps', '{"done": true, "failed": false}', 'steps_old_audit', '{task,worker}')::text,
    'steps_old_audit', 'one that fits is taken up');
select results_eq('select count(*) from steps_old_audit', 'select count(*) from steps_result_audit',
    'the new audit has as many rows as the old one');
drop table steps_result_audit;
select is((select count(*) from pawl.health() where check_name ~ '^audit' and status = 'ok'), 4::bigint,
    'health looks at four things');
select is_empty('select * from pawl.verify()', 'nothing is wrong');

-- Code of the trigger's owner runs with the owner's rights, not with the rights or the
-- search_path of the role that changes the row.
create role audit_owner in role pawl_admin;
create schema theirs authorization audit_owner;
set role audit_owner;
create table theirs.jobs (id int primary key, state text not null default 'ready');
select pawl.enforce('theirs.jobs', 'state', 'step'), pawl.enable_log('theirs.jobs', 'state') \g /dev/null
select pawl.audit('theirs.jobs', '{"done": true}') \g /dev/null
create table theirs.seen (acting text, path text);
create function theirs.spy() returns trigger language plpgsql as $$ begin
    insert into theirs.seen values (current_user, current_setting('search_path'));
    return null;
end $$;
create trigger spy after insert on theirs.jobs_result_audit for each row execute function theirs.spy();
reset role;
insert into theirs.jobs values (1);
update theirs.jobs set state = 'done';
select results_eq('select acting, path from theirs.seen', $$values ('audit_owner', 'pg_catalog, pg_temp')$$,
    'a superuser moves a row, and is not the one who runs the owner''s trigger');
select is(current_user, session_user, 'afterwards the current user is the caller again');
select is((select tableowner from pg_tables where tablename = 'jobs_result_audit'), 'audit_owner',
    'the audit is the owner''s');

-- What walked round.
alter table theirs.jobs_transitions_log disable trigger "!pawl_audit";
insert into theirs.jobs values (2);
update theirs.jobs set state = 'done' where id = 2;
alter table theirs.jobs_result_audit disable trigger user;
update theirs.jobs_result_audit set worker = 'other', success = false;
insert into theirs.jobs_result_audit (subject_id, transition_id, recorded_at, success, state)
    values (3, pawl.uuid_v7(), now(), true, 'done');
select set_eq($$select key, problem from pawl.verify('theirs.jobs')$$,
    $$values ('1', 'audit_differs'), ('2', 'audit_missing'), ('3', 'audit_unfounded')$$, 'verify finds it');
select results_eq($$select check_name, status from pawl.health() where relation = 'theirs.jobs'::regclass
    and status not in ('ok', 'info')$$, $$values ('audit_triggers', 'error')$$, 'health sees the triggers');
drop index theirs.jobs_result_audit_recorded_at_idx;
select is((select hint from pawl.health() where check_name = 'audit_indexes' and status = 'warning'),
    'CREATE INDEX ON theirs.jobs_result_audit (recorded_at)', 'and the index');
select hint from pawl.health() where check_name = 'audit_triggers' and status = 'error' \gset
:hint \g /dev/null
select is_empty($$select * from pawl.health() where status not in ('ok', 'info')$$, 'its hint mends them');
select set_eq($$select key, problem from pawl.verify('theirs.jobs')$$,
    $$values ('1', 'audit_differs'), ('3', 'audit_unfounded')$$, 'and writes what was missing');

-- Renames, other schemas, partitions, several bindings, derived logs, an upgrade, a release.
create table parcels (region text, no int, shipment int, state text not null default 'ready',
    again text not null default 'ready', primary key (region, no)) partition by list (region);
create table parcels_a partition of parcels for values in ('a');
create table parcels_b partition of parcels for values in ('b');
select pawl.enforce('parcels', 'state', 'step'), pawl.enable_log('parcels', 'state') \g /dev/null
select pawl.enforce('parcels', 'again', 'step'), pawl.enable_log('parcels', 'again') \g /dev/null
select pawl.audit('parcels', '{"done": true}', parent => '{region,shipment}', state_column => 'state') \g /dev/null
select is(pawl.audit('parcels', '{"failed": false}', parent => '{shipment}', state_column => 'again')::text,
    'parcels_again_result_audit', 'the second lifecycle names its column');
insert into parcels values ('a', 1, 11), ('b', 2, 12);
update parcels set state = 'done' where no = 1;
alter table parcels rename column shipment to consignment;
alter table parcels rename column no to number;
alter table parcels rename to packages;
alter table parcels_result_audit rename to package_results;
create schema depot;
alter table packages set schema depot;
alter schema depot rename to warehouse;
update warehouse.packages set state = 'done', again = 'running' where number = 2;
update warehouse.packages set again = 'failed' where number = 2;
select results_eq('select region, no, shipment, state from package_results order by no',
    $$values ('a', 1, 11, 'done'), ('b', 2, 12, 'done')$$, 'renames are followed');
select results_eq('select region, no, shipment, state from parcels_again_result_audit',
    $$values ('b', 2, 12, 'failed')$$, 'in the other one too');
create table warehouse.packages_c (number int not null, region text not null, consignment int, state text not null,
    again text not null);
insert into warehouse.packages_c values (3, 'c', 13, 'done', 'ready');
alter table warehouse.packages attach partition warehouse.packages_c for values in ('c');
select results_eq('select worker, execution_time_ms, shipment from package_results where no = 3',
    'values (null::text, null::bigint, 13)', 'rows that join as results are audited, without attribution');
select pawl.define('step',
    (select replace(diagram, 'done', 'finished') from pawl.machine where machine = 'step' and version = 1)) \g /dev/null
select pawl.upgrade('warehouse.packages', 'state', '{"done": "finished"}') \g /dev/null
select is((select count(*) from package_results), 3::bigint, 'a remapped row is no new result');
select is((select detail from pawl.health() where check_name = 'audit_states' and status = 'info' limit 1),
    'version 2 of machine "step" lacks the audited states done', 'health says that a state is gone');
create table loans (id int primary key, state text not null default 'ready');
select pawl.enforce('loans', 'state', 'step', version => 1), pawl.enable_log('loans', 'state') \g /dev/null
select pawl.audit('loans', '{"done": true}') \g /dev/null
insert into loans values (1), (2);
select pawl.release('loans') \g /dev/null
update loans set state = 'done' where id = 1;
update loans set state = 'ready' where id = 1;
select throws_ok('delete from loans_result_audit', 'PW006', null, 'released, the audit is closed');
select pawl.enforce('loans', 'state', 'step', version => 1), pawl.enable_log('loans', 'state') \g /dev/null
update loans set state = 'done' where id = 2;
select results_eq('select subject_id, state from loans_result_audit', $$values (2, 'done')$$,
    'a log that is taken up again is audited again');
select is_empty($$select * from pawl.verify('warehouse.packages')$$, 'nothing is wrong with any of it');
select lives_ok('drop table warehouse.packages', 'table and audit are not bound to each other');
select is((select count(*) from pawl.audit_binding b where not exists (select from pg_class c where c.oid = b.log)),
    0::bigint, 'no audit binding names a log that is gone');
select * from finish();
