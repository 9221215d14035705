-- A report and a claim in one call: what it writes is what the two calls write, in fewer row versions.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/saga.psql
select pawl_saga.define('{"flow": "linear", "name": "line", "children": [{"task": "a"},
    {"task": "b", "requires": ["x"]}, {"task": "c"}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "wide", "children": [{"task": "first"},
    {"flow": "unordered", "name": "all", "children": [{"task": "m"}, {"task": "n"}, {"task": "o"}]}]}') \g /dev/null
-- What a worker says of tasks: results, where `failing` names none of them.
create function results_of(tasks jsonb, failing text[] default '{}') returns jsonb language sql as $$
    select coalesce(jsonb_agg(jsonb_build_object('flow_uuid', t->'flow_uuid', 'node', t->'node', 'token', t->'token')
        || case when t->>'name' = any (failing) then '{"failure": {"message": "no"}}'::jsonb
            else jsonb_build_object('result', t->'name') end), '[]')
      from jsonb_array_elements(tasks) t $$;
create function claimed(batch int default 1) returns jsonb language sql as $$
    select coalesce(jsonb_agg(to_jsonb(c)), '[]') from pawl_saga.claim('w', 'default', batch, '1 hour') c $$;
-- The rows of a call; claimed tasks by name.
create function sends(results jsonb, batch int default 1, out answers text, out got text, out tasks jsonb)
language sql as $$
    select string_agg(concat_ws(' ', r.ok::text, r.state, left(r.problem, 5)), ', ') filter (where r.ok is not null),
           coalesce(string_agg(r.action || ' ' || r.name, ', ' order by r.name) filter (where r.ok is null), ''),
           coalesce(jsonb_agg(to_jsonb(r)) filter (where r.ok is null), '[]')
      from pawl_saga.report_and_claim(results, 'w', 'default', batch, '1 hour') r $$;
create function entries(flow uuid) returns text language sql as $$
    select string_agg(format('%s %s %s>%s %s %s', t.name, l.sort_key, l.from_state, l.to_state, l.event, l.processor),
               '; ' order by t.node, l.sort_key)
      from pawl_saga.task_transitions l join pawl_saga.tasks t using (flow_uuid, node) where l.flow_uuid = flow $$;
create function written() returns bigint language sql as $$
    select pg_stat_get_xact_tuples_updated('pawl_saga.tasks'::regclass) $$;
-- Without what differs from flow to flow, and from time to time.
create function rows_of(flow uuid) returns jsonb language sql as $$
    select jsonb_agg(to_jsonb(t) - '{flow_uuid,started_at,lease_until}'::text[] order by node)
      from pawl_saga.tasks t where t.flow_uuid = flow $$;

-- by two calls, and by one
select pawl_saga.start('line', '{"x": 7}') as parts \gset
select claimed() as got \gset
select count(*) from pawl_saga.report(results_of(:'got'), 'w') \g /dev/null
select claimed() as got \gset
select rows_of(:'parts') as halfway \gset
select count(*) from pawl_saga.report(results_of(:'got'), 'w') \g /dev/null
select claimed() as got \gset
select count(*) from pawl_saga.report(results_of(:'got'), 'w') \g /dev/null
select pawl_saga.start('line', '{"x": 7}') as whole \gset
select claimed() as got \gset
begin;
select written() as before \gset
select * from sends(results_of(:'got')) \gset
select is(:'answers'::text, 'true SUCCESS', 'a result is answered');
select is(:'got'::text, 'execute b', 'the next task is claimed');
select is(written() - :before, 2::bigint, 'by one row version of each of the two tasks');
select is((:'tasks'::jsonb)->0->'arguments', '{"x": 7}'::jsonb, 'with its arguments');
select is((:'tasks'::jsonb)->0->'token', '1'::jsonb, 'and with its fencing token');
select is(rows_of(:'whole'), :'halfway'::jsonb, 'the rows are those of two calls');
select ok((select t.lease_until > now() + interval '59 min' and t.started_at > now() - interval '1 min'
    from pawl_saga.tasks t where t.flow_uuid = :'whole' and t.name = 'b'), 'the lease is the one that was asked for');
commit;
select is((select state from pawl_saga.flows where flow_uuid = :'whole'), 'RUNNING', 'the flow goes on');
select * from sends(results_of(:'tasks')) \gset
select * from sends(results_of(:'tasks')) \gset
select is(:'got'::text, '', 'at the end nothing is claimed');
select is(state(:'whole'), 'SUCCESS: a SUCCESS, b SUCCESS, c SUCCESS', 'and the flow has ended');
select is(entries(:'whole'), entries(:'parts'), 'with the same entries');
select is_empty('select * from pawl_saga.verify()', 'the counters are right');

-- as many as are asked for; the others can be claimed
select pawl_saga.start('wide') as wide \gset
select claimed() as got \gset
select * from sends(results_of(:'got'), 2) \gset
select is(jsonb_array_length(:'tasks'), 2, 'two of three tasks are claimed');
select is((select count(*) from pawl_saga.tasks where flow_uuid = :'wide' and state = 'PENDING' and due_at is null),
    1::bigint, 'the third can be claimed');
select * from sends(results_of(:'tasks'), 10) \gset
select is(jsonb_array_length(:'tasks'), 1, 'and is, by the next call');
select * from sends(results_of(:'tasks'), 10) \gset
select is(state(:'wide'), 'SUCCESS: first SUCCESS, m SUCCESS, n SUCCESS, o SUCCESS', 'the flow has ended');
select pawl_saga.start('wide') as wide \gset
select claimed() as got \gset
select * from sends(results_of(:'got'), 3) \gset
select is(:'got'::text, 'execute m, execute n, execute o', 'all three of them, if there is room');
select * from sends(results_of(:'tasks')) \gset
select is(state(:'wide'), 'SUCCESS: first SUCCESS, m SUCCESS, n SUCCESS, o SUCCESS', 'the flow has ended again');

-- what waits is claimed in its order
select pawl_saga.define('{"flow": "linear", "name": "urgent", "children": [{"task": "u", "priority": 1},
    {"task": "v", "priority": 9}]}'), pawl_saga.define('{"task": "waits", "priority": 5}') \g /dev/null
select pawl_saga.start('urgent') as urgent \gset
select claimed() as got \gset
select pawl_saga.start('waits') as waits \gset
select * from sends(results_of(:'got')) \gset
select is(:'got'::text, 'execute v', 'a task of a higher priority precedes one that waits');
select * from sends(results_of(:'tasks'), 10) \gset
select is(:'got'::text, 'execute waits', 'which is next');
select * from sends(results_of(:'tasks'), 10) \gset
-- the first in claim order begins by the write that counts it down, whatever waits behind it
select pawl_saga.start('line', '{"x": 7}') as older \gset
select claimed() as got \gset
select pawl_saga.start('line', '{"x": 7}') as younger \gset
begin;
select written() as before \gset
select * from sends(results_of(:'got'), 2) \gset
select is(:'got'::text, 'execute a, execute b', 'the next task of the older flow, and the first of the younger one');
select is(written() - :before, 3::bigint, 'by one row version of each of the three tasks');
commit;
select jsonb_agg(t) filter (where t->>'name' = 'a') as a, jsonb_agg(t) filter (where t->>'name' = 'b') as b
  from jsonb_array_elements(:'tasks'::jsonb) t \gset
select * from sends(results_of(:'a'), 1) \gset
select is(:'got'::text, 'execute b', 'alone it goes on');
select count(*) from pawl_saga.report(results_of(:'b'), 'w') \g /dev/null
select * from sends(results_of(:'tasks'), 1) \gset
select is(:'got'::text, 'execute c', 'and waits for its turn when a task of the older flow waits');
select is((:'tasks'::jsonb)->0->>'flow_uuid', :'older', 'which is claimed');
select is((select count(*) from pawl_saga.tasks where flow_uuid = :'younger' and state = 'PENDING' and due_at is null),
    1::bigint, 'its own can be claimed');
select * from sends(results_of(:'tasks'), 1) \gset
select * from sends(results_of(:'tasks'), 1) \gset
select is(state(:'younger'), 'SUCCESS: a SUCCESS, b SUCCESS, c SUCCESS', 'until the flow has ended');
-- behind entries of an index that are out of date
select pawl_saga.start('line', '{"x": 7}') as low \gset
select claimed() as got \gset
begin;
select count(pawl_saga.start('waits')) from generate_series(1, 25) \g /dev/null
select claimed(25) as many \gset
select pawl_saga.start('waits') as waits \gset
select * from sends(results_of(:'got')) \gset
select is(:'got'::text, 'execute waits', 'a task of a higher priority is found behind many that were claimed');
commit;
select works() \g /dev/null
select sends(results_of(:'many'), 30) \g /dev/null
select sends(results_of(:'tasks'), 30) \g /dev/null

-- other queues, a paused queue, a suspended flow
select pawl_saga.define('{"flow": "linear", "name": "queues", "children": [{"task": "here"},
    {"task": "there", "queue": "other"}, {"task": "back"}, {"task": "end"}]}') \g /dev/null
select pawl_saga.start('queues') as queues \gset
select claimed() as got \gset
select * from sends(results_of(:'got'), 10) \gset
select is(:'got'::text, '', 'a task of another queue is not claimed');
select jsonb_agg(to_jsonb(c)) as got from pawl_saga.claim('w', 'other') c \gset
select * from sends(results_of(:'got')) \gset
select is(:'got'::text, 'execute back', 'the task behind it is');
select pawl.pause('pawl_saga.tasks', queue => 'default') \g /dev/null
select * from sends(results_of(:'tasks')) \gset
select is(:'answers'::text || :'got', 'true SUCCESS', 'while the queue is paused, a result counts and nothing begins');
select pawl.resume('pawl_saga.tasks', queue => 'default') \g /dev/null
select claimed() as got \gset
select is((:'got'::jsonb)->0->>'name', 'end', 'afterwards it can be claimed');
select sends(results_of(:'got')) \g /dev/null
select pawl_saga.start('line', '{"x": 7}') as held \gset
select claimed() as got \gset
select pawl_saga.suspend(:'held') \g /dev/null
select * from sends(results_of(:'got')) \gset
select is(:'answers'::text || :'got', 'true SUCCESS', 'of a flow that is to be suspended nothing begins');
select is((select state from pawl_saga.flows where flow_uuid = :'held'), 'SUSPENDED', 'and it is suspended');
select pawl_saga.resume(:'held') \g /dev/null
select works() \g /dev/null

-- failures and reverts
select pawl_saga.start('line', '{"x": 7}') as undone \gset
select claimed() as got \gset
select * from sends(results_of(:'got')) \gset
select * from sends(results_of(:'tasks', '{b}')) \gset
select is(:'answers'::text, 'true FAILURE', 'a failure is recorded');
select is(:'got'::text, 'revert b', 'and what is to be reverted is claimed');
select is((:'tasks'::jsonb)->0->'failure'->>'message', 'no', 'with its failure');
select * from sends(results_of(:'tasks')) \gset
select is(:'got'::text, 'revert a', 'and so is the next');
select * from sends(results_of(:'tasks')) \gset
select is((select state from pawl_saga.flows where flow_uuid = :'undone'), 'REVERTED', 'until the flow is reverted');

-- several flows, elements that are rejected, and a result that is reported again
select pawl_saga.start('line', '{"x": 7}') as one, pawl_saga.start('line', '{"x": 7}') as two \gset
select claimed(2) as got \gset
select * from sends(results_of(:'got'), 10) \gset
select is(:'answers'::text, 'true SUCCESS, true SUCCESS', 'results of two flows');
select is(:'got'::text, 'execute b, execute b', 'and the next task of both');
select results_of(:'tasks') as again \gset
select count(*) from pawl_saga.report(:'again', 'w') \g /dev/null
select * from sends(:'again'::jsonb || '[{"node": 1}, 7]'::jsonb, 10) \gset
select is(:'answers'::text, 'true SUCCESS, true SUCCESS, false 22023, false 22023', 'each element has its answer');
select is(:'got'::text, 'execute c, execute c', 'rejected ones do not stop the others');
select is((select string_agg(left(problem, 5), ' ') from pawl_saga.report_and_claim(results_of(:'tasks'), 'other') r
    where not ok), 'PW004 PW004', 'another processor owns none of them');
select sends(results_of(:'tasks'), 10) \g /dev/null
select is(state(:'two'), 'SUCCESS: a SUCCESS, b SUCCESS, c SUCCESS', 'the flows end');

-- a trigger of the owner that lets no task begin does not stop the report
create function not_now() returns trigger language plpgsql as $$ begin
    if new.state = 'RUNNING' and new.name = 'b' then raise 'not now'; end if;
    return new;
end $$;
create trigger not_now before update on pawl_saga.tasks for each row execute function not_now();
select pawl_saga.start('line', '{"x": 7}') as late \gset
select claimed() as got \gset
set client_min_messages = error;
select * from sends(results_of(:'got')) \gset
set client_min_messages = warning;
select is(:'answers'::text || :'got', 'true SUCCESS', 'the result counts, and the next task waits');
drop trigger not_now on pawl_saga.tasks;
select works() \g /dev/null
select is(state(:'late'), 'SUCCESS: a SUCCESS, b SUCCESS, c SUCCESS', 'until it can begin');

-- what waits since this transaction began it, whatever its snapshot is
select pawl_saga.define('{"flow": "linear", "name": "urgent", "children": [{"task": "u", "priority": 5}]}') \g /dev/null
select pawl_saga.start('line', '{"x": 7}') as slow \gset
select claimed() as got \gset
begin isolation level repeatable read;
select count(*) from pawl_saga.flows \g /dev/null
select pawl_saga.start('urgent') as urgent \gset
select * from sends(results_of(:'got')) \gset
select is(:'got'::text, 'execute u', 'a task of a higher priority goes first, also if only this transaction knows it');
commit;
select * from sends(results_of(:'tasks')) \gset
select is(:'got'::text, 'execute b', 'and then the next one of the flow');
select * from sends(results_of(:'tasks')) \gset
select * from sends(results_of(:'tasks')) \gset
select is(state(:'slow'), 'SUCCESS: a SUCCESS, b SUCCESS, c SUCCESS', 'and the flow ends');

-- what only this transaction knows, and its snapshot does not
begin isolation level repeatable read;
select count(*) from pawl_saga.flows \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "own", "children": [{"task": "a"}, {"task": "b"},
    {"task": "c", "requires": ["x"]}]}') \g /dev/null
select pawl_saga.start('own', '{"x": 7}') as own \gset
select claimed() as got \gset
select is((:'got'::jsonb)->0->'arguments', '{}'::jsonb, 'a task that is given nothing');
select * from sends(results_of(:'got')) \gset
select is(:'got'::text, 'execute b', 'the edges of the same transaction are found');
select * from sends(results_of(:'tasks')) \gset
select is((:'tasks'::jsonb)->0->'arguments', '{"x": 7}'::jsonb, 'and what tasks are given');
select * from sends(results_of(:'tasks')) \gset
select is(state(:'own'), 'SUCCESS: a SUCCESS, b SUCCESS, c SUCCESS', 'and the flow ends');
rollback;

-- arguments and rights
select is((select count(*) from pawl_saga.report_and_claim('[]', 'w')), 0::bigint, 'no results and no tasks');
select throws_ok(format('select pawl_saga.report_and_claim(%s)', a), code, null, a || ' is rejected') from (values
    ('null, ''w''', '22023'), ('''{}'', ''w''', '22023'), ('''[]'', null', 'PW004'), ('''[]'', ''''', 'PW004'),
    ('''[]'', ''w'', null', '22004'), ('''[]'', ''w'', batch => 0', '22023'),
    ('''[]'', ''w'', batch => 10001', '22023'), ('''[]'', ''w'', lease => ''0''', '22023')) v(a, code);
set role pawl_worker;
select throws_ok('select pawl_saga.report_and_claim(''[]'', ''w'', ''sql:'')', '42501', null,
    'workers do not claim SQL functions');
select throws_ok($$update pawl_saga.tasks set state = 'RUNNING', blockers = 0 where false$$, '42501', null,
    'and count nothing down');
reset role;
select is_empty('select * from pawl_saga.verify()', 'the counters are right');
select is_empty('select * from pawl.verify()', 'and so are the logs');
select * from finish();
