-- The whole set-up of a queue: a table with columns of your choice, a diagram, and the calls that say what the columns
-- are for.
create extension pawl;

create table job (
    id           bigint primary key,
    state        text not null default 'ready',
    priority     integer not null default 0,
    n            bigint not null,                 -- the work: find the smallest factor of n
    breaks       integer not null default 0,      -- how many attempts fail, so that there is something to retry
    result       bigint,
    owner        text,                            -- from here on maintained by pawl: the worker,
    lease        timestamptz,                     -- until when,
    token        bigint not null default 0,       -- for how many owners before: the fencing token,
    attempts     integer not null default 0,      -- how often it was started,
    due          timestamptz                      -- and when it may be tried again
);

select pawl.define('job', :'lifecycle') as version \gset
select pawl.enforce('job', 'state', 'job');
select pawl.enable_log('job');
select pawl.enable_queue('job', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts');
select pawl.enable_timers('job', due => 'due');
select pawl.set_claiming('job', claim => array['start'], claim_order => 'priority desc', lease_time => '2 s',
    on_expiry => 'expire',
    retry => array['fail', 'expire'],
    backoff => '{"strategy": "exponential", "base": "250 ms", "cap": "10 s", "jitter": "equal", "max_attempts": 5}');

-- Beside the log, a row for every result: worker, time, success, duration.
select pawl.audit('job', '{"done": true, "dead": false}');

-- A worker can read jobs, complete them and name a token; the caretaker reaps and fires timers. Nothing else is needed.
create role worker login;
grant select, update (state, token, result) on job to worker;
create role caretaker login;
grant select, update (state, due) on job to caretaker;

-- `first` says how large the numbers are, and so how long a job takes.
\if :{?first}
\else
\set first 1000000000
\endif
-- 5,000 jobs. One in seven breaks at its first attempt, one in forty at every attempt.
insert into job (id, priority, n, breaks)
select i, i % 3, :first + 7919 * i, case when i % 40 = 0 then 1000 when i % 7 = 0 then 1 else 0 end
from generate_series(1, 5000) i;
