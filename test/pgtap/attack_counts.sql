-- Tokens and attempts that begin at the end of what their columns hold do not begin again.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
select no_plan();
select pawl.define('w', $$stateDiagram-v2
    [*] --> waiting
    waiting --> running : start
    running --> waiting : crashed
    running --> done : finish
    done --> [*]
    class running owned$$) \g /dev/null
create table t (id int primary key, state text not null default 'waiting', owner text, lease timestamptz,
    token bigint not null default 0, attempts int not null default 0);
select pawl.enforce('t', 'state', 'w'),
    pawl.enable_queue('t', 'state', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.set_claiming('t', 'state', claim => '{start}', on_expiry => 'crashed') \g /dev/null
insert into t (id, token) values (1, 9223372036854775807);
insert into t (id, attempts) values (2, 2147483647);
insert into t (id, token) values (3, 9223372036854775806);
select throws_ok($$select pawl.fire('t', 1, 'start', processor => 'w1')$$, '22003', null, 'a token does not wrap');
select throws_ok($$select pawl.fire('t', 2, 'start', processor => 'w1')$$, '22003', null,
    'nor does a number of attempts');
select is(pawl.fire('t', 3, 'start', processor => 'w1'), 'running', 'the last token can be given');
select is((select token from t where id = 3), 9223372036854775807, 'a row can reach the largest fencing token');
select is(pawl.fire('t', 3, 'finish', processor => 'w1', token => 9223372036854775807), 'done',
    'a report with the largest fencing token is accepted');
select * from finish();
