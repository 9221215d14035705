-- pawl.fire_many tells rejections in its result; every other error ends the call: a
-- cancel, an error of a guard, of an output function.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create table job (id int primary key, state text not null, owner text, lease timestamptz,
    token bigint not null default 0, mood text);
create function slow(old job, new job) returns boolean language plpgsql as $$
begin
    if new.mood = 'slow' then perform pg_sleep(1000); end if;
    if new.mood = 'broken' then raise exception 'broken' using errcode = 'PW003'; end if;
    return new.mood is null;
end $$;
select pawl.define('job', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    ready --> tested : test [slow]
    running --> done : finish
    running:::owned
    done --> [*]
    tested --> [*]$$) \g /dev/null
select pawl.enforce('job', 'state', 'job'), pawl.enable_log('job', 'state'),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', token => 'token') \g /dev/null
insert into job (id, state, mood)
    values (1, 'ready', null), (2, 'ready', 'slow'), (3, 'ready', 'broken'), (4, 'ready', 'no'), (5, 'ready', null);
update job set state = 'running', owner = 'ben' where id = 5;

select results_eq($$select key, ok, sqlstate
    from pawl.fire_many('job', array[4, 5], 'finish', tokens => array[null, 7])$$,
                  $$values ('4', false, 'PW001'), ('5', false, 'PW005')$$, 'rejections are rows of the result');
select throws_ok($$select * from pawl.fire_many('job', array[1, 3, 4], 'test')$$, 'PW003', 'broken',
    'an error of a guard ends the call, whatever its code');

-- A cancel in the midst of the rows.
create function cancelled(query text) returns text language plpgsql as $$
begin
    execute query;
    return 'not cancelled';
exception when query_canceled then return sqlstate;
end $$;
set statement_timeout = '200ms';
select is(cancelled($$select * from pawl.fire_many('job', array[1, 2, 4], 'test')$$), '57014', 'a cancel is a cancel');
reset statement_timeout;
select is((select count(*) from job where state = 'tested'), 0::bigint, 'and nothing has moved');

-- A key that its type cannot show any more: the rejection cannot be said, and that is the error.
create type letter as enum ('a', 'b');
select pawl.define('plain', $$stateDiagram-v2
    [*] --> ready
    ready --> done : start
    done --> ready : finish$$) \g /dev/null
create table lettered (id letter primary key, state text not null);
select pawl.enforce('lettered', 'state', 'plain') \g /dev/null
insert into lettered values ('a', 'ready'), ('b', 'ready');
delete from pg_enum where enumlabel = 'b' and enumtypid = 'letter'::regtype;
select throws_ok($$select * from pawl.fire_many('lettered', (select array_agg(id) from lettered), 'finish')$$, '22P03',
    null, 'an error of an output function ends the call and is no row of the result');
select results_eq($$select key, ok from pawl.fire_many('job', array[1], 'test')$$, $$values ('1', true)$$,
    'afterwards all is well');

-- Texts that are no values are rejected by the parser, not by an error that was caught.
select throws_ok(format('set pawl.metadata = %L', text), code, 'pawl.metadata is not valid JSON',
    format('%s is no metadata', left(text, 30)))
  from (values ('{"a": }', '22P02'), ('"\u0000"', '22P05'), ('1e999999', '22003'), ('1e99999999999', '22003'),
      (repeat('9', 200000), '22003'), ('"\ud800"', '22P02')) bad(text, code);
select lives_ok(format('set pawl.metadata = %L; update job set mood = mood where id = 1', text),
    format('%s is metadata', left(text, 30)))
  from (values ('{"a": [1.5e10, -2, "\u00e4"]}'), ('1e9999'), ('1e-9999'),
      (repeat('[', 1000) || repeat(']', 1000))) good(text);
select throws_ok($$select set_config('pawl.metadata', repeat('[', 200000), false)$$, '54001', null,
    'a text that is too deep is an error of its own');
reset pawl.metadata;
select throws_ok(format('set pawl.delay = %L', text), '22007', 'pawl.delay is not an interval',
    format('%s is no delay', text))
  from (values ('soon'), ('1 parsec'), ('P1X'), ('99999999999999 years'), ('1 s 1 s'),
      (repeat('1 day ', 100))) bad(text);
select lives_ok(format('set pawl.delay = %L', text), format('%s is a delay', text))
  from (values ('5 s'), ('PT5M'), ('1 day 02:03:04.5'), ('@ 1 minute ago'), ('1.5 hours'),
      ('P0001-01-01T01:01:01')) good(text);
reset pawl.delay;
select throws_ok($$select pawl.define('bad', 'stateDiagram-v2
    [*] --> a
    a --> b : after 999999999999999 years')$$, 'PW007', '"999999999999999 years" is not an interval',
    'an invalid timer is an error of the definition');

select * from finish();
