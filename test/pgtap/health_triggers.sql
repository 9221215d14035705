-- pawl.health reports every trigger of a binding that is disabled, dropped, or made to fire at another moment or
-- under a condition: of the table, its log, the audit and what is known of pruned entries, at every level.
\set ECHO none
\set QUIET 1
set client_min_messages to error;
select no_plan();
select pawl.define('m', $$stateDiagram-v2
    state "owned" as b:::owned
    [*] --> a
    a --> b : start
    b --> a : expire
    b --> c : done
    c --> [*]$$) \g /dev/null
create table plain (id int primary key, state text not null default 'a', owner text, lease timestamptz,
    token bigint not null default 0);
create table parts (id int primary key, state text not null default 'a', owner text, lease timestamptz,
    token bigint not null default 0) partition by range (id);
create table parts_1 partition of parts for values from (0) to (100) partition by range (id);
create table parts_1_1 partition of parts_1 for values from (0) to (50);
create table parent (id int primary key, state text not null default 'a', owner text, lease timestamptz,
    token bigint not null default 0);
create table child () inherits (parent);
create table simple (id int primary key, state text not null default 'a');
create function take(relation regclass, log_partition text default null) returns void language sql as $$
    select pawl.enforce(relation, 'state', 'm'),
        pawl.enable_log(relation, 'state', log_partition => take.log_partition),
        pawl.enable_queue(relation, 'state', owner => 'owner', lease => 'lease', token => 'token'),
        pawl.set_claiming(relation, 'state', claim => array['start'], on_expiry => 'expire');
    select pawl.audit(relation, '{"c": true}', (relation || '_results')::name) $$;
select take('plain') \g /dev/null
select take('parts', 'range (id)') \g /dev/null
select take('parent') \g /dev/null
select pawl.enforce('simple', 'state', 'm', always => true) \g /dev/null
-- a log that was pruned
insert into plain (id) select generate_series(1, 3);
select pawl.fire('plain', 1, 'start', processor => 'w'), pawl.fire('plain', 1, 'done', processor => 'w') \g /dev/null
delete from plain where id = 1;
select pawl.prune_log('plain', interval '0') \g /dev/null
select is_empty($$select * from pawl.health() where status = 'error'$$, 'nothing is wrong at first');

create temp table ours as
select t.oid, t.tgrelid::regclass as member, t.tgname, t.tgparentid = 0 as is_own, t.tgfoid::regprocedure as function,
pg_get_triggerdef(t.oid) as definition, t.tgtype
  from pg_trigger t join pg_proc p on p.oid = t.tgfoid
 where p.pronamespace = 'pawl'::regnamespace and t.tgrelid::regclass::text ~ '^(plain|parts|parent|child|simple)';
select set_eq($$select distinct function::text from ours$$,
              $$values ('pawl.validate()'), ('pawl.validate_insert()'), ('pawl.record()'), ('pawl.record_truncate()'),
                  ('pawl.protect_log()'), ('pawl.log_insert()'), ('pawl.audit_results()'), ('pawl.protect_record()')$$,
              'each kind of trigger is there');
select cmp_ok(count(*), '>=', 60::bigint, 'on every level') from ours;
select is_empty($$select o.member, o.tgname from ours o
                   where not exists (select from pawl.binding b, pawl._binding_triggers(b) e
                       where e.member = o.member and e.trigger_name = o.tgname and e.function = o.function)$$,
                'the list of triggers knows each of them');

-- What health says after a change, which is undone.
create function after_change(member regclass, statement text) returns text language plpgsql as $$
declare said text;
begin
    begin
        execute statement;
        select string_agg(distinct concat_ws(': ', h.check_name, h.detail), '; ') into said
          from pawl.binding b cross join pawl._health(b) h
         where h.status in ('error', 'warning') and member::text ^@ case b.relation::text when 'parent'
             then case when member::text = 'child' then 'child' else 'parent' end else b.relation::text end;
        raise exception sqlstate 'ZZUND';
    exception when sqlstate 'ZZUND' then null;
    end;
    return coalesce(said, 'nothing');
end $$;
select matches(after_change(member, format('alter table %s disable trigger %I', member, tgname)),
               case when function = 'pawl.protect_record()'::regprocedure
                   and member::text ~ '_pruned$' then 'are missing or disabled'
                       else 'disabled.*' || replace(tgname, '!', '.') end,
               format('%I on %s is disabled', tgname, member)) from ours order by member::text, tgname;
select matches(after_change(member, format('drop trigger %I on %s', tgname, member)),
               case when function = 'pawl.protect_record()'::regprocedure
                   and member::text ~ '_pruned$' then 'are missing or disabled'
                       else 'missing.*' || replace(tgname, '!', '.') end,
               format('%I on %s is dropped', tgname, member)) from ours where is_own order by member::text, tgname;
-- the same function and name, under a condition that is never true
select matches(after_change(member, regexp_replace(replace(definition, 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER'),
                            '( WHEN \(.*\))? EXECUTE FUNCTION', ' WHEN (false) EXECUTE FUNCTION')),
               case when function = 'pawl.protect_record()'::regprocedure
                   and member::text ~ '_pruned$' then 'are missing or disabled'
                       else '(definition|missing).*' || replace(tgname, '!', '.') end,
               format('%I on %s has a condition', tgname, member)) from ours where is_own order by member::text, tgname;
-- and on INSERT alone, or on TRUNCATE and not
select matches(after_change(member,
    regexp_replace(replace(definition, 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER'),
        '(BEFORE|AFTER) .* ON (?=\S+ (FOR|REF))',
                            case when tgtype & 32 > 0
                                or tgtype & 28 = 4 then '\1 DELETE ON ' else '\1 INSERT ON ' end)),
               case when function = 'pawl.protect_record()'::regprocedure
                   and member::text ~ '_pruned$' then 'are missing or disabled'
                       else '(definition|missing).*' || replace(tgname, '!', '.') end,
               format('%I on %s fires at another moment', tgname, member))
  from ours where is_own and definition !~ 'deferred|REFERENCING' order by member::text, tgname;

-- what health says to do mends it
create or replace trigger "~pawl_validate_insert" before insert on plain
    for each row when (false) execute function pawl.validate_insert();
alter table plain disable trigger "!pawl_record";
create or replace trigger "!pawl_protect" before update on plain_transitions_log
    for each statement execute function pawl.protect_log();
drop trigger "!pawl_protect_row" on plain_results;
select is((select count(*) from pawl.health() where relation = 'plain'::regclass and status = 'error'), 4::bigint,
    'four things are wrong');
select split_part(hint, ', then', 1) from pawl.health() where relation = 'plain'::regclass and status = 'error' \gexec
select is_empty($$select * from pawl.health() where status = 'error'$$,
    'health reports no error once the triggers are mended');
-- The event trigger that keeps the validating trigger the last one was disabled: no row is written unvalidated.
create table bare (id int primary key, state text not null default 'a');
select pawl.enforce('bare', 'state', 'm') \g /dev/null
insert into bare values (1);
create function later() returns trigger language plpgsql as $$ begin return new; end $$;
alter event trigger pawl_rearm disable;
create trigger "~~later" before update on bare for each row execute function later();
alter event trigger pawl_rearm enable;
select throws_ok('update bare set id = 1', '55000', 'a trigger of "bare" can change rows after they were validated',
    'rows that a later trigger could change are not written');
select alike((select string_agg(detail, ' ') from pawl.health() where relation = 'bare'::regclass
    and status = 'error'), 'missing: "~~later~pawl_validate"%', 'health says what is missing');
select hint from pawl.health() where relation = 'bare'::regclass and status = 'error' \gexec
select lives_ok('update bare set id = 1', 'with it they are');

select finish();
