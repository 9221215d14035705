-- What the rows and the log say. One result a part; `part` is set by the caller.
\set ON_ERROR_STOP on
select :'part' = 'progress' as progress, :'part' = 'workers' as workers, :'part' = 'totals' as totals,
    :'part' = 'checks' as checks, :'part' = 'life' as life, :'part' = 'verify' as verify \gset

\if :progress
select count(*) filter (where state = 'done') as done, count(*) filter (where state = 'dead') as dead,
       count(*) filter (where state = 'running') as running, count(*) filter (where due is not null) as waiting,
       count(*) as jobs
from job;
\endif

\if :workers
-- Who did what, by the log, and how long it took, by the result audit. Lost: what the worker had claimed and did not
-- finish before its lease ended.
select worker, count(*) filter (where event = 'start') as claimed,
    count(*) filter (where event = 'complete') as completed,
       count(*) filter (where event = 'fail') as broke, count(*) filter (where event = 'expire') as lost,
       (select percentile_disc(0.5) within group (order by a.execution_time_ms) from job_result_audit a
         where a.success and a.worker = moves.worker) as "median ms from claim to result"
from (select event, case event when 'expire' then metadata ->> 'lost_owner' else processor end as worker
      from job_transitions where event in ('start', 'complete', 'fail', 'expire')) moves
group by worker order by worker;
\endif

\if :totals
-- Label|number, the first line being seconds and rows per second.
select round(extract(epoch from stretch)::numeric, 1) || '|' || round(finished / extract(epoch from stretch)) || '|' ||
       round(moves / extract(epoch from stretch)) || '|' || claims || '|' || retries || '|' || takeovers
from (select max(created_at) - min(created_at) filter (where event = 'start') as stretch,
             count(*) filter (where to_state in ('done', 'dead')) as finished,
             count(*) filter (where from_state is not null) as moves,
             count(*) filter (where event = 'start') as claims,
             count(*) filter (where event = 'fail' and to_state = 'ready') as retries,
             count(*) filter (where event = 'expire') as takeovers
      from job_transitions) counted;
\endif

\if :checks
-- What must hold: what|got|wanted.
with claimed as (
    select *, lag(event) over w as last_event, lag(processor) over w as last_processor
    from job_transitions window w as (partition by subject_id order by sort_key)
)
select 'jobs that are done or dead', count(*), (select count(*) from job) from job where state in ('done', 'dead')
union all select 'dead: those that break every time', count(*), 125 from job where state = 'dead' and breaks = 1000
union all select 'done, with the right result', count(*), (select count(*) - 125 from job) from job
    where state = 'done' and n % result = 0
        and not exists (select from generate_series(2, least(result - 1, sqrt(n)::integer)) d where n % d = 0)
union all select 'completions in the log', count(*), (select count(*) - 125 from job)
    from job_transitions where event = 'complete'
union all select 'jobs completed, each exactly once', count(distinct subject_id), (select count(*) - 125 from job)
    from job_transitions where event = 'complete'
union all select 'completed by another worker than its owner', count(*), 0 from claimed
    where event = 'complete' and (last_event <> 'start' or last_processor is distinct from processor)
union all select 'taken from the worker that was killed', count(distinct subject_id), :killed_held from job_transitions
    where event = 'expire' and metadata ->> 'lost_owner' = :'killed' and subject_id = any (:'killed_ids')
union all select 'taken from the worker that slept', count(distinct subject_id), :late_held from job_transitions
    where event = 'expire' and metadata ->> 'lost_owner' = :'late' and subject_id = any (:'late_ids')
union all select 'jobs with an owner or a timer left', count(*), 0 from job
    where owner is not null or lease is not null or due is not null
union all select 'results in the audit, successes', count(*), (select count(*) - 125 from job)
    from job_result_audit where success
union all select 'results in the audit, failures', count(*), 125 from job_result_audit where not success
union all select 'findings of pawl.verify(''job'')', count(*), 0 from pawl.verify('job')
union all select 'findings of pawl.health()', count(*), 0 from pawl.health() where status <> 'ok';
\endif

\if :life
-- A job that changed its owner: lost by the late worker and, if there is one, finished by another.
select subject_id as job from job_transitions
    where subject_id = any (:'late_ids')
order by event = 'complete' and processor <> :'late' desc,
    (select count(*) from job_transitions l where l.subject_id = job_transitions.subject_id) desc, 1 limit 1 \gset
\pset footer off
\pset format aligned
\pset border 2
\pset linestyle unicode
\pset tuples_only off
\pset null ''
select :job as job, sort_key as "#", from_state as "from", to_state as "to", event,
    coalesce(processor, actor) as processor,
       coalesce('lost by ' || (metadata ->> 'lost_owner'), metadata ->> 'error') as note,
       to_char(created_at, 'HH24:MI:SS.MS') as "when"
from pawl.history('job', :job) order by sort_key;
\endif
