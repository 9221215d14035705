-- A plain table of jobs, owned by workers: what table_worker.cpp works on.
create table jobs (
    id bigint generated always as identity primary key,
    state text not null default 'queued',
    payload jsonb not null default '{}',
    worker text,
    lease_until timestamptz,
    token bigint not null default 0,
    due timestamptz,
    attempts int not null default 0,
    max_attempts int not null default 3
);
select pawl.define('job', 'stateDiagram-v2
    [*] --> queued
    queued --> running : start
    running --> done : finish
    running --> queued : fail
    running --> failed : give_up
    done --> [*]
    failed --> [*]
    class running owned');
select pawl.enforce('jobs', 'state', 'job');
select pawl.enable_log('jobs');
select pawl.enable_queue('jobs', owner => 'worker', lease => 'lease_until', token => 'token', attempts => 'attempts',
    max_attempts => 'max_attempts');
select pawl.enable_timers('jobs', due => 'due');
select pawl.set_claiming('jobs', claim => array['start'], claim_order => 'id', on_expiry => 'fail',
    on_expiry_else => 'give_up', retry => array['fail'], backoff => '{"base": "10 ms", "cap": "100 ms"}');
select pawl.enable_events('jobs', events => false, wake => true);
