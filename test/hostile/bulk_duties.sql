-- What one row or one operation does wrong never stops the others: every duty of pawl_bulk beside something poisoned.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_bulk;
create function checked(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number text, code text, message text) language plpgsql as $$
declare r jsonb;
begin
    foreach r in array rows loop
        case r ->> 'is'
            when 'conflict' then raise exception 'a conflict that never ends' using errcode = '40001';
            when 'assert' then assert false, 'asserted';
            when 'memory' then raise exception 'never enough' using errcode = '53200';
            when 'slow' then perform pg_sleep(600);
            when 'strange' then return query select 'no number', 'x', 'y';
            else null;
        end case;
    end loop;
end $$;
create function handled(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number text, message text) language plpgsql as $$
begin
    if exists (select from unnest(rows) r where r ->> 'is' = 'strange at work') then
        return query select 'no number', 'y';
    end if;
    assert not exists (select from unnest(rows) r where r ->> 'is' = 'assert at work'), 'asserted';
end $$;
create function meta(metadata jsonb) returns table (code text, message text) language plpgsql as $$
begin if metadata ? 'conflict' then raise exception 'a conflict that never ends'
    using errcode = '40001'; end if; end $$;
create function hurried() returns void language sql as $$ update pawl_bulk.troubles set again_at = clock_timestamp();
    update pawl_bulk.sql_runs set again_at = clock_timestamp() where again_at is not null $$;
create function submitted(definition text, variadic kinds text[]) returns uuid language sql as
    $$ select operation from pawl_bulk.submit(definition,
        rows => (select jsonb_agg(jsonb_build_object('is', k) order by n)
            from unnest(kinds) with ordinality u(k, n))) $$;
create procedure run(turns int default 12) language plpgsql as $$
begin
    for i in 1 .. turns loop
        perform pawl_bulk.advance(); perform pawl_bulk.run_sql_rows(); perform hurried();
    end loop;
end $$;
create function outcome(o uuid) returns text language sql as
    $$ select s.status || ' ' || s.successful_rows || ' ' || s.failed_rows || coalesce(' '
            || (select string_agg(e.row_number || ': ' || e.message, ', ' order by e.row_number) from pawl_bulk.errors e
                where e.operation = o), '')
         from pawl_bulk.status s where s.operation = o $$;
select pawl_bulk.define('{"name": "plain", "metadata_validators": ["public.meta"], "validators": ["public.checked"], '
            '"steps": [{"name": "s", "handler": "sql:public.handled"}]}') is not null as ok;

-- validators
select submitted('plain', 'fine', 'conflict', 'fine') as conflict \gset
select submitted('plain', 'fine', 'assert', 'strange', 'fine') as odd \gset
select submitted('plain', 'fine', 'memory') as memory \gset
select operation as meta from pawl_bulk.submit('plain', '{"conflict": 1}', '[{}]') \gset
select submitted('plain', 'fine') as behind \gset
select lives_ok('select pawl_bulk.advance() from generate_series(1, 4)', 'advance goes on past what it cannot do');
select lives_ok('select pawl_bulk.run_sql_rows()', 'and so does run_sql_rows');
select pawl_bulk.advance() is not null as ok;
select is(outcome(:'behind'), 'Completed 1 0', 'what is behind is done, while what is poisoned waits');
select is((select count(*) from pawl_bulk.troubles where operation in (:'conflict', :'memory', :'meta')
    and again_at > clock_timestamp()), 3::bigint, 'and is on the record');
select isnt_empty(format('select from pawl_bulk.troubles where operation = %L and sqlstate = ''40001'' and message = '
            '''a conflict that never ends''', :'conflict'), 'with its error');
call run();
select is(outcome(:'conflict'), 'CompletedWithErrors 2 1 2: a conflict that never ends',
    'a validator that always raises 40001 ends after its attempts');
select is(outcome(:'odd'), 'CompletedWithErrors 2 2 2: asserted, 3: invalid input syntax for type bigint: "no number"',
    'failed assertions and invalid answers fail their row');
call run();
select is(outcome(:'memory'), 'CompletedWithErrors 1 1 2: never enough',
    'a row that never has enough memory fails alone');
select is(outcome(:'meta'), 'Failed 0 0', 'metadata that always raise 40001 fail the operation');
select is_empty('select * from pawl_bulk.troubles', 'and no operation is in trouble any more');

-- a validator that runs into statement_timeout: its row fails, what is beside it does not
select submitted('plain', 'fine', 'slow', 'fine') as slow \gset
select submitted('plain', 'fine') as behind \gset
set statement_timeout = '150 ms';
\o /dev/null
select 'select * from pawl_bulk.advance(); select * from pawl_bulk.run_sql_rows()' from generate_series(1, 6) \gexec
\o
reset statement_timeout;
select is(outcome(:'behind'), 'Completed 1 0', 'what is behind a validator that never ends is done');
\o /dev/null
select format('update pawl_bulk.troubles set again_at = clock_timestamp(); set statement_timeout = ''150 ms''; select '
        '* from pawl_bulk.advance(); select * from pawl_bulk.run_sql_rows(); reset statement_timeout')
    from generate_series(1, 16) \gexec
\o
select is((select count(*) from pawl_bulk.validations where operation = :'slow'
    and errors @> '[{"code": "exception", "sqlstate": "57014"}]'), 1::bigint, 'and its row fails');
call run();
select alike(outcome(:'slow'), 'CompletedWithErrors 2 1 2:%', 'alone');

-- a cancel is the caller's, and no error of an operation
select submitted('plain', 'fine') as o \gset
create function cancelled() returns trigger
    language plpgsql as $$ begin raise exception 'cancelled' using errcode = '57014'; end $$;
create trigger cancelled before insert on pawl_bulk.validations for each row execute function cancelled();
create function is_cancelled() returns boolean language plpgsql as $$ begin perform pawl_bulk.advance()
    from generate_series(1, 3); return false; exception when query_canceled then return true; end $$;
select ok(is_cancelled(), 'a cancel is raised');
drop trigger cancelled on pawl_bulk.validations;
select is_empty('select * from pawl_bulk.troubles', 'and counted nowhere');
call run();

-- an operation that cannot be moved at all
create function stuck() returns trigger language plpgsql as $$ begin if new.metadata ? 'stuck'
    and new.status <> old.status then raise exception 'it does not move'; end if; return new; end $$;
create trigger stuck before update on pawl_bulk.operations for each row execute function stuck();
select operation as stuck from pawl_bulk.submit('plain', '{"stuck": 1}', '[{}]', priority => 9) \gset
select submitted('plain', 'fine') as behind \gset
call run();
select is(outcome(:'behind'), 'Completed 1 0', 'the others go on beside an operation that does not move');
select is((select problem || ' ' || detail from pawl_bulk.verify(:'stuck')),
    'cannot advance 12 times, P0001: it does not move', 'verify reports it');
select pawl_bulk._trouble(:'stuck', 'P0001', 'again') > 12 as ok \gset
select ok((select again_at > clock_timestamp() + interval '30 s' from pawl_bulk.troubles t),
    'it waits longer each time');
drop trigger stuck on pawl_bulk.operations;
call run();
select is(outcome(:'stuck'), 'Completed 1 0', 'and goes on when it can');
call run();
select is_empty('select * from pawl_bulk.troubles', 'with its trouble forgotten');

-- SQL functions of steps
select submitted('plain', 'fine', 'strange at work', 'fine', 'assert at work', 'fine') as o \gset
select submitted('plain', 'fine') as behind \gset
call run(8);
select is(outcome(:'o'), 'CompletedWithErrors 3 2 2: invalid input syntax for type bigint: "no number", 4: asserted',
    'an invalid row number in an answer fails its row');
create function unlucky() returns trigger language plpgsql as $$ begin if new.row_number = 2
    and new.state = 'Completed' then raise exception 'unlucky'; end if; return new; end $$;
create trigger unlucky before update on pawl_bulk.records for each row execute function unlucky();
select submitted('plain', 'fine', 'fine', 'fine') as o \gset
select submitted('plain', 'fine') as behind \gset
call run(8);
select is(outcome(:'o'), 'CompletedWithErrors 2 1 2: unlucky', 'a row whose move raises an error fails alone');
select is(outcome(:'behind'), 'Completed 1 0', 'the others are run');
\o /dev/null
select submitted('plain', 'fine', 'fine', 'fine') as o \gset
call run(0);
select pawl_bulk.advance(); select pawl_bulk.advance(); select pawl_bulk.advance(); select pawl_bulk.advance();
call pawl_bulk.work_sql_rows(); call pawl_bulk.work_sql_rows(); call pawl_bulk.work_sql_rows();
select pawl_bulk.advance();
\o
select is(outcome(:'o'), 'CompletedWithErrors 2 1 2: unlucky', 'by work_sql_rows too');

-- reports, deadlines
select pawl_bulk.define('{"name": "worked", "steps": [{"name": "s", "handler": "hands", "run_timeout": "1 hour"}]}') is
        not null as ok;
select submitted('worked', 'a', 'b', 'c') as o \gset
call run(4);
create temporary table taken as select * from pawl_bulk.claim('w', 'hands');
select is((select string_agg(concat_ws(' ', r.row_number, r.ok, r.problem), ', ' order by r.row_number)
    from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', operation, 'row_number', row_number,
    'step_index', 0, 'token', token, 'result', 'ok')) from taken), 'w') r), '1 t, 2 f P0001: unlucky, 3 t',
    'a row whose report fails is rejected alone');
select is((select string_agg(coalesce(row_number::text, '?') || ' ' || ok || ' ' || left(problem, 5), ', '
    order by row_number, problem collate "C")
        from pawl_bulk.report(jsonb_build_array('{"operation": "none", "row_number": 7, "result": "ok"}'::jsonb, 3,
    jsonb_build_object('operation', :'o', 'row_number', '2', 'step_index', 0, 'token', 'soon', 'result', 'ok'),
    jsonb_build_object('operation', :'o', 'row_number', 5, 'step_index', 99999999999, 'token', 3, 'result', 'ok'),
    jsonb_build_object('operation', :'o', 'row_number', 9, 'step_index', 0, 'token', 3, 'result', 'ok')), 'w')),
    '2 false 22023, 5 false 22023, 7 false 22023, 9 false PW005, ? false 22023',
    'invalid elements of a report are rejected alone');
drop trigger unlucky on pawl_bulk.records;
create function late() returns trigger language plpgsql as $$ begin if new.row_number = 2
    and new.state = 'TimedOut' then raise exception 'it cannot be timed out'; end if; return new; end $$;
create trigger late before update on pawl_bulk.records for each row execute function late();
select submitted('worked', 'a', 'b', 'c') as o \gset
call run(4);
select count(*) = 3 as ok from pawl_bulk.claim('w', 'hands') \gset
update pawl_bulk.work set deadline_at = clock_timestamp() - interval '1 s' where operation = :'o';
select is((select done from pawl_bulk.time_out()), 2::bigint, 'records are timed out beside one that cannot be');
select ok((select deadline_at > clock_timestamp() + interval '30 s' from pawl_bulk.work where operation = :'o'),
    'which is left for a while');
create function never() returns trigger language plpgsql as $$ begin raise exception 'never'; end $$;
select submitted('worked', 'a', 'b', 'c') as o \gset
call run(4);
select count(*) = 3 as ok from pawl_bulk.claim('w', 'hands') \gset
update pawl_bulk.work set deadline_at = clock_timestamp() - interval '1 s' where operation = :'o';
create trigger never before update on pawl_bulk.work for each row when (new.row_number = 2) execute function never();
select is((select done from pawl_bulk.time_out()), 2::bigint, 'nor is it in the way if it cannot be put off either');
drop trigger never on pawl_bulk.work;
drop trigger late on pawl_bulk.records;

-- counters
select submitted('worked', 'a') as bad \gset
select submitted('worked', 'a') as good \gset
call run(4);
insert into pawl_bulk.tallies (operation, validated, successful, failed)
    select o, 0, 0, 0 from unnest(array[:'bad', :'good']::uuid[]) o, generate_series(1, 40);
select format('create trigger never before delete on pawl_bulk.tallies for each row when (old.operation = %L)
    execute function never()', :'bad') \gexec
select ok((select done > 40 from pawl_bulk.fold_counters()), 'counters are folded beside those that raise an error');
select is((select count(*) from pawl_bulk.tallies where operation = :'good'), 1::bigint, 'to one row of an operation');
drop trigger never on pawl_bulk.tallies;
select pawl_bulk.cancel(:'bad'), pawl_bulk.cancel(:'good') \gset x_

-- notices
create function told(notice jsonb) returns void language plpgsql as $$ begin
    if notice ->> 'status' = 'Failed' then
        raise exception
            'conflict' using errcode = '40001';
        end if;
    end $$;
select operation as o from pawl_bulk.submit('plain', rows => '[{}]',
    notifications => '[{"channel": "sql", "target": "public.told", "triggers": ["failure"]}]') \gset
select operation as fine from pawl_bulk.submit('plain', rows => '[{}]',
    notifications => '[{"channel": "sql", "target": "public.told", "triggers": ["completion"]}]') \gset
select pawl_bulk.advance() is not null as ok;
select pawl_bulk.abort(:'o', 'x');
call run(4);
select lives_ok('select pawl_bulk.run_sql_notices()',
    'run_sql_notices goes on past a function that always raises 40001');
select is((select string_agg(state || ' ' || tries, ', ' order by state) from pawl_bulk.notices),
    'delivered 1, ready 1', 'which has used a try');
select is((select message from pawl_bulk.notices where state = 'ready'), 'conflict', 'with its reason');
select operation as o
    from pawl_bulk.submit('plain', rows => '[{}]', notifications => jsonb_build_array(jsonb_build_object('channel',
            'sql', 'target', 'public.told', 'triggers', '["completion"]'::jsonb))) \gset
alter table pawl_bulk.operations disable trigger written;
update pawl_bulk.operations set notifications
    = jsonb_build_array(jsonb_build_object('channel', repeat(md5(random()::text), 300), 'target', 'x', 'triggers',
            '["status_change"]'::jsonb)) where operation = :'o';
alter table pawl_bulk.operations enable trigger written;
call run(4);
call run(4);
select is(outcome(:'o'), 'Completed 1 0', 'a channel that no index holds does not stop its operation');
insert into pawl_bulk.notices (operation, event, channel, target, payload, asked_by)
    select :'o', :'o', 'mail', 'old ' || i, '{}', 'me' from generate_series(1, 3) i;
begin;
set local session_replication_role = replica;
update pawl_bulk.notices set ended_at = clock_timestamp() - interval '40 days' - right(target, 1)::int * interval '1 s'
    where target like 'old %';
commit;
create trigger never before delete on pawl_bulk.notices for each row when (old.target = 'old 3')
    execute function never();
select is((select done from pawl_bulk.prune_notices(1)), 1::bigint, 'an old notice that cannot be deleted');
select is((select string_agg(target, ', ' order by target) from pawl_bulk.notices where target like 'old %'),
    'old 1, old 3', 'does not stop the next one');
drop trigger never on pawl_bulk.notices;
delete from pawl_bulk.notices where target like 'old %';

-- signal keys
select pawl_bulk.define('{"name": "awaited", "track_row_data": true, "steps": [{"name": "s", "kind": "signal", '
            '"handler": "none", "timeout": "1 day", "signal_key": "k-{data.is}"}]}') is not null as ok;
select operation as o from pawl_bulk.submit('awaited',
    rows => jsonb_build_array(
        jsonb_build_object('is', (select string_agg(md5(i::text), '') from generate_series(1, 100) i)),
            '{"other": 1}'::jsonb, '{"is": ""}'::jsonb, '{"is": null}'::jsonb, '{"is": "a"}'::jsonb,
    '{"is": "a"}'::jsonb, '{"is": "{data.is}"}'::jsonb, jsonb_build_object('is', repeat('y', 1998)),
    jsonb_build_object('is', repeat('x', 1999)))) \gset
select submitted('awaited', 'b') as behind \gset
call run(4);
select is((select string_agg(row_number || ' ' || state || coalesce(' ' || error_message, ''), ', ' order by row_number)
    from pawl_bulk.records where operation = :'o'),
    '1 Failed its signal key is longer than 2000 bytes, 2 Failed it has no signal key: "is" is missing, 3 Failed it '
    'has no signal key: "is" is missing, 4 Failed it has no signal key: "is" is missing, '
    '5 WaitingForCompletion, 6 Failed its signal key belongs to another row, 7 WaitingForCompletion, 8 '
    'WaitingForCompletion, 9 Failed its signal key is longer than 2000 bytes',
    'rows without a signal key fail alone, with the reason');
select is((select string_agg(left(key, 12), ', ' order by row_number) from pawl_bulk.signal_keys
    where operation = :'o'), 'k-a, k-{data.is}, k-yyyyyyyyyy', 'no key is empty, none is made of what a field says');
select is(pawl_bulk.signal(:'o', 'k-' || repeat('y', 1998)), 'applied', 'a key of 2,000 bytes is one');
select is(pawl_bulk.signal(:'behind', 'k-b'), 'applied', 'and the other operation waits for its own');
select throws_ok(format('select pawl_bulk.signal(%L, %L)', :'o', repeat('z', 2001)), '22023',
    'a signal key must have at most 2000 bytes');
select throws_ok(format('select pawl_bulk.signal_many(%L, %L)', :'o',
        jsonb_build_array(jsonb_build_object('key', repeat('z', 2001)))),
    '22023', 'a signal key must have at most 2000 bytes');
select is_empty('select * from pawl_bulk.verify()', 'nothing is wrong');
select * from finish();
