-- What the documentation says cannot be seen, and by what it is seen nevertheless: the
-- end of a hash chain, and what a row is without a log.
\set QUIET 1
set client_min_messages to error;
select no_plan();

select pawl.define('parcel', 'stateDiagram-v2
    [*] --> packed
    packed --> sent : send
    sent --> delivered : deliver') \g /dev/null
create table parcels (id int primary key, state text not null default 'packed');
select pawl.enforce('parcels', 'state', 'parcel'),
    pawl.enable_log('parcels', 'state', most_recent => 'stored', hash_chain => true) \g /dev/null
insert into parcels select generate_series(1, 4);
update parcels set state = 'sent';
update parcels set state = 'delivered' where id < 4;
-- operations: the newest hashes are copied out
create table heads as select subject_id, sort_key, hash, now() as seen_at from parcels_transitions where most_recent;
prepare compare as select h.subject_id, h.sort_key from heads h
    left join parcels_transitions t using (subject_id, sort_key) where t.hash is distinct from h.hash order by 1;
select is_empty('compare', 'nothing has been cut');

-- the owner switches the triggers off, sets one row back with the end of its log, and takes another away altogether
alter table parcels disable trigger user;
alter table parcels_transitions disable trigger user;
delete from parcels_transitions where subject_id = 1 and sort_key = 3;
update parcels_transitions set most_recent = true where subject_id = 1 and sort_key = 2;
update parcels set state = 'sent' where id = 1;
delete from parcels_transitions where subject_id = 2;
delete from parcels where id = 2;
alter table parcels enable trigger user;
alter table parcels_transitions enable trigger user;
select is_empty($$select * from pawl.verify('parcels')$$,
    'a chain that is cut at its end with its row is as good as any: verify does not see it');
select results_eq('compare', $$values (1, 3), (2, 3)$$, 'hashes that are kept elsewhere show it');
-- in the middle it is seen
alter table parcels_transitions disable trigger user;
delete from parcels_transitions where subject_id = 3 and sort_key = 2;
alter table parcels_transitions enable trigger user;
select set_has($$select problem from pawl.verify('parcels') where key = '3'$$,
    $$values ('sort_key_gap'), ('chain_broken'), ('hash_mismatch')$$, 'what is cut out of the middle is seen');

-- guide: without a log a row is its key, and nothing says that it was another one
create table boxes (id int primary key, state text not null default 'packed', address text);
select pawl.enforce('boxes', 'state', 'parcel') \g /dev/null
insert into boxes values (1, 'packed', 'here'), (2, 'packed', 'there');
update boxes set state = 'sent' where id = 2;
alter table boxes drop constraint boxes_pkey, add primary key (id) deferrable initially deferred;
select lives_ok($$update boxes set id = 3 - id$$, 'two rows exchange their keys');
select results_eq('select * from boxes order by id', $$values (1, 'sent', 'there'), (2, 'packed', 'here')$$,
    'and with them what they are: no transition was taken');
select is_empty($$select * from pawl.verify('boxes')$$, 'which is no fault');
create table crates (id int primary key, state text not null default 'packed');
select pawl.enforce('crates', 'state', 'parcel'),
    pawl.enable_log('crates', 'state', most_recent => 'stored') \g /dev/null
insert into crates values (1), (2);
update crates set state = 'sent' where id = 2;
select throws_ok($$update crates set id = 3 where id = 1$$, '0A000', null, 'with a log the key stays');
create table events_only (id int primary key, state text not null default 'packed');
select pawl.enforce('events_only', 'state', 'parcel'), pawl.enable_events('events_only', 'state') \g /dev/null
insert into events_only values (1);
select throws_ok($$update events_only set id = 3$$, '0A000', null, 'and with events');
select * from finish();
