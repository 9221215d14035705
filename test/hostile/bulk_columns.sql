-- What workers and operators may write in the tables of pawl_bulk, column by column, and
-- that what they may write fits what functions would.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_bulk;

-- every column of every table: a grant of a whole table, and a column that comes, is a difference
create temporary table expected (role text, tab text, inserts text, updates text, others text);
insert into expected values
    ('pawl_worker', 'operations', 'operation definition version metadata created_by traceparent tracestate source '
    'file_name format dialect columns checksum idempotency_key priority notifications', 'status error_message', ''),
    ('pawl_operator', 'operations', 'operation definition version metadata created_by traceparent tracestate source '
    'file_name format dialect columns checksum idempotency_key priority notifications',
        'status priority notifications error_message paused_at paused_by', '');
insert into expected select r, t.* from unnest('{pawl_worker,pawl_operator}'::text[]) r, (values
    ('input', 'operation row_number data raw problem line_number', '', ''),
    ('validations', 'operation row_number state row_id errors raw created_at', '', ''),
    ('records', 'operation row_number step_index', 'tries state error_type error_message started_at completed_at', ''),
    ('work', '', 'state deadline_at worker lease_until token due', ''),
    ('notices', '', 'state message tries worker lease_until token due', ''),
    ('signals', 'operation key result message payload attempt', '', '')) t;
insert into expected
    values ('pawl_operator', 'sql_runs', 'operation step_index kind first_row last_row size lease_until',
    'last_row size lost_at again_at', '');
create temporary view found as
select r.role, c.relname::text as tab,
       coalesce((select string_agg(a.attname, ' ' order by a.attnum) from pg_attribute a where a.attrelid = c.oid
               and a.attnum > 0 and not a.attisdropped and has_column_privilege(r.role, c.oid, a.attnum, 'INSERT')), '')
       as inserts,
       coalesce((select string_agg(a.attname, ' ' order by a.attnum) from pg_attribute a where a.attrelid = c.oid
               and a.attnum > 0 and not a.attisdropped and has_column_privilege(r.role, c.oid, a.attnum, 'UPDATE')), '')
       as updates,
       coalesce((select string_agg(p, ' ') from unnest('{DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) p
               where has_table_privilege(r.role, c.oid, p)), '') as others
  from pg_class c cross join unnest('{pawl_worker,pawl_operator,pawl_reader}'::text[]) r(role)
 where c.relnamespace = 'pawl_bulk'::regnamespace and c.relkind in ('r', 'p', 'v') and c.relname !~ '_transitions';
select is_empty($$select role, tab, inserts, updates, others from found where inserts || updates || others <> ''
    except select * from expected$$, 'no role may write more');
select is_empty($$select * from expected except select role, tab, inserts, updates, others from found$$, 'nor less');
select is_empty($$select role, c.relname from pg_class c
    cross join unnest('{pawl_worker,pawl_operator,pawl_reader}'::text[]) role
    where c.relnamespace = 'pawl_bulk'::regnamespace and c.relname ~ '_transitions'
    and c.relkind in ('r', 'p', 'v') and (has_table_privilege(role, c.oid, 'UPDATE')
        or has_table_privilege(role, c.oid, 'DELETE') or has_table_privilege(role, c.oid, 'TRUNCATE'))$$,
    'logs are not changed');

-- no lock of a worker keeps others from reading
create role columns_worker in role pawl_worker;
create role columns_operator in role pawl_operator;
create function public.fine(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as $$ select null::bigint, null::text where false $$;
create function public.meta(metadata jsonb) returns table (code text, message text)
    language sql as $$ select 'm', 'not this one' where metadata ? 'bad' $$;
select pawl_bulk.define(
            '{"name": "d", "is_retryable": true, "track_row_data": true, "metadata_validators": ["public.meta"],
    "steps": [{"name": "a", "handler": "hands", "max_retries": 3, "run_timeout": "1 hour"},
    {"name": "b", "kind": "signal", "handler": "none", "timeout": "1 day", "allow_operation_retry": false},
        {"name": "c", "handler": "sql:public.fine"}]}') is not null as ok;
select pawl_bulk.define('{"name": "dropped", "handler": "h"}') is not null as ok;
select pawl_bulk.drop_definition('dropped') is not null as ok;
create function one_of(o uuid) returns text language sql as $$
    select string_agg(row_number || '/' || step_index || ' ' || state, ', ' order by row_number, step_index)
    from pawl_bulk.records where operation = o $$;
grant select on expected to public;

set role columns_worker;
-- operations
select lives_ok($$insert into pawl_bulk.operations (definition, version) values ('d', 1)$$,
    'an operation can be inserted');
select is((select last_step || ' ' || track_row_data || ' ' || sealed from pawl_bulk.operations), '2 true false',
    'and is what its definition says');
select throws_ok($$insert into pawl_bulk.operations (definition, version) values ('dropped', 1)$$, 'P0002', null,
    'not of a definition that is dropped');
select throws_ok($$insert into pawl_bulk.operations (definition, version, last_step, track_row_data)
    values ('d', 1, 0, false)$$, '42501', null, 'nor with other steps');
select throws_ok($$insert into pawl_bulk.operations (definition, version, dialect) values ('d', 1, '{"x": 1}')$$,
    '22023', null, 'nor with an invalid dialect');
select throws_ok($$select pawl_bulk.submit('d', rows => '[]', idempotency_key => repeat('k', 1001))$$, '22023',
    'an idempotency key must have at most 1000 bytes', 'nor with a key that no index holds');
select operation as raw from pawl_bulk.operations \gset
select throws_ok(format('update pawl_bulk.operations set status = ''Validating'' where operation = %L', :'raw'),
    'PW003', null, 'what is not sealed is not picked up');
select throws_ok(format('update pawl_bulk.operations set status = ''Cancelled'' where operation = %L', :'raw'), '42501',
    null, 'workers cancel nothing by hand');
select throws_ok(format('update pawl_bulk.operations set paused_at = now() where operation = %L', :'raw'), '42501',
    null, 'and pause nothing');
select throws_ok(format('update pawl_bulk.operations set error_message = ''x'' where operation = %L', :'raw'), '42501',
    null, 'and say nothing of what did not fail');
select throws_ok(format('update pawl_bulk.operations set sealed = true where operation = %L', :'raw'), '42501', null,
    'inputs are sealed by seal');
select throws_ok(format('update pawl_bulk.operations set opened_through = 7 where operation = %L', :'raw'), '42501',
    null, 'no row is passed over');
select operation as bad from pawl_bulk.submit('d', '{"bad": 1}', '[{}]') \gset
select lives_ok(format('update pawl_bulk.operations set status = ''Validating'' where operation = %L', :'bad'),
    'an operation can be picked up by hand');
set role columns_operator;
select pawl_bulk.advance() is not null as ok from generate_series(1, 3);
set role columns_worker;
select is((select status || ' ' || error_message from pawl_bulk.operations where operation = :'bad'),
    'Failed not this one', 'and its metadata are validated');
select operation as o from pawl_bulk.submit('d', rows => '[{}, {}, 3]') \gset
select throws_ok(format('insert into pawl_bulk.input (operation, row_number, data) values (%L, 9, ''{}'')', :'o'),
    '55000', null, 'a sealed input takes no rows');
select throws_ok(format('delete from pawl_bulk.input where operation = %L', :'o'), '42501', null, 'and loses none');

-- validations
select throws_ok(
        format('insert into pawl_bulk.validations (operation, row_number, state) values (%L, 1, ''Completed'')',
    :'o'), '42501', null, 'validation records are written by the duty');
set role columns_operator;
select throws_ok(
        format('insert into pawl_bulk.validations (operation, row_number, state) values (%L, 1, ''Completed'')',
    :'o'), '42501', null, 'also by an operator');
reset role;
select throws_ok(
        format('insert into pawl_bulk.validations (operation, row_number, state) values (%L, 1, ''Completed'')',
    :'o'), 'PW003', null, 'and not before the operation validates its rows, by no role at all');
set role columns_operator;
select pawl_bulk.advance() is not null as ok;
set role columns_worker;
select throws_ok(
        format('insert into pawl_bulk.validations (operation, row_number, state) values (%L, 9, ''Completed'')',
    :'o'), '42501', null, 'also while rows are validated');
set role columns_operator;
select pawl_bulk.advance() is not null as ok from generate_series(1, 2);
set role columns_worker;
select throws_ok(format('insert into pawl_bulk.records (operation, row_number, step_index) values (%L, 3, 0)', :'o'),
    'PW003', null, 'a row that is not valid has no record');
select throws_ok(format('insert into pawl_bulk.records (operation, row_number, step_index) values (%L, 1, 1)', :'o'),
    'PW003', null, 'no step is passed over');
select throws_ok(format('insert into pawl_bulk.records (operation, row_number, step_index, tries) values (%L, 1, 0, 3)',
    :'o'), '42501', null, 'a record begins at its beginning');
select throws_ok(format('select pawl_bulk._opened(%L, 2)', :'o'), '42501', null,
    'nor are rows without records passed over by functions');
select throws_ok(format('insert into pawl_bulk.work (operation, row_number, step_index, queue) values (%L, 1, '
    '0, ''hands'')', :'o'), '42501', null, 'workers insert no work');
select throws_ok(format('insert into pawl_bulk.work (operation, row_number, step_index, kind, queue, last_row) values '
    '(%L, 1, -1, ''rows'', ''sql:'', 2)', :'o'), '42501', null, 'and no block');
select lives_ok(format('insert into pawl_bulk.records (operation, row_number, step_index) values (%L, 2, 0)', :'o'),
    'a record can be made by hand');
reset role;
delete from pawl_bulk.work where false;
set role columns_worker;
select throws_ok(format('update pawl_bulk.records set state = ''Cancelled'' where operation = %L', :'o'), '42501', null,
    'workers cancel no rows');
create temporary table taken as select * from pawl_bulk.claim('w', 'hands', 1);
select is((select string_agg(row_number || ' ' || kind, ',') from taken), '2 start', 'and is work');
select throws_ok(format('update pawl_bulk.records set tries = 9 where operation = %L', :'o'), '55000', null,
    'tries are counted one by one');
select throws_ok(format('update pawl_bulk.records set retry_attempt = 9 where operation = %L', :'o'), '42501', null,
    'attempts by retries');
select throws_ok(format('update pawl_bulk.work set deadline_at = now() where operation = %L', :'o'), '42501', null,
    'deadlines are not brought forward');
select is((select ok
        from pawl_bulk.report((select jsonb_agg(to_jsonb(t) || '{"result": "fail", "message": "no"}') from taken t),
    'w')), true, 'a try can fail');
select throws_ok(format('update pawl_bulk.work set due = null where operation = %L', :'o'), '42501', null,
    'nor is a retry');
select throws_ok(format('update pawl_bulk.work set queue = ''mine'' where operation = %L', :'o'), '42501', null,
    'work stays in its queue');
select throws_ok(format('update pawl_bulk.work set held = false where operation = %L', :'o'), '42501', null,
    'what is held is held');
set role columns_operator;
select lives_ok(format('update pawl_bulk.work set due = null where operation = %L', :'o'),
    'operators bring retries forward');
select pawl_bulk.pause(:'o') as ok \gset
select throws_ok(format('update pawl_bulk.work set due = null where operation = %L', :'o'), '55000', null,
    'but not while the operation is paused');
select pawl_bulk.resume(:'o') as ok \gset
select operation as paused from pawl_bulk.submit('d', rows => '[{}]') \gset
select pawl_bulk.pause(:'paused') as ok \gset
select throws_ok(format('update pawl_bulk.operations set status = ''Validating'' where operation = %L', :'paused'),
    'PW003', null, 'nor is what is paused picked up');
set role columns_worker;
select lives_ok(
        $$select pawl_bulk.report((select jsonb_agg(to_jsonb(t) || '{"result": "ok"}')
                from pawl_bulk.claim('w', 'hands') t), 'w')$$, 'work goes on');
set role columns_operator;
select pawl_bulk.advance() is not null as ok from generate_series(1, 2);
set role columns_worker;
select lives_ok(
        $$select pawl_bulk.report((select jsonb_agg(to_jsonb(t) || '{"result": "ok"}')
                from pawl_bulk.claim('w', 'hands') t), 'w')$$, 'to its end');
set role columns_operator;
select pawl_bulk.run_sql_rows() is not null as ok;
set role columns_worker;
select is(one_of(:'o'), '1/0 Completed, 1/1 WaitingForCompletion, 2/0 Completed, 2/1 WaitingForCompletion',
    'and waits for signals');
select throws_ok(format('update pawl_bulk.records set error_message = ''x'' where operation = %L and step_index = 0',
    :'o'), '55000', null, 'what rests is not written again');
select throws_ok(format('update pawl_bulk.signal_keys set row_number = 1 where operation = %L', :'o'), '42501', null,
    'a key names its row');
select is(pawl_bulk.signal(:'o', 's1-r1', 'fail', 'no'), 'applied', 'a signal is one');
select is(pawl_bulk.signal(:'o', 's1-r2'), 'applied', 'and another');
set role columns_operator;
select pawl_bulk.run_sql_rows() is not null as ok;
select pawl_bulk.advance() is not null as ok;
set role columns_worker;
select is((select status from pawl_bulk.operations where operation = :'o'), 'CompletedWithErrors',
    'all rows have an outcome');
select throws_ok(format('update pawl_bulk.operations set status = ''Retrying'' where operation = %L', :'o'), '42501',
    null, 'workers retry nothing by hand');
select throws_ok(format('insert into pawl_bulk.events (operation, type) values (%L, ''Completed'')', :'o'), '42501',
    null, 'and write no events');
set role columns_operator;
select throws_ok(format('update pawl_bulk.operations set status = ''Retrying'' where operation = %L', :'o'), 'PW003',
    null, 'nothing is retried that no step allows');
reset role;
select throws_ok(format('update pawl_bulk.records set state = ''Pending'' where operation = %L and state = ''Failed''',
    :'o'), 'PW003', null, 'nor by any other role');

-- rows that are valid have no records before their operation runs, nor when it has ended
select operation as slow from pawl_bulk.submit('d', rows => '[{}, {}]') \gset
select pawl_bulk.advance(1) is not null as ok from generate_series(1, 2);
select is((select o.status || ' ' || count(v) from pawl_bulk.operations o left join pawl_bulk.validations v
    using (operation) where operation = :'slow' group by o.status), 'Validating 1', 'one row is validated');
set role columns_worker;
select throws_ok(format('insert into pawl_bulk.records (operation, row_number, step_index) values (%L, 1, 0)', :'slow'),
    'PW003', null, 'its record does not come before the others are validated');
reset role;
select pawl_bulk.cancel(:'slow') as ok \gset
select throws_ok(format('insert into pawl_bulk.records (operation, row_number, step_index) values (%L, 1, 0)', :'slow'),
    'PW003', null, 'nor in an operation that is cancelled');

-- runs of SQL functions
select throws_ok($$set role columns_worker; insert into pawl_bulk.sql_runs (operation, step_index, kind, first_row,
    last_row, size, lease_until) select operation, 0, 'start', 1, 9, 9, now() from pawl_bulk.operations$$, '42501',
    null, 'workers have none');
set role columns_operator;
select throws_ok(format('insert into pawl_bulk.sql_runs (operation, step_index, kind, first_row, last_row, size, '
    'lease_until) values (%L, 0, ''start'', 1, 9, 9, ''infinity'')', :'paused'), '55000', null,
    'no run keeps rows for ever');
select throws_ok(format('insert into pawl_bulk.sql_runs (operation, step_index, kind, first_row, last_row, size, '
    'lease_until, session) values (%L, 0, ''start'', 1, 9, 9, now(), 1)', :'paused'), '42501', null,
    'nor in the name of another processor');
reset role;
alter table pawl_bulk.sql_runs disable trigger by_sql;
insert into pawl_bulk.sql_runs (operation, step_index, kind, first_row, last_row, size, lease_until, session)
    values (:'paused', 0, 'start', 1, 9, 9, now() + interval '1 h', 1);
alter table pawl_bulk.sql_runs enable trigger by_sql;
set role columns_operator;
select throws_ok('delete from pawl_bulk.sql_runs', '42501', null, 'no role can delete the runs of SQL functions');
select is((select count(*) from (select pawl_bulk._end_run(operation, run) from pawl_bulk.sql_runs) x,
    pawl_bulk.sql_runs), 1::bigint, 'by functions, too');
reset role;
delete from pawl_bulk.sql_runs;
select operation as left_over from pawl_bulk.submit('d', rows => '[{}]') \gset
select operation as one_bad from pawl_bulk.submit('d', rows => '[{}, 3]') \gset
select pawl_bulk.advance() is not null as ok from generate_series(1, 3);
select throws_ok(format('update pawl_bulk.operations set status = ''Completed'' where operation = %L', :'left_over'),
    'PW003', null, 'with rows left nothing is complete');
select throws_ok(format('update pawl_bulk.operations set status = ''CompletedWithErrors'' where operation = %L',
    :'one_bad'), 'PW003', null, 'with errors neither');
select is_empty($$select * from pawl_bulk.verify()$$, 'nothing is wrong');
select * from finish();
drop owned by columns_worker, columns_operator;
drop role columns_worker, columns_operator;
