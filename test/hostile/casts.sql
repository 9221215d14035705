-- A table's owner makes casts, operators, domains and index expressions, and a superuser looks after the table: none of
-- that code may run as the superuser, and verify finds what a cast would hide.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
select no_plan();
set statement_timeout = '10s';
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
create role pawl_test_evil in role pawl_admin;
create role pawl_test_watcher in role pawl_reader;
grant create on schema public to pawl_test_evil;
select format('grant create on database %I to pawl_test_evil', current_database()) \gexec
select current_user as superuser \gset

set role pawl_test_evil;
create schema evil;
grant usage on schema evil to public;
-- raises where it runs as another role
create function evil.ran(context text) returns void language plpgsql as $$begin
    if current_user <> 'pawl_test_evil' then
        raise exception
            '% ran as %', context, current_user using errcode = 'ZZEVL';
        end if;
end$$;
create type evil.state as enum ('a', 'b', 'x');
create type evil.queue as enum ('q1', 'q2');
create type evil.key as enum ('k1', 'k2', 'k3', 'k4');
create type evil.pair as (a int, b text);
create domain evil.label as text;
create function evil.of_state(evil.state) returns text
    language plpgsql immutable as $$begin perform evil.ran('state as text'); return 'a'; end$$;
create function evil.of_queue(evil.queue) returns text
    language plpgsql immutable as $$begin perform evil.ran('queue as text'); return 'q1'; end$$;
create function evil.of_key(evil.key) returns text
    language plpgsql immutable as $$begin perform evil.ran('key as text'); return 'k1'; end$$;
create function evil.to_uuid(evil.key) returns uuid
    language plpgsql immutable as $$begin perform evil.ran('key as uuid'); return gen_random_uuid(); end$$;
create function evil.to_json(evil.state) returns json
    language plpgsql immutable as $$begin perform evil.ran('state as json'); return '1'; end$$;
create function evil.to_jsonb(evil.state) returns jsonb
    language plpgsql immutable as $$begin perform evil.ran('state as jsonb'); return '1'; end$$;
create function evil.pair_json(evil.pair) returns json
    language plpgsql immutable as $$begin perform evil.ran('pair as json'); return '1'; end$$;
create function evil.from_text(text) returns evil.key
    language plpgsql immutable as $$begin perform evil.ran('text as key'); return 'k1'; end$$;
create function evil.queue_from_text(text) returns evil.queue
    language plpgsql immutable as $$begin perform evil.ran('text as queue'); return 'q1'; end$$;
create function evil.state_from_text(text) returns evil.state
    language plpgsql immutable as $$begin perform evil.ran('text as state'); return 'a'; end$$;
create function evil.same(evil.state, evil.state) returns boolean
    language plpgsql immutable as $$begin perform evil.ran('state = state'); return true; end$$;
create function evil.same_text(evil.state, text) returns boolean
    language plpgsql immutable as $$begin perform evil.ran('state = text'); return true; end$$;
create function evil.same_key(evil.key, evil.key) returns boolean
    language plpgsql immutable as $$begin perform evil.ran('key = key'); return true; end$$;
create function evil.constant(integer) returns boolean
    language plpgsql immutable as $$begin perform evil.ran('index expression'); return true; end$$;

-- the tables come first, the traps after: that is how an owner waits for a superuser to look
select pawl.define('hostile', $$stateDiagram-v2
    state "owned" as b:::owned
    [*] --> a
    a --> b : start
    b --> a : expire
    b --> b2 : done
    a --> a2 : later after 1 hour
    b2 --> [*]
    a2 --> [*]$$) \g /dev/null
alter type evil.state add value 'b2';
alter type evil.state add value 'a2';
create table evil.t (key evil.key primary key, state evil.state not null default 'a', queue evil.queue, owner text,
    lease timestamptz, token bigint not null default 0,
                     due timestamptz, pair evil.pair, label evil.label, note text);
alter table evil.t add constraint note_check check (note <> 'no');
select pawl.enforce('evil.t', 'state', 'hostile'), pawl.enable_log('evil.t', 'state', most_recent => 'stored'),
    pawl.enable_queue('evil.t', 'state', owner => 'owner', lease => 'lease', token => 'token', queue => 'queue'),
    pawl.enable_timers('evil.t', 'state', due => 'due'),
    pawl.set_claiming('evil.t', 'state', claim => array['start'], on_expiry => 'expire'),
    pawl.enable_events('evil.t', 'state') \g /dev/null
select pawl.audit('evil.t', '{"b2": true}', 't_results') \g /dev/null
insert into evil.t (key, queue, pair) values ('k1', 'q1', (1, 'x')), ('k2', 'q2', null), ('k3', null, null);
update evil.t set due = null;
-- a state that no machine has, and one that the log does not have, while the triggers look away
alter table evil.t disable trigger user;
update evil.t set state = 'x' where key = 'k2';
update evil.t set state = 'b' where key = 'k3';
alter table evil.t enable trigger user;
grant select on evil.t, evil.t_transitions, evil.t_results to pawl_test_watcher;

create function pg_temp.what_verify_finds() returns text language sql as
$$select string_agg(format('%s:%s', problem, key), ' ' order by problem, key) from pawl.verify('evil.t')$$;
reset role;
grant execute on function pg_temp.what_verify_finds() to public;
select pg_temp.what_verify_finds() as before_traps \gset
select matches(:'before_traps'::text, 'log_differs:k2.*log_differs:k3.*unknown_state:k2',
    'verify finds the damage before there are casts: ' || :'before_traps');

set role pawl_test_evil;
create cast (evil.state as text) with function evil.of_state(evil.state) as implicit;
create cast (evil.queue as text) with function evil.of_queue(evil.queue) as implicit;
create cast (evil.key as text) with function evil.of_key(evil.key) as implicit;
create cast (evil.key as uuid) with function evil.to_uuid(evil.key) as implicit;
create cast (evil.state as json) with function evil.to_json(evil.state) as assignment;
create cast (evil.state as jsonb) with function evil.to_jsonb(evil.state) as implicit;
create cast (evil.pair as json) with function evil.pair_json(evil.pair) as implicit;
create cast (text as evil.key) with function evil.from_text(text) as implicit;
create cast (text as evil.queue) with function evil.queue_from_text(text) as implicit;
create cast (text as evil.state) with function evil.state_from_text(text) as implicit;
create operator evil.= (leftarg = evil.state, rightarg = evil.state, function = evil.same);
create operator evil.= (leftarg = evil.state, rightarg = text, function = evil.same_text);
create operator evil.= (leftarg = evil.key, rightarg = evil.key, function = evil.same_key);
alter domain evil.label add constraint label_check check (evil.constant(length(value)));
reset role;

-- What runs evil's code as another role raises ZZEVL.
create function pg_temp.attempt(statement text) returns text language plpgsql as $$declare
    detail text;
begin
    execute statement;
    return 'ok';
exception when others then
    return case when sqlstate = 'ZZEVL' then 'HIJACKED: ' || sqlerrm else 'error ' || sqlstate || ': ' || sqlerrm end;
end$$;

-- every view of the five extensions, those of tomorrow too
select is(pg_temp.attempt(format('select to_json(count(v)), count(v::text) from %s v', c.oid::regclass)), 'ok',
    format('view %s runs nothing of an owner', c.oid::regclass))
  from pg_class c join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid
 where c.relkind = 'v' and e.extname ^@ 'pawl' order by c.oid::regclass::text collate "C";

-- every function of them that can be called without arguments, or with a table (and its column), or by the API
create temp table called as
select p.oid::regprocedure as routine,
       format('select count(x), max(x::text) from %I.%I(%s) x', n.nspname, p.proname,
              case when n.nspname = 'pawl_api' then format('%L', jsonb_build_object('machine', 'hostile', 'relation',
                  'evil.t', 'key', '["k1"]', 'column', 'state', 'state_column', 'state'))
                   else array_to_string(
                       array(select case t.type when 'regclass'::regtype then quote_literal('evil.t')
                           when 'name'::regtype then quote_literal('state')
                           when 'pawl.binding'::regtype
                               then '(select b from pawl.binding b where b.relation = ''evil.t''::regclass)'
                                                         else 'null' end
                           from unnest(p.proargtypes) with ordinality t(type, n)
                           where t.n <= p.pronargs - p.pronargdefaults order by t.n), ', ') end) as statement
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid
 where e.extname ^@ 'pawl' and p.prokind = 'f'
     and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype, 'record'::regtype)
   and not p.proname ^@ '_'
   and case when n.nspname = 'pawl_api' then p.proargtypes::regtype[]::text = '[0:0]={jsonb}'
            else not exists (select from unnest(p.proargtypes) with ordinality t(type, n)
                              where t.n <= p.pronargs - p.pronargdefaults
                                  and t.type not in ('regclass'::regtype, 'name'::regtype)) end
   and p.proname not in ('sleep', 'awake', 'begin_request', 'drop_consumer', 'release', 'unaudit', 'wait_for_jobs');
select cmp_ok(count(*), '>', 40::bigint, 'many functions are called') from called;
select unalike(pg_temp.attempt(c.statement), 'HIJACKED%', format('%s runs nothing of an owner', c.routine))
    from called c order by c.routine::text collate "C";

-- the functions that take a key, or more
select is(pg_temp.attempt(s), 'ok', s) from (values
    ('select * from pawl.verify()'), ($$select * from pawl.verify('evil.t')$$), ('select * from pawl.health()'),
    ('select * from pawl.queue_depth'), ('select * from pawl.owners'), ('select * from pawl.timers'),
    ($$select * from pawl.history('evil.t', 'k1'::text)$$), ($$select pawl.state_at('evil.t', 'k1'::text, now())$$),
    ($$select * from pawl.available('evil.t', 'k1'::text)$$),
    ($$select * from pawl.audit_of('evil.t', 'k1'::text)$$), ($$select pawl.pause('evil.t', 'q1')$$),
    ($$select pawl.resume('evil.t', 'q1')$$), ($$select pawl.tend_logs()$$),
    ($$select pawl_api.machine_counts('{"machine": "hostile"}')$$),
    ($$select pawl_api.machine_slowest('{"machine": "hostile"}')$$)) v(s);
select is(pg_temp.what_verify_finds(), :'before_traps', 'verify finds what the casts say is not so');
set role pawl_test_watcher;
select is(pg_temp.what_verify_finds(), :'before_traps', 'a reader''s verify, too');
reset role;
select is((select string_agg(format('%s %s %s', queue, claimable, at_least), ', ' order by queue) from pawl.queue_depth
    where relation = 'evil.t'::regclass), 'q1 1 f', 'depths by queue, as the types write them');

-- code that planning runs: an index expression, a predicate and a constraint of constants
set role pawl_test_evil;
create table evil.p (id int primary key, state text not null default 'a') partition by range (id);
create table evil.p1 partition of evil.p for values from (0) to (1000);
select pawl.enforce('evil.p', 'state', 'hostile'),
    pawl.enable_log('evil.p', 'state', most_recent => 'stored') \g /dev/null
insert into evil.p select generate_series(1, 5);
create index on evil.p1 (evil.constant(id)) where evil.constant(1);
create index on evil.p_transitions ((evil.constant(1)));
create index on evil.t (evil.constant(token::int)) where evil.constant(1);
create index on evil.t_transitions ((evil.constant(1)));
alter table evil.p1 add constraint c check (evil.constant(2));
reset role;
select is(pg_temp.attempt(s), 'ok', 'as the owner: ' || s) from (values
    ('select * from pawl.verify()'), ($$select * from pawl.verify('evil.p')$$), ('select * from pawl.health()'),
        ('select * from pawl.queue_depth'),
    ('select * from pawl.owners'), ('select * from pawl.timers'),
    ($$select pawl_api.machine_counts('{"machine": "hostile"}')$$)) v(s);
select is(pg_temp.what_verify_finds(), :'before_traps', 'verify still finds the damage');

-- and may not escape from where it runs
set role pawl_test_evil;
create function evil.escape(integer) returns boolean language plpgsql immutable as $$begin
    begin
        perform set_config('role', (select r.rolname from pg_roles r where r.rolsuper limit 1), false);
        raise exception 'escaped' using errcode = 'ZZEVL';
    exception when insufficient_privilege then null; end;
    perform set_config('search_path', 'evil', false);
    return true;
end$$;
create index on evil.p1 ((evil.escape(id))) where evil.escape(1);
reset role;
select is(pg_temp.attempt($$select * from pawl.verify('evil.p')$$), 'ok', 'nor can it become another role');
select unalike(current_setting('search_path'), '%evil%', 'or leave a setting behind');
select is(current_user::text, :'superuser', 'the current user is the caller');

-- the caller's right comes first
create role pawl_test_nothing in role pawl_reader;
set role pawl_test_nothing;
select throws_ok($$select * from pawl.verify('evil.t')$$, '42501', null,
    'a caller without SELECT has no table verified');
select is_empty($$select * from pawl.queue_depth where relation = 'evil.t'::regclass$$, 'nor counted');
select throws_ok($$select * from pawl.read_as_owner('evil.t', 'state', 'log') l(id uuid, key text, sort_key int,
    from_state text, to_state text, event text, created_at timestamptz)$$, '42501', null,
                 'not by hand either');
reset role;

-- a binding on a view, or on a table and a log of two owners
alter table evil.t_transitions owner to :"superuser";
select throws_ok($$select * from pawl.verify('evil.t')$$, '42501', null,
    'a log of another owner is not read with the owner''s rights');
select ok(exists (select from pawl.verify() where relation = 'evil.t'::regclass and problem = 'not_checked'),
    'and is reported as not checked');
alter table evil.t_transitions owner to pawl_test_evil;
set role pawl_test_evil;
create view evil.v as select id, 'a'::text as state, evil.constant(3) as c from evil.p;
reset role;
set session_replication_role = replica;
update pawl.binding set relation = 'evil.v' where relation = 'evil.p'::regclass;
reset session_replication_role;
select is(pg_temp.attempt(s), 'ok', 'a forged binding: ' || s) from (values
    ('select * from pawl.verify()'), ('select * from pawl.health()'), ('select * from pawl.queue_depth'),
        ('select * from pawl.owners'), ('select * from pawl.timers'),
    ($$select pawl_api.machine_counts('{"machine": "hostile"}')$$)) v(s);
select finish();
