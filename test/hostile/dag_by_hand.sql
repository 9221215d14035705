-- What a worker and an operator may write by hand, column by column of every table of the
-- pack, and state change by state change.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir ../pgtap/shared/dag.psql
create role plain_worker login in role pawl_worker;
create role plain_operator login in role pawl_operator;
create function may(role name, command text) returns text language plpgsql as $$
begin
    execute format('set local role %I', role);
    execute command;
    raise exception using errcode = 'ZZZZZ', message = 'ok';
exception when others then
    return case sqlstate when 'ZZZZZ' then 'ok' else sqlstate end;
end $$;
grant execute on function may to public;
-- Every column: what UPDATE privilege the two have. Columns that are not named here only the owner can write; a new
-- column fails this test until that is decided.
create table column_right (relation regclass, roles text, columns name[]);
insert into column_right values
    ('pawl_dag.tasks', 'worker operator', '{state,processor_uuid,lease_until,token,steps_total,steps_blocked,'
    'steps_ready,steps_in_flight,steps_waiting,steps_failed,steps_satisfied,steps_cancelled,evaluate,entered_at}'),
    ('pawl_dag.tasks', 'operator', '{priority,error,deadline_at,stale_after,watch_at}'),
    ('pawl_dag.tasks', '', '{task_uuid,template_uuid,namespace,name,version,rank,context,identity_key,correlation_id,'
    'parent_correlation_id,traceparent,tracestate,failure_policy,created_at,completed_at}'),
    ('pawl_dag.steps', 'worker operator', '{state,level,total_parents,unsatisfied_parents,permanent,backoff_request,'
    'worker_uuid,lease_until,token,next_retry_at,result,error}'),
    ('pawl_dag.steps', 'operator', '{priority,attempts,optional,retryable,max_attempts,backoff,timeout}'),
    ('pawl_dag.steps', '', '{task_uuid,step_uuid,name,namespace,rank,handler,handler_options,map_of,map_index,'
    'traceparent,tracestate,last_attempted_at,last_failure_at,created_at}'),
    ('pawl_dag.dlq', 'operator', '{resolution_status,resolution_timestamp,resolution_notes,resolved_by,metadata}'),
    ('pawl_dag.dlq', '', '{task_uuid,entry_uuid,original_state,reason,dlq_timestamp,task_snapshot}');
select is_rows($$select a.attrelid::regclass, a.attname,
    concat_ws(' ', case when has_column_privilege('plain_worker', a.attrelid, a.attnum, 'UPDATE') then 'worker' end,
        case when has_column_privilege('plain_operator', a.attrelid, a.attnum, 'UPDATE') then 'operator' end)
                   from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                   where c.relnamespace = 'pawl_dag'::regnamespace and c.relkind in ('r', 'v')$$,
    $$select a.attrelid::regclass, a.attname, coalesce(r.roles, '') from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        left join column_right r on r.relation = c.oid and a.attname = any (r.columns)
        where c.relnamespace = 'pawl_dag'::regnamespace and c.relkind in ('r', 'v')$$,
    'every column of every table can be written by the roles it is meant for only');
select is_empty($$select a.attrelid::regclass, a.attname from pg_attribute a
    where a.attrelid in (select relation from column_right) and a.attnum > 0 and not a.attisdropped
    and not exists (select from column_right r where r.relation = a.attrelid and a.attname = any (r.columns))$$,
    'and every column is decided on');

-- And what INSERT privilege: what a new row is, never how far it is.
create table insert_right (relation regclass, roles text, columns name[]);
insert into insert_right values
    ('pawl_dag.tasks', 'worker operator', '{task_uuid,template_uuid,namespace,name,version,priority,rank,context,'
    'identity_key,correlation_id,parent_correlation_id,traceparent,tracestate,failure_policy,steps_total,steps_ready,'
    'steps_blocked,deadline_at,stale_after}'),
    ('pawl_dag.steps', 'worker operator',
        '{task_uuid,step_uuid,name,namespace,priority,rank,handler,handler_options,map_of,map_index,level,'
        'total_parents,unsatisfied_parents,optional,retryable,max_attempts,backoff,timeout,traceparent,tracestate}'),
    ('pawl_dag.edges', 'worker operator', '{task_uuid,parent_uuid,child_uuid}'),
    ('pawl_dag.dlq', 'operator', '{task_uuid,original_state,reason,task_snapshot,metadata}');
select is_rows($$select a.attrelid::regclass, a.attname,
    concat_ws(' ', case when has_column_privilege('plain_worker', a.attrelid, a.attnum, 'INSERT') then 'worker' end,
        case when has_column_privilege('plain_operator', a.attrelid, a.attnum, 'INSERT') then 'operator' end)
                   from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                   where c.relnamespace = 'pawl_dag'::regnamespace and c.relkind in ('r', 'v')
                       and c.relname !~ '_transitions'$$,
    $$select a.attrelid::regclass, a.attname, coalesce(r.roles, '') from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        left join insert_right r on r.relation = c.oid and a.attname = any (r.columns)
        where c.relnamespace = 'pawl_dag'::regnamespace and c.relkind in ('r', 'v') and c.relname !~ '_transitions'$$,
    'every column of every new row');

-- A task at work: a and free in flight, b waits for a.
select pawl_dag.define_template('{"name": "two", "identity_strategy": "always_unique", "steps": [{"name": "a"}, '
        '{"name": "free"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["a"]}]}') \g /dev/null
select pawl_dag.start_task('two') as task \gset
select from pawl_dag.orchestrate();
set pawl.processor = 'c0000000-0000-7000-8000-00000000000c';
update pawl_dag.steps set state = 'in_progress', worker_uuid = 'c0000000-0000-7000-8000-00000000000c'
    where task_uuid = :'task' and name = 'a';
create table wish (what text, command text, worker text, operator text);
insert into wish select replace(w.what, 'X', x.c), format(w.command, x.c, :'task'), w.worker, w.operator
  from (values ('counter X of a task', 'update pawl_dag.tasks set %I = 7 where task_uuid = %L', '42501',
      '42501')) w(what, command, worker, operator),
       unnest('{steps_total,steps_blocked,steps_ready,steps_in_flight,steps_waiting,steps_failed,steps_satisfied,'
           'steps_cancelled}'::text[]) x(c);
insert into wish select what, format(command, :'task'), worker, operator from (values
    ('a task is looked at', 'update pawl_dag.tasks set evaluate = true where task_uuid = %L', 'ok', 'ok'),
    ('the time that a task entered its state', 'update pawl_dag.tasks set entered_at = now() where task_uuid = %L',
        '42501', '42501'),
    ('its deadline', 'update pawl_dag.tasks set deadline_at = now() where task_uuid = %L', '42501', 'ok'),
    ('its priority', 'update pawl_dag.tasks set priority = 7 where task_uuid = %L', '42501', 'ok'),
    ('its place in the queue', 'update pawl_dag.tasks set rank = 7 where task_uuid = %L', '42501', '42501'),
    ('its token', 'update pawl_dag.tasks set token = 7 where task_uuid = %L', 'PW005', 'PW005'),
    ('it is complete with steps undone', 'update pawl_dag.tasks set state = ''complete'' where task_uuid = %L', 'PW001',
        'PW001'),
    ('parents of a step', 'update pawl_dag.steps set unsatisfied_parents = 0 where task_uuid = %L and name = ''b''',
        '42501', '42501'),
    ('all its parents', 'update pawl_dag.steps set total_parents = 0 where task_uuid = %L', '42501', '42501'),
    ('its level', 'update pawl_dag.steps set level = 7 where task_uuid = %L', '42501', '42501'),
    ('its attempts', 'update pawl_dag.steps set attempts = 0 where task_uuid = %L', '42501', 'ok'),
    ('its maximum', 'update pawl_dag.steps set max_attempts = 9 where task_uuid = %L', '42501', 'ok'),
    ('its token', 'update pawl_dag.steps set token = 7 where task_uuid = %L and name = ''a''', 'PW005', 'PW005'),
    ('a result before it is reported', 'update pawl_dag.steps set result = ''1'' where task_uuid = %L and name = ''a''',
        '42501', 'ok'),
    ('a result that is reported', 'update pawl_dag.steps set state = ''enqueued_for_orchestration'', result = ''1'' '
    'where task_uuid = %L and name = ''a''', 'ok', 'ok'),
    ('an error that is reported', 'update pawl_dag.steps set state = ''enqueued_as_error_for_orchestration'', error = '
    '''1'', permanent = true where task_uuid = %L and name = ''a''', 'ok', 'ok'),
    ('an error that is for ever waits',
        'update pawl_dag.steps set state = ''enqueued_as_error_for_orchestration'', error = ''1'', permanent = true
    where task_uuid = %1$L and name = ''a'';
        update pawl_dag.steps set state = ''waiting_for_retry'' where task_uuid = %1$L and name = ''a''', 'PW003',
        'PW003'),
    ('a result of a step without an owner',
        'update pawl_dag.steps set result = ''1'' where task_uuid = %L and name = ''free''', '42501', 'ok'),
    ('a step for ever due',
        'update pawl_dag.steps set next_retry_at = ''infinity'' where task_uuid = %L and name = ''free''', '42501',
        'ok'),
    ('a wait of its own choice', 'update pawl_dag.steps set state = ''waiting_for_retry'', next_retry_at = '
    '''infinity'' where task_uuid = %L and name = ''a''', '42501', 'ok'),
    ('its own step fails for good, unreported',
        'update pawl_dag.steps set state = ''error'' where task_uuid = %L and name = ''a''', '42501', 'ok'),
    ('a step without an owner fails',
        'update pawl_dag.steps set state = ''error'' where task_uuid = %L and name = ''free''', '42501', 'ok'),
    ('a step that waits fails', 'update pawl_dag.steps set state = ''error'' where task_uuid = %L and name = ''b''',
        '42501', 'ok'),
    ('a step is enqueued before its parents',
        'update pawl_dag.steps set state = ''enqueued'' where task_uuid = %L and name = ''b''', 'PW003', 'PW003'),
    ('a step is cancelled', 'update pawl_dag.steps set state = ''cancelled'' where task_uuid = %L and name = ''b''',
        '42501', 'ok'),
    ('another handler', 'update pawl_dag.steps set handler = ''x'' where task_uuid = %L', '42501', '42501'),
    ('another record', 'update pawl_dag.dlq set task_snapshot = ''{}'' where task_uuid = %L', '42501', '42501'),
    ('an entry of its own', 'insert into pawl_dag.dlq (task_uuid, original_state, reason, task_snapshot) values (%L, '
    '''x'', ''manual_dlq'', ''{}'')', '42501', 'ok'),
    ('a step that is done when it comes', 'insert into pawl_dag.steps (task_uuid, name, namespace, handler, result) '
    'values (%L, ''x'', ''default'', ''x'', ''1'')', '42501', '42501'),
    ('a step with attempts', 'insert into pawl_dag.steps (task_uuid, name, namespace, handler, attempts) values (%L, '
    '''x'', ''default'', ''x'', -9)', '42501', '42501'),
    ('a step',
        'insert into pawl_dag.steps (task_uuid, name, namespace, handler) values (%L, ''x'', ''default'', ''x'')', 'ok',
        'ok'),
    ('a dead letter that is resolved', 'insert into pawl_dag.dlq (task_uuid, original_state, reason, task_snapshot, '
    'resolution_status) values (%L, ''x'', ''manual_dlq'', ''{}'', ''cancelled'')', '42501', '42501'),
    ('a dead letter of another time', 'insert into pawl_dag.dlq (task_uuid, original_state, reason, task_snapshot, '
    'dlq_timestamp) values (%L, ''x'', ''manual_dlq'', ''{}'', ''epoch'')', '42501', '42501'),
    ('a task is timed out', 'update pawl_dag.tasks set state = ''blocked_by_failures'' where task_uuid = %L', '42501',
        'ok'),
    ('what runs is deleted', 'delete from pawl_dag.tasks where task_uuid = %L', '42501', '42501')) w(what, command,
    worker, operator);
select is_rows(format($$select may('plain_worker', %1$L), may('plain_operator', %1$L)$$, command),
        format('values (%L, %L)', worker, operator), what) from wish;
select is(may('plain_operator',
        format('insert into pawl_dag.dlq (task_uuid, reason) values (%L, ''manual_dlq'')', uuid)), code, what)
  from (values (pawl.uuid_v7(), 'P0002', 'no dead letter without a task'),
      (:'task', 'ok', 'a dead letter need not say what its task is')) l(uuid, code, what);
-- Rows that are inserted by hand: they begin with the defaults, and fit their template and their task.
create function a_task(more_columns text, more_values text, changed jsonb default '{}') returns text language sql as $$
    select format('insert into pawl_dag.tasks (template_uuid, namespace, name, version, identity_key%s) values (%L, '
            '%L, %L, %L, %L%s)', more_columns,
                  x ->> 'template_uuid', x ->> 'namespace', x ->> 'name', x ->> 'version', pawl.uuid_v7(), more_values)
      from (select to_jsonb(t) || changed as x from pawl_dag.templates t where t.name = 'two') y $$;
create function a_step(more_columns text, more_values text, task uuid, changed jsonb default '{}') returns text
    language sql as $$
    select format('insert into pawl_dag.steps (task_uuid, name, namespace, handler%s) values (%L, %L, %L, %L%s)',
        more_columns,
                  task, coalesce(changed ->> 'name', 'x'), coalesce(changed ->> 'namespace', 'default'),
                  coalesce(changed ->> 'handler', 'x'), more_values) $$;
grant execute on function a_task, a_step to public;
select pawl_dag.start_task('two') as ended \gset
select from pawl_dag.cancel_task(:'ended', 'x');
create table made (what text, command text, worker text, operator text);
insert into made select format('a task with %s', c), a_task(', ' || c, ', 7'), '42501', '42501'
    from unnest('{steps_total,steps_ready,steps_blocked,rank}'::text[]) c;
insert into made select format('a step with %s', c), a_step(', ' || c, ', 7', :'task'), '42501', '42501'
    from unnest('{level,total_parents,unsatisfied_parents,rank}'::text[]) c;
insert into made values
    ('a task', a_task('', ''), 'ok', 'ok'),
    ('a task of a template that is not there',
        a_task('', '', '{"template_uuid": "00000000-0000-0000-0000-000000000001"}'), 'PW008', 'PW008'),
    ('a task of another namespace', a_task('', '', '{"namespace": "other"}'), '22023', '22023'),
    ('a task of another name', a_task('', '', '{"name": "other"}'), '22023', '22023'),
    ('a task of another version', a_task('', '', '{"version": "9"}'), '22023', '22023'),
    ('a task that goes on after failures', a_task(', failure_policy', $$, 'continue'$$), '22023', '22023'),
    ('a task with an unknown policy', a_task(', failure_policy', $$, 'x'$$), '22023', '22023'),
    ('a task without an end', a_task(', deadline_at', $$, 'infinity'$$), '42501', 'ok'),
    ('a task that never is stale', a_task(', stale_after', $$, '9 years'$$), '42501', 'ok'),
    ('a task with less time', a_task(', deadline_at, stale_after', $$, now() + interval '1 h', '1 s'$$), 'ok', 'ok'),
    ('a task with a priority', a_task(', priority', ', 7'), 'ok', 'ok'),
    ('a task that always is stale', a_task(', stale_after', $$, '0'$$), '22023', '22023'),
    ('a step without a name', a_step('', '', :'task', '{"name": ""}'), '22023', '22023'),
    ('an element of a map without its place', a_step(', map_of', $$, 'x'$$, :'task'), '22023', '22023'),
    ('a place without its map', a_step(', map_index', ', 0', :'task'), '22023', '22023'),
    ('a step of a task that has ended', a_step('', '', :'ended'), '55000', '55000'),
    ('a step of another queue', a_step('', '', :'task', '{"namespace": "other"}'), '22023', '22023'),
    ('a step in the queue of SQL functions', a_step('', '', :'task', '{"namespace": "sql:"}'), '22023', '22023'),
    ('a SQL function in the queue of workers', a_step('', '', :'task', '{"handler": "sql:public.x"}'), '22023',
        '22023'), ('a step without a handler', a_step('', '', :'task', '{"handler": ""}'), '22023', '22023'),
    ('a step with a long name', a_step('', '', :'task', jsonb_build_object('name', repeat('x', 256))), '22023',
        '22023'),
    ('a step whose options are no object', a_step(', handler_options', $$, '7'$$, :'task'), '22023', '22023'),
    ('a step with no attempt', a_step(', max_attempts', ', 0', :'task'), '22023', '22023'),
    ('a step with too many', a_step(', max_attempts', ', 1000001', :'task'), '22023', '22023'),
    ('a step with no time', a_step(', timeout', $$, '0'$$, :'task'), '22023', '22023'),
    ('a step with a negative time', a_step(', timeout', $$, '-1 s'$$, :'task'), '22023', '22023'),
    ('a step with an unknown backoff', a_step(', backoff', $$, '{"strategy": "x"}'$$, :'task'), '22023', '22023'),
    ('a step whose backoff is no object', a_step(', backoff', $$, '7'$$, :'task'), '22023', '22023'),
    ('a step whose settings can be', a_step(', max_attempts, timeout, backoff, optional, retryable',
        $$, 5, '1 min', '{"strategy": "linear", "base": "1 s"}', true, false$$, :'task'), 'ok', 'ok'),
    ('attempts below none', format('update pawl_dag.steps set attempts = -1 where task_uuid = %L', :'task'), '42501',
        '22023'),
    ('a backoff that cannot be', format('update pawl_dag.steps set backoff = ''7'' where task_uuid = %L', :'task'),
        '42501', '22023'),
    ('a time that cannot be', format('update pawl_dag.steps set timeout = ''0'' where task_uuid = %L', :'task'),
        '42501', '22023'),
    ('a maximum that cannot be', format('update pawl_dag.steps set max_attempts = 0 where task_uuid = %L', :'task'),
        '42501', '22023');
select is_rows(format($$select may('plain_worker', %1$L), may('plain_operator', %1$L)$$, command),
        format('values (%L, %L)', worker, operator), what) from made;
select throws_ok(format('update pawl_dag.%s set %s where task_uuid = %L', relation, assignment, :'task'), '22023', null,
    'nor does the owner set ' || assignment) from (values ('steps', 'name = '''''), ('steps', 'map_of = ''x'''),
    ('steps', 'map_index = 0'), ('steps', 'max_attempts = 0'), ('tasks', 'stale_after = ''0''')) v(relation,
    assignment);

-- So a task by hand, with its steps and edges, in one statement or in several, counts as
-- one of pawl_dag.start_task does.
create function by_hand(at_once boolean) returns uuid language plpgsql as $$
declare task uuid := pawl.uuid_v7(); ids uuid[] := array(select pawl.uuid_v7() from generate_series(1, 4));
begin
    if at_once then
        with t as (insert into pawl_dag.tasks (task_uuid, template_uuid, namespace, name, version, priority,
            identity_key)
                   select task, x.template_uuid, x.namespace, x.name, x.version, 3, task::text from pawl_dag.templates x
                       where x.name = 'diamond'),
             s as (insert into pawl_dag.steps (task_uuid, step_uuid, name, namespace, priority, handler)
                   select task, ids[i], substr('abcd', i, 1), 'default', 3, 'x' from generate_series(1, 4) i)
        insert into pawl_dag.edges select task, ids[p], ids[c] from (values (1, 2), (1, 3), (2, 4), (3, 4)) e(p, c);
    else
        insert into pawl_dag.tasks (task_uuid, template_uuid, namespace, name, version, priority, identity_key)
        select task, x.template_uuid, x.namespace, x.name, x.version, 3, task::text from pawl_dag.templates x
        where x.name = 'diamond';
        insert into pawl_dag.steps (task_uuid, step_uuid, name, namespace, priority, handler)
        select task, ids[i], substr('abcd', i, 1), 'default', 3, 'x' from generate_series(1, 2) i;
        insert into pawl_dag.edges values (task, ids[1], ids[2]);
        insert into pawl_dag.steps (task_uuid, step_uuid, name, namespace, priority, handler)
        select task, ids[i], substr('abcd', i, 1), 'default', 3, 'x' from generate_series(3, 4) i;
        insert into pawl_dag.edges select task, ids[p], ids[c] from (values (1, 3), (2, 4), (3, 4)) e(p, c);
    end if;
    return task;
end $$;
begin;
set local role plain_worker;
select by_hand(true) as at_once \gset
select by_hand(false) as in_parts \gset
select pawl_dag.start_task('diamond', priority => 3) as called \gset
reset role;
create function looks(task uuid) returns text language sql as $$
    select concat_ws(' ', t.steps_total, t.steps_ready, t.steps_blocked, t.evaluate, t.state, t.failure_policy,
        t.stale_after, round((t.rank + extract(epoch from t.created_at - '2020-01-01 UTC') / 36000)::numeric, 3),
        (select string_agg(concat_ws(' ', s.name, s.state, s.level, s.total_parents, s.unsatisfied_parents,
                        round((s.rank - t.rank)::numeric, 3)), ', ' order by s.name)
            from pawl_dag.steps s where s.task_uuid = t.task_uuid))
      from pawl_dag.tasks t where t.task_uuid = task $$;
select is(looks(:'at_once'), looks(:'called'), 'a task that is inserted with its steps looks as one that is started');
select is(looks(:'in_parts'), looks(:'called'), 'as one whose steps come one after the other');
set local role plain_worker;
select work();
reset role;
select is(state_of(x), 'complete: a complete, b complete, c complete, d complete', 'and runs to its end')
    from unnest(array[:'at_once', :'in_parts', :'called']::uuid[]) x;
select is_empty('select wrong()', 'with counters that are right');
rollback;
begin;
set local role plain_operator;
insert into pawl_dag.dlq (task_uuid, original_state, reason, task_snapshot) values (:'task', 'x', 'manual_dlq', '{}');
select is_rows($$select d.original_state, d.task_snapshot, d.resolution_status from pawl_dag.dlq d$$,
    format($$select t.state, pawl_dag._task_snapshot(t.task_uuid), 'pending' from pawl_dag.tasks t
        where t.task_uuid = %L$$, :'task'), 'nor can it say anything else');
rollback;
begin;
set local role plain_operator;
select from pawl_dag.cancel_task(:'task', 'x');
select throws_ok(format('insert into pawl_dag.dlq (task_uuid, reason) values (%L, ''manual_dlq'')', :'task'), '55000',
    null, 'a task that has ended gets no dead letter');
rollback;

-- The engine's processor is no secret; what its state changes ask for is asked of all that name it.
select from pawl_dag.report(
    jsonb_build_array(jsonb_build_object('task_uuid', :'task', 'step_uuid', step_of(:'task', 'a'), 'token', 1, 'result',
        1)), 'c0000000-0000-7000-8000-00000000000c');
select set_config('pawl.processor', pawl_dag.engine()::text, false) \g /dev/null
update pawl_dag.tasks set state = 'evaluating_results' where task_uuid = :'task';
select is(may('plain_worker', format('update pawl_dag.tasks set state = %L where task_uuid = %L', 'blocked_by_failures',
    :'task')), '42501', 'no failure, no block');
select is(may('plain_worker', format('update pawl_dag.tasks set state = %L where task_uuid = %L', 'complete', :'task')),
    'PW003', 'steps undone, not complete');
select is(may('plain_worker',
        format($$update pawl_dag.steps set state = 'complete', result = '2' where task_uuid = %L and name = 'a'$$,
            :'task')),
    '42501', 'a result is read as it was reported');
select is(may('plain_worker', format($$update pawl_dag.steps set state = 'error' where task_uuid = %L and name = 'a'$$,
    :'task')), '42501', 'nor is a success made a failure');
select is(may('plain_worker', format('update pawl_dag.tasks set state = %L where task_uuid = %L', 'enqueuing_steps',
    :'task')), 'PW003', 'no step is ready, so none is found');
select is(may('plain_worker', format($$set local pawl.events = '{ReadyStepsFound,StepsEnqueued}';
    update pawl_dag.tasks set state = 'steps_in_process' where task_uuid = %L$$, :'task')), '0A000',
    'nor by a list of events');
update pawl_dag.steps set state = 'complete' where task_uuid = :'task' and name = 'a';
select is(may('plain_worker',
        format($$update pawl_dag.steps set state = 'enqueued' where task_uuid = %L and name = 'b'$$, :'task')),
    'PW003', 'a ready step is enqueued while its task enqueues');
select is(may('plain_worker', format($$set local pawl.events = '{Enqueue,Start}';
    update pawl_dag.steps set state = 'in_progress' where task_uuid = %L and name = 'b'$$, :'task')),
    '0A000', 'and no list of events starts it past that');
select is(may('plain_worker',
        format($$update pawl_dag.tasks set state = 'enqueuing_steps' where task_uuid = %1$L;
                    update pawl_dag.steps set state = 'enqueued' where task_uuid = %1$L and name = 'b'$$, :'task')),
    'ok', 'by hand as by the orchestrator');
update pawl_dag.tasks set state = 'enqueuing_steps' where task_uuid = :'task';
select is(may('plain_worker', format('update pawl_dag.tasks set state = %L where task_uuid = %L', 'error', :'task')),
    '42501', 'a worker does not give a task up');
reset pawl.processor;
-- and duties do all of this with a worker's rights
set role plain_worker;
select from pawl_dag.start_task('two');
select work();
select from pawl_dag.start_task('diamond');
select work('{b}');
select from pawl.reap('pawl_dag.steps');
select from pawl.fire_due('pawl_dag.steps');
reset role;
select is((select count(*) from pawl_dag.dlq where reason = 'max_retries_exceeded'), 1::bigint,
    'a dead letter too, that it may not write itself');
select t.task_uuid as blocked from pawl_dag.tasks t where t.state = 'blocked_by_failures' \gset
select is(may('plain_operator',
        format('update pawl_dag.tasks set state = %L where task_uuid = %L', 'evaluating_results', :'blocked')), 'PW003',
          'a task with a failed step is not put back to work');
select is(may('plain_operator',
        format($$set local pawl.event = 'Retry';
                    update pawl_dag.steps set state = 'pending' where task_uuid = %L and name = 'b'$$, :'blocked')),
    'PW003', 'a step without attempts left is not retried, but reset');
select is_empty('select wrong()', 'everything is as it must be');
drop role plain_worker, plain_operator;
select * from finish();
