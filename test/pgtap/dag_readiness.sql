-- Readiness of steps and context of tasks: cases of our own, and all of test/conformance/dag. States are loaded
-- as they are (pawl.restoring); what the functions say must not hang on how they came about.
\set QUIET 1
\set reachable `cat test/conformance/dag/readiness-reachable.json`
\set arbitrary `cat test/conformance/dag/readiness-arbitrary.json`
\set backoff `cat test/conformance/dag/backoff.json`
set client_min_messages = warning;
create extension if not exists pawl_dag;
select no_plan();

-- Loads a case; other names and another order of rows must not change anything.
create function load(c jsonb, flipped boolean) returns uuid language plpgsql as $$
declare task uuid := pawl.uuid_v7();
begin
    set local pawl.restoring = on;
    insert into pawl_dag.tasks (task_uuid, template_uuid, namespace, name, version, state, identity_key)
    values (task, pawl.uuid_v7(), 'default', c ->> 'id', '1', c ->> 'task_state', task::text);
    insert into pawl_dag.steps (task_uuid, name, state, namespace, handler, attempts, max_attempts, retryable,
        last_attempted_at, next_retry_at)
    select task, case when flipped then reverse(s ->> 'name') else s ->> 'name' end, s ->> 'state', 'default', 'noop',
    (s ->> 'attempts')::int,
           (s ->> 'max_attempts')::int, (s ->> 'retryable')::boolean,
           now() + make_interval(secs => (s ->> 'last_attempted_s')::float),
           now() + make_interval(secs => (s ->> 'last_attempted_s')::float + (s ->> 'backoff_seconds')::float)
      from jsonb_array_elements(c -> 'steps') with ordinality x(s, n) order by case when flipped then -n else n end;
    insert into pawl_dag.edges (task_uuid, parent_uuid, child_uuid)
    select task, p.step_uuid, s.step_uuid from jsonb_array_elements(c -> 'edges') with ordinality e(e, n)
      join pawl_dag.steps p on p.task_uuid = task and p.name = case when flipped then reverse(e ->> 0) else e ->> 0 end
      join pawl_dag.steps s on s.task_uuid = task and s.name = case when flipped then reverse(e ->> 1) else e ->> 1 end
     order by case when flipped then -n else n end;
    set local pawl.restoring = off;
    return task;
end $$;

-- What differs from what is expected: of each step, of the task, of the levels.
create function differences(c jsonb, flipped boolean) returns setof text language plpgsql as $$
declare task uuid := load(c, flipped); others uuid[];
begin
    return query select format('%s: %s of %s is %s', c ->> 'id', k, e ->> 'name', got ->> k)
      from jsonb_array_elements(c -> 'expected' -> 'readiness') e
      join lateral (select to_jsonb(r)
          || jsonb_build_object('next_retry_in_s', round(extract(epoch from r.next_retry_at - now()), 3)) as got
                      from pawl_dag.step_readiness(task) r
          where r.name = case when flipped then reverse(e ->> 'name') else e ->> 'name' end) r on true
      cross join jsonb_object_keys(e) k
     where k <> 'name' and case k when 'next_retry_in_s' then abs((got ->> k)::numeric - (e ->> k)::numeric) > 0.01
         else (got ->> k) is distinct from (e ->> k) end;
    return query select format('%s: %s steps', c ->> 'id', count(*)) from pawl_dag.step_readiness(task)
      having count(*) <> jsonb_array_length(c -> 'expected' -> 'readiness');
    return query select format('%s: %s is %s', c ->> 'id', k, got ->> k)
      from (select to_jsonb(x) || jsonb_build_object('completion_percentage', x.completion_percentage::text) as got
          from pawl_dag.task_context(task) x) g
      cross join jsonb_object_keys(c -> 'expected' -> 'context') k
      where got ->> k is distinct from c #>> array['expected', 'context', k];
    return query select format('%s: level of %s is %s', c ->> 'id', l.key, s.level)
        from jsonb_each_text(c -> 'expected' -> 'levels') l
      join pawl_dag.steps s on s.task_uuid = task and s.name = case when flipped then reverse(l.key) else l.key end
      where s.level::text <> l.value;
    -- the counters that the triggers keep
    return query select format('%s: counters', c ->> 'id') from pawl_dag.tasks t, pawl_dag._count_steps(task) n
     where t.task_uuid = task and (t.steps_total, t.steps_blocked, t.steps_ready, t.steps_in_flight, t.steps_waiting,
         t.steps_failed, t.steps_satisfied, t.steps_cancelled)
           is distinct from (n.total, n.blocked, n.ready, n.in_flight, n.waiting, n.failed, n.satisfied, n.cancelled);
    return query select format('%s: %s counts %s of %s parents unsatisfied', c ->> 'id', s.name, s.unsatisfied_parents,
        s.total_parents)
      from pawl_dag.steps s join pawl_dag.step_readiness(task) r on r.workflow_step_uuid = s.step_uuid
     where s.task_uuid = task
         and (s.total_parents, s.unsatisfied_parents) <> (r.total_parents, r.total_parents - r.completed_parents);
    -- a filter narrows the rows and nothing else
    return query select format('%s: the filter changes %s', c ->> 'id', s.name) from pawl_dag.steps s
        where s.task_uuid = task
        and (select array_agg(r) from pawl_dag.step_readiness(task, array[s.step_uuid]) r)
         is distinct from (select array_agg(r) from pawl_dag.step_readiness(task) r
             where r.workflow_step_uuid = s.step_uuid);
    -- many tasks are read as one
    others := array(select t.task_uuid from pawl_dag.tasks t order by t.task_uuid desc limit 3);
    return query select format('%s: many are not as one', c ->> 'id')
     where exists (select r from pawl_dag.steps_readiness(others) r except select r
         from unnest(others) o, pawl_dag.step_readiness(o) r)
        or (select count(*) from pawl_dag.steps_readiness(others)) <> (select count(*) from pawl_dag.steps
            where task_uuid = any (others))
        or exists (select x from pawl_dag.task_contexts(others) x except select x
            from unnest(others) o, pawl_dag.task_context(o) x)
        or (select count(*) from pawl_dag.task_contexts(others)) <> cardinality(others);
end $$;

create table given (suite text, c jsonb);
insert into given select 'own', c from jsonb_array_elements($$[
 {"id": "no steps", "task_state": "pending", "steps": [], "edges": [], "expected": {"readiness": [], "levels": {},
  "context": {"total_steps": 0, "execution_status": "all_complete", "recommended_action": "finalize_task",
      "completion_percentage": "0.00", "health_status": "healthy"}}},
 {"id": "only a backoff", "task_state": "waiting_for_retry", "edges": [["a", "b"]],
  "steps": [{"name": "a", "state": "waiting_for_retry", "attempts": 1, "max_attempts": 3, "retryable": true,
      "last_attempted_s": -10, "backoff_seconds": 600},
            {"name": "b", "state": "pending", "attempts": 0, "max_attempts": 3, "retryable": true}],
  "expected": {"readiness": [{"name": "a", "retry_eligible": true, "ready_for_execution": false, "next_retry_in_s": 590,
      "total_parents": 0},
                             {"name": "b", "dependencies_satisfied": false, "ready_for_execution": false,
                                 "total_parents": 1, "completed_parents": 0}], "levels": {"a": 0, "b": 1},
   "context": {"execution_status": "waiting_for_retry", "recommended_action": "wait_for_retry",
       "health_status": "recovering", "ready_steps": 0, "pending_steps": 1}}},
 {"id": "the backoff is over this instant", "task_state": "waiting_for_retry", "edges": [],
  "steps": [{"name": "a", "state": "waiting_for_retry", "attempts": 1, "max_attempts": 3, "retryable": true,
      "last_attempted_s": -10, "backoff_seconds": 10}],
  "expected": {"readiness": [{"name": "a", "ready_for_execution": true, "next_retry_in_s": 0}], "levels": {"a": 0},
   "context": {"execution_status": "has_ready_steps", "ready_steps": 1}}},
 {"id": "cancelled by choice", "task_state": "evaluating_results", "edges": [],
  "steps": [{"name": "a", "state": "cancelled", "attempts": 0, "max_attempts": 3, "retryable": true},
            {"name": "b", "state": "resolved_manually", "attempts": 0, "max_attempts": 3, "retryable": true}],
  "expected": {"readiness": [{"name": "a", "ready_for_execution": false}], "levels": {"a": 0, "b": 0},
   "context": {"execution_status": "all_complete", "recommended_action": "finalize_task",
       "completion_percentage": "50.00", "completed_steps": 1, "cancelled_steps": 1}}}
 ]$$::jsonb) c;
update given set c = jsonb_set(c, '{expected,readiness}', c #> '{expected,readiness}' || '[{"name": "b"}]')
    where c ->> 'id' = 'cancelled by choice';
insert into given select 'reachable', c from jsonb_array_elements(:'reachable'::jsonb -> 'cases') c;
insert into given select 'arbitrary', c from jsonb_array_elements(:'arbitrary'::jsonb -> 'cases') c;
select results_eq($$select suite, count(*) from given where suite in ('reachable', 'arbitrary') group by 1 order by 1$$,
                  $$values ('arbitrary', 20::bigint), ('reachable', 52)$$, 'every case of the conformance suite');

select is_empty(format('select d from given, differences(c, false) d where suite = %L and c ->> ''id'' = %L', suite,
            c ->> 'id') , suite || ' ' || (c ->> 'id'))
  from given order by suite, c ->> 'id';
select is_empty($$select d from given, differences(c, true) d$$, 'other names and another order change nothing');

-- Delays.
select is_empty($$select c
    from jsonb_array_elements(
            $j$[{"strategy": "linear", "base_ms": 1000, "attempts": 4, "cap_ms": 3500, "expected_delay_ms": 3500},
        {"strategy": "fibonacci", "base_ms": 100, "attempts": 6, "cap_ms": 60000, "expected_delay_ms": 800}]$j$::jsonb)
        c
    where pawl.backoff((c ->> 'attempts')::int, jsonb_build_object('strategy', c ->> 'strategy', 'base',
        (c ->> 'base_ms') || ' ms', 'cap', (c ->> 'cap_ms') || ' ms', 'jitter', 0))
       <> make_interval(secs => (c ->> 'expected_delay_ms')::numeric / 1000)$$, 'delays of our own');
select is(pawl.backoff((c ->> 'attempts')::int,
    jsonb_strip_nulls(jsonb_build_object('strategy', c -> 'strategy', 'base', (c ->> 'base_ms') || ' ms',
                 'cap', (c ->> 'cap_ms') || ' ms', 'multiplier', c -> 'multiplier', 'jitter', 0)),
    make_interval(secs => (c ->> 'retry_after_s')::float)),
          make_interval(secs => (c ->> 'expected_delay_ms')::numeric / 1000), 'backoff ' || (c ->> 'id'))
  from jsonb_array_elements(:'backoff'::jsonb -> 'cases') c order by c ->> 'id';
select * from finish();
