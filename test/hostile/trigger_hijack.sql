-- The right to execute a trigger function is the right to hang it on any table of one's own, whose types and casts are
-- one's own too. Here every trigger function of pawl that the catalog has is fired by a table with hostile types, at
-- every moment, by the table's owner and by a superuser. None runs code of the table's
-- owner; each ends in a clean error.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
select no_plan();
create role hijack_admin in role pawl_admin;
create role hijack_operator in role pawl_operator;
create role hijack_worker in role pawl_worker;
create role hijack_reader in role pawl_reader;
create role hijack_stranger;
grant usage on schema pawl_dag, pawl_bulk, pawl_saga, pawl_api to hijack_stranger;
create temp view attacker as select rolname::text as role from pg_roles where rolname ^@ 'hijack_';
create temp view trigger_function as
select p.oid::regprocedure as function, p.prosecdef as definer, l.lanname as language, p.proname::text as name
  from pg_proc p join pg_language l on l.oid = p.prolang
  join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.refclassid = 'pg_extension'::regclass
      and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid where e.extname ^@ 'pawl' and p.prorettype = 'trigger'::regtype;

-- The attack as it was found.
create function attack(attacker text) returns text language plpgsql as $f$
declare
    answer text := 'went through';
begin
    begin
        execute format('set local role %I', attacker);
        create type pg_temp.e as enum ('a');
        execute format('create function pg_temp.go() returns void language plpgsql as $$begin execute ''alter role %I '
                'superuser''; end$$', attacker);
        create function pg_temp.f(pg_temp.e) returns uuid language plpgsql immutable
            as $$begin perform pg_temp.go(); return gen_random_uuid(); end$$;
        create cast (pg_temp.e as uuid) with function pg_temp.f(pg_temp.e) as implicit;
        create temp table r (operation pg_temp.e);
        create trigger t after delete on r for each row execute function pawl_bulk._operation_gone();
        insert into r values ('a');
        delete from r;
    exception when others then
        answer := sqlstate;
    end;
    reset role;
    return answer;
end $f$;
select is(attack(role), '42501', role || ' cannot hang pawl_bulk._operation_gone on its own table') from attacker;
select is_empty($$select role from attacker join pg_roles on rolname = role where rolsuper$$,
    'and none becomes a superuser');

-- No role hangs a SECURITY DEFINER trigger function on a table.
create function may_hang(attacker text, function regprocedure) returns boolean language plpgsql as $f$
begin
    execute format('set local role %I', attacker);
    create temp table mine (a int);
    execute format('create trigger t before insert on mine for each row execute function %s', function);
    reset role;
    drop table mine;
    return true;
exception when insufficient_privilege then
    return false;
end $f$;
select is_empty($$select role, function from attacker, trigger_function where definer and may_hang(role, function)$$,
                'no SECURITY DEFINER trigger function can be hung on a table');
select is_empty($$select role, function from attacker, trigger_function
    where not definer and not may_hang(role, function)$$,
                'all others can, which partitions and dumps need');

-- A table of the same columns as one of pawl's, all of a type whose casts and output note the role that runs them.
create table ran_as (role text, what text);
grant insert on ran_as to public;
create function copy_of(model regclass, attacker text) returns text language plpgsql as $f$
declare
    of_type text;
    own constant text := attacker || '_' || replace(model::text, '.', '_');
    columns text;
begin
    execute format('create schema %I', own);
    execute format('grant all on schema %I to %I', own, attacker);
    execute format('set local role %I', attacker);
    execute format('create type %I.e as enum (''a'', ''b'')', own);
    for of_type in
        select distinct format_type(a.atttypid, null) from pg_attribute a
        where a.attrelid = model and a.attnum > 0 and not a.attisdropped
    loop
        execute format('create function %1$I.%2$I(%1$I.e) returns %3$s language plpgsql as '
                       '$$begin insert into public.ran_as values (current_user, %4$L); return null; end$$', own,
                           'to_' || of_type, of_type, model::text);
        execute format('create cast (%1$I.e as %3$s) with function %1$I.%2$I(%1$I.e) as implicit', own,
            'to_' || of_type, of_type);
    end loop;
    select string_agg(format('%I %I.e default ''a''', a.attname, own), ', ' order by a.attnum) into columns
      from pg_attribute a where a.attrelid = model and a.attnum > 0 and not a.attisdropped;
    execute format('create table %I.t (%s)', own, columns);
    execute format('insert into %I.t default values', own);
    reset role;
    return own || '.t';
end $f$;

-- What each moment ends in: an SQLSTATE, or "done". A superuser hangs the function there,
-- so that the rights on it do not matter.
create function every_moment(function regprocedure, hostile text, role text) returns setof text language plpgsql as $f$
declare
    moment text;
    level text;
    operation text;
    first_column name := (select attname from pg_attribute where attrelid = hostile::regclass and attnum = 1);
begin
    foreach moment in array '{before,after}'::text[] loop
        foreach level in array '{row,statement}'::text[] loop
            foreach operation in array '{insert,update,delete,truncate}'::text[] loop
                continue when level = 'row' and operation = 'truncate';
                begin
                    execute format('create trigger hijack %s %s on %s %s for each %s execute function %s', moment,
                        operation, hostile,
                                   case when moment = 'after'
                                       and operation = 'insert' then 'referencing new table as new_rows'
                                        when moment = 'after'
                                            and operation = 'delete' then 'referencing old table as old_rows'
                                        when moment = 'after' and operation = 'update'
                                            then 'referencing old table as old_rows new table as new_rows'
                                        else '' end, level, function);
                    execute format('set local role %I', role);
                    case operation
                        when 'insert' then execute format('insert into %s default values', hostile);
                        when 'update' then execute format('update %s set %I = ''b''', hostile, first_column);
                        when 'delete' then execute format('delete from %s', hostile);
                        else execute format('truncate %s', hostile);
                    end case;
                    raise exception using errcode = 'ZZZZZ';
                exception when others then
                    return next format('%s %s %s: %s', moment, operation, level,
                        case sqlstate when 'ZZZZZ' then 'done' else sqlstate end);
                end;
                reset role;
            end loop;
        end loop;
    end loop;
end $f$;
create temp table fired as
select f.function, f.language, f.name, r.role, every_moment(f.function, c.hostile, r.role) as answer
  from (select f.*, coalesce((select min(t.tgrelid::regclass::text) from pg_trigger t where t.tgfoid = f.function),
          'pawl.machine') as model
          from trigger_function f) f
  join (select m.model, copy_of(m.model::regclass, 'hijack_worker') as hostile
          from (select distinct tgrelid::regclass::text as model from pg_trigger
              join trigger_function on function = tgfoid
                union select 'pawl.machine') m) c using (model),
       unnest(array['hijack_worker', current_user]) r(role);
select is((select count(distinct function) from fired), (select count(*) from trigger_function), 'all were fired');
select set_eq($$select distinct right(answer, 5) from fired where language = 'plpgsql'$$, array['39P01'],
    'those in PL/pgSQL say that they are not made for the table');
-- PW006: nothing is written to a log or an audit. 42704: the table has no binding. 55000: it has no audit.
select set_eq($$select name::text, string_agg(distinct ltrim(right(answer, 5)), ' ' order by ltrim(right(answer, 5)))
    from fired where language = 'c' group by name$$,
    $$values ('_atoms_ended', '39P01'), ('_atoms_change', '39P01'),
        ('_step_written', '39P01'), ('_steps_written', '39P01'),
        ('_task_changed', '39P01'), ('_task_written', '39P01'),
        ('_record_written', '39P01'), ('_records_written', '39P01'), ('_work_written', '39P01'),
        ('audit_results', '39P01 55000'), ('one_transition', '0A000'),
        ('validate_insert', '39P01 42704'),
        ('invalidate', '39P01'), ('check_placed', '39P01'), ('validate', '39P01 42704'),
             ('log_insert', '39P01 PW006'), ('protect_log', '39P01 PW006'), ('protect_record', '39P01 PW006'),
             ('record', '39P01 42704'), ('record_truncate', '39P01 42704')$$,
    'those in C, too, or reject what was asked');
select is_empty($$select distinct role, what from ran_as$$,
    'no code of the table''s owner was run, as itself or another');
select is_empty($$select rolname from pg_roles where rolname ^@ 'hijack' and rolsuper$$,
    'no role has become a superuser');
-- Outside of a trigger the check says so.
select throws_ok($$select pawl.fired_by(null, null, null, null, null, variadic null)$$, '39P01', null,
    'the check itself takes no null');
select throws_ok(
    $$select pawl.fired_by('BEFORE INSERT ROW', 'pawl.machine'::regclass, 'BEFORE', 'UPDATE', 'ROW', 'pawl.machine')$$,
                 '39P01', 'this trigger function must be fired BEFORE INSERT ROW', 'nor another moment');
select throws_ok(
    $$select pawl.fired_by('BEFORE INSERT ROW', 'pawl.binding'::regclass, 'BEFORE', 'INSERT', 'ROW', 'pawl.machine')$$,
                 '39P01', 'this trigger function cannot be used on table "binding"', 'nor another table');
select ok(pawl.fired_by('AFTER DELETE STATEMENT, BEFORE INSERT OR UPDATE ROW', 'pawl.machine'::regclass, 'BEFORE',
    'UPDATE', 'ROW', 'pawl.binding', 'pawl.machine'), 'one of several moments and tables is right');
select * from finish();
drop owned by hijack_admin, hijack_operator, hijack_worker, hijack_reader, hijack_stranger cascade;
drop role hijack_admin, hijack_operator, hijack_worker, hijack_reader, hijack_stranger;
