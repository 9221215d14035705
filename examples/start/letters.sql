create table letters (
    id bigint generated always as identity primary key,
    recipient text not null,
    state text not null default 'ready',
    owner text, lease timestamptz, token bigint not null default 0, attempts integer not null default 0, due timestamptz
);
select pawl.define('letter', $$
stateDiagram-v2
    [*] --> ready
    ready --> sending : start
    sending --> sent : finish
    sending --> ready : fail
    sending --> failed : fail
    sending --> ready : crashed
    failed --> ready : repeat
    sent --> [*]
    failed --> [*]
    class sending owned
$$);
select pawl.enforce('letters', 'state', 'letter');
select pawl.enable_log('letters');
select pawl.enable_queue('letters', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts');
select pawl.enable_timers('letters', due => 'due');
select pawl.set_claiming('letters', claim => '{start}', on_expiry => 'crashed',
    retry => '{fail}', backoff => '{"base": "5 s", "max_attempts": 3}');
