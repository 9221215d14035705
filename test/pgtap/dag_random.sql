-- Random graphs driven to their end by workers in plain SQL, with failures on the way. At every look the counters are
-- right; at the end no step was done twice, none before those it waits for, and pawl.verify finds nothing.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
select setseed(0.4) \g /dev/null
-- chains, fans with a join, and graphs drawn at random; several roots
create function random_template(n int, shape text) returns text language plpgsql as $$
declare drawn text := format('%s %s', shape, n);
begin
    perform pawl_dag.define_template(jsonb_build_object('name', drawn, 'identity_strategy', 'always_unique',
        'failure_policy', case when n % 2 = 0 then 'block' else 'continue' end,
        'steps', (select jsonb_agg(jsonb_build_object('name', 's' || i, 'retry',
            '{"max_attempts": 3, "backoff": "none"}'::jsonb, 'dependencies',
            (select coalesce(jsonb_agg('s' || k), '[]') from generate_series(1, i - 1) k
              where case shape when 'chain' then k = i - 1 when 'fan' then (k = 1 and i < n)
                or (i = n and k > 1) else random() < 2.0 / i end)) order by i)
          from generate_series(1, n) i)));
    return drawn;
end $$;
create table began as select pawl_dag.start_task(random_template(n, shape)) as task_uuid
  from (values (1, 'chain'), (9, 'chain'), (12, 'fan'), (102, 'fan')) v(n, shape) union all
  select pawl_dag.start_task(random_template(n, 'random')) from generate_series(2, 16) n;
-- Some workers: claim a few, fail some (one in five, one in fifty for good), and say some things twice.
create function look(round int) returns setof text language plpgsql as $$
declare reports jsonb;
begin
    perform from pawl_dag.orchestrate(1 + (random() * 20)::int);
    perform set_config('pawl.processor', '00000000-0000-7000-8000-00000000000' || round % 4, true);
    select jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token)
           || case when r < 0.02 then '{"error": {"message": "never", "permanent": true}}'::jsonb
                   when r < 0.2 then '{"error": {"message": "not now"}}' else '{"result": 1}' end) into reports
      from (select c.*, random() as r
          from (select c.task_uuid, c.step_uuid, c.token
                from pawl.claim(null::pawl_dag.steps, 'Start', batch => 1 + (random() * 15)::int, queue => 'default') c
                union select s.task_uuid, s.step_uuid, s.token from pawl_dag.steps s
                where s.worker_uuid::text = current_setting('pawl.processor')) c) c;
    -- some workers claim the next steps as they report
    if round % 2 = 0 then
        perform from pawl_dag.report_and_claim(coalesce(reports, '[]'), current_setting('pawl.processor'), 'default',
            1 + (random() * 15)::int, '1 hour', 1 + (random() * 20)::int);
    else
        perform from pawl_dag.report(coalesce(reports, '[]'));
    end if;
    if random() < 0.3 then
        perform from pawl_dag.report(coalesce(reports, '[]'));
    end if;
    perform from pawl.fire_due('pawl_dag.steps');
    -- an operator mends what is broken
    if round % 10 = 0 then
        perform pawl_dag.retry_task(t.task_uuid, 'mended') from pawl_dag.tasks t where t.state = 'blocked_by_failures';
    end if;
    return query select w
        from (select 'counters of ' || t.task_uuid as w from pawl_dag.tasks t, pawl_dag._count_steps(t.task_uuid) c
        where (t.steps_total, t.steps_blocked, t.steps_ready, t.steps_in_flight, t.steps_waiting, t.steps_failed,
            t.steps_satisfied, t.steps_cancelled)
           <> (c.total, c.blocked, c.ready, c.in_flight, c.waiting, c.failed, c.satisfied, c.cancelled)) x;
end $$;
create function drive(most int, out rounds int, out trouble text) language plpgsql as $$
begin
    rounds := 0;
    while rounds < most and trouble is null and exists (select from pawl_dag.tasks where state <> 'complete') loop
        rounds := rounds + 1;
        select string_agg(l, ', ') into trouble from look(rounds) l;
    end loop;
end $$;
select is(trouble, null, 'the counters are right at every look') from drive(2000);
select is((select count(*) from pawl_dag.tasks where state = 'complete'), (select count(*) from began),
    'every task completes');
select ok((select count(*) from pawl_dag.step_transitions where to_state in ('waiting_for_retry', 'error')) > 20,
    'after many failures');
select is((select count(*) from pawl_dag.step_transitions where to_state = 'complete'),
    (select count(*) from pawl_dag.steps), 'every step completed once');
select is_empty('select wrong()', 'nothing too early, nothing twice, and verify finds nothing');
select * from finish();
