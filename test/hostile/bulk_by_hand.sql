-- What a worker or operator inserts or updates by hand in pawl_bulk does what the functions do, or is rejected.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_bulk;
create role byhand_worker in role pawl_worker;
create role byhand_operator in role pawl_operator;
create function public.fine(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[]) returns table
    (row_number bigint, message text) language sql as $$ select null::bigint, null::text where false $$;
create function public.told(notice jsonb) returns void language sql as $$ select $$;
select pawl_bulk.define('{"name": "d", "is_retryable": true, "track_row_data": true, "steps": [{"name": "a", '
    '"handler": "hands", "max_retries": 3, "backoff": {"base": "3 h", "cap": "4 h", "jitter": 0}},
    {"name": "b", "kind": "signal", "handler": "none", "timeout": "1 day"}]}') is not null as ok;
select pawl_bulk.define('{"name": "blocks", "steps": [{"name": "a", "handler": "sql:public.fine"}]}') is not null as ok;
select pawl_bulk.define('{"name": "limited", "steps": [{"name": "a", "handler": "limited", "run_timeout": "1 h"}]}')
    is not null as ok;
create function may(role name, command text) returns text language plpgsql as $$
declare said text; hint text; done bigint;
begin
    execute format('set local role %I', role);
    execute command;
    get diagnostics done = row_count;
    raise exception using errcode = 'ZZZZZ', message = 'ok';
exception when others then
    get stacked diagnostics said = pg_exception_detail, hint = pg_exception_hint;
    return case when sqlstate = 'ZZZZZ' then case done when 0 then 'nothing' else 'ok' end
                when sqlstate = '42501' and sqlerrm ^@ 'permission denied for table ' then 'no right'
                else concat_ws(' ', sqlstate, case when said = '' then 'without detail' end, case when hint = '' then
    'without hint' end) end;
end $$;
grant execute on function may to public;
create table wish (what text, command text, worker text, operator text);

-- Two results of one row in one report: the first counts, the same again is fine, another is rejected.
set role byhand_worker;
select operation as o from pawl_bulk.submit('d', rows => '[{}, {}, {}, {}, {}, {}]') \gset
set role byhand_operator;
select pawl_bulk.advance() is not null as ok from generate_series(1, 4);
set role byhand_worker;
create temporary table taken as select * from pawl_bulk.claim('w', 'hands', 5);
select is((select count(*) from taken), 5::bigint, 'five rows are claimed');
create function pg_temp.result(n bigint, more jsonb) returns jsonb language sql as $$ select to_jsonb(t) || more from
    taken t where t.row_number = n $$;
select results_eq($$select row_number, ok, left(problem, 5) from pawl_bulk.report(jsonb_build_array(
    pg_temp.result(3, '{"result": "fail", "message": "a"}'), pg_temp.result(1, '{"result": "ok"}'), pg_temp.result(2,
    '{"result": "ok"}'), pg_temp.result(1, '{"result": "ok"}'),
    pg_temp.result(2, '{"result": "fail", "message": "x"}'), pg_temp.result(3, '{"result": "fail", "message": "b"}'),
    pg_temp.result(3, '{"result": "fail", "message": "a"}'),
    pg_temp.result(4, '{"result": "ok", "token": -1}'), pg_temp.result(4, '{"result": "ok"}'), pg_temp.result(4,
    '{"result": "done"}'), pg_temp.result(4, '{"result": "fail"}')), 'w')$$,
    $$values (1::bigint, true, null), (1, true, null), (2, true, null), (2, false, 'PW005'), (3, true, null), (3,
    false, 'PW005'), (3, true, null),
             (4, false, 'PW005'), (4, true, null), (4, false, '22023'), (4, false, 'PW005')$$,
    'each element of a report is checked after those before it');
select is((select string_agg(row_number || ' ' || state || ' ' || tries || coalesce(' ' || error_message, ''), ', '
    order by row_number) from pawl_bulk.records where operation = :'o' and step_index = 0),
          '1 Completed 1, 2 Completed 1, 3 Running 1 a, 4 Completed 1, 5 Running 0, 6 Pending 0',
    'each row has one result');
reset role;
create function stop() returns trigger language plpgsql as $$ begin raise exception 'this row is bad'; end $$;
create trigger stop before update on pawl_bulk.records for each row when (new.row_number = 5 and new.state =
    'Completed') execute function stop();
set role byhand_worker;
select results_eq($$select row_number, ok, problem from pawl_bulk.report(jsonb_build_array(pg_temp.result(5,
    '{"result": "ok"}'), pg_temp.result(5, '{"result": "ok"}')), 'w')$$,
    $$values (5::bigint, false, 'P0001: this row is bad'), (5, false, 'P0001: this row is bad')$$,
    'what the first could not do the same again has not done');
reset role;
drop trigger stop on pawl_bulk.records;

-- Validation records say what validators say. A validator that writes them itself does it in a function of its own.
reset role;
create function public.checks(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
returns table (row_number bigint, code text, message text) language plpgsql as $$
begin
    return query select n, 'bad', 'this row is bad' from unnest(row_numbers, rows) u(n, r) where r ? 'bad';
end $$;
select pawl_bulk.define('{"name": "checked", "validators": ["public.checks"], "row_id": "id",
    "steps": [{"name": "a", "handler": "hands"}]}') is not null as ok;
set role byhand_worker;
select operation as v from pawl_bulk.submit('checked', rows => '[{"id": 1}, {"bad": 1}, {"id": 3}]') \gset
set role byhand_operator;
select pawl_bulk.advance(1) is not null as ok;
set role byhand_worker;
select is((select status from pawl_bulk.operations where operation = :'v'), 'Validating', 'rows wait to be validated');
reset role;
select is(may('byhand_worker', format(command, :'v')), '42501', what) from (values
    ('insert into pawl_bulk.validations (operation, row_number, state) values (%L, 2, ''Completed'')',
    'a bad row is not called valid'),
    ('insert into pawl_bulk.validations (operation, row_number, state, errors) values (%L, 1, ''Failed'', ''[]'')',
    'nor a good one bad'),
    ('insert into pawl_bulk.validations (operation, row_number, state, row_id) values (%L, 1, ''Completed'', ''x'')',
    'nor another'),
    ($$select pawl_bulk._invalidate(o, 1, '{}') from pawl_bulk.operations o where operation = %L$$,
    'nor by an internal function'),
    ($$select pawl_bulk._validate_rows(d, o, 1, 3, false) from pawl_bulk.operations o, pawl_bulk.definitions d
        where o.operation = %L and d.name = 'd'$$, 'nor by the validators of another definition')) x(command, what);
select is(may('byhand_operator', format($$select 1 where pawl_bulk._fail_row(%L, 1, '{}')$$, :'v')), 'nothing',
    'a row without trouble is not failed');
set role byhand_worker;
set role byhand_operator;
select pawl_bulk.advance() is not null as ok from generate_series(1, 2);
set role byhand_worker;
select is((select string_agg(row_number || ' ' || state || coalesce(' ' || row_id, ''), ', ' order by row_number)
    from pawl_bulk.validations where operation = :'v'),
          '1 Completed 1, 2 Failed, 3 Completed 3', 'the duty writes what the validators say');
reset role;

-- Work: its times, and that of SQL functions. Row 5 is leased, row 3 waits three hours.
insert into wish select what, format(command, :'o'), worker, operator from (values
    ('work is not inserted', 'insert into pawl_bulk.work (operation, row_number, step_index, queue) values (%L, 5, '
    '0, ''mine'')', 'no right', 'no right'),
    ('nor a block', 'insert into pawl_bulk.work (operation, row_number, step_index, kind, queue, last_row) values '
    '(%L, 1, -1, ''rows'', ''sql:'', 9)', 'no right', 'no right'),
    ('nor changed in its range', 'update pawl_bulk.work set last_row = 9 where operation = %L', 'no right', 'no right'),
    ('ready work is not put off', 'update pawl_bulk.work set due = ''infinity'' where operation = %L and row_number = '
    '6', '42501', 'ok'),
    ('nor a little', 'update pawl_bulk.work set due = now() + interval ''1 s'' where operation = %L and row_number = '
    '6', '42501', 'ok'),
    ('a retry is not brought forward', 'update pawl_bulk.work set due = null where operation = %L and row_number = '
    '3', '42501', 'ok'),
    ('nor put off', 'update pawl_bulk.work set due = due + interval ''1 s'' where operation = %L and row_number = 3',
    '42501', 'ok'),
    ('a try that failed waits as its step says', 'set local pawl.processor = ''w''; update pawl_bulk.work set state '
    '= ''ready'', due = now() + interval ''4 h'' where operation = %L and row_number = 5', 'ok', 'ok'),
    ('and no longer', 'set local pawl.processor = ''w''; update pawl_bulk.work set state = ''ready'', due = now() + '
    'interval ''5 h'' where operation = %L and row_number = 5', '42501', 'ok'),
    ('a deadline where there is none', 'update pawl_bulk.work set deadline_at = now() where operation = %L and '
    'row_number = 6', '42501', 'ok'),
    ('workers that were lost', 'update pawl_bulk.work set takeovers = 99 where operation = %L', 'no right', 'no right'),
    ('two tries at once', 'update pawl_bulk.records set tries = 2 where operation = %L and row_number = 6', '55000',
    '55000'),
    ('times of a row', 'update pawl_bulk.records set started_at = ''infinity'' where operation = %L and row_number = '
    '5 and step_index = 0', '55000', '55000'),
    ('a key of its own', 'insert into pawl_bulk.signal_keys (operation, key) values (%L, ''x'')', 'no right',
    'no right'),
    ('an early result', 'update pawl_bulk.signal_keys set early_result = ''complete'' where operation = %L',
    'no right', 'no right'),
    ('an answer of its own', 'insert into pawl_bulk.signals (operation, key, result, answer) values '
    '(%L, ''s1-r1'', ''complete'', ''applied'')', 'no right', 'no right'),
    ('a sender of its own', 'insert into pawl_bulk.signals (operation, key, actor) values (%L, ''s1-r1'', ''x'')',
    'no right', 'no right'),
    ('an event', 'insert into pawl_bulk.events (operation, type) values (%L, ''Completed'')', 'no right', 'no right'),
    ('a result of no kind', 'insert into pawl_bulk.signals (operation, key, result) values (%L, ''s1-r1'', ''x'')',
    '22023', '22023'),
    ('no result', 'insert into pawl_bulk.signals (operation, key, result) values (%L, ''s1-r1'', null)', '22004',
    '22004'),
    ('a long key', 'insert into pawl_bulk.signals (operation, key) values (%L, repeat(''x'', 2001))', '22023', '22023'),
    ('a signal', 'insert into pawl_bulk.signals (operation, key) values (%L, ''s1-r1'')', 'ok', 'ok')) w(what,
    command, worker, operator);
insert into wish values ('a signal for no operation', $$insert into pawl_bulk.signals (operation, key) values
    ('00000000-0000-7000-8000-000000000000', 'k')$$, 'P0002', 'P0002');
create function short(answer text) returns text language sql as $$ select case when answer ~ '^no|^ok' then answer
    else left(answer, 5) end $$;
select is(short(may('byhand_worker', command)) || ', ' || short(may('byhand_operator', command)), worker || ', ' ||
    operator, what) from wish;

-- A signal by hand is a signal.
set role byhand_worker;
set role byhand_operator;
select pawl_bulk.run_sql_rows() is not null as ok;
set role byhand_worker;
select is((select string_agg(row_number || ' ' || state, ', ' order by row_number) from pawl_bulk.records where
    operation = :'o' and step_index = 1),
          '1 WaitingForCompletion, 2 WaitingForCompletion, 4 WaitingForCompletion', 'rows wait');
insert into pawl_bulk.signals (operation, key, result, message, payload) values (:'o', 's1-r1', 'complete', null,
    '{"n": 1}'), (:'o', 's1-r1', 'complete', null, null),
    (:'o', 's1-r2', 'fail', 'no', null), (:'o', 's1-r2', 'complete', null, null), (:'o', 's1-r6', 'complete', null,
    null), (:'o', 's1-r6', 'fail', null, null);
insert into pawl_bulk.signals (operation, key, attempt) values (:'o', 's1-r4', 3);
insert into pawl_bulk.signals (operation, key) values (:'o', 's1-r4');
select is((select string_agg(key || ' ' || answer, ', ' order by signal) from pawl_bulk.signals where operation =
    :'o' and actor = session_user),
          's1-r1 applied, s1-r1 duplicate, s1-r2 applied, s1-r2 late, s1-r6 early, s1-r6 duplicate, s1-r4 late, s1-r4 '
    'applied', 'its answer is computed');
select is((select string_agg(row_number || ' ' || state || coalesce(' ' || error_message, ''), ', ' order by
    row_number) from pawl_bulk.records where operation = :'o' and step_index = 1),
          '1 Completed, 2 Failed no, 4 Completed', 'and it does what pawl_bulk.signal does');
select is((select actor from pawl_bulk.record_transitions where operation = :'o' and row_number = 1 and step_index =
    1 and to_state = 'Completed'), 'byhand_worker', 'logged as an act of its sender');
select is((select string_agg(key || ' ' || answer, ', ') from pawl_bulk.signal_many(:'o',
    '[{"key": "s1-r1"}, {"key": "new"}]')), 's1-r1 duplicate, new early', 'many together have their answers too');

-- A retry by hand says so as pawl_bulk.retry does.
set role byhand_operator;
update pawl_bulk.work set due = null where operation = :'o' and row_number = 3;
set role byhand_worker;
select pawl_bulk.report((select jsonb_agg(to_jsonb(t) || '{"result": "ok"}') from (select * from taken where
    row_number = 5 union all select * from pawl_bulk.claim('w', 'hands')) t), 'w') is not null as ok;
set role byhand_operator;
select pawl_bulk.run_sql_rows() is not null as ok;
set role byhand_worker;
insert into pawl_bulk.signals (operation, key) select :'o', key from pawl_bulk.signal_keys where operation = :'o' and
    row_number is not null;
set role byhand_operator;
select pawl_bulk.advance() is not null as ok;
set role byhand_worker;
select is((select status from pawl_bulk.operations where operation = :'o'), 'CompletedWithErrors',
    'one row has failed');
set role byhand_operator;
update pawl_bulk.operations set status = 'Retrying' where operation = :'o';
update pawl_bulk.records set state = 'Pending' where operation = :'o' and state = 'Failed';
select is((select string_agg(detail::text, ', ') from pawl_bulk.events where operation = :'o' and type =
    'RetrySubmitted'), '{"submitted": 1}', 'the event of a retry follows from its rows');

-- Blocks of SQL functions are not claimed, and a record that an operator began by hand is run with its block.
set role byhand_worker;
select operation as blocks from pawl_bulk.submit('blocks', rows => '[{}, {}, {}, {}]') \gset
set role byhand_operator;
do $$ begin while not exists (select from pawl_bulk.work where kind = 'rows') loop perform from pawl_bulk.advance();
    end loop; end $$;
set role byhand_worker;
select is((select row_number || ' to ' || last_row from pawl_bulk.work where operation = :'blocks'), '1 to 4',
    'a block');
reset role;
select is(may('byhand_worker', format($$set local pawl.processor = 'w'; update pawl_bulk.work set state = 'leased',
    worker = 'w' where operation = %L$$, :'blocks')), '22023', 'it is not claimed by hand');
select is(may('byhand_worker', format('update pawl_bulk.work set due = ''infinity'' where operation = %L',
    :'blocks')), '42501', 'nor put off');
select is(short(may('byhand_operator', format('select pawl_bulk._shrink_block(%L, 1, 4)', :'blocks'))), '55000',
    'nor taken away while its rows have no records');
set role byhand_worker;
select is((select count(*) from pawl.claim(null::pawl_bulk.work, 'Take', 'w', queue => 'sql:')), 0::bigint,
    'nor claimed by the kernel''s function');
insert into pawl_bulk.records (operation, row_number, step_index) values (:'blocks', 2, 0), (:'blocks', 3, 0);
set role byhand_operator;
update pawl_bulk.records set state = 'Running' where operation = :'blocks' and row_number = 2;
set role byhand_operator;
do $$ begin while (select a.done + r.done from pawl_bulk.advance() a, pawl_bulk.run_sql_rows() r) > 0 loop null; end
    loop; end $$;
set role byhand_worker;
select is((select status from pawl_bulk.operations where operation = :'blocks'), 'Completed', 'all rows have run');

-- A run limit begins when the work does, whatever its worker says.
select operation as limited from pawl_bulk.submit('limited', rows => '[{}, {}]') \gset
set role byhand_operator;
select pawl_bulk.advance() is not null as ok from generate_series(1, 4);
set role byhand_worker;
update pawl_bulk.work set deadline_at = '-infinity' where operation = :'limited' and row_number = 1;
select ok((select deadline_at between now() and now() + interval '2 h' from pawl_bulk.work where operation =
    :'limited' and row_number = 1), 'the limit is the step''s');

-- An operation by hand is checked as one by the function is.
reset role;
create table settings (name text, value text);
insert into settings values
    ('notifications', '{"channel": "mail", "target": "x", "triggers": ["completion"]}'),
    ('notifications', '[{"channel": "mail", "target": "x"}]'), ('notifications', '[]'), ('notifications', '7'),
    ('notifications', '{}'), ('notifications', '[7]'), ('notifications', '{"channel": "mail"}'),
    ('notifications', '{"channel": "", "target": "x"}'), ('notifications', '{"channel": "mail", "target": ""}'),
    ('notifications', '{"channel": "mail", "target": "x", "triggers": "failure"}'),
    ('notifications', '{"channel": "mail", "target": "x", "triggers": ["sometimes"]}'),
    ('notifications', '{"channel": "mail", "target": "x", "whom": "me"}'),
    ('notifications', jsonb_build_object('channel', repeat('c', 201), 'target', 'x')::text),
    ('format', 'xml'), ('format', 'csv'), ('idempotency_key', ''), ('idempotency_key', repeat('k', 1001)),
    ('idempotency_key', 'k'), ('file_name', repeat('f', 201)), ('file_name', 'f'), ('created_by', repeat('c', 101)),
    ('created_by', 'me'), ('dialect', '{"delimiter": ""}'), ('dialect', '{"speaks": "x"}'), ('dialect', '[]'),
    ('dialect', '{"delimiter": ";"}'), ('metadata', '[]'), ('metadata', '{"a": 1}'), ('definition', 'none'),
    ('version', '99'), ('priority', '5'), ('columns', '{a,b}'), ('columns', '{}'), ('checksum', 'x'), ('source', 'x');
create view submitted as
select s.name, left(s.value, 60) as value, r.role,
       may(r.role, format('select pawl_bulk.submit(%s %I => %L)', case when s.name <> 'definition' then
    'definition => ''d'',' else '' end, s.name, s.value)) as by_function,
       may(r.role, (select format('insert into pawl_bulk.operations (%s) values (%s)',
    string_agg(quote_ident(v.key), ', '),
    string_agg(quote_literal(v.value), ', '))
      from jsonb_each_text('{"definition": "d", "version": "1"}'::jsonb
    || jsonb_build_object(s.name, s.value)) v)) as by_hand
  from settings s cross join unnest('{byhand_worker,byhand_operator}'::name[]) r(role);
select is_empty('select * from submitted where by_function is distinct from by_hand',
    'what the function rejects, an INSERT is rejected for, with the same error');
select cmp_ok((select count(*) from submitted where by_hand ^@ '22023'), '>', 20::bigint, 'much is rejected');
select cmp_ok((select count(*) from submitted where by_hand = 'ok'), '>', 15::bigint, 'and some is not');
select is((select string_agg(s.value || ' ' || u.answer, ', ') from settings s, may('byhand_operator',
    format('update pawl_bulk.operations set notifications = %L where operation = %L', s.value, :'limited')) u(answer),
    may('byhand_worker', format('select pawl_bulk.submit(''d'', notifications => %L)', s.value)) f(answer)
    where s.name = 'notifications' and u.answer is distinct from f.answer), null,
    'an operator changes notifications only to such');

-- Notices
reset role;
update pawl_bulk.operations set notifications = '{"channel": "mail", "target": "x", "triggers": ["cancelled"]}' where
    operation = :'limited';
select pawl_bulk.cancel(:'limited') as ok;
select is(may('byhand_worker', format(command, :'limited')), answer, what) from (values
    ('update pawl_bulk.notices set due = ''infinity'' where operation = %L', '42501', 'a notice is not put off'),
    ('update pawl_bulk.notices set message = ''x'' where operation = %L', '55000', 'nor is it said to have failed'),
    ('update pawl_bulk.notices set tries = 9 where operation = %L', '55000', 'nor counted as tried'),
    ('update pawl_bulk.notices set ended_at = ''-infinity'' where operation = %L', 'no right', 'nor ended in the past'),
    ('update pawl_bulk.notices set state = ''delivered'' where operation = %L', 'PW001', 'nor delivered by no one'))
    x(command, answer, what);
set role byhand_worker;
select results_eq(format($$select r.ok from pawl_bulk.claim_notices('m', 'mail') n,
    pawl_bulk.report_notices(jsonb_build_array(to_jsonb(n) || '{"result": "ok"}'), 'm') r$$), array[true],
    'it is delivered by the worker that has it');
select is((select state || ' ' || (ended_at between now() - interval '1 h' and clock_timestamp()) from
    pawl_bulk.notices where operation = :'limited'), 'delivered true', 'and stamped');
reset role;
select is_empty('select * from pawl_bulk.verify()', 'everything is as it must be');
select * from finish();
drop owned by byhand_worker, byhand_operator;
drop role byhand_worker, byhand_operator;
