-- pawl.prune_log and pawl.prune_audit: what they remove, what they keep, how a log that
-- was cut is told from one that was tampered with.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('job', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> ready : back
    running --> done : complete
    done --> ready : again
    done --> [*]
    class running owned$$) \g /dev/null

-- The clock of a log can be turned back by its owner only; here the owner does so, to have something old.
create function age(log regclass, subjects int[], by interval) returns void language plpgsql as $$ begin
    execute format('alter table %s disable trigger user', log);
    execute format('update %s set created_at = created_at - $1 where subject_id = any ($2)', log) using by, subjects;
    execute format('alter table %s enable trigger user', log);
    execute (select coalesce(string_agg(format('alter table %s enable always trigger %I', log, tgname), ';'), 'select')
        from pg_trigger where tgrelid = log and tgname = '!pawl_audit');
end $$;
create function left_of(log regclass) returns text language plpgsql as $$ declare answer text; begin
    execute format('select string_agg(subject_id || '':'' || numbers, '' '' order by subject_id) from (select '
                'subject_id, string_agg(sort_key::text, '','' order by sort_key) numbers from %s group by 1) x', log)
        into answer;
    return answer; end $$;

-- Errors.
create table t (id int primary key, state text not null default 'ready');
select pawl.enforce('t', 'state', 'job'), pawl.enable_log('t', 'state', most_recent => 'stored') \g /dev/null
create table bare (id int primary key, state text not null);
select pawl.enforce('bare', 'state', 'job') \g /dev/null
select throws_ok($$select pawl.prune_log('bare', '1 day')$$, '55000', 'table public.bare has no log of column "state"');
select throws_ok($$select pawl.prune_log('t', null)$$, '22004', 'older_than must not be null');
select throws_ok($$select pawl.prune_log('t', '1 day', batch => null)$$, '22004', 'batch must not be null');
select throws_ok($$select pawl.prune_log('t', '1 day', only_terminal => null)$$, '22004',
    'only_terminal must not be null');
select throws_ok($$select pawl.prune_log('t', '-1 day')$$, '22023', 'older_than must be from 0 to 1000 years');
select throws_ok($$select pawl.prune_log('t', '1 day', batch => 0)$$, '22023', 'batch must be from 1 to 1000000');
select throws_ok($$select pawl.prune_audit('t', '1 day')$$, '42704', 'the results of table public.t are not audited');
begin isolation level serializable;
select throws_ok($$select pawl.prune_log('t', '1 day')$$, '25001',
    'pawl.prune_log cannot run in isolation level serializable');
rollback;
select is((select count(*) from pawl.pruned_log), 0::bigint, 'nothing came of that');

-- For each way of keeping the log.
create function story(t regclass) returns void language plpgsql as $$ begin
    execute format('insert into %s select generate_series(1, 6)', t);
    execute format('update %s set state = ''running'' where id in (1, 2, 3, 4)', t);
    execute format('update %s set state = ''done'' where id in (1, 2, 3)', t);
    execute format('delete from %s where id in (3, 5)', t);
end $$;
create table stored (id int primary key, state text not null default 'ready');
create table derived (id int primary key, state text not null default 'ready');
create table chained (id int primary key, state text not null default 'ready');
select pawl.enforce('stored', 'state', 'job'), pawl.enable_log('stored', 'state', most_recent => 'stored'),
    pawl.enforce('derived', 'state', 'job'), pawl.enable_log('derived', 'state'),
       pawl.enforce('chained', 'state', 'job'), pawl.enable_log('chained', 'state', hash_chain => true) \g /dev/null
select story(x) from unnest(array['stored', 'derived', 'chained']::regclass[]) x \g /dev/null
create temp table logs as values ('stored'::regclass, 'stored_transitions'::regclass),
    ('derived', 'derived_transitions_log'), ('chained', 'chained_transitions_log');
select is((select array_agg(p.removed || ' ' || p.more) from logs, pawl.prune_log(column1, '1 hour') p),
    '{"0 false","0 false","0 false"}', 'what is young stays');
-- 1: done long ago. 2: done a moment ago. 3: deleted long ago. 4: open, its newest entry
-- old. 5: deleted from an open state, old. 6: new.
select age(column2, '{1,3,4,5}', '2 days') from logs where column1 <> 'chained'::regclass \g /dev/null
select is((select array_agg(p.removed || ' ' || p.more) from logs, pawl.prune_log(column1, '1 day') p
    where column1 <> 'chained'::regclass), '{"8 false","8 false"}', 'of what ended');
select is((select array_agg(distinct left_of(column2)) from logs where column1 <> 'chained'::regclass),
    '{"1:3 2:1,2,3 4:1,2 6:1"}', 'the newest entry of a row that is there stays, of a deleted one nothing');
select results_eq('select id, s.sort_key, to_state from stored_transitions_pruned s join stored on subject_id = id',
    $$values (1, 2, 'running')$$, 'where a log was cut is remembered');
select is((select count(*) from derived_transitions_log_pruned), 1::bigint, 'and only there');
select is_empty('select * from pawl.verify()', 'nothing is wrong with it');
select is((select array_agg(p.removed || ' ' || p.more)
        from logs, pawl.prune_log(column1, '1 day', only_terminal => false) p where column1 <> 'chained'::regclass),
    '{"1 false","1 false"}', 'of open rows too');
select is((select array_agg(distinct left_of(column2)) from logs where column1 <> 'chained'::regclass),
    '{"1:3 2:1,2,3 4:2 6:1"}', 'but for their newest entry');
select is((select array_agg(p.removed || ' ' || p.more)
        from logs, pawl.prune_log(column1, '1 day', only_terminal => false) p where column1 <> 'chained'::regclass),
    '{"0 false","0 false"}', 'and then nothing');
select is_empty('select * from pawl.verify()', 'nothing is wrong');

-- A log that was cut goes on.
update stored set state = 'ready' where id = 1;
update derived set state = 'ready' where id = 1;
insert into stored_transitions (subject_id, event) values (4, 'complete');
update derived set state = 'done' where id = 4;
insert into stored values (3), (5);
insert into derived values (3), (5);
select is((select array_agg(distinct left_of(column2)) from logs where column1 <> 'chained'::regclass),
    '{"1:3,4 2:1,2,3 3:1 4:2,3 5:1 6:1"}',
    'numbers go on from the newest entry; a row that comes back after all is gone begins at 1');
select results_eq($$select sort_key, from_state, to_state from pawl.history('derived', 4)$$,
    $$values (2, 'ready', 'running'), (3, 'running', 'done')$$, 'history begins at the cut');
select is(pawl.state_at('derived', 4, now() - interval '1 day'), 'running', 'state_at knows from there on');
select pawl.release('stored') \g /dev/null
select pawl.enforce('stored', 'state', 'job'), pawl.enable_log('stored', 'state', most_recent => 'stored') \g /dev/null
update stored set state = 'running' where id = 1;
select is_empty('select * from pawl.verify()', 'nothing is wrong');

-- A chain of hashes is anchored where it was cut.
select is((select removed from pawl.prune_log('chained', '0', only_terminal => false)), 11::bigint,
    'an age of nothing');
select is(left_of('chained_transitions_log'), '1:3 2:3 4:2 6:1', 'leaves the newest');
update chained set state = 'ready' where id in (1, 2);
insert into chained values (3);
select is_empty($$select * from pawl.verify('chained')$$, 'the chain holds over the cut');

-- Batches, and on from where the last call ended.
insert into t select n from generate_series(1, 3000) n;
update t set state = 'running';
update t set state = 'done';
select results_eq($$select p.* from generate_series(1, 6) n,
    lateral pawl.prune_log('t', '0', batch => 1000 + n * 0) p$$, $$values (1000::bigint, true), (1000, true),
    (1000, true), (1000, true), (1000, true), (1000, true)$$, 'so many a call');
select ok((select more is not null and removed = 0 from pawl.prune_log('t', '0', batch => 1000)),
    'until there is no more');
select is((select count(*) || ' ' || min(sort_key) from t_transitions), '3000 3', 'one is left of each');
select is((select count(*) from t_transitions_pruned where sort_key = 2), 3000::bigint, 'whose cut is known');
delete from t where id <= 2000;
select ok((select removed from pawl.prune_log('t', '0', batch => 7)) = 7,
    'a batch that ends in the middle of a subject');
select is_empty($$select * from pawl.verify('t')$$, 'leaves it whole');
select sum((pawl.prune_log('t', '0', batch => 1000)).removed) from generate_series(1, 10) \g /dev/null
select is((select count(*) || ' ' || count(distinct subject_id) from t_transitions), '1000 1000',
    'deleted rows leave nothing');
select is((select count(*) from t_transitions_pruned), 1000::bigint, 'a second pruning adds no anchors');
select is_empty($$select * from pawl.verify('t')$$, 'nothing is wrong');
begin;
select pawl.prune_log('t', '0') \g /dev/null
rollback;
select is((select next_block from pawl.pruned_log where log = 't_transitions'::regclass), 0::bigint,
    'a pass that came to the end begins at the beginning');

-- Clients cannot.
select throws_ok('delete from t_transitions', 'PW006', null, 'a DELETE by a client is rejected');
select throws_ok(s, 'PW006', 'table "t_transitions_pruned" is immutable', s)
    from unnest(array['delete from t_transitions_pruned', 'update t_transitions_pruned set sort_key = 9',
    'insert into t_transitions_pruned select * from t_transitions_pruned', 'truncate t_transitions_pruned']) s;
select throws_ok('drop table t_transitions_pruned', '2BP01',
    'the pruning state of log public.t_transitions cannot be dropped while the log exists');
create role pruning_reader; create role pruning_owner; create role pruning_admin in role pawl_admin;
grant select on t to pruning_reader;
grant all on t_transitions to pruning_reader;
set role pruning_reader;
select throws_ok($$select pawl.prune_log('t', '0')$$, '42501',
    'must be owner of table t_transitions, or a member of pawl_admin');
select throws_ok($$select pawl._prune('t_transitions', now(), true, 10)$$, '42501',
    'must be owner of table t_transitions, or a member of pawl_admin');
select throws_ok($$select pawl._prune_plan('t_transitions'::regclass, now(), true)$$, '42501', null,
    'what it is made of is of no use by itself');
select throws_ok($$update pawl.pruned_log set horizon = 'infinity'$$, '42501', null);
set role pruning_admin;
select lives_ok($$select pawl.prune_log('t', '0')$$, 'a member of pawl_admin may');
reset role;
create table owned (id int primary key, state text not null default 'ready');
select pawl.enforce('owned', 'state', 'job'), pawl.enable_log('owned', 'state', most_recent => 'stored') \g /dev/null
insert into owned values (1), (2);
alter table owned owner to pruning_owner; alter table owned_transitions owner to pruning_owner;
grant create on schema public to pruning_owner;
create table seen (role text); grant insert on seen to pruning_owner;
create function spy() returns trigger
    language plpgsql as $$ begin insert into public.seen values (current_user); return null; end $$;
create trigger spy after delete on owned_transitions for each statement execute function spy();
update owned set state = 'running';
select pawl.prune_log('owned', '0', only_terminal => false) \g /dev/null
select is((select array_agg(distinct role) from seen), '{pruning_owner}',
    'the owner''s triggers run with the owner''s rights');
select is((select tableowner from pg_tables where tablename = 'owned_transitions_pruned'), 'pruning_owner',
    'the table of pruned entries belongs to the owner of the table');
set role pruning_owner;
update owned set state = 'done';
select is((select removed from pawl.prune_log('owned', '0')), 2::bigint, 'the owner may');
reset role;

-- What was done by hand is told from what was pruned.
create function by_hand(log regclass, what text) returns text[] language plpgsql as $$ declare answer text[]; begin
    execute format('alter table %s disable trigger user', log);
    execute what;
    execute format('alter table %s enable trigger user', log);
    select array_agg(distinct key || ' ' || problem order by key || ' ' || problem) into answer
        from pawl.verify('chained');
    raise exception using errcode = 'P9999', message = coalesce(answer::text, 'nothing');
exception when sqlstate 'P9999' then return sqlerrm::text[]; end $$;
update chained set state = 'running'; update chained set state = 'ready'; update chained set state = 'running';
select is_empty($$select * from pawl.verify('chained')$$, 'nothing is wrong before');
select is(by_hand('chained_transitions_log',
        'delete from chained_transitions_log where subject_id = 1 and sort_key = 3'),
    '{"1 chain_broken","1 hash_mismatch","1 sort_key_gap"}', 'one entry more at the cut');
select is(by_hand('chained_transitions_log',
        'delete from chained_transitions_log where subject_id = 3 and sort_key = 1'),
    '{"3 chain_broken","3 hash_mismatch","3 sort_key_gap"}', 'a cut where none was made');
select is(by_hand('chained_transitions_log', 'delete from chained_transitions_log where subject_id = 2'),
    '{"2 end_missing","2 log_missing"}', 'a whole log');
select is(by_hand('chained_transitions_log', 'update chained_transitions_log set from_state = ''ready'' where '
    'subject_id = 1 and sort_key = 3'), '{"1 chain_broken","1 hash_mismatch","1 illegal_transition"}',
    'the first entry after the cut');
select is(by_hand('chained_transitions_log', 'update chained_transitions_log set processor = ''x'' where subject_id = '
    '1 and sort_key = 3'), '{"1 hash_mismatch"}', 'the processor of an entry');
select is(by_hand('chained_transitions_log_pruned', 'update chained_transitions_log_pruned set hash = '''' where '
    'subject_id = 1'), '{"1 hash_mismatch"}', 'the memory of the cut');
select is(by_hand('chained_transitions_log_pruned', 'delete from chained_transitions_log_pruned where subject_id = 1'),
    '{"1 chain_broken","1 hash_mismatch","1 sort_key_gap"}', 'verify finds a chain whose anchor was deleted by hand');

-- Audits have a retention of their own.
create table audited (id int primary key, state text not null default 'ready');
select pawl.enforce('audited', 'state', 'job'),
    pawl.enable_log('audited', 'state', most_recent => 'stored') \g /dev/null
select pawl.audit('audited', '{"done": true}') \g /dev/null
insert into audited select n from generate_series(1, 30) n;
update audited set state = 'running';
update audited set state = 'done';
delete from audited where id <= 10;
select pawl.prune_log('audited', '0') \g /dev/null
select is((select count(*) from audited_result_audit), 30::bigint, 'a result outlives its entry in the log');
select is((select count(*) from pawl.audit_of('audited', 3) where metadata is null and event is null), 1::bigint,
    'audit_of shows it without');
select is_empty($$select * from pawl.verify('audited')$$, 'verify knows that it was pruned');
insert into audited select n from generate_series(1, 10) n;
update audited set state = 'running' where id = 1;
update audited set state = 'done' where id = 1;
select is_empty($$select * from pawl.verify('audited')$$, 'also when the row is there again');
select results_eq($$select p.*
        from generate_series(1, 3) n, lateral pawl.prune_audit('audited', '0', batch => 20 + n * 0) p$$,
    $$values (20::bigint, true), (11, false), (0, false)$$, 'oldest first, so many a call');
select is_empty($$select * from pawl.verify('audited')$$, 'that is no gap');
select pawl.audit('audited', '{"done": true}') \g /dev/null
select is((select count(*) from audited_result_audit), 0::bigint, 'and is not filled again');
update audited set state = 'ready' where id = 1;
update audited set state = 'running' where id = 1;
update audited set state = 'done' where id = 1;
select is((select count(*) from audited_result_audit), 1::bigint, 'what comes is audited');
select pawl.prune_audit('audited', '1 hour') \g /dev/null
select is((select count(*) from audited_result_audit), 1::bigint, 'what is young stays');
set role pruning_reader;
select throws_ok($$select pawl.prune_audit('audited', '0')$$, '42501',
    'must be owner of table audited_result_audit, or a member of pawl_admin');
reset role;
alter table audited_result_audit disable trigger user;
delete from audited_result_audit;
alter table audited_result_audit enable trigger user;
select is((select array_agg(problem) from pawl.verify('audited')), '{audit_missing}',
    'what was removed by hand is missed');

-- Renames and drops.
alter table derived rename to elsewhere;
alter table elsewhere rename column id to no;
select lives_ok($$select pawl.prune_log('elsewhere', '0')$$, 'a log can be pruned after its table was renamed');
update elsewhere set state = 'ready' where state = 'done';
select is_empty($$select * from pawl.verify('elsewhere')$$, 'nothing is wrong');
select is_empty($$select * from pawl.health() where status not in ('ok', 'info')$$, 'all is in place');
drop table t;
drop table t_transitions;
select hasnt_table('t_transitions_pruned', 'what was known of a log goes with it');
select is((select count(*) from pawl.pruned_log where not exists (select from pg_class c where c.oid = log)), 0::bigint,
    'no row of pawl.pruned_log names a log that is gone');
select * from finish();
