-- Random structures with random failures, lost workers, signals, waits and suspensions, driven by workers in plain SQL.
-- At every look pawl_saga.verify finds nothing; in the end every flow is in a state that the rules allow, every revert
-- came after those of all that depended on it, and nothing ran twice without a logged reason.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;
select setseed(0.25) \g /dev/null
-- 30 flows, or 60 with PAWL_LONG=1.
\set long ''
\getenv long PAWL_LONG
select case :'long' when '' then 30 else 60 end as flows \gset
create sequence names;
create function random_item(depth int) returns jsonb language plpgsql volatile as $$
declare
    shape text := (array['linear', 'unordered', 'graph'])[1 + floor(random() * 3)];
    children jsonb := '[]';
    made jsonb;
    n int;
    links jsonb := '[]';
begin
    if depth = 0 or random() < 0.45 then
        made := jsonb_build_object('task', 't' || nextval('names'), 'priority', floor(random() * 3)::int);
        return made || case floor(random() * 12)::int when 0 then '{"signal": "one"}'::jsonb
            when 1 then '{"signal": "two", "wait_seconds": 3600}' when 2 then '{"wait_seconds": 3600}'
            when 3 then '{"signal": "one", "revert": "undo"}' when 4 then '{"max_losses": 1}'
            when 5 then '{"max_losses": 2}' else '{}' end;
    end if;
    n := 1 + floor(random() * 4);
    for i in 1 .. n loop
        children := children || random_item(depth - 1);
    end loop;
    made := jsonb_build_object('flow', shape, 'name', 'f' || nextval('names'), 'children', children);
    if random() < 0.5 then
        made := made || jsonb_build_object('retry', case floor(random() * 4)::int
            when 0 then '{"retry": "AlwaysRevert"}'::jsonb when 1 then '{"retry": "AlwaysRevertAll"}'
            when 2 then '{"retry": "Times", "attempts": 3}'
            else '{"retry": "ForEach", "values": [1, 2]}' end || jsonb_build_object('name', 'r' || nextval('names')));
    end if;
    if shape = 'graph' then
        for i in 1 .. n loop
            for k in i + 1 .. n loop
                if random() < 0.4 then
                    links := links || jsonb_build_array(jsonb_build_object('from',
                        coalesce(children -> i - 1 ->> 'name', children -> i - 1 ->> 'task'),
                        'to', coalesce(children -> k - 1 ->> 'name', children -> k - 1 ->> 'task'))
                        || case when random() < 0.3
                            then jsonb_build_object('decider', jsonb_build_object('allow', random() < 0.5),
                                'depth', (array['ALL', 'FLOW', 'NEIGHBORS', 'ATOM'])[1 + floor(random() * 4)])
                                else '{}' end);
                end if;
            end loop;
        end loop;
        made := made || jsonb_build_object('links', links);
    end if;
    return made;
end $$;
create function random_structure(n int) returns jsonb language sql volatile as $$
    select jsonb_build_object('flow', 'linear', 'name', 'root ' || n, 'children',
        jsonb_build_array(random_item(3), random_item(3))) $$;
create table began as
select pawl_saga.create_flow(pawl_saga.define(random_structure(n)), defer_reverts => n % 2 = 0) as flow_uuid, n
from generate_series(1, :flows) n;
select pawl_saga.run(flow_uuid) from began \g /dev/null

create function look(round int) returns setof text language plpgsql as $$
declare reports jsonb; w text := 'w' || round % 4; lost bool := random() < 0.15;
begin
    select jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
           -- every fifth flow fails at nearly everything, also at its reverts
           || case when random() < case when b.n % 5 = 0 then 0.9 when c.action = 'execute' then 0.15 else 0.06 end
            then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end) into reports
      -- the others go on for a while
      from (select c.*, random() as r from pawl_saga.claim(w, 'default', 1 + (random() * 25)::int) c) c
      join began b using (flow_uuid) where r < 0.85;
    if lost then
        -- the worker dies with what it has claimed
        set local session_replication_role = replica;
        update pawl_saga.tasks set lease_until = clock_timestamp() - interval '1 s' where worker = w;
        set local session_replication_role = origin;
        perform from pawl.reap('pawl_saga.tasks');
    end if;
    if round % 3 = 0 then
        select jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token, 'result', 1))
          into reports from pawl_saga.report_and_claim(coalesce(reports, '[]'), w, 'default', 3) c where c.ok is null;
    end if;
    perform from pawl_saga.report(coalesce(reports, '[]'), w);
    perform pawl_saga.signal(t.flow_uuid, case when random() < 0.6 then 'one' else 'two' end) from pawl_saga.tasks t
        where t.wait_until is not null and random() < 0.05;
    if random() < 0.1 then
        update pawl_saga.tasks set wait_until = clock_timestamp() where wait_until is not null and random() < 0.2;
        perform from pawl_saga.end_waits();
    end if;
    perform from pawl_saga.run_sql_tasks();
    if random() < 0.3 then
        perform pawl_saga.suspend(f.flow_uuid)
            from (select f.flow_uuid from pawl_saga.flows f where f.state = 'RUNNING' order by random() limit 5) f;
    end if;
    if random() < 0.2 then
        perform pawl_saga.resume(f.flow_uuid) from (select f.flow_uuid from pawl_saga.flows f
            where f.state in ('RUNNING', 'SUSPENDING') order by random() limit 2) f;
    end if;
    perform pawl_saga.resume(f.flow_uuid) from pawl_saga.flows f where f.state = 'SUSPENDED' and random() < 0.5;
    return query select v.problem || ': ' || coalesce(v.atom, '') from pawl_saga.verify() v where round % 5 = 0;
end $$;
create function drive(most int, out rounds int, out trouble text) language plpgsql as $$
begin
    rounds := 0;
    while rounds < most and trouble is null
        and exists (select from pawl_saga.flows where state not in ('SUCCESS', 'FAILURE', 'REVERTED')) loop
        rounds := rounds + 1;
        select string_agg(l, ', ') into trouble from look(rounds) l;
    end loop;
end $$;
select is(trouble, null, 'nothing is wrong at any look') from drive(3000);
select is((select string_agg(distinct state, ',') from pawl_saga.flows
    where state not in ('SUCCESS', 'REVERTED', 'FAILURE')), null, 'every flow ends');
select ok((select count(*) from pawl_saga.flows where state = s) > 1, 'some end in ' || s)
    from unnest('{SUCCESS,REVERTED,FAILURE}'::text[]) s;
select is_empty('select * from pawl_saga.verify()', 'in a state that the rules allow');
select is_empty('select * from pawl.verify()', 'and the logs agree');
select is_empty($$select t.name from pawl_saga.tasks t join pawl_saga.flows f using (flow_uuid)
    where f.defer_reverts and f.state = 'REVERTED' and t.state = 'SUCCESS'$$,
                'with everything deferred nothing is left of a reverted flow');
select is_empty($$select f.flow_uuid from pawl_saga.flows f
    where f.state = 'FAILURE'
        and not exists (select from pawl_saga.tasks t where t.flow_uuid = f.flow_uuid and t.state = 'REVERT_FAILURE')$$,
                'only a failed revert ends in FAILURE here');
-- which atom depends on which, over everything between
create table depends as
with recursive reach (flow_uuid, definition_uuid, before, after) as (
    select f.flow_uuid, f.definition_uuid, e.from_node, e.to_node from pawl_saga.flows f
    join pawl_saga.edges e using (definition_uuid) where e.from_kind = 'task'
    union select r.flow_uuid, r.definition_uuid, r.before, e.to_node from reach r
    join pawl_saga.edges e on e.definition_uuid = r.definition_uuid and e.from_node = r.after)
select r.flow_uuid, r.before, r.after from reach r
join pawl_saga.tasks t on t.flow_uuid = r.flow_uuid and t.node = r.after;
create table spans as  -- from RUNNING to the end of what that began: undone, or for ever
select l.flow_uuid, l.node, l.created_at as began, (select min(u.created_at) from pawl_saga.task_transitions u
        where u.flow_uuid = l.flow_uuid and u.node = l.node and u.created_at > l.created_at and u.to_state = 'REVERTED')
    as undone
  from pawl_saga.task_transitions l where l.to_state = 'RUNNING' and l.from_state = 'PENDING';
select is_empty($$select d.before, d.after from depends d
    join spans b on b.flow_uuid = d.flow_uuid and b.node = d.before
    join pawl_saga.task_transitions v on v.flow_uuid = d.flow_uuid and v.node = d.before and v.to_state = 'REVERTING'
        and v.created_at > b.began and (b.undone is null or v.created_at < b.undone)
    join spans a on a.flow_uuid = d.flow_uuid and a.node = d.after and a.began < v.created_at
        and (a.undone is null or a.undone > v.created_at)$$,
    'every revert came after those of all that depended on it');
select is_empty($$select flow_uuid, node from spans group by flow_uuid, node
    having count(*) > 1 + (select count(*) from pawl_saga.task_transitions l where l.flow_uuid = spans.flow_uuid
        and l.node = spans.node and l.to_state = 'PENDING' and l.from_state is not null)$$,
    'nothing ran twice without a reset in between');
select ok((select count(*) from pawl_saga.task_transitions where event = 'lost') > 3, 'workers were lost');
select ok((select count(*) from pawl_saga.task_transitions where event = 'settle') > 0,
    'some while it was decided to revert their work');
select ok((select count(*) from pawl_saga.flow_transitions where to_state = 'SUSPENDED') > 20, 'flows were suspended');
select ok((select count(*) from pawl_saga.signals where taken_by is not null) > 5, 'signals were taken');
select ok(exists (select from pawl_saga.attempts a, jsonb_each(a.failures) f where f.value ->> 'type' = 'lost')
    or exists (select from pawl_saga.tasks where failure ->> 'type' = 'lost'),
          'tasks lost too many workers');
select ok((select count(*) from pawl_saga.task_transitions
    where event = 'fail' and processor = pawl_saga.conductor()::text) > 0, 'signals did not come in time');
select is_empty($$select s.flow_uuid, s.taken_by from pawl_saga.signals s where s.taken_by is not null group by 1, 2
    having count(*) > (select count(*) from pawl_saga.task_transitions l
        where l.flow_uuid = s.flow_uuid and l.node = s.taken_by and l.to_state = 'SUCCESS')$$,
    'no wait took two signals');
-- every state that a task ever had follows from the one before by a transition, and every
-- RUNNING after the first has its reason just before it
select is_empty($$select l.flow_uuid, l.node
    from (select x.*, lag(x.to_state) over w as before, lag(x.event) over w as because from pawl_saga.task_transitions x
        window w as (partition by x.flow_uuid, x.node order by x.sort_key)) l
    where l.to_state = 'RUNNING' and not (l.before = 'PENDING' or l.before = 'RUNNING' and l.event = 'lost')$$,
    'a task that is executed again was reset, or lost its worker');
select is_empty($$select f.flow_uuid from pawl_saga.flows f
    where f.state = 'SUCCESS' and exists (select from pawl_saga.atoms a
        where a.flow_uuid = f.flow_uuid and a.state not in ('SUCCESS', 'IGNORE'))
    or f.state = 'REVERTED' and exists (select from pawl_saga.atoms a
        where a.flow_uuid = f.flow_uuid and (a.state not in ('SUCCESS', 'PENDING', 'REVERTED', 'IGNORE')
            or a.state = 'SUCCESS' and a.intention <> 'EXECUTE'))$$,
    'every end is one that its atoms allow');
select is_empty($$select a.flow_uuid, a.name from pawl_saga.atoms a
    where a.intention is distinct from coalesce((select i.to_intention from pawl_saga.intentions i
    where i.flow_uuid = a.flow_uuid and i.node = a.node order by i.change_uuid desc limit 1), 'EXECUTE')$$,
    'what each atom intends is the newest recorded intention');
-- a new flow is begun as it was made: counting it changes nothing
create function counted_otherwise() returns setof uuid language plpgsql as $$
declare d uuid; f uuid;
begin
    for d in select x.definition_uuid from pawl_saga.definitions x where x.flow_uuid is null loop
        f := pawl_saga.create_flow(d);
        perform pawl_saga._recount(f);
        if not pawl_saga._is_new(f, d) then
            return next d;
        end if;
    end loop;
end $$;
select is_empty('select * from counted_otherwise()', 'what blocks a node of a new flow is known from its definition');
select f.flow_uuid as flow, t.node as second from pawl_saga.flows f join pawl_saga.tasks t using (flow_uuid)
 where f.state = 'PENDING' and t.blockers > 0 limit 1 \gset
update pawl_saga.tasks set blockers = 0 where flow_uuid = :'flow' and node = :second;
select pawl_saga.run(:'flow') \g /dev/null
select cmp_ok((select t.blockers from pawl_saga.tasks t where t.flow_uuid = :'flow' and t.node = :second), '>', 0,
    'one that was not left as it was made is counted');
select is_empty('select * from pawl_saga.verify()', 'and nothing is wrong with it');
select * from finish();
