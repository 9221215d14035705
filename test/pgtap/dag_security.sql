-- Who may do what with tasks and steps, and whose functions run.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
create role dag_worker login in role pawl_worker;
create role dag_operator login in role pawl_operator;
create role dag_reader login in role pawl_reader;
create role dag_admin login in role pawl_admin;
create role dag_nobody login;
grant usage on schema public to public;
create function public.danger(context jsonb, inputs jsonb) returns jsonb language sql as $$ select to_jsonb(current_user::text) $$;
create function public.fine(context jsonb, inputs jsonb) returns jsonb language sql as $$ select to_jsonb('fine'::text) $$;

-- What a role may do: what it is refused by, or ok. Undone.
create function may(role name, command text) returns text language plpgsql as $$
begin
    execute format('set local role %I', role);
    execute command;
    raise exception using errcode = 'ZZZZZ', message = 'ok';
exception when others then
    return case sqlstate when 'ZZZZZ' then 'ok' else sqlstate end;
end $$;
select pawl_dag.define_template('{"name": "sql", "identity_strategy": "always_unique", "steps": [{"name": "a", "handler": "sql:public.fine"}]}') \g /dev/null
select pawl_dag.start_task('diamond') as task \gset
select from pawl_dag.orchestrate();
select step_of(:'task', 'a') as step \gset
create table wish (command text, admin text, operator text, worker text, reader text, nobody text);
insert into wish values
    ($$select * from pawl_dag.tasks t, pawl_dag.task_context(t.task_uuid)$$, 'ok', 'ok', 'ok', 'ok', '42501'),
    ($$select * from pawl_dag.step_results$$, 'ok', 'ok', 'ok', 'ok', '42501'),
    ($$select pawl_dag.define_template('{"name": "x"}')$$, 'ok', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.templates set name = 'y'$$, '42501', '42501', '42501', '42501', '42501'),
    ($$select pawl_dag.start_task('diamond')$$, 'ok', 'ok', 'ok', '42501', '42501'),
    ($$select pawl_dag.orchestrate()$$, 'ok', 'ok', 'ok', '42501', '42501'),
    ($$select pawl.claim(null::pawl_dag.steps, 'Start', 'c0000000-0000-7000-8000-000000000000', queue => 'default')$$, 'ok', 'ok', 'ok', '42501', '42501'),
    ($$select pawl_dag.report('[]', 'x')$$, 'ok', 'ok', 'ok', '42501', '42501'),
    ($$select pawl_dag.run_sql_steps(1)$$, 'ok', 'ok', '42501', '42501', '42501'),
    ($$select pawl_dag.time_out_tasks()$$, 'ok', 'ok', '42501', '42501', '42501'),
    (format($$select pawl_dag.cancel_task(%L)$$, :'task'), '42501', 'ok', '42501', '42501', '42501'),
    (format($$update pawl_dag.tasks set state = 'cancelled' where task_uuid = %L$$, :'task'), '42501', 'ok', '42501', '42501', '42501'),
    (format($$select pawl_dag.resolve_step(%L, %L, 'x')$$, :'task', :'step'), '42501', 'ok', '42501', '42501', '42501'),
    (format($$update pawl_dag.steps set state = 'resolved_manually' where step_uuid = %L$$, :'step'), '42501', 'ok', '42501', '42501', '42501'),
    (format($$update pawl_dag.steps set state = 'cancelled' where step_uuid = %L$$, :'step'), '42501', 'ok', '42501', '42501', '42501'),
    (format($$update pawl_dag.steps set state = 'complete' where step_uuid = %L$$, :'step'), '42501', 'ok', '42501', '42501', '42501'),
    (format($$insert into pawl_dag.step_transitions (task_uuid, step_uuid, event) values (%L, %L, 'Cancel')$$, :'task', :'step'), '42501', 'ok', '42501', '42501', '42501'),
    ($$update pawl_dag.steps set handler = 'sql:public.danger'$$, '42501', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.steps set namespace = 'sql:'$$, '42501', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.tasks set template_uuid = pawl.uuid_v7()$$, '42501', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.steps set max_attempts = 9$$, 'ok', 'ok', '42501', '42501', '42501'),
    ($$delete from pawl_dag.steps$$, '42501', '42501', '42501', '42501', '42501'),
    ($$delete from pawl_dag.tasks$$, '42501', '42501', '42501', '42501', '42501'),
    ($$truncate pawl_dag.step_transitions_log$$, '42501', '42501', '42501', '42501', '42501'),
    ($$update pawl_dag.step_transitions_log set processor = 'me'$$, '42501', '42501', '42501', '42501', '42501'),
    ($$delete from pawl_dag.step_result_audit$$, '42501', '42501', '42501', '42501', '42501');
select is_rows(format($$select may('dag_admin', %1$L), may('dag_operator', %1$L), may('dag_worker', %1$L), may('dag_reader', %1$L), may('dag_nobody', %1$L)$$, command),
               format('values (%L, %L, %L, %L, %L)', admin, operator, worker, reader, nobody), command) from wish;

-- a worker's whole day, with a worker's rights
set role dag_worker;
select work();
reset role;
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete', 'a worker starts, orchestrates, claims and reports');

-- A step that names a function is run by whoever may more, so the template has the last word.
select pawl_dag.start_task('sql') as task \gset
set role dag_worker;
insert into pawl_dag.steps (task_uuid, name, namespace, handler) values (:'task', 'mine', 'sql:', 'sql:public.danger');
select from pawl_dag.orchestrate();
reset role;
select is(pawl_dag.run_sql_steps(10), 2, 'both are looked at');
select is_rows(format('select name, state, result, error ->> %L, permanent from pawl_dag.steps where task_uuid = %L', 'sqlstate', :'task'),
    $$values ('a', 'enqueued_for_orchestration', '"fine"'::jsonb, null, false), ('mine', 'enqueued_as_error_for_orchestration', null, '42501', true)$$,
    'but only the template''s function is run');
select is_empty('select wrong()', 'everything is as it must be');
reset role;
drop role dag_worker, dag_operator, dag_reader, dag_admin, dag_nobody;
select * from finish();
