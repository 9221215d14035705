-- What the rows and the log say after the replay. One result a part; `part` is set by the caller.
\set ON_ERROR_STOP on
select :'part' = 'counts' as counts, :'part' = 'rejected' as rejected, :'part' = 'ticket' as ticket,
    :'part' = 'busiest' as busiest,
       :'part' = 'transitions' as transitions, :'part' = 'final' as final, :'part' = 'speed' as speed,
       :'part' = 'verify' as verify \gset

\if :counts
with counted(key, ord, got) as (
    select 'events', 1, count(*) from replay.event
    union all select 'tickets_in_log', 2, count(distinct ticket) from replay.event
    union all select 'accepted', 3, count(*) from replay.outcome where outcome = 'accepted'
    union all select 'state_unchanged', 4, count(*) from replay.outcome where outcome = 'unchanged'
    union all select 'rejected_moves', 5, count(*) from replay.rejection where code = 'PW001'
    union all select 'rejected_first_states', 6, count(*) from replay.rejection where code = 'PW002'
    union all select 'tickets_created', 7, count(*) from ticket
    union all select 'final_states.' || state, 8, count(*) from ticket group by state
), expected(key, want) as (
    select key, value::bigint from jsonb_each_text(:'expected'::jsonb - 'final_states')
    union all select 'final_states.' || key, value::bigint from jsonb_each_text(:'expected'::jsonb -> 'final_states')
)
select coalesce(key, '?') || '|' || coalesce(got, 0) || '|' || coalesce(want, 0)
from counted full join expected using (key) order by ord nulls last, got desc, key;
\endif

\if :rejected
-- One rejection of each kind, the most frequent first; new tickets that began in a state that is none, last.
select format(E'%s|%s|%s|%s|%s|%s|%s', e.ticket, coalesce(was, '(new)'), wanted, code, message,
    coalesce(nullif(detail, ''), '-'), coalesce(nullif(hint, ''), '-'))
from (select *, count(*) over kind as often, row_number() over (kind order by line) as nth from replay.rejection
      window kind as (partition by code, was, wanted)) r
join replay.event e using (line)
where nth = 1 order by code, often desc, line;
\endif

\if :busiest
with moved as (
    select coalesce(from_state, '●') as from_state, to_state, count(*) as times from ticket_transitions group by 1, 2
)
select format('%-34s %6s  %s', from_state || ' → ' || to_state, times,
    repeat('█', greatest(1, (44 * times / max(times) over ())::int)))
from moved order by times desc, 1 limit 12;
\endif

\if :transitions
-- The machine as rows, with how often each transition was taken:
-- state|initial|terminal|event|to|times, one line for each transition.
with taken as (
    select from_state, to_state, count(*) as times from ticket_transitions group by 1, 2
)
select concat_ws('|', s.state, s.initial::int, s.terminal::int, coalesce(t.event, ''), coalesce(t.to_state, ''),
                 coalesce(sum(k.times), 0),
                 (select coalesce(sum(times), 0) from taken where from_state is null and to_state = s.state))
from pawl.states('ticket') s
left join pawl.transitions('ticket') t on t.from_state = s.state
left join taken k on k.from_state = t.from_state and k.to_state = t.to_state
where s.kind = 'state'
group by s.state, s.ordinal, s.initial, s.terminal, t.event, t.to_state, t.ordinal
order by s.ordinal, t.ordinal;
\endif

\if :ticket
\pset footer off
\pset format aligned
\pset border 2
\pset linestyle unicode
\pset tuples_only off
\pset null ''
select sort_key as "#", from_state as "from", to_state as "to", event, processor as "by",
    to_char((metadata ->> 'occurred_at')::timestamptz, 'YYYY-MM-DD HH24:MI') as "when"
from pawl.history('ticket', :ticket_id) order by sort_key;
\endif

\if :speed
select round(extract(epoch from finished - started)::numeric, 1),
       round((select count(*) from replay.event) / extract(epoch from finished - started))
from replay.stopwatch;
\endif

\if :verify
select format('%s: %s (%s)', key, problem, detail) from pawl.verify('ticket');
\endif
