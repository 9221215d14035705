-- What operators do to tasks and steps, what follows from it, and what workers report.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql

-- a run without trouble
select pawl_dag.start_task('diamond') as task \gset
select work();
select is(state_of(:'task'), 'complete: a complete, b complete, c complete, d complete', 'a diamond runs');
select is((select parents from pawl_dag.step_inputs(array[:'task'::uuid], array[step_of(:'task', 'd')])),
          '{"b": {"state": "complete", "result": {"from": "b"}}, "c": {"state": "complete", "result": {"from": "c"}}}',
          'a step reads the results of its parents');
select throws_ok(format('select pawl_dag.cancel_task(%L)', :'task'), 'PW001', null,
    'what is complete is not cancelled');
select throws_ok($$select pawl_dag.cancel_task('00000000-0000-7000-8000-000000000000')$$, 'P0002', null,
    'nor what is not there');

-- cancelled in the middle, by plain SQL and by the function
select pawl_dag.start_task('diamond') as task \gset
select from pawl_dag.orchestrate();
select task_uuid, step_uuid, token
    from pawl.claim(null::pawl_dag.steps, 'Start', '00000000-0000-7000-8000-00000000000b', queue => 'default') \gset
update pawl_dag.tasks set state = 'cancelled' where task_uuid = :'task';
select is(state_of(:'task'), 'cancelled: a cancelled, b cancelled, c cancelled, d cancelled',
    'a cancelled task cancels its steps');
select is_rows(
    format($$select ok, left(problem, 5)
        from pawl_dag.report(
            jsonb_build_array(jsonb_build_object('task_uuid', %L, 'step_uuid', %L, 'token', %s, 'result', 1)),
                '00000000-0000-7000-8000-00000000000b')$$,
    :'task_uuid', :'step_uuid', :'token'), $$values (false, 'PW005')$$, 'its worker''s token is stale');
select pawl_dag.start_task('diamond') as task \gset
select is(pawl_dag.cancel_tasks(array[:'task'::uuid, :'task_uuid'::uuid], 'no longer wanted'), 1::bigint,
    'what is cancelled already is not counted');
select is((select metadata ->> 'reason' from pawl_dag.task_transitions
    where task_uuid = :'task' and to_state = 'cancelled'), 'no longer wanted', 'the reason is in the log of the task');
select is((select min(metadata ->> 'reason') || count(*) from pawl_dag.step_transitions
    where task_uuid = :'task' and to_state = 'cancelled'), 'no longer wanted4', 'and of its steps');
select is(pawl_dag.cancel_task(:'task'), false, 'once is enough');

-- failed, repaired, in one transaction
select pawl_dag.start_task('diamond') as task \gset
select work('{b}');
select is(state_of(:'task'), 'blocked_by_failures: a complete, b error, c complete, d pending',
    'a permanent error blocks');
select is_rows(format('select reason, resolution_status, original_state from pawl_dag.dlq where task_uuid = %L',
    :'task'),
                  $$values ('max_retries_exceeded'::text, 'pending'::text, 'evaluating_results'::text)$$,
                  'and is recorded');
select is((select task_snapshot #>> '{context,execution_status}' from pawl_dag.dlq where task_uuid = :'task'),
    'blocked_by_failures', 'with a snapshot');
select ok(pawl_dag.retry_task(:'task', 'mended'), 'retry_task retries a task that is blocked by failures');
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'evaluating_results',
    'the last repaired step puts the task back to work');
select is((select attempts from pawl_dag.steps where step_uuid = step_of(:'task', 'b')), 0, 'with all attempts');
select is((select resolution_status || ' ' || resolution_notes from pawl_dag.dlq where task_uuid = :'task'),
    'manually_resolved mended', 'the entry of the dead-letter queue is closed');
select work();
select is(state_of(:'task'), 'complete: a complete, b complete, c complete, d complete', 'and it completes');
select is((select count(*) from pawl_dag.step_transitions
    where step_uuid = step_of(:'task', 'c') and to_state = 'complete'), 1::bigint, 'finished steps kept their results');

-- what fails beside a step in progress blocks at once, or when nothing else can go on
create function fails_beside(policy text, out at_once text, out in_the_end text) language plpgsql as $$
declare worker constant text := '00000000-0000-7000-8000-00000000000b'; task uuid; a jsonb; b jsonb;
begin
    perform pawl_dag.define_template(jsonb_build_object('name', policy, 'failure_policy', policy,
        'steps', '[{"name": "a"}, {"name": "b"}, {"name": "c", "dependencies": ["b"]}]'::jsonb));
    task := pawl_dag.start_task(policy);
    perform from pawl_dag.orchestrate();
    select jsonb_agg(x.said) filter (where x.name = 'a'), jsonb_agg(x.said) filter (where x.name = 'b') into a, b
      from (select c.name, jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token)
              || case c.name when 'a' then '{"error": {"permanent": true}}'::jsonb else '{"result": 1}' end as said
              from pawl.claim(null::pawl_dag.steps, 'Start', worker, batch => 10, queue => 'default') c) x;
    perform from pawl_dag.report(a, worker);
    perform from pawl_dag.orchestrate();
    at_once := state_of(task);
    perform from pawl_dag.report(b, worker);
    perform work();
    in_the_end := state_of(task);
    perform pawl_dag.cancel_task(task);
end $$;
select is_rows($$select * from fails_beside('block')$$, $$values ('blocked_by_failures: a error, b in_progress, '
    'c pending', 'blocked_by_failures: a error, b complete, c pending')$$, 'a template whose policy is block');
select is_rows($$select * from fails_beside('continue')$$, $$values ('waiting_for_dependencies: a error, '
    'b in_progress, c pending', 'blocked_by_failures: a error, b complete, c complete')$$,
    'a template whose policy is continue');

select pawl_dag.start_task('diamond') as task \gset
select work('{b}');
select ok(pawl_dag.complete_step_manually(:'task', step_of(:'task', 'b'), '{"by": "hand"}', 'known anyhow'),
    'completed by hand');
select work();
select is((select parents #> '{b,result}' from pawl_dag.step_inputs(array[:'task'::uuid],
    array[step_of(:'task', 'd')])), '{"by": "hand"}', 'its result is read');
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete', 'the task completes');
select is(pawl_dag.complete_step_manually(:'task', step_of(:'task', 'b'), '{}', 'again'), false,
    'a complete step stays as it is');
select is((select result from pawl_dag.steps where step_uuid = step_of(:'task', 'b')), '{"by": "hand"}',
    'its result too');
select throws_ok(format('select pawl_dag.complete_step_manually(%L, %L, %L, null)', :'task', step_of(:'task', 'b'),
    '{}'), '22004', null, 'a reason is needed');

select pawl_dag.start_task('diamond') as task \gset
select work('{b,c}');
select pawl_dag.resolve_step(:'task', step_of(:'task', 'b'), 'done elsewhere') \g /dev/null
select is((select state from pawl_dag.tasks where task_uuid = :'task'),
    case when (select steps_failed from pawl_dag.tasks where task_uuid = :'task') > 0
          then 'blocked_by_failures' else 'evaluating_results' end,
    'a task is blocked as long as one step is in error');
update pawl_dag.steps set state = 'resolved_manually' where task_uuid = :'task' and state = 'error';
select work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete', 'plain SQL repairs as well');

-- given up, and reset
select pawl_dag.start_task('diamond') as task \gset
select work('{a}');
select ok(pawl_dag.give_up(:'task', 'hopeless'), 'give_up ends a blocked task');
select is(state_of(:'task'), 'error: a error, b pending, c pending, d pending', 'steps stay as they are');
select is((select resolution_status from pawl_dag.dlq where task_uuid = :'task'), 'permanently_failed',
    'the entry says so');
select ok(pawl_dag.reset_task(:'task', 'hope again'), 'reset_task resets a task in error');
select work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete', 'it runs again');

-- steps cancelled by choice
select pawl_dag.start_task('diamond') as task \gset
select throws_ok(format('select pawl_dag.cancel_step(%L, %L, null, %L)', :'task', step_of(:'task', 'b'), 'reject'),
    '55000', null, 'another step waits for it');
select is(pawl_dag.cancel_step(:'task', step_of(:'task', 'b')), 2::bigint, 'it and what is behind it');
select pawl_dag.define_template('{"name": "short", "identity_strategy": "always_unique", "steps": [{"name": "a"}, '
        '{"name": "c", "dependencies": ["a"]}]}') \g /dev/null
select pawl_dag.start_task('short') as whole \gset
begin;
set local pawl.metadata = '{"by": "me"}';
select work();
commit;
select is(state_of(:'task'), 'complete: a complete, b cancelled, c complete, d cancelled', 'the rest completes');
select is((select metadata - '{token,transaction_id}'::text[] from pawl_dag.task_transitions where task_uuid = :'task'
    and to_state = 'complete'), '{"by": "me", "partial": true}', 'and the log says that it is only a part');
select is((select string_agg(distinct nullif(l.metadata - '{token,transaction_id}'::text[], '{}')::text, ' ')
        from pawl_dag.task_transitions l
        where l.task_uuid = :'whole' or l.task_uuid = :'task' and l.to_state = 'evaluating_results'), '{"by": "me"}',
    'of no other move, nor of a task that completes beside it');
select pawl_dag.start_task('diamond') as task \gset
update pawl_dag.steps set state = 'cancelled' where task_uuid = :'task' and name = 'a';
select is_rows(format('select name, cancelled_ancestor from pawl_dag.stranded_steps where task_uuid = %L order by 1',
    :'task'), $$values ('b'::text, 'a'::text), ('c', 'a'), ('d', 'a')$$, 'stranded steps are reported');
select pawl_dag.resolve_task(:'task', 'enough') \g /dev/null
select is(state_of(:'task'), 'resolved_manually: a cancelled, b resolved_manually, c resolved_manually, d '
    'resolved_manually', 'a task resolved by hand resolves its steps');

-- withdrawn from the workers, and given back
select pawl_dag.start_task('diamond') as task \gset
select from pawl_dag.orchestrate();
update pawl_dag.tasks set state = 'blocked_by_failures' where task_uuid = :'task';
select is_rows(format('select reason from pawl_dag.dlq where task_uuid = %L', :'task'),
    $$values ('staleness_timeout'::text)$$, 'a timeout is recorded');
select pawl_dag.give_up(:'task', 'x') \g /dev/null
select is((select count(*) from pawl.claim(null::pawl_dag.steps, 'Start', '00000000-0000-7000-8000-00000000000b',
    queue => 'default')), 0::bigint, 'steps of a task in error are not claimed');
select pawl_dag.reset_task(:'task', 'x') \g /dev/null
select work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete', 'given back they are');

-- reports
select pawl_dag.start_task('diamond') as task \gset
select from pawl_dag.orchestrate();
select step_uuid, token
    from pawl.claim(null::pawl_dag.steps, 'Start', '00000000-0000-7000-8000-00000000000b', queue => 'default') \gset
select jsonb_build_array(jsonb_build_object('task_uuid', :'task', 'step_uuid', :'step_uuid', 'token', :token, 'error',
        '{"message": "busy", "retry_after": 30}'::jsonb)) as said \gset
select is_rows(format('select ok, left(problem, 5) from pawl_dag.report(%L, %L)', :'said',
    '00000000-0000-7000-8000-00000000000c'), $$values (false, 'PW004')$$, 'another''s step');
select is_rows(format('select ok, state from pawl_dag.report(%L, %L)', :'said', '00000000-0000-7000-8000-00000000000b'),
    $$values (true, 'enqueued_as_error_for_orchestration'::text)$$, 'an error');
select from pawl_dag.orchestrate();
select is_rows(format('select ok, state from pawl_dag.report(%L, %L)', :'said', '00000000-0000-7000-8000-00000000000b'),
    $$values (true, 'waiting_for_retry'::text)$$, 'said twice it counts once');
select ok(next_retry_at between now() + '25 s' and clock_timestamp() + '30 s', 'the wait is what the worker asked for')
    from pawl_dag.steps where step_uuid = :'step_uuid';
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'waiting_for_retry', 'the task waits');
update pawl_dag.steps set next_retry_at = clock_timestamp() - interval '1 second' where step_uuid = :'step_uuid';
select is((select done from pawl.fire_due('pawl_dag.steps')), 1::bigint, 'the wait is over');
select work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete', 'and the second attempt does it');
-- the snapshot of a dead letter has a limited size, whatever workers reported
select pawl_dag.define_template('{"name": "wide", "identity_strategy": "always_unique", "failure_policy": "continue",
    "steps": [{"name": "m", "map": ["l"], "retry": {"max_attempts": 1}}]}') \g /dev/null
select pawl_dag.start_task('wide', jsonb_build_object('l', (select jsonb_agg(i) from generate_series(1, 600) i),
    'text', repeat('x', 100000))) as task \gset
select from pawl_dag.orchestrate();
update pawl_dag.steps set error = case map_index % 5 when 0 then to_jsonb(e.text)
        when 1 then jsonb_build_object('message', e.text, 'sqlstate', 'ZZ001')
        when 2 then jsonb_build_object('message', e.numbers) when 3 then e.numbers
        else '{"message": "short"}' end, state = 'error'
    from (select repeat('y', 20000) as text, (select jsonb_agg('1e20000'::jsonb) from generate_series(1, 2))
        as numbers offset 0) e where task_uuid = :'task' and map_index > 50;
update pawl_dag.tasks set deadline_at = now() where task_uuid = :'task';
select is((select done from pawl_dag.time_out_tasks()), 1::bigint, 'a task with large errors is timed out');
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'blocked_by_failures', 'the task is blocked');
select task_snapshot as snapshot from pawl_dag.dlq where task_uuid = :'task' \gset
select cmp_ok(length(:'snapshot'), '<', 1000000, 'its snapshot is small');
select is((:'snapshot'::jsonb) -> 'cut', '{"steps": 100, "context": true}', 'and says what was cut');
select is((:'snapshot'::jsonb) #> '{task,context}', '{"cut": true}', 'the context is');
select is((select count(*) from jsonb_array_elements((:'snapshot'::jsonb) -> 'steps') s
    where s ->> 'state' = 'error'), 500::bigint, 'steps in error come first');
select is_rows(format('select distinct s -> ''error'' from jsonb_array_elements((%L::jsonb) -> ''steps'') s',
    :'snapshot'), format($$values (jsonb_build_object('cut', true)), (jsonb_build_object('cut', true, 'message',
    repeat('y', 1000))), ('{"message": "short"}')$$), 'each error is short, or cut to the beginning of its message');
select pawl_dag.retry_task(:'task') \g /dev/null
select pawl_dag.cancel_task(:'task') \g /dev/null
create temporary table measured as select v::jsonb as value from (values ('null'), ('true'), ('0'), ('-0.5'),
    ('1e131071'), ('1e-16383'), ('123456789.000123'), ('99999999999999999999'), ('1e200'), ('-1e-70'),
    ('"\u0001\n\"\\x"'), ('""'), ('[]'), ('{}'),
    ('[[], {}, [1, "a"]]'), ('{"a": {"b": [null, false, 1.5e3]}, "c": "\t"}')) x(v);
select is_empty('select value, pawl_dag._text_size(value, 1000000), length(value::text) from measured
    where pawl_dag._text_size(value, 1000000) not between length(value::text) and 8 * length(value::text) + 30',
    'the length of a value as text is not underestimated');
select is_empty('select value from measured where pawl_dag._text_size(value, 10) <= 10 and length(value::text) > 10',
    'also where it is too long');

-- Dead rows at the head of the index make a session leave it out for a while, which on a slow machine is longer than
-- the test takes.
vacuum pawl_dag.steps;

-- claims with all that a worker needs, and the call that advances tasks before it claims
select pawl_dag.start_task('diamond', '{"of": "claims"}') as task \gset
select is((select count(*) from pawl_dag.claim('c0000000-0000-7000-8000-00000000000c')), 0::bigint,
    'nothing is enqueued');
select is_rows($$select name, handler, token, attempts, context, parents
    from pawl_dag.claim('c0000000-0000-7000-8000-00000000000c', orchestrate => 100)$$,
    $$values ('a', 'a', 1, 1, '{"of": "claims"}', '{}')$$, 'the same call enqueues and claims');
select from pawl_dag.report(
        (select jsonb_agg(jsonb_build_object('task_uuid', task_uuid, 'step_uuid', step_uuid, 'token', token, 'result',
            '{"from": "a"}'::jsonb)) from pawl_dag.steps
    where task_uuid = :'task' and state = 'in_progress'), 'c0000000-0000-7000-8000-00000000000c');
select is_rows(
    format($$select name, parents, correlation_id = (select t.correlation_id from pawl_dag.tasks t
        where t.task_uuid = %L) from pawl_dag.claim('c0000000-0000-7000-8000-00000000000c',
    batch => 5, lease => '1 hour', orchestrate => 100)$$, :'task'),
    $$values ('b', '{"a": {"state": "complete", "result": {"from": "a"}}}', true),
        ('c', '{"a": {"state": "complete", "result": {"from": "a"}}}', true)$$, 'with what their parents brought');
select ok(bool_and(lease_until > now() + '50 min' and worker_uuid = 'c0000000-0000-7000-8000-00000000000c'
        and last_attempted_at is not null), 'for so long')
  from pawl_dag.steps where task_uuid = :'task' and state = 'in_progress';
select is((select count(*) from pawl_dag.claim('c0000000-0000-7000-8000-00000000000c', 'elsewhere', 5,
    orchestrate => 100)), 0::bigint, 'of one namespace');
select throws_ok($$select pawl_dag.claim(null)$$, 'PW004', null, 'a claim needs a processor');
select throws_ok($$select pawl_dag.claim('x', orchestrate => 0)$$, '22023', null,
    'as many tasks as an orchestrator takes');
select pawl_dag.cancel_task(:'task') \g /dev/null
create temporary table stepless (state text);
create trigger wrong after update on stepless for each row execute function pawl_dag._step_written();
insert into stepless values ('in_progress');
select throws_ok($$update stepless set state = 'x'$$, '39P01', null,
    'the trigger after an update needs the one before it');

-- a lease that ends after the report has looked at it: the trigger holds the report up until then
select pawl_dag.start_task('diamond') as task \gset
select from pawl_dag.orchestrate();
select from pawl_dag.report(
    (select jsonb_agg(jsonb_build_object('task_uuid', task_uuid, 'step_uuid', step_uuid, 'token', token, 'result', 1))
    from pawl.claim(null::pawl_dag.steps, 'Start', 'b0000000-0000-7000-8000-00000000000b', queue => 'default')),
    'b0000000-0000-7000-8000-00000000000b');
select from pawl_dag.orchestrate();
create temporary table held as select task_uuid, step_uuid, token from pawl.claim(null::pawl_dag.steps, 'Start',
    'b0000000-0000-7000-8000-00000000000b', '200 ms', queue => 'default');
insert into held select task_uuid, step_uuid, token from pawl.claim(null::pawl_dag.steps, 'Start',
    'b0000000-0000-7000-8000-00000000000b', '1 hour', queue => 'default');
create function held_up() returns trigger language plpgsql as $$
begin
    while exists (select from pawl_dag.steps
        where lease_until > clock_timestamp() and lease_until < clock_timestamp() + interval '5 s') loop
    end loop;
    return null;
end $$;
create trigger held_up before update on pawl_dag.steps for each statement execute function held_up();
select is_rows(format('select left(step_uuid::text, 0), ok, state, left(problem, 5) from pawl_dag.report(%L, %L)',
    (select jsonb_agg(jsonb_build_object('task_uuid', task_uuid, 'step_uuid', step_uuid,
    'token', token, 'result', 1)) from held), 'b0000000-0000-7000-8000-00000000000b'),
    $$values ('', false, 'in_progress', 'PW005'), ('', true, 'enqueued_for_orchestration', null)$$,
    'a step whose lease ends in the middle of a report is lost, and the other is reported');
drop trigger held_up on pawl_dag.steps;
select is((select string_agg(state, ',' order by state) from pawl_dag.steps s join held h using (task_uuid, step_uuid)),
    'enqueued_for_orchestration,in_progress', 'as the rows say');
select is(current_setting('pawl.processor', true), '', 'the reporting processor is no longer set');
select is((select done from pawl.reap('pawl_dag.steps')), 1::bigint, 'what was lost is taken back');
select is((select count(*) from pawl_dag.step_result_audit where task_uuid = :'task'), 2::bigint,
    'and no result was audited for it');
select pawl_dag.cancel_task(:'task') \g /dev/null
select throws_ok($$select pawl_dag.report('{}', 'x')$$, '22023', null, 'a report is an array');
select throws_ok($$select pawl_dag.report('[]')$$, 'PW004', null, 'a report needs a processor');

vacuum pawl_dag.steps;

-- too long
select pawl_dag.start_task('diamond') as task \gset
select from pawl_dag.orchestrate();
select is((select done from pawl_dag.time_out_tasks()), 0::bigint, 'nothing is stale');
update pawl_dag.tasks set deadline_at = now() - interval '1 second' where task_uuid = :'task';
select is((select done from pawl_dag.time_out_tasks()), 1::bigint, 'a deadline has passed');
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'blocked_by_failures',
    'the task waits for an operator');
select is((select count(*) from pawl_dag.dlq_queue), 1::bigint, 'in the queue of dead letters');
select pawl_dag.requeue(:'task', 'let it') \g /dev/null
select work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete', 'requeued it completes');

-- a step's timeout bounds its lease
select pawl_dag.define_template('{"name": "slow", "steps": [{"name": "a", "timeout_seconds": 10}]}') \g /dev/null
select pawl_dag.start_task('slow') as task \gset
select from pawl_dag.orchestrate();
select task_uuid from pawl.claim(null::pawl_dag.steps, 'Start', '00000000-0000-7000-8000-00000000000b',
        queue => 'default', lease => '1 hour') \gset
select is((select lease_until - last_attempted_at from pawl_dag.steps where task_uuid = :'task'), interval '10 s',
    'a lease ends with the timeout');
select pawl.heartbeat('pawl_dag.steps', '00000000-0000-7000-8000-00000000000b', '1 hour') \g /dev/null
select is((select lease_until - last_attempted_at from pawl_dag.steps where task_uuid = :'task'), interval '10 s',
    'however alive the worker is');
select is((select count(*) from pawl_dag.steps s where s.task_uuid = :'task' and s.worker_uuid is not null), 1::bigint,
    'the worker still owns the step');

-- a user's trigger that changes steps of another task, fired inside the orchestrator and
-- inside follow-ups: everything follows there, too
select pawl_dag.start_task('diamond') as other \gset
select from pawl_dag.orchestrate();
select pawl_dag.start_task('diamond') as task \gset
create table public.pairs as select :'task'::uuid as task, :'other'::uuid as other;
create function resolve_other() returns trigger language plpgsql as $$ begin
    update pawl_dag.steps s set state = 'resolved_manually' from public.pairs p
     where p.task = new.task_uuid and s.task_uuid = p.other and s.name = 'a' and new.name = 'a';
    return null; end $$;
create trigger resolve_other after update on pawl_dag.steps
    for each row when (new.state = 'complete') execute function resolve_other();
update pawl_dag.steps set next_retry_at = 'infinity' where task_uuid = :'other' and state = 'enqueued';
select work();
select is(state_of(:'task'), 'complete: a complete, b complete, c complete, d complete', 'the one runs');
select is(state_of(:'other'), 'complete: a resolved_manually, b complete, c complete, d complete',
    'the other goes on with it');
drop trigger resolve_other on pawl_dag.steps;
select is_empty('select wrong()', 'and nothing was counted wrongly');

-- edges
select pawl_dag.start_task('diamond') as task \gset
select throws_ok(format('insert into pawl_dag.edges values (%L, %L, %L)', :'task', step_of(:'task', 'd'),
    step_of(:'task', 'a')), '22023', null, 'an edge that closes a cycle is rejected');
select throws_ok(format('insert into pawl_dag.edges values (%1$L, %2$L, %2$L)', :'task', step_of(:'task', 'd')),
    '23514', null, 'no edge to itself');
insert into pawl_dag.steps (task_uuid, name, namespace, handler) select :'task', x, 'default', 'noop'
    from unnest(array['x', 'y']) x;
select throws_ok(format('insert into pawl_dag.edges values (%1$L, %2$L, %3$L), (%1$L, %3$L, %4$L), (%1$L, %4$L, %3$L)',
    :'task', step_of(:'task', 'a'), step_of(:'task', 'x'), step_of(:'task', 'y')),
                 '22023', null, 'nor a cycle that one statement draws behind another edge');
select throws_ok(format('update pawl_dag.edges set child_uuid = parent_uuid where task_uuid = %L', :'task'), '0A000',
    null, 'edges are not changed');
select from pawl_dag.orchestrate();
select throws_ok(format('insert into pawl_dag.edges values (%L, %L, %L)', :'task', step_of(:'task', 'b'),
    step_of(:'task', 'x')), '55000', null, 'nor drawn to a step that has begun');
insert into pawl_dag.edges select :'task', step_of(:'task', 'b'), step_uuid from pawl_dag.steps
    where task_uuid = :'task' and name = 'c';
select is((select level from pawl_dag.steps where task_uuid = :'task' and name = 'd'), 3,
    'the level of a step follows a new edge');
select work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete',
    'also with steps and edges of one''s own');

-- a step that may fail
select pawl_dag.define_template(
        $${"name": "may_fail", "identity_strategy": "always_unique", "steps": [{"name": "a", "optional": true},
    {"name": "b", "dependencies": ["a"]}]}$$) \g /dev/null
select pawl_dag.start_task('may_fail') as task \gset
select work('{a}');
select is(state_of(:'task'), 'complete: a error, b complete',
    'an optional step that fails stops neither its task nor those that wait for it');
select is_empty('select wrong()', 'everything is as it must be');
select * from finish();
