-- What a database rejects that is one of several, what the tables of databases and placements accept, and that their
-- cache follows every change, also one that is rolled back.
\set QUIET 1
set client_min_messages to error;
select no_plan();

create extension if not exists pawl_dag;
select pawl_dag.define_template('{"name": "one", "namespace": "here", "identity_strategy": "always_unique",
    "steps": [{"name": "a"}]}');
select pawl_dag.define_template('{"name": "one", "namespace": "there", "identity_strategy": "always_unique",
    "steps": [{"name": "a"}]}');
create function starts(namespace text) returns text language sql as
$$ select format('select pawl_dag.start_task(''one'', namespace => %L)', namespace) $$;

-- A database that is not a member -----------------------------------------------------------------------------------
select lives_ok(starts('there'), 'a database that is not one of several takes every namespace');
select lives_ok($$select pawl.require_here('dag', 'there')$$, 'and says so');
select is((pawl.where_is('dag', 'there')).database, null, 'no namespace has a place');

create function tried_durably(call text) returns text language plpgsql as $$
begin
    execute 'select ' || call;
    return current_setting('synchronous_commit');
end $$;

-- A member ----------------------------------------------------------------------------------------------------------
insert into pawl.database (name, connection, is_home, is_here) values ('a', 'service=a', true, true),
    ('b', 'service=b', false, false);
insert into pawl.placement (kind, namespace, database) values ('dag', null, 'a'), ('dag', 'there', 'b');
select throws_ok(starts('there'), 'PW009', 'namespace "there" of kind "dag" is in database "b"',
    'a namespace that is placed elsewhere is rejected');
select lives_ok(starts('here'), 'one without a place of its own is where the others are');
select throws_ok($$insert into pawl_dag.tasks (template_uuid, namespace, name, version, identity_key)
    select template_uuid, namespace, name, version, 'x' from pawl_dag.templates where namespace = 'there'$$,
    'PW009', null,
    'a plain INSERT is rejected, too');
select throws_ok($$update pawl_dag.tasks set namespace = 'there'$$, 'PW009', null,
    'and an UPDATE that brings a row there');
select throws_ok($$select * from pawl.claim(null::pawl_dag.steps, processor => pawl.uuid_v7()::text,
    queue => 'there')$$,
    'PW009', null, 'and a claim');
select lives_ok($$select * from pawl_dag.run_sql_steps()$$,
    'SQL steps are claimed from a queue that each database has');
select throws_ok($$select pawl.require_here('bulk', 'x')$$, 'PW009',
    'namespace "x" of kind "bulk" is placed in no database',
    'a kind without any placement is nowhere');

-- The cache ---------------------------------------------------------------------------------------------------------
begin;
update pawl.placement set database = 'a' where namespace = 'there';
select lives_ok(starts('there'), 'a transaction sees its own change of a placement');
savepoint s;
update pawl.placement set database = 'b' where namespace is null;
select throws_ok(starts('here'), 'PW009', null, 'and that of a subtransaction');
rollback to s;
select lives_ok(starts('here'), 'which is undone with it');
rollback;
select throws_ok(starts('there'), 'PW009', null, 'a change that is rolled back has no effect');
begin;
delete from pawl.placement;
delete from pawl.database;
select lives_ok(starts('there'), 'without databases it is alone again');
rollback;
select throws_ok(starts('there'), 'PW009', null, 'until that is rolled back');

-- What the tables accept --------------------------------------------------------------------------------------------
select throws_ok($$insert into pawl.database (name, connection) values ('c', 'host=h Password = x')$$, '22023', null,
    'a password in a connection is rejected');
select throws_ok($$insert into pawl.database (name, connection) values ('c', 'postgresql://u:x@h/d')$$, '22023', null,
    'one in a URI is, too');
select lives_ok($$insert into pawl.database (name, connection) values ('c',
    'postgresql://u@h:5432/d?sslmode=require')$$,
    'a URI without one is accepted');
select throws_ok($$update pawl.database set is_here = true where name = 'b'$$, '23505', null,
    'a database is one of them');
select throws_ok($$insert into pawl.placement (kind, namespace, database) values ('dag', 'x', 'z')$$, '23503', null,
    'a placement names a database that there is');
select throws_ok($$insert into pawl.placement (kind, namespace, database) values ('dag', null, 'b')$$, '23505', null,
    'the other namespaces are in one database');

-- Moves are for those who may -----------------------------------------------------------------------------------------
create role mover_worker in role pawl_worker;
set role mover_worker;
select throws_ok($$update pawl.placement set database = 'a'$$, '42501', null, 'a worker cannot change placements');
select throws_ok($$insert into pawl.transit values (pawl.uuid_v7(), 1, 'x')$$, '42501', null, 'nor bring rows');
select throws_ok($$select pawl.depart(pawl.uuid_v7(), 'dag', 'here', 'b', 'closed')$$, '42501', null,
    'nor close a namespace');
select throws_ok($$select pawl.arrive(pawl.uuid_v7())$$, '42501', null, 'nor receive one');
select throws_ok($$select pawl.declare_placed('dag', '[]')$$, '42501', null, 'nor declare tables');
reset role;
set role pawl_admin;
select throws_ok($$select pawl.declare_placed('dag', '[]')$$, '42501', null, 'even pawl_admin cannot declare tables');
select throws_ok($$insert into pawl.placed_table (kind, ordinal, relation, role) values ('x', 1, 'pg_class', 'unit')$$,
    '42501', null, 'nor write the declaration');
reset role;
drop role mover_worker;

-- Phases out of order -------------------------------------------------------------------------------------------------
select throws_ok($$select pawl.depart(pawl.uuid_v7(), 'dag', 'there', 'a', 'closed')$$, 'PW009', null,
    'a namespace that is elsewhere cannot leave');
select throws_ok($$select pawl.depart(pawl.uuid_v7(), 'dag', 'here', 'a', 'closed')$$, '42704', null,
    'nor to where it is');
select throws_ok($$select pawl.depart(pawl.uuid_v7(), 'dag', 'here', 'b', 'gone')$$, '22023', null,
    'by an unknown phase');
select throws_ok($$select pawl.depart(pawl.uuid_v7(), 'shop', 'here', 'b', 'closed')$$, '22023', null,
    'nor of an unknown kind');
select throws_ok($$select pawl.forget_departed(pawl.uuid_v7(), pawl.uuid_v7())$$, '55000', null,
    'an unknown move cannot be forgotten');
select throws_ok($$select pawl.return_departed(pawl.uuid_v7())$$, '55000', null, 'an unknown move cannot be returned');
select lives_ok($$select pawl.depart('019a0000-0000-7000-8000-000000000001', 'dag', 'here', 'b', 'closed')$$,
    'a namespace is closed');
select throws_ok(starts('here'), 'PW009', null, 'new rows are rejected from then on');
select throws_ok($$select pawl.depart(pawl.uuid_v7(), 'dag', 'here', 'b', 'closed')$$, 'PW009', null,
    'it cannot leave twice');
select throws_ok($$select pawl.forget_departed('019a0000-0000-7000-8000-000000000001', null)$$, '55000', null,
    'what has not left cannot be forgotten');
select lives_ok($$select pawl.depart('019a0000-0000-7000-8000-000000000001', 'dag', 'here', 'b', 'left')$$,
    'its rows leave');
select is((select count(*) from pawl_dag.tasks where namespace = 'here'), 0::bigint, 'with all its tasks');
select isnt((select count(*) from pawl.transit), 0::bigint, 'which are in transit');

-- The rows in transit are the only ones ----------------------------------------------------------------------------
create view in_transit as select count(*) as rows from pawl.transit;
create table were as select rows from in_transit;
select throws_ok($$select pawl.forget_departed('019a0000-0000-7000-8000-000000000001', null)$$, '55000',
    'this is not the receipt of move 019a0000-0000-7000-8000-000000000001',
    'rows that have left are not forgotten without a receipt');
select throws_ok($$select pawl.forget_departed('019a0000-0000-7000-8000-000000000001', pawl.uuid_v7())$$, '55000',
    'this is not the receipt of move 019a0000-0000-7000-8000-000000000001', 'nor by another one');
select throws_ok(format('select %s', call), '55000', 'move 019a0000-0000-7000-8000-000000000001 leaves this database',
    'where they leave, nothing can arrive: ' || call)
  from unnest(array[$$pawl.arrive('019a0000-0000-7000-8000-000000000001')$$,
    $$pawl.prepare_arrival('019a0000-0000-7000-8000-000000000001', 'dag', 'here', '{}')$$,
    $$pawl.reject_arrival('019a0000-0000-7000-8000-000000000001', 'dag', 'here')$$]) call;
insert into pawl.transit select '019a0000-0000-7000-8000-000000000003', ordinal, content from pawl.transit
    where ordinal <> 0;
select throws_ok($$select pawl.arrive('019a0000-0000-7000-8000-000000000003')$$, 'XX001',
    'the rows of move 019a0000-0000-7000-8000-000000000003 are not all in pawl.transit',
    'an arrival without the row that says what left is rejected');
insert into pawl.transit select '019a0000-0000-7000-8000-000000000003', 0, content from pawl.transit where ordinal = 0;
select throws_ok($$select pawl.arrive('019a0000-0000-7000-8000-000000000003')$$, '55000',
    'move 019a0000-0000-7000-8000-000000000003 goes to database "b"', 'and so is one in another database');
begin;
update pawl.database set is_here = name = 'b' where name = 'a';
update pawl.database set is_here = name = 'b' where name = 'b';
savepoint complete;
delete from pawl.transit where move = '019a0000-0000-7000-8000-000000000003' and ordinal = (select min(ordinal)
    from pawl.transit where ordinal > 0);
select throws_ok($$select pawl.arrive('019a0000-0000-7000-8000-000000000003')$$, 'XX001',
    'the rows of the move are not those that left', 'and one without all the rows that left');
rollback to complete;
select is(a.outcome || coalesce(a.receipt::text, ''), 'arrived', 'it arrives where it goes, and shows no receipt yet')
  from pawl.arrive('019a0000-0000-7000-8000-000000000003') a;
select is(a.receipt::text, (select x.content::jsonb ->> 'receipt' from pawl.transit x where x.ordinal = 0),
    'but when it is asked again') from pawl.arrive('019a0000-0000-7000-8000-000000000003') a;
select is((select count(*) from pawl_dag.tasks where namespace = 'here'), 1::bigint, 'with the task');
select is(i.rows, w.rows, 'the rows that left are still there') from in_transit i, were w;
select is(pawl.forget_departed(d.move, a.receipt), w.rows, 'with the receipt they are forgotten')
  from pawl.departure d, pawl.arrival a, were w
 where a.move = '019a0000-0000-7000-8000-000000000003' and d.phase = 'left';
select is(i.rows, 0::bigint, 'and nothing is in transit') from in_transit i;
select is(pawl.forget_departed('019a0000-0000-7000-8000-000000000001', null), 0::bigint, 'again, nothing happens');
rollback;
delete from pawl.transit where move = '019a0000-0000-7000-8000-000000000003';

-- A table with rows that are not sound takes no others --------------------------------------------------------------
begin;
select pawl_dag.define_template('{"name": "one", "namespace": "mine", "identity_strategy": "always_unique",
    "steps": [{"name": "a"}]}') \g /dev/null
select pawl_dag.start_task('one', namespace => 'mine') \g /dev/null
set local session_replication_role = replica;
update pawl_dag.tasks set state = 'complete' where namespace = 'mine';
set local session_replication_role = origin;
select throws_ok($$select pawl.prepare_arrival(pawl.uuid_v7(), 'dag', 'new', pawl.placed_shape('dag'))$$, 'XX001',
    'table pawl_dag.tasks is not sound where the namespace would arrive',
    'a row that is not sound stops an arrival early');
select lives_ok($$select pawl.prepare_arrival(pawl.uuid_v7(), 'dag', 'new', pawl.placed_shape('dag'), false)$$,
    'unless it is not looked for');
rollback;

-- What one database has said to another outlives a crash -------------------------------------------------------------
set synchronous_commit = off;
select is(tried_durably($$pawl.depart('019a0000-0000-7000-8000-000000000001', 'dag', 'here', 'b', 'left')$$), 'on',
    'the commit of a departure waits for the disk');
select is(tried_durably($$pawl.reject_arrival(pawl.uuid_v7(), 'dag', 'x')$$), 'on', 'that of a rejection, too');
select pawl.reject_arrival('019a0000-0000-7000-8000-000000000003', 'dag', 'x');
select is(tried_durably($$pawl.arrive('019a0000-0000-7000-8000-000000000003')$$), 'on', 'and that of an arrival');
set synchronous_commit = local;
select is(tried_durably($$pawl.reject_arrival(pawl.uuid_v7(), 'dag', 'x')$$), 'local',
    'one that waits for its own disk is left alone');
reset synchronous_commit;
select lives_ok($$select pawl.return_departed('019a0000-0000-7000-8000-000000000001')$$, 'the rows return again');
select lives_ok($$select pawl.return_departed('019a0000-0000-7000-8000-000000000001')$$,
    'once, however often it is called');
select is((select count(*) from pawl_dag.tasks where namespace = 'here'), 1::bigint, 'to their table');
select is((select count(*) from pawl.transit), 0::bigint, 'and none is in transit');
select throws_ok($$select pawl.depart('019a0000-0000-7000-8000-000000000001', 'dag', 'here', 'b', 'left')$$,
    '55000', null,
    'a move that has been cancelled cannot go on');
select lives_ok(starts('here'), 'new work is accepted');
select is_empty($$select * from pawl.verify('pawl_dag.tasks')$$, 'rows and logs agree');
select is(pawl.reject_arrival('019a0000-0000-7000-8000-000000000002', 'dag', 'x')::text ~ 'rejected', true,
    'a move is cancelled before it arrives');
select is((pawl.arrive('019a0000-0000-7000-8000-000000000002')).outcome, 'rejected',
    'and does not arrive afterwards');

-- A table that changes while its rows leave --------------------------------------------------------------------------
select pawl.depart('019a0000-0000-7000-8000-000000000004', 'dag', 'here', 'b', 'leaving');
alter table pawl_dag.namespaces add column note text;
select throws_ok($$select pawl.depart('019a0000-0000-7000-8000-000000000004', 'dag', 'here', 'b', 'left')$$, '55000',
    'table pawl_dag.namespaces has changed since rows left it', 'rows of two shapes do not leave');
select lives_ok($$select pawl.return_departed('019a0000-0000-7000-8000-000000000004')$$, 'those that have left return');
alter table pawl_dag.namespaces drop column note;
select is((select count(*) from pawl_dag.tasks where namespace = 'here'), 2::bigint, 'all of them');

select * from finish();
