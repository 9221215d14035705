-- Flows as users and operators meet them: run, suspended, repaired, rejected; retries with backoff; timeouts; jobs and
-- their conductor; privileges.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;
create function ok_step(a jsonb) returns jsonb language sql as 'select ''{"id": 7}''::jsonb';
create function undo_step(a jsonb, done jsonb) returns jsonb language sql as 'select done -> ''result''';
create function bad_step(a jsonb) returns jsonb
    language plpgsql as $$begin raise exception 'no room' using errcode = 'XX123'; end$$;
create function bad_undo(a jsonb, done jsonb) returns jsonb
    language plpgsql as $$begin raise exception 'cannot undo'; end$$;
create function says_what(h jsonb) returns boolean language plpgsql as $$begin raise exception 'no idea'; end$$;
create function controller(h jsonb) returns text
    language sql as $$ select case when jsonb_array_length(h) < 2 then 'RETRY' else 'REVERT' end $$;
create function state(flow uuid) returns text language sql as $$
    select f.state || ': ' || string_agg(a.name || ' ' || a.state, ', ' order by a.node) from pawl_saga.flows f
        join pawl_saga.atoms a using (flow_uuid) where f.flow_uuid = flow group by f.state $$;
create function work() returns void language sql as $$ select from pawl_saga.run_sql_tasks(1000) $$;
create function step(name text, how text default 'ok_step', undo text default 'undo_step') returns jsonb
    language sql as $$
    select jsonb_build_object('task', name, 'execute', 'sql:public.' || how, 'revert', 'sql:public.' || undo) $$;
create function define(name text, steps jsonb, retry jsonb default null) returns uuid language sql as $$
    select pawl_saga.define(
        jsonb_strip_nulls(jsonb_build_object('flow', 'linear', 'name', name, 'retry', retry, 'children', steps))) $$;

select define('plain', jsonb_build_array(step('a'), step('b'))) as plain \gset
select is(define('plain', jsonb_build_array(step('a'), step('b'))), :'plain'::uuid,
    'the same structure is the same version');
select throws_ok(format('update pawl_saga.nodes set name = %L where definition_uuid = %L', 'x', :'plain'), 'PW006',
    null, 'versions are immutable');
select throws_ok($$select define('twice', jsonb_build_array(step('a'), step('a')))$$, 'PW007', null,
    'a name given twice is rejected');
select throws_ok($$select pawl_saga.start('missing')$$, 'PW008', null, 'an unknown flow');

select pawl_saga.start('plain') as f \gset
select is(state(:'f'), 'RUNNING: a PENDING, b PENDING', 'a flow begins');
select throws_ok(format('select pawl_saga.run(%L)', :'f'), '55000', null, 'and is not begun twice');
select throws_ok(format('update pawl_saga.tasks set state = %L where flow_uuid = %L and name = %L', 'RUNNING', :'f',
    'b'), 'PW003', null, 'what is not ready cannot run');
select is((select concat_ws(' ', e.name, e.flow_state, e.run, e.state, e.ended_at) from pawl_saga.engines e
    where e.flow_uuid = :'f'), (select name || ' RUNNING 1 WAITING' from pawl_saga.flows where flow_uuid = :'f'),
    'the view engines shows that the engine of a running flow is WAITING');
select work();
select is(state(:'f'), 'SUCCESS: a SUCCESS, b SUCCESS', 'a flow whose tasks have succeeded is SUCCESS');
select is((select concat_ws(' ', e.flow_state, e.run, e.state, e.ended_at >= e.began_at) from pawl_saga.engines e
    where e.flow_uuid = :'f'), 'SUCCESS 1 SUCCESS t', 'the view engines shows the outcome and the times of a run');
select ok(has_table_privilege('pawl_reader', 'pawl_saga.engines', 'select')
    and not has_table_privilege('public', 'pawl_saga.engines', 'select'), 'the view engines is for the roles of pawl');
select is(pawl_saga.run(:'f'), 'SUCCESS', 'run again it has nothing to do');
select is(pawl_saga.reset(:'f', 'once more'), 'PENDING', 'a finished flow can be reset to PENDING');
select is(state(:'f'), 'PENDING: a PENDING, b PENDING', 'with all atoms');
select is((select count(*) from pawl_saga.claim('w1', 'sql:', 10)), 0::bigint,
    'and nothing can be claimed before it is run');
select pawl_saga.run(:'f') \g /dev/null
select is(pawl_saga.suspend(:'f'), 'SUSPENDED', 'suspended between tasks');
select work();
select is(state(:'f'), 'SUSPENDED: a PENDING, b PENDING', 'nothing more is begun');
select throws_ok(format('select pawl_saga.reset(%L, null)', :'f'), 'PW001', null, 'only a finished flow is reset');
select is(pawl_saga.resume(:'f'), 'RUNNING', 'a suspended flow goes on when it is resumed');
select work();
select is(state(:'f'), 'SUCCESS: a SUCCESS, b SUCCESS', 'to the end');

-- workers: leases, tokens, reports
select define('outside', '[{"task": "a", "provides": ["id", "key"]}, {"task": "b", "requires": ["key"], "optional": '
    '["nothing"]}]') \g /dev/null
select pawl_saga.start('outside') as f \gset
select * from pawl_saga.claim('w1') \gset
select is(:'action'::text, 'execute', 'a worker claims a task to execute it');
select throws_ok(format('update pawl_saga.tasks set state = %L where flow_uuid = %L and name = %L', 'SUCCESS', :'f',
    'a'), 'PW004', null, 'only the owner can report it');
select is((select problem
    from pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', :'f', 'node', :node, 'token', :token - 1)),
        'w1')) like 'PW005%', true, 'nor an old token');
select lives_ok(format('select pawl_saga.progress(%L, %s, %s, 0.5, null, %L)', :'f', :node, :token, 'w1'),
    'the owner of a task can report its progress');
select is((select count(*) from pawl_saga.claim('w2')), 0::bigint, 'there is nothing else');
select is((select state
        from pawl_saga.report(
                jsonb_build_array(jsonb_build_object('flow_uuid', :'f', 'node', :node, 'token', :token, 'result',
                    '[1, 2]'::jsonb)), 'w1')), 'SUCCESS', 'the owner of a task can report its result');
select is((select ok
        from pawl_saga.report(
                jsonb_build_array(jsonb_build_object('flow_uuid', :'f', 'node', :node, 'token', :token, 'result',
                    '[1, 2]'::jsonb)), 'w1')),
    true, 'twice counts once');
select is((select left(problem, 5)
        from pawl_saga.report(
            jsonb_build_array(jsonb_build_object('flow_uuid', :'f', 'node', :node, 'token', :token, 'result', 9)),
                'w1')),
    'PW005', 'another result was not recorded');
select is((select arguments from pawl_saga.claim('w2')), '{"key": 2}', 'the next gets what was provided');
select is(pawl_saga.outputs(:'f'), '{"id": 1, "key": 2}', 'which can be read');
select define('needs', '[{"task": "a", "requires": ["x"]}]') \g /dev/null
select throws_ok($$select pawl_saga.start('needs')$$, '22023', null,
    'a requirement that no task provides is rejected before the run');
select lives_ok($$select pawl_saga.start('needs', '{"x": 1}')$$, 'and may be an input');
update pawl_saga.flows set state = 'SUSPENDING' where name = 'needs';
select is((select state from pawl_saga.flows where name = 'needs'), 'SUSPENDED', 'plain SQL suspends as well');
select define('busy', jsonb_build_array('{"task": "t", "queue": "busy"}'::jsonb)) \g /dev/null
select pawl_saga.start('busy') as f \gset
select from pawl_saga.claim('w', 'busy') \g /dev/null
select pawl_saga.suspend(:'f') \g /dev/null
select throws_ok(format($$update pawl_saga.flows set state = 'SUSPENDED' where flow_uuid = %L$$, :'f'), 'PW003', null,
    'plain SQL does not end a suspension while a task runs');
select is(pawl_saga.resume(:'f'), 'RUNNING', 'which can be taken back');
delete from pawl_saga.flows where flow_uuid = :'f';

-- failures, controllers, backoff
select throws_ok(format('select define(%L, %L, %L)', 'odd', jsonb_build_array(step('a')), '{"retry": "Times", '
    '"name": "r", "attempts": 2, "backoff": ' || backoff || '}'), '22023', null,
    'a backoff that is defined as ' || backoff)
  from unnest('{"{\"strategy\": \"constant\"}","{\"delay\": 1}"}'::text[]) backoff;
select define('fails', jsonb_build_array(step('a'), step('b', 'bad_step')),
        '{"retry": "Times", "name": "r", "attempts": 2, "backoff": {"strategy": "none", "base": "1 h"}}') \g /dev/null
select define('waits', jsonb_build_array(step('a'), step('b', 'bad_step')),
        '{"retry": "Times", "name": "r", "attempts": 2, "backoff": {"strategy": "linear", "base": "1 h", "cap": "2 '
        'h", "jitter": "none"}}') \g /dev/null
select pawl_saga.start('waits') as f \gset
select work();
select is(state(:'f'), 'RUNNING: r SUCCESS, a REVERTED, b REVERTED', 'the next attempt waits for its time');
select cmp_ok((select next_at - now() from pawl_saga.begin_attempts()), '>', interval '50 min', 'which the duty knows');
update pawl_saga.retries set due_at = now() where flow_uuid = :'f';
select is((select done from pawl_saga.begin_attempts()), 1::bigint, 'begin_attempts begins the attempt that is due');
select work();
select is(state(:'f'), 'REVERTED: r REVERTED, a REVERTED, b REVERTED', 'and given up in the end');
select is((select string_agg(attempt || ' ' || value || ' ' || (failures -> 'b' ->> 'message'), ', ' order by attempt)
    from pawl_saga.attempts where flow_uuid = :'f'), '1 1 no room, 2 2 no room', 'both attempts are recorded');
select is(pawl_saga.errors(:'f') -> 'b' ->> 'sqlstate', 'XX123', 'the error is reported');
select define('policy', jsonb_build_array(step('b', 'bad_step')),
        '{"retry": "Times", "name": "r", "attempts": 9, "on": {"XX123": "REVERT"}}') \g /dev/null
select pawl_saga.start('policy') as f \gset
select work();
select is((select count(*) from pawl_saga.attempts where flow_uuid = :'f'), 1::bigint, 'a policy for one error');
select define('own', jsonb_build_array(step('b', 'bad_step')),
        '{"retry": "Function", "name": "r", "function": "public.controller"}') \g /dev/null
select pawl_saga.start('own') as f \gset
select work();
select is((select count(*) from pawl_saga.attempts where flow_uuid = :'f'), 2::bigint, 'a controller of one''s own');
select pawl_saga.define(jsonb_build_object('flow', 'graph', 'name', 'asks', 'children',
        jsonb_build_array(step('a'), step('b')), 'links',
        '[{"from": "a", "to": "b", "decider": {"function": "public.says_what"}}]'::jsonb)) \g /dev/null
select pawl_saga.start('asks') as f \gset
select work();
select is(state(:'f'), 'FAILURE: a SUCCESS, b PENDING', 'a decider that raises stops the flow');
select is(pawl_saga.errors(:'f') -> 'b' ->> 'message', 'no idea', 'and is reported');

-- a revert that fails
select define('stuck', jsonb_build_array(step('a'), step('b', 'ok_step', 'bad_undo'), step('c', 'bad_step')))
    \g /dev/null
select pawl_saga.start('stuck') as f \gset
select work();
select is(state(:'f'), 'FAILURE: a SUCCESS, b REVERT_FAILURE, c REVERTED', 'a failed revert stops everything');
select is(pawl_saga.run(:'f'), 'FAILURE', 'a rerun does not pretend otherwise');
select is(pawl_saga.retry_revert(:'f', 'b', 'perhaps now'), 'RUNNING', 'a failed revert can be tried again');
select work();
select is(state(:'f'), 'FAILURE: a SUCCESS, b REVERT_FAILURE, c REVERTED',
    'a revert that fails again leaves the flow in FAILURE');
select throws_ok(format('select pawl_saga.resolve(%L, %L, null)', :'f', 'b'), '22004', null, 'a reason is asked for');
select throws_ok(format('select pawl_saga.resolve(%L, %L, %L)', :'f', 'a', 'why'), '55000', null,
    'only for failed reverts');
select pawl_saga.resolve(:'f', 'b', 'undone by hand') \g /dev/null
select is(pawl_saga.run(:'f'), 'RUNNING', 'repaired, it continues');
select work();
select is(state(:'f'), 'REVERTED: a REVERTED, b REVERTED, c REVERTED', 'to the end');
select is((select metadata ->> 'reason' from pawl_saga.timeline where flow_uuid = :'f' and event = 'resolve'),
    'undone by hand', 'and in the timeline');
select is_empty('select * from pawl_saga.verify()', 'nothing is wrong');
select is_empty('select * from pawl.verify()', 'nor with the logs');
select ok(pawl_saga.diagram(:'f') like E'flowchart TD%"a<br/>REVERTED"%n0 --> n1%',
    'the diagram of a flow shows its atoms with their states and their order');

-- timeouts
select define('slow', '[{"task": "a", "timeout_seconds": 60, "queue": "slow"}]') \g /dev/null
select pawl_saga.start('slow') as f \gset
select from pawl_saga.claim('w1', 'slow');
select is((select done from pawl_saga.time_out_tasks()), 0::bigint,
    'time_out_tasks leaves a task alone before its timeout');
update pawl_saga.tasks set timeout_at = now()
    where flow_uuid = :'f' and worker = set_config('pawl.processor', 'w1', false);
select set_config('pawl.processor', '', false) \g /dev/null
select is((select done from pawl_saga.time_out_tasks()), 1::bigint, 'time_out_tasks ends a task after its timeout');
select is((select failure ->> 'type' from pawl_saga.tasks where flow_uuid = :'f'), 'timeout', 'is a failure');

-- jobs
select pawl_saga.post('low', priority => 'LOW') as low \gset
select pawl_saga.post('first') as first \gset
select pawl_saga.post('second') as second \gset
select pawl_saga.post('high', priority => 'HIGH') as high \gset
select is((select string_agg(name, ',') from pawl.claim(null::pawl_saga.jobs, processor => 'c1', batch => 10,
    queue => 'default')), 'high,first,second,low', 'high priority first, then the oldest');
select throws_ok(format('select pawl_saga.claim_job(%L, %L)', :'high', 'c1'), '55000', null,
    'what is claimed is not claimed again');
select throws_ok(format('select pawl_saga.consume_job(%L, %L)', :'high', 'c2'), 'PW004', null,
    'nor consumed by another conductor');
select lives_ok(format('select pawl_saga.consume_job(%L, %L)', :'high', 'c1'), 'the owner of a job can consume it');
select throws_ok(format('select pawl_saga.consume_job(%L, %L)', :'high', 'c1'), 'P0002', null,
    'a consumed job cannot be consumed again');
select ok(pawl_saga.wait_for_job(:'high', '1 s'), 'wait_for_job returns true for a consumed job');
select ok(not pawl_saga.wait_for_job(:'low', '1 ms'), 'for a while');
select lives_ok(format('select pawl_saga.abandon_job(%L, %L)', :'low', 'c1'), 'the owner of a job can abandon it');
select ok(pawl_saga.claim_job(:'low', 'c2') > 1, 'and taken by another');
select lives_ok(format('select pawl_saga.trash_job(%L, %L, %L)', :'low', 'c2', 'nonsense'),
    'the owner of a job can trash it with a reason');
select throws_ok(format('select pawl_saga.claim_job(%L, %L)', :'low', 'c3'), 'P0002', null, 'is out of circulation');
select throws_ok($$select pawl_saga.wait_for_jobs(timeout => '1 ms')$$, 'P0002', null,
    'wait_for_jobs raises an error if no job comes in time');
select throws_ok($$select pawl_saga.post('x', priority => 'URGENT')$$, '22023', null, 'an unknown priority');
select pawl_saga.post('booking', 'plain') as job \gset
select pawl_saga.post('nonsense', 'no such flow') as nonsense \gset
select is((select done from pawl_saga.conduct()), 2::bigint, 'the conductor claims jobs');
select work();
select is((select done from pawl_saga.conduct()), 1::bigint, 'and sees that a flow has ended');
select is((select j.state || ' ' || f.state from pawl_saga.jobs j join pawl_saga.flows f using (flow_uuid)
    where job_uuid = :'job'), 'COMPLETE SUCCESS', 'a job is COMPLETE when its flow has succeeded');
select ok((select trashed_for from pawl_saga.jobs where job_uuid = :'nonsense') like 'unknown flow%',
    'what cannot begin is trashed');
select pawl_saga.post('resting', 'plain') as resting \gset
select pawl_saga.conduct() \g /dev/null
select flow_uuid as rest from pawl_saga.jobs where job_uuid = :'resting' \gset
select is(pawl_saga.suspend(:'rest'), 'SUSPENDED', 'a conducted flow is suspended');
select pawl_saga.conduct() from generate_series(1, 3) \g /dev/null
select is((select j.state || ' ' || f.state from pawl_saga.jobs j join pawl_saga.flows f using (flow_uuid)
        where job_uuid = :'resting'), 'CLAIMED SUSPENDED',
          'and stays it, whatever the conductor does');
select pawl_saga.resume(:'rest') \g /dev/null
select work();
select pawl_saga.conduct() \g /dev/null
select is((select j.state || ' ' || f.state from pawl_saga.jobs j join pawl_saga.flows f using (flow_uuid)
    where job_uuid = :'resting'), 'COMPLETE SUCCESS', 'until it is resumed');
select pawl_saga.post('hopeless') as hopeless \gset
update pawl_saga.jobs set max_attempts = 1 where job_uuid = :'hopeless';
select pawl_saga.claim_job(job_uuid, 'c1') from pawl_saga.jobs where name = 'hopeless' \g /dev/null
select pawl_saga.abandon_job(job_uuid, 'c1') from pawl_saga.jobs where name = 'hopeless' \g /dev/null
select is((select trashed_for from pawl_saga.jobs where name = 'hopeless'), 'abandoned too often',
    'what is abandoned too often is trashed');

-- privileges
create role saga_worker in role pawl_worker;
create role saga_reader in role pawl_reader;
grant usage on schema public to saga_worker, saga_reader;
set role saga_worker;
select throws_ok($$select pawl_saga.define('{"task": "x"}')$$, '42501', null, 'a worker defines nothing');
select throws_ok(format('select pawl_saga.reset(%L, null)', :'f'), '42501', null, 'and resets nothing');
select lives_ok($$select pawl_saga.start('outside')$$, 'pawl_worker can start flows');
select lives_ok($$select * from pawl_saga.claim('w9')$$, 'a member of pawl_worker can claim tasks');
select lives_ok($$select pawl_saga.suspend(flow_uuid) from pawl_saga.flows
        where name = 'outside' and state = 'RUNNING'$$, 'pawl_worker can suspend flows');
set role saga_reader;
select throws_ok($$select * from pawl_saga.claim('w9')$$, '42501', null, 'a reader claims nothing');
select lives_ok('select * from pawl_saga.timeline', 'pawl_reader can read the timeline');
reset role;
select * from finish();
