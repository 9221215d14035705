-- Rows that a SQL function begins with are work in blocks: their records are made when it
-- runs, whatever happens in between.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk;
create table called (row_number bigint, n int);
grant insert, select on called to pawl_operator;
create function worked(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language plpgsql as
$$ begin
    insert into public.called select u.n, cardinality(row_numbers) from unnest(row_numbers) u(n);
    return query select u.n, 'bad ' || (r ->> 'x') from unnest(row_numbers, rows) u(n, r)
                  where r ->> 'x' = 'bad' or r ->> 'x' = 'once'
                      and (select count(*) from public.called c where c.row_number = u.n) = 1;
end $$;
create function checked(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, code text, message text) language sql as
$$ select n, 'x', 'invalid' from unnest(row_numbers, rows) u(n, r) where r ->> 'x' = 'invalid' $$;
select pawl_bulk.define(
        '{"name": "blocks", "validators": ["public.checked"], "track_row_data": true, "is_retryable": true, "steps": [
    {"name": "a", "handler": "sql:public.worked"}, {"name": "b", "handler": "sql:public.worked", "max_retries": 1,
        "backoff": {"base": "0 s"}}]}') is not null as ok;
select pawl_bulk.define(
        '{"name": "again", "validators": ["public.checked"], "track_row_data": true, "is_retryable": true, "steps": [
    {"name": "a", "handler": "sql:public.worked", "max_retries": 2, "backoff": {"base": "1 hour", "cap": "1 hour"},
        "run_timeout": "1 hour"}]}') is not null as ok;
create function begun(definition text, xs text[]) returns uuid language plpgsql as $$
declare o uuid;
begin
    select s.operation into o from pawl_bulk.submit(definition,
        rows => (select jsonb_agg(jsonb_build_object('x', x) order by n) from unnest(xs) with ordinality u(x, n))) s;
    while (select status from pawl_bulk.operations where operation = o) in ('Pending', 'Validating') loop
        perform from pawl_bulk.advance(3);
    end loop;
    perform from pawl_bulk.advance(4);
    perform from pawl_bulk.advance(4);
    return o;
end $$;
create procedure run(batch int) language plpgsql as $$
begin
    for turn in 1 .. 100 loop
        exit when (select done from pawl_bulk.advance()) + (select done
            from pawl_bulk.run_sql_rows(batch)) + (select done from pawl.fire_due('pawl_bulk.work')) = 0;
    end loop;
end $$;
create function work_of(o uuid) returns text language sql as
$$ select string_agg(kind || ' ' || row_number || coalesce('-' || last_row, '') || '/' || step_index
            || case when held then ' held' else '' end, ', '
    order by row_number, step_index) from pawl_bulk.work where operation = o $$;
create function records_of(o uuid) returns text language sql as
$$ select string_agg(row_number || '/' || step_index || ' ' || state, ', '
    order by row_number, step_index) from pawl_bulk.records where operation = o $$;

select begun('blocks', '{a,b,invalid,d,e,f,bad,h}') as o \gset
select is(work_of(:'o'), 'rows 1-4/-1, rows 5-8/-1',
    'valid rows are laid out in blocks, as far as the batches of the duty reach');
select is(records_of(:'o'), null, 'and have no records yet');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'which is as it should be');
select is_empty($$select * from pawl_bulk.claim('w', null, 10)$$,
    'a claim from all queues leaves out rows whose handler is a SQL function');
select throws_ok($$select * from pawl_bulk.claim('w', 'sql:', 10)$$, '22023', null, 'nor by its name');
select pawl_bulk.pause(:'o') as ok;
select is(work_of(:'o'), 'rows 1-4/-1 held, rows 5-8/-1 held', 'a pause holds blocks');
select is((select done from pawl_bulk.run_sql_rows()), 0::bigint, 'nothing of them begins');
select pawl_bulk.resume(:'o') as ok;
set role pawl_operator;
select is((select done from pawl_bulk.run_sql_rows(2)), 2::bigint,
    'an operator begins as many rows of a block as were asked for');
reset role;
select is(records_of(:'o'), '1/0 Completed, 1/1 Pending, 2/0 Completed, 2/1 Pending',
    'whose records are made and moved on at once');
select is(work_of(:'o'), 'start 1/1, start 2/1, rows 3-4/-1, rows 5-8/-1',
    'the rest stays a block; the next step has work of its own');
select is((select array_agg(to_state order by sort_key) from pawl_bulk.record_transitions
    where operation = :'o' and row_number = 1 and step_index = 0), '{Pending,Running,Completed}', 'with the whole log');
insert into pawl_bulk.records (operation, row_number, step_index) values (:'o', 6, 0);
select is(work_of(:'o'), 'start 1/1, start 2/1, rows 3-4/-1, rows 5-8/-1',
    'a record that is made by hand in a block is work of the block');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'and nothing is wrong with it');
call run(3);
select is((select status || ' ' || total_rows || '/' || successful_rows || '/' || failed_rows from pawl_bulk.status
    where operation = :'o'), 'CompletedWithErrors 8/6/2', 'the operation ends with all its rows');
select is((select string_agg(row_number || ' ' || error_type || ' ' || message, ', ' order by row_number)
        from pawl_bulk.errors where operation = :'o'),
    '3 Validation invalid, 7 StepFailure bad bad', 'with the errors of each');
select is((select count(*) from called where row_number = 6), 2::bigint, 'a record made by hand ran once a step');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'nothing is left');
select is((select submitted from pawl_bulk.retry(:'o')), 1::bigint, 'what failed is retried');
select is(work_of(:'o'), 'start 7/0 held', 'with work of its own');
call run(10);
select is((select status from pawl_bulk.status where operation = :'o'), 'CompletedWithErrors', 'and fails again');

truncate called;
select begun('again', '{once,bad,c,once,e}') as o \gset
select is((select done from pawl_bulk.run_sql_rows(4)), 4::bigint, 'rows of a block that fail');
select is((select string_agg(kind || ' ' || row_number || '/' || step_index || ' ' || (deadline_at > now()) || ' '
            || (due is not null), ', ' order by row_number)
             from pawl_bulk.work where operation = :'o' and kind = 'start'),
    'start 1/0 true true, start 2/0 true true, start 4/0 true true',
    'get work of their own, with the time that the attempt has left, and wait for their next try');
select is((select string_agg(row_number || ' ' || state || ' ' || tries, ', ' order by row_number)
        from pawl_bulk.records where operation = :'o'),
    '1 Running 1, 2 Running 1, 3 Completed 1, 4 Running 1', 'their tries are counted');
create procedure try_all() language plpgsql as $$
begin
    for turn in 1 .. 5 loop
        update pawl_bulk.work set due = null where due is not null;
        call run(10);
    end loop;
end $$;
call try_all();
select is((select string_agg(row_number || ' ' || state || ' ' || tries, ', ' order by row_number)
        from pawl_bulk.records where operation = :'o'),
    '1 Completed 2, 2 Failed 3, 3 Completed 1, 4 Completed 2, 5 Completed 1',
    'rows of a divided block have their states and tries');
select is((select status from pawl_bulk.status where operation = :'o'), 'CompletedWithErrors', 'the operation ends');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'nothing is left of them');

select begun('blocks', '{a,b,c,d,e,f}') as o \gset
insert into pawl_bulk.records (operation, row_number, step_index) values (:'o', 2, 0);
select pawl_bulk.cancel(:'o') as ok;
select is(work_of(:'o'), null, 'a cancelled operation has no blocks');
select is(records_of(:'o'), '2/0 Cancelled', 'and what was begun of them by hand is cancelled');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'nothing is left of it');

select begun('blocks', '{a,b,c}') as o, begun('blocks', '{a,b,c}') as p \gset
select throws_like(format('insert into pawl_bulk.records (operation, row_number, step_index) values (%L, 1, 0), '
    '(%L, 9, 0)', :'o', :'p'), format('row 9 of operation %s is not at step 0', :'p'),
    'of the rows of two operations in one statement one is not valid');
select throws_like(format('insert into pawl_bulk.records (operation, row_number, step_index) values (%L, 1, 0), '
    '(%L, 1, 7)', :'o', :'p'), format('operation %s accepts no record of step 7', :'p'), 'or has no such step');
insert into pawl_bulk.records (operation, row_number, step_index) values (:'o', 1, 0), (:'p', 3, 0);
call run(10);
select is((select string_agg(status, ' ') from pawl_bulk.status where operation in (:'o', :'p')),
    'Completed Completed', 'records of two operations begin in one statement');

select begun('blocks', '{a,b,c,d}') as o \gset
delete from pawl_bulk.work where operation = :'o';
select is((select string_agg(problem || ' ' || detail, ', ' order by detail) from pawl_bulk.verify(:'o')),
    'valid row without record or block row 1, valid row without record or block row 2, valid row without record or '
    'block row 3, valid row without record or block row 4',
    'verify finds rows that no worker will reach');
select throws_ok(
            format($$insert into pawl_bulk.work (operation, row_number, step_index, kind, queue)
                values (%L, 1, -1, 'rows', 'sql:')$$, :'o'),
    '23514', null, 'a block says where it ends');
insert into pawl_bulk.work (operation, row_number, step_index, kind, queue, last_row)
    values (:'o', 1, -1, 'rows', 'sql:', 4);
call run(10);
select is((select status from pawl_bulk.status where operation = :'o'), 'Completed',
    'and a block that is made by hand is worked on');

select pawl_bulk.define('{"name": "hands", "steps": [{"name": "a", "handler": "left"}, {"name": "b", '
        '"handler": "right"}]}') is not null as ok;
select begun('hands', '{a,b,c}') as o \gset
select begun('blocks', '{a}') as p \gset
select report.ok from pawl_bulk.report(
    (select jsonb_agg(jsonb_build_object('operation', operation, 'row_number', row_number, 'step_index', step_index,
        'token', token, 'result', 'ok'))
    from pawl_bulk.claim('w', 'left', 1)), 'w') report;
select is((select string_agg(row_number || ' ' || step_name, ', ' order by n)
    from pawl_bulk.claim('w', null, 2) with ordinality x(operation, row_number, step_index, step_name, kind, token,
    attempt, tries, idempotency_key, row_id, data, metadata, lease_until, n)), '1 b, 2 a',
    'a claim from all queues begins with the lowest row');
select is((select count(*) from pawl_bulk.work where state = 'leased' and queue = 'sql:'), 0::bigint,
    'and leaves the SQL functions their rows');

-- a call makes or locks the signal keys of one run of rows: they are locked in their order only within it
select pawl_bulk.cancel(:'p') as ok;
truncate called;
select pawl_bulk.define(format('{"name": "tried %1$s", "steps": [{"name": "a", "handler": "sql:public.worked",
    "max_retries": 1, "backoff": {"base": "0 s"}},
    {"name": "b", "kind": "%1$s", "handler": "third", "timeout": "1 h"}]}', kind)::jsonb) is not null as ok
    from unnest('{sync,signal}'::text[]) kind;
select begun('tried sync', '{once,b}') as o \gset
select is((select done from pawl_bulk.run_sql_rows()), 3::bigint, 'a row that fails is tried again in the same call');
select is(records_of(:'o'), '1/0 Completed, 1/1 Pending, 2/0 Completed, 2/1 Pending', 'and goes on');
truncate called;
select begun('tried signal', '{once,b}') as o \gset
select is((select done from pawl_bulk.run_sql_rows()), 2::bigint, 'but in the next call if others wait for signals');
select is(records_of(:'o'), '1/0 Running, 2/0 Completed, 2/1 Pending', 'whose keys are locked');
select is((select done from pawl_bulk.run_sql_rows()), 1::bigint, 'which makes its key');
select is(records_of(:'o'), '1/0 Completed, 1/1 Pending, 2/0 Completed, 2/1 Pending', 'and goes on too');
select * from finish();
