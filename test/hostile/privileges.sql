-- The rights on functions and tables: the files sql/<extension>/privileges are all that is granted, and rules hold for
-- every function and table that there is. Runs at the top of the sources, where the files are.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
select no_plan();

-- What the files say: one line a function.
create temp table line (extension text default current_setting('t.extension'), text text);
set t.extension = 'pawl';
\copy line (text) from sql/pawl/privileges with (format csv, delimiter E'\x01', quote E'\x02')
set t.extension = 'pawl_dag';
\copy line (text) from sql/pawl_dag/privileges with (format csv, delimiter E'\x01', quote E'\x02')
set t.extension = 'pawl_bulk';
\copy line (text) from sql/pawl_bulk/privileges with (format csv, delimiter E'\x01', quote E'\x02')
set t.extension = 'pawl_saga';
\copy line (text) from sql/pawl_saga/privileges with (format csv, delimiter E'\x01', quote E'\x02')
set t.extension = 'pawl_api';
\copy line (text) from sql/pawl_api/privileges with (format csv, delimiter E'\x01', quote E'\x02')
create temp table written as
select extension, m[1] as function, m[3] as roles from line, regexp_match(text, '^([a-z_0-9]+(\([^)]*\))?) +(.*)$') m
where text !~ '^\s*(#|$)';

create temp view function as
select p.oid, e.extname::text as extension, p.proname::text as name, p.oid::regprocedure::text as signature,
p.prosecdef as definer,
       p.prorettype::regtype::text as returns, l.lanname as language, p.prosrc as source, p.proconfig as settings,
       coalesce(p.proacl, acldefault('f', p.proowner)) as acl, p.proowner as owner
  from pg_proc p
  join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.refclassid = 'pg_extension'::regclass
      and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid join pg_language l on l.oid = p.prolang where e.extname ^@ 'pawl';
create temp view granted as
select f.extension, f.signature, f.oid, case a.grantee when 0 then 'public' else a.grantee::regrole::text end as role,
a.is_grantable
  from function f, aclexplode(f.acl) a where a.grantee <> f.owner;
create temp view meant as
select w.extension, f.signature, w.function, w.roles
  from written w join function f on f.extension = w.extension
       and (f.name = w.function or w.function ~ '\(' and f.oid = to_regprocedure(w.extension || '.' || w.function));

select is((select count(distinct extension) from function), 5::bigint, 'all extensions are there');
select is_empty($$select extension, function from written group by 1, 2 having count(*) > 1$$,
    'a function has one line');
select is_empty($$select extension, function from written except select extension, function from meant$$,
    'every line names a function');
select is_empty($$select extension, signature, role from granted except select extension, signature, r
    from meant, regexp_split_to_table(roles, ' +') r$$,
                'nothing is granted but what the files say');
select is_empty($$select extension, signature, r from meant, regexp_split_to_table(roles, ' +') r
    except select extension, signature, role from granted$$,
                'and all that they say is');
select is_empty($$select * from granted where is_grantable$$, 'nothing can be granted on');

-- Rules for all functions, those to come included.
-- What a function calls of the internal ones with the rights of its caller, each of its callers may call.
create temp table callable as
select p.pronamespace::regnamespace::text || '.' || f.name as name, g.role
  from granted g join function f using (oid) join pg_proc p using (oid);
create temp table call as
select distinct f.oid, f.signature, m[1] as name
  from function f, regexp_matches(f.source, '\m(pawl\w*\._\w+)\s*\(', 'g') m
 where not f.definer and f.language <> 'c' and f.returns not in ('trigger', 'event_trigger');
analyze callable, call;
select is_empty($$select c.signature, g.role, c.name from call c join granted g using (oid)
    where c.name in (select name from callable)
    except select c.signature, g.role, c.name from call c join granted g using (oid)
        join callable a on a.name = c.name and a.role in (g.role, 'public')
    -- all count by the first, which asks for a role before the checks of pawl.verify; a reader does not come so far in
    -- the second, because it cannot insert operations
    except values ('pawl._owner_statements(regclass,name,text)', 'public', 'pawl._verify_statements'),
        (to_regproc('pawl_bulk.submit')::oid::regprocedure::text, 'pawl_reader', 'pawl_bulk._seal_rows')
    order by 1, 2, 3$$, 'who may call a function may call what it calls');
select is_empty($$select signature from function f
    where definer and returns in ('trigger', 'event_trigger') and exists (select from granted g where g.oid = f.oid)$$,
                'a SECURITY DEFINER trigger function is for its owner alone');
select is_empty($$select signature from function f
    where returns = 'event_trigger' and exists (select from granted g where g.oid = f.oid)$$,
                'an event trigger function is, too');
select is_empty($$select signature, settings from function f
                   where definer
                       and not exists (select from unnest(settings) s where s ~ '^search_path=pg_catalog, *pg_temp$')$$,
                'a SECURITY DEFINER function has a fixed search_path');
select is_empty($$select signature from function f
                   where not definer and returns = 'trigger'
                       and not exists (select from granted g where g.oid = f.oid and g.role = 'public')$$,
                'a trigger function that acts with the rights of the caller is for all: partitions and dumps need it');
-- _definition_changed is for a table that a node of a Citus cluster has, and asks Citus for its name
select is_empty($$select signature from function f where returns = 'trigger' and language = 'plpgsql'
                    and name <> '_definition_changed'
                    and source !~ ('^\s*DECLARE\s+fired constant boolean :=\s+pawl\.fired_by\(''[A-Z, '
                        ']+'',\s+TG_RELID, TG_WHEN, TG_OP, TG_LEVEL,'
                                   '\s+''pawl\w*\.\w+''(,\s+''pawl\w*\.\w+'')*\);')$$,
                'a trigger function asks what fired it before it does anything');
select set_eq($$select name from function where returns = 'trigger' and language = 'c'$$,
              array['validate', 'validate_insert', 'record', 'record_truncate', 'log_insert', 'protect_log',
                  'invalidate', 'check_placed', 'one_transition', 'audit_results', 'protect_record', '_step_written',
                  '_steps_written', '_task_changed',
                  '_task_written', '_atoms_ended', '_atoms_change',
                  '_record_written', '_records_written', '_work_written'],
              'these trigger functions are in C: hostile/trigger_hijack.sql fires each');
select is_empty($$select signature from function f where returns = 'trigger' and language not in ('c', 'plpgsql')$$,
    'there are no others');
create temp view named as
select f.oid, f.signature, to_regclass(trim(q, '''')) as relation, m as moment
  from function f,
      regexp_match(f.source, 'fired_by\(''([A-Z, ]+)'',\s+TG_RELID, TG_WHEN, TG_OP, TG_LEVEL,\s+([^)]*)\)') x,
       regexp_split_to_table(x[2], ',\s*') q, regexp_split_to_table(x[1], ', ') m
 where f.returns = 'trigger' and f.language = 'plpgsql' and f.name <> '_definition_changed';
select is_empty($$select * from named n
    where relation is null or not exists (select from pg_trigger t join pg_proc p on p.oid = t.tgfoid
        where t.tgrelid = n.relation and (t.tgfoid = n.oid
            or p.prosrc in ('pawl_dag_task_written', 'pawl_dag_task_changed', 'pawl_dag_step_written',
                'pawl_dag_steps_written')
                and n.signature
                    ~ '_(by_sql|needs_condition|operators_only|task_(entered|moved)|steps?_(reopened|moved|claimed))\('
            or p.prosrc = 'pawl_saga_task_written'
                and n.signature ~ '_(by_sql|task_entered|task_kept|worker_lost)\('
            or p.prosrc in ('pawl_bulk_record_written', 'pawl_bulk_records_written', 'pawl_bulk_work_written')
                and n.signature
                    ~ '_(records?_by_sql|record_entered|work_by_sql|work_taken|records_(rest|reset|wait))\('))$$,
                'the tables that it names have such a trigger');
select is_empty($$select t.tgrelid::regclass, t.tgname from pg_trigger t
    join function f on f.oid = t.tgfoid and f.language = 'plpgsql' and f.returns = 'trigger'
     where not t.tgisinternal and not exists (select from named n where n.oid = t.tgfoid and n.relation = t.tgrelid
         and split_part(n.moment, ' ', 1) = case when t.tgtype & 2 <> 0 then 'BEFORE' else 'AFTER' end
         and n.moment ~ case when t.tgtype & 1 <> 0 then 'ROW$' else 'STATEMENT$' end
         and (t.tgtype & 4 = 0 or n.moment ~ 'INSERT') and (t.tgtype & 8 = 0 or n.moment ~ 'DELETE')
         and (t.tgtype & 16 = 0 or n.moment ~ 'UPDATE') and (t.tgtype & 32 = 0 or n.moment ~ 'TRUNCATE'))$$,
    'and it names all of its triggers');
select is_empty($$select f.signature from granted g join function f using (oid)
    where g.role = 'public' and f.extension <> 'pawl' and f.returns <> 'trigger'$$,
                'of the packs PUBLIC has nothing but trigger functions');
select is_empty($$select f.signature from granted g join function f using (oid) where g.role = 'public' and f.definer$$,
                'and no SECURITY DEFINER function of any extension');

-- Tables.
create temp view right_on as
select c.oid, e.extname::text as extension, c.oid::regclass::text as relation,
       case a.grantee when 0 then 'public' else a.grantee::regrole::text end as role, a.privilege_type as privilege
  from pg_class c
  join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.refclassid = 'pg_extension'::regclass
      and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid, aclexplode(c.relacl) a
  where e.extname ^@ 'pawl' and a.grantee <> c.relowner;
select is_empty($$select relation, role, privilege from right_on
    where privilege in ('TRUNCATE', 'TRIGGER', 'REFERENCES')$$,
                'TRUNCATE, TRIGGER and REFERENCES are the owner''s');
select is_empty($$select relation, role, privilege from right_on
    where role in ('public', 'pawl_reader') and privilege <> 'SELECT'
                    and not (role = 'public' and privilege = 'INSERT'
                        and relation in ('pawl.paused', 'pawl.log_upkeep'))$$,
                'readers read; anyone may only ask for a pause, or say how long a log is kept, which triggers check');
-- What may hold values of users' rows is not for all: tables whose texts PUBLIC can read hold definitions and names.
select set_eq($$select distinct c.relname::text from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    join pg_type t on t.oid = a.atttypid
   where c.relnamespace = 'pawl'::regnamespace and c.relkind in ('r', 'p')
     and (t.typcategory = 'S' and t.typname <> 'name' or t.typname in ('_text', 'json', 'jsonb', '_jsonb'))
     and exists (select from (select c.relacl union all select a.attacl) l(acl), aclexplode(l.acl) g
                  where g.grantee = 0 and g.privilege_type = 'SELECT')$$,
    array['machine', 'machine_state', 'machine_transition', 'binding', 'audit_binding', 'released', 'paused',
        'log_upkeep', 'pruned_log', 'database', 'placement'], 'no other text of a table is for all to read');
create role privileges_stranger;
create table of_keys (secret text primary key, state text not null);
insert into of_keys values ('key 1', 'open'), ('key 2', 'open');
select from pawl.define('of_keys', $$stateDiagram-v2
    [*] --> open
    open --> done : finish$$) \g /dev/null
select from pawl.enforce('of_keys', 'state', 'of_keys', validate => false) \g /dev/null
select from pawl.validate('of_keys', batch => 1) \g /dev/null
set role privileges_stranger;
select throws_ok('select position from pawl.validation', '42501', null,
    'the key of a row that is validated is not for all to read');
select is_empty('select * from pawl._validation_positions', 'nor by the view of those who own the table');
select is((select checked from pawl.validation where relation = 'of_keys'::regclass), 1::bigint, 'but the count is');
reset role;
grant create on schema public to privileges_stranger;
alter table of_keys owner to privileges_stranger;
grant pawl_admin to privileges_stranger;
set role privileges_stranger;
select is((select array_agg(position::text) from pawl._validation_positions), '{"{\"key 1\"}"}',
    'its owner sees where validation goes on');
select is((select checked from pawl.validate('of_keys', batch => 1)), 1::bigint, 'and goes on');
reset role;
drop owned by privileges_stranger cascade;
drop role privileges_stranger;

-- UPDATE or DELETE of a whole table is also the right to LOCK it.
select is_empty($$select relation, role, privilege from right_on
        where role = 'pawl_worker' and privilege in ('UPDATE', 'DELETE') order by 1, 2, 3$$,
    'workers update columns, not tables');
create role privileges_worker in role pawl_worker;
create function may_lock(role text, relation regclass) returns boolean language plpgsql as $f$
begin
    execute format('set local role %I', role);
    execute format('lock table %s in access exclusive mode', relation);
    raise exception using errcode = 'ZZZZZ';
exception when insufficient_privilege then
    return false;
when sqlstate 'ZZZZZ' then
    return true;
end $f$;
select is_empty($$select c.oid::regclass::text from pg_class c
    where c.relnamespace::regnamespace::text ^@ 'pawl' and c.relkind in ('r', 'p')
                    and may_lock('privileges_worker', c.oid)$$, 'a worker locks no table');

-- An owner of tables that is no superuser does with them what it did: enforces, adds
-- partitions by itself and by another role.
create role privileges_owner in role pawl_admin;
create role privileges_heir;
grant create on schema public to privileges_owner, privileges_heir;
set role privileges_owner;
select pawl.define('owned_by_none', $$stateDiagram-v2
    [*] --> a
    a --> b : go$$) \g /dev/null
create table of_owner (id int primary key, state text not null) partition by range (id);
select lives_ok($$select pawl.enforce('of_owner', 'state', 'owned_by_none'),
    pawl.enable_log('of_owner', 'state', most_recent => 'stored')$$, 'an owner enforces');
select lives_ok('create table of_owner_1 partition of of_owner for values from (0) to (10)', 'and adds a partition');
reset role;
alter table of_owner owner to privileges_heir;
alter table of_owner_1 owner to privileges_heir;
alter table of_owner_transitions owner to privileges_heir;
set role privileges_heir;
select lives_ok('create table of_owner_2 partition of of_owner for values from (10) to (20)',
    'a role without any rights adds one, too');
select lives_ok($$insert into of_owner values (1, 'a'), (11, 'a')$$, 'both claim rows');
select throws_ok($$update of_owner_2 set state = 'c'$$, 'PW001', null, 'and are enforced');
select lives_ok($$update of_owner set state = 'b'$$, 'as they should be');
reset role;

-- A reader asks which events are open to rows of packs, whose guards it evaluates.
create role privileges_reader in role pawl_reader;
select pawl_saga.define('{"flow": "linear", "name": "asked", "children": [{"task": "a"}]}') \g /dev/null
select pawl_bulk.define('{"name": "asked", "steps": [{"name": "work", "handler": "work"}]}') \g /dev/null
select flow_uuid as flow from pawl_saga.start('asked') flow_uuid \gset
set role privileges_reader;
select ok((select count(*) from pawl.available('pawl_saga.flows', :'flow'::uuid)) > 0,
    'a reader sees which events are open to a flow');
select throws_ok($$select pawl_bulk.submit('asked', '{}', rows => '[{}]')$$, '42501', null, 'and submits no operation');
reset role;
drop owned by privileges_owner, privileges_heir, privileges_worker, privileges_reader cascade;
drop role privileges_owner, privileges_heir, privileges_worker, privileges_reader;
select * from finish();
