-- Bulk operations end to end: files in, SQL validators and handlers, workers, by every way of writing.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk;
create function run(turns int default 40) returns void language plpgsql as $$
declare did bigint;
begin
    for i in 1 .. turns loop
        select (select done from pawl_bulk.advance(1000)) + (select done
                from pawl_bulk.run_sql_rows(1000)) + (select done from pawl.fire_due('pawl_bulk.work')) into did;
        exit when did = 0;
    end loop;
end $$;
create function status_of(operation uuid) returns text language sql as
$$ select s.status || ' ' || s.total_rows || '/' || s.processed_rows || '/' || s.successful_rows || '/'
    || s.failed_rows from pawl_bulk.status s where s.operation = status_of.operation $$;
create function checked(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, code text, message text) language sql as
$$ select n, 'imei', 'the IMEI has ' || length(r ->> 'imei')
    || ' digits' from unnest(row_numbers, rows) u(n, r) where length(r ->> 'imei') <> 4
   union all select n, 'plan', 'unknown plan' from unnest(row_numbers, rows) u(n, r)
   where r ->> 'plan' not in ('a', 'b') $$;
create table activated (row_number bigint, imei text);
create function activate(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language plpgsql as
$$ begin
    insert into public.activated select n, r ->> 'imei' from unnest(row_numbers, rows) u(n, r);
    if exists (select from unnest(rows) r where r ->> 'imei' = '6666') then raise exception 'boom'; end if;
    return query select n, 'no network' from unnest(row_numbers, rows) u(n, r) where r ->> 'imei' = '4444';
end $$;
select is(pawl_bulk.define('{"name": "devices", "row_id": "imei", "is_retryable": true, "track_row_data": true,
    "validators": ["public.checked"],
    "row": {"required": ["imei"], "properties": {"name": {"maxLength": 14}}},
        "steps": [{"name": "activate", "handler": "sql:public.activate"}, {"name": "notify", "handler": "mailer",
        "max_retries": 1}]}'), 1, 'the first definition of a bulk operation is version 1');
select is(pawl_bulk.define(configuration), 1, 'the same again is the same version') from pawl_bulk.definitions;
select throws_ok($$select pawl_bulk.define('{"name": "x", "stepz": []}')$$, '22023', null,
    'an unknown key in a definition is rejected');
select throws_ok($$select pawl_bulk.define('{"name": "x", "steps": [{"name": "a"}, {"name": "A"}]}')$$, '22023', null,
    'names of steps differ, case apart');
select throws_ok($$select pawl_bulk.define('{"name": "x", "steps": [{"name": "a", "kind": "signal"}]}')$$, '22023',
    null, 'a step that waits needs a timeout');
select throws_ok($$select pawl_bulk.submit('missing')$$, 'P0002', null, 'an operation has a definition');

-- a file, as it is
begin;
select * from pawl_bulk.submit('devices', format => 'csv', idempotency_key => 'k1', file_name => 'devices.csv',
        dialect => '{"map": {"Device": "imei"}}') \gset
copy pawl_bulk.input (raw) from stdin with (format csv, delimiter e'\x02', quote e'\x01');
Device,plan,name
1111,a,"Lo, ""the"" box"
22,c,x
3333,b
4444,b,ü
5555,a,=1+1
6666,a,bad one
"7777,a,y
8888,b,a name that is far too long
\.
select is(pawl_bulk.seal(:'operation'), 8::bigint, 'rows are counted without the header');
commit;
select throws_ok(format('insert into pawl_bulk.input (operation, row_number, raw) values (%L, 99, ''x'')',
    :'operation'), '55000', null, 'no rows come behind the end');
select is((select operation || ' ' || created from pawl_bulk.submit('devices', idempotency_key => 'k1')),
    :'operation' || ' false', 'the same key is the same operation');
select run();
select is(status_of(:'operation'), 'Running 8/6/0/6', 'two rows wait for the worker');
select is((select string_agg(row_number || ' ' || code || ' ' || message, '; ' order by row_number, code)
    from pawl_bulk.errors where step_index = -1 and operation = :'operation'),
    '2 imei the IMEI has 2 digits; 2 plan unknown plan; 3 malformed 2 fields where there are 3 columns; 7 malformed a '
    'quote is not closed; 8 length "name" has 27 characters', 'all errors of every row');
select is((select raw from pawl_bulk.validations where operation = :'operation' and row_number = 7), '"7777,a,y',
    'a malformed row keeps its text');
select is((select string_agg(row_number || ' ' || message, '; ' order by row_number) from pawl_bulk.errors
        where step_index = 0 and operation = :'operation'),
    '4 no network; 6 boom', 'a handler fails rows by name, and by an error alone');
select is((select string_agg(imei, ' ' order by imei) from activated), '1111 4444 5555',
    'what it did for the others happened once');
select is(pawl_bulk.row_data(:'operation', 1), '{"imei": "1111", "plan": "a", "name": "Lo, \"the\" box"}',
    'quotes are read');
select is((select string_agg(x, ' ')
        from (select row_id as x from pawl_bulk.row_records where operation = :'operation' and step_index = 1
            order by row_number) x),
    '1111 5555', 'rows have their business key');

-- a worker by the functions, and by plain SQL
select step_name, row_number, token, idempotency_key, data ->> 'name' as name
    from pawl_bulk.claim('w1', 'mailer', 1) \gset
select is(:'step_name' || ' ' || :'row_number' || ' ' || :'name', 'notify 1 Lo, "the" box',
    'the lowest row comes first, with its data');
select is(:'idempotency_key', :'operation' || '/1/1/0', 'and a key for the other side');
select throws_ok(
            format($$update pawl_bulk.records set state = 'Completed'
                where operation = %L and row_number = 1 and step_index = 1$$, :'operation'),
    'PW004', null, 'only the owner can complete it');
select is((select problem
    from pawl_bulk.report(
            jsonb_build_array(jsonb_build_object('operation', :'operation', 'row_number', 1, 'step_index', 1, 'token',
                0, 'result', 'ok')), 'w1')),
    'PW005: the lease is lost, or the row is already done', 'nor can the owner with a stale token');
select ok((select ok
        from pawl_bulk.report(
                jsonb_build_array(jsonb_build_object('operation', :'operation', 'row_number', 1, 'step_index', 1,
                    'token', :token, 'result', 'fail', 'message', 'busy')), 'w1')), 'a try fails');
select is((select state || ' ' || tries || ' ' || error_message from pawl_bulk.records where operation = :'operation'
    and row_number = 1 and step_index = 1), 'Running 1 busy', 'and is followed by another');
select ok((select due > now() and worker is null from pawl_bulk.work where operation = :'operation' and row_number = 1),
    'after a while');
update pawl_bulk.work set due = clock_timestamp() where operation = :'operation' and row_number = 1;
select is((select string_agg(row_number || ' ' || tries, ', ' order by row_number)
    from pawl_bulk.claim('w2', 'mailer')), '1 1, 5 0', 'a failed row is claimed again, with its number of tries');
begin;
select pawl.set_context(processor => 'w2');
update pawl_bulk.records set state = 'Completed'
    where operation = :'operation' and step_index = 1 and state = 'Running';
commit;
select is((select count(*) from pawl_bulk.work where operation = :'operation'), 0::bigint,
    'plain SQL completes them, and their work goes');
select run();
select is(status_of(:'operation'), 'CompletedWithErrors 8/8/2/6', 'the operation ends');
select is_empty('select * from pawl_bulk.verify()', 'nothing is wrong');
select throws_ok(format($$update pawl_bulk.records set state = 'Pending' where operation = %L and state = 'Failed'$$,
    :'operation'), 'PW003', null, 'a record is reset in a retry only');
select throws_ok(format($$delete from pawl_bulk.records where operation = %L$$, :'operation'), '55000', null,
    'records cannot be deleted while their operation is there');
select is((select submitted from pawl_bulk.retry(:'operation', error_types => '{StepFailure}', steps => '{activate}')),
    2::bigint, 'retried by type and step');
select is((select count(*) || ' ' || max(row_data ->> 'imei') from pawl_bulk.retry_history
    where operation = :'operation'), '2 6666', 'with their history');
select is((select count(*) from pawl_bulk.work where operation = :'operation' and due is null), 0::bigint,
    'nothing begins before the retry is picked up');
select throws_ok($$update pawl_bulk.retry_history set tries = 9$$, 'PW006', null, 'which no role changes');
select throws_ok(format('select pawl_bulk.retry(%L)', :'operation'), 'PW003', 'retry rejected: wrong_status',
    'an operation that is being retried cannot be retried again');
select run();
select is(status_of(:'operation'), 'CompletedWithErrors 8/8/2/6', 'they fail again');
select is(
    (select string_agg(rows || ' ' || step_name || ' ' || error_type || coalesce(' ' || code, ''), ', '
        order by step_index, code) from pawl_bulk.error_summary where operation = :'operation'),
    '1 validation Validation imei, 1 validation Validation length, 2 validation Validation malformed, 1 validation '
    'Validation plan, 2 activate StepFailure', 'a summary of errors');

-- results
select ok(pawl_bulk.export_command(:'operation') ^@ 'COPY (SELECT', 'an export is a COPY');
create table exported (line int generated always as identity, "RowNumber" text, "RowId" text, "State" text,
    "StepName" text, "StepIndex" text, "ErrorType" text, "ErrorMessage" text,
                       "RetryAttempt" text, "CreatedAt" text, "CompletedAt" text, imei text, plan text, name text);
select 'insert into exported ("RowNumber", "RowId", "State", "StepName", "StepIndex", "ErrorType", "ErrorMessage", '
    '"RetryAttempt", "CreatedAt", "CompletedAt", imei, plan, name) '
    || substring(pawl_bulk.export_command(:'operation') from '^COPY \((.*)\) TO STDOUT') as command \gset
:command;
select is((select string_agg("RowNumber" || ' ' || "State" || ' ' || coalesce(name, '-'), ', ' order by line)
    from exported where line > 1),
    '1 Completed Lo, "the" box, 2 Failed x, 3 Failed -, 4 Failed ü, 5 Completed ''=1+1, 6 Failed bad one, 7 Failed -, '
    '8 Failed a name that is far too long', 'every row, no formula');
select is((select count(*) from exported where "ErrorType" = 'Validation'), 4::bigint, 'failed validations among them');
select throws_ok(format('select pawl_bulk.export_command(%L, ''x'')', :'operation'), '22023', null, 'of a known mode');

-- NDJSON, and a definition that keeps no data
select pawl_bulk.define('{"name": "brief", "steps": [{"name": "a", "handler": "sql:public.activate"}]}') \g /dev/null
begin;
select * from pawl_bulk.submit('brief') \gset
insert into pawl_bulk.input (raw) values ('{"imei": "1"}'), ('{"imei": '), ('null'), ('{"imei": "2"}');
savepoint s;
insert into pawl_bulk.input (raw) values ('lost');
rollback to s;
insert into pawl_bulk.input (raw) values ('{"imei": "3"}');
select is((select max(row_number) from pawl_bulk.input where operation = :'operation'), 5::bigint,
    'numbers of rows that were undone are given again');
select pawl_bulk.seal(:'operation') \g /dev/null
commit;
select run();
select is(status_of(:'operation'), 'CompletedWithErrors 5/5/3/2', 'malformed JSON is an error of its row');
select is((select count(*) from pawl_bulk.input where operation = :'operation'), 0::bigint,
    'data is gone where it is not kept');
select is((select reason from pawl_bulk.can_retry(:'operation')), 'not_retryable', 'and nothing to retry with');
select is((select string_agg(type || coalesce(' ' || to_status, ''), ', ' order by event) from pawl_bulk.events
    where operation = :'operation' and type <> 'RowFailed'),
    'Created Pending, StatusChanged Validating, StatusChanged Running, StatusChanged CompletedWithErrors, '
    'CompletedWithErrors CompletedWithErrors', 'the events of an operation');
delete from pawl_bulk.operations where operation = :'operation';
select is((select count(*) from pawl_bulk.records where operation = :'operation') + (select count(*)
    from pawl_bulk.events where operation = :'operation'), 0::bigint, 'a deleted operation takes all of its rows');
-- a signal that came early is used once
select pawl_bulk.define('{"name": "asks", "is_retryable": true, "max_retry_attempts": 1, "track_row_data": true, '
    '"steps": [{"name": "a", "kind": "signal", "handler": "none", "timeout": "1 h", "signal_key": "ask-{data.id}"}]}')
    \g /dev/null
select * from pawl_bulk.submit('asks', rows => '[{"id": "x"}]') \gset
select is(pawl_bulk.signal(:'operation', 'ask-x', 'fail', 'not now'), 'early', 'a signal comes early');
select run();
select is((select error_type || ' ' || error_message from pawl_bulk.records where operation = :'operation'),
    'SignalFailure not now', 'and fails its row');
select pawl_bulk.retry(:'operation') \g /dev/null
select run();
select is((select state from pawl_bulk.records where operation = :'operation'), 'WaitingForCompletion',
    'once: the retry waits for its own');
select is(pawl_bulk.signal(:'operation', 'ask-x', attempt => 0), 'late', 'not for one of the attempt before');
select is(pawl_bulk.signal(:'operation', 'ask-x', attempt => 1), 'applied',
    'a signal for the current attempt is applied');
select run();
select is(status_of(:'operation'), 'Completed 1/1/1/0', 'and completes it');
-- as often as its definition says
select * from pawl_bulk.submit('asks', rows => '[{"id": "y"}]') \gset
select is(pawl_bulk.signal(:'operation', 'ask-y', 'fail', 'not now'), 'early',
    'a signal that comes before its row waits is early');
select run();
select is((select reason from pawl_bulk.can_retry(:'operation')), 'eligible', 'it may be retried once');
select pawl_bulk.retry(:'operation') \g /dev/null
select run();
select is(pawl_bulk.signal(:'operation', 'ask-y', 'fail', 'nor now', attempt => 1), 'applied', 'and fails again');
select run();
select is((select reason from pawl_bulk.can_retry(:'operation')), 'max_attempts_reached', 'and not twice');
-- a row that loses its workers is tried again as often as its definition says, and then fails
select pawl_bulk.define('{"name": "frail", "max_takeovers": 1, "steps": [{"name": "a", "handler": "frail"}]}')
    \g /dev/null
select * from pawl_bulk.submit('frail', rows => '[{}]') \gset
select run();
create function lose_worker() returns bigint language plpgsql as $$
begin
    perform from pawl_bulk.claim('w', 'frail', lease => '1 ms');
    while exists (select from pawl_bulk.work where queue = 'frail' and lease_until >= clock_timestamp()) loop
        null;
    end loop;
    return (select done from pawl.reap('pawl_bulk.work'));
end $$;
select is(lose_worker(), 1::bigint, 'a lease ends without a report');
select is((select r.state || ', ' || w.state || ', lost ' || w.takeovers from pawl_bulk.records r
    join pawl_bulk.work w using (operation, row_number, step_index) where operation = :'operation'),
    'Running, lost, lost 1', 'the row waits for another worker');
select is(lose_worker(), 1::bigint, 'and so does the next');
select is((select r.state || ' ' || r.error_message from pawl_bulk.records r where operation = :'operation'),
    'Failed 2 workers were lost', 'one bad row does not take workers for ever');
select run();
select is(status_of(:'operation'), 'CompletedWithErrors 1/1/0/1', 'and its operation ends');
-- an input that broke off
select * from pawl_bulk.submit('brief') \gset
select throws_ok(format('delete from pawl_bulk.operations where operation = %L', :'operation'), '55000', null,
    'one that is not at rest is not deleted');
select pawl_bulk.seal(:'operation', input_error => 'the file ends in the middle') \g /dev/null
update pawl_bulk.operations set status = 'Validating' where operation = :'operation';
select throws_ok(format('update pawl_bulk.operations set status = ''Running'' where operation = %L', :'operation'),
    'PW003', null, 'an input that broke off does not run');
select run();
select is((select status || ' ' || error_message from pawl_bulk.operations where operation = :'operation'),
    'Failed the file ends in the middle', 'an input that broke off fails');

-- the feed, in order
select pawl.create_consumer('feed', relations => array['pawl_bulk.events']::regclass[]) \g /dev/null
select * from pawl_bulk.submit('brief', rows => '[]') \gset
select run();
select is((select string_agg(type, ' ') from pawl_bulk.read_feed('feed')),
    'Created StatusChanged StatusChanged StatusChanged Completed', 'no rows: completed at once');
select is((select count(*) from pawl_bulk.read_feed('feed')), 0::bigint, 'each event once');

-- counters fold and stay
select * from pawl_bulk.submit('brief',
        rows => (select jsonb_agg(jsonb_build_object('imei', n)) from generate_series(1, 60) n)) \gset
do $$ begin for i in 1 .. 63 loop perform from pawl_bulk.advance(1); end loop; end $$;
select ok((select count(*) > 31 from pawl_bulk.tallies where operation = :'operation'),
    'many statements, many entries');
select done as folded from pawl_bulk.fold_counters() \gset
select is((select count(*) || ' ' || sum(validated) from pawl_bulk.tallies where operation = :'operation'), '1 60',
    'folded into one');
select run();
select is(status_of(:'operation'), 'Completed 60/60/60/0', 'and they go on');

-- roles
create role bulk_worker in role pawl_worker;
create role bulk_operator in role pawl_operator;
create role bulk_reader in role pawl_reader;
grant usage on schema public to bulk_worker, bulk_operator;
grant insert on activated to bulk_operator;
set role bulk_reader;
select lives_ok('select * from pawl_bulk.status', 'pawl_reader can read the status of operations');
select throws_ok('select * from pawl_bulk.claim(''w'')', '42501', null, 'and do not claim');
set role bulk_worker;
select lives_ok($$select pawl_bulk.submit('devices', rows => '[{"imei": "1234", "plan": "a"}]')$$,
    'pawl_worker can submit operations');
select throws_ok('select run()', '42501', null, 'but run no SQL functions');
set role bulk_operator;
select lives_ok('select run()', 'pawl_operator can run the duties');
set role bulk_worker;
select lives_ok(
        $$select pawl_bulk.report((select jsonb_agg(to_jsonb(c) || '{"result": "ok"}')
                from pawl_bulk.claim('w', 'mailer') c), 'w')$$, 'claim and report');
select throws_ok($$insert into pawl_bulk.tallies values (gen_random_uuid(), gen_random_uuid(), 1, 1, 1)$$, '42501',
    null, 'but write no counters');
select throws_ok($$select pawl_bulk.cancel(gen_random_uuid())$$, '42501', null, 'and do not cancel');
select throws_ok($$select pawl_bulk.define('{}')$$, '42501', null, 'pawl_operator cannot define operations');
set role bulk_operator;
select run();
select * from pawl_bulk.submit('devices', rows => '[]') \gset
select ok(pawl_bulk.cancel(:'operation'), 'pawl_operator can cancel operations');
reset role;
select is((select count(*) from pawl_bulk.operations where status = 'Running'), 0::bigint,
    'no operation is left Running');
select ok((xpath('/row/c/text()', query_to_xml(format('select count(*) as c from pawl_bulk.%I', t), false, true,
    '')))[1]::text::int > 0, t || ' has rows') from unnest('{validations,retry_history,signals,events}'::text[]) t;
select throws_ok(format('delete from pawl_bulk.%I', t), 'PW006', null,
    'what was written once is not deleted, by its owner either: ' || t)
    from unnest('{validations,retry_history,signals,events}'::text[]) t;
select throws_ok(format('update pawl_bulk.%I set operation = operation', t), 'PW006', null,
    'and does not change: ' || t)
    from unnest('{validations,retry_history,signals,events}'::text[]) t;
select is_empty('select * from pawl_bulk.verify()', 'nothing is wrong at the end');
select is_empty('select * from pawl.verify()', 'nor in the logs');
select * from finish();
