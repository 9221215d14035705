-- Functions that look rows up by key, called often while tables are small, keep the plans that were made then: after
-- the tables have grown, each call reads as few rows as before.
\set ON_ERROR_STOP 1
\set QUIET 1
set client_min_messages = error;
create extension if not exists pawl_dag;
create extension if not exists pawl_saga;
create extension if not exists pawl_bulk;
create extension if not exists pawl_api;
select no_plan();

-- Rows that this transaction has read of the tables of packs, by scans of any kind.
create function rows_read() returns bigint language sql volatile as $$
    select sum(s.seq_tup_read + coalesce(s.idx_tup_fetch, 0))::bigint from pg_stat_xact_user_tables s
     where s.schemaname ~ '^pawl_(dag|saga|bulk)$' $$;
select pawl_dag.define_template('{"name": "line", "steps": [
        {"name": "a", "handler": "x"}, {"name": "b", "handler": "x", "dependencies": ["a"]}]}'),
    pawl_dag.define_template('{"name": "map", "identity_strategy": "always_unique", "steps": [
        {"name": "a", "handler": "x", "map": ["items"]}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "two", "children": [{"task": "a"}, {"task": "b"}]}') \g /dev/null
select pawl_bulk.define('{"name": "b", "steps": [{"name": "s", "handler": "h", "max_retries": 2}]}') \g /dev/null
create function start_line(suffix text) returns uuid language sql as $$
    select pawl_dag.start_task('line', jsonb_build_object('n', suffix)) $$;
create function submit(rows int) returns uuid language plpgsql as $$
declare made uuid;
begin
    select s.operation into made from pawl_bulk.submit('b', rows => (select jsonb_agg(jsonb_build_object('x', x))
        from generate_series(1, rows) x)) s;
    for turn in 1 .. 20 loop
        exit when (select done from pawl_bulk.advance()) + (select done from pawl_bulk.run_sql_rows()) = 0;
    end loop;
    return made;
end $$;

-- Called in this order. %1$L: the newest task; %2$L: its first step; %3$L, %4$L, %5$L: the newest flow, job and bulk
-- operation.
create table calls (n integer generated always as identity, call text);
insert into calls (call) values
    ('select pawl_dag.start_task(''map'', ''{"items": [1, 2]}'')'),
    ('select start_line(gen_random_uuid()::text)'),
    ('select pawl_dag.orchestrate(10)'),
    ('select pawl_dag.cancel_step(%1$L, %2$L, ''r'', ''cancel'')'),
    ('select start_line(gen_random_uuid()::text)'),
    ('select pawl_dag.orchestrate(10)'),
    ('select pawl_dag.resolve_step(%1$L, %2$L, ''r'')'),
    ('select start_line(gen_random_uuid()::text)'),
    ('select pawl_dag.orchestrate(10)'),
    ('select pawl_dag.complete_step_manually(%1$L, %2$L, ''1'', ''r'')'),
    ('select pawl_dag.resolve_task(%1$L, ''r'')'),
    ('select start_line(gen_random_uuid()::text)'),
    ('update pawl_dag.tasks set state = ''cancelled'' where task_uuid = %1$L'),
    ('select start_line(gen_random_uuid()::text)'),
    ('select pawl_dag.cancel_task(%1$L)'),
    ('select pawl_saga.start(''two'')'),
    ('select pawl_saga.signal(%3$L, ''go'')'),
    ('select pawl_saga.suspend(%3$L)'),
    ('select pawl_saga.resume(%3$L)'),
    ('select pawl_saga.revert(%3$L, ''x'')'),
    ('select pawl_saga.post(''j'', ''two'')'),
    ('select pawl_saga.claim_job(%4$L, ''w'', ''1 minute'')'),
    ('select pawl_saga.abandon_job(%4$L, ''w'')'),
    ('select pawl_saga.claim_job(%4$L, ''w'', ''1 minute'')'),
    ('select pawl_saga.trash_job(%4$L, ''w'', ''why'')'),
    ('select pawl_saga.post(''j'', ''two'')'),
    ('select pawl_saga.claim_job(%4$L, ''w'', ''1 minute'')'),
    ('select pawl_saga.consume_job(%4$L, ''w'')'),
    ('select submit(2)'),
    ('select pawl_bulk.pause(%5$L)'),
    ('select pawl_bulk.resume(%5$L)'),
    ('select pawl_bulk.can_retry(%5$L)'),
    ('select pawl_bulk.cancel(%5$L)'),
    ('select submit(2)'),
    ('select pawl_bulk.abort(%5$L, ''why'')');
insert into calls (call) select format('select pawl_api.%s(jsonb_build_object(%L, %%%s$L))', f, k, i) from (values
    ('get_task', 'task', 1), ('task_transitions', 'task', 1), ('task_readiness', 'task', 1),
    ('task_context', 'task', 1), ('task_timings', 'task', 1),
    ('list_steps', 'task', 1), ('get_flow', 'flow', 3), ('flow_atoms', 'flow', 3),
    ('flow_timeline', 'flow', 3), ('get_job', 'job', 4), ('get_bulk', 'id', 5), ('bulk_status', 'id', 5),
    ('bulk_errors', 'id', 5), ('list_tasks', 'limit', 6), ('list_flows', 'limit', 6), ('list_jobs', 'limit', 6),
    ('list_bulks', 'limit', 6)) v (f, k, i);
insert into calls (call) values ('select pawl_api.get_step(jsonb_build_object(''task'', %1$L, ''step'', %2$L))'),
    ('select pawl_api.step_audit(jsonb_build_object(''task'', %1$L, ''step'', %2$L))');
create function filled(call text) returns text language sql as $$
    select format(call, t.task_uuid, (select s.step_uuid from pawl_dag.steps s
            where s.task_uuid = t.task_uuid and s.name = 'a'),
        (select max(f.flow_uuid::text) from pawl_saga.flows f), (select max(j.job_uuid::text) from pawl_saga.jobs j),
        (select max(o.operation::text) from pawl_bulk.operations o), 2)
      from pawl_dag.tasks t where t.name = 'line' order by t.task_uuid desc limit 1 $$;
create table reads (n integer, call text, rows bigint);
create procedure call_all() language plpgsql as $$
declare
    c record;
    statement text;
    before bigint;
begin
    delete from reads;
    for c in select * from calls order by n loop
        statement := filled(c.call);
        before := rows_read();
        execute statement;
        insert into reads values (c.n, c.call, rows_read() - before);
    end loop;
end $$;

select start_line('first') \g /dev/null
select pawl_saga.start('two'), pawl_saga.post('j', 'two'), submit(2) \g /dev/null
call call_all();
analyze;
do $$ begin
    for turn in 1 .. 7 loop
        call call_all();
    end loop;
end $$;
select count(start_line(g::text)), count(pawl_saga.start('two')), count(pawl_saga.post('j', 'two'))
  from generate_series(1, 400) g \g /dev/null
do $$ begin
    for turn in 1 .. 400 loop
        perform pawl_bulk.abort(s.operation, 'not needed') from pawl_bulk.submit('b', rows => '[{"x": 1}]') s;
    end loop;
end $$;
call call_all();
select cmp_ok(rows, '<', 150::bigint, call) from reads order by n;
select * from finish();
