-- What a worker may write of a saga by hand: every column of every table, and every state change that needs a
-- condition. What it may do it does with the same checks and follow-ups as the functions; the rest is rejected.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;

-- The rights, column by column.
create table may (tab text, verb text, columns text[]);
insert into may values
    ('flows', 'INSERT',
        '{flow_uuid,definition_uuid,name,inputs,defer_reverts,never_resolve,correlation_id,traceparent,tracestate}'),
    ('flows', 'UPDATE', '{state}'),
    ('tasks', 'UPDATE',
        '{state,worker,lease_until,result,failure,revert_result,revert_failure,progress,progress_details}'),
    ('signals', 'INSERT', '{flow_uuid,signal_uuid,name,payload}'),
    ('jobs', 'INSERT', '{job_uuid,board,name,priority,flow,inputs,details,max_attempts}'),
    ('jobs', 'UPDATE', '{state,owner,lease_until,flow_uuid,session_lock,due_at,trashed_at,trashed_for}');
create view has as
select c.relname::text as tab, v.verb, array_agg(a.attname::text order by a.attname) as columns
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  cross join unnest('{INSERT,UPDATE}'::text[]) v(verb)
 where c.relnamespace = 'pawl_saga'::regnamespace and c.relkind in ('r', 'p') and c.relname !~ '_log$'
     and has_column_privilege('pawl_worker', c.oid, a.attnum, v.verb) group by 1, 2;
select bag_eq('select * from has', $$select tab, verb, array(select c from unnest(columns) c order by c) from may$$,
    'workers write these columns and no others');
select is_empty($$select c.relname, v from pg_class c, unnest('{DELETE,TRUNCATE,TRIGGER,REFERENCES}'::text[]) v
    where c.relnamespace = 'pawl_saga'::regnamespace and c.relkind in ('r', 'p', 'v')
        and has_table_privilege('pawl_worker', c.oid, v)$$, 'and delete nothing');
select is_empty($$select c.relname from pg_class c
    where c.relnamespace = 'pawl_saga'::regnamespace and c.relkind in ('r', 'p', 'v')
    and (has_any_column_privilege('pawl_reader', c.oid, 'INSERT')
        or has_any_column_privilege('pawl_reader', c.oid, 'UPDATE'))$$, 'readers write nothing at all');
-- SECURITY DEFINER: triggers fire without a right to call them
select is((select string_agg(p.proname, ', ' order by p.proname)
    from pg_proc p, unnest('{pawl_admin,pawl_operator,pawl_worker,pawl_reader,public}'::text[]) r
            where p.pronamespace = 'pawl_saga'::regnamespace and p.prosecdef and p.prorettype = 'trigger'::regtype
        and has_function_privilege(r, p.oid, 'EXECUTE')),
    null, 'no role calls a trigger function that has the owner''s rights');
select is((select string_agg(distinct p.proname, ', ' order by p.proname) from pg_proc p
            where p.pronamespace = 'pawl_saga'::regnamespace and p.prosecdef
                and has_function_privilege('pawl_worker', p.oid, 'EXECUTE')),
          '_fill_flow, _record_orphans, begin_attempts, end_waits', 'nor any other than these');

create role saga_columns_worker in role pawl_worker;
create role saga_operator in role pawl_operator;
create function done(arguments jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
create table asked (role text, answer text);
grant insert on asked to saga_columns_worker;
create function no(results jsonb) returns boolean
    language plpgsql as $$ begin insert into public.asked values (current_user, 'no'); return false; end $$;
create function again(history jsonb) returns text
    language plpgsql as $$ begin insert into public.asked values (current_user, 'retry');
    return case when jsonb_array_length(history) < 2 then 'RETRY' else 'REVERT' end; end $$;
create function secret(results jsonb) returns boolean language sql as $$ select true $$;
revoke execute on function secret(jsonb) from public;
select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"task": "a"}, {"task": "b"}]}') \g /dev/null
select pawl_saga.define(
        '{"flow": "graph", "name": "d", "retry": {"retry": "Function", "name": "r", "function": "public.again"},
    "children": [{"task": "a"}, {"task": "b"}, {"task": "c"}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "public.no"}, "depth": "ATOM"},
        {"from": "b", "to": "c"}]}') \g /dev/null
select pawl_saga.define('{"flow": "graph", "name": "secret", "children": [{"task": "a"}, {"task": "b"}], "links": '
        '[{"from": "a", "to": "b", "decider": {"function": "public.secret"}}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "w", "children": [{"task": "s", "signal": "go"}, {"task": "t", '
        '"wait_seconds": 0}, {"task": "q", "execute": "sql:public.done"}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "needs", "children": [{"task": "a", "requires": ["x"]}]}')
    \g /dev/null

set role saga_columns_worker;
set pawl.processor = 'w';
select pawl_saga.start('f') as f \gset
select state, definition_uuid from pawl_saga.flows where flow_uuid = :'f' \gset
-- every column that it may not write, by name: the attempt is rejected by the column's own right
create function pg_temp.try(statement text) returns text language plpgsql as $$
begin
    execute statement;
    return 'done';
exception when others then
    return sqlstate;
end $$;
select is(string_agg(c.relname || '.' || a.attname, ', '), null, 'no other column is written by plain UPDATE')
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relnamespace = 'pawl_saga'::regnamespace and c.relkind = 'r' and c.relname !~ '_log$'
   and not exists (
       select from pg_catalog.unnest(array['flows.state', 'tasks.state', 'tasks.worker', 'tasks.lease_until',
           'tasks.result', 'tasks.failure', 'tasks.revert_result', 'tasks.revert_failure',
                   'tasks.progress', 'tasks.progress_details', 'jobs.state', 'jobs.owner', 'jobs.lease_until',
                   'jobs.flow_uuid', 'jobs.session_lock', 'jobs.due_at', 'jobs.trashed_at', 'jobs.trashed_for']) x
                    where x = c.relname || '.' || a.attname)
   and pg_temp.try(format('update pawl_saga.%I set %I = %2$I', c.relname, a.attname)) <> '42501';
select is(pg_temp.try($$update pawl_saga.tasks set blockers = 0$$), '42501', 'blockers are not cleared');
select is(pg_temp.try($$update pawl_saga.tasks set due_at = null$$), '42501', 'nor is the time');
select is(pg_temp.try($$update pawl_saga.tasks set state = 'RUNNING', worker = 'w' where name = 'b'$$), 'PW003',
    'a task does not begin before its turn');
select is(pg_temp.try($$insert into pawl_saga.tasks (flow_uuid, node, name, execute, due_at)
    select flow_uuid, 99, 'x', 'x', null from pawl_saga.flows$$), '42501', 'no task is put into a flow');
select is(pg_temp.try(
            $$insert into pawl_saga.intentions (flow_uuid, node, from_intention, to_intention, from_state, to_state)
        select flow_uuid, 1, 'EXECUTE', 'REVERT', 'PENDING', 'PENDING' from pawl_saga.flows$$),
    '42501', 'nor an entry into the intentions');
select is(pg_temp.try(format('update pawl_saga.flows set state = %L', s)), 'PW003',
    'a flow with tasks undone is not ' || s || ' by hand') from unnest('{SUCCESS,FAILURE,REVERTED}'::text[]) s;
select is(pg_temp.try(format('insert into pawl_saga.flow_transitions (flow_uuid, to_state) select flow_uuid, %L from '
        'pawl_saga.flows', s)), 'PW003', 'nor by its log') from unnest('{SUCCESS,FAILURE,REVERTED}'::text[]) s;
select is(pg_temp.try(format('select pawl.fire(''pawl_saga.flows'', array[flow_uuid::text], %L) from pawl_saga.flows',
            e)), 'PW003', 'nor by the event ' || e)
    from unnest('{succeed,fail,revert}'::text[]) e;
select is(pg_temp.try($$update pawl_saga.tasks set state = 'IGNORE' where name = 'b'$$), '42501',
    'a task is not skipped');
-- the mark of the follow-ups is not a worker's
select is(pg_temp.try('select pawl_saga._follow()'), '42501', 'a worker cannot run the follow-ups itself');
select is(pg_temp.try(format('select pawl_saga._ask(%L, null, current_user)', 'public.done')), '42501',
    'nor is a function called as another');

-- What a worker does by hand is what the functions do.
select flow_uuid, node, token from pawl_saga.claim('w') \gset
select is(pg_temp.try(format('update pawl_saga.tasks set progress = 0.5 where flow_uuid = %L and node = %s',
    :'flow_uuid', :node)), 'done', 'the progress of its task');
select is(pg_temp.try(format('update pawl_saga.tasks set result = ''2'' where flow_uuid = %L and node = %s',
    :'flow_uuid', :node)), '42501', 'a result comes with its state');
select is(pg_temp.try(format('update pawl_saga.tasks set state = ''SUCCESS'', result = ''2'' where flow_uuid = %L '
    'and node = %s', :'flow_uuid', :node)), 'done', 'a result by hand');
select is((select string_agg(name || ' ' || coalesce(result::text, '') || ' ' || blockers, ', ' order by node)
    from pawl_saga.tasks where flow_uuid = :'f'), 'a 2 0, b  0', 'the next task is ready by that');
select is(pg_temp.try(
        format($$update pawl_saga.tasks set state = 'REVERTING', worker = 'w' where flow_uuid = %L and name = 'a'$$,
    :'f')), 'PW003', 'what is done is not reverted unasked');
select is(pg_temp.try(format('update pawl_saga.tasks set %s = ''1'' where flow_uuid = %L and node = %s', c,
    :'flow_uuid', :node)), '42501', c || ' of what is finished is kept')
  from unnest('{result,failure,revert_result,revert_failure,progress,progress_details}'::text[]) c;
select
    is(pg_temp.try(format('update pawl_saga.tasks set state = ''PENDING'' where flow_uuid = %L and node = %s',
        :'flow_uuid', :node)) in ('42501', 'PW003'), true, 'and does not start again');
select is(pg_temp.try($$update pawl_saga.tasks set state = 'RUNNING', worker = 'w' where name = 'b'$$), 'done',
    'claimed by hand');
select is(pg_temp.try($$update pawl_saga.tasks set state = 'SUCCESS', result = '3' where name = 'b'$$), 'done',
    'and done');
select is((select state from pawl_saga.flows where flow_uuid = :'f'), 'SUCCESS', 'the flow has ended by that');
select is(pg_temp.try(format('update pawl_saga.flows set state = ''PENDING'' where flow_uuid = %L', :'f')), 'PW003',
    'finished work is not forgotten by hand');
reset role;
set role saga_operator;
select lives_ok(format('select pawl_saga.reset(%L, ''again'')', :'f'), 'by an operator it is');
reset role;
set role saga_columns_worker;
-- a flow that is inserted by hand has its atoms when it is run, and its names are looked for
insert into pawl_saga.flows (flow_uuid, definition_uuid, name) select pawl.uuid_v7(), definition_uuid, name
    from pawl_saga.definitions where name = 'f' returning flow_uuid as g \gset
select is(pg_temp.try(format('update pawl_saga.flows set state = ''RUNNING'' where flow_uuid = %L', :'g')), 'done',
    'a flow by hand');
select is((select string_agg(name || ' ' || state, ', ' order by node) from pawl_saga.tasks where flow_uuid = :'g'),
    'a PENDING, b PENDING', 'consists of what its definition says');
select pawl_saga.create_flow(definition_uuid) as n from pawl_saga.definitions where name = 'needs' \gset
select is(pg_temp.try(format('update pawl_saga.flows set state = ''RUNNING'' where flow_uuid = %L', :'n')), '22023',
    'a flow that misses values is not run by hand either');
select is(pg_temp.try(format('select pawl_saga.run(%L)', :'n')), '22023', 'as by the function');

-- Everything that a worker is for works with these rights.
create function pg_temp.work(fails text default '') returns text language plpgsql as $$
declare c record; did text[] := '{}';
begin
    for i in 1..100 loop
        select * into c from pawl_saga.claim('w');
        exit when not found;
        did := did || (c.action || ' ' || c.name);
        perform from pawl_saga.report(
            jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
            || case when c.action || ' '
            || c.name = fails then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end), 'w');
    end loop;
    return array_to_string(did, ', ');
end $$;
select pg_temp.work() \g /dev/null
select pawl_saga.start('d') as d \gset
select is(pg_temp.work('execute c'), 'execute a, execute c, revert c, revert a, execute a, execute c, '
    'revert c, revert a', 'deciders and controllers are asked');
select is((select state from pawl_saga.flows where flow_uuid = :'d'), 'REVERTED', 'to the end');
reset role;
select is((select array_agg(distinct role || ' ' || answer order by role || ' ' || answer) from asked),
    '{saga_columns_worker no,saga_columns_worker retry}',
    'with the rights of role reported, not of role owns the extension');
set role saga_columns_worker;
select pawl_saga.start('secret') as s \gset
select pg_temp.work() \g /dev/null
select is((select state || ' ' || (problem ->> 'sqlstate') from pawl_saga.flows where flow_uuid = :'s'),
    'FAILURE 42501', 'a decider that the worker may not call is not called');
select is(pawl_saga.run(:'d'), 'RUNNING', 'what was reverted as a whole is run again');
select is(pawl_saga.suspend(:'d'), 'SUSPENDED', 'suspended');
select is(pawl_saga.resume(:'d'), 'RUNNING', 'resumed');
select pawl_saga.start('w') as w \gset
select lives_ok(format('select pawl_saga.signal(%L, ''go'')', :'w'), 'signals');
select lives_ok('select pawl_saga.end_waits()', 'ends waits');
select lives_ok('select pawl_saga.begin_attempts()', 'begins attempts');
select throws_ok('select pawl_saga.run_sql_tasks()', '42501', null, 'but runs no SQL functions');
set role saga_operator;
select is((select done from pawl_saga.run_sql_tasks()), 1::bigint, 'operators run SQL tasks');
set role saga_columns_worker;
select is((select state from pawl_saga.flows where flow_uuid = :'w'), 'SUCCESS', 'to the end');
select pawl_saga.post('j', 'w') as j \gset
select is(pg_temp.try(format('update pawl_saga.jobs set %s where job_uuid = %L', c, :'j')), '42501',
    'a job without an owner is not changed: ' || c)
  from unnest(array['flow_uuid = pawl.uuid_v7()', 'session_lock = 1', 'due_at = ''infinity''', 'trashed_at = now()',
      'trashed_for = ''x''']) c;
select lives_ok(format('select pawl_saga.claim_job(%L, ''me''), pawl_saga.tie_job(%1$L, ''me'')', :'j'),
    'claims jobs and ties them');
select lives_ok(format('select pawl_saga.abandon_job(%L, ''me'')', :'j'), 'abandons them');
select is((select done from pawl_saga.conduct()), 1::bigint, 'conducts');
select pawl_saga.post('k') as k \gset
select lives_ok(format('select pawl_saga.claim_job(%L, ''me''), pawl_saga.trash_job(%1$L, ''me'', ''bad'')', :'k'),
    'trashes its own');
select lives_ok($$select pawl.heartbeat('pawl_saga.tasks', 'w'), pawl.reap('pawl_saga.tasks')$$,
    'extends its leases and reaps those of others');
select pawl_saga.start('w') as waits \gset
select is(pg_temp.try(format('update pawl_saga.flows set state = %L where flow_uuid = %L', s, :'waits')), 'PW003',
    'a flow that waits for a signal is not ' || s || ' by hand')
  from unnest('{FAILURE,REVERTED}'::text[]) s;
reset role;

-- Operators do with columns what they did with whole rows: all that their functions are
-- for, and by hand no more than that.
set role saga_operator;
select is(string_agg(c.relname || '.' || a.attname, ', ' order by c.relname, a.attname),
    'flows.definition_uuid, flows.state, jobs.due_at, jobs.flow_uuid, jobs.lease_until, jobs.max_attempts, '
          'jobs.owner, jobs.priority, jobs.session_lock, jobs.state, jobs.trashed_at, jobs.trashed_for, '
          'set_aside.attempts, set_aside.due_at, set_aside.duty, set_aside.message, set_aside.sqlstate, '
          'tasks.failure, tasks.lease_until, tasks.progress, tasks.progress_details, tasks.result, '
          'tasks.revert_failure, tasks.revert_result, tasks.state, tasks.worker',
              'operators update these columns and no others')
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relnamespace = 'pawl_saga'::regnamespace and c.relkind = 'r' and c.relname !~ '_log$'
     and has_column_privilege(c.oid, a.attnum, 'UPDATE');
set pawl.processor = 'operator';
select is(pg_temp.try(s), '42501', 'an operator does not ' || s)
    from unnest(array['update pawl_saga.tasks set blockers = 0', 'update pawl_saga.tasks set due_at = null',
    'update pawl_saga.tasks set intention = ''REVERT''', 'update pawl_saga.tasks set dropped = true',
    'update pawl_saga.tasks set execute = ''sql:public.done''', 'update pawl_saga.tasks set token = 1',
    'update pawl_saga.flows set broken = false', 'update pawl_saga.flows set undoing = false',
    'update pawl_saga.flows set run = 0', 'update pawl_saga.flows set inputs = ''{}''',
    'update pawl_saga.retries set state = ''SUCCESS''', 'update pawl_saga.retries set controller = ''{}''',
    'update pawl_saga.junctions set blockers = 0', 'update pawl_saga.attempts set value = ''1''',
    'update pawl_saga.runs set state = ''SUCCESS''', 'update pawl_saga.signals set taken_at = null',
    'update pawl_saga.jobs set token = 1', 'update pawl_saga.jobs set inputs = ''{}''',
    'insert into pawl_saga.retry_transitions (flow_uuid, node, to_state) select flow_uuid, node, ''SUCCESS'' from '
    'pawl_saga.retries',
    'insert into pawl_saga.tasks (flow_uuid, node, name, execute) select flow_uuid, 99, ''x'', ''sql:public.done'' '
    'from pawl_saga.flows',
    'insert into pawl_saga.junctions (flow_uuid, node, blockers) select flow_uuid, 99, 0 from pawl_saga.flows',
    'insert into pawl_saga.runs (flow_uuid, run) select flow_uuid, 99 from pawl_saga.flows',
    'insert into pawl_saga.signals (flow_uuid, name, sent_by) select flow_uuid, ''go'', ''postgres'' from '
    'pawl_saga.flows', 'delete from pawl_saga.flows']) s;
select is(pg_temp.try(format('update pawl_saga.flows set state = %L where state = ''RUNNING''', s)), 'PW003',
    'nor end a flow with tasks undone as ' || s) from unnest('{SUCCESS,FAILURE,REVERTED}'::text[]) s;
reset role;
select pawl_saga.define('{"flow": "linear", "name": "ops", "children": [{"task": "a", "timeout_seconds": 0.05}, '
    '{"task": "b"}]}') as ops_1 \gset
select pawl_saga.define('{"flow": "linear", "name": "ops", "children": [{"task": "a", "timeout_seconds": 0.05}, '
        '{"task": "b"}, {"task": "c"}]}') as ops_2 \gset
set role saga_operator;
select pawl_saga.start('ops', version => 1) as ops \gset
create function pg_temp.does(fails text[]) returns void language plpgsql as $$
declare c record;
begin
    loop
        select * into c from pawl_saga.claim('operator');
        exit when not found;
        perform from pawl_saga.report(
            jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
            || case when c.action || ' '
            || c.name = any (fails) then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end), 'operator');
    end loop;
end $$;
select pawl_saga.suspend(:'ops') as suspended \gset
select lives_ok(format('select pawl_saga.alter_flow(%L)', :'ops'), 'operators alter flows');
select is(pawl_saga.resume(:'ops'), 'RUNNING', 'and have them go on');
select pg_temp.does('{}');
select is((select state from pawl_saga.flows where flow_uuid = :'ops'), 'SUCCESS', 'to the end');
select is(pawl_saga.revert(:'ops', 'why'), 'RUNNING', 'operators revert flows');
select pg_temp.does('{revert b}');
select is((select state from pawl_saga.flows where flow_uuid = :'ops'), 'FAILURE', 'a revert fails');
select is(pawl_saga.retry_revert(:'ops', 'b', 'why'), 'RUNNING', 'operators have a failed revert tried again');
select pg_temp.does('{revert b}');
select lives_ok(format('select pawl_saga.resolve(%L, ''b'', ''why'')', :'ops'), 'or say that it is undone');
select is(pawl_saga.run(:'ops'), 'RUNNING', 'the flow goes on with that');
select pg_temp.does('{}');
select is((select state from pawl_saga.flows where flow_uuid = :'ops'), 'REVERTED', 'and is undone');
select is(pawl_saga.reset(:'ops', 'why'), 'PENDING', 'operators reset flows');
select is(pawl_saga.run(:'ops'), 'RUNNING', 'and run them again');
select count(*) = 1 as ok from pawl_saga.claim('operator') \gset
do $$ begin
    while exists (select from pawl_saga.tasks where timeout_at > clock_timestamp()) loop
        perform pg_sleep(0.01);
    end loop;
end $$;
select is((select done from pawl_saga.time_out_tasks()), 1::bigint, 'operators time tasks out');
select lives_ok(format('select pawl_saga._set_aside(%L, ''time_out_tasks'', ''22023'', ''no'')', :'ops'),
    'and set flows aside');
select lives_ok(format('select pawl_saga._set_aside(%L, ''time_out_tasks'', ''22023'', ''no'')', :'ops'), 'again');
select lives_ok(format('delete from pawl_saga.set_aside where flow_uuid = %L', :'ops'), 'and have them tried at once');
select is(pg_temp.try($$update pawl_saga.jobs set priority = 100, max_attempts = 3$$), 'done',
    'and say what comes first');
select lives_ok('select pawl_saga.conduct()', 'and conduct');
reset pawl.processor;
reset role;
select is_empty('select * from pawl_saga.verify()', 'all in order before');

-- A security-restricted operation: a table's owner has a flow go on while a superuser looks after the table.
create role saga_maker in role pawl_worker, pawl_admin;
create schema made authorization saga_maker;
set role saga_maker;
create function made.steal(results jsonb) returns boolean
    language plpgsql as $$ begin execute 'alter role saga_maker superuser'; return true; end $$;
select pawl_saga.define('{"flow": "graph", "name": "trap", "children": [{"task": "a", "signal": "spring"}, {"task": '
        '"b"}], "links": [{"from": "a", "to": "b", "decider": {"function": "made.steal"}}]}') \g /dev/null
select pawl_saga.start('trap') as trap \gset
create table made.t (i int);
insert into made.t values (1);
create function made.f(i int) returns int language plpgsql immutable as $$ begin return i; end $$;
create index ti on made.t (made.f(i));
create or replace function made.f(i int) returns int language plpgsql immutable as $$ begin
    perform pawl_saga.signal(flow_uuid, 'spring') from pawl_saga.flows where name = 'trap' and state = 'RUNNING';
    return i;
end $$;
reset role;
select pg_temp.try('reindex table made.t') \g /dev/null
select is((select rolsuper from pg_roles where rolname = 'saga_maker'), false, 'it is no superuser by that');
select is_empty('select * from pawl_saga.verify()', 'all in order');
select * from finish();
