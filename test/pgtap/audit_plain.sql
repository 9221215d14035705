-- Rows of an audit that are written without a statement are those that its statement writes, which fills an audit of a
-- log that has entries already; and where more happens to the row of an audit, that happens.
\set QUIET 1
set client_min_messages to error;
select no_plan();

select pawl.define('parcel', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> running : touch
    running --> checked : check
    checked --> done : complete
    running --> done : complete
    running --> failed : fail
    failed --> ready : retry
    ready --> done : skip
    done --> ready : reopen
    done --> [*]
    class running,checked owned$$),
    pawl.define('letter', $$stateDiagram-v2
    [*] --> ready
    ready --> sent : send
    sent --> done : arrive
    sent --> failed : fail
    done --> [*]$$) \g /dev/null
create table parcels (place text, id int, worker text, state text not null default 'ready', primary key (place, id));
create table letters (id int primary key, state text not null default 'ready');
select pawl.enforce('parcels', 'state', 'parcel'), pawl.enable_log('parcels', 'state'),
    pawl.enable_queue('parcels', owner => 'worker'), pawl.enforce('letters', 'state', 'letter'),
    pawl.enable_log('letters', 'state') \g /dev/null
select pawl.audit('parcels', '{"done": true, "failed": false}'),
    pawl.audit('letters', '{"done": true, "failed": false}')
    \g /dev/null
select isnt(p.audit_keys, null, format('rows of the audit of %s are written without its statement', b.relation))
    from pawl.audit_binding b cross join lateral pawl._audit_plan(b.log) p;

set pawl.processor = 'one';
insert into parcels select case when n % 2 = 0 then 'north' else 'South' end, n from generate_series(1, 600) n;
insert into letters select generate_series(1, 20);
update parcels set state = 'running' where id <= 580;
-- taken before, and written again while they are owned: whichever entry counts shows in milliseconds
select pg_sleep(0.02) \g /dev/null
set pawl.event = 'touch';
update parcels set state = 'running' where id between 100 and 200;
reset pawl.event;
-- the end of a batch is in the middle
update parcels set state = 'done' where id <= 540;
update letters set state = 'sent';
select pg_sleep(0.002) \g /dev/null
update letters set state = 'done' where id < 10;
update letters set state = 'failed' where id >= 10;
-- times that are given, wherever they stand
select throws_ok(format('update parcels set state = ''failed'' where id = 541'), '22023', null,
    'a time that is none: ' || m) from unnest(array['{"execution_time_ms": "7"}', '{"execution_time_ms": -1}']) m,
    set_config('pawl.metadata', m, false);
select is((select count(*) from (select set_config('pawl.metadata', m, false),
        pawl.fire('parcels', array[case when n % 2 = 0 then 'north' else 'South' end, (540 + n)::text], 'fail',
            m::jsonb) from unnest(array['{"execution_time_ms": 12.5}', '{"execution_time_ms": 0}',
            '{"metadata": {"execution_time_ms": 7.49}}', '{"result": {"execution_time_ms": 8}}',
            '{"result": {"metadata": {"execution_time_ms": 9e3}}}', '{"execution_time_ms": null}', '{"other": [1]}',
            '{"execution_time_ms": null, "result": {"execution_time_ms": 1.5}}']) with ordinality v(m, n)) f),
    8::bigint, 'times are given');
reset pawl.metadata;
-- several lives and turns, within one transaction and without an owner in between
update parcels set state = 'ready' where id between 541 and 548;
begin;
update parcels set state = 'running' where id between 541 and 548;
update parcels set state = 'checked' where id between 541 and 545;
update parcels set state = 'done' where id between 541 and 548;
commit;
update parcels set state = 'done' where id between 590 and 595;
update parcels set state = 'ready' where id between 590 and 595;
update parcels set state = 'done' where id between 590 and 592;
set pawl.events = '{start,check,complete}';
update parcels set state = 'done' where id in (596, 597);
reset pawl.events;
delete from parcels where id in (1, 596);
insert into parcels values ('South', 1), ('north', 596);
update parcels set state = 'done' where id in (1, 596);
set pawl.correlation_id = 'c';
reset pawl.processor;
update parcels set state = 'done' where id = 600;
reset pawl.correlation_id;

create function results(audit regclass) returns setof text language plpgsql as $$
begin
    return query execute format('select (to_jsonb(a) - ''audit_id'')::text from %s a', audit);
end$$;
create table written as select 'parcels' as of, r from results('parcels_result_audit') r
    union all select 'letters', r from results('letters_result_audit') r;
select is((select count(*) from written where of = 'parcels') > 560, true, 'there are results');
select is((select count(distinct audit_id) from parcels_result_audit),
    (select count(*) from parcels_result_audit), 'each has an id of its own');
select pawl.unaudit('parcels'), pawl.unaudit('letters') \g /dev/null
drop table parcels_result_audit, letters_result_audit;
select pawl.audit('parcels', '{"done": true, "failed": false}'),
    pawl.audit('letters', '{"done": true, "failed": false}')
    \g /dev/null
select bag_eq(format('select r from written where of = %L', t), format('select results(''%s_result_audit'')', t),
    format('the statement writes the same results of %s', t)) from unnest('{parcels,letters}'::text[]) t;

-- Where an owner has added something, the statement writes.
create table noticed (state text);
create function notice() returns trigger language plpgsql as $$
begin
    insert into public.noticed values (new.state);
    return null;
end$$;
create trigger notice after insert on letters_result_audit for each row execute function notice();
alter table parcels_result_audit add seen timestamptz default '2020-01-01';
select is(p.audit_keys, null, format('rows of the audit of %s are written by its statement', b.relation))
    from pawl.audit_binding b cross join lateral pawl._audit_plan(b.log) p;
insert into letters values (21);
update letters set state = 'sent' where id = 21;
update letters set state = 'done' where id = 21;
select is((select string_agg(n.state, ' ') from noticed n), 'done', 'a trigger of the audit fires');
update parcels set state = 'done' where id = 599;
select is((select a.seen from parcels_result_audit a order by a.recorded_at desc limit 1), '2020-01-01',
    'a column that was added has its default');
drop trigger notice on letters_result_audit;
select isnt(p.audit_keys, null, 'without it, it is as before')
    from pawl.audit_binding b cross join lateral pawl._audit_plan(b.log) p where b.relation = 'letters'::regclass;
insert into letters values (22);
update letters set state = 'sent' where id = 22;
update letters set state = 'failed' where id = 22;
select results_eq('select success, state from letters_result_audit where subject_id = 22', $$values (false, 'failed')$$,
    'and the session that saw the trigger writes on');
select is_empty($$select * from pawl.verify('letters')$$, 'nothing is wrong with it');
select * from finish();
