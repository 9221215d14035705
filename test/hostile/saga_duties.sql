-- What one flow does wrong stops no other: a decider, a controller or a value that always raises, also with an error
-- that is otherwise passed on to be tried again. The flow is set aside, tried again later, and reported.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_saga;
create function poison(x jsonb) returns boolean language plpgsql as $$ begin
    if current_setting('test.cured', true) = 'on' then return true; end if;
    raise exception 'always' using errcode = '40001'; end $$;
create function poison_all(x jsonb) returns text
    language plpgsql as $$ begin raise exception 'always' using errcode = '40P01'; end $$;
create function state(n text) returns text
    language sql as $$ select string_agg(distinct state, ',') from pawl_saga.flows where name = n $$;
create function voted(first jsonb, name text, function text) returns uuid language sql as $$
    select pawl_saga.define(jsonb_build_object('flow', 'graph', 'name', name, 'children',
        jsonb_build_array(first, '{"task": "b", "queue": "off"}'::jsonb),
        'links', jsonb_build_array(jsonb_build_object('from', 'a', 'to', 'b', 'decider',
        jsonb_build_object('function', function))))) $$;

-- waits
select voted('{"task": "a", "wait_seconds": 0.3}', 'bad wait', 'public.poison'),
    pawl_saga.define('{"task": "a", "wait_seconds": 0.3}') \g /dev/null
begin;
select pawl_saga.create_flow(definition_uuid) as bad from pawl_saga.definitions where name = 'bad wait' \gset
select pawl_saga.create_flow(definition_uuid) as good from pawl_saga.definitions where name = 'a' \gset
select pawl_saga.run(:'bad'), pawl_saga.run(:'good') \g /dev/null
commit;
do $$ begin
    while exists (select from pawl_saga.tasks where wait_until > clock_timestamp()) loop
        perform pg_sleep(0.01);
    end loop;
end $$;
select lives_ok('select pawl_saga.end_waits()', 'a decider that always raises 40001 does not end the duty');
select is(state('a'), 'SUCCESS', 'the other wait has ended');
select is((select string_agg(name || ' ' || state, ', ' order by node) from pawl_saga.tasks where flow_uuid = :'bad'),
    'a SUCCESS, b PENDING', 'and so has that of the bad one: its decider is not asked by the duty');
select is_empty('select * from pawl_saga.verify()', 'a question is open, which is in order');
select lives_ok('select pawl_saga.run_sql_tasks()', 'nor does it end what asks it');
select is((select attempts || ' ' || sqlstate || ' ' || message from pawl_saga.set_aside where flow_uuid = :'bad'),
    '1 40001 always', 'the flow is set aside');
select ok((select problem from pawl_saga.verify(:'bad')) like 'is set aside until % run_sql_tasks raised 40001: always',
    'and reported');
select pawl_saga.run_sql_tasks() \g /dev/null
select is((select attempts from pawl_saga.set_aside), 1, 'it is not asked before its time');
update pawl_saga.set_aside set due_at = clock_timestamp();
select pawl_saga.run_sql_tasks() \g /dev/null
select is((select attempts || ' ' || (due_at > clock_timestamp() + interval '1.5 s') from pawl_saga.set_aside),
    '2 true', 'later each time');
update pawl_saga.set_aside set due_at = clock_timestamp();
set test.cured = on;
select pawl_saga.run_sql_tasks() \g /dev/null
set test.cured = off;
select is((select count(*) from pawl_saga.set_aside), 0::bigint, 'cured, it goes on');
select is((select string_agg(name || ' ' || state || ' ' || (due_at is null), ', ' order by node) from pawl_saga.tasks
    where flow_uuid = :'bad'), 'a SUCCESS false, b PENDING true', 'from where it was');
delete from pawl_saga.flows;

-- time-outs
select pawl_saga.define('{"flow": "linear", "name": "bad timeout", "retry": {"retry": "Function", "name": "r", '
        '"function": "public.poison_all"}, "children": [{"task": "a", "timeout_seconds": 0.001, "queue": "t"}]}')
    \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "good timeout", "children": [{"task": "a", "timeout_seconds": '
        '0.001, "queue": "t"}]}') \g /dev/null
select pawl_saga.start('bad timeout'), pawl_saga.start('good timeout') \g /dev/null
select count(*) from pawl_saga.claim('w', 't', 10) \g /dev/null
select pg_sleep(0.01) \g /dev/null
select is((select done from pawl_saga.time_out_tasks()), 2::bigint, 'both tasks have timed out');
select is(state('good timeout') || ' ' || state('bad timeout'), 'RUNNING RUNNING',
    'the other is reverted, and that of the controller that raises waits');
select is((select string_agg(name, ', ') from pawl_saga.claim('w', 't', 10)), 'a',
    'a failure that is not decided is not reverted');
select pawl_saga.run_sql_tasks() \g /dev/null
select is((select duty || ' ' || sqlstate from pawl_saga.set_aside), 'run_sql_tasks 40P01',
    'it is set aside when it is asked');
delete from pawl_saga.flows;

-- results of many flows in one report
select voted('{"task": "a", "queue": "q"}', 'bad report', 'public.poison'),
    pawl_saga.define('{"task": "good report", "queue": "q"}') \g /dev/null
select pawl_saga.start('bad report'), pawl_saga.start('good report') \g /dev/null
select jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token, 'result', 1)) as results
    from pawl_saga.claim('w', 'q', 10) c \gset
select results_eq(format('select ok, left(problem, 12), state from pawl_saga.report(%L, ''w'') order by ok',
    :'results'), $$values (true, null, 'SUCCESS'), (true, null, 'SUCCESS')$$, 'a report of several flows does not ask');
select is(state('good report'), 'SUCCESS', 'the other has ended');
delete from pawl_saga.flows;

-- orphans: a worker is lost with a task that is to be reverted, and its failure is put to a controller that raises
select pawl_saga.define('{"flow": "unordered", "name": "orphan", "children": [{"task": "z", "queue": "o"},
    {"flow": "linear", "name": "in", "retry": {"retry": "Function", "name": "r", "function": "public.poison_all"},
    "children": [{"task": "a", "queue": "o"}]}]}') \g /dev/null
select pawl_saga.define('{"task": "other", "queue": "o"}') \g /dev/null
select pawl_saga.start('orphan') as o \gset
select count(*) from pawl_saga.claim('w', 'o', 10) \g /dev/null
select flow_uuid, node, token from pawl_saga.tasks where flow_uuid = :'o' and name = 'z' \gset
select is((select state
        from pawl_saga.report(
                jsonb_build_array(jsonb_build_object('flow_uuid', :'flow_uuid', 'node', :node, 'token', :token,
                    'failure', '{"message": "no"}'::jsonb)), 'w')),
    'FAILURE', 'all is to be reverted');
set session_replication_role = replica;
update pawl_saga.tasks set lease_until = null, worker = null where flow_uuid = :'o' and name = 'a';
set session_replication_role = origin;
select pawl_saga.start('other') \g /dev/null
select is((select string_agg(name, ', ') from pawl_saga.claim('w2', 'o', 10)), 'z, other',
    'a claim handles it, and returns the rest');
select is((select state || ' ' || intention from pawl_saga.tasks where flow_uuid = :'o' and name = 'a'),
    'FAILURE REVERT', 'its failure is not decided yet');
select pawl_saga.run_sql_tasks() \g /dev/null
select is((select duty || ' ' || sqlstate from pawl_saga.set_aside), 'run_sql_tasks 40P01',
    'the flow is set aside when its controller is asked');
delete from pawl_saga.flows;

-- SQL functions of tasks: what follows from the report of one raises, each time
select voted('{"task": "a", "execute": "sql:public.fine"}', 'bad run', 'public.poison') \g /dev/null
create function fine(arguments jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
select pawl_saga.define('{"task": "good run", "execute": "sql:public.fine"}') \g /dev/null
select pawl_saga.start('bad run') as bad \gset
select pawl_saga.start('good run') \g /dev/null
\setenv PGDATABASE :DBNAME
\set said `psql -XAtqc "call pawl_saga.work_sql_tasks()" -c "call pawl_saga.work_sql_tasks()" 2>&1`
select matches(:'said'::text, 'WARNING:  flow \S+ is set aside: always\s+DETAIL:  Raised by the duty work_sql_tasks',
    'the duty warns of it');
select unalike(:'said'::text, '%ERROR%', 'and goes on');
select is(state('good run'), 'SUCCESS', 'to the task behind it');
select is((select attempts || ' ' || duty || ' ' || sqlstate || ' ' || message from pawl_saga.set_aside
    where flow_uuid = :'bad'), '1 work_sql_tasks 40001 always', 'the flow is set aside');
select ok((select problem
        from pawl_saga.verify(:'bad')) like 'is set aside until % work_sql_tasks raised 40001: always', 'and reported');
select is((select state || ' ' || (lease_until = (select due_at from pawl_saga.set_aside)) from pawl_saga.tasks
    where flow_uuid = :'bad' and name = 'a'), 'RUNNING true', 'its task is held until it is tried again');
create function again() returns void language plpgsql as $$ begin
    set local session_replication_role = replica;
    update pawl_saga.tasks set lease_until = clock_timestamp() - interval '1 s' where lease_until is not null;
    set local session_replication_role = origin;
    perform pawl.reap('pawl_saga.tasks'); end $$;
select again() \g /dev/null
select pawl_saga.start('good run') \g /dev/null
select is((select done from pawl_saga.run_sql_tasks()), 3::bigint, 'run_sql_tasks is not stopped by it');
select is(state('good run'), 'SUCCESS', 'the others are run');
select is((select string_agg(t.name || ' ' || t.state, ', ' order by t.node) from pawl_saga.tasks t
    where t.flow_uuid = :'bad'),
    'a SUCCESS, b PENDING', 'a task that lost its worker is not undone again: the decider is asked apart');
select is((select duty || ' ' || sqlstate from pawl_saga.set_aside where flow_uuid = :'bad'), 'run_sql_tasks 40001',
    'and raises apart');
update pawl_saga.set_aside set due_at = clock_timestamp();
set test.cured = on;
select is((select done from pawl_saga.run_sql_tasks()), 1::bigint, 'cured, it is asked');
set test.cured = off;
select is((select count(*) from pawl_saga.set_aside), 0::bigint, 'and no longer set aside');
select is((select string_agg(name || ' ' || state, ', ' order by node) from pawl_saga.tasks where flow_uuid = :'bad'),
    'a SUCCESS, b PENDING', 'the flow goes on');
delete from pawl_saga.flows;

-- the error of a duty that another session made up for
select pawl_saga.define('{"flow": "linear", "name": "mended", "children": [{"task": "a"},
    {"task": "w", "signal": "go"}]}') \g /dev/null
select pawl_saga.start('mended') as mended \gset
insert into pawl_saga.set_aside (flow_uuid, duty, due_at, sqlstate, message)
    values (:'mended', 'end_waits', clock_timestamp() + interval '1 h', '40P01', 'deadlock detected');
select pawl_saga.suspend(:'mended') \g /dev/null
select is((select f.state || ' ' || s.duty from pawl_saga.flows f join pawl_saga.set_aside s using (flow_uuid)),
    'SUSPENDED end_waits', 'a flow that is suspended stays set aside');
select pawl_saga.resume(:'mended') \g /dev/null
select from pawl_saga.claim('w') c, pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid,
    'node', c.node, 'token', c.token, 'result', 1)), 'w') \g /dev/null
select is((select count(*) from pawl_saga.set_aside), 1::bigint, 'and so does one that goes on');
select pawl_saga.signal(:'mended', 'go') \g /dev/null
select is((select f.state || ' ' || (select count(*) from pawl_saga.set_aside) from pawl_saga.flows f), 'SUCCESS 0',
    'one that has ended does not');
select is_empty('select * from pawl_saga.verify()', 'and nothing is reported of it');
delete from pawl_saga.flows;

-- a problem of one task is no conflict of the whole, where a conflict is left to the caller
create function explode() returns trigger language plpgsql as $$ begin
    if new.state = 'SUCCESS' and new.name = 'explodes' then raise exception 'boom'; end if; return new; end $$;
create trigger explode before update on pawl_saga.tasks for each row execute function explode();
select pawl_saga.define('{"task": "explodes", "execute": "sql:public.fine"}') \g /dev/null
select pawl_saga.start('explodes') as bad \gset
select pawl_saga.start('good run') \g /dev/null
begin isolation level repeatable read;
select is((select done from pawl_saga.run_sql_tasks()), 2::bigint, 'two tasks run in one snapshot');
commit;
select is((select state || ' ' || (select sqlstate || ' ' || message from pawl_saga.set_aside) from pawl_saga.flows
    where name = 'good run'), 'SUCCESS P0001 boom', 'the flow of one is set aside with its error');
drop trigger explode on pawl_saga.tasks;
delete from pawl_saga.flows;

-- a function that reports its own task does not keep its effects if its result is rejected then
create table effects (x integer);
create function self(arguments jsonb) returns jsonb language plpgsql as $$ declare t pawl_saga.tasks; begin
    insert into public.effects values (1);
    select * into t from pawl_saga.tasks where name = 'self' and state = 'RUNNING';
    perform from pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', t.flow_uuid, 'node', t.node,
        'token', t.token, 'failure', 'early')), t.worker);
    return '1'; end $$;
select pawl_saga.define('{"task": "self", "execute": "sql:public.self"}') \g /dev/null
select pawl_saga.start('self') \g /dev/null
call pawl_saga.work_sql_tasks(1);
select is((select count(*) from effects), 0::bigint, 'what a task did is undone with its report');
select is((select t.state || ' ' || s.sqlstate from pawl_saga.tasks t join pawl_saga.set_aside s using (flow_uuid)),
    'RUNNING PW005', 'and its flow is set aside with the problem');
delete from pawl_saga.flows;

-- jobs
select pawl_saga.define('{"flow": "graph", "name": "bad job", "children": [{"task": "a", "wait_seconds": 0}, {"task": '
        '"b"}], "links": [{"from": "a", "to": "b", "decider": {"function": "public.poison"}}]}') \g /dev/null
select pawl_saga.post('bad', 'bad job', priority => 'HIGH'), pawl_saga.post('good', 'other'),
    pawl_saga.post('none', 'no such flow') \g /dev/null
select lives_ok('select pawl_saga.conduct()', 'a flow whose decider raises does not end the conductor');
select is((select string_agg(name || ' ' || state || coalesce(' ' || (trashed_at is not null), ''), ', ' order by name)
    from pawl_saga.jobs), 'bad CLAIMED false, good CLAIMED false, none UNCLAIMED true', 'all are begun, or trashed');
select * from finish();
