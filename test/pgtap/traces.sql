-- W3C trace context in SQL: what is taken, what goes into the log by every door, what begins in it.
begin;
select no_plan();
create extension pawl_dag cascade;
create extension pawl_saga;
create extension pawl_bulk;

select pawl.define('traced', 'stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back');
create table plain (id int primary key, state text not null default 'a');
select pawl.enforce('plain', 'state', 'traced', history => true, hash_chain => true, events => true);
create table lean (id int primary key, state text not null default 'a');
select pawl.enforce('lean', 'state', 'traced', history => true, most_recent => 'derived');

\set parent '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

insert into plain values (1);
select is(metadata, null, 'no trace, no metadata') from plain_transitions;
select throws_ok($$select pawl.set_context(traceparent => '00-x')$$, '22023', null, 'what is no traceparent');
select throws_ok($$select pawl.set_context(traceparent => '00-00000000000000000000000000000000-b7ad6b7169203331-01')$$, '22023', null, 'an id of zeros');
select throws_ok($$select pawl.set_context(tracestate => 'A=1')$$, '22023', null, 'what is no tracestate');
select pawl.set_context(traceparent => :'parent', tracestate => 'rojo=1');
select is(current_setting('pawl.tracestate'), 'rojo=1', 'both are set');

select results_eq($$with moved as (update plain set state = 'b' returning 1) select 1 from moved$$, 'select 1', 'a plain UPDATE');
insert into lean values (1);
select is((select metadata from plain_transitions where to_state = 'b'), jsonb_build_object('traceparent', :'parent', 'tracestate', 'rojo=1'), 'is in the trace');
select is((select metadata ->> 'traceparent' from lean_transitions), :'parent', 'so is a row that begins, in a derived log');
select pawl.fire('plain', 1, 'back', metadata => '{"why": "because"}');
select is((select metadata ->> 'why' || (metadata ->> 'traceparent') from plain_transitions where event = 'back'), 'because' || :'parent', 'metadata of a call go beside it');
select pawl.set_context(metadata => '{"note": 1}');
insert into plain_transitions (subject_id, event) values (1, 'go');
select is((select metadata ->> 'note' || (metadata ->> 'traceparent') from plain_transitions where most_recent), '1' || :'parent', 'the door of the log too');
select is((select count(*) from (select metadata from pawl.outbox_1 union all select metadata from pawl.outbox_2 union all select metadata from pawl.outbox_3) o where metadata ->> 'traceparent' = :'parent'), 3::bigint, 'events have it');
select pawl.set_context(metadata => '[1]');
update plain set state = 'a';
select is((select metadata from plain_transitions where most_recent), '[1]', 'metadata that are no object stay what they are');
select pawl.set_context(metadata => 'null', traceparent => '');
select is(current_setting('pawl.tracestate'), '', 'a state goes with its parent');
update plain set state = 'b';
select is((select metadata from plain_transitions where most_recent), null, 'and the trace can be ended');
select is_empty('select * from pawl.verify()', 'hash chains are whole');

-- tasks, flows, operations
create function twice(context jsonb, inputs jsonb) returns jsonb language sql as $$ select jsonb_build_object('span', current_setting('pawl.traceparent')) $$;
select lives_ok($$select pawl_dag.define_template('{"name": "w", "steps": [{"name": "one", "handler": "sql:public.twice"}, {"name": "two", "handler": "sql:public.twice", "dependencies": ["one"]}]}')$$, 'a workflow');
select pawl.set_context(traceparent => :'parent', tracestate => 'rojo=1');
select pawl_dag.start_task('w') as task \gset
select pawl.set_context(traceparent => '');
select is((select traceparent || ' ' || tracestate from pawl_dag.tasks where task_uuid = :'task'), :'parent' || ' rojo=1', 'a task knows its trace');
create procedure work() language plpgsql as $$ begin
    for i in 1 .. 10 loop perform pawl_dag.orchestrate(10), pawl_dag.run_sql_steps(10); end loop;
end $$;
call work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete', 'it runs where there is no trace');
select is((select count(distinct result ->> 'span') from pawl_dag.steps where task_uuid = :'task'
     and result ->> 'span' ~ '^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$' and result ->> 'span' <> :'parent'), 2::bigint, 'each function has a span of its own in the trace, also one that was made ready by another');
select is((select count(*) from pawl_dag.step_transitions t join pawl_dag.steps s using (task_uuid, step_uuid)
     where t.to_state = 'enqueued_for_orchestration' and t.metadata ->> 'traceparent' = s.result ->> 'span' and t.metadata ->> 'tracestate' = 'rojo=1'), 2::bigint, 'and its result is told in that span');
select is(current_setting('pawl.traceparent'), '', 'the caller is where he was');
select is(pawl.child_span('nonsense'), null, 'what is no parent has no child');
select is((select array_agg(d.adrelid::regclass::text order by d.adrelid::regclass::text) from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
     where a.attname = 'traceparent' and pg_get_expr(d.adbin, d.adrelid) like '%current_setting(''pawl.traceparent''%'), '{pawl_bulk.operations,pawl_dag.tasks,pawl_saga.flows}',
    'so do flows and bulk operations');
select * from finish();
rollback;
