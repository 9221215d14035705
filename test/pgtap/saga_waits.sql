-- Tasks that wait: for a signal, for a time, for either; suspended, reverted, retried and
-- started again while they wait.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;
create function state(flow uuid) returns text language sql as $$
    select f.state || ': ' || string_agg(a.name || ' ' || a.state, ', ' order by a.node) from pawl_saga.flows f
        join pawl_saga.atoms a using (flow_uuid) where f.flow_uuid = flow group by f.state $$;
create function work(how text default 'result') returns bigint language sql as $$
    select count(*)
        from pawl_saga.report(
            (select coalesce(jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
        || case how when 'result' then '{"result": 1}' else '{"failure": {"message": "no"}}' end::jsonb), '[]')
                from pawl_saga.claim('w', 'default', 10) c), 'w') $$;
create function define(name text, steps jsonb, retry jsonb default null, shape text default 'linear') returns uuid
    language sql as $$
    select pawl_saga.define(
        jsonb_strip_nulls(jsonb_build_object('flow', shape, 'name', name, 'retry', retry, 'children', steps))) $$;

-- a signal
select define('order', '[{"task": "offer"}, {"task": "approval", "signal": "approved", "provides": "by"}, {"task": '
        '"send", "requires": ["by"]}]') as d \gset
select pawl_saga.start('order') as f \gset
select is(work(), 1::bigint, 'the first task is done by a worker');
select is(state(:'f'), 'RUNNING: offer SUCCESS, approval PENDING, send PENDING', 'the next one waits');
select is(work(), 0::bigint, 'and it cannot be claimed');
select is((select wait_until from pawl_saga.atoms where flow_uuid = :'f' and name = 'approval'), 'infinity',
    'for as long as it takes');
select is_empty('select * from pawl_saga.verify()', 'which is in order');
select pawl_saga.signal(:'f', 'other') as other \gset
select is(state(:'f'), 'RUNNING: offer SUCCESS, approval PENDING, send PENDING', 'another signal is not taken');
select pawl_saga.signal(:'f', 'approved', '"ann"') as signal \gset
select is(state(:'f'), 'RUNNING: offer SUCCESS, approval SUCCESS, send PENDING', 'the signal is, at once');
select is((select taken_by from pawl_saga.signals where signal_uuid = :'signal'),
    (select node from pawl_saga.tasks where flow_uuid = :'f' and name = 'approval'), 'and names the task that took it');
select is((select taken_at from pawl_saga.signals where signal_uuid = :'other'), null, 'the other one stays');
select is((select arguments from pawl_saga.claim('w')), '{"by": "ann"}', 'its payload is the result');
select is((select string_agg(to_state, ',' order by created_at, id) from pawl_saga.timeline where flow_uuid = :'f'
    and subject = 'approval' and from_state is not null), 'RUNNING,SUCCESS', 'by the transitions of every task');
select throws_ok(format('select pawl_saga.signal(%L, %L)', pawl.uuid_v7(), 'x'), 'P0002', null, 'no such flow');
select throws_ok(format('select pawl_saga.signal(%L, %L)', :'f', ''), '22004', null, 'name must not be empty');

-- one that came earlier, by plain SQL; each is taken once
select define('twice', '[{"task": "a", "signal": "go"}, {"task": "b", "signal": "go", "timeout_seconds": 3600}]',
        '{"retry": "Times", "name": "r", "attempts": 2}') \g /dev/null
select pawl_saga.create_flow(definition_uuid) as f from pawl_saga.definitions where name = 'twice' \gset
insert into pawl_saga.signals (flow_uuid, name) values (:'f', 'go');
select is(pawl_saga.run(:'f'), 'RUNNING', 'a flow runs');
select is(state(:'f'), 'RUNNING: r SUCCESS, a SUCCESS, b PENDING', 'one signal is taken by one task');

-- no signal in time is a failure, and a retry waits anew
select is((select done from pawl_saga.end_waits()), 0::bigint, 'it is not over yet');
select cmp_ok((select next_at - now() from pawl_saga.end_waits()), '>', interval '50 min', 'which the duty knows');
update pawl_saga.tasks set wait_until = now() where flow_uuid = :'f' and name = 'b';
select is((select done from pawl_saga.end_waits()), 1::bigint, 'now it is');
select is(state(:'f'), 'RUNNING: r SUCCESS, a SUCCESS, b FAILURE', 'that is a failure');
select pawl_saga.run_sql_tasks(10) from generate_series(1, 3) \g /dev/null
select is(state(:'f'), 'RUNNING: r SUCCESS, a PENDING, b PENDING',
    'which is reverted without any worker, and tried again');
select is((select wait_until from pawl_saga.atoms where flow_uuid = :'f' and name = 'a'), 'infinity',
    'the next attempt waits again');
select pawl_saga.signal(:'f', 'go') from generate_series(1, 3) \g /dev/null
select is(state(:'f'), 'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS', 'a signal for each ends the flow');
select is((select count(*) from pawl_saga.signals where flow_uuid = :'f' and taken_at is null), 1::bigint,
    'one was too many');
select is(pawl_saga.reset(:'f', 'again'), 'PENDING', 'a flow that waited for a signal can be reset');
select is((select count(*) from pawl_saga.signals where flow_uuid = :'f' and taken_at is null), 0::bigint,
    'what was meant for the run before is over');

-- a time; suspended meanwhile
select define('pause', '[{"task": "rest", "wait_seconds": 3600}, {"task": "go on"}]') \g /dev/null
select pawl_saga.start('pause') as f \gset
select is(state(:'f'), 'RUNNING: rest PENDING, go on PENDING', 'a task with a wait is PENDING and its flow RUNNING');
select is(pawl_saga.suspend(:'f'), 'SUSPENDED', 'and can be suspended at once');
update pawl_saga.tasks set wait_until = now() where flow_uuid = :'f' and name = 'rest';
select is((select done from pawl_saga.end_waits()), 0::bigint, 'nothing ends in a suspended flow');
select is(pawl_saga.resume(:'f'), 'RUNNING', 'a flow that waits for a time can be resumed');
select is(state(:'f'), 'RUNNING: rest SUCCESS, go on PENDING', 'its time had come');
select is(work(), 1::bigint, 'it goes on');
select is(state(:'f'), 'SUCCESS: rest SUCCESS, go on SUCCESS', 'to the end');

-- a signal, or a time, whichever comes first
select define('either', '[{"task": "answer", "signal": "answer", "wait_seconds": 3600, "provides": "answer"}]')
    \g /dev/null
select pawl_saga.start('either') as f \gset
update pawl_saga.tasks set wait_until = now() where flow_uuid = :'f';
select is((select done from pawl_saga.end_waits()), 1::bigint, 'the time came first');
select is(pawl_saga.outputs(:'f'), '{"answer": null}', 'without an answer');

-- a decision while it waits
select define('aside', '[{"task": "t"}, {"task": "waits", "signal": "go"}]', null, 'unordered') \g /dev/null
select pawl_saga.start('aside') as f \gset
select is(work('failure'), 1::bigint, 'the task beside the waiting one fails');
select is(work(), 1::bigint, 'and is reverted');
select is(state(:'f'), 'REVERTED: t REVERTED, waits PENDING', 'the task that waits never began');
select pawl_saga.signal(:'f', 'go') \g /dev/null
select is(state(:'f'), 'REVERTED: t REVERTED, waits PENDING', 'and nothing that comes later changes that');

-- its revert may be a worker's
select define('told', '[{"task": "tell", "signal": "go", "revert": "untell"}, {"task": "fails"}]') \g /dev/null
select pawl_saga.start('told') as f \gset
select pawl_saga.signal(:'f', 'go', '{"n": 5}') \g /dev/null
select work('failure'), work() \g /dev/null
select is((select action || ' ' || handler || ' ' || result from pawl_saga.claim('w')), 'revert untell {"n": 5}',
    'a worker reverts it');

select throws_ok($$select define('x', '[{"task": "a", "signal": "go", "execute": "b"}]')$$, 'PW007', null,
    'a task that waits does nothing else');
select throws_ok($$select define('x', '[{"task": "a", "signal": ""}]')$$, 'PW007', null, 'a signal without a name');
select throws_ok($$select define('x', '[{"task": "a", "wait_seconds": -1}]')$$, 'PW007', null, 'a wait into the past');
select throws_ok($$select define('x', '[{"task": "a", "timeout_seconds": "long"}]')$$, 'PW007', null,
    'a timeout that is no number');
select throws_ok('select pawl_saga.end_waits(0)', '22023', null, 'a batch of none');
select is_empty('select * from pawl_saga.verify()', 'nothing is wrong');
select is_empty('select * from pawl.verify()', 'nor with the logs');
select * from finish();
