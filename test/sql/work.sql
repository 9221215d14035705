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
-- retries with a limit: a failed attempt must lead to a terminal state, or on_expiry_else to another one
SELECT pawl.define('work_endless', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : fail
    running --> failed : fail
    running --> ready : crashed
    running --> failed : give_up
    failed --> ready : repeat
    done --> [*]
    class running owned$$);
CREATE TABLE calls (id int PRIMARY KEY, state text NOT NULL DEFAULT 'ready', owner text, lease timestamptz,
    due timestamptz, attempts int NOT NULL DEFAULT 0, most int);
SELECT pawl.enforce('calls', 'state', 'work_endless'),
    pawl.enable_queue('calls', owner => 'owner', lease => 'lease', attempts => 'attempts'),
    pawl.enable_timers('calls', due => 'due');
SELECT pawl.set_claiming('calls', claim => '{start}', on_expiry => 'crashed', retry => '{fail,crashed}',
    backoff => '{"max_attempts": 1}');
SELECT pawl.set_claiming('calls', on_expiry_else => 'give_up');
SELECT pawl.set_claiming('calls', on_expiry_else => '', retry => '{fail}', backoff => '{"base": "1 s"}');
SELECT pawl.enable_queue('calls', max_attempts => 'most');
SELECT pawl.set_claiming('calls', backoff => '{"max_attempts": 1}');
INSERT INTO calls (id) VALUES (1), (2);
SELECT id FROM pawl.claim(NULL::calls, processor => 'w', batch => 2);
SELECT pawl.fire('calls', 1, 'fail', processor => 'w');
SELECT pawl.define('work_endless', pawl.diagram('work_endless') || 'failed --> [*]') > 1;
SELECT pawl.upgrade('calls') > 1;
SELECT pawl.fire('calls', 1, 'fail', processor => 'w');
SELECT pawl.fire('calls', 1, 'repeat');
-- what a diagram names in vain is a warning of pawl.define
SELECT pawl.define('work_typo', $$stateDiagram-v2
    [*] --> new
    new --> open : take
    open --> closed : finish
    closed --> [*]
    class opne owned$$);
SELECT pawl.define('work_typo', pawl.diagram('work_typo'));
CREATE TABLE tickets (id int PRIMARY KEY, state text NOT NULL, owner text);
SELECT pawl.enforce('tickets', 'state', 'work_typo');
SELECT pawl.enable_queue('tickets', owner => 'owner');
SELECT pawl.claim(NULL::tickets, processor => 'w');
SELECT pawl.fire('tickets', 1, 'finnish');
SELECT pawl.release('tickets');
SELECT pawl.enforce('tickets', 'stat', 'work_typo');
-- a machine without an end may still be drawn
SELECT pawl.define('work_open', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    c --> a : go$$);
DROP SCHEMA t_work CASCADE;
