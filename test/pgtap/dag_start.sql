-- Starting tasks: steps and edges that C++ inserts are those that an INSERT would make. Owners' triggers on the tables
-- of the pack, rules and policies have the INSERT with all of its checks instead.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir shared/dag.psql
select pawl_dag.define_template($${"name": "mapped", "identity_strategy": "always_unique", "steps": [
    {"name": "list"}, {"name": "each", "map": "items", "dependencies": ["list"]}, {"name": "free", "map": "items"},
    {"name": "join", "dependencies": ["each", "free"]}]}$$) \g /dev/null
select pawl_dag.define_template($${"name": "twins", "identity_strategy": "always_unique", "steps": [
    {"name": "each", "map": "items"}, {"name": "each1"}]}$$) as twins \gset
-- as a version before would have defined it
insert into pawl_dag.template_steps
select (jsonb_populate_record(s, '{"name": "each[1]", "ordinal": 3}')).* from pawl_dag.template_steps s
 where s.template_uuid = :'twins' and s.name = 'each1';
create function looks(task uuid) returns text language sql as $$
    select concat_ws(' ', t.steps_total, t.steps_ready, t.steps_blocked, t.evaluate, t.state)
        || coalesce((select string_agg(concat_ws(' ', s.name, s.level, s.total_parents, s.unsatisfied_parents), ', '
                         order by s.name)
                       from pawl_dag.steps s where s.task_uuid = t.task_uuid), '')
        || coalesce((select string_agg(p.name || '>' || c.name, ', ' order by p.name, c.name)
                       from pawl_dag.edges e
                       join pawl_dag.steps p on p.task_uuid = e.task_uuid and p.step_uuid = e.parent_uuid
                       join pawl_dag.steps c on c.task_uuid = e.task_uuid and c.step_uuid = e.child_uuid
                      where e.task_uuid = t.task_uuid), '')
      from pawl_dag.tasks t where t.task_uuid = task $$;
create function started() returns text language sql as $$
    select string_agg(looks(t), '; ' order by n)
      from (select 1 as n, pawl_dag.start_task('diamond') as t
            union all select 2, pawl_dag.start_task('mapped', '{"items": [1, 2]}')
            union all select 3, pawl_dag.start_task('mapped', '{"items": []}')) t $$;
create table ran (what text);
create function inserts() returns bigint language sql as $$ select count(*) from ran $$;
create function note() returns trigger language plpgsql as $$
begin
    insert into public.ran values (tg_name);
    return coalesce(new, old);
end $$;

select started() as plain \gset
select is(:'plain', '4 1 3 t pending' || 'a 0 0 0, b 1 1 1, c 1 1 1, d 2 2 2' || 'a>b, a>c, b>d, c>d; '
    '6 3 3 t pending' || 'each[0] 1 1 1, each[1] 1 1 1, free[0] 0 0 0, free[1] 0 0 0, join 2 4 4, list 0 0 0'
    || 'each[0]>join, each[1]>join, free[0]>join, free[1]>join, list>each[0], list>each[1]; '
    '2 1 1 t pending' || 'join 2 1 1, list 0 0 0' || 'list>join', 'tasks start as their templates say');
select is(looks(t), '4 1 3 t pending' || 'a 0 0 0, b 1 1 1, c 1 1 1, d 2 2 2' || 'a>b, a>c, b>d, c>d',
    'also several at once') from pawl_dag.start_tasks('diamond', array['{}', '{}']::jsonb[]) t;

-- owners' triggers
create trigger noted after insert on pawl_dag.edges for each row execute function note();
select is(started(), :'plain', 'a trigger on edges changes nothing');
select is(inserts(), 11::bigint, 'and fires for each of them');
drop trigger noted on pawl_dag.edges;
truncate ran;
create trigger noted before insert on pawl_dag.edges for each statement execute function note();
select is(started(), :'plain', 'nor does a trigger of a statement');
select cmp_ok(inserts(), '>', 0::bigint, 'and fires, too');
drop trigger noted on pawl_dag.edges;
create trigger noted after insert on pawl_dag.steps for each row execute function note();
select is(started(), :'plain', 'nor does one on steps');
drop trigger noted on pawl_dag.steps;

create function skip() returns trigger language plpgsql as $$ begin return null; end $$;
create function skip_b() returns trigger language plpgsql as $$
begin
    return case when new.parent_uuid <> public.step_of(new.task_uuid, 'b') then new end;
end $$;
create trigger skipped before insert on pawl_dag.edges for each row execute function skip_b();
select is(looks(pawl_dag.start_task('diamond')), '4 1 3 t pending' || 'a 0 0 0, b 1 1 1, c 1 1 1, d 2 1 1'
    || 'a>b, a>c, c>d', 'an edge that a trigger skips is not counted');
drop trigger skipped on pawl_dag.edges;
create trigger skipped before insert on pawl_dag.steps for each row when (new.name = 'd') execute function skip();
select throws_ok($$select pawl_dag.start_task('diamond')$$, '23503', null,
    'a step that a trigger skips has no edges');
drop trigger skipped on pawl_dag.steps;
create trigger skipped before insert on pawl_dag.steps for each row when (new.name = 'free[1]')
    execute function skip();
select throws_ok($$select pawl_dag.start_task('mapped', '{"items": [1, 2]}')$$, '23503', null, 'nor has an element');
drop trigger skipped on pawl_dag.steps;
create function rename() returns trigger language plpgsql as $$ begin new.name := 'a'; return new; end $$;
create trigger renamed_b before insert on pawl_dag.steps for each row when (new.name = 'b') execute function rename();
select throws_ok($$select pawl_dag.start_task('diamond')$$, '23505', null, 'names that a trigger gives are unique');
drop trigger renamed_b on pawl_dag.steps;
create function add_step() returns trigger language plpgsql as $$
begin
    insert into pawl_dag.steps (task_uuid, name, namespace, handler) values (new.task_uuid, 'extra', 'default', 'x');
    return null;
end $$;
create trigger extra after insert on pawl_dag.tasks for each row execute function add_step();
select pawl_dag.start_task('diamond') as task \gset
select pawl_dag.start_task('mapped', '{"items": [1]}') as mapped \gset
drop trigger extra on pawl_dag.tasks;
select is_rows(format('select steps_total, steps_ready from pawl_dag.tasks where task_uuid in (%L, %L)', :'task',
    :'mapped'), 'values (5, 2), (5, 3)', 'steps that a trigger adds are counted');
delete from pawl_dag.steps where name = 'extra';

-- each column, and each entry of the log, is the same by C++ and by a statement
create function nothing(jsonb) returns jsonb language sql as 'select $1';
select pawl_dag.define_template($${"name": "rich", "identity_strategy": "always_unique", "steps": [
    {"name": "first", "handler": "h", "handler_options": {"a": [1, {"b": null}]}, "optional": true,
        "timeout_seconds": 30, "retry": {"max_attempts": 7, "backoff": "linear", "backoff_base_ms": 2500}},
    {"name": "sql", "handler": "sql:public.nothing"},
    {"name": "each", "map": ["to", "items"], "handler_options": {"item": "replaced", "kept": 1},
        "dependencies": ["first"]},
    {"name": "last", "dependencies": ["each", "sql"], "retry": {"retryable": false}}]}$$) \g /dev/null
create function whole(task uuid) returns jsonb language sql as $$
    select jsonb_agg((to_jsonb(s) - '{task_uuid,step_uuid,created_at,rank}'::text[]) || jsonb_build_object(
               'ranked', s.rank = t.rank, 'created', s.created_at between t.created_at and clock_timestamp(),
               'parents', (select jsonb_agg(p.name order by p.name) from pawl_dag.edges e join pawl_dag.steps p
                   on p.task_uuid = e.task_uuid and p.step_uuid = e.parent_uuid
                   where e.task_uuid = s.task_uuid and e.child_uuid = s.step_uuid),
               'log', (select jsonb_agg((to_jsonb(l) #- '{metadata,transaction_id}')
                   - '{id,task_uuid,step_uuid,created_at}'::text[] order by l.sort_key)
                   from pawl_dag.step_transitions_log l where l.task_uuid = s.task_uuid and l.step_uuid = s.step_uuid))
               order by s.name)
      from pawl_dag.tasks t join pawl_dag.steps s on s.task_uuid = t.task_uuid where t.task_uuid = task $$;
create function rich(items jsonb) returns jsonb language sql as $$
    select jsonb_agg(whole(t)) from pawl_dag.start_tasks('rich', array[jsonb_build_object('to',
        jsonb_build_object('items', items)), '{"to": {"items": []}}'], priority => 3) t $$;
set pawl.traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
set pawl.processor = 'starter';
set pawl.correlation_id = 'c';
set pawl.metadata = '{"m": 1}';
select rich('[1, "two", null, {"three": [3, {}]}, [], 4.50, true]') as rich \gset
create trigger noted after insert on pawl_dag.steps for each row execute function note();
select is(rich('[1, "two", null, {"three": [3, {}]}, [], 4.50, true]'), :'rich'::jsonb,
    'steps, edges and log are the same');
drop trigger noted on pawl_dag.steps;
reset pawl.traceparent;
reset pawl.processor;
reset pawl.correlation_id;
reset pawl.metadata;
select is(jsonb_array_length(:'rich'::jsonb -> 0), 10, 'which are those of the template');
select is(jsonb_path_query_array(:'rich'::jsonb, '$[0][*].handler_options.item'),
    '[1, "two", null, {"three": [3, {}]}, [], 4.50, true]'::jsonb, 'with the elements of the array');
select is_empty($$select pawl_dag.start_tasks('rich', '{}')$$, 'no contexts are no tasks');

-- a start keeps to what an owner has disabled
create function entries_without(trigger text) returns bigint language plpgsql as $$
declare
    task uuid;
    n bigint;
begin
    execute format('alter table pawl_dag.steps disable trigger %I', trigger);
    task := pawl_dag.start_task('diamond');
    n := count(*) from pawl_dag.step_transitions_log l where l.task_uuid = task;
    raise exception '%', n using errcode = 'PX001';
exception when sqlstate 'PX001' then
    return sqlerrm::bigint;
end $$;
select is(entries_without('~pawl_validate_insert'), 4::bigint, 'a trigger that only sets columns is no matter');
select is(entries_without(tgname), 0::bigint, 'without the trigger that records nothing is recorded')
  from pg_trigger where tgrelid = 'pawl_dag.steps'::regclass and tgfoid = 'pawl.record()'::regprocedure
   and tgname = '!pawl_record';

-- checks that an owner adds
alter table pawl_dag.steps add column note text default 'noted', add column mark uuid default gen_random_uuid();
select pawl_dag.start_task('diamond') as task \gset
select is(looks(:'task'), split_part(:'plain', '; ', 1), 'a column of steps is no matter');
select is((select count(distinct mark) from pawl_dag.steps where task_uuid = :'task' and note = 'noted'), 4::bigint,
    'and has its default');
alter table pawl_dag.steps drop column note, drop column mark;
create domain answer as text constraint answered check (value is not null);
alter table pawl_dag.steps add column answer answer default 'none';
alter table pawl_dag.steps alter column answer drop default;
select throws_ok($$select pawl_dag.start_task('diamond')$$, '23514', null, 'nor does a domain let a null through');
alter table pawl_dag.steps drop column answer;
alter table pawl_dag.steps add constraint never check (name <> 'b') not valid;
select throws_ok($$select pawl_dag.start_task('diamond')$$, '23514', null, 'constraints of steps hold');
alter table pawl_dag.steps drop constraint never;
create unique index one_b on pawl_dag.steps ((name)) where name = 'only once';
select lives_ok($$select pawl_dag.start_task('diamond')$$, 'so do unique indexes');
drop index pawl_dag.one_b;
alter table pawl_dag.edges add constraint never check (child_uuid is null) not valid;
select throws_ok($$select pawl_dag.start_task('diamond')$$, '23514', null, 'constraints of edges hold');
alter table pawl_dag.edges drop constraint never;

-- names
create function defines(mapped text, name text) returns text language plpgsql as $$
declare detail text; hint text;
begin
    perform pawl_dag.define_template(jsonb_build_object('name', 'names', 'version', md5(name), 'steps',
        jsonb_build_array(jsonb_build_object('name', name), jsonb_build_object('name', mapped, 'map', 'items'))));
    return 'ok';
exception when others then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return concat_ws(' | ', sqlstate, sqlerrm, detail, hint);
end $$;
select is(defines('each', 'each[0]'), '22023 | step "each[0]" has the name of an element of mapped step "each" | '
    'The elements of "each" are steps named "each[0]", "each[1]" and so on. | "name": "each_0"',
    'a template has no step that is named as an element of a mapped step');
select is(left(defines('a.b', 'a.b[120]'), 5), '22023', 'however many elements there would have to be');
select is((select string_agg(defines('a.b', n), ' ' order by n)
    from unnest('{axb[1],a.b[01],a.b[],a.b[x],a.b[1]x,a.b1,b[1]}'::text[]) n), 'ok ok ok ok ok ok ok',
    'names that no element can have are names like any other');
select throws_ok($$select pawl_dag.start_task('twins', '{"items": [1, 2]}')$$, '23505',
    'step "each[1]" already exists in the task', 'an element has no name of another step');
select lives_ok($$select pawl_dag.start_task('twins', '{"items": [1]}')$$, 'where there is no such element it starts');

-- rights
create role starts_only login;
grant usage on schema pawl, pawl_dag to starts_only;
revoke insert on pawl_dag.edges from pawl_worker;
grant pawl_worker to starts_only;
set role starts_only;
select throws_ok($$select pawl_dag.start_task('diamond')$$, '42501', null, 'edges need the right to insert them');
reset role;
grant insert on pawl_dag.edges to pawl_worker;
set role starts_only;
select is(started(), :'plain', 'which workers have');
reset role;
create trigger noted after insert on pawl_dag.edges for each row execute function note();
grant insert on ran to starts_only;
set role starts_only;
select is(started(), :'plain', 'and the rights that statements need');
reset role;
drop trigger noted on pawl_dag.edges;
set role starts_only;
select is(pawl_dag._insert_steps((select template_uuid from pawl_dag.templates where name = 'diamond'), 'default', 0,
    array[pawl.uuid_v7()], '{0}', null, '{null}', '{null}'), null, 'only a start inserts steps that nothing checks');
reset role;
select is((select count(*) from pawl_dag.edges e where not exists (select from pawl_dag.steps s
    where s.task_uuid = e.task_uuid and s.step_uuid = e.parent_uuid)), 0::bigint, 'each edge has its steps');
select throws_ok(format('insert into pawl_dag.edges select task_uuid, child_uuid, parent_uuid from pawl_dag.edges '
    'where task_uuid = %L', :'task'), '22023', null, 'their cycles are found');
delete from pawl_dag.tasks where task_uuid = :'task';
select is_empty(format('select from pawl_dag.edges where task_uuid = %L', :'task'), 'and they go with their task');

-- From here on statements start tasks: edges have had another column.
alter table pawl_dag.edges add column note text default 'noted';
select is(looks(pawl_dag.start_task('diamond')), split_part(:'plain', '; ', 1), 'a column more is no matter');
select is((select count(*) from pawl_dag.edges where note = 'noted'), (select count(*)
    from pawl_dag.edges), 'and has its default');
alter table pawl_dag.edges drop column note;
select work();
select is_empty('select wrong()', 'counters, parents and logs are right at the end');
select * from finish();
