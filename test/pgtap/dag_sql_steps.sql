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

-- What one step does wrong never stops the others: it fails alone, in either way to run them.
create table public.effects (of text);
create function public.slow(context jsonb, inputs jsonb) returns jsonb language plpgsql as $$
begin
    insert into public.effects values ('slow');
    while exists (select from pawl_dag.steps s where s.name = 'slow' and s.state = 'in_progress'
        and s.last_attempted_at + s.timeout > clock_timestamp()) loop
    end loop;
    return '1';
end $$;
create function public.cancels(context jsonb, inputs jsonb) returns jsonb language plpgsql as $$
begin
    insert into public.effects values ('cancels');
    perform pawl_dag.cancel_task(s.task_uuid) from pawl_dag.steps s
        where s.name = 'cancels' and s.state = 'in_progress';
    return '1';
end $$;
create function public.sets(context jsonb, inputs jsonb) returns jsonb language plpgsql as $$
begin
    perform set_config('pawl.token', '99', false), set_config('pawl.event', 'Cancel', false),
        set_config('pawl.events', '{Cancel}', false),
        set_config('pawl.processor', '00000000-0000-7000-8000-0000000000ff', false);
    return '1';
end $$;
select pawl_dag.define_template(jsonb_build_object('name', n, 'identity_strategy', 'always_unique', 'steps',
    jsonb_build_array(jsonb_build_object('name', n, 'retry', '{"max_attempts": 2}'::jsonb,
        'handler', 'sql:public.' || case n when 'alone' then 'fine' else n end)
        || case n when 'slow' then '{"timeout_seconds": 0.2}'::jsonb else '{}' end)))
  from unnest(array['slow', 'cancels', 'sets', 'alone']) n \g /dev/null
create table started (task_uuid uuid);
create function looks() returns text language sql as $$
    select string_agg(concat_ws(' ', s.name, s.state, s.attempts, s.error ->> 'sqlstate', s.error ->> 'message'), '; '
        order by s.name) from pawl_dag.steps s join public.started t using (task_uuid) $$;
insert into started select pawl_dag.start_task(n, priority => p)
  from (values ('slow', 9), ('cancels', 8), ('sets', 7), ('alone', 6)) t(n, p);
select count(*) from pawl_dag.orchestrate() \g /dev/null
set client_min_messages = error;
select is(done, 4, 'all are run in one transaction') from pawl_dag.run_sql_steps(10);
select is(looks(), 'alone enqueued_for_orchestration 1; cancels enqueued_as_error_for_orchestration 1 PW001 no '
    'transition from "cancelled" to "enqueued_for_orchestration" in machine "pawl_dag.step"; sets '
    'enqueued_for_orchestration 1; slow waiting_for_retry 1 PW005 the function ran longer than the timeout of the '
    'step, 00:00:00.2', 'the error is that of the step which is wrong, and its attempt');
select is_empty('select * from public.effects', 'what its function did is undone');
select ok(next_retry_at > last_attempted_at, 'a step whose timeout has passed waits for its retry')
    from pawl_dag.steps where name = 'slow';
reset pawl.token;
reset pawl.event;
reset pawl.events;
reset pawl.processor;
-- what a function has set lasts in its session, and is not meant for the steps after it
insert into started select pawl_dag.start_task(n) from unnest(array['sets', 'alone', 'sets']) n;
update pawl_dag.steps set next_retry_at = clock_timestamp() where name = 'slow' and state = 'waiting_for_retry';
select done, (select tasks from pawl_dag.orchestrate()) from pawl.fire_due('pawl_dag.steps') \g /dev/null
select tasks from pawl_dag.orchestrate() \g /dev/null
delete from started s using pawl_dag.steps t where t.task_uuid = s.task_uuid and t.state <> 'enqueued';
create procedure works() language plpgsql as $$
declare n int;
begin
    for run in 1 .. 20 loop
        call pawl_dag.work_sql_steps(1, null, n);
        exit when not exists (select from pawl_dag.steps s join public.started t using (task_uuid)
            where s.state in ('enqueued', 'in_progress'));
    end loop;
end $$;
call works();
reset pawl.token;
reset pawl.event;
reset pawl.events;
reset pawl.processor;
select is(looks(), 'alone enqueued_for_orchestration 1; sets enqueued_for_orchestration 1; sets '
    'enqueued_for_orchestration 1; slow error 2 PW005 the function ran longer than the timeout of the step, 00:00:00.2',
    'the duty treats them alike, and the last attempt ends the step');
set client_min_messages to warning;
select is_empty('select * from public.effects', 'nothing remains of a function that took too long');
-- nor is what it says of its own state changes said of theirs
create function public.says(context jsonb, inputs jsonb) returns jsonb language plpgsql as $$
begin
    perform pawl.set_context(metadata => '{"order": 4711}', correlation_id => 'order-4711', delay => '1 day');
    return '1';
end $$;
create function public.says_for_session(context jsonb, inputs jsonb) returns jsonb language sql as $$
    select to_jsonb(set_config('pawl.metadata', '{"order": 4712}', false)) $$;
select pawl_dag.define_template(jsonb_build_object('name', n, 'identity_strategy', 'always_unique', 'steps',
    jsonb_build_array(jsonb_build_object('name', n, 'handler', 'sql:public.' || n))))
  from unnest(array['says', 'says_for_session']) n \g /dev/null
create function said_of_others() returns bigint language sql as $$
    select count(*) from pawl_dag.step_transitions l join pawl_dag.steps s using (task_uuid, step_uuid)
        join public.started t using (task_uuid)
     where s.name = 'alone' and l.to_state in ('in_progress', 'enqueued_for_orchestration')
       and (l.metadata ? 'order' or l.correlation_id = 'order-4711') $$;
truncate started;
insert into started select pawl_dag.start_task(n, priority => p) from (values ('says', 9), ('alone', 8)) t(n, p);
select count(*) from pawl_dag.orchestrate() \g /dev/null
select is(done, 2, 'two run in one transaction') from pawl_dag.run_sql_steps(10);
select is(said_of_others(), 0::bigint, 'the context that a function sets is not that of the next step');
truncate started;
insert into started select pawl_dag.start_task(n, priority => p)
  from (values ('says_for_session', 9), ('says', 8), ('alone', 7)) t(n, p);
select count(*) from pawl_dag.orchestrate() \g /dev/null
call works();
select is(looks(), 'alone enqueued_for_orchestration 1; says enqueued_for_orchestration 1; says_for_session '
    'enqueued_for_orchestration 1', 'three run in transactions of their own');
select is(said_of_others(), 0::bigint, 'nor is a context that it sets for the session');
select is(current_setting('pawl.metadata', true), '', 'which the duty leaves as it was');
-- a report that a trigger suppresses undoes what the function did
create function public.suppresses() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger suppresses before update on pawl_dag.steps for each row
    when (old.state = 'in_progress' and new.state = 'enqueued_for_orchestration' and new.name = 'suppressed')
    execute function suppresses();
create function public.leaves(context jsonb, inputs jsonb) returns jsonb language sql as $$
    insert into public.effects values ('suppressed') returning '1'::jsonb $$;
select pawl_dag.define_template('{"name": "suppressed", "identity_strategy": "always_unique", "steps": [
    {"name": "suppressed", "handler": "sql:public.leaves", "retry": {"max_attempts": 1}}]}') \g /dev/null
truncate started;
insert into started select pawl_dag.start_task('suppressed');
select count(*) from pawl_dag.orchestrate() \g /dev/null
set client_min_messages = error;
select done from pawl_dag.run_sql_steps(10) \g /dev/null
set client_min_messages to warning;
select is((select state || ' ' || (error ->> 'sqlstate') from pawl_dag.steps where name = 'suppressed'),
    'enqueued_as_error_for_orchestration 55000', 'a step whose report is suppressed fails');
select is_empty('select * from public.effects', 'and its function is undone');
drop trigger suppresses on pawl_dag.steps;
-- a report that always raises leaves its step to the lease
create function public.rejects() returns trigger
    language plpgsql as $$ begin raise exception 'no' using errcode = 'ZZ001'; end $$;
create trigger rejects before update on pawl_dag.steps for each row
    when (old.state = 'in_progress' and new.state <> 'in_progress' and new.name = 'stuck') execute function rejects();
select pawl_dag.define_template('{"name": "stuck", "identity_strategy": "always_unique", "steps": [
    {"name": "stuck", "handler": "sql:public.fine"}]}') \g /dev/null
truncate started;
insert into started select pawl_dag.start_task('stuck', priority => 9);
insert into started select pawl_dag.start_task('alone');
select count(*) from pawl_dag.orchestrate() \g /dev/null
set client_min_messages = error;
select is(done, 2, 'the other one is run, too') from pawl_dag.run_sql_steps(10);
set client_min_messages to warning;
select is(looks(), 'alone enqueued_for_orchestration 1; stuck in_progress 1', 'the attempt of the step counts');
select ok(lease_until < clock_timestamp() + interval '2 min', 'and its lease is a short one')
    from pawl_dag.steps where name = 'stuck';
select is_empty('select * from wrong()', 'nothing is wrong');
select * from finish();
