-- pawl.health and pawl.verify of the outbox, of consumers and of pauses.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create role pawl_checks_reader in role pawl_reader;
create role pawl_checks_gone in role pawl_worker;
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back
    b --> [*]$$) \g /dev/null
create table told (id int primary key, state text not null default 'a', queue text not null default 'mail', owner text,
    lease timestamptz);
create table bare (id int primary key, state text not null default 'a');
insert into told select generate_series(1, 3);
select pawl.enforce('told', 'state', 'm'), pawl.enable_log('told', 'state', hash_chain => true),
    pawl.enable_events('told', 'state') \g /dev/null
select pawl.enforce('bare', 'state', 'm'), pawl.enable_events('bare', 'state') \g /dev/null
create view checks as select check_name, status, detail, hint from pawl.health()
    where check_name in ('outbox', 'consumer', 'paused');

-- nothing is wrong
select results_eq('select check_name, status from checks', $$values ('outbox', 'ok')$$, 'an outbox without a consumer');
insert into told select generate_series(4, 8);
insert into bare select generate_series(1, 2);
update told set state = 'b' where id < 5;
delete from told where id = 8;
begin;
update told set state = 'a' where id = 1;
savepoint s;
update told set state = 'a' where id = 2;
rollback to s;
select is_empty('select * from pawl.verify()',
    'rows from before, moves, deletions, what is rolled back, the own transaction');
commit;
select is_empty('select * from pawl.verify()', 'and when it is committed');
select pawl.create_consumer('reader', 'beginning') \g /dev/null
select is((select count(*) from pawl.read_events('reader')), 13::bigint, 'all is read');
select is(pawl.prune_events(), 13::bigint, 'the thirteen events are pruned');
select is_empty('select * from pawl.verify()', 'entries whose events were pruned lack nothing');
update told set state = 'b' where id in (1, 6);
select is_empty('select * from pawl.verify()', 'nor do those that follow');

-- rows that are written to the outbox by hand
begin;
delete from pawl.outbox_1 where key = '{6}';
select results_eq('select relation, key, problem from pawl.verify() order by problem',
    $$values ('told'::regclass, '6', 'event_missing'),
        (null, 'transaction ' || (select txid from pawl.outbox_commit_1), 'outbox_differs')$$, 'an event that is gone');
select is((select count(*) from pawl.verify('told')), 1::bigint,
    'the outbox as a whole is not the matter of one table');
rollback;
begin;
delete from pawl.outbox_commit_1;
select results_eq('select problem, detail from pawl.verify()', $$values ('outbox_differs',
    '2 events have no position in the order of commits and cannot be read')$$, 'a transaction without a place');
rollback;
begin;
update pawl.outbox_1 set to_state = 'a', sort_key = 9 where key = '{6}';
select results_eq('select key, problem, detail from pawl.verify()', $$values ('6', 'event_differs',
    'sort_key 2: the event says a to a, number 9')$$, 'an event that tells something else');
rollback;
begin;
alter table told_transitions_log disable trigger user;
delete from told_transitions where subject_id = 6 and sort_key = 2;
select ok((select bool_or(problem = 'event_unfounded' and key = '6') from pawl.verify()),
    'an event whose entry is gone');
rollback;
select is_empty('select * from pawl.verify()', 'all is as it was');
select pawl.enforce('told', 'state', 'm') from pawl.release('told') \g /dev/null
select is_empty($$select * from pawl.verify() where problem ~ 'event'$$, 'a lifecycle without events');
select pawl.release('told') \g /dev/null
update told set state = 'a' where id = 2;
select throws_ok($$select pawl.enforce('told', 'state', 'm'), pawl.enable_log('told', 'state', hash_chain => true),
    pawl.enable_events('told', 'state')$$, '55000', null, 'the log would not agree');
update told set state = (select to_state from told_transitions l where l.subject_id = told.id and l.most_recent)
    where id in (select subject_id from told_transitions);
delete from told where id = 3;
select pawl.enforce('told', 'state', 'm'), pawl.enable_log('told', 'state', hash_chain => true),
    pawl.enable_events('told', 'state') \g /dev/null
select is_empty('select * from pawl.verify()', 'a log that is taken up again owes no events of what was before');

-- consumers
select results_eq('select check_name, status from checks', $$values ('outbox', 'ok'), ('consumer', 'ok')$$,
    'a consumer, not far behind');
update pawl.outbox_commit_1 set at = at - interval '2 hours';
select results_eq($$select status, detail ~ '^consumer "reader" is 2 events and 02:0[0-4]:[0-9]{2} behind$', hint
    from checks where check_name = 'consumer'$$,
    $$values ('warning', true,
        'select * from pawl.read_events(''reader''); if it is not needed: select pawl.drop_consumer(''reader'')')$$,
    'one that stands still');
set role pawl_checks_reader;
select results_eq($$select check_name, status from pawl.health() where check_name in ('outbox', 'consumer')$$,
    $$values ('outbox', 'ok')$$, 'other roles'' consumers are not shown');
select lives_ok('select * from pawl.verify()', 'a reader may verify');
reset role;
select pawl.prune_events('1 hour') \g /dev/null
select results_eq($$select status, detail from checks where check_name = 'consumer'$$,
    $$values ('warning', 'consumer "reader" has lost 2 events to retention, which it has not read yet')$$,
    'one that lost events');
select is((select count(*) from pawl.read_events('reader')), 1::bigint, 'it is reported');
select is((select status from checks where check_name = 'consumer'), 'ok', 'and goes on');
set role pawl_checks_gone;
select pawl.create_consumer('left over') \g /dev/null
reset role;
drop role pawl_checks_gone;
select results_eq($$select status, detail, hint from checks where detail ~ 'left over'$$,
    $$values ('warning', 'consumer "left over" belongs to role "pawl_checks_gone", which does not exist',
        'select pawl.drop_consumer(''left over'')')$$, 'one whose role is gone');
select pawl.drop_consumer('left over') \g /dev/null
select pawl.create_consumer('of bare', relations => '{bare}') \g /dev/null
select pawl.release('bare') \g /dev/null
select results_eq($$select status, detail from checks where detail ~ 'of bare'$$,
    $$values ('warning', 'consumer "of bare" reads only tables without events: public.bare')$$,
    'one that waits for nothing');
select pawl.drop_consumer('of bare') \g /dev/null

-- pauses
select pawl.define('work', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : crash
    done --> [*]
    class running owned$$) \g /dev/null
create table job (id int primary key, state text not null default 'ready', queue text not null default 'mail',
    owner text, lease timestamptz);
select pawl.enforce('job', 'state', 'work'),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', queue => 'queue'),
    pawl.set_claiming('job', 'state', claim => '{start}', on_expiry => 'crash') \g /dev/null
select pawl.pause('job', 'mail', reason => 'relay is down') \g /dev/null
select pawl.pause('job', until => now() + interval '1 hour') \g /dev/null
select results_eq($$select status, detail ~ '^(all claims are paused since .*, until .*|queue "mail" is paused since '
    '.*: relay is down)$', hint from checks where check_name = 'paused'$$,
    $$values ('info', true, 'select pawl.resume(''public.job'', state_column => ''state'')'),
        ('info', true, 'select pawl.resume(''public.job'', ''mail'', state_column => ''state'')')$$,
    'pauses are reported');
create temp table hints as select hint from checks where check_name = 'paused';
do $$ declare h text; begin for h in select hint from hints loop execute h; end loop; end $$;
select is_empty($$select * from checks where check_name = 'paused'$$, 'their hints can be pasted');
set session_replication_role = replica;
insert into pawl.paused values ('told', 'nothing', null);
reset session_replication_role;
select results_eq($$select status, detail from checks where check_name = 'paused'$$,
    $$values ('warning', 'claims are paused where no machine is enforced')$$, 'a pause of nothing');
do $$ begin execute (select hint from checks where check_name = 'paused'); end $$;
select is_empty($$select * from checks where check_name = 'paused'$$, 'the check "paused" is gone after resuming');
-- what verify reads grows with the log, not with its square: also where nothing is known of the size of anything
create table many (id int primary key, state text not null default 'a') with (autovacuum_enabled = off);
select pawl.enforce('many', 'state', 'm'), pawl.enable_log('many', 'state'),
    pawl.enable_events('many', 'state') \g /dev/null
alter table many_transitions_log set (autovacuum_enabled = off);
insert into many select generate_series(1, 2000);
create function pages_of_verify() returns bigint language plpgsql as $$
declare told json;
begin
    execute 'explain (analyze, buffers, timing off, format json) select * from pawl.verify(''many'')' into told;
    return (told -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint
        + (told -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
end $$;
select pages_of_verify() as pages \gset
\echo # :pages pages
select ok(:pages
    between 100 and 10
        * (pg_relation_size('many') + pg_relation_size('many_transitions') + pg_relation_size('pawl.outbox_1')
            + pg_relation_size('pawl.outbox_2')
    + pg_relation_size('pawl.outbox_3')) / 8192 + 2000, 'verify reads the events of a log a few times over');
select is_empty($$select * from pawl.health() where status in ('error', 'warning')$$, 'all is well in the end');
select * from finish();
