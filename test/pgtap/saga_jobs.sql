-- Jobs and the flows that are started for them: a job is done when its flow has ended, and only then.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/saga.psql
select pawl_saga.define('{"flow": "linear", "name": "line", "children": [{"task": "a"}]}') \g /dev/null
create function job(posted uuid) returns text language sql as $$
    select concat_ws(' ', j.state, 
        case when j.flow_uuid is null then 'without a flow' else coalesce(f.state, 'gone') end)
      from pawl_saga.jobs j left join pawl_saga.flows f using (flow_uuid) where j.job_uuid = posted $$;
create function conduct(times integer default 1) returns text language plpgsql as $$
declare did bigint[] := '{}';
begin
    for i in 1..times loop
        did := did || (select c.done from pawl_saga.conduct() c);
    end loop;
    return did::text;
end $$;

-- a conductor that was lost between the flow and its run
select pawl_saga.post('never run', 'line') as job \gset
select pawl_saga.claim_job(:'job', 'c1') \g /dev/null
set pawl.processor = 'c1';
update pawl_saga.jobs set flow_uuid = pawl_saga.create_flow((select definition_uuid from pawl_saga.definitions))
 where job_uuid = :'job';
reset pawl.processor;
select pawl_saga.abandon_job(:'job', 'c1') \g /dev/null
select is(job(:'job'), 'UNCLAIMED PENDING', 'a job has a flow that never ran');
select is(conduct(2), '{1,0}', 'a conductor claims it');
select is(job(:'job'), 'CLAIMED RUNNING', 'and runs the flow');
select is(works(), 'execute a', 'so that its task is done');
select is(conduct(), '{1}', 'then the job is');
select is(job(:'job'), 'COMPLETE SUCCESS', 'complete with its flow');

-- a flow that an operator has reset
select pawl_saga.post('reset', 'line') as job \gset
select conduct(), works() \g /dev/null
select pawl_saga.reset(flow_uuid, 'again') from pawl_saga.jobs where job_uuid = :'job' \g /dev/null
select is(conduct(2), '{0,0}', 'the conductor leaves a flow that was reset to the operator');
select is(job(:'job'), 'CLAIMED PENDING', 'and its job is not done');
select pawl_saga.run(flow_uuid) from pawl_saga.jobs where job_uuid = :'job' \g /dev/null
select works(), conduct() \g /dev/null
select is(job(:'job'), 'COMPLETE SUCCESS', 'it is when the flow has run again');

-- the ends that count
select pawl_saga.post('fails', 'line') as job \gset
select conduct(), works('execute a') \g /dev/null
select is(conduct(), '{1}', 'a flow that is reverted has ended');
select is(job(:'job'), 'COMPLETE REVERTED', 'and so has its job');
select pawl_saga.post('fails twice', 'line') as job \gset
select conduct(), works('execute a', 'revert a') \g /dev/null
select conduct() \g /dev/null
select is(job(:'job'), 'COMPLETE FAILURE', 'as with one that has failed');

-- flows that were deleted
select pawl_saga.post('deleted', 'line') as job \gset
select conduct() \g /dev/null
delete from pawl_saga.flows where flow_uuid = (select flow_uuid from pawl_saga.jobs where job_uuid = :'job');
select is(job(:'job'), 'CLAIMED gone', 'the flow of a job is deleted');
select is(conduct(), '{2}', 'the conductor gives the job back, and claims it');
select is(job(:'job'), 'CLAIMED RUNNING', 'with another flow');
select is((select attempts from pawl_saga.jobs where job_uuid = :'job'), 2, 'which counts as an attempt');
select works(), conduct() \g /dev/null
select is(job(:'job'), 'COMPLETE SUCCESS', 'and so it is done');
delete from pawl_saga.flows where flow_uuid = (select flow_uuid from pawl_saga.jobs where job_uuid = :'job');
select is(conduct(), '{0}', 'a job that is done needs its flow no more');
select pawl_saga.post('deleted again', 'line') as job \gset
update pawl_saga.jobs set max_attempts = 2 where job_uuid = :'job';
do $$ begin
    for i in 1..3 loop
        perform public.conduct();
        delete from pawl_saga.flows;
    end loop;
end $$;
select is(job(:'job'), 'UNCLAIMED without a flow', 'but not for ever');
select is((select trashed_for from pawl_saga.jobs where job_uuid = :'job'), 'abandoned too often',
    'it is trashed after max_attempts');
select pawl_saga.post('deleted meanwhile', 'line') as job \gset
select pawl_saga.claim_job(:'job', 'c1') \g /dev/null
set pawl.processor = 'c1';
update pawl_saga.jobs set flow_uuid = pawl.uuid_v7() where job_uuid = :'job';
reset pawl.processor;
select pawl_saga.abandon_job(:'job', 'c1') \g /dev/null
select conduct() \g /dev/null
select is(job(:'job'), 'CLAIMED RUNNING', 'a job is claimed whose flow is gone: another one starts');

-- A job that raises an error stops no other.
create function raises() returns trigger language plpgsql as $$ begin raise 'bad job'; end $$;
select works(), conduct(), works() \g /dev/null
select pawl_saga.post('bad', 'line') as bad, pawl_saga.post('good', 'line') as good \gset
select conduct(), works() \g /dev/null
create trigger never_complete before update on pawl_saga.jobs for each row
    when (new.name = 'bad' and new.state = 'COMPLETE') execute function raises();
set client_min_messages = error;
select is(conduct(2), '{1,0}', 'a job that cannot be completed is put off');
select is(job(:'bad') || ', ' || job(:'good'), 'CLAIMED SUCCESS, COMPLETE SUCCESS', 'and the others are');
select ok((select due_at between clock_timestamp() + interval '30 s' and clock_timestamp() + interval '1 min'
    from pawl_saga.jobs where job_uuid = :'bad'), 'it waits for a minute');
drop trigger never_complete on pawl_saga.jobs;
select is(conduct(), '{0}', 'until then it is left alone');
begin;
set local session_replication_role = replica;
update pawl_saga.jobs set due_at = clock_timestamp() - interval '1 s' where job_uuid = :'bad';
commit;
select done from pawl.fire_due('pawl_saga.jobs') \g /dev/null
select is(job(:'bad'), 'CLAIMED SUCCESS', 'its time does not make it claimable');
select is(conduct(), '{1}', 'then it is completed');
select is(job(:'bad'), 'COMPLETE SUCCESS', 'as any other');
create trigger never_trashed before update on pawl_saga.jobs for each row
    when (new.name = 'bad' and new.trashed_at is not null) execute function raises();
select pawl_saga.post('bad', 'no such flow') as bad, pawl_saga.post('good', 'line') as good \gset
select is(conduct(), '{2}', 'a job that cannot be trashed');
select is(job(:'bad') || ', ' || job(:'good'), 'CLAIMED without a flow, CLAIMED RUNNING', 'stops no other either');
select ok((select lease_until < clock_timestamp() + interval '2 min' from pawl_saga.jobs where job_uuid = :'bad'),
    'and its lease ends soon');
drop trigger never_trashed on pawl_saga.jobs;
select pawl_saga.post('bad', 'line') as bad, pawl_saga.post('good', 'line') as good \gset
select pawl_saga.claim_job(:'bad', 'c1'), pawl_saga.claim_job(:'good', 'c1') \g /dev/null
begin;
set local session_replication_role = replica;
update pawl_saga.jobs set session_lock = -1 where job_uuid in (:'bad', :'good');
commit;
create trigger never_returned before update on pawl_saga.jobs for each row
    when (new.name = 'bad' and new.state = 'UNCLAIMED') execute function raises();
select is((select done from pawl_saga.release_jobs(1)), 1::bigint, 'a tied job that cannot be returned is left');
select is(job(:'bad') || ', ' || job(:'good'), 'CLAIMED without a flow, UNCLAIMED without a flow',
    'while the next one is returned');
drop trigger never_returned on pawl_saga.jobs;
select done from pawl_saga.release_jobs() \g /dev/null
set client_min_messages = warning;

-- A flow that a policy hides is not gone.
select pawl_saga.post('hidden', 'line') as job \gset
select conduct() \g /dev/null
create role saga_conductor in role pawl_worker;
alter table pawl_saga.flows enable row level security;
grant usage on schema public to saga_conductor;
set role saga_conductor;
select is(conduct(2), '{0,0}', 'a conductor that does not see a flow does nothing');
reset role;
select is(job(:'job'), 'CLAIMED RUNNING', 'so that its job stays');
alter table pawl_saga.flows disable row level security;
select is_empty('select * from pawl_saga.verify()', 'nothing is wrong');

-- One of several databases, and the board is in another one.
insert into pawl.database (name, connection, is_home, is_here) values ('a', 'service=a', true, true),
    ('b', 'service=b', false, false);
insert into pawl.placement (kind, namespace, database) values ('saga', 'default', 'b');
select is(conduct(), '{0}', 'where the board is not, its jobs are not conducted, and that is no error');
select * from finish();
