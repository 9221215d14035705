-- Lists of events in the tables of the packs. Their triggers look at one transition at a time, so a list that would
-- bring a row past a state is rejected, whichever way it is given; nested statements and
-- tables of users are not concerned.
\set QUIET 1
set client_min_messages = error;
select no_plan();
\ir ../pgtap/shared/dag.psql
create extension pawl_bulk;
create extension pawl_saga;
create role listed_worker in role pawl_worker;
create role listed_operator in role pawl_operator;
create function public.fails(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[]) returns table
    (row_number bigint, message text) language sql as $$ select n, 'no' from unnest(row_numbers) n $$;
create function attempt(role name, events text, command text) returns text language plpgsql as $$
declare done bigint; said text;
begin
    execute format('set local role %I', role);
    perform set_config('pawl.processor', 'c0000000-0000-7000-8000-00000000000c', true),
        set_config('pawl.events', events, true);
    execute command;
    get diagnostics done = row_count;
    raise exception using errcode = 'ZZZZZ';
exception when others then
    return case when sqlstate = 'ZZZZZ' then case done when 0 then 'nothing' else 'done' end else sqlstate end;
end $$;
select pawl_dag.define_template('{"name": "t", "identity_strategy": "always_unique", "steps": [
    {"name": "a", "handler": "sql:public.none"}, {"name": "b"}]}') is not null as ok;
select pawl_dag.start_task('t') as task \gset
select from pawl_dag.orchestrate();
select pawl_dag.start_task('t') as new_task \gset
select pawl_bulk.define('{"name": "d", "is_retryable": true, "steps": [{"name": "a", "handler": "sql:public.fails"}]}')
    is not null as ok;
select pawl_bulk.define('{"name": "hands", "steps": [{"name": "a", "handler": "hands"}]}') is not null as ok;
select operation as failed from pawl_bulk.submit('d', rows => '[{}, {}]') \gset
do $$ begin
    while (select a.done + r.done from pawl_bulk.advance() a, pawl_bulk.run_sql_rows() r) > 0 loop null; end loop;
end $$;
select operation as fresh from pawl_bulk.submit('hands', rows => '[{}, {}]') \gset
select operation as running from pawl_bulk.submit('hands', rows => '[{}, {}]', notifications =>
    '{"channel": "sql", "target": "public.none", "triggers": ["status_change"]}') \gset
update pawl_bulk.operations set priority = 9 where operation = :'running';
select pawl_bulk.pause(:'fresh') is not null as ok;
do $$ begin while not exists (select from pawl_bulk.work where queue = 'hands') loop perform from pawl_bulk.advance();
    end loop; end $$;
select pawl_bulk.resume(:'fresh') is not null as ok;
select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"task": "a", "execute": "sql:public.none"},
    {"task": "b"}]}') is not null as ok;
select pawl_saga.start('f') as flow \gset
select pawl_saga.post('j', 'w') as job \gset
create table try (what text, events text, command text);
insert into try select what, events, format(command, :'task', :'new_task', :'failed', :'fresh', :'running', :'flow',
    :'job') from (values
    ('a step of a SQL function is claimed and ended', '{Start,EnqueueForOrchestration}', 'update pawl_dag.steps set '
    'state = ''enqueued_for_orchestration'', result = ''1'' where task_uuid = %1$L and name = ''a'''),
    ('a step that waits for its task is enqueued and claimed', '{Enqueue,Start}', 'update pawl_dag.steps set state = '
    '''in_progress'' where task_uuid = %2$L and name = ''b'''),
    ('and reported', '{Start,EnqueueAsErrorForOrchestration,Fail}', 'update pawl_dag.steps set state = ''error'' where '
    'task_uuid = %1$L and name = ''b'''),
    ('a task begins and ends', '{Start,ReadyStepsFound,EnqueueFailed}', 'update pawl_dag.tasks set state = ''error'' '
    'where task_uuid = %2$L'),
    ('an operation is retried and runs', '{RetryFailedRowsAsync,Processor resumes}', 'update pawl_bulk.operations set '
    'status = ''Running'' where operation = %3$L'),
    ('an operation runs before it is validated', '{Scheduler picks up,All rows validated}', 'update '
    'pawl_bulk.operations set status = ''Running'' where operation = %4$L'),
    ('a row that has failed runs again', '{ResetForRetry,Step begins execution}',
        'update pawl_bulk.records set state = ''Running'' where operation = %3$L'),
    ('a row of another worker is begun and completed', '{Step begins execution,Step succeeded}', 'update '
    'pawl_bulk.records set state = ''Completed'' where operation = %5$L'),
    ('work is taken and lost', '{Take,WorkerLost}',
        'update pawl_bulk.work set state = ''lost'' where operation = %5$L'),
    ('a notice to a SQL function is delivered', '{Take,Delivered}', 'update pawl_bulk.notices set state = '
    '''delivered'' where channel = ''sql'''),
    ('a task of a SQL function is executed', '{execute,succeed}', 'update pawl_saga.tasks set state = ''SUCCESS'', '
    'result = ''1'' where flow_uuid = %6$L and name = ''a'''),
    ('a flow runs and ends', '{suspend,suspended}', 'update pawl_saga.flows set state = ''SUSPENDED'' where '
    'flow_uuid = %6$L'),
    ('a job is claimed and ends', '{claim,complete}', 'update pawl_saga.jobs set state = ''COMPLETE'' where job_uuid = '
    '%7$L')) w(what, events, command);
select is(attempt(r, events, command), '0A000', format('%s: %s', r, what)) from try t,
    unnest('{listed_worker,listed_operator}'::name[]) r;
-- by pawl.fire, for rows of each table
select is(attempt('listed_worker', '',
    format('select pawl.fire(''pawl_dag.steps'', array[task_uuid, step_uuid]::text[], '
    'events => ''{Start,EnqueueForOrchestration}'', processor => ''c0000000-0000-7000-8000-00000000000c'') from '
    'pawl_dag.steps where task_uuid = %L and name = ''a''', :'task')), '0A000', 'pawl.fire with a list');
-- Each table of the packs that has a machine has the trigger, if triggers of its pack look at its rows.
select is_empty($$select b.relation from pawl.binding b join pg_class c on c.oid = b.relation
    where c.relnamespace = any ('{pawl_dag,pawl_bulk,pawl_saga}'::regnamespace[])
    and exists (select from pawl.transitions(b.machine) m where m.from_state is not null)
    and exists (select from pg_trigger t join pg_proc f on f.oid = t.tgfoid
        where t.tgrelid = b.relation and f.pronamespace = c.relnamespace)
    and not exists (select from pg_trigger t where t.tgrelid = b.relation and (t.tgname = '!one_by_one'
        or t.tgfoid = any ('{pawl_dag._task_written,pawl_dag._step_written,pawl_saga._task_written,
        pawl_bulk._record_written,pawl_bulk._work_written}'::regproc[])))$$,
    'each table is guarded');
-- A list is no matter of statements below it, nor of tables whose machine does not know it.
select is(attempt('listed_worker', '{write,review}', format('select pawl_saga.suspend(%L)', :'flow')), 'done',
    'a list that the machine does not know is ignored');
select is(attempt('listed_worker', '{suspend}', format('update pawl_saga.flows set state = ''SUSPENDED'' '
    'where flow_uuid = %L', :'flow')) in ('done', 'PW001'), true, 'and so is a list of one');
select is_empty('select * from pawl_bulk.verify()', 'nothing is wrong with rows');
select is_empty('select * from pawl_saga.verify()', 'nor with flows');
select * from finish();
drop owned by listed_worker, listed_operator;
drop role listed_worker, listed_operator;
