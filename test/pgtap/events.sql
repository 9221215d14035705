-- The outbox: what an event says, whichever statement caused it; what is rolled back leaves none.
\set QUIET 1
set client_min_messages to warning;
select no_plan();
\set rows 10000
\getenv rows PAWL_TEST_ROWS

select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back
    b --> b : again
    b --> c : leave
    c --> [*]$$) \g /dev/null
create table logged (id int primary key, state text not null default 'a');
create table derived (id int primary key, state text not null default 'a');
create table bare (part text, n int, day date, state text not null default 'a', primary key (part, n, day));
create table quiet (id int primary key, state text not null default 'a');
create table nokey (id int, state text not null default 'a');
insert into logged values (100);
select pawl.enforce('logged', 'state', 'm'), pawl.enable_log('logged', 'state'),
    pawl.enable_events('logged', 'state') \g /dev/null
select pawl.enforce('derived', 'state', 'm'), pawl.enable_log('derived', 'state', hash_chain => true),
    pawl.enable_events('derived', 'state') \g /dev/null
select pawl.enforce('bare', 'state', 'm'), pawl.enable_events('bare', 'state') \g /dev/null
select pawl.enforce('quiet', 'state', 'm'), pawl.enable_log('quiet', 'state') \g /dev/null
select throws_ok($$select pawl.enforce('nokey', 'state', 'm'), pawl.enable_events('nokey', 'state')$$, '55000',
    'table public.nokey has no key for its events', 'events need a key');
select lives_ok($$select pawl.create_consumer('c')$$, 'a consumer can be created');
create function got(batch int default 1000) returns setof text language sql as $$
    select concat_ws(' ', e.relation::text collate "default", e.key::text, e.sort_key,
            coalesce(e.from_state, '-') || '>' || coalesce(e.to_state, '-'), e.event)
        from pawl.read_events('c', batch) e $$;
select is_empty('select got()', 'the rows that were there begin their log, which is no event');

insert into logged values (1), (2);
select results_eq('select got()', array['logged {1} 1 ->a', 'logged {2} 1 ->a'],
    'an INSERT writes an event for the first state of each row');
update logged set state = 'b' where id in (1, 2);
select pawl.fire('logged', 1, 'again') \g /dev/null
insert into logged_transitions (subject_id, event, metadata) values (2, 'leave', '{"by": "insert"}');
select * from pawl.fire_many('logged', array[1, 2], 'back') \g /dev/null
delete from logged where id = 2;
select results_eq('select got()', array['logged {1} 2 a>b go', 'logged {2} 2 a>b go', 'logged {1} 3 b>b again',
    'logged {2} 3 b>c leave', 'logged {1} 4 b>a back', 'logged {2} 4 c>- pawl.delete'],
    'UPDATE, fire, INSERT into the log, fire_many, DELETE');
select is_empty('select got()', 'each event is read once');

-- what a consumer needs that does not read the log
begin;
select pawl.set_context(processor => 'w1', correlation_id => 'k7', metadata => '{"x": 1}') \g /dev/null
update logged set state = 'b' where id = 1;
commit;
create temp table one as select * from pawl.read_events('c');
select results_eq($$select relation::text collate "default", state_column, machine, machine_version, key, sort_key,
        from_state, to_state, event, processor, actor, correlation_id, metadata::text from one$$,
    $$values ('logged', 'state', 'm', 1, array['1'], 5, 'a', 'b', 'go', 'w1', 'postgres', 'k7', '{"x": 1}')$$,
    'everything that was said of it');
select results_eq('select log_id, at from one', 'select id, created_at from logged_transitions where subject_id = 1 '
    'and most_recent', 'the id and the time are the log''s');
select is((select txid from one), (select txid from pawl.outbox_transactions order by place desc limit 1),
    'txid is that of the transaction');

-- without a log
insert into bare values ('p "q', 7, '2026-02-03');
update bare set state = 'b';
set datestyle = 'German';
update bare set state = 'c';
reset datestyle;
create temp table bare_events as select * from pawl.read_events('c');
select results_eq('select from_state, to_state, event from bare_events',
    $$values (null, 'a', null), ('a', 'b', 'go'), ('b', 'c', 'leave')$$, 'events without a log');
select is((select count(*) from bare_events
        where key = array['p "q', '7', '2026-02-03'] and sort_key is null and log_id is null), 3::bigint,
    'the key in the order of its columns, its text the same whatever the session has set');
truncate bare;
select results_eq('select got()', array['bare {"p \"q",7,2026-02-03} c>- pawl.truncate'],
    'TRUNCATE writes an event for the row, with its composite key');
insert into quiet values (1);
update quiet set state = 'b';
select is_empty('select got()', 'a lifecycle without events has none');

-- a derived log, hash chain; many rows, over every batch there is
insert into derived select g from generate_series(1, :rows) g;
update derived set state = 'b';
select is(count(*), 2::bigint * :rows, 'ten thousand rows, twice') from (select (pawl.read_events('c', 2 * :rows)).*) e;
select is_empty('select got()', 'and no more');
select pawl.create_consumer('again', 'beginning') \g /dev/null
set enable_nestloop = off;  -- logs have no index on id
select results_eq($$select count(*), count(distinct (e.key, e.sort_key)), count(l.id)
    from pawl.read_events('again', 100000) e left join derived_transitions_log l on l.id = e.log_id
    and l.subject_id::text = e.key[1] and l.sort_key = e.sort_key and l.from_state is not distinct from e.from_state
    and l.created_at = e.at where relation = 'derived'::regclass$$,
    'select n, n, n from (values (2::bigint * ' || :rows || ')) x(n)', 'each is the log''s row');
reset enable_nestloop;

-- nothing of what was rolled back; each once in spite of savepoints
begin;
insert into logged values (5);
savepoint s1;
update logged set state = 'b' where id = 5;
savepoint s2;
update logged set state = 'c' where id = 5;
rollback to s2;
release s1;
savepoint s3;
update logged set state = 'a' where id = 5;
rollback to s3;
commit;
select results_eq('select got()', array['logged {5} 1 ->a', 'logged {5} 2 a>b go'],
    'state changes of a savepoint that was rolled back write no events');
begin;
update logged set state = 'a' where id = 5;
rollback;
select is_empty('select got()', 'a transaction that was rolled back');
do $$ begin
    update logged set state = 'a' where id = 5;
    begin
        update logged set state = 'b' where id = 5;
        update logged set state = 'x' where id = 5;
    exception when sqlstate 'PW001' then null;
    end;
end $$;
select results_eq('select got()', array['logged {5} 3 b>a back'], 'an exception block');
begin; savepoint s; update logged set state = 'b' where id = 5; rollback to s; commit;
select is((select count(*) from pawl.outbox_transactions c where not exists (select from pawl.outbox_1 e
    where e.txid = c.txid)), 0::bigint, 'no transaction without events takes a place');

-- reading is part of the transaction
update logged set state = 'b' where id in (1, 5);
update logged set state = 'b' where id = 100;
begin;
select is((select count(*) from got()), 2::bigint, 'a consumer reads the two events');
select is_empty('select got()', 'the next read of the transaction goes on behind the first');
rollback;
select results_eq('select got(1)', array['logged {5} 4 a>b go'], 'rolled back, they come again; one at a time');
begin;
savepoint s;
select results_eq('select got(1)', array['logged {100} 2 a>b go'], 'in a savepoint');
rollback to s;
select results_eq('select got(1)', array['logged {100} 2 a>b go'], 'and again after it was rolled back');
commit;
select is_empty('select got(1)', 'events whose reading was committed do not come again');
begin;
update logged set state = 'a' where id = 100;
select is_empty('select got()', 'one''s own are news only when committed');
update logged set state = 'b' where id = 100;
select is_empty('select got()', 'whenever one looks');
commit;
select results_eq('select got(1)', array['logged {100} 3 b>a back'], 'a batch may end within a transaction');
update logged set state = 'c' where id = 100;
select results_eq('select got(5)', array['logged {100} 4 a>b go'], 'an interval is read to its end');
select results_eq('select got(5)', array['logged {100} 5 b>c leave'], 'then comes the next');

-- upgrade
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> z : go
    z --> a : back
    z --> c : leave
    c --> [*]$$) \g /dev/null
select pawl.upgrade('logged', remap => '{"b": "z"}') \g /dev/null
select results_eq('select got()', array['logged {1} 6 b>z pawl.upgrade', 'logged {5} 5 b>z pawl.upgrade'],
    'an upgrade writes an event for each row that it maps');
select pawl.release('logged') \g /dev/null
update logged set state = 'nowhere';
select is_empty('select got()', 'a table that was released has no events');
select is_empty('select * from pawl.verify()', 'and the logs are right');
select * from finish();
