-- Every result that a worker reports has exactly one row in the audit, by whichever
-- statement; what is no result has none.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
select results_eq($$select pg_get_indexdef(i.indexrelid) ~ 'UNIQUE'
    or i.indpred is null,
        (select string_agg(a.attname, ' ' order by k.n) from unnest(i.indkey::int2[]) with ordinality k(att, n)
                       join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.att) collate "C"
                     from pg_index i where i.indrelid = 'pawl_dag.step_result_audit'::regclass order by 2, 1$$,
    $$values (false, 'correlation_id' collate "C"), (false, 'recorded_at'), (true, 'recorded_at'), (true, 'step_uuid'),
        (true, 'task_uuid step_uuid transition_id'), (false, 'worker recorded_at')$$,
    'by task, step, time, worker, correlation and failures');

\set worker '00000000-0000-7000-8000-00000000000b'
-- A step in progress of a task of its own.
create function begun(queue text default 'default') returns pawl_dag.steps language plpgsql as $$
declare made pawl_dag.steps;
begin
    perform pawl_dag.start_task('diamond', correlation_id => '00000000-0000-7000-8000-0000000000c0');
    perform from pawl_dag.orchestrate();
    select * into made
        from pawl.claim(null::pawl_dag.steps, 'Start', '00000000-0000-7000-8000-00000000000b', queue => 'default');
    return made;
end $$;
create function audited(step uuid) returns text language sql as $$
    select coalesce(string_agg(format('%s %s %s', a.success, a.worker, a.execution_time_ms is not null), ', '
                order by a.recorded_at), 'nothing')
        from pawl_dag.step_result_audit a where a.step_uuid = step $$;

select task_uuid, step_uuid, token from begun() \gset
select is(audited(:'step_uuid'), 'nothing', 'what was begun has no result');
set pawl.processor = :'worker';
update pawl_dag.steps set state = 'enqueued_for_orchestration', result = '1' where step_uuid = :'step_uuid';
select is(audited(:'step_uuid'), 't ' || :'worker' || ' t', 'a result written by UPDATE is audited');
select from pawl_dag.orchestrate();
select is(audited(:'step_uuid'), 't ' || :'worker' || ' t', 'a result that is read is no other one');
select task_uuid, step_uuid, token from begun() \gset
insert into pawl_dag.step_transitions (task_uuid, step_uuid, event)
    values (:'task_uuid', :'step_uuid', 'EnqueueForOrchestration');
select is(audited(:'step_uuid'), 't ' || :'worker' || ' t', 'an INSERT into the log');
select task_uuid, step_uuid, token from begun() \gset
select pawl.fire('pawl_dag.steps', row(:'task_uuid'::uuid, :'step_uuid'::uuid), 'EnqueueAsErrorForOrchestration')
    \g /dev/null
select is(audited(:'step_uuid'), 'f ' || :'worker' || ' t', 'pawl.fire, an error');
reset pawl.processor;
select task_uuid, step_uuid, token from begun() \gset
select jsonb_build_array(jsonb_build_object('task_uuid', :'task_uuid', 'step_uuid', :'step_uuid', 'token', :token,
        'result', 7)) as said \gset
select from pawl_dag.report(:'said', :'worker');
select from pawl_dag.report(:'said', :'worker');
select is(audited(:'step_uuid'), 't ' || :'worker' || ' t', 'a report said twice counts once');
select is_rows(format('select name, success, worker, correlation_id from pawl_dag.step_results where step_uuid = %L',
    :'step_uuid'),
    format($$values ('a'::text, true, %L::text, '00000000-0000-7000-8000-0000000000c0'::text)$$, :'worker'),
    'with the correlation id of the task');

-- undone
select task_uuid, step_uuid, token from begun() \gset
select jsonb_build_array(jsonb_build_object('task_uuid', :'task_uuid', 'step_uuid', :'step_uuid', 'token', :token,
        'error', '{"message": "x"}'::jsonb)) as said \gset
begin;
select from pawl_dag.report(:'said', :'worker');
select is(audited(:'step_uuid'), 'f ' || :'worker' || ' t', 'an error is audited as a failure');
rollback;
select is(audited(:'step_uuid'), 'nothing', 'no result, no row');
-- no worker's result
select pawl_dag.complete_step_manually(:'task_uuid', :'step_uuid', '{}', 'by hand') \g /dev/null
select is(audited(:'step_uuid'), 'nothing', 'the result of an operator is not audited');

-- a function inside the database
create function public.one(context jsonb, inputs jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
create function public.none(context jsonb, inputs jsonb) returns jsonb
    language plpgsql as $$ begin raise exception 'no'; end $$;
select pawl_dag.define_template('{"name": "sql", "identity_strategy": "always_unique", "steps": [{"name": "good", '
        '"handler": "sql:public.one"}, {"name": "bad", "handler": "sql:public.none", "retry": {"max_attempts": 2, '
        '"backoff": "none"}}]}') \g /dev/null
select pawl_dag.start_task('sql') as task \gset
select from pawl_dag.orchestrate();
select is(pawl_dag.run_sql_steps(10), 2, 'both SQL steps ran');
select is(left(audited(step_of(:'task', 'good')), 2), 't ', 'a function''s result');
select is(left(audited(step_of(:'task', 'bad')), 2), 'f ', 'and its failure');
select work();
select throws_ok('update pawl_dag.step_result_audit set success = true', 'PW006', null, 'no role changes the audit');
select throws_ok('delete from pawl_dag.step_result_audit', 'PW006', null, 'nor removes from it');
select throws_ok('insert into pawl_dag.step_result_audit select * from pawl_dag.step_result_audit', 'PW006', null,
    'nor adds to it');
select is_empty($$select l.id from pawl_dag.step_transitions_log l
    full join pawl_dag.step_result_audit a on a.transition_id = l.id
    where (l.to_state in ('enqueued_for_orchestration',
        'enqueued_as_error_for_orchestration')) is distinct from (a.audit_id is not null)$$,
            'one row a result, and no other');
-- A report finds its steps by their keys, also if no step was leased when statistics were made: the index of leases
-- then looks empty, and keeps a dead entry for each step that was claimed since.
select work();
analyze pawl_dag.steps;
discard plans;
select s.task_uuid as task, s.step_uuid as step, s.token from begun() s \gset
begin;
select is((select r.ok from pawl_dag.report(jsonb_build_array(jsonb_build_object('task_uuid', :'task', 'step_uuid',
    :'step', 'token', :token, 'result', 1)), :'worker') r), true, 'a report after statistics were made');
select is(pg_stat_get_xact_numscans('pawl_dag.steps_pawl_owned'::regclass), 0::bigint,
    'does not scan the index of leases');
commit;
select is_empty('select wrong()', 'everything is as it must be');
select * from finish();
