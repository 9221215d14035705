-- Every (state, event) pair of the two machines of pawl_dag, in three ways: a plain UPDATE that names its event, an
-- INSERT into the log, and pawl.fire. A legal pair changes the state and writes one log entry; any other leaves state,
-- log and counters untouched.
\set QUIET 1
\set conformance `cat test/conformance/dag/task-transitions.json`
\set conformance_steps `cat test/conformance/dag/step-transitions.json`
set client_min_messages = warning;
create extension if not exists pawl_dag;
select no_plan();

create table transition_case (machine text, event text, to_state text, from_states text[]);
insert into transition_case values
    ('task', 'Start', 'initializing', '{pending}'),
    ('task', 'Cancel', 'cancelled', '{pending,initializing,enqueuing_steps,steps_in_process,evaluating_results,'
    'waiting_for_dependencies,waiting_for_retry,blocked_by_failures}'),
    ('task', 'GiveUp', 'error', '{blocked_by_failures}'),
    ('task', 'ManualResolution', 'resolved_manually', '{blocked_by_failures}'),
    ('task', 'ReadyStepsFound', 'enqueuing_steps', '{initializing,evaluating_results}'),
    ('task', 'NoStepsFound', 'complete', '{initializing}'),
    ('task', 'NoDependenciesReady', 'waiting_for_dependencies', '{initializing,evaluating_results}'),
    ('task', 'DependenciesReady', 'evaluating_results', '{waiting_for_dependencies}'),
    ('task', 'StepsEnqueued', 'steps_in_process', '{enqueuing_steps}'),
    ('task', 'EnqueueFailed', 'error', '{enqueuing_steps}'),
    ('task', 'StepCompleted', 'evaluating_results', '{steps_in_process,waiting_for_retry}'),
    ('task', 'StepFailed', 'waiting_for_retry', '{steps_in_process,evaluating_results}'),
    ('task', 'AllStepsCompleted', 'evaluating_results', '{steps_in_process}'),
    ('task', 'AllStepsSuccessful', 'complete', '{evaluating_results}'),
    ('task', 'PermanentFailure', 'blocked_by_failures', '{evaluating_results}'),
    ('task', 'RetryReady', 'enqueuing_steps', '{waiting_for_retry}'),
    ('task', 'Timeout', 'blocked_by_failures', '{initializing,enqueuing_steps,steps_in_process,evaluating_results,'
    'waiting_for_dependencies,waiting_for_retry}'), ('task', 'ProcessorCrashed', 'initializing', '{initializing}'),
    ('task', 'ProcessorCrashed', 'enqueuing_steps', '{enqueuing_steps}'),
    ('task', 'ProcessorCrashed', 'steps_in_process', '{steps_in_process}'),
    ('task', 'ProcessorCrashed', 'evaluating_results', '{evaluating_results}'),
    ('task', 'Reset', 'pending', '{error}'),
    ('task', 'Complete', null, '{}'),
    ('task', 'Fail', null, '{}'),
    ('task', 'ResolveManually', 'resolved_manually', '{pending,initializing,enqueuing_steps,steps_in_process,'
    'evaluating_results,waiting_for_dependencies,waiting_for_retry,blocked_by_failures}'),
    ('task', 'FailuresCleared', 'evaluating_results', '{blocked_by_failures}'),
    ('step', 'Enqueue', 'enqueued', '{pending}'),
    ('step', 'Start', 'in_progress', '{enqueued}'),
    ('step', 'EnqueueForOrchestration', 'enqueued_for_orchestration', '{in_progress}'),
    ('step', 'EnqueueAsErrorForOrchestration', 'enqueued_as_error_for_orchestration', '{in_progress}'),
    ('step', 'Complete', 'complete', '{enqueued_for_orchestration}'),
    ('step', 'Fail', 'error',
        '{pending,enqueued,in_progress,enqueued_for_orchestration,enqueued_as_error_for_orchestration}'),
    ('step', 'WaitForRetry', 'waiting_for_retry', '{in_progress,enqueued_as_error_for_orchestration}'),
    ('step', 'Cancel', 'cancelled', '{pending,enqueued,in_progress,enqueued_for_orchestration,'
    'enqueued_as_error_for_orchestration,waiting_for_retry,error}'),
    ('step', 'ResolveManually', 'resolved_manually', '{pending,enqueued,in_progress,enqueued_for_orchestration,'
    'enqueued_as_error_for_orchestration,waiting_for_retry,error}'),
    ('step', 'Retry', 'pending', '{waiting_for_retry,error}'),
    ('step', 'ResetForRetry', 'pending', '{error}'),
    ('step', 'CompleteManually', 'complete', '{pending,enqueued,in_progress,enqueued_for_orchestration,'
    'enqueued_as_error_for_orchestration,waiting_for_retry,error}');
create view pair as
    select e.machine, s.state, e.event, a.to_state,
           -- what a forbidden move is tried with: where the event leads elsewhere; an event that the lifecycle does not
           -- know tells an UPDATE nothing, so it is tried with a state that no transition leads to
           coalesce(a.to_state,
               (select min(x.to_state) from transition_case x where x.machine = e.machine and x.event = e.event),
                    case when s.state in ('pending', 'error') then 'complete' else 'pending' end) collate "default"
               as target
      from (select distinct machine, event from transition_case) e
      join (select m.machine, s.state collate "default" as state from (values ('task', 'pawl_dag.task'),
          ('step', 'pawl_dag.step')) m(machine, name), pawl.states(m.name) s where s.kind = 'state') s using (machine)
      left join transition_case a on a.machine = e.machine and a.event = e.event and s.state = any (a.from_states);

-- The table of the conformance suite says the same.
select results_eq(format('select state, event, to_state from pair where machine = %L order by 1, 2', machine),
                  format($$select p ->> 'state', p ->> 'event', p ->> 'recommended'
                          from jsonb_array_elements(%L::jsonb -> 'pairs') p order by 1, 2$$, document),
                  format('the pairs of the %s lifecycle are those of the conformance suite', machine))
  from (values ('task', :'conformance'), ('step', :'conformance_steps')) d(machine, document);

-- A task or step in a state, with data that lets the guards say yes.
create function stage(machine text, state text, event text) returns uuid language plpgsql as $$
declare
    task uuid := pawl.uuid_v7(); step uuid := pawl.uuid_v7();
    worker constant uuid := '00000000-0000-7000-8000-000000000001';
    owned boolean := state
        in ('initializing', 'enqueuing_steps', 'steps_in_process', 'evaluating_results', 'in_progress');
    lease timestamptz := now() + case when event in ('ProcessorCrashed') then interval '-1 second' else '1 hour' end;
begin
    set local pawl.restoring = on;
    insert into pawl_dag.tasks (task_uuid, template_uuid, namespace, name, version, state, identity_key, processor_uuid,
        lease_until)
    values (task, pawl.uuid_v7(), 'default', 'staged', '1',
        case machine when 'task' then state else 'steps_in_process' end, task::text,
            case when owned or machine = 'step' then worker end, case when owned or machine = 'step' then lease end);
    insert into pawl_dag.task_transitions_log (id, task_uuid, sort_key, to_state, actor, machine_version, created_at)
    select pawl.uuid_v7(), t.task_uuid, 1, t.state, 'test', 1, now() from pawl_dag.tasks t where t.task_uuid = task;
    if machine = 'step' or event = 'ReadyStepsFound' then
        insert into pawl_dag.steps (task_uuid, step_uuid, name, state, namespace, handler, attempts, worker_uuid,
            lease_until, next_retry_at)
        values (task, step, 'a', case machine when 'step' then state else 'pending' end, 'default', 'noop', 1,
                case when machine = 'step' and owned then worker end,
                case when machine = 'step' and owned then lease end,
                case when machine = 'step' and state = 'waiting_for_retry' then now() + interval '1 hour' end);
        insert into pawl_dag.step_transitions_log (id, task_uuid, step_uuid, sort_key, to_state, actor, machine_version,
            created_at)
        select pawl.uuid_v7(), s.task_uuid, s.step_uuid, 1, s.state, 'test', 1, now() from pawl_dag.steps s
        where s.task_uuid = task;
    end if;
    set local pawl.restoring = off;
    return task;
end $$;
create function picture(task uuid) returns text language sql as $$
    select concat_ws(' | ', t, (select jsonb_agg(s) from pawl_dag.steps s where s.task_uuid = task),
                     (select count(*) from pawl_dag.task_transitions x where x.task_uuid = task),
                     (select count(*) from pawl_dag.step_transitions x where x.task_uuid = task))
      from pawl_dag.tasks t where t.task_uuid = task $$;

-- Tries the pair in one way: the state it led to and how many log entries it wrote, or
-- the code with which it was rejected, if that changed nothing.
create function outcome(machine text, state text, event text, target text, way text) returns text language plpgsql as $$
declare
    task uuid := stage(machine, state, event); step uuid; before text; found_state text; written bigint; what text;
begin
    select s.step_uuid into step from pawl_dag.steps s where s.task_uuid = task;
    before := picture(task);
    perform set_config('pawl.processor', '00000000-0000-7000-8000-000000000001', true),
            set_config('pawl.event', case way when 'update' then event else '' end, true);
    begin
        case machine || ' ' || way
            when 'task update' then update pawl_dag.tasks set state = target where task_uuid = task;
            when 'step update' then update pawl_dag.steps set state = target where task_uuid = task;
            when 'task log' then insert into pawl_dag.task_transitions (task_uuid, event) values (task, event);
            when 'step log' then insert into pawl_dag.step_transitions (task_uuid, step_uuid, event)
                values (task, step, event);
            when 'task fire' then perform pawl.fire('pawl_dag.tasks', task, event);
            when 'step fire' then perform pawl.fire('pawl_dag.steps', row(task, step), event);
        end case;
    exception when others then
        what := case when sqlstate ^@ 'PW' then sqlstate else sqlstate || ' ' || sqlerrm end;
    end;
    perform set_config('pawl.event', '', true);
    if picture(task) = before then
        -- an UPDATE that changes nothing is none
        return coalesce(what, case when way = 'update' and state = target then 'PW001' else 'nothing happened' end);
    elsif what is not null then
        return 'rejected, but something changed';
    end if;
    if machine = 'task' then
        select t.state, (select count(*) - 1 from pawl_dag.task_transitions x where x.task_uuid = task)
            into found_state, written
          from pawl_dag.tasks t where t.task_uuid = task;
    else
        select s.state, (select count(*) - 1 from pawl_dag.step_transitions x where x.task_uuid = task)
            into found_state, written
          from pawl_dag.steps s where s.task_uuid = task;
    end if;
    return format('%s, %s', found_state, written);
end $$;

select is_empty(format($$select state, event, o from pair, outcome(machine, state, event, target, %1$L) o
                          where machine = %2$L
                              and o is distinct from coalesce(to_state || ', 1', case when %1$L = 'fire'
                            and not exists (select from pawl.transitions('pawl_dag.' || machine) t where t.event =
                              pair.event) then 'PW008' else 'PW001' end)$$, way,
    machine), format('%s pairs of the %s lifecycle by %s', count(*), machine, way))
  from pair, unnest(array['update', 'log', 'fire']) way group by machine, way order by machine, way;
select results_eq($$select count(*), count(to_state) from pair where machine = 'task'$$,
    'values (276::bigint, 47::bigint)', '12 states and 23 events of tasks, 47 pairs are legal');
select results_eq($$select count(*), count(to_state) from pair where machine = 'step'$$,
    'values (120::bigint, 36::bigint)', '10 states and 12 events of steps, 36 pairs are legal');
-- only the set-up of the rows is allowed by no transition
-- A row that was written without the kernel has an illegal first state, and no event in the outbox.
-- Nor does the audit, where such a row says that a result came in.
select is_empty($$select * from pawl.verify() v
    where not (problem in ('illegal_transition', 'event_missing') and detail ~ '^sort_key 1:'
        or problem = 'audit_missing'
    and exists (select from pawl_dag.step_transitions_log l
        where l.sort_key = 1 and strpos(v.detail, l.id::text) > 0))$$,
    'verify finds nothing else');
select is_empty($$select t.task_uuid from pawl_dag.tasks t, pawl_dag._count_steps(t.task_uuid) c
    where (t.steps_total, t.steps_blocked, t.steps_ready, t.steps_in_flight, t.steps_waiting, t.steps_failed,
        t.steps_satisfied, t.steps_cancelled)
       <> (c.total, c.blocked, c.ready, c.in_flight, c.waiting, c.failed, c.satisfied, c.cancelled)$$,
    'and the counters are right');
select * from finish();
