-- What claimed tasks are given, where it cannot be formed for one of them: that one fails, and the others go on.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/saga.psql
-- As if values were too large: of flows called "large" the arguments and failures, and of those called "bad" whatever
-- arguments are made of, too.
create function raises(flow uuid, variadic names text[]) returns boolean language plpgsql as $$
begin
    if exists (select from pawl_saga.flows f where f.flow_uuid = flow and f.name = any (names)) then
        raise 'too large' using errcode = '54000';
    end if;
    return false;
end $$;
create procedure raise_in(function text, before text, variadic names text[]) language plpgsql as $$
begin
    execute replace(pg_get_functiondef(('pawl_saga.' || function)::regproc), before,
        format('%s and not public.raises(flow, variadic %L)', before, names));
end $$;
call raise_in('_arguments', 'WHERE f.flow_uuid = flow', 'bad');
call raise_in('arguments', 'FILTER (WHERE a.found', 'large', 'large sql');
call raise_in('failures', 't.failure IS NOT NULL', 'large');
-- What a claim or an exchange returns.
create function claimed(batch int default 10) returns text language sql as $$
    select coalesce(string_agg(c.action || ' ' || c.name, ', ' order by c.name), 'nothing')
      from pawl_saga.claim('w', 'default', batch, '1 hour') c $$;
create function exchanged(results jsonb, batch int default 10) returns text language sql as $$
    select string_agg(coalesce(r.state, r.action || ' ' || r.name), ', ' order by r.name, r.ok)
      from pawl_saga.report_and_claim(results, 'w', 'default', batch, '1 hour') r $$;
create function results_of(flow uuid) returns jsonb language sql as $$
    select coalesce(jsonb_agg(jsonb_build_object('flow_uuid', t.flow_uuid, 'node', t.node, 'token', t.token,
        'result', 1)), '[]') from pawl_saga.tasks t where t.flow_uuid = flow and t.worker = 'w' $$;
create function last_failures(of_flow text) returns text language sql as $$
    select string_agg(distinct concat_ws(' ', t.state, t.failure ->> 'sqlstate', t.failure ->> 'message'), ', ')
      from pawl_saga.tasks t join pawl_saga.flows f using (flow_uuid)
     where f.name = of_flow and t.name = 'takes' $$;

-- arguments
select pawl_saga.define('{"flow": "linear", "name": "line", "children": [{"task": "x"}, {"task": "y"}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "large", "children": [{"task": "first"},
    {"task": "takes", "requires": ["text", "few"], "priority": 9}]}') \g /dev/null
select pawl_saga.start('large', jsonb_build_object('text', repeat('x', 5000), 'few', 7)) as large \gset
select work() \g /dev/null
select pawl_saga.start('line') as line \gset
select is(claimed(), 'execute x', 'a claim returns the tasks beside one whose arguments are too large');
select is(state(:'large'), 'RUNNING: first SUCCESS/REVERT, takes FAILURE/REVERT', 'which fails, and is to be reverted');
select is(last_failures('large'), 'FAILURE 54000 too large', 'with the error as its failure');
select is((select string_agg(format('%s>%s %s %s', from_state, to_state, event, processor), ', ' order by sort_key)
      from pawl_saga.task_transitions l join pawl_saga.tasks t using (flow_uuid, node)
     where t.flow_uuid = :'large' and t.name = 'takes' and l.from_state <> ''),
    'PENDING>RUNNING execute w, RUNNING>FAILURE fail w', 'as if its worker had reported it');
select is(exchanged(results_of(:'line')), 'revert takes, execute y, SUCCESS',
    'its revert is returned by an exchange, and what is reported with it counts');
select is((select c.arguments from pawl_saga.tasks t, pawl_saga._as_claimed(array[t]) c
    where t.flow_uuid = :'large' and t.name = 'takes'), '{"few": 7, "text": {"cut": true}}',
    'a revert is given large arguments cut, and small ones whole');
select count(*) from pawl_saga.report(results_of(:'large'), 'w') \g /dev/null
select is(exchanged(results_of(:'line')), 'revert first, SUCCESS', 'the other tasks are reverted, too');
select count(*) from pawl_saga.report(results_of(:'large'), 'w') \g /dev/null
select is((select state from pawl_saga.flows where flow_uuid = :'large'), 'REVERTED', 'until the flow is');

-- failures
select pawl_saga.start('large', '{"text": 1, "few": 7}') as large \gset
select from pawl_saga.claim('w') \g /dev/null
select pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', flow_uuid, 'node', node, 'token', token,
    'failure', jsonb_build_object('message', repeat('x', 5000), 'type', 'long', 'other', 1))), 'w')
  from pawl_saga.tasks where flow_uuid = :'large' and worker = 'w' \g /dev/null
select pawl_saga.start('line') as line \gset
select is(claimed(1), 'revert first', 'a revert is returned, whatever the failures of its flow');
select is((select c.failures from pawl_saga.tasks t, pawl_saga._as_claimed(array[t]) c where t.flow_uuid = :'large'
    and t.worker = 'w'), jsonb_build_object('first', jsonb_build_object('cut', true, 'type', 'long', 'message',
    repeat('x', 1000))), 'a large failure is cut, with a member that says so');
select is((select length(c.failure ->> 'message') from pawl_saga.tasks t, pawl_saga._as_claimed(array[t]) c
    where t.flow_uuid = :'large' and t.worker = 'w'), 5000, 'its own failure is whole');
select count(*) from pawl_saga.report(results_of(:'large'), 'w') \g /dev/null

-- a revert whose arguments cannot be formed in any way, and as many tasks as there are before one that can be returned
select pawl_saga.define('{"flow": "linear", "name": "bad", "children": [{"task": "takes", "priority": 9,
    "requires": ["x"]}]}') \g /dev/null
select pawl_saga.start('bad', '{"x": 1}') from generate_series(1, 3) \g /dev/null
select is(claimed(1), 'execute x', 'a claim of one task looks past those that fail');
select is(exchanged(results_of(:'line'), 1), 'execute y, SUCCESS', 'a result is recorded, whatever is claimed with it');
select is(last_failures('bad'), 'REVERT_FAILURE 54000 too large', 'a revert fails that cannot be given even that');
select count(*) from pawl_saga.report(results_of(:'line'), 'w') \g /dev/null

-- a task that cannot fail now
create function never() returns trigger language plpgsql as $$ begin raise 'never' using errcode = 'P0123'; end $$;
create trigger never before update on pawl_saga.tasks for each row when (new.state = 'FAILURE')
    execute function never();
select pawl_saga.start('bad', '{"x": 1}') as bad \gset
select pawl_saga.start('line') as line \gset
set client_min_messages = error;
select is(claimed(), 'execute x', 'a task that cannot fail is not returned either, and stops no other');
set client_min_messages = warning;
select ok((select lease_until < clock_timestamp() + interval '2 s' from pawl_saga.tasks where flow_uuid = :'bad'),
    'and its lease ends soon');
drop trigger never on pawl_saga.tasks;
select count(*) from pawl_saga.report(results_of(:'line'), 'w') \g /dev/null
select works() \g /dev/null

-- SQL functions
create table effects (x text);
create function does(arguments jsonb) returns jsonb language sql as $$
    insert into public.effects values ('done'); select '1'::jsonb $$;
select pawl_saga.define('{"flow": "linear", "name": "large sql", "children": [{"task": "takes", "priority": 9,
    "requires": ["x"], "execute": "sql:public.does"}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "sql", "children": [{"task": "good",
    "execute": "sql:public.does"}]}') \g /dev/null
select pawl_saga.start('large sql', '{"x": 1}'), pawl_saga.start('sql') as good \gset
select is((select done from pawl_saga.run_sql_tasks(1)), 1::bigint, 'a SQL function whose arguments are too large');
select is(last_failures('large sql'), 'FAILURE 54000 too large', 'fails without being called');
select done from pawl_saga.run_sql_tasks() \g /dev/null
select is(state(:'good'), 'SUCCESS: good SUCCESS', 'and others are run');
select pawl_saga.start('large sql', '{"x": 1}') from generate_series(1, 2) \g /dev/null
select is((select done from pawl_saga.run_sql_tasks(2)), 2::bigint, 'a run goes on after tasks that all fail');
select done from pawl_saga.run_sql_tasks() \g /dev/null
select pawl_saga.start('large sql', '{"x": 1}'), pawl_saga.start('sql') as good \gset
call pawl_saga.work_sql_tasks(10);
select is(state(:'good'), 'SUCCESS: good SUCCESS', 'also in transactions of their own');
select is((select count(*) from effects), 2::bigint, 'each of them once');
select is_empty($$select * from pawl_saga.verify()$$, 'the counters are right');
select is_empty('select * from pawl.verify()', 'and so are the logs');
select * from finish();
