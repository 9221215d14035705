-- Plans that were made while tables were small, by statistics, and that are kept while the tables grow: what a worker
-- and a duty do reads as many rows as before.
\set ON_ERROR_STOP 1
\set QUIET 1
set client_min_messages = warning;
create extension if not exists pawl_dag;
create extension if not exists pawl_saga;
create extension if not exists pawl_bulk;
select no_plan();

-- Rows that this transaction has read of the tables of a pack, by scans of any kind.
create function rows_read(schema text) returns bigint language sql volatile as $$
    select sum(s.seq_tup_read + coalesce(s.idx_tup_fetch, 0))::bigint from pg_stat_xact_user_tables s
     where s.schemaname = schema $$;
create function reads(schema text, statement text) returns bigint language plpgsql as $$
declare before bigint := rows_read(schema);
begin
    execute statement;
    return rows_read(schema) - before;
end $$;
\set worker '''00000000-0000-7000-8000-000000000001'''
select format($$select pawl_dag.report((select jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid',
    c.step_uuid, 'token', c.token, 'result', 1)) from pawl_dag.claim(%1$L, batch => 1) c), %1$L)$$, :worker) as work,
    format('select count(*) from pawl_dag.report_and_claim(%L, %L, orchestrate => 1)', '[]', :worker) as exchange,
    $$select pawl_saga.report((select jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token',
        c.token, 'result', 1)) from pawl_saga.claim('w') c), 'w')$$ as saga_work,
    $$select pawl_saga.report((select jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token',
        c.token, 'failure', '{"message": "no"}'::jsonb)) from pawl_saga.claim('w') c), 'w')$$ as saga_failure,
    $$select pawl_saga.suspend((select flow_uuid from pawl_saga.flows where state = 'RUNNING' and name = 'two'
        limit 1))$$ as saga_suspend,
    $$select pawl_dag.cancel_task((select task_uuid from pawl_dag.tasks order by task_uuid desc limit 1))$$ as cancel,
    -- the plan of a check is kept from the sixth row on
    $$insert into pawl_dag.dlq (task_uuid, original_state, reason, task_snapshot, resolution_status)
        select task_uuid, state, 'manual_dlq', '{}', 'permanently_failed' from (select * from pawl_dag.tasks
            order by task_uuid desc limit 1) t, generate_series(1, 6)$$ as buried
\gset
select pawl_dag.define_template('{"name": "line", "identity_strategy": "always_unique", "steps": [
    {"name": "a", "handler": "x"}, {"name": "b", "handler": "x", "dependencies": ["a"]}]}') \g /dev/null
create function nothing(jsonb) returns jsonb language sql immutable as $$select '{}'::jsonb$$;
select pawl_saga.define('{"flow": "linear", "name": "two", "children": [{"task": "a"}, {"task": "b"}]}'),
    pawl_saga.define('{"flow": "linear", "name": "sql", "children": [{"task": "a", "execute": "sql:public.nothing"},
        {"task": "b", "execute": "sql:public.nothing"}]}') \g /dev/null

-- Twice, because the statistics of a table that has some rows discard the first plans.
create procedure everything() language plpgsql as $$
begin
    perform pawl_dag.start_task('line') from generate_series(1, 3);
    perform pawl_dag.orchestrate(1);
    perform pawl_saga.start('two'), pawl_saga.start('sql') from generate_series(1, 3);
end $$;
create table own (id integer primary key, other integer references own);
insert into own select g, g from generate_series(1, 3) g;
create function own_plan() returns setof text language plpgsql set enable_seqscan = off as $$
begin return query explain select count(*) from public.own; end $$;
create function pack_plan() returns setof text language plpgsql set enable_seqscan = off as $$
begin return query explain select count(*) from pawl_saga.tasks; end $$;
create function report_plan() returns setof text language plpgsql as $$
begin return query explain select count(*) from pawl_saga.tasks; end $$;
create function key_plan() returns setof text language plpgsql set enable_seqscan = off as $$
begin return query explain select name from pawl_dag.steps where task_uuid = '01890000-0000-7000-8000-000000000001';
end $$;
create table copied (task_uuid uuid references pawl_dag.tasks);
create function joined_plan() returns setof text language plpgsql set enable_seqscan = off as $$
begin return query explain select count(*) from pawl_saga.tasks where exists (select from public.own); end $$;
create function own_and_pack_plan() returns setof text language plpgsql set enable_seqscan = off as $$
begin return query explain select count(*) from pawl_saga.tasks, public.own; end $$;
create function inner_plan() returns setof text language plpgsql set enable_seqscan = off as $$
begin return query explain select t.count from public.own, (select count(*) from pawl_saga.tasks) t; end $$;
create function server_plan() returns setof text language plpgsql set enable_seqscan = off as $$
begin return query explain select count(*) from pg_am; end $$;
create function reset_plan() returns setof text language plpgsql set enable_seqscan = on as $$
begin return query explain select count(*) from pawl_saga.tasks; end $$;
create function plan_as_text() returns text language plpgsql set enable_seqscan = off as $$
declare
    line text;
    lines text;
begin
    for line in execute 'explain select count(*) from pawl_saga.tasks' loop
        lines := concat(lines, line);
    end loop;
    return lines;
end $$;
call everything();
:buried \g /dev/null
:work \g /dev/null
:exchange \g /dev/null
:saga_work \g /dev/null
:saga_failure \g /dev/null
:saga_suspend \g /dev/null
:cancel \g /dev/null
select pawl_saga.run_sql_tasks(2) \g /dev/null
analyze;
call everything();
:buried \g /dev/null
:work \g /dev/null
:exchange \g /dev/null
:saga_work \g /dev/null
:saga_failure \g /dev/null
:saga_work \g /dev/null
:saga_suspend \g /dev/null
:cancel \g /dev/null
select pawl_saga.run_sql_tasks(2) \g /dev/null
select format('copy copied from program %L', 'for i in 1 2 3 4 5 6; do echo ' || task_uuid || '; done')
  from pawl_dag.tasks limit 1 \gexec
select count(pawl_dag.start_task('line')), count(pawl_saga.start('two')), count(pawl_saga.start('sql'))
  from generate_series(1, 1000) \g /dev/null

begin;
select cmp_ok(reads('pawl_dag', 'select pawl_dag.orchestrate(1)'), '<', 300::bigint, 'a turn of one task');
select pawl_dag.orchestrate(10) \g /dev/null
select cmp_ok(reads('pawl_dag', :'work'), '<', 300::bigint, 'a claim and a report of a step');
select cmp_ok(reads('pawl_dag', :'exchange'), '<', 300::bigint, 'both in one call');
select cmp_ok(reads('pawl_saga', :'saga_work'), '<', 300::bigint, 'a claim and a report of a task of a flow');
select cmp_ok(reads('pawl_saga', 'select pawl_saga.start(''two'')'), '<', 300::bigint, 'the start of a flow');
select cmp_ok(reads('pawl_saga', :'saga_failure'), '<', 300::bigint, 'a task that fails, with what is reverted');
select cmp_ok(reads('pawl_saga', :'saga_work'), '<', 300::bigint, 'the next task, or a revert');
select cmp_ok(reads('pawl_saga', replace(:'saga_suspend', 'limit 1', 'order by flow_uuid desc limit 1')), '<',
    300::bigint, 'a flow that is suspended');
select cmp_ok(reads('pawl_saga', 'select pawl_saga.run_sql_tasks(2)'), '<', 300::bigint, 'tasks by SQL functions');
select cmp_ok(reads('pawl_dag', :'cancel'), '<', 300::bigint, 'a task that is cancelled');
select cmp_ok(reads('pawl_dag', :'buried'), '<', 300::bigint, 'a foreign key that is checked');
select cmp_ok(reads('pawl_dag', 'insert into copied select task_uuid from copied limit 1'), '<', 300::bigint,
    'one whose first rows were copied');
commit;

select matches(array(select own_plan())::text, 'rows=3 ', 'a function''s statement on a user''s table: by statistics');
select matches(array(select key_plan())::text, '"Index Scan using steps_pkey', 'rows of one task lie together');
-- Both conditions are those of the index for claims, which has all that is ready.
create function ready_plan() returns setof text language plpgsql set enable_seqscan = off as $$
begin return query explain select from pawl_bulk.work w where w.operation = '01890000-0000-7000-8000-000000000001'
    and w.row_number = 1 and w.step_index = 0 and w.state in ('ready', 'lost') and w.due is null; end $$;
create function ready_rows_plan() returns setof text language plpgsql set enable_seqscan = off as $$
begin return query explain select from generate_series(1, 100) g join pawl_bulk.work w on w.row_number = g and
    w.operation = '01890000-0000-7000-8000-000000000001' and w.step_index = 0 and w.state in ('ready', 'lost')
    and w.due is null; end $$;
select matches(array(select ready_plan())::text, 'work_pkey', 'a key is not searched in an index of all that is ready');
select matches(array(select ready_rows_plan())::text, 'work_pkey', 'nor are several');
set max_parallel_workers_per_gather = 2;
set parallel_setup_cost = 0;
set min_parallel_table_scan_size = 0;
set seq_page_cost = 0;
select doesnt_match(array(select pack_plan())::text, 'Parallel', 'a small table of a pack is not read in parallel');
reset max_parallel_workers_per_gather;
select matches(array(select pack_plan())::text, 'rows=100000 ', 'a table that was small counts as one of many rows');
select doesnt_match(array(select report_plan())::text, 'rows=100000 ', 'not in a function without the setting');
set enable_seqscan = off;
do $$ declare line text; begin
    for line in execute 'explain select count(*) from pawl_saga.tasks' loop
        perform set_config('test.plan', concat(current_setting('test.plan', true), line), false);
    end loop;
end $$;
select doesnt_match(array(select report_plan())::text, 'rows=100000 ', 'nor if its session has it');
reset enable_seqscan;
select doesnt_match(current_setting('test.plan'), 'rows=100000 ', 'nor in a statement of a client');
do $$ declare plan text; begin
    plan := plan_as_text();
    perform set_config('test.plan', plan, false);
end $$;
select matches(current_setting('test.plan'), 'rows=100000 ', 'but in a function that no statement calls');
select doesnt_match(array(select own_and_pack_plan())::text, 'rows=100000 ',
    'a statement that reads a user''s table, too: by statistics');
select doesnt_match(array(select inner_plan())::text, 'rows=100000 ', 'also in its inner queries');
select doesnt_match(array(select server_plan())::text, 'rows=100000 ', 'and one on tables of the server');
select doesnt_match(array(select reset_plan())::text, 'rows=100000 ', 'and one in a function with the reverse setting');
select matches(array(select joined_plan())::text, 'rows=100000 ', 'not one that has it in another query');
update pg_class set reltuples = 10000, relpages = pg_relation_size(oid) / current_setting('block_size')::integer
 where oid = 'pawl_saga.tasks'::regclass;
select matches(array(select pack_plan())::text, 'rows=10000 ', 'one that was not is planned by its statistics');
reset parallel_setup_cost;
reset min_parallel_table_scan_size;
reset seq_page_cost;

-- The parts of a view are searched by index only if PostgreSQL merges them into the query around it.
create function parts_apart(view regclass) returns boolean language plpgsql as $$
declare line text;
begin
    for line in execute format('explain select * from %s', view) loop
        if line ~ 'Subquery Scan on "\*SELECT\*' then
            return true;
        end if;
    end loop;
    return false;
end $$;
create view views as select c.oid::regclass as view from pg_class c
 where c.relkind = 'v' and c.relnamespace::regnamespace::text ~ '^pawl' and pg_get_viewdef(c.oid) ~ 'UNION ALL';
select cmp_ok(count(*), '>', 5::bigint, 'some views have several parts') from views;
select is((select string_agg(view::text, ', ') from views where parts_apart(view)), null, 'all are merged in queries');
select * from finish();
