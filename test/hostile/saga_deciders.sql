-- Deciders and controllers: with whose rights they run, and what they do to other flows.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension pawl_saga;
create role saga_decider_owner in role pawl_admin;
create role saga_decider_worker in role pawl_worker;
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
select pawl_saga.define('{"flow": "graph", "name": "hers", "children": [{"task": "a", "wait_seconds": 0}, {"task": "b", "wait_seconds": 0}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "hers.note"}}]}') as definition \gset
reset role;
select pawl_saga.create_flow(:'definition') as flow \gset
select pawl_saga.run(:'flow') \g /dev/null
select is((select string_agg(distinct as_role || ' ' || is_superuser, ', ') from ran), 'saga_decider_owner false', 'a superuser runs it as its owner');
select is((select state from pawl_saga.flows where flow_uuid = :'flow'), 'SUCCESS', 'and the flow ends');

-- A worker runs it as itself.
delete from ran;
select pawl_saga.create_flow(:'definition') as flow \gset
set role saga_decider_worker;
select pawl_saga.run(:'flow') \g /dev/null
reset role;
select is((select string_agg(distinct as_role::text, ', ') from ran), 'saga_decider_worker', 'a worker runs it with its own rights');

-- Flows that a decider begins or moves have follow-ups of their own.
create function moves_others(history jsonb) returns boolean language plpgsql as $$ begin
    perform pawl_saga.start('inner');
    return true;
end $$;
select pawl_saga.define('{"flow": "linear", "name": "inner", "children": [{"task": "x", "wait_seconds": 0}]}') \g /dev/null
select pawl_saga.define('{"flow": "graph", "name": "outer", "children": [{"task": "a", "wait_seconds": 0}, {"task": "b", "wait_seconds": 0}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "public.moves_others"}}]}') \g /dev/null
select pawl_saga.start('outer') \g /dev/null
select is((select string_agg(name || ' ' || state, ', ' order by name) from pawl_saga.flows where name in ('inner', 'outer')), 'inner SUCCESS, outer SUCCESS',
    'a flow that a decider starts ends as well');

-- A decider that raises leaves the follow-up of its own flow as it was.
create function raises(history jsonb) returns boolean language plpgsql as $$ begin
    perform pawl_saga.start('inner');
    raise exception 'no vote';
end $$;
select pawl_saga.define('{"flow": "graph", "name": "raising", "children": [{"task": "a", "wait_seconds": 0}, {"task": "b", "wait_seconds": 0}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "public.raises"}}]}') \g /dev/null
select pawl_saga.start('raising') \g /dev/null
select isnt((select state from pawl_saga.flows where name = 'raising'), 'RUNNING', 'a flow whose decider raises ends');
select is((select count(*) from pawl_saga.flows where name = 'inner'), 1::bigint, 'and what the decider did is undone');
select is_empty($$select * from pawl_saga.verify()$$, 'nothing is left behind');
select * from finish();
