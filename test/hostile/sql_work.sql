-- Work of SQL functions is begun and ended by the functions that run them: a worker, which may not run them, neither
-- claims it nor ends it, whichever way it writes, and cannot say that it raised an error.
\set QUIET 1
set client_min_messages = error;
select no_plan();
\ir ../pgtap/shared/dag.psql
create extension pawl_bulk;
create extension pawl_saga;
create role sql_work_worker in role pawl_worker;
create role sql_work_operator in role pawl_operator;
create function public.step(context jsonb, inputs jsonb) returns jsonb language sql as $$ select '7'::jsonb $$;
create function public.rows(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[]) returns table
    (row_number bigint, message text) language sql as $$ select null::bigint, null::text where false $$;
create function public.told(notice jsonb) returns void language sql as $$ select $$;
create function public.task(arguments jsonb) returns jsonb language sql as $$ select '7'::jsonb $$;
-- Each command runs as a role in a transaction of its own, as the processor that has the work. The answer is an error,
-- or what the worker got hold of.
create function attempt(role name, processor text, command text) returns text language plpgsql as $$
declare done bigint;
begin
    execute format('set local role %I', role);
    perform set_config('pawl.processor', processor, true);
    execute command;
    get diagnostics done = row_count;
    raise exception using errcode = 'ZZZZZ';
exception when others then
    return case when sqlstate = 'ZZZZZ' then case done when 0 then 'nothing' else 'done' end else sqlstate end;
end $$;
create table try (what text, processor text, command text, operator text);
create view tried as select t.what, t.command, attempt('sql_work_worker', t.processor, t.command) as worker,
    attempt('sql_work_operator', t.processor, t.command) as by_operator, t.operator from try t;

-- Steps: one is enqueued, one is claimed by a session that runs SQL functions, one has lost its session.
select pawl_dag.define_template('{"name": "sql", "identity_strategy": "always_unique", "steps": [
    {"name": "a", "handler": "sql:public.step"}, {"name": "b", "handler": "sql:public.step"},
    {"name": "c", "handler": "sql:public.step"}]}') is not null as ok;
select pawl_dag.start_task('sql') as task \gset
select from pawl_dag.orchestrate();
\set runner c0000000-0000-7000-8000-00000000000c
set pawl.processor = :'runner';
update pawl_dag.steps set state = 'in_progress', worker_uuid = :'runner', lease_until = now() + case name when 'b' then
    interval '1 h' else interval '1 ms' end where task_uuid = :'task' and name in ('b', 'c');
reset pawl.processor;
insert into try select what, :'runner', format(command, :'task'), operator from (values
    ('a step is claimed by hand', 'update pawl_dag.steps set state = ''in_progress'', worker_uuid = '
    '''c0000000-0000-7000-8000-00000000000c'' where task_uuid = %L and name = ''a''', 'done'),
    ('by the event', 'select pawl.fire(''pawl_dag.steps'', array[task_uuid, step_uuid]::text[], ''Start'') from '
    'pawl_dag.steps where task_uuid = %L and name = ''a''', 'done'),
    ('by an entry in the log', 'insert into pawl_dag.step_transitions (task_uuid, step_uuid, to_state) select '
    'task_uuid, step_uuid, ''in_progress'' from pawl_dag.steps where task_uuid = %L and name = ''a''', 'done'),
    ('a result of another processor''s step',
        'update pawl_dag.steps set state = ''enqueued_for_orchestration'', result = ''1'' '
    'where task_uuid = %L and name = ''b''', 'done'),
    ('an error of it', 'update pawl_dag.steps set state = ''enqueued_as_error_for_orchestration'', error = ''1'', '
    'permanent = true where task_uuid = %L and name = ''b''', 'done'),
    ('its attempt is ended', 'update pawl_dag.steps set state = ''waiting_for_retry'' where task_uuid = %L and name = '
    '''b''', 'done'),
    ('a lease for ever', 'update pawl_dag.steps set lease_until = ''2100-01-01'' where task_uuid = %L and name = ''b''',
        'done'),
    ('an entry in the log that ends it', 'insert into pawl_dag.step_transitions (task_uuid, step_uuid, to_state) '
    'select task_uuid, step_uuid, ''enqueued_for_orchestration'' from pawl_dag.steps where task_uuid = %L and name = '
    '''b''', 'done'),
    ('steps are claimed by the function', 'select pawl_dag.claim(''me'', ''sql:'')', 'PW004')) w(what, command,
    operator);
select is(worker || ', ' || by_operator, '42501, ' || operator, what) from tried
 where what <> 'steps are claimed by the function';
select is(worker, '42501', what) from tried where what = 'steps are claimed by the function';
select is(attempt('sql_work_worker', :'runner', $$select from pawl.claim(null::pawl_dag.steps, 'Start',
    'c0000000-0000-7000-8000-00000000000c', queue => 'sql:')$$), 'nothing', 'the kernel''s claim skips them');
set role sql_work_worker;
select is((select array_agg(r.ok || ' ' || left(r.problem, 5)) from pawl_dag.steps s, pawl_dag.report(jsonb_build_array(
    jsonb_build_object('task_uuid', s.task_uuid, 'step_uuid', s.step_uuid, 'token', s.token, 'result', 1)), :'runner') r
    where s.task_uuid = :'task' and s.name = 'b'), '{"false 42501"}', 'and a report is not accepted');
reset role;
select is(attempt('sql_work_worker', '', $$select from pawl.reap('pawl_dag.steps') r where r.done > 0$$), 'done',
    'a lease that is over is reaped by any role');
-- A worker that runs the orchestrator says nothing of tasks.
select is(attempt('sql_work_worker', '', format($$select pawl_dag._trouble(%L, '57P01', 'x')$$, :'task')), 'done',
    'a trouble is claimed');
select is((select count(*) from pawl_dag.troubles), 0::bigint, 'and none is recorded');
set role sql_work_worker;
select pawl_dag._trouble(:'task', '57P01', 'x') is null as ok;
reset role;
select is((select count(*) from pawl_dag.troubles), 0::bigint, 'without an error of the orchestrator''s');
delete from try;

-- Rows: of a block, with work of their own at a later step, that are checked, and that poll.
select pawl_bulk.define('{"name": "blocks", "steps": [{"name": "a", "handler": "sql:public.rows"}]}') is not null as ok;
select pawl_bulk.define('{"name": "own", "steps": [{"name": "a", "handler": "hands"},
    {"name": "b", "handler": "sql:public.rows"}]}') is not null as ok;
select operation as blocks from pawl_bulk.submit('blocks', rows => '[{}, {}]', notifications =>
    '{"channel": "sql", "target": "public.told", "triggers": ["status_change"]}') \gset
select operation as own from pawl_bulk.submit('own', rows => '[{}, {}]') \gset
do $$ begin while not exists (select from pawl_bulk.work where kind = 'rows') or not exists (select from
    pawl_bulk.work where queue = 'hands') loop perform from pawl_bulk.advance(); end loop; end $$;
set role sql_work_worker;
select count(*) = 1 as ok from pawl_bulk.claim('w', 'hands', 1) t,
    pawl_bulk.report(jsonb_build_array(to_jsonb(t) || '{"result": "ok"}'), 'w') r where r.ok;
insert into pawl_bulk.records (operation, row_number, step_index) values (:'blocks', 1, 0);
set role sql_work_operator;
insert into pawl_bulk.records (operation, row_number, step_index) values (:'blocks', 2, 0);
update pawl_bulk.records set state = 'Running' where operation = :'blocks' and row_number = 2;
reset role;
insert into try select what, '', format(command, :'blocks', :'own'), operator from (values
    ('a row of a block is begun', 'update pawl_bulk.records set state = ''Running'' where operation = %1$L and '
    'row_number = 1', 'done'),
    ('is completed', 'update pawl_bulk.records set state = ''Completed'' where operation = %1$L and row_number = 2',
        'done'),
    ('has failed', 'update pawl_bulk.records set state = ''Failed'' where operation = %1$L and row_number = 2', 'done'),
    ('is tried once more', 'update pawl_bulk.records set tries = tries + 1 where operation = %1$L and row_number = 2',
        'PW004'),
    ('by the log', 'insert into pawl_bulk.record_transitions (operation, row_number, step_index, to_state) values '
    '(%1$L, 2, 0, ''Completed'')', 'done'),
    ('by the event', 'select pawl.fire(''pawl_bulk.records'', array[%1$L, ''2'', ''0''], ''Step succeeded'')', 'done'),
    ('a row with work of its own is begun', 'update pawl_bulk.records set state = ''Running'' where operation = %2$L '
    'and step_index = 1', 'done'),
    ('and completed', 'update pawl_bulk.records set state = ''Running'' where operation = %2$L and step_index = 1; '
    'update pawl_bulk.records set state = ''Completed'' where operation = %2$L and step_index = 1', 'done')) w(what,
    command, operator);
select is(worker || ', ' || by_operator, '42501, ' || operator, what) from tried;
select is(attempt('sql_work_worker', 'w', format('update pawl_bulk.work set state = ''leased'', worker = ''w'' where '
    'operation = %L', o)) in ('22023', '42501'), true, 'nor is its work claimed')
    from unnest(array[:'blocks', :'own']) o;
delete from try;
insert into try select what, 'run', command, operator from (values
    ('a notice is taken by hand', 'update pawl_bulk.notices set state = ''leased'', worker = ''run''', 'done'),
    ('and delivered', 'update pawl_bulk.notices set state = ''leased'', worker = ''run''; update pawl_bulk.notices set '
    'state = ''delivered''', 'done')) w(what, command, operator);
select is(worker || ', ' || by_operator, '42501, ' || operator, what) from tried;
select is(attempt('sql_work_worker', 'run',
    $$select from pawl.claim(null::pawl_bulk.notices, 'Take', 'run', queue => 'sql')$$), 'nothing',
    'nor by the kernel''s claim');
delete from try;
-- No duty that runs functions, or counts what they cost, is a worker's.
select is(attempt('sql_work_worker', '', format('select pawl_bulk._trouble(%L, ''57P01'', ''x'')', :'own')), '42501',
    'a trouble is not claimed');
select is(string_agg(p.proname, ', ' order by p.proname), null, 'a worker runs no SQL functions')
  from pg_proc p where p.pronamespace = any ('{pawl_dag,pawl_bulk,pawl_saga}'::regnamespace[])
   and (p.proname ~ '^(run|work)_sql_' or p.proname in ('advance', 'work_operations'))
   and has_function_privilege('sql_work_worker', p.oid, 'EXECUTE');

-- Tasks of sagas: one to execute, one that is run, one whose session is lost, one to revert.
select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"task": "a", "execute": "sql:public.task"},
    {"task": "b"}]}') is not null as ok;
select pawl_saga.start('f') as ready \gset
select pawl_saga.start('f') as run \gset
select pawl_saga.start('f') as lost \gset
select pawl_saga.start('f') as back \gset
create function take(flow uuid, lease interval) returns void language sql as $$
    select set_config('pawl.processor', 'runner', true);
    update pawl_saga.tasks set state = 'RUNNING', worker = 'runner', lease_until = clock_timestamp() + lease
    where flow_uuid = flow and name = 'a' $$;
select take(:'run', '1 h'), take(:'lost', '1 ms'), take(:'back', '1 h') \g /dev/null
begin;
set local pawl.processor = 'runner';
update pawl_saga.tasks set state = 'SUCCESS', result = '1' where flow_uuid = :'back' and name = 'a';
commit;
select pawl_saga.revert(:'back', 'because') is not null as ok;
insert into try select what, 'runner', format(command, :'ready', :'run', :'back'), operator from (values
    ('a task is claimed by hand', 'update pawl_saga.tasks set state = ''RUNNING'', worker = ''runner'' where '
    'flow_uuid = %1$L and name = ''a''', 'done'),
    ('by the log', 'insert into pawl_saga.task_transitions (flow_uuid, node, to_state) select flow_uuid, node, '
    '''RUNNING'' from pawl_saga.tasks where flow_uuid = %1$L and name = ''a''', 'done'),
    ('by the event', 'select pawl.fire(''pawl_saga.tasks'', array[flow_uuid::text, node::text], ''execute'') '
    'from pawl_saga.tasks where flow_uuid = %1$L and name = ''a''', 'done'),
    ('a result', 'update pawl_saga.tasks set state = ''SUCCESS'', result = ''1'' where flow_uuid = %2$L and name = '
    '''a''', 'done'),
    ('a failure', 'update pawl_saga.tasks set state = ''FAILURE'', failure = ''{}'' where flow_uuid = %2$L and name '
    '= ''a''', 'done'),
    ('its progress', 'update pawl_saga.tasks set progress = 1 where flow_uuid = %2$L and name = ''a''', 'done'),
    ('a lease for ever', 'update pawl_saga.tasks set lease_until = ''2100-01-01'' where flow_uuid = %2$L and name = '
    '''a''', 'done'),
    ('a revert is claimed', 'update pawl_saga.tasks set state = ''REVERTING'', worker = ''runner'' where flow_uuid = '
    '%3$L and name = ''a''', 'done'),
    ('tasks are claimed by the function', 'select pawl_saga.claim(''runner'', ''sql:'')', 'done')) w(what, command,
    operator);
select is(worker || ', ' || by_operator, '42501, ' || operator, what) from tried;
select is(attempt('sql_work_worker', 'runner', format($$select from pawl_saga.tasks t, pawl_saga.report(
    jsonb_build_array(jsonb_build_object('flow_uuid', t.flow_uuid, 'node', t.node, 'token', t.token, 'result', 1)),
    'runner') r where t.flow_uuid = %L and t.name = 'a' and r.ok$$, :'run')), '42501', 'and a report is not accepted');
select is(attempt('sql_work_worker', 'runner',
    $$select from pawl.claim(null::pawl_saga.tasks, 'execute', 'runner', queue => 'sql:')$$), 'nothing',
    'the kernel''s claim skips them');
select is(attempt('sql_work_worker', '', $$select from pawl.reap('pawl_saga.tasks') r where r.done > 0$$), 'done',
    'a lease that is over is reaped by any role');

-- And all of it ends by the functions that run SQL functions, in an operator's session.
select pawl.reap('pawl_dag.steps'), pawl.reap('pawl_saga.tasks') \g /dev/null
set role sql_work_operator;
do $$ begin
    for i in 1 .. 20 loop
        perform from pawl_dag.orchestrate();
        perform pawl_dag.run_sql_steps(10), pawl_bulk.run_sql_rows(), pawl_bulk.run_sql_notices(),
            pawl_saga.run_sql_tasks(), pawl_bulk.advance();
    end loop;
end $$;
reset role;
select is((select string_agg(state || ' ' || name, ', ' order by name) from pawl_dag.steps where name in ('a')),
    'complete a', 'a step is run');
select is((select array_agg(row_number || ' ' || state order by row_number) from pawl_bulk.records
    where operation = :'blocks'), '{1 Completed,2 Completed}', 'rows are');
select is((select array_agg(step_index || ' ' || state order by step_index) from pawl_bulk.records
    where operation = :'own' and row_number = 1), '{0 Completed,1 Completed}', 'and those of a later step');
select is((select string_agg(distinct state, ', ') from pawl_bulk.notices), 'delivered', 'notices are delivered');
select is((select array_agg(distinct state || ' ' || intention) from pawl_saga.tasks
    where flow_uuid in (:'ready', :'lost') and name = 'a'), '{SUCCESS EXECUTE}', 'tasks are');
select is((select state from pawl_saga.tasks where flow_uuid = :'back' and name = 'a'), 'REVERTED', 'and reverts');
select is_empty('select * from pawl_bulk.verify()', 'nothing is wrong with rows');
select is_empty('select * from pawl_saga.verify()', 'nor with flows');
select * from finish();
drop owned by sql_work_worker, sql_work_operator;
drop role sql_work_worker, sql_work_operator;
