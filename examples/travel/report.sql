-- What the fifth act of the demo asks the database. `part` is one of the names below.
select :'part' = 'progress' as progress, :'part' = 'suspend' as suspend, :'part' = 'handed_over' as handed_over,
    :'part' = 'standing' as standing, :'part' = 'checks' as checks, :'part' = 'totals' as totals \gset

\if :progress
-- jobs done|flows running|retries waiting|suspended|failed
select (select count(*) from pawl_saga.jobs where state = 'COMPLETE'), count(*) filter (where state = 'RUNNING'),
       (select count(*) from pawl_saga.retries where due_at > clock_timestamp()),
       count(*) filter (where state like 'SUSPEND%'), count(*) filter (where state = 'FAILURE') from pawl_saga.flows;
\endif

\if :suspend
-- Suspends a trip under way that nothing speaks against.
with picked as materialized (
    select f.flow_uuid from pawl_saga.flows f join pawl_saga.tasks t using (flow_uuid)
    where f.state = 'RUNNING' and t.name = 'ticket' and t.state = 'PENDING'
      and not exists (select from fates x where x.trip = (f.inputs ->> 'trip')::integer)
    order by f.flow_uuid desc limit 1
)
select flow_uuid from picked where pawl_saga.suspend(flow_uuid) is not null;
\endif

\if :handed_over
-- The log of a job that changed its owner.
\pset footer off
\pset format aligned
\pset border 2
\pset linestyle unicode
\pset tuples_only off
select j.job_uuid, j.name from pawl_saga.job_transitions l join pawl_saga.jobs j using (job_uuid)
    where l.metadata ->> 'lost_owner' = :'killed' order by l.created_at limit 1 \gset
\pset title :name
select sort_key as "#", from_state as "from", to_state as "to", event,
       case processor when :'killed' then 'cora' when :'other' then 'carl' else coalesce(processor, actor) end
       as processor,
       case event when 'lost' then 'cora''s lease has expired' end as note,
       to_char(created_at, 'HH24:MI:SS.MS') as "when"
from pawl.history('pawl_saga.jobs', :'job_uuid'::uuid) order by sort_key;
\endif

\if :standing
-- Trips that are neither made nor undone, and what of them is still booked.
select format('trip %s: %s; %s', f.inputs ->> 'trip', (select string_agg(a.name || ' ' || a.state, ', ' order by a.node)
    from pawl_saga.tasks a where a.flow_uuid = f.flow_uuid),
              coalesce('still booked: ' || (select string_agg(b.code, ', ') from bookings b
                      where b.trip = (f.inputs ->> 'trip')::integer and b.cancelled_at is null), 'nothing is booked'))
from pawl_saga.flows f where f.state = 'FAILURE' order by f.flow_uuid;
\endif

\if :checks
-- What must hold: what|got|wanted. Wanted is reckoned from the recorded answers alone.
with wanted as (
    select n as trip,
           coalesce(sum(1) filter (where x.service = 'flight' and x.verb = 'book'), 0) >= 3
               or coalesce(sum(1) filter (where x.service in ('hotel', 'car') and x.answer = 'FULL0'), 0) >= 3
               or coalesce(bool_or(x.answer = 'SOLD0'), false) as undone,
           coalesce(sum(1) filter (where x.verb = 'cancel'), 0) as desk_shut
    from generate_series(1, 120) n left join fates x on x.trip = n group by n
), trips as (
    select w.*, f.flow_uuid, f.state from wanted w join pawl_saga.flows f on (f.inputs ->> 'trip')::integer = w.trip
), booked as (
    select trip, count(*) filter (where cancelled_at is null) as standing from bookings group by trip
)
select 'trips made: SUCCESS, with a ticket', (select count(*) from trips join tickets using (trip)
    where state = 'SUCCESS'), (select count(*) from wanted where not undone)
union all select 'trips undone: REVERTED', (select count(*) from trips where state = 'REVERTED'),
    (select count(*) from wanted where undone and desk_shut < 2)
union all select 'trips that could not be undone: FAILURE', (select count(*) from trips where state = 'FAILURE'),
    (select count(*) from wanted where desk_shut >= 2)
union all select 'one flow a trip', count(*), 120 from pawl_saga.flows
union all select 'made trips with a flight, a room and a car', (select count(*) from trips join booked using (trip)
    where state = 'SUCCESS' and standing = 3), (select count(*) from wanted where not undone)
union all select 'bookings that stand for an undone trip',
    (select coalesce(sum(standing), 0)::integer from trips join booked using (trip) where state = 'REVERTED'), 0
union all select 'bookings that stand for one that could not be undone', (select sum(standing) from trips
    join booked using (trip) where state = 'FAILURE'), (select count(*) from wanted where desk_shut >= 2)
union all select 'codes on the tickets are those of the bookings that stand',
    (select count(*) from tickets t, jsonb_each(t.codes) c
        join bookings b on b.code = c.value ->> 'code' and b.cancelled_at is null),
    3 * (select count(*) from wanted where not undone)
union all select 'rejections by the services, each as stored',
    (select count(*) from calls join fates using (trip, service, verb, call, answer)), (select count(*) from fates)
union all select 'rejections that were not stored',
    (select count(*) from calls c where answer <> 'yes' and not exists (select from fates f
        where (f.trip, f.service, f.verb, f.call) = (c.trip, c.service, c.verb, c.call))), 0
union all select 'attempts: one a scope that was entered, one more a retry',
       (select count(*) from pawl_saga.attempts),
       (select count(*) from pawl_saga.retry_transitions where to_state = 'SUCCESS')
union all select 'flights cancelled before room and car were', (
    select count(*) from trips t, lateral (
        select max(l.created_at) filter (where a.name = 'flight' and l.to_state = 'REVERTING') as flight,
               max(l.created_at) filter (where a.name in ('hotel', 'car') and l.to_state = 'REVERTED') as behind
        from pawl_saga.tasks a join pawl_saga.task_transitions l using (flow_uuid, node)
        where a.flow_uuid = t.flow_uuid) x
    where t.undone and x.flight < x.behind), 0
union all select 'jobs consumed', (select count(*) from pawl_saga.jobs where state = 'COMPLETE'), 120
union all select 'jobs taken back from the conductor that was killed', (select count(distinct job_uuid)
    from pawl_saga.job_transitions join held using (job_uuid) where metadata ->> 'lost_owner' = :'killed'), :killed_held
union all select 'findings of pawl_saga.verify()', (select count(*) from pawl_saga.verify()), 0
union all select 'findings of pawl.verify()', (select count(*) from pawl.verify()), 0;
\endif

\if :totals
-- trips made|undone|not undone|retries|cancelled bookings|moves
select count(*) filter (where state = 'SUCCESS'), count(*) filter (where state = 'REVERTED'),
    count(*) filter (where state = 'FAILURE'),
       (select count(*) from pawl_saga.retry_transitions where to_state = 'RETRYING'),
       (select count(*) from bookings where cancelled_at is not null),
       (select count(*) from pawl_saga.timeline) from pawl_saga.flows;
\endif
