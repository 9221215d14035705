-- pawl_api._row_json writes rows byte for byte as row_to_json does: types that it writes itself, also as domains and in
-- arrays, and rows with other types, which it leaves to row_to_json.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_api cascade;

create domain public.label as text;
create domain public.labels as text[];
create domain public.small as smallint check (value > 0);
create type public.mood as enum ('glad', 'sad');
create type public.pair as (a integer, b text);

-- One value of a type, as an expression.
create table public.samples (n integer generated always as identity, type text, value text);
insert into public.samples (type, value) values
    ('text', $$'plain'$$), ('text', $$''$$), ('text', $$'/ <&> '' '$$),
    ('text', $$E'q"\\\b\f\n\r\t\x01\x1f\x7f'$$), ('text', $$'"'$$), ('text', $$E'\\'$$),
    ('text', $$E'\u00e9\u20ac\U0001F600'$$), ('text', $$repeat('long "', 40000)$$),
    ('text', $$repeat('x', 40000)$$), ('varchar(9)', $$'short'$$), ('label', $$'a "domain"'$$),
    ('uuid', $$'01a22ceb-684b-79be-8aad-8c527cdf485e'$$), ('uuid', $$'ffffffff-ffff-ffff-ffff-ffffffffffff'$$),
    ('boolean', 'true'), ('boolean', 'false'), ('smallint', $$'-32768'$$), ('small', '7'),
    ('integer', $$'-2147483648'$$), ('integer', '0'), ('bigint', $$'-9223372036854775808'$$),
    ('bigint', '9223372036854775807'), ('timestamptz', $$'2026-11-30 12:34:56.000001+02'$$),
    ('timestamptz', $$'infinity'$$), ('timestamptz', $$'0044-03-15 BC'$$), ('timestamp', $$'-infinity'$$),
    ('timestamp', $$'294276-12-31 23:59:59.9'$$), ('date', $$'0044-03-15 BC'$$), ('date', $$'infinity'$$),
    ('json', $$'{"a" : [1,   2], "a": null}'$$), ('json', $$'null'$$), ('json', $$' "x" '$$),
    ('jsonb', $$'{"b": [1, "x\n\u00e9"], "a": 1.50}'$$), ('jsonb', $$'null'$$), ('jsonb', $$'"scalar"'$$),
    ('jsonb', $$(select jsonb_agg(md5(i::text)) from generate_series(1, 500) i)$$), ('text[]', $$'{}'$$),
    ('text[]', $$'{{a,NULL},{"q\"",""}}'$$), ('text[]', $$'[0:1]={a,b}'$$), ('labels', $$'{x,"y z"}'$$),
    ('label[]', $$'{x,NULL}'$$), ('integer[]', $$'{{{1,2},{3,4}},{{5,6},{7,8}}}'$$),
    ('uuid[]', $$'{{01a22ceb-684b-79be-8aad-8c527cdf485e,NULL}}'$$), ('boolean[]', $$'{t,f,NULL}'$$),
    ('bigint[]', $$'{-1,9223372036854775807}'$$), ('smallint[]', $$'{1,2,3}'$$),
    ('timestamptz[]', $$'{2026-11-30 00:00:00+00,infinity}'$$), ('json[]', $$array['{"x" :1}'::json, null]$$),
    ('jsonb[]', $$array['{"z":null}'::jsonb, 'null']$$), ('numeric', '1.50'), ('numeric', $$'NaN'$$),
    ('float8', $$'-Infinity'$$), ('float8', '0.1'), ('real[]', $$'{1.5,NaN}'$$), ('mood', $$'glad'$$),
    ('mood[]', $$'{sad,NULL}'$$), ('pair', $$row(1, 'x"')$$), ('pair[]', $$array[row(1, null)::pair]$$),
    ('bytea', $$'\x00ff'$$), ('interval', $$'1 day 02:03'$$), ('time', $$'12:00'$$), ('name', $$'n"m'$$),
    ('bpchar', $$'b  '$$), ('"char"', $$'"'$$), ('oid', '4294967295'), ('inet', $$'::1'$$),
    ('int4range', $$'[1,5)'$$), ('int2vector', $$'1 2'$$), ('money', '1');

-- Both texts of a row that a query gives.
create function public.both(query text, out own text, out servers text) language plpgsql as $$
begin
    execute format('select pawl_api._row_json(x)::text, row_to_json(x)::text from (%s) x', query) into own, servers;
end $$;

select is(b.own, b.servers, format('%s: %s', s.type, left(s.value, 40)))
  from public.samples s,
       public.both(format('select %s::%s as v, null::%s as "no ""value\", 1 as after', s.value, s.type, s.type)) b
 order by s.n;

select is(b.own, b.servers, 'all types in one row')
  from (select string_agg(format('%s::%s as v%s', value, type, n), ', ' order by n) as list from public.samples) s,
       public.both('select ' || s.list) b;
select is(b.own, b.servers, 'all types that it writes in one row, some of them null')
  from (select string_agg(format('case when %s %% 3 > 0 then %s::%s end as v%s', n, value, type, n), ', ' order by n)
               as list
          from public.samples
         where n <= (select max(n) from public.samples where type = 'jsonb[]')) s,
       public.both('select ' || s.list) b;

select is(b.own, b.servers, 'many rows of a type: ' || b.own) from (
    select pawl_api._row_json(x)::text as own, row_to_json(x)::text as servers
      from (select i, case when i % 2 = 0 then i::text end as t, array[i, null] as a from generate_series(1, 4) i) x) b;

-- What an answer depends on besides the row is not kept with its type.
set timezone = 'Asia/Kolkata';
set datestyle = 'german';
select is(b.own, b.servers, 'times in the time zone of the session: ' || b.own)
  from public.both($$select '2026-11-30 12:00+00'::timestamptz as t, '2026-11-30'::date as d$$) b;
set timezone = 'UTC';
set datestyle = 'iso';
select is(b.own, b.servers, 'times in another one: ' || b.own)
  from public.both($$select '2026-11-30 12:00+00'::timestamptz as t, '2026-11-30'::date as d$$) b;

-- Rows of a named type may change; rows without columns or names.
create table public.growing (a integer);
insert into public.growing values (1);
select is(pawl_api._row_json(g)::text, row_to_json(g)::text, 'a row of a table') from public.growing g;
alter table public.growing add b text default 'x', drop a;
select is(pawl_api._row_json(g)::text, row_to_json(g)::text, 'a row of a table that was altered') from public.growing g;
select is(pawl_api._row_json(row())::text, row_to_json(row())::text, 'a row without columns');
select is(pawl_api._row_json(row(1, 'a'::text))::text, row_to_json(row(1, 'a'::text))::text, 'a row without names');
select is(pawl_api._row_json(null)::text, null, 'no row is no text');

-- Kept forms of many row types are told apart.
select is(array_agg(b.own order by i), array_agg(b.servers order by i), 'sixty row types in one session')
  from generate_series(1, 60) i,
       public.both(format('select %s as c%s, %L::text as d%s', i, i % 20, i, i)) b;
select finish();
