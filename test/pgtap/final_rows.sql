-- Rows that are validated by their AFTER trigger: what the BEFORE trigger decided holds for that statement alone, and
-- for the row that is stored.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create table d (id int not null, part int not null default 1, state text not null default 'new',
    amount int not null default 0 check (amount >= 0), owner text, lease timestamptz, token bigint not null default 0,
    due timestamptz) partition by list (part);
create table d1 partition of d for values in (1);
create table d2 partition of d for values in (2);
create function small(old d, new d) returns boolean language sql as $$ select new.amount <= 100 $$;
create table asked (amount int);
create function counted(old d, new d) returns boolean language plpgsql as $$ begin
    insert into asked values (new.amount); return new.amount <= 100; end $$;
select pawl.define('m', $$stateDiagram-v2
    [*] --> new
    new --> approved : approve [counted]
    new --> new : renew [small]
    new --> held : start
    held --> new : stop [small]
    new --> timed : time
    timed --> new : after 1 hour
    classDef owned fill:#fff
    class held owned$$) \g /dev/null
select pawl.enforce('d', 'state', 'm', key => '{id}'), pawl.enable_log('d', hash_chain => true),
    pawl.enable_queue('d', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.enable_timers('d', due => 'due') \g /dev/null
insert into d (id) select generate_series(1, 20);

create function entries(key int) returns text language sql as
    $$ select string_agg(concat_ws(' ', event, processor), ', ' order by sort_key) from pawl.history('d', key)
       where sort_key > 1 $$;

-- A decision of a statement that was undone.
set pawl.event = 'renew';
select throws_ok($$update d set part = 2, amount = 5000 where id = 1$$, 'PW003', null,
    'the guard rejects a large amount');
reset pawl.event;
begin;
savepoint s;
set local pawl.event = 'renew';
set local pawl.processor = 'another';
select throws_ok('update d set part = 99 where id = 1', '23514', null, 'a move to no partition fails');
rollback to s;
update d set part = 2, amount = 5000 where id = 1 returning set_config('pawl.event', 'renew', true) \g /dev/null
commit;
select is(entries(1), null, 'what it decided is not used by the next statement, nor is a later setting');

-- The state of an undone statement, written by a trigger of the partition.
create function rewrite() returns trigger language plpgsql as $$ begin
    case current_setting('test.rewrites', true)
        when 'state' then new.state := 'approved';
        when 'amount' then new.amount := 5000;
        when 'same' then new.amount := 5;
        when 'owner' then new.owner := 'thief';
        when 'token' then new.token := 0;
        when 'lease' then new.lease := 'infinity';
        when 'due' then new.due := 'infinity';
        else null;
    end case;
    return new; end $$;
create trigger rewrites before insert on d2 for each row execute function rewrite();
begin;
savepoint s;
select throws_ok($$update d set part = 2, state = 'approved', amount = -1 where id = 2$$, '23514', null,
    'a CHECK fails behind the decision');
rollback to s;
set local test.rewrites = 'state';
select throws_ok($$update d set part = 2, amount = 5000 where id = 2$$, '55000',
    'a trigger changed the state after the managed columns were set',
    'a state that a later trigger writes is not validated by an old decision');
rollback;

-- Guards are asked again for the row that is stored, if it is another.
truncate asked;
select lives_ok($$update d set part = 2, state = 'approved' where id = 3$$, 'a row moves and takes a transition');
select is((select count(*) from asked), 1::bigint, 'and its guard is asked once');
set test.rewrites = 'same';
select lives_ok($$update d set part = 2, state = 'approved' where id = 4$$, 'a later trigger changes another column');
select is((select array_agg(amount) from asked), '{0,0,5}', 'and the guard is asked again');
set test.rewrites = 'amount';
select throws_ok($$update d set part = 2, state = 'approved' where id = 5$$, 'PW003', null,
    'the guard rejects what a later trigger made of the row');
set pawl.processor = 'w';
begin;
set local pawl.events = '{start,stop}';
select throws_ok($$update d set part = 2 where id = 5$$, 'PW003', null,
    'the guard of the last of several transitions is asked again');
rollback;
begin;
set local pawl.events = '{renew,start}';
select throws_ok($$update d set part = 2, state = 'held' where id = 5$$, 'PW003', null, 'and so is that of the first');
rollback;
set test.rewrites = 'same';
begin;
set local pawl.events = '{start,stop}';
select lives_ok($$update d set part = 2 where id = 8$$, 'they accept another change');
commit;
select is(entries(8), 'start w, stop w', 'which has its transitions');

-- Managed columns stay as they were set.
set test.rewrites = 'owner';
select throws_ok($$update d set part = 2, state = 'held' where id = 5$$, '55000',
    'a trigger changed the managed columns after they were set', 'a later trigger cannot give another owner');
select throws_ok($$update d set part = 2 where id = 5$$, '55000', null, 'nor one to a row that keeps its state');
set test.rewrites = 'token';
select throws_ok($$update d set part = 2, state = 'held' where id = 5$$, '55000', null, 'nor an old token');
set test.rewrites = 'lease';
select throws_ok($$update d set part = 2, state = 'held' where id = 5$$, '55000', null, 'nor another lease');
set test.rewrites = 'due';
select throws_ok($$update d set part = 2 where id = 5$$, '55000', null, 'nor another due time');
reset test.rewrites;
select lives_ok($$update d set part = 2, state = 'held' where id = 5$$, 'without it the row is taken');
select is((select format('%s %s', owner, token) from d where id = 5), 'w 1', 'by its processor, with a new token');

-- A trigger of the partition that runs a command: the row is no new one.
set test.rewrites = 'same';
update d set state = 'timed' where id = 7;
update d set due = null where id = 7;
select lives_ok($$update d set part = 2 where id = 7$$, 'a row moves to a partition whose trigger runs a command');
select is((select format('%s %s', part, due) from d where id = 7), '2 ', 'and gets no time as a new row would');
reset test.rewrites;

-- A list that the statement itself empties before its AFTER triggers.
begin;
set local pawl.events = '{start,stop}';
update d set part = 2 where id = 6 returning set_config('pawl.events', '', true) \g /dev/null
commit;
select is(entries(6), 'start w, stop w', 'a list of the statement is logged whatever the setting is afterwards');
select is((select token from d where id = 6), 1::bigint, 'as its columns say');

-- A later trigger of the same table that suppresses one write, and rewrites the state in the next.
create table t (id int primary key, state text not null default 'new', owner text, lease timestamptz,
    token bigint not null default 0);
select pawl.define('o', $$stateDiagram-v2
    [*] --> new
    new --> held : start
    classDef owned fill:#fff
    class held owned$$) \g /dev/null
select pawl.enforce('t', 'state', 'o'), pawl.enable_log('t'),
    pawl.enable_queue('t', owner => 'owner', lease => 'lease', token => 'token') \g /dev/null
create function late() returns trigger language plpgsql as $$ begin
    if current_setting('test.late', true) = 'suppress' then return null; end if;
    if current_setting('test.late', true) = 'rewrite' then new.state := 'held'; end if;
    return new; end $$;
-- of 63 bytes, so that no name sorts behind it
select format('create trigger %I before update on t for each row execute function late()', repeat('~', 63)) \gexec
insert into t values (1);
begin;
set local test.late = 'suppress';
update t set state = 'held' where id = 1;
set local test.late = 'rewrite';
select throws_ok('update t set token = token where id = 1', '55000',
    'a trigger changed the state after the managed columns were set',
    'what was decided for a write that was suppressed is not used by the next one');
commit;
update d set due = now() + interval '1 h' where id = 7;
select is_empty($$select * from pawl.verify('d') union all select * from pawl.verify('t')$$, 'nothing is wrong');
select * from finish();
