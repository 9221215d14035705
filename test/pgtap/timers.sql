-- Timers: `after` transitions, the due column, pawl.fire_due.
\set QUIET 1
set client_min_messages to error;
select no_plan();

create table ticket (id int primary key, state text not null default 'open', due timestamptz,
    patient boolean not null default true, owner text, lease timestamptz,
    token int not null default 0, note text);
create function is_patient(old ticket, new ticket) returns boolean language sql as $$ select (new).patient $$;
select pawl.define('ticket', $$stateDiagram-v2
    [*] --> open
    open --> waiting : ask
    waiting --> open : answer
    waiting --> closed : expire after 3 days
    waiting --> reminded : remind [is_patient] after 1 day
    open --> open : nag after 1 hour
    reminded --> closed : after 1 week
    reminded --> open : answer
    open --> closed : close
    open --> working : take
    working --> checking : check after 5 min
    working --> closed : close
    checking --> open : give_up after 10 min
    closed --> [*]
    class working,checking owned$$);
select pawl.enforce('ticket', 'state', 'ticket'), pawl.enable_log('ticket', 'state'),
    pawl.enable_queue('ticket', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.enable_timers('ticket', 'state', due => 'due');

-- state, owner, and when the timer runs down, to five minutes: however slowly the test runs.
create function seen(id int) returns text language sql as $$
    select concat_ws(' ', state, owner, case when due = 'infinity' then 'never'
        else regexp_replace(
            justify_interval(
                make_interval(secs => round(extract(epoch from due - clock_timestamp()) / 300) * 300))::text,
        ' ?00:00:00$', '') end) from ticket where ticket.id = seen.id $$;
create function run_down(ids int[], late interval default '0') returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    update ticket set due = clock_timestamp() - late where id = any (ids);
    set local session_replication_role = origin;
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

-- Entering a state sets the timer, whichever way; leaving it cancels it.
insert into ticket (id) select generate_series(1, 20);
select is(seen(1), 'open 01:00:00', 'a row that begins');
update ticket set state = 'waiting' where id = 1;
select is(seen(1), 'waiting 1 day', 'a state change: the shortest of two');
select pawl.fire('ticket', 2, 'ask');
select is(seen(2), 'waiting 1 day', 'fire starts the timer of the state that the row enters');
insert into ticket_transitions (subject_id, event) values (3, 'ask');
select is(seen(3), 'waiting 1 day', 'INSERT into the log');
update ticket set state = 'closed' where id = 4;
select is(seen(4), 'closed', 'a state without a timer');
insert into ticket (id, due) values (21, clock_timestamp() + '10 min');
select is(seen(21), 'open 00:10:00', 'a row may begin with a time of its own');
insert into ticket (id, due) values (22, clock_timestamp() - interval '10 min');
select ok((select due < clock_timestamp() from ticket where id = 22),
    'one that is past, where there is a timer to fire');
update ticket set state = 'waiting', due = clock_timestamp() + '2 hours' where id = 5;
select is(seen(5), 'waiting 02:00:00', 'a state change with a time of its own');
update ticket set state = 'waiting', due = null where id = 6;
select is(seen(6), 'waiting', 'or with none');
update ticket set state = 'closed', due = clock_timestamp() - interval '1 s' where id = 7;
select is(seen(7), 'closed', 'a past time where there is no timer has no effect');
update ticket set state = 'waiting', due = due, note = 'a whole row written back' where id = 8;
select is(seen(8), 'waiting 1 day', 'a statement that writes back the time it has read does not stop the timer');
update ticket set state = 'waiting' where id = 9;
update ticket set state = 'open' where id = 9;
select is(seen(9), 'open 01:00:00', 'left, and back: set again');
update ticket set due = clock_timestamp() + '5 min' where id = 9;
select is(seen(9), 'open 00:05:00', 'the time may be changed without a state change');
update ticket set due = 'infinity' where id = 9;
select is(seen(9), 'open never', 'also to never');
update ticket set due = null where id = 9;
select is(seen(9), 'open', 'or be taken away');
update ticket set note = 'x' where id = 10;
select is(seen(10), 'open 01:00:00', 'what does not name it leaves it');

-- Firing
select is((select done || ' ' || (next_at = (select min(due) from ticket)) from pawl.fire_due('ticket')), '1 false',
    'one was due');
select is(seen(22), 'open 01:00:00', 'a transition from the state to itself: fired, and set again');
select is((select string_agg(event, ' ' order by sort_key) from ticket_transitions
        where subject_id = 22 and from_state is not null), 'nag', 'in the log');
select is((select done || ' ' || (next_at = (select min(due) from ticket)) from pawl.fire_due('ticket')), '0 true',
    'nothing is due; the next due time is returned');
select run_down(array[1, 2]);
update ticket set patient = false where id = 2;
select run_down(array[2]);
select is((select done from pawl.fire_due('ticket')), 2::bigint, 'two are due');
select is(seen(1), 'reminded 7 days', 'one changes state, and has the timer of its new state');
select is(seen(2), 'waiting 1 day', 'the guard of the other says no: its due time is set again');
select is((select event from ticket_transitions where subject_id = 1 order by sort_key desc limit 1), 'remind',
    'by its event');
select run_down(array[1]);
select is((select done from pawl.fire_due('ticket')), 1::bigint, 'a timer without an event');
select results_eq($$select from_state, to_state, event from ticket_transitions where subject_id = 1
        order by sort_key desc limit 1$$,
    $$values ('reminded', 'closed', null::text)$$, 'leaves the event of its log entry null');
select run_down(array[3, 4, 5]);
update ticket set state = 'open' where id = 3;
select is((select done from pawl.fire_due('ticket')), 2::bigint, 'a row that left in time is not fired');
select is(seen(3), 'open 01:00:00', 'and has the timer of where it went');
select is(seen(4), 'closed', 'a due time where there is no timer is taken away');
set pawl.event = 'close'; set pawl.token = 4711; set pawl.processor = 'clock';
select run_down(array[10, 8]);
select is((select done from pawl.fire_due('ticket')), 2::bigint, 'whatever the session says of its own moves');
reset pawl.event; reset pawl.token; reset pawl.processor;
select is(seen(10) || ', ' || seen(8), 'open 01:00:00, reminded 7 days', 'timers do what they are drawn to do');

-- Clocks: a row is fired once, however late; a time that goes back fires nothing again.
select run_down(array[11], '10 years');
select is((select done from pawl.fire_due('ticket')), 1::bigint, 'ten years late');
select is((select done from pawl.fire_due('ticket')), 0::bigint, 'are fired once');
select is((select count(*) from ticket_transitions where subject_id = 11 and event = 'nag'), 1::bigint,
    'not for every hour that was missed');
select is(seen(11), 'open 01:00:00', 'and then from now on');

-- Owned rows: a timer removes the owner where the row leaves the owned states, and only there.
update ticket set state = 'working', owner = 'w1', lease = clock_timestamp() + '1 hour' where id = 12;
select is(seen(12), 'working w1 00:05:00', 'a row with an owner has a timer');
select is(code_of($$update ticket set state = 'checking' where id = 12$$), 'PW004',
    'which cannot be fired before its time');
select run_down(array[12]);
select is((select done from pawl.fire_due('ticket')), 1::bigint, 'when it has come it fires');
select is(seen(12), 'checking w1 00:10:00', 'the owner stays in another owned state');
select is((select format('%s %s', token, lease > clock_timestamp() + '50 min') from ticket where id = 12), '1 t',
    'with its token and lease');
select run_down(array[12]);
select is((select done from pawl.fire_due('ticket')), 1::bigint, 'a timer that ends the ownership');
select is(seen(12), 'open 01:00:00', 'makes it free');
select is((select token from ticket where id = 12), 2, 'the token has grown');
select is((select metadata ->> 'lost_owner' from ticket_transitions where subject_id = 12
    order by sort_key desc limit 1), 'w1', 'the log names the owner');
update ticket set state = 'working', owner = 'w1' where id = 13;
select run_down(array[13]);
set pawl.processor = 'w2';
update ticket set state = 'checking' where id = 13;
reset pawl.processor;
select is(seen(13), 'checking w1 00:10:00', 'fired by any session, also by plain SQL, it keeps its owner');

-- Batches, in the order of their times.
select run_down(array[14], '1 min'), run_down(array[15], '3 min'), run_down(array[16], '2 min');
select is((select done || ' ' || (next_at < clock_timestamp()) from pawl.fire_due('ticket', 1)), '1 true',
    'one; more is waiting');
select is(seen(15), 'open 01:00:00', 'fire_due fires the earliest timer first');
select is((select done from pawl.fire_due('ticket', 1)), 1::bigint, 'fire_due with batch 1 fires one more timer');
select is(seen(16), 'open 01:00:00', 'fire_due fires the next timer after the earliest');
select is((select done from pawl.fire_due()), 1::bigint, 'all lifecycles that the caller may write');

-- A first state of a partitioned table, a row that moves to another partition: its timer goes with it.
create table parted (region int not null, id int not null, state text not null default 'open', due timestamptz,
    patient boolean, owner text, primary key (region, id)) partition by list (region);
create table parted_1 partition of parted for values in (1);
create table parted_2 partition of parted default;
select pawl.define('slow', $$stateDiagram-v2
    [*] --> open
    open --> closed : expire after 3 days
    closed --> [*]$$);
select pawl.enforce('parted', 'state', 'slow'), pawl.enable_timers('parted', 'state', due => 'due');
insert into parted (region, id, due) values (1, 1, clock_timestamp() + '1 hour'), (1, 2, default), (1, 3, default);
update parted set due = null where id = 3;
update parted set region = 2;
select results_eq($$select id, round(extract(epoch from due - clock_timestamp()) / 3600) from parted order by id$$,
    $$values (1, 1::numeric), (2, 72), (3, null)$$, 'partitions are changed without touching a timer');
update parted set region = 1, due = clock_timestamp() where id = 1;
select is((select done from pawl.fire_due('parted')), 1::bigint, 'fire_due fires a timer of a partition');

-- Thousands at once are one statement.
insert into ticket (id, due) select g, clock_timestamp() - interval '1 s' * g from generate_series(1001, 11000) g;
create table statements (n int);
create function count_statement() returns trigger
    language plpgsql as $$ begin insert into statements select count(*) from new_rows; return null; end $$;
create trigger count_statement after update on ticket referencing new table as new_rows
    for each statement execute function count_statement();
select is((select done from pawl.fire_due('ticket', 10000)), 10000::bigint, 'ten thousand are fired at once');
select is((select array_agg(n) from statements), array[10000], 'by one UPDATE');
select is((select done from pawl.fire_due('ticket', 10000)), 0::bigint, 'a timer that was fired is not fired again');
select is((select count(*) from ticket_transitions where subject_id > 1000 and event = 'nag'), 10000::bigint,
    'each is in the log');
drop trigger count_statement on ticket;

-- Only the server's clock counts: whatever a session makes of its time zone.
set timezone = 'Pacific/Kiritimati';
update ticket set state = 'waiting' where id = 17;
set timezone = 'Etc/GMT+12';
select is(seen(17), 'waiting 1 day', 'a session''s time zone changes nothing');
select is((select done from pawl.fire_due('ticket')), 0::bigint, 'nor is anything due earlier');
reset timezone;
select is_empty($$select p.oid::regprocedure from pg_proc p
    where p.pronamespace = 'pawl'::regnamespace
        and p.proname in ('claim', 'heartbeat', 'abandon', 'reap', 'fire_due', 'fire', 'fire_many', 'set_context')
    and p.proargtypes::oid[] && array['timestamptz'::regtype::oid, 'timestamp'::regtype::oid]$$,
    'no function that claims or keeps work has a time as an argument');
select is_empty($$select * from pawl.verify() where problem <> 'timer_missing'$$, 'the records agree with the rows');
select * from finish();
