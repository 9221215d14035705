-- Deciders and controllers: with whose rights they run, and what they do to other flows.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_saga;
create role saga_decider_owner in role pawl_admin;
create role saga_decider_worker in role pawl_operator;
create schema hers authorization saga_decider_owner;
grant usage on schema hers to public;
create table ran (which text, as_role name, is_superuser boolean);
grant insert, select on ran to public;

-- A superuser's session that changes a flow runs the owner's decider as its owner.
set role saga_decider_owner;
create function hers.note(history jsonb) returns boolean language plpgsql as $$ begin
    insert into public.ran select 'decider', current_user, rolsuper from pg_roles where rolname = current_user;
    return true;
end $$;
create function hers.moves() returns void language sql security definer as $$
    update pawl_saga.flows set state = 'RUNNING' where name = 'hers' and state = 'PENDING' $$;
select pawl_saga.define('{"flow": "graph", "name": "hers", "children": [{"task": "a", "wait_seconds": 0},
    {"task": "b", "wait_seconds": 0}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "hers.note"}}]}') as definition \gset
reset role;
select pawl_saga.create_flow(:'definition') as flow \gset
select pawl_saga.run(:'flow'), pawl_saga.run_sql_tasks() \g /dev/null
select is((select string_agg(distinct as_role || ' ' || is_superuser, ', ') from ran), 'saga_decider_owner false',
    'a superuser runs it as its owner');
select is((select state from pawl_saga.flows where flow_uuid = :'flow'), 'SUCCESS', 'and the flow ends');

-- A worker that cannot become the role that defined the flow leaves the question to a session that may ask it.
create role saga_decider_reporter in role pawl_worker;
delete from ran;
select pawl_saga.create_flow(:'definition') as flow \gset
set role saga_decider_reporter;
select pawl_saga.run(:'flow'), pawl_saga.end_waits() \g /dev/null
reset role;
select is((select count(*) from ran), 0::bigint, 'a worker does not run it with its own rights');
select is((select count(*) from pawl_saga.questions), 1::bigint, 'it leaves a question');
select pawl_saga.run_sql_tasks() \g /dev/null
select is((select string_agg(distinct as_role::text, ', ') from ran), 'saga_decider_owner',
    'which is asked with the rights of the role that defined the flow');
select is((select state from pawl_saga.flows where flow_uuid = :'flow'), 'SUCCESS', 'and the flow ends');
-- An operator is no such session either: the question fails.
delete from ran;
select pawl_saga.create_flow(:'definition') as flow \gset
set role saga_decider_worker;
select pawl_saga.run(:'flow'), pawl_saga.run_sql_tasks(), pawl_saga.run_sql_tasks() \g /dev/null
reset role;
select is((select state || ' ' || (problem ->> 'sqlstate') from pawl_saga.flows where flow_uuid = :'flow'),
    'FAILURE 42501', 'an operator that cannot become the role asks nothing');
-- A definer that may become the role of the session gains nothing by its rights.
grant saga_decider_worker to saga_decider_owner;
select pawl_saga.create_flow(:'definition') as flow \gset
set role saga_decider_worker;
select pawl_saga.run(:'flow'), pawl_saga.run_sql_tasks() \g /dev/null
reset role;
select is((select string_agg(distinct as_role::text, ', ') from ran), 'saga_decider_worker',
    'with the rights of the session if the definer may use them');
revoke saga_decider_worker from saga_decider_owner;

-- Flows that a decider begins or moves have follow-ups of their own.
create function moves_others(history jsonb) returns boolean language plpgsql as $$ begin
    perform pawl_saga.start('inner');
    return true;
end $$;
select pawl_saga.define('{"flow": "linear", "name": "inner", "children": [{"task": "x", "wait_seconds": 0}]}')
    \g /dev/null
select pawl_saga.define('{"flow": "graph", "name": "outer", "children": [{"task": "a", "wait_seconds": 0},
    {"task": "b", "wait_seconds": 0}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "public.moves_others"}}]}') \g /dev/null
select pawl_saga.start('outer'), pawl_saga.run_sql_tasks() \g /dev/null
select is((select string_agg(name || ' ' || state, ', ' order by name) from pawl_saga.flows
    where name in ('inner', 'outer')), 'inner SUCCESS, outer SUCCESS',
    'a flow that a decider starts ends as well');

-- A decider that raises leaves the follow-up of its own flow as it was.
create function raises(history jsonb) returns boolean language plpgsql as $$ begin
    perform pawl_saga.start('inner');
    raise exception 'no vote';
end $$;
select pawl_saga.define('{"flow": "graph", "name": "raising", "children": [{"task": "a", "wait_seconds": 0},
    {"task": "b", "wait_seconds": 0}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "public.raises"}}]}') \g /dev/null
select pawl_saga.start('raising'), pawl_saga.run_sql_tasks() \g /dev/null
select is((select state from pawl_saga.flows where name = 'raising'), 'FAILURE', 'a flow whose decider raises ends');
select is((select count(*) from pawl_saga.flows where name = 'inner'), 1::bigint, 'and what the decider did is undone');

-- An admin may name any function. In a superuser's session it runs with the rights of the role that defined the flow,
-- also where a superuser owns the function.
delete from ran;
create function supers(history jsonb) returns boolean language plpgsql as $$ begin
    insert into public.ran select 'supers', current_user, rolsuper from pg_roles where rolname = current_user;
    return true;
end $$;
create function supers_retry(history jsonb) returns text language plpgsql as $$ begin
    insert into public.ran select 'supers_retry', current_user, rolsuper from pg_roles where rolname = current_user;
    return 'REVERT';
end $$;
create function supers_only(history jsonb) returns boolean language sql as
    $$ insert into public.ran values ('supers_only', current_user, true) returning true $$;
revoke execute on function supers_only(jsonb) from public;
create function fails(arguments jsonb) returns jsonb language plpgsql as $$ begin raise exception 'no'; end $$;
create function asks(name text, decider text) returns jsonb
    language sql as $$ select jsonb_build_object('flow', 'graph', 'name', name,
    'children', '[{"task": "a", "wait_seconds": 0}, {"task": "b", "wait_seconds": 0}]'::jsonb,
    'links', jsonb_build_array(jsonb_build_object('from', 'a', 'to', 'b', 'decider',
            jsonb_build_object('function', decider)))) $$;
create function retried(name text, controller text) returns jsonb
    language sql as $$ select jsonb_build_object('flow', 'linear', 'name', name,
    'retry', jsonb_build_object('retry', 'Function', 'name', 'r', 'function', controller),
    'children', '[{"task": "a", "execute": "sql:public.fails"}]'::jsonb) $$;
create function state(n text) returns text
    language sql as $$ select string_agg(distinct state, ',') from pawl_saga.flows where name = n $$;
set role saga_decider_owner;
select pawl_saga.define(asks('named', 'public.supers')),
    pawl_saga.define(retried('named retry', 'public.supers_retry')),
       pawl_saga.define(asks('secret', 'public.supers_only')) \g /dev/null
reset role;
select pawl_saga.start(n) from unnest('{named,named retry,secret}'::text[]) n \g /dev/null
select pawl_saga.run_sql_tasks() \g /dev/null
select results_eq('select which, as_role::text collate "default", is_superuser from ran order by 1',
    $$values ('supers', 'saga_decider_owner', false), ('supers_retry', 'saga_decider_owner', false)$$,
    'a function that an admin names runs as the admin, though a superuser asks and owns it');
select is(state('named') || ' ' || state('named retry'), 'SUCCESS REVERTED', 'and its answer counts');
select is((select state || ' ' || (problem ->> 'sqlstate') from pawl_saga.flows where name = 'secret'), 'FAILURE 42501',
    'one that the admin may not execute is not run');
-- the same in a flow that was altered by the superuser
select flow_uuid as altered from pawl_saga.flows where name = 'named' \gset
select pawl_saga.alter_flow(:'altered', (select definition_uuid from pawl_saga.definitions where name = 'secret'))
    \g /dev/null
select is((select d.created_by from pawl_saga.flows f join pawl_saga.definitions d using (definition_uuid)
    where f.flow_uuid = :'altered'), 'saga_decider_owner', 'an altered flow keeps the role that defined it');

-- A superuser's flow that names a superuser's function runs it as such: nothing that
-- others write brings in another one.
select pawl_saga.define(asks('supers', 'public.supers')) as supers,
    pawl_saga.define(retried('supers retry', 'public.supers_retry')) as retry \gset
create role saga_decider_operator in role pawl_operator;
create function try(statement text) returns text language plpgsql as $$
begin
    execute statement;
    return 'done';
exception when others then
    return sqlstate;
end $$;
set role saga_decider_owner;
select is(try(format($$insert into pawl_saga.votes (definition_uuid, target, link, source, depth, decider)
    select %L, target, link + 1, source, depth, '{"function": "public.supers_only"}' from pawl_saga.votes
    where definition_uuid = %1$L$$, :'supers')), '42501', 'an admin adds no decider to it');
select is(try(
    format($$insert into pawl_saga.nodes select definition_uuid, node + 100, kind, name, controller, waits_for,
        priority, votes, may_miss, careful, written
    from pawl_saga.nodes where definition_uuid = %L$$, :'retry')), '42501', 'nor a controller');
select is(try(format($$insert into pawl_saga.definitions (name, version, structure, content_hash, last_node, created_by)
    select 'forged', 1, structure, content_hash, last_node, created_by from pawl_saga.definitions
    where definition_uuid = %L$$, :'supers')), '42501', 'nor does it define in the name of a superuser');
reset role;
delete from ran;
select pawl_saga.start('supers retry') as f \gset
set role saga_decider_operator;
select is(try(
            format($$update pawl_saga.retries set controller = controller || '{"function": "hers.note_retry"}'
                where flow_uuid = %L$$, :'f')),
    '42501', 'an operator changes no controller');
reset role;
set role saga_decider_owner;
select is(try(
            format($$update pawl_saga.retries set controller = controller || '{"function": "hers.note_retry"}'
                where flow_uuid = %L$$, :'f')),
    'done', 'an admin does');
reset role;
create function hers.note_retry(history jsonb) returns text
    language sql as $$ insert into public.ran values ('hers', current_user, true) returning 'REVERT' $$;
select pawl_saga.run_sql_tasks() \g /dev/null
select results_eq('select which from ran', $$values ('supers_retry')$$, 'and puts no other function in its place');
select pawl_saga.start('supers'), pawl_saga.run_sql_tasks() \g /dev/null
select results_eq('select which, is_superuser from ran order by 1', $$values ('supers', true), ('supers_retry', true)$$,
    'its own runs as its definer');

-- The role that defined a flow is gone: its functions are not run as another.
create role saga_decider_gone in role pawl_admin;
set role saga_decider_gone;
select pawl_saga.define(asks('orphan', 'public.supers')) \g /dev/null
reset role;
drop role saga_decider_gone;
select pawl_saga.start('orphan'), pawl_saga.run_sql_tasks() \g /dev/null
select is((select state || ' ' || (problem ->> 'sqlstate') from pawl_saga.flows where name = 'orphan'), 'FAILURE 42704',
    'without its role a flow asks nothing');
select is_empty($$select * from pawl_saga.verify()$$, 'nothing is left behind');
select * from finish();
