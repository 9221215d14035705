-- A report, a turn and a claim in one call: what it writes is what the three calls write, in fewer row versions.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
\set me 00000000-0000-7000-8000-00000000000a
select pawl_dag.define_template(jsonb_build_object('name', 'line', 'identity_strategy', 'always_unique', 'steps',
    (select jsonb_agg(jsonb_build_object('name', 's' || i, 'dependencies',
        case when i > 1 then jsonb_build_array('s' || i - 1) else '[]' end) order by i)
     from generate_series(1, 4) i))) \g /dev/null
select pawl_dag.define_template('{"name": "fan", "identity_strategy": "always_unique", "steps": [{"name": "first"},
    {"name": "a", "dependencies": ["first"]}, {"name": "b", "dependencies": ["first"]},
    {"name": "slow", "dependencies": ["first"], "timeout_seconds": 5},
    {"name": "last", "dependencies": ["a", "b", "slow"]}]}') \g /dev/null
-- What a worker sends for steps: results, where `failing` names none of them.
create function results_of(steps jsonb, failing text[] default '{}') returns jsonb language sql as $$
    select coalesce(jsonb_agg(jsonb_build_object('task_uuid', s->'task_uuid', 'step_uuid', s->'step_uuid',
            'token', s->'token') || case when s->>'name' = any (failing) then '{"error": {"message": "no"}}'::jsonb
            else jsonb_build_object('result', s->'name') end), '[]')
      from jsonb_array_elements(steps) s $$;
create function claimed(batch int default 1, queue text default 'default', processor text
    default '00000000-0000-7000-8000-00000000000a') returns jsonb language sql as $$
    select coalesce(jsonb_agg(to_jsonb(c)), '[]') from pawl_dag.claim(processor, queue, batch, '1 hour', 100) c $$;
-- The rows of a call; claimed steps by name.
create function sends(results jsonb, batch int default 1, out answers text, out got text, out steps jsonb)
language sql as $$
    select string_agg(concat_ws(' ', r.ok::text, r.state, left(r.problem, 5)), ', ') filter (where r.ok is not null),
           coalesce(string_agg(r.name, ' ' order by r.name) filter (where r.ok is null), ''),
           coalesce(jsonb_agg(to_jsonb(r)) filter (where r.ok is null), '[]')
      from pawl_dag.report_and_claim(results, '00000000-0000-7000-8000-00000000000a', 'default', batch, '1 hour',
          100) r $$;
create function entries(task uuid) returns text language sql as $$
    select string_agg(e, '; ' order by e collate "C") from (
        select format('%s %s %s>%s %s %s', s.name, l.sort_key, l.from_state, l.to_state, l.event, l.processor) as e
          from pawl_dag.step_transitions l join pawl_dag.steps s using (task_uuid, step_uuid)
          where l.task_uuid = task
        union all select format('task %s %s>%s %s %s', l.sort_key, l.from_state, l.to_state, l.event, l.processor)
          from pawl_dag.task_transitions l where l.task_uuid = task
        union all select format('audit %s %s %s', s.name, a.success, a.worker)
          from pawl_dag.step_result_audit a join pawl_dag.steps s using (task_uuid, step_uuid)
          where a.task_uuid = task) x $$;
create function written() returns bigint language sql as $$
    select pg_stat_get_xact_tuples_updated('pawl_dag.steps'::regclass) $$;
-- row versions of tasks, and how many of them no index points to
create function tasks_written() returns bigint[] language sql as $$
    select array[pg_stat_get_xact_tuples_updated('pawl_dag.tasks'::regclass),
        pg_stat_get_xact_tuples_hot_updated('pawl_dag.tasks'::regclass)] $$;

-- by three calls, and by one
select pawl_dag.start_task('line') as parts \gset
do $$ declare got jsonb := claimed(); begin
    while got <> '[]' loop
        perform from pawl_dag.report(results_of(got), '00000000-0000-7000-8000-00000000000a');
        got := claimed();
    end loop;
end $$;
select pawl_dag.start_task('line') as whole \gset
select claimed() as got \gset
begin;
select written() as before, tasks_written() as tasks_before \gset
select * from sends(results_of(:'got')) \gset
select is(:'answers'::text, 'true complete', 'a result is answered, and its step is complete');
select is(:'got'::text, 's2', 'the next step is claimed');
select is(written() - :before, 2::bigint, 'by one row version of each of the two steps');
select is(tasks_written(), (select array_agg(n + 1) from unnest(:'tasks_before'::bigint[]) n),
    'and by one of the task, which no index points to');
select is((select state from pawl_dag.tasks where task_uuid = :'whole'), 'steps_in_process', 'the task goes on');
select is((:'steps'::jsonb)->0->'parents', '{"s1": {"state": "complete", "result": "s1"}}'::jsonb, 'with its input');
select is((:'steps'::jsonb)->0->'token', '1'::jsonb, 'with its fencing token');
select ok((select lease_until > now() + interval '59 min' from pawl_dag.steps where task_uuid = :'whole'
    and name = 's2'), 'and with the lease that was asked for');
commit;
do $$ declare got jsonb := (select jsonb_agg(to_jsonb(s)) from pawl_dag.steps s where s.state = 'in_progress'); begin
    while got <> '[]' loop
        got := (select steps from sends(results_of(got)));
    end loop;
end $$;
select is(state_of(:'whole'), state_of(:'parts'), 'the task ends as by three calls');
select is(entries(:'whole'), entries(:'parts'), 'with the same entries and audits, by the same processors');
select isnt(entries(:'whole'), null, 'of which there are some');

-- the engine's lease stays, if it is long
select pawl_dag.start_task('line') as leased \gset
select claimed() as got \gset
create function lease_of(task uuid) returns timestamptz language sql as $$
    select lease_until from pawl_dag.tasks where task_uuid = task $$;
select lease_of(:'leased') as lease \gset
select * from sends(results_of(:'got')) \gset
select is(lease_of(:'leased'), :'lease', 'the engine keeps the lease of a task, which an index names');
set pawl.processor = '019b0000-0000-7000-8000-00000000da90';
update pawl_dag.tasks set lease_until = now() + interval '1 hour' where task_uuid = :'leased';
set pawl.processor = '';
select * from sends(results_of(:'steps')) \gset
select cmp_ok(lease_of(:'leased'), '>', now() + interval '90 years', 'and extends it, if it would end soon');
select * from sends(results_of(:'steps')) \gset
select * from sends(results_of(:'steps')) \gset

-- a fan: children of the queue are started, those with a timeout have a lease of their own
select pawl_dag.start_task('fan') as fan \gset
select claimed() as got \gset
select * from sends(results_of(:'got'), 10) \gset
select is(:'got'::text, 'a b slow', 'all children are claimed');
select ok((select lease_until < now() + interval '1 min' from pawl_dag.steps where task_uuid = :'fan'
    and name = 'slow'), 'a timeout limits the lease');
select is_empty('select wrong()', 'the counters are right');
select * from sends(results_of(:'steps'), 1) \gset
select * from sends(results_of(:'steps')) \gset
select is(state_of(:'fan'), 'complete: a complete, b complete, first complete, last complete, slow complete',
    'and the fan completes');

-- the order of claims
select pawl_dag.start_task('fan') as old, pawl_dag.start_task('line', priority => 10) as urgent \gset
select claimed(2) as got \gset
update pawl_dag.steps set priority = 5 where task_uuid = :'urgent' \g /dev/null
select pawl_dag.start_task('line', priority => 7) as middle \gset
select pawl_dag.orchestrate() \g /dev/null
select * from sends(results_of(:'got'), 2) \gset
select is((select string_agg(case (s->>'task_uuid')::uuid when :'urgent' then 'urgent' when :'middle' then 'middle'
    else 'old' end || ' ' || (s->>'name'), ', ') from jsonb_array_elements(:'steps') s),
    'middle s1, urgent s2', 'what waits precedes children of a lower rank, and the other way round');
select is((select string_agg(name || ' ' || state, ', ' order by name) from pawl_dag.steps
    where task_uuid = :'old' and name <> 'last'), 'a enqueued, b enqueued, first complete, slow enqueued',
    'children beyond the batch are enqueued');
select is_empty('select wrong()', 'the counters are right');

-- a paused queue, and another one
select pawl.pause('pawl_dag.steps', queue => 'default') \g /dev/null
select * from sends(results_of(:'steps'), 10) \gset
select is(:'answers'::text, 'true complete, true complete', 'results are recorded while the queue is paused');
select is(:'got'::text, '', 'and nothing is claimed');
select ok((select bool_and(state <> 'in_progress') from pawl_dag.steps), 'and no step is started');
select pawl.resume('pawl_dag.steps', queue => 'default') \g /dev/null
select is((select count(*) from pawl_dag.report_and_claim('[]', :'me', 'other', 10)), 0::bigint,
    'steps of another queue are not claimed');
select work();

-- failures, elements that are rejected, and a result that is reported again
select pawl_dag.start_task('fan') as mixed \gset
select claimed() as got \gset
select sends(results_of(:'got'), 1) \g /dev/null
select claimed(10) \g /dev/null
select jsonb_agg(to_jsonb(s) order by s.name = 'b' desc) as held from pawl_dag.steps s where state = 'in_progress' \gset
select * from sends(results_of(:'held', '{b}') || '[{"task_uuid": "x"}]', 10) \gset
select is(:'answers'::text, 'true waiting_for_retry, true complete, true complete, false 22023',
    'a failure is read by the same turn, and an invalid element is rejected alone');
select is(entries(:'mixed') like '%b 5 enqueued_as_error_for_orchestration>waiting_for_retry WaitForRetry%', true,
    'by an entry of its own');
select * from sends(results_of(:'held', '{b}'), 10) \gset
select is(:'answers'::text, 'true waiting_for_retry, true complete, true complete', 'the same again is the same');
select * from sends(jsonb_set(results_of(:'held', '{b}'), '{0,error}', '"other"'), 10) \gset
select is(:'answers'::text, 'false waiting_for_retry PW005, true complete, true complete',
    'another result is not recorded');
select is_empty('select wrong()', 'the counters are right');

-- something raises an error: the others are recorded
create function public.rejects() returns trigger language plpgsql as $$ begin
    if new.name = 's2' and new.state in ('complete', 'enqueued_for_orchestration') then
        raise 'never' using errcode = current_setting('test.code');
    end if;
    return new;
end $$;
create trigger rejects before update on pawl_dag.steps for each row execute function rejects();
set test.code = 'P0001';
select pawl_dag.start_tasks('line', array['{}', '{}']::jsonb[]) \g /dev/null
select sends(results_of(claimed()), 1) \g /dev/null
select jsonb_agg(to_jsonb(s)) || claimed(1) as held from pawl_dag.steps s where state = 'in_progress' \gset
select * from sends(results_of(:'held'), 1) \gset
select is((select string_agg(a, ', ' order by a) from regexp_split_to_table(:'answers', ', ') a),
    'false in_progress P0001, true enqueued_for_orchestration', 'a result that is rejected does not hold up others');
-- the code of an expired lease says nothing about the others either, however often they are tried
set test.code = 'PW005';
select pawl_dag.start_task('line') \g /dev/null
select jsonb_agg(to_jsonb(s)) || claimed(1) as held from pawl_dag.steps s where state = 'in_progress' \gset
select * from sends(results_of(:'held'), 1) \gset
select is((select string_agg(distinct a, ', ') from regexp_split_to_table(:'answers', ', ') a),
    'false in_progress PW005, true enqueued_for_orchestration', 'nor does one that is rejected with PW005');
select pawl_dag.start_task('line') \g /dev/null
select jsonb_agg(to_jsonb(s)) || claimed(1) as held from pawl_dag.steps s where state = 'in_progress' \gset
select is_rows(format('select distinct ok, state, left(problem, 5) from pawl_dag.report(%L, %L)',
    results_of(:'held'), :'me'),
    $$values (false, 'in_progress'::text, 'PW005'), (true, 'enqueued_for_orchestration', null)$$,
    'and a report alone answers each element');
drop trigger rejects on pawl_dag.steps;

-- a claim that was lost and won again
select pawl_dag.start_task('line') as lost \gset
select claimed(100) \g /dev/null
select jsonb_agg(jsonb_set(to_jsonb(s), '{token}', to_jsonb(s.token - 1))) as held from pawl_dag.steps s
    where s.task_uuid = :'lost' and s.state = 'in_progress' \gset
select * from sends(results_of(:'held'), 1) \gset
select is(:'answers'::text, 'false in_progress PW005', 'the token of an earlier claim is stale');

-- a worker's role is enough, also with a single snapshot, and with troubles of another task
select work();
select pawl_dag.start_task('fan') as theirs \gset
select pawl_dag.start_task('line', priority => -9) as stuck \gset
insert into pawl_dag.troubles (task_uuid, again_at, sqlstate, message) values
    (:'stuck', 'infinity', 'P0001', 'held'), (:'parts', '-infinity', 'P0001', 'over');
create function drives() returns void language plpgsql as $$
declare got jsonb := claimed(3); begin
    while got <> '[]' loop
        got := (select steps from sends(results_of(got), 3));
    end loop;
end $$;
begin isolation level repeatable read;
set local role pawl_worker;
select drives();
reset role;
commit;
select is(state_of(:'theirs'), 'complete: a complete, b complete, first complete, last complete, slow complete',
    'a worker completes a task without another right');
select is((select state from pawl_dag.tasks where task_uuid = :'stuck'), 'pending', 'a task in trouble waits');
select is((select count(*) from pawl_dag.troubles), 1::bigint, 'and a trouble that is over is forgotten');
select is((select count(*) from pawl_dag.tasks where processor_uuid is not null and state = 'complete'), 0::bigint,
    'no completed task has an owner');
select is_empty('select wrong()', 'the counters are right');
select throws_ok(format($$select pawl_dag.report_and_claim('[]', '%s') from (select set_config('role', 'pawl_reader',
    true)) r$$, :'me'), '42501', null, 'readers may not');

-- arguments
prepare bad as select * from pawl_dag.report_and_claim($1, $2, 'default', $3, $4);
select throws_ok($$execute bad('{}', 'w', 1, null)$$, '22023', null, 'results must be an array');
select throws_ok($$execute bad('[]', '', 1, null)$$, 'PW004', null, 'a processor is required');
select throws_ok($$execute bad('[]', '00000000-0000-7000-8000-00000000000a', 0, null)$$, '22023', null,
    'a batch has limits');
select throws_ok($$execute bad('[]', '00000000-0000-7000-8000-00000000000a', 1, '-1 s')$$, '22023', null,
    'a lease is positive');
select throws_ok($$select pawl_dag.report_and_claim('[]', '00000000-0000-7000-8000-00000000000a', 'sql:') from
    (select set_config('role', 'pawl_worker', true)) r$$, '42501', null, 'workers claim no steps of SQL functions');
select * from finish();
