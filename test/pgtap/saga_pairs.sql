-- Every pair of states of the five machines, in every way: a plain UPDATE, MERGE, an INSERT into the log; and every
-- event from every state by pawl.fire. A legal pair changes the state and writes one log
-- entry; any other leaves row and log untouched.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;
select pawl_saga.define('{"flow": "linear", "name": "pairs", "retry": {"retry": "Times", "name": "again", "attempts": '
        '2}, "children": [{"task": "a"}, {"task": "b"}]}') as d \gset
set pawl.processor = 'w';

-- What the specification allows, and what was added to it.
create table legal_targets (machine text, from_state text, to_states text[]);
insert into legal_targets values
    ('flow', 'PENDING', '{RUNNING}'), ('flow', 'RUNNING', '{SUCCESS,FAILURE,REVERTED,SUSPENDING,RESUMING}'),
    ('flow', 'SUCCESS', '{RUNNING,PENDING}'), ('flow', 'FAILURE', '{RUNNING}'),
    ('flow', 'REVERTED', '{PENDING}'), ('flow', 'SUSPENDING', '{SUSPENDED,SUCCESS,FAILURE,REVERTED,RESUMING}'),
    ('flow', 'SUSPENDED', '{RUNNING}'), ('flow', 'RESUMING', '{SUSPENDED}'),
    ('task', 'PENDING', '{RUNNING,IGNORE}'), ('task', 'RUNNING', '{SUCCESS,FAILURE}'),
    ('task', 'SUCCESS', '{REVERTING}'), ('task', 'FAILURE', '{REVERTING}'),
    ('task', 'REVERTING', '{REVERTED,REVERT_FAILURE}'), ('task', 'REVERTED', '{PENDING}'),
    ('task', 'IGNORE', '{PENDING}'), ('task', 'REVERT_FAILURE', '{REVERTED,REVERTING}'),
    ('retry', 'PENDING', '{RUNNING,IGNORE}'), ('retry', 'RUNNING', '{SUCCESS,FAILURE}'),
    ('retry', 'SUCCESS', '{REVERTING,RETRYING}'), ('retry', 'FAILURE', '{REVERTING}'),
    ('retry', 'REVERTING', '{REVERTED,REVERT_FAILURE}'), ('retry', 'REVERTED', '{PENDING}'),
    ('retry', 'IGNORE', '{PENDING}'), ('retry', 'RETRYING', '{RUNNING}'), ('retry', 'REVERT_FAILURE', '{}'),
    ('job', 'UNCLAIMED', '{CLAIMED}'), ('job', 'CLAIMED', '{UNCLAIMED,COMPLETE}'), ('job', 'COMPLETE', '{}'),
    ('engine', 'UNDEFINED', '{RESUMING}'), ('engine', 'RESUMING', '{SCHEDULING}'),
    ('engine', 'SCHEDULING', '{WAITING}'), ('engine', 'WAITING', '{ANALYZING}'),
    ('engine', 'ANALYZING', '{SCHEDULING,WAITING,GAME_OVER}'),
    ('engine', 'GAME_OVER', '{SUCCESS,REVERTED,SUSPENDED,FAILURE}'), ('engine', 'SUCCESS', '{}'),
    ('engine', 'REVERTED', '{}'), ('engine', 'SUSPENDED', '{}'), ('engine', 'FAILURE', '{}');
create view pair as
    select m.machine, m.relation, m.key, m.log, f.state collate "default" as from_state,
    t.state collate "default" as to_state,
           exists (select from legal_targets a where a.machine = m.machine and a.from_state = f.state collate "default"
               and t.state collate "default" = any (a.to_states)) as legal
      from (values ('flow', 'pawl_saga.flows', 'flow_uuid', 'pawl_saga.flow_transitions'),
          ('task', 'pawl_saga.tasks', 'flow_uuid,node', 'pawl_saga.task_transitions'),
                   ('retry', 'pawl_saga.retries', 'flow_uuid,node', 'pawl_saga.retry_transitions'),
                   ('job', 'pawl_saga.jobs', 'job_uuid', 'pawl_saga.job_transitions'),
                   ('engine', 'pawl_saga.runs', 'flow_uuid,run', null)) m(machine, relation, key, log),
           pawl.states('pawl_saga.' || m.machine) f, pawl.states('pawl_saga.' || m.machine) t
           where f.kind = 'state' and t.kind = 'state';
select results_eq('select machine, count(*), count(*) filter (where legal) from pair group by 1 order by 1',
    $$values ('engine', 100::bigint, 11::bigint), ('flow', 64, 17), ('job', 9, 3), ('retry', 81, 12),
        ('task', 64, 12)$$, 'as many as the specification has, and two more for failed reverts');

-- Rows in a state, one for each try, in a flow that runs, such that guards say yes to where it is led. All are staged
-- at once: a session that turns its triggers off and on plans anew what it runs.
create function begin_row(machine text) returns uuid language sql as $$
    select case machine when 'job' then pawl_saga.post('pair') else pawl_saga.start('pairs') end $$;
create function stage(machine text, state text, target text, made uuid) returns text[] language plpgsql as $$
declare
    n int;
    held boolean := state in ('RUNNING', 'REVERTING', 'CLAIMED');
    lease timestamptz := now() + interval '1 hour';
begin
    if machine = 'job' then
        update pawl_saga.jobs set state = stage.state, owner = case when held then 'w' end,
            lease_until = case when held then lease end where job_uuid = made;
        update pawl_saga.job_transitions_log set to_state = stage.state where job_uuid = made;
        return array[made::text];
    end if;
    select node into n from pawl_saga.atoms
        where flow_uuid = made and name = case machine when 'retry' then 'again' else 'a' end;
    if machine = 'flow' then
        update pawl_saga.flows f set state = stage.state where flow_uuid = made;
        update pawl_saga.flow_transitions_log set to_state = stage.state where flow_uuid = made and sort_key = 2;
        -- its atoms are as the end that it is led to says
        if target = 'SUSPENDED' then
            update pawl_saga.tasks t set due_at = 'infinity' where flow_uuid = made;
        elsif target in ('SUCCESS', 'FAILURE', 'REVERTED') then
            update pawl_saga.tasks t set due_at = 'infinity',
                state = case target when 'SUCCESS' then target when 'FAILURE' then 'FAILURE' else t.state end,
                   intention = case target when 'REVERTED' then 'REVERT' else 'EXECUTE' end where flow_uuid = made;
            update pawl_saga.retries r set state = case target when 'REVERTED' then target else 'SUCCESS' end,
                intention = case target when 'REVERTED' then 'REVERT' else 'EXECUTE' end where flow_uuid = made;
            update pawl_saga.junctions j set blockers = case target when 'SUCCESS' then 0 else 1 end
                where flow_uuid = made;
        end if;
    elsif machine = 'task' then
        update pawl_saga.tasks t set state = stage.state, intention = case
            when target in ('REVERTING', 'REVERTED') then 'REVERT' else 'EXECUTE' end, blockers = 0, due_at = null,
               worker = case when held then 'w' end, lease_until = case when held then lease end
               where flow_uuid = made and node = n;
        update pawl_saga.task_transitions_log set to_state = stage.state where flow_uuid = made and node = n;
    elsif machine = 'retry' then
        update pawl_saga.retries r set state = stage.state,
                intention = case when target in ('REVERTING', 'REVERTED') then 'REVERT' else 'EXECUTE' end
                    where flow_uuid = made and node = n;
        delete from pawl_saga.retry_transitions_log where flow_uuid = made and node = n and sort_key > 1;
        update pawl_saga.retry_transitions_log set to_state = stage.state where flow_uuid = made and node = n;
    else
        update pawl_saga.runs r set state = stage.state where flow_uuid = made;
    end if;
    return case machine when 'flow' then array[made::text] when 'engine' then array[made::text, '1']
        else array[made::text, n::text] end;
end $$;

create function condition(alias text, key text, keys text[]) returns text language sql as $$
    select string_agg(format('%s%I = %L', alias, k, keys[i::int]), ' and ' order by i)
        from unnest(string_to_array(key, ',')) with ordinality u(k, i) $$;

-- What is tried: every pair by every way of writing; every event from every state, those of the diagram to lead where
-- it says, and no other anywhere.
create table tried as
    select p.*, w as way, null::text as event, null::boolean as known, null::uuid as made, null::text[] as keys,
    null::text as did
      from pair p, unnest('{update,merge,log}'::text[]) w where p.log is not null or w in ('update', 'merge')
    union all
    select p.*, 'fire', e.event, a.to_state is not null, null, null, null
      from (select distinct m as machine, t.event collate "default" as event
          from unnest('{flow,task,retry,job}'::text[]) m, pawl.transitions('pawl_saga.' || m) t
          where t.event is not null) e
      join lateral (select distinct x.from_state from pair x where x.machine = e.machine) s on true
      left join lateral (select min(t.to_state collate "default") as to_state
          from pawl.transitions('pawl_saga.' || e.machine) t
          where t.event collate "default" = e.event and t.from_state collate "default" = s.from_state) a on true
      join pair p on p.machine = e.machine and p.from_state = s.from_state
          and p.to_state = coalesce(a.to_state, s.from_state);
update tried set made = begin_row(machine);
begin;
set local session_replication_role = replica;
update tried set keys = stage(machine, from_state, to_state, made);
commit;

-- What became of it: 'moved', 'nothing', or the SQLSTATE; and whether the log says the same.
create function try(p tried) returns text language plpgsql as $$
declare
    keys text[] := p.keys;
    here text := condition('', p.key, keys);
    entries text := format('select coalesce(jsonb_agg(jsonb_build_array(l.from_state, l.to_state) order by '
                'l.sort_key), ''[]'') from %s l where %s', p.log, condition('l.', p.key, keys));
    before jsonb; after jsonb; row_before jsonb; row_after jsonb; code text := 'nothing';
begin
    if p.log is not null then execute entries into before; end if;
    execute format('select to_jsonb(t) from %s t where %s', p.relation, here) into row_before;
    begin
        case p.way
            when 'update' then execute format('update %s set state = %L where %s', p.relation, p.to_state, here);
            when 'merge' then execute format('merge into %s t using (select) s on %s when matched then update '
                'set state = %L', p.relation, condition('t.', p.key, keys), p.to_state);
            when 'log' then execute format('insert into %s (%s, to_state) values (%s, %L)', p.log, p.key,
                (select string_agg(quote_literal(k), ', ') from unnest(keys) k), p.to_state);
            else perform pawl.fire(p.relation::regclass, keys, p.event, processor => 'w');
        end case;
    exception when others then
        code := sqlstate;
    end;
    execute format('select to_jsonb(t) from %s t where %s', p.relation, here) into row_after;
    if p.log is null then
        return case when row_after ->> 'state' <> row_before ->> 'state' then 'moved' when row_after <> row_before
            then 'touched' else code end;
    end if;
    execute entries into after;
    if after -> jsonb_array_length(before) = jsonb_build_array(p.from_state, p.to_state) then
        return 'moved';
    end if;
    return case when row_after <> row_before or after <> before then 'touched' || after::text else code end;
end $$;

update tried t set did = try(t);

-- In the log a request to stay is a rejected one, but for a worker that gives up its task.
select is_empty(format($$select machine, from_state, to_state, did from tried
    where way = %L and did is distinct from case when legal then 'moved'
                      when from_state = to_state and %1$L <> 'log' then 'nothing'
                      when from_state = to_state and machine = 'task'
                          and from_state in ('RUNNING', 'REVERTING') then 'moved'
                      when machine in ('task', 'retry') and from_state = 'SUCCESS' and to_state = 'PENDING' then 'PW003'
                      else 'PW001' end$$, way), 'every pair by: ' || way)
  from unnest('{update,merge,log}'::text[]) way;

-- Events.
create view was_fired as select machine, from_state, event, known, did from tried where way = 'fire';
select is_empty(
    $$select * from was_fired where known and did is distinct from 'moved'
            and not (event = 'reset' and from_state = 'SUCCESS' and machine in ('task', 'retry'))$$,
        'every event leads where it is drawn');
select is((select string_agg(distinct did, ',') from was_fired where known and did <> 'moved'), 'PW003',
    'but for resets of what was done, in a flow that is not reset');
select is_empty($$select * from was_fired where not known and did is distinct from 'PW001'$$, 'and nowhere else');
select cmp_ok((select count(*) from was_fired), '>', 150::bigint, 'all of them were tried');
select throws_ok('insert into pawl_saga.tasks (flow_uuid, node, name, execute, state) select flow_uuid, 99, $$x$$, '
    '$$x$$, $$SUCCESS$$ from pawl_saga.flows limit 1', 'PW002', null, 'no task begins done');
select throws_ok('insert into pawl_saga.flows (definition_uuid, name, state) select definition_uuid, name, '
    '$$RUNNING$$ from pawl_saga.flows limit 1', 'PW002', null, 'no flow begins running');
select throws_ok('delete from pawl_saga.task_transitions_log', 'PW006', null, 'the log stays');
select * from finish();
