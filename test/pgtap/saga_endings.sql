-- Every flow ends: in no reachable state of a flow that is being run is nothing claimable, due or waiting. Random flows
-- with deciders, all controllers, failing tasks, failing reverts, suspensions and
-- imported states are driven until nothing is left to do.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/saga.psql
select setseed(0.5) \g /dev/null

-- A failure below a controller that is ignored: all kinds, at all depths, in the flow itself and one flow deeper.
create table cases as
select kind, depth, deeper, pawl_saga.define(jsonb_build_object('flow', 'graph', 'name',
    format('%s %s %s', kind, depth, deeper), 'children', jsonb_build_array(
           jsonb_build_object('task', 'a'),
           jsonb_build_object('flow', 'linear', 'name', 'f', 'retry',
               controller || jsonb_build_object('retry', kind, 'name', 'r'),
                              'children',
                              jsonb_build_array(case when deeper then '{"flow": "linear", "name": "g", "children": '
                                  '[{"task": "t"}]}'::jsonb else '{"task": "t"}' end))),
           'links', jsonb_build_array(jsonb_build_object('from', 'a', 'to', 'f', 'decider', '{"allow": false}'::jsonb,
        'depth', depth)))) as definition
  from (values ('Times', '{"attempts": 2}'::jsonb), ('ForEach', '{"values": [1, 2]}'), ('ParameterizedForEach', '{}'),
      ('AlwaysRevert', '{}'), ('AlwaysRevertAll', '{}')) c(kind, controller),
       unnest('{ATOM,NEIGHBORS,FLOW,ALL}'::text[]) depth, unnest('{false,true}'::bool[]) deeper;
alter table cases add flow uuid;
update cases set flow = pawl_saga.create_flow(definition,
    case kind when 'ParameterizedForEach' then '{"values": [1, 2]}'::jsonb else '{}' end);
select pawl_saga.run(flow) from cases \g /dev/null
select works('execute t') \g /dev/null
select is(state(flow), case when depth = 'ALL' or depth in ('NEIGHBORS', 'FLOW') and not deeper
                            then 'SUCCESS: a SUCCESS, r IGNORE, t IGNORE'
        else 'REVERTED: a REVERTED/REVERT, r IGNORE/REVERT, t REVERTED/REVERT' end,
          format('%s that is ignored, %s%s', kind, depth, case when deeper then ', one flow deeper' end)) from cases
    order by kind, depth, deeper;
select is_empty('select * from pawl_saga.verify()', 'verify finds nothing wrong after the first ending');
delete from pawl_saga.flows;

-- The controller outside is asked instead, and what it says is done; the one that is
-- ignored is as new in the next attempt.
select pawl_saga.define(
        '{"flow": "linear", "name": "outer", "retry": {"retry": "Times", "name": "o", "attempts": 2}, "children": [
    {"flow": "graph", "name": "h", "children": [{"task": "a"}, {"flow": "linear", "name": "f",
        "retry": {"retry": "Times", "name": "r", "attempts": 5}, "children": [{"task": "t"}]}],
     "links": [{"from": "a", "to": "f", "decider": {"allow": false}, "depth": "ATOM"}]}]}') \g /dev/null
select pawl_saga.start('outer') as f \gset
select is(works('execute t'), 'execute a, execute t, revert t, revert a, execute a, execute t, revert t, revert a',
    'the controller outside has its attempts');
select is(state(:'f'), 'REVERTED: o REVERTED/REVERT, a REVERTED/REVERT, r IGNORE/REVERT, t REVERTED/REVERT',
    'and then gives up');
select is((select jsonb_agg(failures order by attempt) from pawl_saga.attempts
    where flow_uuid = :'f' and node = (select node from pawl_saga.retries where flow_uuid = :'f' and name = 'o')),
          '[{"t": {"message": "no"}}, {"t": {"message": "no"}}]', 'its history has the failure of the task');

-- Two retries in front of one task: what one of them has given up is not run by the other's next attempt.
select pawl_saga.define('{"flow": "graph", "name": "join", "children": [
    {"flow": "linear", "name": "f", "retry": {"retry": "AlwaysRevert", "name": "r"}, "children": [{"task": "a"}]},
    {"flow": "linear", "name": "g", "retry": {"retry": "Times", "name": "s", "attempts": 2},
        "children": [{"task": "b"}]}, {"task": "c"}],
    "links": [{"from": "f", "to": "c"}, {"from": "g", "to": "c"}]}') \g /dev/null
select pawl_saga.start('join') as f \gset
select work('{execute a,execute b}'), works() as did \gset
select is(state(:'f'), 'REVERTED: r REVERTED/REVERT, a REVERTED/REVERT, s SUCCESS, b SUCCESS, c PENDING',
    'a task behind a scope that was given up stays PENDING');
select throws_ok(format('select pawl_saga.run(%L)', :'f'), '55000', 'a rerun would discard work that was not reverted',
    'a flow that was reverted in part is not run again');
select is_empty('select * from pawl_saga.verify()', 'verify finds nothing wrong after the second ending');

-- Nodes of one report, counted once: a retry that restarts counts its flow anew, in the
-- middle of what else the report undoes.
create function work_at_once(fails text[] default '{}') returns text language plpgsql as $$
declare did text; reports jsonb;
begin
    select string_agg(c.action || ' ' || c.name, ', '),
           jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
               || case when c.action || ' ' || c.name = any (fails) then '{"failure": {"message": "no"}}'::jsonb
                       else '{"result": 1}' end)
      into did, reports from pawl_saga.claim('w', 'default', 1000) c;
    perform from pawl_saga.report(coalesce(reports, '[]'), 'w');
    return did;
end $$;
select pawl_saga.define('{"flow": "unordered", "name": "side by side", "children": [
    {"flow": "linear", "name": "g", "retry": {"retry": "Times", "name": "s", "attempts": 2},
     "children": [{"task": "x"}, {"flow": "linear", "name": "h", "children": [{"task": "b"}]}]},
    {"flow": "linear", "name": "f", "retry": {"retry": "Times", "name": "r", "attempts": 2},
     "children": [{"task": "a"}]}]}') \g /dev/null
select pawl_saga.start('side by side') as f \gset
select is(work('{}', 1), 'execute x', 'one scope is a task ahead');
select is(work_at_once('{execute a,execute b}'), 'execute b, execute a', 'both scopes fail');
select is(work_at_once(), 'revert b, revert a', 'two retries side by side are undone in one report');
select is_empty('select * from pawl_saga.verify()', 'the restart of one leaves the counters of the other as they are');
select is(works(), 'revert x, execute x, execute b, execute a', 'the other one goes on');
select is(state(:'f'), 'SUCCESS: s SUCCESS, x SUCCESS, b SUCCESS, r SUCCESS, a SUCCESS', 'and the flow ends');

select pawl_saga.define(
        '{"flow": "linear", "name": "nothing to try", "children": [{"task": "a"}, {"flow": "unordered", "name": "u",
    "children": [
    {"flow": "linear", "name": "p", "retry": {"retry": "AlwaysRevert", "name": "o"}, "children": [
        {"flow": "linear", "name": "q", "retry": {"retry": "ForEach", "name": "r", "values": []},
            "children": [{"task": "t"}]}]},
    {"flow": "linear", "name": "h", "children": [{"flow": "linear", "name": "i", "children": [{"task": "w"}]}]}]}]}')
    \g /dev/null
select pawl_saga.start('nothing to try') as f \gset
select is(works(), 'execute a, execute w', 'a scope that fails as it begins leaves the counters beside it as they are');
select is(state(:'f'), 'REVERTED: a SUCCESS, o REVERTED/REVERT, r REVERTED/REVERT, t PENDING/REVERT, w SUCCESS',
          'it alone is given up');

-- A decider ignores what was to be reverted: it is counted forward from then on.
select pawl_saga.define('{"flow": "graph", "name": "turned twice", "children": [
    {"flow": "linear", "name": "f", "retry": {"retry": "AlwaysRevert", "name": "r"}, "children": [{"task": "x"}]},
    {"task": "a"}, {"task": "d"}, {"task": "c"}, {"task": "e"}],
    "links": [{"from": "f", "to": "c"}, {"from": "d", "to": "c"}, {"from": "c", "to": "e"},
              {"from": "a", "to": "d", "decider": {"allow": false}, "depth": "NEIGHBORS"}]}') \g /dev/null
select pawl_saga.start('turned twice') as f \gset
select is(work_at_once('{execute x}'), 'execute x, execute a', 'a scope is given up, then a decider says no');
select is(state(:'f'), 'RUNNING: r SUCCESS/REVERT, x FAILURE/REVERT, a SUCCESS, d IGNORE, c IGNORE, e PENDING/REVERT',
          'a task that was to be reverted is ignored');
select is_empty('select * from pawl_saga.verify()', 'and is counted as that');
select is(works(), 'revert x', 'what failed is undone');
select is(state(:'f'),
    'REVERTED: r REVERTED/REVERT, x REVERTED/REVERT, a SUCCESS, d IGNORE, c IGNORE, e PENDING/REVERT',
          'the flow ends as the scope did');

-- What a decider holds was ready in the same statement: the flow ends all the same.
create schema app;
create function app.raises(jsonb) returns boolean language plpgsql as $$ begin raise 'boom'; end $$;
select pawl_saga.define('{"flow": "graph", "name": "held", "children": [{"task": "a"}, {"task": "w"}, {"task": "d"}],
    "links": [{"from": "a", "to": "w"}, {"from": "a", "to": "d", "decider": {"function": "app.raises"}}]}') \g /dev/null
select pawl_saga.start('held') as f \gset
select is(works(), 'execute a', 'a decider that raises holds what became ready beside it');
select is(state(:'f'), 'FAILURE: a SUCCESS, w PENDING, d PENDING', 'and the flow ends');
select is_empty('select * from pawl_saga.verify()', 'all three are in order');

-- Random flows: 60, or 120 with PAWL_LONG=1.
\set long ''
\getenv long PAWL_LONG
select case :'long' when '' then 60 else 120 end as flows \gset
create sequence names;
create function random_item(depth int) returns jsonb language plpgsql volatile as $$
declare
    shape text := (array['linear', 'unordered', 'graph', 'graph'])[1 + floor(random() * 4)];
    children jsonb := '[]';
    made jsonb;
    n int;
    links jsonb := '[]';
begin
    if depth = 0 or random() < 0.35 then
        return jsonb_build_object('task', 't' || nextval('names'))
            || case floor(random() * 10)::int when 0 then '{"signal": "one"}'::jsonb when 1
                then '{"wait_seconds": 3600}' when 2 then '{"signal": "two", "timeout_seconds": 3600}' else '{}' end;
    end if;
    n := 1 + floor(random() * 3);
    for i in 1 .. n loop
        children := children || random_item(depth - 1);
    end loop;
    made := jsonb_build_object('flow', shape, 'name', 'f' || nextval('names'), 'children', children);
    if random() < 0.6 then
        made := made || jsonb_build_object('retry', case floor(random() * 7)::int
            when 0 then '{"retry": "AlwaysRevert"}'::jsonb when 1 then '{"retry": "AlwaysRevertAll"}'
            when 2 then '{"retry": "Times", "attempts": 2}'
            when 3 then '{"retry": "Times", "attempts": 2, "revert_all": true}'
            when 4 then '{"retry": "Times", "attempts": 2, "backoff": {"base": "1 h"}}'
            when 5 then '{"retry": "ParameterizedForEach"}' else '{"retry": "ForEach", "values": [1, 1, 2]}' end
            || jsonb_build_object('name', 'r' || nextval('names')));
    end if;
    if shape = 'graph' then
        for i in 1 .. n loop
            for k in i + 1 .. n loop
                if random() < 0.6 then
                    links := links || jsonb_build_array(jsonb_build_object('from',
                        coalesce(children -> i - 1 ->> 'name', children -> i - 1 ->> 'task'),
                        'to', coalesce(children -> k - 1 ->> 'name', children -> k - 1 ->> 'task'))
                        || case when random() < 0.6
                            then jsonb_build_object('decider', jsonb_build_object('allow', random() < 0.4),
                                'depth', (array['ALL', 'FLOW', 'NEIGHBORS', 'ATOM'])[1 + floor(random() * 4)])
                                else '{}' end);
                end if;
            end loop;
        end loop;
        made := made || jsonb_build_object('links', links);
    end if;
    return made;
end $$;
create table began as
select pawl_saga.create_flow(
    pawl_saga.define(jsonb_build_object('flow', 'linear', 'name', 'root ' || n, 'children',
        jsonb_build_array(random_item(2), random_item(3)))),
                             '{"values": [1, 2]}', n % 2 = 0, n % 17 = 0) as flow_uuid, n
    from generate_series(1, :flows) n;
select pawl_saga.run(flow_uuid) from began \g /dev/null

-- What another engine may leave behind: states and intentions that no transaction of this one would.
create function import(flow uuid) returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    update pawl_saga.retries r set intention = i.intention, state = i.state
      from (select x.node, (array['RETRYING', 'RETRYING', 'SUCCESS', 'SUCCESS', 'IGNORE', 'RUNNING', 'RETRYING',
              'FAILURE', 'PENDING'])[k] as state,
                   (array['RETRY', 'EXECUTE', 'RETRY', 'REVERT', 'RETRY', 'EXECUTE', 'REVERT', 'EXECUTE', 'EXECUTE'])[k]
                   as intention
              from pawl_saga.retries x, lateral (select 1 + floor(random() * 9)::int + 0 * x.node as k) y
                  where x.flow_uuid = flow and random() < 0.4) i
     where r.flow_uuid = flow and r.node = i.node;
    update pawl_saga.tasks t set intention = i.intention, state = i.state, worker = null, lease_until = null,
        due_at = 'infinity', wait_until = null,
           failure = case i.state when 'FAILURE' then '{"message": "imported"}'::jsonb end,
           result = case i.state when 'SUCCESS' then '1'::jsonb end
      from (select x.node,
          (array['FAILURE', 'FAILURE', 'SUCCESS', 'SUCCESS', 'REVERTED', 'PENDING', 'PENDING', 'IGNORE'])[k] as state,
                   (array['EXECUTE', 'REVERT', 'EXECUTE', 'REVERT', 'REVERT', 'EXECUTE', 'REVERT', 'IGNORE'])[k]
                   as intention
              from pawl_saga.tasks x, lateral (select 1 + floor(random() * 8)::int + 0 * x.node as k) y
                  where x.flow_uuid = flow and random() < 0.3) i
     where t.flow_uuid = flow and t.node = i.node;
    set local session_replication_role = origin;
    perform pawl_saga.resume(flow);
end $$;

create function round(n int) returns bool language plpgsql as $$
declare reports jsonb; did bool;
begin
    select jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
           || case when random() < case c.action when 'execute' then 0.25 else 0.05 end
            then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end) into reports
      from pawl_saga.claim('w', 'default', 1 + (random() * 60)::int) c;
    perform from pawl_saga.report(coalesce(reports, '[]'), 'w');
    did := reports is not null or (select done from pawl_saga.run_sql_tasks()) > 0;
    if random() < 0.2 then
        perform pawl_saga.signal(t.flow_uuid, t.signal) from pawl_saga.tasks t
            where t.wait_until is not null and t.signal is not null and random() < 0.3;
        update pawl_saga.tasks set wait_until = clock_timestamp() where wait_until is not null and random() < 0.3;
        update pawl_saga.retries set due_at = clock_timestamp() where due_at is not null and random() < 0.5;
        perform from pawl_saga.end_waits();
        perform from pawl_saga.begin_attempts();
        did := true;
    end if;
    if n < 40 and random() < 0.3 then
        perform pawl_saga.suspend(f.flow_uuid)
            from (select f.flow_uuid from pawl_saga.flows f where f.state = 'RUNNING' order by random() limit 5) f;
    end if;
    if n < 40 and random() < 0.3 then
        perform import(f.flow_uuid) from (select f.flow_uuid from pawl_saga.flows f
            where f.state in ('RUNNING', 'SUSPENDED', 'SUSPENDING') order by random() limit 3) f;
    end if;
    perform pawl_saga.resume(f.flow_uuid) from pawl_saga.flows f
        where f.state = 'SUSPENDED' and (n >= 40 or random() < 0.5);
    -- claims of one long transaction leave the head of their index, which is full of dead rows, out for a moment
    if not did and exists (select from pawl_saga.tasks
        where due_at is null and state in ('PENDING', 'SUCCESS', 'FAILURE')) then
        perform pg_sleep(0.05);
        did := true;
    end if;
    return did or exists (select from pawl_saga.tasks
        where wait_until is not null and state = 'PENDING' and intention = 'EXECUTE')
               or exists (select from pawl_saga.retries where due_at is not null);
end $$;
create function stuck() returns text language sql as $$
    select string_agg(distinct v.problem || ' (' || coalesce(v.atom, '') || ' of ' || v.flow_uuid || ')', E'\n')
        from pawl_saga.verify() v
     where v.problem
         in ('no work is in progress', 'is ready, and cannot be claimed', 'the number of blockers is wrong') $$;
create function drive(most int, out rounds int, out trouble text) language plpgsql as $$
declare idle int := 0;
begin
    rounds := 0;
    while rounds < most and trouble is null
        and exists (select from pawl_saga.flows where state not in ('SUCCESS', 'FAILURE', 'REVERTED')) loop
        rounds := rounds + 1;
        idle := case when round(rounds) then 0 else idle + 1 end;
        exit when idle > 2 and rounds > 40;  -- what was resumed in the last round is claimed in the next
        if rounds % 4 = 0 then
            trouble := stuck();
        end if;
    end loop;
end $$;
select is(trouble, null, 'at each look every open flow has something under way') from drive(600);
select is((select string_agg(f.state || ': ' || f.flow_uuid, ', ') from pawl_saga.flows f
    where f.state not in ('SUCCESS', 'REVERTED', 'FAILURE')), null, 'every flow ends');
select ok((select count(*) from pawl_saga.flows where state = s) > 1, 'some end in ' || s)
    from unnest('{SUCCESS,REVERTED,FAILURE}'::text[]) s;
select is((select string_agg(problem ->> 'message', ', ') from pawl_saga.flows
    where problem ->> 'message' = 'the flow cannot continue'), null, 'none because it could not go on');
select is_empty('select * from pawl_saga.verify()', 'in a state that the rules allow');
select ok(exists (select from pawl_saga.retry_transitions l where l.to_state = 'IGNORE'), 'controllers were ignored');
select ok(exists (select from pawl_saga.flow_transitions l where l.to_state = 'SUSPENDED'), 'flows were suspended');

-- A statement that names its event: what follows from it takes events of its own, and the engine ends with the flow.
select pawl_saga.define('{"flow": "linear", "name": "named", "children": [{"task": "a"}, {"task": "b"}]}') \g /dev/null
select pawl_saga.start('named') as f \gset
select is((select state || ' ' || coalesce(ended_at::text, 'has not ended') from pawl_saga.runs
    where flow_uuid = :'f'), 'WAITING has not ended', 'the engine waits');
-- The index of claims is full of dead rows of what went before, and its head is left out for a moment.
create function worked(fails text[] default '{}') returns text language plpgsql as $$
declare did text := '';
begin
    for try in 1 .. 1000 loop
        did := work(fails);
        exit when did <> '';
        perform pg_sleep(0.05);
    end loop;
    return did;
end $$;
create function claimed() returns int language plpgsql as $$
declare node int;
begin
    for try in 1 .. 1000 loop
        select c.node into node from pawl_saga.claim('w') c;
        exit when node is not null;
        perform pg_sleep(0.05);
    end loop;
    return node;
end $$;
select is(worked(), 'execute a', 'a task succeeds');
select is(worked('{execute b}'), 'execute b', 'the next one fails');
select is(worked(), 'revert b', 'and is reverted');
select claimed() as node \gset
begin;
set local pawl.processor = 'w';
set local pawl.event = 'reverted';
update pawl_saga.tasks set state = 'REVERTED' where flow_uuid = :'f' and node = :node;
commit;
select is(state(:'f'), 'REVERTED: a REVERTED/REVERT, b REVERTED/REVERT', 'the flow is reverted');
select is((select array_agg(format('%s %s %s', run, state, ended_at between began_at and clock_timestamp()))
    from pawl_saga.runs where flow_uuid = :'f'), '{"1 REVERTED t"}', 'and so says the engine of its run');
-- A task that the owner of the table has hidden from claims by mistake: when nothing else can be done, it is found.
select pawl_saga.define('{"flow": "unordered", "name": "hidden", "children": [{"task": "a"}, {"task": "b"}]}')
    \g /dev/null
select pawl_saga.start('hidden') as f \gset
update pawl_saga.tasks set due_at = 'infinity' where flow_uuid = :'f' and name = 'b';
select is(works(), 'execute a, execute b', 'a task that should be claimable is made so');
select is(state(:'f'), 'SUCCESS: a SUCCESS, b SUCCESS', 'and the flow ends');
select * from finish();
