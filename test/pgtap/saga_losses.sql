-- Workers that die with their tasks: again and again, with what is to be reverted since, and in the middle of a revert.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;
create function state(flow uuid) returns text language sql as $$
    select f.state || ': ' || string_agg(a.name || ' ' || a.state, ', ' order by a.node) from pawl_saga.flows f
        join pawl_saga.atoms a using (flow_uuid) where f.flow_uuid = flow group by f.state $$;
create function report(work pawl_saga.tasks, how text default 'result') returns void language sql as $$
    select from pawl_saga.report(
        jsonb_build_array(jsonb_build_object('flow_uuid', (work).flow_uuid, 'node', (work).node, 'token', (work).token)
        || case how when 'result' then '{"result": 1}' else '{"failure": {"message": "no"}}' end::jsonb),
        (work).worker) $$;
create function take(n int, worker text) returns setof pawl_saga.tasks language plpgsql as $$
declare c record;
begin
    for c in select * from pawl_saga.claim(take.worker, 'default', n) loop
        return query select t.* from pawl_saga.tasks t where t.flow_uuid = c.flow_uuid and t.node = c.node;
    end loop;
end $$;
-- the workers die: their leases expire, and are reaped
create function die() returns bigint language plpgsql as $$
begin
    set local session_replication_role = replica;
    update pawl_saga.tasks set lease_until = clock_timestamp() - interval '1 s' where worker is not null;
    set local session_replication_role = origin;
    return (select done from pawl.reap('pawl_saga.tasks'));
end $$;
select pawl_saga.define('{"flow": "linear", "name": "deadly", "children": [{"task": "a"}, {"task": "kills", '
    '"max_losses": 3}]}') \g /dev/null
select pawl_saga.start('deadly') as f \gset
select report(t) from take(1, 'w0') t;
select name, worker from take(1, 'w1') \gset
select is(die(), 1::bigint, 'a worker is lost');
select is(state(:'f'), 'RUNNING: a SUCCESS, kills RUNNING', 'its task waits for another worker');
select is((select losses from pawl_saga.tasks where flow_uuid = :'f' and name = 'kills'), 1, 'and remembers it');
select is((select name from take(1, 'w2')), 'kills', 'which claims it');
select is(die(), 1::bigint, 'and is lost');
select is((select name from take(1, 'w3')), 'kills', 'as is a third');
select is(die(), 1::bigint, 'that is enough');
select is(state(:'f'), 'RUNNING: a SUCCESS, kills FAILURE', 'it is not claimed again');
select is((select failure from pawl_saga.tasks where flow_uuid = :'f' and name = 'kills'),
    '{"type": "lost", "message": "3 workers were lost with it"}', 'it says why');
select is((select string_agg(event, ',' order by created_at, id) from pawl_saga.timeline where flow_uuid = :'f'
    and subject = 'kills' and from_state is not null), 'execute,lost,lost,settle', 'so does the log');

-- the same in reverts: they are the last ones
update pawl_saga.tasks set max_losses = 2 where flow_uuid = :'f' and name = 'kills';
select is((select state from take(1, 'w4')), 'REVERTING', 'it is reverted');
select is((select losses from pawl_saga.tasks where flow_uuid = :'f' and name = 'kills'), 0, 'with a new count');
select is(die(), 1::bigint, 'an expired task is lost once');
select is((select state from take(1, 'w5')), 'REVERTING', 'another worker claims the revert whose worker was lost');
select is(die(), 1::bigint, 'the second worker of the revert is lost too');
select is(state(:'f'), 'FAILURE: a SUCCESS, kills REVERT_FAILURE',
    'a revert that loses every worker is left to an operator');
select pawl_saga.resolve(:'f', 'kills', 'looked at it') \g /dev/null
select pawl_saga.run(:'f') \g /dev/null
select report(t) from take(1, 'w6') t;
select is(state(:'f'), 'REVERTED: a REVERTED, kills REVERTED', 'which repairs it');

-- lost, and then it was decided that it is reverted: it is not executed once more
select pawl_saga.define('{"flow": "unordered", "name": "beside", "children": [{"task": "slow"}, {"task": "bad", '
    '"priority": -1}]}') \g /dev/null
select pawl_saga.start('beside') as f \gset
select is((select name from take(1, 'w7')), 'slow', 'another worker claims the task whose lease expired');
select is(die(), 1::bigint, 'the task is lost again with its second worker');
select set_config('pawl.processor', 'w8', false) \g /dev/null
select is((select name from pawl.claim(null::pawl_saga.tasks, 'execute', 'w8', queue => 'default')), 'bad',
    'a task beside the expired one can be claimed');
select report(t, 'failure') from pawl_saga.tasks t where t.flow_uuid = :'f' and t.name = 'bad';
select is((select state || ' ' || intention from pawl_saga.tasks where flow_uuid = :'f' and name = 'slow'),
    'RUNNING REVERT', 'a running task is to be reverted once another task failed');
select is((select string_agg(name || ' ' || state, ', ' order by name) from take(5, 'w9')),
    'bad REVERTING, slow REVERTING', 'its outcome is unknown, so it is reverted');
select is((select string_agg(to_state, ',' order by created_at, id) from pawl_saga.timeline
    where flow_uuid = :'f' and subject = 'slow' and from_state is not null and event <> 'lost'),
          'RUNNING,FAILURE,REVERTING', 'a task whose worker was lost is reverted from FAILURE');
select is((select failure ->> 'message' from pawl_saga.tasks where flow_uuid = :'f' and name = 'slow'),
    'unknown outcome', 'of which nothing is known');

-- one worker dies with two tasks of a flow: the one has lost enough, which decides that the other is reverted
select pawl_saga.define('{"flow": "unordered", "name": "both", "children": [{"task": "last chance", "max_losses": 1}, '
        '{"task": "patient"}]}') \g /dev/null
select pawl_saga.start('both') as f \gset
select is((select count(*) from take(5, 'w12') where flow_uuid = :'f'), 2::bigint, 'two are begun');
select cmp_ok(die(), '>=', 2::bigint, 'and lost at once');
select is((select string_agg(name || ' ' || state || ' ' || intention, ', ' order by node) from pawl_saga.tasks
    where flow_uuid = :'f'), 'last chance FAILURE REVERT, patient RUNNING REVERT',
          'one has failed, the other is not wanted any more');
select is((select count(*) from take(5, 'w13') where flow_uuid = :'f' and state = 'REVERTING'), 2::bigint,
    'both are reverted');

-- a lease that ends while a report is recorded, which counts as of its time: the trigger holds it up until then
select pawl_saga.define('{"flow": "unordered", "name": "patience", "children": [{"task": "short"}, {"task": "long"}, '
    '{"task": "bad"}]}') \g /dev/null
select pawl_saga.start('patience') as f \gset
create temporary table held as select name, flow_uuid, node, token from pawl_saga.claim('w14', 'default', 1, '3 s');
insert into held select name, flow_uuid, node, token from pawl_saga.claim('w14', 'default', 2, '1 hour');
create function held_up() returns trigger language plpgsql as $$
begin
    while exists (select from pawl_saga.tasks
        where lease_until > clock_timestamp() and lease_until < clock_timestamp() + interval '10 s') loop
    end loop;
    return null;
end $$;
create trigger held_up before update on pawl_saga.tasks for each statement execute function held_up();
select is((select string_agg(concat_ws(' ', h.name, r.ok, r.state, left(r.problem, 5)), ', ' order by h.node)
    from pawl_saga.report((select jsonb_agg(jsonb_build_object('flow_uuid', flow_uuid, 'node', node, 'token', token)
    || case name when 'bad' then '{"failure": {"message": "no"}}' else '{"result": 1}' end::jsonb order by node)
        from held), 'w14') r
    join held h using (flow_uuid, node)),
    'short t SUCCESS, long t SUCCESS, bad t FAILURE', 'that task and the others are reported');
drop trigger held_up on pawl_saga.tasks;
select is((select string_agg(name || ' ' || state || ' ' || intention, ', ' order by node) from pawl_saga.tasks
    where flow_uuid = :'f'), 'short SUCCESS REVERT, long SUCCESS REVERT, bad FAILURE REVERT',
          'what was decided is decided once');

-- a worker that gives up its task is not lost
select pawl_saga.start('deadly') as f \gset
select name from take(1, 'w10') \gset
select is(pawl.abandon('pawl_saga.tasks', 'w10'), 1::bigint, 'a worker can abandon its task');
select is((select losses from pawl_saga.tasks where flow_uuid = :'f' and name = 'a'), 0, 'that counts no loss');

-- time limits: of the execute, and of the revert
select pawl_saga.define('{"flow": "linear", "name": "slow", "children": [{"task": "a", "timeout_seconds": 60, '
        '"revert_timeout_seconds": 90, "queue": "slow"}]}') \g /dev/null
select pawl_saga.start('slow') as f \gset
select set_config('pawl.processor', 'w11', false) from pawl_saga.claim('w11', 'slow') \g /dev/null
select is((select extract(epoch from timeout_at - started_at)::int from pawl_saga.tasks where flow_uuid = :'f'), 60,
    'an execute has its own time');
update pawl_saga.tasks set timeout_at = now() where flow_uuid = :'f';
select is((select done from pawl_saga.time_out_tasks()), 1::bigint, 'which is over');
select is((select action from pawl_saga.claim('w11', 'slow')), 'revert', 'it is reverted');
select is((select extract(epoch from timeout_at - started_at)::int from pawl_saga.tasks where flow_uuid = :'f'), 90,
    'a revert has its own');
update pawl_saga.tasks set timeout_at = now() where flow_uuid = :'f';
select is((select done from pawl_saga.time_out_tasks()), 1::bigint, 'which is over as well');
select is(state(:'f'), 'FAILURE: a REVERT_FAILURE', 'that is a failed revert');
select is((select revert_failure ->> 'type' from pawl_saga.tasks where flow_uuid = :'f'), 'timeout', 'because of time');

select throws_ok($$select pawl_saga.define('{"task": "a", "max_losses": 0}')$$, 'PW007', null,
    'not even the first worker may be lost');
select is_empty('select * from pawl_saga.verify()', 'nothing is wrong');
select is_empty('select * from pawl.verify()', 'nor with the logs');
select * from finish();
