-- Signals in numbers, checks before anything is submitted, definitions of one handler, schemas.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk;
create function rejecting(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as
$$ select n, 'no network' from unnest(row_numbers, rows) u(n, r) where r ->> 'x' = 'bad' $$;
create function checked(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, code text, message text) language sql as
$$ select n, 'x', 'x is forbidden' from unnest(row_numbers, rows) u(n, r) where r ->> 'x' = 'forbidden' $$;
create function submitted(definition text, xs text[]) returns uuid language plpgsql as $$
declare o uuid;
begin
    select s.operation into o from pawl_bulk.submit(definition,
        rows => (select jsonb_agg(jsonb_build_object('x', x) order by n) from unnest(xs) with ordinality u(x, n))) s;
    for turn in 1 .. 20 loop
        exit when (select done from pawl_bulk.advance()) + (select done from pawl_bulk.run_sql_rows()) = 0;
    end loop;
    return o;
end $$;

-- one handler
select pawl_bulk.define('{"name": "single", "handler": "sql:public.rejecting", "is_retryable": true, '
        '"track_row_data": true}') is not null as ok;
select submitted('single', '{a,bad}') as o \gset
select is((select string_agg(concat_ws(' ', row_number, step_index, step_name, error_type, message), ', ')
        from pawl_bulk.errors where operation = :'o'),
    '2 0 process Processing no network', 'rows of a definition with one handler fail with Processing');
select is((select submitted from pawl_bulk.retry(:'o', error_types => '{Processing}')), 1::bigint,
    'and are retried by it');
select throws_ok($$select pawl_bulk.define('{"name": "x", "handler": "h", "steps": [{"name": "a"}]}')$$, '22023',
    'definition "x" has steps and a handler of its own');
select throws_ok($$select pawl_bulk.define('{"name": "x"}')$$, '22023', 'definition "x" has no steps');
select pawl_bulk.define('{"name": "worked", "handler": "hands"}') is not null as ok;
select submitted('worked', '{a}') as o \gset
select count(*)
    from pawl_bulk.report(
        (select jsonb_agg(jsonb_build_object('operation', operation, 'row_number', row_number, 'step_index', step_index,
            'token', token, 'result', 'fail', 'message', 'no'))
    from pawl_bulk.claim('w', 'hands')), 'w');
select is((select error_type || ' ' || message from pawl_bulk.errors where operation = :'o'), 'Processing no',
    'also where a worker reports it');

-- a lease that ends after the report has looked at it: the trigger holds the report up until then
select pawl_bulk.define('{"name": "patient", "steps": [{"name": "s", "handler": "hands", "max_retries": 2}]}') is
        not null as ok;
select submitted('patient', '{a,b}') as o \gset
create temporary table held as select row_number, step_index, token from pawl_bulk.claim('w', 'hands', 1, '200 ms');
insert into held select row_number, step_index, token from pawl_bulk.claim('w', 'hands', 1, '1 hour');
create function public.held_up() returns trigger language plpgsql as $$
begin
    while exists (select from pawl_bulk.work
        where lease_until > clock_timestamp() and lease_until < clock_timestamp() + interval '1 minute') loop
    end loop;
    return null;
end $$;
create trigger held_up before update on pawl_bulk.work for each statement execute function public.held_up();
select is((select string_agg(concat_ws(' ', row_number, ok, problem), ', ' order by row_number)
    from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', :'o', 'row_number', row_number,
    'step_index', step_index, 'token', token, 'result', 'fail', 'message', 'no')) from held), 'w')),
    '1 f PW005: the lease is lost, or the row is already done, 2 t', 'the row is lost, and the others are reported');
drop trigger held_up on pawl_bulk.work;
select is((select string_agg(row_number || ' ' || tries, ', ' order by row_number) from pawl_bulk.records
    where operation = :'o'), '1 0, 2 1', 'and only their try counts');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'nothing is wrong after it');

-- three leases that end one after the other while a report looks again, and an error like theirs that is one row's own
select pawl_bulk.define('{"name": "more patient", "steps": [{"name": "s", "handler": "steady hands",
    "max_retries": 2}]}') is not null as ok;
select submitted('more patient', '{a,b,c,d}') as o \gset
truncate held;
insert into held select row_number, step_index, token
    from unnest('{500 ms,1000 ms,1500 ms,1 hour}'::interval[]) lease, pawl_bulk.claim('w', 'steady hands', 1, lease)
    where operation = :'o';
create function public.held_up_again() returns trigger language plpgsql as $$
begin
    perform pg_sleep(extract(epoch from min(lease_until) - clock_timestamp()) + 0.01) from pawl_bulk.work
        where lease_until > clock_timestamp() and lease_until < clock_timestamp() + interval '1 minute';
    return null;
end $$;
create trigger held_up before update on pawl_bulk.work for each statement execute function public.held_up_again();
create function reported(o uuid, result text) returns text language sql as $$
    select string_agg(concat_ws(' ', row_number, ok, problem), ', ' order by row_number)
    from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', o, 'row_number', row_number,
    'step_index', step_index, 'token', token, 'result', result, 'message', 'no')) from held), 'w') $$;
select is(reported(:'o', 'fail'), '1 f PW005: the lease is lost, or the row is already done, 2 f PW005: the lease is '
    'lost, or the row is already done, 3 f PW005: the lease is lost, or the row is already done, 4 t',
    'each row whose lease ends is lost alone');
drop trigger held_up on pawl_bulk.work;
select pawl_bulk.define('{"name": "followed", "steps": [{"name": "s", "handler": "hands"}, {"name": "t",
    "handler": "others"}]}') is not null as ok;
select submitted('followed', '{a,b,c}') as o \gset
truncate held;
insert into held select row_number, step_index, token from pawl_bulk.claim('w', 'hands', 10) where operation = :'o';
create function public.rejects() returns trigger language plpgsql as $$
begin
    if new.row_number = 2 and new.step_index = 1 then
        raise exception sqlstate 'PW005' using message = 'not this row';
    end if;
    return new;
end $$;
create trigger rejects before insert on pawl_bulk.records for each row execute function public.rejects();
select is(reported(:'o', 'ok'), '1 t, 2 f PW005: not this row, 3 t', 'a row that cannot go on is rejected alone');
drop trigger rejects on pawl_bulk.records;
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'nothing is wrong after that either');

-- a report of the attempt before a retry, which is sent again by the same worker: of a start, and of a check
select pawl_bulk.define('{"name": "resent", "is_retryable": true, "track_row_data": true, "steps": [{"name": "s",
    "kind": "poll", "handler": "new hands", "check": "new eyes", "poll_interval": "1 h", "timeout": "1 day"}]}') is
    not null as ok;
select submitted('resent', '{a,b}') as o \gset
create function claimed(o uuid, queue text, result text) returns jsonb language sql as $$
    select jsonb_agg(jsonb_build_object('operation', o, 'row_number', row_number, 'step_index', step_index, 'token',
        token, 'result', result) order by row_number) from pawl_bulk.claim('w', queue) where operation = o $$;
create function sent(reports jsonb) returns text language sql as $$
    select string_agg(row_number || ' ' || ok, ', ' order by row_number) from pawl_bulk.report(reports, 'w') $$;
create function retried(o uuid) returns bigint language plpgsql as $$
declare found bigint := (select submitted from pawl_bulk.retry(o));
begin
    perform from pawl_bulk.advance();
    return found;
end $$;
select claimed(:'o', 'new hands', 'fail') as first \gset
select is(sent(:'first'), '1 true, 2 true', 'two rows fail');
select count(*) from pawl_bulk.advance();
select is(retried(:'o'), 2::bigint, 'and are tried again');
select claimed(:'o', 'new hands', 'ok') as second \gset
select is(sent(:'first'), '1 false, 2 false', 'a report of the attempt before is stale');
select is(sent(:'second'), '1 true, 2 true', 'that of this attempt counts');
update pawl_bulk.work set due = clock_timestamp() where operation = :'o';
select claimed(:'o', 'new eyes', 'failed') as third \gset
select is(sent(:'second'), '1 false, 2 false', 'a check has a token of its own');
select is(sent(:'third'), '1 true, 2 true', 'by which it fails');
select count(*) from pawl_bulk.advance();
select is(retried(:'o'), 2::bigint, 'the rows are tried a third time');
select claimed(:'o', 'new hands', 'ok') as fourth \gset
select is(sent(:'first') || ', ' || sent(:'second') || ', ' || sent(:'third'), '1 false, 2 false, 1 false, 2 false, '
    '1 false, 2 false', 'and no earlier report counts');
select is(sent(:'fourth'), '1 true, 2 true', 'but the last');

-- tries wait twice as long each time, up to the cap
select pawl_bulk.define('{"name": "backs off", "steps": [{"name": "s", "handler": "slow hands", "max_retries": 3,
    "backoff": {"base": "1 h", "cap": "7 h", "jitter": 0}}]}') is not null as ok;
select submitted('backs off', '{a}') as o \gset
create function fails_again(o uuid) returns text language plpgsql as $$
begin
    update pawl_bulk.work set due = clock_timestamp() where operation = o;
    perform from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', c.operation,
        'row_number', c.row_number, 'step_index', c.step_index, 'token', c.token, 'result', 'fail', 'message', 'no'))
        from pawl_bulk.claim('w', 'slow hands') c), 'w');
    return (select concat_ws(' ', r.state, r.tries, round(extract(epoch from w.due - clock_timestamp()) / 3600))
        from pawl_bulk.records r left join pawl_bulk.work w using (operation, row_number, step_index)
        where operation = o);
end $$;
select is((select array_agg(fails_again(:'o')) from generate_series(1, 4)),
    '{Running 1 2,Running 2 4,Running 3 7,Failed 4}', 'a row is tried again as often, and as late, as its step says');

-- what is no result of the start of work
select pawl_bulk.define('{"name": "misread", "handler": "other hands"}') is not null as ok;
select submitted('misread', '{a}') as o \gset
select jsonb_build_object('operation', operation, 'row_number', row_number, 'step_index', step_index, 'token', token)
    as claimed from pawl_bulk.claim('w', 'other hands') \gset
select is((select string_agg(problem, ', ' order by n) from unnest('{done,pending,failed}'::text[])
        with ordinality u(said, n),
    pawl_bulk.report(jsonb_build_array(:'claimed'::jsonb || jsonb_build_object('result', said)), 'w')),
    '22023: "done" is not a result of a start, 22023: "pending" is not a result of a start, 22023: "failed" is not a '
    'result of a start', 'results of a check are none of a start');
select is((select state from pawl_bulk.records where operation = :'o'), 'Running', 'and do nothing');

-- rows are opened in batches: not while their operation is paused
select operation as o from pawl_bulk.submit('misread', rows => '[{"x": 1}, {"x": 2}, {"x": 3}]') \gset
do $$ begin
    for turn in 1 .. 20 loop
        exit when (select count(*) from pawl_bulk.records join pawl_bulk.operations using (operation)
            where definition = 'misread') > 1;
        perform from pawl_bulk.advance(1);
    end loop;
end $$;
select pawl_bulk.pause(:'o') as ok;
do $$ begin for turn in 1 .. 4 loop perform from pawl_bulk.advance(1); end loop; end $$;
select is((select count(*) from pawl_bulk.records where operation = :'o'), 1::bigint,
    'a paused operation opens no more rows');
select pawl_bulk.resume(:'o') as ok;
do $$ begin for turn in 1 .. 4 loop perform from pawl_bulk.advance(1); end loop; end $$;
select is((select count(*) from pawl_bulk.records where operation = :'o'), 3::bigint,
    'which it does when it is resumed');

-- many signals
select pawl_bulk.define('{"name": "awaited", "is_retryable": true, "track_row_data": true,
    "steps": [{"name": "approval", "kind": "signal", "handler": "none", "timeout": "1 day", "signal_key": "k{row}"}]}')
        is not null as ok;
select submitted('awaited', '{a,b,c,d,e}') as o \gset
select results_eq(format('select * from pawl_bulk.signal_many(%L, %L)', :'o',
    '[{"key": "k3"}, {"key": "k1", "result": "fail", "message": "no credit"}, {"key": "later"},
    {"key": "k3", "result": "fail"},
    {"key": "k2", "attempt": 4}, {"key": "k4", "attempt": 0, "payload": {"by": "me"}}]'),
    $$values ('k3', 'applied'), ('k1', 'applied'), ('later', 'early'), ('k3', 'duplicate'), ('k2', 'late'),
        ('k4', 'applied')$$, 'each signal has its answer, in their order');
select is((select string_agg(concat_ws(' ', row_number, state, error_type, error_message), ', ' order by row_number)
    from pawl_bulk.records where operation = :'o'),
    '1 Failed SignalFailure no credit, 2 WaitingForCompletion, 3 Completed, 4 Completed, 5 WaitingForCompletion',
    'and does what it says');
select results_eq(format('select * from pawl_bulk.signal_many(%L, %L)', :'o',
    '[{"key": "k3"}, {"key": "k1"}, {"key": "later"}]'),
    $$values ('k3', 'duplicate'), ('k1', 'late'), ('later', 'duplicate')$$, 'what came is not undone');
select is((select string_agg(key || ' ' || answer, ', ' order by signal) from pawl_bulk.signals
    where operation = :'o' and payload is not null), 'k4 applied', 'all are recorded');
select is((select count(*) from pawl_bulk.signals where operation = :'o'), 9::bigint, 'each signal is stored once');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'nothing is wrong');
select is_empty(format('select * from pawl_bulk.signal_many(%L, %L)', :'o', '[]'), 'no signals, no answers');
select throws_ok(format('select * from pawl_bulk.signal_many(%L, %L)', :'o', '[{"result": "fail"}]'), '22023', null,
    'a signal has a key');
select throws_ok(format('select * from pawl_bulk.signal_many(%L, %L)', :'o', '[{"key": "k", "result": "perhaps"}]'),
    '22023', null, 'and a result that is known');
select throws_ok($$select * from pawl_bulk.signal_many('00000000-0000-7000-8000-000000000000', '[{"key": "k"}]')$$,
    'P0002', null, 'and an operation');
-- a signal after the deadline is late, though no session has timed the row out yet
select submitted('awaited', '{a,b}') as hurried \gset
update pawl_bulk.work set deadline_at = now() - interval '1 s' where operation = :'hurried';
select is((select string_agg(state, ' ') from pawl_bulk.records where operation = :'hurried'),
    'WaitingForCompletion WaitingForCompletion', 'both rows still wait');
select is(pawl_bulk.signal(:'hurried', 'k1'), 'late', 'one signal that comes too late');
select is((select answer from pawl_bulk.signal_many(:'hurried', '[{"key": "k2"}]')), 'late', 'one of many');
-- of two that come early the first counts
select pawl_bulk.define('{"name": "early", "steps": [{"name": "approval", "kind": "signal", "handler": "none",
    "timeout": "1 day", "signal_key": "k{row}"}]}') is not null as ok;
select operation as early from pawl_bulk.submit('early', rows => '[{}]') \gset
select is(pawl_bulk.signal(:'early', 'k1', 'fail', 'no') || ' ' || pawl_bulk.signal(:'early', 'k1'), 'early duplicate',
    'two signals before their row waits');
do $$ begin for turn in 1 .. 6 loop perform from pawl_bulk.advance(), pawl_bulk.run_sql_rows(); end loop; end $$;
select is((select concat_ws(' ', state, error_message) from pawl_bulk.records where operation = :'early'), 'Failed no',
    'the first of them counts');
select pawl_bulk.cancel(:'o') as ok;
select is((select string_agg(answer, ' ') from pawl_bulk.signal_many(:'o', '[{"key": "k2"}, {"key": "k5"}]')),
    'refused refused', 'an operation that has ended takes none');
set role pawl_reader;
select throws_ok(format('select * from pawl_bulk.signal_many(%L, %L)', :'o', '[{"key": "k"}]'), '42501', null,
    'readers send none');
reset role;

-- schemas
select pawl_bulk.define('{"name": "schema", "handler": "sql:public.rejecting", "validators": ["public.checked"],
    "metadata": {"required": ["customer"], "properties": {"year": {"type": "integer", "minimum": 2000}}},
    "row": {"required": ["x", "y"], "properties": {"x": {"minLength": 1, "maxLength": 9, "pattern": "^[a-z]+$"},
        "n": {"type": "number", "minimum": 1, "maximum": 5}, "i": {"type": "integer"},
        "b": {"type": "boolean"}, "e": {"enum": ["a", 1]}, "s": {"type": "string"}, "m": {"maximum": 3}}}}') is not null
    as ok;
create function said(r text) returns text language sql as
$$ select string_agg(e ->> 'code' || coalesce(' ' || (e ->> 'field'), ''), ', '
    order by n) from pawl_bulk.precheck('schema', '{"customer": "c"}', rows => jsonb_build_array(r::jsonb)) p
   cross join lateral jsonb_array_elements(p.row_errors) with ordinality x(e, n) $$;
select is(said('{"x": "abc", "y": 1}'), null, 'a row that is fine');
select is(said('{"x": "", "n": 1}'), 'required x, required y', 'fields that are missing or empty');
select is(said('{"x": "A", "y": null}'), 'required y, pattern x', 'a null is missing; a pattern');
select is(said('{"x": "abcdefghij", "y": 1}'), 'length x', 'a text that is too long is found');
select is(said('{"x": "a", "y": 1, "n": "-1e-9999"}'), 'range n', 'numbers of any size');
select is(said('{"x": "a", "y": 1, "n": "1e400000"}'), 'type n', 'that the database holds');
select is(said('{"x": "a", "y": 1, "m": 1e40000}'), 'type m', 'or does not');
select is(said('{"x": "a", "y": 1, "n": "0.5"}'), 'range n', 'out of range');
select is(said('{"x": "a", "y": 1, "n": 1}'), null, 'the least number is in range');
select is(said('{"x": "a", "y": 1, "n": "five", "i": 1.5, "b": "yes"}'), 'type b, type i, type n',
    'values of a wrong type are found: boolean, integer and number');
select is(said('{"x": "a", "y": 1, "n": 5, "i": "-7", "b": "true", "e": "a", "s": "s", "m": 3}'), null,
    'texts are as good as numbers: CSV has no others');
select is(said('{"x": "a", "y": 1, "e": "1"}'), 'enum e', 'a value that is not in the enumeration is found');
select is(said('{"x": "a", "y": 1, "e": []}'), 'enum e', 'an empty list is not in it');
select is(said('{"x": "a", "y": 1, "e": ["a"]}'), 'enum e', 'nor a part of the enumeration');
select is(said('{"x": "a", "y": 1, "e": 1}'), null, 'hold numbers too');
select is(said('{"x": "a", "y": 1, "s": 1, "m": "many"}'), 'type m, type s', 'a limit is of a number');
select is(said('{"x": "forbidden", "y": 1}'), 'x', 'validators are asked');
select is((select jsonb_object_agg(e ->> 'message', 1)
    from pawl_bulk.precheck('schema', '{"customer": "c"}', rows => '[{"x": "A", "y": 1, "n": 9, "e": 2, "i": "x"}]') p
    cross join lateral jsonb_array_elements(p.row_errors) e),
    '{"\"x\" does not match ^[a-z]+$": 1, "\"n\" is out of range": 1, "\"e\" is not one of [\"a\", 1]": 1, "\"i\" is '
    'not a value of type integer": 1}'::jsonb, 'messages of validation name the field and the rule');

-- before anything is submitted
select results_eq($$select valid, metadata_errors
    from pawl_bulk.precheck('schema', '{"year": 1999}', rows => '[{"x": "a", "y": 1}]')$$,
    $$values (false, '{"\"customer\" is missing","\"year\" is out of range"}'::text[])$$,
    'everything that is wrong with the metadata');
select results_eq($$select valid, row_errors
    from pawl_bulk.precheck('schema', '{"customer": "c"}', lines => '{"Ex,y",abc,"a,1","\"b"}',
        dialect => '{"map": {"Ex": "x"}}')$$,
    $$values (true, '[{"code": "malformed", "message": "1 fields where there are 2 columns", "row_number": 1}, '
    '{"code": "malformed", "message": "a quote is not closed", "row_number": 3}]'::jsonb)$$,
    'lines of a file; one row that is fine is enough');
select results_eq($$select valid, row_errors
    from pawl_bulk.precheck('schema', '{"customer": "c"}', lines => '{"{\"x\": \"A\", \"y\": 2}","[1]"}',
        format => 'ndjson')$$,
    $$values (false, '[{"code": "pattern", "field": "x", "message": "\"x\" does not match ^[a-z]+$", "row_number": '
    '1}, {"code": "malformed", "message": "the row is not a JSON object", "row_number": 2}]'::jsonb)$$, 'none is not');
select is((select valid from pawl_bulk.precheck('schema', '{"customer": "c"}')), false, 'nor are no rows');
select throws_ok($$select pawl_bulk.precheck('missing')$$, 'P0002', null, 'a definition that is not there');
select is((select count(*) from pawl_bulk.operations where definition = 'schema'), 0::bigint, 'no operation was made');
select * from finish();
