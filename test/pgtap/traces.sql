-- W3C trace context in SQL: which values are accepted, what goes into the log by every
-- way of writing, which spans begin.
set client_min_messages = warning;
begin;
select no_plan();
create extension if not exists pawl_dag cascade;
create extension if not exists pawl_saga;
create extension if not exists pawl_bulk;

select pawl.define('traced', 'stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back');
create table plain (id int primary key, state text not null default 'a');
select pawl.enforce('plain', 'state', 'traced'), pawl.enable_log('plain', 'state', hash_chain => true),
    pawl.enable_events('plain', 'state');
create table lean (id int primary key, state text not null default 'a');
select pawl.enforce('lean', 'state', 'traced'), pawl.enable_log('lean', 'state');

\set parent '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

insert into plain values (1);
select is(metadata, null, 'no trace, no metadata') from plain_transitions;
select throws_ok($$select pawl.set_context(traceparent => '00-x')$$, '22023', null, 'what is no traceparent');
select throws_ok($$select pawl.set_context(traceparent => '00-00000000000000000000000000000000-b7ad6b7169203331-01')$$,
    '22023', null, 'an id of zeros');
select throws_ok($$select pawl.set_context(tracestate => 'A=1')$$, '22023', null, 'what is no tracestate');
select pawl.set_context(traceparent => :'parent', tracestate => 'rojo=1');
select is(current_setting('pawl.tracestate'), 'rojo=1', 'both are set');

select results_eq($$with moved as (update plain set state = 'b' returning 1) select 1 from moved$$, 'select 1',
    'a plain UPDATE');
insert into lean values (1);
select is((select metadata from plain_transitions where to_state = 'b'),
    jsonb_build_object('traceparent', :'parent', 'tracestate', 'rojo=1'), 'is in the trace');
select is((select metadata ->> 'traceparent' from lean_transitions), :'parent',
    'so is a row that begins, in a derived log');
select pawl.fire('plain', 1, 'back', metadata => '{"why": "because"}');
select is((select metadata ->> 'why' || (metadata ->> 'traceparent') from plain_transitions where event = 'back'),
    'because' || :'parent', 'metadata of a call go beside it');
select pawl.set_context(metadata => '{"note": 1}');
insert into plain_transitions (subject_id, event) values (1, 'go');
select is((select metadata ->> 'note' || (metadata ->> 'traceparent') from plain_transitions where most_recent),
    '1' || :'parent', 'by INSERT into the log too');
select is((select count(*)
    from (select metadata from pawl.outbox_1 union all select metadata from pawl.outbox_2 union all select metadata
        from pawl.outbox_3) o
    where metadata ->> 'traceparent' = :'parent'), 3::bigint, 'events have it');
select pawl.set_context(metadata => '[1]');
update plain set state = 'a';
select is((select metadata from plain_transitions where most_recent), '[1]',
    'metadata that are no object stay what they are');
select pawl.set_context(metadata => 'null', traceparent => '');
select is(current_setting('pawl.tracestate'), '', 'a state goes with its parent');
update plain set state = 'b';
select is((select metadata from plain_transitions where most_recent), null, 'and the trace can be ended');
select is_empty('select * from pawl.verify()', 'hash chains are whole');

-- tasks, flows, operations
create function twice(context jsonb, inputs jsonb) returns jsonb
    language sql as $$ select jsonb_build_object('span', current_setting('pawl.traceparent')) $$;
select lives_ok($$select pawl_dag.define_template('{"name": "w", "steps": [{"name": "one", "handler": '
    '"sql:public.twice"}, {"name": "two", "handler": "sql:public.twice", "dependencies": ["one"]}]}')$$,
    'a template with two SQL steps can be defined');
select pawl.set_context(traceparent => :'parent', tracestate => 'rojo=1');
select pawl_dag.start_task('w') as task \gset
select pawl.set_context(traceparent => '');
select is((select traceparent || ' ' || tracestate from pawl_dag.tasks where task_uuid = :'task'),
    :'parent' || ' rojo=1', 'a task knows its trace');
create procedure work() language plpgsql as $$ begin
    for i in 1 .. 10 loop perform pawl_dag.orchestrate(10), pawl_dag.run_sql_steps(10); end loop;
end $$;
call work();
select is((select state from pawl_dag.tasks where task_uuid = :'task'), 'complete', 'it runs where there is no trace');
select is((select count(distinct result ->> 'span') from pawl_dag.steps where task_uuid = :'task'
     and result ->> 'span' ~ '^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$'
        and result ->> 'span' <> :'parent'),
    2::bigint, 'each function has a span of its own in the trace, also one that was made ready by another');
select is((select count(*) from pawl_dag.step_transitions t join pawl_dag.steps s using (task_uuid, step_uuid)
     where t.to_state = 'enqueued_for_orchestration' and t.metadata ->> 'traceparent' = s.result ->> 'span'
         and t.metadata ->> 'tracestate' = 'rojo=1'), 2::bigint, 'and its result is reported in that span');
select is(current_setting('pawl.traceparent'), '', 'the caller is in its own span again');
select is(pawl.child_span('nonsense'), null, 'what is no parent has no child');
select is((select array_agg(d.adrelid::regclass::text order by d.adrelid::regclass::text) from pg_attrdef d
    join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
     where a.attname = 'traceparent' and pg_get_expr(d.adbin, d.adrelid) like '%current_setting(''pawl.traceparent''%'),
    '{pawl_bulk.operations,pawl_dag.steps,pawl_dag.tasks,pawl_saga.flows,pawl_saga.retries,pawl_saga.tasks}',
    'so do flows and bulk operations');
-- what a duty moves for many tasks at once goes on in the trace of each
select isnt_empty($$select from pawl_dag.step_transitions where to_state = 'enqueued'$$, 'orchestration moved steps');
select is_empty(
        format($$select * from pawl_dag.step_transitions where task_uuid = %L
            and coalesce(metadata ->> 'traceparent', '') not like '00-0af7651916cd43dd8448eb211c80319c-%%'$$,
    :'task'), 'every state change of a step is in its task''s trace');
select is_empty(
        format($$select * from pawl_dag.task_transitions where task_uuid = %L
            and coalesce(metadata ->> 'traceparent', '') not like '00-0af7651916cd43dd8448eb211c80319c-%%'$$,
    :'task'), 'and every state change of the task');
select is((select count(*) from pawl_dag.task_transitions
    where task_uuid = :'task' and from_state is not null
            and metadata - '{token,transaction_id}'::text[] = jsonb_build_object('traceparent',
        :'parent', 'tracestate', 'rojo=1')) > 3, true, 'with the span in which it was asked for');
select pawl_dag.start_task('w', '{"a": 1}') as untraced \gset
call work();
select is_empty(
        format($$select metadata from pawl_dag.step_transitions where task_uuid = %L
            and metadata - '{token,transaction_id}'::text[] <> '{}' union all select metadata
                from pawl_dag.task_transitions where task_uuid = %1$L
            and metadata - '{token,transaction_id}'::text[] <> '{}'$$, :'untraced'),
    'a task without a trace has none, though it ran in the same transactions');
select lives_ok($$select pawl_dag.define_template('{"name": "many", "steps": [{"name": "each", "handler": '
        '"sql:public.twice", "map": "items"}]}')$$, 'a mapped workflow');
select pawl.set_context(traceparent => :'parent', tracestate => 'rojo=1');
select pawl_dag.start_task('many', '{"items": [1, 2]}') as mapped \gset
select pawl.set_context(traceparent => '');
select is((select array_agg(traceparent) from pawl_dag.steps where task_uuid = :'mapped'), array[:'parent', :'parent'],
    'mapped steps have it too');

-- any table: timers and lost leases
select pawl.define('fuse', 'stateDiagram-v2
    [*] --> laid
    laid --> lit : light
    lit --> laid : lost
    laid --> primed : prime
    primed --> gone : after 1 millisecond
    class lit owned');
create table fuses (id int primary key, state text not null default 'laid', worker text, lease timestamptz,
    due timestamptz, "trace parent" text, ts varchar(200));
select pawl.enforce('fuses', 'state', 'fuse'), pawl.enable_log('fuses', 'state'),
    pawl.enable_queue('fuses', 'state', owner => 'worker', lease => 'lease'),
    pawl.enable_timers('fuses', 'state', due => 'due'),
    pawl.set_claiming('fuses', 'state', claim => '{light}', on_expiry => 'lost');
select throws_ok($$select pawl.set_trace('fuses', 'nix')$$, '42703',
    'column "nix" of table public.fuses does not exist', 'a column that is not there');
select throws_ok($$select pawl.set_trace('fuses', 'due')$$, '42804',
    'column "due" of table public.fuses cannot hold a trace', 'one that is no text');
select throws_ok($$select pawl.set_trace('fuses', null, 'ts')$$, '22004', null, 'a state without its parent');
select throws_ok($$select pawl.set_trace('pg_class', 'relname')$$, '42704', null, 'a table without a lifecycle');
select pawl.set_trace('fuses', 'trace parent', 'ts');
alter table fuses rename "trace parent" to tp;
select is((select trace_columns from pawl.binding where relation = 'fuses'::regclass), '{tp,ts}',
    'renames are followed');
select throws_like($$alter table fuses drop column ts$$, '%ts%', 'a column that is named stays');
insert into fuses (id, tp, ts) values (1, :'parent', 'rojo=1'), (2, null, null), (3, 'nonsense', 'rojo=1'),
    (4, :'parent', 'A=broken'), (5, :'parent', 'q="\');
select results_eq($$select metadata from fuses_transitions order by subject_id$$,
    format($$values (jsonb_build_object('traceparent', %L, 'tracestate', 'rojo=1')), (null), (null),
            (jsonb_build_object('traceparent', %1$L)),
            (jsonb_build_object('traceparent', %1$L, 'tracestate', 'q="\'))$$, :'parent'),
    'rows begin in their own traces; invalid values are left out');
select is((select count(*) from pawl.claim(null::fuses, 'light', processor => 'p', lease => '1 ms', batch => 1)),
    1::bigint, 'a row with a trace is claimed');
create function until_done(duty text, wanted bigint) returns bigint language plpgsql as $$
declare
    so_far bigint := 0;
    more bigint;
    patience constant timestamptz := clock_timestamp() + '10 s';
begin
    while so_far < wanted and clock_timestamp() < patience loop
        execute format('select done from pawl.%I(''fuses'', 10)', duty) into more;
        so_far := so_far + more;
    end loop;
    return so_far;
end $$;
select is(until_done('reap', 1), 1::bigint, 'the lease is over');
select is((select metadata ->> 'traceparent' from fuses_transitions where subject_id = 1 and event = 'lost'), :'parent',
    'the loss is in the trace of the row');
update fuses set state = 'primed';
select is(until_done('fire_due', 5), 5::bigint, 'five timers with traces are fired');
select is((select array_agg(subject_id order by subject_id) from fuses_transitions
    where to_state = 'gone' and metadata ->> 'traceparent' = :'parent'), '{1,4,5}', 'each in the trace of its row');
insert into fuses (id, tp) values (6, :'parent');
select pawl.fire('fuses', 6, 'light', metadata => '{"why": 1}') from pawl.set_context(processor => 'p');
select is((select metadata from fuses_transitions where subject_id = 6 and most_recent),
    jsonb_build_object('traceparent', :'parent', 'why', 1), 'beside the metadata of the state change');
select pawl.set_context(processor => '', traceparent => '00-11111111111111111111111111111111-2222222222222222-00');
insert into fuses (id, tp) values (7, :'parent');
select is((select metadata ->> 'traceparent' from fuses_transitions where subject_id = 7),
    '00-11111111111111111111111111111111-2222222222222222-00',
    'a session with a trace of its own writes in that trace');
delete from fuses where id = 7;
select pawl.set_context(traceparent => '');
delete from fuses where id = 4;
select is((select metadata ->> 'traceparent' from fuses_transitions where subject_id = 4 and to_state is null),
    :'parent', 'a deletion too');
select pawl.set_trace('fuses', null);
delete from fuses where id = 5;
select is((select metadata from fuses_transitions where subject_id = 5 and to_state is null), null,
    'and it can be taken off');
select is_empty($$select * from pawl.verify('fuses')$$, 'the log is whole');

-- functions of flows and of bulk operations
create function reserve(arguments jsonb) returns jsonb
    language sql as $$ select jsonb_build_object('span', current_setting('pawl.traceparent')) $$;
create table seen (n bigint, span text);
create function grow(operation uuid, metadata jsonb, numbers bigint[], datas jsonb[])
    returns table (row_number bigint, message text) language sql as
    $$ insert into public.seen select u.n, current_setting('pawl.traceparent') from unnest(numbers) u(n);
            select 0::bigint, ''::text where false $$;
select lives_ok($$select pawl_saga.define('{"flow": "linear", "name": "s", "children": [{"task": "one", "execute": '
        '"sql:public.reserve"}, {"task": "two", "execute": "sql:public.reserve"}]}')$$,
    'a flow with two SQL tasks can be defined');
select lives_ok($$select pawl_bulk.define('{"name": "b", "steps": [{"name": "grow", "handler": "sql:public.grow"}]}')$$,
    'a bulk operation');
select pawl.set_context(traceparent => :'parent', tracestate => 'rojo=1');
select pawl_saga.start('s');
select operation from pawl_bulk.submit('b', rows => '[{"a": 1}, {"a": 2}]') \gset
select pawl.set_context(traceparent => '');
create procedure finish_all() language plpgsql as $$ begin
    for i in 1 .. 10 loop
        perform pawl_saga.run_sql_tasks(10);
        perform pawl_bulk.advance();
        perform pawl_bulk.run_sql_rows(100);
    end loop;
end $$;
call finish_all();
select is((select array_agg(state) from pawl_saga.tasks), '{SUCCESS,SUCCESS}', 'the flow is done');
select is((select count(distinct result ->> 'span') from pawl_saga.tasks
        where result ->> 'span' ~ '^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$'
    and result ->> 'span' <> :'parent'), 2::bigint, 'each of its functions had a span in its trace');
select is_empty($$select metadata from pawl_saga.task_transitions where metadata ->> 'traceparent' is null
        union all select metadata from pawl_saga.flow_transitions where metadata ->> 'traceparent' is null$$,
    'and every state change is in the trace');
select is((select status from pawl_bulk.operations where operation = :'operation'), 'Completed',
    'the operation is done');
select is((select count(*) from seen where span ~ '^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$'
    and span <> :'parent'), 2::bigint, 'its function had a span in its trace');
select is_empty($$select * from pawl_bulk.operation_transitions where metadata ->> 'traceparent' is null$$,
    'every state change of the operation is in it');
select is((select count(*) from pawl_bulk.record_transitions t join seen s on s.n = t.row_number
        where t.to_state = 'Completed' and t.metadata ->> 'traceparent' = s.span),
    2::bigint, 'and what became of its rows');
select is(current_setting('pawl.traceparent') || current_setting('pawl.tracestate'), '', 'nothing is left behind');
select * from finish();
rollback;
