-- Triggers of users on tasks and flows that change flows: a flow ends when all that its atoms did is counted.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/saga.psql
select pawl_saga.define('{"flow": "unordered", "name": "told", "children": [{"flow": "linear", "name": "ab",
    "children": [{"task": "a"}, {"task": "b"}]}, {"task": "told", "signal": "done"}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "line", "children": [{"task": "a"}, {"task": "b"}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "other", "children": [{"task": "x"}, {"task": "y"}]}')
    \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "single", "children": [{"task": "x"}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "empty", "children": []}') \g /dev/null
-- What a processor reports of all its tasks, or of one: x fails when it is executed.
create function results(processor text, task text default null) returns jsonb language sql as $$
    select coalesce(jsonb_agg(jsonb_build_object('flow_uuid', t.flow_uuid, 'node', t.node, 'token', t.token,
        case when t.name = task and t.name = 'x' and t.state = 'RUNNING' then 'failure' else 'result' end, 1)), '[]')
      from pawl_saga.tasks t where t.worker = processor and (task is null or t.name = task) $$;
create function holds(flow uuid, processor text default 'w') returns void language sql as $$
    select from pawl_saga.claim(processor, 'default', 100, '1 hour') $$;
create function chain() returns trigger language plpgsql as $$
declare said text;
begin
    case tg_argv[0]
        when 'signal' then perform pawl_saga.signal(new.flow_uuid, 'done');
        when 'suspend' then perform pawl_saga.suspend(new.flow_uuid);
        when 'resume' then perform pawl_saga.resume(new.flow_uuid);
        when 'suspend and resume' then
            perform pawl_saga.suspend(new.flow_uuid), pawl_saga.resume(new.flow_uuid);
        when 'revert' then perform pawl_saga.revert(new.flow_uuid, 'a trigger');
        when 'report' then perform pawl_saga.report(public.results('v'), 'v');
        when 'start' then perform pawl_saga.start('other');
        when 'empty' then perform set_config('test.state', pawl_saga.run(pawl_saga.create_flow(d.definition_uuid)),
            false) from pawl_saga.definitions d where d.name = 'empty';
        when 'end' then
            update pawl_saga.flows set state = 'REVERTED' where flow_uuid = new.flow_uuid;
    end case;
    return null;
end $$;
create procedure trigger_does(what text, task text default 'a', state text default 'SUCCESS') language plpgsql as $$
begin
    drop trigger if exists chain on pawl_saga.tasks;
    execute format('create trigger chain after update on pawl_saga.tasks for each row
        when (new.name = %L and new.state = %L and old.state <> new.state) execute function public.chain(%L)',
        task, state, what);
end $$;
create function undo() returns bigint language sql as $$
    with gone as (delete from pawl_saga.flows returning 1) select count(*) from gone $$;
create function verified() returns text language sql as $$
    select string_agg(concat_ws(' ', v.atom, v.problem), '; ' order by v.atom, v.problem) from pawl_saga.verify() v $$;
-- What became of a flow whose task a is done, by which call, and what pawl_saga.verify finds.
create function done_by(how text, flow text default 'line') returns text language plpgsql as $$
declare made uuid := pawl_saga.start(flow);
begin
    perform public.holds(made);
    if how = 'report' then
        perform pawl_saga.report(public.results('w'), 'w');
    elsif how = 'report_and_claim' then
        perform pawl_saga.report_and_claim(public.results('w'), 'w');
    else
        perform set_config('pawl.processor', 'w', true);
        update pawl_saga.tasks t set state = 'SUCCESS', result = '1' where t.worker = 'w';
    end if;
    return concat_ws('; ', public.state(made), public.verified());
end $$;
create view calls (how, then_claimed) as
    values ('report', 'b PENDING'), ('report_and_claim', 'b RUNNING'), ('update', 'b PENDING');

call trigger_does('signal');
select is(done_by(how, 'told'), 'RUNNING: a SUCCESS, ' || then_claimed || ', told SUCCESS',
    format('a trigger signals the flow whose task ends by %s: it goes on', how)) || left(undo()::text, 0) from calls;
select done_by('report', 'told') \g /dev/null
select works() \g /dev/null
select is(array_agg(f.state), '{SUCCESS}', 'and it ends when all is done') from pawl_saga.flows f;
select undo() \g /dev/null

call trigger_does('suspend');
select is(done_by(how), 'SUSPENDED: a SUCCESS, b PENDING',
    format('a trigger suspends the flow whose task ends by %s: it is suspended', how)) || left(undo()::text, 0)
  from calls;
select done_by('report_and_claim') \g /dev/null
select is(pawl_saga.resume(f.flow_uuid), 'RUNNING', 'a flow that was suspended in this way can be resumed')
  from pawl_saga.flows f;
select is(works(), 'execute b', 'and its next task is claimed');
select is(array_agg(f.state), '{SUCCESS}', 'and it ends in success') from pawl_saga.flows f;
select undo() \g /dev/null

call trigger_does('resume');
select is(done_by(how), 'RUNNING: a SUCCESS, ' || then_claimed,
    format('a trigger resumes the flow whose task ends by %s: no task is counted twice', how)) || left(undo()::text, 0)
  from calls;
call trigger_does('suspend and resume');
select is(done_by(how), 'RUNNING: a SUCCESS, ' || then_claimed,
    format('a trigger suspends and resumes it, by %s: it goes on', how)) || left(undo()::text, 0) from calls;

call trigger_does('revert');
select is(done_by(how), case how when 'report_and_claim' then 'RUNNING: a REVERTING/REVERT, b PENDING/REVERT'
        else 'RUNNING: a SUCCESS/REVERT, b PENDING/REVERT' end,
    format('a trigger reverts the flow whose task ends by %s: the task is to be reverted', how))
    || left(undo()::text, 0) from calls;

-- A flow of which one part is reverted already
select pawl_saga.define('{"flow": "unordered", "name": "half", "children": [{"flow": "linear", "name": "ab",
    "children": [{"task": "a"}, {"task": "b"}]}, {"flow": "linear", "name": "s", "retry": {"retry": "AlwaysRevert",
    "name": "r"}, "children": [{"task": "x"}]}]}') \g /dev/null
create function half_done(what text) returns text language plpgsql as $$
declare made uuid := pawl_saga.start('half');
begin
    perform public.holds(made);
    perform pawl_saga.report(public.results('w', 'x'), 'w');
    perform from pawl_saga.claim('w');
    perform pawl_saga.report(public.results('w', 'x'), 'w');
    call public.trigger_does(what);
    perform pawl_saga.report(public.results('w', 'a'), 'w');
    return concat_ws('; ', public.state(made), public.verified());
end $$;
select is(half_done('signal'), 'RUNNING: a SUCCESS, b PENDING, r REVERTED/REVERT, x REVERTED/REVERT',
    'a trigger signals a flow of which one part is reverted: the other goes on');
select throws_ok($$select half_done('end')$$, 'PW003', null, 'and it cannot end the flow itself');
drop trigger chain on pawl_saga.tasks;
select undo() \g /dev/null
-- A counter that does not match the states, as an import can have it, is no reason to end either.
select pawl_saga.define('{"flow": "unordered", "name": "three", "children": [{"flow": "linear", "name": "ab",
    "children": [{"task": "a"}, {"task": "b"}]}, {"task": "c"}]}') \g /dev/null
select pawl_saga.start('three') as three \gset
begin;
set local session_replication_role = replica;
update pawl_saga.tasks set blockers = 2 where name = 'b';
commit;
select is(works(), 'execute a, execute c, execute b', 'a flow in which too much is counted is counted anew');
select is(state(:'three'), 'SUCCESS: a SUCCESS, b SUCCESS, c SUCCESS', 'and ends when all is done');
select undo() \g /dev/null

-- another flow
call trigger_does('report');
create function reports_another(how text, flow text) returns text language plpgsql as $$
declare made uuid := pawl_saga.start(flow);
begin
    perform public.holds(made, 'v');
    return public.done_by(how) || '; ' || public.state(made);
end $$;
select is(reports_another(how, 'other'), 'RUNNING: a SUCCESS, b PENDING; RUNNING: x SUCCESS, y PENDING',
    format('a trigger reports a task of another flow within %s: both go on', how)) || left(undo()::text, 0)
  from calls where how <> 'report_and_claim';
select ok(reports_another('report_and_claim', 'other') like 'RUNNING: a SUCCESS, b %; RUNNING: x SUCCESS, y %',
    'within report_and_claim as well');
select is(count(*), 1::bigint, 'where the worker gets one of the two next tasks') from pawl_saga.tasks
 where state = 'RUNNING' and worker = 'w';
select undo() \g /dev/null
select is(reports_another(how, 'single'), 'RUNNING: a SUCCESS, ' || then_claimed || '; SUCCESS: x SUCCESS',
    format('a trigger reports the last task of another flow within %s: that one ends', how)) || left(undo()::text, 0)
  from calls;

-- What the pack itself writes fires triggers of users as well: here, that a retry takes its scope back.
select pawl_saga.define('{"flow": "linear", "name": "again", "retry": {"retry": "Times", "name": "r", "attempts": 2},
    "children": [{"task": "a"}]}') \g /dev/null
call trigger_does('report', 'a', 'PENDING');
select pawl_saga.start('single') as single \gset
select holds(:'single', 'v') \g /dev/null
select pawl_saga.start('again') as again \gset
select works('execute a') \g /dev/null
select is(state(:'single'), 'SUCCESS: x SUCCESS',
    'a flow ends whose task a trigger reports within the retry of another flow');
select is(state(:'again'), 'REVERTED: r REVERTED/REVERT, a REVERTED/REVERT', 'and the retry goes on');
select undo() \g /dev/null
drop trigger chain on pawl_saga.tasks;
create trigger chain after update on pawl_saga.flows for each row
    when (new.state = 'SUCCESS' and new.name = 'line') execute function chain('report');
select pawl_saga.start('single') as single \gset
select holds(:'single', 'v') \g /dev/null
select pawl_saga.start('line') as line \gset
select works() \g /dev/null
select is(state(:'single'), 'SUCCESS: x SUCCESS', 'a flow ends whose task a trigger reports as another flow ends');
drop trigger chain on pawl_saga.flows;
select undo() \g /dev/null

-- triggers on flows that come before what follows from the state of the flow
create trigger a_chain after update on pawl_saga.flows for each row
    when (new.state = 'RUNNING' and old.state = 'PENDING') execute function chain('suspend');
select pawl_saga.start('line') as line \gset
select is(state(:'line'), 'SUSPENDED: a PENDING, b PENDING', 'a trigger suspends a flow as it begins');
select is(verified(), null, 'so that none of its tasks can be claimed');
select is((select string_agg(e.state, ',') from pawl_saga.engines e where e.flow_uuid = :'line'), 'SUSPENDED',
    'and its engine has stopped');
drop trigger a_chain on pawl_saga.flows;
select pawl_saga.resume(:'line') \g /dev/null
select is(works(), 'execute a, execute b', 'it goes on when it is resumed');
create trigger a_chain after update on pawl_saga.flows for each row
    when (new.state = 'SUSPENDING') execute function chain('report');
select pawl_saga.start('line') as line \gset
select holds(:'line', 'v') \g /dev/null
select pawl_saga.suspend(:'line') \g /dev/null
select is(state(:'line'), 'SUSPENDED: a SUCCESS, b PENDING',
    'a trigger reports what a flow waits for as it is suspended');
select is(verified(), null, 'which is in order');
drop trigger a_chain on pawl_saga.flows;
create trigger a_chain after update on pawl_saga.flows for each row
    when (new.state = 'SUSPENDING') execute function chain('resume');
select is(pawl_saga.resume(:'line'), 'RUNNING', 'a flow is resumed');
select is(pawl_saga.suspend(:'line'), 'RUNNING', 'a trigger resumes it whenever it is suspended');
select is(works(), 'execute b', 'so that it goes on');
select is(verified(), null, 'as if it had not been suspended');
drop trigger a_chain on pawl_saga.flows;
select undo() \g /dev/null

-- statements that end no atom
create trigger chain after update on pawl_saga.tasks for each row when (new.progress > 0)
    execute function chain('report');
select pawl_saga.start('single') as single \gset
select holds(:'single', 'v') \g /dev/null
select pawl_saga.start('line') as line \gset
select c.flow_uuid, c.node, c.token from pawl_saga.claim('w', lease => '1 hour') c \gset
select pawl_saga.progress(:'flow_uuid', :node, :token, 0.5, processor => 'w') \g /dev/null
select is(state(:'single'), 'SUCCESS: x SUCCESS',
    'a flow ends whose task a trigger reports with the progress of another');
drop trigger chain on pawl_saga.tasks;
select undo() \g /dev/null
create trigger chain after update on pawl_saga.retries for each row execute function chain('report');
select pawl_saga.start('single') as single \gset
select holds(:'single', 'v') \g /dev/null
select pawl_saga.start('again') as again \gset
select is(state(:'single'), 'SUCCESS: x SUCCESS', 'or as a retry of another flow begins');
select pawl_saga.start('single') as single \gset
select holds(:'single', 'v') \g /dev/null
update pawl_saga.retries set value = value where flow_uuid = :'again';
select is(state(:'single'), 'SUCCESS: x SUCCESS', 'or is written in any way');
drop trigger chain on pawl_saga.retries;
select undo() \g /dev/null
call trigger_does('empty');
select is(done_by('report'), 'RUNNING: a SUCCESS, b PENDING', 'a trigger can start a flow');
select is(current_setting('test.state'), 'SUCCESS', 'which ends at once if it has no tasks');
drop trigger chain on pawl_saga.tasks;
select undo() \g /dev/null

-- one statement that ends a task and suspends the flow
select pawl_saga.start('line') as line \gset
select holds(:'line') \g /dev/null
set pawl.processor = 'w';
with s as (update pawl_saga.flows set state = 'SUSPENDING' where flow_uuid = :'line')
update pawl_saga.tasks set state = 'SUCCESS', result = '1' where flow_uuid = :'line' and name = 'a';
with s as (update pawl_saga.tasks set state = 'SUCCESS', result = '1' where flow_uuid = :'line' and state = 'RUNNING')
update pawl_saga.flows set state = 'SUSPENDING' where flow_uuid = :'line' and state = 'RUNNING';
reset pawl.processor;
select is(state(:'line'), 'SUSPENDED: a SUCCESS, b PENDING', 'a statement can end a task and suspend its flow');
select pawl_saga.resume(:'line') \g /dev/null
select is(works(), 'execute b', 'which goes on when it is resumed');
select undo() \g /dev/null

-- A trigger that resumes the flow at every state change of every task, through retries, reverts, waits and counting.
select pawl_saga.define('{"flow": "linear", "name": "deep", "retry": {"retry": "Times", "name": "r", "attempts": 2},
    "children": [{"task": "t1"}, {"flow": "unordered", "name": "u", "children": [
        {"task": "t2"}, {"flow": "linear", "name": "l", "retry": {"retry": "Times", "name": "q", "attempts": 2},
            "children": [{"task": "t3"}, {"task": "nap", "wait_seconds": 0}, {"task": "t4"}]}, {"task": "t5"}]},
        {"flow": "graph", "name": "g", "children": [{"task": "t6"}, {"task": "t7"}, {"task": "t8"}],
         "links": [{"from": "t6", "to": "t7", "decider": {"allow": false}, "depth": "ATOM"},
                   {"from": "t7", "to": "t8"}]}, {"task": "t9"}]}') \g /dev/null
create trigger chain after update of state on pawl_saga.tasks for each row when (old.state <> new.state)
    execute function chain('resume');
create function resumed_all_along(variadic fails text[] default '{}') returns text language plpgsql as $$
declare made uuid := pawl_saga.start('deep');
begin
    for i in 1..60 loop
        exit when public.work(fails, 1) = '' and (select done from pawl_saga.run_sql_tasks(1)) = 0;
        perform public.pass_if(not exists (select from pawl_saga.verify(made)));
    end loop;
    return (select f.state from pawl_saga.flows f where f.flow_uuid = made);
end $$;
create function pass_if(fine boolean) returns void language plpgsql as $$
begin
    assert fine, 'pawl_saga.verify finds something';
end $$;
select is(resumed_all_along(), 'SUCCESS', 'a flow can be resumed at each of its state changes');
select is(resumed_all_along('execute ' || n), 'REVERTED', format('also where %s fails in each attempt', n))
  from unnest('{t1,t2,t4,t8,t9}'::text[]) n;
select is(resumed_all_along('execute t4', 'revert t3'), 'FAILURE', 'and where a revert fails');
select is_empty('select * from pawl_saga.verify()', 'and all counters match the states');
drop trigger chain on pawl_saga.tasks;
select undo() \g /dev/null

-- what pawl_saga.verify finds
create procedure forged(what text) language plpgsql as $$
begin
    set local session_replication_role = replica;
    execute what;
    set local session_replication_role = origin;
end $$;
select pawl_saga.start('line') as line \gset
select work('{}', 1) \g /dev/null
call forged(format('update pawl_saga.flows set state = %L', 'REVERTED'));
call forged('update pawl_saga.tasks set due_at = ''infinity''');
select is(verified(), 'a SUCCESS in a flow that is REVERTED, and nothing was reverted; b PENDING in a flow that is '
    'REVERTED, and it was not executed', 'verify finds a flow that was called REVERTED and is not');
call forged(format('update pawl_saga.flows set state = %L', 'FAILURE'));
call forged('update pawl_saga.tasks set due_at = null where name = ''b''');
select is(verified(), 'b PENDING, and can be claimed, in a flow that is FAILURE',
    'and what can be claimed in one that has ended');
call forged('update pawl_saga.tasks set state = ''RUNNING'' where name = ''b''');
select is(verified(), 'b RUNNING in a flow that is FAILURE', 'and what runs in one that has ended');
select * from finish();
