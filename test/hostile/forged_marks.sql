-- Marks that any SQL user can forge decide nothing: that a statement is a trigger's, because a worker can have a
-- trigger on a temporary table of its own; and settings, because every session can set them.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir ../pgtap/shared/dag.psql
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create role marks_worker login in role pawl_worker;
create role marks_operator login in role pawl_operator;

-- The statement as the role, by hand or by a trigger that the role has on a temporary
-- table of its own; undone in any case.
create function as_role(role name, command text, by_trigger boolean) returns text language plpgsql as $$
begin
    execute format('set local role %I', role);
    if by_trigger then
        create temporary table mine (command text);
        create function pg_temp.forge() returns trigger
            language plpgsql as $f$ begin execute new.command; return new; end $f$;
        create trigger forge before insert on mine for each row execute function pg_temp.forge();
        insert into mine values (command);
    else
        execute command;
    end if;
    raise exception using errcode = 'ZZZZZ', message = 'ok';
exception when others then
    return case sqlstate when 'ZZZZZ' then 'ok' else sqlstate end;
end $$;
grant execute on function as_role to public;
grant temporary on database :DBNAME to marks_worker, marks_operator;
create table attempt (what text, command text);

-- Tasks and steps: a is at work, b waits for it.
select pawl_dag.define_template('{"name": "two", "identity_strategy": "always_unique", "steps": [{"name": "a"}, '
        '{"name": "free"}, {"name": "b", "dependencies": ["a"]}]}') \g /dev/null
select pawl_dag.start_task('two') as task \gset
select from pawl_dag.orchestrate();
set pawl.processor = 'c0000000-0000-7000-8000-00000000000c';
update pawl_dag.steps set state = 'in_progress', worker_uuid = 'c0000000-0000-7000-8000-00000000000c'
    where task_uuid = :'task' and name = 'a';
insert into attempt select 'tasks.' || c, format('update pawl_dag.tasks set %I = 7 where task_uuid = %L', c, :'task')
  from unnest('{steps_total,steps_blocked,steps_ready,steps_in_flight,steps_waiting,steps_failed,steps_satisfied,'
      'steps_cancelled}'::text[]) c;
insert into attempt select 'steps.' || c, format('update pawl_dag.steps set %I = 7 where task_uuid = %L', c, :'task')
    from unnest('{unsatisfied_parents,total_parents,level}'::text[]) c;
insert into attempt select what, format(command, :'task') from (values
    ('tasks.entered_at', 'update pawl_dag.tasks set entered_at = now() where task_uuid = %L'),
    ('a ready step', 'update pawl_dag.steps set unsatisfied_parents = 0 where task_uuid = %L and name = ''b'''),
    ('an early result', 'update pawl_dag.steps set result = ''1'' where task_uuid = %L and name = ''free'''),
    ('an early error', 'update pawl_dag.steps set error = ''1'' where task_uuid = %L and name = ''free'''),
    ('a permanent error', 'update pawl_dag.steps set permanent = true where task_uuid = %L and name = ''free'''),
    ('a wait for ever',
        'update pawl_dag.steps set next_retry_at = ''infinity'' where task_uuid = %L and name = ''free'''),
    ('a step that is not claimed fails',
        'update pawl_dag.steps set state = ''error'' where task_uuid = %L and name = ''free'''),
    ('a step out of turn', 'update pawl_dag.steps set state = ''enqueued'' where task_uuid = %L and name = ''b'''),
    ('a task that nothing blocks', 'update pawl_dag.tasks set state = ''blocked_by_failures'' where task_uuid = %L'),
    ('what workers may', 'update pawl_dag.tasks set evaluate = true where task_uuid = %L')) w(what, command);

-- Rows of an operation: the first is at work, the second waits.
select pawl_bulk.define('{"name": "d", "track_row_data": true, "steps": [{"name": "a", "handler": "hands", '
        '"run_timeout": "1 hour"}, {"name": "b", "handler": "hands"}]}') \g /dev/null
select operation from pawl_bulk.submit('d', rows => '[{}, {}]') \gset
select pawl_bulk.advance() from generate_series(1, 4) \g /dev/null
select from pawl_bulk.claim('w', 'hands', 1);
insert into attempt select what, format(command, :'operation') from (values
    ('an operation is cancelled', 'update pawl_bulk.operations set status = ''Cancelled'' where operation = %L'),
    ('an operation has a message', 'update pawl_bulk.operations set error_message = ''x'' where operation = %L'),
    ('operations.opened_through', 'update pawl_bulk.operations set opened_through = 7 where operation = %L'),
    ('records.tries', 'update pawl_bulk.records set tries = 9 where operation = %L'),
    ('records.state', 'update pawl_bulk.records set state = ''Cancelled'' where operation = %L'),
    ('an entry out of turn', 'insert into pawl_bulk.records (operation, row_number, step_index) values (%L, 2, 1)'),
    ('work.deadline_at',
        'update pawl_bulk.work set deadline_at = now() where operation = %L and deadline_at is not null'),
    ('work without a row',
        'insert into pawl_bulk.work (operation, row_number, step_index, queue) values (%L, 9, 0, ''queue'')'),
    ('a run of another session', 'insert into pawl_bulk.sql_runs (operation, step_index, kind, first_row, last_row, '
                'size, lease_until) values (%L, 0, ''rows'', 1, 2, 2, ''infinity'')')) w(what, command);

-- Flows: the recorded intentions.
select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"task": "a"}, {"task": "b"}]}') \g /dev/null
select pawl_saga.start('f') as flow \gset
insert into attempt select what, format(command, :'flow') from (values
    ('tasks.blockers', 'update pawl_saga.tasks set blockers = 0 where flow_uuid = %L'),
    ('a task out of turn',
        'update pawl_saga.tasks set state = ''RUNNING'', worker = ''w'' where name = ''b'' and flow_uuid = %L'),
    ('a task is skipped', 'update pawl_saga.tasks set state = ''IGNORE'' where name = ''b'' and flow_uuid = %L'),
    ('an early outcome', 'update pawl_saga.tasks set result = ''1'' where name = ''b'' and flow_uuid = %L'),
    ('a flow with tasks undone', 'update pawl_saga.flows set state = ''SUCCESS'' where flow_uuid = %L'),
    ('the recorded intentions', 'delete from pawl_saga.intentions where flow_uuid = %L')) w(what, command);
select is(as_role('marks_worker', command, true), as_role('marks_worker', command, false),
        'worker, ' || what || ': by a trigger of its own as by hand') from attempt;
select is(as_role('marks_operator', command, true), as_role('marks_operator', command, false),
        'operator, ' || what || ': by a trigger of its own as by hand') from attempt;
select is_empty($$select what from attempt
    where what <> 'what workers may' and as_role('marks_worker', command, true) = 'ok'$$, 'none of it is a worker''s');
select is((select as_role('marks_worker', command, true) from attempt where what = 'what workers may'), 'ok',
    'what it may do by hand its trigger may do');

-- Recorded intentions are immutable for the owner of the table too, by hand and by a trigger, and goes with its flow.
select pawl_saga.revert(:'flow', 'because') \g /dev/null
select cmp_ok((select count(*) from pawl_saga.intentions where flow_uuid = :'flow'), '>', 0::bigint,
    'intentions are recorded');
select is(as_role(current_user, format('delete from pawl_saga.intentions where flow_uuid = %L', :'flow'), by_trigger),
    'PW006', 'the recorded intentions are kept')
  from unnest('{false,true}'::boolean[]) by_trigger;
delete from pawl_saga.flows where flow_uuid = :'flow';
select is((select count(*) from pawl_saga.intentions where flow_uuid = :'flow'), 0::bigint, 'it goes with its flow');

-- What follows from the state changes of a worker is written all the same.
set role marks_worker;
select from pawl_dag.report(
    jsonb_build_array(jsonb_build_object('task_uuid', :'task', 'step_uuid', step_of(:'task', 'a'), 'token', 1, 'result',
        1)), 'c0000000-0000-7000-8000-00000000000c');
select work();
select from pawl_dag.start_task('diamond');
select work('{b}');
reset role;
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete',
    'a worker brings a task to its end');
select is_empty('select wrong()', 'everything is as it must be');
-- Settings that a session makes say what its own state changes are meant as. Whatever they are, flows are finished and
-- undone to the end. They are set by a superuser here; the flows then run as a worker.
create function wrong_flows() returns setof text language sql as $$
    select name || ' ' || state from pawl_saga.flows where state <> all ('{SUCCESS,REVERTED}')
    union all select 'verify ' || v.problem from pawl.verify() v $$;
create function flows_end(setting text, worth text) returns text language plpgsql as $$
declare c record; g uuid; h uuid; answer text;
begin
    perform set_config(setting, worth, true);
    set local role marks_worker;
    g := pawl_saga.start('f');
    h := pawl_saga.start('f');
    for i in 1..20 loop
        select * into c from pawl_saga.claim('w');
        exit when not found;
        perform from pawl_saga.report(
            jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
            || case when c.flow_uuid = h and c.name = 'b'
                and c.action = 'execute' then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end), 'w');
    end loop;
    reset role;
    answer := (select string_agg(f.state, ' ' order by f.flow_uuid) from pawl_saga.flows f where f.flow_uuid in (g, h));
    perform set_config(setting, '', true);
    return answer;
exception when others then
    return sqlstate || ' ' || sqlerrm;
end $$;
create table setting (name text, worth text);
insert into setting values ('pawl_saga.following', 'on'), ('pawl_saga.following', 'off'),
    ('pawl_dag.orchestrating', 'on'), ('pawl_bulk.operation', '7'),
    ('pawl.processor', '019b0000-0000-7000-8000-00000005a9a0'), ('pawl.correlation_id', 'x'),
    ('pawl.metadata', '{"reason": "x"}'), ('pawl.delay', '1 day'),
    ('pawl.traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'), ('pawl.tracestate', 'a=b'),
    ('pawl.event', 'unknown'), ('pawl.token', '');
select is(flows_end(name, worth), 'SUCCESS REVERTED', format('under %s = %s flows end', name, worth)) from setting;
select is_empty('select wrong_flows()', 'and none hangs');
-- by hand too
set pawl_saga.following = 'on';
set role marks_worker;
set pawl.processor = 'w';
select pawl_saga.start('f') as g \gset
update pawl_saga.tasks set state = 'RUNNING', worker = 'w' where flow_uuid = :'g' and name = 'a';
update pawl_saga.tasks set state = 'SUCCESS', result = '1' where flow_uuid = :'g' and name = 'a';
update pawl_saga.tasks set state = 'RUNNING', worker = 'w' where flow_uuid = :'g' and name = 'b';
update pawl_saga.tasks set state = 'SUCCESS', result = '1' where flow_uuid = :'g' and name = 'b';
reset role;
select is((select state from pawl_saga.flows where flow_uuid = :'g'), 'SUCCESS',
    'nor does a flow whose tasks are updated by hand');
reset pawl_saga.following;

-- The mark of the follow-ups is the owner's, ends with an error, and only the outermost one gets it.
select is(as_role(r, command, by_trigger), '42501', format('%s: %s', r, command))
  from unnest('{marks_worker,marks_operator}'::name[]) r,
      unnest('{select pawl_saga._follow(),select pawl_saga._followed()}'::text[]) command,
      unnest('{false,true}'::boolean[]) by_trigger;
begin;
savepoint s;
select is(pawl_saga._follow(), true, 'the outermost follow-up');
select is(pawl_saga._follow(), false, 'one within it');
select throws_ok('select 1/0', '22012', null, 'an error within');
select is(pawl_saga._follow(), false, 'leaves it');
rollback to s;
select is(pawl_saga._follow(), true, 'an error ends it');
rollback to s;
select throws_ok('do $do$ begin perform pawl_saga._follow() and 1/0 > 0; end $do$', '22012', null, 'one of its own');
select is(pawl_saga._follow(), true, 'too');
release s;
select is(pawl_saga._follow(), false, 'the subtransaction''s end does not');
rollback;
select is(pawl_saga._follow(), true, 'the transaction''s end does');
select is(pawl_saga._follow(), true, 'of a statement of its own too');
drop owned by marks_worker, marks_operator;
drop role marks_worker, marks_operator;
select * from finish();
