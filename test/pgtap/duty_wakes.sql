-- What a transaction leaves to a duty, without a state change that says so, wakes those that do it. One session waits
-- in the background, by dblink; PostgreSQL tells it at the end of its next query.
\set QUIET 1
set client_min_messages to warning;
select no_plan();
\ir shared/dag.psql
create extension dblink;
create extension pawl_bulk;
create extension pawl_saga;
select dblink_connect('s', format('host=%L port=%s dbname=%L user=%L', current_setting('unix_socket_directories'),
        current_setting('port'), current_database(), current_user)) \g /dev/null
create function waiter(what text) returns text
    language sql as $$ select r from dblink('s', 'select ' || what) d(r text) $$;
create function heard() returns text language sql as $$
    select coalesce(string_agg(d.c, ', ' order by d.c), 'none')
      from (select distinct case g.notify_name when pawl.channel('pawl_dag.steps') then 'steps'
                       when pawl.channel('pawl_saga.tasks') then 'tasks' else g.notify_name end
              from (select waiter('1')) asked, lateral dblink_get_notify('s') g) d(c) $$;
create function claimed(batch int default 1) returns jsonb language sql as $$
    select coalesce(jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token,
        'result', 1)), '[]') from pawl_dag.claim('00000000-0000-7000-8000-00000000000a', batch => batch) c $$;
create function reported(results jsonb) returns boolean language sql as $$
    select bool_and(r.ok) from pawl_dag.report(results, '00000000-0000-7000-8000-00000000000a') r $$;
select waiter('pawl.sleep(''pawl_dag.steps'')'), waiter('pawl.sleep(''pawl_saga.tasks'')'),
    waiter('pawl.sleep()') \g /dev/null

-- tasks that need an orchestrator: workers that wait for steps, and pawld, which waits for events

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

-- the last row of an operation: the duty ends it
select pawl_bulk.define('{"name": "rows", "max_input_bytes": 0, "steps": [{"name": "first", "handler": "external"},
    {"name": "last", "handler": "external"}]}') \g /dev/null
begin;
select operation from pawl_bulk.submit('rows') \gset
insert into pawl_bulk.input (operation, row_number, data) select :'operation', g, '{}' from generate_series(1, 2) g;
select pawl_bulk.seal(:'operation') \g /dev/null
commit;
do $$ begin loop exit when (select done from pawl_bulk.advance()) = 0; end loop; end $$;
create function rows_reported(wanted int) returns text language sql as $$
    select string_agg(r.row_number || ' ' || r.step_index || ' ' || r.ok, ', ' order by r.row_number)
      from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', c.operation, 'row_number', c.row_number,
              'step_index', c.step_index, 'token', c.token, 'result', 'ok'))
          from pawl_bulk.claim('w', 'external', wanted) c), 'w') r $$;
select heard() \g /dev/null
select is(rows_reported(2), '1 0 true, 2 0 true', 'the rows of the first step');
select is(heard(), 'none', 'leave nothing to a duty');
select is(rows_reported(1), '1 1 true', 'nor does the first row');
select is(heard(), 'none', 'of the last step');
select is(rows_reported(1), '2 1 true', 'the last row that ends');
select is(heard(), 'pawl_events', 'wakes those that end the operation');
select count(*) from pawl_bulk.advance() \g /dev/null
select is((select status from pawl_bulk.operations), 'Completed', 'which is then complete');

-- questions to a function: a report of several flows asks none of them
create function public.yes(history jsonb) returns boolean language sql as $$ select true $$;
select pawl_saga.define('{"flow": "graph", "name": "asks", "children": [{"task": "a"}, {"task": "b"}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "public.yes"}}]}') \g /dev/null
select pawl_saga.start('asks'), pawl_saga.start('asks') \g /dev/null
select jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token, 'result', 1)) as got
  from pawl_saga.claim('w', batch => 2) c \gset
select heard() \g /dev/null
select is((select bool_and(r.ok) from pawl_saga.report(:'got', 'w') r), true, 'a worker reports two tasks');
select is((select count(*) from pawl_saga.questions), 2::bigint, 'which leaves two questions');
select is((select count(*) from pawl_saga.claim('w', batch => 2)), 0::bigint, 'and nothing to claim');
select is(heard(), 'pawl_events, tasks', 'it wakes those that ask them');
select * from finish();
