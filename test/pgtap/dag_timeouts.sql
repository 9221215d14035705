-- Tasks that take too long, workers that vanish, and tasks that grow old in the queue.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
-- Started, in process since some time, and as old as that.
create function running(lifecycle jsonb, since interval) returns uuid language plpgsql as $$
declare task uuid;
begin
    perform pawl_dag.define_template(jsonb_build_object('name', md5(lifecycle::text), 'identity_strategy',
        'always_unique', 'lifecycle', lifecycle, 'steps', '[{"name": "a"}]'::jsonb));
    task := pawl_dag.start_task(md5(lifecycle::text));
    perform from pawl_dag.orchestrate();
    update pawl_dag.tasks set entered_at = now() - since where task_uuid = task;
    return task;
end $$;
create function recorded(task uuid) returns text language sql as $$
    select t.state || coalesce((select ' ' || d.reason || ' ' || d.resolution_status from pawl_dag.dlq d
                where d.task_uuid = task), '')
        from pawl_dag.tasks t where t.task_uuid = task $$;
select running('{"max_steps_in_process_minutes": 10}', '11 min') as dlq,
    running('{"max_steps_in_process_minutes": 10, "max_waiting_for_retry_minutes": 9}', '8 min') as young,
       running('{"max_steps_in_process_minutes": 10, "max_waiting_for_retry_minutes": 5}', '6 min') as early,
       running('{"staleness_action": "error", "max_steps_in_process_minutes": 5}', '6 min') as error,
       running('{"staleness_action": "none"}', '1 year') as none,
       running('{"auto_fail_on_timeout": false}', '31 min') as record,
       running('{"auto_dlq_on_timeout": false}', '31 min') as silent,
       running('{"auto_dlq_on_timeout": false, "auto_fail_on_timeout": false}', '31 min') as neither \gset
select is_rows('select task_uuid, fails, gives_up, records from pawl_dag.stale_tasks()', format(
    'values (%L::uuid, true, false, true), (%L, true, true, true), (%L, false, false, true), (%L, true, false, false)',
    :'dlq', :'error', :'record', :'silent'), 'a dry run tells what would be done');
select is((select count(*) from pawl_dag.tasks where state <> 'steps_in_process'), 0::bigint, 'and does nothing');
select is((select health from pawl_dag.task_staleness where task_uuid = :'young'), 'warning', '80 % are a warning');
begin;
update pawl_dag.tasks set deadline_at = now() where task_uuid = :'young';
select is((select string_agg(health, ' ') from pawl_dag.task_staleness where task_uuid = :'young'), 'stale',
    'a task whose deadline has passed is stale');
select ok(exists (select from pawl_dag.stale_tasks() where task_uuid = :'young'), 'whatever the thresholds are');
rollback;
select is((select done from pawl_dag.time_out_tasks(1)), 1::bigint, 'as many as asked for');
select is((select done from pawl_dag.time_out_tasks()), 3::bigint, 'time_out_tasks handles the three other tasks');
select is(recorded(:'dlq'), 'blocked_by_failures staleness_timeout pending', 'blocked and recorded');
select is(recorded(:'error'), 'error staleness_timeout permanently_failed',
    'a stale task with staleness_action error is in error and recorded');
select is(recorded(:'none'), 'steps_in_process', 'a stale task with staleness_action none is left alone');
select is(recorded(:'record'), 'steps_in_process staleness_timeout pending',
    'a stale task that is only recorded goes on');
select is(recorded(:'silent'), 'blocked_by_failures', 'a stale task without a dead letter is only blocked');
select is(recorded(:'early'), 'steps_in_process', 'a task that would be stale in another state goes on');
select is(recorded(:'neither'), 'steps_in_process', 'a stale task whose template asks for no action is left alone');
select is_rows('select done, next_at > now() from pawl_dag.time_out_tasks()', 'values (0::bigint, true)',
    'done once, and due later');
select is_empty('select * from pawl_dag.stale_tasks()', 'the dry run agrees');
update pawl_dag.tasks set entered_at = now() - interval '11 min' where task_uuid = :'young';
select is((select done from pawl_dag.time_out_tasks()), 1::bigint, 'the young grow old');

-- by index, however many tasks there are
create function plan_of(query text) returns setof text
    language plpgsql as $$ begin return query execute 'explain (costs off) ' || query; end $$;
-- (what so few rows are read by depends on the version: whether the index can do it is asked)
set enable_seqscan = off;
set enable_bitmapscan = off;
select ok(exists (select from plan_of('select t.task_uuid from pawl_dag.tasks t where t.watch_at <= now() order by '
    't.watch_at limit 10 for no key update skip locked') p
    where p ~ 'Index Scan using tasks_watched'), 'stale tasks are found by an index');
select ok(exists (select from plan_of('select min(t.watch_at) from pawl_dag.tasks t where t.watch_at is not null') p
        where p ~ 'Index Only Scan using tasks_watched'), 'so is the next one');
select ok(exists (select from plan_of('select t.task_uuid from pawl_dag.tasks t where t.evaluate order by t.rank '
    'desc, t.task_uuid limit 10 for no key update skip locked') p
    where p ~ 'Index Scan using tasks_to_evaluate'), 'and the tasks to evaluate');
reset enable_seqscan;
reset enable_bitmapscan;
select is((select count(*) from pawl_dag.tasks
        where (watch_at is null)
            <> (state in ('pending', 'blocked_by_failures', 'complete', 'error', 'cancelled', 'resolved_manually'))),
    0::bigint, 'all that can be stale are watched, no others');

-- a worker that vanishes uses up an attempt, and the last attempt fails the step
select pawl_dag.define_template('{"name": "twice", "identity_strategy": "always_unique", "steps": [{"name": "a", '
        '"timeout_seconds": 60, "retry": {"max_attempts": 2, "backoff": "none"}}]}') \g /dev/null
select pawl_dag.cancel_tasks(array_agg(task_uuid)) from pawl_dag.tasks
    where state in ('steps_in_process', 'blocked_by_failures') \g /dev/null
select pawl_dag.start_task('twice') as task \gset
create procedure vanish() language plpgsql as $$ begin
    perform from pawl_dag.orchestrate();
    perform from pawl.claim(null::pawl_dag.steps, 'Start', '00000000-0000-7000-8000-00000000000d', queue => 'default');
    set local session_replication_role = replica;
    update pawl_dag.steps set lease_until = now() - interval '1 second' where state = 'in_progress';
    set local session_replication_role = origin;
    perform pawl.reap('pawl_dag.steps');
    perform from pawl_dag.orchestrate();
    perform pawl.fire_due('pawl_dag.steps');
end $$;
call vanish();
select is(state_of(:'task'), 'waiting_for_retry: a pending', 'a task whose step is taken back waits for a retry');
call vanish();
select is(state_of(:'task'), 'blocked_by_failures: a error', 'twice is enough');
select is(recorded(:'task'), 'blocked_by_failures max_retries_exceeded pending', 'recorded as what it is');
select pawl_dag.retry_task(:'task', 'another worker') \g /dev/null
select work();
select is(state_of(:'task'), 'complete: a complete', 'another one does it');
select is_empty($$select a from pawl_dag.step_result_audit a join pawl_dag.steps s using (step_uuid)
    where not a.success and s.name = 'a' and a.worker like '%d'$$, 'a worker that vanished has no result');

-- a task that raises an error does not stop the others, and is looked at again after a minute
create function public.reject_update() returns trigger language plpgsql as $$ begin raise 'not this task'; end $$;
create function public.suppress_update() returns trigger language plpgsql as $$ begin return null; end $$;
select running('{"max_steps_in_process_minutes": 10}', '13 min') as bad, running('{"max_steps_in_process_minutes": 10}',
    '12 min') as good, running('{"max_steps_in_process_minutes": 10}', '11 min') as last \gset
set statement_timeout = '20 s';
create function timed_out(batch int) returns text language sql as $$
    select done || case when next_at > now() then ' later' when next_at <= now() then ' now' else '' end
        from pawl_dag.time_out_tasks(batch) $$;
begin;
create trigger rejects before update on pawl_dag.tasks for each row
    when (new.failure_policy = 'bad' and new.state = 'blocked_by_failures') execute function public.reject_update();
update pawl_dag.tasks set failure_policy = 'bad' where task_uuid = :'bad';
select is(timed_out(100), '2 later', 'the others are timed out');
select is(recorded(:'bad') || ', ' || recorded(:'good') || ', ' || recorded(:'last'), 'steps_in_process, '
    'blocked_by_failures staleness_timeout pending, blocked_by_failures staleness_timeout pending', 'and it is not');
select ok((select watch_at between now() and clock_timestamp() + interval '1 min' from pawl_dag.tasks
    where task_uuid = :'bad'), 'it is put off');
select is((select count(*) from pawl_dag.stale_tasks()), 0::bigint, 'for a minute');
update pawl_dag.tasks set watch_at = now() - interval '1 s' where task_uuid = :'bad';
drop trigger rejects on pawl_dag.tasks;
select is(timed_out(100), '1', 'then it is tried again');
rollback;
begin;
create trigger rejects before update on pawl_dag.tasks for each row when (old.failure_policy = 'bad')
    execute function public.reject_update();
update pawl_dag.tasks set failure_policy = 'bad' where task_uuid = :'bad';
select is(timed_out(1), '1 now', 'nor does a task that rejects every update stop them');
select is(timed_out(1), '1 now', 'also not by a batch of one');
select is(timed_out(1), '0 later', 'and the call ends');
rollback;
begin;
create trigger suppresses before update on pawl_dag.tasks for each row when (old.failure_policy = 'bad')
    execute function public.suppress_update();
update pawl_dag.tasks set failure_policy = 'bad' where task_uuid = :'bad';
select is(timed_out(100), '2 later', 'nor one whose updates are suppressed');
rollback;
reset statement_timeout;
select pawl_dag.cancel_tasks(array[:'bad', :'good', :'last']::uuid[]) \g /dev/null

-- priorities: ten hours of waiting are worth one
select pawl_dag.start_task('twice', priority => 1) as high, pawl_dag.start_task('twice') as low,
    pawl_dag.start_task('twice') as old \gset
update pawl_dag.tasks set created_at = created_at - interval '11 hours',
    rank = pawl_dag._rank(priority, created_at - interval '11 hours') where task_uuid = :'old';
select is((select string_agg(case task_uuid when :'high' then 'high' when :'low' then 'low' else 'old' end, ' '
    order by rank desc) from pawl_dag.tasks
        where state = 'pending'), 'old high low', 'a task that waits long enough comes first');
select is((select bool_and(pawl_dag._rank(p, now() - a) > pawl_dag._rank(p, now() - a + interval '1 second'))
        from generate_series(-100, 100, 50) p, unnest(array['0', '1 hour', '24 hours', '10 years']::interval[]) a),
    true, 'an older task never falls behind');
update pawl_dag.tasks set priority = 3 where task_uuid = :'low';
select is((select task_uuid from pawl_dag.tasks where state = 'pending' order by rank desc limit 1), :'low'::uuid,
    'a new priority counts');
select tasks from pawl_dag.orchestrate(1) \g /dev/null
select is((select state from pawl_dag.tasks where task_uuid = :'low'), 'steps_in_process', 'the first is taken first');
select is_empty('select wrong()', 'everything is as it must be');
select * from finish();
