-- Mapped steps: a step of the template becomes one step for each element of an array in the context; a step that
-- depends on it gets the results in order.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
select pawl_dag.define_template($${"name": "mapped", "identity_strategy": "always_unique", "steps": [
    {"name": "list"}, {"name": "thumb", "handler": "resize", "handler_options": {"width": 100},
        "map": ["album", "images"], "dependencies": ["list"]},
    {"name": "join", "dependencies": ["thumb"]}]}$$) \g /dev/null

select pawl_dag.start_task('mapped', '{"album": {"images": ["x", {"y": 1}, null, 4, 5, 6, 7, 8, 9, 10, 11, 12]}}')
    as task \gset
select is_rows(format('select name, map_of, map_index, handler, handler_options from pawl_dag.steps where task_uuid = '
        '%L and map_index < 3', :'task'),
    $$values ('thumb[0]', 'thumb', 0, 'resize', '{"width": 100, "item": "x", "index": 0}'::jsonb),
        ('thumb[1]', 'thumb', 1, 'resize', '{"width": 100, "item": {"y": 1}, "index": 1}'),
             ('thumb[2]', 'thumb', 2, 'resize', '{"width": 100, "item": null, "index": 2}')$$,
    'each element has its step');
select is((select count(*) from pawl_dag.steps where task_uuid = :'task'), 14::bigint,
    'as many as there are, and the others');
select is_rows(format('select steps_total, steps_blocked, steps_ready from pawl_dag.tasks where task_uuid = %L',
    :'task'), 'values (14, 13, 1)', 'all are counted');
select is_rows(format('select name, total_parents, unsatisfied_parents, level from pawl_dag.steps where task_uuid = '
        '%L and map_index is distinct from 1 and coalesce(map_index, 0) < 2', :'task'),
    $$values ('list', 0, 0, 0), ('thumb[0]', 1, 1, 1), ('join', 12, 12, 2)$$, 'the join waits for all');
select work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete',
    'a task with an empty map completes');
select is((select parents #> '{thumb,result}'
    from pawl_dag.step_inputs(array[:'task'::uuid], array[step_of(:'task', 'join')])),
    (select jsonb_agg(jsonb_build_object('from', format('thumb[%s]', i)) order by i) from generate_series(0, 11) i),
    'the results are collected in the order of the array');
select is((select parents #>> '{thumb,state}'
    from pawl_dag.step_inputs(array[:'task'::uuid], array[step_of(:'task', 'join')])), 'complete', 'all are complete');

-- no element
select pawl_dag.start_task('mapped', '{"album": {"images": []}}') as task \gset
select is(state_of(:'task'), 'pending: join pending, list pending', 'no element, no step');
select is_rows(format('select name, total_parents, level from pawl_dag.steps where task_uuid = %L', :'task'),
    $$values ('list', 0, 0), ('join', 1, 2)$$, 'the join waits for what the mapped step would have waited for');
select work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete',
    'a task whose map has one element completes');

-- several tasks of different sizes at once, one failure
select array_agg(t) as tasks from pawl_dag.start_tasks('mapped',
    array['{"album": {"images": [1]}}', '{"album": {"images": [1, 2, 3]}}']::jsonb[]) t \gset
select is_rows(format('select steps_total from pawl_dag.tasks where task_uuid = any (%L)', :'tasks'), 'values (3), (5)',
    'each has its own');
select work('{thumb[2]}');
select is_rows(format('select state, steps_failed, steps_blocked from pawl_dag.tasks where task_uuid = any (%L)',
    :'tasks'), $$values ('complete', 0, 0), ('blocked_by_failures', 1, 1)$$, 'one that fails blocks its own task');
select pawl_dag.resolve_step(task_uuid, step_uuid, 'no picture') from pawl_dag.steps where state = 'error' \g /dev/null
select work();
select is((select count(*) from pawl_dag.tasks where state = 'complete'), 4::bigint, 'resolved by hand it goes on');
select is((select i.parents -> 'thumb'
    from pawl_dag.steps s, pawl_dag.step_inputs(array[s.task_uuid], array[s.step_uuid]) i
    where s.task_uuid = any (:'tasks') and s.name = 'join' and s.total_parents = 3),
    '{"state": "resolved_manually", "result": [{"from": "thumb[0]"}, {"from": "thumb[1]"}, null]}',
    'its place in the results is empty');

-- what cannot be
select throws_ok($$select pawl_dag.start_task('mapped', '{}')$$, '22023', 'step "thumb" needs an array in the context');
select throws_ok($$select pawl_dag.start_task('mapped', '{"album": {"images": 7}}')$$, '22023',
    'step "thumb" needs an array in the context');
select throws_ok($$select pawl_dag.define_template('{"name": "m", "steps": [{"name": "a", "map": "x"}, {"name": "b", '
    '"map": "y", "dependencies": ["a"]}]}')$$, '22023', 'mapped step "b" depends on "a", which is also mapped');
select throws_ok($$select pawl_dag.define_template('{"name": "m", "steps": [{"name": "a", "map": 1}]}')$$, '22023',
    'map of step "a" is not a path into the context');
select throws_ok($$select pawl_dag.define_template('{"name": "m", "steps": [{"name": "a", "map": []}]}')$$, '22023',
    'map of step "a" is not a path into the context');

-- a mapped SQL function
create function public.double_it(context jsonb, inputs jsonb) returns jsonb
    language sql as $$ select to_jsonb((inputs ->> 'item')::int * 2) $$;
create function public.sum_up(context jsonb, inputs jsonb) returns jsonb
    language sql as $$ select to_jsonb(sum(x::int)) from jsonb_array_elements_text(inputs -> 'each') x $$;
select pawl_dag.define_template(
        '{"name": "sums", "steps": [{"name": "each", "map": "n", "handler": "sql:public.double_it"},
    {"name": "sum", "handler": "sql:public.sum_up", "dependencies": ["each"]}]}') \g /dev/null
select pawl_dag.start_task('sums', '{"n": [1, 2, 3, 4]}') as task \gset
create procedure run() language plpgsql as $$ declare n int; begin loop perform
    from pawl_dag.orchestrate(); n := pawl_dag.run_sql_steps(100); exit when n = 0; end loop; perform
    from pawl_dag.orchestrate(); end $$;
call run();
select is((select result from pawl_dag.steps where task_uuid = :'task' and name = 'sum'), '20',
    'functions map and join');

-- a larger set: the same number of statements, whatever its size
select pawl_dag.start_task('mapped', jsonb_build_object('album',
        jsonb_build_object('images', (select jsonb_agg(i) from generate_series(1, 1000) i)))) as task \gset
select work();
select is_rows(format('select state, steps_satisfied from pawl_dag.tasks where task_uuid = %L', :'task'),
    $$values ('complete', 1002)$$, 'a set of 1,000');
select is((select jsonb_array_length(parents #> '{thumb,result}')
    from pawl_dag.step_inputs(array[:'task'::uuid], array[step_of(:'task', 'join')])), 1000, 'all of their results');
-- An input that cannot be formed, or not be sent, fails its step and stops no other. Numbers of a few bytes have
-- 131,072 digits as text.
select pawl_dag.define_template('{"name": "joined", "identity_strategy": "always_unique", "steps": [
    {"name": "each", "map": "l"}, {"name": "join", "dependencies": ["each"]}]}'), pawl_dag.define_template(
    '{"name": "one", "identity_strategy": "always_unique", "steps": [{"name": "single"}]}') \g /dev/null
\set me 00000000-0000-7000-8000-00000000000a
-- (which compresses them ten times as fast, where the server has it)
select set_config(name, 'lz4', false) from pg_settings where name = 'default_toast_compression'
    and 'lz4' = any (enumvals) \g /dev/null
-- A task of which each of so many elements has this result, and one of a single step behind it.
create function joins(result jsonb, elements int default 6) returns uuid language plpgsql as $$
declare task constant uuid := pawl_dag.start_task('joined', jsonb_build_object('l', (select jsonb_agg(i)
    from generate_series(1, elements) i)));
begin
    perform from pawl_dag.orchestrate(1000);
    perform from pawl_dag.claim('00000000-0000-7000-8000-00000000000a', batch => 1000, lease => '1 hour');
    perform set_config('pawl.processor', '00000000-0000-7000-8000-00000000000a', true);
    update pawl_dag.steps s set state = 'enqueued_for_orchestration', result = joins.result
        where s.task_uuid = task and s.map_of = 'each';
    perform set_config('pawl.processor', '', true);
    perform from pawl_dag.start_task('one');
    perform from pawl_dag.orchestrate(1000);
    return task;
end $$;
create function failure_of(task uuid) returns text language sql as $$
    select concat_ws(' ', s.state, s.error ->> 'sqlstate', s.permanent) from pawl_dag.steps s
     where s.task_uuid = task and s.name = 'join' $$;
select joins(to_jsonb(repeat('x', 1000000)), 300) as long_ones \gset
set role pawl_worker;
select is((select string_agg(name, ' ') from pawl_dag.claim(:'me')), 'single',
    'results that are too large for one value do not stop the steps behind them');
reset role;
select is(failure_of(:'long_ones'), 'enqueued_as_error_for_orchestration 54000 t', 'their step fails');
select is((select l.event || ' ' || l.processor from pawl_dag.step_transitions l join pawl_dag.steps s
    using (task_uuid, step_uuid) where s.task_uuid = :'long_ones' and s.name = 'join'
    order by l.sort_key desc limit 1), 'EnqueueAsErrorForOrchestration ' || :'me', 'as if its worker had reported it');
select tasks from pawl_dag.orchestrate() \g /dev/null
select is((select t.state || ' ' || d.reason from pawl_dag.tasks t join pawl_dag.dlq d using (task_uuid)
    where t.task_uuid = :'long_ones'), 'blocked_by_failures max_retries_exceeded', 'and is not retried');
select joins((select jsonb_agg('1e131071'::jsonb) from generate_series(1, 1500))) as numbers \gset
select is((select string_agg(name, ' ') from pawl_dag.claim(:'me', batch => 10)), 'single',
    'nor do numbers that no message can hold');
select is(failure_of(:'numbers'), 'enqueued_as_error_for_orchestration 54000 t', 'whose step fails as well');
select joins((select to_jsonb(string_agg(md5(i::text), '')) from generate_series(1, 10000) i)) as fitting \gset
select is((select jsonb_agg(length(r)) from pawl_dag.claim(:'me', batch => 10) c,
    jsonb_array_elements_text(c.parents #> '{each,result}') r where c.name = 'join'),
    '[320000, 320000, 320000, 320000, 320000, 320000]', 'results that fit are returned');
select joins((select jsonb_agg('1e131071'::jsonb) from generate_series(1, 1500))) as rejected \gset
create function public.no_errors() returns trigger language plpgsql as $$ begin raise 'no errors today'; end $$;
create trigger no_errors before update on pawl_dag.steps for each row
    when (new.state = 'enqueued_as_error_for_orchestration') execute function public.no_errors();
select is((select string_agg(name, ' ') from pawl_dag.claim(:'me', batch => 10)), 'single',
    'nor does a step that cannot fail either');
drop trigger no_errors on pawl_dag.steps;
select is(failure_of(:'rejected'), 'in_progress f', 'which waits until its lease expires');

-- in a call that reports as well
select pawl_dag.start_task('one') as mine \gset
select tasks from pawl_dag.orchestrate() \g /dev/null
select step_uuid, token from pawl_dag.claim(:'me', lease => '1 hour') \gset
select joins((select jsonb_agg('1e131071'::jsonb) from generate_series(1, 1500))) as others \gset
select is((select string_agg(concat_ws(' ', ok::text, state, problem, name), ', ') from pawl_dag.report_and_claim(
    jsonb_build_array(jsonb_build_object('task_uuid', :'mine', 'step_uuid', :'step_uuid', 'token', :token,
    'result', 1)), :'me', batch => 10)), 'true enqueued_for_orchestration, single',
    'a report is recorded though the input of a step cannot be formed');
select is(failure_of(:'others'), 'enqueued_as_error_for_orchestration 54000 t', 'whose step fails alone');

select is_empty('select wrong()', 'everything is as it must be');
select * from finish();
