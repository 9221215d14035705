-- One round of the duties: jobs with an expired lease lose their owner, and jobs whose
-- delay is over can be claimed again. Forever:
--     yes '\i duties.sql' | psql -q
-- Anywhere, and as many of them at once as you like.
set pawl.processor = 'duties';
select done as expired, next_at from pawl.reap('job') \gset
select done as due, next_at from pawl.fire_due('job') \gset
select from pg_sleep(0.1);
