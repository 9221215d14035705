-- What an expired lease fires, and rows that carry a backoff of their own.
begin;
set client_min_messages = warning;
create extension if not exists pgtap;
create extension if not exists pawl;
select plan(7);

select pawl.define('step', $$stateDiagram-v2
    [*] --> queued
    queued --> running : Start
    running --> waiting : WaitForRetry
    running --> failed : Fail
    waiting --> queued : Retry after 1 hour
    failed --> [*]
    class running owned
$$);
create table step (id int primary key, state text not null default 'queued', worker text, lease timestamptz,
    token bigint not null default 0,
                   due timestamptz, attempts int not null default 0, most int not null default 2, wait jsonb);
select pawl.enforce('step', 'state', 'step'), pawl.enable_log('step', 'state'),
    pawl.enable_queue('step', 'state', owner => 'worker', lease => 'lease', token => 'token', attempts => 'attempts',
        max_attempts => 'most'), pawl.enable_timers('step', 'state', due => 'due'),
    pawl.set_claiming('step', 'state', claim => '{Start}', on_expiry => 'WaitForRetry', on_expiry_else => 'Fail',
        retry => '{WaitForRetry}', backoff => '{"strategy": "none"}', backoff_column => 'wait');
insert into step (id, most, wait)
    values (1, 2, '{"strategy": "linear", "base": "10 minutes", "cap": "1 hour", "jitter": "none"}'), (2, 1, null),
        (3, 2, null);
select is((select count(*) from pawl.claim(null::step, processor => 'w', batch => 10, lease => '1 ms')), 3::bigint,
    'all are claimed');
do $$ begin
    while exists (select from step where lease >= clock_timestamp()) loop
        perform pg_sleep(0.001);
    end loop;
end $$;
select is((pawl.reap('step')).done, 3::bigint, 'and all leases expire');
select results_eq($$select id, state, worker, token from step order by id$$,
    $$values (1, 'waiting', null::text, 2::bigint), (2, 'failed', null, 2), (3, 'waiting', null, 2)$$,
    'a row without an attempt left takes the other event');
select results_eq($$select subject_id, event, metadata ->> 'lost_owner' from step_transitions
    where to_state in ('waiting', 'failed') order by 1$$,
    $$values (1, 'WaitForRetry', 'w'), (2, 'Fail', 'w'), (3, 'WaitForRetry', 'w')$$,
    'the log names the events, and the owner that lost the row');
select ok((select due between clock_timestamp() + interval '9 minutes' and clock_timestamp() + interval '10 minutes'
    from step where id = 1), 'a row waits as its own backoff says');
select is((select due is null or due <= clock_timestamp() from step where id = 3), true,
    'others as the lifecycle''s does');
select throws_ok($$select pawl.release('step'), pawl.enforce('step', 'state', 'step'),
    pawl.enable_queue('step', 'state', owner => 'worker', lease => 'lease'),
    pawl.set_claiming('step', 'state', on_expiry => 'WaitForRetry', on_expiry_else => 'Retry')$$,
    '22023', null, 'an event that leaves no owned state is no expiry event');
select * from finish();
rollback;
