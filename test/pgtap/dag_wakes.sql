-- Tasks that need an orchestrator wake those that can do its work: workers that wait for steps, and pawld, which waits
-- for events. One session waits in the background, by dblink; PostgreSQL tells it at the end of its next query.
\set QUIET 1
set client_min_messages to warning;
select no_plan();
\ir shared/dag.psql
create extension dblink;
select dblink_connect('s', format('host=%L port=%s dbname=%L user=%L', current_setting('unix_socket_directories'),
        current_setting('port'), current_database(), current_user)) \g /dev/null
create function waiter(what text) returns text
    language sql as $$ select r from dblink('s', 'select ' || what) d(r text) $$;
create function heard() returns text language sql as $$
    select coalesce(string_agg(d.c, ', ' order by d.c), 'none')
      from (select distinct case g.notify_name when pawl.channel('pawl_dag.steps') then 'steps' else g.notify_name end
              from (select waiter('1')) asked, lateral dblink_get_notify('s') g) d(c) $$;
create function claimed(batch int default 1) returns jsonb language sql as $$
    select coalesce(jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token,
        'result', 1)), '[]') from pawl_dag.claim('00000000-0000-7000-8000-00000000000a', batch => batch) c $$;
create function reported(results jsonb) returns boolean language sql as $$
    select bool_and(r.ok) from pawl_dag.report(results, '00000000-0000-7000-8000-00000000000a') r $$;
select waiter('pawl.sleep(''pawl_dag.steps'')'), waiter('pawl.sleep()') \g /dev/null

select pawl_dag.start_task('diamond') as task \gset
select is(heard(), 'pawl_events, steps', 'a new task wakes workers, which move it on as they claim, and pawld');
begin; select pawl_dag.start_task('diamond'), heard() \g /dev/null
rollback;
select is(heard(), 'none', 'one that is rolled back wakes none');
select count(*) from pawl_dag.orchestrate() \g /dev/null
select is(heard(), 'pawl_events, steps', 'steps that are enqueued wake workers');
select claimed() as got \gset
select heard() \g /dev/null
select is(reported(:'got'), true, 'a worker reports, and moves nothing on');
select is(heard(), 'pawl_events, steps', 'then it wakes the others');
select is(reported(:'got'), true, 'the same report again');
select is(heard(), 'none', 'stores nothing, and wakes none');
select count(*) from pawl_dag.orchestrate() \g /dev/null
select claimed(2) as got \gset
select heard() \g /dev/null
select set_config('pawl.processor', '00000000-0000-7000-8000-00000000000a', false),
    set_config('pawl.token', (:'got'::jsonb)->0->>'token', false) \g /dev/null
update pawl_dag.steps set state = 'enqueued_for_orchestration', result = '{}'
 where task_uuid = :'task' and step_uuid = ((:'got'::jsonb)->0->>'step_uuid')::uuid;
select is(heard(), 'pawl_events, steps', 'a report by hand is one');
select set_config('pawl.processor', '', false), set_config('pawl.token', '', false) \g /dev/null
select count(*) from pawl_dag.report_and_claim(jsonb_build_array((:'got'::jsonb)->1),
    '00000000-0000-7000-8000-00000000000a', batch => 1, orchestrate => 100) \g /dev/null
select is(heard(), 'pawl_events', 'a worker that reports, moves the task on and claims what follows wakes no other');
select count(*) from pawl_dag.orchestrate() \g /dev/null
select heard() \g /dev/null
update pawl_dag.tasks set evaluate = true where task_uuid = :'task';
select is(heard(), 'pawl_events, steps', 'a task that is to be looked at wakes them');
update pawl_dag.tasks set evaluate = true where task_uuid = :'task';
select is(heard(), 'none', 'one that is already wakes none');

-- a step that waits for its retry is ready again when its time has come
select pawl_dag.start_task('diamond') as task \gset
select count(*) from pawl_dag.orchestrate() \g /dev/null
select claimed() as got \gset
select heard() \g /dev/null
select reported(jsonb_set(:'got'::jsonb - 0, '{0}', ((:'got'::jsonb)->0) - 'result'
    || '{"error": {"message": "later", "retry_after": 0}}')) \g /dev/null
select is(heard(), 'pawl_events, steps', 'a failure is a report, too');
select count(*) from pawl_dag.orchestrate() \g /dev/null
select is((select s.state from pawl_dag.steps s where s.task_uuid = :'task' and s.name = 'a'), 'waiting_for_retry',
    'the step waits for its retry');
select heard() \g /dev/null
select is((select done from pawl.fire_due('pawl_dag.steps')), 1::bigint, 'whose time has come');
select is(heard(), 'pawl_events, steps', 'which wakes those that enqueue it');
select * from finish();
