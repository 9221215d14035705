-- The duty that runs steps that are SQL functions: those that it releases are run by the same call.
\set QUIET 1
set client_min_messages to warning;
select no_plan();
\ir shared/dag.psql
create function public.fine(context jsonb, inputs jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
create function public.bad(context jsonb, inputs jsonb) returns jsonb language plpgsql as
    $$ begin raise exception 'no'; end $$;
select pawl_dag.define_template(format('{"name": "%s", "identity_strategy": "always_unique", "steps": [
    {"name": "a", "handler": "sql:public.fine"},
    {"name": "b", "handler": "sql:public.%s", "retry": {"max_attempts": 1}, "dependencies": ["a"]},
    {"name": "c", "handler": "sql:public.fine", "dependencies": ["b"]}]}', name, name)::jsonb)
  from unnest(array['fine', 'bad']) name \g /dev/null
create table done (n int);
-- A call begins nothing more after 100 ms; on a busy machine, so many steps take several calls.
create procedure runs(most int) language plpgsql as $$
declare
    remaining int := most;
    n int;
begin
    truncate done;
    loop
        call pawl_dag.work_sql_steps(remaining, null, n);
        insert into done values (n);
        remaining := remaining - n;
        exit when n = 0 or remaining <= 0;
    end loop;
end $$;
select pawl_dag.start_task('fine') as first, pawl_dag.start_task('fine') as second,
    pawl_dag.start_task('diamond') as outside \gset
call runs(100);
select is((select sum(n) from done), 0::bigint, 'a call that has run nothing leaves tasks to others');
select is(state_of(:'first'), 'pending: a pending, b pending, c pending', 'which have not begun');
create procedure runs_together(tries int, inout at_once bool default null) language plpgsql as $$
begin
    for try in 1 .. tries loop
        perform from pawl_dag.orchestrate();
        call runs(100);
        at_once := (select max(n) from done) >= 6;
        exit when at_once;
        perform pawl_dag.start_task('fine'), pawl_dag.start_task('fine');
        commit;
    end loop;
    loop
        exit when (select sum(n) from done) = 0;
        perform from pawl_dag.orchestrate();
        call runs(100);
    end loop;
end $$;
call runs_together(50) \gset
select is(:'at_once'::text, 't', 'those that the first steps release are run by the same call');
select is(state_of(task), 'complete: a complete, b complete, c complete', 'and their tasks end')
  from unnest(array[:'first', :'second']::uuid[]) task;
select is(state_of(:'outside'), 'steps_in_process: a enqueued, b pending, c pending, d pending', 'others are moved on');

select pawl_dag.start_task('fine') as task \gset
select count(*) from pawl_dag.orchestrate() \g /dev/null
call runs(2);
select is((select sum(n) from done), 2::bigint, 'no more are run than were asked for');
select is(state_of(:'task'), 'steps_in_process: a complete, b enqueued_for_orchestration, c pending',
    'and what the last one releases is left to others');

select pawl_dag.start_task('bad') as task \gset
select count(*) from pawl_dag.orchestrate() \g /dev/null
call runs(100);
select is(state_of(:'task'), 'blocked_by_failures: a complete, b error, c pending', 'a step that fails releases none');
select is_empty('select * from wrong()', 'nothing is wrong');
select * from finish();
