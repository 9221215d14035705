-- Functions that a role has named in a definition are planned with the settings of their session: what the functions of
-- pawl on the way to them set for statements of their own is reset.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create table public.seen (place text, settings text);
-- Notes which planner settings the session did not begin with.
create function public.note(place text) returns boolean language sql as $$
    insert into public.seen select note.place, coalesce((select string_agg(name || ' ' || setting, ', ' order by name)
        from pg_catalog.pg_settings where setting <> reset_val
            and (name like 'enable\_%' or name in ('plan_cache_mode', 'work_mem', 'from_collapse_limit'))), 'none')
    returning true $$;

-- A call with every setting that functions of pawl have.
create function public.called(argument jsonb) returns jsonb language sql as
    $$ select to_jsonb(public.note('a call')) $$;
begin;
set local enable_seqscan = off;
set local enable_bitmapscan = off;
set local enable_hashjoin = off;
set local enable_mergejoin = off;
set local enable_nestloop = off;
set local enable_sort = off;
set local plan_cache_mode = force_generic_plan;
select is((select result from pawl.try_function(current_user, 'public.called', 'null')), 'true',
    'a function is called');
select is(current_setting('enable_seqscan') || current_setting('plan_cache_mode'), 'offforce_generic_plan',
    'the caller keeps its settings');
commit;
select is((select settings from public.seen where place = 'a call'), 'none', 'the function has those of the session');
select is((select array_agg(distinct split_part(c, '=', 1) order by split_part(c, '=', 1))
    from pg_proc p cross join unnest(p.proconfig) c where p.pronamespace::regnamespace::text ~ '^pawl'
        and (c ~ '^enable_' or c ~ '^plan_cache_mode')),
    '{enable_bitmapscan,enable_hashjoin,enable_mergejoin,enable_nestloop,enable_seqscan,enable_sort,plan_cache_mode}',
    'these are the planner settings of functions of pawl');
-- What a function sets itself stays, as without the call.
create function public.sets(argument jsonb) returns jsonb language sql as
    $$ select to_jsonb(set_config('my.setting', 'kept', false)) $$;
select pawl.try_function(current_user, 'public.sets', 'null') \g /dev/null
select is(current_setting('my.setting'), 'kept', 'what a function sets itself stays');

-- A step.
create function public.step(context jsonb, inputs jsonb) returns jsonb language sql as
    $$ select to_jsonb(public.note('a step')) $$;
select pawl_dag.define_template('{"name": "noted", "steps": [{"name": "a", "handler": "sql:public.step"}]}')
    \g /dev/null
select pawl_dag.start_task('noted') \g /dev/null
select pawl_dag.orchestrate() \g /dev/null
select is((select done from pawl_dag.run_sql_steps()), 1, 'a step of a task runs');

-- Validators, rows and notices of a bulk operation.
create function public.metadata(metadata jsonb) returns table (code text, message text) language sql as
    $$ select 'never', null from public.note('metadata') n where not n $$;
create function public.validate(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, code text, message text) language sql as
    $$ select 1::bigint, 'never', null from public.note('a validator') n where not n $$;
create function public.rows(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as
    $$ select 1::bigint, 'never' from public.note('rows') n where not n $$;
create function public.told(notice jsonb) returns void language sql as $$ select public.note('a notice') $$;
select pawl_bulk.define('{"name": "noted", "validators": ["public.validate"],
    "metadata_validators": ["public.metadata"], "handler": "sql:public.rows"}') \g /dev/null
select operation as o from pawl_bulk.submit('noted', rows => '[{"x": 1}]', notifications =>
    '[{"channel": "sql", "target": "public.told", "triggers": ["completion"]}]') \gset
do $$ begin
    for turn in 1 .. 20 loop
        exit when (select done from pawl_bulk.advance()) + (select done from pawl_bulk.run_sql_rows())
            + (select done from pawl_bulk.run_sql_notices()) = 0;
    end loop;
end $$;
select is((select status from pawl_bulk.operations where operation = :'o'), 'Completed', 'a bulk operation runs');

-- A task, a decider and a controller of a flow.
create function public.execute(arguments jsonb) returns jsonb language sql as
    $$ select to_jsonb(public.note('a task')) $$;
create function public.decide(history jsonb) returns boolean language sql as $$ select public.note('a decider') $$;
create function public.control(history jsonb) returns text language sql as
    $$ select case when public.note('a controller') then 'REVERT' end $$;
create function public.fails(arguments jsonb) returns jsonb language sql as $$ select to_jsonb(1 / 0) $$;
select pawl_saga.define('{"flow": "graph", "name": "noted", "retry": {"retry": "Function", "name": "r",
    "function": "public.control"}, "children": [{"task": "x", "execute": "sql:public.execute"},
    {"task": "t", "execute": "sql:public.fails"}],
    "links": [{"from": "x", "to": "t", "decider": {"function": "public.decide"}}]}') \g /dev/null
select pawl_saga.start('noted') as f \gset
do $$ begin
    for turn in 1 .. 20 loop
        exit when (select done from pawl_saga.run_sql_tasks()) = 0;
    end loop;
end $$;
select is((select state from pawl_saga.flows where flow_uuid = :'f'), 'REVERTED', 'a flow fails and is reverted');

select is((select string_agg(distinct place, ', ' order by place) from public.seen),
    'a call, a controller, a decider, a notice, a step, a task, a validator, metadata, rows',
    'each of these functions was called');
select is_empty($$select distinct place, settings from public.seen where settings <> 'none'$$,
    'with the planner settings of the session');
select * from finish();
