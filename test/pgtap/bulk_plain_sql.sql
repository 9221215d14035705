-- What plain SQL cannot do with work, records and input.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk;
select pawl_bulk.define('{"name": "plain", "is_retryable": true, "track_row_data": true, "steps": [{"name": "a",
    "handler": "hands", "max_retries": 3, "backoff": {"base": "1 h", "cap": "1 h", "jitter": 0}},
    {"name": "b", "handler": "hands"}]}') is not null as ok;
select pawl_bulk.define('{"name": "waits", "steps": [{"name": "s", "kind": "signal", "handler": "hands",
    "timeout": "1 h", "signal_key": "k{row}"}, {"name": "p", "kind": "poll", "handler": "hands", "check": "checks",
    "poll_interval": "1 s", "timeout": "1 h"}, {"name": "c", "handler": "hands"}]}') is not null as ok;
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
-- Its error, or how many rows it has changed.
create function tried(role name, worker text, command text) returns text language plpgsql as $$
declare n bigint;
begin
    execute format('set local role %I; set local pawl.processor = %L', role, worker);
    execute command;
    get diagnostics n = row_count;
    reset role;
    return n;
exception when others then
    return sqlstate || ' ' || sqlerrm;
end $$;
create function ended(o uuid, worker text, result text) returns text language sql as $$
    select string_agg(concat_ws(' ', row_number, ok, problem), ', ' order by row_number) from pawl_bulk.report(
        (select jsonb_agg(jsonb_build_object('operation', operation, 'row_number', row_number, 'step_index', step_index,
            'token', token, 'result', result, 'message', 'no')) from pawl_bulk.work w where w.operation = o
            and w.worker = ended.worker), worker) $$;
create function all_work(o uuid) returns text language sql as $$
    select string_agg(concat_ws(' ', row_number, step_index, state, held), ', ' order by row_number, step_index)
      from pawl_bulk.work where operation = o $$;

-- Work that is held is claimed by no role, and work that is not due by operators only.
select begun('plain', 2) as o \gset
select pawl_bulk.pause(:'o') as ok;
select is(tried('pawl_worker', 'w', format($$update pawl_bulk.work set state = 'leased' where operation = %L$$, :'o')),
    '55000 row 1 at step 0 is held', 'a worker does not claim held work by an update');
select is(tried('pawl_operator', 'w', format(
    $$select pawl.fire('pawl_bulk.work', array[%L, '1', '0'], 'Take')$$, :'o')),
    '55000 row 1 at step 0 is held', 'nor does an operator by the event');
select is(all_work(:'o'), '1 0 ready t, 2 0 ready t', 'it stays as it was');
select pawl_bulk.resume(:'o') as ok;
select count(*) as claimed from pawl_bulk.claim('w', 'hands') \gset
select is(:claimed, 2, 'it is claimed when the operation is resumed');
select is(ended(:'o', 'w', 'fail'), '1 t, 2 t', 'a try fails');
select is(tried('pawl_worker', 'w', format(
    $$update pawl_bulk.work set state = 'leased' where operation = %L$$, :'o')),
    '55000 row 1 at step 0 is not due', 'a worker does not claim work that is not due');
select is(tried('pawl_operator', 'w', format(
    $$update pawl_bulk.work set state = 'leased' where operation = %L and row_number = 1$$, :'o')), '1',
    'an operator does');
update pawl_bulk.work set due = now() - interval '1 s' where operation = :'o' and row_number = 2;
select is(tried('pawl_worker', 'w', format(
    $$update pawl_bulk.work set state = 'leased' where operation = %L and row_number = 2$$, :'o')), '1',
    'and so does a worker when it is due');
select is(ended(:'o', 'w', 'ok'), '1 t, 2 t', 'the tries end');
select pawl_bulk.cancel(:'o') as ok;

-- A record begins with the claim of its work.
select begun('plain', 3) as o \gset
select is(tried('pawl_worker', 'w', format(
    $$update pawl_bulk.records set state = 'Running' where operation = %L and row_number = 1$$, :'o')),
    'PW004 row 1 at step 0 is not claimed by "w"', 'a worker does not begin a record that it has not claimed');
select is(tried('pawl_operator', 'w', format($$update pawl_bulk.records set state = 'Running', tries = 1
    where operation = %L and row_number = 1$$, :'o')),
    'PW004 row 1 at step 0 is not claimed by "w"', 'nor does an operator write a try of it');
select is(tried('pawl_operator', 'w', format($$update pawl_bulk.records set state = 'Running', error_type = 'Timeout'
    where operation = %L and row_number = 1$$, :'o')),
    'PW004 row 1 at step 0 is not claimed by "w"', 'nor the type of an error');
select is((select string_agg(concat_ws(' ', row_number, state, tries, error_type), ', ' order by row_number)
    from pawl_bulk.records where operation = :'o'), '1 Pending 0, 2 Pending 0, 3 Pending 0', 'all wait as before');
select is(tried('pawl_operator', 'w', format(
    $$update pawl_bulk.records set state = 'Running' where operation = %L and row_number = 1$$, :'o')), '1',
    'an operator begins one by hand');
select is(tried('pawl_worker', 'w', $$select from pawl_bulk.claim('w', 'hands', 2)$$), '2', 'a worker claims two');
select is(tried('pawl_worker', 'w', format($$update pawl_bulk.records set error_type = 'Timeout'
    where operation = %L and row_number = 1$$, :'o')), '1', 'and writes the error of its own');
select is(tried('pawl_worker', 'x', format($$update pawl_bulk.records set error_type = 'Processing'
    where operation = %L and row_number = 1$$, :'o')),
    'PW004 row 1 at step 0 is not claimed by "x"', 'which another worker does not');
select pawl_bulk.cancel(:'o') as ok;

-- A record that waits has no error, and is not completed before it has waited.
select begun('waits', 2) as o \gset
select is(tried('pawl_worker', 'w', $$select from pawl_bulk.claim('w', 'hands')$$), '2', 'steps that wait are claimed');
select is(tried('pawl_worker', 'w', format(
    $$update pawl_bulk.records set state = 'Completed' where operation = %L and row_number = 1$$, :'o')),
    'PW003 row 1 cannot be completed before it has waited', 'a signal step is not completed by its worker');
select is(tried('pawl_worker', 'w', format($$update pawl_bulk.records set state = 'WaitingForCompletion',
    error_type = 'Timeout', error_message = 'forged', completed_at = '1999-01-01' where operation = %L$$, :'o')), '2',
    'its records begin to wait by hand');
select is((select string_agg(concat_ws(' ', row_number, state, error_type, error_message, completed_at), ', '
    order by row_number) from pawl_bulk.records where operation = :'o'),
    '1 WaitingForCompletion, 2 WaitingForCompletion', 'and have no error and no end');
select is(pawl_bulk.signal(:'o', 'k1'), 'applied', 'a signal completes one');
select is(tried('pawl_worker', 'w', $$select from pawl_bulk.claim('w', 'hands')$$), '1', 'it is at the next step');
select is(tried('pawl_worker', 'w', format(
    $$update pawl_bulk.records set state = 'Completed' where operation = %L and step_index = 1$$, :'o')),
    'PW003 row 1 cannot be completed before it has waited', 'nor is a step that polls');
select is(ended(:'o', 'w', 'ok'), '1 t', 'its start is reported');
select is(tried('pawl_worker', 'c', $$select from pawl_bulk.claim('c', 'checks')$$), '1', 'its check is claimed');
select is(ended(:'o', 'c', 'done'), '1 t', 'which completes it');
select is(tried('pawl_worker', 'w', $$select from pawl_bulk.claim('w', 'hands')$$), '1', 'the last step is claimed');
select is(tried('pawl_worker', 'w', format(
    $$update pawl_bulk.records set state = 'Completed' where operation = %L and step_index = 2$$, :'o')), '1',
    'and a step that does not wait is completed by hand');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'o'), 'nothing is wrong');
select pawl_bulk.cancel(:'o') as ok;

-- Numbers of rows.
select operation as o from pawl_bulk.submit('plain') \gset
select throws_ok(format($$insert into pawl_bulk.input (operation, row_number, raw) values (%L, %s, '{}')$$, :'o', n),
    '23514', null, format('a row cannot have the number %s', n))
    from unnest('{-1,1000000000000000000,9223372036854775807}'::bigint[]) n;
select lives_ok(format($$insert into pawl_bulk.input (operation, row_number, raw)
    values (%1$L, 999999999999999999, '{}'), (%1$L, 1, '{}'), (%1$L, 0, '{}')$$, :'o'), 'the last number is possible');
select throws_ok(format('select pawl_bulk.seal(%L)', :'o'), '22023', 'row 0 is for the header of a CSV file',
    'but 0 is for a header');
delete from pawl_bulk.input where operation = :'o' and row_number = 0;
select is(pawl_bulk.seal(:'o'), 2::bigint, 'the input is complete');
select pawl_bulk.advance() is not null as ok from generate_series(1, 8);
select is(tried('pawl_worker', 'w', $$select from pawl_bulk.claim('w', 'hands')$$), '2', 'both rows are claimed');
select is(ended(:'o', 'w', 'ok'), '1 t, 999999999999999999 t', 'and both are reported');
select pawl_bulk.cancel(:'o') as ok;
select finish();
