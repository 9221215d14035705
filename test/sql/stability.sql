-- What docs/stability.md promises, name by name. A difference here is a change of the
-- interface: it belongs into CHANGELOG.md.
\set QUIET 1
set client_min_messages to error;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
\set QUIET 0
\pset format unaligned
\pset tuples_only on
\echo Functions
select format('%s %s.%s(%s) -> %s', case p.prokind when 'p' then 'procedure' else 'function' end, n.nspname, p.proname,
              pg_get_function_arguments(p.oid), pg_get_function_result(p.oid))
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
 where n.nspname ~ '^pawl(_(dag|bulk|saga|api))?$' and p.proname !~ '^_'
 order by n.nspname, p.proname, pg_get_function_identity_arguments(p.oid);
\echo Tables and views
select format('%s %s.%s(%s)', case c.relkind when 'v' then 'view' else 'table' end, n.nspname, c.relname,
              (select string_agg(format('%s %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', '
                  order by a.attnum)
                 from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped))
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname ~ '^pawl(_(dag|bulk|saga|api))?$' and c.relkind in ('r', 'p', 'v') and c.relname !~ '^_'
     and not c.relispartition
 order by n.nspname, c.relname;
\echo Settings
select format('%s %s %s', name, vartype, context) from pg_settings where name ~ '^pawl' order by name;
\echo The log
begin;
select pawl.define('stability', 'stateDiagram-v2
    [*] --> a
    a --> b : go');
create table stability (id integer primary key, state text not null);
select pawl.enforce('stability', 'state', 'stability');
select pawl.enable_log('stability', most_recent => 'stored', hash_chain => true);
select format('%s %s', attname, format_type(atttypid, atttypmod))
  from pg_attribute where attrelid = 'stability_transitions'::regclass and attnum > 0 order by attnum;
select format('trigger %s', tgname) from pg_trigger where tgrelid = 'stability'::regclass order by tgname;
rollback;
drop extension pawl_api, pawl_saga, pawl_bulk, pawl_dag;
