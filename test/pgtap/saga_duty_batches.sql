-- The duties of time do what they can, whatever is due beside it: flows that are broken, blocked or wait for an answer;
-- and queues that are paused hand out nothing. isolation/saga_locked_flows has flows that are locked.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/saga.psql
create function undo() returns bigint language sql as $$
    with gone as (delete from pawl_saga.flows returning 1) select count(*) from gone $$;
create function fails(tasks text[]) returns void language sql as $$
    select from pawl_saga.report((select jsonb_agg(jsonb_build_object('flow_uuid', t.flow_uuid, 'node', t.node,
        'token', t.token, 'failure', '{"message": "no"}'::jsonb)) from pawl_saga.tasks t
        where t.name = any (tasks) and t.worker = 'w'), 'w') $$;
-- Everything that waits for a time, in a flow, has waited long enough; the more so in the flows before it.
create function due(flow uuid, ago interval default '1 s') returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    update pawl_saga.tasks t set wait_until = clock_timestamp() - ago
     where t.flow_uuid = flow and t.wait_until is not null;
    update pawl_saga.retries r set due_at = clock_timestamp() - ago where r.flow_uuid = flow and r.due_at is not null;
    update pawl_saga.tasks t set timeout_at = clock_timestamp() - ago
     where t.flow_uuid = flow and t.timeout_at is not null;
    set local session_replication_role = origin;
end $$;

-- attempts
select pawl_saga.define('{"flow": "linear", "name": "later", "retry": {"retry": "Times", "name": "r", "attempts": 3,
    "backoff": {"strategy": "linear", "base": "1 h"}}, "children": [{"task": "x"}]}') \g /dev/null
select pawl_saga.define('{"flow": "unordered", "name": "broken", "children": [{"flow": "linear", "name": "p",
    "retry": {"retry": "Times", "name": "r", "attempts": 3, "backoff": {"strategy": "linear", "base": "1 h"}},
    "children": [{"task": "p"}]}, {"flow": "linear", "name": "q", "retry": {"retry": "Times", "name": "s",
    "attempts": 3}, "children": [{"task": "q"}]}, {"task": "long"}]}') \g /dev/null
select pawl_saga.start('broken') as broken \gset
select from pawl_saga.claim('w', 'default', 3, '1 hour') \g /dev/null
select fails('{p,q}') \g /dev/null
select work('{"revert q"}') \g /dev/null
select pawl_saga.start('later') as later \gset
select work('{"execute x"}', 1), work('{}', 1) \g /dev/null
select due(:'broken', '2 s'), due(:'later') \g /dev/null
select is((select broken from pawl_saga.flows where flow_uuid = :'broken'), true, 'a flow with a backoff is broken');
select is((select done from pawl_saga.begin_attempts(1)), 1::bigint, 'its attempt is not begun, but another one');
select is(state(:'later'), 'RUNNING: r SUCCESS, x PENDING', 'of a flow that goes on');
select is((select done from pawl_saga.begin_attempts(1)), 0::bigint, 'and then none is left');
select undo() \g /dev/null
-- a failure in the scope whose controller has not answered yet
create function again(x jsonb) returns text language sql as $$ select 'RETRY' $$;
select pawl_saga.define('{"flow": "linear", "name": "asks", "retry": {"retry": "Function", "name": "r",
    "function": "public.again", "backoff": {"strategy": "linear", "base": "1 h"}}, "children": [{"flow": "unordered",
    "name": "u", "children": [{"task": "p"}, {"task": "q"}]}]}') \g /dev/null
select pawl_saga.start('asks') as asks \gset
select pawl_saga.start('later') as later \gset
select from pawl_saga.claim('w', 'default', 10, '1 hour') \g /dev/null
begin;
select pawl_saga._leave_questions(true) \g /dev/null
select fails('{p}') \g /dev/null
commit;
select done from pawl_saga.run_sql_tasks(1) \g /dev/null
begin;
select pawl_saga._leave_questions(true) \g /dev/null
select fails('{q}') \g /dev/null
commit;
select fails('{x}') \g /dev/null
select work() \g /dev/null
select work() \g /dev/null
update pawl_saga.retries set due_at = clock_timestamp() - interval '1 min' where flow_uuid = :'asks';
select due(:'later') \g /dev/null
select is((select count(*) from pawl_saga.questions where flow_uuid = :'asks'), 1::bigint, 'a controller is asked');
select is((select done from pawl_saga.begin_attempts(1)), 1::bigint, 'and the attempt of another flow begins');
select is((select done from pawl_saga.begin_attempts(1)), 0::bigint, 'while that one waits for the answer');
select done from pawl_saga.run_sql_tasks(1) \g /dev/null
select work() \g /dev/null
select due(:'asks') \g /dev/null
select done from pawl_saga.begin_attempts(1) \g /dev/null
select is(state(:'asks'), 'RUNNING: r SUCCESS, p PENDING, q PENDING', 'with the answer it tries again');
select undo() \g /dev/null

-- waits: each attempt and each run waits anew
select pawl_saga.define('{"flow": "unordered", "name": "naps", "retry": {"retry": "Times", "name": "r", "attempts": 2},
    "children": [{"task": "nap", "wait_seconds": 3600}, {"task": "sign", "signal": "go", "timeout_seconds": 3600},
    {"task": "x"}]}') \g /dev/null
create function waits(flow uuid) returns text language sql as $$
    select string_agg(concat(t.name, case when t.wait_until > clock_timestamp() + interval '59 min' then ' anew'
        when t.wait_until is not null then ' on' end), ', ' order by t.name) from pawl_saga.tasks t
     where t.flow_uuid = flow and (t.signal is not null or t.wait is not null) $$;
select pawl_saga.start('naps') as naps \gset
select due(:'naps', '-1 min') \g /dev/null
select is(waits(:'naps'), 'nap on, sign on', 'two tasks have waited for a while');
select work('{"execute x"}', 1) \g /dev/null
select is(waits(:'naps'), 'nap, sign', 'when their scope is to be reverted they no longer wait');
select work('{}', 1) \g /dev/null
select is(state(:'naps'), 'RUNNING: r SUCCESS, nap PENDING, sign PENDING, x PENDING', 'the next attempt begins');
select is(waits(:'naps'), 'nap anew, sign anew', 'and waits the whole time');
select due(:'naps', '-1 min') \g /dev/null
select works('execute x') \g /dev/null
select is((select state from pawl_saga.flows where flow_uuid = :'naps'), 'REVERTED', 'it gives up');
select pawl_saga.run(:'naps') \g /dev/null
select is(waits(:'naps'), 'nap anew, sign anew', 'a rerun waits the whole time as well');
select due(:'naps', '-1 min') \g /dev/null
select pawl_saga.suspend(:'naps') \g /dev/null
select pawl_saga.resume(:'naps') \g /dev/null
select is(waits(:'naps'), 'nap on, sign on', 'a suspended flow waits on');
select undo() \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "then", "retry": {"retry": "Times", "name": "r", "attempts": 2},
    "children": [{"task": "first"}, {"flow": "unordered", "name": "u", "children": [{"task": "nap", "wait_seconds":
    3600}, {"task": "x"}]}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "nap", "children": [{"task": "nap", "wait_seconds": 3600}]}')
    \g /dev/null
select pawl_saga.start('then') as blocked \gset
select work('{}', 1) \g /dev/null
select due(:'blocked', '2 s') \g /dev/null
select work('{"execute x"}', 1), work('{}', 1), work('{}', 1) \g /dev/null
select is(state(:'blocked'), 'RUNNING: r SUCCESS, first PENDING, nap PENDING, x PENDING', 'a nap is to come again');
select pawl_saga.start('nap') as nap \gset
select due(:'nap') \g /dev/null
select is((select done from pawl_saga.end_waits(1)), 1::bigint, 'a wait that is over ends');
select is(state(:'nap'), 'SUCCESS: nap SUCCESS', 'and not that of a task that is blocked');
select is((select done from pawl_saga.end_waits(1)), 0::bigint, 'for which nothing is done');
-- as an earlier version left it
do $$
begin
    set local session_replication_role = replica;
    update pawl_saga.tasks set wait_until = clock_timestamp() - interval '1 min' where name = 'nap' and blockers > 0;
    set local session_replication_role = origin;
end $$;
select pawl_saga.start('nap') as nap \gset
select due(:'nap') \g /dev/null
select is((select done from pawl_saga.end_waits(1)), 1::bigint, 'also where a blocked task has a time');
select is(state(:'nap'), 'SUCCESS: nap SUCCESS', 'another wait ends');
select is((select done from pawl_saga.end_waits(1)), 0::bigint, 'and the duty has nothing to do');
select undo() \g /dev/null

-- tasks that take too long: each execution has the whole time
select pawl_saga.define('{"flow": "linear", "name": "slow", "children": [{"task": "a", "timeout_seconds": 600,
    "revert_timeout_seconds": 600}, {"task": "b", "timeout_seconds": 600}]}') \g /dev/null
create function limited() returns text language sql as $$
    select string_agg(case when t.timeout_at > clock_timestamp() + interval '9 min 55 s' then 'whole' else 'rest' end,
        ',') from pawl_saga.tasks t where t.state in ('RUNNING', 'REVERTING') $$;
create function lose() returns bigint language plpgsql as $$
begin
    set local session_replication_role = replica;
    update pawl_saga.tasks set lease_until = clock_timestamp() - interval '1 s' where worker is not null;
    set local session_replication_role = origin;
    return (select done from pawl.reap('pawl_saga.tasks'));
end $$;
select pawl_saga.start('slow') as slow \gset
select from pawl_saga.claim('w1') \g /dev/null
select due(:'slow', '-1 min'), lose() \g /dev/null
select is(limited(), 'rest', 'a worker is lost after nine of ten minutes');
select from pawl_saga.claim('w2') \g /dev/null
select is(limited(), 'whole', 'the next one has ten minutes again');
select lose(), due(:'slow') \g /dev/null
select is((select done from pawl_saga.time_out_tasks()), 0::bigint,
    'a task that no worker has does not take too long');
select from pawl_saga.claim('w3') \g /dev/null
select is(limited(), 'whole', 'a third worker has ten minutes, too');
select is((select losses from pawl_saga.tasks where flow_uuid = :'slow' and name = 'a'), 2,
    'the losses are counted on');
select pawl.heartbeat('pawl_saga.tasks', 'w3'), due(:'slow') \g /dev/null
select is((select done from pawl_saga.time_out_tasks(1)), 1::bigint, 'until it takes too long itself');
select from pawl_saga.claim('w4') \g /dev/null
select due(:'slow', '-1 min'), lose() \g /dev/null
select from pawl_saga.claim('w5') \g /dev/null
select is(limited(), 'whole', 'it is the same for reverts');
select undo() \g /dev/null

-- paused queues
select pawl_saga.define('{"flow": "linear", "name": "plain", "children": [{"task": "a"}]}') \g /dev/null
create function pf(arguments jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
select pawl_saga.define('{"flow": "linear", "name": "sql", "children": [{"task": "a", "execute": "sql:public.pf"}]}')
    \g /dev/null
select pawl_saga.start('plain') as plain, pawl_saga.start('sql') as of_sql \gset
select from pawl_saga.claim('w1') \g /dev/null
select from pawl_saga.claim('w1', 'sql:') \g /dev/null
select lose() \g /dev/null
select pawl.pause('pawl_saga.tasks') \g /dev/null
select is_empty($$select * from pawl_saga.claim('w2')$$, 'a paused queue hands out no tasks of lost workers');
select is_empty($$select * from pawl_saga.report_and_claim('[]', 'w2')$$, 'nor with a report');
select is_empty($$select * from pawl_saga.claim('w2', 'sql:')$$, 'nor those that are SQL functions');
select is((select done from pawl_saga.run_sql_tasks()), 0::bigint, 'which are not run either');
call pawl_saga.work_sql_tasks();
select is(state(:'of_sql'), 'RUNNING: a RUNNING', 'in transactions of their own neither');
select pawl.resume('pawl_saga.tasks'), pawl.pause('pawl_saga.tasks', 'sql:') \g /dev/null
select is((select name from pawl_saga.claim('w2')), 'a', 'a queue that goes on hands them out');
select is((select done from pawl_saga.run_sql_tasks()), 0::bigint, 'while the other one is paused');
select pawl.resume('pawl_saga.tasks', 'sql:') \g /dev/null
select is((select done from pawl_saga.run_sql_tasks()), 1::bigint, 'and then runs what it had lost');
select pawl_saga.post('job', 'plain') as job \gset
select pawl.pause('pawl_saga.jobs', 'default') \g /dev/null
select throws_ok(format('select pawl_saga.claim_job(%L, %L)', :'job', 'c'), '55000', 'board "default" is paused',
    'a job of a paused board is not claimed by its id either');
select is((select done from pawl_saga.conduct()), 0::bigint, 'nor by the conductor');
select pawl.resume('pawl_saga.jobs', 'default') \g /dev/null
select is((select done from pawl_saga.conduct()), 1::bigint, 'until the board goes on');

-- A task that cannot be written at all leaves the others alone.
select pawl_saga.start('sql') as bad, pawl_saga.start('sql') as good \gset
create function never() returns trigger language plpgsql as $$ begin raise exception 'never'; end $$;
select format('create trigger never before update on pawl_saga.tasks for each row when (old.flow_uuid = %L and '
    'old.state = ''RUNNING'') execute function never()', :'bad') \gexec
set client_min_messages = error;
select done from pawl_saga.run_sql_tasks() \g /dev/null
set client_min_messages = warning;
select is(state(:'good'), 'SUCCESS: a SUCCESS', 'a task whose lease cannot be changed either does not stop the others');
select is(state(:'bad'), 'RUNNING: a RUNNING', 'and is left as it is');
drop trigger never on pawl_saga.tasks;
delete from pawl_saga.set_aside;
update pawl_saga.tasks set lease_until = clock_timestamp() - interval '1 s'
    where flow_uuid = :'bad' and set_config('pawl.processor', worker, true) is not null;

-- A lease that ends while its task begins is a loss, and no error of the flow.
select pawl_saga.start('sql') as late \gset
create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(1.1); return new; end $$;
select format('create trigger a_slow before update on pawl_saga.tasks for each row when (old.flow_uuid = %L and '
    'old.state = ''RUNNING'') execute function slow()', :'late') \gexec
call pawl_saga.work_sql_tasks(1, '1 s');
drop trigger a_slow on pawl_saga.tasks;
select is_empty('select * from pawl_saga.set_aside', 'a task whose lease ends when it begins sets no flow aside');
select is(state(:'late'), 'RUNNING: a RUNNING', 'it is lost');
select from pawl.reap('pawl_saga.tasks') \g /dev/null
select done from pawl_saga.run_sql_tasks() \g /dev/null
select is(state(:'late'), 'SUCCESS: a SUCCESS', 'and run again');
select is_empty('select * from pawl_saga.verify()', 'nothing is wrong');
select * from finish();
