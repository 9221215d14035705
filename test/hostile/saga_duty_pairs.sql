-- Every pair of what sessions do to the flows and tasks of one another: none ends in a deadlock, and what each finds is
-- right afterwards. A third session has the flows, or one of their tasks, so that both are under way when it lets go;
-- each in its turn comes first.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_saga;
\set rejections '^(PW001|PW003|55000)'
\ir include/pairs.psql

-- Two flows, each with a task that its worker has, one whose lease has expired, one that takes too long, one whose wait
-- is over, one that waits for a signal, one that failed and is to be tried again, one with an open question, some that
-- can be claimed, and one behind all. The tasks lie on the pages in another order than that of their keys.
create function fine(arguments jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
create function yes(history jsonb) returns boolean language sql as $$ select true $$;
create function fine(arguments jsonb, done jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
select pawl_saga.define($${"flow": "linear", "name": "full", "children": [
    {"flow": "unordered", "name": "all", "children": [
        {"task": "held", "queue": "q"}, {"task": "lost", "queue": "q"}, {"task": "late", "queue": "q",
            "timeout_seconds": 3600},
        {"task": "wait", "wait_seconds": 3600}, {"task": "told", "signal": "go"}, {"task": "open", "queue": "open"},
        {"task": "run", "execute": "sql:public.fine", "revert": "sql:public.fine"},
            {"task": "ran", "execute": "sql:public.fine", "revert": "sql:public.fine"},
        {"flow": "linear", "name": "again", "retry": {"retry": "Times", "name": "r", "attempts": 3,
            "backoff": {"base": "1 h", "cap": "1 h"}}, "children": [{"task": "fails", "queue": "q"}]},
        {"flow": "graph", "name": "asks", "children": [{"task": "asked", "wait_seconds": 0},
            {"task": "voted", "queue": "open"}],
         "links": [{"from": "asked", "to": "voted", "decider": {"function": "public.yes"}}]}]},
    {"task": "after"}]}$$) \g /dev/null
create table flow (n int, uuid uuid);
create view mine as select t.* from pawl_saga.tasks t join flow f on f.uuid = t.flow_uuid;
create procedure prepare_anew() language plpgsql as $$
begin
    delete from pawl_saga.flows;
    delete from flow;
    insert into flow select n, pawl_saga.start('full') from generate_series(1, 2) n;
    perform from pawl_saga.claim('c', 'q', 8);
    perform from pawl_saga.report(
        (select jsonb_agg(jsonb_build_object('flow_uuid', flow_uuid, 'node', node, 'token', token, 'failure',
            '{"message": "no"}'::jsonb))
                                     from mine where name = 'fails'), 'c');
    perform from pawl_saga.claim('c', 'q', 2);
    perform from pawl_saga.report(
            (select jsonb_agg(jsonb_build_object('flow_uuid', flow_uuid, 'node', node, 'token', token)) from mine
                                    where name = 'fails' and state = 'REVERTING'), 'c');
    perform from pawl.claim_keys(null::pawl_saga.tasks,
        (select array_agg(row(flow_uuid, node)) from mine where name = 'ran'), 'execute', 'c', '1 hour', 'sql:');
    perform from pawl_saga.report(
        (select jsonb_agg(jsonb_build_object('flow_uuid', flow_uuid, 'node', node, 'token', token, 'result', 1))
                                     from mine where name = 'ran'), 'c');
    -- on the page, the last is the first
    set local session_replication_role = replica;
    create temporary table moved on commit drop as select * from mine;
    delete from pawl_saga.tasks;
    update moved set lease_until = clock_timestamp() - interval '1 h', worker = 'd' where name = 'lost';
    update moved set timeout_at = clock_timestamp() - interval '1 h' where name = 'late';
    update moved set wait_until = clock_timestamp() - interval '1 h' where name = 'wait';
    update pawl_saga.retries set due_at = clock_timestamp() - interval '1 h' where due_at is not null;
    insert into pawl_saga.tasks select * from moved order by flow_uuid desc, node desc;
    set local session_replication_role = origin;
end $$;
-- What a pair left is looked at before the rows are put back.
create table left_wrong (pairs_before bigint, problem text, atom text);
-- The rows as they were made the first time, put back for each pair: without triggers, and with their logs.
create schema saved;
create procedure prepare() language plpgsql as $$
declare t text;
begin
    if to_regclass('saved.tasks') is null then
        call prepare_anew();
        for t in select relname from pg_class
            where relnamespace = 'pawl_saga'::regnamespace and relkind = 'r' and relname <> 'set_aside'
                    and exists (select from pg_attribute
                        where attrelid = pg_class.oid and attname = 'flow_uuid' and not attisdropped)
                    and relname not in ('definitions', 'jobs') loop
            execute format('create table saved.%I as select * from pawl_saga.%1$I', t);
        end loop;
        return;
    end if;
    insert into left_wrong select (select count(*) from found), v.problem, v.atom from pawl_saga.verify() v;
    set local session_replication_role = replica;
    delete from pawl_saga.set_aside;
    for t in select relname from pg_class where relnamespace = 'saved'::regnamespace loop
        execute format('delete from pawl_saga.%I', t);
        execute format('insert into pawl_saga.%I select * from saved.%1$I', t);
    end loop;
    set local session_replication_role = origin;
end $$;
create function lock_of(held text) returns text language sql as $$
    select case held when 'flow' then 'select 1 from pawl_saga.flows for no key update'
                     else format('select 1 from pawl_saga.tasks where name = %L for no key update', held) end $$;
insert into deed values
    ('claim', $$select from pawl_saga.claim('e', 'open', 10)$$),
    ('heartbeat', $$select pawl.heartbeat('pawl_saga.tasks', 'c', '2 hours')$$),
    ('abandon', $$select pawl.abandon('pawl_saga.tasks', 'c')$$),
    ('reap', $$select from pawl.reap('pawl_saga.tasks')$$),
    ('report', $$select from pawl_saga.report(
        (select jsonb_agg(jsonb_build_object('flow_uuid', flow_uuid, 'node', node, 'token', token, 'result', 1))
                                                 from mine where name = 'held'), 'c')$$),
    ('fail', $$select from pawl_saga.report(
        (select jsonb_agg(jsonb_build_object('flow_uuid', flow_uuid, 'node', node, 'token', token, 'failure',
            '{"message": "no"}'::jsonb))
                                               from mine where name = 'held'), 'c')$$),
    ('run_sql_tasks', 'select from pawl_saga.run_sql_tasks()'),
    ('begin_attempts', 'select from pawl_saga.begin_attempts()'),
    ('ask', 'select from pawl_saga._ask_next()'), ('end_waits', 'select from pawl_saga.end_waits()'),
    ('time_out_tasks', 'select from pawl_saga.time_out_tasks()'),
    ('signal', $$select pawl_saga.signal(uuid, 'go') from flow order by uuid$$),
    ('suspend', 'select pawl_saga.suspend(uuid) from flow order by uuid'),
    ('resume', 'select pawl_saga.resume(uuid) from flow order by uuid'),
    ('revert', $$select pawl_saga.revert(uuid, 'x') from flow order by uuid$$),
    ('fire_many', $$select from pawl.fire_many('pawl_saga.tasks',
        (select array_agg(row(flow_uuid, node)) from mine where name = 'late'), 'time_out')$$),
    ('log_insert', $$insert into pawl_saga.task_transitions (flow_uuid, node, event) select flow_uuid, node, 'time_out'
        from mine where name = 'late' order by 1, 2$$),
    ('suspend_by_hand', $$update pawl_saga.flows set state = 'SUSPENDING'
        where flow_uuid = (select uuid from flow where n = 1) and state = 'RUNNING'$$);
select dblink_exec('blocker', 'call prepare()') \g /dev/null
select is(string_agg(name || ' ' || state || coalesce(' ' || worker, ''), ', ' order by name),
    'after PENDING, asked SUCCESS, fails REVERTED, held RUNNING c, late RUNNING c, lost RUNNING d, open PENDING, ran '
    'SUCCESS, run PENDING, told PENDING, voted PENDING, wait PENDING',
    'the tasks are as they are meant to be') from mine group by flow_uuid;
insert into found select 'flow', first, second, pair('flow', first, second) from pairs;
insert into found select 'held', first, second, pair('held', first, second) from pairs
    where first in ('run_sql_tasks', 'abandon', 'report', 'suspend', 'revert');
select is((select count(*) from saved.questions), 2::bigint, 'each flow has an open question');
select cmp_ok((select count(*) from saved.task_transitions_log), '>', 20::bigint, 'and its log');
select is_empty('select held, first, second, problem from found where problem is not null',
    'no pair of them ends in a deadlock');
select is_empty($$select a.name, b.name from deed a, deed b
    where not exists (select from found where held = 'flow'
        and (first, second) in ((a.name, b.name), (b.name, a.name)))$$,
    'every pair has met');
select is_empty($$select * from left_wrong union all select 0, problem, atom from pawl_saga.verify()$$,
    'after each of them everything is as it must be');
select dblink_disconnect(c) from unnest(array['blocker', 'one', 'two']) c \g /dev/null
select * from finish();
