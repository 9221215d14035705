-- One round of a worker: it claims jobs, does them, and reports them. To run it forever:
--     yes '\i worker.sql' | psql -q -v worker=anna
-- Nothing is locked and no transaction is open between the steps. A worker that crashes keeps its jobs until their
-- lease expires.
set pawl.processor = :'worker';

-- 1. Claim up to 25 jobs. This worker owns them until the lease expires; the tokens prove it.
select count(*) > 0 as any, array_agg(id) as ids, array_agg(token) as tokens
    from pawl.claim(null::job, batch => 25) \gset my_
\if :my_any

-- 2. Work. Here it is arithmetic in SQL; your worker would do it outside of the database. If that may take longer than
-- the lease, send heartbeats: select pawl.heartbeat('job');
select coalesce(jsonb_agg(work) filter (where not broken), '[]') as done,
    coalesce(jsonb_agg(work) filter (where broken), '[]') as broken
  from (select id, mine.token, attempts <= breaks as broken,
               (select coalesce(min(d), n) from generate_series(2, sqrt(n)::integer) d where n % d = 0) as factor
          from unnest(:'my_ids'::bigint[], :'my_tokens'::bigint[]) mine(id, token) join job using (id)) work \gset my_

-- 3. Report, by an ordinary UPDATE. It names the tokens: if a job has another owner now, nothing is written (PW005).
update job set state = 'done', result = my.factor, token = my.token
  from jsonb_to_recordset(:'my_done') my(id bigint, token bigint, factor bigint) where job.id = my.id;

-- Failures are reported by event: back to ready with a growing delay, or to dead after the last attempt. The result has
-- a row for each job.
select format('job %s: %s: %s', key, sqlstate, message)
  from pawl.fire_many('job', array(select id from jsonb_to_recordset(:'my_broken') my(id bigint)), 'fail',
      '{"error": "it broke"}',
                      tokens => array(select token from jsonb_to_recordset(:'my_broken') my(token bigint)))
  where not ok;

\else
select from pg_sleep(0.1);  -- nothing to do just now
\endif
