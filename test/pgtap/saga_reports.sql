-- What a worker is given, and what counts as its answer.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_saga;

-- inject gives values for names that the task requires, and no others
select pawl_saga.define('{"flow": "linear", "name": "i", "children": [
    {"task": "a", "requires": ["x"], "optional": ["o"], "inject": {"x": 1, "o": 2, "other": 3}},
        {"task": "b", "rebind": {"p": "y"}, "inject": {"y": 4, "p": 5}}, {"task": "c", "inject": {"x": 1}}]}')
    \g /dev/null
select pawl_saga.start('i') as f \gset
select is(pawl_saga.arguments(:'f', node), expected::jsonb, 'arguments of ' || name)
  from pawl_saga.tasks join (values ('a', '{"x": 1, "o": 2}'), ('b', '{"p": 4}'), ('c', '{}')) e(name, expected)
  using (name) where flow_uuid = :'f';
select pawl_saga.suspend(:'f') \g /dev/null
\setenv PGDATABASE :DBNAME
\set said `psql -XAtqc "select pawl_saga.define(structure) from pawl_saga.definitions where name = 'i'" 2>&1`
select matches(:'said'::text, 'WARNING:  flow "i" injects values that are not required
DETAIL:  Injected are "other" into "a", "p" into "b", "x" into "c"; these values are not used.
HINT:  name it in "requires"', 'unknown injected values are reported');
\set said `psql -XAtqc "select pawl_saga.define('{\"task\": \"t\", \"requires\": [\"x\"], \"inject\": {\"x\": 1}}')" 2>&1`
select unalike(:'said'::text, '%WARNING%', 'and only that');

-- An outcome that is sent again is ok again; any other than the recorded one is PW005.
create function claimed() returns jsonb
    language sql as $$ select jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
        from pawl_saga.claim('w') c $$;
create function say(task jsonb, said jsonb) returns text
    language sql as $$ select r.ok || coalesce(' ' || r.problem, '') || ' ' || coalesce(r.state, '')
        from pawl_saga.report(jsonb_build_array(task || said), 'w') r $$;
select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"task": "a"}, {"task": "b"}]}') \g /dev/null
select pawl_saga.start('f') as f \gset
select claimed() as a \gset
-- a failure that is null is none; it does not say that there is a result
select is(say(:'a', '{"failure": null}'), 'false 22023 a failure must not be null ', 'a null failure is neither');
select is(say(:'a', '{"result": 1, "failure": {"message": "no"}}'),
    'false 22023 an element must have a result or a failure, not both ',
    'a report with a result and a failure is rejected');
select is((select r.flow_uuid::text || ' ' || r.node
    from pawl_saga.report(jsonb_build_array(:'a'::jsonb || '{"failure": null}'), 'w') r),
    :'f' || ' ' || (:'a'::jsonb ->> 'node'), 'the answer names its task');
select is(say(:'a', '{"result": {"n": 1}, "failure": null}'), 'true SUCCESS',
    'a report with a result and a null failure is a success');
select is(say(:'a', '{"result": {"n": 1}}'), 'true SUCCESS', 'a success that is reported again is accepted');
select is(say(:'a', '{"result": {"n": 1.0}, "note": "x"}'), 'true SUCCESS', 'compared by value');
select is(say(:'a', said), 'false PW005 the task already has another outcome SUCCESS',
    said::text || ' was not recorded')
  from unnest(array['{"result": {"n": 2}}', '{"result": null}', '{"result": "1"}']::jsonb[]) said;
select is(say(:'a', '{}'),
    'false 22023 an element must have a result or a failure; only a revert can be reported without SUCCESS',
    'nor is nothing');
select is((select left(problem, 5) from pawl_saga.report(jsonb_build_array(:'a'::jsonb || '{"result": {"n": 1}}'),
    'w2')), 'PW005', 'another processor has not reported it');
select is(say(:'a', '{"failure": {"message": "no"}}'), 'false PW005 the task already has another outcome SUCCESS',
    'nor is a failure after the success');
select is((select result from pawl_saga.tasks where flow_uuid = :'f' and name = 'a'), '{"n": 1}', 'what counted stays');
select claimed() as b \gset
select is(say(:'b', '{"result": null, "failure": {"message": "no"}}'), 'true FAILURE',
    'a report with a failure and a null result is a failure');
select is(say(:'b', '{"failure": {"message": "no"}}'), 'true FAILURE', 'a failure that is reported again is accepted');
select is(say(:'b', '{"failure": {"message": "no", "type": "x"}}'),
    'false PW005 the task already has another outcome FAILURE', 'another failure was not recorded');
select is(say(:'b', '{"result": 1}'), 'false PW005 the task already has another outcome FAILURE',
    'nor is a result after the failure');
select is(say(:'b', '{}'),
    'false 22023 an element must have a result or a failure; only a revert can be reported without FAILURE',
    'an empty one neither');
select claimed() as b \gset
select is(say(:'b', '{"result": "undone"}'), 'true REVERTED', 'the result of a revert is accepted');
select is(say(:'b', '{"result": "undone"}'), 'true REVERTED', 'a revert that is reported again is accepted');
select is(say(:'b', '{}'), 'false PW005 the task already has another outcome REVERTED',
    'another revert result was not recorded');
select is(say(:'b', '{"failure": {"message": "late"}}'), 'false PW005 the task already has another outcome REVERTED',
    'a failure after the revert is not recorded');
select claimed() as a \gset
select is(say(:'a', '{"failure": {"message": "stuck"}}'), 'true REVERT_FAILURE', 'a revert fails');
select is(say(:'a', '{"failure": {"message": "stuck"}}'), 'true REVERT_FAILURE',
    'a failed revert that is reported again is accepted');
select is(say(:'a', '{"failure": {"message": "stuck more"}}'),
    'false PW005 the task already has another outcome REVERT_FAILURE', 'another failure was not recorded');
select is(say(:'a', '{"result": "undone"}'), 'false PW005 the task already has another outcome REVERT_FAILURE',
    'it was not undone');
-- an execution without an outcome is rejected, alone; a revert is done without one
select pawl_saga.start('f') as f \gset
select pawl_saga.start('f') as g \gset
select jsonb_object_agg(case c.flow_uuid when :'f' then 'f' else 'g' end,
    jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)) as both
    from pawl_saga.claim('w', batch => 2) c \gset
select results_eq(
        format($$select ok, problem, state
            from pawl_saga.report(jsonb_build_array(%L::jsonb -> 'f', (%1$L::jsonb -> 'g') || '{"result": 1}'), 'w')
            order by ok$$, :'both'),
    $$values (false, '22023 an element must have a result or a failure; only a revert can be reported without',
        'RUNNING'), (true, null, 'SUCCESS')$$, 'an element without an outcome is rejected, and the other counts');
select is(say(:'both'::jsonb -> 'f', '{"note": "done"}'),
    'false 22023 an element must have a result or a failure; only a revert can be reported without RUNNING',
    'another field is no outcome');
select is((select result from pawl_saga.tasks where flow_uuid = :'f' and name = 'a'), null, 'nothing is recorded');
select is(say(:'both'::jsonb -> 'f', '{"result": null}'), 'true SUCCESS', 'a result that is null is one');
select is(say(:'both'::jsonb -> 'f', '{"result": null}'), 'true SUCCESS',
    'a null result that is reported again is accepted');
select claimed() as b \gset
select is(say(:'b', '{"failure": {"message": "no"}}'), 'true FAILURE', 'a failure, and all is reverted');
select claimed() as b \gset
select is(say(:'b', '{}'), 'true REVERTED', 'a revert without a result');
select is(say(:'b', '{}'), 'true REVERTED', 'a revert reported again as {} is accepted');
select pawl_saga.suspend(x) from unnest(array[:'f', :'g']::uuid[]) x \g /dev/null
select pawl_saga.suspend(:'f') \g /dev/null

-- a failure that the database recorded is not the worker's report
select pawl_saga.define('{"flow": "linear", "name": "t", "children": [{"task": "a", "timeout_seconds": 1}]}')
    \g /dev/null
select pawl_saga.start('t') as t \gset
select claimed() as a \gset
update pawl_saga.tasks set timeout_at = now() - interval '1 s' where flow_uuid = :'t';
select pawl_saga.time_out_tasks() \g /dev/null
select jsonb_build_object('token', token, 'failure', failure) as timed_out from pawl_saga.tasks
    where flow_uuid = :'t' \gset
select is(say(:'a', :'timed_out'), 'false PW005 the task already has another outcome FAILURE',
    'a timeout is not the worker''s failure');
select pawl_saga.suspend(:'t') \g /dev/null
select pawl_saga.resume(:'f') \g /dev/null

-- of several elements for one task each has its answer, in their order
select pawl_saga.start('f') as g \gset
select jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token) as c
    from pawl_saga.claim('w', batch => 10) c where c.flow_uuid = :'g' \gset
select is((select string_agg(r.ok || ' ' || coalesce(left(r.problem, 5), ''), ', ' order by n)
    from pawl_saga.report(jsonb_build_array(:'c'::jsonb || '{"token": 0, "result": 7}',
    :'c'::jsonb || '{"result": 8}', :'c'::jsonb || '{"result": 9}', :'c'::jsonb || '{"result": 8}'), 'w')
    with ordinality r(flow_uuid, node, ok, state, problem, n)),
    'false PW005, true , false PW005, true ', 'a stale one, the one that counts, another, and the first again');
select is((select result from pawl_saga.tasks where flow_uuid = :'g' and name = 'a'), '8', 'one was recorded');

-- one malformed element stops no other
select claimed() as b \gset
select results_eq(
    format($$select ok, problem, state from pawl_saga.report(jsonb_build_array('1',
        '{"flow_uuid": "x", "node": 1, "token": 1}'::jsonb, '{"node": 1}'::jsonb,
    %L::jsonb || '{"node": "one"}', %1$L::jsonb || '{"token": "soon"}', %1$L::jsonb || '{"result": 2}'), 'w')
        order by ok, state$$, :'b'),
    $$select false, '22023 flow_uuid, node or token is missing or malformed', null::text from generate_series(1, 5)
        union all select true, null, 'SUCCESS' order by 1, 3$$, 'each is validated alone');

-- what no task may hold, whichever way it is written
select throws_ok('update pawl_saga.tasks set ' || assignment, '23514', null, 'a task does not take ' || assignment)
  from unnest('{progress = 1.5,progress = -1,intention = ''TURN'',max_losses = 0}'::text[]) assignment;
select throws_ok($$insert into pawl_saga.tasks (flow_uuid, node, name, execute, max_losses)
    values (gen_random_uuid(), 1, 'a', 'a', 0)$$, '23514', null, 'nor does a new one without a worker to lose');
-- what follows from one element rejects no other, whatever it raises: here a trigger that lost another task of its own
create function lose() returns trigger language plpgsql as $$ begin
    if tg_argv[0] = 'lost' then
        raise exception 'the lease has expired' using errcode = 'PW005';
    end if;
    perform 1 / 0;
    return null;
end $$;
select pawl_saga.define('{"flow": "unordered", "name": "many", "children": [{"task": "p"}, {"task": "q"},
    {"task": "r"}]}') \g /dev/null
delete from pawl_saga.flows;
create function reported(flows integer, by_exchange boolean, what text, task text default 'q') returns text
language plpgsql as $$
declare said text;
begin
    delete from pawl_saga.flows;
    perform pawl_saga.start('many') from generate_series(1, flows);
    perform from pawl_saga.claim('w', 'default', 100, '1 hour');
    execute format('create trigger lose after update on pawl_saga.tasks for each row
        when (new.state <> old.state and new.name = %L) execute function public.lose(%L)', task, what);
    with results as (
        select jsonb_agg(jsonb_build_object('flow_uuid', t.flow_uuid, 'node', t.node, 'token', t.token,
            case t.name when 'r' then 'failure' else 'result' end, 1) order by t.flow_uuid, t.node) as all_of_them
          from pawl_saga.tasks t where t.name <> 'r' or not by_exchange), answers as (
        select a.* from results r, pawl_saga.report(r.all_of_them, 'w') a where not by_exchange
        union all select a.flow_uuid, a.node, a.ok, a.state, a.problem
          from results r, pawl_saga.report_and_claim(r.all_of_them, 'w') a where by_exchange and a.ok is not null)
    select string_agg(concat_ws(' ', t.name, a.ok::text, a.state, a.problem), ', ' order by a.flow_uuid, a.node)
      into said
      from answers a join pawl_saga.tasks t using (flow_uuid, node);
    drop trigger lose on pawl_saga.tasks;
    return said;
end $$;
select is(reported(1, false, 'lost'), 'p true SUCCESS, q false RUNNING PW005 the lease has expired, r true FAILURE',
    'a task of a flow whose follow-up raises PW005 has a problem of its own');
select is(reported(1, false, 'divide'), 'p true SUCCESS, q false RUNNING 22012 division by zero, r true FAILURE',
    'as with any other error');
select is(reported(1, true, 'lost'), 'p true SUCCESS, q false RUNNING PW005 the lease has expired',
    'and with report_and_claim');
select is(reported(2, by_exchange, 'lost'), 'p true SUCCESS, q false RUNNING PW005 the lease has expired'
        || case when by_exchange then '' else ', r true FAILURE' end
        || ', p true SUCCESS, q false RUNNING PW005 the lease has expired'
        || case when by_exchange then '' else ', r true FAILURE' end,
    format('in several flows the other tasks of each are recorded; in one call with a claim: %s', by_exchange))
  from unnest('{t,f}'::boolean[]) by_exchange;
select is_empty('select * from pawl_saga.verify()', 'the counters match what was recorded');

-- The answers are in the order of the elements, also where they were recorded one by one.
delete from pawl_saga.flows;
create function explode() returns trigger language plpgsql as $$ begin
    if new.result = '"boom"' then raise exception 'boom'; end if; return new; end $$;
create trigger explode before update on pawl_saga.tasks for each row execute function explode();
select pawl_saga.define('{"flow": "unordered", "name": "o", "children": [{"task": "a"}, {"task": "b"}]}') \g /dev/null
select pawl_saga.start('o') from generate_series(1, 3) \g /dev/null
create table mixed as
select row_number() over (order by c.node, c.flow_uuid desc) as place, c.* from pawl_saga.claim('w', batch => 10) c;
create function answers(by_exchange boolean) returns text language plpgsql as $$
declare said text;
begin
    with results as (select jsonb_agg(jsonb_build_object('flow_uuid', m.flow_uuid, 'node', m.node, 'token', m.token,
            'result', case m.place when 3 then 'boom' else 'fine' end) order by m.place) as all_of_them from mixed m),
        answers as (select a.flow_uuid, a.node, a.ok, a.n from results r,
            pawl_saga.report(r.all_of_them, 'w') with ordinality a(flow_uuid, node, ok, state, problem, n)
         where not by_exchange
        union all select a.flow_uuid, a.node, a.ok, a.n from results r, pawl_saga.report_and_claim(r.all_of_them, 'w')
            with ordinality a(flow_uuid, node, ok, state, problem, name, action, handler, token, arguments, result,
            failure, failures, traceparent, tracestate, n) where by_exchange and a.ok is not null)
    select string_agg(m.place || ' ' || a.ok, ', ' order by a.n) into said
      from answers a join mixed m using (flow_uuid, node);
    return said;
end $$;
select is(answers(false), '1 true, 2 true, 3 false, 4 true, 5 true, 6 true', 'of a report, in which one raises');
select is(answers(true), '1 true, 2 true, 3 false, 4 true, 5 true, 6 true', 'and of the same with a claim');
select * from finish();
