-- Flows that go on with another definition: atoms are matched by name, new ones are run,
-- those that are gone are kept and left alone.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;
create function state(flow uuid) returns text language sql as $$
    select f.state || ': ' || string_agg(a.name || ' ' || a.state || case when a.dropped then ' (dropped)' else '' end,
            ', ' order by a.node)
        from pawl_saga.flows f join pawl_saga.atoms a using (flow_uuid) where f.flow_uuid = flow group by f.state $$;
create function work(fails text default '') returns text language plpgsql as $$
declare c record; did text[] := '{}';
begin
    for c in select * from pawl_saga.claim('w', 'default', 1) loop
        did := did || (c.action || ' ' || c.handler);
        perform from pawl_saga.report(
            jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
            || case when c.name = fails and c.action = 'execute' or c.action || ' ' || c.name = fails
                then '{"failure": {"message": "no"}}'::jsonb else jsonb_build_object('result', c.name) end), 'w');
    end loop;
    return array_to_string(did, ', ');
end $$;
create function works(fails text default '') returns text language plpgsql as $$
declare did text[] := '{}'; one text;
begin
    loop
        one := work(fails);
        exit when one = '';
        did := did || one;
    end loop;
    return array_to_string(did, ', ');
end $$;
create function steps(variadic names text[]) returns jsonb
    language sql as $$ select jsonb_agg(jsonb_build_object('task', n)) from unnest(names) n $$;
create function define(steps jsonb, more jsonb default '{}') returns uuid language sql as $$
    select pawl_saga.define(jsonb_build_object('flow', 'linear', 'name', 'x', 'children', steps) || more) $$;

-- one more task in front, one in the middle, one at the end of a flow that has succeeded
select define(steps('a', 'b')) as first \gset
select pawl_saga.start('x') as f \gset
select pawl_saga.define('{"task": "other"}') as other \gset
select throws_ok(format('select pawl_saga.alter_flow(%L, %L)', :'f', :'other'), '55000', null,
    'a flow that runs is not altered');
select works() \g /dev/null
select define(steps('z', 'a', 'm', 'b', 'q')) as second \gset
select pawl_saga.alter_flow(:'f') as own \gset
select is((select made_from from pawl_saga.definitions where definition_uuid = :'own'), :'second'::uuid,
    'altered to the newest version');
select is(state(:'f'), 'SUCCESS: a SUCCESS, b SUCCESS, z PENDING, m PENDING, q PENDING', 'what is new is pending');
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'),
    'verify finds nothing wrong before the altered flow runs again');
select is(pawl_saga.run(:'f'), 'RUNNING', 'a flow with an added task can be run again');
select is(works(), 'execute z, execute m, execute q', 'what is new is done, in its order, and nothing else');
select is(state(:'f'), 'SUCCESS: a SUCCESS, b SUCCESS, z SUCCESS, m SUCCESS, q SUCCESS', 'to the end');
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'),
    'verify finds nothing wrong after the altered flow ran');
select pawl_saga.start('x') as g \gset
select is((select definition_uuid from pawl_saga.flows where flow_uuid = :'g'), :'second'::uuid,
    'other flows begin with the version itself');
select is(define(steps('z', 'a', 'm', 'b', 'q')), :'second'::uuid, 'which is the newest still');
select throws_ok(format('select pawl_saga.create_flow(%L)', :'own'), 'PW008', null,
    'and no other flow begins with a version that belongs to one flow');

-- what is new fails: everything is reverted, in the order that holds now
select works('m') as did \gset
select is(:'did'::text, 'execute z, execute a, execute m, revert m, revert a, revert z', 'a flow of the new version');
select define(steps('a', 'b', 'c')) \g /dev/null
select pawl_saga.start('x') as f \gset
select works() \g /dev/null
select define(steps('a', 'n', 'b', 'c')) \g /dev/null
select pawl_saga.alter_flow(:'f') \g /dev/null
select pawl_saga.run(:'f') \g /dev/null
select is(works('n'), 'execute n, revert c, revert b, revert n, revert a',
    'those that were done behind it are undone before it');
select is(state(:'f'), 'REVERTED: a REVERTED, b REVERTED, c REVERTED, n REVERTED', 'all of them');

-- suspended, and a task is gone
select define(steps('a', 'b', 'c')) \g /dev/null
select pawl_saga.start('x') as f \gset
select is(work() || ', ' || work(), 'execute a, execute b', 'two are done');
select pawl_saga.suspend(:'f') \g /dev/null
select define(steps('a', 'd')) as shorter \gset
update pawl_saga.flows set definition_uuid = :'shorter' where flow_uuid = :'f';
select is(state(:'f'), 'SUSPENDED: a SUCCESS, b SUCCESS (dropped), c PENDING (dropped), d PENDING',
    'altered by plain SQL');
select is(pawl_saga.resume(:'f'), 'RUNNING', 'an altered flow can be resumed');
select is(works('d'), 'execute d, revert d, revert a', 'what is gone is neither run nor reverted');
select is(state(:'f'), 'REVERTED: a REVERTED, b SUCCESS (dropped), c PENDING (dropped), d REVERTED',
    'and stays as it is');
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'),
    'verify finds nothing wrong after a flow was altered while suspended');
select define(steps('c', 'a')) \g /dev/null
select pawl_saga.alter_flow(:'f') \g /dev/null
select pawl_saga.reset(:'f', 'with c again') \g /dev/null
select pawl_saga.run(:'f') \g /dev/null
select is(works(), 'execute c, execute a', 'a name that comes back is the atom that it was');
select is((select failures from (select pawl_saga.failures(:'f') as failures) x), '{"d": {"message": "no"}}',
    'the failure of what is gone is still reported');

-- a handler that was wrong is put right: a failed revert is tried again with another one
select pawl_saga.define(
        '{"flow": "linear", "name": "r", "children": [{"task": "a", "revert": "wrong"}, {"task": "b"}]}') \g /dev/null
select pawl_saga.start('r') as f \gset
select work() \g /dev/null
create function fail_both() returns text language plpgsql as $$
declare c record;
begin
    for c in select * from pawl_saga.claim('w', 'default', 1) loop
        perform from pawl_saga.report(
                jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token,
                    'failure', '{"message": "no"}'::jsonb)), 'w');
    end loop;
    return null;
end $$;
select fail_both(), work(), fail_both() \g /dev/null
select is(state(:'f'), 'FAILURE: a REVERT_FAILURE, b REVERTED', 'a revert fails');
select pawl_saga.define('{"flow": "linear", "name": "r", "children": [{"task": "b"}]}') as without \gset
select throws_ok(format('select pawl_saga.alter_flow(%L, %L)', :'f', :'without'), '55000', null,
    'what failed to be undone is not forgotten');
select pawl_saga.define(
        '{"flow": "linear", "name": "r", "children": [{"task": "a", "revert": "right"}, {"task": "b"}]}') \g /dev/null
select pawl_saga.alter_flow(:'f') \g /dev/null
select is(pawl_saga.retry_revert(:'f', 'a', 'corrected'), 'RUNNING',
    'the revert of an altered task can be tried again');
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'), 'a revert that can be claimed again is progress');
select is(work(), 'revert right', 'as it is written now');
select is((select state from pawl_saga.flows where flow_uuid = :'f'), 'REVERTED', 'to the end');

-- a retry round what is there
select define(steps('a', 'b')) \g /dev/null
select pawl_saga.start('x') as f \gset
select work() \g /dev/null
select pawl_saga.suspend(:'f') \g /dev/null
select define(steps('a', 'b'), '{"retry": {"retry": "Times", "name": "again", "attempts": 2}}') \g /dev/null
select pawl_saga.alter_flow(:'f') \g /dev/null
select is(pawl_saga.resume(:'f'), 'RUNNING', 'a retry is new');
select is(work('b'), 'execute b', 'task b is executed, and fails');
select is(works(), 'revert b, revert a, execute a, execute b', 'it is tried again');
select is(state(:'f'), 'SUCCESS: a SUCCESS, b SUCCESS, again SUCCESS', 'to the end');

select define(steps('a', 'again')) as odd \gset
select throws_ok(format('select pawl_saga.alter_flow(%L, %L)', :'f', :'odd'), '22023', null,
    'a retry does not become a task');
select throws_ok(format('select pawl_saga.alter_flow(%L, %L)', :'f', pawl.uuid_v7()), 'PW008', null,
    'an unknown definition');
select throws_ok(format('select pawl_saga.alter_flow(%L)', pawl.uuid_v7()), 'P0002', null, 'an unknown flow');
-- what is added to a flow that is being reverted does not run forward
create function halfway(more jsonb, children jsonb, variadic fails text[]) returns uuid language plpgsql as $$
declare f uuid; c record;
begin
    f := pawl_saga.create_flow(define(children, more));
    perform pawl_saga.run(f);
    for i in 1..20 loop
        select * into c from pawl_saga.claim('w');
        exit when c.action = 'revert' or not found;
        perform from pawl_saga.report(
            jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
            || case when c.name = any (fails) then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end),
            'w');
    end loop;
    perform pawl_saga.suspend(f);
    if c.action = 'revert' then
        perform from pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node,
            'token', c.token, 'result', 1)), 'w');
    end if;
    return f;
end $$;
select halfway('{}', steps('a', 'b'), 'b') as f \gset
select define(steps('z', 'a', 'm', 'b', 'y')) \g /dev/null
select pawl_saga.alter_flow(:'f') \g /dev/null
select is(pawl_saga.resume(:'f'), 'RUNNING', 'a revert goes on');
select is(works(), 'revert a', 'with nothing of what is new');
select is(state(:'f'), 'REVERTED: a REVERTED, b REVERTED, z PENDING, m PENDING, y PENDING', 'to the end');
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'),
    'verify finds nothing wrong after a task was dropped');
-- a part of the flow is given up: what is added in it, behind it, or in front of nothing else
\set scope '{"flow": "linear", "name": "in", "retry": {"retry": "AlwaysRevert", "name": "r"}, "children": [{"task": "b"}, {"task": "c"}]}'
select halfway('{}', jsonb_build_array('{"task": "a"}'::jsonb, :'scope'::jsonb), 'c') as f \gset
select define(jsonb_build_array('{"task": "a"}'::jsonb, '{"task": "n"}'::jsonb,
        jsonb_set(:'scope', '{children}', steps('b', 'm', 'c')), '{"task": "z"}'::jsonb)) \g /dev/null
select pawl_saga.alter_flow(:'f') \g /dev/null
select pawl_saga.resume(:'f') \g /dev/null
select is(works(), 'revert b', 'nothing of what is new is executed');
select is(state(:'f'), 'REVERTED: a SUCCESS, r REVERTED, b REVERTED, c REVERTED, n PENDING, m PENDING, z PENDING',
    'what was done before it stays');
-- a scope that is tried again: what is new in it runs in the next attempt, not before
select halfway('{"retry": {"retry": "Times", "name": "r", "attempts": 2}}', steps('a', 'b'), 'b') as f \gset
select define(steps('a', 'n', 'b'), '{"retry": {"retry": "Times", "name": "r", "attempts": 2}}') \g /dev/null
select pawl_saga.alter_flow(:'f') \g /dev/null
select pawl_saga.resume(:'f') \g /dev/null
select is(works(), 'revert a, execute a, execute n, execute b', 'in the next attempt it is executed');
select is_empty('select * from pawl_saga.verify()', 'verify finds nothing wrong in all altered flows');
-- a task that was reverted, and comes back when the flow went on without it
select define(steps('a', 'b')) as both \gset
select define(steps('b')) as one \gset
select pawl_saga.create_flow(:'both') as f \gset
select pawl_saga.run(:'f') \g /dev/null
select works('b') \g /dev/null
select pawl_saga.alter_flow(:'f', :'one'), pawl_saga.reset(:'f', 'alone'), pawl_saga.run(:'f') \g /dev/null
select is(works() || ', ' || state(:'f'), 'execute b, SUCCESS: a REVERTED (dropped), b SUCCESS', 'it was reverted');
select pawl_saga.alter_flow(:'f', :'both') \g /dev/null
select is(state(:'f'), 'SUCCESS: a PENDING, b SUCCESS', 'a task that comes back reverted is pending');
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'), 'verify finds nothing wrong with that');
select is(pawl_saga.run(:'f') || ' ' || works() || ' ' || state(:'f'),
    'RUNNING execute a SUCCESS: a SUCCESS, b SUCCESS', 'and it is executed');
-- in a scope that was tried again without it
\set again '{"retry": {"retry": "Times", "name": "r", "attempts": 2}}'
select define(steps('b'), :'again') as one \gset
select halfway(:'again', steps('a', 'b', 'c'), 'c') as f \gset
select is(state(:'f'), 'SUSPENDED: r SUCCESS, a SUCCESS, b SUCCESS, c REVERTED', 'one is reverted, two are to be');
select pawl_saga.alter_flow(:'f', :'one') \g /dev/null
select pawl_saga.resume(:'f') \g /dev/null
select is(works() || ', ' || state(:'f'),
    'revert b, execute b, SUCCESS: r SUCCESS, a SUCCESS (dropped), b SUCCESS, c REVERTED (dropped)',
    'a flow goes on without tasks');
select define(steps('a', 'b'), :'again') as more \gset
select pawl_saga.alter_flow(:'f', :'more') \g /dev/null
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'), 'a task that was to be reverted comes back');
select is((select intention::text from pawl_saga.atoms where flow_uuid = :'f' and name = 'a'), 'EXECUTE',
    'and no longer is');
select is(pawl_saga.run(:'f') || ' ' || state(:'f'), 'SUCCESS SUCCESS: r SUCCESS, a SUCCESS, b SUCCESS, '
    'c REVERTED (dropped)', 'the flow has ended as it was');
-- taken out and put back at once, while its scope is reverted
select halfway(:'again', steps('a', 'b', 'c'), 'c') as f \gset
select define(steps('a', 'b', 'c'), :'again') as all_three \gset
select pawl_saga.alter_flow(:'f', :'one'), pawl_saga.alter_flow(:'f', :'all_three') \g /dev/null
select pawl_saga.resume(:'f') \g /dev/null
select is(works(), 'revert b, revert a, execute a, execute b, execute c', 'it is reverted all the same');
-- dropped after it had failed, and back in a flow that was reverted without it
select define(steps('a', 'b'), :'again') as tried \gset
select define(steps('a'), :'again') as without \gset
select define(steps('x')) as other \gset
select pawl_saga.create_flow(:'tried') as f \gset
select pawl_saga.run(:'f') \g /dev/null
select work(), work('b') \g /dev/null
select pawl_saga.suspend(:'f') \g /dev/null
select is(state(:'f'), 'SUSPENDED: r SUCCESS, a SUCCESS, b FAILURE',
    'one has failed, and is to be reverted');
select pawl_saga.alter_flow(:'f', :'other'), pawl_saga.run(:'f'), pawl_saga.revert(:'f', 'a test') \g /dev/null
select throws_ok(format('select pawl_saga.alter_flow(%L, %L)', :'f', :'tried'), '55000',
    'b was dropped when it had failed: it cannot come back to a flow that is REVERTED',
    'what failed does not come back to a flow that is REVERTED');
select pawl_saga.alter_flow(:'f', :'without') \g /dev/null
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'), 'what had succeeded does');
select pawl_saga.reset(:'f', 'a test'), pawl_saga.run(:'f') \g /dev/null
select is(works() || ', ' || state(:'f'), 'execute a, SUCCESS: r SUCCESS, a SUCCESS, b FAILURE (dropped), x PENDING '
    '(dropped)', 'and the flow can be reset');
select pawl_saga.alter_flow(:'f', :'tried') \g /dev/null
select is_empty(format('select * from pawl_saga.verify(%L)', :'f'), 'a flow that is SUCCESS gets the failure back');
select is(pawl_saga.run(:'f') || ' ' || works(), 'RUNNING revert b, revert a, execute a, execute b',
    'and deals with it');

create role altering in role pawl_worker;
set role altering;
select throws_ok(format('select pawl_saga.alter_flow(%L)', :'f'), '42501', null, 'a worker alters nothing');
select throws_ok(format('update pawl_saga.flows set definition_uuid = %L where flow_uuid = %L', :'odd', :'f'), '42501',
    null, 'not by plain SQL either');
reset role;
select is_empty('select * from pawl_saga.verify()', 'nothing is wrong');
select is_empty('select * from pawl.verify()', 'nor with the logs');
select * from finish();
