-- Plans that were made while tables were small, by statistics, and that are kept while the tables grow: what a worker
-- and a duty do reads as many rows as before.
\set ON_ERROR_STOP 1
\set QUIET 1
set client_min_messages = warning;
create extension if not exists pawl_dag;
create extension if not exists pawl_saga;
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
        c.token, 'result', 1)) from pawl_saga.claim('w') c), 'w')$$ as saga_work \gset
select pawl_dag.define_template('{"name": "line", "identity_strategy": "always_unique", "steps": [
    {"name": "a", "handler": "x"}, {"name": "b", "handler": "x", "dependencies": ["a"]}]}') \g /dev/null
select pawl_saga.define('{"flow": "linear", "name": "two", "children": [{"task": "a"}, {"task": "b"}]}') \g /dev/null

-- Twice, because the statistics of a table that has some rows discard the first plans.
create procedure everything() language plpgsql as $$
begin
    perform pawl_dag.start_task('line') from generate_series(1, 3);
    perform pawl_dag.orchestrate(1);
    perform pawl_saga.start('two') from generate_series(1, 3);
end $$;
call everything();
:work \g /dev/null
:exchange \g /dev/null
:saga_work \g /dev/null
analyze;
call everything();
:work \g /dev/null
:exchange \g /dev/null
:saga_work \g /dev/null
select count(pawl_dag.start_task('line')), count(pawl_saga.start('two')) from generate_series(1, 1000) \g /dev/null

begin;
select cmp_ok(reads('pawl_dag', 'select pawl_dag.orchestrate(1)'), '<', 300::bigint, 'a turn of one task');
select cmp_ok(reads('pawl_dag', :'work'), '<', 300::bigint, 'a claim and a report of a step');
select cmp_ok(reads('pawl_dag', :'exchange'), '<', 300::bigint, 'both in one call');
select cmp_ok(reads('pawl_saga', :'saga_work'), '<', 300::bigint, 'a claim and a report of a task of a flow');
commit;
select * from finish();
