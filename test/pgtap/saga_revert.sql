-- pawl_saga.revert: an operator has a flow undone, whatever state it is in.
\set QUIET 1
set client_min_messages = warning;
create extension if not exists pawl_saga;
select plan(42);
create function public.f(a jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
create function public.u(a jsonb, done jsonb) returns jsonb language sql as $$ select done -> 'result' $$;
select pawl_saga.define('{"flow": "linear", "name": "trip", "children": [{"task": "a", "execute": "sql:public.f",
    "revert": "sql:public.u"},
    {"flow": "unordered", "name": "inner", "retry": {"retry": "Times", "name": "r", "attempts": 3},
        "children": [{"task": "b", "execute": "sql:public.f", "revert": "sql:public.u"}, {"task": "c"}]},
    {"task": "d", "execute": "sql:public.f"}]}') as definition \gset
create function public.states(flow uuid) returns text language sql as $$
    select (select state from pawl_saga.flows where flow_uuid = flow) || ': '
        || string_agg(name || ' ' || state, ', ' order by node) from pawl_saga.atoms where flow_uuid = flow $$;

-- Where it has nothing to undo
select pawl_saga.create_flow(:'definition') as fresh \gset
select throws_ok(format('select pawl_saga.revert(%L, %L)', :'fresh', 'x'), '55000', 'the flow has nothing to revert',
    'a pending flow');
select throws_ok('select pawl_saga.revert(pawl.uuid_v7(), ''x'')', 'P0002', null, 'no such flow');

-- While it runs: what is under way finishes and is then undone
select pawl_saga.start('trip') as flow \gset
select lives_ok('select pawl_saga.run_sql_tasks()', 'a and b are done');
select is(public.states(:'flow'), 'RUNNING: a SUCCESS, r SUCCESS, b SUCCESS, c PENDING, d PENDING', 'c is a worker''s');
select flow_uuid, node, token from pawl_saga.claim('me') \gset
select throws_ok(format('select pawl_saga.revert(%L, %L)', :'flow', ''), '22004', null, 'a reason is needed');
select is(pawl_saga.revert(:'flow', 'the traveller is ill'), 'RUNNING', 'it goes on until all is undone');
select lives_ok('select pawl_saga.run_sql_tasks()', 'b is independent of c');
select is(public.states(:'flow'), 'RUNNING: a SUCCESS, r SUCCESS, b REVERTED, c RUNNING, d PENDING',
    'b is undone; a waits for c');
select is((select ok
        from pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', :'flow_uuid', 'node', :node, 'token',
            :token, 'result', 2)), 'me')), true, 'the result of task c is accepted while its flow reverts');
select node, token, action, result from pawl_saga.claim('me') \gset
select is(:'action' || ' ' || :'result', 'revert 2', 'and is to be undone');
select is((select ok
        from pawl_saga.report(
            jsonb_build_array(jsonb_build_object('flow_uuid', :'flow_uuid', 'node', :node, 'token', :token)), 'me')),
    true, 'which it is');
select lives_ok('select pawl_saga.run_sql_tasks()', 'run_sql_tasks runs the revert of task a');
select is(public.states(:'flow'), 'REVERTED: a REVERTED, r REVERTED, b REVERTED, c REVERTED, d PENDING',
    'everything is undone');
select is((select problem - 'actor' from pawl_saga.flows where flow_uuid = :'flow'),
    '{"message": "reverted by hand", "reason": "the traveller is ill"}', 'the reason is there');
select throws_ok(format('select pawl_saga.revert(%L, %L)', :'flow', 'x'), '55000', null,
    'a flow that reverts cannot be reverted again');

-- After a success, and of a suspended flow
create function public.work_on(flow uuid) returns void language plpgsql as $$
begin
    perform pawl_saga.run_sql_tasks();
    perform pawl_saga.report(coalesce(
            jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token, 'result', 1)),
        '[]'), 'me') from pawl_saga.claim('me') c;
    perform pawl_saga.run_sql_tasks();
end $$;
select pawl_saga.start('trip') as flow \gset
select public.work_on(:'flow');
select is(public.states(:'flow'), 'SUCCESS: a SUCCESS, r SUCCESS, b SUCCESS, c SUCCESS, d SUCCESS',
    'all tasks of the flow have succeeded');
select is(pawl_saga.revert(:'flow', 'cancelled by the customer'), 'RUNNING', 'a flow that succeeded can be reverted');
select public.work_on(:'flow'); select public.work_on(:'flow');
select is(public.states(:'flow'), 'REVERTED: a REVERTED, r REVERTED, b REVERTED, c REVERTED, d REVERTED', 'all of it');
select is((select metadata ->> 'reason' from pawl_saga.flow_transitions
    where flow_uuid = :'flow' and from_state = 'SUCCESS'), 'cancelled by the customer', 'its log says why');
select pawl_saga.start('trip') as flow \gset
select pawl_saga.suspend(:'flow');
select is(public.states(:'flow'), 'SUSPENDED: a PENDING, r PENDING, b PENDING, c PENDING, d PENDING',
    'suspended before anything was done');
select is(pawl_saga.revert(:'flow', 'x'), 'REVERTED', 'there is nothing to do');
select pawl_saga.start('trip') as flow \gset
select flow_uuid, node, token from pawl_saga.claim('me', 'sql:') \gset
select pawl_saga.suspend(:'flow');
select pawl_saga.revert(:'flow', 'x');
select is(public.states(:'flow'), 'RUNNING: a RUNNING, r PENDING, b PENDING, c PENDING, d PENDING',
    'one that is about to be suspended');

select is_empty('select * from pawl_saga.verify()', 'the flows are sound');
set role pawl_worker;
select throws_ok(format('select pawl_saga.revert(%L, %L)', :'flow', 'x'), '42501', null, 'workers may not');
reset role;

-- A revert that is tried again, in a flow that is suspended meanwhile
select pawl_saga.define('{"flow": "linear", "name": "retried", "children": [{"task": "a"}, {"task": "b"},
    {"task": "c"}]}') \g /dev/null
create function public.steps(variadic fails text[] default '{}') returns text language plpgsql as $$
declare c record; did text[] := '{}';
begin
    for i in 1..20 loop
        select * into c from pawl_saga.claim('steps');
        exit when not found;
        did := did || (c.action || ' ' || c.name);
        perform from pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node,
            'token', c.token, case when c.action || ' ' || c.name = any (fails) then 'failure' else 'result' end, 1)),
            'steps');
    end loop;
    return array_to_string(did, ', ');
end $$;
select pawl_saga.start('retried') as again \gset
select public.steps('execute c', 'revert a') \g /dev/null
select is(public.states(:'again'), 'FAILURE: a REVERT_FAILURE, b REVERTED, c REVERTED', 'a revert has failed');
select is(pawl_saga.retry_revert(:'again', 'a'), 'RUNNING', 'it is to be tried again');
select is(pawl_saga.suspend(:'again'), 'SUSPENDED', 'and the flow is suspended before');
select is(public.steps(), '', 'then it is not claimed');
select is(pawl_saga.resume(:'again'), 'RUNNING', 'the flow is resumed');
select is(public.steps('revert a'), 'revert a', 'and the revert is tried again');
select is(public.states(:'again'), 'FAILURE: a REVERT_FAILURE, b REVERTED, c REVERTED', 'which fails again');
select is(pawl_saga.run(:'again'), 'FAILURE', 'a run tries it no more');
select pawl_saga.retry_revert(:'again', 'a') \g /dev/null
select is(public.steps(), 'revert a', 'until an operator does');
select is(public.states(:'again'), 'REVERTED: a REVERTED, b REVERTED, c REVERTED', 'then the flow is reverted');
-- with others that had to wait for it
select pawl_saga.define('{"flow": "unordered", "name": "two", "children": [{"flow": "linear", "name": "l", "children":
    [{"task": "a"}, {"task": "b"}]}, {"task": "d"}, {"task": "c"}]}') \g /dev/null
select pawl_saga.start('two') as two \gset
select public.steps('execute c', 'revert b') \g /dev/null
select is(public.states(:'two'), 'FAILURE: a SUCCESS, b REVERT_FAILURE, d SUCCESS, c FAILURE',
    'a failed revert stops the others');
select pawl_saga.retry_revert(:'two', 'b') \g /dev/null
select pawl_saga.suspend(:'two') \g /dev/null
select pawl_saga.resume(:'two') \g /dev/null
select is(public.steps(), 'revert b, revert a, revert d, revert c', 'which go on with it');
select is(public.states(:'two'), 'REVERTED: a REVERTED, b REVERTED, d REVERTED, c REVERTED', 'to the end');
select is_empty('select * from pawl_saga.verify()', 'no counter is wrong with them');
-- one that is resolved while its flow is suspended
select pawl_saga.define('{"flow": "linear", "name": "tried", "retry": {"retry": "AlwaysRevert", "name": "r"},
    "children": [{"task": "a"}, {"task": "b"}]}') \g /dev/null
create function public.suspended() returns uuid language plpgsql as $$
declare flow uuid := pawl_saga.start('tried');
begin
    perform public.steps('execute b', 'revert a');
    perform pawl_saga.retry_revert(flow, 'a'), pawl_saga.suspend(flow);
    return flow;
end $$;
select public.suspended() as by_function, public.suspended() as by_hand \gset
select pawl_saga.resolve(:'by_function', 'a', 'by hand') \g /dev/null
begin;
set local pawl.event = 'resolve';
update pawl_saga.tasks set state = 'REVERTED' where flow_uuid = :'by_hand' and name = 'a';
commit;
select is_empty('select * from pawl_saga.verify()', 'a resolved task of a suspended flow blocks nothing any more');
select is(public.states(:'by_hand'), 'SUSPENDED: r SUCCESS, a REVERTED, b REVERTED', 'and nothing is begun');
select pawl_saga.resume(:'by_function') \g /dev/null
select pawl_saga.resume(:'by_hand') \g /dev/null
select is(public.states(:'by_function'), 'REVERTED: r REVERTED, a REVERTED, b REVERTED', 'until the flow goes on');
select is(public.states(:'by_hand'), 'REVERTED: r REVERTED, a REVERTED, b REVERTED', 'also if it is written by hand');
select * from finish();
