-- Retries: attempts, their limit, the backoff and the delay that is asked for.
\set QUIET 1
set client_min_messages to error;
select no_plan();

select pawl.define('task', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    waiting --> running : start
    running --> done : finish
    running --> waiting : fail
    running --> dead : fail
    running --> waiting : retry
    running --> waiting : expire
    waiting --> ready : release
    done --> [*]
    dead --> [*]
    class running owned$$);
create function make(policy jsonb) returns void language plpgsql as $$
begin
    drop table if exists task, task_transitions_log cascade;
    create table task (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
        token bigint not null default 0, due timestamptz, tries smallint not null default 0, most int);
    perform pawl.enforce('task', 'state', 'task'), pawl.enable_log('task'),
            pawl.enable_queue('task', owner => 'owner', lease => 'lease', token => 'token', attempts => 'tries',
                max_attempts => 'most'), pawl.enable_timers('task', due => 'due'),
            pawl.set_claiming('task', claim => '{start}', on_expiry => 'expire', retry => '{fail,retry}',
                backoff => policy);
    insert into task (id) select generate_series(1, 10);
end $$;
create function code_of(statement text) returns text language plpgsql as $$
declare code text;
begin
    execute statement;
    return 'ok';
exception when others then
    get stacked diagnostics code = returned_sqlstate;
    return code;
end $$;
-- Fails a row again and again; the seconds it is to wait each time, and where it ends.
create function delays(id int, times int) returns text language plpgsql as $$
declare
    told text[] := '{}';
    before timestamptz;
    waits numeric;
    stands text;
begin
    for n in 1..times loop
        perform pawl.set_context(processor => 'w');
        update task set state = 'running' where task.id = delays.id and state in ('ready', 'waiting');
        before := clock_timestamp();
        perform pawl.fire('task', id, 'fail');
        select round(extract(epoch from t.due - before), 1), t.state into waits, stands from task t
            where t.id = delays.id;
        told := told || coalesce(waits::float8::text, case stands when 'waiting' then '0' else stands end);
        exit when stands = 'dead';
    end loop;
    perform pawl.set_context();
    return array_to_string(told, ' ');
end $$;

-- Every strategy.
select make('{"strategy": "exponential", "base": "10 s", "cap": "100 s", "jitter": "none"}');
select is(delays(1, 6), '10 20 40 80 100 100', 'exponential, under its cap');
select make('{"strategy": "linear", "base": "10 s", "jitter": "none"}');
select is(delays(1, 4), '10 20 30 40', 'delays of the linear strategy grow by the base');
select make('{"strategy": "fibonacci", "base": "10 s", "cap": "1 h", "jitter": "none"}');
select is(delays(1, 6), '10 10 20 30 50 80', 'delays of the fibonacci strategy are the sum of the two before');
select make('{"strategy": "none"}');
select is(delays(1, 3), '0 0 0', 'none: the row may be claimed again at once');
select is((select count(*) from pawl.claim(null::task, processor => 'w', batch => 10)), 10::bigint, 'as it is');
select make('{"strategy": "exponential", "base": "10 s", "multiplier": 3, "cap": "1 h", "jitter": "none"}');
select is(delays(1, 4), '10 30 90 270', 'delays grow by the multiplier of the policy');
select make('{"strategy": "linear", "base": "10 s", "jitter": "none"}');
alter table task add own jsonb;
select pawl.set_claiming('task', backoff_column => 'own');
update task set own = '{"strategy": "linear", "base": "1 h", "cap": "1 day", "jitter": "none"}' where id = 2;
select is(delays(1, 2) || ', ' || delays(2, 2), '10 20, 3600 7200', 'a row may have a backoff of its own');
select make('{"strategy": "linear", "base": "100 s", "cap": "1 h", "jitter": "full"}');
select pawl.claim(null::task, processor => 'w', batch => 10);
select pawl.fire_many('task', array[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 'fail', processor => 'w');
select ok(count(distinct due) = 10 and bool_and(due between now() and clock_timestamp() + '100 s'),
    'jitter: each waits for a time of its own') from task;

-- The limit: of the policy, of the row.
select make('{"strategy": "linear", "base": "10 s", "jitter": "none", "max_attempts": 3}');
select is(delays(1, 6), '10 20 dead', 'attempts of the policy: the third failure is the end');
select is((select string_agg(to_state, ' ' order by sort_key) from task_transitions where subject_id = 1),
    'ready running waiting running waiting running dead', 'in the log');
update task set most = 2 where id = 2;
select is(delays(2, 6), '10 dead', 'fewer, of the row');
update task set most = 5 where id = 3;
select is(delays(3, 6), '10 20 30 40 dead',
    'a row with more attempts of its own than the policy is retried that often');
update task set most = 1 where id = 4;
select is(delays(4, 6), 'dead', 'a row with one attempt of its own is not retried');
update task set most = 0 where id = 5;
select is(delays(5, 5), '10 20 30 40 50', 'none: no limit');
select is((select string_agg(tries::text, ' ' order by id) from task where id <= 4), '3 2 5 1',
    'attempts are counted when the row is taken');

-- What is left of the attempts is as good as a guard.
update task set state = 'running', owner = 'w', tries = 3 where id = 6;
select is(code_of($$select pawl.fire('task', 6, 'retry', processor => 'w')$$), 'PW003',
    'a transition that only retries is rejected');
select is(code_of($$update task set state = 'waiting', owner = 'w' where id = 6$$), 'ok',
    'while a plain UPDATE finds another transition that leads there');
select is((select event from task_transitions where subject_id = 6 order by sort_key desc limit 1), 'expire',
    'which is what the log says');
update task set state = 'running', owner = 'w', tries = 3 where id = 7;
select is(code_of($$set local pawl.event = 'retry'; update task set state = 'waiting', owner = 'w' where id = 7$$),
    'PW003', 'unless it is meant as a retry');
set pawl.event = '';
select is((select array_agg(concat_ws(' ', key, ok, sqlstate))
    from pawl.fire_many('task', array[7], 'retry', processor => 'w')), array['7 f PW003'], 'fire_many says so');
set pawl.processor = 'w';
select is((select string_agg(concat_ws(' ', event, to_state, allowed, blocked_by), ', ' order by event, to_state)
    from pawl.available('task', 7)),
    'expire waiting t {}, fail dead t {}, fail waiting f {pawl.attempts}, finish done t {}, retry waiting f '
    '{pawl.attempts}', 'as does available');
reset pawl.processor;
create function hint_of(statement text) returns text language plpgsql as $$
declare hint text;
begin
    execute statement;
    return 'ok';
exception when others then
    get stacked diagnostics hint = pg_exception_hint;
    return hint;
end $$;
select is(hint_of($$select pawl.fire('task', 7, 'retry', processor => 'w')$$), 'Without an attempt left, the machine '
    'allows from "running": "done" (finish), "dead" (fail), "waiting" (expire). Or raise the maximum number of '
    'attempts.', 'the hint names the transitions that need no attempt');
update task set state = 'ready', tries = 3 where id = 8;
select is(hint_of($$select pawl.fire('task', 8, events => '{start,retry}', processor => 'w')$$), 'Without an attempt '
    'left, the machine allows from "running": "done" (finish), "dead" (fail), "waiting" (expire). Or raise the maximum '
    'number of attempts.', 'those of the state in which it failed');
update task set tries = 0 where id = 8;
update task set tries = 0 where id = 7;
select is(code_of($$select pawl.fire('task', 7, 'retry', processor => 'w')$$), 'ok', 'attempts may be given back');
select is((select round(extract(epoch from due - clock_timestamp())) from task where id = 7), 10::numeric,
    'the delay is that of the first');

-- The delay that is asked for, and a time in the statement itself.
update task set state = 'running', owner = 'w' where id in (8, 9, 10);
select pawl.set_context(processor => 'w', delay => '7 s'), pawl.fire('task', 8, 'fail');
select is((select round(extract(epoch from due - clock_timestamp())) from task where id = 8), 7::numeric,
    'Retry-After: used instead');
set pawl.delay = '1 day';
select pawl.fire('task', 9, 'fail', processor => 'w');
reset pawl.delay;
select is((select round(extract(epoch from due - clock_timestamp())) from task where id = 9), 60::numeric,
    'under the same cap');
set pawl.delay = '-5 s';
select pawl.fire('task', 10, 'fail', processor => 'w');
reset pawl.delay;
select is((select concat(state, ' ', due) from task where id = 10), 'waiting ', 'a time in the past delays nothing');
select is(code_of('set pawl.delay = ''soon'''), '22007', 'a delay is an interval');
select make('{"strategy": "linear", "base": "10 s", "jitter": "none"}');
update task set state = 'running', owner = 'w' where id = 1;
update task set state = 'waiting', owner = 'w', due = clock_timestamp() + '3 days' where id = 1;
select is((select round(extract(epoch from due - clock_timestamp()) / 86400) from task where id = 1), 3::numeric,
    'a time that the statement sets goes before both, without a cap');

-- What waits is not claimed before its time, and then again.
select is((select string_agg(id::text, ' ') from pawl.claim(null::task, processor => 'v', batch => 10)),
    '2 3 4 5 6 7 8 9 10', 'the row that waits is left out');
set session_replication_role = replica;
update task set due = clock_timestamp() where id = 1;
reset session_replication_role;
select is((select count(*) from pawl.claim(null::task, processor => 'v', batch => 10)), 0::bigint,
    'a row with a backoff cannot be claimed before fire_due');
select is((select done from pawl.fire_due('task')), 1::bigint, 'has seen to it');
select is((select concat_ws(' ', id, tries, token) from pawl.claim(null::task, processor => 'v', batch => 10)), '1 2 2',
    'the second attempt');

-- Giving up by retrying counts too; an expired lease is not a retry here, and is claimable at once.
select is(pawl.abandon('task', 'v', 'retry'), 10::bigint, 'all given up by a retry');
select is((select string_agg(distinct round(extract(epoch from due - clock_timestamp()))::text, ' ') from task),
    '10 20', 'they wait as they have tried');
select is_empty($$select * from pawl.verify('task')$$, 'the records agree');

-- A smallint counts as far as it goes.
update task set due = null;
update task set tries = 32767 where id = 1;
select is(code_of($$update task set state = 'running', owner = 'w' where id = 1$$), '22003',
    'an attempt too many for the column is rejected');
select * from finish();
