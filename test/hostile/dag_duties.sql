-- What one task does wrong never stops the others: it is set aside, reported, and tried again.
\set QUIET 1
set client_min_messages = error;
select no_plan();
\ir ../pgtap/shared/dag.psql
create role duty_worker login in role pawl_worker;
create function poison() returns trigger
    language plpgsql as $$ begin raise exception 'poisoned' using errcode = 'ZZ001'; end $$;
create table poisoned (task uuid);
grant select on poisoned to public;
create function is_poisoned(t uuid) returns boolean
    language sql as $$ select exists (select from public.poisoned where task = t) $$;
create trigger poison before update on pawl_dag.tasks
    for each row when (is_poisoned(new.task_uuid)) execute function poison();
select pawl_dag.start_task('diamond') from generate_series(1, 5) \g /dev/null
insert into poisoned select task_uuid from pawl_dag.tasks order by task_uuid limit 2;
set role duty_worker;
select is(tasks, 5, 'all are looked at') from pawl_dag.orchestrate();
select work();
reset role;
select is((select string_agg(state, ' ' order by state) from pawl_dag.tasks),
    'complete complete complete pending pending', 'those that are well are done');
select is_rows('select task_uuid, sqlstate, message, failures from pawl_dag.troubles',
    $$select task, 'ZZ001', 'poisoned', 1 from poisoned$$, 'the others are reported');
select is(tasks, 0, 'and left alone for a while') from pawl_dag.orchestrate();
update pawl_dag.troubles set again_at = clock_timestamp();
select is(tasks, 2, 'then tried again') from pawl_dag.orchestrate();
select is_rows('select failures, again_at > clock_timestamp() + interval ''1 s'' from pawl_dag.troubles',
    'values (2, true), (2, true)', 'more and more seldom');
-- a result that cannot be read
truncate poisoned;
update pawl_dag.troubles set again_at = clock_timestamp();
select work();
select is((select count(*) from pawl_dag.tasks where state = 'complete'), 5::bigint, 'what was mended goes on');
update pawl_dag.troubles set again_at = clock_timestamp();
select from pawl_dag.orchestrate();
select is_empty('select * from pawl_dag.troubles', 'and is no trouble any more');
-- a failed assertion
create or replace function poison() returns trigger language plpgsql as $$ begin assert false, 'asserted'; end $$;
select pawl_dag.start_task('diamond') from generate_series(1, 2) \g /dev/null
insert into poisoned select task_uuid from pawl_dag.tasks where state = 'pending' order by task_uuid limit 1;
select is(tasks, 2, 'a failed assertion ends no duty') from pawl_dag.orchestrate();
select is_rows('select task_uuid, sqlstate, message from pawl_dag.troubles',
    $$select task, 'P0004', 'asserted' from poisoned$$, 'and is reported');
truncate poisoned;
update pawl_dag.troubles set again_at = clock_timestamp();
select work();
-- an error that asks for a retry counts against no step
create function busy() returns trigger
    language plpgsql as $$ begin raise exception 'later' using errcode = '40001'; end $$;
create trigger busy before update on pawl_dag.tasks for each row execute function busy();
select pawl_dag.start_task('diamond') as task \gset
select throws_ok('select pawl_dag.orchestrate()', '40001', 'later', 'a conflict is raised to the caller');
drop trigger busy on pawl_dag.tasks;
select work();
select is_empty('select wrong()', 'everything is as it must be');
drop trigger poison on pawl_dag.tasks;
drop role duty_worker;
-- steps whose report raises, from the duty that runs SQL functions: it commits, so it needs a session of its own
create function fine(context jsonb, inputs jsonb) returns jsonb language sql as $$ select '{}'::jsonb $$;
select pawl_dag.define_template(jsonb_build_object('name', n, 'steps',
    jsonb_build_array(jsonb_build_object('name', n, 'handler', 'sql:public.fine',
    'retry', '{"max_attempts": 1}'::jsonb))))
    from unnest(array['rejected', 'asserted', 'conflict', 'stuck', 'good']) n \g /dev/null
create function rejected() returns trigger language plpgsql as $$ begin
    assert new.name <> 'asserted' or new.state <> 'enqueued_for_orchestration', 'asserted';
    if new.name = 'conflict' then raise exception 'always' using errcode = '40001'; end if;
    if new.name = 'stuck' or new.name = 'rejected'
        and new.state = 'enqueued_for_orchestration' then raise exception 'rejected' using errcode = 'ZZ001'; end if;
    return new; end $$;
create trigger rejected before update on pawl_dag.steps
    for each row when (old.state = 'in_progress' and new.state <> old.state) execute function rejected();
select pawl_dag.start_task(n, priority => 9)
    from unnest(array['rejected', 'asserted', 'conflict', 'stuck']) n \g /dev/null
select pawl_dag.start_task('good') \g /dev/null
select from pawl_dag.orchestrate();
\setenv PGDATABASE :DBNAME
-- each call runs one step at least
\set said `for i in 1 2 3 4 5; do psql -XAtqc "call pawl_dag.work_sql_steps()"; done 2>&1`
select unalike(:'said'::text, '%ERROR%', 'a step whose report raises ends no duty');
select matches(:'said'::text, 'WARNING:  step \S+ of task \S+ raised: rejected', 'the duty warns of it');
select from pawl_dag.orchestrate();
select is((select string_agg(s.name || ' ' || s.state
            || coalesce(' ' || (s.error ->> 'sqlstate') || ' ' || (s.error ->> 'message'), ''), ', ' order by s.name)
             from pawl_dag.steps s where s.name in ('rejected', 'asserted', 'conflict', 'stuck', 'good')),
    'asserted error P0004 asserted, conflict in_progress, good complete, rejected error ZZ001 rejected, '
    'stuck in_progress', 'the step fails with the error, or is left to its lease; the others are run');
select * from finish();
