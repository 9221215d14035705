-- What each role may do; and what the catalog says of pawl's own functions.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create role pawl_test_user; create role pawl_test_maker in role pawl_admin;
create role pawl_test_reader in role pawl_reader; create role pawl_test_worker in role pawl_worker;
create role pawl_test_operator in role pawl_operator; create role pawl_test_owner;
create role pawl_test_super_admin in role pawl_admin, pawl_test_owner;
create schema app;
grant usage on schema app to public;
grant create on schema app to pawl_test_user, pawl_test_maker, pawl_test_owner;
create table app.t (id int primary key, state text not null, note text);
alter table app.t owner to pawl_test_owner;
grant select, update on app.t to pawl_test_user;
create table app.makers (id int primary key, state text not null);
alter table app.makers owner to pawl_test_maker;
create table app.users (id int primary key, state text not null);
alter table app.users owner to pawl_test_user;

-- Defining and attaching.
set role pawl_test_maker;
select is(pawl.define('m', 'stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back'), 1, 'a pawl_admin defines');
select lives_ok($$select pawl.enforce('app.makers', 'state', 'm'), pawl.enable_log('app.makers', 'state')$$,
    'and binds its own table');
select throws_ok($$select pawl.enforce('app.t', 'state', 'm')$$, '42501', 'must be owner of table app.t',
    'not to the table of another owner');
select throws_ok($$insert into pawl.binding (relation, state_column, machine, version)
    values ('app.t', 'state', 'm', 1)$$, '42501', 'permission denied for table binding', 'not by hand either');
select throws_ok($$update pawl.binding set relation = 'app.t' where relation = 'app.makers'::regclass$$, '42501',
    'permission denied for table binding', 'nor by turning its own there');
select throws_ok($$update pawl.binding set history = 'app.t'$$, '42501', 'permission denied for table binding',
    'nor can it be its log');
reset role;
set role pawl_test_super_admin;
select lives_ok($$select pawl.enforce('app.t', 'state', 'm'), pawl.enable_log('app.t', 'state')$$,
    'a role that is owner and pawl_admin binds');
reset role;
select is((select relowner::regrole::text from pg_class where oid = 'app.t_transitions_log'::regclass),
    'pawl_test_owner', 'the log belongs to the owner of the table');
select is((select count(*) from pawl.machine where defined_by = 'pawl_test_maker'), 1::bigint,
    'defined_by is the role that defined it');
insert into app.t values (1, 'a'), (2, 'a');

create function allowed_statements(tested_role text) returns setof text language plpgsql as $$
declare statement text;
begin
    foreach statement in array array[
        'select pawl.define(''x'', ''stateDiagram-v2'')', 'select pawl.enforce(''app.users'', ''state'', ''m'')',
        'select pawl.release(''app.t'')', 'select pawl.upgrade(''app.t'')',
        'select pawl._remap(''app.users'', ''state'', ''{}'')',
        'insert into pawl.machine (machine, version, source, diagram) values (''x'', 1, '''', '''')',
        'update pawl.machine set source = ''''',
        'delete from pawl.machine',
        'insert into pawl.machine_state (machine, version, ordinal, state) values (''m'', 1, 9, ''x'')',
        'delete from pawl.machine_state',
        'insert into pawl.machine_transition (machine, version, ordinal, to_state) values (''m'', 1, 9, ''x'')',
        'update pawl.machine_transition set guards = ''{}''', 'truncate pawl.machine cascade',
        'insert into pawl.binding (relation, state_column, machine, version) values (''app.users'', '
        '''state'', ''m'', 1)',
        'update pawl.binding set version = 1', 'delete from pawl.binding', 'truncate pawl.binding',
        'alter table app.t disable trigger all', 'drop trigger "~pawl_validate" on app.t',
        'alter event trigger pawl_adopt disable', 'drop function pawl.validate() cascade',
        'create function pawl.evil() returns int language sql as ''select 1''',
        'set session_replication_role = replica', 'delete from app.t_transitions'] loop
        -- of an owner that cannot be prevented
        continue when tested_role = 'pawl_test_owner' and statement ~ 'trigger.*app\.t|app\.t disable';
        begin
            execute format('set local role %I', tested_role);
            execute statement;
            return next format('%s may %s', tested_role, statement);
        exception when insufficient_privilege or sqlstate 'PW006' then null;
        end;
        reset role;
    end loop;
end $$;
select is_empty(format('select allowed_statements(%L)', tested_role),
    tested_role || ' can neither define, attach, release, upgrade, nor write what pawl keeps')
  from unnest(array['pawl_test_user', 'pawl_test_reader', 'pawl_test_worker', 'pawl_test_operator',
      'pawl_test_owner']) tested_role;

-- Moving takes UPDATE on the table and nothing else.
set role pawl_test_user;
select lives_ok($$update app.t set state = 'b' where id = 1$$, 'a user with SELECT and UPDATE changes a state');
select throws_ok($$update app.t set state = 'c' where id = 1$$, 'PW001', null, 'where there is a transition');
select is(pawl.fire('app.t', 2, 'go'), 'b', 'by event too');
select is((select count(*) from pawl.available('app.t', 2)), 1::bigint, 'sees what is open');
select is((select count(*) from pawl.fire_many('app.t', array[1, 2], 'back') where ok), 2::bigint,
    'fire_many changes two rows of a table that the role can update');
select results_eq($$select to_state, actor from pawl.history('app.t', 1) where sort_key = 2$$,
    $$values ('b', 'pawl_test_user')$$, 'and reads their history, which names the user');
select throws_ok(
        $$insert into app.t_transitions (id, subject_id, sort_key, actor, machine_version, created_at, to_state)
    values (pawl.uuid_v7(), 2, 9, 'x', 1, now(), 'z')$$, 'PW001', null, 'the log takes no forged row');
select throws_ok($$update app.t_transitions set actor = 'another'$$, '42501', null, 'and no change');
select lives_ok($$select pawl.set_context('me'), pawl.diagram('m'), pawl.uuid_v7()$$,
    'context and diagrams are for all');
select lives_ok($$select count(*) from pawl.states('m'), pawl.transitions('m'), pawl.check('x')$$,
    'states and transitions too');
select throws_ok($$select * from pawl.verify('app.t')$$, '42501', null, 'verify is not');
select throws_ok($$select * from pawl.health()$$, '42501', null, 'nor is health');
reset role;
set role pawl_test_worker;
select throws_ok($$select pawl.fire('app.t', 1, 'go')$$, '42501', null, 'a pawl_worker needs rights on the table');
select throws_ok($$select * from pawl.available('app.t', 1)$$, '42501', null, 'to look, too');
select throws_ok($$select * from pawl.history('app.t', 1)$$, '42501', null, 'and on the log');
reset role;
grant select on app.t to pawl_test_reader;
set role pawl_test_reader;
select throws_ok($$select pawl.fire('app.t', 1, 'go')$$, '42501', null, 'SELECT alone moves nothing');
select lives_ok($$select * from pawl.available('app.t', 1)$$, 'a role that can only read can call available');
select lives_ok($$select * from pawl.health()$$, 'a pawl_reader reads health');
select results_eq($$select relation::text, problem from pawl.verify() where relation = 'app.makers'::regclass$$,
    $$values ('app.makers', 'not_checked')$$, 'and verify reports what it may not see');
reset role;

-- An owner without pawl_admin cannot make bindings or misuse triggers; health reports what it can do.
set role pawl_test_user;
insert into app.users values (1, 'x');
create trigger "~pawl_validate" before update on app.users for each row execute function pawl.validate();
select throws_ok($$update app.users set state = 'y'$$, '42704', null,
    'a trigger of pawl on a table without a lifecycle rejects updates of that table only');
drop trigger "~pawl_validate" on app.users;
reset role;
set role pawl_test_owner;
alter table app.t disable trigger "~pawl_validate";
reset role;
select is((select status from pawl.health() where relation = 'app.t'::regclass and check_name = 'triggers_enabled'),
    'error', 'a trigger that its owner disabled is reported');
alter table app.t enable trigger "~pawl_validate";
set role pawl_test_maker;
select throws_ok($$select pawl.release('app.t')$$, '42501', 'must be owner of table app.t',
    'a pawl_admin does not release the table of another owner');
select throws_ok($$select pawl.upgrade('app.t')$$, '42501', 'must be owner of table app.t',
    'only the owner of a table can upgrade its binding');
select throws_ok($$delete from pawl.binding where relation = 'app.t'::regclass$$, '42501',
    'permission denied for table binding', 'not by hand either');
select throws_ok($$delete from pawl.machine where machine = 'm'$$, '42501', 'permission denied for table machine',
    'nor a machine');
select throws_ok($$select pawl.drop_machine('m')$$, '2BP01', 'version 1 of machine "m" cannot be deleted',
    'one that is in a log is not dropped');
select throws_ok($$insert into pawl.machine_transition (machine, version, ordinal, from_state, to_state) values ('m', 1,
    99, 'b', 'b')$$, '42501', 'permission denied for table machine_transition', 'a version gets no transition by hand');
select lives_ok($$select pawl.release('app.makers')$$, 'its own table it releases');
reset role;

-- Row security: hidden rows do not exist, and what may not be updated does not move.
create table app.r (id int primary key, state text not null, seen_by text, ro bool default false);
create function app.r_guard(o app.r, n app.r) returns bool language sql as $$ select n.seen_by = current_user $$;
select pawl.define('r', 'stateDiagram-v2
    [*] --> a
    a --> b : go
    a --> c : guarded [app.r_guard]') \g /dev/null
select pawl.enforce('app.r', 'state', 'r'), pawl.enable_log('app.r', 'state') \g /dev/null
insert into app.r select g, 'a', case when g % 2 = 0 then 'pawl_test_user' else 'another' end, g = 6
    from generate_series(1, 12) g;
alter table app.r enable row level security;
create policy mine on app.r for select using (seen_by = current_user);
create policy writes on app.r for update using (seen_by = current_user and not ro);
grant select, update on app.r to pawl_test_user;
grant select on app.r_transitions to pawl_test_user;
set role pawl_test_user;
select is(pawl.fire('app.r', 2, 'go'), 'b', 'a row that it may see and update changes state');
select throws_ok($$select pawl.fire('app.r', 1, 'go')$$, 'P0002', 'app.r has no row with key 1',
    'a hidden one is not there');
select throws_ok($$select pawl.fire('app.r', 6, 'go')$$, 'P0002', 'app.r has no row with key 6',
    'nor is one that it may not update');
select throws_ok($$select * from pawl.available('app.r', 1)$$, 'P0002', null, 'available does not show it');
select is((select count(*) from pawl.available('app.r', 6)), 2::bigint, 'it shows one that it may read');
select results_eq($$select key, ok, sqlstate from pawl.fire_many('app.r', array[3, 4, 6, 8], 'guarded')$$,
    $$values ('3', false, 'P0002'), ('4', true, null), ('6', false, 'P0002'), ('8', true, null)$$,
    'fire_many does not find rows that row-level security hides');
reset role;
select is((select count(*) from app.r_transitions where event is not null), 3::bigint, 'nothing else moved');
select is_empty($$select * from pawl.verify('app.r')$$, 'verify, as superuser, sees all rows and finds them sound');

-- The catalog.
select is_empty($$select oid::regprocedure from pg_proc
    where pronamespace = 'pawl'::regnamespace and prosecdef
        and not exists (select from unnest(proconfig) c where c ~ '^search_path=pg_catalog, *pg_temp$')$$,
                'a SECURITY DEFINER function has a fixed search_path');
select is_empty($$select oid::regprocedure from pg_proc where pronamespace = 'pawl'::regnamespace
    and obj_description(oid, 'pg_proc') is null$$, 'every function has a comment');
select is_empty($$select oid::regclass from pg_class where relnamespace = 'pawl'::regnamespace and relkind in ('r', 'v')
    and obj_description(oid, 'pg_class') is null$$, 'and every table');
select is_empty($$select p.oid::regprocedure from pg_proc p join pg_language l on l.oid = p.prolang
    where p.pronamespace = 'pawl'::regnamespace and l.lanname in ('sql', 'plpgsql') and p.prosqlbody is null
                    and p.prokind <> 'p'  -- one that commits sets it itself
                    and not exists (select from unnest(p.proconfig) c where c ~ '^search_path=pg_catalog')
                    and p.prosrc !~ 'FROM pawl\._verify\(\$1\) v'$$,
                'every function in SQL and PL/pgSQL has a fixed search_path (or is written with qualified '
                'names throughout)');
select is_empty($$select oid::regprocedure from pg_proc where pronamespace = 'pawl'::regnamespace
    and proowner <> 10::oid$$, 'all belong to the role that created the extension');
select is_empty($$select oid::regprocedure from pg_proc
    where pronamespace = 'pawl'::regnamespace and prorettype = 'event_trigger'::regtype
        and has_function_privilege('pawl_test_user', oid, 'execute')$$,
                'PUBLIC may not execute event trigger functions');
select is_empty($$select oid::regprocedure from pg_proc
    where pronamespace = 'pawl'::regnamespace and prosecdef
        and has_function_privilege('pawl_test_user', oid, 'execute')$$,
                'nor any SECURITY DEFINER function');
select set_eq($$select proname from pg_proc
    where pronamespace = 'pawl'::regnamespace and proname !~ '^_' and prorettype <> 'trigger'::regtype
        and has_function_privilege('pawl_test_user', oid, 'execute')$$,
              array['abandon', 'audit_of', 'available', 'backoff', 'base_type', 'channel', 'check', 'child_span',
                    'claim', 'claim_keys', 'deferred', 'diagram', 'diff', 'extend_log', 'fire', 'fire_due',
                    'fire_many', 'fired_by', 'heartbeat', 'history', 'is_transient', 'keep_audit', 'keep_log',
                    'may_read_events', 'own_relations', 'paths', 'pause', 'policies_are_safe', 'prune_audit',
                    'prune_log', 'raise', 'require_here',
                    'read_as_owner', 'reap', 'render', 'restoring', 'resume', 'same_value', 'set_context', 'state_at',
                    'states', 'takes_list', 'tend_logs', 'trace_of', 'transitions', 'upkeep_of', 'uuid_v7',
                    'value_expression',
                    'value_text', 'where_is'], 'what PUBLIC may call');
select is_empty($$select oid::regprocedure from pg_proc
        where pronamespace = 'pawl'::regnamespace and provolatile = 'v' and proparallel = 's'
            and proname not in ('raise', 'uuid_v7')$$,
    'what writes is not parallel safe');
select ok(not has_schema_privilege('pawl_test_user', 'pawl', 'create'), 'no other role creates in schema pawl');
-- PUBLIC may INSERT into pawl.paused and pawl.log_upkeep, and a trigger checks the rights: only so can the owner of a
-- table pause it, or declare how long its log is kept, without a right to LOCK.
select is_empty($$select c.oid::regclass, a.privilege_type from pg_class c, aclexplode(c.relacl) a
    where c.relnamespace = 'pawl'::regnamespace and a.grantee = 0 and a.privilege_type <> 'SELECT'
                    and not (c.relname in ('paused', 'log_upkeep') and a.privilege_type = 'INSERT')$$,
    'PUBLIC may read the tables, no more');
select * from finish();
