-- States that another engine left behind are completed by resume; the votes of deciders
-- are counted while a flow is suspending.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;
create function state(flow uuid) returns text language sql as $$
    select f.state || ': ' || string_agg(a.name || ' ' || a.state
        || case a.intention when 'EXECUTE' then '' when a.state then '' else '/' || a.intention end, ', '
            order by a.node)
      from pawl_saga.flows f join pawl_saga.atoms a using (flow_uuid) where f.flow_uuid = flow group by f.state $$;
create function works(variadic fails text[] default '{}') returns text language plpgsql as $$
declare c record; did text[] := '{}';
begin
    for i in 1..100 loop
        select * into c from pawl_saga.claim('w');
        exit when not found;
        did := did || (c.action || ' ' || c.name);
        perform from pawl_saga.report(
            jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
            || case when c.action || ' '
            || c.name = any (fails) then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end), 'w');
    end loop;
    return array_to_string(did, ', ');
end $$;
-- A flow as it was stored: {"atom": "STATE/INTENTION"}; retries that ran have made their first attempt.
create function import(definition jsonb, atoms jsonb, in_state text default 'RUNNING') returns uuid
    language plpgsql as $$
declare flow uuid := pawl_saga.create_flow(pawl_saga.define(definition));
begin
    set local session_replication_role = replica;
    update pawl_saga.tasks t
        set state = split_part(a.v, '/', 1), intention = split_part(a.v, '/', 2), due_at = 'infinity',
           result = case split_part(a.v, '/', 1) when 'SUCCESS' then '1'::jsonb end,
           failure = case when a.v like 'FAILURE/%' then '{"message": "imported"}'::jsonb end
      from jsonb_each_text(atoms) a(k, v) where t.flow_uuid = flow and t.name = a.k;
    update pawl_saga.retries r set state = split_part(a.v, '/', 1), intention = split_part(a.v, '/', 2), value = '1'
      from jsonb_each_text(atoms) a(k, v) where r.flow_uuid = flow and r.name = a.k;
    insert into pawl_saga.attempts (flow_uuid, node, attempt, value) select r.flow_uuid, r.node, 1, '1'
        from pawl_saga.retries r where r.flow_uuid = flow and r.state <> 'PENDING';
    update pawl_saga.flows f set state = in_state where f.flow_uuid = flow;
    set local session_replication_role = origin;
    perform pawl_saga.resume(flow);
    return flow;
end $$;
-- how a flow was stored, what its workers are given then, and how it ends
create table stored (n int generated always as identity, atoms jsonb, did text, ends text);
insert into stored (atoms, did, ends) values
    ('{"r": "RETRYING/RETRY", "a": "REVERTED/REVERT", "b": "REVERTED/REVERT"}', 'execute a, execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "RETRYING/RETRY", "a": "REVERTED/REVERT", "b": "PENDING/REVERT"}', 'execute a, execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "RETRYING/EXECUTE", "a": "REVERTED/REVERT", "b": "PENDING/EXECUTE"}', 'execute a, execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "RETRYING/EXECUTE", "a": "PENDING/EXECUTE", "b": "PENDING/EXECUTE"}', 'execute a, execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "RETRYING/RETRY", "a": "SUCCESS/REVERT", "b": "REVERTED/REVERT"}', 'revert a, execute a, execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "RETRYING/REVERT", "a": "REVERTED/REVERT", "b": "REVERTED/REVERT"}', '',
        'REVERTED: r REVERTED/REVERT, a REVERTED/REVERT, b REVERTED/REVERT'),
    ('{"r": "SUCCESS/RETRY", "a": "FAILURE/EXECUTE", "b": "PENDING/EXECUTE"}', 'revert a, execute a, execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "SUCCESS/RETRY", "a": "SUCCESS/EXECUTE", "b": "FAILURE/EXECUTE"}',
        'revert b, revert a, execute a, execute b', 'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "SUCCESS/RETRY", "a": "SUCCESS/REVERT", "b": "FAILURE/REVERT"}', 'revert b, revert a, execute a, execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "SUCCESS/RETRY", "a": "REVERTED/REVERT", "b": "PENDING/REVERT"}', 'execute a, execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "SUCCESS/EXECUTE", "a": "SUCCESS/EXECUTE", "b": "FAILURE/EXECUTE"}',
        'revert b, revert a, execute a, execute b', 'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "SUCCESS/EXECUTE", "a": "SUCCESS/EXECUTE", "b": "FAILURE/REVERT"}',
        'revert b, revert a, execute a, execute b', 'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "SUCCESS/REVERT", "a": "SUCCESS/EXECUTE", "b": "FAILURE/EXECUTE"}', 'revert b, revert a',
        'REVERTED: r REVERTED/REVERT, a REVERTED/REVERT, b REVERTED/REVERT'),
    ('{"r": "RUNNING/EXECUTE", "a": "PENDING/EXECUTE", "b": "PENDING/EXECUTE"}', 'execute a, execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS'),
    ('{"r": "IGNORE/RETRY", "a": "SUCCESS/REVERT", "b": "REVERTED/REVERT"}', 'revert a',
        'REVERTED: r IGNORE/REVERT, a REVERTED/REVERT, b REVERTED/REVERT'),
    ('{"r": "SUCCESS/REVERT", "a": "REVERT_FAILURE/REVERT", "b": "REVERTED/REVERT"}', '',
        'FAILURE: r SUCCESS/REVERT, a REVERT_FAILURE/REVERT, b REVERTED/REVERT'),
    ('{"r": "SUCCESS/EXECUTE", "a": "SUCCESS/EXECUTE", "b": "IGNORE/IGNORE"}', '',
        'SUCCESS: r SUCCESS, a SUCCESS, b IGNORE'),
    ('{"r": "SUCCESS/EXECUTE", "a": "SUCCESS/EXECUTE", "b": "PENDING/EXECUTE"}', 'execute b',
        'SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS');
create function complete_states(s stored, in_state text) returns text language plpgsql as $$
declare flow uuid := import('{"flow": "linear", "name": "s", "retry": {"retry": "Times", "name": "r", "attempts": 2}, '
        '"children": [{"task": "a"}, {"task": "b"}]}', s.atoms, in_state);
begin
    return works() || ' -> ' || state(flow)
        || coalesce(' ' || (select string_agg(v::text, ', ') from pawl_saga.verify(flow) v), '');
end $$;
select is(complete_states(s, 'RUNNING'), s.did || ' -> ' || s.ends, 'resume completes ' || s.atoms::text) from stored s
    order by s.n;
select is(complete_states(s, 'SUSPENDED'), s.did || ' -> ' || s.ends, 'in a suspended flow as well: ' || s.atoms::text)
    from stored s order by s.n;
-- the failure is in the history of the attempt in which it was decided, once
select import('{"flow": "linear", "name": "s", "retry": {"retry": "Times", "name": "r", "attempts": 2}, "children": '
    '[{"task": "a"}, {"task": "b"}]}',
              '{"r": "SUCCESS/RETRY", "a": "SUCCESS/EXECUTE", "b": "FAILURE/EXECUTE"}') as f \gset
select is((select jsonb_agg(a.failures) from pawl_saga.attempts a where a.flow_uuid = :'f' and a.attempt = 1),
    '[{"b": {"message": "imported"}}]', 'the failure is in the history');
select works() \g /dev/null

-- no controller: a decision to revert everything that was stored in part
select import('{"flow": "unordered", "name": "u", "children": [{"task": "a"}, {"task": "b"}]}',
        '{"a": "SUCCESS/EXECUTE", "b": "FAILURE/REVERT"}') as f \gset
select is(works(), 'revert a, revert b', 'everything is reverted');
select is(state(:'f'), 'REVERTED: a REVERTED/REVERT, b REVERTED/REVERT',
    'though only a part of the decision was stored');

-- Votes while suspending.
create function suspended(definition jsonb, fails text default '') returns uuid language plpgsql as $$
declare flow uuid := pawl_saga.create_flow(pawl_saga.define(definition)); c record;
begin
    perform pawl_saga.run(flow);
    select * into c from pawl_saga.claim('w');
    perform pawl_saga.suspend(flow);
    perform from pawl_saga.report(
        jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
        || case fails when c.name then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end), 'w');
    return flow;
end $$;
create function voting(decider jsonb, more jsonb default '[]') returns jsonb language sql as $$
    select jsonb_build_object('flow', 'graph', 'name', 'g', 'children', '[{"task": "a"}, {"task": "b"}]'::jsonb || more,
                              'links',
        jsonb_build_array('{"from": "a", "to": "b"}'::jsonb || decider)) $$;
select is(state(suspended(voting('{"decider": {"allow": false}}'))), 'SUCCESS: a SUCCESS, b IGNORE',
    'a no is taken while suspending, and nothing is left to do');
select is(state(suspended(voting('{"decider": {"allow": true}}'))), 'SUSPENDED: a SUCCESS, b PENDING',
    'a yes begins nothing');
select suspended(voting('{"decider": {"allow": true}}')) as f \gset
select pawl_saga.resume(:'f') \g /dev/null
select is(works(), 'execute b', 'until the flow is resumed');
select is(state(suspended(voting('{"decider": {"allow": false}, "depth": "ATOM"}', '[{"task": "c"}]'))),
    'SUSPENDED: a SUCCESS, b IGNORE, c PENDING', 'others are ready still');
select is(state(suspended(voting('{"decider": {"function": "public.nowhere"}}'))), 'FAILURE: a SUCCESS, b PENDING',
    'a decider that raises ends the flow while suspending, too');
select is(state(suspended('{"flow": "graph", "name": "c", "children": [{"task": "a"}, {"flow": "linear", "name": "f",
    "retry": {"retry": "Times", "name": "r"}, "children": [{"task": "t"}]}],
    "links": [{"from": "a", "to": "f", "decider": {"allow": false}}]}')), 'SUCCESS: a SUCCESS, r IGNORE, t IGNORE',
    'a retry is voted on as well');
select is(state(suspended('{"flow": "graph", "name": "c", "children": [{"task": "a"}, {"task": "b"}, {"task": "c"}],
    "links": [{"from": "a", "to": "b", "decider": {"allow": false}, "depth": "ATOM"}, {"from": "b", "to": "c",
        "decider": {"allow": false}}]}')),
    'SUSPENDED: a SUCCESS, b IGNORE, c PENDING', 'one after the other: an ignored task has no vote');
select is_empty('select * from pawl_saga.verify()', 'verify finds nothing wrong in imported flows');
select * from finish();
