-- What each role may do with tasks and steps, and whose functions run.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
create role dag_worker login in role pawl_worker;
create role dag_operator login in role pawl_operator;
create role dag_reader login in role pawl_reader;
create role dag_admin login in role pawl_admin;
create role dag_stranger login;
grant usage on schema public to public;
create function public.danger(context jsonb, inputs jsonb) returns jsonb
    language sql as $$ select to_jsonb(current_user::text) $$;
create function public.fine(context jsonb, inputs jsonb) returns jsonb
    language sql as $$ select to_jsonb('fine'::text) $$;

-- What happens when a role runs a command: the SQLSTATE of its rejection, or ok. It is rolled back.
create function may(role name, command text) returns text language plpgsql as $$
begin
    execute format('set local role %I', role);
    execute command;
    raise exception using errcode = 'ZZZZZ', message = 'ok';
exception when others then
    return case sqlstate when 'ZZZZZ' then 'ok' else sqlstate end;
end $$;
select pawl_dag.define_template('{"name": "sql", "identity_strategy": "always_unique", "steps": [{"name": "a", '
    '"handler": "sql:public.fine"}]}') \g /dev/null
select pawl_dag.start_task('diamond') as task \gset
select from pawl_dag.orchestrate();
select step_of(:'task', 'a') as step \gset
create table wish (command text, admin text, operator text, worker text, reader text, stranger text);
insert into wish values
    ($$select * from pawl_dag.tasks t, pawl_dag.task_context(t.task_uuid)$$, 'ok', 'ok', 'ok', 'ok', '42501'),
    ($$select * from pawl_dag.step_results$$, 'ok', 'ok', 'ok', 'ok', '42501'),
    ($$select pawl_dag.define_template('{"name": "x"}')$$, 'ok', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.templates set name = 'y'$$, '42501', '42501', '42501', '42501', '42501'),
    ($$select pawl_dag.start_task('diamond')$$, 'ok', 'ok', 'ok', '42501', '42501'),
    ($$select pawl_dag.orchestrate()$$, 'ok', 'ok', 'ok', '42501', '42501'),
    ($$select pawl.claim(null::pawl_dag.steps, 'Start', 'c0000000-0000-7000-8000-000000000000', queue => 'default')$$,
        'ok', 'ok', 'ok', '42501', '42501'),
    ($$select pawl_dag.report('[]', 'x')$$, 'ok', 'ok', 'ok', '42501', '42501'),
    ($$select pawl_dag.run_sql_steps(1)$$, 'ok', 'ok', '42501', '42501', '42501'),
    ($$select pawl_dag.time_out_tasks()$$, 'ok', 'ok', '42501', '42501', '42501'),
    (format($$select pawl_dag.cancel_task(%L)$$, :'task'), '42501', 'ok', '42501', '42501', '42501'),
    (format($$update pawl_dag.tasks set state = 'cancelled' where task_uuid = %L$$, :'task'), '42501', 'ok', '42501',
        '42501', '42501'),
    (format($$select pawl_dag.resolve_step(%L, %L, 'x')$$, :'task', :'step'), '42501', 'ok', '42501', '42501', '42501'),
    (format($$update pawl_dag.steps set state = 'resolved_manually' where step_uuid = %L$$, :'step'), '42501', 'ok',
        '42501', '42501', '42501'),
    (format($$update pawl_dag.steps set state = 'cancelled' where step_uuid = %L$$, :'step'), '42501', 'ok', '42501',
        '42501', '42501'),
    (format($$update pawl_dag.steps set state = 'complete' where step_uuid = %L$$, :'step'), '42501', 'ok', '42501',
        '42501', '42501'),
    (format($$insert into pawl_dag.step_transitions (task_uuid, step_uuid, event) values (%L, %L, 'Cancel')$$, :'task',
        :'step'), '42501', 'ok', '42501', '42501', '42501'),
    ($$update pawl_dag.steps set handler = 'sql:public.danger'$$, '42501', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.steps set namespace = 'sql:'$$, '42501', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.tasks set template_uuid = pawl.uuid_v7()$$, '42501', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.steps set max_attempts = 9$$, 'ok', 'ok', '42501', '42501', '42501'),
    ($$delete from pawl_dag.steps$$, '42501', '42501', '42501', '42501', '42501'),
    ($$delete from pawl_dag.tasks$$, '42501', '42501', '42501', '42501', '42501'),
    ($$truncate pawl_dag.step_transitions_log$$, '42501', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.step_transitions_log set processor = 'me'$$, '42501', '42501', '42501', '42501', '42501'),
    ($$delete from pawl_dag.step_result_audit$$, '42501', '42501', '42501', '42501', '42501');
select is_rows(
        format($$select may('dag_admin', %1$L), may('dag_operator', %1$L), may('dag_worker', %1$L),
            may('dag_reader', %1$L), may('dag_stranger', %1$L)$$, command),
               format('values (%L, %L, %L, %L, %L)', admin, operator, worker, reader, stranger), command) from wish;

-- a worker's whole day, with a worker's rights
set role dag_worker;
select work();
reset role;
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete',
    'a worker starts, orchestrates, claims and reports');

-- A step that names a function is run by a role with more rights, so the template decides which function runs.
select pawl_dag.start_task('sql') as task \gset
set role dag_worker;
insert into pawl_dag.steps (task_uuid, name, namespace, handler) values (:'task', 'mine', 'sql:', 'sql:public.danger');
select from pawl_dag.orchestrate();
reset role;
select is(pawl_dag.run_sql_steps(10), 2, 'both are looked at');
select is_rows(format('select name, state, result, error ->> %L, permanent from pawl_dag.steps where task_uuid = %L',
    'sqlstate', :'task'),
    $$values ('a', 'enqueued_for_orchestration', '"fine"'::jsonb, null, false),
        ('mine', 'enqueued_as_error_for_orchestration', null, '42501', true)$$,
    'but only the template''s function is run');
-- No role can say that follow-ups are done already: neither by the settings that once said so, nor by calling internal
-- functions of the orchestrator.
set role dag_operator;
set pawl_dag.counted = '0';
set pawl_dag.picked = '0';
select pawl_dag.start_task('diamond') as task \gset
update pawl_dag.steps set state = 'resolved_manually' where task_uuid = :'task' and name = 'a';
select is_rows(format('select steps_blocked, steps_ready, steps_satisfied, evaluate from pawl_dag.tasks where '
    'task_uuid = %L', :'task'), 'values (1, 2, 1, true)',
    'whatever is set, dependent steps and the task are updated');
reset pawl_dag.counted;
reset pawl_dag.picked;
reset role;
select is(pawl_dag._orchestrating(), false, 'no orchestrator is at work');
select is(pawl_dag._enqueued_in_turn(:'task'), false, 'no turn has enqueued steps');
-- A user's trigger that changes steps while an orchestrator works has its follow-ups.
create function meddle() returns trigger language plpgsql as $$
begin
    update pawl_dag.steps s set state = 'resolved_manually'
        where s.task_uuid = new.task_uuid and s.name = 'd' and s.state = 'pending';
    return null;
end $$;
create trigger meddle after update on pawl_dag.steps
    for each row when (new.name = 'b' and new.state = 'enqueued' and old.state = 'pending') execute function meddle();
select from pawl_dag.orchestrate();
select is_rows(format('select state, steps_blocked, steps_ready, steps_in_flight, steps_satisfied from pawl_dag.tasks '
        'where task_uuid = %L', :'task'), $$values ('steps_in_process', 0, 0, 2, 2)$$, 'the counters know of both');
drop trigger meddle on pawl_dag.steps;
-- An orchestrator that fails is not at work any more.
create function reject() returns trigger
    language plpgsql as $$ begin raise exception 'not now' using errcode = 'ZZ001'; end $$;
create trigger reject before update on pawl_dag.steps
    for each row when (new.state = 'enqueued') execute function reject();
select pawl_dag.start_task('diamond') as task \gset
set client_min_messages = error;
select from pawl_dag.orchestrate();
set client_min_messages = warning;
select is_rows('select task_uuid, sqlstate, message from pawl_dag.troubles',
    format('values (%L::uuid, %L, %L)', :'task', 'ZZ001', 'not now'), 'an error in a turn is reported');
delete from pawl_dag.troubles;
drop trigger reject on pawl_dag.steps;
update pawl_dag.steps set state = 'resolved_manually' where task_uuid = :'task' and name = 'a';
select is_rows(format('select steps_blocked, steps_ready, steps_satisfied from pawl_dag.tasks where task_uuid = %L',
    :'task'), 'values (1, 2, 1)', 'and what comes next has its follow-ups');

-- No two steps of a task have the same name.
select throws_ok(format('insert into pawl_dag.steps (task_uuid, name, namespace, handler) values (%L, %L, %L, %L)',
    :'task', 'b', 'default', 'x'), '23505', 'step "b" already exists in the task', 'a name that is there');
select throws_ok(format('insert into pawl_dag.steps (task_uuid, name, namespace, handler) select %L, %L, %L, %L from '
    'generate_series(1, 2)', :'task', 'new', 'default', 'x'),
    '23505', 'step "new" already exists in the task', 'a name said twice');
select throws_ok(format('update pawl_dag.steps set name = %L where task_uuid = %L and name = %L', 'b', :'task', 'c'),
    '23505', 'step "b" already exists in the task', 'a name that is taken');
select lives_ok(format('update pawl_dag.steps set name = %L where task_uuid = %L and name = %L', 'z', :'task', 'c'),
    'one that is not');

reset role;
select throws_ok(format('select pawl.set_placing(%L)', b.relation), '55000',
    format('rows of table %s cannot be placed', b.relation), format('rows of %s are not placed', b.relation))
  from pawl.binding b where b.extension is not null;
select is_empty('select wrong()', 'everything is as it must be');
drop role dag_worker, dag_operator, dag_reader, dag_admin, dag_stranger;
select * from finish();
