-- Which tasks a turn takes: one that cannot be read now, with however many results, hides no other.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
create role picking_worker login in role pawl_worker;
select pawl_dag.define_template('{"name": "wide", "identity_strategy": "always_unique",
    "steps": [{"name": "m", "map": "l"}]}'), pawl_dag.define_template('{"name": "one", "identity_strategy":
    "always_unique", "steps": [{"name": "a"}]}') \g /dev/null
-- A task that a worker runs by plain SQL, with results that it has not read.
create function owned(steps int) returns uuid language plpgsql as $$
declare
    me constant text := '00000000-0000-7000-8000-00000000000a';
    task constant uuid := pawl_dag.start_task('wide', jsonb_build_object('l', (select jsonb_agg(i)
        from generate_series(1, steps) i)));
begin
    set local role picking_worker;
    perform set_config('pawl.processor', me, true);
    update pawl_dag.tasks set state = 'initializing', processor_uuid = me::uuid,
        lease_until = clock_timestamp() + interval '1 hour' where task_uuid = task;
    update pawl_dag.tasks set state = 'enqueuing_steps' where task_uuid = task;
    update pawl_dag.steps set state = 'enqueued' where task_uuid = task;
    update pawl_dag.tasks set state = 'steps_in_process' where task_uuid = task;
    perform from pawl_dag.report((select jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid',
        c.step_uuid, 'token', c.token, 'result', 1)) from pawl_dag.claim(me, batch => steps) c), me);
    reset role;
    return task;
end $$;
create function reported() returns uuid language plpgsql as $$
declare
    me constant text := '00000000-0000-7000-8000-00000000000b';
    task constant uuid := pawl_dag.start_task('one');
begin
    perform from pawl_dag.orchestrate(10);
    perform from pawl_dag.report((select jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid',
        c.step_uuid, 'token', c.token, 'result', 1)) from pawl_dag.claim(me) c), me);
    return task;
end $$;
create function fetched() returns bigint language sql as $$
    select pg_stat_get_xact_tuples_fetched('pawl_dag.steps'::regclass) $$;
select owned(300) as wide, owned(9) as other \gset
select is((select string_agg(state || ' ' || (select count(*) from pawl_dag.steps s where s.task_uuid = t.task_uuid
    and s.state = 'enqueued_for_orchestration'), ', ' order by task_uuid) from pawl_dag.tasks t
    where task_uuid = any (array[:'wide', :'other']::uuid[])), 'steps_in_process 300, steps_in_process 9',
    'another processor has tasks with results that wait');
select reported() as task \gset
select is_rows('select tasks, reported, finished from pawl_dag.orchestrate(1)',
    'values (1, 1::bigint, 1::bigint)', 'a turn of one task reads the result of the task behind them');
select is(state_of(:'task'), 'complete: a complete', 'so that task completes');
select is(tasks, 0, 'and the tasks of the other processor are left to it') from pawl_dag.orchestrate(1);
select reported() as task \gset
select from pawl_dag.report_and_claim('[]', '00000000-0000-7000-8000-00000000000c', 'none', orchestrate => 1);
select is(state_of(:'task'), 'complete: a complete', 'a worker that claims reads it, too');
-- what a turn reads, whatever waits in front of it
analyze pawl_dag.steps, pawl_dag.tasks;
select reported() as task \gset
begin;
select fetched() as before \gset
select from pawl_dag.orchestrate(1);
select cmp_ok(fetched() - :before, '<', 100::bigint, 'of a task with many results only the first is read');
commit;
select is(state_of(:'task'), 'complete: a complete', 'which lets the task behind it complete');
-- one by one, where a task raises an error
create function poison() returns trigger
    language plpgsql as $$ begin raise exception 'poisoned' using errcode = 'ZZ001'; end $$;
select reported() as task \gset
select pawl_dag.start_task('one') as bad \gset
create table poisoned as select :'bad'::uuid as task;
grant select on poisoned to public;
create function is_poisoned(t uuid) returns boolean
    language sql as $$ select exists (select from public.poisoned where task = t) $$;
create trigger poison before update on pawl_dag.tasks
    for each row when (is_poisoned(new.task_uuid)) execute function poison();
set client_min_messages = error;
select from pawl_dag.orchestrate(2);
set client_min_messages = warning;
select is(state_of(:'task'), 'complete: a complete', 'turns of one task each pass the tasks that others own');
select is_rows('select task_uuid from pawl_dag.troubles', format('values (%L::uuid)', :'bad'),
    'and only the one that raises is set aside');
drop trigger poison on pawl_dag.tasks;
select is_empty('select wrong()', 'everything is as it must be');
drop role picking_worker;
select * from finish();
