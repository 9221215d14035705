-- The search of the HTTP API for a text: in tasks, dead letters and rows of bulk operations; with other filters, over
-- many pages, and by actions on all that match.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
create extension if not exists pawl_bulk cascade;
create extension if not exists pawl_api cascade;
create table plain (task uuid);
create table named (name text primary key, task uuid);
insert into named values ('early', pawl_dag.start_task('diamond', '{"customer": "Müller & Söhne 100%"}'));
insert into named values ('failed', pawl_dag.start_task('diamond', '{"customer": "Smith"}'));
select work('{b}') \g /dev/null
select pawl_dag.define_template('{"name": "many", "identity_strategy": "always_unique", "steps": [{"name": "one"}]}')
    \g /dev/null
insert into plain select pawl_dag.start_tasks('many', array_fill('{"customer": "Jones"}'::jsonb, array[300]));
insert into named values ('late', pawl_dag.start_task('many', '{"customer": "Müller"}'));

-- A state that the machine does not have is no filter.
create extension if not exists pawl_saga cascade;
create function rejection_of(statement text) returns text language plpgsql as $$
declare hint text;
begin
    execute statement;
    return 'ok';
exception when others then
    get stacked diagnostics hint = pg_exception_hint;
    return concat_ws(' | ', sqlstate, sqlerrm, left(hint, 24));
end $$;
select is(rejection_of(format('select pawl_api.%s(''{"%s": "%s,pendin"}'')', v.route, v.parameter, v.known)),
    format('22023 | unknown %s "pendin" | Known: %s', v.parameter, v.states),
    v.route || ' rejects an unknown ' || v.parameter)
  from (values ('list_tasks', 'state', 'pending', 'pending, initiali'),
    ('list_flows', 'state', 'SUCCESS', 'PENDING, RUNNING,'), ('list_jobs', 'state', 'CLAIMED', 'UNCLAIMED, CLAIME'),
    ('list_bulks', 'status', 'Running', 'Pending, Validati'), ('list_dlq', 'status', 'cancelled', 'pending, manually')
  ) v(route, parameter, known, states);
select is(rejection_of(format('select pawl_api.act_on_tasks(''{}'', ''%s'')', jsonb_build_object('action', 'cancel',
    'filter', jsonb_build_object('state', 'pendin')))), '22023 | unknown state "pendin" | Known: pending, initiali',
    'and so do actions');

-- All pages of a list; how many there were.
create function all_of(route text, q jsonb, out items jsonb, out pages integer) language plpgsql as $$
declare
    page jsonb;
begin
    items := '[]';
    pages := 0;
    loop
        execute format('select pawl_api.%I($1)', route) into page using q;
        items := items || (page -> 'items');
        pages := pages + 1;
        exit when page -> 'next' = 'null';
        q := q || jsonb_build_object('cursor', page -> 'next');
    end loop;
end $$;
create function tasks_with(q jsonb) returns text language sql as $$
    select string_agg(n.name, ' ' order by n.name) from all_of('list_tasks', q) a, jsonb_array_elements(a.items) i
      join named n on n.task::text = i ->> 'task_uuid' $$;

select is(tasks_with(jsonb_build_object('search', v.searched)), v.expected, 'tasks with "' || v.searched || '"')
  from (values ('Müller', 'early late'), ('MÜLLER', 'early late'), ('100%', 'early'), ('müller & s', 'early'),
    ('M_ller', null), ('"customer": "smith"', 'failed'), ('{"from": "a"}', 'early failed'),
    ('"message": "no"', 'early failed'), ('\', null), ('nothing of this', null)) v(searched, expected);
select is(tasks_with('{"search": "müller", "name": "many"}'), 'late', 'a search combines with other filters');
select is(tasks_with('{"search": "müller", "state": "complete"}'), null, 'also if they leave nothing');
select is(tasks_with('{"search": ""}'), tasks_with('{}'), 'an empty text is no filter');
set pawl_api.look_for_ms = 0;
select is(tasks_with('{"search": "müller"}'), 'early late', 'slices of a search miss nothing');
select cmp_ok((select pages from all_of('list_tasks', '{"search": "müller"}')), '>', 5, 'there were several');
select cmp_ok((select pages from all_of('list_tasks', '{"search": "jones", "limit": "7"}')), '>', 40, 'full pages too');
select is((select jsonb_array_length(items) from all_of('list_tasks', '{"search": "jones", "limit": "7"}')), 300,
    'each task is listed once');
reset pawl_api.look_for_ms;

-- Dead letters
select is((select jsonb_array_length(items) from all_of('list_dlq', q)), n, 'dead letters: ' || q::text) from (values
    ('{"search": "smith"}'::jsonb, 1), ('{"search": "blocked_by_failures"}', 2),
    ('{"search": "smith", "status": "pending"}', 1),
    ('{"search": "smith", "status": "cancelled"}', 0), ('{"search": "smith", "reason": "manual_dlq"}', 0),
    ('{"entered_before": "2020-01-01"}', 0)) v(q, n);
select pawl_dag.resolve_task((select task from named where name = 'failed'), 'The clerk has PHONED') \g /dev/null
select is((select jsonb_array_length(items) from all_of('list_dlq', '{"search": "phoned"}')), 1, 'notes are searched');
set pawl_api.look_for_ms = 0;
insert into pawl_dag.dlq (task_uuid, original_state, reason, task_snapshot, resolution_status, dlq_timestamp)
    select task, 'pending', 'manual_dlq', '{}', 'cancelled', '2026-01-01' from plain;
select is((select jsonb_array_length(items) || ' ' || (pages > 6)
    from all_of('list_dlq', '{"search": "söhne", "limit": "1"}')), '1 true', 'a letter behind many others is found');
select is((select jsonb_array_length(items) from all_of('list_dlq', '{"limit": "11"}')), 302,
    'letters of the same time too');
reset pawl_api.look_for_ms;

-- Actions on all that match a search
select is((pawl_api.act_on_dlq('{}', '{"action": "retry", "filter": {"search": "söhne"}, "dry_run": true}')
    ->> 'changed'), '1', 'a dead letter with a text');
select is((pawl_api.act_on_tasks('{}', '{"action": "cancel", "filter": {"search": "müller", "name": "many"}}')
    ->> 'changed'), '1', 'a task with a text');
select is((select string_agg(n.name, ' ') from named n join pawl_dag.tasks t on t.task_uuid = n.task
    where t.state = 'cancelled'), 'late', 'and it is the one');

-- Rows of bulk operations
select pawl_bulk.define('{"name": "import", "is_retryable": true, "track_row_data": true,
    "steps": [{"name": "one", "handler": "shop.one"}]}') \g /dev/null
select operation from pawl_bulk.submit('import', rows => (select jsonb_agg(jsonb_build_object('id', g, 'name',
    case when g % 100 = 0 then 'Ada' else 'Bob' end)) from generate_series(1, 1000) g)) \gset
select count(pawl_bulk.advance(1000)) from generate_series(1, 5) \g /dev/null
create function rows_with(q jsonb) returns text language sql as $$
    select string_agg(i ->> 'row_number', ' ') from all_of('bulk_rows', q) a, jsonb_array_elements(a.items) i $$;
select is(rows_with(jsonb_build_object('id', :'operation', 'search', 'ADA')),
    '100 200 300 400 500 600 700 800 900 1000', 'rows by their data');
set pawl_api.look_for_ms = 0;
select is(rows_with(jsonb_build_object('id', :'operation', 'search', 'ada', 'limit', '3')),
    '100 200 300 400 500 600 700 800 900 1000', 'in pages and slices');
select is(rows_with(jsonb_build_object('id', :'operation', 'search', 'eve')), null, 'no row has it');
reset pawl_api.look_for_ms;

-- What is rejected
select throws_ok(format('select pawl_api.%I(%L)', route, jsonb_build_object('id', :'operation',
    'search', repeat('x', 201))), '22023', null, 'a text that is too long: ' || route)
  from unnest('{list_tasks,list_dlq,bulk_rows}'::text[]) route;
select * from finish();
