-- Every pair of what sessions do to the tasks and steps of one another: none ends in a deadlock, and what each finds is
-- right afterwards. A third session has the task, or one of its steps, so that both are
-- under way when it lets go; each in its turn comes first.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir ../pgtap/shared/dag.psql
\set pack pawl_dag
\set subjects tasks
\set key task_uuid
\set rejections '^(PW001|PW003)'
\ir include/pairs.psql
\ir include/pairs_kept.psql

-- Two tasks, each with a step whose backoff is over, one whose lease has expired, one that its worker has, one that it
-- has reported as failed for good, one that can be claimed, and some that wait for others. The steps lie on the pages
-- in another order than that of their keys.
select pawl_dag.define_template(
        $${"name": "full", "identity_strategy": "always_unique", "failure_policy": "continue", "steps": [
    {"name": "due"}, {"name": "lost", "retry": {"max_attempts": 1}}, {"name": "held"}, {"name": "failed"},
        {"name": "free"},
    {"name": "behind", "dependencies": ["due", "lost", "held"]}, {"name": "after", "dependencies": ["free"]}]}$$)
    \g /dev/null
create table task (n int, uuid uuid);
create view mine as select s.* from pawl_dag.steps s join task t on t.uuid = s.task_uuid;
create procedure prepare_anew() language plpgsql as $$
begin
    insert into task select 3 - row_number() over (), t from pawl_dag.start_tasks('full', array['{}', '{}']::jsonb[]) t;
    perform from pawl_dag.orchestrate();
    perform set_config('pawl.processor', 'c0000000-0000-7000-8000-00000000000c', true);
    update pawl_dag.steps set state = 'in_progress', worker_uuid = 'c0000000-0000-7000-8000-00000000000c',
        lease_until = clock_timestamp() + interval '1 hour'
            where state = 'enqueued' and name in ('due', 'held', 'failed');
    update pawl_dag.steps set state = 'in_progress', worker_uuid = 'd0000000-0000-7000-8000-00000000000d',
            lease_until = clock_timestamp() + interval '1 hour' where state = 'enqueued' and name = 'lost';
    update pawl_dag.steps set state = 'waiting_for_retry' where state = 'in_progress' and name = 'due';
    perform set_config('pawl.processor', '', true);
    set local session_replication_role = replica;
    update pawl_dag.steps set next_retry_at = clock_timestamp() - interval '1 h' where state = 'waiting_for_retry';
    update pawl_dag.steps set lease_until = clock_timestamp() - interval '1 h'
        where state = 'in_progress' and name = 'lost';
    set local session_replication_role = origin;
    perform pawl_dag.report(
            (select jsonb_agg(jsonb_build_object('task_uuid', task_uuid, 'step_uuid', step_uuid, 'token', token,
                'error', '{"permanent": true}'::jsonb))
        from mine where name = 'failed'), 'c0000000-0000-7000-8000-00000000000c');
    -- on the page, the last is the first
    set local session_replication_role = replica;
    create temporary table moved on commit drop as select * from mine;
    delete from pawl_dag.steps where task_uuid in (select uuid from task);
    insert into pawl_dag.steps select * from moved order by task_uuid desc, step_uuid desc;
    set local session_replication_role = origin;
    update pawl_dag.tasks set deadline_at = clock_timestamp() - interval '1 s'
        where task_uuid = (select uuid from task where n = 1);
end $$;
create function lock_of(held text) returns text language sql as $$
    select case held
        when 'task' then 'select 1 from pawl_dag.tasks where task_uuid in (select uuid from task) for no key update'
                     else format('select 1 from pawl_dag.steps where task_uuid in (select uuid from task) and name = '
            '%L for no key update', held) end $$;
-- An UPDATE by hand of several tasks locks them in the order of its plan, so it has one task.
insert into deed values
    ('orchestrate', 'select from pawl_dag.orchestrate()'), ('fire_due',
        $$select from pawl.fire_due('pawl_dag.steps')$$), ('reap', $$select from pawl.reap('pawl_dag.steps')$$),
    ('time_out', 'select from pawl_dag.time_out_tasks()'),
    ('claim', $$select from pawl_dag.claim('e0000000-0000-7000-8000-00000000000e', batch => 10)$$),
    ('heartbeat', $$select pawl.heartbeat('pawl_dag.steps', 'c0000000-0000-7000-8000-00000000000c', '2 hours')$$),
    ('abandon', $$select pawl.abandon('pawl_dag.steps', 'c0000000-0000-7000-8000-00000000000c')$$),
    ('report',
        $$select from pawl_dag.report(
                (select jsonb_agg(jsonb_build_object('task_uuid', task_uuid, 'step_uuid', step_uuid, 'token', token,
                    'result', 1))
            from mine where name = 'held'), 'c0000000-0000-7000-8000-00000000000c')$$),
    ('cancel_tasks', 'select pawl_dag.cancel_tasks(array(select uuid from task order by n))'),
    ('resolve_task', $$select pawl_dag.resolve_task(uuid, 'x') from task order by uuid$$),
    ('cancel_step',
        $$select pawl_dag.cancel_step(task_uuid, step_uuid) from mine where name = 'due' order by task_uuid$$),
    ('resolve_step',
        $$select pawl_dag.resolve_step(task_uuid, step_uuid, 'x') from mine where name = 'lost' order by task_uuid$$),
    ('fire_many', $$select from pawl.fire_many('pawl_dag.steps',
        (select array_agg(row(task_uuid, step_uuid)) from mine where name in ('due', 'held')), 'Cancel')$$),
    ('work_sql', 'select pawl_dag.run_sql_steps(5)'),
    ('cancel_by_hand',
        $$update pawl_dag.tasks set state = 'cancelled' where task_uuid = (select uuid from task where n = 1)$$);
insert into deed select 'log_insert', $$insert into pawl_dag.step_transitions (task_uuid, step_uuid, event)
    select task_uuid, step_uuid, 'ResolveManually' from mine where name = 'held' order by 1, 2$$;

select dblink_exec('blocker', 'call prepare()') \g /dev/null
select is(string_agg(name || ' ' || state || coalesce(' ' || left(worker_uuid::text, 1), ''), ', ' order by name),
    'after pending, behind pending, due waiting_for_retry, failed enqueued_as_error_for_orchestration, free enqueued, '
    'held in_progress c, lost in_progress d', 'the steps are as they are meant to be') from mine group by task_uuid;
insert into found select 'task', first, second, pair('task', first, second) from pairs;
insert into found select 'held', first, second, pair('held', first, second) from pairs
    where first in ('cancel_tasks', 'abandon', 'report', 'fire_many', 'cancel_by_hand', 'log_insert');
select is_empty('select held, first, second, problem from found where problem is not null',
    'no pair of them ends in a deadlock');
select is_empty($$select a.name, b.name from deed a, deed b
    where not exists (select from found where held = 'task'
        and (first, second) in ((a.name, b.name), (b.name, a.name)))$$,
    'every pair has met');
call show_all();
select is((select count(*) from pawl_dag.tasks), 2 * (count(*) + 1),
        'two tasks were left by each, and two are as they were made') from found;
select is_empty('select wrong()', 'everything is as it must be');
select dblink_disconnect(c) from unnest(array['blocker', 'one', 'two']) c \g /dev/null
select * from finish();
