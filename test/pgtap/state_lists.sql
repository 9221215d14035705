-- A machine lives in its diagram. Functions, views, triggers, indexes and constraints of the packs also list its
-- states, because a literal costs nothing and an index needs one. Each list is compared with what the machine says: it
-- is a property of the machine, or stands below with its reason.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
create extension pawl_dag;
create extension pawl_bulk;
create extension pawl_saga;
create extension pawl_api;
select no_plan();

create temp table packs as select n.oid, n.nspname::text as pack from pg_namespace n where n.nspname ~ '^pawl_';
create temp table sources as
select p.pack, 'function ' || f.oid::regprocedure as object, pg_get_functiondef(f.oid) as text
  from packs p join pg_proc f on f.pronamespace = p.oid and f.prokind in ('f', 'p')
  join pg_language l on l.oid = f.prolang and l.lanname <> 'c'
union all
select p.pack, 'view ' || c.oid::regclass, pg_get_viewdef(c.oid)
  from packs p join pg_class c on c.relnamespace = p.oid and c.relkind = 'v'
union all
select p.pack, 'trigger ' || t.tgname || ' on ' || c.oid::regclass, pg_get_triggerdef(t.oid)
  from packs p join pg_class c on c.relnamespace = p.oid join pg_trigger t on t.tgrelid = c.oid
union all
select p.pack, 'index ' || i.indexrelid::regclass, pg_get_indexdef(i.indexrelid)
  from packs p join pg_class c on c.relnamespace = p.oid
  join pg_index i on i.indrelid = c.oid and i.indpred is not null
union all
select p.pack, 'constraint ' || k.conname || ' of ' || k.conrelid::regclass, pg_get_constraintdef(k.oid)
  from packs p join pg_constraint k on k.connamespace = p.oid and k.contype = 'c';

-- The lists in a text: in parentheses, in brackets, and as array literals; sorted, with the names as a set.
create function pg_temp.lists_in(text text) returns setof text[] language sql immutable as $$
    select distinct (select array_agg(distinct w[1] collate "C" order by w[1] collate "C")
                       from regexp_matches(l[1], '[A-Za-z_]+(?=['',}])', 'g') w)
      from regexp_matches(regexp_replace(text, '::text', '', 'g'),
          '(\(\s*''[A-Za-z_]+''(?:\s*,\s*''[A-Za-z_]+'')+\s*\)|\[\s*''[A-Za-z_]+''(?:\s*,\s*''[A-Za-z_]+'')+\s*\]|'
          '''\{[A-Za-z_]+(?:,[A-Za-z_]+)+\}'')', 'g') l
$$;
select is((select array_agg(l::text order by l::text)
    from pg_temp.lists_in($$a in ('y', 'x') or b = any ('{p,q}'::text[]) or c = any (array['v'::text, 'u'::text])
        or d in ('one') $$) l),
    array['{p,q}', '{u,v}', '{x,y}'],
    'lists are found in each of the three forms');

create temp table states as
select m.machine, split_part(m.machine, '.', 1) as pack, s.state::text collate "C" as state, s.initial, s.terminal,
    s.tags && array['error'] as error, s.tags
  from (select distinct b.machine::text from pawl.binding b where b.machine ~ '^pawl_') m
 cross join pawl.states(m.machine) s;
create temp table transitions as
select m.machine, t.event::text, t.from_state::text collate "C", t.to_state::text collate "C"
  from (select distinct machine from states) m cross join pawl.transitions(m.machine) t;

create temp table properties as
select x.machine, x.property, array_agg(distinct x.state order by x.state) as list from (
    select machine, 'every state' as property, state from states
    union all select machine, case when terminal then 'terminal' else 'not terminal' end, state from states
    union all select machine, 'not initial', state from states where not initial
    union all select machine, case when terminal or error then 'terminal or error'
                                   else 'neither terminal nor error' end, state from states
    union all select machine, 'tag ' || tag, state from states cross join unnest(tags) tag
    union all select machine, 'left by ' || event, from_state from transitions where from_state is not null
    union all select machine, 'entered by ' || event, to_state from transitions
    union all select machine, 'left for ' || to_state, from_state from transitions
        where from_state is distinct from to_state and from_state is not null
    union all select machine, 'entered from ' || from_state, to_state from transitions where from_state <> to_state) x
 group by x.machine, x.property;

-- Lists of which each name is a state of one machine of the pack (the API: of any pack).
create temp table lists as
select s.pack, s.object, l as list, array_agg(m.machine) as machines
  from sources s cross join pg_temp.lists_in(s.text) l
  join (select machine, pack, array_agg(state) as all_states from states group by machine, pack) m
    on l <@ m.all_states and (m.pack = s.pack or s.pack = 'pawl_api')
 group by s.pack, s.object, l;

-- Lists that are no property of a machine, and what they mean where they stand.
create temp table reviewed (pack text, list text[], why text);
insert into reviewed values
    ('pawl_api', '{CompletedWithErrors,Failed}', 'operations that an operator looks at'),
    ('pawl_bulk', '{Cancelled,Completed}', 'a row ended without an error'),
    ('pawl_bulk', '{Cancelled,Failed}', 'an operation ended, and its rows end with it'),
    ('pawl_bulk', '{Cancelled,Failed,TimedOut}', 'a row ended without success'),
    ('pawl_bulk', '{Cancelled,Pending}', 'what an operator does to a row'),
    ('pawl_bulk', '{Cancelled,Retrying}', 'what an operator does to an operation'),
    ('pawl_bulk', '{Completed,Failed,TimedOut}', 'a row ended, and the operation was not cancelled'),
    ('pawl_bulk', '{Completed,Failed,Running,WaitingForCompletion}', 'what a function makes of a row'),
    ('pawl_bulk', '{Pending,Running}', 'a row that does not wait yet'),
    ('pawl_bulk', '{Pending,Validating}', 'an operation whose rows are not all known'),
    ('pawl_bulk', '{Retrying,Running}', 'an operation whose rows are known'),
    ('pawl_bulk', '{Retrying,Running,Validating}', 'an operation that counts rows'),
    ('pawl_bulk', '{Running,Validating}', 'an operation that can be paused'),
    ('pawl_dag', '{blocked_by_failures,cancelled,complete,error,pending,resolved_manually}', 'a task without an owner'),
    ('pawl_dag', '{blocked_by_failures,pending}', 'a task without an owner that has not ended'),
    ('pawl_dag', '{cancelled,resolved_manually}', 'what an operator ended'),
    ('pawl_dag', '{complete,resolved_manually}', 'a step on which others can build'),
    ('pawl_dag', '{enqueued,enqueued_as_error_for_orchestration,enqueued_for_orchestration}', 'a step in a queue'),
    ('pawl_dag', '{enqueued_as_error_for_orchestration,enqueued_for_orchestration}', 'a reported step'),
    ('pawl_dag', '{enqueued_as_error_for_orchestration,enqueued_for_orchestration,in_progress}',
        'a step that was claimed'),
    ('pawl_dag', '{enqueuing_steps,steps_in_process}', 'a task whose steps can be enqueued'),
    ('pawl_dag', '{initializing,steps_in_process,waiting_for_dependencies,waiting_for_retry}',
        'states that a template can limit in time'),
    ('pawl_dag', '{pending,waiting_for_retry}', 'a step that can become ready'),
    ('pawl_saga', '{FAILURE,PENDING,REVERTED,SUCCESS,SUSPENDED}', 'a flow that can be altered'),
    ('pawl_saga', '{FAILURE,PENDING,REVERT_FAILURE,SUCCESS}', 'an atom that can become ready'),
    ('pawl_saga', '{FAILURE,RETRYING,REVERTING,REVERT_FAILURE,RUNNING}', 'an atom because of which a flow goes on'),
    ('pawl_saga', '{FAILURE,RETRYING,REVERTING,RUNNING,SUCCESS}', 'the same, where it is reverted'),
    ('pawl_saga', '{FAILURE,PENDING}', 'an atom that came back to a flow that had succeeded without it'),
    ('pawl_saga', '{FAILURE,REVERTING,REVERT_FAILURE,RUNNING}', 'the same, of tasks'),
    ('pawl_saga', '{FAILURE,REVERTING,SUCCESS}', 'a retry controller that has decided'),
    ('pawl_saga', '{FAILURE,RUNNING,SUCCESS}', 'a task that was executed'),
    ('pawl_saga', '{IGNORE,PENDING,REVERTED}', 'an atom that leaves nothing behind'),
    ('pawl_saga', '{IGNORE,SUCCESS}', 'an atom after which others can run'),
    ('pawl_saga', '{PENDING,RETRYING,RUNNING}', 'an atom that can still succeed'),
    ('pawl_saga', '{PENDING,REVERTED,SUCCESS}', 'an atom that an added one can follow'),
    ('pawl_saga', '{PENDING,SUCCESS}', 'an atom that comes back and was not reverted'),
    ('pawl_saga', '{RESUMING,RUNNING,SUSPENDING}', 'a flow that was begun, has not ended, and is not suspended'),
    ('pawl_saga', '{RETRYING,RUNNING}', 'a retry controller that runs'),
    ('pawl_saga', '{RETRYING,SUCCESS}', 'a retry controller with a value'),
    ('pawl_saga', '{RUNNING,SUSPENDED,SUSPENDING}', 'a flow whose counters are kept'),
    ('pawl_saga', '{SUSPENDED,SUSPENDING}', 'a flow that was suspended');

-- The machines that the reasons are about. A new state is added here once the lists above were reviewed.
select bag_eq('select machine, array_agg(state order by state) from states group by machine', $$values
    ('pawl_bulk.event', '{recorded}'::text[]),
    ('pawl_bulk.notice', '{delivered,failed,leased,ready}'),
    ('pawl_bulk.operation', '{Cancelled,Completed,CompletedWithErrors,Failed,Pending,Retrying,Running,Validating}'),
    ('pawl_bulk.row', '{Cancelled,Completed,Failed,Pending,Running,TimedOut,WaitingForCompletion}'),
    ('pawl_bulk.validation', '{Completed,Failed}'),
    ('pawl_bulk.work', '{awaiting,leased,lost,ready}'),
    ('pawl_dag.step', '{cancelled,complete,enqueued,enqueued_as_error_for_orchestration,enqueued_for_orchestration,'
        'error,in_progress,pending,resolved_manually,waiting_for_retry}'),
    ('pawl_dag.task', '{blocked_by_failures,cancelled,complete,enqueuing_steps,error,evaluating_results,initializing,'
        'pending,resolved_manually,steps_in_process,waiting_for_dependencies,waiting_for_retry}'),
    ('pawl_saga.engine', '{ANALYZING,FAILURE,GAME_OVER,RESUMING,REVERTED,SCHEDULING,SUCCESS,SUSPENDED,UNDEFINED,'
        'WAITING}'),
    ('pawl_saga.flow', '{FAILURE,PENDING,RESUMING,REVERTED,RUNNING,SUCCESS,SUSPENDED,SUSPENDING}'),
    ('pawl_saga.job', '{CLAIMED,COMPLETE,UNCLAIMED}'),
    ('pawl_saga.retry', '{FAILURE,IGNORE,PENDING,RETRYING,REVERTED,REVERTING,REVERT_FAILURE,RUNNING,SUCCESS}'),
    ('pawl_saga.task', '{FAILURE,IGNORE,PENDING,REVERTED,REVERTING,REVERT_FAILURE,RUNNING,SUCCESS}')$$,
    'the machines of the packs have the states for which the lists in SQL were reviewed');

select cmp_ok((select count(*) from lists), '>', 100::bigint, 'more than a hundred lists of states are found in SQL');
select is_empty($$ select l.object, l.list from lists l
    where not exists (select from properties p where p.machine = any (l.machines) and p.list = l.list)
      and not exists (select from reviewed r where r.pack = l.pack and r.list = l.list) $$,
    'every list of states in SQL is a property of its machine, or is reviewed with its reason');
select is_empty($$ select r.pack, r.list from reviewed r
    where not exists (select from lists l where l.pack = r.pack and l.list = r.list)
       or exists (select from properties p where p.list = r.list and split_part(p.machine, '.', 1) = r.pack) $$,
    'every reviewed list occurs in SQL and is no property of a machine');
select isnt_empty($$ select from properties p where p.machine = 'pawl_dag.task' and p.property = 'terminal'
    and p.list = '{cancelled,complete,error,resolved_manually}' $$, 'properties are read from the diagrams');

select * from finish();
