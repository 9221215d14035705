-- Work that a pause holds, and what pawl_bulk.verify finds of it.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk;
select pawl_bulk.define('{"name": "plain", "steps": [{"name": "a", "handler": "hands"},
    {"name": "b", "handler": "hands"}]}') is not null as ok;
create function begun(definition text, rows integer) returns uuid language plpgsql as $$
declare o uuid;
begin
    select s.operation into o from pawl_bulk.submit(definition,
        rows => (select jsonb_agg(jsonb_build_object('x', x)) from generate_series(1, begun.rows) x)) s;
    for turn in 1 .. 20 loop
        exit when (select done from pawl_bulk.advance()) = 0;
    end loop;
    return o;
end $$;
create function all_work(o uuid) returns text language sql as $$
    select string_agg(concat_ws(' ', row_number, step_index, state, held), ', ' order by row_number, step_index)
      from pawl_bulk.work where operation = o $$;

-- A function that pauses the operation of its block holds the rest of the block.
create function pausing(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language plpgsql as
$$ begin perform pawl_bulk.pause(operation); end $$;
select pawl_bulk.define('{"name": "pausing", "steps": [{"name": "a", "handler": "sql:public.pausing"},
    {"name": "b", "handler": "hands"}]}') is not null as ok;
select begun('pausing', 5) as o \gset
select is((select done from pawl_bulk.run_sql_rows(2)), 2::bigint, 'a function runs two rows and pauses');
select is(all_work(:'o'), '1 1 ready t, 2 1 ready t, 3 -1 ready t', 'the rest of the block is held');
select is((select done from pawl_bulk.run_sql_rows(2)), 0::bigint, 'and does not run');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'nothing is wrong in the pause');
select pawl_bulk.resume(:'o') as ok;
select is(all_work(:'o'), '1 1 ready f, 2 1 ready f, 3 -1 ready f', 'until the operation is resumed');
select pawl_bulk.cancel(:'o') as ok;

-- A row of it that failed is held with the others, and tried again.
create function failing(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language plpgsql as
$$ begin
    perform pawl_bulk.pause(operation);
    return query select 1::bigint, 'bad' where 1 = any (row_numbers);
end $$;
select pawl_bulk.define('{"name": "failing", "steps": [{"name": "a", "handler": "hands"},
    {"name": "b", "handler": "sql:public.failing", "max_retries": 1}]}') is not null as ok;
select begun('failing', 2) as o \gset
select count(*) = 2 as ok from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', operation,
    'row_number', row_number, 'step_index', step_index, 'token', token, 'result', 'ok'))
    from pawl_bulk.claim('w', 'hands')), 'w');
select is((select done from pawl_bulk.run_sql_rows()), 2::bigint, 'a function pauses, and a row of it fails');
select is((select string_agg(concat_ws(' ', row_number, state, tries, error_message), ', ' order by row_number)
    from pawl_bulk.records where operation = :'o' and step_index = 1), '1 Running 1 bad, 2 Completed 1',
    'the row has a try left');
select is(all_work(:'o'), '1 1 ready t', 'for which it is held');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'nothing is wrong with it');
select pawl_bulk.resume(:'o') as ok;
select is((select done from pawl_bulk.run_sql_rows()), 1::bigint, 'it is tried again when the operation is resumed');
select is((select string_agg(concat_ws(' ', row_number, state, tries, error_message), ', ' order by row_number)
    from pawl_bulk.records where operation = :'o' and step_index = 1), '1 Failed 2 bad, 2 Completed 1',
    'and fails with its own error');

-- A row that cannot be held ends the pause with an error, not never.
create function suppresses() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger suppresses before update on pawl_bulk.work for each row when (new.row_number > 1 and new.held)
    execute function suppresses();
select begun('plain', 3) as o \gset
set statement_timeout = '20 s';
select throws_ok(format('select pawl_bulk.pause(%L)', :'o'), '55000', format('row 2 of operation %s cannot be held',
    :'o'), 'a trigger that suppresses the change is found');
reset statement_timeout;
drop trigger suppresses on pawl_bulk.work;
select is(pawl_bulk.pause(:'o'), true, 'without it the operation is paused');
select is(all_work(:'o'), '1 0 ready t, 2 0 ready t, 3 0 ready t', 'and all of its work is held');
select pawl_bulk.cancel(:'o') as ok;

-- What is wrong is found.
create function found(o uuid) returns text language sql as $$
    select string_agg(problem || ': ' || detail, ', ' order by problem, detail) from pawl_bulk.verify(o) $$;
select begun('plain', 2) as o \gset
begin;
set local session_replication_role = replica;
update pawl_bulk.work set held = true where operation = :'o' and row_number = 1;
commit;
select is(found(:'o'), 'held without a pause: row 1 step 0', 'work that is held though its operation is not paused');
begin;
set local session_replication_role = replica;
update pawl_bulk.operations set paused_at = now() where operation = :'o';
commit;
select is(found(:'o'), 'not held in a pause: row 2 step 0 ready', 'work that is not held though it is paused');
begin;
set local session_replication_role = replica;
update pawl_bulk.operations set paused_at = null where operation = :'o';
update pawl_bulk.work set held = false where operation = :'o';
update pawl_bulk.records set state = 'Completed' where operation = :'o' and row_number = 2;
delete from pawl_bulk.work where operation = :'o' and row_number = 2;
commit;
select is(found(:'o'), 'step missing: row 2 step 1', 'and a row that did not go on');
select finish();
