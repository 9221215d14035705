-- The audit accepts what a result says of itself, by whichever statement it enters, and rejects what contradicts it.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir ../pgtap/shared/dag.psql
\set me 'c0000000-0000-7000-8000-00000000000c'
select pawl_dag.define_template('{"name": "one", "identity_strategy": "always_unique", "steps": [{"name": "s", '
        '"retry": {"max_attempts": 9, "backoff": "none"}}]}') \g /dev/null
create function held() returns jsonb language plpgsql as $$
declare made jsonb;
begin
    perform pawl_dag.start_task('one');
    select jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token) into made
      from pawl_dag.claim('c0000000-0000-7000-8000-00000000000c', orchestrate => 100, lease => '1 hour') c;
    return made;
end $$;
-- What the audit says after a report, by the function or by hand.
create function audited(said jsonb, by_hand boolean) returns text language plpgsql as $$
declare h jsonb := held(); answer text;
begin
    if not by_hand then
        select r.problem into answer
            from pawl_dag.report(jsonb_build_array(h || said), 'c0000000-0000-7000-8000-00000000000c') r;
        if answer is not null then return left(answer, 5); end if;
    else
        perform set_config('pawl.processor', 'c0000000-0000-7000-8000-00000000000c', true);
        begin
            update pawl_dag.steps s set state = case when said ? 'error' then 'enqueued_as_error_for_orchestration'
                else 'enqueued_for_orchestration' end,
                result = said -> 'result', error = said -> 'error' where s.step_uuid::text = h ->> 'step_uuid';
        exception when others then
            perform set_config('pawl.processor', '', true);
            return sqlstate;
        end;
        perform set_config('pawl.processor', '', true);
    end if;
    return (select format('%s %s', a.success,
        case when a.execution_time_ms < 60000 then 'measured' else a.execution_time_ms::text end)
              from pawl_dag.step_result_audit a where a.step_uuid::text = h ->> 'step_uuid');
end $$;
create table said (said jsonb, expected text);
insert into said values
    ('{"result": {"metadata": {"execution_time_ms": 61000}}}', 't 61000'),
    ('{"result": {"metadata": {"execution_time_ms": 61000.4}}}', 't 61000'),
    ('{"result": {"execution_time_ms": 62000}}', 't 62000'),
    ('{"result": {"execution_time_ms": 62000, "metadata": {"execution_time_ms": 61000}}}', 't 61000'),
    ('{"result": {"metadata": {"execution_time_ms": null}}}', 't measured'),
    ('{"result": {"success": true, "metadata": {"execution_time_ms": 61000}}}', 't 61000'),
    ('{"result": {"metadata": 7}}', 't measured'), ('{"result": [1]}', 't measured'),
    ('{"result": null}', 't measured'),
    ('{"result": "x"}', 't measured'), ('{"result": {"a": {"success": false, "execution_time_ms": -1}}}', 't measured'),
    ('{"error": {"message": "x", "metadata": {"execution_time_ms": 61000}}}', 'f 61000'),
    ('{"error": {"success": false}}', 'f measured'), ('{"error": "x"}', 'f measured'),
    ('{"result": {"success": false}}', '22023'), ('{"error": {"success": true}}', '22023'),
    ('{"result": {"metadata": {"execution_time_ms": -1}}}', '22023'),
    ('{"result": {"metadata": {"execution_time_ms": "soon"}}}', '22023'),
    ('{"result": {"metadata": {"execution_time_ms": "12"}}}', '22023'),
    ('{"result": {"metadata": {"execution_time_ms": {}}}}', '22023'),
    ('{"result": {"metadata": {"execution_time_ms": []}}}', '22023'),
    ('{"result": {"metadata": {"execution_time_ms": true}}}', '22023'),
    ('{"result": {"metadata": {"execution_time_ms": 1e30}}}', '22023'),
    ('{"error": {"metadata": {"execution_time_ms": -7}}}', '22023');
select is(audited(said, false), expected, 'reported: ' || said::text) from said;
select is(audited(said, true), expected, 'by hand: ' || said::text) from said;
-- a contradiction is one element's
select jsonb_agg(held() || s.said) as all_of_them,
        string_agg(case when s.expected = '22023' then '22023' else 'ok' end, ' ') as expected from said s \gset
select is((select string_agg(case when r.ok then 'ok' else left(r.problem, 5) end, ' ')
        from pawl_dag.report(:'all_of_them', :'me') r),
    :'expected', 'of many results only those that contradict themselves are rejected');
-- a failure of an earlier attempt says nothing of a later one
select held() as h \gset
select from pawl_dag.report(jsonb_build_array(:'h'::jsonb || '{"error": {"metadata": {"execution_time_ms": 61000}}}'),
    :'me');
select from pawl_dag.orchestrate(1000);
select from pawl.fire_due('pawl_dag.steps');
select work();
select is((select string_agg(format('%s %s', a.success, a.execution_time_ms >= 60000), ', ' order by a.recorded_at)
        from pawl_dag.step_result_audit a where a.step_uuid::text = :'h'::jsonb ->> 'step_uuid'),
    'f t, t f', 'each result has its own time');
select throws_ok($$select pawl.set_result_columns('pawl_dag.steps', '{nix}')$$, '42703', null,
    'a column that is not there');
select throws_ok($$select pawl.set_result_columns('pawl_dag.steps', '{name}')$$, '42804', null, 'one that is no jsonb');
select throws_ok($$select pawl.set_result_columns('pawl_dag.steps', null)$$, '22004', null, 'nothing');
select is_empty('select wrong()', 'everything is as it must be');
select * from finish();
