-- Actions of the HTTP API on many tasks, dead letters and bulk operations: what a dry run says, what is done, that one
-- item which fails stops no other, and what is rejected.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
create extension if not exists pawl_bulk cascade;
create extension if not exists pawl_api cascade;
select pawl_dag.define_template('{"name": "many", "identity_strategy": "always_unique",
    "steps": [{"name": "one", "handler": "none"}]}') \g /dev/null
create table made as select task, n from pawl_dag.start_tasks('many', array_fill('{}'::jsonb, array[60]))
    with ordinality x(task, n);
select pawl_dag.cancel_task(task) from made where n <= 5 \g /dev/null
create function public.act(kind text, body jsonb) returns jsonb language plpgsql as $$
declare
    answer jsonb;
begin
    execute format('select pawl_api.act_on_%s(''{}'', $1)', kind) into answer using body;
    return answer;
end $$;
create function public.counts(answer jsonb) returns text language sql as
    $$ select concat_ws(' ', answer ->> 'changed', answer ->> 'unchanged', answer ->> 'rejected') $$;
create function public.states(template text) returns text language sql as $$
    select string_agg(state || ' ' || n, ', ' order by state)
      from (select t.state, count(*) as n from pawl_dag.tasks t where t.name = template group by t.state) x $$;

-- A dry run
select act('tasks', '{"action": "cancel", "filter": {"name": "many"}, "dry_run": true}') as dry \gset
select is(counts(:'dry'), '55 5 0', 'a dry run counts what would change and what would not');
select is(:'dry'::jsonb -> 'next', 'null', 'and has seen the end');
select is(:'dry'::jsonb -> 'items', '[]', 'without a list of items');
select is((select string_agg(concat_ws(' ', g ->> 'outcome', g ->> 'state', g ->> 'count', g ->> 'reason',
    jsonb_array_length(g -> 'examples')), '; ') from jsonb_array_elements(:'dry'::jsonb -> 'groups') g),
    'changed pending 55 3; unchanged cancelled 5 it is cancelled already 3', 'grouped by state and reason');
select is(states('many'), 'cancelled 5, pending 55', 'a dry run changes nothing');
select is(counts(act('tasks', '{"action": "retry", "filter": {"name": "many"}, "dry_run": true}')), '0 55 5',
    'a cancelled task cannot be retried');
select is(act('tasks', '{"action": "retry", "filter": {"state": "cancelled"}, "dry_run": true}')
    #>> '{groups,0,sqlstate}', 'PW001', 'with the SQLSTATE that a retry would raise');
select is((select count(*) from made m where not coalesce((act('tasks', jsonb_build_object('action', a.name,
        'reason', 'x', 'ids', jsonb_build_array(m.task), 'dry_run', true)) ->> 'rejected' = '0') = (
        act('tasks', jsonb_build_object('action', a.name, 'reason', 'x', 'ids', jsonb_build_array(m.task)))
            ->> 'rejected' = '0'), false)), 0::bigint, 'the dry run of ' || a.name || ' says what the action does')
  from (values ('give_up'), ('reset')) a(name);

-- The action, in bounded parts
select act('tasks', '{"action": "cancel", "reason": "test", "filter": {"name": "many"}, "limit": 20}') as part \gset
select is(counts(:'part'), '20 0 0', 'a part of the work is done');
select is(jsonb_array_length(:'part'::jsonb -> 'items'), 20, 'each task has its outcome');
select isnt(:'part'::jsonb -> 'next', 'null', 'and there is more');
select is(states('many'), 'cancelled 25, pending 35', 'the newest tasks were cancelled');
select is((select distinct l.metadata ->> 'reason' from pawl_dag.task_transitions_log l join made m on m.n > 40
    and m.task = l.task_uuid and l.event = 'Cancel'), 'test', 'with the reason in the log');
select is(counts(act('tasks', jsonb_build_object('action', 'cancel', 'filter', '{"name": "many"}'::jsonb, 'limit', 20,
    'cursor', :'part'::jsonb ->> 'next'))), '20 0 0', 'the cursor continues it');

-- One task that fails
create function public.no_cancel() returns trigger language plpgsql as $$
begin
    if new.state = 'cancelled' and exists (select from public.made m where m.task = new.task_uuid and m.n = 10) then
        raise exception 'task % must stay', new.task_uuid using errcode = 'P0001';
    end if;
    return new;
end $$;
create trigger no_cancel before update on pawl_dag.tasks for each row execute function public.no_cancel();
select act('tasks', '{"action": "cancel", "filter": {"name": "many", "state": "pending"}}') as rest \gset
select is(counts(:'rest'), '14 0 1', 'a task that fails stops no other');
select is((select g ->> 'sqlstate' || ' ' || (g ->> 'reason') from jsonb_array_elements(:'rest'::jsonb -> 'groups') g
    where g ->> 'outcome' = 'rejected'), 'P0001 task ... must stay', 'its error is a group without ids');
select is((select i ->> 'reason' from jsonb_array_elements(:'rest'::jsonb -> 'items') i
    where i ->> 'outcome' = 'rejected'),
    format('task %s must stay', (select task from made where n = 10)), 'and has its whole message');
select is(states('many'), 'cancelled 59, pending 1', 'the others are cancelled');
drop trigger no_cancel on pawl_dag.tasks;

-- By ids, also unknown ones
select is(counts(act('tasks', jsonb_build_object('action', 'cancel', 'ids', array[(select task from made where n = 10),
    (select task from made where n = 11), '01890000-0000-7000-8000-000000000001']))), '1 1 1', 'ids that are given');
select is(act('tasks', '{"action": "cancel", "ids": ["01890000-0000-7000-8000-000000000001"]}')
    #>> '{items,0,sqlstate}', 'P0002', 'there is no such task');
select is(act('tasks', '{"action": "cancel", "ids": []}') -> 'groups', '[]', 'no ids, no work');

-- Dead letters
select pawl_dag.start_task('diamond') from generate_series(1, 4) \g /dev/null
select work('{b}') \g /dev/null
select is(states('diamond'), 'blocked_by_failures 4', 'four tasks are among the dead letters');
select is(counts(act('dlq', '{"action": "retry", "filter": {}, "dry_run": true}')), '4 0 0', 'all can be retried');
select is(counts(act('dlq', '{"action": "retry", "filter": {"reason": "manual_dlq"}, "dry_run": true}')), '0 0 0',
    'a reason is a filter');
select is(counts(act('dlq', '{"action": "give_up", "reason": "hopeless", "filter": {}, "limit": 1}')), '1 0 0',
    'one is given up');
select is(counts(act('dlq', '{"action": "retry", "filter": {}}')), '3 0 0', 'the others are retried');
select is(states('diamond'), 'error 1, evaluating_results 3', 'their tasks continue at once');
select is(counts(act('tasks', '{"action": "retry", "filter": {"name": "diamond", "state": "error"}}')), '1 0 0',
    'so does a task in error');
select is((select count(*) from pawl_dag.dlq where resolution_status = 'pending'), 0::bigint, 'no letter is pending');

-- Bulk operations
select pawl_bulk.define('{"name": "import", "is_retryable": true, "track_row_data": true,
    "steps": [{"name": "one", "handler": "shop.one"}]}') \g /dev/null
select operation as first from pawl_bulk.submit('import', rows => '[{"id": 1}]') \gset
select operation as second from pawl_bulk.submit('import', rows => '[{"id": 2}]') \gset
select pawl_bulk.cancel(:'first') \g /dev/null
create temporary view says as select a.name, counts(act('bulks', jsonb_build_object('action', a.name,
    'filter', '{"operationName": "import"}'::jsonb, 'dry_run',
    true))) from unnest('{cancel,pause,resume,retry}'::text[])
    a(name);
select is((select string_agg(name || ' ' || counts, ', ' order by name) from says),
    'cancel 1 1 0, pause 1 0 1, resume 0 1 1, retry 0 0 2', 'dry runs of all actions on operations');
select is(counts(act('bulks', '{"action": "pause", "filter": {}}')), '1 0 1',
    'an operation that has ended is not paused');
select is((select string_agg(name || ' ' || counts, ', ' order by name) from says),
    'cancel 1 1 0, pause 0 1 1, resume 1 0 1, retry 0 0 2', 'a paused one can be resumed');
select is(counts(act('bulks', jsonb_build_object('action', 'cancel', 'ids', array[:'first', :'second']))), '1 1 0',
    'operations are cancelled by their ids');

-- What is rejected
select throws_ok(format('select act(%L, %L)', kind, body), code, null, format('%s: %s %s', code, kind,
    body)) from (values
    ('tasks', '{}', '22023'), ('tasks', null, '22023'), ('tasks', '[]', '22023'),
    ('tasks', '{"action": "cancel"}', '22023'),
    ('tasks', '{"action": "explode", "filter": {}}', '22023'), ('tasks', '{"action": 1, "filter": {}}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {}, "ids": []}', '22023'),
    ('tasks', '{"action": "cancel", "filter": null, "ids": null}', '22023'),
    ('tasks', '{"action": "cancel", "filter": []}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {"x": ""}}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {"state": ["error"]}}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {"created_after": "soon"}}', '22007'),
    ('tasks', '{"action": "cancel", "ids": "all"}', '22023'),
    ('tasks', '{"action": "cancel", "ids": ["all"]}', '22023'),
    ('tasks', '{"action": "cancel", "ids": [null]}', '22023'),
    ('tasks', '{"action": "cancel", "ids": [[1]]}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {}, "dry_run": "yes"}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {}, "limit": 501}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {}, "limit": "1"}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {}, "limit": 1.5}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {}, "cursor": "x"}', '22023'),
    ('tasks', '{"action": "cancel", "filter": {}, "more": 1}', '22023'),
    ('tasks', '{"action": "give_up", "filter": {}}', '22023'), ('dlq', '{"action": "pause", "filter": {}}', '22023'),
    ('dlq', '{"action": "retry", "filter": {"state": "error"}}', '22023'),
    ('bulks', '{"action": "reset", "filter": {}}', '22023')) v(kind, body, code);
select throws_ok(format('select act(%L, %L)', 'tasks', jsonb_build_object('action', 'cancel',
    'ids', (select array_agg(pawl.uuid_v7()) from generate_series(1, 501)))), '22023', null, 'more than 500 ids');
create role api_actions_reader in role pawl_reader;
set role api_actions_reader;
select throws_ok(format('select act(%L, %L)', kind, '{"action": "cancel", "filter": {}, "dry_run": true}'),
    '42501', null,
    kind || ' are not changed by a reader, and a dry run says so') from unnest('{tasks,dlq,bulks}'::text[]) kind;
reset role;
drop role api_actions_reader;
select * from finish();
