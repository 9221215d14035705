-- One round of the duties: whose lease has run out loses his jobs, and a job whose delay is over may be claimed again. For ever:
--     yes '\i duties.sql' | psql -q
-- Anywhere, and as many of them at once as you like.
set pawl.processor = 'duties';
select done as lapsed, next_at from pawl.reap('job') \gset
select done as due, next_at from pawl.fire_due('job') \gset
select from pg_sleep(0.1);
