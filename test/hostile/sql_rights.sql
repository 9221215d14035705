-- SQL functions that a definition names: steps, rows, checks, validators, notices and tasks. With whose rights they
-- run in each session: a definer gains no rights of a session, and a session none of a definer.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension pawl_dag;
create extension pawl_bulk;
create extension pawl_saga;
create role rights_definer in role pawl_admin, pawl_worker;
create role rights_other in role pawl_admin;
create role rights_programmer;
create role rights_operator in role pawl_operator, pawl_worker;
create schema theirs authorization rights_definer;
create schema code authorization rights_programmer;
grant usage on schema theirs, code to public;
grant create on schema public to rights_definer;
create table ran (what text, as_role name);
grant insert, select on ran to public;
create function public.note(what text) returns void language plpgsql as $$
begin
    insert into public.ran (what, as_role) values (what, current_user);
end $$;

-- One function of each kind in a schema, made by its owner. Each tries what only a superuser may do.
create function public.make_functions(schema_name text) returns void language plpgsql as $f$
begin
    execute replace($q$
        create function S.step(context jsonb, inputs jsonb) returns jsonb language plpgsql as
            $$ begin perform public.note('step'); return '7'; end $$;
        create function S.rows(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
            returns table (row_number bigint, message text) language plpgsql as
            $$ begin perform public.note('rows'); end $$;
        create function S.looks(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
            returns table (row_number bigint, answer text, message text) language plpgsql as
            $$ begin perform public.note('check'); return query select n, 'done', null::text from unnest(row_numbers) n;
            end $$;
        create function S.valid(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
            returns table (row_number bigint, code text, message text) language plpgsql as
            $$ begin perform public.note('validator'); end $$;
        create function S.metadata(metadata jsonb) returns table (code text, message text) language plpgsql as
            $$ begin perform public.note('metadata'); end $$;
        create function S.told(notice jsonb) returns void language plpgsql as
            $$ begin perform public.note('notice'); end $$;
        create function S.task(arguments jsonb) returns jsonb language plpgsql as
            $$ begin perform public.note('task'); return '1'; end $$;
        create function S.back(arguments jsonb, done jsonb) returns jsonb language plpgsql as
            $$ begin perform public.note('revert'); return '1'; end $$;
        create function S.votes(results jsonb) returns boolean language plpgsql as
            $$ begin perform public.note('decider'); return true; end $$;$q$, 'S.', schema_name || '.');
end $f$;
create function public.define_all(prefix text, schema_name text) returns void language plpgsql as $$
begin
    perform pawl_dag.define_template(format('{"name": "%s", "identity_strategy": "always_unique", "steps": [
        {"name": "a", "handler": "sql:%s.step", "retry": {"max_attempts": 1}}]}', prefix, schema_name)::jsonb);
    perform pawl_bulk.define(format('{"name": "%1$s", "metadata_validators": ["%2$s.metadata"],
        "validators": ["%2$s.valid"], "steps": [{"name": "a", "handler": "sql:%2$s.rows"},
        {"name": "b", "kind": "poll", "handler": "none", "check": "sql:%2$s.looks", "poll_interval": "1 ms",
        "timeout": "1 day"}]}', prefix, schema_name)::jsonb);
    perform pawl_saga.define(format('{"flow": "graph", "name": "%1$s", "children": [{"task": "a", "execute":
        "sql:%2$s.task", "revert": "sql:%2$s.back"}, {"task": "b", "execute": "sql:%2$s.task"}],
        "links": [{"from": "a", "to": "b", "decider": {"function": "%2$s.votes"}}]}', prefix, schema_name)::jsonb);
end $$;
-- All of it, submitted by the role that submits, and run by the current role. Returns how everything ended.
create function public.run_all() returns void language plpgsql as $$
begin
    for i in 1 .. 30 loop
        perform from pawl_dag.orchestrate();
        perform pawl_dag.run_sql_steps(10), pawl_bulk.advance(), pawl_bulk.run_sql_rows(), pawl_bulk.run_sql_notices(),
            pawl_saga.run_sql_tasks(), pawl.fire_due('pawl_bulk.work');
    end loop;
end $$;
create function public.submit(prefix text, target text) returns void language plpgsql as $$
declare flow uuid;
begin
    perform pawl_dag.start_task(prefix);
    perform pawl_bulk.submit(prefix, rows => '[{}]',
        notifications => format('{"channel": "sql", "target": "%s", "triggers": ["status_change"]}', target)::jsonb);
    flow := pawl_saga.start(prefix);
end $$;
create view ended as
    select 'step ' || s.state || coalesce(' ' || (s.error ->> 'sqlstate'), '') as how from pawl_dag.steps s
    union all select 'row ' || r.step_index || ' ' || r.state || coalesce(' ' || r.error_message, '')
        from pawl_bulk.records r
    union all select 'operation ' || o.status || coalesce(' ' || o.error_message, '') from pawl_bulk.operations o
    union all select 'notice ' || n.state || coalesce(' ' || n.message, '') from pawl_bulk.notices n
    union all select 'flow ' || f.state || coalesce(' ' || (f.problem ->> 'sqlstate'), '') from pawl_saga.flows f
    union all select 'task ' || t.name || ' ' || t.state || coalesce(' ' || (t.failure ->> 'sqlstate'), '')
        from pawl_saga.tasks t;
create function forget() returns void language plpgsql as $$
begin
    delete from public.ran;
    delete from pawl_bulk.operations;
    delete from pawl_saga.flows;
    update pawl_dag.steps set state = 'cancelled' where state in ('pending', 'enqueued', 'error');
    perform pawl_dag.cancel_task(task_uuid) from pawl_dag.tasks where state not in ('complete', 'error', 'cancelled');
end $$;
create view ran_as as select string_agg(what || ' ' || as_role, ', ' order by what, as_role) as who
    from (select distinct what, as_role from ran) r;
\set all_as '\'check %1$s, decider %1$s, metadata %1$s, notice %2$s, rows %1$s, step %1$s, task %1$s, validator %1$s\''

set role rights_definer;
select public.make_functions('theirs'), public.define_all('theirs', 'theirs') \g /dev/null
reset role;
set role rights_programmer;
select public.make_functions('code') \g /dev/null
reset role;
select public.define_all('supers', 'code') \g /dev/null
select public.make_functions('public'), public.define_all('own', 'public') \g /dev/null

-- A superuser's session has no part in it.
set role rights_definer;
select public.submit('theirs', 'theirs.told') \g /dev/null
reset role;
select run_all() \g /dev/null
select is(who, format(:all_as, 'rights_definer', 'rights_definer'), 'a superuser runs functions as their definer')
    from ran_as;
select is((select array_agg(distinct how order by how) from ended), '{"flow SUCCESS","notice delivered",
    "operation Completed","row 0 Completed","row 1 Completed","step complete","task a SUCCESS","task b SUCCESS"}',
    'and their answers count');
select pawl_saga.revert(flow_uuid, 'because') from pawl_saga.flows \g /dev/null
select run_all() \g /dev/null
select results_eq($$select as_role::text collate "default" from ran where what = 'revert'$$,
    $$values ('rights_definer')$$, 'so are reverts');
select forget() \g /dev/null
select public.submit('supers', 'code.told'), run_all() \g /dev/null
select is((select string_agg(distinct as_role::text, ', ') from ran), 'rights_programmer',
    'what a superuser named runs as the role that owns it, and can replace it');
select forget() \g /dev/null
select public.submit('own', 'public.told'), run_all() \g /dev/null
select is(who, format(:all_as, current_user, current_user), 'its own runs with its rights') from ran_as;
select forget() \g /dev/null

-- A role that can neither become the definer nor be become by it runs nothing of the definer's.
set role rights_definer;
select public.submit('theirs', 'theirs.told') \g /dev/null
set role rights_operator;
select run_all() \g /dev/null
reset role;
select is((select count(*) from ran), 0::bigint, 'an operator runs nothing of a role that it cannot become');
select ok((select bool_and(how ~ 'cannot run functions that role "rights_definer" named') from ended
    where how ~ '^(operation|notice)'), 'an operation and a notice say why');
select is((select string_agg(how, ', ' order by how) from ended where how ~ '^(step error|task a) '),
    'step error 42501, task a REVERT_FAILURE 42501', 'a step and a task as well');
select forget() \g /dev/null
-- It may be allowed to be the definer: then it is.
grant rights_definer to rights_operator;
set role rights_definer;
select public.submit('theirs', 'theirs.told') \g /dev/null
set role rights_operator;
select run_all() \g /dev/null
reset role;
select is(who, format(:all_as, 'rights_definer', 'rights_definer'), 'one that may become the definer runs them as it')
    from ran_as;
revoke rights_definer from rights_operator;
select forget() \g /dev/null
-- Or the definer may use its rights: then it runs them as itself.
grant rights_operator to rights_definer;
set role rights_definer;
select public.submit('theirs', 'theirs.told') \g /dev/null
set role rights_operator;
select run_all() \g /dev/null
reset role;
select is(who, format(:all_as, 'rights_operator', 'rights_operator'),
    'with the rights of a session if the definer may use them') from ran_as;
revoke rights_operator from rights_definer;
select forget() \g /dev/null
-- What a superuser named is run with the rights of the session.
set role rights_operator;
select public.submit('supers', 'code.told'), public.run_all() \g /dev/null
reset role;
select is((select string_agg(distinct as_role::text, ', ') from ran), 'rights_operator',
    'what a superuser named gives an operator no rights');
select forget() \g /dev/null

-- Nothing is left to run later as the superuser.
set role rights_definer;
create table theirs.deferred (n integer);
create function theirs.on_commit() returns trigger language plpgsql as
    $$ begin perform public.note('deferred'); return null; end $$;
create constraint trigger on_commit after insert on theirs.deferred deferrable initially deferred
    for each row execute function theirs.on_commit();
create function theirs.escapes(arguments jsonb) returns jsonb language plpgsql as $$
begin
    execute arguments ->> 'try';
    return '1';
end $$;
select pawl_saga.define('{"flow": "linear", "name": "escapes", "children": [{"task": "a", "execute":
    "sql:theirs.escapes", "requires": ["try"]}]}') \g /dev/null
reset role;
create table escape (try text);
insert into escape
    values ('insert into theirs.deferred values (1)'), ('create temporary table pg_class_of_mine (n int)'),
    ('declare c cursor with hold for select public.note(''cursor'')'),
    ('prepare p as select public.note(''prepared'')'),
    ('set role ' || current_user), ('reset role'), ('set session authorization default'), ('listen x');
select pawl_saga.start('escapes', jsonb_build_object('try', try)) from escape \g /dev/null
select pawl_saga.run_sql_tasks() \g /dev/null
select is((select array_agg(distinct t.state || ' ' || (t.failure ->> 'sqlstate')) from pawl_saga.tasks t),
    '{"REVERTED 42501"}', 'no function leaves anything for the session, nor goes back to it');
select pawl_saga.start('escapes', jsonb_build_object('try', 'set search_path = theirs; set pawl.processor = ''x''; '
    'set local row_security = off; set statement_timeout = ''1 h''')) \g /dev/null
select set_config('search_path', 'public', false), set_config('statement_timeout', '5 h', false) \g /dev/null
select pawl_saga.run_sql_tasks() \g /dev/null
select is(concat_ws(' ', current_setting('search_path'), current_setting('statement_timeout'),
    current_setting('pawl.processor', true)), 'public 5h ', 'and the settings of the session are what they were');
reset search_path;
reset statement_timeout;
select is((select count(*) from ran), 0::bigint, 'nothing runs at commit');

-- Work that it does in tables of its own is recorded, and code on their logs runs as their owner, also where an entry
-- waits for the end of a subtransaction.
set role rights_definer;
select pawl.define('kept', E'stateDiagram-v2\n[*] --> new\nnew --> done : do\n') \g /dev/null
create table theirs.kept (id int primary key, state text not null default 'new');
select pawl.enforce('theirs.kept', 'state', 'kept'), pawl.enable_log('theirs.kept') \g /dev/null
insert into theirs.kept values (1), (2);
create function theirs.logged() returns trigger language plpgsql as
    $$ begin perform public.note('logged'); return new; end $$;
create trigger logged before insert on theirs.kept_transitions_log for each row execute function theirs.logged();
create function theirs.works(arguments jsonb) returns jsonb language plpgsql as $$
begin
    perform pawl.fire('theirs.kept', 1, 'do');
    begin
        update theirs.kept set state = 'done' where id = 2;
        return '1';
    exception when division_by_zero then
        return '2';
    end;
end $$;
select pawl_saga.define('{"flow": "linear", "name": "works", "children": [{"task": "a", "execute":
    "sql:theirs.works"}]}') \g /dev/null
reset role;
select pawl_saga.start('works') as works \gset
select pawl_saga.run_sql_tasks() \g /dev/null
select is((select state from pawl_saga.flows where flow_uuid = :'works'), 'SUCCESS', 'a function changes states');
select is((select array_agg(distinct what || ' ' || as_role) || count(*)::text from ran), '{"logged rights_definer",2}',
    'and code on the log has the rights of its owner');
select is_empty($$select * from pawl.verify('theirs.kept')$$, 'the log is whole');
delete from ran;

-- Forced row security holds for its owner's functions as in a session of the owner.
set role rights_definer;
create table theirs.rows_of (tenant text);
insert into theirs.rows_of values ('one'), ('two');
alter table theirs.rows_of enable row level security;
alter table theirs.rows_of force row level security;
create policy one on theirs.rows_of using (tenant = 'one');
create function theirs.counts(arguments jsonb) returns jsonb language sql as
    $$ select to_jsonb(count(*)) from theirs.rows_of $$;
create function theirs.sees(results jsonb) returns boolean language plpgsql as
    $$ begin perform public.note('sees ' || count(*)) from theirs.rows_of; return true; end $$;
select pawl_saga.define('{"flow": "graph", "name": "counts", "children": [{"task": "a", "execute":
    "sql:theirs.counts"}, {"task": "b", "execute": "sql:theirs.counts"}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "theirs.sees"}}]}') \g /dev/null
reset role;
select pawl_saga.start('counts') as counts \gset
select pawl_saga.run_sql_tasks() \g /dev/null
select is((select array_agg(distinct result) from pawl_saga.tasks where flow_uuid = :'counts'), '{1}',
    'a handler sees what the policies of its tables allow');
select is((select array_agg(what) from ran), '{"sees 1"}', 'and so does a decider');
delete from ran;

-- No other role brings a function into a definition that is run for its definer.
create function try(role name, statement text) returns text language plpgsql as $$
begin
    execute format('set local role %I', role);
    execute statement;
    reset role;
    return 'done';
exception when others then
    return sqlstate;
end $$;
select is(try('rights_other', format(s, t.template_uuid)), '42501',
    'a template of another role has no step added: ' || s)
  from pawl_dag.templates t, unnest(array[
    $$insert into pawl_dag.template_steps
        select template_uuid, 'b', 2, 0, 0, null, 'sql:theirs.step', '{}', true, 3, '{}',
        null, false, null from pawl_dag.templates where template_uuid = %L$$,
    $$insert into pawl_dag.templates (namespace, name, version, configuration, content_hash, steps_total, steps_ready,
        created_by) select namespace, name, 'forged', configuration, content_hash, 1, 1, created_by
        from pawl_dag.templates where template_uuid = %L$$]) s where t.name in ('own', 'theirs');
select is(try('rights_other', format(s, n)), '42501', 'nor does a definition of another role change: ' || s)
  from unnest('{own,theirs}'::text[]) n, unnest(array[
    $$update pawl_bulk.definitions set row_validators = '{theirs.looks}' where name = %L$$,
    $$update pawl_bulk.definitions set created_by = 'rights_other' where name = %L$$,
    $$update pawl_bulk.steps set handler = 'theirs.rows' where name = %L$$,
    $$update pawl_bulk.steps set check_handler = 'theirs.looks' where name = %L$$,
    $$insert into pawl_bulk.steps select name, version, 9, 'more', kind, queue, 'theirs.rows', check_queue
        from pawl_bulk.steps where name = %L and step_index = 0$$,
    $$insert into pawl_bulk.definitions (name, version, configuration, created_by)
        select name, 99, '{}', created_by from pawl_bulk.definitions where name = %L$$]) s;
select is(try('rights_other', $$select pawl_bulk.drop_definition('own')$$), 'done', 'an admin may drop it');
-- A row of a task says which function it is, and is not believed.
select pawl_saga.start('own') as flow \gset
select is(try('rights_other', format($$update pawl_saga.tasks set execute = 'sql:theirs.task' where flow_uuid = %L$$,
    :'flow')), 'done', 'an admin writes rows of tasks');
select pawl_saga.run_sql_tasks() \g /dev/null
select is((select failure ->> 'sqlstate' from pawl_saga.tasks where flow_uuid = :'flow' and name = 'a'), '42501',
    'and what the definition does not name is not run');
select is((select count(*) from ran where what <> 'revert'), 0::bigint, 'at all');
-- The function that does it gives a role nothing.
select is(try(r,
    format($$select pawl.call_as_definer(%L, 'public.note(text)', 'select $1', null::text, 'x'::text)$$, d)),
    '42501', format('%s does not call as %s', r, d))
  from (values ('rights_operator', 'rights_definer'), ('rights_other', 'rights_definer'),
    ('rights_definer', 'rights_operator')) x(r, d);
select is(try('rights_other', $$select pawl.call_as_definer('rights_nobody', 'public.note(text)', 'select $1',
    null::text, 'x'::text)$$), '42704', 'nor as a role that is none');
set role rights_other;
select is(pawl.call_as_definer((select rolname from pg_roles where oid = 10), 'public.note(text)',
    'select current_user || $1', null::text, ''::text), 'rights_other', 'as a superuser it is called as itself');
reset role;

select forget() \g /dev/null

-- The role that defined them is gone: its functions are not run as another's.
create role rights_gone in role pawl_admin;
set role rights_gone;
select public.define_all('gone', 'public') \g /dev/null
reset role;
drop role rights_gone;
select public.submit('gone', 'public.told'), run_all() \g /dev/null
select is((select string_agg(what, ', ') from ran where what <> 'notice'), null, 'without its role nothing is run');
select ok((select bool_or(how = 'step error 42704') and bool_or(how = 'task a REVERT_FAILURE 42704')
    and bool_or(how ~ '^operation Failed role "rights_gone" does not exist') from ended), 'and the errors say so');
select * from finish();
drop owned by rights_definer, rights_other, rights_programmer, rights_operator cascade;
drop role rights_definer, rights_other, rights_programmer, rights_operator;
