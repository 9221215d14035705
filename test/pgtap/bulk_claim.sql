-- What a claim returns of a row, whether rows are read as neighbours or one by one.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk;
create function submitted(definition text, variadic xs text[]) returns uuid language plpgsql as $$
declare o uuid;
begin
    if definition = 'plain' then
        select s.operation into o from pawl_bulk.submit(definition, metadata => '{"by": "json"}',
            rows => (select jsonb_agg(jsonb_build_object('x', x) order by n)
                from unnest(xs) with ordinality u(x, n))) s;
    else
        select s.operation into o from pawl_bulk.submit(definition, metadata => '{"by": "csv"}', format => 'csv',
            dialect => '{"delimiter": ";", "quote": "!"}') s;
        insert into pawl_bulk.input (operation, raw) select o, 'x;y';
        insert into pawl_bulk.input (operation, raw) select o, x || ';!a;b!' from unnest(xs) x;
        perform pawl_bulk.seal(o);
    end if;
    for turn in 1 .. 20 loop
        exit when (select done from pawl_bulk.advance()) = 0;
    end loop;
    return o;
end $$;
create temporary table got as select * from pawl_bulk.claim('w') with ordinality;
-- Claimed rows that differ from what the tables say of them, with the data that they should have.
create function wrong() returns setof text language sql as $$
    select g.row_number || ': ' || g.data from got g
      left join pawl_bulk.records r using (operation, row_number, step_index)
      left join pawl_bulk.work w using (operation, row_number, step_index)
      left join pawl_bulk.operations o using (operation)
      left join pawl_bulk.validations v using (operation, row_number)
     where (g.step_name, g.kind, g.token, g.attempt, g.tries, g.idempotency_key, g.row_id, g.metadata, g.lease_until,
            g.traceparent) is distinct from ('s' || r.step_index, w.kind, w.token, r.retry_attempt, r.tries,
        r.operation || '/' || r.row_number || '/' || r.step_index || '/' || r.retry_attempt, v.row_id, o.metadata,
        w.lease_until, o.traceparent) or g.data is distinct from pawl_bulk.row_data(g.operation, g.row_number)
        or w.worker <> 'w'
$$;
create function claimed(batch integer, queue text default 'hands') returns text language plpgsql as $$
begin
    delete from got;
    insert into got select * from pawl_bulk.claim('w', queue, batch) with ordinality;
    return (select string_agg(row_number || ' ' || (data ->> 'x'), ', ' order by ordinality) from got);
end $$;

select pawl_bulk.define('{"name": "plain", "row_id": "x", "max_input_bytes": 0, "steps": [{"name": "s0", "handler":
    "hands"}, {"name": "s1", "handler": "others"}]}') is not null as ok;
select pawl_bulk.define('{"name": "table", "row_id": "x", "max_input_bytes": 0, "steps": [{"name": "s0", "handler":
    "cells", "max_retries": 3, "backoff": {"base": "1 ms", "jitter": 0}}]}') is not null as ok;

set pawl.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
select submitted('plain', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l',
    'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v') as o \gset
reset pawl.traceparent;
select is(claimed(6), '1 a, 2 b, 3 c, 4 d, 5 e, 6 f', 'the first rows are claimed in their order');
select is_empty('select wrong()', 'with what belongs to them');
select is((select count(*) from got where traceparent like '00-4bf92f%'), 6::bigint, 'in the trace of the operation');
select is((select string_agg(row_number || ' ' || ok, ', ' order by row_number) from pawl_bulk.report((select
    jsonb_agg(jsonb_build_object('operation', operation, 'row_number', row_number, 'step_index', step_index, 'token',
    token, 'result', 'ok')) from got), 'w')), '1 true, 2 true, 3 true, 4 true, 5 true, 6 true', 'they are reported');
begin;
select claimed(5, 'others') as claimed \gset
select is(current_setting('enable_nestloop'), 'on', 'a claim leaves the planner as it was');
commit;
select is(:'claimed'::text, '1 a, 2 b, 3 c, 4 d, 5 e', 'they go on to the next step');
select is_empty('select wrong()', 'whose rows are those of this step');

select is((select string_agg(row_number::text, ',') from pawl_bulk.claim('gone', 'hands', 1)), '7', 'a row is taken');
select is((select count(*) from pawl_bulk.claim('kept', 'hands', 11)), 11::bigint, 'and those behind it');
select pawl.abandon('pawl_bulk.work', 'gone') > 0 as ok;
select is(claimed(5), '7 g, 19 s, 20 t, 21 u, 22 v', 'rows with a gap between them');
select is_empty('select wrong()', 'have what belongs to them');
select is(claimed(2), null, 'nothing is left');
select is((select count(*) from got), 0::bigint, 'then there are no rows');

select submitted('table', 'm', 'n', 'o', 'p', 'q') as c \gset
select is(claimed(5, 'cells'), '1 m, 2 n, 3 o, 4 p, 5 q', 'rows of a CSV file');
select is_empty('select wrong()', 'have the cells that the dialect says');
select is((select string_agg(distinct data ->> 'y', ',') from got), 'a;b', 'with its quotes');
select is((select count(*) from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', operation,
    'row_number', row_number, 'step_index', step_index, 'token', token, 'result', 'fail')) from got), 'w') where ok),
    5::bigint, 'a try fails');
select pg_sleep(0.02) is null as ok;
delete from pawl_bulk.input where operation = :'c' and row_number = 2;
select is(claimed(5, 'cells'), '1 m, 3 o, 4 p, 5 q', 'the rows are claimed again');
select is((select string_agg(row_number || ' ' || tries || ' ' || (data is null), ', ' order by row_number) from got),
    '1 1 false, 2 1 true, 3 1 false, 4 1 false, 5 1 false',
    'one of them has lost its input, and all know of their tries');
select is_empty('select wrong()', 'and have what belongs to them');

select submitted('plain', 'p', 'q') as p \gset
select submitted('plain', 'r', 's', 't', 'u') as r \gset
select is(claimed(10, null), '6 f, 1 p, 2 q, 1 r, 2 s, 3 t, 4 u', 'rows of several operations and steps');
select is_empty('select wrong()', 'have what belongs to them');
select is((select count(distinct (operation, step_index)) from got), 3::bigint, 'each of its own operation');

-- Reports of neighbours are read in order; what belongs to another worker between them stays as it is.
select submitted('plain', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j') as n \gset
create temporary table mine as select * from pawl_bulk.claim('w', 'none', 1);
create temporary table theirs as select * from mine;
do $$ begin
    for pair in 1 .. 5 loop
        insert into mine select * from pawl_bulk.claim('w', 'hands', 1);
        insert into theirs select * from pawl_bulk.claim('other', 'hands', 1);
    end loop;
end $$;
create function said(worker text, result text, which bigint[]) returns text language sql as $$
    select string_agg(row_number || ' ' || coalesce(problem, 'ok'), ', ' order by row_number)
      from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', m.operation, 'row_number', m.row_number,
          'step_index', m.step_index, 'token', m.token, 'result', said.result) order by m.row_number desc)
          from (select * from mine union all select * from theirs) m where m.row_number = any (which)), worker)
$$;
create function rows_of(operation uuid) returns text language sql as $$
    select string_agg(concat_ws(' ', r.row_number, r.step_index, r.state, w.worker), ', '
        order by r.row_number, r.step_index)
      from pawl_bulk.records r left join pawl_bulk.work w using (operation, row_number, step_index)
     where r.operation = rows_of.operation and (r.step_index = 0 or r.state <> 'Pending')
$$;
select is((select string_agg(row_number::text, ',') from mine), '1,3,5,7,9', 'every other row is claimed');
select is(rows_of(:'n'), '1 0 Running w, 2 0 Running other, 3 0 Running w, 4 0 Running other, 5 0 Running w, '
    '6 0 Running other, 7 0 Running w, 8 0 Running other, 9 0 Running w, 10 0 Running other', 'and begins alone');
create table public.statements (n integer generated always as identity);
create function counted() returns trigger language plpgsql as $$
begin
    insert into public.statements default values;
    return null;
end $$;
create trigger counted after update on pawl_bulk.records for each statement execute function counted();
select is(said('w', 'ok', '{1,3,5}'), '1 ok, 3 ok, 5 ok', 'every other row is reported');
select is((select count(*) from public.statements), 1::bigint, 'all of them in one statement');
drop trigger counted on pawl_bulk.records;
select is(rows_of(:'n'), '1 0 Completed, 2 0 Running other, 3 0 Completed, 4 0 Running other, 5 0 Completed, '
    '6 0 Running other, 7 0 Running w, 8 0 Running other, 9 0 Running w, 10 0 Running other', 'and ends alone');
select is((select string_agg(row_number::text, ',' order by row_number) from pawl_bulk.work
    where operation = :'n' and step_index = 1), '1,3,5', 'and goes on alone');
select is(said('other', 'ok', '{1,2,3,4}'), '1 PW005: the lease is lost, or the row is already done, 2 ok, '
    '3 PW005: the lease is lost, or the row is already done, 4 ok', 'work that is gone spares its neighbours');
select is(said('w', 'fail', '{6,7,8}'), '6 PW005: the lease is lost, or the row is already done, 7 ok, '
    '8 PW005: the lease is lost, or the row is already done', 'so does that of another worker');
select is(said('other', 'ok', '{6,8,10}'), '6 ok, 8 ok, 10 ok', 'the other worker has the rest');
select is(said('w', 'ok', '{9}'), '9 ok', 'and one is left');
select is(rows_of(:'n'), '1 0 Completed, 2 0 Completed, 3 0 Completed, 4 0 Completed, 5 0 Completed, '
    '6 0 Completed, 7 0 Failed, 8 0 Completed, 9 0 Completed, 10 0 Completed', 'each row has its own result');
select is_empty('select * from pawl_bulk.verify()', 'nothing is left behind');
-- Rows that end in several states, or at several steps, in one statement.
select is(claimed(20, 'others') is not null, true, 'the next step is claimed');
set pawl.processor = 'w';
select lives_ok(format($$update pawl_bulk.records r set state = case when r.row_number %% 2 = 0 then 'Completed' else
    'Failed' end, tries = r.tries + 1 where r.operation = %L and r.step_index = 1$$, :'n'), 'rows end in two states');
reset pawl.processor;
select is((select string_agg(distinct concat_ws(' ', r.row_number % 2 = 0, r.state), ', ') from pawl_bulk.records r
    where r.operation = :'n' and r.step_index = 1), 'f Failed, t Completed', 'as the statement says');
select is((select count(*) from pawl_bulk.work where operation = :'n'), 0::bigint, 'and their work is deleted');
select is_empty('select * from pawl_bulk.verify()', 'with nothing else');

-- A row that is not due between those that are claimed.
select submitted('plain', 'a', 'b', 'c', 'd') as d \gset
update pawl_bulk.work set due = clock_timestamp() + interval '1 hour' where operation = :'d' and row_number = 2;
select is(claimed(10), '1 a, 3 c, 4 d', 'rows beside one that is not due are claimed');
select is(rows_of(:'d'), '1 0 Running w, 2 0 Pending, 3 0 Running w, 4 0 Running w', 'and that one does not begin');
select throws_like(format($$insert into pawl_bulk.records (operation, row_number, step_index)
    select %L, g, 1 from generate_series(1, 4) g$$, :'d'), 'row % of operation % is not at step 1',
    'rows whose step is not completed do not go on');

-- Work that is inserted by hand, as the owner of the tables.
select submitted('plain', 'a', 'b', 'c') as e \gset
select claimed(2) \g /dev/null
select report.ok from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', operation, 'row_number',
    row_number, 'step_index', step_index, 'token', token, 'result', 'ok')) from pawl_bulk.work
    where operation = :'e' and row_number = 2 and worker is not null), 'w') report \g /dev/null
delete from pawl_bulk.work where operation = :'e' and step_index = 0;
select throws_like(format($$insert into pawl_bulk.work (operation, row_number, step_index, queue)
    select %L, g, 0, 'hands' from generate_series(1, 3) g$$, :'e'), 'there is no work for row 2 of operation %',
    'rows without a gap have no work if the record of one has ended');
select lives_ok(format($$insert into pawl_bulk.work (operation, row_number, step_index, queue)
    values (%L, 1, 0, 'hands'), (%L, 3, 0, 'hands')$$, :'e', :'e'), 'those beside it have');
select pawl_bulk.cancel(:'e') \g /dev/null

-- Results of plain SQL, and tries that are left.
select submitted('plain', 'a', 'b', 'c') as o \gset
select claimed(1), (select count(*) from pawl_bulk.claim('other', 'hands', 1)), claimed(1);
begin;
set local pawl.processor = 'w';
select lives_ok(format($$update pawl_bulk.records set state = 'Completed', tries = tries + 1 where operation = %L and
    row_number in (1, 3)$$, :'o'), 'rows beside one of another worker end by plain SQL');
commit;
select is(rows_of(:'o'), '1 0 Completed, 2 0 Running other, 3 0 Completed', 'which leaves that one alone');
select submitted('table', 'm', 'n', 'o') as t \gset
select is(claimed(5, 'cells'), '1 m, 2 n, 3 o', 'neighbours are claimed');
select is((select string_agg(row_number || ' ' || ok, ', ' order by row_number) from pawl_bulk.report((select
    jsonb_agg(jsonb_build_object('operation', operation, 'row_number', row_number, 'step_index', step_index, 'token',
    token, 'result', case row_number when 2 then 'fail' else 'ok' end)) from got), 'w')), '1 true, 2 true, 3 true',
    'one try of them fails');
select is(rows_of(:'t'), '1 0 Completed, 2 0 Running, 3 0 Completed', 'and its row is tried again');
select is((select count(*) from pawl_bulk.work where operation = :'t' and state = 'ready'), 1::bigint,
    'with the work that it has');
set pawl.processor = 'other';
select throws_ok(format($$update pawl_bulk.records set state = 'WaitingForCompletion' where operation = %L and
    row_number = 2$$, :'o'), 'PW003', 'row 2 cannot wait: its step is synchronous',
    'a row of a synchronous step does not wait');
reset pawl.processor;

-- Five rows or more: the work of all of them is deleted at once.
select submitted('plain', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h') as k \gset
truncate mine, theirs;
insert into mine select * from pawl_bulk.claim('w', 'hands', 10) where operation = :'k';
select is(said('w', 'ok', '{1,2,3,5,6,7}'), '1 ok, 2 ok, 3 ok, 5 ok, 6 ok, 7 ok', 'most claimed rows are reported');
select is(rows_of(:'k'), '1 0 Completed, 2 0 Completed, 3 0 Completed, 4 0 Running w, 5 0 Completed, 6 0 Completed, '
    '7 0 Completed, 8 0 Running w', 'and those between them stay with their worker');
select is_empty('select * from pawl_bulk.verify()', 'with their work');
select submitted('table', 'm', 'n', 'o', 'p', 'q', 'r') as u \gset
truncate mine;
insert into mine select * from pawl_bulk.claim('w', 'cells', 10) where operation = :'u';
select is((select count(*) from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', operation,
    'row_number', row_number, 'step_index', step_index, 'token', token, 'result', case row_number when 2 then 'fail'
    else 'ok' end)) from mine), 'w') where ok), 6::bigint, 'one try of six fails');
select is(rows_of(:'u'), '1 0 Completed, 2 0 Running, 3 0 Completed, 4 0 Completed, 5 0 Completed, 6 0 Completed',
    'and its row is tried again');
select is((select count(*) from pawl_bulk.work where operation = :'u'), 1::bigint, 'with the work that it has');
select throws_like(format($$update pawl_bulk.records set state = 'Failed', error_type = 'StepFailure' where operation =
    %L and state = 'Running'$$, :'u'), 'row 2 at step 0 is not claimed by %', 'a row that waits is ended by none');
select finish();
