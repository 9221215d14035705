-- What pawl.enforce and pawl.upgrade warn of: states that no lease or timer leads out of.
\pset null '(null)'
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA t_work;
SET search_path = t_work;
SELECT pawl.define('work_slow', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> checking : check
    running --> ready : expire
    checking --> done : finish
    ready --> gone : give_up after 1 day
    done --> [*]
    gone --> [*]
    class running,checking owned$$);
CREATE TABLE jobs (id int PRIMARY KEY, state text NOT NULL, owner text, lease timestamptz, due timestamptz);
-- a binding without owners: timers only
SELECT pawl.enforce('jobs', 'state', 'work_slow');
SELECT pawl.release('jobs');
-- leases without an event for their expiry, or with one that does not leave every owned state
SELECT pawl.enforce('jobs', 'state', 'work_slow'),
    pawl.enable_queue('jobs', 'state', owner => 'owner', lease => 'lease'),
    pawl.enable_timers('jobs', 'state', due => 'due');
SELECT pawl.release('jobs');
SELECT pawl.enforce('jobs', 'state', 'work_slow'),
    pawl.enable_queue('jobs', 'state', owner => 'owner', lease => 'lease'),
    pawl.enable_timers('jobs', 'state', due => 'due'), pawl.set_claiming('jobs', 'state', on_expiry => 'expire');
-- the next version has one more state that is stuck
SELECT pawl.define('work_slow',
    replace(pawl.diagram('work_slow'), 'running --> ready : expire', 'checking --> ready : expire')) > 1;
SELECT pawl.upgrade('jobs') > 1;
DROP SCHEMA t_work CASCADE;
