-- Actions of the HTTP API on many rows of a bulk operation: what a dry run says, retries of given rows and of all that
-- match, signals in parts, and what is rejected.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk cascade;
create extension if not exists pawl_api cascade;
select pawl_bulk.define('{"name": "devices", "is_retryable": true, "track_row_data": true, "row_id": "id",
    "steps": [{"name": "ask", "kind": "signal", "handler": "none", "timeout": "1 day", "signal_key": "go-{row}"},
              {"name": "book", "kind": "signal", "handler": "none", "timeout": "1 day", "signal_key": "book-{row}",
               "allow_operation_retry": false}]}') \g /dev/null
select operation as id from pawl_bulk.submit('devices',
    rows => (select jsonb_agg(jsonb_build_object('id', 'd' || g)) from generate_series(1, 12) g)) \gset
create function public.turn() returns void language plpgsql as $$
declare did bigint;
begin
    for turn in 1 .. 20 loop
        select (select done from pawl_bulk.advance()) + (select done from pawl_bulk.run_sql_rows())
            + (select done from pawl.fire_due('pawl_bulk.work')) into did;
        exit when did = 0;
    end loop;
end $$;
create function public.act(id uuid, body jsonb) returns jsonb language sql as
    $$ select pawl_api.act_on_bulk_rows(jsonb_build_object('id', id), body) $$;
create function public.counts(answer jsonb) returns text language sql as
    $$ select concat_ws(' ', answer ->> 'changed', answer ->> 'unchanged', answer ->> 'rejected') $$;
create function public.reasons(answer jsonb) returns text language sql as $$
    select string_agg(concat_ws(' ', g ->> 'outcome', g ->> 'state', g ->> 'count', g ->> 'sqlstate', g ->> 'reason'),
        '; ') from jsonb_array_elements(answer -> 'groups') g $$;
create function public.states(id uuid) returns text language sql as $$
    select string_agg(step_name || ' ' || state || ' ' || n, ', ' order by step_name, state)
      from (select l.step_name, l.state, count(*) as n from pawl_bulk.latest_records l where l.operation = id
            group by 1, 2) x $$;
select turn() \g /dev/null
select is(states(:'id'), 'ask WaitingForCompletion 12', 'twelve rows wait for a signal');

-- Signals
select act(:'id', '{"action": "fail", "rows": [3, 1, 2, 99], "dry_run": true}') as dry \gset
select is(counts(:'dry'), '3 0 1', 'a dry run counts the rows that would fail, and one that does not exist');
select is(reasons(:'dry'), 'changed WaitingForCompletion 3; rejected 1 P0002 there is no such row',
    'the rows are grouped by reason');
select is(:'dry'::jsonb #> '{groups,0,examples}', '["1", "2", "3"]', 'each group has examples');
select is(:'dry'::jsonb -> 'items', '[]', 'a dry run has no items');
select is(states(:'id'), 'ask WaitingForCompletion 12', 'and changes nothing');
select act(:'id', '{"action": "fail", "reason": "no answer", "rows": [1, 2, 3, 3, 99]}') as done \gset
select is(counts(:'done'), '3 0 1', 'three rows fail');
select is((select string_agg(i ->> 'id' || ' ' || (i ->> 'outcome'), ', ' order by n)
    from jsonb_array_elements(:'done'::jsonb -> 'items') with ordinality x(i, n)),
    '1 changed, 2 changed, 3 changed, 99 rejected', 'each row has its outcome, in their order');
select is((select count(*) from pawl_bulk.records where operation = :'id' and error_type = 'SignalFailure'
    and error_message = 'no answer'), 3::bigint, 'the reason is their message');
select is(reasons(act(:'id', '{"action": "complete", "rows": [1, 4]}')),
    'changed WaitingForCompletion 1; unchanged Failed 1 it does not wait for a signal',
    'a row that does not wait stays as it is');
select turn() \g /dev/null
select act(:'id', '{"action": "complete", "filter": {"stepName": "ask", "state": "WaitingForCompletion"},
    "limit": 5}') as part \gset
select is(counts(:'part'), '5 0 0', 'a part of all that match is completed');
select is(counts(act(:'id', jsonb_build_object('action', 'complete', 'filter',
    '{"stepName": "ask", "state": "WaitingForCompletion"}'::jsonb, 'limit', 5, 'cursor', :'part'::jsonb ->> 'next'))),
    '3 0 0', 'the cursor continues it');
select turn() \g /dev/null
select is(states(:'id'), 'ask Failed 3, book WaitingForCompletion 9', 'the completed rows went on');
select is(counts(act(:'id', '{"action": "fail", "reason": "full", "filter": {"search": "\"d12\""}}')), '1 0 0',
    'a text of the data is a filter');
select is(reasons(act(:'id', '{"action": "retry", "rows": [1, 12]}')),
    'rejected Failed 2 PW003 the operation is Running, not CompletedWithErrors',
    'rows of an operation that runs are not retried');
select is(counts(act(:'id', '{"action": "complete", "filter": {}, "dry_run": true}')), '8 4 0',
    'an empty filter matches all rows');
select is(counts(act(:'id', '{"action": "complete", "filter": {}}')), '8 4 0', 'and the action does the same');
select turn() \g /dev/null

-- Retries
select is((select status from pawl_bulk.operations where operation = :'id'), 'CompletedWithErrors',
    'the operation has ended with errors');
select act(:'id', '{"action": "retry", "filter": {}, "dry_run": true}') as dry \gset
select is(reasons(:'dry'), 'changed Failed 3; rejected Failed 1 PW003 step "book" does not allow retries; '
    || 'unchanged Completed 8 it has not failed', 'a dry run says which rows of all would be retried');
select is(:'dry'::jsonb -> 'next', 'null', 'in one request');
select is((select retry_count from pawl_bulk.operations where operation = :'id'), 0, 'and retries none');
select is(counts(act(:'id', '{"action": "retry", "rows": [1, 3, 4, 12]}')), '2 1 1', 'the rows that are given');
select is((select string_agg(row_number::text, ' ' order by row_number) from pawl_bulk.latest_records
    where operation = :'id' and state not in ('Completed', 'Failed')), '1 3', 'and no others are retried');
select turn() \g /dev/null
select is(counts(act(:'id', '{"action": "fail", "reason": "again", "filter": {}}')), '2 10 0', 'they fail again');
select turn() \g /dev/null
select is(counts(act(:'id', '{"action": "retry", "filter": {"search": "again"}}')), '2 0 0',
    'all that match a text of the error are retried by one statement');
select is((select retry_count from pawl_bulk.operations where operation = :'id'), 2,
    'which is one more retry of the operation');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'id'), 'the operation is sound');
select operation as large from pawl_bulk.submit('devices',
    rows => (select jsonb_agg(jsonb_build_object('id', 'e' || g)) from generate_series(1, 600) g)) \gset
select turn() \g /dev/null
set pawl_api.look_for_ms = 0;
select throws_ok(format('select pawl_api._all_rows(%L, ''{"search": "x"}'', clock_timestamp())', :'large'), '54000',
    'the operation has too many rows for a search in one request',
    'the search for a retry is rejected when it takes too long');
select is(cardinality(pawl_api._all_rows(:'large', '{"search": "e1"}', clock_timestamp() + interval '1 hour')), 111,
    'and goes on from page to page until then');
reset pawl_api.look_for_ms;

-- What is rejected
select throws_ok(format('select act(%L, %L)', :'id', body), '22023', null, 'rejected: ' || coalesce(body, 'null'))
  from (values ('{}'), (null), ('[]'), ('{"action": "retry"}'), ('{"action": "explode", "filter": {}}'),
    ('{"action": 1, "filter": {}}'), ('{"action": "retry", "filter": {}, "rows": [1]}'),
    ('{"action": "retry", "filter": []}'), ('{"action": "retry", "filter": {"x": ""}}'),
    ('{"action": "retry", "filter": {"state": ["Failed"]}}'), ('{"action": "retry", "rows": "all"}'),
    ('{"action": "retry", "rows": ["1"]}'), ('{"action": "retry", "rows": [null]}'),
    ('{"action": "retry", "rows": [1.5]}'), ('{"action": "retry", "rows": [-1]}'),
    ('{"action": "retry", "rows": [1e30]}'), ('{"action": "retry", "rows": [[1]]}'),
    ('{"action": "retry", "rows": [1], "dry_run": "yes"}'), ('{"action": "fail", "rows": [1]}'),
    ('{"action": "complete", "filter": {}, "limit": 501}'), ('{"action": "complete", "filter": {}, "cursor": "x"}'),
    ('{"action": "retry", "rows": [1], "more": 1}')) v(body);
select throws_ok(format('select act(%L, %L)', :'id', jsonb_build_object('action', 'retry', 'rows',
    (select jsonb_agg(g) from generate_series(1, 501) g))), '22023', null, 'more than 500 rows are rejected');
select throws_ok($$select act('01890000-0000-7000-8000-000000000001', '{"action": "retry", "filter": {}}')$$, 'P0002',
    null, 'an operation that does not exist is rejected');
create role api_rows_reader in role pawl_reader;
set role api_rows_reader;
select throws_ok(format('select act(%L, %L)', :'id', format('{"action": "%s", "filter": {}, "dry_run": true}', name)),
    '42501', null, name || ' is not for a reader, and a dry run says so')
    from unnest('{retry,complete,fail}'::text[]) name;
reset role;
drop role api_rows_reader;
select * from finish();
