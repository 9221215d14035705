-- Arguments of the packs' functions that are out of range are named, with what they may
-- be: never a constraint, a limit or a type of the inside.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
create function said(statement text) returns text language plpgsql as $$
declare state text; said text; detail text; hint text;
begin
    execute statement;
    return 'fine';
exception when others then
    get stacked diagnostics state = returned_sqlstate, said = message_text, detail = pg_exception_detail,
        hint = pg_exception_hint;
    return concat_ws('|', state, said, nullif(detail, ''), hint);
end $$;

-- Every public function with such an argument, from the catalog: with all others at their
-- default, or a value of their type.
create view settings as
select p.oid, p.prokind, n.nspname, p.proname, a.name, a.position, p.pronargs, p.pronargdefaults, p.proisstrict,
       (select string_agg(format('%I => %s', o.name,
           case o.type when 'text'::regtype then '''x''' when 'uuid'::regtype
               then 'pawl.uuid_v7()' when 'jsonb'::regtype then '''[]'''
                                                     else format('null::%s', o.type::regtype) end), ', ')
          from unnest(coalesce(p.proargnames, '{}'), coalesce(p.proallargtypes, p.proargtypes::oid[]::oid[]))
              with ordinality o(name, type, position)
         where o.position <= p.pronargs and o.position <= p.pronargs - p.pronargdefaults and o.name <> a.name) as others
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace and n.nspname in ('pawl_dag', 'pawl_bulk', 'pawl_saga',
      'pawl_api')
 cross join lateral unnest(p.proargnames) with ordinality a(name, position)
 where p.proname !~ '^_' and coalesce(p.proargmodes[a.position], 'i') in ('i', 'b')
     and a.name in ('batch', 'lease', 'keep', 'orchestrate');
create view bad as
select s.*, v.value, format('%s %I.%I(%s%s => %s)', case s.prokind when 'p' then 'call' else 'select * from' end,
    s.nspname, s.proname, s.others || ', ', s.name, v.value) as statement
  from settings s
  join (values ('batch', '0'), ('batch', '-1'), ('batch', '2000000000'), ('batch', 'null'), ('orchestrate', '0'),
      ('orchestrate', '-5'), ('lease', '''0 s'''),
               ('lease', '''-1 h'''), ('lease', '''200000 years'''), ('keep', '''-1 h'''),
      ('keep', '''200000 years''')) v(name, value) on v.name = s.name
 where not (s.proisstrict and v.value = 'null');
select ok((select count(*) from bad) > 90, 'there are such arguments: ' || (select count(*) from bad));
select is((select string_agg(statement || ': ' || s, E'\n') from bad, said(statement) s
            where s !~ (case value when 'null' then format('^22004\|%s must not be null\|', name)
                else format('^22023\|%s must be [^|]+\|It is [^|]+\|', name) end || name || ' => ')), null,
    'each names the argument, what it may be, what it is, and an example');

-- Others.
select pawl_bulk.define('{"name": "d", "steps": [{"name": "s", "handler": "h"}]}') is not null as ok;
select is((select string_agg(statement || ': ' || s, E'\n') from unnest(array[
        $$select pawl_bulk.submit('d', rows => '{}')$$, $$select pawl_bulk.submit('d', format => 'xml')$$,
        $$select pawl_bulk.submit('d', idempotency_key => '')$$,
        format($$select pawl_bulk.submit('d', file_name => %L)$$, repeat('x', 201)),
        format($$select pawl_bulk.submit('d', created_by => %L)$$, repeat('x', 101)),
        $$select pawl_saga.post('j', priority => 'HIGHEST')$$, $$select pawl_saga.progress(pawl.uuid_v7(), 1, 1, 1.5)$$,
        $$select pawl_saga.progress(pawl.uuid_v7(), 1, 1, 'NaN')$$]) statement, said(statement) s
            where s !~ '^22023\|[^|]*(rows|format|idempotency_key|file_name|created_by|priority|progress)[^|]*\|.+'
                or s ~ 'violates'), null, 'values of other arguments');
-- Lists of objects: what is none, or has an element that is none, or a field of another type.
select pawl_bulk.define('{"name": "waits", "handler": "h"}') is not null as ok;
select operation as o from pawl_bulk.submit('waits', rows => '[{}]') \gset
select is((select string_agg(format(call, list) || ': ' || s, E'\n') from unnest(array[
        'pawl_bulk.report_notices(%L, ''w'')', 'pawl_api.accept_tokens(%L)',
        'pawl_bulk.signal_many(''' || :'o' || ''', %L)']) call,
    unnest('{"{}","[[]]","[1]","[null]","[\"x\"]","[[{}]]","[{}, 1]"}'::text[]) list,
    said(format('select * from ' || call, list)) s
    where s !~ '^22023\|(tokens|signals|results|a signal|a result) must [^|]+\|.+'), null,
    'lists of objects that are none');
select is(said(format('select pawl_bulk.signal_many(%L, %L)', :'o', list)),
    '22023|a signal must be an object, and its attempt an integer|Element 2 is ' || element || '.|'
    '[{"key", "result": "complete", "message", "payload", "attempt"}]', 'a signal that is wrong: ' || element)
    from unnest('{"{\"key\": \"k\", \"attempt\": \"soon\"}","{\"key\": \"k\", \"attempt\": 2147483648}","[]"}'::text[])
    element, format('[{"key": "k", "attempt": 2147483647}, %s]', element) list;
select is(said(format('select pawl_bulk.report_notices(%L, ''w'')', jsonb_build_array(good, good || bad))),
    format('22023|a result must have operation, notice, token and result|Element 2 is %s.|[{"operation", "notice", '
    '"token", "result": "ok" or "fail", "message"}]', left((good || bad)::text, 200)),
    'a result that is wrong: ' || bad::text)
    from unnest(array['{"operation": "x"}', '{"notice": 1}', '{"token": "first"}', '{"token": 1e30}',
        '{"result": "perhaps"}']::jsonb[]) bad, (select jsonb_build_object('operation', :'o', 'notice', :'o',
        'token', 1, 'result', 'ok') as good) g;
select is((select string_agg(concat_ws(' ', ok, problem), ', ') from pawl_bulk.report_notices(jsonb_build_array(
    jsonb_build_object('operation', :'o', 'notice', :'o', 'result', 'ok')), 'w')),
    'f PW005: the lease is lost, or the notice is already done', 'a result without a token counts for no claim');
-- Numbers of a flow's definition.
select is((select string_agg(k || ' ' || v || ': ' || s, E'\n')
             from unnest('{max_losses,timeout_seconds,revert_timeout_seconds,wait_seconds,priority}'::text[]) k,
                 unnest('{"\"soon\"",1e30,-1,1.5e10,"{}"}'::text[]) v,
                  said(
                      format('select pawl_saga.start(name) from (select pawl_saga.define(%L), ''t''::text) d(id, name)',
                              jsonb_build_object('task', 't', k, v::jsonb) - case k when 'wait_seconds' then 'execute'
        else '' end)) s
            where s <> 'fine' and s !~ ('^PW007\|[^|]*"' || k || '"[^|]*\|.*"' || k || '": ')), null,
    'a definition that cannot be is rejected where it is defined, by name');
select * from finish();
