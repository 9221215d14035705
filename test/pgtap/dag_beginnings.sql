-- Tasks whose steps have ended, or failed for good, before the task begins, for the first time or after a reset.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
select pawl_dag.define_template(jsonb_build_object('name', policy, 'identity_strategy', 'always_unique',
    'failure_policy', policy, 'steps', '[{"name": "a", "retry": {"max_attempts": 1}}, {"name": "b"}, {"name": "c",
    "dependencies": ["a"]}]'::jsonb)) from unnest('{block,continue}'::text[]) policy \g /dev/null
create function turns() returns void language plpgsql as $$ begin
    for turn in 1 .. 20 loop
        exit when (select tasks from pawl_dag.orchestrate()) = 0;
    end loop;
end $$;
create function path_of(task uuid) returns text language sql as $$
    select string_agg(l.event || ' ' || l.to_state, ', ' order by l.sort_key) from pawl_dag.task_transitions l
     where l.task_uuid = task and l.sort_key > (select max(r.sort_key) from pawl_dag.task_transitions r
         where r.task_uuid = task and r.to_state = 'pending') $$;

-- all have ended
select pawl_dag.start_task('block') as task \gset
select pawl_dag.complete_step_manually(task_uuid, step_uuid, '1', 'by hand') from pawl_dag.steps
    where task_uuid = :'task' order by level \g /dev/null
select is(finished, 1::bigint, 'one turn completes a task whose steps are complete when it begins')
    from pawl_dag.orchestrate();
select is(state_of(:'task'), 'complete: a complete, b complete, c complete', 'the task is complete');
select is(path_of(:'task'), 'Start initializing, NoDependenciesReady waiting_for_dependencies, DependenciesReady '
    'evaluating_results, AllStepsSuccessful complete', 'by the transitions that its machine has');
select is((select evaluate::text || ' ' || coalesce(processor_uuid::text, 'none') from pawl_dag.tasks
    where task_uuid = :'task'), 'false none', 'nothing remains to be done, and no processor owns the task');
select pawl_dag.start_task('block') as task \gset
select pawl_dag.cancel_step(task_uuid, step_uuid) from pawl_dag.steps
    where task_uuid = :'task' and name <> 'c' \g /dev/null
select turns();
select is(state_of(:'task'), 'complete: a cancelled, b cancelled, c cancelled', 'cancelled steps have ended, too');
select is((select metadata ->> 'partial' from pawl_dag.task_transitions
    where task_uuid = :'task' and to_state = 'complete'), 'true', 'the log says that nothing was done for them');

-- failed for good
select pawl_dag.start_task('block') as task \gset
update pawl_dag.steps set state = 'error' where task_uuid = :'task' and name = 'a';
select is(enqueued, 0::bigint, 'nothing is enqueued once a step has failed for good') from pawl_dag.orchestrate();
select turns();
select is(state_of(:'task'), 'blocked_by_failures: a error, b pending, c pending', 'the task is blocked instead');
select is_rows(format('select reason, resolution_status, original_state from pawl_dag.dlq where task_uuid = %L',
    :'task'), $$values ('max_retries_exceeded'::text, 'pending'::text, 'evaluating_results'::text)$$,
    'with a dead letter as any other blocked task');
select pawl_dag.retry_task(:'task') \g /dev/null
select work();
select is(state_of(:'task'), 'complete: a complete, b complete, c complete', 'and it can be retried');
select pawl_dag.start_task('continue') as task \gset
update pawl_dag.steps set state = 'error' where task_uuid = :'task' and name = 'a';
select is(enqueued, 1::bigint, 'with the policy continue other branches begin') from pawl_dag.orchestrate();
select work();
select is(state_of(:'task'), 'blocked_by_failures: a error, b complete, c pending', 'and the task is blocked at last');

-- begun again
select pawl_dag.start_task('block') as task \gset
select work('{a}');
select pawl_dag.give_up(:'task', 'x') \g /dev/null
select pawl_dag.resolve_step(task_uuid, step_uuid, 'by hand') from pawl_dag.steps
    where task_uuid = :'task' and state in ('error', 'pending', 'enqueued') \g /dev/null
select pawl_dag.reset_task(:'task', 'again') \g /dev/null
select turns();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete',
    'a task that is reset when all of its steps have ended completes');
select pawl_dag.start_task('block') as task \gset
select from pawl_dag.orchestrate();
create table held as select task_uuid, step_uuid, token, name from pawl.claim(null::pawl_dag.steps, 'Start',
    '00000000-0000-7000-8000-00000000000b', batch => 10, queue => 'default');
create function fails(step text, said jsonb) returns bigint language sql as $$
    select count(*) filter (where r.ok) from held h, pawl_dag.report(jsonb_build_array(jsonb_build_object('task_uuid',
        h.task_uuid, 'step_uuid', h.step_uuid, 'token', h.token, 'error', said)),
        '00000000-0000-7000-8000-00000000000b') r where h.name = step $$;
select fails('a', '{"permanent": true}') \g /dev/null
select turns();
select pawl_dag.give_up(:'task', 'x'), pawl_dag.reset_task(:'task', 'again') \g /dev/null
select is(fails('b', '{"permanent": true}'), 1::bigint, 'a step that was running is reported after the reset');
select is(enqueued, 0::bigint, 'its failure is known before anything is enqueued') from pawl_dag.orchestrate();
select turns();
select is(state_of(:'task'), 'blocked_by_failures: a pending, b error, c pending', 'and blocks the task again');

-- a step that waits for its retry
select pawl_dag.start_task('block') as task \gset
select from pawl_dag.orchestrate();
truncate held;
insert into held select task_uuid, step_uuid, token, name from pawl.claim(null::pawl_dag.steps, 'Start',
    '00000000-0000-7000-8000-00000000000b', batch => 10, queue => 'default');
select fails('a', '{"permanent": true}') \g /dev/null
select from pawl_dag.orchestrate();
select pawl_dag.give_up(:'task', 'x') \g /dev/null
select fails('b', '{"retry_after": 40}') \g /dev/null
select turns();
select pawl_dag.cancel_step(:'task', step_of(:'task', 'c')), pawl_dag.resolve_step(:'task', step_of(:'task', 'a'), 'x'),
    pawl_dag.reset_task(:'task', 'again') \g /dev/null
select turns();
select is(state_of(:'task'), 'waiting_for_retry: a resolved_manually, b waiting_for_retry, c cancelled',
    'a task that has nothing but a retry waits for it from the beginning');

-- in the state in which steps are enqueued
select pawl_dag.start_task('block') as task \gset
begin;
set local pawl.processor = '019b0000-0000-7000-8000-00000000da90';
update pawl_dag.tasks set state = 'initializing', processor_uuid = pawl_dag.engine(),
    lease_until = clock_timestamp() + interval '1 hour' where task_uuid = :'task';
update pawl_dag.tasks set state = 'enqueuing_steps' where task_uuid = :'task';
commit;
update pawl_dag.steps set state = 'error' where task_uuid = :'task' and name = 'a';
select is(enqueued, 0::bigint, 'nothing is enqueued behind a failed step there either') from pawl_dag.orchestrate();
select turns();
select is(state_of(:'task'), 'blocked_by_failures: a error, b pending, c pending', 'the task is blocked from there');
select is_empty('select wrong()', 'everything is as it must be');
select * from finish();
