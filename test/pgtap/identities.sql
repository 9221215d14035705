-- What exists already is rejected by its name: a task of the same identity, a flow of the
-- same id. Idempotent calls return what exists.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_dag;
create extension if not exists pawl_saga;
create extension if not exists pawl_bulk;
create function rejection(statement text) returns text language plpgsql as $$
declare said text; detail text; hint text; code text;
begin
    execute statement;
    return 'nothing';
exception when others then
    get stacked diagnostics said = message_text, detail = pg_exception_detail, hint = pg_exception_hint,
        code = returned_sqlstate;
    return format('%s: %s. %s %s', code, said, detail, hint);
end $$;

select pawl_dag.define_template('{"name": "order", "steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}') is
        not null as ok;
select pawl_dag.start_task('order', '{"id": 1}') as task \gset
select is(rejection($$select pawl_dag.start_task('order', '{"id": 1}')$$),
    format('23505: task "order" with this identity already exists. Task %s (pending) has the identity key "%s". '
    'select * from pawl_dag.tasks where task_uuid = ''%s''; to create another one: identity_key => ''...''',
        :'task', (select identity_key from pawl_dag.tasks where task_uuid = :'task'), :'task'),
    'a task that is there is named');
select is(rejection($$select pawl_dag.start_tasks('order', array['{"id": 2}', '{"id": 1}', '{"id": 3}']::jsonb[])$$)
            ~ format('^23505.*Task %s ', :'task'),
    true, 'one among many');
select is(rejection($$select pawl_dag.start_tasks('order', array['{"id": 4}', '{"id": 4}']::jsonb[])$$)
    ~ '^23505: tasks "order" have the same identity. 2 of them have', true, 'one that is said twice');
select is(rejection(
            $$select pawl_dag.start_tasks('order', array['{"id": 5}', '{"id": 6}']::jsonb[],
                identity_keys => array['k', 'k'])$$)
        ~ '^23505: tasks "order" have the same identity. 2 of them have the identity key "k"', true, 'by a key');
select is((select count(*) from pawl_dag.tasks), 1::bigint, 'and nothing of such a call remains');
select is((select count(*) from pawl_dag.start_tasks('order', array['{"id": 1}', null]::jsonb[],
    identity_keys => array['other', null])), 2::bigint, 'another key is another task; without one the context tells');
select is(rejection($$select pawl_dag.start_task('order', '{}')$$) ~ '^23505', true, 'no context is an empty one');
select is(pawl_dag.define_template('{"name": "order", "steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}'),
    (select template_uuid from pawl_dag.templates where name = 'order'),
    'a template said again is the one that is there');

select pawl_saga.define('{"flow": "linear", "name": "trip", "children": [{"task": "a", "execute": "sql:public.f"}]}')
    as definition \gset
select
    is(pawl_saga.define('{"flow": "linear", "name": "trip", "children": [{"task": "a", "execute": "sql:public.f"}]}'),
        :'definition'::uuid, 'a flow''s definition said again too');
select pawl_saga.create_flow(:'definition') as flow \gset
select is(rejection(format('select pawl_saga.create_flow(%L, flow => %L)', :'definition', :'flow')),
    format('23505: flow %s already exists. It is flow "trip", in state PENDING. omit the id to get a new one', :'flow'),
    'a flow that is there is named');

select pawl_bulk.define('{"name": "rows", "handler": "hands"}') as version \gset
select is(pawl_bulk.define('{"name": "rows", "handler": "hands"}'), :version, 'and an operation''s');
select operation from pawl_bulk.submit('rows', rows => '[{}]', idempotency_key => 'k') \gset
select is((select s.operation || ' ' || s.created
        from pawl_bulk.submit('rows', rows => '[{}]', idempotency_key => 'k') s),
    :'operation' || ' false', 'an operation that is submitted twice is the one that is there');
select * from finish();
