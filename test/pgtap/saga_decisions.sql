-- What is decided in a flow: what controllers and deciders say, how far it reaches, and what begins, is retried or is
-- undone then.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/saga.psql

-- What a controller that gives up asks for: the controller outside decides, or all of the flow is undone.
create function runs_inside(controller jsonb) returns text language plpgsql as $$
declare name text := 'inside ' || md5(controller::text);
begin
    perform pawl_saga.define(jsonb_build_object('flow', 'linear', 'name', name,
        'retry', '{"retry": "Times", "name": "o", "attempts": 2}'::jsonb, 'children', jsonb_build_array(
            jsonb_build_object('flow', 'linear', 'name', 'f', 'retry', controller || '{"name": "r"}',
                'children', '[{"task": "t"}]'::jsonb))));
    perform pawl_saga.start(name);
    return works('execute t');
end $$;
select is(runs_inside(controller), case when whole then 'execute t, revert t'
    else 'execute t, revert t, execute t, revert t' end, controller::text || ' in a flow that is retried')
  from (values ('{"retry": "AlwaysRevert"}'::jsonb, false), ('{"retry": "AlwaysRevertAll"}', true),
      ('{"retry": "Times", "attempts": 1}', false), ('{"retry": "Times", "attempts": 1, "revert_all": true}', true),
      ('{"retry": "ForEach", "values": [1]}', false), ('{"retry": "ForEach", "values": [1], "revert_all": true}', true))
      c(controller, whole);
-- Each value is tried once, and as often as the list has it.
select pawl_saga.define('{"flow": "linear", "name": "values", "retry": {"retry": "ForEach", "name": "r",
    "values": [2, 1, 2, 3]}, "children": [{"task": "t"}]}') \g /dev/null
select pawl_saga.start('values') as f \gset
select works('execute t') \g /dev/null
select is((select jsonb_agg(value order by attempt) from pawl_saga.attempts where flow_uuid = :'f'), '[2, 1, 2, 3]',
    'a ForEach tries each value of its list once, in order');

-- A failure that no controller is to resolve: what was done stays.
select pawl_saga.define('{"flow": "linear", "name": "unresolved", "retry": {"retry": "Times", "name": "r",
    "attempts": 3}, "children": [{"task": "a"}, {"task": "t"}]}') \g /dev/null
select pawl_saga.start('unresolved', never_resolve => true) as f \gset
select is(works('execute t'), 'execute a, execute t', 'with never_resolve nothing is retried and nothing is undone');
select is(state(:'f'), 'FAILURE: r SUCCESS, a SUCCESS, t FAILURE', 'and the flow ends in FAILURE');
-- A task that is ignored has no vote: its own decider does not count.
select pawl_saga.define(
        '{"flow": "graph", "name": "voteless", "children": [{"task": "x"}, {"task": "s"}, {"task": "t"}],
    "links": [{"from": "x", "to": "s", "decider": {"allow": false}, "depth": "ATOM"},
        {"from": "s", "to": "t", "decider": {"allow": false}, "depth": "ATOM"}]}') \g /dev/null
select pawl_saga.start('voteless') as f \gset
select is(works(), 'execute x, execute t', 'a task behind one that is ignored runs');
select is(state(:'f'), 'SUCCESS: x SUCCESS, s IGNORE, t SUCCESS', 'whatever the ignored one would say');
-- What deciders look at, how far a no reaches, and that the widest no counts.
create function no_idea(history jsonb) returns boolean language sql as 'select null::boolean';
create function decided(children text, links text) returns text language plpgsql as $$
declare name text := 'decided ' || md5(children || links);
begin
    perform pawl_saga.define(jsonb_build_object('flow', 'graph', 'name', name, 'children', children::jsonb,
        'links', links::jsonb));
    return pawl_saga.start(name)::text || works();
end $$;
create function ended_as(children text, links text) returns text language plpgsql as $$
declare flow uuid := left(decided(children, links), 36)::uuid;
begin
    return state(flow);
end $$;
select is(ended_as('[{"task": "x"}, {"task": "t"}]', '[{"from": "x", "to": "t", "decider": {"function":
    "public.no_idea"}}]'), 'SUCCESS: x SUCCESS, t IGNORE', 'a decider that answers null says no');
select is(ended_as('[{"task": "x"}, {"task": "s"}, {"task": "t"}]', '[{"from": "x", "to": "s", "decider":
    {"when_result_in": [0, 1]}}, {"from": "x", "to": "t", "decider": {"when_result_in": [2]}}]'),
    'SUCCESS: x SUCCESS, s SUCCESS, t IGNORE', 'a decider looks at the result');
create function lets_run(list text, result jsonb) returns boolean language plpgsql as $$
declare
    name text := 'listed ' || md5(list);
    flow uuid;
begin
    perform pawl_saga.define(jsonb_build_object('flow', 'graph', 'name', name, 'children',
        '[{"task": "x"}, {"task": "t"}]'::jsonb, 'links', jsonb_build_array(jsonb_build_object('from', 'x', 'to', 't',
        'decider', jsonb_build_object('when_result_in', list::jsonb)))));
    flow := pawl_saga.start(name);
    perform pawl_saga.report(jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token,
        'result', lets_run.result)), 'w') from pawl_saga.claim('w') c;
    return works() = 'execute t';
end $$;
select is(lets_run(list, result), wanted, format('%s is %s the list %s', result,
        case when wanted then 'in' else 'not in' end, list))
  from (values ('["yes"]', '"yes"'::jsonb, true), ('["yes"]', '"no"', false), ('["yes"]', '[]', false),
        ('["yes"]', '["yes"]', false), ('["yes"]', '{}', false), ('["yes"]', 'null', false), ('[null]', 'null', true),
        ('[{"ok": true}, [1]]', '{"ok": true}', true), ('[{"ok": true}, [1]]', '[1]', true),
        ('[{"ok": true}, [1]]', '[{"ok": true}]', false), ('[{"ok": true}, [1]]', '{}', false),
        ('[{"ok": true}, [1]]', '[[1]]', false), ('[{"ok": true}, [1]]', '[]', false), ('[]', '[]', false),
        ('[1, 2]', '2.0', true), ('"yes"', '"yes"', true), ('"yes"', '["yes"]', false)) v(list, result, wanted);
select is(ended_as('[{"task": "x"}, {"task": "s"}, {"task": "t"}, {"flow": "linear", "name": "f", "retry":
    {"retry": "Times", "name": "r"}, "children": [{"task": "u"}]}]', '[{"from": "x", "to": "s", "decider":
    {"allow": false}, "depth": "NEIGHBORS"}, {"from": "s", "to": "t"}, {"from": "s", "to": "f"}]'),
    'SUCCESS: x SUCCESS, s IGNORE, t IGNORE, r SUCCESS, u SUCCESS', 'a no to neighbors reaches no other flow');
select is(ended_as('[{"task": "x"}, {"task": "s"}, {"task": "t"}, {"task": "v"}, {"flow": "linear", "name": "f",
    "retry": {"retry": "Times", "name": "r"}, "children": [{"task": "u"}]}]', '[{"from": "x", "to": "s", "decider":
    {"allow": false}, "depth": "FLOW"}, {"from": "s", "to": "t"}, {"from": "t", "to": "v"}, {"from": "s", "to": "f"}]'),
    'SUCCESS: x SUCCESS, s IGNORE, t IGNORE, v IGNORE, r SUCCESS, u SUCCESS', 'nor does a no to the flow');
select is(ended_as('[{"task": "x"}, {"task": "y"}, {"task": "t"}, {"task": "u"}]', format('[{"from": "x", "to": "t",
    "decider": {"allow": false}, "depth": %I}, {"from": "y", "to": "t", "decider": {"allow": false}, "depth": %I},
    {"from": "t", "to": "u"}]', one, other)), 'SUCCESS: x SUCCESS, y SUCCESS, t IGNORE, u IGNORE',
    format('of %s and %s the widest counts', one, other))
    from (values ('ATOM', 'ALL'), ('ALL', 'ATOM')) v(one, other);
-- A decider that changes its own flow
create function meddles(results jsonb) returns boolean language plpgsql as $$ begin
    if current_setting('test.meddles') = 'suspend' then
        perform pawl_saga.suspend(f.flow_uuid) from pawl_saga.flows f where f.name = 'meddled' and f.state = 'RUNNING';
    else
        perform pawl_saga.revert(f.flow_uuid, 'no') from pawl_saga.flows f
         where f.name = 'meddled' and f.state = 'RUNNING';
    end if;
    return true;
end $$;
select pawl_saga.define('{"flow": "graph", "name": "meddled", "children": [{"task": "x"}, {"task": "t"}],
    "links": [{"from": "x", "to": "t", "decider": {"function": "public.meddles"}}]}') \g /dev/null
set test.meddles = 'suspend';
select pawl_saga.start('meddled') as f \gset
select is(works(), 'execute x', 'a decider suspends its flow: nothing more begins');
select is(state(:'f'), 'SUSPENDED: x SUCCESS, t PENDING', 'and the flow is suspended');
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'), 'as it is by an operator');
delete from pawl_saga.flows where flow_uuid = :'f';
set test.meddles = 'revert';
select pawl_saga.start('meddled') as f \gset
select is(works(), 'execute x, revert x', 'a decider reverts its flow: what it decides about does not begin');
select is(state(:'f'), 'REVERTED: x REVERTED/REVERT, t PENDING/REVERT', 'and the flow is reverted');
delete from pawl_saga.flows where flow_uuid = :'f';
-- While a flow is being suspended votes are taken, and nothing is begun.
select pawl_saga.define('{"flow": "graph", "name": "votes", "children": [{"task": "x"}, {"task": "y"}, {"task": "t"}],
    "links": [{"from": "x", "to": "t", "decider": {"allow": true}}]}') \g /dev/null
select pawl_saga.start('votes') as f \gset
select jsonb_agg(jsonb_build_object('flow_uuid', flow_uuid, 'node', node, 'token', token, 'result', 1) order by node)
    as claimed from pawl_saga.claim('w', 'default', 10) \gset
select is(pawl_saga.suspend(:'f'), 'SUSPENDING', 'two tasks are under way');
select ok((select r.ok from pawl_saga.report(jsonb_build_array(:'claimed'::jsonb -> 0), 'w') r), 'the first ends');
select is((select due_at::text from pawl_saga.tasks where flow_uuid = :'f' and name = 't'), 'infinity',
    'what it lets run does not begin');
select ok((select r.ok from pawl_saga.report(jsonb_build_array(:'claimed'::jsonb -> 1), 'w') r), 'the second ends');
select is(state(:'f'), 'SUSPENDED: x SUCCESS, y SUCCESS, t PENDING', 'and the flow is suspended');
select pawl_saga.resume(:'f') \g /dev/null
select is(works(), 'execute t', 'it begins when the flow is resumed');
-- A task that waits for two is none for a worker after the first.
select pawl_saga.define('{"flow": "linear", "name": "waits for two", "children": [
    {"flow": "unordered", "name": "u", "children": [{"task": "a"}, {"task": "b"}]}, {"task": "c"}]}') \g /dev/null
select pawl_saga.start('waits for two') as f \gset
select is(work('{}', 1), 'execute a', 'the first is done');
select is((select due_at::text from pawl_saga.tasks where flow_uuid = :'f' and name = 'c'), 'infinity',
    'what waits for the second as well is not ready');
select is(works(), 'execute b, execute c', 'until that is done, too');
-- A revert that fails: no other one is begun.
select pawl_saga.define('{"flow": "linear", "name": "torn", "children": [
    {"flow": "unordered", "name": "u", "children": [{"task": "a"}, {"task": "b"}]}, {"task": "t"}]}') \g /dev/null
select pawl_saga.start('torn') as f \gset
select is(works('execute t', 'revert a'), 'execute a, execute b, execute t, revert t, revert a',
    'after a revert that failed nothing more is undone');
select is(state(:'f'), 'FAILURE: a REVERT_FAILURE/REVERT, b SUCCESS/REVERT, t REVERTED/REVERT',
    'and the flow ends in FAILURE, too');
select is_empty('select * from pawl_saga.verify()', 'verify finds nothing wrong');
select * from finish();
