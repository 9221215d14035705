-- Every public function with odd values, one at a time beside arguments that are valid: what is wrong is said by pawl
-- itself. An error of the server that passes through a function of pawl has that function in its CONTEXT.
\set QUIET 1
set client_min_messages to error;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
select no_plan();

create table jobs (id int primary key, state text not null default 'queued', owner text, lease timestamptz,
    token bigint, due timestamptz, attempts int not null default 0, max_attempts int not null default 3, queue text,
    result jsonb);
create table parents (id int primary key);
create table pairs (a int, b text, state text not null default 'queued', primary key (a, b));
create table free (id int primary key, state text not null default 'queued');
create view a_view as select * from jobs;
create foreign data wrapper nothing;
create server nowhere foreign data wrapper nothing;
create foreign table remote (id int, state text) server nowhere;
select pawl.define('job', $$stateDiagram-v2
    [*] --> queued
    queued --> running : start
    running --> done : finish
    running --> queued : crash
    done --> [*]
    class running owned$$) \g /dev/null
select pawl.enforce('jobs', 'state', 'job'), pawl.enable_log('jobs'),
    pawl.enable_queue('jobs', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts',
        max_attempts => 'max_attempts', queue => 'queue'),
    pawl.enable_timers('jobs', due => 'due'), pawl.enable_events('jobs', events => true),
    pawl.set_claiming('jobs', claim => '{start}', on_expiry => 'crash', lease_time => '1 min'),
    pawl.audit('jobs', '{"done": true}'), pawl.set_placing('jobs', true), pawl.create_consumer('reader'),
    pawl.enforce('pairs', 'state', 'job'), pawl.enable_log('pairs') \g /dev/null
insert into jobs (id, queue) select g, 'q' from generate_series(1, 9) g;
insert into pairs values (1, 'x');
select pawl_dag.define_template('{"name": "order", "identity_strategy": "always_unique", "steps": [{"name": "a"}]}'),
    pawl_bulk.define('{"name": "devices", "steps": [{"name": "activate", "handler": "x"}]}'),
    pawl_saga.define('{"flow": "linear", "name": "trip", "children": [{"task": "t", "execute": "x"}]}') \g /dev/null
create temp table made as select pawl_dag.start_task('order') as task, pawl_saga.start('trip') as flow,
    pawl_saga.post('trip', 'trip') as job, (select operation from pawl_bulk.submit('devices', rows => '[{"a": 1}]'));

-- Valid values: of an argument by its name, where that has one meaning in a schema, or else by its type.
create function valid(schema name, argument name, type text) returns text language sql as $$
    select format(case when type in ('anyelement', '"any"') then '%s'
        when type = 'anycompatible' then '%L' else '%L::%s' end, coalesce((
        select case v.value when 'task' then m.task::text when 'flow' then m.flow::text when 'job' then m.job::text
                   when 'operation' then m.operation::text else v.value end
          from made m, (values ('pawl', 'machine', 'job'), ('pawl', 'event', 'start'), ('pawl', 'state', 'queued'),
              ('pawl', 'key', '5'), ('pawl', 'keys', '{5,6}'), ('pawl', 'fields', '{metadata}'),
              ('pawl', 'consumer', 'reader'), ('pawl', 'state_column', 'state'), ('pawl', 'queue', 'q'),
              ('pawl', 'processor', 'me'), ('pawl', 'kind', 'bulk'), ('pawl', 'namespace', 'default'),
              ('pawl', 'relation', 'jobs'), ('pawl', 'on_states', '{"done": true}'), ('pawl', 'after', 'parents'),
              ('pawl', 'columns', '{result}'), ('pawl', 'placements', '[]'), ('pawl', 'databases', '[]'),
              ('pawl', 'tables', '[]'), ('pawl', 'diagram', E'stateDiagram-v2\n[*] --> a'),
              ('pawl_dag', 'task', 'task'), ('pawl_dag', 'name', 'order'), ('pawl_dag', 'tasks', '{}'),
              ('pawl_dag', 'contexts', '{"{}"}'), ('pawl_dag', 'results', '[]'), ('pawl_bulk', 'definition', 'devices'),
              ('pawl_bulk', 'operation', 'operation'), ('pawl_bulk', 'name', 'devices'), ('pawl_bulk', 'results', '[]'),
              ('pawl_bulk', 'signals', '[]'), ('pawl_saga', 'flow', 'flow'), ('pawl_saga', 'job', 'job'),
              ('pawl_saga', 'name', 'trip'), ('pawl_saga', 'timeout', '1 ms'), ('pawl_saga', 'results', '[]'),
              ('pawl_saga', 'task', 't'), ('pawl_api', 'role', 'pawl_reader'), ('pawl_api', 'scopes', '{read}')
              ) v(schema, argument, value) where (v.schema, v.argument) = (valid.schema, valid.argument)),
        case when type in ('integer', 'bigint') then '1' when type = 'boolean' then 't'
             when type in ('interval', 'double precision') then '1' when type = 'jsonb' then '{}'
             when type = 'uuid' then '00000000-0000-0000-0000-000000000001'
             when type ~ '^timestamp' then '2026-01-01' when type in ('regclass', 'oid') then 'pg_class'
             when type in ('anyelement', '"any"') then 'null::jobs' when type = 'regprocedure' then 'now()'
             when type ~ '\[\]$|^pawl|^bytea' then null else 'x' end),
        case when type = 'oid' then 'regclass' else type end) $$;
-- Odd values of a type, as expressions.
create function odd(type text) returns setof text language sql as $$
    select o from unnest(case
        when type ~ '\[\]$' then array['''{}''', 'array[null]', 'array[array[null, null]]', '''[5:5]={%s}''']
        when type in ('integer', 'bigint') then array['0', '-1', '2147483647', '-2147483648']
        when type = 'boolean' then array['null'] when type = 'double precision' then array['''NaN''', '''Infinity''']
        when type = 'interval' then array['''0''', '''-1 month''', '''178000000 years''', '''-178000000 years''']
        when type ~ '^timestamp' then array['''infinity''', '''-infinity''', '''4713-01-01 BC''']
        when type in ('text', 'name') then array['''''', '''a''''b"c\d%s''', 'E''line\nfeed''',
            '(select string_agg(md5(g::text), '''') from generate_series(1, 1000) g)']
        when type in ('regclass', 'oid') then array['0', '4000000000', '''a_view''::regclass', '''remote''::regclass',
            '''pg_class''::regclass', '''free''::regclass', '''jobs_transitions_log''::regclass', '''pairs''::regclass']
        when type = 'jsonb' then array['''null''', '''1''', '''[]''', '''[1, null]''', '''[[1]]''', '''[{}]''',
            '''{"a": null}''', 'repeat(''['', 2000) || repeat('']'', 2000)', '''[{"name": 1, "kind": {}}]''']
        when type = 'anycompatible' then array['''''', '''{''', '''(1''', 'array[[5, 6]]', 'array[5, null]', '-1',
            'array[row(1, ''x'')]', 'array[array[row(1)]]', 'row(null, 1)', 'row(row(1), 2)', '''NaN''::float8',
            '''{}''::jsonb', '(select j from jobs j limit 1)', '''infinity''::timestamptz']
        when type = 'anyelement' then array['null::text', 'null::a_view', 'null::pg_class', 'null::jobs[]']
        else '{}' end) o
    union all select 'null' where type not in ('anycompatible', 'anyelement', '"any"') $$;
-- Out of it: functions that wait, that are called by a statement's own name, or are aggregates.
create temp table asked as
    select format('select * from %I.%I(%s)', f.nspname, f.proname, string_agg(format('%I => %s', a.name,
               case when a.n <> odd_one.n then valid(f.nspname, a.name, a.type)
                    when a.type in ('anycompatible', 'anyelement') then odd_one.value
                    else format('(%s)::%s', replace(odd_one.value, '%s', 'id'), a.type) end), ', ' order by a.n))
               as statement, f.nspname || '.' || f.proname as function
      from (select p.*, n.nspname, p.pronargs - p.pronargdefaults as required from pg_proc p
              join pg_namespace n on n.oid = p.pronamespace
             where n.nspname in ('pawl', 'pawl_dag', 'pawl_bulk', 'pawl_saga', 'pawl_api')
               and p.proname !~ '^(_|wait_|raise$|call_as_definer|read_as_owner)' and p.prokind = 'f'
               and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype) and p.provariadic = 0
               and not (n.nspname = 'pawl_api' and 'q' = any (p.proargnames))) f
      cross join lateral (
        select u.n, o.value from unnest(f.proargtypes::oid[]) with ordinality u(type, n), odd(format_type(u.type, null))
            o(value)) odd_one
      cross join lateral (select u.n, f.proargnames[u.n] as name, format_type(u.type, null) as type
            from unnest(f.proargtypes::oid[]) with ordinality u(type, n)
           where u.n <= f.required or u.n = odd_one.n or f.proargnames[u.n] in ('event', 'processor', 'queue')) a
     where f.proargnames[odd_one.n] <> ''
     group by f.oid, f.nspname, f.proname, odd_one.n, odd_one.value;
create function answer(statement text, out code text, out message text, out context text, out took interval)
    language plpgsql as $$
declare
    began timestamptz := clock_timestamp();
begin
    begin
        execute statement;
        raise exception using errcode = 'ZZZZZ';
    exception when others then
        get stacked diagnostics code = returned_sqlstate, message = message_text, context = pg_exception_context;
    end;
    took := clock_timestamp() - began;
end $$;
set statement_timeout = '1 min';
create temp table answers as select a.*, r.* from asked a, answer(a.statement) r;
select cmp_ok((select count(distinct function) from answers), '>', 180::bigint, 'the public functions were called');
select cmp_ok((select count(*) from answers where code <> 'ZZZZZ'), '>', 1000::bigint, 'many values are rejected');
select is_empty($$select left(statement, 300), code, message from answers where code like 'XX%'$$,
    'no error is one that is not foreseen');
select is_empty($$select left(statement, 300), code, left(message, 200) from answers
    where context ~ 'PL/pgSQL function pawl'$$,
    'no error of the server comes out of a function of pawl');
select is_empty($$select left(statement, 300), took from answers where took > '10 s'$$, 'no call takes long');
select * from finish();
