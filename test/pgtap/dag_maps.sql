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
select is_empty('select wrong()', 'everything is as it must be');
select * from finish();
