-- What an end of a task means: its dead letters are closed, and its steps do not begin again; and what it means that an
-- operator returns a task to work.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
create role ending_worker login in role pawl_worker;
create role ending_operator login in role pawl_operator;
select pawl_dag.define_template('{"name": "watched", "identity_strategy": "always_unique", "max_duration_minutes": 1,
    "lifecycle": {"auto_fail_on_timeout": false}, "steps": [{"name": "a"}]}'),
    pawl_dag.define_template('{"name": "late", "identity_strategy": "always_unique", "max_duration_minutes": 1,
    "lifecycle": {"staleness_action": "error"}, "steps": [{"name": "a"}]}'),
    pawl_dag.define_template('{"name": "blocked", "identity_strategy": "always_unique", "max_duration_minutes": 1,
    "steps": [{"name": "a", "retry": {"max_attempts": 1}}]}'),
    pawl_dag.define_template('{"name": "maybe", "identity_strategy": "always_unique", "steps": [{"name": "a",
    "optional": true, "retry": {"max_attempts": 1}}, {"name": "b", "dependencies": ["a"]}]}') \g /dev/null
create function timed_out(template text) returns uuid language plpgsql as $$
declare task constant uuid := pawl_dag.start_task(template);
begin
    perform from pawl_dag.orchestrate();
    update pawl_dag.tasks set deadline_at = clock_timestamp() - interval '1 s' where task_uuid = task;
    return task;
end $$;
create function letter_of(task uuid) returns text language sql as $$
    select string_agg(concat_ws(' ', d.resolution_status, d.resolution_notes), ', ') from pawl_dag.dlq d
     where d.task_uuid = task $$;

-- dead letters of tasks that were not blocked
select timed_out('watched') as task \gset
select from pawl_dag.time_out_tasks();
select is(state_of(:'task') || ' ' || letter_of(:'task'), 'steps_in_process: a enqueued pending',
    'a task that is only recorded has an open dead letter');
set role ending_worker;
select work();
reset role;
select is(state_of(:'task') || ' ' || letter_of(:'task'), 'complete: a complete manually_resolved the task completed',
    'it is closed when the task completes, also by a worker');
select timed_out('watched') as cancelled, timed_out('watched') as resolved, timed_out('watched') as recorded \gset
select from pawl_dag.time_out_tasks();
select pawl_dag.cancel_task(:'cancelled', 'no'), pawl_dag.resolve_task(:'resolved', 'by phone') \g /dev/null
select is(letter_of(:'cancelled'), 'cancelled no', 'a cancelled task closes it as cancelled');
select is(letter_of(:'resolved'), 'manually_resolved by phone', 'a resolved task closes it as resolved');
select is(letter_of(:'recorded'), 'pending', 'the dead letter of another task stays open');
set role ending_worker;
select pawl_dag._close_letter(:'recorded', 'forged') \g /dev/null
reset role;
select is(letter_of(:'recorded'), 'pending', 'and no worker closes it while the task goes on');
select pawl_dag.cancel_task(:'recorded') \g /dev/null
select pawl_dag.start_task('diamond') as task \gset
set role ending_operator;
insert into pawl_dag.dlq (task_uuid, original_state, reason, task_snapshot) values (:'task', '', 'manual_dlq', '{}');
reset role;
select work();
select is(letter_of(:'task'), 'manually_resolved the task completed', 'so are dead letters that an operator wrote');
select is_empty('select * from pawl_dag.dlq_queue', 'none waits for an operator any more');

-- steps of tasks that have ended
create function reopens(task uuid) returns text language plpgsql as $$
declare codes text[] := '{}'; command text;
begin
    foreach command in array array['select pawl_dag.reset_step(s.task_uuid, s.step_uuid, null) from pawl_dag.steps s',
        'update pawl_dag.steps s set state = ''pending''',
        'select pawl.fire(''pawl_dag.steps'', array[s.task_uuid, s.step_uuid], ''ResetForRetry'')
            from pawl_dag.steps s']
    loop
        begin
            execute command || format(' where s.task_uuid = %L and s.name = ''a''', task);
            codes := codes || 'ok'::text;
        exception when others then
            codes := codes || sqlstate::text;
        end;
    end loop;
    return array_to_string(codes, ' ');
end $$;
create function ended(how text) returns uuid language plpgsql as $$
declare task constant uuid := pawl_dag.start_task(case how when 'complete' then 'maybe' else 'blocked' end);
begin
    perform work('{a}');
    case how when 'cancelled' then perform pawl_dag.cancel_task(task);
             when 'resolved_manually' then perform pawl_dag.resolve_task(task, 'x');
             when 'error' then perform pawl_dag.give_up(task, 'x');
             else null; end case;
    return task;
end $$;
create table ended_tasks as select how, ended(how) as task
    from unnest('{complete,cancelled,resolved_manually,error}'::text[]) how;
grant select on ended_tasks to ending_operator;
select is_rows('select how, state_of(task) from ended_tasks', $$values ('complete', 'complete: a error, b complete'),
    ('cancelled', 'cancelled: a error'), ('resolved_manually', 'resolved_manually: a error'),
    ('error', 'error: a error')$$, 'tasks that have ended can have failed steps');
set role ending_operator;
select is(reopens(task), '55000 55000 55000', format('an operator does not reopen a step of a task that is %s', how))
    from ended_tasks order by how;
reset role;
select is(reopens(task), '55000 55000 55000', format('nor does the owner of the tables where the task is %s', how))
    from ended_tasks order by how;
select throws_ok(format('select pawl_dag.reset_step(%L, %L, null)', task, step_of(task, 'a')), '55000',
    'step "a" of a task that has ended cannot be retried', 'the error says why') from ended_tasks where how = 'error';
select is(reopens(t.task), '55000 55000 55000', 'also in a transaction that has just ended the task')
  from (select ended('none') as task offset 0) t where pawl_dag.cancel_task(t.task);
select pawl_dag.resolve_step(task, step_of(task, 'a'), 'x') from ended_tasks where how = 'error' \g /dev/null
select pawl_dag.reset_task(task, 'x') from ended_tasks where how = 'error' \g /dev/null
select work();
select is(state_of(task), 'complete: a resolved_manually', 'a task in error is repaired, and begins again')
    from ended_tasks where how = 'error';
select ended('error') as task \gset
select pawl_dag.reset_task(:'task', 'x') \g /dev/null
select work();
select is(state_of(:'task'), 'complete: a complete', 'a reset of the task gives its steps back');
select ended('none') as task \gset
select pawl_dag.reset_step(:'task', step_of(:'task', 'a'), 'x') \g /dev/null
select is(state_of(:'task'), 'evaluating_results: a pending', 'a step of a task that goes on is reset');
select work();

-- time
create function minutes_left(task uuid) returns text language sql as $$
    select t.state || ' ' || ceil(extract(epoch from t.deadline_at - clock_timestamp()) / 60)::text
      from pawl_dag.tasks t where t.task_uuid = task $$;
select timed_out('late') as task, timed_out('late') as other, timed_out('late') as early \gset
select from pawl_dag.time_out_tasks();
select is(minutes_left(:'task'), 'error 0', 'a task was given up because its deadline has passed');
set role ending_operator;
select pawl_dag.retry_task(:'task', 'again'), pawl_dag.reset_task(:'other', 'again') \g /dev/null
reset role;
select is(minutes_left(:'task'), 'pending 1', 'retry_task gives the task its time again');
select is(minutes_left(:'other'), 'pending 1', 'and so does reset_task');
update pawl_dag.tasks set deadline_at = clock_timestamp() + interval '29.5 min' where task_uuid = :'early';
update pawl_dag.tasks set state = 'pending' where task_uuid = :'early';
select is(minutes_left(:'early'), 'pending 30', 'a deadline that has not passed stays');
select work();
select is((select string_agg(distinct state, ' ') from pawl_dag.tasks
    where task_uuid = any (array[:'task', :'other', :'early']::uuid[])), 'complete', 'they have the time to end');
select timed_out('blocked') as task, timed_out('blocked') as other \gset
select from pawl_dag.time_out_tasks();
select is(minutes_left(:'task'), 'blocked_by_failures 0', 'a task is blocked because its deadline has passed');
select pawl_dag.retry_task(:'task') \g /dev/null
select is(minutes_left(:'task'), 'evaluating_results 1', 'it has its time again, too');
create function returns_it(role text, task uuid) returns text language plpgsql as $$ begin
    execute format('set local role %I', role);
    perform set_config('pawl.processor', '00000000-0000-7000-8000-00000000000a', true);
    update pawl_dag.tasks set state = 'evaluating_results', processor_uuid = '00000000-0000-7000-8000-00000000000a',
        lease_until = clock_timestamp() + interval '1 min' where task_uuid = task;
    return minutes_left(task);
exception when insufficient_privilege then
    return 'rejected';
end $$;
select is(returns_it('ending_worker', :'other'), 'rejected', 'no worker returns a timed-out task to work');
select is_empty('select wrong()', 'everything is as it must be');
drop table ended_tasks;
drop role ending_worker, ending_operator;
select * from finish();
