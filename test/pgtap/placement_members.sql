-- What concerns several databases at once: the default place, copies of the placements, and the removal of a database.
-- Here one database plays each of them, one after the other.
\set QUIET 1
set client_min_messages to error;
select no_plan();

create extension if not exists pawl_dag;
create extension if not exists pawl_move;
select throws_ok($$select pawl.place_others('dag', 'b')$$, '55000', 'this database is not one of several',
    'a database that is not one of several has no default place');
select pawl_dag.define_template(jsonb_build_object('name', 'one', 'namespace', n, 'identity_strategy', 'always_unique',
    'steps', '[{"name": "a"}]'::jsonb)) from unnest('{used,defined,elsewhere,late}'::text[]) n;
select pawl_dag.start_task('one', namespace => n) from unnest('{used,elsewhere}'::text[]) n;
insert into pawl.database (name, connection, is_home, is_here) values ('a', 'service=a', true, true),
    ('b', 'service=b', false, false), ('c', 'service=c', false, false);
insert into pawl.placement (kind, namespace, database) values ('dag', null, 'a'), ('bulk', null, 'a'),
    ('dag', 'elsewhere', 'b');
create function here() returns text stable language sql as
    'select name from pawl.database where is_here';
create function be(name text) returns void language sql as $$
    update pawl.database set is_here = false where is_here;
    update pawl.database d set is_here = true where d.name = be.name
$$;
create function places() returns text language sql as
    $$select string_agg(coalesce(namespace, '*') || ':' || database, ' ' order by namespace nulls first)
        from pawl.placement where kind = 'dag'$$;

-- Where it was
select results_eq('select * from pawl.namespaces() order by 1, 2', $$values ('dag', 'elsewhere'), ('dag', 'used')$$,
    'namespaces of rows');
select ok(exists (select from pawl.namespaces(true) n where n.namespace = 'defined'), 'and those of definitions');
select throws_ok($$select pawl.place_others('dag', 'z')$$, '42704', 'there is no database "z"',
    'a default place is a database that there is');
select ok('used' = any (array(select * from pawl.place_others('dag', 'b'))),
    'what has rows where the default place was keeps its place');
select is(places(), '*:b defined:a elsewhere:b late:a used:a', 'and so does what is defined there');
select is((select database from pawl.placement where kind = 'bulk'), 'a', 'other kinds are left alone');
select lives_ok($$select pawl_dag.start_task('one', namespace => 'used')$$, 'it is accepted as before');
select throws_ok($$select pawl.require_here('dag', 'new')$$, 'PW009',
    'namespace "new" of kind "dag" is in database "b"', 'a new namespace is not');
create table placed as select * from pawl.placement;
select lives_ok($$select pawl.place_others('dag', 'b')$$, 'it can be repeated');
select is_empty($$select * from pawl.placement except select * from placed$$, 'and changes nothing then');

-- A transaction that began before has written rows of a namespace; definitions do not matter any more.
delete from pawl.placement where namespace in ('late', 'defined');
alter table pawl_dag.tasks disable trigger check_placed_dag;
select pawl_dag.start_task('one', namespace => 'late');
alter table pawl_dag.tasks enable always trigger check_placed_dag;
select lives_ok($$select pawl.place_others('dag', 'b')$$, 'when older transactions have ended it is called again');
select is(places(), '*:b elsewhere:b late:a used:a', 'and finds what they have written');

-- Where it comes to
select be('b');
delete from pawl_dag.tasks;
update pawl.placement set database = 'a' where namespace is null;
select lives_ok($$select pawl.place_others('dag', 'b')$$, 'the new place opens');
select is(places(), '*:b elsewhere:b late:a used:a', 'and gives no places away');
select lives_ok($$select pawl.require_here('dag', 'new')$$, 'it takes new namespaces');
select throws_ok($$select pawl.require_here('dag', 'used')$$, 'PW009', null, 'and rejects those that have a place');

-- Copies ------------------------------------------------------------------------------------------------------------
select be('c');
create function given(changes jsonb default '{}') returns jsonb language sql as $$
    select jsonb_agg(to_jsonb(p) || coalesce(changes -> coalesce(p.namespace, '*'), '{}')) from pawl.placement p
$$;
create function databases() returns jsonb language sql as 'select jsonb_agg(d) from pawl.database d';
select is_empty($$select * from pawl.compare_placements(given())$$, 'a copy agrees with itself');
select is(pawl.copy_placements(databases(), given()), 0::bigint, 'and nothing is to do');
select results_eq($$select kind, namespace, here, given, own from pawl.compare_placements(given('{"used":
    {"database": "b"}, "late": {"database": "c"}}') || '[{"kind": "dag", "namespace": "more", "database": "a"}]')
    order by 2$$, $$values ('dag', 'late', 'a', 'c', true), ('dag', 'more', null, 'a', false),
    ('dag', 'used', 'a', 'b', false)$$, 'what differs is found, and whether it concerns this database');
select is(pawl.copy_placements(databases(), given('{"used": {"database": "b"}, "late": {"database": "c"}}')
    || '[{"kind": "dag", "namespace": "more", "database": "a"}]'), 2::bigint, 'what does not is copied');
select is(places(), '*:b elsewhere:b late:a more:a used:b', 'what does is decided by moves');
insert into pawl.placement (kind, namespace, database) values ('dag', 'mine', 'c');
select is(pawl.copy_placements(databases(), '[{"kind": "dag", "namespace": null, "database": "c"}]'), 1::bigint,
    'what is not given could be here, if the default place is here for the other one');
select is(places(), '*:b elsewhere:b late:a mine:c more:a used:b', 'so it stays where it is');
update pawl.placement set database = 'c' where kind = 'dag' and namespace is null;
select is(pawl.copy_placements(databases(), '[{"kind": "dag", "namespace": null, "database": "b"}, {"kind": "dag",
    "namespace": "leaving", "database": "a"}]'), 0::bigint, 'and so it is if that is here');
update pawl.placement set database = 'b' where kind = 'dag' and namespace is null;
begin;
select is(pawl.copy_placements(databases(), given('{"*": {"database": "c"}}') || '[{"kind": "dag", "namespace":
    "leaving", "database": "a"}]'), 1::bigint, 'before the default place opens here, a place elsewhere is copied');
rollback;
select is(pawl.copy_placements(databases(), '[{"kind": "dag", "namespace": null, "database": "b"}]'), 4::bigint,
    'else it is removed');
select is(places(), '*:b mine:c', 'but not what is here');
select is(pawl.copy_placements('[{"name": "a", "connection": "service=a2", "is_home": true}, {"name": "d", "connection":
    "service=d", "is_home": false}]', given()), 2::bigint, 'databases are copied, too');
select is((select string_agg(name || ' ' || connection, ', ' order by name) from pawl.database),
    'a service=a2, b service=b, c service=c, d service=d',
    'one that is not given stays while a namespace is placed there');
select throws_ok($$select pawl.copy_placements('[{"name": "b", "connection": "x password=y"}]', '[]')$$, '22023', null,
    'a connection with a password is rejected');

-- Removal -----------------------------------------------------------------------------------------------------------
select throws_ok($$select pawl_move.remove_database('d')$$, '55000', 'database "d" cannot be removed here',
    'a member removes no database');
select be('a');
select throws_ok($$select pawl_move.remove_database('z')$$, '42704', 'there is no database "z"',
    'a database that there is not is not removed');
select throws_ok($$select pawl_move.remove_database('a')$$, '55000', 'database "a" cannot be removed here',
    'nor the one whose placements count');
select throws_like($$select pawl_move.remove_database('b')$$, 'namespaces are placed in database "b"',
    'nor one that namespaces are placed in');
create function detail_of(statement text) returns text language plpgsql as $$
declare detail text;
begin
    execute statement;
    return null;
exception when others then
    get stacked diagnostics detail = pg_exception_detail;
    return detail;
end $$;
select is(detail_of($$select pawl_move.remove_database('b')$$), 'There are 1: all others of dag.', 'and it says which');
insert into pawl.placement (kind, namespace, database) select 'dag', 'n' || g, 'b' from generate_series(10, 30) g;
select is(detail_of($$select pawl_move.remove_database('b')$$),
    'There are 22, among them all others of dag, "n10" of dag, "n11" of dag, "n12" of dag, "n13" of dag, "n14" of dag, '
    '"n15" of dag, "n16" of dag, "n17" of dag, "n18" of dag.', 'the first of many');
select pawl_move.request('dag', 'mine', 'd');
select throws_ok($$select pawl_move.remove_database('d')$$, '55006',
    'namespace "mine" is being moved from or to database "d"', 'nor one that a namespace is being moved to');
update pawl.placement set database = 'a' where database = 'c';
select throws_ok($$select pawl_move.remove_database('c')$$, '55006',
    'namespace "mine" is being moved from or to database "c"', 'nor one that it leaves');
update pawl_move.moves set state = 'cancelled';
select lives_ok($$select pawl_move.remove_database('d')$$, 'one that has nothing is removed');
select lives_ok($$select pawl_move.remove_database('c')$$, 'and so is another');
select is((select string_agg(name, ' ' order by name) from pawl.database), 'a b', 'the others remain');
begin isolation level repeatable read;
select throws_ok($$select pawl_move.remove_database('b')$$, '25001', null, 'an old snapshot shows no new moves');
rollback;

-- Rights
create role member_worker in role pawl_worker;
set role member_worker;
select throws_ok(format('select %s', call), '42501', null, 'a worker cannot: ' || call)
  from unnest(array[$$pawl.place_others('dag', 'a')$$, $$pawl.compare_placements('[]')$$,
    $$pawl.copy_placements('[]', '[]')$$, $$pawl_move.remove_database('b')$$]) call;
reset role;
drop role member_worker;
create role member_admin in role pawl_admin;
set role member_admin;
select lives_ok($$select pawl.place_others('dag', 'a')$$, 'pawl_admin can set the default place');
select is((select count(*) from pawl.compare_placements('[]')), (select count(*) from pawl.placement),
    'and compare placements');
select lives_ok($$select pawl.copy_placements('[]', '[]')$$, 'and copy them');
select throws_ok($$select pawl_move.remove_database('b')$$, '55006', null, 'and remove a database that has nothing');
reset role;
drop role member_admin;

select * from finish();
