-- What the third act of the demo asks the database. `part` is one of the names below.
select :'part' = 'progress' as progress, :'part' = 'measures' as measures, :'part' = 'lost' as lost,
    :'part' = 'life' as life, :'part' = 'checks' as checks, :'part' = 'totals' as totals \gset

\if :progress
-- name|state|ended|steps|running, in the order of start.
select t.name, t.state, t.steps_satisfied, t.steps_total,
       (select count(*) from pawl_dag.steps s where s.task_uuid = t.task_uuid and s.state = 'in_progress')
from pawl_dag.tasks t order by t.task_uuid;
\endif

\if :measures
-- All times in seconds of the recorded run; here they passed `scale` times as fast.
\pset format aligned
\pset tuples_only off
\pset footer off
with run as (
    select t.task_uuid, t.name, (t.context ->> 'scale')::float8 as scale, x.configuration -> 'metadata' as recorded,
    t.steps_total,
           extract(epoch from max(l.created_at) - min(l.created_at)) / (t.context ->> 'scale')::float8 as makespan
    from pawl_dag.tasks t join pawl_dag.templates x using (template_uuid)
    join pawl_dag.task_transitions l using (task_uuid)
    group by t.task_uuid, x.template_uuid
), worked as (
    select w.task_uuid, sum(extract(epoch from w.done - w.begun)) as seconds
    from (select l.task_uuid, l.to_state, l.created_at as done,
        lag(l.created_at) over (partition by l.task_uuid, l.step_uuid order by l.sort_key) as begun
          from pawl_dag.step_transitions l) w
    where w.to_state = 'enqueued_for_orchestration' group by w.task_uuid
)
select r.name as workflow, r.steps_total as steps,
(select count(*) from pawl_dag.edges e where e.task_uuid = r.task_uuid) as edges,
       round((recorded ->> 'work_seconds')::numeric) as "work s",
       round((recorded ->> 'critical_path_seconds')::numeric) as "critical path s",
       round((recorded ->> 'makespan_seconds')::numeric) as "recorded s", round(r.makespan::numeric) as "here s",
       round((recorded ->> 'work_seconds')::numeric / (recorded ->> 'makespan_seconds')::numeric, 1)
       as "recorded parallel",
       round((w.seconds / r.scale / r.makespan)::numeric, 1) as "here parallel", round(1 / r.scale) || ' x' as speed
from run r join worked w using (task_uuid) order by r.task_uuid;
\endif

\if :lost
-- task|step: one that changed its owner.
select l.task_uuid, s.name from pawl_dag.step_transitions l join pawl_dag.steps s using (task_uuid, step_uuid)
where l.metadata ->> 'lost_owner' = :'killed' order by l.created_at, l.step_uuid limit 1;
\endif

\if :life
-- A step that changed its owner.
select s.step_uuid from pawl_dag.steps s where s.task_uuid = :'task_uuid' and s.name = :'step' \gset
\pset footer off
\pset format aligned
\pset border 2
\pset linestyle unicode
\pset tuples_only off
\pset title :step
select sort_key as "#", from_state as "from", to_state as "to", event,
       case processor when pawl_dag.engine()::text then 'engine' else coalesce(left(processor, 8), actor) end
       as processor,
       'lost by ' || left(metadata ->> 'lost_owner', 8) as note, to_char(created_at, 'HH24:MI:SS.MS') as "when"
from pawl.history('pawl_dag.steps', row(:'task_uuid'::uuid, :'step_uuid'::uuid)) order by sort_key;
\endif

\if :checks
-- What must hold: what|got|wanted.
with moves as (
    select l.*, lag(l.event) over w as last_event, lag(l.processor) over w as last_processor
    from pawl_dag.step_transitions l window w as (partition by l.task_uuid, l.step_uuid order by l.sort_key)
), steps as (
    select s.task_uuid, s.step_uuid, s.state, s.result,
           count(*) filter (where m.to_state = 'complete') as completions,
           count(*) filter (where m.to_state = 'enqueued_for_orchestration') as results,
           min(m.created_at) filter (where m.to_state = 'in_progress') as begun,
           max(m.created_at) filter (where m.to_state = 'complete') as done
    from pawl_dag.steps s join moves m using (task_uuid, step_uuid) group by s.task_uuid, s.step_uuid
)
select 'tasks complete', count(*), :tasks from pawl_dag.tasks where state = 'complete'
union all select 'steps of their templates', sum(x.steps_total), (select count(*) from steps) from pawl_dag.tasks t
join pawl_dag.templates x using (template_uuid)
union all select 'steps that ran to completion exactly once',
    count(*) filter (where completions = 1 and results = 1 and state = 'complete'), count(*) from steps
union all select 'results in the rows', count(*) filter (where result ? 'slept'), count(*) from steps
union all select 'results in the audit, all of them good', count(*) filter (where success), (select count(*) from steps)
from pawl_dag.step_result_audit
union all select 'edges respected: no step began before its parent was done', count(*) filter (where p.done < c.begun),
    count(*)
    from pawl_dag.edges e join steps p on (p.task_uuid, p.step_uuid) = (e.task_uuid, e.parent_uuid)
    join steps c on (c.task_uuid, c.step_uuid) = (e.task_uuid, e.child_uuid)
union all select 'results by another worker than the owner of the step', count(*), 0 from moves
    where event = 'EnqueueForOrchestration' and (last_event <> 'Start' or last_processor is distinct from processor)
union all select 'steps taken back from the worker that was killed', count(distinct (task_uuid, step_uuid)),
    :killed_held from moves join held using (task_uuid, step_uuid) where metadata ->> 'lost_owner' = :'killed'
union all select 'results of the dead worker after its end', count(*), 0 from moves
where processor = :'killed' and event = 'EnqueueForOrchestration' and created_at > :'killed_at'
union all select 'findings of pawl.verify()', count(*), 0 from pawl.verify()
union all select 'findings of pawl.health()', count(*), 0 from pawl.health() where status <> 'ok';
\endif

\if :totals
-- seconds|steps|steps that were begun more than once|transitions
select round(extract(epoch from max(t.completed_at) - min(t.created_at)), 1), sum(t.steps_total),
       (select count(*) from pawl_dag.steps s where s.attempts > 1),
       (select count(*) from pawl_dag.step_transitions) + (select count(*) from pawl_dag.task_transitions)
       from pawl_dag.tasks t;
\endif
