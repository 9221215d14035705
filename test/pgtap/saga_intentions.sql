-- Intentions are part of an atom's row and of its log: every change is recorded, also where no state change followed.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;
create function no(results jsonb) returns boolean language sql as $$ select false $$;
create function public.intended(flow uuid, atom text) returns text language sql as $$
    select string_agg(i.to_intention
                || case when i.from_state <> i.to_state then ' (' || i.from_state || ' ' || i.to_state || ')' else ' '
                    || i.to_state end, ', ' order by i.change_uuid)
      from pawl_saga.intentions i join pawl_saga.atoms a using (flow_uuid, node)
      where i.flow_uuid = flow and a.name = atom $$;
create function public.work(failing text default '') returns text language plpgsql as $$
declare c record;
begin
    select * into c from pawl_saga.claim('w', 'default', 1);
    if found then
        perform from pawl_saga.report(
            jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
            || case when c.name = failing
                and c.action = 'execute' then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end), 'w');
        return c.action || ' ' || c.name;
    end if;
    return null;
end $$;
select pawl_saga.define(
        '{"flow": "linear", "name": "f", "retry": {"retry": "Times", "name": "r", "attempts": 2}, "children": [
    {"task": "a"}, {"flow": "graph", "name": "g", "children": [{"task": "b"}, {"task": "skipped"}],
        "links": [{"from": "b", "to": "skipped", "decider": {"function": "public.no"}, "depth": "ATOM"}]},
    {"task": "c"}, {"task": "never"}]}') \g /dev/null
select pawl_saga.start('f') as flow \gset
select is((select string_agg(public.work('c'), ', ') from generate_series(1, 3)), 'execute a, execute b, execute c',
    'tasks a, b and c are executed, and c fails');
select is(public.intended(:'flow', 'skipped'), 'IGNORE (PENDING IGNORE), REVERT IGNORE', 'what a decider leaves out');
select is(public.intended(:'flow', 'r'), 'RETRY SUCCESS', 'the controller tries again');
select is(public.intended(:'flow', 'a'), 'REVERT SUCCESS', 'what is done is to be reverted, and is not yet');
select is(public.intended(:'flow', 'never'), 'REVERT PENDING',
    'what never ran has an intention that no state change will follow, so the logs have no entry of it');
select is((select count(*) from pawl_saga.task_transitions l join pawl_saga.tasks t using (flow_uuid, node)
    where t.name = 'never' and l.from_state is not null), 0::bigint, 'nothing at all');
select is((select string_agg(public.work(), ', ') from generate_series(1, 4)),
    'revert c, revert b, revert a, execute a', 'and starts again');
select is(public.intended(:'flow', 'a'), 'REVERT SUCCESS, EXECUTE (REVERTED PENDING)',
    'a reset records that task a is to be executed again');
select is(public.intended(:'flow', 'r'), 'RETRY SUCCESS, EXECUTE (SUCCESS RETRYING)', 'the next attempt');
select is(public.intended(:'flow', 'never'), 'REVERT PENDING, EXECUTE PENDING', 'of what never ran');
select is((select string_agg(public.work('c'), ', ') from generate_series(1, 5)),
    'execute b, execute c, revert c, revert b, revert a', 'the last attempt');
select is(public.intended(:'flow', 'a'), 'REVERT SUCCESS, EXECUTE (REVERTED PENDING), REVERT SUCCESS',
    'every change of it');
select is(public.intended(:'flow', 'r'), 'RETRY SUCCESS, EXECUTE (SUCCESS RETRYING), REVERT SUCCESS', 'it gives up');
select is_empty($$select a.name from pawl_saga.atoms a
    where a.intention is distinct from coalesce((select i.to_intention from pawl_saga.intentions i
    where i.flow_uuid = a.flow_uuid and i.node = a.node order by i.change_uuid desc limit 1), 'EXECUTE')$$,
    'the last one is what the row says');
select is_empty(
        $$select from (select i.from_intention, lag(i.to_intention, 1, 'EXECUTE') over (partition by i.flow_uuid, i.node
            order by i.change_uuid) as before from pawl_saga.intentions i) x
    where before <> from_intention$$, 'each begins where the one before ended');
select is((select string_agg(distinct processor, ',') from pawl_saga.intentions), 'w', 'with the processor');

-- A weaker decision does not take back one to revert: a fails when all around it is being reverted.
select pawl_saga.define('{"flow": "linear", "name": "kept", "retry": {"retry": "Times", "name": "outer", "attempts": 2},
    "children": [{"flow": "unordered", "name": "both", "children": [
        {"flow": "linear", "name": "i", "retry": {"retry": "Times", "name": "inner", "attempts": 3},
            "children": [{"task": "a"}]}, {"task": "b"}]}]}') \g /dev/null
select pawl_saga.start('kept') as kept \gset
create temporary table claimed as select flow_uuid, node, token, name from pawl_saga.claim('w', 'default', 10);
select is((select string_agg(name, ' ' order by name) from claimed), 'a b', 'two tasks at work');
select is((select ok
    from claimed c, pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', flow_uuid, 'node',
    node, 'token', token, 'failure', '{"message": "no"}'::jsonb)), 'w') r where c.name = 'b'), true,
    'task b fails first');
select is(public.intended(:'kept', 'inner'), 'REVERT SUCCESS', 'the outer controller reverts the inner one');
select is((select ok
    from claimed c, pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', flow_uuid, 'node',
    node, 'token', token, 'failure', '{"message": "no"}'::jsonb)), 'w') r where c.name = 'a'), true,
    'task a fails afterwards');
select matches(public.intended(:'kept', 'inner'), '^REVERT SUCCESS(, EXECUTE \(|$)',
    'and the inner one does not retry');

-- By plain SQL too, and the table of intentions cannot be changed
select pawl_saga.start('f') as other \gset
update pawl_saga.tasks set intention = 'REVERT' where flow_uuid = :'other' and name = 'never';
select is(public.intended(:'other', 'never'), 'REVERT PENDING', 'a change by hand is recorded');
select throws_ok('update pawl_saga.intentions set to_intention = ''EXECUTE''', 'PW006',
    'the log of intentions is immutable', 'it is not changed');
select throws_ok('delete from pawl_saga.intentions', 'PW006', null, 'intentions cannot be deleted');
select throws_ok('truncate pawl_saga.intentions', 'PW006', null, 'intentions cannot be truncated');
set role pawl_worker;
select throws_ok(format('insert into pawl_saga.intentions values (%L, 1, default, ''REVERT'', ''EXECUTE'', '
    '''PENDING'', ''PENDING'')', :'flow'), '42501', null, 'intentions cannot be inserted by pawl_operator');
reset role;
select lives_ok(format('delete from pawl_saga.flows where flow_uuid = %L', :'flow'), 'a flow goes');
select is((select count(*) from pawl_saga.intentions where flow_uuid = :'flow'), 0::bigint, 'with its intentions');
select * from finish();
