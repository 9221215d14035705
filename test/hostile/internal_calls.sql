-- Internal functions that any role may execute bear any arguments: nulls, empty values, extremes, objects that do not
-- exist. An error or a result each time; never a crash, and nothing is written.
\set QUIET 1
set client_min_messages to error;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
select no_plan();
create temp view granted as
select p.oid, p.oid::regprocedure::text as signature, p.pronamespace::regnamespace || '.'
|| quote_ident(p.proname) as name, p.proargtypes::oid[] as types, p.provariadic <> 0 as variadic
  from pg_proc p
  join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.refclassid = 'pg_extension'::regclass
      and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid
 where e.extname ^@ 'pawl' and p.proname ^@ '_' and p.prokind = 'f'
   and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
   and not p.proargtypes::oid[] && array['internal'::regtype::oid, 'pg_ddl_command'::regtype::oid]
   and exists (select from aclexplode(p.proacl) a where a.grantee <> p.proowner);

-- A literal of a type: the nth of those that are odd.
create function odd(type regtype, n int) returns text language sql stable as $$
    select case
        when n = 0 then format('null::%s',
            case when type::text in ('"any"', 'anyelement', 'anyarray', 'record') then 'text' else type::text end)
        when (select t.typtype = 'c' from pg_type t where t.oid = type)
            then format('jsonb_populate_record(null::%s, ''{}'')', type)
        else format('%L::%s', coalesce((case type::text
            when 'integer' then '{0,-1,2147483647,-2147483648}'
            when 'bigint' then '{0,-1,9223372036854775807,-9223372036854775808}'
            when 'smallint' then '{0,-1,32767,-32768}' when 'boolean' then '{t,f,t,f}'
            when 'oid' then '{0,4294967295,1259,1}'
            when 'regclass' then '{0,4294967295,pg_class,pawl.binding}'
            when 'regtype' then '{0,4294967295,text,pg_class}'
            when 'uuid' then '{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff,'
                '00000000-0000-0000-0000-000000000001,11111111-1111-1111-1111-111111111111}'
            when 'interval' then '{0,-1 s,178000000 years,1 month}'
            when 'timestamp with time zone' then '{infinity,-infinity,4713-01-01 BC,now}'
            when 'jsonb' then E'{{},[],null,"[[[1,null,\\"a\\"]]]"}' when 'name' then '{"",x,"a b","\"q"}'
            when 'double precision' then '{0,NaN,Infinity,-1}'
            when 'bytea' then E'{"","\\\\x00","\\\\xff","\\\\x0102"}'
            when 'pg_snapshot' then '{1:1:,1:2:,10:20:15,1:1:}' when 'pg_lsn' then '{0/0,FFFFFFFF/FFFFFFFF,0/1,1/0}'
            else '{"","a","{}","%s\\"''"}' end::text[])[n],
            case when type::text ~ '\[\]$' then '{}' else 'a' end),
            case when type::text in ('"any"', 'anyelement', 'anyarray', 'record') then 'text' else type::text end) end
    $$;
create function answers() returns table (signature text, answer text) language plpgsql as $f$
declare
    g record;
    n int;
    arguments text;
begin
    for g in select * from granted order by 1 loop
        for n in 0 .. 4 loop
            signature := g.signature;
            begin
                select
                    coalesce(string_agg(case when g.variadic and t.i = cardinality(g.types) then 'variadic ' else '' end
                        || odd(t.t::regtype, case when format_type(t.t, null) ~ '\[\]$' and n > 0 then 99 else n end),
                            ', ' order by t.i), '')
                  into arguments from unnest(g.types) with ordinality t(t, i);
                execute format('select * from %s(%s) as called', g.name, arguments);
                answer := 'done';
                raise exception using errcode = 'ZZZZZ';
            exception when others then
                answer := case sqlstate when 'ZZZZZ' then 'done' else sqlstate end;
            end;
            return next;
        end loop;
    end loop;
end $f$;
create temp table answer as select * from answers();
select cmp_ok((select count(distinct signature) from answer), '>', 200::bigint,
    'the internal functions that a role may execute were called');
select is((select count(distinct signature) from answer), (select count(*) from granted), 'all of them');
-- XX000 is an error that is not foreseen.
select is_empty($$select * from answer where answer like 'XX%'$$, 'and answered, with an error that is foreseen');
select cmp_ok((select count(*) from answer where answer = 'done'), '>', 500::bigint, 'many gave a result');
select * from finish();
