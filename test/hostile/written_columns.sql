-- Every column of the packs that a role below admin can INSERT or UPDATE, why that is safe, and an attack on each.
-- The lists are compared with the catalog: a column that is granted without a decision fails this test. So are the
-- attacks made of the catalog.
\set QUIET 1
set client_min_messages = error;
select no_plan();
\ir ../pgtap/shared/dag.psql
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create role written_worker in role pawl_worker;
create role written_operator in role pawl_operator;
create role written_reader in role pawl_reader;
create role written_none;

create table decided (tab regclass, verb text, roles text, columns text[], reason text);
insert into decided values
    ('pawl_bulk.input', 'INSERT', 'worker operator', '{operation,row_number,data,raw,problem,line_number}',
    'only while the input is open (trigger came); rows are validated later'),
    ('pawl_bulk.notices', 'UPDATE', 'worker operator', '{state,message,tries,worker,lease_until,token,due}',
    'the owner of the lease; the rest as _notice_by_sql says'),
    ('pawl_bulk.operation_transitions', 'INSERT', 'worker operator', 
     '{id,operation,sort_key,from_state,to_state,event,processor,actor,correlation_id,metadata,machine_version,'
    'created_at,most_recent}', 'a request: log_requests'),
    ('pawl_bulk.operation_transitions_log', 'INSERT', 'worker operator',
    '{id,operation,sort_key,from_state,to_state,event,processor,actor,correlation_id,metadata,machine_version,'
    'created_at}', 'a request: log_requests'),
    ('pawl_bulk.operations', 'INSERT', 'worker operator', '{operation,definition,version,metadata,created_by,'
    'traceparent,tracestate,source,file_name,format,dialect,columns,checksum,idempotency_key,priority,'
    'notifications}', 'what pawl_bulk.submit takes as arguments, checked by _operation_made'),
    ('pawl_bulk.operations', 'UPDATE', 'operator', '{priority,notifications,paused_at,paused_by}',
    'operators pause, and set priorities and the targets of notices'),
    ('pawl_bulk.operations', 'UPDATE', 'worker operator', '{status,error_message}',
    'guards and _operation_by_sql; a message only with the state that it explains'),
    ('pawl_bulk.record_transitions', 'INSERT', 'worker operator', 
     '{id,operation,row_number,step_index,sort_key,from_state,to_state,event,processor,actor,correlation_id,metadata,'
    'machine_version,created_at,most_recent}', 'a request: log_requests'),
    ('pawl_bulk.record_transitions_log', 'INSERT', 'worker operator',
    '{id,operation,row_number,step_index,sort_key,from_state,to_state,event,processor,actor,correlation_id,metadata,'
    'machine_version,created_at}', 'a request: log_requests'),
    ('pawl_bulk.records', 'INSERT', 'worker operator', '{operation,row_number,step_index}',
    'only the next step of a valid row (_records_began)'),
    ('pawl_bulk.records', 'UPDATE', 'worker operator', '{tries,state,error_type,error_message,started_at,'
    'completed_at}', 'state changes of rows that no other worker has (_records_rest); what rests stays '
    '(_record_by_sql)'),
    ('pawl_bulk.signals', 'INSERT', 'worker operator', '{operation,key,result,message,payload,attempt}',
    'a signal; its answer is computed (_signal_sent)'),
    ('pawl_bulk.sql_runs', 'INSERT', 'operator', '{operation,step_index,kind,first_row,last_row,size,'
    'lease_until}', 'a run of this session, for a day at most (_run_by_sql)'),
    ('pawl_bulk.sql_runs', 'UPDATE', 'operator', '{last_row,size,lost_at,again_at}',
    'of this session, or lost (_run_by_sql)'),
    ('pawl_bulk.validations', 'INSERT', 'worker operator', '{operation,row_number,state,row_id,errors,raw,'
    'created_at}', 'only the functions that validate (_validations_by_sql)'),
    ('pawl_bulk.work', 'UPDATE', 'worker operator', '{state,deadline_at,worker,lease_until,token,due}',
    'claims and leases by the kernel; times by _work_by_sql'),
    ('pawl_dag.dlq', 'INSERT', 'operator', '{task_uuid,original_state,reason,task_snapshot,metadata}',
    'state and snapshot are the task''s (_dead_letter_by_sql)'),
    ('pawl_dag.dlq', 'UPDATE', 'operator', '{resolution_status,resolution_timestamp,resolution_notes,resolved_by,'
    'metadata}', 'operators say how it was resolved; nothing follows from it'),
    ('pawl_dag.edges', 'INSERT', 'worker operator', '{task_uuid,parent_uuid,child_uuid}',
    'no cycle, no parent for a step that has begun (_edges_written)'),
    ('pawl_dag.step_transitions', 'INSERT', 'worker operator', '{id,task_uuid,step_uuid,sort_key,from_state,to_state,'
    'event,processor,actor,correlation_id,metadata,machine_version,created_at,most_recent}',
    'a request: log_requests'),
    ('pawl_dag.step_transitions_log', 'INSERT', 'worker operator', '{id,task_uuid,step_uuid,sort_key,from_state,'
    'to_state,event,processor,actor,correlation_id,metadata,machine_version,created_at}',
    'a request: log_requests'),
    ('pawl_dag.steps', 'INSERT', 'worker operator', '{task_uuid,step_uuid,name,namespace,priority,rank,handler,'
    'handler_options,map_of,map_index,level,total_parents,unsatisfied_parents,optional,retryable,max_attempts,backoff,'
    'timeout,traceparent,tracestate}', 'what it is, never how far: _inserted_by_sql, _steps_by_sql, _step_settings'),
    ('pawl_dag.steps', 'UPDATE', 'operator', '{priority,optional,retryable,max_attempts,backoff,timeout,attempts}',
    'operators give attempts and time, within _step_settings'),
    ('pawl_dag.steps', 'UPDATE', 'worker operator', '{state,level,total_parents,unsatisfied_parents,permanent,'
    'backoff_request,worker_uuid,lease_until,token,next_retry_at,result,error}',
    'state changes and leases by the kernel; the rest as _step_by_sql says'),
    ('pawl_dag.task_transitions', 'INSERT', 'worker operator', '{id,task_uuid,sort_key,from_state,to_state,event,'
    'processor,actor,correlation_id,metadata,machine_version,created_at,most_recent}',
    'a request: log_requests'),
    ('pawl_dag.task_transitions_log', 'INSERT', 'worker operator', '{id,task_uuid,sort_key,from_state,to_state,event,'
    'processor,actor,correlation_id,metadata,machine_version,created_at}',
    'a request: log_requests'),
    ('pawl_dag.tasks', 'INSERT', 'worker operator', '{task_uuid,template_uuid,namespace,name,version,priority,rank,'
    'context,identity_key,correlation_id,parent_correlation_id,traceparent,tracestate,failure_policy,steps_total,'
    'steps_blocked,steps_ready,deadline_at,stale_after}', 'as its template says: _inserted_by_sql, _tasks_by_sql'),
    ('pawl_dag.tasks', 'UPDATE', 'operator', '{priority,error,deadline_at,stale_after,watch_at}',
    'operators give time, and say what comes first and what went wrong'),
    ('pawl_dag.tasks', 'UPDATE', 'worker operator', '{state,processor_uuid,lease_until,token,steps_total,'
    'steps_blocked,steps_ready,steps_in_flight,steps_waiting,steps_failed,steps_satisfied,steps_cancelled,evaluate,'
    'entered_at}', 'state changes and leases by the kernel, with guards; counters by triggers alone (_task_by_sql)'),
    ('pawl_saga.flow_transitions', 'INSERT', 'worker operator', '{id,flow_uuid,sort_key,from_state,to_state,event,'
    'processor,actor,correlation_id,metadata,machine_version,created_at,most_recent}', 'a request: log_requests'),
    ('pawl_saga.flow_transitions_log', 'INSERT', 'worker operator', '{id,flow_uuid,sort_key,from_state,to_state,event,'
    'processor,actor,correlation_id,metadata,machine_version,created_at}', 'a request: log_requests'),
    ('pawl_saga.flows', 'INSERT', 'worker operator', '{flow_uuid,definition_uuid,name,defer_reverts,never_resolve,'
    'inputs,correlation_id,traceparent,tracestate}', 'what pawl_saga.create_flow takes; its tasks come when it runs'),
    ('pawl_saga.flows', 'UPDATE', 'operator', '{definition_uuid}', 'pawl_saga.alter_flow; _flow_altered checks it'),
    ('pawl_saga.flows', 'UPDATE', 'worker operator', '{state}', 'guards: an end only when the tasks say so '
    '(saga_columns)'),
    ('pawl_saga.job_transitions', 'INSERT', 'worker operator', '{id,job_uuid,sort_key,from_state,to_state,event,'
    'processor,actor,correlation_id,metadata,machine_version,created_at,most_recent}', 'a request: log_requests'),
    ('pawl_saga.job_transitions_log', 'INSERT', 'worker operator', '{id,job_uuid,sort_key,from_state,to_state,event,'
    'processor,actor,correlation_id,metadata,machine_version,created_at}', 'a request: log_requests'),
    ('pawl_saga.jobs', 'INSERT', 'worker operator', '{job_uuid,board,name,priority,flow,inputs,details,'
    'max_attempts}', 'what pawl_saga.post takes'),
    ('pawl_saga.jobs', 'UPDATE', 'operator', '{priority,max_attempts}',
    'operators say what comes first, and how often it is tried'),
    ('pawl_saga.jobs', 'UPDATE', 'worker operator', '{state,flow_uuid,owner,lease_until,due_at,session_lock,'
    'trashed_at,trashed_for}', 'the owner of the job, and operators (saga_columns)'),
    ('pawl_saga.set_aside', 'INSERT', 'operator', '{flow_uuid,duty,due_at,sqlstate,message}',
    'pawl_saga.time_out_tasks sets flows aside with its caller''s rights; a flow is left for later'),
    ('pawl_saga.set_aside', 'UPDATE', 'operator', '{duty,attempts,due_at,sqlstate,message}',
    'pawl_saga.time_out_tasks sets flows aside with its caller''s rights; a flow is left for later'),
    ('pawl_saga.signals', 'INSERT', 'worker operator', '{flow_uuid,signal_uuid,name,payload}',
    'a signal, as pawl_saga.signal sends it'),
    ('pawl_saga.task_transitions', 'INSERT', 'worker operator', '{id,flow_uuid,node,sort_key,from_state,to_state,'
    'event,processor,actor,correlation_id,metadata,machine_version,created_at,most_recent}',
    'a request: log_requests'),
    ('pawl_saga.task_transitions_log', 'INSERT', 'worker operator', '{id,flow_uuid,node,sort_key,from_state,to_state,'
    'event,processor,actor,correlation_id,metadata,machine_version,created_at}', 'a request: log_requests'),
    ('pawl_saga.tasks', 'UPDATE', 'worker operator', '{state,worker,lease_until,result,failure,revert_result,'
    'revert_failure,progress,progress_details}', 'the owner of the task, with its result (saga_columns)');
select is_empty($$select * from decided where reason = '' or columns = '{}'$$, 'each has a reason');
create view found as
select c.oid::regclass as tab, v.verb, r.role, a.attname::text as col
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 cross join unnest('{INSERT,UPDATE}'::text[]) v(verb) cross join unnest('{worker,operator,reader,none}'::text[]) r(role)
 where c.relnamespace = any ('{pawl_dag,pawl_bulk,pawl_saga}'::regnamespace[]) and c.relkind in ('r', 'p', 'v')
   and has_column_privilege('written_' || r.role, c.oid, a.attnum, v.verb);
create view listed as
select d.tab, d.verb, r.role, c.col from decided d, unnest(string_to_array(d.roles, ' ')) r(role), unnest(d.columns)
    c(col);
select is((select string_agg(concat_ws(' ', f.role, f.verb, f.tab, f.col), ', ') from (select * from found except
    select * from listed) f), null,
          'no column is granted without a decision');
select is((select string_agg(concat_ws(' ', f.role, f.verb, f.tab, f.col), ', ') from (select * from listed except
    select * from found) f), null,
          'and each that is decided is granted');
select is((select count(*) from (select * from listed except all select distinct * from listed) x), 0::bigint, 'once');
select is((select string_agg(concat_ws(' ', r, p, c.oid::regclass), ', ') from pg_class c,
    unnest('{worker,operator,reader,none}'::text[]) r,
                  unnest('{DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) p
            where c.relnamespace = any ('{pawl_dag,pawl_bulk,pawl_saga}'::regnamespace[]) and c.relkind in ('r', 'p',
    'v')
              and has_table_privilege('written_' || r, c.oid, p)), 'operator DELETE pawl_saga.set_aside',
    'no rows are deleted, no triggers made');

\ir include/work.psql
select is(broken(), null, 'nothing is wrong before');

-- Values that a column should not have.
create function odd(tab regclass, col text) returns setof text language plpgsql as $$
declare type text := (select format_type(a.atttypid, null) from pg_attribute a where a.attrelid = tab and a.attname =
    col);
begin
    return query select quote_literal(s.state) from pawl.binding b cross join lateral pawl.states(b.machine) s
                  where b.relation = tab and b.state_column = col;
    return next 'null';
    return query select format('%L::%s', v, type) from unnest(case
        when type in ('integer', 'bigint', 'smallint') then '{0,-1,7,32767}' when type = 'double precision' then
    '{0,-1,NaN,Infinity}'
        when type = 'timestamp with time zone' then '{-infinity,infinity,now,2001-01-01}' when type = 'interval' then
    '{0,-1 s,1 year}'
        when type = 'boolean' then '{t,f}' when type = 'uuid' then '{00000000-0000-0000-0000-000000000001}' when type
    = 'jsonb' then E'{"{}","[]","7","{\\"a\\": 1}"}'
        when type ~ E'\\[\\]$' then '{"{}"}' else '{"",x,intruder}' end::text[]) v;
end $$;
-- An UPDATE of one row: rejected, without effect, written, or what is broken then; undone in any case.
create function written(role text, tab regclass, row_id tid, col text, value text) returns text language plpgsql as $$
declare before jsonb; after jsonb; said text;
begin
    execute format('select to_jsonb(t) from %s t where ctid = %L', tab, row_id) into before;
    execute format('set local role written_%s', role);
    perform set_config('pawl.processor', 'intruder', true);
    execute format('update %s t set %I = %s where ctid = %L returning to_jsonb(t)', tab, col, value, row_id) into after;
    reset role;
    said := case when after is null or after = before then 'no effect' else coalesce('breaks: ' || broken(),
    'written') end;
    raise exception using errcode = 'ZZZZZ', message = said;
exception when others then
    return case sqlstate when 'ZZZZZ' then sqlerrm else sqlstate end;
end $$;
create table answer (role text, tab regclass, col text, value text, answer text);
create function updates(role text, rows integer) returns void language plpgsql as $$
declare f record; row_id tid;
begin
    for f in select distinct x.tab, x.col from found x join pg_class c on c.oid = x.tab
              where x.verb = 'UPDATE' and x.role = updates.role and c.relkind = 'r' loop
        for row_id in execute format('select ctid from %s limit %s', f.tab, rows) loop
            insert into answer select role, f.tab, f.col, v, written(role, f.tab, row_id, f.col, v) from odd(f.tab,
    f.col) v;
        end loop;
    end loop;
end $$;
select updates('worker', 12) \g /dev/null
select is((select string_agg(distinct concat_ws(' ', tab, col, value, a.answer), E'\n') from answer a where a.answer
    ^@ 'breaks'), null, 'no UPDATE by a worker breaks anything');
select is((select string_agg(distinct concat_ws(' ', tab, col, value), ', ') from answer a where a.answer ~
    '^(XX|42P|42601|42883)'), null, 'no attack is one by its spelling');
select updates('operator', 3) \g /dev/null
select is((select string_agg(distinct concat_ws(' ', tab, col, value, a.answer), E'\n') from answer a where a.role =
    'operator' and a.answer ^@ 'breaks'), null, 'nor does one by an operator');
select is((select string_agg(distinct d.tab::text, ', ') from decided d where d.verb = 'UPDATE' and d.roles ~
    'operator' and not exists (select from answer a where a.role = 'operator' and a.tab = d.tab) and d.tab <>
    'pawl_saga.set_aside'::regclass), null, 'on each table that has rows');
delete from answer where role = 'operator';
-- What a worker can write into rows that are another's.
create table open (tab regclass, col text, reason text);
insert into open values
    ('pawl_dag.tasks', 'evaluate', 'a task is looked at once more'),
    ('pawl_bulk.work', 'state', 'ready work is claimed'),
    ('pawl_bulk.notices', 'state', 'a ready notice is claimed'),
    ('pawl_bulk.operations', 'status', 'an operation whose input is complete is validated'),
    ('pawl_saga.flows', 'state', 'workers suspend and resume flows, as by the functions'),
    ('pawl_saga.jobs', 'state', 'a job without an owner is claimed'),
    ('pawl_saga.tasks', 'state', 'a ready task is claimed');
select is((select string_agg(distinct concat_ws(' ', tab, col, value), ', ') from answer a where a.answer = 'written'
    and not exists (select from open o where o.tab = a.tab and o.col = a.col)), null,
          'a worker writes into rows of others only what is decided');
select is((select string_agg(concat_ws(' ', tab, col), ', ') from open o where not exists (select from answer a where
    a.answer = 'written' and o.tab = a.tab and o.col = a.col)), null,
          'and all of that');
select cmp_ok((select count(*) from answer), '>', 500::bigint, 'these were many attacks');
select is((select string_agg(distinct d.tab::text, ', ') from decided d where d.verb = 'UPDATE' and d.roles ~
    'worker' and not exists (select from answer a where a.tab = d.tab)), null,
          'on each table');

-- What the owner of a row writes: its lease, no longer than a claim gives, and the progress of its task.
create function owned(role text, tab regclass, owner_column text, assignment text) returns setof text language plpgsql
as $$
declare r record; said text;
begin
    for r in execute format('select t.ctid as id, %I::text as owner from %s t where %1$I is not null limit 3',
    owner_column, tab) loop
        begin
            execute format('set local role written_%s', role);
            perform set_config('pawl.processor', r.owner, true);
            execute format('update %s set %s where ctid = %L', tab, assignment, r.id);
            raise exception using errcode = 'ZZZZZ', message = 'written';
        exception when others then
            said := case sqlstate when 'ZZZZZ' then sqlerrm else sqlstate end;
        end;
        return next said;
    end loop;
end $$;
create view leases as
select b.relation as tab, b.owner_column::text as owner, b.lease_column::text as lease from pawl.binding b join
    pg_class c
    on c.oid = b.relation
 where b.lease_column is not null and c.relnamespace = any ('{pawl_dag,pawl_bulk,pawl_saga}'::regnamespace[]);
select is((select string_agg(distinct tab::text, ', ' order by tab::text) from leases), 'pawl_bulk.notices, '
    'pawl_bulk.work, pawl_dag.steps, pawl_dag.tasks, pawl_saga.jobs, pawl_saga.tasks', 'these tables have leases');
select is(array(select distinct concat_ws(' ', l.tab, s) from leases l, unnest('{worker,operator}'::text[]) r,
    unnest(array['infinity', 'now() + ''101 years''', '9999-12-31']) v, owned(r, l.tab, l.owner, format('%I = %s',
    l.lease, case when v ~ 'now' then v else quote_literal(v) end)) s where s <> '22023'), '{}',
    'no owner writes a lease that is longer than a claim gives');
select is(array(select distinct concat_ws(' ', l.tab, s) from leases l, owned('worker', l.tab, l.owner,
    format('%I = clock_timestamp() + ''1 hour''', l.lease)) s order by 1), '{pawl_bulk.notices written,'
    'pawl_bulk.work written,pawl_dag.steps written,pawl_dag.tasks written,pawl_saga.jobs written,'
    'pawl_saga.tasks written}',
    'and each extends its own');
select is(array(select owned('worker', 'pawl_saga.tasks', 'worker', 'progress = 0.5')), '{written}',
    'its progress too');
create table claims (tab regclass, assignment text);
insert into claims values
    ('pawl_saga.tasks', 'state = ''RUNNING'', worker = ''me'''),
    ('pawl_saga.jobs', 'state = ''CLAIMED'', owner = ''me'''),
    ('pawl_bulk.work', 'state = ''leased'', worker = ''me'''),
    ('pawl_bulk.notices', 'state = ''leased'', worker = ''me'''),
    ('pawl_dag.steps', 'state = ''in_progress'', worker_uuid = ''c0000000-0000-7000-8000-00000000000d''');
create function claimed(tab regclass, assignment text) returns text language plpgsql as $$
declare row_id tid; said text; best text := 'nothing to claim';
begin
    for row_id in execute format('select ctid from %s', tab) loop
        begin
            set local role written_worker;
            execute format('update %s set %s where ctid = %L', tab, assignment, row_id);
            raise exception using errcode = 'ZZZZZ', message = 'written';
        exception when others then
            said := case sqlstate when 'ZZZZZ' then sqlerrm else sqlstate end;
        end;
        best := case when said in ('written', '22023') then said else best end;
        exit when said = 'written';
    end loop;
    return best;
end $$;
select is(array(select concat_ws(' ', c.tab, claimed(c.tab, c.assignment)) from claims c order by 1),
    '{pawl_bulk.notices written,pawl_bulk.work written,pawl_dag.steps written,pawl_saga.jobs written,'
    'pawl_saga.tasks written}', 'work is claimed by hand');
select is(array(select concat_ws(' ', c.tab, claimed(c.tab, c.assignment || ', lease_until = ''infinity''')) from claims
    c order by 1), '{pawl_bulk.notices 22023,pawl_bulk.work 22023,pawl_dag.steps 22023,pawl_saga.jobs 22023,'
    'pawl_saga.tasks 22023}', 'but not for ever');

-- And INSERT: a row that is as it should be, with each of its columns as it should not be.
set pawl.processor = '00000000-0000-7000-8000-0000000000ff';
update pawl_bulk.work set state = 'leased' where operation = :'o' and row_number = 3;
reset pawl.processor;
create table base (tab regclass, row_of jsonb);
insert into base values
    ('pawl_dag.tasks', (select jsonb_build_object('template_uuid', template_uuid, 'namespace', namespace, 'name',
    name, 'version', version,
        'identity_key', 'mine') from pawl_dag.templates where name = 'two')),
    ('pawl_dag.steps', jsonb_build_object('task_uuid', :'new_task', 'name', 'mine', 'namespace', 'default',
    'handler', 'x')),
    ('pawl_dag.edges', jsonb_build_object('task_uuid', :'new_task', 'parent_uuid', step_of(:'new_task', 'free'),
    'child_uuid', step_of(:'new_task', 'b'))),
    ('pawl_dag.task_transitions', jsonb_build_object('task_uuid', :'new_task', 'to_state', 'initializing')),
    ('pawl_dag.step_transitions', jsonb_build_object('task_uuid', :'task', 'step_uuid', step_of(:'task', 'free'),
    'to_state', 'in_progress')),
    ('pawl_bulk.operations', '{"definition": "d", "version": 1}'),
    ('pawl_bulk.input', jsonb_build_object('operation', :'open', 'row_number', 2, 'data', '{}'::jsonb)),
    ('pawl_bulk.records', jsonb_build_object('operation', :'blocks', 'row_number', 1, 'step_index', 0)),
    ('pawl_bulk.signals', jsonb_build_object('operation', :'o', 'key', 'mine')),
    ('pawl_bulk.validations', jsonb_build_object('operation', :'blocks', 'row_number', 3, 'state', 'Completed')),
    ('pawl_bulk.operation_transitions', jsonb_build_object('operation', :'sealed', 'to_state', 'Validating')),
    ('pawl_bulk.operation_transitions_log', jsonb_build_object('operation', :'sealed', 'to_state', 'Validating')),
    ('pawl_bulk.record_transitions', jsonb_build_object('operation', :'o', 'row_number', 3, 'step_index', 0,
    'to_state', 'Failed')),
    ('pawl_bulk.record_transitions_log', jsonb_build_object('operation', :'o', 'row_number', 3, 'step_index', 0,
    'to_state', 'Failed')),
    ('pawl_saga.flows', (select jsonb_build_object('flow_uuid', pawl.uuid_v7(), 'definition_uuid', definition_uuid,
    'name', name) from pawl_saga.definitions limit 1)),
    ('pawl_saga.signals', jsonb_build_object('flow_uuid', :'flow', 'name', 'go')),
    ('pawl_saga.jobs', jsonb_build_object('job_uuid', pawl.uuid_v7(), 'name', 'mine', 'flow', 'f')),
    ('pawl_saga.flow_transitions', jsonb_build_object('flow_uuid', :'flow', 'to_state', 'SUSPENDING')),
    ('pawl_saga.flow_transitions_log', jsonb_build_object('flow_uuid', :'flow', 'to_state', 'SUSPENDING')),
    ('pawl_saga.task_transitions', jsonb_build_object('flow_uuid', :'new_flow', 'node', (select node from
    pawl_saga.tasks where flow_uuid = :'new_flow' and name = 'a'), 'to_state', 'RUNNING')),
    ('pawl_saga.task_transitions_log', jsonb_build_object('flow_uuid', :'new_flow', 'node', (select node from
    pawl_saga.tasks where flow_uuid = :'new_flow' and name = 'a'), 'to_state', 'RUNNING')),
    ('pawl_saga.job_transitions', jsonb_build_object('job_uuid', :'free_job', 'to_state', 'CLAIMED')),
    ('pawl_saga.job_transitions_log', jsonb_build_object('job_uuid', :'free_job', 'to_state', 'CLAIMED')),
    ('pawl_dag.task_transitions_log', jsonb_build_object('task_uuid', :'new_task', 'to_state', 'initializing')),
    ('pawl_dag.step_transitions_log', jsonb_build_object('task_uuid', :'task', 'step_uuid', step_of(:'task', 'free'),
    'to_state', 'in_progress'));
select is((select string_agg(distinct f.tab::text, ', ') from found f where f.verb = 'INSERT' and f.role = 'worker'
    and not exists (select from base b where b.tab = f.tab)), null,
          'each table into which a worker inserts is attacked');
create function inserted(tab regclass, row_of jsonb, col text, odd_value text) returns text language plpgsql as $$
declare names text; given text; done bigint;
begin
    select string_agg(quote_ident(k.key), ', '), string_agg(case when k.key = col then odd_value else
    quote_nullable(k.value) end, ', ')
      into names, given from jsonb_each_text(case when col is null then row_of else row_of || jsonb_build_object(col,
    null) end) k;
    set local role written_worker;
    perform set_config('pawl.processor', '00000000-0000-7000-8000-0000000000ff', true);
    execute format('insert into %s (%s) values (%s)', tab, names, given);
    get diagnostics done = row_count;
    reset role;
    raise exception using errcode = 'ZZZZZ', message = coalesce('breaks: ' || broken(), 'inserted');
exception when others then
    return case sqlstate when 'ZZZZZ' then sqlerrm else sqlstate end;
end $$;
create table made as
select b.tab, x.col, x.value, inserted(b.tab, b.row_of, x.col, x.value) as answer
  from base b cross join lateral (select null::text as col, null::text as value
                                  union all select f.col, v from found f, odd(f.tab, f.col) v where f.tab = b.tab and
    f.verb = 'INSERT' and f.role = 'worker') x;
select is((select string_agg(concat_ws(' ', tab, answer), ', ' order by tab::text) from made where col is null and
    answer <> 'inserted'), 'pawl_bulk.validations 42501',
    'rows as they should be are inserted, but by the duty that validates');
select is((select string_agg(distinct concat_ws(' ', tab, col, value, m.answer), E'\n') from made m where m.answer ^@
    'breaks'), null, 'no INSERT by a worker breaks anything');
select is((select string_agg(distinct concat_ws(' ', tab, col, value, m.answer), E'\n') from made m where m.answer ~
    '^(XX|42P|42601|42883)'), null, 'nor is one wrong by its spelling');
select is_empty('select wrong()', 'nothing is wrong behind it');
select * from finish();
drop owned by written_worker, written_operator, written_reader, written_none;
drop role written_worker, written_operator, written_reader, written_none;
